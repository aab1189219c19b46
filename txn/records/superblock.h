/* SPDX-License-Identifier: Apache-2.0 */
/* superblock.h -- superblocks of record stores and tables, found by name. */
#ifndef NAM_TXN_RECORDS_SUPERBLOCK_H
#define NAM_TXN_RECORDS_SUPERBLOCK_H

#include "compute/client/names.h"
#include "compute/remote/epoch.h"

/* A superblock's beginning (common/layout.h). */
struct nam__superblock {
	uint64_t image_hash;		/* of the rest, mixed with the address */
	uint64_t magic;
	uint64_t number;
	uint16_t format;
};

/* A kind of superblock. */
struct nam__superblock_kind {
	enum nam_catalog_kind kind;
	const char *text;
	uint64_t magic;
	uint16_t format;
	uint32_t bytes;			/* of a superblock */
};

/* WRITE it, with its hash, to a new block. */
NAM_FIBER_FN int nam__superblock_make(struct nam_worker *worker,
	const struct nam__superblock_kind *kind, void *superblock,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;
/* @rc	of nam__names_put(); if the name cannot be there, the block is free */
void nam__superblock_made_end(struct nam_worker *worker, const struct nam__superblock_kind *kind,
	struct nam_gaddr at, int rc);
/* READ the superblock that the name leads to, and check it. */
NAM_FIBER_FN int nam__superblock_find(struct nam_worker *worker,
	const struct nam__superblock_kind *kind, const char *name, void *superblock,
	struct nam_gaddr *ret_at) NAM_MUST_CHECK;

#endif /* NAM_TXN_RECORDS_SUPERBLOCK_H */
