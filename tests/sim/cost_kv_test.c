/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cost_kv_test.c -- what kv.h says that its functions cost, by each RPC transport, in every
 * profile.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "common/rpc/frame.h"
#include "common/rpc/kv_rpc.h"
#include "kv/kv.h"
#include "cost.h"

#define FETCH_BYTES 128u
#define DATAGRAM_BYTES 1024u	/* a longer reply comes by SEND */
#define KEY_BYTES 16u
#define HEADER_BYTES 24u
#define REQUEST_BYTES (HEADER_BYTES + 16u + KEY_BYTES)
#define REPLY_BYTES HEADER_BYTES
#define BUCKET_BYTES 256u
#define READS_BYTES (2 * BUCKET_BYTES)
#define SERVERS 2u
#define ITEMS 20u
#define LONG_BYTES 80000u		/* three staging blocks */

struct kv_stage {
	struct cost_stage *stage;
	struct nam_worker *worker;
	struct nam_kv *kv;
	enum nam_transport transport;
	uint8_t key[KEY_BYTES], value[LONG_BYTES];
	uint32_t long_bytes;
};

static int
do_get_from(struct kv_stage *s, struct nam_kv *kv)
{
	uint32_t bytes;

	return nam_kv_get(s->worker, kv, s->key, KEY_BYTES, s->value, 32, &bytes);
}

static int
do_get_small(struct kv_stage *s)
{
	return do_get_from(s, s->kv);
}

static int
do_get_large(struct kv_stage *s)
{
	uint32_t bytes;

	s->key[0] = 1;
	return nam_kv_get(s->worker, s->kv, s->key, KEY_BYTES, s->value, 1000, &bytes);
}

static int
do_get_none(struct kv_stage *s)
{
	s->key[0] = 3;
	return do_get_small(s);
}

static int
do_put(struct kv_stage *s)
{
	return nam_kv_put(s->worker, s->kv, s->key, KEY_BYTES, s->value, 32);
}

static int
do_delete(struct kv_stage *s)
{
	s->key[0] = 3;
	return nam_kv_delete(s->worker, s->kv, s->key, KEY_BYTES);
}

struct price {
	uint64_t trips, requests, in, out;
};

/* Of a request and its reply. */
static void
price_add_rpc(const struct kv_stage *s, uint32_t out, uint32_t in, struct price *price)
{
	const bool fetch = s->transport == NAM_TRANSPORT_FETCH,
		srq = s->transport == NAM_TRANSPORT_SRQ;
	const bool long_reply = fetch && nam_frame_bytes(in) > FETCH_BYTES;
	const bool sent = srq || (s->transport == NAM_TRANSPORT_DATAGRAM &&
		nam_frame_bytes(in) > DATAGRAM_BYTES);

	price->trips += 1u + fetch + long_reply;
	price->requests += 1u + fetch + long_reply;
	price->out += srq ? out : nam_frame_bytes(out);
	price->in += sent ? in : fetch && !long_reply ? FETCH_BYTES : nam_frame_bytes(in);
}

/* Of many calls, for a message may be late, or a memory server asleep: some cost what is said. */
static void
cost_is(struct kv_stage *s, const char *what, int (*fn)(struct kv_stage *s), enum nam_op_kind kind,
	int expected_rc, const struct price *price)
{
	const struct nam_op_counters *live = nam_worker_counters(s->worker, kind);
	struct nam_op_counters before;

	for (unsigned i = 0; i < 70; i++) {
		before = *live;
		memset(s->key, 0, KEY_BYTES);
		cost_expect(s->stage, what, fn(s), expected_rc);
		if (live->ops - before.ops != 1)
			cost_fail(s->stage, "%s: not one operation", what);
		if (live->round_trips - before.round_trips == price->trips &&
			live->doorbells - before.doorbells == price->trips &&
			live->work_requests - before.work_requests == price->requests &&
			live->bytes_in - before.bytes_in == price->in &&
			live->bytes_out - before.bytes_out == price->out)
			return;
	}
	cost_fail(s->stage, "%s by %s: %llu round trips, %llu bytes in, %llu out", what,
		nam_transport_name(s->transport),
		(unsigned long long)(live->round_trips - before.round_trips),
		(unsigned long long)(live->bytes_in - before.bytes_in),
		(unsigned long long)(live->bytes_out - before.bytes_out));
}

static void
cost_of(struct kv_stage *s, const char *what, int (*fn)(struct kv_stage *s), enum nam_op_kind kind,
	int expected_rc, uint32_t out, uint32_t in)
{
	struct price price = { 0 };

	price_add_rpc(s, out, in, &price);
	cost_is(s, what, fn, kind, expected_rc, &price);
}

/* A GET by READs; and a request, unless @out is 0. */
static void
cost_of_reads(struct kv_stage *s, const char *what, int (*fn)(struct kv_stage *s), int expected_rc,
	uint32_t out, uint32_t in)
{
	struct price price = { 1, 2, READS_BYTES, 0 };

	if (out)
		price_add_rpc(s, out, in, &price);
	cost_is(s, what, fn, NAM_OP_LOOKUP, expected_rc, &price);
}

static int
do_put_long(struct kv_stage *s)
{
	s->key[0] = 4;
	return nam_kv_put(s->worker, s->kv, s->key, KEY_BYTES, s->value, s->long_bytes);
}

static int
do_get_long(struct kv_stage *s)
{
	uint32_t bytes;

	s->key[0] = 4;
	return nam_kv_get(s->worker, s->kv, s->key, KEY_BYTES, s->value, s->long_bytes, &bytes);
}

/*
 * By SEND only: how messages travel is the same as of others.
 *
 * @trips	each a doorbell
 */
static void
cost_of_long(struct kv_stage *s, const char *what, int (*fn)(struct kv_stage *s),
	enum nam_op_kind kind, uint64_t trips, uint64_t requests, uint64_t out, uint64_t in)
{
	const struct nam_op_counters *live = nam_worker_counters(s->worker, kind);
	struct nam_op_counters before = *live;

	memset(s->key, 0, KEY_BYTES);
	cost_expect(s->stage, what, fn(s), 0);
	if (live->ops - before.ops == 1 && live->round_trips - before.round_trips == trips &&
		live->doorbells - before.doorbells == trips &&
		live->work_requests - before.work_requests == requests &&
		live->bytes_out - before.bytes_out == out && live->bytes_in - before.bytes_in == in)
		return;
	cost_fail(s->stage, "%s of %u: %llu round trips, %llu requests, %llu bytes in, %llu out",
		what, s->long_bytes, (unsigned long long)(live->round_trips - before.round_trips),
		(unsigned long long)(live->work_requests - before.work_requests),
		(unsigned long long)(live->bytes_in - before.bytes_in),
		(unsigned long long)(live->bytes_out - before.bytes_out));
}

/* @onesided	READs of both buckets come before */
static void
costs_of_long(struct kv_stage *s, bool onesided)
{
	static const uint32_t lengths[] = { 3801, 33792, 33793, LONG_BYTES };

	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		const uint64_t blocks = (lengths[i] + 33791) / 33792;
		const uint64_t asked = 48 + KEY_BYTES + 8, again = 48 + KEY_BYTES + 8 * blocks;

		s->long_bytes = lengths[i];
		/* The first one may have to allocate blocks. */
		cost_expect(s->stage, "put", do_put_long(s), 0);
		cost_of_long(s, "put", do_put_long, NAM_OP_UPSERT, 2, blocks + 1,
			again + lengths[i], REPLY_BYTES);
		cost_of_long(s, "get", do_get_long, NAM_OP_LOOKUP, (blocks == 1 ? 3 : 4) + onesided,
			(blocks == 1 ? 2 : 3) + blocks + 2 * onesided,
			REQUEST_BYTES + asked + (blocks == 1 ? 0 : again),
			REPLY_BYTES + (blocks == 1 ? 1u : 2u) * (REPLY_BYTES + 16u) + lengths[i] +
				onesided * READS_BYTES);
	}
}

/* A request to each memory server, whatever the number of keys. */
static void
cost_of_many(struct kv_stage *s, bool onesided)
{
	const struct nam_op_counters *live = nam_worker_counters(s->worker, NAM_OP_LOOKUP);
	struct nam_kv_item items[ITEMS];
	uint8_t keys[ITEMS][KEY_BYTES] = { { 0 } };
	struct nam_op_counters before;
	uint32_t asked;

	for (uint8_t i = 0; i < ITEMS; i++) {
		keys[i][1] = i;
		items[i] = (struct nam_kv_item){ .key = keys[i], .key_bytes = KEY_BYTES };
	}
	/* By READs all are looked for at once, and the one that is there is found. */
	if (onesided)
		cost_expect(s->stage, "get_many", nam_kv_get_many(s->worker, s->kv, items, ITEMS),
			0);
	asked = ITEMS - onesided;
	before = *live;
	cost_expect(s->stage, "get_many", nam_kv_get_many(s->worker, s->kv, items, ITEMS), 0);
	if (live->round_trips - before.round_trips != SERVERS + onesided ||
		live->work_requests - before.work_requests !=
			SERVERS + (2 * ITEMS - 1) * onesided ||
		live->bytes_out - before.bytes_out != SERVERS * 40 + asked * (1 + KEY_BYTES) ||
		live->bytes_in - before.bytes_in != SERVERS * 32 + asked * 8 +
			(onesided ? ITEMS * READS_BYTES - BUCKET_BYTES : 32))
		cost_fail(s->stage, "get_many: %llu round trips, %llu bytes in, %llu out",
			(unsigned long long)(live->round_trips - before.round_trips),
			(unsigned long long)(live->bytes_in - before.bytes_in),
			(unsigned long long)(live->bytes_out - before.bytes_out));
}

/* The buckets of a partition are not known yet. */
static int
do_get_first(struct kv_stage *s)
{
	nam_kv_close(s->kv);
	cost_expect(s->stage, "open", nam_kv_open(s->worker, "kv", &s->kv), 0);
	return do_get_small(s);
}

/* The buckets of each partition are in one chunk. */
static void
cost_of_onesided(struct kv_stage *s)
{
	cost_of_reads(s, "first get", do_get_first, 0,
		HEADER_BYTES + sizeof(struct nam_rpc_kv_layout_request),
		HEADER_BYTES + sizeof(struct nam_rpc_kv_layout_reply) + sizeof(uint64_t));
	/* Where this handle found the pair before. */
	cost_is(s, "get", do_get_small, NAM_OP_LOOKUP, 0, &(struct price){ 1, 1, BUCKET_BYTES, 0 });
	cost_of_reads(s, "get of 1,000", do_get_large, 0, REQUEST_BYTES, REPLY_BYTES + 1000);
	cost_of_reads(s, "get of nothing", do_get_none, -NAM_E_NOTFOUND, REQUEST_BYTES,
		REPLY_BYTES);
}

static void
play(struct kv_stage *s, enum nam_kv_engine engine, bool onesided)
{
	struct nam_kv_options options;

	nam_kv_options_init(&options);
	options.engine = engine;
	options.onesided = onesided;
	options.mode = onesided ? NAM_KV_STORE : NAM_KV_CACHE;
	options.memory_bytes = SERVERS * 7 * NAM_KV_PARTITION_BYTES_MIN;
	options.partitions = 1;
	memset(s->key, 0, KEY_BYTES);
	cost_expect(s->stage, "create", nam_kv_create(s->worker, "kv", &options), 0);
	cost_expect(s->stage, "open", nam_kv_open(s->worker, "kv", &s->kv), 0);
	s->key[0] = 1;
	cost_expect(s->stage, "put", nam_kv_put(s->worker, s->kv, s->key, KEY_BYTES, s->value,
		1000), 0);
	cost_of(s, "put", do_put, NAM_OP_UPSERT, 0, REQUEST_BYTES + 32, REPLY_BYTES);
	if (onesided) {
		cost_of_onesided(s);
	} else {
		cost_of(s, "get", do_get_small, NAM_OP_LOOKUP, 0, REQUEST_BYTES, REPLY_BYTES + 32);
		cost_of(s, "get of 1,000", do_get_large, NAM_OP_LOOKUP, 0, REQUEST_BYTES,
			REPLY_BYTES + 1000);
		cost_of(s, "get of nothing", do_get_none, NAM_OP_LOOKUP, -NAM_E_NOTFOUND,
			REQUEST_BYTES, REPLY_BYTES);
	}
	cost_of(s, "delete", do_delete, NAM_OP_DELETE, -NAM_E_NOTFOUND, REQUEST_BYTES,
		REPLY_BYTES);
	if (s->transport == NAM_TRANSPORT_SRQ) {
		cost_of_many(s, onesided);
		costs_of_long(s, onesided);
	}
	nam_kv_close(s->kv);
	cost_expect(s->stage, "drop", nam_kv_drop(s->worker, "kv"), 0);
}

/* Of 16 GETs from a cache with one-sided GETs one is a request. */
static void
cost_of_cache(struct kv_stage *s)
{
	const struct nam_op_counters *live = nam_worker_counters(s->worker, NAM_OP_LOOKUP);
	struct nam_kv_options options;
	unsigned asked = 0;

	nam_kv_options_init(&options);
	options.engine = NAM_KV_CUCKOO;
	options.onesided = true;
	options.memory_bytes = SERVERS * NAM_KV_PARTITION_BYTES_MIN;
	cost_expect(s->stage, "create", nam_kv_create(s->worker, "kv", &options), 0);
	cost_expect(s->stage, "open", nam_kv_open(s->worker, "kv", &s->kv), 0);
	memset(s->key, 0, KEY_BYTES);
	cost_expect(s->stage, "put", do_put(s), 0);
	cost_expect(s->stage, "get", do_get_small(s), 0);
	cost_expect(s->stage, "get", do_get_small(s), 0);
	for (unsigned i = 0; i < 160; i++) {
		uint64_t before = live->bytes_in;

		cost_expect(s->stage, "get", do_get_small(s), 0);
		asked += live->bytes_in - before != BUCKET_BYTES;
	}
	if (asked != 10)
		cost_fail(s->stage, "160 GETs from a cache: %u requests", asked);
	nam_kv_close(s->kv);
	cost_expect(s->stage, "drop", nam_kv_drop(s->worker, "kv"), 0);
}

#define SHRUNK_KEYS 1600u	/* the tables of both partitions have two chunks */
#define SHRUNK_KEPT 40u

static void
shrunk_key(struct kv_stage *s, uint32_t number)
{
	memset(s->key, 0, KEY_BYTES);
	memcpy(s->key, &number, sizeof(number));
}

/* The last chunk of either partition becomes cells, of pairs without a byte that is 0. */
static void
shrink(struct kv_stage *s)
{
	memset(s->value, 0x11, sizeof(s->value));
	for (uint32_t i = SHRUNK_KEPT; i < SHRUNK_KEYS; i++) {
		shrunk_key(s, i);
		cost_expect(s->stage, "delete", nam_kv_delete(s->worker, s->kv, s->key, KEY_BYTES),
			0);
	}
	/* Two find room on each memory server. */
	for (uint32_t i = SHRUNK_KEPT; i < SHRUNK_KEPT + 20; i++) {
		shrunk_key(s, i);
		(void)!nam_kv_put(s->worker, s->kv, s->key, KEY_BYTES, s->value, 14000);
	}
}

/*
 * Clients know larger tables than there are.  Each key is the first that its client misses: then
 * the client asks, and then for the layout.
 */
static void
cost_of_shrunk(struct kv_stage *s)
{
	const struct nam_op_counters *live = nam_worker_counters(s->worker, NAM_OP_LOOKUP);
	struct nam_kv_options options;
	struct nam_kv *kvs[SHRUNK_KEPT];
	unsigned asked = 0;

	nam_kv_options_init(&options);
	options.engine = NAM_KV_CUCKOO;
	options.mode = NAM_KV_STORE;
	options.onesided = true;
	options.partitions = 1;
	options.memory_bytes = SERVERS * NAM_KV_PARTITION_BYTES_MIN;
	cost_expect(s->stage, "create", nam_kv_create(s->worker, "kv", &options), 0);
	cost_expect(s->stage, "open", nam_kv_open(s->worker, "kv", &s->kv), 0);
	for (uint32_t i = 0; i < SHRUNK_KEYS; i++) {
		shrunk_key(s, i);
		cost_expect(s->stage, "put", do_put(s), 0);
	}
	for (uint32_t i = 0; i < SHRUNK_KEPT; i++) {
		shrunk_key(s, i);
		cost_expect(s->stage, "open", nam_kv_open(s->worker, "kv", &kvs[i]), 0);
		cost_expect(s->stage, "get", do_get_from(s, kvs[i]), 0);
	}
	shrink(s);
	for (uint32_t i = 0; i < SHRUNK_KEPT; i++) {
		uint64_t before = live->bytes_in;

		shrunk_key(s, i);
		cost_expect(s->stage, "get", do_get_from(s, kvs[i]), 0);
		asked += live->bytes_in - before > BUCKET_BYTES + READS_BYTES;
		cost_expect(s->stage, "get", do_get_from(s, kvs[i]), 0);
		before = live->bytes_in;
		cost_expect(s->stage, "get", do_get_from(s, kvs[i]), 0);
		if (live->bytes_in - before != BUCKET_BYTES)
			cost_fail(s->stage, "a client has not learned the tables' size");
		nam_kv_close(kvs[i]);
	}
	if (asked < SHRUNK_KEPT / 8)
		cost_fail(s->stage, "%u keys have another bucket than before", asked);
	nam_kv_close(s->kv);
	cost_expect(s->stage, "drop", nam_kv_drop(s->worker, "kv"), 0);
}

static void
play_by(struct cost_stage *stage, enum nam_transport transport)
{
	static struct kv_stage s;
	struct nam_client *client;

	memset(&s, 0, sizeof(s));
	s.stage = stage;
	s.transport = transport;
	stage->cluster.transport = transport;
	stage->cluster.fetch_bytes = FETCH_BYTES;
	s.worker = sim_come(&stage->cluster, "kv", &client);
	if (!s.worker) {
		cost_fail(stage, "no worker");
		return;
	}
	client->options.fetch_always = 1;
	play(&s, NAM_KV_CHAINED, false);
	play(&s, NAM_KV_CUCKOO, false);
	play(&s, NAM_KV_CUCKOO, true);
	cost_of_cache(&s);
	if (transport == NAM_TRANSPORT_SRQ)
		cost_of_shrunk(&s);
	sim_leave(&client, &s.worker);
}

static void
act(struct cost_stage *stage)
{
	play_by(stage, NAM_TRANSPORT_SRQ);
	play_by(stage, NAM_TRANSPORT_MAILBOX);
	play_by(stage, NAM_TRANSPORT_FETCH);
	if (nam_sim_profile_caps(stage->profile) & NAM_CAP_UD)
		play_by(stage, NAM_TRANSPORT_DATAGRAM);
}

static void
nam_kv__by_each_transport__COST_EXACT(void **state)
{
	struct cost_stage stage;

	(void)state;
	cost_stage_init(&stage, act);
	stage.servers = SERVERS;
	cost_play(&stage);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_kv__by_each_transport__COST_EXACT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
