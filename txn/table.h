/* SPDX-License-Identifier: Apache-2.0 */
/*
 * table.h -- rows of columns under a primary key, found by the values of columns, too.
 *
 * A row is some columns of bytes under a key of bytes.  A secondary index leads from a column's
 * values to the rows that have them.  Rows and indexes are read atomic together.  A read or a scan
 * sees in its rows all that another transaction wrote, or something newer, or none of it.  A row is
 * never found without its index entry, nor an entry without its row.
 *
 * Rows are records of a one-sided store (records.h): memory servers do nothing here.  One
 * transaction can write several tables of a store.  Or they are serializable (isolation.h).
 *
 * Every function takes the calling thread's worker and may be called from its fibers.  All workers
 * of a client may share a handle, as one session.
 *
 * ERRORS: as in records.h.  Functions that use an index may also return
 *	-NAM_E_LOCK_*, -NAM_E_RESTART_TORN	as nam_index_insert() and nam_cursor_next()
 */
#ifndef NAM_TXN_TABLE_H
#define NAM_TXN_TABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "isolation.h"
#include "records.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_table;
struct nam_table_rows;

#define NAM_TABLE_NAME_BYTES_MAX 31u
#define NAM_TABLE_COLUMN_NAME_BYTES_MAX 27u
#define NAM_TABLE_COLUMNS_MAX 32u	/* and 1 at least */
#define NAM_TABLE_INDEXES_MAX 16u
#define NAM_TABLE_INDEX_BYTES_MAX 56u
#define NAM_TABLE_KEY_BYTES_MAX 247u	/* of a primary key, and 1 at least */
#define NAM_TABLE_WRITES_MAX NAM_RECORDS_MAX

/* A secondary index: of a column, by the first so many bytes of its values (default 16). */
struct nam_table_index {
	uint32_t column;
	uint32_t bytes;
};

struct nam_table_schema {
	const char *columns[NAM_TABLE_COLUMNS_MAX];	/* their names */
	uint32_t columns_count;
	uint32_t indexes_count;
	struct nam_table_index indexes[NAM_TABLE_INDEXES_MAX];	/* no column twice */
	/*
	 * Name of the record store; NULL: "<table>.rows".  Tables that are written together name
	 * the same store, which the first of them makes.  Its name does not end in ".rows".
	 */
	const char *store;
	struct nam_table_options options;	/* all 0: read atomic */
};

/* A column's value; keys, too. */
struct nam_bytes {
	const void *data;
	uint32_t bytes;
};

/**
 * nam_table_create -- make an empty table and its indexes, and enter it into the catalog.
 *
 * @name	1 to NAM_TABLE_NAME_BYTES_MAX printable bytes without blanks.  The table
 *		owns the indexes "<name>.by.<column>"; programs must not change them
 *
 * It ends with nam_table_drop(), or with the memory servers.
 *
 * Returns 0 or a negative code:
 *	-EINVAL			a name, or the schema; the diag says which
 *	-NAM_E_INDEX_EXISTS	one of the names is taken
 *	-NAM_E_KIND		the store's name is something else's, or a store that is no tables'
 *	-NAM_E_REMOTE_FULL, -NAM_E_LIMIT	no room, in memory or in the catalog
 *
 * Suspends:	yes.
 * Cost:	that of nam_index_create() for each index, and of nam_records_create().
 */
NAM_FIBER_FN int nam_table_create(struct nam_worker *worker, const char *name,
	const struct nam_table_schema *schema) NAM_MUST_CHECK;

/**
 * nam_table_open -- find a table by its name.
 *
 * @cache_bytes	of this process: half as nam_records_open(), half for inner nodes of the indexes
 *
 * Returns 0 or a negative code: as nam_records_open().
 *
 * Suspends:	yes.
 * Cost:	1 RPC, 1 READ, that of nam_records_open(), and of nam_index_open() for each index.
 */
NAM_FIBER_FN int nam_table_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes,
	struct nam_table **ret_table) NAM_MUST_CHECK;

/**
 * nam_table_close -- nam_table_vacuum() and free the handle.  NULL is nothing.
 *
 * No operation may be under way.  Other workers that wrote or read vacuum before: readers replace
 * versions, too, if they complete a half committed transaction.
 */
NAM_FIBER_FN void nam_table_close(struct nam_worker *worker, struct nam_table *table);

/**
 * nam_table_vacuum -- take entries of versions that this worker replaced out of the indexes.
 *
 * nam_table_write() does so, too.  The call waits until all clients have ended the operations that
 * they were in, for at most timeout_ms.  Remaining versions stay allocated, and are harmless.
 *
 * Returns 0 or a negative code.
 */
NAM_FIBER_FN int nam_table_vacuum(struct nam_worker *worker, struct nam_table *table)
	NAM_MUST_CHECK;

/* The schema that it was made with; lives as long as the handle. */
const struct nam_table_schema *nam_table_properties(const struct nam_table *table);

/* The number of the column of that name, or -NAM_E_NOTFOUND. */
int nam_table_column(const struct nam_table *table, const char *name) NAM_MUST_CHECK;

/**
 * nam_table_drop -- take the name away, then the indexes and, where they are its own, the rows.
 *
 * In a shared store its rows stay, and are not found, until the store is dropped
 * (nam_records_drop()).
 *
 * Returns 0 or a negative code: as nam_records_drop().
 */
NAM_FIBER_FN int nam_table_drop(struct nam_worker *worker, const char *name) NAM_MUST_CHECK;

/* The names of all tables: as nam_records_list(). */
NAM_FIBER_FN int nam_table_list(struct nam_worker *worker, nam_records_list_fn fn, void *arg)
	NAM_MUST_CHECK;

/* ---- writing --------------------------------------------------------------------------------- */

struct nam_table_write {
	struct nam_table *table;
	struct nam_bytes key;
	const struct nam_bytes *columns;	/* all of them, in order; NULL: delete the row */
};

/**
 * nam_table_write -- put and delete rows, all or none.
 *
 * @writes	`count`, 1 .. NAM_TABLE_WRITES_MAX, no key of a table twice, tables of one store
 * @ret_timestamp	as nam_records_put_all(); may be NULL
 *
 * Returns 0 or a negative code: as nam_records_put_all(); -EINVAL also where stores differ.
 *
 * Suspends:	yes.
 * Cost:	that of nam_records_put_all(), and of nam_index_insert() for each row and index;
 *		later, as much again for replaced rows.
 * Progress:	as nam_index_insert(), of each index.
 * Source:	Bailis et al., SIGMOD 2014, section 2 (indexes over several partitions); nam's own
 *		rules for entries: txn/README.md, "Tables".
 */
NAM_FIBER_FN int nam_table_write(struct nam_worker *worker, const struct nam_table_write *writes,
	uint32_t count, uint64_t *ret_timestamp) NAM_MUST_CHECK;

/* Write one row. */
static inline int
nam_table_put(struct nam_worker *worker, struct nam_table *table, struct nam_bytes key,
	const struct nam_bytes *columns)
{
	const struct nam_table_write put = { table, key, columns };

	return nam_table_write(worker, &put, 1, NULL); /* SUSPENDS */
}

static inline int
nam_table_delete(struct nam_worker *worker, struct nam_table *table, struct nam_bytes key)
{
	return nam_table_put(worker, table, key, NULL); /* SUSPENDS */
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A row to be read by its key: the first two are the caller's. */
struct nam_table_get {
	struct nam_table *table;
	struct nam_bytes key;
	const struct nam_bytes *columns;	/* out: the row, NULL if there is none */
	uint64_t timestamp;		/* out: of its writer or deleter; 0: never written */
};

/**
 * nam_table_rows_new -- room for rows; NULL: no memory.
 *
 * Its memory is reused.  Rows stay valid until the next read into it, or until it is freed.
 */
struct nam_table_rows *nam_table_rows_new(void);
void nam_table_rows_free(struct nam_table_rows *rows);

/**
 * nam_table_read -- read rows by their keys, of one moment as far as transactions go.
 *
 * @gets	`count`, 1 .. NAM_TABLE_WRITES_MAX; tables of one store
 *
 * Returns 0, and then each has its answer; or a negative code: as nam_records_get_all(); -EINVAL
 * where stores differ.
 *
 * Cost:	that of nam_records_get_all().
 */
NAM_FIBER_FN int nam_table_read(struct nam_worker *worker, struct nam_table_get *gets,
	uint32_t count, struct nam_table_rows *rows) NAM_MUST_CHECK;

/* A range of an index. */
struct nam_table_range {
	uint32_t column;		/* one that has an index */
	struct nam_bytes low, high;	/* both inclusive; without data: no bound */
	uint32_t limit;			/* rows at the most; 0: no limit */
	struct nam_table_get *gets;	/* rows to be read with them, of the same moment */
	uint32_t gets_count;		/* NAM_TABLE_WRITES_MAX at the most */
};

struct nam_table_row {
	struct nam_bytes key;
	const struct nam_bytes *columns;
	uint64_t timestamp;		/* of its writer */
};

/**
 * nam_table_scan -- read the rows whose column has a value within bounds, and others with them.
 *
 * In order of that column's values, then of keys.  Values are compared byte by byte, and the
 * shorter comes first; numbers are in order if they are written big-endian.
 *
 * The result is of one moment as far as transactions go.  If a transaction moves a row from one
 * value to another, every scan of both values has the row once.
 *
 * Returns 0; or a negative code:
 *	-EINVAL			the column has no index, or bounds are the wrong way round
 *	-NAM_E_LIMIT		the rows take more than 1 GiB: set a limit
 *	-NAM_E_RESTART_DEAD	rows were replaced so quickly that none could be read
 *
 * Suspends:	yes.
 * Cost:	that of nam_cursor_next() for as many entries as there are rows and versions lately
 *		replaced.  1 round trip for each 16 of them, 2 where the version has been replaced.
 *		1 for each 16 records that were written together with one of these rows, and are no
 *		rows of the range.  With a limit all rows are read whose values begin like that of
 *		the last one, as far as the index has them.  Up to as many more are read.
 * Source:	txn/README.md, "Tables".
 */
NAM_FIBER_FN int nam_table_scan(struct nam_worker *worker, struct nam_table *table,
	const struct nam_table_range *range, struct nam_table_rows *rows) NAM_MUST_CHECK;

/* How many the scan found, and each of them. */
uint32_t nam_table_rows_count(const struct nam_table_rows *rows);
const struct nam_table_row *nam_table_rows_at(const struct nam_table_rows *rows, uint32_t number);

/* ---- figures --------------------------------------------------------------------------------- */

struct nam_table_stat {
	uint64_t rows;
	uint64_t entries;		/* of all indexes */
	uint64_t stale;			/* of these, of versions that have been replaced */
	uint64_t row_bytes;		/* keys and columns */
};

/* Reports a violation found by nam_table_verify(): a sentence. */
typedef void (*nam_table_violation_fn)(void *arg, const char *text);

/**
 * nam_table_verify -- whether every row has its entries, and count both.  No client may write.
 *
 * @ret_violations	how many rows lack an entry, or are there in two
 *
 * Cost:	a scan of the index of the store's keys and of each index of the table.  A lookup in
 *		these for each row, and 2 round trips for each 16 records.
 */
NAM_FIBER_FN int nam_table_verify(struct nam_worker *worker, struct nam_table *table,
	nam_table_violation_fn violation, void *arg, struct nam_table_stat *ret_stat,
	uint64_t *ret_violations) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_TXN_TABLE_H */
