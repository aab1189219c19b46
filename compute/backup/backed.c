/* SPDX-License-Identifier: Apache-2.0 */
#include "backed.h"

#include <errno.h>
#include <string.h>

#include "common/race.h"
#include "common/rpc/move_rpc.h"
#include "compute/backup/again.h"
#include "compute/backup/backups.h"
#include "compute/remote/lock.h"
#include "compute/worker/doorbell.h"

#define PAUSE_NS 100000u

/* The view says soon what becomes of a backup that does not answer.  Whether to try again. */
NAM_FIBER_FN static bool
try_again(struct nam_worker *worker, int rc, uint64_t until_ns)
{
	/* CLUSTER: another process is the backup by now. */
	if ((!nam_err_is(rc, NAM_E_FABRIC) && rc != -NAM_E_CLUSTER) || nam_now_ns() >= until_ns)
		return false;
	nam__pause_await(worker, PAUSE_NS); /* SUSPENDS */
	return true;
}

static uint64_t
deadline(const struct nam_worker *worker)
{
	return nam_now_ns() + worker->client->options.timeout_ms * 1000000ull;
}

int
nam__backup_cas(struct nam_worker *worker, uint32_t slot, uint32_t place, struct nam_gaddr at,
	uint32_t offset, uint64_t compare, uint64_t swap, uint64_t *ret_old)
{
	const struct nam_region *region = nam_region_table_range(&worker->client->backups[place],
		at, offset + 8);
	uint32_t backup = nam__backup_slot(slot, place);
	uint64_t *old = region ? nam_buffer_take(worker, 8) : NULL;
	struct nam_wr wr;
	int rc;

	if (!old)
		return region ? -ENOMEM : -NAM_E_NOREGION;
	nam__wr_begin(&wr, NAM_WR_CAS, NAM_WR_SIGNALED);
	wr.bytes = 8;
	wr.local = old;
	nam__wr_operands(&wr, compare, swap);
	wr.remote = region->remote + nam_gaddr_offset(at) + offset;
	wr.rkey = nam_region_rkey(region);
	wr.lkey = nam__buffer_lkey(worker, old);
	wr.context = worker->current;
	worker->current->counters->round_trips++;
	/* C31: a connection to another process than the backup of the view does not count. */
	rc = nam__backup_fresh(worker, backup) ? 0 : -NAM_E_FABRIC_PEER_DEAD;
	if (!rc) {
		worker->mirror.cas++;
		nam__post(worker, backup, &wr, 1);
		rc = nam__task_await(worker); /* SUSPENDS */
		worker->mirror.cas--;
	}
	*ret_old = *old;
	nam_buffer_give(worker, old, 8);
	return rc;
}

/* As nam__backed_lock(), at the backup in one place. */
NAM_FIBER_FN static int
place_lock(struct nam_worker *worker, uint32_t slot, uint32_t place, struct nam_gaddr at,
	uint64_t from, uint64_t to)
{
	uint64_t until_ns = nam__backup_boot(worker->client, slot, place) ? deadline(worker) : 0;
	uint64_t there;
	int rc;

	while (nam__backup_boot(worker->client, slot, place)) {
		rc = nam__backup_cas(worker, slot, place, nam_gaddr_untagged(at), 0, from, to,
			&there); /* SUSPENDS */
		if (rc && !try_again(worker, rc, until_ns)) /* SUSPENDS */
			return rc;
		if (!rc && (there == from || there == to || to == NAM_LOCK_FREE))
			return 0;
		if (!rc)
			from = there;
	}
	return 0;
}

int
nam__backed_lock(struct nam_worker *worker, struct nam_gaddr at, uint64_t from, uint64_t to)
{
	uint16_t slot = nam__server_slot(worker->client, at);
	int rc = 0;

	/* C32: a backup that comes later gets the word by nam__locks_leave(). */
	for (uint32_t place = 0; worker->client->backed && slot != NAM__NO_SLOT && !rc &&
	     place < NAM_BACKUPS_MAX && NAM_GUARD(BACKUP_MERGES); place++)
		rc = place_lock(worker, slot, place, at, from, to); /* SUSPENDS */
	return rc;
}

struct word_cas {
	struct nam_gaddr at;
	uint32_t offset;
	uint64_t compare, swap;
	bool again;			/* it was posted before, and may have been carried out */
};

/* At the backup in one place.  -EAGAIN: there is none any more. */
NAM_FIBER_FN static int
place_cas(struct nam_worker *worker, uint32_t slot, uint32_t place, struct word_cas *cas,
	uint64_t swap, uint64_t *ret_there)
{
	uint64_t until_ns = deadline(worker);
	int rc;

	while ((rc = nam__backup_cas(worker, slot, place, cas->at, cas->offset, cas->compare, swap,
			ret_there)) != 0) { /* SUSPENDS */
		if (!try_again(worker, rc, until_ns)) /* SUSPENDS */
			return rc;
		cas->again = true;
		if (!nam__backup_boot(worker->client, slot, place))
			return -EAGAIN;
	}
	return 0;
}

/*
 * The first place whose backup has not decided yet; NAM_BACKUPS_MAX: none, and the gate is open.
 * C31: behind the gate the member may have got one more.
 */
static uint32_t
undecided_next(struct nam_worker *worker, uint32_t slot, const uint64_t decided[NAM_BACKUPS_MAX])
{
	for (bool open = false;; open = true) {
		for (uint32_t place = 0; place < NAM_BACKUPS_MAX; place++)
			if (nam__backup_boot(worker->client, slot, place) != decided[place] &&
				nam__backup_boot(worker->client, slot, place))
				return place;
		/* The member's CAS fails as this does. */
		if (open || nam__qp_open(worker, slot))
			return NAM_BACKUPS_MAX;
	}
}

/* C31: the first backup decides, and the next one and the member get that. */
NAM_FIBER_FN static int
backed_cas(struct nam_worker *worker, uint32_t slot, struct word_cas *cas, uint64_t *ret_old)
{
	uint64_t seen = cas->compare, swap = cas->swap, there, here;
	uint64_t boots[NAM_BACKUPS_MAX] = { 0 };
	bool decided = false;
	uint32_t place;
	int rc;

	while ((place = undecided_next(worker, slot, boots)) < NAM_BACKUPS_MAX) {
		uint64_t boot = nam__backup_boot(worker->client, slot, place);

		rc = place_cas(worker, slot, place, cas, swap, &there); /* SUSPENDS */
		if (rc == -EAGAIN)
			continue;
		if (rc)
			return rc;
		boots[place] = boot;
		/* Another client has carried it there, or it was posted before. */
		if ((cas->again || decided) && there == cas->swap)
			there = cas->compare;
		if (there != cas->compare)
			seen = swap = there;
		decided = true;
		nam_race_point("backup.decided");
	}
	if (!decided)
		return -EAGAIN;
	rc = nam__member_word_cas(worker, NAM_WR_LOCK, cas->at, cas->offset, cas->compare, swap,
		&here); /* SUSPENDS */
	*ret_old = seen;
	return rc;
}

/*
 * C31: words that mean something, unlike lock words.  If the member gets a backup while the CAS
 * waits, it is refused where it is posted.
 */
int
nam__word_cas(struct nam_worker *worker, struct nam_gaddr at, uint32_t offset, uint64_t compare,
	uint64_t swap, uint64_t *ret_seen)
{
	uint16_t slot = nam__server_slot(worker->client, at);
	int rc = nam__change_check(worker);
	struct word_cas cas = { at, offset, compare, swap, false };

	if (rc)
		return rc;
	do {
		bool backed = slot != NAM__NO_SLOT && nam__is_backed(worker->client, slot) &&
			      NAM_GUARD(BACKUP_DECIDES);

		if (__builtin_expect(backed, 0))
			rc = backed_cas(worker, slot, &cas, ret_seen); /* SUSPENDS */
		else
			rc = nam__member_word_cas(worker, 0, at, offset, compare, swap,
				ret_seen); /* SUSPENDS */
	} while (__builtin_expect(rc == -NAM_E_FABRIC_CAPABILITY || rc == -EAGAIN, 0));
	/* A backup carried the CAS out, and has taken the member's place since. */
	if (cas.again && !rc && *ret_seen == swap)
		*ret_seen = compare;
	return rc;
}

int
nam_cas_await(struct nam_worker *worker, struct nam_gaddr at, uint64_t compare, uint64_t swap,
	uint64_t *ret_old)
{
	return nam__word_cas(worker, at, 0, compare, swap, ret_old); /* SUSPENDS */
}

/* ---- blocks ---------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
runs_mirror(struct nam_worker *worker, uint32_t at, uint32_t stride,
	const struct nam_rpc_alloc_reply *given)
{
	uint32_t bytes = given->count * (uint32_t)sizeof(given->blocks[0]), reply_bytes;
	struct nam_rpc_move_request *request = nam_buffer_take(worker, NAM_RPC_BODY_MAX);
	struct nam_rpc_move_reply reply;
	struct nam_rpc_move_runs *runs;
	int rc;

	if (!request)
		return -ENOMEM;
	*request = (struct nam_rpc_move_request){ .step = NAM_RPC_MOVE_RUNS,
		.boot = worker->client->servers[at].boot };
	runs = (void *)request->page;
	*runs = (struct nam_rpc_move_runs){ stride, given->run_count, given->run_at };
	memcpy(runs->blocks, given->blocks, bytes);
	reply_bytes = sizeof(reply);
	rc = nam_rpc_call(worker, at, NAM_RPC_MOVE, request,
		(uint32_t)(sizeof(*request) + sizeof(*runs)) + bytes, &reply,
		&reply_bytes); /* SUSPENDS */
	nam_buffer_give(worker, request, NAM_RPC_BODY_MAX);
	return rc;
}

/* As nam__backed_runs(), to the backup in one place. */
NAM_FIBER_FN static int
place_runs(struct nam_worker *worker, uint32_t slot, uint32_t place, uint32_t stride,
	const struct nam_rpc_alloc_reply *given)
{
	uint32_t at = nam__backup_slot(slot, place);
	uint64_t until_ns = nam__backup_boot(worker->client, slot, place) ? deadline(worker) : 0;
	int rc;

	while (nam__backup_boot(worker->client, slot, place)) {
		rc = nam__backup_fresh(worker, at) ? runs_mirror(worker, at, stride, given) :
			-NAM_E_FABRIC_PEER_DEAD; /* SUSPENDS */
		if (!rc)
			return 0;
		if (!try_again(worker, rc, until_ns)) /* SUSPENDS */
			return nam__backup_boot(worker->client, slot, place) ? rc : 0;
	}
	return 0;
}

int
nam__backed_runs(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	const struct nam_rpc_alloc_reply *given)
{
	int rc = 0;

	/* C31 */
	for (uint32_t place = 0; !rc && place < NAM_BACKUPS_MAX && NAM_GUARD(BACKUP_RUNS); place++)
		rc = place_runs(worker, slot, place, stride, given); /* SUSPENDS */
	return rc;
}

/* ---- the lead -------------------------------------------------------------------------------- */

int
nam__backed_call(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes, void *ret_body, uint32_t *ret_bytes, bool *ret_again)
{
	uint32_t room = ret_bytes ? *ret_bytes : 0, moves;
	int rc;

	if (ret_again)
		*ret_again = false;
	for (;;) {
		moves = worker->moves;
		if (ret_bytes)
			*ret_bytes = room;
		rc = nam_rpc_call(worker, slot, type, body, body_bytes, ret_body,
			ret_bytes); /* SUSPENDS */
		if (!nam_err_is(rc, NAM_E_FABRIC))
			return rc;
		/* C32: the notice of the end may be at hand. */
		nam__poll(worker);
		if (!nam__posted_in_vain(worker, slot, moves))
			return rc;
		if (ret_again)
			*ret_again = true;
	}
}

int
nam__lead_call(struct nam_worker *worker, uint16_t type, const void *body, uint32_t body_bytes,
	void *ret_body, uint32_t *ret_bytes, bool *ret_again)
{
	return nam__backed_call(worker, worker->client->catalog_slot, type, body, body_bytes,
		ret_body, ret_bytes, ret_again); /* SUSPENDS */
}

/*
 * Names that the backup has with other entries, which the lead has not: another client has dropped
 * them there.  -NAM_E_INDEX_EXISTS: the lead has one of them, and the caller's are out of date.
 * C33: the lead decides, and the backup is the first to lose a name.
 */
NAM_FIBER_FN static int
names_clear(struct nam_worker *worker, uint32_t at, const struct nam_rpc_catalog_entry *names,
	uint32_t count)
{
	struct nam_rpc_catalog_entry found, now;
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		uint32_t bytes = sizeof(found);
		bool again;

		rc = nam_rpc_call(worker, at, NAM_RPC_CATALOG_GET, &names[i], sizeof(names[i]),
			&found, &bytes); /* SUSPENDS */
		if (rc == -NAM_E_NOINDEX || (!rc && found.superblock == names[i].superblock)) {
			rc = 0;
			continue;
		}
		bytes = sizeof(now);
		if (!rc)
			rc = nam__lead_call(worker, NAM_RPC_CATALOG_GET, &names[i],
				sizeof(names[i]), &now, &bytes, &again); /* SUSPENDS */
		if (!rc && now.superblock == found.superblock)
			return -NAM_E_INDEX_EXISTS;
		if (!rc || rc == -NAM_E_NOINDEX)
			rc = nam_rpc_call(worker, at, NAM_RPC_CATALOG_DROP, &found, sizeof(found),
				NULL, NULL); /* SUSPENDS */
		if (rc == -NAM_E_NOINDEX)
			rc = 0;
	}
	return rc;
}

/* All of them are there afterwards, or none. */
NAM_FIBER_FN static int
names_query(struct nam_worker *worker, uint32_t at, uint16_t type,
	const struct nam_rpc_catalog_entry *names, uint32_t count)
{
	uint32_t bytes = count * (uint32_t)sizeof(*names);
	int rc = nam_rpc_call(worker, at, type, names, bytes, NULL, NULL); /* SUSPENDS */

	if (rc == -NAM_E_INDEX_EXISTS)
		rc = names_clear(worker, at, names, count) ?: nam_rpc_call(worker, at, type, names,
			bytes, NULL, NULL); /* SUSPENDS */
	return rc == -NAM_E_INDEX_EXISTS || rc == -NAM_E_NOINDEX ? 0 : rc;
}

int
nam__backed_names(struct nam_worker *worker, uint16_t type,
	const struct nam_rpc_catalog_entry *names, uint32_t count)
{
	uint32_t slot = worker->client->catalog_slot, at = nam__backup_slot(slot, 0);
	uint64_t until_ns = deadline(worker);
	int rc;

	/* C33 */
	while (nam__is_backed(worker->client, slot) && NAM_GUARD(LEAD_NAMES)) {
		rc = nam__backup_fresh(worker, at) ? names_query(worker, at, type, names, count) :
			-NAM_E_FABRIC_PEER_DEAD; /* SUSPENDS */
		if (!rc)
			return 0;
		if (!try_again(worker, rc, until_ns)) /* SUSPENDS */
			return nam__is_backed(worker->client, slot) ? rc : 0;
	}
	return 0;
}
