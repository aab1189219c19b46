/* SPDX-License-Identifier: Apache-2.0 */
/* orders.c -- order-status, delivery and stock-level (clauses 2.6 to 2.8). */
#include "tpcc.h"

#include <string.h>

#define LEVEL_ORDERS 20u		/* that a stock level looks through */
#define LEVEL_ORDERS_AT_ONCE 10u
#define LEVEL_STOCKS_AT_ONCE 250u

static int
missing(struct tpcc_room *room)
{
	room->rows.missing = true;
	return ROWS_MISSING;
}

/* ---- order-status ---------------------------------------------------------------------------- */

int
tpcc_order_status(struct nam_txn *txn, void *arg)
{
	struct tpcc_room *room = arg;
	struct tpcc_customer_key low, high;
	const struct nam_range range = { .low = &low, .high = &high, .high_inclusive = true,
		.reverse = true, .limit = 1 };
	struct tpcc_customer *customer;
	struct nam_txn_row newest;
	struct tpcc_order order;
	uint32_t count = 0, o;
	int rc = tpcc_customer_find(room, txn, &customer); /* SUSPENDS */

	if (rc)
		return rc;
	low = tpcc_customer_key(room->w, room->d, customer->c, 0);
	high = tpcc_customer_key(room->w, room->d, customer->c, UINT32_MAX);
	rc = nam_txn_scan(txn, TPCC_BY_CUSTOMER, &range, &newest, 1, &count); /* SUSPENDS */
	if (rc)
		return rc;
	if (!count || newest.value_bytes != sizeof(order))
		return missing(room);
	memcpy(&order, newest.value, sizeof(order));
	o = be32toh(order.by_customer.o);
	for (uint32_t i = 1; i <= order.lines; i++)
		(void)rows_want(&room->rows, tpcc_line_key(room->w, room->d, o, i),
			sizeof(struct tpcc_order_line));
	room->result = (uint64_t)customer->balance;
	return rows_read(&room->rows, txn); /* SUSPENDS */
}

/* ---- delivery -------------------------------------------------------------------------------- */

struct delivered {
	uint32_t d, o;
	struct tpcc_order *order;
	struct tpcc_customer *customer;
	struct tpcc_order_line *lines[TPCC_LINES_MAX];
};

/* The oldest new order of a district; a district without one is skipped (2.7.4.2). */
NAM_FIBER_FN static int
oldest_find(struct tpcc_room *room, struct nam_txn *txn, uint32_t d, struct delivered *delivered,
	uint32_t *count)
{
	atomic_uint *hint = &room->tpcc->oldest[(room->w - 1) * TPCC_DISTRICTS + d - 1];
	const struct tpcc_age_key low = tpcc_age_key(room->w, d, atomic_load(hint));
	const struct tpcc_age_key high = tpcc_age_key(room->w, d, UINT32_MAX);
	const struct nam_range range = { .low = &low, .high = &high, .high_inclusive = true,
		.limit = 1 };
	struct tpcc_new_order new_order;
	struct nam_txn_row oldest;
	uint32_t found = 0;
	int rc = nam_txn_scan(txn, TPCC_BY_AGE, &range, &oldest, 1, &found); /* SUSPENDS */

	room->oldest[d - 1] = 0;
	if (rc || !found)
		return rc;
	memcpy(&new_order, oldest.value, sizeof(new_order));
	room->oldest[d - 1] = be32toh(new_order.by_age.o) + 1;
	delivered[*count].d = d;
	delivered[(*count)++].o = be32toh(new_order.by_age.o);
	return 0;
}

/* Their orders, then these orders' lines and customers. */
NAM_FIBER_FN static int
orders_read(struct tpcc_room *room, struct nam_txn *txn, struct delivered *delivered,
	uint32_t count)
{
	int rc;

	for (uint32_t i = 0; i < count; i++)
		delivered[i].order = rows_want(&room->rows, tpcc_key(TPCC_ORDER, room->w,
			delivered[i].d, delivered[i].o), sizeof(*delivered[i].order));
	rc = rows_read(&room->rows, txn); /* SUSPENDS */
	if (rc)
		return rc;
	for (uint32_t i = 0; i < count; i++) {
		struct delivered *one = &delivered[i];

		one->customer = rows_want(&room->rows, tpcc_key(TPCC_CUSTOMER, room->w, one->d,
			be32toh(one->order->by_customer.c)), sizeof(*one->customer));
		for (uint32_t k = 0; k < one->order->lines; k++)
			one->lines[k] = rows_want(&room->rows, tpcc_line_key(room->w, one->d,
				one->o, k + 1), sizeof(*one->lines[k]));
	}
	return rows_read(&room->rows, txn); /* SUSPENDS */
}

NAM_FIBER_FN static int
deliver(struct tpcc_room *room, struct nam_txn *txn, struct delivered *one)
{
	uint64_t new_order = tpcc_key(TPCC_NEW_ORDER, room->w, one->d, one->o);
	int rc = nam_txn_delete(txn, &new_order, sizeof(new_order)); /* SUSPENDS */

	one->order->carrier = (uint8_t)room->carrier;
	one->customer->deliveries++;
	for (uint32_t k = 0; k < one->order->lines && !rc; k++) {
		one->customer->balance += one->lines[k]->amount;
		one->lines[k]->delivery_date = room->date;
		rc = rows_write(txn, tpcc_line_key(room->w, one->d, one->o, k + 1), one->lines[k],
			sizeof(*one->lines[k]));
	}
	if (!rc)
		rc = rows_write(txn, tpcc_key(TPCC_ORDER, room->w, one->d, one->o), one->order,
			sizeof(*one->order));
	return rc ? rc : rows_write(txn, tpcc_key(TPCC_CUSTOMER, room->w, one->d,
		be32toh(one->order->by_customer.c)), one->customer, sizeof(*one->customer));
}

/* All districts in one transaction, and at once instead of later. */
int
tpcc_delivery(struct nam_txn *txn, void *arg)
{
	struct delivered delivered[TPCC_DISTRICTS];
	struct tpcc_room *room = arg;
	uint32_t count = 0;
	int rc = 0;

	for (uint32_t d = 1; d <= TPCC_DISTRICTS && !rc; d++)
		rc = oldest_find(room, txn, d, delivered, &count); /* SUSPENDS */
	if (!rc)
		rc = orders_read(room, txn, delivered, count); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = deliver(room, txn, &delivered[i]); /* SUSPENDS */
	room->delivered = count;
	return rc;
}

/* ---- stock-level ----------------------------------------------------------------------------- */

static void
item_note(struct tpcc_room *room, uint32_t item)
{
	for (uint32_t i = 0; i < room->items_count; i++)
		if (room->items[i] == item)
			return;
	room->items[room->items_count++] = item;
}

/* Items of some orders; the first time also which orders. */
NAM_FIBER_FN static int
level_items(struct nam_txn *txn, void *arg)
{
	struct tpcc_room *room = arg;
	const struct tpcc_district *district;
	const struct tpcc_order *orders[LEVEL_ORDERS_AT_ONCE];
	uint32_t end, first = 0;
	int rc = 0;

	if (!room->items_count) {
		district = rows_want(&room->rows, tpcc_key(TPCC_DISTRICT, room->w, room->d, 0),
			sizeof(*district));
		rc = rows_read(&room->rows, txn); /* SUSPENDS */
		if (rc)
			return rc;
		room->orders_end = district->next_order;
		room->order = district->next_order > LEVEL_ORDERS ?
			district->next_order - LEVEL_ORDERS : 1;
	}
	end = room->order + LEVEL_ORDERS_AT_ONCE;
	end = end < room->orders_end ? end : room->orders_end;
	for (uint32_t o = room->order; o < end; o++)
		orders[o - room->order] = rows_want(&room->rows,
			tpcc_key(TPCC_ORDER, room->w, room->d, o), sizeof(*orders[0]));
	rc = rows_read(&room->rows, txn); /* SUSPENDS */
	first = room->rows.count;
	for (uint32_t o = room->order; o < end && !rc; o++)
		for (uint32_t k = 1; k <= orders[o - room->order]->lines; k++)
			(void)rows_want(&room->rows, tpcc_line_key(room->w, room->d, o, k),
				sizeof(struct tpcc_order_line));
	if (!rc)
		rc = rows_read(&room->rows, txn); /* SUSPENDS */
	room->first_line = first;
	return rc;
}

/* Stocks below the threshold, of the last items. */
NAM_FIBER_FN static int
level_stocks(struct nam_txn *txn, void *arg)
{
	struct tpcc_room *room = arg;
	uint32_t end = room->items_count;
	uint32_t begin = end > LEVEL_STOCKS_AT_ONCE ? end - LEVEL_STOCKS_AT_ONCE : 0;
	uint32_t low = 0;
	int rc;

	for (uint32_t i = begin; i < end; i++)
		(void)rows_want(&room->rows, tpcc_key(TPCC_STOCK, room->w, 0, room->items[i]),
			sizeof(struct tpcc_stock));
	rc = rows_read(&room->rows, txn); /* SUSPENDS */
	for (uint32_t i = 0; i < room->rows.count && !rc; i++) {
		const struct tpcc_stock *stock = (const void *)room->rows.rows[i];

		low += stock->quantity < (int32_t)room->threshold;
	}
	room->low = low;
	return rc;
}

/*
 * Up to 300 lines and as many stocks, which are more records than a transaction has.  The
 * specification asks for committed reads alone here (2.8.2.3), so these are up to four
 * transactions.
 */
int
tpcc_stock_level(struct tpcc_room *room)
{
	uint32_t conflicts = 0;
	int rc;

	room->items_count = room->orders_end = 0;
	room->result = 0;
	do {
		rc = rows_run(&room->rows, level_items); /* SUSPENDS */
		conflicts += room->rows.conflicts;
		for (uint32_t i = room->first_line; i < room->rows.count && !rc; i++)
			item_note(room, ((struct tpcc_order_line *)room->rows.rows[i])->item);
		room->order += LEVEL_ORDERS_AT_ONCE;
	} while (!rc && !room->rows.missing && room->order < room->orders_end);
	while (!rc && !room->rows.missing && room->items_count) {
		rc = rows_run(&room->rows, level_stocks); /* SUSPENDS */
		conflicts += room->rows.conflicts;
		room->result += room->low;
		room->items_count -= room->items_count < LEVEL_STOCKS_AT_ONCE ?
			room->items_count : LEVEL_STOCKS_AT_ONCE;
	}
	room->rows.conflicts = conflicts;
	return rc;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* The delivery is committed: no order is new again, and later ones have greater numbers. */
static void
delivery_note(const struct tpcc_room *room)
{
	atomic_fetch_add(&room->tpcc->deliveries, room->delivered);
	for (uint32_t d = 1; d <= TPCC_DISTRICTS; d++) {
		atomic_uint *oldest = &room->tpcc->oldest[(room->w - 1) * TPCC_DISTRICTS + d - 1];
		unsigned before = atomic_load(oldest);

		while (before < room->oldest[d - 1] &&
			!atomic_compare_exchange_weak(oldest, &before, room->oldest[d - 1]))
			;
	}
}

int
tpcc_run(struct tpcc_room *room)
{
	static const nam_txn_fn bodies[TPCC_KINDS] = { tpcc_new_order, tpcc_payment,
		tpcc_order_status, tpcc_delivery };
	int rc;

	if (room->rows.kind == TPCC_LEVELS)
		return tpcc_stock_level(room); /* SUSPENDS */
	rc = rows_run(&room->rows, bodies[room->rows.kind]); /* SUSPENDS */
	if (!rc && room->rows.kind == TPCC_DELIVERIES)
		delivery_note(room);
	return rc;
}
