/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unnamed.h -- indexes before their names are there, and after: those of record stores and tables,
 * whose names come and go with others.
 */
#ifndef NAM_INDEX_UNNAMED_H
#define NAM_INDEX_UNNAMED_H

#include "index.h"

struct nam_rpc_catalog_entry;
struct nam__index_made;

/* As nam_index_create(), but the name is not entered. */
NAM_FIBER_FN int nam__index_make(struct nam_worker *worker, const char *name,
	const struct nam_index_options *options, struct nam__index_made **ret_made) NAM_MUST_CHECK;
/* The entry of its name. */
uint64_t nam__index_made_entry(const struct nam__index_made *made);
/* The entry that the name of an open index had. */
struct nam_gaddr nam__index_superblock(const struct nam_index *index);
/* @rc	of nam__names_put(); if the name cannot be there, the index is gone */
NAM_FIBER_FN void nam__index_made_end(struct nam_worker *worker, struct nam__index_made *made,
	int rc);

/* A drop.  Meanwhile the client has the collector's word, and an epoch is pinned. */
struct nam__index_drop {
	struct nam_index *index;		/* open; NULL: it has not begun, or: */
	const char *unreadable;			/* its name, as its superblock does not verify */
	uint64_t entry;				/* of its name */
	uint64_t word;
	bool lost;				/* part of it is */
};

/*
 * Open it and take the collector's word, as nam_index_drop(): nothing has changed.
 *
 * Returns 0; -NAM_E_NOINDEX or -NAM_E_KIND; or as nam__collector_enter() and nam_index_open().
 */
NAM_FIBER_FN int nam__index_drop_begin(struct nam_worker *worker, const char *name,
	struct nam__index_drop *ret_drop) NAM_MUST_CHECK;
/*
 * The same for an index of a store or a table, which adds its name to those that go together.  It
 * may be absent.  If it is unreadable, its name alone goes, and its nodes wait for a sweep.
 *
 * @names	stays until nam__index_drop_end()
 */
NAM_FIBER_FN int nam__index_drop_join(struct nam_worker *worker, const char *name,
	struct nam__index_drop *ret_drop, struct nam_rpc_catalog_entry *names,
	uint32_t *count) NAM_MUST_CHECK;
/* Whether an object of that name cannot be opened in this life. */
bool nam__is_unreadable(int rc);
/*
 * @name_rc	of nam__names_take(); if it is not 0, the index stays
 *
 * Returns name_rc; or else as nam_index_drop(), and -NAM_E_LOST if it was unreadable.
 */
NAM_FIBER_FN int nam__index_drop_end(struct nam_worker *worker, struct nam__index_drop *drop,
	int name_rc) NAM_MUST_CHECK;
/* Once no epoch is pinned: a client can make and drop for ever. */
NAM_FIBER_FN void nam__drop_reclaim(struct nam_worker *worker);

#endif /* NAM_INDEX_UNNAMED_H */
