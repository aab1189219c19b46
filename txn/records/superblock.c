/* SPDX-License-Identifier: Apache-2.0 */
/* superblock.c -- superblocks of record stores and tables, found by name. */
#include "superblock.h"

#include <errno.h>
#include <string.h>

#include "common/hash/hash.h"
#include "compute/remote/reclaim.h"

static uint64_t
hash(const struct nam__superblock_kind *kind, const struct nam__superblock *superblock,
	struct nam_gaddr at)
{
	const size_t from = offsetof(struct nam__superblock, magic);

	return nam_mix64(nam_hash64((const uint8_t *)superblock + from, kind->bytes - from) ^
		nam_mix64(at.raw));
}

int
nam__superblock_make(struct nam_worker *worker, const struct nam__superblock_kind *kind,
	void *superblock, struct nam_gaddr *ret_at)
{
	struct nam__superblock *block = nam_buffer_take(worker, kind->bytes);
	struct nam_gaddr at;
	unsigned tries = 0;
	int rc;

	if (!block)
		return -ENOMEM;
	memcpy(block, superblock, kind->bytes);
again:
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam_alloc_on(worker, worker->client->catalog_slot, kind->bytes, &at); /* SUSPENDS */
	if (rc)
		goto end;
	at = nam_gaddr_untagged(at);
	block->image_hash = hash(kind, block, at);
	/* R12: no name leads to it yet. */
	rc = nam_write_await(worker, at, block, kind->bytes); /* SUSPENDS */
	nam_race_point("records.written");
	*ret_at = at;
	if (rc)
		nam_free_unseen(worker, at, kind->bytes);
end:
	nam__op_end(worker);
	if (nam__memory_retry(worker, rc, &tries)) /* SUSPENDS */
		goto again;
	nam_buffer_give(worker, block, kind->bytes);
	return rc;
}

void
nam__superblock_made_end(struct nam_worker *worker, const struct nam__superblock_kind *kind,
	struct nam_gaddr at, int rc)
{
	/* If the name may be there, it must lead to a superblock. */
	if (rc && !nam_err_is(rc, NAM_E_FABRIC))
		nam_free_unseen(worker, at, kind->bytes);
}

int
nam__superblock_find(struct nam_worker *worker, const struct nam__superblock_kind *kind,
	const char *name, void *superblock, struct nam_gaddr *ret_at)
{
	void *block = nam_buffer_take(worker, kind->bytes);
	const struct nam__superblock *head = superblock;
	int rc;

	if (!block)
		return -ENOMEM;
	/* R12: the block is not reused in this operation. */
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__name_find(worker, kind->kind, name, &ret_at->raw); /* SUSPENDS */
	if (!rc)
		rc = nam_read_await(worker, *ret_at, block, kind->bytes); /* SUSPENDS */
	nam__op_end(worker);
	if (!rc)
		memcpy(superblock, block, kind->bytes);
	nam_buffer_give(worker, block, kind->bytes);
	if (rc)
		return rc;
	if (head->magic != kind->magic || head->image_hash != hash(kind, head, *ret_at))
		return nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT,
			"the superblock of %s '%s' does not verify", kind->text, name);
	if (head->format != kind->format)
		return nam_diag_set(&worker->diag, -NAM_E_FABRIC_VERSION,
			"%s '%s' has format %u; this library knows format %u", kind->text, name,
			head->format, kind->format);
	return 0;
}
