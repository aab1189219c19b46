/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster.h"
#include "bench.h"
#include "report.h"

static int
parse_count(const char *text, uint64_t *ret_value)
{
	unsigned long long value;
	uint64_t factor = 1;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return -EINVAL;
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno)
		return -EINVAL;
	if (*end && !end[1]) {
		switch (*end++) {
		case 'k':
		case 'K':
			factor = 1000;
			break;
		case 'M':
			factor = 1000000;
			break;
		case 'G':
			factor = 1000000000;
			break;
		default:
			return -EINVAL;
		}
	}
	if (*end || __builtin_mul_overflow(value, factor, ret_value))
		return -EINVAL;
	return 0;
}

int
option_count(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
	uint64_t value;

	if (parse_count(text, &value) || value < min || value > max) {
		bench_complain("%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64,
			option, text, min, max);
		return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

int
option_count32(const char *option, const char *text, uint32_t min, uint32_t max,
	uint32_t *ret_value)
{
	uint64_t value;

	if (option_count(option, text, min, max, &value))
		return -EINVAL;
	*ret_value = (uint32_t)value;
	return 0;
}

int
option_bytes(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
	uint64_t value;

	if (nam_parse_bytes(text, &value) || value < min || value > max) {
		bench_complain("%s: '%s' is not a size from %" PRIu64 " to %" PRIu64
			" bytes; write 4096, 64k, 512M or 8G", option, text, min, max);
		return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

int
option_number(const char *option, const char *text, double min, double max, double *ret_value)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= min && value <= max)) {
		bench_complain("%s: '%s' is not a number from %g to %g", option, text, min, max);
		return -EINVAL;
	}
	*ret_value = value;
	return 0;
}

int
option_bad_choice(const char *option, const char *text, const char *choices)
{
	bench_complain("%s: '%s' is not known; choose %s", option, text, choices);
	return -EINVAL;
}

int
option_transport(const char *text, enum nam_transport *ret_transport)
{
	int transport = nam_transport_find(text);

	if (transport < 0)
		return option_bad_choice("--transport", text, "srq, mailbox, fetch or datagram");
	*ret_transport = (enum nam_transport)transport;
	return 0;
}

void
option_unknown(int argc, char **argv, int result)
{
	const char *text = optind > 0 && optind <= argc ? argv[optind - 1] : "";

	if (result == ':')
		bench_complain("%s needs a value: see nam-bench %s --help", text, argv[0]);
	else
		bench_complain("there is no option '%s': see nam-bench %s --help", text, argv[0]);
}

int
options_take(int argc, char **argv, const struct option_set *set, void *options, int *ret_exit)
{
	int option;

	*ret_exit = NAM_EXIT_USAGE;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", set->known, NULL)) != -1) {
		if (option == set->help_option) {
			fputs(set->help, stdout);
			*ret_exit = NAM_EXIT_OK;
			return 1;
		}
		if (option == '?' || option == ':') {
			option_unknown(argc, argv, option);
			return 1;
		}
		if (set->take(options, option, optarg))
			return 1;
	}
	if (optind < argc) {
		bench_complain("what is '%s'?  See nam-bench %s --help", argv[optind], argv[0]);
		return 1;
	}
	return 0;
}

const char *const bench_transports[] = { "srq", "mailbox", "fetch", "datagram", NULL };

int
bench_options_check(const char *json, bool *quiet, uint64_t ops, double seconds)
{
	if (ops && seconds > 0) {
		bench_complain("--ops and --seconds: say one of them");
		return -1;
	}
	if (json && report_check(json))
		return -1;
	if (json && !strcmp(json, "-"))
		*quiet = true;
	return 0;
}
