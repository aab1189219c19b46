/* SPDX-License-Identifier: Apache-2.0 */
/*
 * new_order.c -- the new-order transaction (clause 2.4).
 *
 * The district gives the order a number of its own.  So its rows are new, and written without a
 * look at them.
 */
#include "tpcc.h"

#include <string.h>

static struct tpcc_stock *
stock_want(struct tpcc_room *room, const struct tpcc_line *line)
{
	/* The same item again changes the same row. */
	for (const struct tpcc_line *other = room->lines; other < line; other++)
		if (other->item == line->item && other->supply_w == line->supply_w)
			return other->stock;
	return rows_want(&room->rows, tpcc_key(TPCC_STOCK, line->supply_w, 0, line->item),
		sizeof(struct tpcc_stock));
}

static void
stock_take(struct tpcc_stock *stock, uint32_t quantity, bool remote)
{
	int32_t left = stock->quantity - (int32_t)quantity;

	stock->quantity = (int16_t)(left >= 10 ? left : left + 91);
	stock->ytd += quantity;
	stock->orders++;
	stock->remotes = (uint16_t)(stock->remotes + remote);
}

static int
line_write(struct tpcc_room *room, struct nam_txn *txn, uint32_t i, uint32_t o, int64_t *amount)
{
	struct tpcc_line *line = &room->lines[i];
	struct tpcc_order_line row = { .item = line->item, .supply_w = (uint16_t)line->supply_w,
		.quantity = (uint8_t)line->quantity,
		.amount = (int64_t)line->quantity * room->tpcc->items[line->item - 1].price };
	int rc;

	stock_take(line->stock, line->quantity, line->supply_w != room->w);
	memcpy(row.dist_info, line->stock->dist[room->d - 1], sizeof(row.dist_info));
	*amount += row.amount;
	rc = rows_write(txn, tpcc_key(TPCC_STOCK, line->supply_w, 0, line->item), line->stock,
		sizeof(*line->stock));
	return rc ? rc : rows_write(txn, tpcc_line_key(room->w, room->d, o, i + 1), &row,
		sizeof(row));
}

static int
order_write(struct tpcc_room *room, struct nam_txn *txn, uint32_t o)
{
	struct tpcc_new_order new_order = { tpcc_age_key(room->w, room->d, o) };
	struct tpcc_order order = {
		.by_customer = tpcc_customer_key(room->w, room->d, room->c, o),
		.entry_date = room->date, .lines = (uint8_t)room->lines_count, .all_local = 1 };
	int rc;

	for (uint32_t i = 0; i < room->lines_count; i++)
		order.all_local &= room->lines[i].supply_w == room->w;
	rc = rows_write(txn, tpcc_key(TPCC_ORDER, room->w, room->d, o), &order, sizeof(order));
	return rc ? rc : rows_write(txn, tpcc_key(TPCC_NEW_ORDER, room->w, room->d, o), &new_order,
		sizeof(new_order));
}

int
tpcc_new_order(struct nam_txn *txn, void *arg)
{
	struct tpcc_room *room = arg;
	struct tpcc_line *last = &room->lines[room->lines_count - 1];
	const struct tpcc_warehouse *warehouse = rows_want(&room->rows,
		tpcc_key(TPCC_WAREHOUSE, room->w, 0, 0), sizeof(*warehouse));
	struct tpcc_district *district = rows_want(&room->rows,
		tpcc_key(TPCC_DISTRICT, room->w, room->d, 0), sizeof(*district));
	const struct tpcc_customer *customer = rows_want(&room->rows,
		tpcc_key(TPCC_CUSTOMER, room->w, room->d, room->c), sizeof(*customer));
	bool unused = last->item > room->tpcc->scale.items;
	int64_t amount = 0;
	uint32_t o;
	int rc;

	for (uint32_t i = 0; i < room->lines_count - unused; i++)
		room->lines[i].stock = stock_want(room, &room->lines[i]);
	rc = rows_read(&room->rows, txn); /* SUSPENDS */
	if (rc || unused)
		return rc ? rc : ROWS_ROLLED_BACK;
	o = district->next_order++;
	rc = rows_write(txn, tpcc_key(TPCC_DISTRICT, room->w, room->d, 0), district,
		sizeof(*district));
	if (!rc)
		rc = order_write(room, txn, o);
	for (uint32_t i = 0; i < room->lines_count && !rc; i++)
		rc = line_write(room, txn, i, o, &amount);
	room->result = (uint64_t)(amount * (10000 - customer->discount) / 10000 *
		(10000 + warehouse->tax + district->tax) / 10000);
	return rc;
}
