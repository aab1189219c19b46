/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows.h -- nam-bench txn: workloads over rows of several tables, which are records of one store.
 *
 * A key has 8 bytes, the first of which is the number of the table.
 */
#ifndef NAM_BENCH_TXN_ROWS_H
#define NAM_BENCH_TXN_ROWS_H

#include <endian.h>

#include "txn/serializable.h"
#include "bench/requests/requests.h"

#define ROWS_KEY_BYTES 8u
#define ROWS_BYTES_MAX 312u		/* of a row */
#define ROWS_MISSING 1			/* a row that must be there is not, or has another length */
#define ROWS_ROLLED_BACK 2		/* the transaction does not want to commit */

/* The rows that a transaction reads.  Begins the room of a request. */
struct rows_room {
	struct nam_worker *worker;
	struct nam_txn_store *store;
	uint32_t count, read;		/* wanted, of which the first were read */
	bool missing;
	bool rolled_back;
	uint32_t conflicts;		/* tries that ended with one */
	unsigned kind;			/* of the workload's transactions */
	uint64_t keys[NAM_TXN_RECORDS_MAX];
	struct nam_txn_get gets[NAM_TXN_RECORDS_MAX];
	_Alignas(8) uint8_t rows[NAM_TXN_RECORDS_MAX][ROWS_BYTES_MAX];
};

static inline uint64_t
rows_key(uint8_t table, uint16_t place, uint8_t part, uint32_t number)
{
	return htobe64((uint64_t)table << 56 | (uint64_t)place << 40 | (uint64_t)part << 32 |
		number);
}

/* Where the row will be once it is read. */
void *rows_want(struct rows_room *room, uint64_t key, uint32_t bytes);
/* Read those that were wanted since the last call, together.  0, ROWS_MISSING, or a code. */
NAM_FIBER_FN int rows_read(struct rows_room *room, struct nam_txn *txn);
int rows_write(struct nam_txn *txn, uint64_t key, const void *row, uint32_t bytes);

/*
 * Run a transaction until it commits.  If it misses a row it commits without writes, so that what
 * it has read is validated.
 */
NAM_FIBER_FN int rows_run(struct rows_room *room, nam_txn_fn body);

/* A new row: written with others, at last by rows_load_end(). */
NAM_FIBER_FN int rows_load(struct rows_room *room, uint64_t key, const void *row, uint32_t bytes);
NAM_FIBER_FN int rows_load_end(struct rows_room *room);
/* Read a row in a transaction of its own, with others: so that the cache knows where it is. */
NAM_FIBER_FN int rows_warm(struct rows_room *room, uint64_t key, uint32_t bytes);
NAM_FIBER_FN int rows_warm_end(struct rows_room *room);

extern const struct rows_workload {
	const char *name;
	const char *const *kinds;	/* the names of its transactions, ended by NULL */
	size_t room_bytes;		/* begins with a struct rows_room */
	const char *paper;		/* the peak in the paper on DrTM+H; or NULL */
	/* 0 or a code; sets bench->rows, and options of the store. */
	int (*begin)(struct requests *bench, struct nam_txn_store_options *options);
	void (*end)(struct requests *bench);
	/* A member's share of the pass: 0 or a code. */
	NAM_FIBER_FN int (*pass)(struct requests_part *part, void *room);
	void (*checked)(struct requests *bench);	/* after the last pass; or NULL */
	void (*draw)(struct requests_part *part, void *room);
	NAM_FIBER_FN int (*run)(void *room);
	void (*print)(const struct requests *bench);	/* what it is */
	void (*json)(const struct requests *bench, cJSON *object);
} rows_tpcc, rows_tpcc_new_order, rows_tpce;

/* The workload that the options say; NULL: it has no rows. */
const struct rows_workload *rows_workload_of(const struct requests_options *o);

#endif /* NAM_BENCH_TXN_ROWS_H */
