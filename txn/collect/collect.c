/* SPDX-License-Identifier: Apache-2.0 */
/*
 * collect.c -- giving back replaced versions, and finding transactions in doubt (in_doubt.h).
 */
#include <errno.h>
#include <string.h>

#include "in_doubt.h"
#include "txn/records/ops.h"
#include "txn/records/protocols.h"

#define SWEEPS_MAX 64u

/* ---- replaced versions ----------------------------------------------------------------------- */

NAM_FIBER_FN static int
sweep(struct nam__recovery *recovery, const struct nam__walked *seen, uint32_t count)
{
	struct nam__txn *txn = nam__txn_new(recovery->worker, recovery->records);
	uint32_t before;
	int rc = 0;

	if (!txn)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++) {
		const struct nam_version_sibling record = { 0, seen[i].at.raw, 0 };

		if (seen[i].head.chain && nam__server_slot(recovery->worker->client,
			seen[i].at) != NAM__NO_SLOT)
			nam__txn_add_version(txn, &record, 0);
	}
	/* A message lists a limited number of versions; after a full one there may be more. */
	for (unsigned i = 0; i < SWEEPS_MAX && txn->count && !rc; i++) {
		before = txn->retired;
		rc = recovery->records->ops->sweep(txn); /* SUSPENDS */
		if (txn->retired - before < NAM_RPC_RECORDS_RETIRED_MAX)
			break;
	}
	nam__collected_retired(&recovery->done, txn);
	nam__txn_free(txn);
	return rc;
}

/* ---- all of a store -------------------------------------------------------------------------- */

NAM_FIBER_FN static int
some_collect(struct nam_worker *worker, struct nam_records *records,
	const struct nam__walked *seen, uint32_t count, void *arg)
{
	struct nam__recovery *recovery = arg;
	uint64_t reusable;
	int rc;

	recovery->done.records += count;
	rc = sweep(recovery, seen, count); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = records->ops->in_doubt_add(recovery, &seen[i]); /* SUSPENDS */
	if (!rc)
		rc = nam__recovery_run(recovery); /* SUSPENDS */
	if (!rc && nam__limbo_due(worker))
		rc = nam__limbo_advance(worker, &reusable); /* SUSPENDS */
	return rc;
}

int
nam_records_collect(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_collected *ret_collected)
{
	int rc = nam__change_check(worker);
	struct nam__recovery *recovery = rc ? NULL : nam_buffer_take(worker, sizeof(*recovery));

	if (!recovery)
		return rc ? rc : -ENOMEM;
	recovery->worker = worker;
	recovery->records = records;
	recovery->waiting = recovery->count = 0;
	recovery->word = 0;
	recovery->refused = false;
	memset(&recovery->done, 0, sizeof(recovery->done));
	rc = nam__records_walk(worker, records, true, some_collect, recovery); /* SUSPENDS */
	if (!rc)
		rc = nam__recovery_run_later(recovery); /* SUSPENDS */
	nam__recovery_forget(recovery);
	rc = nam__recovery_leave(recovery, rc); /* SUSPENDS */
	if (ret_collected)
		*ret_collected = recovery->done;
	nam_buffer_give(worker, recovery, sizeof(*recovery));
	return rc;
}
