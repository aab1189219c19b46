/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_kv.c -- scenes about key-value stores: many handlers at work in one partition; one that
 * works on a store as it is dropped.  And values that pass through public memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/kv_rpc.h"
#include "compute/remote.h"
#include "compute/remote/block_cache.h"
#include "compute/worker/worker.h"
#include "findings.h"
#include "linearizable.h"
#include "litmus_kv.h"
#include "memserver/stores.h"

#define STORE "crowd"
#define SESSIONS 6u			/* fibers of each actor */
#define OPERATIONS 40u
#define KEYS 3u
#define WORDS_SHORT 40u			/* of a value: several cells */
#define WORDS_MAX 640u			/* more than a message */

/* ---- a crowd in one partition ---------------------------------------------------------------- */

static struct sim_history history;

struct session {
	struct nam_worker *worker;
	struct nam_kv *kv;
	uint32_t actor, number;
	uint64_t words[WORDS_MAX];
};

/* Values tell which they are in every word, and so, whether they are whole. */
static uint32_t
words_of(uint64_t payload)
{
	return 1 + (uint32_t)(payload * 7 % (payload % 5 ? WORDS_SHORT : WORDS_MAX));
}

static int
put(struct session *self, uint64_t key, uint64_t payload)
{
	uint64_t *words = self->words;

	for (uint32_t i = 0; i < words_of(payload); i++)
		words[i] = payload;
	return nam_kv_put(self->worker, self->kv, &key, sizeof(key), words, 8 * words_of(payload));
}

static int
get(struct session *self, uint64_t key, uint64_t *ret_payload)
{
	const uint64_t *words = self->words;
	uint32_t bytes = 0;
	int rc = nam_kv_get(self->worker, self->kv, &key, sizeof(key), self->words,
		sizeof(self->words), &bytes);

	if (rc)
		return rc;
	*ret_payload = words[0];
	for (uint32_t i = 0; i < bytes / 8; i++)
		if (words[i] != words[0] || bytes != 8 * words_of(words[0]))
			litmus_fail("a value of %u bytes that no writer has put: word %u is %llu, "
				"the first %llu", bytes, i, (unsigned long long)words[i],
				(unsigned long long)words[0]);
	return 0;
}

static void
session_main(void *arg)
{
	struct session *self = arg;

	for (uint32_t i = 0; i < OPERATIONS && !litmus.failed; i++) {
		uint64_t key = nam_sim_random() % KEYS, payload = 0, read = 0;
		static const enum sim_kind kinds[] = { SIM_UPSERT, SIM_LOOKUP, SIM_LOOKUP,
			SIM_DELETE };
		enum sim_kind kind = kinds[nam_sim_random() % 4];
		size_t op;
		int rc;

		payload = ((uint64_t)self->actor * SESSIONS + self->number) * OPERATIONS + i + 1;
		op = sim_history_call(&history, self->actor, self->number, kind, key, payload,
			nam_sim_now_ns());
		if (kind == SIM_UPSERT)
			rc = put(self, key, payload);
		else if (kind == SIM_LOOKUP)
			rc = get(self, key, &read);
		else
			rc = nam_kv_delete(self->worker, self->kv, &key, sizeof(key));
		sim_history_return(&history, op, rc, read, nam_sim_now_ns());
		if (rc && rc != -NAM_E_NOTFOUND)
			litmus_fail("an operation on a store: %s", nam_err_name(rc));
	}
}

struct nam_worker *
litmus_kv_come(enum nam_transport transport, struct nam_client **ret_client)
{
	struct nam_worker *worker;

	litmus.cluster.transport = transport;
	litmus.cluster.fetch_bytes = 128;	/* some replies are longer */
	worker = sim_come(&litmus.cluster, "crowd", ret_client);
	if (!worker)
		sim_die("a worker cannot come");
	return worker;
}

static void
make(struct nam_worker *worker, const char *name, enum nam_kv_engine engine, uint64_t memory_bytes)
{
	struct nam_kv_options options;
	int rc;

	nam_kv_options_init(&options);
	options.mode = NAM_KV_STORE;
	options.engine = engine;
	options.memory_bytes = memory_bytes;
	options.partitions = 1;
	rc = nam_kv_create(worker, name, &options);
	/* A request that is carried out twice finds the name taken. */
	if (rc)
		litmus_fail("the store: %s", nam_worker_diag(worker));
}

/* @engine	of the store, which A makes */
static void
crowd(struct actor *self, enum nam_transport transport, enum nam_kv_engine engine)
{
	struct session *sessions = calloc(SESSIONS, sizeof(*sessions));
	struct nam_client *client;
	struct nam_worker *worker = litmus_kv_come(transport, &client);
	struct nam_kv *kv;
	int rc;

	if (!sessions)
		abort();
	if (self->who == A) {
		sim_history_free(&history);	/* of a run that failed */
		make(worker, STORE, engine, NAM_KV_PARTITION_BYTES_MIN);
		litmus.flags[ONE] = true;
	}
	litmus_await(ONE);
	rc = nam_kv_open(worker, STORE, &kv);
	if (rc) {
		litmus_fail("the store: %s", nam_worker_diag(worker));
		goto close_worker;
	}
	for (uint32_t i = 0; i < SESSIONS; i++) {
		sessions[i].worker = worker;
		sessions[i].kv = kv;
		sessions[i].actor = self->who;
		sessions[i].number = i;
		if (nam_worker_spawn(worker, session_main, &sessions[i]))
			sim_die("no fiber");
	}
	nam_worker_run(worker);
	nam_kv_close(kv);
close_worker:
	free(sessions);
	sim_leave(&client, &worker);
}

static void
crowd_by_srq(struct actor *self)
{
	crowd(self, NAM_TRANSPORT_SRQ, NAM_KV_CHAINED);
}

static void
crowd_cuckoo_by_srq(struct actor *self)
{
	crowd(self, NAM_TRANSPORT_SRQ, NAM_KV_CUCKOO);
}

static void
crowd_by_mailbox(struct actor *self)
{
	crowd(self, NAM_TRANSPORT_MAILBOX, NAM_KV_CHAINED);
}

static void
crowd_and_fetch(struct actor *self)
{
	crowd(self, NAM_TRANSPORT_FETCH, NAM_KV_CHAINED);
}

/* Where there are no unreliable queue pairs, which lose things, mailboxes will do. */
static void
crowd_with_losses(struct actor *self, enum nam_kv_engine engine)
{
	nam_sim_faults()->lose = nam_sim_faults()->twice = 200000;
	crowd(self, nam_sim_profile_caps(litmus.profile) & NAM_CAP_UD ? NAM_TRANSPORT_DATAGRAM :
		NAM_TRANSPORT_MAILBOX, engine);
}

static void
crowd_by_datagram(struct actor *self)
{
	crowd_with_losses(self, NAM_KV_CHAINED);
}

static void
crowd_cuckoo_by_datagram(struct actor *self)
{
	crowd_with_losses(self, NAM_KV_CUCKOO);
}

void
litmus_linger(struct actor *self)
{
	(void)self;
	if (nam_sim_random() % 4 == 0)
		nam_sleep_ns(nam_sim_random() % 10000);
}

static void
end_crowd(struct actor *self)
{
	struct sim_linearizable_options options;
	struct sim_findings findings = sim_findings_to(stdout);

	(void)self;
	sim_linearizable_options_init(&options);
	sim_check_linearizable(&history, &options, &findings);
	if (findings.violations || findings.undecided)
		litmus_fail("no order explains the results of %llu keys, %llu are undecided",
			(unsigned long long)findings.violations,
			(unsigned long long)findings.undecided);
	if (history.ops_count != 3 * SESSIONS * OPERATIONS && !litmus.failed)
		litmus_fail("%zu operations", history.ops_count);
	sim_history_free(&history);
}

/* ---- a handler at work on a dropped store ---------------------------------------------------- */

#define SECOND_KEYS 200u

/* Violates M10: the memory of the dropped store has other uses, and a handler is at work on it. */
static void
chunks_give_early(void)
{
	struct nam_server *server = litmus.cluster.servers[0].server;
	struct nam__store *store = (struct nam__store *)STAILQ_FIRST(&server->stores.dropped);

	if (!store)
		return;
	nam__allocator_give(&server->allocator, NAM__KV_CHUNK_BYTES, NAM_MEMORY_PRIVATE,
		store->blocks, store->chunks_count);
	store->object.bytes = 0;
	store->chunks_count = 0;
}

static void
drop_and_make(struct actor *self)
{
	struct nam_kv_stat stat = { 0 };
	struct nam_kv *kv;
	int rc;

	make(self->worker, "first", NAM_KV_CHAINED, NAM_KV_PARTITION_BYTES_MIN);
	litmus.flags[THREE] = true;
	litmus_await(ONE);
	rc = nam_kv_drop(self->worker, "first");
	if (rc)
		litmus_fail("drop: %s", nam_err_name(rc));
	else if (!NAM_GUARD(KV_WAIT))
		chunks_give_early();
	make(self->worker, "second", NAM_KV_CHAINED, NAM_KV_PARTITION_BYTES_MIN);
	if (nam_kv_open(self->worker, "second", &kv))
		sim_die("the store: %s", nam_worker_diag(self->worker));
	for (uint64_t key = 0; key < SECOND_KEYS; key++)
		if (nam_kv_put(self->worker, kv, &key, sizeof(key), &key, sizeof(key)))
			litmus_fail("put: %s", nam_worker_diag(self->worker));
	litmus.flags[TWO] = true;
	litmus_await(INSERTED);
	for (uint64_t key = 0, value = 0; key < SECOND_KEYS; key++) {
		uint32_t bytes;

		rc = nam_kv_get(self->worker, kv, &key, sizeof(key), &value, sizeof(value),
			&bytes);
		if (rc || value != key)
			litmus_fail("get(%llu): %s, %llu", (unsigned long long)key,
				nam_err_name(rc), (unsigned long long)value);
	}
	rc = nam_kv_stat(self->worker, kv, &stat);
	if (rc || stat.keys != SECOND_KEYS || stat.puts != SECOND_KEYS)
		litmus_fail("%llu keys and %llu puts where %u were put",
			(unsigned long long)stat.keys, (unsigned long long)stat.puts, SECOND_KEYS);
	nam_kv_close(kv);
}

static void
put_into_first(struct actor *self)
{
	uint64_t words[WORDS_SHORT] = { 0 };
	struct nam_kv *kv;
	int rc;

	litmus_await(THREE);
	rc = nam_kv_open(self->worker, "first", &kv);
	if (rc)
		sim_die("the store: %s", nam_worker_diag(self->worker));
	litmus.flags[FOUR] = true;
	/* It has taken effect, or had nothing to do it in. */
	rc = nam_kv_put(self->worker, kv, "mine", 4, words, sizeof(words));
	if (rc && rc != -NAM_E_DROPPED)
		litmus_fail("put: %s", nam_err_name(rc));
	litmus.flags[INSERTED] = true;
	nam_kv_close(kv);
}

/* ---- values in public memory ----------------------------------------------------------------- */

#define LONG_BYTES 80000u		/* three staging blocks */
#define ONE_BLOCK_BYTES 30000u
#define LONG_STORE_BYTES (8u * NAM_KV_PARTITION_BYTES_MIN)
#define GIVE_UP_MS 20u

static uint8_t long_value[LONG_BYTES];
static uint32_t long_bytes;
static uint64_t last_block;		/* of A: its next operation takes it first */

static int
long_put(struct actor *self, struct nam_kv *kv, uint8_t key)
{
	memset(long_value, key, long_bytes);
	return nam_kv_put(self->worker, kv, &key, sizeof(key), long_value, long_bytes);
}

static int
long_get(struct actor *self, struct nam_kv *kv, uint8_t key)
{
	uint32_t bytes = 0;
	int rc;

	memset(long_value, 0, sizeof(long_value));
	rc = nam_kv_get(self->worker, kv, &key, sizeof(key), long_value, sizeof(long_value),
		&bytes);
	for (uint32_t i = 0; !rc && i < long_bytes; i++)
		if (bytes != long_bytes || long_value[i] != key) {
			litmus_fail("key %u: a value of %u bytes that is not its own: byte %u is "
				"%u", key, bytes, i, long_value[i]);
			break;
		}
	return rc;
}

static void
expect(const char *what, int rc, int expected)
{
	if (rc != expected)
		litmus_fail("%s: %s instead of %s", what, nam_err_name(rc),
			nam_err_name(expected));
}

static struct nam_kv *
long_begin(struct actor *self, uint32_t value_bytes)
{
	const struct nam__block_class *blocks;
	struct nam_kv *kv;

	long_bytes = value_bytes;
	make(self->worker, STORE, NAM_KV_CHAINED, LONG_STORE_BYTES);
	if (nam_kv_open(self->worker, STORE, &kv))
		sim_die("the store: %s", nam_worker_diag(self->worker));
	expect("the first put", long_put(self, kv, 1), 0);
	blocks = nam__class_find(self->worker, 0, NAM_RPC_KV_STAGING_BYTES);
	if (blocks && blocks->recycled_count)
		last_block = blocks->recycled[blocks->recycled_count - 1];
	self->client->options.timeout_ms = GIVE_UP_MS;
	litmus.flags[FOUR] = true;
	return kv;
}

/* The handler goes on with what was given up, now that the next value lies in its blocks. */
static void
let_go_on(struct actor *self)
{
	(void)self;
	if (litmus.flags[FIVE])
		litmus.flags[TWO] = true;
}

static void
put_given_up(struct actor *self)
{
	struct nam_kv *kv = long_begin(self, LONG_BYTES);
	int rc;

	expect("a put whose handler is held", long_put(self, kv, 2), -NAM_E_FABRIC_TIMEOUT);
	litmus.flags[FIVE] = true;
	expect("the next put", long_put(self, kv, 3), 0);
	/* As it was put, or not at all. */
	rc = long_get(self, kv, 2);
	if (rc != -NAM_E_NOTFOUND)
		expect("get of what was given up", rc, 0);
	expect("get", long_get(self, kv, 3), 0);
	expect("get of the first", long_get(self, kv, 1), 0);
	nam_kv_close(kv);
}

static void
get_given_up(struct actor *self)
{
	/* The handler has no more blocks than these to write to. */
	struct nam_kv *kv = long_begin(self, ONE_BLOCK_BYTES);

	expect("a get whose handler is held", long_get(self, kv, 1), -NAM_E_FABRIC_TIMEOUT);
	litmus.flags[FIVE] = true;
	expect("the next put", long_put(self, kv, 3), 0);
	expect("get", long_get(self, kv, 3), 0);
	expect("get of the first", long_get(self, kv, 1), 0);
	nam_kv_close(kv);
}

static void
get_written_over(struct actor *self)
{
	struct nam_kv *kv = long_begin(self, LONG_BYTES);

	expect("get", long_get(self, kv, 1), -NAM_E_REMOTE_CORRUPT);
	litmus.flags[FOUR] = false;
	expect("the next get", long_get(self, kv, 1), 0);
	nam_kv_close(kv);
}

/* A client that should not write there does. */
static void
write_over(struct actor *self)
{
	uint64_t *stray = nam_buffer_take(self->worker, sizeof(*stray));

	litmus_await(ONE);
	*stray = UINT64_MAX;
	if (nam_write_await(self->worker, NAM_GADDR(last_block), stray, sizeof(*stray)))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	litmus.flags[TWO] = true;
	nam_buffer_give(self->worker, stray, sizeof(*stray));
}

const struct litmus_case litmus_kv_cases[] = {
	{ { "kv_crowd", 0, { end_crowd, crowd_by_srq, crowd_by_mailbox, crowd_and_fetch },
		{ { "kv.removed", SERVER, litmus_linger },
			{ "kv.half_written", SERVER, litmus_linger } } },
		"many handlers at work in one partition", 1, LITMUS_COARSE_HASH },
	{ { "kv_crowd_cuckoo", 0,
		{ end_crowd, crowd_cuckoo_by_srq, crowd_by_mailbox, crowd_and_fetch },
		{ { "kv.before_head", SERVER, litmus_linger },
			{ "kv.half_written", SERVER, litmus_linger } } },
		"the same with engine cuckoo", 1, LITMUS_COARSE_HASH },
	{ { "kv_lossy", 0, { end_crowd, crowd_by_datagram, crowd_by_mailbox, crowd_by_datagram },
		{ { "kv.removed", SERVER, litmus_linger },
			{ "kv.half_written", SERVER, litmus_linger } } },
		"the same, two of three clients over unreliable queue pairs that lose and double a "
		"fifth each", 1,
		LITMUS_COARSE_HASH },
	{ { "kv_lossy_cuckoo", 0,
		{ end_crowd, crowd_cuckoo_by_datagram, crowd_by_mailbox, crowd_by_datagram },
		{ { "kv.before_head", SERVER, litmus_linger },
			{ "kv.half_written", SERVER, litmus_linger } } },
		"the same with engine cuckoo", 1, LITMUS_COARSE_HASH },
	{ { "kv_dropped", 0, { NULL, drop_and_make, put_into_first },
		{ { "kv.found", SERVER, litmus_hold_once } } },
		"a store is dropped while a handler has it in hand", 1, LITMUS_COARSE_HASH },
	{ { "kv_put_given_up", 0, { NULL, put_given_up },
		{ { "kv.put_large", SERVER, litmus_hold_once }, { "kv.staged", A, let_go_on } } },
		"a PUT of a long value is given up, and carried out with another value in its "
		"blocks", 1, LITMUS_COARSE_HASH },
	{ { "kv_get_given_up", 0, { NULL, get_given_up },
		{ { "kv.get_large", SERVER, litmus_hold_once }, { "kv.staged", A, let_go_on } } },
		"a GET of a long value is given up, and carried out during the next PUT", 1,
		LITMUS_COARSE_HASH },
	{ { "kv_written_over", 0, { NULL, get_written_over, write_over },
		{ { "kv.got_large", A, litmus_hold_once } } },
		"a client writes over a long value that another one is about to READ", 1,
		LITMUS_COARSE_HASH },
	{ { 0 }, NULL, 0, 0 },
};
