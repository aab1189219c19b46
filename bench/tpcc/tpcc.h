/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpcc.h -- TPC-C over serializable transactions: the database, its transactions and its check.
 *
 * Clauses are those of the TPC Benchmark C Standard Specification, revision 5.11.
 */
#ifndef NAM_BENCH_TPCC_TPCC_H
#define NAM_BENCH_TPCC_TPCC_H

#include <stdatomic.h>

#include "schema.h"

#define TPCC_NAMES 1000u		/* last names */
#define TPCC_CONDITIONS 12u		/* of clause 3.3.2 */

enum tpcc_kind {
	TPCC_NEW_ORDERS,
	TPCC_PAYMENTS,
	TPCC_STATUSES,
	TPCC_DELIVERIES,
	TPCC_LEVELS,
	TPCC_KINDS
};

struct tpcc_scale {
	uint32_t warehouses;		/* up to UINT16_MAX */
	uint32_t items;			/* and as many stocks of a warehouse */
	uint32_t customers;		/* of a district */
	/*
	 * As many orders are loaded, a payment of each customer, and there are indexes.  False:
	 * only rows that new orders need.
	 */
	bool all;
};

/* All threads of a run share it. */
struct tpcc {
	struct tpcc_scale scale;
	unsigned remote_percent;	/* of order lines */
	bool distributed;		/* each order has a line of another warehouse */
	struct tpcc_item *items;	/* a copy: no transaction changes an item */
	/*
	 * Of each district an order that all new ones are not below.  A scan from there passes no
	 * leaves that deliveries have emptied.
	 */
	atomic_uint *oldest;
	atomic_uint_fast64_t deliveries;	/* delivered orders, those of the load too */
	/* Sums of payments, of the check: of a district; of a customer, as tpcc_customer_at(). */
	atomic_int_fast64_t *paid_there, *paid_by;
	atomic_uint_fast64_t undelivered, ordered;	/* orders, as the check found them */
	atomic_uint violated;		/* a bit of each condition */
};

struct tpcc_line {
	uint32_t item, supply_w, quantity;
	struct tpcc_stock *stock;
};

/* A transaction: what the terminal says. */
struct tpcc_room {
	struct rows_room rows;
	struct tpcc *tpcc;
	uint32_t w, d;
	uint64_t date;
	/* The customer, for a payment perhaps of another district; by name if c is 0. */
	uint32_t c_w, c_d, c;
	char last[TPCC_LAST_BYTES];
	struct tpcc_customer customer;	/* as found by name */
	int64_t amount;			/* of a payment */
	uint64_t history_key;
	uint32_t carrier, threshold;
	uint32_t delivered;		/* orders; */
	uint32_t oldest[TPCC_DISTRICTS];	/* tpcc->oldest behind these; 0: none */
	uint32_t lines_count;
	struct tpcc_line lines[TPCC_LINES_MAX];
	/* A stock level: orders that are looked through next, items so far, and low stocks. */
	uint32_t order, orders_end, items_count, low;
	uint32_t first_line;		/* of the rows that were read */
	uint32_t items[20 * TPCC_LINES_MAX];
	uint64_t result;		/* what the terminal shows */
};

/* ---- random.c -------------------------------------------------------------------------------- */

/* From low to high, both included. */
static inline uint32_t
tpcc_random(struct nam_rng *rng, uint32_t low, uint32_t high)
{
	return low + (uint32_t)nam_rng_below(rng, high - low + 1);
}

uint32_t tpcc_random_customer(const struct tpcc *tpcc, struct nam_rng *rng);
uint32_t tpcc_random_item(const struct tpcc *tpcc, struct nam_rng *rng);
uint32_t tpcc_random_name(const struct tpcc *tpcc, struct nam_rng *rng, bool load);
void tpcc_last_name(uint32_t number, char ret_last[TPCC_LAST_BYTES]);
void tpcc_text(struct nam_rng *rng, char *text, size_t bytes);
/* Draw what the terminal of a warehouse says: all but w and kind. */
void tpcc_draw(struct tpcc_room *room, struct nam_rng *rng);

/* ---- load.c ---------------------------------------------------------------------------------- */

/* Units of work: districts.  Number 0 is the first one of warehouse 1. */
static inline uint32_t
tpcc_units(const struct tpcc *tpcc)
{
	return tpcc->scale.warehouses * TPCC_DISTRICTS;
}

/* The place of a customer in arrays. */
static inline size_t
tpcc_customer_at(const struct tpcc *tpcc, uint32_t w, uint32_t d, uint32_t c)
{
	return ((size_t)(w - 1) * TPCC_DISTRICTS + d - 1) * tpcc->scale.customers + c - 1;
}

void tpcc_store_options(const struct tpcc *tpcc, struct nam_txn_store_options *options);
/* Load a district, and a share of items and of its warehouse's stock. */
NAM_FIBER_FN int tpcc_load(struct tpcc_room *room, uint32_t unit);
/* READ all rows that transactions find by keys.  With `items`, fill the copy. */
NAM_FIBER_FN int tpcc_warm(struct tpcc_room *room, uint32_t unit, bool items);

/* ---- transactions: new_order.c, payment.c, orders.c ------------------------------------------ */

NAM_FIBER_FN int tpcc_run(struct tpcc_room *room);
NAM_FIBER_FN int tpcc_new_order(struct nam_txn *txn, void *room);
NAM_FIBER_FN int tpcc_payment(struct nam_txn *txn, void *room);
NAM_FIBER_FN int tpcc_order_status(struct nam_txn *txn, void *room);
NAM_FIBER_FN int tpcc_delivery(struct nam_txn *txn, void *room);
NAM_FIBER_FN int tpcc_stock_level(struct tpcc_room *room);
/* The customer's row: good until the transaction ends. */
NAM_FIBER_FN int tpcc_customer_find(struct tpcc_room *room, struct nam_txn *txn,
	struct tpcc_customer **ret_customer);

/* ---- check.c --------------------------------------------------------------------------------- */

/* Add up payments: those that were loaded in a district. */
NAM_FIBER_FN int tpcc_check_loaded(struct tpcc_room *room, uint32_t unit);
/* Those of a terminal from `first` on.  @sure	they must be there */
NAM_FIBER_FN int tpcc_check_paid(struct tpcc_room *room, uint32_t terminal, uint32_t first,
	uint32_t count, bool sure);
/* The conditions of a district, and of its warehouse with its first one.  Then that of all. */
NAM_FIBER_FN int tpcc_check_district(struct tpcc_room *room, uint32_t unit);
void tpcc_check_all(struct tpcc *tpcc);

static inline uint64_t
tpcc_history_key(uint32_t terminal, uint32_t number)
{
	return tpcc_key(TPCC_HISTORY, terminal, UINT8_MAX, number);
}

#endif /* NAM_BENCH_TPCC_TPCC_H */
