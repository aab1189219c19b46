/* SPDX-License-Identifier: Apache-2.0 */
/* protocols.h -- the steps of RAMP and of two-phase locking, many of them slots (ops.h). */
#ifndef NAM_TXN_RECORDS_PROTOCOLS_H
#define NAM_TXN_RECORDS_PROTOCOLS_H

#include "post.h"
#include "txn_internal.h"

/*
 * The result of a step that may have to be repeated.  A step that fails, and no other, sets its
 * caller's code.
 */
enum nam__step { NAM__STEP_FAILED = -1, NAM__STEP_DONE, NAM__STEP_MORE };

static inline enum nam__step
nam__step_failed(int rc, int *ret_rc)
{
	*ret_rc = rc;
	return NAM__STEP_FAILED;
}

/* commit.c: a mark for its claims, which is no timestamp. */
void nam__txn_mark(struct nam__txn *txn);

/*
 * fracture.c: whether only a part of a transaction was read (R5).  NAM__STEP_MORE: the missing
 * items are asked for.
 */
NAM_FIBER_FN enum nam__step nam__fractured(struct nam__txn *txn, int *ret_rc) NAM_MUST_CHECK;
/* By algorithm, as slots of struct nam__records_ops (ops.h). */
enum nam__step nam__fractured_fast(struct nam__txn *txn, int *ret_rc) NAM_MUST_CHECK;
NAM_FIBER_FN enum nam__step nam__fractured_small(struct nam__txn *txn, int *ret_rc) NAM_MUST_CHECK;
NAM_FIBER_FN enum nam__step nam__fractured_hybrid(struct nam__txn *txn, int *ret_rc)
	NAM_MUST_CHECK;
/* FAST: whether one of these versions names a newer sibling of another. */
bool nam__versions_query(nam__named_fn named, const struct nam__record_id *ids,
	const struct nam_version *const *versions, uint32_t count);
/* Small, after its first round: ask for all, now that the timestamps are known. */
NAM_FIBER_FN int nam__fracture_small(struct nam__txn *txn) NAM_MUST_CHECK;
/* Whether a record that was not in the index has been entered since: then it has a head. */
NAM_FIBER_FN int nam__item_look_up_again(struct nam__txn *txn, struct nam__item *item)
	NAM_MUST_CHECK;

/* metadata.c: the bytes in which a version describes its transaction, and all of these. */
uint32_t nam__metadata_bytes(const struct nam__txn *txn, uint32_t number);
void nam__metadata_fill(const struct nam__txn *txn);

/* get.c, put.c: whole transactions by RAMP, and the beginnings of those that read; as slots. */
NAM_FIBER_FN int nam__ramp_get(struct nam__txn *txn) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__ramp_put(struct nam__txn *txn, bool *ret_unused) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__begin_small(struct nam__txn *txn) NAM_MUST_CHECK;
/* put.c: WRITE these bytes to the heads of all items.  @made	only to new ones */
NAM_FIBER_FN int nam__heads_write(struct nam__txn *txn, bool made, uint32_t offset,
	const void *bytes, uint32_t count) NAM_MUST_CHECK;

/* onesided.c: slots. */
NAM_FIBER_FN int nam__onesided_prepare(struct nam__txn *txn) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__onesided_prepare_again(struct nam__txn *txn) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__onesided_close(struct nam__txn *txn) NAM_MUST_CHECK;

/*
 * served.c: the same by request.  GET asks for all items in the state ASK, which become VERSION,
 * CAME or NOWHERE.  With stamps_only all become NOWHERE, with the version's item->stamp and
 * item->at.
 */
NAM_FIBER_FN int nam__served_get(struct nam__txn *txn, bool stamps_only) NAM_MUST_CHECK;
/* Add all versions to a post, those that exceed a message by WRITE; or post->rc is the failure. */
NAM_FIBER_FN void nam__prepare_pack(struct nam__post *post, struct nam__txn *txn);
/*
 * The answers about a bundle's records, which begin at byte `at` of the reply.  The items have
 * address, timestamp and state when fn completes them; images follow.
 */
typedef void (*nam__got_fn)(struct nam__item *item, const struct nam_rpc_records_got *got,
	const void *arg);
int nam__answers_each(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t at,
	uint32_t bytes, nam__got_fn fn, const void *arg) NAM_MUST_CHECK;
/* An answer that lists replaced versions: retire them.  @arg	NULL, or a bool: do not */
int nam__retire_answered(struct nam__txn *txn, const struct nam__bundle *bundle, uint32_t bytes,
	void *arg);
/* Sets item->base_timestamp of all. */
NAM_FIBER_FN int nam__served_prepare(struct nam__txn *txn) NAM_MUST_CHECK;
/* Both of these: the items that are not DONE. */
NAM_FIBER_FN int nam__served_commit(struct nam__txn *txn) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__served_withdraw(struct nam__txn *txn) NAM_MUST_CHECK;
/* Withdraw a dead client's transaction; its blocks are retired. */
NAM_FIBER_FN int nam__served_abort(struct nam__txn *txn) NAM_MUST_CHECK;
/* Retire replaced versions of these records. */
NAM_FIBER_FN int nam__served_sweep(struct nam__txn *txn) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__served_close(struct nam__txn *txn) NAM_MUST_CHECK;

/*
 * locks.c: requests under locks.  READ and PREPARE are granted all, or *ret has a refusal, and
 * those with item->locked were granted.
 */
struct nam__refusal {
	uint32_t why;			/* enum nam_locking_refusal */
	uint64_t head;
	uint64_t timestamp;
};

/* Items are CAME, VERSION or NOWHERE then. */
NAM_FIBER_FN int nam__locks_read(struct nam__txn *txn, struct nam__refusal *ret) NAM_MUST_CHECK;
/* @ret_lost	so many locks had been taken away */
NAM_FIBER_FN int nam__locks_release(struct nam__txn *txn, uint64_t *ret_lost) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__locks_prepare(struct nam__txn *txn, struct nam__refusal *ret) NAM_MUST_CHECK;
/*
 * END of those that are locked, by enum nam_locking_flag.  They are unlocked then, except for so
 * many refused ones.
 */
NAM_FIBER_FN int nam__locks_end(struct nam__txn *txn, uint32_t flags, uint32_t *ret_refused)
	NAM_MUST_CHECK;
NAM_FIBER_FN int nam__locks_sweep(struct nam__txn *txn) NAM_MUST_CHECK;

/*
 * locking/terminate.c: the writer's lease is over, or it is dead: commit or abort its transaction.
 * @ret_outcome may be NULL.
 */
enum nam__terminated { NAM__TERMINATED_BEFORE, NAM__TERMINATED_COMMITTED, NAM__TERMINATED_ABORTED };

NAM_FIBER_FN int nam__lock_terminate(struct nam__txn *txn, const struct nam__refusal *refusal,
	enum nam__terminated *ret_outcome) NAM_MUST_CHECK;

/* locking/process_locks.c: those that a transaction has. */
struct nam__process_locks_held {
	uint32_t count;
	uint16_t numbers[NAM_RECORDS_MAX];
};

/* To be freed. */
int nam__process_locks_new(struct nam__process_locks **ret_locks) NAM_MUST_CHECK;
/*
 * Wait until no other transaction of this process has, or waited earlier for, one of the records;
 * readers share.  Others are kept out until nam__process_locks_give().
 */
NAM_FIBER_FN void nam__process_locks_take(struct nam__txn *txn, bool writes,
	struct nam__process_locks_held *ret_held);
void nam__process_locks_give(struct nam__txn *txn, bool writes,
	const struct nam__process_locks_held *held);

/* locking.c: whole transactions, as slots. */
NAM_FIBER_FN int nam__locking_get(struct nam__txn *txn) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__locking_put(struct nam__txn *txn, bool *ret_unused) NAM_MUST_CHECK;
/* under_way.c: enter one, or NULL: no room.  The caller stores 0 when it has ended everywhere. */
atomic_uint_fast64_t *nam__under_way_enter(struct nam_client *client);
/* Before this time all of the client's transactions that write under locks are over. */
uint64_t nam__under_way_since_us(struct nam_client *client);

#endif /* NAM_TXN_RECORDS_PROTOCOLS_H */
