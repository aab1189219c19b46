/* SPDX-License-Identifier: Apache-2.0 */
/* locks.c -- locks of records that a memory server keeps in their heads. */
#include "locks.h"

#include "common/guard.h"

#define TURN_UNIT_NS 1024u

/* ---- turns of requesters --------------------------------------------------------------------- */

/* Times of 32 bits that wrap around: for fairness only, not for safety. */
static bool
is_before(uint32_t one, uint32_t other)
{
	return (int32_t)(one - other) < 0;
}

static uint32_t
turn_time(uint64_t now_ns)
{
	return (uint32_t)(now_ns / TURN_UNIT_NS);
}

/* An older transaction was refused a moment ago, and will ask again. */
static bool
is_others_turn(const struct nam__server_head *head, const struct nam__server_requester *requester)
{
	return head->turn_until && is_before(turn_time(requester->now_ns), head->turn_until) &&
		is_before(head->turn_us, requester->birth_us);
}

static uint32_t
refuse(struct nam__server_head *head, const struct nam__server_requester *requester)
{
	if (!is_others_turn(head, requester)) {
		head->turn_us = requester->birth_us;
		head->turn_until = turn_time(requester->now_ns + NAM_LOCKING_TURN_NS) | 1;
	}
	return NAM_LOCKING_BUSY;
}

static void
granted(struct nam__server_head *head, const struct nam__server_requester *requester)
{
	if (head->turn_us == requester->birth_us)
		head->turn_until = 0;
}

/* ---- locks ----------------------------------------------------------------------------------- */

/* A writer has it.  A sealed lock may be terminated at once. */
static uint32_t
refuse_for_writer(struct nam__server_head *head, const struct nam__server_requester *requester,
	uint64_t *ret_timestamp)
{
	*ret_timestamp = head->writer;
	(void)refuse(head, requester);
	return requester->now_ns >= head->until_ns ? NAM_LOCKING_EXPIRED : NAM_LOCKING_BUSY;
}

uint32_t
nam__server_lock_shared(struct nam__server_head *head,
	const struct nam__server_requester *requester, uint64_t *ret_timestamp)
{
	*ret_timestamp = 0;
	/* L1 */
	if (head->writer && NAM_GUARD(RECORD_LOCKED))
		return refuse_for_writer(head, requester, ret_timestamp);
	if (is_others_turn(head, requester))
		return NAM_LOCKING_BUSY;
	granted(head, requester);
	head->readers++;
	if (!head->writer)
		head->until_ns = requester->now_ns + NAM_LOCKING_LEASE_NS;
	return NAM_LOCKING_GRANTED;
}

bool
nam__server_unlock_shared(struct nam__server_head *head, uint32_t generation)
{
	/* L2: another generation says that the lock was taken away meanwhile. */
	if (head->generation != generation || !head->readers)
		return false;
	head->readers--;
	return true;
}

uint32_t
nam__server_lock_exclusive(const struct nam__server_records *records, struct nam__server_head *head,
	const struct nam__server_requester *requester, uint64_t *ret_timestamp)
{
	uint64_t latest = nam__server_version_timestamp(records, head->latest);

	*ret_timestamp = 0;
	if (head->writer)
		return refuse_for_writer(head, requester, ret_timestamp);
	if (is_others_turn(head, requester))
		return NAM_LOCKING_BUSY;
	if (head->readers && requester->now_ns < head->until_ns && NAM_GUARD(RECORD_LOCKED))
		return refuse(head, requester);
	if (NAM_GUARD(RECORD_FENCE) && head->fence > latest)
		latest = head->fence;
	if (requester->timestamp <= latest) {
		*ret_timestamp = latest;
		return NAM_LOCKING_EARLY;
	}
	granted(head, requester);
	/* L2: readers whose leases are over learn it when they release. */
	if (head->readers)
		head->generation++;
	head->readers = 0;
	head->writer = requester->timestamp;
	head->until_ns = requester->now_ns + NAM_LOCKING_LEASE_NS;
	return NAM_LOCKING_GRANTED;
}

bool
nam__server_lock_is(const struct nam__server_head *head, uint64_t timestamp, bool terminate)
{
	return head->writer == timestamp && (head->until_ns == 0) == terminate;
}

void
nam__server_unlock_exclusive(struct nam__server_head *head)
{
	head->writer = 0;
	head->until_ns = 0;
}

enum nam_locking_state
nam__server_lock_seal(const struct nam__server_records *records, struct nam__server_head *head,
	uint64_t timestamp, uint64_t *ret_at)
{
	*ret_at = 0;
	if (head->writer == timestamp) {
		head->until_ns = 0;
		*ret_at = nam__server_record_at(records, head, timestamp);
		return NAM_LOCKING_SEALED;
	}
	if (nam__server_record_at(records, head, timestamp))
		return NAM_LOCKING_COMMITTED;
	if (head->fence < timestamp)
		head->fence = timestamp;
	return NAM_LOCKING_UNKNOWN;
}
