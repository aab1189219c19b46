/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <string.h>

#include "bench.h"
#include "report.h"

const char *const bench_transports[] = { "srq", "mailbox", "fetch", "datagram", NULL };

int
bench_options_check(const char *json, bool *quiet, uint64_t ops, double seconds)
{
	if (ops && seconds > 0)
		return bench_complain("--ops and --seconds: say one of them");
	if (json && report_check(json))
		return -1;
	if (json && !strcmp(json, "-"))
		*quiet = true;
	return 0;
}
