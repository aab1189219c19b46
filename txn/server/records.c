/* SPDX-License-Identifier: Apache-2.0 */
/* records.c -- records whose heads a memory server moves. */
#include "common/env.h"
#include "common/guard.h"
#include "common/hash/hash.h"
#include "common/rpc/records_rpc.h"
#include "finished.h"
#include "records.h"

/* Steps along a chain: more than one record can be written in NAM_RECORDS_KEEP_NS. */
#define HOPS_MAX 262144u
#define SWEEP_MS ((uint32_t)(NAM_RECORDS_KEEP_NS / 8 / 1000000))
#define SPINS_BEFORE_YIELD 64u

/* ---- one at a time --------------------------------------------------------------------------- */

static uint32_t *
lock_of(const struct nam__server_records *records, uint64_t head_at)
{
	return &records->locks[nam_mix64(head_at) % NAM__RECORDS_LOCKS];
}

/* The tag of a head some of whose versions are listed: only CLOSE goes on there. */
static uint32_t
closing_tag(uint64_t store)
{
	return nam__record_tag(store) ^ 2;
}

int
nam__server_record_lock(const struct nam__server_records *records, uint64_t head_at,
	struct nam__server_head **ret_head)
{
	struct nam__server_head *head = records->find(records->arg, head_at, sizeof(*head));
	uint32_t *lock = lock_of(records, head_at), tag;

	if (!head)
		return -NAM_E_REMOTE_CORRUPT;
	/* Acquire: the stores of the caller before, up to unlock, are seen. */
	for (unsigned spins = 1; __atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE); spins++)
		if (spins % SPINS_BEFORE_YIELD == 0)
			nam_yield();
	/* R10.  A sweep may clear it meanwhile. */
	tag = __atomic_load_n(&head->tag, __ATOMIC_RELAXED);
	if (!records->store || tag == nam__record_tag(records->store) ||
		(records->closes && tag == closing_tag(records->store)) ||
		!NAM_GUARD(HEAD_TAG)) {
		*ret_head = head;
		return 0;
	}
	nam__server_record_unlock(records, head_at);
	return -NAM_E_DROPPED;
}

void
nam__server_record_unlock(const struct nam__server_records *records, uint64_t head_at)
{
	__atomic_store_n(lock_of(records, head_at), 0, __ATOMIC_RELEASE);
}

/* ---- versions -------------------------------------------------------------------------------- */

/* The version at an address, as long as that says; NULL: there can be none. */
static struct nam_version *
version_at(const struct nam__server_records *records, uint64_t at)
{
	uint32_t bytes = nam__version_at_bytes(NAM_GADDR(at));

	return bytes < sizeof(struct nam_version) ? NULL : records->find(records->arg, at, bytes);
}

uint64_t
nam__server_version_timestamp(const struct nam__server_records *records, uint64_t at)
{
	const struct nam_version *version = at ? version_at(records, at) : NULL;

	return version ? version->timestamp : 0;
}

/* A version was replaced so long ago that no reader will ask for it. */
static bool
expired(const struct nam_version *version, uint64_t now_ns)
{
	return version->current != version->timestamp &&
		now_ns - version->current >= NAM_RECORDS_KEEP_NS;
}

uint64_t
nam__server_record_at(const struct nam__server_records *records,
	const struct nam__server_head *head, uint64_t timestamp)
{
	uint64_t at = head->chain;

	if (nam__server_version_timestamp(records, head->latest) == timestamp)
		return head->latest;
	for (unsigned hops = 0; at && hops < HOPS_MAX; hops++) {
		const struct nam_version *version = version_at(records, at);

		if (!version)
			break;
		if (version->timestamp == timestamp)
			return at;
		at = version->previous;
	}
	return 0;
}

uint64_t
nam__server_record_find(const struct nam__server_records *records,
	const struct nam__server_head *head, uint64_t timestamp, uint64_t now_ns)
{
	uint64_t at = nam__server_record_at(records, head, timestamp);

	return at && at != head->latest && expired(version_at(records, at), now_ns) ? 0 : at;
}

/* Take it out of the others; whether it was there. */
static bool
unlink_other(const struct nam__server_records *records, struct nam__server_head *head, uint64_t at)
{
	uint64_t *link = &head->chain;

	for (unsigned hops = 0; *link && hops < HOPS_MAX; hops++) {
		struct nam_version *version = version_at(records, *link);

		if (!version)
			break;
		if (*link == at) {
			*link = version->previous;
			return true;
		}
		link = &version->previous;
	}
	return false;
}

/* ---- prepare, commit, abort ------------------------------------------------------------------ */

int
nam__server_record_prepare(const struct nam__server_records *records, struct nam__server_head *head,
	uint64_t at)
{
	struct nam_version *version = version_at(records, at);

	if (!version)
		return -NAM_E_FABRIC_PROTOCOL;
	/* Once more, with another timestamp. */
	(void)unlink_other(records, head, at);
	version->previous = head->chain;
	head->chain = at;
	return 0;
}

/*
 * The word `current` of a latest version is its timestamp; that of a replaced one is the time of
 * the replacement.  The two differ, since a timestamp ends with the id of a client.
 */
static void
replaced(struct nam_version *version, uint64_t now_ns)
{
	uint64_t since = now_ns & ~(uint64_t)(NAM_CLIENTS_MAX - 1);

	/* Readers with cached addresses load it meanwhile. */
	__atomic_store_n(&version->current, since, __ATOMIC_RELEASE);
}

/* L3: whether a version stays as proof that its transaction was committed. */
static bool
is_proof(const struct nam__server_records *records, const struct nam_version *version)
{
	return records->finished && version->metadata_bytes && NAM_GUARD(RECORD_KNOWN) &&
		!nam__finished_has(records->finished, version->timestamp);
}

static uint32_t
ms_of(uint64_t ns)
{
	return (uint32_t)(ns / 1000000);
}

/* Unlink versions that were replaced long enough ago. */
static uint32_t
sweep(const struct nam__server_records *records, struct nam__server_head *head, uint64_t now_ns,
	uint64_t *ret_retired, uint32_t room)
{
	uint64_t *link = &head->chain;
	uint32_t count = 0;

	head->swept_ms = ms_of(now_ns);
	for (unsigned hops = 0; *link && hops < HOPS_MAX && count < room; hops++) {
		struct nam_version *version = version_at(records, *link);

		if (!version)
			break;
		/* R7: readers may still ask for versions that were replaced lately. */
		if (version->current == version->timestamp ||
			(NAM_GUARD(VERSION_WAIT) && !expired(version, now_ns)) ||
			is_proof(records, version)) {
			link = &version->previous;
			continue;
		}
		ret_retired[count++] = *link;
		*link = version->previous;
	}
	/* The chain may have more. */
	if (count == room)
		head->swept_ms = 0;
	return count;
}

void
nam__server_record_sweep(const struct nam__server_records *records, struct nam__server_head *head,
	const uint64_t *living, uint64_t now_ns, bool dry, void (*fn)(void *arg, uint64_t at),
	void *arg)
{
	uint64_t *link = &head->chain;

	/* G6.  Where clients commit, they CAS the word meanwhile. */
	fn(arg, __atomic_load_n(&head->latest, __ATOMIC_RELAXED));
	for (unsigned hops = 0; *link && hops < HOPS_MAX && NAM_GUARD(SWEEP_CHAIN); hops++) {
		struct nam_version *version = version_at(records, *link);
		uint32_t writer = version ? version->timestamp % NAM_CLIENTS_MAX : 0;

		bool left = version && expired(version, now_ns) &&
			!(living[writer / 64] >> writer % 64 & 1);

		if (left && !dry) {
			*link = version->previous;
			continue;
		}
		if (!left)
			fn(arg, *link);
		if (!version)
			break;
		link = &version->previous;
	}
}

static uint32_t
sweep_if_due(const struct nam__server_records *records, struct nam__server_head *head,
	uint64_t now_ns, uint64_t *ret_retired, uint32_t room)
{
	if (head->swept_ms && ms_of(now_ns) - head->swept_ms < SWEEP_MS)
		return 0;
	return sweep(records, head, now_ns, ret_retired, room);
}

uint32_t
nam__server_record_commit(const struct nam__server_records *records, struct nam__server_head *head,
	uint64_t at, uint64_t now_ns, uint64_t *ret_retired, uint32_t room)
{
	struct nam_version *version = version_at(records, at);
	struct nam_version *latest = head->latest ? version_at(records, head->latest) : NULL;

	/* Another client has committed it already; or there is none. */
	if (!version || head->latest == at || !unlink_other(records, head, at))
		return sweep(records, head, now_ns, ret_retired, room);
	/* R4 */
	if (latest && NAM_GUARD(COMMIT_FORWARD) && latest->timestamp > version->timestamp) {
		replaced(version, now_ns);
		version->previous = head->chain;
		head->chain = at;
		return sweep_if_due(records, head, now_ns, ret_retired, room);
	}
	/* Release: a reader of the head sees the version that it leads to. */
	if (latest) {
		replaced(latest, now_ns);
		latest->previous = head->chain;
		head->chain = head->latest;
	}
	__atomic_store_n(&head->latest, at, __ATOMIC_RELEASE);
	return sweep_if_due(records, head, now_ns, ret_retired, room);
}

bool
nam__server_record_abort(const struct nam__server_records *records, struct nam__server_head *head,
	uint64_t at)
{
	const struct nam_version *version = version_at(records, at);

	return version && version->current == version->timestamp && head->latest != at &&
		unlink_other(records, head, at);
}

/* Links can be overwritten: nothing is listed twice. */
static bool
disown(const struct nam__server_records *records, uint64_t head_at, uint64_t at,
	uint64_t *ret_previous)
{
	struct nam_version *version = at ? version_at(records, at) : NULL;

	if (!version || version->head != head_at || version->store != records->store)
		return false;
	*ret_previous = version->previous;
	version->head = 0;
	return true;
}

uint32_t
nam__server_record_close(const struct nam__server_records *records, struct nam__server_head *head,
	uint64_t head_at, uint64_t *ret_retired, uint32_t room)
{
	uint64_t next = head->chain, previous = 0;
	uint32_t count = 0;

	/* R8: the writer of a version that is listed neither withdraws nor commits it. */
	__atomic_store_n(&head->tag, closing_tag(records->store), __ATOMIC_RELAXED);
	while (count < room && disown(records, head_at, next, &previous)) {
		ret_retired[count++] = next;
		next = previous;
	}
	head->chain = next;
	if (count < room && disown(records, head_at, head->latest, &previous))
		ret_retired[count++] = head->latest;
	if (count < room) {
		__atomic_store_n(&head->tag, 0, __ATOMIC_RELAXED);
		__atomic_store_n(&head->latest, NAM_RECORD_DROPPED, __ATOMIC_RELEASE);
	}
	return count;
}
