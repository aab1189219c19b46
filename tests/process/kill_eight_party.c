/* SPDX-License-Identifier: Apache-2.0 */
/* kill_eight_party.c -- see kill_eight.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/coarse/coarse.h"
#include "kill_eight.h"
#include "txn/records/protocols.h"
#include "txn/records/txn_internal.h"
#include "txn/table/rows_internal.h"

#define FIBERS 2u			/* of a client, for each object; a record store has one */
#define SESSIONS (OBJECTS + (TABLE + 1) * (FIBERS - 1))
#define TOGETHER (NAM_RECORDS_MAX / 2)	/* pairs of records that a transaction reads */
#define PAUSE_NS test_bound_ns(20000000)	/* between two operations of a fiber, at the most */
#define SENDS 8u			/* messages: a client dies at one of so many */
#define DEATH_NS 1000000u		/* from the last request to death, at the most */
#define CACHE_BYTES (64u << 10)
#define COLOURS 8u
#define VERSION_BITS 32u

const char *const object_names[OBJECTS] = { "fine", "hybrid", "rows", "onesided", "star", "message",
	"small", "ramp-hybrid", "2pl" };
static const enum nam_ramp algorithms[OBJECTS] = {
	[ONESIDED] = NAM_RAMP_FAST, [STAR] = NAM_RAMP_FAST, [MESSAGE] = NAM_RAMP_FAST,
	[SMALL] = NAM_RAMP_SMALL, [RAMP_HYBRID] = NAM_RAMP_HYBRID, [LOCKING] = NAM_RAMP_LOCKING,
};

/* Both rows or records of a pair are written together, and always alike. */
enum { COLOUR, PAYLOAD, COLUMNS };

/* ---- objects ------------------------------------------------------------------------------ */

struct nam_client *
party_connect(const char *list, const char *name)
{
	struct nam_client_options options;
	struct nam_client *client;
	struct nam_diag diag = { "" };

	nam_client_options_init(&options);
	options.cluster = list;
	options.name = name;
	options.timeout_ms = (uint32_t)test_bound_ns(options.timeout_ms);
	options.lock_timeout_ms = (uint32_t)test_bound_ns(LOCK_MS);
	if (nam_client_connect(&options, &client, &diag))
		test_die("%s: cannot connect: %s", name, diag.text);
	return client;
}

static void
check(const struct objects *objects, const char *what, int rc)
{
	if (rc)
		test_die("%s: %s (%s)", what, nam_err_name(rc), nam_worker_diag(objects->worker));
}

void
objects_create(struct nam_worker *worker)
{
	static const struct nam_table_schema schema = {
		.columns = { "colour", "payload" },
		.columns_count = COLUMNS,
		.indexes = { { COLOUR, 8 } },
		.indexes_count = 1,
	};
	const struct objects objects = { .worker = worker };
	struct nam_records_options records;
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 8;
	check(&objects, "create", nam_index_create(worker, object_names[FINE], &options));
	options.design = NAM_DESIGN_HYBRID;
	check(&objects, "create", nam_index_create(worker, object_names[HYBRID], &options));
	check(&objects, "create", nam_table_create(worker, object_names[TABLE], &schema));
	nam_records_options_init(&records);
	for (unsigned i = ONESIDED; i < OBJECTS; i++) {
		records.commit = i == ONESIDED ? NAM_RECORDS_ONESIDED : NAM_RECORDS_SERVED;
		records.algorithm = algorithms[i];
		check(&objects, "create", nam_records_create(worker, object_names[i], &records));
	}
}

void
objects_open(struct objects *objects, struct nam_worker *worker, uint64_t cache_bytes)
{
	objects->worker = worker;
	for (unsigned i = 0; i < TABLE; i++)
		check(objects, "open", nam_index_open(worker, object_names[i], cache_bytes,
			&objects->indexes[i]));
	check(objects, "open", nam_table_open(worker, object_names[TABLE], cache_bytes,
		&objects->table));
	for (unsigned i = 0; i < STORES; i++)
		check(objects, "open", nam_records_open(worker, object_names[ONESIDED + i],
			cache_bytes, &objects->stores[i]));
	check(objects, "open", nam_records_star(worker, objects->stores[MESSAGE - ONESIDED], 0));
}

void
objects_close(struct objects *objects)
{
	for (unsigned i = 0; i < TABLE; i++)
		nam_index_close(objects->indexes[i]);
	nam_table_close(objects->worker, objects->table);
	for (unsigned i = 0; i < STORES; i++)
		nam_records_close(objects->stores[i]);
}

struct nam_index *
object_index(const struct objects *objects, unsigned object)
{
	return object < TABLE ? objects->indexes[object] : object == TABLE ? NULL :
		objects->stores[object - ONESIDED]->keys;
}

static struct nam_records *
store_of(const struct session *self)
{
	return self->objects->stores[self->object - ONESIDED];
}

/* ---- versions ----------------------------------------------------------------------------- */

static uint64_t
payload_of(uint32_t number, uint64_t version)
{
	return (uint64_t)number << VERSION_BITS | version;
}

static uint64_t
colour_of(uint64_t payload)
{
	return (payload * 0x9e3779b97f4a7c15 >> 32) % COLOURS;
}

/* An entry was found, or was not; version `least` was acknowledged before that began. */
static void
check_found(const struct session *self, uint32_t number, uint64_t least, bool there,
	uint64_t payload)
{
	uint64_t most = atomic_load(&self->board->entries[self->object][number].begun);
	uint64_t version = payload & ((1ull << VERSION_BITS) - 1);

	if (there ? payload_of(number, version) != payload || !(version & 1) || version < least ||
			version > most : (least & 1) && least == most)
		test_die("place %u: entry %u of %s: %s %llx, and versions %llu to %llu are right",
			self->place, number, object_names[self->object],
			there ? "it has" : "it is missing", (unsigned long long)payload,
			(unsigned long long)least, (unsigned long long)most);
}

static uint64_t
acknowledged(const struct session *self, uint32_t number)
{
	return atomic_load(&self->board->entries[self->object][number].done);
}

static void
session_check(const struct session *self, const char *what, int rc)
{
	char text[64];

	(void)snprintf(text, sizeof(text), "place %u: %s: %s", self->place,
		object_names[self->object], what);
	check(self->objects, text, rc);
}

/* ---- writing ------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
pair_write(struct session *self, uint32_t number, uint64_t version)
{
	uint64_t payload = payload_of(number, version);
	struct nam_table_write writes[2];
	struct nam_bytes columns[COLUMNS];
	uint8_t keys[2][8], colour[8];

	nam_key_from_u64(colour_of(payload), colour);
	columns[COLOUR] = (struct nam_bytes){ colour, 8 };
	columns[PAYLOAD] = (struct nam_bytes){ &payload, 8 };
	for (unsigned i = 0; i < 2; i++) {
		nam_key_from_u64(2ull * number + i, keys[i]);
		writes[i] = (struct nam_table_write){ self->objects->table, { keys[i], 8 },
			version & 1 ? columns : NULL };
	}
	return nam_table_write(self->objects->worker, writes, 2, NULL); /* SUSPENDS */
}

NAM_FIBER_FN static int
records_write(struct session *self, uint32_t number, uint64_t version)
{
	uint64_t payload = payload_of(number, version);
	struct nam_record_put puts[2];
	uint8_t keys[2][8];

	for (unsigned i = 0; i < 2; i++) {
		nam_key_from_u64(2ull * number + i, keys[i]);
		puts[i] = (struct nam_record_put){ keys[i], 8, version & 1 ? 8 : 0,
			version & 1 ? &payload : NULL };
	}
	return nam_records_put_all(self->objects->worker, store_of(self), puts, 2,
		NULL); /* SUSPENDS */
}

NAM_FIBER_FN static int
index_write(struct session *self, uint32_t number, uint64_t version, uint64_t last, bool known)
{
	struct nam_worker *worker = self->objects->worker;
	struct nam_index *index = self->objects->indexes[self->object];
	uint64_t payload = payload_of(number, version);
	uint8_t key[8];

	nam_key_from_u64(number, key);
	if (!known)
		return nam_index_upsert(worker, index, key, payload); /* SUSPENDS */
	if (!(version & 1))
		return nam_index_delete(worker, index, key); /* SUSPENDS */
	return last & 1 ? nam_index_update(worker, index, key, payload) :
		nam_index_insert(worker, index, key, payload); /* SUSPENDS */
}

/* If the last writer died in its write, only a version that is there will do. */
void
session_write(struct session *self, uint32_t number)
{
	struct entry *entry = &self->board->entries[self->object][number];
	uint64_t last = atomic_load(&entry->begun), version = last + 1;
	bool known = last == atomic_load(&entry->done);
	int rc;

	if (!(version & 1) && (!known || nam_rng_below(&self->rng, 3)))
		version++;
	atomic_store(&entry->begun, version);
	rc = self->object > TABLE ? records_write(self, number, version) :
		self->object == TABLE ? pair_write(self, number, version) :
		index_write(self, number, version, last, known); /* SUSPENDS */
	session_check(self, known ? "write" : "write after a death", rc);
	atomic_store(&entry->done, version);
}

/* ---- reading ------------------------------------------------------------------------------ */

static uint64_t
row_payload(const struct session *self, const struct nam_bytes *columns)
{
	uint64_t payload;

	if (columns[COLOUR].bytes != 8 || columns[PAYLOAD].bytes != 8)
		test_die("place %u: a row that no writer has put", self->place);
	memcpy(&payload, columns[PAYLOAD].data, 8);
	if (nam_key_to_u64(columns[COLOUR].data) != colour_of(payload))
		test_die("place %u: a row of two versions", self->place);
	return payload;
}

/* Sees all of a transaction or nothing. */
NAM_FIBER_FN static void
pair_read(struct session *self, uint32_t number, bool *ret_there, uint64_t *ret_payload)
{
	struct nam_table_get gets[2];
	uint8_t keys[2][8];

	for (unsigned i = 0; i < 2; i++) {
		nam_key_from_u64(2ull * number + i, keys[i]);
		gets[i] = (struct nam_table_get){ self->objects->table, { keys[i], 8 }, NULL, 0 };
	}
	session_check(self, "read", nam_table_read(self->objects->worker, gets, 2,
		self->rows)); /* SUSPENDS */
	*ret_there = gets[0].columns;
	if (!gets[0].columns != !gets[1].columns || gets[0].timestamp != gets[1].timestamp)
		test_die("place %u: pair %u: half of a transaction", self->place, number);
	if (*ret_there)
		*ret_payload = row_payload(self, gets[0].columns);
	if (*ret_there && row_payload(self, gets[1].columns) != *ret_payload)
		test_die("place %u: pair %u: rows of two transactions", self->place, number);
}

/* Some pairs, from this one on, in one transaction. */
NAM_FIBER_FN static void
records_read(struct session *self, uint32_t first, uint32_t count)
{
	struct nam_record_get gets[2 * TOGETHER];
	uint64_t least[TOGETHER], payloads[2 * TOGETHER];
	uint8_t keys[2 * TOGETHER][8];

	for (uint32_t i = 0; i < 2 * count; i++) {
		uint32_t number = (first + i / 2) % ENTRIES;

		least[i / 2] = acknowledged(self, number);
		nam_key_from_u64(2ull * number + i % 2, keys[i]);
		gets[i] = (struct nam_record_get){ .key = keys[i], .key_bytes = 8, .size = 8,
			.value = &payloads[i] };
	}
	session_check(self, "read", nam_records_get_all(self->objects->worker, store_of(self),
		gets, 2 * count)); /* SUSPENDS */
	for (uint32_t i = 0; i < 2 * count; i += 2) {
		uint32_t number = (first + i / 2) % ENTRIES;

		session_check(self, "record", gets[i].rc == -NAM_E_NOTFOUND ? 0 : gets[i].rc);
		if (gets[i].timestamp != gets[i + 1].timestamp || gets[i].rc != gets[i + 1].rc ||
				(!gets[i].rc && (gets[i].value_bytes != 8 ||
				gets[i + 1].value_bytes != 8 || payloads[i] != payloads[i + 1])))
			test_die("place %u: pair %u of %s: half of a transaction", self->place,
				number, object_names[self->object]);
		check_found(self, number, least[i / 2], !gets[i].rc, payloads[i]);
	}
}

void
session_read(struct session *self, uint32_t number)
{
	uint64_t least = acknowledged(self, number), payload = 0;
	bool there;
	uint8_t key[8];
	int rc;

	if (self->object > TABLE) {
		records_read(self, number, 1); /* SUSPENDS */
		return;
	}
	nam_key_from_u64(number, key);
	if (self->object == TABLE) {
		pair_read(self, number, &there, &payload); /* SUSPENDS */
	} else {
		rc = nam_index_lookup(self->objects->worker, self->objects->indexes[self->object],
			key, &payload); /* SUSPENDS */
		there = !rc;
		session_check(self, "lookup", rc == -NAM_E_NOTFOUND ? 0 : rc);
	}
	check_found(self, number, least, there, payload);
}

NAM_FIBER_FN static void
index_scan(struct session *self)
{
	struct nam_range range = { .reverse = nam_rng_below(&self->rng, 2) };
	uint8_t keys[64 * 8];
	uint64_t payloads[64];
	uint32_t count, next = 0;
	struct nam_cursor *cursor;
	int rc;

	session_check(self, "cursor", nam_cursor_open(self->objects->worker,
		self->objects->indexes[self->object], &range, &cursor));
	do {
		rc = nam_cursor_next(cursor, keys, payloads, 64, &count); /* SUSPENDS */
		session_check(self, "scan", rc);
		for (uint32_t i = 0; i < count; i++, next++) {
			uint64_t key = nam_key_to_u64(keys + 8 * i);
			uint64_t place = range.reverse ? ENTRIES - 1 - key : key;

			if (key >= ENTRIES || place < next)
				test_die("place %u: a scan's order", self->place);
			for (; next < place; next++)
				check_found(self, range.reverse ? ENTRIES - 1 - next : next,
					self->least[range.reverse ? ENTRIES - 1 - next : next],
					false, 0);
			check_found(self, (uint32_t)key, self->least[key], true, payloads[i]);
		}
	} while (count);
	for (; next < ENTRIES; next++)
		check_found(self, range.reverse ? ENTRIES - 1 - next : next,
			self->least[range.reverse ? ENTRIES - 1 - next : next], false, 0);
	nam_cursor_close(cursor);
}

/* Of one colour, which a pair has whole or not at all. */
NAM_FIBER_FN static void
table_scan(struct session *self)
{
	uint64_t wanted = nam_rng_below(&self->rng, COLOURS), last = UINT64_MAX;
	bool found[ENTRIES] = { false };
	struct nam_table_range range = { .column = COLOUR };
	uint8_t colour[8];
	uint32_t count;

	nam_key_from_u64(wanted, colour);
	range.low = range.high = (struct nam_bytes){ colour, 8 };
	session_check(self, "scan", nam_table_scan(self->objects->worker, self->objects->table,
		&range, self->rows)); /* SUSPENDS */
	count = nam_table_rows_count(self->rows);
	for (uint32_t i = 0; i < count; i++) {
		const struct nam_table_row *row = nam_table_rows_at(self->rows, i);
		uint64_t key = nam_key_to_u64(row->key.data);
		uint64_t payload = row_payload(self, row->columns);

		if (row->key.bytes != 8 || key / 2 >= ENTRIES || colour_of(payload) != wanted ||
			key != (i % 2 ? last + 1 : key / 2 * 2) || (i && key <= last))
			test_die("place %u: rows of a scan", self->place);
		check_found(self, (uint32_t)key / 2, self->least[key / 2], true, payload);
		found[key / 2] = true;
		last = key;
	}
	if (count % 2)
		test_die("place %u: half of a transaction", self->place);
	for (uint32_t i = 0; i < ENTRIES; i++)
		if (!found[i] && colour_of(payload_of(i, self->least[i])) == wanted)
			check_found(self, i, self->least[i], false, 0);
}

void
session_scan(struct session *self)
{
	for (uint32_t i = 0; i < ENTRIES; i++)
		self->least[i] = acknowledged(self, i);
	if (self->object > TABLE)
		records_read(self, (uint32_t)nam_rng_below(&self->rng, ENTRIES),
			TOGETHER); /* SUSPENDS */
	else if (self->object == TABLE)
		table_scan(self); /* SUSPENDS */
	else
		index_scan(self); /* SUSPENDS */
}

/* Another client may be at it. */
NAM_FIBER_FN static void
session_collect(struct session *self)
{
	struct nam_collect_stat stat;
	int rc;

	if (self->object == TABLE)
		return;
	rc = self->object > TABLE ?
		nam_records_collect(self->objects->worker, store_of(self), NULL) :
		nam_index_collect(self->objects->worker, self->objects->indexes[self->object],
		&stat); /* SUSPENDS */
	session_check(self, "collect", rc == -NAM_E_LOCK_TIMEOUT ? 0 : rc);
}

/* ---- waits for the dead ------------------------------------------------------------------- */

static struct session sessions[SESSIONS];
static struct nam__lock_recovery recovery;

/* The one whose task runs; NULL: none. */
static struct session *
session_of(const struct nam_worker *worker)
{
	for (unsigned i = 0; i < SESSIONS; i++)
		if (sessions[i].task == worker->current)
			return &sessions[i];
	return NULL;
}

/* Attempts that fail are one wait. */
static void
attempt_begin(const struct nam_worker *worker)
{
	struct session *self = session_of(worker);

	if (self && !self->asks) {
		self->since_ns = nam_now_ns();
		self->asks = true;
	}
}

static void
wait_end(const struct nam_worker *worker)
{
	struct session *self = session_of(worker);
	struct waits *waits = self ? &self->board->places[self->place].waits[self->object] : NULL;
	uint32_t number = waits ? waits->count : WAITS_MAX;
	uint64_t now = nam_now_ns();

	if (number < WAITS_MAX) {
		waits->us[number] = (uint32_t)((now - self->since_ns) / 1000);
		atomic_store(&waits->count, number + 1);
	}
	if (self)
		self->since_ns = now;
}

static void
attempt_end(const struct nam_worker *worker, int rc)
{
	struct session *self = session_of(worker);

	if (!self || rc)
		return;
	if (self->meets_dead)
		wait_end(worker);
	self->asks = self->meets_dead = false;
}

/*
 * A task takes over a lock of a client that is dead, or finds that another one is at it.  If it
 * asks for the lock, its wait ends once it has it.
 */
NAM_FIBER_FN static int
take(struct nam_worker *worker, void *arg, struct nam_gaddr at, uint64_t dead, uint64_t word,
	void *image)
{
	int rc = recovery.take(worker, arg, at, dead, word, image); /* SUSPENDS */
	struct session *self = session_of(worker);

	if (self && self->asks)
		self->meets_dead = true;
	else if (!rc)
		wait_end(worker);
	return rc;
}

/*
 * The linker puts it in the place of nam__lock_terminate(): a task has ended a transaction of `2pl`
 * that is late or dead.  In other stores no task waits for a dead writer: it commits for it.
 */
NAM_FIBER_FN int __real_nam__lock_terminate(struct nam__txn *txn,
	const struct nam__refusal *refusal, enum nam__terminated *ret_outcome);
NAM_FIBER_FN int __wrap_nam__lock_terminate(struct nam__txn *txn,
	const struct nam__refusal *refusal, enum nam__terminated *ret_outcome);

int
__wrap_nam__lock_terminate(struct nam__txn *txn, const struct nam__refusal *refusal,
	enum nam__terminated *ret_outcome)
{
	int rc = __real_nam__lock_terminate(txn, refusal, ret_outcome); /* SUSPENDS */

	if (!rc)
		wait_end(txn->worker);
	return rc;
}

/* And these in the places of the functions that wait for a lock of a node. */
NAM_FIBER_FN int __real_nam__lock_read_await(struct nam_worker *worker, struct nam_gaddr at,
	void *image, uint32_t bytes, const struct nam__lock_recovery *how,
	struct nam__lock *ret_lock);
NAM_FIBER_FN int __wrap_nam__lock_read_await(struct nam_worker *worker, struct nam_gaddr at,
	void *image, uint32_t bytes, const struct nam__lock_recovery *how,
	struct nam__lock *ret_lock);
NAM_FIBER_FN int __real_nam__lock_change_await(struct nam_worker *worker, struct nam_gaddr at,
	void *image, uint32_t bytes, struct nam__lock_request *request,
	const struct nam__lock_recovery *how, struct nam__lock *ret_lock);
NAM_FIBER_FN int __wrap_nam__lock_change_await(struct nam_worker *worker, struct nam_gaddr at,
	void *image, uint32_t bytes, struct nam__lock_request *request,
	const struct nam__lock_recovery *how, struct nam__lock *ret_lock);

int
__wrap_nam__lock_read_await(struct nam_worker *worker, struct nam_gaddr at, void *image,
	uint32_t bytes, const struct nam__lock_recovery *how, struct nam__lock *ret_lock)
{
	int rc;

	attempt_begin(worker);
	rc = __real_nam__lock_read_await(worker, at, image, bytes, how, ret_lock); /* SUSPENDS */
	attempt_end(worker, rc);
	return rc;
}

int
__wrap_nam__lock_change_await(struct nam_worker *worker, struct nam_gaddr at, void *image,
	uint32_t bytes, struct nam__lock_request *request, const struct nam__lock_recovery *how,
	struct nam__lock *ret_lock)
{
	int rc;

	attempt_begin(worker);
	rc = __real_nam__lock_change_await(worker, at, image, bytes, request, how,
		ret_lock); /* SUSPENDS */
	attempt_end(worker, rc);
	return rc;
}

static void
watch(struct nam_index *index)
{
	recovery = index->recovery;
	index->recovery.take = take;
}

static void
watch_all(struct objects *objects)
{
	struct nam_index *hybrid = objects->indexes[HYBRID];

	watch(objects->table->store->records->keys);
	watch(objects->table->indexes[0]);
	for (uint32_t i = 0; i < hybrid->parts->count; i++)
		watch(hybrid->leaves[i]);
	watch(objects->indexes[FINE]);
	for (unsigned i = ONESIDED; i < OBJECTS; i++)
		watch(object_index(objects, i));
}

/* ---- death within a doorbell -------------------------------------------------------------- */

static struct nam_worker *posting;
static int (*qp_post)(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count);

/*
 * Of a doorbell that begins with a WRITE only some requests reach the queue pair.  A message does,
 * but none of the same transaction to another memory server.
 */
static int
post(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count)
{
	struct session *self = &sessions[0];
	bool sends = wrs[0].op == NAM_WR_SEND;
	uint64_t end_ns;
	struct nam_wc wc;

	if (!atomic_load(&self->board->places[self->place].dies) || (sends ?
		nam_rng_below(&self->rng, SENDS) : count < 2 || wrs[0].op != NAM_WR_WRITE))
		return qp_post(qp, wrs, count);
	(void)qp_post(qp, wrs, sends ? count : 1 + (unsigned)nam_rng_below(&self->rng, count - 1));
	end_ns = nam_now_ns() + nam_rng_below(&self->rng, DEATH_NS);
	do
		(void)posting->cq_poll(posting->cq, &wc, 1);
	while (nam_now_ns() < end_ns);
	(void)raise(SIGKILL);
	return -NAM_E_FABRIC_FULL;
}

/* ---- a process ---------------------------------------------------------------------------- */

static void
session_note(struct session *self, uint64_t start_ns)
{
	struct place *place = &self->board->places[self->place];
	uint64_t took_ns = nam_now_ns() - start_ns;

	place->ops++;
	if (took_ns > place->slowest_ns)
		place->slowest_ns = took_ns;
}

static void
session_main(void *arg)
{
	struct session *self = arg;
	const struct place *place = &self->board->places[self->place];
	uint32_t fibers = self->object > TABLE ? 1 : FIBERS;

	self->task = self->objects->worker->current;
	while (!atomic_load(&self->board->stopping)) {
		uint32_t any = (uint32_t)nam_rng_below(&self->rng, ENTRIES);
		uint32_t own = (any / (PLACES * fibers) * fibers + self->fiber) * PLACES +
			self->place;
		uint64_t what = nam_rng_below(&self->rng, 64), start_ns = nam_now_ns();

		self->since_ns = start_ns;
		self->asks = self->meets_dead = false;
		if (what == 0)
			session_collect(self); /* SUSPENDS */
		else if (what < 4)
			session_scan(self); /* SUSPENDS */
		else if (what < 20)
			session_read(self, any); /* SUSPENDS */
		else
			session_write(self, own); /* SUSPENDS */
		session_note(self, start_ns);
		if (!atomic_load(&place->hurries))
			nam__pause_await(self->objects->worker,
				nam_rng_below(&self->rng, PAUSE_NS)); /* SUSPENDS */
	}
}

int
party_main(char **argv)
{
	struct nam_client *client = party_connect(argv[0], "party");
	struct nam_worker *worker = test_worker(client);
	struct board *board = test_shared_map(atoi(argv[1]), sizeof(*board));
	unsigned place = (unsigned)atoi(argv[2]);
	struct objects objects;

	objects_open(&objects, worker, place % 2 ? CACHE_BYTES : 0);
	watch_all(&objects);
	for (unsigned i = 0; i < SESSIONS; i++) {
		sessions[i] = (struct session){ .objects = &objects,
			.board = board, .rows = nam_table_rows_new(),
			.place = place, .object = i % OBJECTS, .fiber = i / OBJECTS,
			.rng = nam_rng_seed(nam_entropy()) };
		if (!sessions[i].rows || nam_worker_spawn(worker, session_main, &sessions[i]))
			test_die("no fiber");
	}
	posting = worker;
	qp_post = worker->qp_post;
	worker->qp_post = post;
	nam_worker_run(worker); /* SUSPENDS */
	for (unsigned i = 0; i < SESSIONS; i++)
		nam_table_rows_free(sessions[i].rows);
	objects_close(&objects);
	nam_worker_close(worker);
	nam_client_close(client);
	return 0;
}
