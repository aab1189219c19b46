/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_records.c -- scenes about record stores: readers between the steps of a commit, writers
 * that die there or come late, and reused blocks of versions.
 *
 * A value is one number, again and again; timestamps say which is newer, and no reader may see
 * those of a record fall.
 */
#include <stdio.h>
#include <string.h>

#include "common/guard.h"
#include "txn/records.h"
#include "txn/records/txn_internal.h"
#include "litmus_records.h"

#define STORE LITMUS_STORE
#define STORE_BYTES (1u << 20)
#define WORDS 125u			/* of a value */
#define RECORDS LITMUS_RECORDS
#define TOGETHER 2u			/* X and Y */
#define HALF 60u			/* a READ stops before this one of its 136 steps */
#define LATE_NS 200000u
#define TRIES 20u
#define AHEAD_US (1ull << 50)		/* of any clock */

static char keys[RECORDS][8];
/* The newest version of each record that a client was told of, at the end of that operation. */
static uint64_t newest[RECORDS];

/* ---- operations ------------------------------------------------------------------------------ */

static void
keys_choose(const struct nam_records *records)
{
	unsigned number = 0;

	memset(newest, 0, sizeof(newest));
	for (unsigned i = 0; i < RECORDS; i++) {
		uint32_t last = records->client->servers_count - 1, is;
		uint32_t wanted = i == Y ? last : i == Z && last > 1 ? 1 : 0;

		do {
			struct nam__record_id id;

			(void)snprintf(keys[i], sizeof(keys[i]), "r%u", number++);
			id = nam__record_id(keys[i], (uint32_t)strlen(keys[i]));
			is = nam_alloc_slot(records->client, (uint32_t)(id.word[0] >> 32));
		} while (is != wanted);
	}
}

const char *
litmus_record_key(enum record record)
{
	return keys[record];
}

struct nam_records *
litmus_store_open(struct actor *self, uint64_t cache_bytes)
{
	struct nam_records *records = NULL;
	int rc = nam_records_open(self->worker, STORE, cache_bytes, &records);

	if (rc && !nam_sim_zombie())
		sim_die("the store: %s", nam_worker_diag(self->worker));
	if (!rc)
		litmus_mutate(records);
	return records;
}

struct nam_records *
litmus_store_make(struct actor *self, const struct nam_records_options *options)
{
	struct nam_records *records;

	if (nam_records_create(self->worker, STORE, options))
		sim_die("the store: %s", nam_worker_diag(self->worker));
	records = litmus_store_open(self, STORE_BYTES);
	keys_choose(records);
	return records;
}

int
litmus_try_put(struct actor *self, struct nam_records *records, enum record first, uint32_t count,
	uint64_t number, uint64_t *ret_timestamp)
{
	struct nam_record_put puts[RECORDS];
	uint64_t words[WORDS];
	int rc;

	for (unsigned i = 0; i < WORDS; i++)
		words[i] = number;
	for (uint32_t i = 0; i < count; i++)
		puts[i] = (struct nam_record_put){ keys[first + i],
			(uint32_t)strlen(keys[first + i]), sizeof(words), words };
	rc = nam_records_put_all(self->worker, records, puts, count, ret_timestamp);
	if (!nam_sim_zombie())
		nam_sim_note("put_all of %u, %llu: %s, %llu", count, (unsigned long long)number,
			nam_err_name(rc), (unsigned long long)*ret_timestamp);
	return rc;
}

uint64_t
litmus_put(struct actor *self, struct nam_records *records, enum record first, uint32_t count,
	uint64_t number)
{
	uint64_t timestamp = 0;
	int rc = litmus_try_put(self, records, first, count, number, &timestamp);

	if (nam_sim_zombie())
		return 0;
	if (rc)
		litmus_fail("put_all: %s", nam_err_name(rc));
	for (uint32_t i = 0; i < count && !rc; i++)
		if (newest[first + i] < timestamp)
			newest[first + i] = timestamp;
	return timestamp;
}

static uint64_t
value_check(const uint64_t *words, const struct nam_record_get *get)
{
	for (unsigned i = 1; i < WORDS; i++)
		if (words[i] != words[0] || get->value_bytes != WORDS * sizeof(*words))
			litmus_fail("a value that no writer has put: word %u is %llu, the first "
				"%llu", i, (unsigned long long)words[i],
				(unsigned long long)words[0]);
	return words[0];
}

int
litmus_try_get(struct actor *self, struct nam_records *records, enum record first, uint32_t count,
	uint64_t *ret_numbers)
{
	uint64_t words[RECORDS][WORDS] = { { 0 } }, before[RECORDS];
	struct nam_record_get gets[RECORDS];
	int rc;

	memcpy(before, newest, sizeof(before));
	for (uint32_t i = 0; i < count; i++)
		gets[i] = (struct nam_record_get){ .key = keys[first + i], .value = words[i],
			.key_bytes = (uint32_t)strlen(keys[first + i]), .size = sizeof(words[i]) };
	rc = nam_records_get_all(self->worker, records, gets, count);
	if (nam_sim_zombie())
		return rc;
	nam_sim_note("get_all of %u: %s, %llu, ...", count, nam_err_name(rc),
		(unsigned long long)words[0][0]);
	for (uint32_t i = 0; i < count && !rc; i++) {
		uint64_t *latest = &newest[first + i];

		if (gets[i].rc)
			return gets[i].rc;
		ret_numbers[i] = value_check(words[i], &gets[i]);
		if (gets[i].timestamp < before[first + i])
			litmus_fail("a record of %llu, after one of %llu was seen",
				(unsigned long long)gets[i].timestamp,
				(unsigned long long)before[first + i]);
		if (*latest < gets[i].timestamp)
			*latest = gets[i].timestamp;
	}
	return rc;
}

uint64_t
litmus_get(struct actor *self, struct nam_records *records, enum record first, uint32_t count)
{
	uint64_t numbers[RECORDS] = { 0 };
	int rc = litmus_try_get(self, records, first, count, numbers);

	if (rc && !nam_sim_zombie())
		litmus_fail("get_all: %s, %s", nam_err_name(rc), nam_worker_diag(self->worker));
	for (uint32_t i = 1; i < count; i++)
		if (numbers[i] != numbers[0])
			litmus_fail("half of a transaction: %llu and %llu",
				(unsigned long long)numbers[0], (unsigned long long)numbers[i]);
	return numbers[0];
}

void
litmus_expect_records(struct actor *self, struct nam_records *records, enum record first,
	uint32_t count, uint64_t number)
{
	uint64_t is = litmus_get(self, records, first, count);

	if (is != number && !nam_sim_zombie())
		litmus_fail("%llu, where %llu was written", (unsigned long long)is,
			(unsigned long long)number);
}

/* Where the latest version is, as far as this client knows. */
uint64_t
litmus_record_at(const struct nam_records *records, enum record record)
{
	struct nam__record_id id = nam__record_id(keys[record], (uint32_t)strlen(keys[record]));
	struct nam__address address = { .at = NAM_GADDR_NULL };

	return nam__addresses_find(records->addresses, &id, &address) ? address.at.raw : 0;
}

static void
expect_reused(const struct nam_records *records, enum record record, uint64_t at)
{
	if (litmus_record_at(records, record) != at)
		litmus_fail("the block was not used again");
}

/* ---- how scenes begin ------------------------------------------------------------------------ */

/* X, or X and Y, become 1; then the others may arrive. */
static struct nam_records *
begin(struct actor *self, uint32_t count)
{
	struct nam_records *records = litmus_store_make(self, NULL);

	litmus_put(self, records, X, count, 1);
	litmus.flags[THREE] = true;
	return records;
}

static struct nam_records *
arrive(struct actor *self, uint64_t cache_bytes)
{
	litmus_await(THREE);
	return litmus_store_open(self, cache_bytes);
}

/* And learn the addresses. */
static struct nam_records *
arrive_and_read(struct actor *self, uint32_t count)
{
	struct nam_records *records = arrive(self, STORE_BYTES);

	litmus_expect_records(self, records, X, count, 1);
	return records;
}

/* ---- a reader between the steps of a commit -------------------------------------------------- */

/*
 * The first of two heads is moved late: the other, on another memory server, before it.  Once, when
 * an actor has said FOUR: whether it was now.
 */
static bool
divide_commit(void)
{
	if (!litmus.flags[FOUR] || litmus.flags[TWO])
		return false;
	litmus.flags[TWO] = true;
	nam_sim_delay_next(NAM_WR_CAS, 0, LATE_NS);
	return true;
}

static void
commit_halfway(struct actor *self)
{
	(void)self;
	(void)divide_commit();
}

static void
write_both(struct actor *self)
{
	struct nam_records *records = begin(self, TOGETHER);

	litmus_await(SEEN);
	litmus.flags[FOUR] = true;
	litmus_put(self, records, X, TOGETHER, 2);
	litmus.flags[INSERTED] = true;
	nam_records_close(records);
}

static void
read_both(struct actor *self)
{
	struct nam_records *records = arrive_and_read(self, TOGETHER);

	litmus.flags[SEEN] = true;
	litmus_await(TWO);
	for (unsigned i = 0; i < TRIES && !litmus.failed; i++) {
		(void)litmus_get(self, records, X, TOGETHER);
		/* Never back, alone. */
		(void)litmus_get(self, records, X, 1);
		(void)litmus_get(self, records, Y, 1);
		nam_sleep_ns(LITMUS_POLL_NS / 2);
	}
	litmus_await(INSERTED);
	litmus_expect_records(self, records, X, TOGETHER, 2);
	nam_records_close(records);
}

/* ---- a reader before any of the steps, and after the first ----------------------------------- */

static void
hold_prepared(struct actor *self)
{
	(void)self;
	if (!litmus.flags[FOUR])
		return;
	litmus.flags[ONE] = true;
	litmus_await(TWO);
}

/* The second time that it comes there all is committed. */
static void
hold_committed(struct actor *self)
{
	(void)self;
	if (!litmus.flags[FOUR] || !litmus.flags[TWO])
		return;
	nam_sleep_ns(10 * LATE_NS);
}

static void
read_while_prepared(struct actor *self)
{
	struct nam_records *records = arrive(self, STORE_BYTES), *cold = litmus_store_open(self, 0);

	litmus_expect_records(self, records, X, TOGETHER, 1);
	litmus.flags[SEEN] = true;
	litmus_await(ONE);
	litmus_expect_records(self, records, X, TOGETHER, 1);
	litmus_expect_records(self, cold, X, TOGETHER, 1);
	litmus.flags[TWO] = true;
	for (unsigned i = 0; !litmus.flags[INSERTED] && !litmus.failed; i++)
		(void)litmus_get(self, i % 2 ? cold : records, X, TOGETHER);
	litmus_expect_records(self, records, X, TOGETHER, 2);
	nam_records_close(cold);
	nam_records_close(records);
}

/* ---- a writer dies between the first head and the last --------------------------------------- */

static void
die(void *arg)
{
	struct actor *self = arg;

	nam_sim_process_kill(self->process);
	litmus.flags[ONE] = true;
}

static void
commit_halfway_and_die(struct actor *self)
{
	if (divide_commit())
		nam_sim_call_after(nam_sim_random() % LATE_NS, die, self);
}

static void
read_after_death(struct actor *self)
{
	struct nam_records *records = arrive(self, STORE_BYTES), *cold = litmus_store_open(self, 0);
	uint64_t is;

	litmus_expect_records(self, records, X, TOGETHER, 1);
	litmus.flags[SEEN] = true;
	litmus_await(ONE);
	is = litmus_get(self, records, X, TOGETHER);
	/* Later reads of any client are not older than a joint read. */
	for (unsigned i = 0; i < RECORDS && is == 2; i++) {
		litmus_expect_records(self, i % 2 ? cold : records, X, 1, is);
		litmus_expect_records(self, i % 2 ? cold : records, Y, 1, is);
	}
	nam_sleep_ns(LITMUS_TICKS_NS);
	(void)litmus_get(self, cold, X, TOGETHER);
	litmus_put(self, cold, X, TOGETHER, 3);
	litmus_expect_records(self, records, X, TOGETHER, 3);
	litmus_expect_records(self, records, Y, 1, 3);
	nam_records_close(cold);
	nam_records_close(records);
}

/* ---- addresses that are not of the latest ---------------------------------------------------- */

static void
read_replaced(struct actor *self)
{
	struct nam_records *records = arrive_and_read(self, 1);

	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_expect_records(self, records, X, 1, 2);
	nam_records_close(records);
}

static void
replace(struct actor *self)
{
	struct nam_records *records = begin(self, 1);

	litmus_await(ONE);
	litmus_put(self, records, X, 1, 2);
	litmus.flags[TWO] = true;
	nam_records_close(records);
}

/* And its block becomes a version of another record. */
static void
replace_and_reuse(struct actor *self)
{
	struct nam_records *records = begin(self, 1);
	uint64_t at = litmus_record_at(records, X);

	litmus_await(ONE);
	litmus_put(self, records, X, 1, 2);
	litmus_limbo_empty(self);
	litmus_put(self, records, Z, 1, 3);
	expect_reused(records, Z, at);
	litmus.flags[TWO] = true;
	nam_records_close(records);
}

/* ---- the store is dropped, and its blocks are another's -------------------------------------- */

static void
drop_and_reuse(struct actor *self)
{
	struct nam_records *records = litmus_store_make(self, NULL);
	uint64_t at;

	litmus_put(self, records, X, 1, 1);
	at = litmus_record_at(records, X);
	nam_records_close(records);
	litmus.flags[THREE] = true;
	litmus_await(ONE);
	if (nam_records_drop(self->worker, STORE))
		litmus_fail("drop: %s", nam_worker_diag(self->worker));
	litmus_limbo_empty(self);
	if (nam_records_create(self->worker, STORE, NULL))
		litmus_fail("create: %s", nam_worker_diag(self->worker));
	records = litmus_store_open(self, STORE_BYTES);
	memset(newest, 0, sizeof(newest));
	litmus.flags[TWO] = true;
	litmus_await(SEEN);
	litmus_put(self, records, Z, 1, 3);
	expect_reused(records, Z, at);
	nam_records_close(records);
}

/* It begins before that block is written, and ends afterwards. */
static void
read_dropped(struct actor *self)
{
	struct nam_records *records = arrive_and_read(self, 1);
	uint64_t number;
	int rc;

	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus.flags[SEEN] = true;
	nam_sim_delay_next(NAM_WR_READ, HALF, LATE_NS);
	rc = litmus_try_get(self, records, X, 1, &number);
	if (!rc && number != 1)
		litmus_fail("%llu, of another store", (unsigned long long)number);
	nam_records_close(records);
}

/* ---- another client writes where it should not ----------------------------------------------- */

static void
overwrite(struct actor *self)
{
	struct nam_records *records = begin(self, 1);
	uint64_t *word = nam_buffer_take(self->worker, sizeof(*word));
	struct nam_batch batch;

	litmus_await(ONE);
	*word = 7;
	nam_batch_init(&batch, self->worker);
	/* In the middle of its value. */
	nam_batch_write(&batch, NAM_GADDR(litmus_record_at(records, X)), WORDS / 2 * 8, word,
		sizeof(*word));
	if (nam_batch_await(&batch))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	nam_buffer_give(self->worker, word, sizeof(*word));
	litmus.flags[TWO] = true;
	nam_records_close(records);
}

static void
read_overwritten(struct actor *self)
{
	struct nam_records *records = arrive_and_read(self, 1), *cold = litmus_store_open(self, 0);
	uint64_t number;
	int rc;

	litmus.flags[ONE] = true;
	litmus_await(TWO);
	rc = litmus_try_get(self, cold, X, 1, &number);
	if (rc != -NAM_E_REMOTE_CORRUPT)
		litmus_fail("get: %s", nam_err_name(rc));
	nam_records_close(cold);
	nam_records_close(records);
}

/* ---- two writers of one record --------------------------------------------------------------- */

/* Prepared before the other begins, committed after two writes of the other. */
static void
write_early(struct actor *self)
{
	struct nam_records *records = begin(self, 1);

	litmus.flags[FOUR] = true;
	litmus_put(self, records, X, 1, 2);
	litmus_expect_records(self, records, X, 1, 4);
	litmus.flags[INSERTED] = true;
	nam_records_close(records);
}

static void
write_twice(struct actor *self)
{
	struct nam_records *records = arrive(self, STORE_BYTES);

	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus_await(ONE);
	litmus_put(self, records, X, 1, 3);
	/* A client at work keeps the block from reuse. */
	for (unsigned i = 0; i < 3; i++) {
		uint64_t reusable = 0;

		if (nam__limbo_advance(self->worker, &reusable) || reusable)
			litmus_fail("%llu blocks are reusable", (unsigned long long)reusable);
		nam_sleep_ns(LITMUS_TICKS_NS);
	}
	litmus_put(self, records, X, 1, 4);
	litmus.flags[TWO] = true;
	litmus_await(INSERTED);
	litmus_expect_records(self, records, X, 1, 4);
	nam_records_close(records);
}

/* One writer's clock is behind: its later write is newer. */
static void
write_behind(struct actor *self)
{
	struct nam_records *records = arrive(self, STORE_BYTES);

	litmus_put(self, records, X, 1, 2);
	litmus_expect_records(self, records, X, 1, 2);
	litmus.flags[ONE] = true;
	nam_records_close(records);
}

static void
write_ahead(struct actor *self)
{
	struct nam_records *records = litmus_store_make(self, NULL);

	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus_put(self, records, X, 1, 1);
	litmus.flags[THREE] = true;
	litmus_await(ONE);
	litmus_expect_records(self, records, X, 1, 2);
	nam_records_close(records);
}

/* ---- a head leads to the same block again ---------------------------------------------------- */

static void
come_back(struct actor *self)
{
	struct nam_records *records = arrive_and_read(self, 1);
	uint64_t at = litmus_record_at(records, X);

	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus_put(self, records, X, 1, 2);
	litmus_limbo_empty(self);
	litmus_put(self, records, X, 1, 3);
	expect_reused(records, X, at);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_expect_records(self, records, X, 1, 4);
	nam_records_close(records);
}

static void
write_by_old_address(struct actor *self)
{
	struct nam_records *records = begin(self, 1);

	litmus_await(ONE);
	litmus_put(self, records, X, 1, 4);
	litmus_expect_records(self, records, X, 1, 4);
	litmus.flags[TWO] = true;
	nam_records_close(records);
}

/* ---- versions that were replaced and not claimed --------------------------------------------- */

#define SLOW_TIMES 100u

static void
be_slow(struct actor *self)
{
	if (!litmus.flags[FOUR] || litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	nam_sim_process_slow(self->process, SLOW_TIMES);
}

/* So slowly that others see the effect of the first of two requests. */
static void
replace_slowly(struct actor *self)
{
	struct nam_records *records = begin(self, 1);

	litmus_await(SEEN);
	litmus.flags[FOUR] = true;
	litmus_put(self, records, X, 1, 2);
	nam_records_close(records);
}

/* As soon as it is there; its writer does no more. */
static void
replace_that(struct actor *self)
{
	struct nam_records *records = arrive(self, 0);

	litmus_await(ONE);
	while (litmus_get(self, records, X, 1) == 1 && !litmus.failed)
		continue;
	nam_sim_process_kill(litmus.actors[A].process);
	litmus_put(self, records, X, 1, 3);
	litmus.flags[TWO] = true;
	nam_records_close(records);
}

static void
read_by_first_address(struct actor *self)
{
	struct nam_records *records = arrive_and_read(self, 1);

	litmus.flags[SEEN] = true;
	litmus_await(TWO);
	litmus_expect_records(self, records, X, 1, 3);
	nam_records_close(records);
}

/* ---- a dead writer's version, found by a sibling and too late to be committed ---------------- */

static void
hold_helper(struct actor *self)
{
	(void)self;
	if (litmus.flags[INSERTED])
		return;
	litmus.flags[INSERTED] = true;
	litmus_await(FIVE);
}

static void
help_too_late(struct actor *self)
{
	struct nam_records *records = arrive_and_read(self, TOGETHER);

	litmus.flags[SEEN] = true;
	litmus_await(ONE);
	(void)litmus_get(self, records, X, TOGETHER);
	litmus.flags[INSERTED] = true;
	litmus_await(FIVE);
	(void)litmus_get(self, records, X, 1);
	(void)litmus_get(self, records, Y, 1);
	nam_records_close(records);
}

/* Of each record by itself. */
static void
replace_halves(struct actor *self)
{
	struct nam_records *records;

	litmus_await(INSERTED);
	records = litmus_store_open(self, 0);
	atomic_store(&nam__txn_client(self->client)->last_us, AHEAD_US);
	litmus_put(self, records, X, 1, 3);
	litmus_put(self, records, Y, 1, 4);
	litmus.flags[FIVE] = true;
	nam_records_close(records);
}

/* ---- the scenes ------------------------------------------------------------------------------ */

const struct litmus_case litmus_records_cases[] = {
	{ { "records_half", 0, { NULL, write_both, read_both },
		{ { "records.commit", A, commit_halfway } } },
		"records: a reader while one of two heads has been moved", 2, 0 },
	{ { "records_prepared", 0, { NULL, write_both, read_while_prepared },
		{ { "records.prepared", A, hold_prepared },
			{ "records.commit", A, hold_committed } } },
		"records: a reader between prepare and commit, and right after it", 2, 0 },
	{ { "records_dead", 0, { NULL, write_both, read_after_death },
		{ { "records.commit", A, commit_halfway_and_die } } },
		"records: a writer dies between the first head and the last", 2, 0 },
	{ { "records_replaced", 0, { NULL, replace, read_replaced }, { { 0 } } },
		"records: a reader has the address of a replaced version", 1, 0 },
	{ { "records_reused", 0, { NULL, replace_and_reuse, read_replaced }, { { 0 } } },
		"the same, and then its block is a version of another record", 1, 0 },
	{ { "records_dropped", 0, { NULL, drop_and_reuse, read_dropped }, { { 0 } } },
		"the same, after the store was dropped; written while it is READ", 1, 0 },
	{ { "records_damaged", 0, { NULL, overwrite, read_overwritten }, { { 0 } } },
		"records: a client writes into a version of another one", 1, 0 },
	{ { "records_overtaken", 0, { NULL, write_early, write_twice },
		{ { "records.prepared", A, litmus_hold_once } } },
		"records: two versions are committed while a third is only prepared", 1, 0 },
	{ { "records_clocks", 0, { NULL, write_ahead, write_behind }, { { 0 } } },
		"records: a writer whose clock is behind the replaced version", 1, 0 },
	{ { "records_again", 0, { NULL, write_by_old_address, come_back }, { { 0 } } },
		"records: a head leads to a block, to another, and to the first again", 1, 0 },
	{ { "records_slow", 0, { NULL, replace_slowly, replace_that, read_by_first_address },
		{ { "records.commit", A, be_slow } } },
		"records: a version is replaced while the one before is not claimed yet", 1, 0 },
	{ { "records_late", 0, { NULL, write_both, help_too_late, replace_halves },
		{ { "records.commit", A, commit_halfway_and_die },
			{ "records.commit", B, hold_helper } } },
		"records: a version of a dead writer is met, and replaced before its commit", 2,
		0 },
	{ { 0 }, NULL, 0, 0 },
};
