/* SPDX-License-Identifier: Apache-2.0 */
/* access.c -- rows are read and written: what both isolations have in common. */
#include <errno.h>
#include <stdlib.h>

#include "ops.h"

/* ---- rows that were read --------------------------------------------------------------------- */

struct nam_table_rows *
nam_table_rows_new(void)
{
	return calloc(1, sizeof(struct nam_table_rows));
}

void
nam_table_rows_free(struct nam_table_rows *rows)
{
	if (!rows)
		return;
	nam__view_free(&rows->view);
	free(rows->rows);
	free(rows->columns);
	free(rows->records);
	free(rows->reads);
	free(rows);
}

uint32_t
nam_table_rows_count(const struct nam_table_rows *rows)
{
	return rows->count;
}

const struct nam_table_row *
nam_table_rows_at(const struct nam_table_rows *rows, uint32_t number)
{
	return &rows->rows[number];
}

static int
row_order(const void *a, const void *b, void *arg)
{
	const struct nam_table_row *one = a, *other = b;
	const uint32_t *column = arg;
	int order = nam__bytes_compare(&one->columns[*column], &other->columns[*column]);

	return order ? order : nam__bytes_compare(&one->key, &other->key);
}

void
nam__rows_order(struct nam_table_rows *rows, uint32_t column, uint32_t limit)
{
	if (rows->count)
		qsort_r(rows->rows, rows->count, sizeof(*rows->rows), row_order, &column);
	if (limit && rows->count > limit)
		rows->count = limit;
}

bool
nam__range_has(const struct nam_table_range *range, const struct nam_bytes *value)
{
	return (!range->low.data || nam__bytes_compare(value, &range->low) >= 0) &&
	       (!range->high.data || nam__bytes_compare(value, &range->high) <= 0);
}

/* ---- checks ---------------------------------------------------------------------------------- */

static int
count_check(struct nam_worker *worker, uint32_t count)
{
	return count && count <= NAM_TABLE_WRITES_MAX ? 0 : nam_diag_set(&worker->diag,
		-NAM_E_LIMIT, "%u rows; 1 to %u can be read or written together", count,
		NAM_TABLE_WRITES_MAX);
}

int
nam__writes_check(struct nam_worker *worker, const struct nam_table_write *writes, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct nam_table *table = writes[i].table;
		int rc = nam__row_check(worker, writes[0].table, table, &writes[i].key);

		if (rc)
			return rc;
		if (writes[i].columns &&
			nam__row_bytes(table, writes[i].columns) > table->row_bytes_max)
			return nam_diag_set(&worker->diag, -NAM_E_LIMIT, "table '%s': a row of "
				"more than %u bytes", table->name, table->row_bytes_max);
	}
	return 0;
}

int
nam__gets_check(struct nam_worker *worker, const struct nam_table *table,
	const struct nam_table_get *gets, uint32_t count)
{
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++)
		rc = nam__row_check(worker, table, gets[i].table, &gets[i].key);
	return rc;
}

int
nam__range_check(struct nam_worker *worker, const struct nam_table *table,
	const struct nam_table_range *range, uint32_t *ret_index)
{
	const struct nam_table_schema *schema = &table->schema;
	uint32_t i = 0;

	while (i < schema->indexes_count && schema->indexes[i].column != range->column)
		i++;
	if (i == schema->indexes_count)
		return nam_diag_set(&worker->diag, -EINVAL, "table '%s': column '%s' has no index",
			table->name, range->column < schema->columns_count ?
			schema->columns[range->column] : "beyond the last");
	if (range->low.data && range->high.data &&
		nam__bytes_compare(&range->low, &range->high) > 0)
		return nam_diag_set(&worker->diag, -EINVAL, "table '%s': the low bound is above "
			"the high one", table->name);
	if (range->gets_count > NAM_TABLE_WRITES_MAX)
		return nam_diag_set(&worker->diag, -NAM_E_LIMIT, "%u rows beside a range; up to %u "
			"can be read", range->gets_count, NAM_TABLE_WRITES_MAX);
	*ret_index = i;
	return nam__gets_check(worker, table, range->gets, range->gets_count);
}

/* ---- by a transaction of their own ----------------------------------------------------------- */

int
nam_table_write(struct nam_worker *worker, const struct nam_table_write *writes, uint32_t count,
	uint64_t *ret_timestamp)
{
	int rc = nam__change_check(worker);

	if (!rc)
		rc = count_check(worker, count);
	if (!rc)
		rc = nam__writes_check(worker, writes, count);
	return rc ? rc : writes[0].table->store->ops->write(worker, writes, count,
		ret_timestamp); /* SUSPENDS */
}

int
nam_table_read(struct nam_worker *worker, struct nam_table_get *gets, uint32_t count,
	struct nam_table_rows *rows)
{
	int rc = count_check(worker, count);

	if (!rc)
		rc = nam__gets_check(worker, gets[0].table, gets, count);
	if (rc)
		return rc;
	rows->count = 0;
	return gets[0].table->store->ops->read(worker, gets, count, rows); /* SUSPENDS */
}

int
nam_table_scan(struct nam_worker *worker, struct nam_table *table,
	const struct nam_table_range *range, struct nam_table_rows *rows)
{
	uint32_t index;
	int rc = nam__range_check(worker, table, range, &index);

	if (rc)
		return rc;
	rows->count = 0;
	return table->store->ops->scan(worker, table, index, range, rows); /* SUSPENDS */
}

int
nam_table_vacuum(struct nam_worker *worker, struct nam_table *table)
{
	return table->store->ops->vacuum(worker, table); /* SUSPENDS */
}

int
nam_table_verify(struct nam_worker *worker, struct nam_table *table,
	nam_table_violation_fn violation, void *arg, struct nam_table_stat *ret_stat,
	uint64_t *ret_violations)
{
	return table->store->ops->verify(worker, table, violation, arg, ret_stat,
		ret_violations); /* SUSPENDS */
}
