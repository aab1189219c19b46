/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h -- a view store whose decisions are a record outside of the cluster.
 *
 * The record is a view, and the change that led to it.  A change is decided when the record is
 * written, by compare-and-set on its revision.  It is installed at the lead after that, by the
 * steward that leads: that is when clients see it.  README.md says what holds in between.
 */
#ifndef NAM_STEWARD_RECORD_H
#define NAM_STEWARD_RECORD_H

#include "compute/view/view_store.h"

struct nam__record {
	uint64_t revision;		/* grows with each writing; 0: there is no record */
	/*
	 * Added to the terms of the backend: the lead had seen such terms when this store, or the
	 * backend's memory, was new.  It only grows.
	 */
	uint64_t terms_before;
	/* The change that was decided last, and its member; 0: the view was the lead's. */
	uint16_t change;		/* enum nam_rpc_view_change */
	struct nam_view_member member;
	struct nam__cluster_view *view;	/* with it; on the heap */
};

struct nam__backend;

/* Each may also return -NAM_E_FABRIC_STORE and what else the backend says; *diag then says why. */
struct nam__backend_ops {
	const char *name;
	/* The caller frees ret_record->view, which is NULL without a record. */
	int (*read)(struct nam__backend *backend, struct nam__record *ret_record,
		struct nam_diag *diag);
	/*
	 * If the record still has that revision.  -NAM_E_VIEW: it has not, or this very call has
	 * written it and had no answer at first; -NAM_E_TERM: the lease of that term has ended.
	 *
	 * @term	as acquire() gave it; 0: of no steward
	 */
	int (*write)(struct nam__backend *backend, const struct nam__record *record, uint64_t term,
		struct nam_diag *diag);
	/* A term above all earlier ones.  -NAM_E_TERM: a lease is held. */
	int (*acquire)(struct nam__backend *backend, uint32_t lease_ms, uint64_t *ret_term,
		struct nam_diag *diag);
	/* -NAM_E_TERM: the lease has ended. */
	int (*renew)(struct nam__backend *backend, struct nam_diag *diag);
	void (*release)(struct nam__backend *backend);
	void (*close)(struct nam__backend *backend);
};

struct nam__backend {
	const struct nam__backend_ops *ops;
};

/* The store closes the backend.  NULL: no memory, and the backend is left. */
struct nam__view_store *nam__view_store_recorded(struct nam__backend *backend, uint32_t lease_ms)
	NAM_MUST_CHECK;

#endif /* NAM_STEWARD_RECORD_H */
