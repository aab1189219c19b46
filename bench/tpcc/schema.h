/* SPDX-License-Identifier: Apache-2.0 */
/*
 * schema.h -- the tables of TPC-C (revision 5.11, clause 1.3): keys, rows and indexes.
 *
 * Columns that the key has are left out, unless an index needs them.  Money is in cents, taxes and
 * discounts are in 1/10,000.  Texts of variable length end with zeroes.
 */
#ifndef NAM_BENCH_TPCC_SCHEMA_H
#define NAM_BENCH_TPCC_SCHEMA_H

#include "bench/txn/rows.h"

#define TPCC_DISTRICTS 10u		/* of a warehouse */
#define TPCC_LINES_MIN 5u		/* of an order */
#define TPCC_LINES_MAX 15u
#define TPCC_LAST_BYTES 16u
#define TPCC_DIST_BYTES 24u
#define TPCC_DATA_PARTS 2u		/* of C_DATA, a record each */
#define TPCC_DATA_BYTES 250u
#define TPCC_PACKED __attribute__((packed))

enum tpcc_table {
	TPCC_WAREHOUSE = 1,
	TPCC_DISTRICT,
	TPCC_CUSTOMER,
	TPCC_CUSTOMER_DATA,
	TPCC_HISTORY,
	TPCC_NEW_ORDER,
	TPCC_ORDER,
	TPCC_ORDER_LINE,
	TPCC_ITEM,
	TPCC_STOCK,
};

enum tpcc_index { TPCC_BY_NAME, TPCC_BY_CUSTOMER, TPCC_BY_AGE };

/* 20 + 20 + 20 + 2 + 9 = 71 bytes. */
struct TPCC_PACKED tpcc_address {
	char street_1[20], street_2[20], city[20], state[2], zip[9];
};

/* 10 + 71 + 4 + 8 = 93 bytes.  Key: W_ID. */
struct TPCC_PACKED tpcc_warehouse {
	char name[10];
	struct tpcc_address address;
	int32_t tax;
	int64_t ytd;
};

/* 10 + 71 + 4 + 8 + 4 = 97 bytes.  Key: D_W_ID, D_ID. */
struct TPCC_PACKED tpcc_district {
	char name[10];
	struct tpcc_address address;
	int32_t tax;
	int64_t ytd;
	uint32_t next_order;		/* D_NEXT_O_ID */
};

/* Numbers in keys of indexes are big-endian. */
struct TPCC_PACKED tpcc_name_key {
	uint16_t w, d;
	char last[TPCC_LAST_BYTES], first[16];
};

/* 36 + 4 + 2 + 71 + 16 + 8 + 2 + 8 + 4 + 8 + 8 + 4 + 4 = 175 bytes.  Key: C_W_ID, C_D_ID, C_ID. */
struct TPCC_PACKED tpcc_customer {
	struct tpcc_name_key by_name;
	uint32_t c;
	char middle[2];
	struct tpcc_address address;
	char phone[16];
	uint64_t since;
	char credit[2];			/* GC, BC */
	int64_t credit_limit;
	int32_t discount;
	int64_t balance, ytd_payment;
	uint32_t payments, deliveries;
};

/*
 * 250 bytes: half of C_DATA, which few transactions use.  Clause 1.4 allows to keep it apart from
 * the rest.  Otherwise it would make each READ longer, as a READ is as long as the longest record.
 * Key: C_W_ID, C_D_ID, 2 * C_ID + half.
 */
struct TPCC_PACKED tpcc_customer_data {
	char data[TPCC_DATA_BYTES];
};

/* 4 + 2 + 2 + 2 + 2 + 8 + 8 + 24 = 52 bytes.  Key: of its own. */
struct TPCC_PACKED tpcc_history {
	uint32_t c;			/* the customer */
	uint16_t c_w, c_d;
	uint16_t w, d;			/* where it was paid */
	uint64_t date;
	int64_t amount;
	char data[24];
};

struct TPCC_PACKED tpcc_age_key {
	uint16_t w, d;
	uint32_t o;
};

/* 8 bytes.  Key: NO_W_ID, NO_D_ID, NO_O_ID. */
struct TPCC_PACKED tpcc_new_order {
	struct tpcc_age_key by_age;
};

struct TPCC_PACKED tpcc_customer_key {
	uint16_t w, d;
	uint32_t c, o;
};

/* 12 + 8 + 1 + 1 + 1 = 23 bytes.  Key: O_W_ID, O_D_ID, O_ID. */
struct TPCC_PACKED tpcc_order {
	struct tpcc_customer_key by_customer;
	uint64_t entry_date;
	uint8_t carrier;		/* 0: null */
	uint8_t lines;			/* O_OL_CNT */
	uint8_t all_local;
};

/* 4 + 2 + 8 + 1 + 8 + 24 = 47 bytes.  Key: OL_W_ID, OL_D_ID, 16 * OL_O_ID + OL_NUMBER. */
struct TPCC_PACKED tpcc_order_line {
	uint32_t item;
	uint16_t supply_w;
	uint64_t delivery_date;		/* 0: null */
	uint8_t quantity;
	int64_t amount;
	char dist_info[TPCC_DIST_BYTES];
};

/* 4 + 24 + 4 + 50 = 82 bytes.  Key: I_ID. */
struct TPCC_PACKED tpcc_item {
	uint32_t image;
	char name[24];
	int32_t price;
	char data[50];
};

/* 2 + 240 + 4 + 2 + 2 + 50 = 300 bytes, the longest row.  Key: S_W_ID, S_I_ID. */
struct TPCC_PACKED tpcc_stock {
	int16_t quantity;
	char dist[TPCC_DISTRICTS][TPCC_DIST_BYTES];
	uint32_t ytd;
	uint16_t orders, remotes;	/* S_ORDER_CNT, S_REMOTE_CNT */
	char data[50];
};

_Static_assert(sizeof(struct tpcc_warehouse) == 93 && sizeof(struct tpcc_district) == 97 &&
	sizeof(struct tpcc_customer) == 175 && sizeof(struct tpcc_customer_data) == 250 &&
	sizeof(struct tpcc_history) == 52 && sizeof(struct tpcc_new_order) == 8 &&
	sizeof(struct tpcc_order) == 23 && sizeof(struct tpcc_order_line) == 47 &&
	sizeof(struct tpcc_item) == 82 && sizeof(struct tpcc_stock) == 300, "as derived");
_Static_assert(sizeof(struct tpcc_stock) <= ROWS_BYTES_MAX, "the longest row");

static inline uint64_t
tpcc_key(enum tpcc_table table, uint32_t w, uint32_t d, uint32_t number)
{
	return rows_key((uint8_t)table, (uint16_t)w, (uint8_t)d, number);
}

static inline uint64_t
tpcc_line_key(uint32_t w, uint32_t d, uint32_t o, uint32_t line)
{
	return tpcc_key(TPCC_ORDER_LINE, w, d, 16 * o + line);
}

static inline struct tpcc_age_key
tpcc_age_key(uint32_t w, uint32_t d, uint32_t o)
{
	return (struct tpcc_age_key){ htobe16((uint16_t)w), htobe16((uint16_t)d), htobe32(o) };
}

static inline struct tpcc_customer_key
tpcc_customer_key(uint32_t w, uint32_t d, uint32_t c, uint32_t o)
{
	return (struct tpcc_customer_key){ htobe16((uint16_t)w), htobe16((uint16_t)d), htobe32(c),
		htobe32(o) };
}

#endif /* NAM_BENCH_TPCC_SCHEMA_H */
