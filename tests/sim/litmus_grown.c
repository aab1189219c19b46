/* SPDX-License-Identifier: Apache-2.0 */
/* litmus_grown.c -- scenes about stores of serializable transactions whose tables grow. */
#include <stdio.h>
#include <string.h>

#include "litmus_txn.h"
#include "txn/serial/layout.h"

#define STORE "grown"

static int
insert(struct actor *self, struct nam_txn_store *store, const char *key, const char *value)
{
	struct nam_txn *txn = begin(self, store);
	int rc = nam_txn_insert(txn, key, (uint32_t)strlen(key), value, (uint32_t)strlen(value));

	if (!rc)
		return nam_txn_commit(txn, NULL);
	nam_txn_abort(txn);
	return rc;
}

/* A store with one bucket, which is full. */
static struct nam_txn_store *
make_full(struct actor *self)
{
	const struct nam_txn_store_options options = { .key_bytes_max = 8, .value_bytes_max = 8,
		.records = 1 };
	struct nam_txn_store *store;
	char key[9];

	if (nam_txn_store_create(self->worker, STORE, &options))
		sim_die("the store: %s", nam_worker_diag(self->worker));
	store = litmus_txn_open(self, STORE);
	for (uint32_t i = 0; i < NAM__SERIAL_SLOTS; i++) {
		(void)snprintf(key, sizeof(key), "%u", i);
		expect_rc("an insert", insert(self, store, key, "old"), 0);
	}
	litmus.flags[SEEN] = true;
	return store;
}

static void
expect_text(struct actor *self, struct nam_txn_store *store, const char *key, const char *text)
{
	char value[8];
	uint32_t bytes = 0;
	struct nam_txn *txn = begin(self, store);
	int rc = nam_txn_read(txn, key, (uint32_t)strlen(key), value,
		sizeof(value), &bytes);

	if (rc)
		litmus_fail("%s: %s", key, nam_err_name(rc));
	else if (bytes != strlen(text) || memcmp(value, text, bytes) != 0)
		litmus_fail("%s is %.*s, not %s", key, (int)bytes, value, text);
	nam_txn_abort(txn);
}

/* Both have written buckets of their own, and neither has appended them. */
static void
meet_before_append(struct actor *self)
{
	enum flag mine = self->who == A ? ONE : TWO;

	if (litmus.flags[mine])
		return;
	litmus.flags[mine] = true;
	litmus_await_for(mine == ONE ? TWO : ONE, LITMUS_SHORT_NS);
}

static void
grow_first(struct actor *self)
{
	struct nam_txn_store *store = make_full(self);

	expect_rc("an insert", insert(self, store, "one", "1"), 0);
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	expect_text(self, store, "one", "1");
	expect_text(self, store, "two", "2");
	expect_text(self, store, "0", "old");
	nam_txn_store_close(store);
	expect_rc("a drop", nam_txn_store_drop(self->worker, STORE), 0);
}

static void
grow_second(struct actor *self)
{
	struct nam_txn_store *store;

	litmus_await(SEEN);
	store = litmus_txn_open(self, STORE);
	expect_rc("an insert", insert(self, store, "two", "2"), 0);
	litmus_await(THREE);
	expect_text(self, store, "one", "1");
	expect_text(self, store, "two", "2");
	nam_txn_store_close(store);
	litmus.flags[FOUR] = true;
}

const struct litmus_case litmus_grown_cases[] = {
	{ { "serial_grown", 0, { NULL, grow_first, grow_second },
		{ { "serial.buckets_written", A, meet_before_append },
			{ "serial.buckets_written", B, meet_before_append } } },
		"serializable: two clients append buckets to the same full one", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
