/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn_order.h -- sentences of the form "this transaction is older than that one".  Is there an
 * order of all in which they are true?  Exactly if they make no circle.
 */
#ifndef NAM_TESTS_SIM_TXN_ORDER_H
#define NAM_TESTS_SIM_TXN_ORDER_H

#include <stddef.h>
#include <stdint.h>

/* Why the one is older. */
enum sim_txn_why {
	SIM_WHY_TIMESTAMP,
	SIM_WHY_SESSION,	/* it committed earlier in one session */
	SIM_WHY_FRACTURED,	/* by read the key of newer, and from older, which wrote it, too */
	SIM_WHY_MINE,		/* by read the key of newer when its session had written older */
	SIM_WHY_MONOTONE,	/* by read the key of newer when its session had read older */
};

struct sim_txn_sentence {
	uint64_t key;
	uint32_t older;
	uint32_t newer;
	uint32_t by;
	enum sim_txn_why why;
};

struct sim_txn_order {
	struct sim_txn_sentence *sentences;
	size_t count;
	size_t room;
};

/* An order of zero bytes has no sentences. */
void sim_txn_order_free(struct sim_txn_order *order);

void sim_txn_order_say(struct sim_txn_order *order, struct sim_txn_sentence sentence);

/**
 * sim_txn_order_circle -- sentences that cannot all be true.
 *
 * @txns	numbers in sentences are below this
 * @ret_circle	[*ret_count] where each one's newer is the next one's older; NULL if there is none;
 *		to be freed
 *
 * Sorts the sentences.  Work and memory are linear in sentences and transactions.
 */
void sim_txn_order_circle(struct sim_txn_order *order, size_t txns,
	struct sim_txn_sentence **ret_circle, size_t *ret_count);

#endif /* NAM_TESTS_SIM_TXN_ORDER_H */
