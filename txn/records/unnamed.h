/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unnamed.h -- record stores before their names are there, and after: the names of a table's own
 * come and go with the table's.
 */
#ifndef NAM_TXN_RECORDS_UNNAMED_H
#define NAM_TXN_RECORDS_UNNAMED_H

#include "compute/client/names.h"
#include "index/unnamed.h"
#include "txn_internal.h"

/* A store before its names are there. */
struct nam__records_made {
	struct nam_gaddr superblock;
	struct nam__index_made *keys;
};
#define NAM__RECORDS_NAMES 2u			/* its own, and that of the index of its keys */

/*
 * As nam_records_create(), but the names are not entered.
 *
 * @tables	for their rows
 * @ret_names	NAM__RECORDS_NAMES
 */
NAM_FIBER_FN int nam__records_make(struct nam_worker *worker, const char *name,
	const struct nam_records_options *options, bool tables,
	struct nam_rpc_catalog_entry *ret_names, struct nam__records_made *ret_made) NAM_MUST_CHECK;
/* @rc	of nam__names_put(); if the names cannot be there, the store is gone */
NAM_FIBER_FN void nam__records_made_end(struct nam_worker *worker, struct nam__records_made *made,
	int rc);
/* A drop; an epoch is pinned meanwhile (G7). */
struct nam__records_drop {
	struct nam_records records;
	bool unreadable;			/* its superblock does not verify */
	struct nam__index_drop keys;
};

/* As nam__index_drop_join(); -NAM_E_NOINDEX or -NAM_E_KIND if it is absent.  Up to two names. */
NAM_FIBER_FN int nam__records_drop_join(struct nam_worker *worker, const char *name,
	struct nam__records_drop *ret_drop, struct nam_rpc_catalog_entry *names,
	uint32_t *count) NAM_MUST_CHECK;
/* As nam__index_drop_end(). */
NAM_FIBER_FN int nam__records_drop_end(struct nam_worker *worker, struct nam__records_drop *drop,
	int name_rc) NAM_MUST_CHECK;

#endif /* NAM_TXN_RECORDS_UNNAMED_H */
