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
nam__backup_cas(struct nam_worker *worker, uint32_t slot, struct nam_gaddr at, uint32_t offset,
	uint64_t compare, uint64_t swap, uint64_t *ret_old)
{
	const struct nam_region *region = nam_region_table_range(&worker->client->backups, at,
		offset + 8);
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
	rc = nam__backup_fresh(worker, nam__backup_slot(slot)) ? 0 : -NAM_E_FABRIC_PEER_DEAD;
	if (!rc) {
		worker->mirror.cas++;
		nam__post(worker, nam__backup_slot(slot), &wr, 1);
		rc = nam__task_await(worker); /* SUSPENDS */
		worker->mirror.cas--;
	}
	*ret_old = *old;
	nam_buffer_give(worker, old, 8);
	return rc;
}

int
nam__backed_lock(struct nam_worker *worker, struct nam_gaddr at, uint64_t from, uint64_t to)
{
	uint16_t slot = nam__server_slot(worker->client, at);
	uint64_t until_ns = worker->client->backed ? deadline(worker) : 0;
	uint64_t there;
	int rc;

	/* C32: a backup that comes later gets the word by nam__locks_leave(). */
	while (slot != NAM__NO_SLOT && nam__is_backed(worker->client, slot) &&
	       NAM_GUARD(BACKUP_MERGES)) {
		rc = nam__backup_cas(worker, slot, nam_gaddr_untagged(at), 0, from, to,
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

/* C31: the backup decides. */
NAM_FIBER_FN static int
backed_cas(struct nam_worker *worker, uint32_t slot, struct nam_gaddr at, uint32_t offset,
	uint64_t compare, uint64_t swap, bool *again, uint64_t *ret_old)
{
	uint64_t until_ns = deadline(worker);
	uint64_t there, here;
	int rc;

	while ((rc = nam__backup_cas(worker, slot, at, offset, compare, swap,
			&there)) != 0) { /* SUSPENDS */
		if (!try_again(worker, rc, until_ns)) /* SUSPENDS */
			return rc;
		*again = true;
		if (!nam__is_backed(worker->client, slot))
			return -EAGAIN;
	}
	/* If it was posted before, it may have been carried out then. */
	if (*again && there == swap)
		there = compare;
	nam_race_point("backup.decided");
	rc = nam__member_word_cas(worker, NAM_WR_LOCK, at, offset, compare,
		there == compare ? swap : there, &here); /* SUSPENDS */
	*ret_old = there;
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
	bool again = false;

	if (rc)
		return rc;
	do {
		bool backed = slot != NAM__NO_SLOT && nam__is_backed(worker->client, slot) &&
			      NAM_GUARD(BACKUP_DECIDES);

		if (__builtin_expect(backed, 0))
			rc = backed_cas(worker, slot, at, offset, compare, swap, &again,
				ret_seen); /* SUSPENDS */
		else
			rc = nam__member_word_cas(worker, 0, at, offset, compare, swap,
				ret_seen); /* SUSPENDS */
	} while (__builtin_expect(rc == -NAM_E_FABRIC_CAPABILITY || rc == -EAGAIN, 0));
	/* A backup carried the CAS out, and has taken the member's place since. */
	if (again && !rc && *ret_seen == swap)
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

int
nam__backed_runs(struct nam_worker *worker, uint32_t slot, uint32_t stride,
	const struct nam_rpc_alloc_reply *given)
{
	uint64_t until_ns = deadline(worker);
	int rc;

	/* C31 */
	while (nam__is_backed(worker->client, slot) && NAM_GUARD(BACKUP_RUNS)) {
		rc = nam__backup_fresh(worker, nam__backup_slot(slot)) ?
			runs_mirror(worker, nam__backup_slot(slot), stride, given) :
			-NAM_E_FABRIC_PEER_DEAD; /* SUSPENDS */
		if (!rc)
			return 0;
		if (!try_again(worker, rc, until_ns)) /* SUSPENDS */
			return nam__is_backed(worker->client, slot) ? rc : 0;
	}
	return 0;
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
	uint32_t slot = worker->client->catalog_slot, at = nam__backup_slot(slot);
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
