/* SPDX-License-Identifier: Apache-2.0 */
/* collector_word.c -- the collector's word of an index, which one client at a time has. */
#include <stddef.h>

#include "compute/remote/lock.h"
#include "index/maintain/maintain.h"
#include "index/maintain/merge.h"

#define WORD_AT offsetof(struct nam_superblock, collector)
#define LOOK_NS 20000000u		/* between two looks whether the index was dropped */

/* I17: if the block is this index's, not dropped, it stays so during this operation. */
NAM_FIBER_FN static int
superblock_is_ours(struct nam_worker *worker, struct nam_index *index)
{
	struct nam_superblock superblock;
	int rc = nam__superblock_read(worker, index, &superblock); /* SUSPENDS */

	if (rc || !NAM_GUARD(SUPERBLOCK_SEEN) ||
		(!superblock.state && superblock.seed == index->g.seed))
		return rc;
	return nam__index_dropped(worker, index);
}

int
nam__collector_enter(struct nam_worker *worker, struct nam_index *index, uint64_t timeout_ns,
	uint64_t *ret_word)
{
	uint64_t dead, seen, start_ns = nam_now_ns(), waited_ns;
	int rc, cas_rc;

	/* I17: READ before the CAS.  The owner may drop the index, and keep the word. */
	do {
		waited_ns = nam_now_ns() - start_ns;
		rc = superblock_is_ours(worker, index); /* SUSPENDS */
		if (!rc)
			rc = nam__owner_word_enter(worker, index->superblock, WORD_AT,
				waited_ns + LOOK_NS < timeout_ns ? LOOK_NS : 0, ret_word,
				&dead); /* SUSPENDS */
	} while (rc == -NAM_E_LOCK_TIMEOUT && waited_ns < timeout_ns);
	if (rc || dead == NAM_LOCK_FREE)
		return rc;
	nam_race_point("collector.succeeded");
	/* I20: first the merge of the dead collector.  By I15 no other client merges. */
	rc = nam__merge_resume(worker, index); /* SUSPENDS */
	if (!rc)
		return 0;
	/* The next client is to try that, too. */
	cas_rc = nam__word_cas(worker, index->superblock, WORD_AT, *ret_word, dead,
		&seen); /* SUSPENDS */
	return rc ? rc : cas_rc;
}

int
nam__collector_leave(struct nam_worker *worker, struct nam_index *index, uint64_t word)
{
	return nam__owner_word_leave(worker, index->superblock, WORD_AT, word); /* SUSPENDS */
}

int
nam__merge_complete(struct nam_worker *worker, struct nam_index *index)
{
	uint64_t word;
	int rc = nam__collector_enter(worker, index, 0, &word); /* SUSPENDS */

	if (!rc)
		rc = nam__collector_leave(worker, index, word); /* SUSPENDS */
	return rc;
}
