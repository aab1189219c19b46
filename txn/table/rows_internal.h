/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rows_internal.h -- open tables, rows as records, and entries of indexes.
 *
 * The record of a row has the table's number and the primary key as its key.  Its value is the
 * lengths of the columns, then the columns.  An entry names one version: its key is the beginning
 * of the column's value and the version's address, its payload the head of the record.
 */
#ifndef NAM_TXN_TABLE_ROWS_INTERNAL_H
#define NAM_TXN_TABLE_ROWS_INTERNAL_H

#include "txn/table.h"
#include "txn/records/txn_internal.h"

#define NAM__TABLE_NUMBER_BYTES 8u
#define NAM__ENTRY_AT_BYTES 8u

_Static_assert(NAM_TABLE_KEY_BYTES_MAX + NAM__TABLE_NUMBER_BYTES == NAM_RECORD_KEY_BYTES_MAX,
	"it fits");
_Static_assert(NAM_TABLE_INDEX_BYTES_MAX + NAM__ENTRY_AT_BYTES == NAM_KEY_BYTES_MAX, "it fits");

/* The superblock: what a table's rows consist of, where they are, which columns have an index. */
struct nam_table_superblock {
	uint64_t image_hash;		/* of what follows, mixed with the address */
	uint64_t magic;			/* NAM_TABLE_MAGIC */
	uint64_t number;		/* a random one: the first bytes of its records' keys */
	uint16_t format;		/* NAM_TABLE_FORMAT */
	uint16_t columns_count;
	uint16_t indexes_count;
	uint16_t owns_store;		/* 1: the store is dropped with it */
	char store[64];			/* name of the store of its rows */
	char columns[32][28];		/* names */
	struct {
		uint16_t column;
		uint16_t bytes;		/* of its values in the index's keys */
	} indexes[16];
	uint16_t serializable;		/* 1: its store is one of serializable transactions */
	uint8_t reserved[94];		/* or its stride would be that of a node */
};
_Static_assert(sizeof(struct nam_table_superblock) == 1152, "remote layout");

#define NAM_TABLE_MAGIC 0x314c4241544d414eull	/* "NAMTABL1" */
#define NAM_TABLE_FORMAT 1u

struct nam__table_ops;

/* A store with tables, as all handles of a client share it. */
struct nam__table_store {
	LIST_ENTRY(nam__table_store) link;	/* of the client */
	const struct nam__table_ops *ops;
	uint64_t number;			/* of the store */
	struct nam_records *records;		/* of a read-atomic table; or: */
	struct nam_txn_store *serial;
	LIST_HEAD(, nam_table) tables;		/* that are open; under the client's mutex */
	uint32_t users;
};

struct nam_table {
	LIST_ENTRY(nam_table) link;		/* of the store */
	struct nam__table_store *store;
	uint32_t users;				/* its handle, and sweeps; under the same mutex */
	char name[NAM_INDEX_NAME_BYTES];
	struct nam_table_superblock superblock;
	struct nam_table_schema schema;		/* its texts are there */
	struct nam_index *indexes[NAM_TABLE_INDEXES_MAX];	/* NULL: they are the store's */
	uint32_t key_bytes_max;			/* of primary keys */
	uint32_t row_bytes_max;			/* nam__row_bytes() */
};

/* ---- rows.c ---------------------------------------------------------------------------------- */

/* The key of a row's record.  ret_key has room for NAM_RECORD_KEY_BYTES_MAX; its length. */
uint32_t nam__row_key(const struct nam_table *table, const struct nam_bytes *key, uint8_t *ret_key);

/* The number of the table that a record is a row of; 0: it is none. */
uint64_t nam__row_table(const uint8_t *record_key, uint32_t key_bytes);

uint64_t nam__row_bytes(const struct nam_table *table, const struct nam_bytes *columns);
void nam__row_encode(const struct nam_table *table, const struct nam_bytes *columns, uint8_t *ret);

/* Where the columns lie in a row; false: it is none of this table. */
bool nam__row_decode(const struct nam_table *table, const uint8_t *row, uint32_t row_bytes,
	struct nam_bytes *ret_columns);

/* The key of an index's entry for a version.  ret_key has room for NAM_KEY_BYTES_MAX. */
void nam__entry_key(const struct nam_table_index *index, const struct nam_bytes *value, uint64_t at,
	uint8_t *ret_key);

/* A row of a transaction: its table is in the first one's store, its key of a valid length. */
int nam__row_check(struct nam_worker *worker, const struct nam_table *first,
	const struct nam_table *table, const struct nam_bytes *key) NAM_MUST_CHECK;

int nam__bytes_compare(const struct nam_bytes *a, const struct nam_bytes *b);

/* ---- handles.c ------------------------------------------------------------------------------- */

/*
 * The table is one of that store, which was allocated and opened.  If the client has the same store
 * open, it is one of that, and this one is closed.
 */
void nam__table_join(struct nam_client *client, struct nam_table *table,
	struct nam__table_store *opened);

/* The open table of that number, or NULL.  It stays until it is left, also if it is closed. */
struct nam_table *nam__store_table(struct nam_client *client, struct nam__table_store *store,
	uint64_t number);
/* The last one frees it. */
void nam__table_leave(struct nam_client *client, struct nam_table *table);
void nam__table_free(struct nam_client *client, struct nam_table *table);

#endif /* NAM_TXN_TABLE_ROWS_INTERNAL_H */
