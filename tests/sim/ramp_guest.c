/* SPDX-License-Identifier: Apache-2.0 */
/* ramp_guest.c -- the visits before and after a run of random transactions (ramp_run.h). */
#include "ramp_run.h"

#include <string.h>

#include "common/env.h"
#include "common/rpc/records_rpc.h"
#include "txn/records.h"

void
ramp_visit(void (*fn)(struct player *guest))
{
	struct player *guest = &ramp_run.players[CLIENTS_MAX];

	memset(guest, 0, sizeof(*guest));
	guest->number = CLIENTS_MAX;
	guest->worker = sim_come(&ramp_run.cluster, "guest", &guest->client);
	if (!guest->worker)
		sim_die("the guest cannot come");
	guest->sessions[0].player = guest;
	fn(guest);
	ramp_leave(guest);
}

static void
store_open(struct player *guest)
{
	if (nam_records_open(guest->worker, STORE, 0, &guest->records))
		sim_die("open: %s", nam_worker_diag(guest->worker));
}

/* Half of the records are there at the beginning. */
void
ramp_make(struct player *guest)
{
	uint32_t keys[KEYS_MAX];
	uint32_t count = ramp_run.plan.keys / 2;
	struct nam_records_options store = { .algorithm = ramp_run.plan.kind.algorithm,
		.commit = ramp_run.plan.kind.commit };

	if (nam_records_create(guest->worker, STORE, &store))
		sim_die("create: %s", nam_worker_diag(guest->worker));
	store_open(guest);
	for (uint32_t i = 0; i < count; i++)
		keys[i] = i;
	ramp_write(&guest->sessions[0], keys, count, 0);
}

/* All together, each alone, together again: what was seen once is not older. */
void
ramp_look(struct player *guest)
{
	uint32_t keys[KEYS_MAX];
	uint64_t newest[KEYS_MAX];
	struct session *session = &guest->sessions[0];

	store_open(guest);
	memcpy(newest, ramp_run.newest, sizeof(newest));
	for (uint32_t i = 0; i < ramp_run.plan.keys; i++)
		keys[i] = i;
	for (uint32_t first = 0; first < ramp_run.plan.keys; first += TOGETHER_MAX)
		ramp_read(session, &keys[first], ramp_run.plan.keys - first < TOGETHER_MAX ?
			ramp_run.plan.keys - first : TOGETHER_MAX);
	for (uint32_t i = 0; i < ramp_run.plan.keys; i++) {
		struct nam_record_get get = { .key = session->keys[0], .size = 0 };
		int rc;

		ramp_name_key(session, 0, i);
		get.key_bytes = (uint32_t)strlen(session->keys[0]);
		rc = nam_records_get_all(guest->worker, guest->records, &get, 1);
		if (rc && !ramp_locked(rc))
			random_failed("key %u: %s", i, nam_worker_diag(guest->worker));
		else if (!rc && get.timestamp < newest[i])
			random_failed("key %u is of %llu, and a reader saw %llu", i,
				(unsigned long long)get.timestamp, (unsigned long long)newest[i]);
		ramp_read(session, &keys[i], 1);
	}
}

/* Nothing stays but the latest versions, once all others have gone. */
void
ramp_tidy(struct player *guest)
{
	struct nam_records_stat stat;
	uint64_t undecided, completed;
	int rc;

	store_open(guest);
	/* A commit for one dead client may release another one's transaction. */
	do {
		completed = ramp_run.completed;
		ramp_collect(guest);
	} while (ramp_run.completed > completed);
	nam_sleep_ns(2 * NAM_RECORDS_KEEP_NS);
	undecided = ramp_run.undecided;
	ramp_collect(guest);
	rc = nam_records_stat(guest->worker, guest->records, &stat);
	/* All of these versions name the others of their transaction. */
	if (!rc && ramp_run.plan.kind.algorithm == NAM_RAMP_FAST &&
		ramp_run.undecided > undecided)
		random_failed("%llu versions of dead clients are undecided",
			(unsigned long long)(ramp_run.undecided - undecided));
	/* The record of released locks is evidence, and stays. */
	if (rc || ramp_run.undecided > undecided ||
		ramp_run.plan.kind.algorithm == NAM_RAMP_LOCKING) {
		if (rc && !ramp_locked(rc) && !random_explained(rc))
			random_failed("stat: %s", nam_worker_diag(guest->worker));
		return;
	}
	if (stat.others)
		random_failed("%llu versions stay that are not the latest",
			(unsigned long long)stat.others);
}

/* A surviving client can write all of them. */
void
ramp_write_again(struct player *guest)
{
	uint32_t keys[KEYS_MAX];

	store_open(guest);
	for (uint32_t i = 0; i < ramp_run.plan.keys / 2; i++)
		keys[i] = i;
	ramp_write(&guest->sessions[0], keys, ramp_run.plan.keys / 2, 0);
	ramp_read(&guest->sessions[0], keys, ramp_run.plan.keys / 2);
}

void
ramp_drop(struct player *guest)
{
	int rc = nam_records_drop(guest->worker, STORE);

	if (rc && !ramp_locked(rc) && !random_explained(rc))
		random_failed("drop: %s", nam_worker_diag(guest->worker));
	ramp_run.dropped = !rc;
}

/* All clients have ended, and what they had is known.  Their released locks need no evidence. */
void
ramp_sweep_store(struct player *guest)
{
	struct nam_records_stat stat = { 0 };

	nam_sleep_ns(RANDOM_SETTLE_NS);
	store_open(guest);
	if (ramp_sweep(guest) || ramp_run.plan.kind.algorithm != NAM_RAMP_LOCKING)
		return;
	if (nam_records_stat(guest->worker, guest->records, &stat) || stat.others)
		random_failed("%llu versions stay that are not the latest, and their writers have "
			"ended",
			(unsigned long long)stat.others);
}

void
ramp_sweep_all(struct player *guest)
{
	nam_sleep_ns(RANDOM_SETTLE_NS);
	ramp_run.dropped &= !ramp_sweep(guest);
}
