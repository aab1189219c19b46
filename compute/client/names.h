/* SPDX-License-Identifier: Apache-2.0 */
/*
 * names.h -- names in the catalog of the memory server with id 0, for the rooms above.
 *
 * All kinds share the names.  An entry is 64 bits: an address or a number; its uppermost 16 are the
 * kind.
 */
#ifndef NAM_COMPUTE_CLIENT_NAMES_H
#define NAM_COMPUTE_CLIENT_NAMES_H

#include "compute/worker/worker.h"

/* Whether it can be a name: 0, or -EINVAL with a diag. */
int nam__name_check(struct nam_worker *worker, enum nam_catalog_kind kind, const char *name)
	NAM_MUST_CHECK;

/* The name has been checked. */
struct nam_rpc_catalog_entry nam__name_entry(enum nam_catalog_kind kind, const char *name,
	uint64_t entry);

/**
 * nam__name_put -- enter a name for `entry` (below 2^48).
 *
 * Returns 0, -NAM_E_INDEX_EXISTS or -NAM_E_LIMIT with a diag, or as nam_rpc_call().  After a FABRIC
 * code the name may be there, so its entry must stay valid.
 *
 * Cost:	1 RPC.
 */
NAM_FIBER_FN int nam__name_put(struct nam_worker *worker, enum nam_catalog_kind kind,
	const char *name, uint64_t entry) NAM_MUST_CHECK;

/**
 * nam__name_find -- the entry of a name.
 *
 * Returns 0; -EINVAL, -NAM_E_NOINDEX, or -NAM_E_KIND where the name is another kind's, with a diag;
 * or as nam_rpc_call().
 *
 * Cost:	1 RPC.
 */
NAM_FIBER_FN int nam__name_find(struct nam_worker *worker, enum nam_catalog_kind kind,
	const char *name, uint64_t *ret_entry) NAM_MUST_CHECK;

/* Remove a name if it still leads to `entry`; else -NAM_E_NOINDEX.  As above. */
NAM_FIBER_FN int nam__name_take(struct nam_worker *worker, enum nam_catalog_kind kind,
	const char *name, uint64_t entry) NAM_MUST_CHECK;

/* As the two above, for the names of an object and its parts: all or none. */
NAM_FIBER_FN int nam__names_put(struct nam_worker *worker,
	const struct nam_rpc_catalog_entry *names, uint32_t count) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__names_take(struct nam_worker *worker,
	const struct nam_rpc_catalog_entry *names, uint32_t count) NAM_MUST_CHECK;

struct nam__catalog_name {
	char name[NAM_INDEX_NAME_BYTES];
	enum nam_catalog_kind kind;
	uint64_t entry;
};

typedef int (*nam__catalog_fn)(void *arg, const struct nam__catalog_name *name);

/**
 * nam__catalog_list -- call fn for every name, in their order.
 *
 * Returns 0, or the first value of fn that is not 0, which ends the list; or a negative code.
 *
 * Cost:	1 RPC for each page of 56 names, and 1 to see that there are no more.
 */
NAM_FIBER_FN int nam__catalog_list(struct nam_worker *worker, nam__catalog_fn fn,
	void *arg) NAM_MUST_CHECK;

typedef int (*nam__name_fn)(void *arg, const char *name);

/* Call `fn` for every name of that kind. */
NAM_FIBER_FN int nam__names_list(struct nam_worker *worker, enum nam_catalog_kind kind,
	nam__name_fn fn, void *arg) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_CLIENT_NAMES_H */
