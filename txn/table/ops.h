/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h -- the ways in which tables keep, read and write their rows: one for each isolation. */
#ifndef NAM_TXN_TABLE_OPS_H
#define NAM_TXN_TABLE_OPS_H

#include "txn/records/unnamed.h"
#include "txn/records/view.h"
#include "txn/serial/indexed.h"
#include "rows_internal.h"

#define NAM__TABLE_NAMES_MAX (1 + NAM_TABLE_INDEXES_MAX + NAM__RECORDS_NAMES)
_Static_assert(NAM__SERIAL_NAMES < NAM__TABLE_NAMES_MAX, "there is room for either");

/* A table before its names are there: its own, and those of its parts. */
struct nam__table_made {
	const struct nam_table_schema *schema;
	struct nam_table_superblock superblock;
	struct nam_gaddr at;
	struct nam__index_made *indexes[NAM_TABLE_INDEXES_MAX];
	uint32_t indexes_count;
	struct nam__records_made records;
	struct nam__serial_made serial;
	bool has_store;
	struct nam_rpc_catalog_entry names[NAM__TABLE_NAMES_MAX];
	uint32_t names_count;
};

/* A drop: a pinned epoch, and the collector's word of each index. */
struct nam__table_drop {
	struct nam_table_superblock superblock;
	struct nam__index_drop indexes[NAM_TABLE_INDEXES_MAX];
	struct nam__records_drop records;
	struct nam__serial_drop serial;
	bool has_store;
	struct nam_rpc_catalog_entry names[NAM__TABLE_NAMES_MAX];
	uint32_t names_count;
};

/* Rows that were read.  One with a range has them in its order. */
struct nam_table_rows {
	struct nam__view view;
	struct nam_table_row *rows;
	struct nam_bytes *columns;
	struct nam_txn_row *records;		/* of a transaction under way */
	struct nam_txn_get *reads;
	uint64_t rows_size, columns_size, records_size, reads_size;	/* room */
	uint32_t count;
};

struct nam__table_ops {
	enum nam_isolation isolation;
	/* Whether a table of this isolation can be so. */
	int (*check)(struct nam_worker *worker, const struct nam_table_schema *schema);
	/* The superblock is filled in, but for its store.  Adds names to the table's own. */
	NAM_FIBER_FN int (*make)(struct nam_worker *worker, const char *name,
		struct nam__table_made *made);
	/* @rc	of nam__names_put(), or what came before */
	NAM_FIBER_FN void (*made_end)(struct nam_worker *worker, struct nam__table_made *made,
		int rc);
	/* Open the indexes, and the store: nam__table_join(). */
	NAM_FIBER_FN int (*open)(struct nam_worker *worker, struct nam_table *table,
		uint64_t cache_bytes);
	void (*close)(struct nam__table_store *store);
	NAM_FIBER_FN int (*drop_join)(struct nam_worker *worker, const char *name,
		struct nam__table_drop *drop);
	/* @name_rc	if it is not 0, all stays */
	NAM_FIBER_FN int (*drop_end)(struct nam_worker *worker, struct nam__table_drop *drop,
		int name_rc);
	/* As those of table.h.  Arguments were checked. */
	NAM_FIBER_FN int (*vacuum)(struct nam_worker *worker, struct nam_table *table);
	NAM_FIBER_FN int (*write)(struct nam_worker *worker, const struct nam_table_write *writes,
		uint32_t count, uint64_t *ret_timestamp);
	NAM_FIBER_FN int (*read)(struct nam_worker *worker, struct nam_table_get *gets,
		uint32_t count, struct nam_table_rows *rows);
	/* @index	number of the range's one in the schema */
	NAM_FIBER_FN int (*scan)(struct nam_worker *worker, struct nam_table *table,
		uint32_t index, const struct nam_table_range *range, struct nam_table_rows *rows);
	NAM_FIBER_FN int (*verify)(struct nam_worker *worker, struct nam_table *table,
		nam_table_violation_fn violation, void *arg, struct nam_table_stat *ret_stat,
		uint64_t *ret_violations);
};

extern const struct nam__table_ops nam__read_atomic_tables, nam__serializable_tables;

/* ---- read.c, write.c, sweep.c, verify.c: by RAMP --------------------------------------------- */

NAM_FIBER_FN int nam__read_atomic_vacuum(struct nam_worker *worker,
	struct nam_table *table) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__read_atomic_write(struct nam_worker *worker,
	const struct nam_table_write *writes, uint32_t count,
	uint64_t *ret_timestamp) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__read_atomic_read(struct nam_worker *worker, struct nam_table_get *gets,
	uint32_t count, struct nam_table_rows *rows) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__read_atomic_scan(struct nam_worker *worker, struct nam_table *table,
	uint32_t index, const struct nam_table_range *range,
	struct nam_table_rows *rows) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__read_atomic_verify(struct nam_worker *worker, struct nam_table *table,
	nam_table_violation_fn violation, void *arg, struct nam_table_stat *ret_stat,
	uint64_t *ret_violations) NAM_MUST_CHECK;

/* ---- transact.c, verify_serializable.c ------------------------------------------------------- */

NAM_FIBER_FN int nam__serializable_write(struct nam_worker *worker,
	const struct nam_table_write *writes, uint32_t count,
	uint64_t *ret_timestamp) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__serializable_read(struct nam_worker *worker, struct nam_table_get *gets,
	uint32_t count, struct nam_table_rows *rows) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__serializable_scan(struct nam_worker *worker, struct nam_table *table,
	uint32_t index, const struct nam_table_range *range,
	struct nam_table_rows *rows) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__serializable_verify(struct nam_worker *worker, struct nam_table *table,
	nam_table_violation_fn violation, void *arg, struct nam_table_stat *ret_stat,
	uint64_t *ret_violations) NAM_MUST_CHECK;

/* ---- verify.c -------------------------------------------------------------------------------- */

struct nam__table_findings {
	nam_table_violation_fn violation;
	void *arg;
	struct nam_table_stat stat;
	uint64_t violations;
};

/* A row lacks its entry in the index with that number.  @more	at the end of the sentence */
void nam__unindexed_report(struct nam__table_findings *found, const struct nam_table *table,
	const struct nam_bytes *key, uint64_t timestamp, uint32_t index, const char *more);
/* All rows, entries and violations are counted. */
void nam__findings_sum(struct nam__table_findings *found, const struct nam_table *table,
	struct nam_table_stat *ret_stat, uint64_t *ret_violations);

/* ---- access.c -------------------------------------------------------------------------------- */

/* In order of that column's values, then of keys; so many at the most, or all if that is 0. */
void nam__rows_order(struct nam_table_rows *rows, uint32_t column, uint32_t limit);

/* Whether a value is within the bounds of the range. */
bool nam__range_has(const struct nam_table_range *range, const struct nam_bytes *value);

/* Rows that are to be written: as nam_table_write() says. */
int nam__writes_check(struct nam_worker *worker, const struct nam_table_write *writes,
	uint32_t count) NAM_MUST_CHECK;
/* Rows that are to be read with those of a table. */
int nam__gets_check(struct nam_worker *worker, const struct nam_table *table,
	const struct nam_table_get *gets, uint32_t count) NAM_MUST_CHECK;
/* A range, and the rows beside it.  *ret_index: the number of its index in the schema. */
int nam__range_check(struct nam_worker *worker, const struct nam_table *table,
	const struct nam_table_range *range, uint32_t *ret_index) NAM_MUST_CHECK;

#endif /* NAM_TXN_TABLE_OPS_H */
