/* SPDX-License-Identifier: Apache-2.0 */
/* load.c -- the database as clause 4.3.3 populates it, scaled; a district at a time. */
#include "tpcc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define TAX_MAX 2000u
#define PAID 1000			/* by each customer */
#define UNDELIVERED_PERCENT 30u
#define ORIGINAL_PERCENT 10u
#define BAD_CREDIT_PERCENT 10u
#define LINES_MEAN 10u

void
tpcc_store_options(const struct tpcc *tpcc, struct nam_txn_store_options *options)
{
	const struct tpcc_scale *scale = &tpcc->scale;
	uint64_t customer = 1 + TPCC_DATA_PARTS + (scale->all ? 3 + LINES_MEAN : 0);

	options->value_bytes_max = sizeof(struct tpcc_stock);
	options->records = scale->items + (uint64_t)scale->warehouses * (scale->items +
		TPCC_DISTRICTS * (1 + scale->customers * customer));
	if (!scale->all)
		return;
	options->indexes[TPCC_BY_NAME] = (struct nam_txn_index){
		offsetof(struct tpcc_customer, by_name), sizeof(struct tpcc_name_key),
		TPCC_CUSTOMER };
	options->indexes[TPCC_BY_CUSTOMER] = (struct nam_txn_index){
		offsetof(struct tpcc_order, by_customer), sizeof(struct tpcc_customer_key),
		TPCC_ORDER };
	options->indexes[TPCC_BY_AGE] = (struct nam_txn_index){
		offsetof(struct tpcc_new_order, by_age), sizeof(struct tpcc_age_key),
		TPCC_NEW_ORDER };
}

struct load {
	struct tpcc_room *room;
	uint32_t w, d;
	struct nam_rng rng;
	uint64_t date;
};

NAM_FIBER_FN static int
load(struct load *load, uint64_t key, const void *row, size_t bytes)
{
	return rows_load(&load->room->rows, key, row, (uint32_t)bytes); /* SUSPENDS */
}

static void
draw_data(struct nam_rng *rng, char *data, size_t bytes)
{
	static const char original[] = "ORIGINAL";
	const size_t length = sizeof(original) - 1;

	tpcc_text(rng, data, bytes);
	if (nam_rng_below(rng, 100) < ORIGINAL_PERCENT)
		memcpy(data + nam_rng_below(rng, bytes - length), original, length);
}

static void
draw_address(struct nam_rng *rng, struct tpcc_address *address)
{
	tpcc_text(rng, (char *)address, sizeof(*address));
	memset(address->zip + 4, '1', sizeof(address->zip) - 4);
}

/* Items and stocks whose numbers are of this unit. */
NAM_FIBER_FN static int
load_items(struct load *one, uint32_t unit)
{
	const struct tpcc *tpcc = one->room->tpcc;
	uint32_t units = tpcc_units(tpcc);
	int rc = 0;

	for (uint32_t i = 1 + unit; i <= tpcc->scale.items && !rc; i += units) {
		struct tpcc_item item = { .image = tpcc_random(&one->rng, 1, 10000),
			.price = (int32_t)tpcc_random(&one->rng, 100, 10000) };

		tpcc_text(&one->rng, item.name, tpcc_random(&one->rng, 14, 24));
		draw_data(&one->rng, item.data, tpcc_random(&one->rng, 26, 50));
		rc = load(one, tpcc_key(TPCC_ITEM, 0, 0, i), &item, sizeof(item)); /* SUSPENDS */
	}
	for (uint32_t i = one->d; i <= tpcc->scale.items && !rc; i += TPCC_DISTRICTS) {
		struct tpcc_stock stock = {
			.quantity = (int16_t)tpcc_random(&one->rng, 10, 100) };

		tpcc_text(&one->rng, stock.dist[0], sizeof(stock.dist));
		draw_data(&one->rng, stock.data, tpcc_random(&one->rng, 26, 50));
		rc = load(one, tpcc_key(TPCC_STOCK, one->w, 0, i), &stock,
			sizeof(stock)); /* SUSPENDS */
	}
	return rc;
}

NAM_FIBER_FN static int
load_places(struct load *one)
{
	const struct tpcc_scale *scale = &one->room->tpcc->scale;
	int64_t ytd = scale->all ? (int64_t)PAID * scale->customers : 0;
	struct tpcc_warehouse warehouse = { .ytd = TPCC_DISTRICTS * ytd };
	struct tpcc_district district = { .ytd = ytd,
		.next_order = scale->all ? scale->customers + 1 : 1 };
	int rc = 0;

	tpcc_text(&one->rng, district.name, sizeof(district.name));
	draw_address(&one->rng, &district.address);
	district.tax = (int32_t)tpcc_random(&one->rng, 0, TAX_MAX);
	if (one->d == 1) {
		tpcc_text(&one->rng, warehouse.name, sizeof(warehouse.name));
		draw_address(&one->rng, &warehouse.address);
		warehouse.tax = (int32_t)tpcc_random(&one->rng, 0, TAX_MAX);
		rc = load(one, tpcc_key(TPCC_WAREHOUSE, one->w, 0, 0), &warehouse,
			sizeof(warehouse)); /* SUSPENDS */
	}
	return rc ? rc : load(one, tpcc_key(TPCC_DISTRICT, one->w, one->d, 0), &district,
		sizeof(district)); /* SUSPENDS */
}

NAM_FIBER_FN static int
load_payment(struct load *one, uint32_t c)
{
	struct tpcc_history history = { .c = c, .c_w = (uint16_t)one->w, .c_d = (uint16_t)one->d,
		.w = (uint16_t)one->w, .d = (uint16_t)one->d, .date = one->date, .amount = PAID };

	tpcc_text(&one->rng, history.data, sizeof(history.data));
	return load(one, tpcc_key(TPCC_HISTORY, one->w, one->d, c), &history,
		sizeof(history)); /* SUSPENDS */
}

NAM_FIBER_FN static int
load_customer(struct load *one, uint32_t c)
{
	const struct tpcc *tpcc = one->room->tpcc;
	bool paid = tpcc->scale.all;
	struct tpcc_customer customer = {
		.by_name = { .w = htobe16((uint16_t)one->w), .d = htobe16((uint16_t)one->d) },
		.c = c, .middle = "OE", .credit = "GC", .since = one->date,
		.credit_limit = 5000000, .discount = (int32_t)tpcc_random(&one->rng, 0, 5000),
		.balance = paid ? -PAID : 0, .ytd_payment = paid ? PAID : 0, .payments = paid };
	struct tpcc_customer_data data;
	int rc;

	tpcc_last_name(c <= TPCC_NAMES ? c - 1 : tpcc_random_name(tpcc, &one->rng, true),
		customer.by_name.last);
	tpcc_text(&one->rng, customer.by_name.first, tpcc_random(&one->rng, 8, 16));
	draw_address(&one->rng, &customer.address);
	tpcc_text(&one->rng, customer.phone, sizeof(customer.phone));
	if (nam_rng_below(&one->rng, 100) < BAD_CREDIT_PERCENT)
		customer.credit[0] = 'B';
	rc = load(one, tpcc_key(TPCC_CUSTOMER, one->w, one->d, c), &customer,
		sizeof(customer)); /* SUSPENDS */
	for (uint32_t half = 0; half < TPCC_DATA_PARTS && !rc; half++) {
		tpcc_text(&one->rng, data.data, sizeof(data.data));
		rc = load(one, tpcc_key(TPCC_CUSTOMER_DATA, one->w, one->d, 2 * c + half), &data,
			sizeof(data)); /* SUSPENDS */
	}
	return rc || !paid ? rc : load_payment(one, c); /* SUSPENDS */
}

NAM_FIBER_FN static int
load_order(struct load *one, uint32_t o, uint32_t c)
{
	const struct tpcc *tpcc = one->room->tpcc;
	bool delivered = o <= tpcc->scale.customers -
		tpcc->scale.customers * UNDELIVERED_PERCENT / 100;
	struct tpcc_order order = { .by_customer = tpcc_customer_key(one->w, one->d, c, o),
		.entry_date = one->date,
		.carrier = (uint8_t)(delivered ? tpcc_random(&one->rng, 1, 10) : 0),
		.lines = (uint8_t)tpcc_random(&one->rng, TPCC_LINES_MIN, TPCC_LINES_MAX),
		.all_local = 1 };
	struct tpcc_new_order new_order = { tpcc_age_key(one->w, one->d, o) };
	int rc = load(one, tpcc_key(TPCC_ORDER, one->w, one->d, o), &order,
		sizeof(order)); /* SUSPENDS */

	for (uint32_t i = 1; i <= order.lines && !rc; i++) {
		struct tpcc_order_line line = {
			.item = tpcc_random(&one->rng, 1, tpcc->scale.items),
			.supply_w = (uint16_t)one->w, .delivery_date = delivered ? one->date : 0,
			.quantity = 5,
			.amount = delivered ? 0 : tpcc_random(&one->rng, 1, 999999) };

		tpcc_text(&one->rng, line.dist_info, sizeof(line.dist_info));
		rc = load(one, tpcc_line_key(one->w, one->d, o, i), &line,
			sizeof(line)); /* SUSPENDS */
	}
	atomic_fetch_add(&one->room->tpcc->deliveries, delivered);
	return rc || delivered ? rc : load(one, tpcc_key(TPCC_NEW_ORDER, one->w, one->d, o),
		&new_order, sizeof(new_order)); /* SUSPENDS */
}

/* One order of each customer, in a random order. */
NAM_FIBER_FN static int
load_orders(struct load *one)
{
	uint32_t customers = one->room->tpcc->scale.customers;
	uint32_t *c = calloc(customers + 1, sizeof(*c));
	int rc = c ? 0 : -ENOMEM;

	for (uint32_t o = 1; o <= customers && c; o++) {
		uint32_t other = tpcc_random(&one->rng, 1, o);

		c[o] = c[other];
		c[other] = o;
	}
	for (uint32_t o = 1; o <= customers && !rc; o++)
		rc = load_order(one, o, c[o]); /* SUSPENDS */
	free(c);
	return rc;
}

int
tpcc_load(struct tpcc_room *room, uint32_t unit)
{
	const struct tpcc_scale *scale = &room->tpcc->scale;
	struct load one = { .room = room, .w = 1 + unit / TPCC_DISTRICTS,
		.d = 1 + unit % TPCC_DISTRICTS, .rng = nam_rng_seed(unit),
		.date = nam_wall_ns() | 1 };
	int rc = load_items(&one, unit); /* SUSPENDS */

	if (!rc)
		rc = load_places(&one); /* SUSPENDS */
	for (uint32_t c = 1; c <= scale->customers && !rc; c++)
		rc = load_customer(&one, c); /* SUSPENDS */
	if (!rc && scale->all)
		rc = load_orders(&one); /* SUSPENDS */
	return rc ? rc : rows_load_end(&room->rows); /* SUSPENDS */
}

/* ---- caches ---------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
read_item(struct tpcc_room *room, uint32_t i)
{
	uint32_t bytes = 0;
	struct nam_txn *txn;
	uint64_t key = tpcc_key(TPCC_ITEM, 0, 0, i);
	int rc = nam_txn_begin(room->rows.worker, room->rows.store, &txn);

	if (rc)
		return rc;
	rc = nam_txn_read(txn, &key, sizeof(key), &room->tpcc->items[i - 1],
		sizeof(struct tpcc_item), &bytes); /* SUSPENDS */
	nam_txn_abort(txn);
	return rc;
}

int
tpcc_warm(struct tpcc_room *room, uint32_t unit, bool items)
{
	const struct tpcc *tpcc = room->tpcc;
	uint32_t w = 1 + unit / TPCC_DISTRICTS, d = 1 + unit % TPCC_DISTRICTS;
	int rc = 0;

	for (uint32_t i = 1 + unit; i <= tpcc->scale.items && !rc && items; i += tpcc_units(tpcc))
		rc = read_item(room, i); /* SUSPENDS */
	for (uint32_t i = d; i <= tpcc->scale.items && !rc; i += TPCC_DISTRICTS)
		rc = rows_warm(&room->rows, tpcc_key(TPCC_STOCK, w, 0, i),
			sizeof(struct tpcc_stock)); /* SUSPENDS */
	for (uint32_t c = 1; c <= tpcc->scale.customers && !rc; c++)
		rc = rows_warm(&room->rows, tpcc_key(TPCC_CUSTOMER, w, d, c),
			sizeof(struct tpcc_customer)); /* SUSPENDS */
	if (!rc)
		rc = rows_warm(&room->rows, tpcc_key(TPCC_DISTRICT, w, d, 0),
			sizeof(struct tpcc_district)); /* SUSPENDS */
	if (!rc && d == 1)
		rc = rows_warm(&room->rows, tpcc_key(TPCC_WAREHOUSE, w, 0, 0),
			sizeof(struct tpcc_warehouse)); /* SUSPENDS */
	return rc ? rc : rows_warm_end(&room->rows); /* SUSPENDS */
}
