/* SPDX-License-Identifier: Apache-2.0 */
#include "mirror.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"
#include "common/race.h"
#include "compute/backup/backups.h"
#include "compute/backup/lease.h"
#include "compute/worker/worker.h"

#define PAUSE_NS 50000u			/* before a backup that failed is tried again */

/* ---- a worker's list ------------------------------------------------------------------------- */

static struct nam__mirrored *
held_take(struct nam_worker *worker)
{
	struct nam__mirrored *held = SLIST_FIRST(&worker->mirror.spare);

	if (held)
		SLIST_REMOVE_HEAD(&worker->mirror.spare, spare);
	else
		held = malloc(sizeof(*held));
	if (!held)
		return NULL;
	TAILQ_INSERT_TAIL(&worker->mirror.held, held, link);
	return held;
}

static void
held_give(struct nam_worker *worker, struct nam__mirrored *held)
{
	TAILQ_REMOVE(&worker->mirror.held, held, link);
	SLIST_INSERT_HEAD(&worker->mirror.spare, held, spare);
}

static void
state_set(struct nam_worker *worker, struct nam__mirrored *held, enum held_state state)
{
	worker->mirror.waiting += (state != AT_BACKUP) - (held->state != AT_BACKUP);
	held->state = state;
}

/* ---- requests -------------------------------------------------------------------------------- */

/* The last one may have been carried out all the same: a fabric need not keep their order. */
static void
earlier_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc)
{
	struct nam__mirrored_part *part = (struct nam__mirrored_part *)(void *)((char *)completion -
		offsetof(struct nam__mirrored_part, earlier));

	(void)worker;
	part->failed |= wc->status != 0;
}

/* As if they had been posted to the member and failed. */
static void
fail(struct nam_worker *worker, struct nam__mirrored *held, int status)
{
	struct nam_qp qp = { .user = &worker->answering[held->slot] };
	struct nam__mirrored copy = *held;

	held_give(worker, held);
	for (uint32_t i = 0; i < copy.count; i++) {
		struct nam_wc wc = { .context = copy.wrs[i].context, .qp = &qp, .status = status,
			.op = copy.wrs[i].op };

		if (copy.wrs[i].flags & NAM_WR_SIGNALED)
			nam__completed(worker, &wc);
	}
}

/* C31: the backups decide. */
static bool
is_decided(const struct nam_wr *wr)
{
	return wr->op == NAM_WR_CAS && wr->hint == NAM_WR_DECIDES && NAM_GUARD(BACKUP_DECIDES);
}

static bool
is_written(const struct nam_wr *wr)
{
	return wr->op == NAM_WR_WRITE && wr->hint != NAM_WR_LOCK;
}

/*
 * C31: the next backup, or the member, gets the words that this backup had.  The first word behind
 * `local` says what the backups had, the second one what the last of them had.
 */
static void
words_take(struct nam__mirrored *held)
{
	for (uint32_t i = 0; i < held->count; i++) {
		uint64_t *local = held->wrs[i].local;
		uint64_t seen;

		if (!is_decided(&held->wrs[i]))
			continue;
		seen = local[held->decided];
		/* As expected, or another client has carried it there. */
		if (seen == held->wrs[i].compare || (held->decided && seen == held->wrs[i].swap))
			continue;
		local[0] = held->wrs[i].swap = seen;
	}
	held->decided = true;
}

/* C31 */
static int
member_post(const struct nam__mirrored *held, struct nam_qp *qp)
{
	struct nam_wr wrs[NAM_BATCH_MAX];

	if (!held->decided)
		return qp->ops->qp_post(qp, held->wrs, held->count);
	nam_race_point("backup.words_decided");
	memcpy(wrs, held->wrs, held->count * sizeof(wrs[0]));
	for (uint32_t i = 0; i < held->count; i++)
		if (is_decided(&wrs[i]))
			wrs[i].local = (uint64_t *)wrs[i].local + 1;
	return qp->ops->qp_post(qp, wrs, held->count);
}

/* The first place from `place` on whose backup has not got the WRITEs; NAM_BACKUPS_MAX: none. */
static uint32_t
lacking_next(const struct nam_worker *worker, const struct nam__mirrored *held, uint32_t place)
{
	do
		place = nam__backup_next(worker->client, held->slot, place);
	while (place < NAM_BACKUPS_MAX && held->parts[place].done ==
		nam__backup_boot(worker->client, held->slot, place) && ++place);
	return place;
}

/*
 * The member has got them itself; the last one stands for all.  C31: if the backup has the place by
 * now, it must have got them.
 */
static void
end_unseen(struct nam_worker *worker, struct nam__mirrored *held)
{
	struct nam_qp qp = { .user = &worker->answering[held->slot] };
	struct nam_wc wc = { .context = held->wrs[held->count - 1].context, .qp = &qp,
		.op = NAM_WR_WRITE };
	uint64_t boot = worker->client->servers[held->slot].boot;
	bool there = held->state == DUE || boot == held->boot;

	for (uint32_t place = 0; place < NAM_BACKUPS_MAX; place++)
		there |= held->parts[place].done == boot;
	state_set(worker, held, AT_BACKUP);
	if (!there) {
		fail(worker, held, -NAM_E_FABRIC_PEER_DEAD);
		return;
	}
	held_give(worker, held);
	nam__completed(worker, &wc);
}

/* The requests are at the backup, or there is none: post them to the member. */
static void
go_on(struct nam_worker *worker, struct nam__mirrored *held)
{
	/* C32: if the backup has the place by now, they are not for it once more. */
	struct nam_qp *qp = worker->client->servers[held->slot].boot == held->boot ?
		nam__qp_of(worker, held->slot) : NULL;
	int rc = qp ? member_post(held, qp) : -NAM_E_FABRIC_PEER_DEAD;

	if (rc == -NAM_E_FABRIC_FULL) {
		state_set(worker, held, DUE);
		return;
	}
	state_set(worker, held, AT_BACKUP);
	if (rc)
		fail(worker, held, rc);
	else
		held_give(worker, held);
}

static void
completed(struct nam_worker *worker, struct nam__completion *completion, const struct nam_wc *wc)
{
	struct nam__mirrored_part *part = (struct nam__mirrored_part *)completion;
	struct nam__mirrored *held = part->held;

	part->under_way = false;
	if (wc->status || part->failed) {
		held->again_ns = nam_now_ns() + PAUSE_NS;
	} else {
		part->done = part->to;
		/* C31: only words that a backup has decided go to the member. */
		if (held->decides)
			words_take(held);
	}
	/* Not yet: the end of the member's connection may be among the completions at hand. */
	if (--held->under_way == 0)
		state_set(worker, held, lacking_next(worker, held, 0) < NAM_BACKUPS_MAX ?
			PARKED : DUE);
}

/* Address the bytes at a backup; false: it has none, so the member has none. */
static bool
translate(const struct nam_worker *worker, uint32_t slot, uint32_t place, struct nam_wr *wr)
{
	const struct nam_client *client = worker->client;
	uint32_t id = client->servers[slot].id;
	const struct nam_region_block *block = nam_region_table_block(&client->regions, id);
	const struct nam_region_block *there = nam_region_table_block(&client->backups[place],
		id);
	const struct nam_region *from, *to;

	from = block ? nam_region_block_at(block, wr->rkey, wr->remote) : NULL;
	if (!from || !there)
		return false;
	to = &there->regions[from - block->regions];
	wr->remote = to->remote + (wr->remote - from->remote);
	wr->rkey = nam_region_rkey(to);
	return true;
}

bool
nam__backup_fresh(struct nam_worker *worker, uint32_t at)
{
	struct nam__mirrored *held;

	if (!worker->qps[at] ||
		worker->answering[at].boot == worker->client->servers[at].boot)
		return true;
	if (worker->mirror.cas)
		return false;
	nam__qp_drop(worker, at);
	TAILQ_FOREACH(held, &worker->mirror.held, link)
		for (uint32_t place = 0; place < NAM_BACKUPS_MAX; place++) {
			struct nam__mirrored_part *part = &held->parts[place];

			if (nam__backup_slot(held->slot, place) != at || !part->under_way)
				continue;
			part->under_way = false;
			if (--held->under_way == 0)
				state_set(worker, held, PARKED);
		}
	return true;
}

/* 0, or as qp_post fails.  Nothing was posted then. */
static int
part_post(struct nam_worker *worker, struct nam__mirrored *held, uint32_t place)
{
	uint32_t at = nam__backup_slot(held->slot, place);
	struct nam__mirrored_part *part = &held->parts[place];
	struct nam_qp *qp = worker->qps[at];
	struct nam_wr wrs[NAM_BATCH_MAX];
	uint32_t count = 0;
	int rc;

	if (!qp || worker->answering[at].boot != worker->client->servers[at].boot)
		return -NAM_E_FABRIC_PEER_DEAD;
	for (uint32_t i = 0; i < held->count; i++) {
		if (!is_written(&held->wrs[i]) && !is_decided(&held->wrs[i]))
			continue;
		wrs[count] = held->wrs[i];
		if (!translate(worker, held->slot, place, &wrs[count]))
			return -NAM_E_NOREGION;
		/* C31: what the first one decided stays. */
		if (held->decided && is_decided(&wrs[count]))
			wrs[count].local = (uint64_t *)wrs[count].local + 1;
		wrs[count].flags &= (uint8_t)~NAM_WR_SIGNALED;
		wrs[count++].context = nam__handler_context(&part->earlier);
	}
	part->failed = false;
	wrs[count - 1].flags |= NAM_WR_SIGNALED;
	wrs[count - 1].context = nam__handler_context(&part->completion);
	rc = qp->ops->qp_post(qp, wrs, count);
	if (rc)
		return rc;
	part->to = worker->answering[at].boot;
	part->under_way = true;
	held->under_way++;
	return 0;
}

/*
 * C31: first to the backups that lack it: to all at once, or to the next one that decides.  0: to
 * some of them, and to others later; or as qp_post fails: nothing was posted.
 */
static int
backups_post(struct nam_worker *worker, struct nam__mirrored *held)
{
	uint32_t place = lacking_next(worker, held, 0);
	int rc = 0;

	while (place < NAM_BACKUPS_MAX) {
		int one = part_post(worker, held, place);

		rc = rc ?: one;
		if (held->decides)
			break;
		place = lacking_next(worker, held, place + 1);
	}
	return held->under_way ? 0 : rc;
}

/* ---- now and then ---------------------------------------------------------------------------- */

/* Move on a doorbell that is parked, or due. */
static void
step(struct nam_worker *worker, struct nam__mirrored *held)
{
	uint64_t now;

	if (held->state == DUE || !nam__is_backed(worker->client, held->slot)) {
		(held->unseen ? end_unseen : go_on)(worker, held);
		return;
	}
	now = nam_now_ns();
	if (now >= held->until_ns) {
		state_set(worker, held, AT_BACKUP);
		fail(worker, held, -NAM_E_FABRIC_TIMEOUT);
	} else if (now >= held->again_ns && !backups_post(worker, held)) {
		/* The one that lacked it may be none any more. */
		state_set(worker, held, held->under_way ? AT_BACKUP : DUE);
	}
}

/* Whether the connection to a backup that lacks it has to be made. */
static bool
connects(struct nam_worker *worker, const struct nam__mirrored *held, uint32_t *ret_at)
{
	uint32_t place = held->state == PARKED ? lacking_next(worker, held, 0) : NAM_BACKUPS_MAX;

	for (; place < NAM_BACKUPS_MAX; place = lacking_next(worker, held, place + 1)) {
		*ret_at = nam__backup_slot(held->slot, place);
		if (nam__backup_fresh(worker, *ret_at) && !worker->qps[*ret_at])
			return true;
	}
	return false;
}

/* A backup of one that is parked, unless it has refused just now.  May take completions. */
static void
connect_one(struct nam_worker *worker)
{
	struct nam__mirrored *held;
	uint32_t at;

	TAILQ_FOREACH(held, &worker->mirror.held, link) {
		if (!connects(worker, held, &at))
			continue;
		(void)!nam__qp_connect(worker, at);
		return;
	}
}

static void
freshen(struct nam_worker *worker)
{
	struct nam__mirrored *held;

	TAILQ_FOREACH(held, &worker->mirror.held, link)
		for (uint32_t place = 0; place < NAM_BACKUPS_MAX; place++)
			(void)nam__backup_fresh(worker, nam__backup_slot(held->slot, place));
}

static void
steps(struct nam_worker *worker)
{
	struct nam__mirrored *held, *next;

	if (worker->mirror.stepping)
		return;
	worker->mirror.stepping = true;
	freshen(worker);
	connect_one(worker);
	for (held = TAILQ_FIRST(&worker->mirror.held); held; held = next) {
		next = TAILQ_NEXT(held, link);
		if (held->state != AT_BACKUP)
			step(worker, held);
	}
	worker->mirror.stepping = false;
}

/* ---- posting --------------------------------------------------------------------------------- */

enum kind { READS, UNSEEN, WRITES, DECIDES, UNFIT };

/* Requests for a mailbox go to the member only. */
static enum kind
kind_of(const struct nam_worker *worker, uint32_t slot, const struct nam_wr *wrs, unsigned count)
{
	uint32_t place = nam__backup_next(worker->client, slot, 0);
	enum kind kind = READS, one;

	for (unsigned i = 0; i < count && place < NAM_BACKUPS_MAX; i++) {
		struct nam_wr wr = wrs[i];

		one = READS;
		if (is_written(&wr) && translate(worker, slot, place, &wr))
			one = wr.hint == NAM_WR_UNSEEN ? UNSEEN : WRITES;
		else if (is_decided(&wrs[i]))
			one = DECIDES;
		/* C31: it was made before the member had a backup, which has to decide. */
		else if ((wrs[i].op == NAM_WR_CAS || wrs[i].op == NAM_WR_FETCH_ADD) &&
			!wrs[i].hint && NAM_GUARD(BACKUP_DECIDES))
			return UNFIT;
		kind = one > kind ? one : kind;
	}
	return kind;
}

static void
count_mirrored(struct nam_worker *worker, const struct nam__mirrored *held)
{
	struct nam_op_counters *counters = worker->current->counters;
	uint32_t copies = 0;

	for (uint32_t place = 0; place < NAM_BACKUPS_MAX; place++)
		copies += nam__backup_boot(worker->client, held->slot, place) != 0;
	counters->round_trips += held->decides ? copies : !held->unseen;
	counters->doorbells += copies;
	for (unsigned i = 0; i < held->count; i++) {
		bool decided = is_decided(&held->wrs[i]);

		if (!is_written(&held->wrs[i]) && !decided)
			continue;
		counters->work_requests += copies;
		counters->bytes_out += copies * (decided ? 16 : held->wrs[i].bytes);
		counters->bytes_in += decided ? copies * 8 : 0;
	}
}

static struct nam__mirrored *
hold(struct nam_worker *worker, uint32_t slot, enum kind kind)
{
	struct nam__mirrored *held = held_take(worker);

	if (!held)
		return NULL;
	for (uint32_t place = 0; place < NAM_BACKUPS_MAX; place++)
		held->parts[place] = (struct nam__mirrored_part){ .held = held,
			.completion.completed = completed, .earlier.completed = earlier_completed };
	held->under_way = 0;
	worker->mirror.step = steps;
	worker->mirror.freshen = freshen;
	held->state = AT_BACKUP;
	held->decided = false;
	held->decides = kind == DECIDES;
	held->unseen = kind == UNSEEN;
	held->slot = slot;
	held->boot = worker->client->servers[slot].boot;
	held->count = 0;
	held->again_ns = 0;
	held->until_ns = nam_now_ns() + worker->client->options.timeout_ms * 1000000ull;
	return held;
}

/*
 * C31: to all at once.  The task that awaits the last request waits for one more: the last WRITE to
 * a backup.
 */
static int
unseen_post(struct nam_worker *worker, struct nam_qp *qp, struct nam__mirrored *held,
	const struct nam_wr *wrs, unsigned count)
{
	struct nam__task *task = wrs[count - 1].context;
	int rc = qp->ops->qp_post(qp, wrs, count);

	if (rc) {
		held_give(worker, held);
		return rc;
	}
	for (unsigned i = 0; i < count; i++)
		if (is_written(&wrs[i]))
			held->wrs[held->count++] = wrs[i];
	held->wrs[held->count - 1].context = task;
	held->wrs[held->count - 1].flags |= NAM_WR_SIGNALED;
	task->pending++;
	count_mirrored(worker, held);
	if (backups_post(worker, held) || !held->under_way)
		state_set(worker, held, PARKED);
	return 0;
}

/* Whether it is a task's, which awaits it. */
static bool
is_awaited(const struct nam_wr *last)
{
	return last->flags & NAM_WR_SIGNALED &&
		((uintptr_t)last->context & NAM__CONTEXT_MASK) == NAM__CONTEXT_TASK;
}

int
nam__post_mirrored(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	const struct nam__answering *answering = qp->user;
	struct nam_worker *worker = answering->worker;
	struct nam__mirrored *held;
	enum kind kind = READS;
	int rc;

	/* C31 */
	if (nam__is_backed(worker->client, answering->slot) && NAM_GUARD(BACKUP_FIRST))
		kind = kind_of(worker, answering->slot, wrs, count);
	if (kind == READS) {
		rc = qp->ops->qp_post(qp, wrs, count);
		/* C34 */
		return rc == NAM_POSTED_COLOCATED && nam__is_backed(worker->client,
			answering->slot) ? nam__lease_await(worker, answering->slot) ?: rc : rc;
	}
	if (kind == UNFIT)
		return -NAM_E_FABRIC_CAPABILITY;
	if (kind == UNSEEN && !is_awaited(&wrs[count - 1]))
		kind = WRITES;
	held = hold(worker, answering->slot, kind);
	if (!held)
		return -ENOMEM;
	if (kind == UNSEEN)
		return unseen_post(worker, qp, held, wrs, count);
	held->count = count;
	memcpy(held->wrs, wrs, count * sizeof(wrs[0]));
	rc = backups_post(worker, held);
	if (rc == -NAM_E_FABRIC_FULL || rc == -NAM_E_NOREGION) {
		held_give(worker, held);
		return rc;
	}
	count_mirrored(worker, held);
	/* Or it has no backup any more. */
	if (rc || !held->under_way)
		state_set(worker, held, PARKED);
	return 0;
}

void
nam__mirror_free(struct nam_worker *worker)
{
	struct nam__mirrored *held;

	while ((held = TAILQ_FIRST(&worker->mirror.held)))
		held_give(worker, held);
	while ((held = SLIST_FIRST(&worker->mirror.spare))) {
		SLIST_REMOVE_HEAD(&worker->mirror.spare, spare);
		free(held);
	}
}
