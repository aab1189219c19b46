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

/* 0: there is; or how many transactions make a circle.  Work is quadratic. */
size_t sim_check_serializable(const struct sim_txns *txns);

#endif /* NAM_TESTS_SIM_SERIALIZABLE_H */
