/* SPDX-License-Identifier: Apache-2.0 */
/* table.c -- tables: which there are, what they hold, whether it is right, and their end. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "namctl.h"

#define CACHE_BYTES (1u << 20)
#define VIOLATIONS_PRINTED_MAX 20u
#define WIDTH_MAX 32u			/* of columns; what is longer pushes the rest of its line */
#define COLUMNS_TEXT_BYTES (NAM_TABLE_COLUMNS_MAX * (NAM_TABLE_COLUMN_NAME_BYTES_MAX + 2) + 1)

const char *const ctl_isolations[] = { "read-atomic", "serializable", NULL };

/* ---- tables -------------------------------------------------------------------------------- */

/* A table that is there may lack its store, or an index, if it was dropped by itself. */
static int
failed(struct ctl *ctl, const char *name, int rc)
{
	const char *diag = nam_worker_diag(ctl->worker);
	char quoted[NAM_TABLE_NAME_BYTES_MAX + 3];

	if (rc != -NAM_E_NOINDEX)
		return ctl_worker_failed(ctl, name, rc);
	(void)snprintf(quoted, sizeof(quoted), "'%s'", name);
	if (strstr(diag, quoted))
		return ctl_no_such("table", "table", name);
	ctl_complain("table '%s' is damaged: %s; namctl table drop %s takes away what is left of "
		"it (NAM_E_NOINDEX)", name, diag, name);
	return NAM_EXIT_NOINDEX;
}

static int
open_table(struct ctl *ctl, const char *name)
{
	int rc = nam_table_open(ctl->worker, name, CACHE_BYTES, &ctl->table); /* SUSPENDS */

	if (rc)
		return failed(ctl, name, rc);
	if (ctl->table_create.isolation)
		rc = nam_table_expect(ctl->worker, ctl->table, ctl->table_create.isolation);
	return rc ? ctl_worker_failed(ctl, name, rc) : NAM_EXIT_OK;
}

int
ctl_table_list(struct ctl *ctl, char **args)
{
	(void)args;
	return ctl_list(ctl, nam_table_list, "tables", "listing the tables"); /* SUSPENDS */
}

/* "a, b, c": the names of all columns, or of those that have an index. */
static const char *
columns_text(const struct nam_table_schema *schema, bool indexed, char text[COLUMNS_TEXT_BYTES])
{
	uint32_t count = indexed ? schema->indexes_count : schema->columns_count;
	size_t length = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < count; i++) {
		uint32_t column = indexed ? schema->indexes[i].column : i;

		length += (size_t)snprintf(text + length, COLUMNS_TEXT_BYTES - length, "%s%s",
			i ? ", " : "", schema->columns[column]);
	}
	return text;
}

struct ctl_name {
	char text[NAM_RECORDS_NAME_BYTES_MAX + sizeof(".index0")];
};

/* The name of the store's index, or of the column's own. */
static struct ctl_name
index_name(const char *table, const struct nam_table_schema *schema, uint32_t number)
{
	struct ctl_name name;

	if (schema->options.isolation == NAM_ISOLATION_SERIALIZABLE)
		(void)snprintf(name.text, sizeof(name.text), "%s%s.index%u", schema->store ?
			schema->store : table, schema->store ? "" : ".rows", number);
	else
		(void)snprintf(name.text, sizeof(name.text), "%s.by.%s", table,
			schema->columns[schema->indexes[number].column]);
	return name;
}

static void
print_stat(const char *name, const struct nam_table_schema *schema,
	const struct nam_table_stat *stat)
{
	char text[COLUMNS_TEXT_BYTES];

	printf("table            %s\n", name);
	printf("isolation        %s\n", nam_isolation_name(schema->options.isolation));
	printf("columns          %s\n", columns_text(schema, false, text));
	for (uint32_t i = 0; i < schema->indexes_count; i++)
		printf("index            %s, of the first %u bytes\n",
			index_name(name, schema, i).text, schema->indexes[i].bytes);
	if (schema->options.row_bytes_max)
		printf("longest          keys of %u bytes, rows of %u\n",
			schema->options.key_bytes_max, schema->options.row_bytes_max);
	printf("rows             %" PRIu64 ", %s\n", stat->rows,
		ctl_bytes(stat->row_bytes).text);
	printf("entries          %" PRIu64 ", %" PRIu64 " of them of rows that were replaced\n",
		stat->entries, stat->stale);
	if (schema->store)
		printf("record store     %s, which other tables may share\n", schema->store);
	else
		printf("record store     %s.rows, its own\n", name);
}

/* Members that describe a table.  NULL: no JSON. */
static void
json_schema(cJSON *object, const char *name, const struct nam_table_schema *schema)
{
	char store[NAM_TABLE_NAME_BYTES_MAX + sizeof(".rows")];
	cJSON *list;

	if (!object)
		return;
	cJSON_AddStringToObject(object, "table", name);
	cJSON_AddStringToObject(object, "isolation", nam_isolation_name(schema->options.isolation));
	list = cJSON_AddArrayToObject(object, "columns");
	for (uint32_t i = 0; i < schema->columns_count; i++)
		cJSON_AddItemToArray(list, cJSON_CreateString(schema->columns[i]));
	list = cJSON_AddArrayToObject(object, "indexes");
	for (uint32_t i = 0; i < schema->indexes_count; i++) {
		cJSON *index = cJSON_CreateObject();

		cJSON_AddStringToObject(index, "column",
			schema->columns[schema->indexes[i].column]);
		ctl_json_u64(index, "bytes", schema->indexes[i].bytes);
		cJSON_AddItemToArray(list, index);
	}
	if (schema->options.row_bytes_max) {
		ctl_json_u64(object, "key_bytes_max", schema->options.key_bytes_max);
		ctl_json_u64(object, "row_bytes_max", schema->options.row_bytes_max);
	}
	(void)snprintf(store, sizeof(store), "%s.rows", name);
	cJSON_AddStringToObject(object, "record_store", schema->store ? schema->store : store);
	cJSON_AddBoolToObject(object, "shares_store", schema->store != NULL);
}

static void
json_stat(const char *name, const struct nam_table_schema *schema,
	const struct nam_table_stat *stat)
{
	cJSON *object = cJSON_CreateObject();

	json_schema(object, name, schema);
	ctl_json_u64(object, "rows", stat->rows);
	ctl_json_u64(object, "row_bytes", stat->row_bytes);
	ctl_json_u64(object, "entries", stat->entries);
	ctl_json_u64(object, "stale_entries", stat->stale);
	ctl_json_print(object);
}

/* ---- create -------------------------------------------------------------------------------- */

/* Cut the text at the first comma.  Returns the part before it; *text is the rest, or NULL. */
static char *
part_take(char **text)
{
	char *part = *text;

	*text = strchr(part, ',');
	if (*text)
		*(*text)++ = '\0';
	return part;
}

/* "town:8,age" */
static int
indexes_take(char *text, struct nam_table_schema *schema)
{
	while (text) {
		char *name = part_take(&text), *colon = strrchr(name, ':');
		struct nam_table_index *index = &schema->indexes[schema->indexes_count];
		int exit_code = NAM_EXIT_OK;

		if (schema->indexes_count == NAM_TABLE_INDEXES_MAX) {
			ctl_complain("--indexes: a table has up to %u", NAM_TABLE_INDEXES_MAX);
			return NAM_EXIT_USAGE;
		}
		*index = (struct nam_table_index){ .column = 0 };
		if (colon) {
			*colon = '\0';
			exit_code = ctl_number_take(colon + 1, NAM_TABLE_INDEX_BYTES_MAX,
				"number of bytes of an index", &index->bytes);
		}
		if (exit_code)
			return exit_code;
		while (index->column < schema->columns_count &&
			strcmp(schema->columns[index->column], name) != 0)
			index->column++;
		if (index->column == schema->columns_count) {
			ctl_complain("--indexes: the table has no column '%s'", name);
			return NAM_EXIT_USAGE;
		}
		schema->indexes_count++;
	}
	return NAM_EXIT_OK;
}

int
ctl_table_create(struct ctl *ctl, char **args)
{
	struct nam_table_schema schema = { .store = ctl->table_store,
		.options = ctl->table_create };
	char *columns = args[1], *indexes = ctl->table_indexes ? strdup(ctl->table_indexes) : NULL;
	char text[COLUMNS_TEXT_BYTES];
	cJSON *object;
	int exit_code, rc;

	while (columns && schema.columns_count < NAM_TABLE_COLUMNS_MAX)
		schema.columns[schema.columns_count++] = part_take(&columns);
	if (columns) {
		ctl_complain("a table has up to %u columns", NAM_TABLE_COLUMNS_MAX);
		free(indexes);
		return NAM_EXIT_USAGE;
	}
	exit_code = indexes_take(indexes, &schema);
	free(indexes);
	if (exit_code)
		return exit_code;
	rc = nam_table_create(ctl->worker, args[0], &schema); /* SUSPENDS */
	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	exit_code = open_table(ctl, args[0]); /* SUSPENDS */
	if (exit_code)
		return exit_code;
	ctl_print(ctl, "created %s: %s, columns %s", args[0],
		nam_isolation_name(nam_table_properties(ctl->table)->options.isolation),
		columns_text(&schema, false, text));
	object = ctl_json(ctl);
	json_schema(object, args[0], nam_table_properties(ctl->table));
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

int
ctl_table_stat(struct ctl *ctl, char **args)
{
	struct nam_table_stat stat;
	uint64_t violations;
	int exit_code = open_table(ctl, args[0]), rc; /* SUSPENDS */

	if (exit_code)
		return exit_code;
	rc = nam_table_verify(ctl->worker, ctl->table, NULL, NULL, &stat,
		&violations); /* SUSPENDS */
	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	if (ctl->json)
		json_stat(args[0], nam_table_properties(ctl->table), &stat);
	else if (!ctl->quiet)
		print_stat(args[0], nam_table_properties(ctl->table), &stat);
	return NAM_EXIT_OK;
}

/* A store that several share stays, and with it the rows. */
int
ctl_table_drop(struct ctl *ctl, char **args)
{
	char store[NAM_RECORDS_NAME_BYTES_MAX + 1] = "";
	int rc = nam_table_open(ctl->worker, args[0], 0, &ctl->table), exit_code; /* SUSPENDS */

	/*
	 * A table that cannot be opened, because some of it is lost, may be dropped all the same.
	 */
	if (!rc && nam_table_properties(ctl->table)->store)
		(void)snprintf(store, sizeof(store), "%s",
			nam_table_properties(ctl->table)->store);
	nam_table_close(ctl->worker, ctl->table); /* SUSPENDS */
	ctl->table = NULL;
	rc = nam_table_drop(ctl->worker, args[0]); /* SUSPENDS */
	if (rc && rc != -NAM_E_LOST)
		return failed(ctl, args[0], rc);
	exit_code = ctl_dropped(ctl, args[0], rc == -NAM_E_LOST);
	if (*store)
		ctl_print(ctl, "its rows keep their memory in the record store '%s': once no other "
			"table is in that, namctl records drop %s", store, store);
	return exit_code;
}

/* ---- verify -------------------------------------------------------------------------------- */

struct violations {
	const struct ctl *ctl;
	cJSON *list;
	unsigned printed;
};

static void
on_violation(void *arg, const char *text)
{
	struct violations *violations = arg;

	if (violations->printed++ >= VIOLATIONS_PRINTED_MAX)
		return;
	if (violations->list)
		cJSON_AddItemToArray(violations->list, cJSON_CreateString(text));
	else
		ctl_print(violations->ctl, "%s", text);
}

static void
print_verdict(const struct ctl *ctl, const char *name, uint64_t rows, uint64_t count)
{
	if (!count) {
		ctl_print(ctl, "%s: %" PRIu64 " rows, and each has its entries", name, rows);
		return;
	}
	if (count > VIOLATIONS_PRINTED_MAX)
		ctl_print(ctl, "and %" PRIu64 " more", count - VIOLATIONS_PRINTED_MAX);
	ctl_print(ctl,
		"%s: %" PRIu64 " entries are missing among %" PRIu64 " rows. If no client was "
		"writing meanwhile, scans of these indexes miss rows: write the rows anew, or drop "
		"the table and fill it anew", name, count, rows);
}

int
ctl_table_verify(struct ctl *ctl, char **args)
{
	struct violations violations = { .ctl = ctl };
	struct nam_table_stat stat;
	cJSON *object;
	uint64_t count;
	int exit_code = open_table(ctl, args[0]), rc; /* SUSPENDS */

	if (exit_code)
		return exit_code;
	object = ctl_json(ctl);
	cJSON_AddStringToObject(object, "table", args[0]);
	violations.list = cJSON_AddArrayToObject(object, "violations");
	rc = nam_table_verify(ctl->worker, ctl->table, on_violation, &violations, &stat,
		&count); /* SUSPENDS */
	if (rc) {
		cJSON_Delete(object);
		return ctl_worker_failed(ctl, args[0], rc);
	}
	print_verdict(ctl, args[0], stat.rows, count);
	ctl_json_u64(object, "count", count);
	ctl_json_u64(object, "rows", stat.rows);
	ctl_json_u64(object, "entries", stat.entries);
	ctl_json_u64(object, "stale_entries", stat.stale);
	ctl_json_print(object);
	return count ? NAM_EXIT_NO : NAM_EXIT_OK;
}

/* ---- rows ---------------------------------------------------------------------------------- */

static cJSON *
json_columns(const struct ctl *ctl, const struct nam_bytes *columns)
{
	const struct nam_table_schema *schema = nam_table_properties(ctl->table);
	cJSON *object = cJSON_CreateObject();

	for (uint32_t i = 0; i < schema->columns_count; i++)
		cJSON_AddItemToObject(object, schema->columns[i],
			ctl_json_value(&columns[i], ctl_is_hex(ctl)));
	return object;
}

/* The table, and the key of one of its rows. */
static int
open_row(struct ctl *ctl, char **args, struct nam_bytes *ret_key)
{
	int exit_code = ctl_bytes_type(ctl, "tables");

	ret_key->data = args[1];
	if (!exit_code)
		exit_code = ctl_bytes_take(ctl, args[1], &ret_key->bytes);
	return exit_code ? exit_code : open_table(ctl, args[0]); /* SUSPENDS */
}

static cJSON *
json_row(const struct ctl *ctl, const char *name, const struct nam_bytes *key)
{
	cJSON *object = ctl_json(ctl);

	cJSON_AddStringToObject(object, "table", name);
	if (object)
		cJSON_AddItemToObject(object, "key", ctl_json_value(key, ctl_is_hex(ctl)));
	return object;
}

static void
json_get(const struct ctl *ctl, const char *name, const struct nam_table_get *get)
{
	cJSON *object = json_row(ctl, name, &get->key);

	cJSON_AddBoolToObject(object, "found", get->columns != NULL);
	if (get->columns) {
		ctl_json_u64(object, "timestamp", get->timestamp);
		cJSON_AddItemToObject(object, "columns", json_columns(ctl, get->columns));
	}
	ctl_json_print(object);
}

NAM_FIBER_FN static int
get_row(struct ctl *ctl, const char *name, struct nam_table_get *get, struct nam_table_rows *rows)
{
	const struct nam_table_schema *schema = nam_table_properties(ctl->table);
	int rc = nam_table_read(ctl->worker, get, 1, rows); /* SUSPENDS */

	if (rc)
		return ctl_worker_failed(ctl, name, rc);
	if (ctl->json)
		json_get(ctl, name, get);
	else if (!ctl->quiet && !get->columns)
		ctl_complain("no such row (NAM_E_NOTFOUND)");
	for (uint32_t i = 0; !ctl->json && !ctl->quiet && get->columns && i < schema->columns_count;
		i++) {
		printf("%-16s ", schema->columns[i]);
		ctl_bytes_show(&get->columns[i], ctl_is_hex(ctl));
		putchar('\n');
	}
	return get->columns ? NAM_EXIT_OK : NAM_EXIT_NO;
}

int
ctl_table_get(struct ctl *ctl, char **args)
{
	struct nam_table_get get = { .table = NULL };
	struct nam_table_rows *rows;
	int exit_code = open_row(ctl, args, &get.key); /* SUSPENDS */

	if (exit_code)
		return exit_code;
	get.table = ctl->table;
	rows = nam_table_rows_new();
	exit_code = rows ? get_row(ctl, args[0], &get, rows) : /* SUSPENDS */
		ctl_failed(args[0], -ENOMEM, NULL);
	nam_table_rows_free(rows);
	return exit_code;
}

/* A value of each column.  Returns an exit code. */
static int
take_columns(const struct ctl *ctl, const char *name, char **values,
	struct nam_bytes columns[NAM_TABLE_COLUMNS_MAX])
{
	const struct nam_table_schema *schema = nam_table_properties(ctl->table);
	char text[COLUMNS_TEXT_BYTES];
	uint32_t count = 0;
	int exit_code = NAM_EXIT_OK;

	for (; !exit_code && values[count] && count < NAM_TABLE_COLUMNS_MAX; count++) {
		columns[count].data = values[count];
		exit_code = ctl_bytes_take(ctl, values[count], &columns[count].bytes);
	}
	if (exit_code || count == schema->columns_count)
		return exit_code;
	ctl_complain("%u values; table '%s' has %u columns: %s", count, name, schema->columns_count,
		columns_text(schema, false, text));
	return NAM_EXIT_USAGE;
}

int
ctl_table_put(struct ctl *ctl, char **args)
{
	struct nam_bytes columns[NAM_TABLE_COLUMNS_MAX];
	struct nam_table_write put = { .columns = columns };
	uint64_t timestamp;
	cJSON *object;
	int exit_code = open_row(ctl, args, &put.key), rc; /* SUSPENDS */

	if (!exit_code)
		exit_code = take_columns(ctl, args[0], args + 2, columns);
	if (exit_code)
		return exit_code;
	put.table = ctl->table;
	rc = nam_table_write(ctl->worker, &put, 1, &timestamp); /* SUSPENDS */
	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	object = json_row(ctl, args[0], &put.key);
	ctl_json_u64(object, "timestamp", timestamp);
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

/* A row that is not there needs no deletion. */
NAM_FIBER_FN static int
delete_row(struct ctl *ctl, const char *name, struct nam_table_get *get,
	struct nam_table_rows *rows)
{
	int rc = nam_table_read(ctl->worker, get, 1, rows); /* SUSPENDS */
	cJSON *object;

	if (!rc && get->columns)
		rc = nam_table_delete(ctl->worker, ctl->table, get->key); /* SUSPENDS */
	if (rc)
		return ctl_worker_failed(ctl, name, rc);
	object = json_row(ctl, name, &get->key);
	cJSON_AddBoolToObject(object, "found", get->columns != NULL);
	ctl_json_print(object);
	if (!get->columns && !ctl->json && !ctl->quiet)
		ctl_complain("no such row (NAM_E_NOTFOUND)");
	return get->columns ? NAM_EXIT_OK : NAM_EXIT_NO;
}

int
ctl_table_delete(struct ctl *ctl, char **args)
{
	struct nam_table_get get = { .table = NULL };
	struct nam_table_rows *rows;
	int exit_code = open_row(ctl, args, &get.key); /* SUSPENDS */

	if (exit_code)
		return exit_code;
	get.table = ctl->table;
	rows = nam_table_rows_new();
	exit_code = rows ? delete_row(ctl, args[0], &get, rows) : /* SUSPENDS */
		ctl_failed(args[0], -ENOMEM, NULL);
	nam_table_rows_free(rows);
	return exit_code;
}

/* ---- ranges -------------------------------------------------------------------------------- */

static uint32_t
wider(uint32_t width, uint32_t other)
{
	if (other > WIDTH_MAX)
		other = WIDTH_MAX;
	return width > other ? width : other;
}

/* The widths of the keys, and of all columns. */
static void
measure(const struct ctl *ctl, const struct nam_table_rows *rows,
	uint32_t ret_widths[NAM_TABLE_COLUMNS_MAX + 1])
{
	const struct nam_table_schema *schema = nam_table_properties(ctl->table);

	ret_widths[0] = sizeof("key") - 1;
	for (uint32_t i = 0; i < schema->columns_count; i++)
		ret_widths[i + 1] = (uint32_t)strlen(schema->columns[i]);
	for (uint32_t r = 0; r < nam_table_rows_count(rows); r++) {
		const struct nam_table_row *row = nam_table_rows_at(rows, r);

		ret_widths[0] = wider(ret_widths[0], ctl_bytes_width(&row->key, ctl_is_hex(ctl)));
		for (uint32_t i = 0; i < schema->columns_count; i++)
			ret_widths[i + 1] = wider(ret_widths[i + 1],
				ctl_bytes_width(&row->columns[i], ctl_is_hex(ctl)));
	}
}

/* Blanks up to the next column. */
static void
print_gap(uint32_t width, uint32_t printed)
{
	printf("%*s", (int)(2 + (width > printed ? width - printed : 0)), "");
}

static void
print_rows(const struct ctl *ctl, const struct nam_table_rows *rows)
{
	const struct nam_table_schema *schema = nam_table_properties(ctl->table);
	uint32_t widths[NAM_TABLE_COLUMNS_MAX + 1];
	bool hex = ctl_is_hex(ctl);

	measure(ctl, rows, widths);
	printf("key");
	for (uint32_t i = 0; i < schema->columns_count; i++) {
		print_gap(widths[i], i ? (uint32_t)strlen(schema->columns[i - 1]) : 3);
		fputs(schema->columns[i], stdout);
	}
	putchar('\n');
	for (uint32_t r = 0; r < nam_table_rows_count(rows); r++) {
		const struct nam_table_row *row = nam_table_rows_at(rows, r);
		const struct nam_bytes *last = &row->key;

		ctl_bytes_show(last, hex);
		for (uint32_t i = 0; i < schema->columns_count; last = &row->columns[i++]) {
			print_gap(widths[i], ctl_bytes_width(last, hex));
			ctl_bytes_show(&row->columns[i], hex);
		}
		putchar('\n');
	}
}

static void
json_rows(const struct ctl *ctl, char **args, const struct nam_table_rows *rows)
{
	cJSON *object = cJSON_CreateObject(), *list;

	cJSON_AddStringToObject(object, "table", args[0]);
	cJSON_AddStringToObject(object, "column", args[1]);
	ctl_json_u64(object, "count", nam_table_rows_count(rows));
	list = cJSON_AddArrayToObject(object, "rows");
	for (uint32_t r = 0; r < nam_table_rows_count(rows); r++) {
		const struct nam_table_row *row = nam_table_rows_at(rows, r);
		cJSON *one = cJSON_CreateObject();

		cJSON_AddItemToObject(one, "key", ctl_json_value(&row->key, ctl_is_hex(ctl)));
		ctl_json_u64(one, "timestamp", row->timestamp);
		cJSON_AddItemToObject(one, "columns", json_columns(ctl, row->columns));
		cJSON_AddItemToArray(list, one);
	}
	ctl_json_print(object);
}

/* The column with that name, which has an index.  Returns an exit code. */
static int
take_column(const struct ctl *ctl, const char *table, const char *name, uint32_t *ret_column)
{
	const struct nam_table_schema *schema = nam_table_properties(ctl->table);
	char text[COLUMNS_TEXT_BYTES];
	int column = nam_table_column(ctl->table, name);

	if (column < 0) {
		ctl_complain("table '%s' has no column '%s'; it has %s", table, name,
			columns_text(schema, false, text));
		return NAM_EXIT_USAGE;
	}
	*ret_column = (uint32_t)column;
	for (uint32_t i = 0; i < schema->indexes_count; i++)
		if (schema->indexes[i].column == (uint32_t)column)
			return NAM_EXIT_OK;
	if (schema->indexes_count)
		ctl_complain("column '%s' of table '%s' has no index; scan by one that has: %s",
			name, table, columns_text(schema, true, text));
	else
		ctl_complain("table '%s' has no index: its rows are found by their keys only, with "
			     "namctl table get", table);
	return NAM_EXIT_USAGE;
}

/* NULL or -: no bound. */
static int
take_bound(const struct ctl *ctl, char *text, struct nam_bytes *ret_bound)
{
	if (!text || !strcmp(text, "-"))
		return NAM_EXIT_OK;
	ret_bound->data = text;
	return ctl_bytes_take(ctl, text, &ret_bound->bytes);
}

NAM_FIBER_FN static int
scan_rows(struct ctl *ctl, char **args, const struct nam_table_range *range,
	struct nam_table_rows *rows)
{
	int rc = nam_table_scan(ctl->worker, ctl->table, range, rows); /* SUSPENDS */

	if (rc == -NAM_E_LIMIT) {
		ctl_complain("%s: the rows take more memory than one scan may: say --limit, or a "
			     "narrower range (NAM_E_LIMIT)", args[0]);
		return nam_exit_code(rc);
	}
	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	if (ctl->json)
		json_rows(ctl, args, rows);
	else if (!ctl->quiet)
		print_rows(ctl, rows);
	return NAM_EXIT_OK;
}

int
ctl_table_scan(struct ctl *ctl, char **args)
{
	/* More rows than that no scan returns. */
	struct nam_table_range range = {
		.limit = ctl->limit < UINT32_MAX ? (uint32_t)ctl->limit : 0,
	};
	struct nam_table_rows *rows;
	int exit_code = ctl_bytes_type(ctl, "tables");

	if (!exit_code)
		exit_code = take_bound(ctl, args[2], &range.low);
	if (!exit_code)
		exit_code = take_bound(ctl, args[2] ? args[3] : NULL, &range.high);
	if (!exit_code)
		exit_code = open_table(ctl, args[0]); /* SUSPENDS */
	if (!exit_code)
		exit_code = take_column(ctl, args[0], args[1], &range.column);
	if (exit_code)
		return exit_code;
	rows = nam_table_rows_new();
	exit_code = rows ? scan_rows(ctl, args, &range, rows) : /* SUSPENDS */
		ctl_failed(args[0], -ENOMEM, NULL);
	nam_table_rows_free(rows);
	return exit_code;
}
