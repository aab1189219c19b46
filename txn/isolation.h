/* SPDX-License-Identifier: Apache-2.0 */
/*
 * isolation.h -- what transactions over rows see of each other, and rows in transactions of
 * programs.
 *
 * Each table has one isolation, which its creation chooses.  Functions of table.h work on both, and
 * each call is a transaction of its own.  A program that reads rows, decides, and writes rows in
 * one transaction takes serializable tables.  It begins and ends the transaction with the functions
 * of serializable.h.  One transaction may span rows of all tables that name one `store`.
 */
#ifndef NAM_TXN_ISOLATION_H
#define NAM_TXN_ISOLATION_H

#include "serializable.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_table;
struct nam_table_get;
struct nam_table_range;
struct nam_table_rows;
struct nam_table_write;

enum nam_isolation {
	/* Over RAMP: a reader sees all of another transaction, or newer rows, or none of it. */
	NAM_ISOLATION_READ_ATOMIC = 1,
	/* There is one order of all transactions.  One in the way of another is begun anew. */
	NAM_ISOLATION_SERIALIZABLE,
};

#define NAM_TABLE_SERIALIZABLE_KEY_BYTES_MAX 120u
#define NAM_TABLE_SERIALIZABLE_INDEXES_MAX NAM_TXN_INDEXES_MAX

/*
 * The last three are of serializable tables.  Of a shared store the first table decides, and later
 * ones may ask for less.  0: the default.
 */
struct nam_table_options {
	enum nam_isolation isolation;	/* 0: read atomic */
	/* Of primary keys, up to NAM_TABLE_SERIALIZABLE_KEY_BYTES_MAX; default 24. */
	uint32_t key_bytes_max;
	/*
	 * Of a row: its columns, and 4 bytes for each; default 256.  It may be up to
	 * NAM_TXN_VALUE_BYTES_MAX, less 8 bytes for each index and those of the index.
	 * Each row takes the memory of the longest.
	 */
	uint32_t row_bytes_max;
	uint64_t rows;			/* expected, as `records` of nam_txn_store_options */
};

/* "read-atomic", "serializable"; NULL: none. */
const char *nam_isolation_name(enum nam_isolation isolation);

/**
 * nam_table_expect -- whether a table has that isolation: nam_table_open() opens any.
 *
 * Returns 0; or -NAM_E_KIND, and the diag names both.
 * Cost:	nothing.
 */
int nam_table_expect(struct nam_worker *worker, const struct nam_table *table,
	enum nam_isolation isolation) NAM_MUST_CHECK;

/**
 * nam_table_store -- the store of a serializable table, to begin transactions.
 *
 * All tables of a client in one store have the same.  It lives as long as one of their handles.
 * Programs reach the rows by the functions below, and not by their records.
 *
 * Returns 0, or -NAM_E_KIND as nam_table_expect().
 * Cost:	nothing.
 */
int nam_table_store(struct nam_worker *worker, struct nam_table *table,
	struct nam_txn_store **ret_store) NAM_MUST_CHECK;

/*
 * Rows of a transaction.  ERRORS: as functions of serializable.h that read, and
 *	-EINVAL			the transaction is one of another store
 *	-NAM_E_KIND		the table is read atomic
 *	-NAM_E_LIMIT		a key or a row is too long, or there are too many
 * After any of them only nam_txn_abort() may follow.
 */

/**
 * nam_txn_rows_read -- read rows by their keys; a row that the transaction wrote as it wrote it.
 *
 * @gets	`count`; `timestamp` gets the sequence of the record
 *
 * Cost:	that of nam_txn_read_all().
 */
NAM_FIBER_FN int nam_txn_rows_read(struct nam_txn *txn, struct nam_table_get *gets,
	uint32_t count, struct nam_table_rows *rows) NAM_MUST_CHECK;

/**
 * nam_txn_rows_scan -- as nam_table_scan().
 *
 * The transaction depends on the absence of other rows in the range, too; with a limit up to the
 * last row.  Each row is one of NAM_TXN_RECORDS_MAX records.  With a limit 1 more is read, and all
 * whose values begin like that of the last row.
 *
 * Cost:	that of nam_txn_scan(); with a limit again for twice as many rows, if more begin so.
 */
NAM_FIBER_FN int nam_txn_rows_scan(struct nam_txn *txn, struct nam_table *table,
	const struct nam_table_range *range, struct nam_table_rows *rows) NAM_MUST_CHECK;

/**
 * nam_txn_rows_write -- put and delete rows at the commit.  To delete an absent row is no error.
 *
 * Cost:	that of nam_txn_write() for a row that is put, and of nam_txn_delete() for others.
 */
NAM_FIBER_FN int nam_txn_rows_write(struct nam_txn *txn,
	const struct nam_table_write *writes, uint32_t count) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_TXN_ISOLATION_H */
