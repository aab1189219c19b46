/* SPDX-License-Identifier: Apache-2.0 */
/*
 * about.c -- the bytes in which each version describes its transaction: the siblings' addresses
 * (FAST, 2PL; D1), its leader (SMALL; D7), a Bloom filter and the leader (HYBRID), or nothing.
 */
#include <string.h>

#include "txn/records/protocols.h"

/* ---- nothing --------------------------------------------------------------------------------- */

uint32_t
nam__about_none_bytes(const struct nam__txn *txn, uint32_t number)
{
	(void)txn;
	(void)number;
	return 0;
}

void
nam__about_none_fill(const struct nam__txn *txn)
{
	(void)txn;
}

/* ---- siblings -------------------------------------------------------------------------------- */

uint32_t
nam__about_siblings_bytes(const struct nam__txn *txn, uint32_t number)
{
	(void)number;
	return (txn->count - 1) * (uint32_t)sizeof(struct nam_version_sibling);
}

void
nam__about_siblings_fill(const struct nam__txn *txn)
{
	for (uint32_t i = 0; i < txn->count; i++) {
		struct nam_version_sibling *sibling = nam__version_about(txn->items[i].image);

		for (uint32_t k = 0; k < txn->count; k++) {
			const struct nam__item *other = &txn->items[k];

			if (k != i)
				*sibling++ = (struct nam_version_sibling){ other->id.word[0],
					other->head.raw, other->at.raw };
		}
	}
}

/* ---- leader ---------------------------------------------------------------------------------- */

/* The first item leads, and its version names the others. */
uint32_t
nam__about_leader_bytes(const struct nam__txn *txn, uint32_t number)
{
	if (txn->count == 1)
		return 0;
	return (uint32_t)sizeof(struct nam_version_leader) +
		(number ? 0 : (txn->count - 1) * (uint32_t)sizeof(uint64_t));
}

static void
leader_fill(const struct nam__txn *txn, uint32_t number, struct nam_version_leader *leader)
{
	leader->head = txn->items[0].head.raw;
	for (uint32_t i = 1; i < txn->count && !number; i++)
		leader->others[i - 1] = txn->items[i].head.raw;
}

void
nam__about_leader_fill(const struct nam__txn *txn)
{
	for (uint32_t i = 0; i < txn->count && txn->count > 1; i++)
		leader_fill(txn, i, nam__version_about(txn->items[i].image));
}

/* ---- filter and leader ----------------------------------------------------------------------- */

uint32_t
nam__about_filter_bytes(const struct nam__txn *txn, uint32_t number)
{
	return txn->count == 1 ? 0 : (uint32_t)sizeof(struct nam_version_filter) +
		nam__about_leader_bytes(txn, number);
}

void
nam__about_filter_fill(const struct nam__txn *txn)
{
	struct nam_version_filter filter = { 0 };

	for (uint32_t i = 0; i < txn->count; i++)
		nam__filter_add(&filter, txn->items[i].id.word[0]);
	for (uint32_t i = 0; i < txn->count && txn->count > 1; i++) {
		uint8_t *about = nam__version_about(txn->items[i].image);

		memcpy(about, &filter, sizeof(filter));
		leader_fill(txn, i, (void *)(about + sizeof(filter)));
	}
}
