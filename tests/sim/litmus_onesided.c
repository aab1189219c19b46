/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_onesided.c -- scenes about the memory of a store with one-sided GETs.  It is dropped, and
 * its memory is another store's, or other objects'; it is damaged; and a client with a bug writes.
 */
#include <string.h>

#include "compute/remote/forget.h"
#include "compute/remote/reclaim.h"
#include "kv/kv_internal.h"
#include "memserver/stores.h"
#include "memserver/trees.h"
#include "litmus_kv.h"

#define FIRST "first"
#define SECOND "second"
#define DROPPED_KEYS 60u
#define DROPPED_CHUNKS 2u	/* each store has those of the one before in reverse */
#define FIRST_VALUE 1000u
#define SECOND_VALUE 2000u
#define STRIDE 16384u
#define REUSE_MAX 2000u		/* blocks: more than the memory server has */
#define ROUNDS_MAX 3u		/* from read-only to private, and from there to public */

/* ---- a store that is dropped ----------------------------------------------------------------- */

static void
fill(struct actor *self, struct nam_kv *kv, uint64_t value)
{
	for (uint64_t key = 0; key < DROPPED_KEYS; key++) {
		uint64_t is = value + key;

		if (nam_kv_put(self->worker, kv, &key, sizeof(key), &is, sizeof(is)))
			litmus_fail("put: %s", nam_worker_diag(self->worker));
	}
}

/* It has the value of the first store, or the code says that the store is no more. */
static int
get_first(struct actor *self, struct nam_kv *kv, uint64_t key)
{
	uint64_t value = 0;
	uint32_t bytes = 0;
	int rc = nam_kv_get(self->worker, kv, &key, sizeof(key), &value, sizeof(value), &bytes);

	if (rc ? rc != -NAM_E_DROPPED : bytes != sizeof(value) || value != FIRST_VALUE + key)
		litmus_fail("get(%llu) of a store that was dropped: %s, %llu",
			(unsigned long long)key, nam_err_name(rc), (unsigned long long)value);
	return rc;
}

/* Once its memory is free, no READ finds its pairs. */
static void
expect_gone(struct actor *self, struct nam_kv *kv)
{
	for (uint64_t key = 0; key < DROPPED_KEYS && !litmus.failed; key++)
		if (get_first(self, kv, key) != -NAM_E_DROPPED)
			litmus_fail("get(%llu) of a store that is gone has a value",
				(unsigned long long)key);
}

static void
drop(struct actor *self, const char *name)
{
	struct nam_server *server = litmus.cluster.servers[0].server;

	if (nam_kv_drop(self->worker, name))
		litmus_fail("drop: %s", nam_worker_diag(self->worker));
	for (unsigned i = 0; i < 100 && atomic_load(&server->stores.dropped_count); i++)
		nam_sleep_ns(LITMUS_POLL_NS);
	if (atomic_load(&server->stores.dropped_count))
		litmus_fail("the store is not freed");
}

static void
drop_and_make(struct actor *self)
{
	struct nam_kv *kv;

	litmus_kv_make(self->worker, FIRST, NAM_KV_STORE, DROPPED_CHUNKS);
	kv = litmus_kv_open(self->worker, FIRST);
	fill(self, kv, FIRST_VALUE);
	nam_kv_close(kv);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_await(THREE);
	drop(self, FIRST);
	litmus.flags[FOUR] = true;
	litmus_await(FIVE);
	litmus_await(INSERTED);
	/* The third one has its buckets where the first one had them. */
	litmus_kv_make(self->worker, SECOND, NAM_KV_STORE, DROPPED_CHUNKS);
	drop(self, SECOND);
	litmus_kv_make(self->worker, SECOND, NAM_KV_STORE, DROPPED_CHUNKS);
	kv = litmus_kv_open(self->worker, SECOND);
	fill(self, kv, SECOND_VALUE);
	litmus.flags[SEEN] = true;
	nam_kv_close(kv);
}

static void
get_dropped(struct actor *self)
{
	struct nam_kv *kv;

	litmus_await(ONE);
	kv = litmus_kv_open(self->worker, FIRST);
	for (uint64_t key = 0; key < DROPPED_KEYS; key++)
		if (get_first(self, kv, key))
			litmus_fail("get: %s", nam_worker_diag(self->worker));
	litmus.flags[self->who == B ? TWO : THREE] = true;
	for (uint64_t i = 0; !litmus.flags[FOUR] && !litmus.failed; i++)
		(void)get_first(self, kv, i % DROPPED_KEYS);
	expect_gone(self, kv);
	litmus.flags[self->who == B ? FIVE : INSERTED] = true;
	while (!litmus.flags[SEEN] && !litmus.failed)
		expect_gone(self, kv);
	expect_gone(self, kv);
	nam_kv_close(kv);
}

/* ---- damage, and a client with a bug ------------------------------------------------------- */

/* Where the data of a key is in the first chunk. */
static uint64_t
offset_of(const struct nam__store *store, uint64_t key)
{
	const struct nam__cuckoo_bucket *buckets = (const void *)store->chunks[0];

	for (uint32_t i = 0; i < NAM__CUCKOO_BUCKETS_PER_CHUNK * NAM__CUCKOO_SLOTS; i++) {
		const struct nam__cuckoo_bucket *bucket = &buckets[i / NAM__CUCKOO_SLOTS];
		const uint8_t *data = bucket->data[i % NAM__CUCKOO_SLOTS];

		if (bucket->slots[i % NAM__CUCKOO_SLOTS].lengths &&
			memcmp(data, &key, sizeof(key)) == 0)
			return (uint64_t)(data - store->chunks[0]);
	}
	sim_die("key %llu has no slot", (unsigned long long)key);
}

static void
expect_get(struct actor *self, struct nam_kv *kv, const char *how, uint64_t key, int expected)
{
	uint64_t value = 0;
	uint32_t bytes = 0;
	int rc = nam_kv_get(self->worker, kv, &key, sizeof(key), &value, sizeof(value), &bytes);

	if (rc != expected || (!rc && value != FIRST_VALUE + key))
		litmus_fail("get(%llu) %s: %s, %llu", (unsigned long long)key, how,
			nam_err_name(rc), (unsigned long long)value);
}

/* Each key by READ and by request: all are there, or all but the even ones, which are damaged. */
static void
expect_both(struct actor *self, struct nam_kv *kv, bool damaged)
{
	struct nam_kv *asking = litmus_kv_open_asking(self->worker, FIRST);
	struct nam_kv_stat before, after;
	int rc = nam_kv_stat(self->worker, kv, &before);

	for (uint64_t key = 0; key < DROPPED_KEYS; key++) {
		int expected = damaged && key % 2 == 0 ? -NAM_E_REMOTE_CORRUPT : 0;

		expect_get(self, kv, "by READ", key, expected);
		expect_get(self, asking, "by request", key, expected);
	}
	nam_kv_close(asking);
	rc = rc ? rc : nam_kv_stat(self->worker, kv, &after);
	if (rc || after.hits - before.hits != DROPPED_KEYS / (damaged ? 2 : 1))
		litmus_fail("not one of two values was by request: %s", nam_err_name(rc));
}

/* Its value becomes another one. */
static void
value_damage(const struct nam__store *store, uint64_t key, uint64_t value)
{
	memcpy(store->chunks[0] + offset_of(store, key) + sizeof(key), &value, sizeof(value));
}

static void
damage(struct actor *self)
{
	struct nam_kv *kv;

	litmus_kv_make(self->worker, FIRST, NAM_KV_STORE, 2);
	kv = litmus_kv_open(self->worker, FIRST);
	fill(self, kv, FIRST_VALUE);
	for (uint64_t key = 0; key < DROPPED_KEYS; key += 2)
		value_damage(litmus_kv_store(kv), key, SECOND_VALUE + key);
	expect_both(self, kv, true);
	fill(self, kv, FIRST_VALUE);
	expect_both(self, kv, false);
	nam_kv_close(kv);
}

/* Other clients try to write where the pairs are; then each pair is as it was. */
static void
keep(struct actor *self)
{
	struct nam_kv *kv;

	litmus_kv_make(self->worker, FIRST, NAM_KV_STORE, 2);
	kv = litmus_kv_open(self->worker, FIRST);
	fill(self, kv, FIRST_VALUE);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	litmus_await(THREE);
	expect_both(self, kv, false);
	nam_kv_close(kv);
}

static struct nam_gaddr
first_chunk(struct actor *self)
{
	struct nam_kv *kv = litmus_kv_open(self->worker, FIRST);
	struct nam_gaddr at = { litmus_kv_store(kv)->blocks[0] };

	nam_kv_close(kv);
	return at;
}

static void
expect_refused(int rc)
{
	if (rc != -NAM_E_FABRIC_ACCESS)
		litmus_fail("a client has written where pairs are, or: %s", nam_err_name(rc));
}

static void
write_there(struct actor *self)
{
	uint8_t *noise;

	litmus_await(ONE);
	noise = nam_buffer_take(self->worker, NAM__CUCKOO_BUCKET_BYTES);
	memset(noise, 0x55, NAM__CUCKOO_BUCKET_BYTES);
	expect_refused(nam_write_await(self->worker, first_chunk(self), noise,
		NAM__CUCKOO_BUCKET_BYTES));
	nam_buffer_give(self->worker, noise, NAM__CUCKOO_BUCKET_BYTES);
	litmus.flags[TWO] = true;
}

static void
add_there(struct actor *self)
{
	uint64_t before;

	litmus_await(ONE);
	expect_refused(nam_fetch_add_await(self->worker, first_chunk(self), 1, &before));
	litmus.flags[THREE] = true;
}

/* ---- memory of a dropped store has other uses ------------------------------------------------ */

/* The first chunk of FIRST, which has all its pairs. */
static struct nam_gaddr chunk;
static uint8_t chunk_was[NAM__KV_CHUNK_BYTES];

static bool
covers(struct nam_gaddr block)
{
	return nam_gaddr_region(block) == nam_gaddr_region(chunk) &&
	       nam_gaddr_offset(block) - nam_gaddr_offset(chunk) < sizeof(chunk_was);
}

/* Blocks of another stride, until they take all of the chunk; then they have what it had. */
static void
reuse_chunk(struct actor *self)
{
	unsigned tries = 0, covered = 0;

	for (unsigned i = 0; i < ROUNDS_MAX; i++) {
		self->worker->public_full = true;
		if (!nam__memory_reclaim(self->worker, &tries) && !i)
			litmus_fail("no run came back");
	}
	for (unsigned i = 0; i < REUSE_MAX && covered < sizeof(chunk_was) / STRIDE; i++) {
		struct nam_gaddr block = NAM_GADDR_NULL;

		if (nam_alloc_on(self->worker, 0, STRIDE, &block))
			litmus_fail("alloc: %s", nam_worker_diag(self->worker));
		covered += covers(block);
	}
	if (covered < sizeof(chunk_was) / STRIDE)
		litmus_fail("the memory was not used again");
	memcpy(nam__block_at(litmus.cluster.servers[0].server, chunk.raw), chunk_was,
		sizeof(chunk_was));
}

static void
drop_and_reuse(struct actor *self)
{
	struct nam__store *store;
	struct nam_kv *kv;

	litmus_kv_make(self->worker, FIRST, NAM_KV_STORE, 2);
	kv = litmus_kv_open(self->worker, FIRST);
	fill(self, kv, FIRST_VALUE);
	store = litmus_kv_store(kv);
	chunk = (struct nam_gaddr){ store->blocks[0] };
	memcpy(chunk_was, store->chunks[0], sizeof(chunk_was));
	nam_kv_close(kv);
	litmus.flags[FOUR] = true;
	litmus_await(ONE);
	drop(self, FIRST);
	reuse_chunk(self);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
}

static void
get_and_get_again(struct actor *self)
{
	struct nam_kv *kv;

	litmus_await(FOUR);
	kv = litmus_kv_open(self->worker, FIRST);
	(void)get_first(self, kv, 0);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	expect_gone(self, kv);
	litmus.flags[THREE] = true;
	nam_kv_close(kv);
}

/* Until a generation has begun: the layout comes into a handle that has just forgotten all. */
static void
hold_layout(struct actor *self)
{
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	for (unsigned i = 0; i < 100 && !nam__generation(self->client); i++)
		nam_sleep_ns(LITMUS_TICKS_NS / 10);
	if (!nam__generation(self->client))
		litmus_fail("no generation has begun");
}

const struct litmus_case litmus_onesided_cases[] = {
	{ { "kv_onesided_dropped", 0, { NULL, drop_and_make, get_dropped, get_dropped },
			{ { 0 } } },
		"a store is dropped and its memory is another's, and clients READ its buckets", 1,
		LITMUS_COARSE_HASH },
	{ { "kv_damaged", 0, { NULL, damage }, { { 0 } } },
		"the memory of pairs is damaged, which then are not returned", 1, 0 },
	{ { "kv_read_only", 0, { NULL, keep, write_there, add_there }, { { 0 } } },
		"clients write to the memory of pairs, which then are as before", 1, 0 },
	{ { "kv_returned", 0, { NULL, drop_and_reuse, get_and_get_again }, { { 0 } } },
		"the buckets of a dropped store come to lie in blocks of another kind", 1, 0 },
	{ { "kv_late_layout", 0, { NULL, drop_and_reuse, get_and_get_again },
			{ { "kv.layout_known", B, hold_layout } } },
		"the same, and a client learns of them as it is to forget them", 1, 0 },
	{ { 0 }, NULL, 0, 0 },
};
