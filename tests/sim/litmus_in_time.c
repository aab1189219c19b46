/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_in_time.c -- scenes in which a memory server comes while clients work on an index, on
 * records or on a table.  No operation fails or waits long, and new ones soon lie there.
 *
 * "There" is the leaf of a key, or the version of a record or row.  A version lies at its record's
 * memory server, so this is about records that are new.
 */
#include <stdio.h>
#include <string.h>

#include "compute/client/cluster_view.h"
#include "compute/worker/worker.h"
#include "litmus.h"
#include "txn/records/txn_internal.h"
#include "txn/table/rows_internal.h"

#define NEW_ID 2u			/* the list has 0 and 1 */
#define KEYS_FROM 1000u
#define KEYS_MAX 100u
#define KEY_BYTES 8u
#define CACHE_BYTES (1u << 20)
#define STORE "litmus-in-time"
#define ALLOCATED_WITHIN_NS 2000000000ull
#define WAIT_MAX_NS 50000000ull		/* of operations, while a memory server comes */

/* An actor, and its handle of what it works on. */
struct user {
	struct actor *actor;
	struct nam_records *records;
	struct nam_table *table;
};

/* All know a number as a key, and the number after it as its value; failures fail the scene. */
struct kind {
	void (*make)(struct actor *self);
	void (*open)(struct user *user);
	void (*put)(struct user *user, uint64_t number);
	void (*expect)(struct user *user, uint64_t number);
	void (*erase)(struct user *user, uint64_t number);
	/* Where it lies; this user has written or read it lately. */
	struct nam_gaddr (*where)(struct user *user, uint64_t number);
	void (*close)(struct user *user);
};

static struct {
	const struct kind *kind;
	struct sim_server *server;	/* that comes */
	uint64_t there;			/* a key that lies there; 0: none */
} scene;

static void
check(const struct user *user, int rc, const char *what, uint64_t number)
{
	if (rc)
		litmus_fail("%s of %llu: %s, %s", what, (unsigned long long)number,
			nam_err_name(rc), nam_worker_diag(user->actor->worker));
}

/* ---- an index: the one of the scene ---------------------------------------------------------- */

static void
index_make(struct actor *self)
{
	(void)self;
}

static void
index_open_close(struct user *user)
{
	(void)user;
}

static void
index_put(struct user *user, uint64_t number)
{
	litmus_insert(user->actor, number);
}

static void
index_expect(struct user *user, uint64_t number)
{
	litmus_expect(user->actor, number, 0);
}

static void
index_erase(struct user *user, uint64_t number)
{
	litmus_delete_range(user->actor, number, number);
}

static struct nam_gaddr
index_where(struct user *user, uint64_t number)
{
	return litmus_leaf_of(user->actor, number, NULL);
}

static const struct kind index_kind = { index_make, index_open_close, index_put, index_expect,
	index_erase, index_where, index_open_close };

/* ---- records --------------------------------------------------------------------------------- */

static void
onesided_make(struct actor *self)
{
	if (nam_records_create(self->worker, STORE, NULL))
		sim_die("the store: %s", nam_worker_diag(self->worker));
}

static void
served_make(struct actor *self)
{
	struct nam_records_options options;

	nam_records_options_init(&options);
	options.commit = NAM_RECORDS_SERVED;
	if (nam_records_create(self->worker, STORE, &options))
		sim_die("the store: %s", nam_worker_diag(self->worker));
}

static void
records_open(struct user *user)
{
	if (nam_records_open(user->actor->worker, STORE, CACHE_BYTES, &user->records))
		sim_die("the store: %s", nam_worker_diag(user->actor->worker));
}

static void
records_write(struct user *user, uint64_t number, const uint64_t *value, const char *what)
{
	const struct nam_record_put put = { &number, KEY_BYTES, value ? 8 : 0, value };

	check(user, nam_records_put_all(user->actor->worker, user->records, &put, 1, NULL), what,
		number);
}

static void
records_put(struct user *user, uint64_t number)
{
	const uint64_t value = number + 1;

	records_write(user, number, &value, "a put");
}

static void
records_erase(struct user *user, uint64_t number)
{
	records_write(user, number, NULL, "a deletion");
}

static void
records_expect(struct user *user, uint64_t number)
{
	uint64_t value = 0;
	struct nam_record_get get = { .key = &number, .key_bytes = KEY_BYTES, .size = 8,
		.value = &value };
	int rc = nam_records_get_all(user->actor->worker, user->records, &get, 1);

	check(user, rc ? rc : get.rc, "a get", number);
	if (!litmus.failed && value != number + 1)
		litmus_fail("record %llu has the value %llu", (unsigned long long)number,
			(unsigned long long)value);
}

static struct nam_gaddr
version_of(const struct nam_records *records, const void *key, uint32_t bytes)
{
	const struct nam__record_id id = nam__record_id(key, bytes);
	struct nam__address address = { .at = NAM_GADDR_NULL };

	if (!nam__addresses_find(records->addresses, &id, &address))
		sim_die("no cached address leads to the record");
	return nam_gaddr_untagged(address.at);
}

static struct nam_gaddr
records_where(struct user *user, uint64_t number)
{
	return version_of(user->records, &number, KEY_BYTES);
}

static void
records_close(struct user *user)
{
	nam_records_close(user->records);
}

static const struct kind onesided_kind = { onesided_make, records_open, records_put,
	records_expect, records_erase, records_where, records_close };
static const struct kind served_kind = { served_make, records_open, records_put, records_expect,
	records_erase, records_where, records_close };

/* ---- a table with an index of its only column ------------------------------------------------ */

static void
table_make(struct actor *self)
{
	static const struct nam_table_schema schema = { .columns = { "value" },
		.columns_count = 1, .indexes = { { 0, 8 } }, .indexes_count = 1 };

	if (nam_table_create(self->worker, STORE, &schema))
		sim_die("the table: %s", nam_worker_diag(self->worker));
}

static void
table_open(struct user *user)
{
	if (nam_table_open(user->actor->worker, STORE, CACHE_BYTES, &user->table))
		sim_die("the table: %s", nam_worker_diag(user->actor->worker));
}

static void
table_put(struct user *user, uint64_t number)
{
	const uint64_t value = number + 1;
	const struct nam_bytes key = { &number, KEY_BYTES }, column = { &value, 8 };

	check(user, nam_table_put(user->actor->worker, user->table, key, &column), "a row", number);
}

static void
table_erase(struct user *user, uint64_t number)
{
	const struct nam_bytes key = { &number, KEY_BYTES };

	check(user, nam_table_delete(user->actor->worker, user->table, key), "a deletion", number);
}

/* By its key, and by its value. */
static void
table_expect(struct user *user, uint64_t number)
{
	const uint64_t value = number + 1;
	struct nam_table_get get = { .table = user->table, .key = { &number, KEY_BYTES } };
	const struct nam_table_range range = { .low = { &value, 8 }, .high = { &value, 8 } };
	struct nam_table_rows *rows = nam_table_rows_new();

	if (!rows)
		sim_die("no memory");
	check(user, nam_table_read(user->actor->worker, &get, 1, rows), "a read", number);
	if (!get.columns || memcmp(get.columns[0].data, &value, 8) != 0)
		litmus_fail("row %llu is not as it was written", (unsigned long long)number);
	check(user, nam_table_scan(user->actor->worker, user->table, &range, rows), "a scan",
		number);
	if (nam_table_rows_count(rows) != 1)
		litmus_fail("%u rows have the value of row %llu", nam_table_rows_count(rows),
			(unsigned long long)number);
	nam_table_rows_free(rows);
}

static struct nam_gaddr
table_where(struct user *user, uint64_t number)
{
	const struct nam_bytes key = { &number, KEY_BYTES };
	uint8_t record_key[NAM_RECORD_KEY_BYTES_MAX];
	uint32_t bytes = nam__row_key(user->table, &key, record_key);

	return version_of(user->table->store->records, record_key, bytes);
}

static void
table_close(struct user *user)
{
	nam_table_close(user->actor->worker, user->table);
}

static const struct kind table_kind = { table_make, table_open, table_put, table_expect,
	table_erase, table_where, table_close };

/* ---- the scene ------------------------------------------------------------------------------- */

static struct user
user_open(struct actor *self)
{
	struct user user = { .actor = self };

	scene.kind->open(&user);
	return user;
}

/* Keys that are new, until one lies there. */
static void
put_there(struct user *user)
{
	const struct nam_client *client = user->actor->client;

	litmus_server_await(user->actor, NEW_ID);
	for (uint64_t i = 0; i < KEYS_MAX && !scene.there && !litmus.failed; i++) {
		uint64_t number = KEYS_FROM + i;
		uint32_t slot;

		scene.kind->put(user, number);
		scene.kind->expect(user, number);
		slot = litmus_server_of(user->actor, scene.kind->where(user, number));
		if (client->servers[slot].id == NEW_ID)
			scene.there = number;
	}
}

static void
add_in_time(struct actor *self, const struct kind *kind)
{
	struct user user;
	uint64_t began;

	memset(&scene, 0, sizeof(scene));
	scene.kind = kind;
	kind->make(self);
	user = user_open(self);
	scene.server = sim_cluster_add(&litmus.cluster, NEW_ID);
	litmus.flags[ONE] = true;
	began = nam_now_ns();
	litmus_server_add(scene.server->address);
	put_there(&user);
	if (!scene.there)
		litmus_fail("nothing that is new lies at the new memory server");
	else if (nam_now_ns() - began > ALLOCATED_WITHIN_NS)
		litmus_fail("a key lies there after %llu ns",
			(unsigned long long)(nam_now_ns() - began));
	litmus.flags[TWO] = true;
	kind->close(&user);
}

static void
add_beside_index(struct actor *self)
{
	add_in_time(self, &index_kind);
}

static void
add_beside_records(struct actor *self)
{
	add_in_time(self, &onesided_kind);
}

static void
add_beside_served(struct actor *self)
{
	add_in_time(self, &served_kind);
}

static void
add_beside_table(struct actor *self)
{
	add_in_time(self, &table_kind);
}

/* No change or look waits long. */
static void
work_meanwhile(struct actor *self)
{
	struct user user;
	uint64_t i;

	litmus_await(ONE);
	user = user_open(self);
	for (i = 0; !litmus.flags[TWO] && !litmus.failed; i++) {
		uint64_t number = 10 * (i % LITMUS_LOADED) + self->who, began = nam_now_ns();

		scene.kind->put(&user, number);
		scene.kind->expect(&user, number);
		scene.kind->erase(&user, number);
		if (nam_now_ns() - began > WAIT_MAX_NS)
			litmus_fail("a change, a look and a deletion took %llu ns",
				(unsigned long long)(nam_now_ns() - began));
	}
	if (!i)
		litmus_fail("a client has done nothing meanwhile");
	scene.kind->close(&user);
}

static void
end_in_time(struct actor *self)
{
	struct user user = user_open(self);

	litmus_expect_members(self, 3);
	scene.kind->expect(&user, scene.there);
	scene.kind->close(&user);
	litmus_verify(self);
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_in_time_cases[] = {
	{ { "view_in_time", LITMUS_LOADED,
		{ end_in_time, add_beside_index, work_meanwhile, work_meanwhile }, { { 0 } } },
		"a memory server comes while clients work, which do not wait", 2, 0 },
	{ { "view_in_time_hybrid", LITMUS_LOADED,
		{ end_in_time, add_beside_index, work_meanwhile, work_meanwhile }, { { 0 } } },
		"the same with a hybrid index", 2, LITMUS_HYBRID_HASH },
	{ { "view_in_time_records", 0,
		{ end_in_time, add_beside_records, work_meanwhile, work_meanwhile }, { { 0 } } },
		"the same with records", 2, 0 },
	{ { "view_in_time_served", 0,
		{ end_in_time, add_beside_served, work_meanwhile, work_meanwhile }, { { 0 } } },
		"the same with records that memory servers serve", 2, 0 },
	{ { "view_in_time_table", 0,
		{ end_in_time, add_beside_table, work_meanwhile, work_meanwhile }, { { 0 } } },
		"the same with a table", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
