/* SPDX-License-Identifier: Apache-2.0 */
/*
 * check.c -- the consistency conditions of clause 3.3.2, when no transaction is under way.
 *
 * All rows are read.  Orders and new orders are read by scans of their indexes, whatever
 * D_NEXT_O_ID says, or without indexes by their keys.  Others are read by their keys.  Condition 11
 * holds for the database that was loaded.  Here it is that as many orders are not new as were
 * delivered.
 */
#include "tpcc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/load/check.h"

#define PAGE_ROWS 100u			/* of a transaction that reads */

static const char *const conditions[TPCC_CONDITIONS + 1] = {
	[1] = "W_YTD is the sum of D_YTD",
	[2] = "D_NEXT_O_ID is 1 more than the greatest O_ID and NO_O_ID",
	[3] = "the NO_O_ID of a district are without gaps",
	[4] = "the sum of O_OL_CNT is the number of order lines",
	[5] = "O_CARRIER_ID is null for those orders that are new",
	[6] = "O_OL_CNT is the number of the order's lines",
	[7] = "OL_DELIVERY_D is null for the lines of orders without a carrier",
	[8] = "W_YTD is the sum of H_AMOUNT",
	[9] = "D_YTD is the sum of H_AMOUNT",
	[10] = "C_BALANCE is the sum of OL_AMOUNT, delivered, without that of H_AMOUNT",
	[11] = "orders that are not new are those that were delivered",
	[12] = "C_BALANCE and C_YTD_PAYMENT are the sum of OL_AMOUNT, delivered",
};

/* An order, as far as the check has come. */
struct order {
	uint32_t c;			/* 0: there is no such order */
	uint8_t lines, carrier;
	bool is_new;
};

struct check {
	struct tpcc_room *room;
	uint32_t w, d;
	uint32_t next;			/* D_NEXT_O_ID */
	struct order *orders;		/* below that; NULL until it is known */
	int64_t *delivered;		/* OL_AMOUNT, of each customer */
	uint64_t orders_count, new_count;
	uint32_t last, new_first, new_last;	/* O_ID, NO_O_ID */
	uint64_t lines_said, lines_count;
};

static void
expect(const struct check *check, unsigned condition, int64_t is, int64_t expected)
{
	if (is == expected)
		return;
	atomic_fetch_or(&check->room->tpcc->violated, 1u << condition);
	findings_wrong("TPC-C, consistency condition 3.3.2.%u (%s) is violated in warehouse %u, "
		"district %u: %lld instead of %lld", condition, conditions[condition], check->w,
		check->d, (long long)is, (long long)expected);
}

/* ---- reading --------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
read_body(struct nam_txn *txn, void *arg)
{
	struct rows_room *room = arg;

	room->read = 0;
	/* Rows that are not there are the caller's affair. */
	return nam_txn_read_all(txn, room->gets, room->count); /* SUSPENDS */
}

/* All that was wanted, in a transaction of its own. */
NAM_FIBER_FN static int
read_wanted(struct rows_room *room)
{
	return nam_txn_run(room->worker, room->store, read_body, room, NULL, NULL); /* SUSPENDS */
}

struct page {
	unsigned index;
	const void *low, *high;
	struct rows_room *room;
	uint32_t bytes, count;		/* of a row; rows */
};

NAM_FIBER_FN static int
page_body(struct nam_txn *txn, void *arg)
{
	struct page *page = arg;
	const struct nam_range range = { .low = page->low, .high = page->high,
		.high_inclusive = true };
	struct nam_txn_row found[PAGE_ROWS];
	int rc = nam_txn_scan(txn, page->index, &range, found, PAGE_ROWS,
		&page->count); /* SUSPENDS */

	for (uint32_t i = 0; i < page->count && !rc; i++) {
		if (found[i].value_bytes != page->bytes)
			return -NAM_E_REMOTE_CORRUPT;
		memcpy(page->room->rows[i], found[i].value, page->bytes);
	}
	return rc;
}

NAM_FIBER_FN static int
page_read(struct page *page)
{
	return nam_txn_run(page->room->worker, page->room->store, page_body, page, NULL,
		NULL); /* SUSPENDS */
}

/* ---- payments -------------------------------------------------------------------------------- */

static int
payments_add(struct tpcc_room *room, bool sure)
{
	struct tpcc *tpcc = room->tpcc;
	int rc = read_wanted(&room->rows); /* SUSPENDS */

	for (uint32_t i = 0; i < room->rows.count && !rc; i++) {
		const struct tpcc_history *history = (const void *)room->rows.rows[i];

		if (room->rows.gets[i].rc) {
			if (sure)
				findings_missing(1, "TPC-C: a payment is not in HISTORY");
			continue;
		}
		atomic_fetch_add(&tpcc->paid_there[tpcc_customer_at(tpcc, history->w, history->d,
			1) / tpcc->scale.customers], history->amount);
		atomic_fetch_add(&tpcc->paid_by[tpcc_customer_at(tpcc, history->c_w, history->c_d,
			history->c)], history->amount);
	}
	room->rows.count = 0;
	return rc;
}

NAM_FIBER_FN static int
payment_want(struct tpcc_room *room, uint64_t key, bool sure)
{
	(void)rows_want(&room->rows, key, sizeof(struct tpcc_history));
	return room->rows.count < PAGE_ROWS ? 0 : payments_add(room, sure); /* SUSPENDS */
}

int
tpcc_check_loaded(struct tpcc_room *room, uint32_t unit)
{
	const struct tpcc_scale *scale = &room->tpcc->scale;
	int rc = 0;

	for (uint32_t c = 1; c <= scale->customers && scale->all && !rc; c++)
		rc = payment_want(room, tpcc_key(TPCC_HISTORY, 1 + unit / TPCC_DISTRICTS,
			1 + unit % TPCC_DISTRICTS, c), true); /* SUSPENDS */
	return rc ? rc : payments_add(room, true); /* SUSPENDS */
}

int
tpcc_check_paid(struct tpcc_room *room, uint32_t terminal, uint32_t first, uint32_t count,
	bool sure)
{
	int rc = 0;

	for (uint32_t i = first; i < first + count && !rc; i++)
		rc = payment_want(room, tpcc_history_key(terminal, i), sure); /* SUSPENDS */
	return rc ? rc : payments_add(room, sure); /* SUSPENDS */
}

/* ---- orders ---------------------------------------------------------------------------------- */

static void
order_add(struct check *check, const struct tpcc_order *row)
{
	uint32_t o = be32toh(row->by_customer.o), c = be32toh(row->by_customer.c);

	check->orders_count++;
	check->lines_said += row->lines;
	check->last = o > check->last ? o : check->last;
	if (o < check->next && c <= check->room->tpcc->scale.customers)
		check->orders[o] = (struct order){ c, row->lines, row->carrier, false };
}

NAM_FIBER_FN static int
orders_scan(struct check *check)
{
	struct tpcc_customer_key low = tpcc_customer_key(check->w, check->d, 0, 0);
	const struct tpcc_customer_key high = tpcc_customer_key(check->w, check->d, UINT32_MAX,
		UINT32_MAX);
	struct page page = { TPCC_BY_CUSTOMER, &low, &high, &check->room->rows,
		sizeof(struct tpcc_order), PAGE_ROWS };
	int rc = 0;

	while (!rc && page.count == PAGE_ROWS) {
		rc = page_read(&page); /* SUSPENDS */
		for (uint32_t i = 0; i < page.count && !rc; i++) {
			const struct tpcc_order *row = (const void *)page.room->rows[i];

			order_add(check, row);
			low = row->by_customer;
		}
		low.o = htobe32(be32toh(low.o) + 1);
	}
	return rc;
}

static void
new_order_add(struct check *check, uint32_t o)
{
	bool known = o < check->next && check->orders[o].c;

	check->new_first = check->new_count++ ? check->new_first : o;
	check->new_last = o;
	if (known)
		check->orders[o].is_new = true;
	else
		expect(check, 5, o, 0);
}

/* Orders, or new orders, by their keys. */
NAM_FIBER_FN static int
orders_read(struct check *check, enum tpcc_table table, uint32_t bytes, uint32_t last)
{
	struct rows_room *rows = &check->room->rows;
	int rc = 0;

	for (uint32_t first = 1; first <= last && !rc; first += PAGE_ROWS) {
		rows->count = 0;
		for (uint32_t o = first; o < first + PAGE_ROWS && o <= last; o++)
			(void)rows_want(rows, tpcc_key(table, check->w, check->d, o), bytes);
		rc = read_wanted(rows); /* SUSPENDS */
		for (uint32_t i = 0; i < rows->count && !rc; i++) {
			if (rows->gets[i].rc)
				continue;
			if (table == TPCC_ORDER)
				order_add(check, (const void *)rows->rows[i]);
			else
				new_order_add(check, first + i);
		}
	}
	return rc;
}

/* Those that were delivered are read by their keys, so that no scan passes emptied leaves. */
NAM_FIBER_FN static int
new_orders_scan(struct check *check)
{
	const struct tpcc *tpcc = check->room->tpcc;
	uint32_t oldest = atomic_load(&tpcc->oldest[(check->w - 1) * TPCC_DISTRICTS +
		check->d - 1]);
	struct tpcc_age_key low = tpcc_age_key(check->w, check->d, oldest);
	const struct tpcc_age_key high = tpcc_age_key(check->w, check->d, UINT32_MAX);
	struct page page = { TPCC_BY_AGE, &low, &high, &check->room->rows,
		sizeof(struct tpcc_new_order), PAGE_ROWS };
	int rc = orders_read(check, TPCC_NEW_ORDER, page.bytes,
		oldest ? oldest - 1 : 0); /* SUSPENDS */

	while (!rc && page.count == PAGE_ROWS) {
		rc = page_read(&page); /* SUSPENDS */
		for (uint32_t i = 0; i < page.count && !rc; i++) {
			const struct tpcc_new_order *row = (const void *)page.room->rows[i];

			new_order_add(check, be32toh(row->by_age.o));
			low = row->by_age;
		}
		low.o = htobe32(be32toh(low.o) + 1);
	}
	return rc;
}

/* All lines that there may be. */
NAM_FIBER_FN static int
lines_check(struct check *check, uint32_t o)
{
	struct rows_room *rows = &check->room->rows;
	const struct order *order = &check->orders[o];
	int64_t count = 0, wrong = 0;
	int rc;

	rows->count = 0;
	for (uint32_t i = 1; i <= TPCC_LINES_MAX; i++)
		(void)rows_want(rows, tpcc_line_key(check->w, check->d, o, i),
			sizeof(struct tpcc_order_line));
	rc = read_wanted(rows); /* SUSPENDS */
	for (uint32_t i = 0; i < rows->count && !rc; i++) {
		const struct tpcc_order_line *line = (const void *)rows->rows[i];

		if (rows->gets[i].rc)
			continue;
		count++;
		wrong += !line->delivery_date != !order->carrier;
		if (line->delivery_date && order->c)
			check->delivered[order->c - 1] += line->amount;
	}
	if (rc)
		return rc;
	check->lines_count += (uint64_t)count;
	if (!order->c)
		return 0;
	expect(check, 5, !order->carrier, order->is_new);
	expect(check, 6, count, order->lines);
	expect(check, 7, wrong, 0);
	return 0;
}

/* ---- a district ------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
customers_check(struct check *check)
{
	struct rows_room *rows = &check->room->rows;
	struct tpcc *tpcc = check->room->tpcc;
	uint32_t customers = tpcc->scale.customers;
	int rc = 0;

	for (uint32_t first = 1; first <= customers && !rc; first += PAGE_ROWS) {
		rows->count = 0;
		for (uint32_t c = first; c < first + PAGE_ROWS && c <= customers; c++)
			(void)rows_want(rows, tpcc_key(TPCC_CUSTOMER, check->w, check->d, c),
				sizeof(struct tpcc_customer));
		rc = read_wanted(rows); /* SUSPENDS */
		for (uint32_t i = 0; i < rows->count && !rc; i++) {
			const struct tpcc_customer *row = (const void *)rows->rows[i];
			int64_t delivered = check->delivered[first - 1 + i];
			int64_t paid = atomic_load(&tpcc->paid_by[tpcc_customer_at(tpcc, check->w,
				check->d, first + i)]);

			if (rows->gets[i].rc) {
				findings_missing(1, "TPC-C: a customer is not there");
				continue;
			}
			expect(check, 10, row->balance, delivered - paid);
			expect(check, 12, row->balance + row->ytd_payment, delivered);
		}
	}
	return rc;
}

/* Its own row, and with the first one of a warehouse that of the warehouse. */
NAM_FIBER_FN static int
places_check(struct check *check)
{
	struct rows_room *rows = &check->room->rows;
	const struct tpcc *tpcc = check->room->tpcc;
	const size_t first = (size_t)(check->w - 1) * TPCC_DISTRICTS;
	int64_t paid = 0, ytd = 0;
	int rc;

	rows->count = 0;
	for (uint32_t d = 1; d <= TPCC_DISTRICTS; d++)
		(void)rows_want(rows, tpcc_key(TPCC_DISTRICT, check->w, d, 0),
			sizeof(struct tpcc_district));
	(void)rows_want(rows, tpcc_key(TPCC_WAREHOUSE, check->w, 0, 0),
		sizeof(struct tpcc_warehouse));
	rc = read_wanted(rows); /* SUSPENDS */
	for (uint32_t i = 0; i < rows->count && !rc; i++)
		if (rows->gets[i].rc)
			return -NAM_E_NOTFOUND;
	for (uint32_t d = 1; d <= TPCC_DISTRICTS && !rc; d++) {
		const struct tpcc_district *row = (const void *)rows->rows[d - 1];
		int64_t there = atomic_load(&tpcc->paid_there[first + d - 1]);

		paid += there;
		ytd += row->ytd;
		if (d != check->d)
			continue;
		check->next = row->next_order;
		expect(check, 9, row->ytd, there);
	}
	if (!rc && check->d == 1) {
		const struct tpcc_warehouse *row = (const void *)rows->rows[TPCC_DISTRICTS];

		expect(check, 1, row->ytd, ytd);
		expect(check, 8, row->ytd, paid);
	}
	return rc;
}

NAM_FIBER_FN static int
orders_check(struct check *check)
{
	bool indexed = check->room->tpcc->scale.all;
	/* By keys one more is looked for. */
	int rc = indexed ? orders_scan(check) : orders_read(check, TPCC_ORDER,
		sizeof(struct tpcc_order), check->next); /* SUSPENDS */

	if (!rc)
		rc = indexed ? new_orders_scan(check) : orders_read(check, TPCC_NEW_ORDER,
			sizeof(struct tpcc_new_order), check->next); /* SUSPENDS */
	for (uint32_t o = 1; o < check->next && !rc; o++)
		rc = lines_check(check, o); /* SUSPENDS */
	if (!rc)
		rc = customers_check(check); /* SUSPENDS */
	if (rc)
		return rc;
	expect(check, 2, check->next, check->last + 1);
	if (check->new_count) {
		expect(check, 2, check->next, check->new_last + 1);
		expect(check, 3, (int64_t)check->new_count,
			check->new_last - check->new_first + 1);
	}
	expect(check, 4, (int64_t)check->lines_count, (int64_t)check->lines_said);
	atomic_fetch_add(&check->room->tpcc->ordered, check->orders_count);
	atomic_fetch_add(&check->room->tpcc->undelivered, check->new_count);
	return 0;
}

int
tpcc_check_district(struct tpcc_room *room, uint32_t unit)
{
	struct check check = { .room = room, .w = 1 + unit / TPCC_DISTRICTS,
		.d = 1 + unit % TPCC_DISTRICTS };
	int rc = places_check(&check); /* SUSPENDS */

	if (rc)
		return rc;
	check.orders = calloc(check.next, sizeof(*check.orders));
	check.delivered = calloc(room->tpcc->scale.customers, sizeof(*check.delivered));
	rc = check.orders && check.delivered ? orders_check(&check) : -ENOMEM; /* SUSPENDS */
	free(check.orders);
	free(check.delivered);
	return rc;
}

void
tpcc_check_all(struct tpcc *tpcc)
{
	int64_t delivered = (int64_t)atomic_load(&tpcc->ordered) -
		(int64_t)atomic_load(&tpcc->undelivered);
	int64_t expected = (int64_t)atomic_load(&tpcc->deliveries);

	if (delivered == expected)
		return;
	atomic_fetch_or(&tpcc->violated, 1u << 11);
	findings_wrong("TPC-C, consistency condition 3.3.2.11 (%s) is violated: %lld instead of "
		"%lld", conditions[11], (long long)delivered, (long long)expected);
}
