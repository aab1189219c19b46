/* SPDX-License-Identifier: Apache-2.0 */
/*
 * locking.c -- transactions by strict two-phase locking with two-phase commit.
 *
 * A reader locks and reads all records in one round.  In a second round it releases them, and
 * learns whether the locks were there throughout (L2).  A writer locks and prepares, then commits
 * and releases.  No transaction waits with a lock: after a refusal it releases all and restarts
 * later, with its old age, since the older goes first.  So there are no deadlocks.
 */
#include <stdio.h>

#include "common/rpc/locking_rpc.h"
#include "txn/records/protocols.h"

/* The timeout in lock_timeout_ms, as for handed-over locks of nodes. */
#define TIMEOUTS_MAX 8u
#define BACKOFF_MIN_NS 2000u
/* Some transactions of a fast network; and short enough to return within the turn. */
#define BACKOFF_MAX_NS 16000u

/* The state of one transaction over all its tries. */
struct retries {
	struct nam__txn *txn;
	uint64_t deadline_ns;
	uint64_t backoff_ns;
	struct nam__refusal refusal;	/* of the last try; why 0: it had all locks */
};

static void
retries_init(struct retries *retries, struct nam__txn *txn)
{
	const struct nam_client_options *options = &txn->records->client->options;

	*retries = (struct retries){
		.txn = txn,
		.deadline_ns = nam_now_ns() + TIMEOUTS_MAX * options->lock_timeout_ms * 1000000ull,
		.backoff_ns = BACKOFF_MIN_NS,
	};
	txn->birth_us = (uint32_t)(nam_wall_ns() / 1000);
}

static int
give_up(const struct retries *retries)
{
	const struct nam__txn *txn = retries->txn;
	uint32_t owner = (uint32_t)(retries->refusal.timestamp % NAM_CLIENTS_MAX);
	char why[128];

	if (!retries->refusal.why)
		(void)snprintf(why, sizeof(why), "each time the locks were taken away before they "
			"were used: this host is too slow for leases of %u ms",
			(unsigned)(NAM_LOCKING_LEASE_NS / 1000000));
	else if (retries->refusal.why == NAM_LOCKING_BUSY && !owner)
		(void)snprintf(why, sizeof(why), "at last one was read by others or kept for them");
	else
		(void)snprintf(why, sizeof(why), "at last one was locked by client %u", owner);
	return nam_diag_set(&txn->worker->diag, -NAM_E_LOCK_TIMEOUT, "record store '%s': %u "
		"records could not be locked together within %u ms; %s", txn->records->name,
		txn->count, TIMEOUTS_MAX * txn->records->client->options.lock_timeout_ms, why);
}

/* After a try that failed and has released its locks. */
NAM_FIBER_FN static int
try_later(struct retries *retries)
{
	struct nam_worker *worker = retries->txn->worker;
	int rc = 0;

	nam__count_restart(worker, NAM_RESTART_LOCKED);
	if (nam_now_ns() >= retries->deadline_ns)
		return give_up(retries);
	if (retries->refusal.why == NAM_LOCKING_EARLY) {
		nam__timestamp_seen(retries->txn->records->client, retries->refusal.timestamp);
		return 0;
	}
	if (retries->refusal.why == NAM_LOCKING_EXPIRED)
		rc = nam__lock_terminate(retries->txn, &retries->refusal, NULL); /* SUSPENDS */
	if (rc)
		return rc;
	nam__pause_await(worker, retries->backoff_ns / 2 +
		nam_rng_below(&worker->rng, retries->backoff_ns)); /* SUSPENDS */
	if (retries->backoff_ns < BACKOFF_MAX_NS)
		retries->backoff_ns *= 2;
	return 0;
}

/* ---- reading --------------------------------------------------------------------------------- */

/*
 * L4: absent records may have been written since, together with others that are locked now.  These
 * cannot be written meanwhile, so records that are still absent are of the same moment.
 * NAM__STEP_MORE: one has come.
 */
NAM_FIBER_FN static enum nam__step
absent_look(struct nam__txn *txn, int *ret_rc)
{
	enum nam__step step = NAM__STEP_DONE;
	int rc = 0;

	for (uint32_t i = 0; i < txn->count && !rc && txn->count > 1; i++) {
		struct nam__item *item = &txn->items[i];

		if (!nam_gaddr_is_null(item->head) || !NAM_GUARD(RECORD_ABSENT))
			continue;
		rc = nam__item_look_up_again(txn, item); /* SUSPENDS */
		if (!nam_gaddr_is_null(item->head))
			step = NAM__STEP_MORE;
	}
	return rc ? nam__step_failed(rc, ret_rc) : step;
}

/* NAM__STEP_MORE: to be tried again. */
NAM_FIBER_FN static enum nam__step
try_get(struct retries *retries, int *ret_rc)
{
	struct nam__txn *txn = retries->txn;
	enum nam__step step = NAM__STEP_DONE;
	uint64_t lost;
	int rc, release_rc;

	txn->attempts = 0;
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam__item *item = &txn->items[i];

		item->state = NAM__ITEM_ABSENT;
		item->locked = 0;
		item->at = NAM_GADDR_NULL;
		item->timestamp = 0;
	}
	nam_race_point("locking.begin");
	/* L2: all locks are there before a version or an absent key counts. */
	rc = nam__locks_read(txn, &retries->refusal); /* SUSPENDS */
	if (!rc && !retries->refusal.why) {
		nam_race_point("locking.read");
		rc = nam__txn_read(txn); /* SUSPENDS */
		if (!rc)
			step = absent_look(txn, &rc); /* SUSPENDS */
	}
	release_rc = nam__locks_release(txn, &lost); /* SUSPENDS */
	rc = rc ? rc : release_rc;
	if (rc)
		return nam__step_failed(rc, ret_rc);
	return retries->refusal.why || lost ? NAM__STEP_MORE : step;
}

int
nam__locking_get(struct nam__txn *txn)
{
	struct nam__process_locks_held held;
	struct retries retries;
	/* A reader's locks are changes, too. */
	int rc = nam__change_check(txn->worker);

	if (rc)
		return rc;
	nam__process_locks_take(txn, false, &held); /* SUSPENDS */
	retries_init(&retries, txn);
	while (!rc && try_get(&retries, &rc) == NAM__STEP_MORE) /* SUSPENDS */
		rc = try_later(&retries); /* SUSPENDS */
	nam__process_locks_give(txn, false, &held);
	return rc;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Wait for a free entry; there is none if too many transactions have an unknown outcome. */
NAM_FIBER_FN static int
under_way_await(struct retries *retries, atomic_uint_fast64_t **ret_entry)
{
	struct nam__txn *txn = retries->txn;

	for (;;) {
		*ret_entry = nam__under_way_enter(txn->records->client);
		if (*ret_entry)
			return 0;
		if (nam_now_ns() >= retries->deadline_ns)
			return nam_diag_set(&txn->worker->diag, -NAM_E_LOCK_TIMEOUT, "record store "
				"'%s': %u transactions of this client are under way, or broke off "
				"with a connection; a client that begins anew may write",
				txn->records->name, NAM__UNDER_WAY_MAX);
		nam__pause_await(txn->worker, BACKOFF_MAX_NS); /* SUSPENDS */
	}
}

/* The state of a transaction after a try. */
struct outcome {
	bool decided;			/* it is committed, or will be by others */
	bool unknown;			/* whether it is, and where */
	bool maybe_known;			/* memory servers may know of its versions */
};

/*
 * Not decided, without a failure: never to be committed, since all locks were taken away.  After a
 * FABRIC code the outcome is unknown.
 */
NAM_FIBER_FN static int
commit(struct nam__txn *txn, struct outcome *outcome)
{
	uint32_t refused;
	int rc = nam__locks_end(txn, 0, &refused); /* SUSPENDS */

	outcome->unknown = nam_err_is(rc, NAM_E_FABRIC);
	outcome->decided = !rc && refused < txn->count;
	if (!outcome->decided || !refused)
		return rc;
	/* L3: some are committed, so all are: by the client that sealed the rest, or here. */
	rc = nam__locks_end(txn, NAM_LOCKING_TERMINATE, &refused); /* SUSPENDS */
	outcome->unknown = rc != 0;
	return nam_err_is(rc, NAM_E_FABRIC) ? rc : 0;
}

/* NAM__STEP_MORE: to be tried again, with no locks. */
NAM_FIBER_FN static enum nam__step
try_put(struct retries *retries, struct outcome *outcome, int *ret_rc)
{
	struct nam__txn *txn = retries->txn;
	uint32_t refused;
	int rc, abort_rc;

	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].locked = 0;
	*outcome = (struct outcome){ 0 };
	nam__txn_stamp(txn);
	nam_race_point("locking.begin");
	rc = nam__locks_prepare(txn, &retries->refusal); /* SUSPENDS */
	/* R8: a drop may have listed some of them. */
	outcome->maybe_known = nam_err_is(rc, NAM_E_FABRIC) || (rc == -NAM_E_DROPPED &&
		NAM_GUARD(RETIRE_ONCE));
	if (!rc && !retries->refusal.why) {
		nam_race_point("records.prepared");
		rc = commit(txn, outcome); /* SUSPENDS */
	}
	if (outcome->decided || outcome->unknown) {
		outcome->maybe_known = true;
		return rc ? nam__step_failed(rc, ret_rc) : NAM__STEP_DONE;
	}
	abort_rc = nam__locks_end(txn, NAM_LOCKING_ABORT, &refused); /* SUSPENDS */
	outcome->maybe_known |= abort_rc != 0;
	rc = rc ? rc : abort_rc;
	return rc ? nam__step_failed(rc, ret_rc) : NAM__STEP_MORE;
}

int
nam__locking_put(struct nam__txn *txn, bool *ret_unused)
{
	atomic_uint_fast64_t *entry;
	struct nam__process_locks_held held;
	struct retries retries;
	struct outcome outcome = { 0 };
	enum nam__step step;
	int rc;

	nam__process_locks_take(txn, true, &held); /* SUSPENDS */
	retries_init(&retries, txn);
	do {
		rc = under_way_await(&retries, &entry); /* SUSPENDS */
		if (rc)
			break;
		step = try_put(&retries, &outcome, &rc); /* SUSPENDS */
		if (!outcome.unknown)
			atomic_store(entry, 0);
		if (step == NAM__STEP_MORE)
			rc = try_later(&retries); /* SUSPENDS */
	} while (step == NAM__STEP_MORE && !rc);
	nam__process_locks_give(txn, true, &held);
	*ret_unused = !outcome.maybe_known;
	for (uint32_t i = 0; i < txn->count; i++)
		txn->items[i].latest = true;
	return rc;
}
