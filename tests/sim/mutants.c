/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mutants.c -- clients that post other requests than they should, or acknowledge too early.  Each
 * mutant stands in place of what the client calls or believes if its guard is off (common/guard.h).
 */
#include <string.h>

#include "common/guard.h"
#include "compute/client/client_internal.h"
#include "compute/client/cluster_view.h"
#include "cluster.h"

/* The CAS of a lock word that is held before, but not after. */
static bool
is_release(const struct nam_wr *wr)
{
	return wr->op == NAM_WR_CAS && wr->hint == NAM_WR_LOCK && nam_lock_held(wr->compare) &&
	       !nam_lock_held(wr->swap);
}

/* Violates C10 or C12: a lock that is taken or released by a WRITE. */
static bool
is_to_be_written(const struct nam_wr *wr)
{
	bool takes = wr->op == NAM_WR_CAS && wr->hint == NAM_WR_LOCK && !nam_lock_held(wr->compare);

	return (takes && !NAM_GUARD(LOCK_CAS)) || (is_release(wr) && !NAM_GUARD(UNLOCK_CAS));
}

/* The client finds what it expects. */
static void
write_instead(struct nam_wr *wr)
{
	*(uint64_t *)wr->local = wr->compare;
	wr->op = NAM_WR_WRITE;
	wr->flags |= NAM_WR_INLINE;
	wr->local = &wr->swap;
}

/* Violates I20: the first WRITE under a lock, which is the record's, is the last one. */
static void
record_last(struct nam_wr *wrs, unsigned count)
{
	struct nam_wr record = wrs[0];

	if (count < 3 || record.op != NAM_WR_WRITE || !is_release(&wrs[count - 1]))
		return;
	memmove(wrs, wrs + 1, (count - 2) * sizeof(wrs[0]));
	wrs[count - 2] = record;
}

static int
post_wrongly(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	struct nam_wr wrong[NAM_BATCH_MAX];

	if (count > NAM_BATCH_MAX)
		sim_die("%u requests behind one doorbell", count);
	memcpy(wrong, wrs, count * sizeof(wrong[0]));
	if (!NAM_GUARD(REDO_FIRST))
		record_last(wrong, count);
	for (unsigned i = 0; i < count; i++)
		if (is_to_be_written(&wrong[i]))
			write_instead(&wrong[i]);
	return nam__sim_ops.qp_post(qp, wrong, count);
}

/* Violates C20: the members of the view are not installed yet. */
static void
acknowledge_first(struct nam_client *client, uint64_t word, uint64_t sweep)
{
	uint64_t number = word & ((1ull << NAM_VIEW_WORD_FENCING) - 1);

	if (number != client->view_seen)
		(void)!nam__cluster_view_ack(client->epoch_worker, client->lead_slot, number);
	nam__view_follow(client, word, sweep);
}

/* Violates C8: behind the epoch of the oldest operation the slot gets the newest one. */
static void
publish_newest(struct nam_client *client, uint64_t word, uint64_t sweep)
{
	uint64_t local = atomic_load_explicit(&client->local_epoch, memory_order_relaxed);
	struct nam_batch batch;

	*client->epoch_buffer = client->remote_epoch_of[local % NAM__EPOCHS_NOTED];
	nam_batch_init(&batch, client->epoch_worker);
	nam_batch_write(&batch, client->epoch_slots, 8u * client->id, client->epoch_buffer, 8);
	(void)!nam_batch_await(&batch);
	nam__view_follow(client, word, sweep);
}

void
sim_client_mutate(struct nam_client *client)
{
	static struct nam_fabric_ops wrong;

	wrong = nam__sim_ops;
	wrong.qp_post = post_wrongly;
	if (!NAM_GUARD(LOCK_CAS) || !NAM_GUARD(UNLOCK_CAS) || !NAM_GUARD(REDO_FIRST))
		client->domains[0]->ops = &wrong;
	/* Violates C11: a READ is posted behind the CAS where it may pass that. */
	if (!NAM_GUARD(READ_PASSED_CAS))
		client->caps |= NAM_CAP_ORDER_ATOMIC_READ;
	/* Violates Z4: a release is posted behind the WRITE of its record where it may pass it. */
	if (!NAM_GUARD(SERIAL_RELEASE))
		client->caps |= NAM_CAP_ORDER_WRITE_ATOMIC;
	if (!NAM_GUARD(VIEW_INSTALLED))
		client->view_follow = acknowledge_first;
	if (!NAM_GUARD(EPOCH_PIN))
		client->view_follow = publish_newest;
}
