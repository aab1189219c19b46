/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ops.h -- how a record store commits and reads: one table for each pair of an algorithm and a
 * commit protocol.
 *
 * Opening a store chooses its table, once.  Protocols call each other only downwards, or
 * through the table.
 */
#ifndef NAM_TXN_RECORDS_OPS_H
#define NAM_TXN_RECORDS_OPS_H

#include "protocols.h"

struct nam__in_doubt;
struct nam__recovery;
struct nam__walked;

struct nam__records_ops {
	enum nam__item_state look;	/* how the latest version is found: HEAD or ASK */
	/* metadata.c: versions name their siblings; or are found by timestamps, and one leads. */
	bool siblings, by_stamps;
	bool served;			/* memory servers know which versions are in doubt */
	uint32_t filter_bytes;		/* in front of a version's struct nam_version_leader */

	/* A transaction, in an operation under way.  *ret_unused: it was never seen. */
	NAM_FIBER_FN int (*get)(struct nam__txn *txn);
	NAM_FIBER_FN int (*put)(struct nam__txn *txn, bool *ret_unused);

	/* Reading transactions: before the first round, and after each (nam__fractured()). */
	NAM_FIBER_FN int (*begin)(struct nam__txn *txn);
	NAM_FIBER_FN enum nam__step (*fractured)(struct nam__txn *txn, int *ret_rc);

	/* Writing transactions.  Prepare sets base_timestamp of all items. */
	NAM_FIBER_FN int (*prepare)(struct nam__txn *txn);
	NAM_FIBER_FN int (*prepare_again)(struct nam__txn *txn);	/* with a later timestamp */
	NAM_FIBER_FN int (*withdraw)(struct nam__txn *txn);
	NAM_FIBER_FN int (*commit)(struct nam__txn *txn);	/* those that are not DONE */

	/* Retire the replaced versions of the records. */
	NAM_FIBER_FN int (*sweep)(struct nam__txn *txn);
	/* R8: the store is dropped.  Retire all versions; from then on the heads lead nowhere. */
	NAM_FIBER_FN int (*close)(struct nam__txn *txn);

	/* in_doubt.c: add the versions of a record that are in doubt; end one of them. */
	NAM_FIBER_FN int (*in_doubt_add)(struct nam__recovery *recovery,
		const struct nam__walked *seen);
	NAM_FIBER_FN int (*in_doubt_end)(struct nam__recovery *recovery, struct nam__in_doubt *one,
		struct nam__txn *txn, const struct nam_version *version);
};

/* For options that records.c has checked. */
const struct nam__records_ops *nam__records_ops_of(const struct nam_records_options *options);

#endif /* NAM_TXN_RECORDS_OPS_H */
