/* SPDX-License-Identifier: Apache-2.0 */
/*
 * metadata.c -- the bytes in which each version describes its transaction.  They are the siblings'
 * addresses (FAST, 2PL; P1), its leader (SMALL; P7), a Bloom filter and the leader (HYBRID), or
 * nothing.
 *
 * The first item leads, and its version names the others.
 */
#include <string.h>

#include "txn/records/ops.h"
#include "txn/records/protocols.h"

uint32_t
nam__metadata_bytes(const struct nam__txn *txn, uint32_t number)
{
	const struct nam__records_ops *ops = txn->records->ops;
	uint32_t others = txn->count - 1;

	if (ops->siblings)
		return others * (uint32_t)sizeof(struct nam_version_sibling);
	if (!ops->by_stamps || !others)
		return 0;
	return ops->filter_bytes + (uint32_t)sizeof(struct nam_version_leader) +
		(number ? 0 : others * (uint32_t)sizeof(uint64_t));
}

static void
siblings_fill(const struct nam__txn *txn, uint32_t number, struct nam_version_sibling *sibling)
{
	for (uint32_t i = 0; i < txn->count; i++) {
		const struct nam__item *other = &txn->items[i];

		if (i != number)
			*sibling++ = (struct nam_version_sibling){ other->id.word[0],
				other->head.raw, other->at.raw };
	}
}

static void
leader_fill(const struct nam__txn *txn, uint32_t number, struct nam_version_leader *leader)
{
	leader->head = txn->items[0].head.raw;
	for (uint32_t i = 1; i < txn->count && !number; i++)
		leader->others[i - 1] = txn->items[i].head.raw;
}

void
nam__metadata_fill(const struct nam__txn *txn)
{
	const struct nam__records_ops *ops = txn->records->ops;
	struct nam_version_filter filter = { 0 };

	for (uint32_t i = 0; i < txn->count && ops->filter_bytes; i++)
		nam__filter_add(&filter, txn->items[i].id.word[0]);
	for (uint32_t i = 0; i < txn->count && txn->count > 1; i++) {
		uint8_t *metadata = nam__version_metadata(txn->items[i].image);

		memcpy(metadata, &filter, ops->filter_bytes);
		if (ops->siblings)
			siblings_fill(txn, i, (void *)metadata);
		else if (ops->by_stamps)
			leader_fill(txn, i, (void *)(metadata + ops->filter_bytes));
	}
}
