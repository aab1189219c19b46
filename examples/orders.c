/* SPDX-License-Identifier: Apache-2.0 */
/*
 * orders.c -- two tables that always agree: orders, and the lines of orders.
 *
 *	nam-memserver --id 0 --listen shm:/tmp/nam0 --memory 64M &
 *	nam-memserver --id 1 --listen shm:/tmp/nam1 --memory 64M &
 *	example_orders shm:/tmp/nam0,shm:/tmp/nam1
 *
 * A line names its order, as with a foreign key; an order's row says how many lines it has and what
 * they amount to.  A writer changes the row of an order and all its lines in one transaction.  A
 * reader that scans the lines of an order with its row sees both of one transaction.  It never sees
 * a line without its order, or another count.  No operation takes a lock.
 *
 * All writers of an order must write the same rows, or delete them.  If only one transaction
 * touches a row, another transaction does not take the reader there.
 *
 * Fibers change orders while others check them; run it in two shells, and the other's changes are
 * checked as well.  With the word "apart" each row is written by itself, and the checks fail.
 * Afterwards namctl table shows what is there.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/example.h"

#define STORE "shop"		/* of both tables: or no transaction could write both */
#define ORDERS 12u
#define ORDERS_KEPT 6u		/* so many are never cancelled */
#define LINES_MAX 4u
#define WRITERS 4u
#define READERS 4u
#define CHANGES 1000u		/* by each writer */
#define KEY_BYTES 16u

enum { ORDER_CUSTOMER, ORDER_LINES, ORDER_TOTAL, ORDER_COLUMNS };
enum { LINE_ORDER, LINE_ITEM, LINE_AMOUNT, LINE_COLUMNS };

static const struct nam_table_schema orders_schema = {
	.columns = { "customer", "lines", "total" },
	.columns_count = ORDER_COLUMNS,
	.indexes = { { ORDER_CUSTOMER, 0 }, { ORDER_TOTAL, 8 } },
	.indexes_count = 2,
	.store = STORE,
};

static const struct nam_table_schema lines_schema = {
	.columns = { "order", "item", "amount" },
	.columns_count = LINE_COLUMNS,
	.indexes = { { LINE_ORDER, KEY_BYTES } },
	.indexes_count = 1,
	.store = STORE,
};

struct shop {
	struct nam_worker *worker;
	struct nam_table *orders, *lines;
	bool apart;
	unsigned writing;		/* fibers that still do */
	uint64_t random;
	uint64_t changes, cancels, checks, lists, again, wrong;
	int rc;				/* the first failure */
};

static unsigned
below(struct shop *shop, unsigned end)
{
	return example_random(&shop->random, end);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* The parts of the rows of one transaction. */
struct change {
	char order[KEY_BYTES], customer[KEY_BYTES], count[12];
	unsigned char total[8];
	char line[LINES_MAX][KEY_BYTES];
	unsigned char amount[LINES_MAX][8];	/* big-endian, so that an index has them in order */
	struct nam_bytes order_columns[ORDER_COLUMNS], line_columns[LINES_MAX][LINE_COLUMNS];
	struct nam_table_write writes[1 + LINES_MAX];
};

static void
change_fill(struct shop *shop, unsigned number, unsigned count, struct change *change)
{
	static const char *const items[] = { "anvil", "bellows", "crucible", "drill" };
	static const char *const customers[] = { "ada", "grace", "hedy" };
	uint64_t total = 0;

	(void)snprintf(change->order, KEY_BYTES, "%u", 1000 + number);
	for (unsigned i = 0; i < LINES_MAX; i++) {
		uint64_t amount = 1 + below(shop, 100);

		(void)snprintf(change->line[i], KEY_BYTES, "%u/%u", 1000 + number, i + 1);
		nam_key_from_u64(amount, change->amount[i]);
		total += i < count ? amount : 0;
		change->line_columns[i][LINE_ORDER] = example_text(change->order);
		change->line_columns[i][LINE_ITEM] = example_text(items[below(shop, 4)]);
		change->line_columns[i][LINE_AMOUNT] = (struct nam_bytes){ change->amount[i], 8 };
		/* Without columns: delete the row, whether it is there or not. */
		change->writes[1 + i] = (struct nam_table_write){ shop->lines,
			example_text(change->line[i]), i < count ? change->line_columns[i] : NULL };
	}
	(void)snprintf(change->count, sizeof(change->count), "%u", count);
	nam_key_from_u64(total, change->total);
	change->order_columns[ORDER_CUSTOMER] = example_text(customers[below(shop, 3)]);
	change->order_columns[ORDER_LINES] = example_text(change->count);
	change->order_columns[ORDER_TOTAL] = (struct nam_bytes){ change->total, 8 };
	change->writes[0] = (struct nam_table_write){ shop->orders, example_text(change->order),
		count ? change->order_columns : NULL };
}

/* Another customer, other lines; or, with 0 lines, no such order any more. */
static int
change_order(struct shop *shop, unsigned number, unsigned count)
{
	struct change change;
	int rc = 0;

	change_fill(shop, number, count, &change);
	if (!shop->apart)
		rc = nam_table_write(shop->worker, change.writes, 1 + LINES_MAX, NULL);
	for (unsigned i = 0; shop->apart && !rc && i <= LINES_MAX; i++)
		rc = nam_table_write(shop->worker, &change.writes[i], 1, NULL);
	if (rc)
		return example_failed("changing an order", rc, nam_worker_diag(shop->worker));
	if (count)
		shop->changes++;
	else
		shop->cancels++;
	return 0;
}

static void
write_fiber(void *arg)
{
	struct shop *shop = arg;

	for (unsigned i = 0; i < CHANGES && !shop->rc; i++) {
		unsigned number = below(shop, ORDERS), least = number < ORDERS_KEPT;
		int rc = change_order(shop, number, least + below(shop, LINES_MAX + 1 - least));

		if (rc && !shop->rc)
			shop->rc = rc;
	}
	shop->writing--;
}

/* ---- checking -------------------------------------------------------------------------------- */

static void
wrong(struct shop *shop, const char *order, const char *what)
{
	if (!shop->wrong++)
		printf("order %s: %s\n", order, what);
}

/* The lines that were found against what the order's row says, if there is one. */
static void
compare(struct shop *shop, const char *order, const struct nam_table_get *row,
	const struct nam_table_rows *lines)
{
	uint32_t count = nam_table_rows_count(lines);
	struct nam_bytes counted;
	uint64_t total = 0;
	char text[12];

	shop->checks++;
	if (!row->columns) {
		if (count)
			wrong(shop, order, "it has lines, and is not there");
		return;
	}
	for (uint32_t i = 0; i < count; i++)
		total += example_number(&nam_table_rows_at(lines, i)->columns[LINE_AMOUNT]);
	(void)snprintf(text, sizeof(text), "%" PRIu32, count);
	counted = row->columns[ORDER_LINES];
	if (counted.bytes != strlen(text) || memcmp(counted.data, text, counted.bytes) != 0)
		wrong(shop, order, "it has another number of lines than its row says");
	else if (total != example_number(&row->columns[ORDER_TOTAL]))
		wrong(shop, order, "its lines do not amount to what its row says");
}

/* Where rows are replaced all the time, a scan may have to be tried again. */
static int
scanned(struct shop *shop, int rc)
{
	if (!nam_err_is(rc, NAM_E_RESTART))
		return example_failed("scanning", rc, nam_worker_diag(shop->worker));
	shop->again++;
	return 0;
}

/* An order's lines by their index, with its row beside: both of one moment. */
static int
check_order(struct shop *shop, unsigned number, struct nam_table_rows *rows)
{
	char order[KEY_BYTES];
	struct nam_table_get row = { .table = shop->orders };
	struct nam_table_range range = { .column = LINE_ORDER, .gets = &row, .gets_count = 1 };
	int rc;

	(void)snprintf(order, KEY_BYTES, "%u", 1000 + number);
	row.key = range.low = range.high = example_text(order);
	rc = nam_table_scan(shop->worker, shop->lines, &range, rows);
	if (rc)
		return scanned(shop, rc);
	compare(shop, order, &row, rows);
	return 0;
}

/* All orders by their customers: each is at one of them, however often it goes to another. */
static int
check_customers(struct shop *shop, struct nam_table_rows *rows)
{
	const struct nam_table_range all = { .column = ORDER_CUSTOMER };
	unsigned found[ORDERS] = { 0 };
	int rc = nam_table_scan(shop->worker, shop->orders, &all, rows);

	if (rc)
		return scanned(shop, rc);
	shop->lists++;
	for (uint32_t i = 0; i < nam_table_rows_count(rows); i++) {
		struct nam_bytes key = nam_table_rows_at(rows, i)->key;
		char order[KEY_BYTES] = "";
		unsigned number;

		memcpy(order, key.data, key.bytes < KEY_BYTES ? key.bytes : KEY_BYTES - 1);
		if (sscanf(order, "%u", &number) != 1 || number - 1000 >= ORDERS)
			wrong(shop, order, "no client made it");
		else if (found[number - 1000]++)
			wrong(shop, order, "it has two customers");
	}
	for (unsigned i = 0; i < ORDERS_KEPT; i++)
		if (!found[i])
			wrong(shop, "that is never cancelled", "it has no customer");
	return 0;
}

static void
read_fiber(void *arg)
{
	struct shop *shop = arg;
	struct nam_table_rows *rows = nam_table_rows_new();
	int rc = rows ? 0 : example_failed("reading", -NAM_E_LIMIT, "no memory");

	while (!rc && shop->writing && !shop->rc) {
		rc = check_order(shop, below(shop, ORDERS), rows);
		if (!rc && below(shop, 4) == 0)
			rc = check_customers(shop, rows);
	}
	nam_table_rows_free(rows);
	if (rc && !shop->rc)
		shop->rc = rc;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* All orders are there before the first fiber reads; then fibers, side by side. */
static int
run(struct shop *shop)
{
	int rc = 0;

	for (unsigned i = 0; i < ORDERS && !rc; i++)
		rc = change_order(shop, i, 1 + i % LINES_MAX);
	for (unsigned i = 0; i < WRITERS && !rc; i++) {
		rc = nam_worker_spawn(shop->worker, write_fiber, shop);
		shop->writing += !rc;
	}
	for (unsigned i = 0; i < READERS && !rc; i++)
		rc = nam_worker_spawn(shop->worker, read_fiber, shop);
	nam_worker_run(shop->worker); /* until every fiber has returned */
	if (rc)
		return example_failed("starting", rc, nam_worker_diag(shop->worker));
	if (shop->rc)
		return shop->rc;
	printf("%" PRIu64 " orders changed, %" PRIu64 " cancelled\n", shop->changes, shop->cancels);
	printf("%" PRIu64 " orders checked against their lines, %" PRIu64 " lists of all orders; %"
		PRIu64 " scans tried again\n", shop->checks, shop->lists, shop->again);
	printf("%" PRIu64 " wrong answers\n", shop->wrong);
	return shop->wrong || !shop->checks || !shop->lists ? -NAM_E_REMOTE_CORRUPT : 0;
}

/* The first program creates the table; later ones open it by its name. */
static int
open_table(struct nam_worker *worker, const char *name, const struct nam_table_schema *schema,
	struct nam_table **ret_table)
{
	int rc = nam_table_create(worker, name, schema);

	if (rc && !nam_err_is(rc, NAM_E_INDEX_EXISTS))
		return example_failed("creating a table", rc, nam_worker_diag(worker));
	rc = nam_table_open(worker, name, 1 << 20, ret_table);
	return rc ? example_failed("opening a table", rc, nam_worker_diag(worker)) : 0;
}

static int
with_worker(struct nam_worker *worker, void *apart)
{
	struct shop shop = { .worker = worker, .apart = *(bool *)apart,
		.random = (uint64_t)getpid() };
	int rc = open_table(worker, "orders", &orders_schema, &shop.orders);

	if (!rc)
		rc = open_table(worker, "lines", &lines_schema, &shop.lines);
	if (!rc)
		rc = run(&shop);
	nam_table_close(worker, shop.lines); /* the tables stay, in the memory servers */
	nam_table_close(worker, shop.orders);
	return rc;
}

int
main(int argc, char **argv)
{
	bool apart = argc == 3 && strcmp(argv[2], "apart") == 0;

	return example_main(argc - apart, argv, "[apart]", with_worker, &apart);
}
