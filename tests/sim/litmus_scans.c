/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_scans.c -- scenes about scans in serializable transactions: phantoms, entries that come
 * and go with their records, and coordinators that die between the two.
 *
 * A value is a town of 8 bytes, of which there is an index, and a number.  X is in Aa at first.
 */
#include <stdio.h>
#include <string.h>

#include "txn/serial/indexed.h"
#include "litmus_txn.h"

#define STORE "litmus-scans"
#define TOWN_BYTES 8u
#define ROWS 16u
#define LATE_NS 2000000u

static const char aa[] = "Aa......", bb[] = "Bb......";

/* ---- operations ------------------------------------------------------------------------------ */

/* @town	NULL: in no town */
static void
put(struct nam_txn *txn, const char *key, const char *town)
{
	char value[16] = "";

	if (town)
		memcpy(value, town, TOWN_BYTES);
	expect_rc("a write", nam_txn_write(txn, key, 1, value, town ? sizeof(value) : 1), 0);
}

/* The keys in a town, one character each. */
static int
scan(struct nam_txn *txn, const char *town, char ret_keys[ROWS + 1])
{
	const struct nam_range range = { .low = town, .high = town, .high_inclusive = true };
	struct nam_txn_row rows[ROWS];
	uint32_t count = 0;
	int rc = nam_txn_scan(txn, 0, &range, rows, ROWS, &count);

	for (uint32_t i = 0; i < count; i++) {
		ret_keys[i] = *(const char *)rows[i].key;
		if (memcmp(rows[i].value, town, TOWN_BYTES))
			litmus_fail("%c is in %.8s, and not in %s", ret_keys[i],
				(const char *)rows[i].value, town);
	}
	ret_keys[rc ? 0 : count] = '\0';
	return rc;
}

static int
move(struct actor *self, struct nam_txn_store *store, const char *key, const char *town)
{
	struct nam_txn *txn = begin(self, store);

	put(txn, key, town);
	return nam_txn_commit(txn, NULL);
}

/* Until it succeeds, or the time is over. */
static int
move_for(struct actor *self, struct nam_txn_store *store, const char *key, const char *town,
	uint64_t ns)
{
	uint64_t end_ns = nam_now_ns() + ns;
	int rc;

	while ((rc = move(self, store, key, town)) == -NAM_E_CONFLICT && nam_now_ns() < end_ns)
		nam_sleep_ns(LITMUS_POLL_NS);
	return rc;
}

/* Both towns, by one transaction. */
static int
look(struct actor *self, struct nam_txn_store *store, char ret_aa[ROWS + 1],
	char ret_bb[ROWS + 1])
{
	struct nam_txn *txn = begin(self, store);
	int rc = scan(txn, aa, ret_aa);

	if (!rc)
		rc = scan(txn, bb, ret_bb);
	if (!rc)
		return nam_txn_commit(txn, NULL);
	nam_txn_abort(txn);
	return rc;
}

/* In the end, whatever a dead client has left. */
static void
expect_towns(struct actor *self, struct nam_txn_store *store, const char *in_aa, const char *in_bb)
{
	uint64_t end_ns = nam_now_ns() + LITMUS_TIMEOUT_NS;
	char is_aa[ROWS + 1] = "", is_bb[ROWS + 1] = "";
	int rc;

	while ((rc = look(self, store, is_aa, is_bb)) == -NAM_E_CONFLICT && nam_now_ns() < end_ns)
		nam_sleep_ns(LITMUS_POLL_NS);
	expect_rc("scans in the end", rc, 0);
	if (strcmp(is_aa, in_aa) || strcmp(is_bb, in_bb))
		litmus_fail("'%s' are in Aa and '%s' in Bb, not '%s' and '%s'", is_aa, is_bb,
			in_aa, in_bb);
}

static void
expect_entries(struct actor *self, struct nam_txn_store *store, uint64_t expected)
{
	struct nam_index_stat stat = { .entries = 0 };

	expect_rc("the index", nam_index_stat(self->worker, store->indexes[0], &stat), 0);
	if (stat.entries != expected)
		litmus_fail("the index has %llu entries, not %llu",
			(unsigned long long)stat.entries, (unsigned long long)expected);
}

/* The first actor makes the store; others come when it is there. */
static struct nam_txn_store *
make(struct actor *self)
{
	const struct nam_txn_store_options options = { .key_bytes_max = 8, .value_bytes_max = 16,
		.records = 64, .indexes = { { 0, TOWN_BYTES, 0 } } };
	struct nam_txn_store *store;

	if (nam_txn_store_create(self->worker, STORE, &options))
		sim_die("the store: %s", nam_worker_diag(self->worker));
	store = litmus_txn_open(self, STORE);
	expect_rc("the first value", move(self, store, "x", aa), 0);
	litmus.flags[SEEN] = true;
	return store;
}

static struct nam_txn_store *
arrive(struct actor *self)
{
	litmus_await(SEEN);
	return litmus_txn_open(self, STORE);
}

/* ---- phantoms -------------------------------------------------------------------------------- */

/* Writes Y if nothing is in Bb.  @town	of Y */
static void
write_if_empty(struct actor *self, const char *town)
{
	struct nam_txn_store *store = make(self);
	struct nam_txn *txn = begin(self, store);
	char keys[ROWS + 1];

	expect_rc("a scan", scan(txn, bb, keys), 0);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	put(txn, "y", town);
	expect_rc("a commit after a phantom", nam_txn_commit(txn, NULL), -NAM_E_CONFLICT);
	expect_towns(self, store, "x", "z");
	expect_entries(self, store, 2);
	nam_txn_store_close(store);
}

static void
write_elsewhere(struct actor *self)
{
	write_if_empty(self, NULL);
}

/* Its own entry changes the leaf, too. */
static void
write_there(struct actor *self)
{
	write_if_empty(self, bb);
}

static void
fill_town(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);

	litmus_await(ONE);
	expect_rc("a commit", move(self, store, "z", bb), 0);
	litmus.flags[TWO] = true;
	nam_txn_store_close(store);
}

/* ---- write skew ------------------------------------------------------------------------------ */

static int skew_rc;

/* Scans one town, and inserts into the other. */
static int
skew(struct actor *self, struct nam_txn_store *store, const char *scanned, const char *key,
	const char *town)
{
	struct nam_txn *txn = begin(self, store);
	char keys[ROWS + 1];

	expect_rc("a scan", scan(txn, scanned, keys), 0);
	litmus.flags[self->who == A ? ONE : TWO] = true;
	litmus_await(self->who == A ? TWO : ONE);
	put(txn, key, town);
	return nam_txn_commit(txn, NULL);
}

static void
skew_first(struct actor *self)
{
	struct nam_txn_store *store = make(self);

	skew_rc = skew(self, store, bb, "y", aa);
	litmus.flags[THREE] = true;
	nam_txn_store_close(store);
}

static void
skew_second(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);
	int rc = skew(self, store, aa, "z", bb);

	litmus_await(THREE);
	if (!rc && !skew_rc)
		litmus_fail("both transactions committed, on scans of what the other one inserted");
	if ((rc && rc != -NAM_E_CONFLICT) || (skew_rc && skew_rc != -NAM_E_CONFLICT))
		litmus_fail("%s and %s", nam_err_name(skew_rc), nam_err_name(rc));
	expect_entries(self, store, 1 + !rc + !skew_rc);
	nam_txn_store_close(store);
}

/* Both have validated before one goes on. */
static void
meet_validated(struct actor *self)
{
	if (!litmus.flags[ONE] || !litmus.flags[TWO])
		return;
	litmus.flags[self->who == A ? FOUR : FIVE] = true;
	litmus_await(self->who == A ? FIVE : FOUR);
}

/* ---- records that move ----------------------------------------------------------------------- */

static void
move_slowly(struct actor *self)
{
	struct nam_txn_store *store = make(self);

	litmus.flags[ONE] = true;
	expect_rc("a commit", move(self, store, "x", bb), 0);
	litmus.flags[TWO] = true;
	nam_txn_store_close(store);
}

/* All records are released, the second time. */
static void
hold_released(struct actor *self)
{
	(void)self;
	if (!litmus.flags[ONE] || litmus.flags[FOUR])
		return;
	if (!litmus.flags[INSERTED]) {
		litmus.flags[INSERTED] = true;
		return;
	}
	litmus.flags[FOUR] = true;
	litmus_await(THREE);
}

static void
move_back(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);

	litmus_await(FOUR);
	expect_rc("a commit", move_for(self, store, "x", aa, LATE_NS), 0);
	litmus.flags[THREE] = true;
	litmus_await(TWO);
	expect_towns(self, store, "x", "");
	nam_txn_store_close(store);
}

/* ---- coordinators that die ------------------------------------------------------------------- */

/* X moves to Bb, and Y comes there. */
static void
move_and_die(struct actor *self)
{
	struct nam_txn_store *store = make(self);
	struct nam_txn *txn = begin(self, store);

	put(txn, "x", bb);
	put(txn, "y", bb);
	litmus.flags[FOUR] = true;
	(void)!nam_txn_commit(txn, NULL);
	nam_txn_store_close(store);
}

static void
die_here(struct actor *self)
{
	if (litmus.flags[FOUR])
		litmus_die_here(self);
}

/* Afterwards the index is as if the dead client had never been, or had ended. */
static void
scan_after_death(struct actor *self, bool committed)
{
	struct nam_txn_store *store = arrive(self);
	char in_aa[ROWS + 1] = "", in_bb[ROWS + 1] = "";
	uint64_t end_ns = nam_now_ns() + LITMUS_TIMEOUT_NS;
	int rc;

	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	while ((rc = look(self, store, in_aa, in_bb)) == -NAM_E_CONFLICT && nam_now_ns() < end_ns)
		nam_sleep_ns(LITMUS_POLL_NS);
	expect_rc("scans after a death", rc, 0);
	if (strcmp(in_aa, committed ? "" : "x") || strlen(in_bb) != (committed ? 2 : 0))
		litmus_fail("'%s' are in Aa and '%s' in Bb", in_aa, in_bb);
	/* The first scan has removed stray entries. */
	expect_entries(self, store, committed ? 2 : 1);
	expect_rc("a commit afterwards", move_for(self, store, "y", aa, LITMUS_TIMEOUT_NS), 0);
	expect_rc("a commit afterwards", move_for(self, store, "x", bb, LITMUS_TIMEOUT_NS), 0);
	expect_towns(self, store, "y", "x");
	expect_entries(self, store, 2);
	nam_txn_store_close(store);
}

static void
scan_undone(struct actor *self)
{
	scan_after_death(self, false);
}

static void
scan_done(struct actor *self)
{
	scan_after_death(self, true);
}

/* ---- stray entries --------------------------------------------------------------------------- */

/* Removes the entries that the dead client has left in Bb. */
static void
tidy(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);
	char in_aa[ROWS + 1] = "", in_bb[ROWS + 1] = "";
	uint64_t end_ns = nam_now_ns() + LITMUS_TIMEOUT_NS;

	litmus_await_state(self, A, NAM_CLIENT_DEAD);
	litmus.flags[ONE] = true;
	while (look(self, store, in_aa, in_bb) == -NAM_E_CONFLICT && nam_now_ns() < end_ns)
		nam_sleep_ns(LITMUS_POLL_NS);
	litmus.flags[TWO] = true;
	nam_txn_store_close(store);
}

static void
hold_tidy(struct actor *self)
{
	(void)self;
	if (!litmus.flags[ONE] || litmus.flags[THREE])
		return;
	litmus.flags[THREE] = true;
	litmus_await(FIVE);
}

/* X moves to where a stray entry says. */
static void
move_meanwhile(struct actor *self)
{
	struct nam_txn_store *store = arrive(self);
	int rc;

	litmus_await(THREE);
	rc = move_for(self, store, "x", bb, LATE_NS);
	litmus.flags[FIVE] = true;
	litmus_await(TWO);
	if (rc)
		rc = move_for(self, store, "x", bb, LITMUS_TIMEOUT_NS);
	expect_rc("a commit", rc, 0);
	expect_towns(self, store, "", "x");
	nam_txn_store_close(store);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

#define DIES(name, point, reader, text) \
	{ { name, 0, { NULL, move_and_die, reader }, { { point, A, die_here } } }, text, 2, 0 }

const struct litmus_case litmus_scan_cases[] = {
	{ { "scan_phantom", 0, { NULL, write_elsewhere, fill_town }, { { 0 } } },
		"scans: a record comes into the range of a scan before the commit", 2, 0 },
	{ { "scan_own", 0, { NULL, write_there, fill_town }, { { 0 } } },
		"scans: the same, and the transaction itself changes the leaf", 2, 0 },
	{ { "scan_skew", 0, { NULL, skew_first, skew_second },
		{ { "serial.validated", A, meet_validated },
			{ "serial.validated", B, meet_validated } } },
		"scans: write skew: each of two inserts where the other one has scanned", 2, 0 },
	{ { "scan_moved", 0, { NULL, move_slowly, move_back },
		{ { "serial.written", A, hold_released } } },
		"scans: a record moves to another key and back, before the first has ended", 2, 0 },
	DIES("scan_dies_locked", "serial.locked", scan_undone,
		"scans: a coordinator dies with its locks, before its entries"),
	DIES("scan_dies_entered", "serial.entered", scan_undone,
		"scans: a coordinator dies with its entries, before its log"),
	DIES("scan_dies_validated", "serial.validated", scan_undone,
		"scans: a coordinator dies after its validation, before its log"),
	DIES("scan_dies_logged", "serial.logged", scan_done,
		"scans: a coordinator dies after its log, before it writes"),
	DIES("scan_dies_written", "serial.written", scan_done,
		"scans: a coordinator dies before it removes old entries"),
	DIES("scan_dies_removed", "serial.removed", scan_done,
		"scans: a coordinator dies before it releases its locks"),
	{ { "scan_tidied", 0, { NULL, move_and_die, tidy, move_meanwhile },
		{ { "serial.entered", A, die_here }, { "serial.stray", B, hold_tidy } } },
		"scans: a record gets the key of a stray entry while a client removes that", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
