/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <math.h>
#include <stdio.h>

#define TEXT_BYTES 24

/* Divide until the number has at most `limit` before the point, and give it three digits. */
static const char *
scaled(double value, double base, double limit, const char *const *units, unsigned units_count)
{
	static _Thread_local char texts[TEXTS_COUNT][TEXT_BYTES];
	static _Thread_local unsigned next;
	char *text = texts[next++ % TEXTS_COUNT];
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

const char *
text_count(double value)
{
	static const char *const units[] = { "", "k", "M", "G", "T" };

	return scaled(value, 1e3, 999.5, units, 5);
}

const char *
text_bytes(double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };

	return scaled(bytes, 1024, 1023.5, units, 5);
}

const char *
text_ns(double ns)
{
	static const char *const units[] = { "ns", "us", "ms", "s" };

	return scaled(ns, 1e3, 999.5, units, 4);
}
