/* SPDX-License-Identifier: Apache-2.0 */
/* serial_ballast.h -- records "fill...", which only fill leaves of an index, and leave them. */
#ifndef NAM_TESTS_SIM_SERIAL_BALLAST_H
#define NAM_TESTS_SIM_SERIAL_BALLAST_H

#include "txn/serializable.h"

/* Writes and deletes some of them, and merges leaves.  Returns how many transactions failed. */
uint64_t sim_ballast_run(struct nam_worker *worker, struct nam_txn_store *store,
	struct nam_index *index);
/*
 * A client that lives may be slow, or not reach the memory server of a leaf that it has locked.
 * A dead one may have had no memory for a redo record.
 */
bool sim_ballast_locked(int rc, bool slow);

#endif /* NAM_TESTS_SIM_SERIAL_BALLAST_H */
