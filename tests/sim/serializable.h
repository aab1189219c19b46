/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serializable.h -- is there one order of all transactions, in which each reads the values of the
 * last one before it?  None may precede one that had ended at its begin.
 *
 * Of transactions that write, whose timestamps order the versions of each key, or only read.
 */
#ifndef NAM_TESTS_SIM_SERIALIZABLE_H
#define NAM_TESTS_SIM_SERIALIZABLE_H

#include "txns.h"

/* A scan did not return a key, so the key had no value in the range of the scan. */
struct sim_absence {
	uint32_t txn;
	uint32_t index;			/* for `matches`, like the range */
	uint64_t key;
	uint32_t low, high;
};

struct sim_absences {
	const struct sim_absence *list;
	size_t count;
	/* Whether the scan would have returned the key with that value. */
	bool (*matches)(const struct sim_absence *absence, uint64_t value);
};

/*
 * 0: there is; or how many transactions make a circle.  Work is at most cubic.
 *
 * @absences	may be NULL
 */
size_t sim_check_serializable(const struct sim_txns *txns, const struct sim_absences *absences);

#endif /* NAM_TESTS_SIM_SERIALIZABLE_H */
