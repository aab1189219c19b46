/* SPDX-License-Identifier: Apache-2.0 */
/* payment.c -- the payment transaction (clause 2.5); customers by number or by last name. */
#include "tpcc.h"

#include <string.h>

#define NAMESAKES_MAX 100u		/* 3 on average of 3,000 customers */

/* The one in the middle of those with that last name, by first name (2.5.2.2). */
NAM_FIBER_FN static int
find_by_name(struct tpcc_room *room, struct nam_txn *txn)
{
	struct nam_txn_row found[NAMESAKES_MAX];
	struct tpcc_name_key low = { .w = htobe16((uint16_t)room->c_w),
		.d = htobe16((uint16_t)room->c_d) }, high;
	const struct nam_range range = { .low = &low, .high = &high, .high_inclusive = true };
	uint32_t count = 0;
	int rc;

	memcpy(low.last, room->last, sizeof(low.last));
	high = low;
	memset(high.first, UINT8_MAX, sizeof(high.first));
	rc = nam_txn_scan(txn, TPCC_BY_NAME, &range, found, NAMESAKES_MAX, &count); /* SUSPENDS */
	if (rc)
		return rc;
	if (!count || found[(count - 1) / 2].value_bytes != sizeof(room->customer)) {
		room->rows.missing = true;
		return ROWS_MISSING;
	}
	memcpy(&room->customer, found[(count - 1) / 2].value, sizeof(room->customer));
	return 0;
}

int
tpcc_customer_find(struct tpcc_room *room, struct nam_txn *txn,
	struct tpcc_customer **ret_customer)
{
	if (!room->c) {
		*ret_customer = &room->customer;
		return find_by_name(room, txn); /* SUSPENDS */
	}
	*ret_customer = rows_want(&room->rows,
		tpcc_key(TPCC_CUSTOMER, room->c_w, room->c_d, room->c), sizeof(**ret_customer));
	return rows_read(&room->rows, txn); /* SUSPENDS */
}

/* A customer with bad credit: what was paid goes before the rest of C_DATA (2.5.2.2). */
NAM_FIBER_FN static int
data_change(struct tpcc_room *room, struct nam_txn *txn, const struct tpcc_customer *customer)
{
	char text[TPCC_DATA_PARTS * TPCC_DATA_BYTES], entry[64];
	struct tpcc_customer_data *halves[TPCC_DATA_PARTS];
	uint64_t keys[TPCC_DATA_PARTS];
	size_t length;
	int rc;

	for (uint32_t i = 0; i < TPCC_DATA_PARTS; i++) {
		keys[i] = tpcc_key(TPCC_CUSTOMER_DATA, room->c_w, room->c_d, 2 * customer->c + i);
		halves[i] = rows_want(&room->rows, keys[i], sizeof(*halves[i]));
	}
	rc = rows_read(&room->rows, txn); /* SUSPENDS */
	if (rc)
		return rc;
	(void)snprintf(entry, sizeof(entry), "%u %u %u %u %u %lld|", customer->c, room->c_d,
		room->c_w, room->d, room->w, (long long)room->amount);
	length = strlen(entry);
	for (uint32_t i = 0; i < TPCC_DATA_PARTS; i++)
		memcpy(text + i * TPCC_DATA_BYTES, halves[i], TPCC_DATA_BYTES);
	memmove(text + length, text, sizeof(text) - length);
	memcpy(text, entry, length);
	for (uint32_t i = 0; i < TPCC_DATA_PARTS && !rc; i++)
		rc = rows_write(txn, keys[i], text + i * TPCC_DATA_BYTES, TPCC_DATA_BYTES);
	return rc;
}

static int
history_write(const struct tpcc_room *room, struct nam_txn *txn, uint32_t c,
	const struct tpcc_warehouse *warehouse, const struct tpcc_district *district)
{
	struct tpcc_history history = { .c = c, .c_w = (uint16_t)room->c_w,
		.c_d = (uint16_t)room->c_d, .w = (uint16_t)room->w, .d = (uint16_t)room->d,
		.date = room->date, .amount = room->amount };

	memcpy(history.data, warehouse->name, sizeof(warehouse->name));
	memcpy(history.data + sizeof(warehouse->name) + 4, district->name, sizeof(district->name));
	return rows_write(txn, room->history_key, &history, sizeof(history));
}

int
tpcc_payment(struct nam_txn *txn, void *arg)
{
	struct tpcc_room *room = arg;
	uint64_t warehouse_key = tpcc_key(TPCC_WAREHOUSE, room->w, 0, 0);
	uint64_t district_key = tpcc_key(TPCC_DISTRICT, room->w, room->d, 0);
	struct tpcc_warehouse *warehouse = rows_want(&room->rows, warehouse_key,
		sizeof(*warehouse));
	struct tpcc_district *district = rows_want(&room->rows, district_key, sizeof(*district));
	struct tpcc_customer *customer;
	int rc = room->c ? 0 : rows_read(&room->rows, txn); /* SUSPENDS */

	if (!rc)
		rc = tpcc_customer_find(room, txn, &customer); /* SUSPENDS */
	if (!rc && customer->credit[0] == 'B')
		rc = data_change(room, txn, customer); /* SUSPENDS */
	if (rc)
		return rc;
	warehouse->ytd += room->amount;
	district->ytd += room->amount;
	customer->balance -= room->amount;
	customer->ytd_payment += room->amount;
	customer->payments++;
	rc = rows_write(txn, warehouse_key, warehouse, sizeof(*warehouse));
	if (!rc)
		rc = rows_write(txn, district_key, district, sizeof(*district));
	if (!rc)
		rc = rows_write(txn, tpcc_key(TPCC_CUSTOMER, room->c_w, room->c_d, customer->c),
			customer, sizeof(*customer));
	return rc ? rc : history_write(room, txn, customer->c, warehouse, district);
}
