/* SPDX-License-Identifier: Apache-2.0 */
/* table_fixture.h -- what unit tests of tables share: a cluster, a client, what a scan found. */
#ifndef NAM_TESTS_UNIT_TXN_TABLE_TABLE_FIXTURE_H
#define NAM_TESTS_UNIT_TXN_TABLE_TABLE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/index_fixture.h"
#include "txn/table.h"

#define MIB (1ull << 20)
#define CACHE_BYTES (4 * MIB)

static struct local_cluster *cluster;
static struct member me;
static struct nam_table_rows *rows;

static inline int
cluster_begin(void **state)
{
	(void)state;
	cluster = local_cluster_start(3, 64 * MIB, 32 * MIB);
	me = member_join(cluster, "me", 5000);
	rows = nam_table_rows_new();
	return rows ? 0 : -1;
}

static inline int
cluster_end(void **state)
{
	(void)state;
	nam_table_rows_free(rows);
	member_leave(&me);
	local_cluster_stop(cluster);
	return 0;
}

static inline struct nam_bytes
bytes_of(const char *text)
{
	return (struct nam_bytes){ text, (uint32_t)strlen(text) };
}

static inline struct nam_table *
table_open(const struct member *who, const char *name)
{
	struct nam_table *table;

	if (nam_table_open(who->worker, name, CACHE_BYTES, &table))
		fail_msg("open: %s", nam_worker_diag(who->worker));
	return table;
}

/* The keys of what a scan finds, each followed by a blank; static until the next call. */
static inline const char *
keys_found(const struct member *who, struct nam_table *table, const struct nam_table_range *range)
{
	static char text[4096];
	size_t used = 0;
	int rc = nam_table_scan(who->worker, table, range, rows);

	if (rc)
		fail_msg("scan: %s %s", nam_err_name(rc), nam_worker_diag(who->worker));
	text[0] = '\0';
	for (uint32_t i = 0; i < nam_table_rows_count(rows); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%.*s ",
			(int)nam_table_rows_at(rows, i)->key.bytes,
			(const char *)nam_table_rows_at(rows, i)->key.data);
	return text;
}

#endif /* NAM_TESTS_UNIT_TXN_TABLE_TABLE_FIXTURE_H */
