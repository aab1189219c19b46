/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <math.h>
#include <stdio.h>

/* Divide until the number has at most `limit` before the point, and give it three digits. */
static char *
scaled(char text[TEXT_BYTES], double value, double base, double limit, const char *const *units,
	unsigned units_count)
{
	unsigned unit = 0;
	int digits;

	while (unit + 1 < units_count && fabs(value) >= limit) {
		value /= base;
		unit++;
	}
	if (unit == 0 && value == floor(value))
		digits = 0;
	else
		digits = fabs(value) < 9.995 ? 2 : fabs(value) < 99.95 ? 1 : 0;
	snprintf(text, TEXT_BYTES, "%.*f%s%s", digits, value, *units[unit] ? " " : "", units[unit]);
	return text;
}

char *
text_count(char text[TEXT_BYTES], double value)
{
	static const char *const units[] = { "", "k", "M", "G", "T" };

	return scaled(text, value, 1e3, 999.5, units, 5);
}

char *
text_bytes(char text[TEXT_BYTES], double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };

	return scaled(text, bytes, 1024, 1023.5, units, 5);
}

char *
text_ns(char text[TEXT_BYTES], double ns)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };

	return scaled(text, ns, 1e3, 999.5, units, 4);
}
