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

#include <nam/nam.h>

#define NAME "many"
#define PAIRS 1000000u
#define LOOKUPS 64000u
#define GROUP 64u

static int
failed(const char *what, int rc, const char *diag)
{
	fprintf(stderr, "%s: %s\n", what, *diag ? diag : nam_err_text(rc));
	return rc;
}

/* Bulk load asks for the pairs one by one, in order: 0 -> 1, 10 -> 2, 20 -> 3, ... */
static int
next_pair(void *arg, void *key, uint64_t *payload)
{
	uint64_t *next = arg;

	if (*next == PAIRS)
		return 0;
	nam_key_from_u64(*next * 10, key);
	*payload = ++*next;
	return 1;
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
			random = random * 6364136223846793005u + 1442695040888963407u;
			which[i] = (random >> 33) % PAIRS;
			nam_key_from_u64(which[i] * 10, keys[i]);
		}
		rc = nam_index_lookup_many(worker, index, keys, GROUP, payloads, rcs);
		if (rc)
			return failed("lookup", rc, nam_worker_diag(worker));
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
		return failed("bulk load", rc, nam_worker_diag(worker));
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

static int
with_worker(struct nam_worker *worker)
{
	struct nam_index_options options;
	struct nam_index *index;
	int rc, drop_rc;

	nam_index_options_init(&options);
	rc = nam_index_create(worker, NAME, &options);
	if (rc)
		return failed("creating " NAME, rc, nam_worker_diag(worker));
	rc = nam_index_open(worker, NAME, 16 << 20, &index); /* 16 MiB for inner nodes */
	if (rc) {
		failed("opening " NAME, rc, nam_worker_diag(worker));
	} else {
		rc = use(worker, index);
		nam_index_close(index);
	}
	drop_rc = nam_index_drop(worker, NAME);
	if (drop_rc)
		failed("dropping " NAME, drop_rc, nam_worker_diag(worker));
	return rc ? rc : drop_rc;
}

int
main(int argc, char **argv)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	struct nam_client *client;
	struct nam_worker *worker;
	int rc;

	if (argc != 2) {
		fprintf(stderr, "usage: %s shm:PATH,shm:PATH\n", argv[0]);
		return 2;
	}
	nam_client_options_init(&options);
	options.cluster = argv[1];
	options.name = "many_lookups";
	rc = nam_client_connect(&options, &client, &diag);
	if (rc) {
		failed("connecting", rc, diag.text);
		return 1;
	}
	rc = nam_worker_open(client, &worker, &diag);
	if (rc) {
		failed("opening a worker", rc, diag.text);
	} else {
		rc = with_worker(worker);
		nam_worker_close(worker);
	}
	nam_client_close(client);
	return rc ? 1 : 0;
}
