/* SPDX-License-Identifier: Apache-2.0 */
/*
 * many_lookups.c -- load a million keys in bulk, look many up at once, and see what it cost.
 *
 *	nam-memserver --id 0 --listen shm:/tmp/nam0 --memory 64M &
 *	nam-memserver --id 1 --listen shm:/tmp/nam1 --memory 64M &
 *	example_many_lookups shm:/tmp/nam0,shm:/tmp/nam1
 *
 * Counters are exact, and the same on every fabric.  With inner nodes in the cache a lookup reads
 * one leaf; looked up together, the leaves of many keys are under way at a time.
 */
#include <inttypes.h>
#include <stdio.h>

#include "lib/example.h"

#define PAIRS 1000000u
#define LOOKUPS 64000u
#define GROUP 64u

/* Bulk load asks for the pairs one by one, in order: 0 -> 1, 10 -> 2, 20 -> 3, ... */
static int
next_pair(void *arg, void *key, uint64_t *payload)
{
	uint64_t *next = arg;

	if (*next == PAIRS)
		return NAM_INDEX_END;
	nam_key_from_u64(*next * 10, key);
	*payload = ++*next;
	return NAM_INDEX_PAIR;
}

/* LOOKUPS keys, GROUP at a time, each answer checked. */
static int
look_up(struct nam_worker *worker, struct nam_index *index)
{
	unsigned char keys[GROUP][8];
	uint64_t payloads[GROUP], which[GROUP], random = 1;
	int rcs[GROUP];

	for (unsigned done = 0; done < LOOKUPS; done += GROUP) {
		int rc;

		for (unsigned i = 0; i < GROUP; i++) {
			which[i] = example_random(&random, PAIRS);
			nam_key_from_u64(which[i] * 10, keys[i]);
		}
		rc = nam_index_lookup_many(worker, index, keys, GROUP, payloads, rcs);
		if (rc)
			return example_failed("lookup", rc, nam_worker_diag(worker));
		for (unsigned i = 0; i < GROUP; i++) {
			if (rcs[i] || payloads[i] != which[i] + 1) {
				fprintf(stderr, "key %" PRIu64 ": %s\n", which[i] * 10,
					rcs[i] ? nam_err_text(rcs[i]) : "a wrong payload");
				return -NAM_E_REMOTE_CORRUPT;
			}
		}
	}
	return 0;
}

/* The difference between two copies of the counters, per operation. */
static void
print_cost(const char *what, const struct nam_op_counters *before,
	const struct nam_op_counters *after)
{
	double ops = (double)(after->ops - before->ops);

	printf("%-12s %8.0f lookups: %.3f round trips, %.3f doorbells, %.0f bytes in each\n", what,
		ops, (double)(after->round_trips - before->round_trips) / ops,
		(double)(after->doorbells - before->doorbells) / ops,
		(double)(after->bytes_in - before->bytes_in) / ops);
}

static int
use(struct nam_worker *worker, struct nam_index *index)
{
	const struct nam_op_counters *counters = nam_worker_counters(worker, NAM_OP_LOOKUP);
	struct nam_op_counters before;
	uint64_t next = 0, loaded;
	int rc;

	rc = nam_index_bulk_load(worker, index, next_pair, &next, 0, &loaded);
	if (rc)
		return example_failed("bulk load", rc, nam_worker_diag(worker));
	printf("%" PRIu64 " pairs loaded\n", loaded);
	for (int warm = 0; warm < 2; warm++) {
		before = *counters;
		rc = look_up(worker, index);
		if (rc)
			return rc;
		print_cost(warm ? "warm cache" : "cold cache", &before, counters);
	}
	return 0;
}

int
main(int argc, char **argv)
{
	return example_index_main(argc, argv,
		(struct example_index){ "many", .unique = true, use });
}
