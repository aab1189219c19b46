/* SPDX-License-Identifier: Apache-2.0 */
/* read_atomic_check -- look for violations of read atomicity in a history in plain text. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/exit.h"
#include "read_atomic.h"

static const char usage[] =
	"usage: read_atomic_check [--no-monotone-reads] FILE     `-' is standard input\n"
	"\n"
	"FILE has a line r(key,value,session,txn) for each read and w(key,value,session,txn) for\n"
	"each write, with values that are not written twice; txn -1 was aborted; transaction 0 of\n"
	"session 0 loads what is there at the beginning and comes first.  tests/sim/README.md\n"
	"tells what is looked for.  Exit status: 0 nothing wrong; 1 violations; 2 usage, a file\n"
	"that cannot be read or is malformed, or values that were written twice.\n";

static int
read_file(const char *name, struct sim_txns *txns)
{
	char diag[SIM_TXNS_DIAG_BYTES];
	bool standard = !strcmp(name, "-");
	FILE *file = standard ? stdin : fopen(name, "r");
	int rc;

	if (!file) {
		fprintf(stderr, "read_atomic_check: %s: %s\n", name, strerror(errno));
		return -EIO;
	}
	rc = sim_txns_read_plain(txns, file, diag);
	if (rc)
		fprintf(stderr, "read_atomic_check: %s: %s\n", name, diag);
	if (!standard)
		(void)fclose(file);
	return rc;
}

static int
check(const struct sim_txns *txns, const struct sim_read_atomic_options *options)
{
	struct sim_findings findings = sim_findings_to(stdout);
	uint64_t counts[SIM_RA_KINDS];

	sim_check_read_atomic(txns, options, &findings, counts);
	printf("%zu transactions, %zu reads and writes, %" PRIu64 " violations",
		txns->count - 1, txns->accesses_count, findings.violations);
	for (unsigned kind = 0; kind < SIM_RA_KINDS; kind++)
		if (counts[kind] > 0)
			printf(", %" PRIu64 " %s", counts[kind], sim_read_atomic_name(kind));
	printf("\n");
	if (counts[SIM_RA_UNUSABLE] > 0)
		return NAM_EXIT_USAGE;
	return findings.violations > 0 ? NAM_EXIT_NO : NAM_EXIT_OK;
}

int
main(int argc, char **argv)
{
	struct sim_read_atomic_options options;
	struct sim_txns txns;
	int status = NAM_EXIT_USAGE;

	sim_read_atomic_options_init(&options);
	if (argc == 3 && !strcmp(argv[1], "--no-monotone-reads")) {
		options.monotone_reads = false;
	} else if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
		(void)fputs(usage, stdout);
		return NAM_EXIT_OK;
	} else if (argc != 2) {
		(void)fputs(usage, stderr);
		return NAM_EXIT_USAGE;
	}
	sim_txns_init(&txns);
	if (read_file(argv[argc - 1], &txns) == 0)
		status = check(&txns, &options);
	sim_txns_free(&txns);
	return status;
}
