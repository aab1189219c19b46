/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pilaf.c -- nam-bench pilaf: GETs of a table of pointers, as of Pilaf (Mitchell et al., USENIX ATC
 * 2013): READs of a key's two buckets with one doorbell, then a READ of the pair, whose address and
 * checksum the bucket has.  The run writes the table once; nothing changes it.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "bench/report.h"
#include "common/hash/hash.h"
#include "pairs.h"
#include "requests.h"

#define SLOTS 4u
#define BUCKETS_PER_KEY 2u		/* so that no bucket gets more keys than it has slots */

struct slot {
	uint32_t hash;			/* of the key */
	uint32_t checksum;		/* of the pair */
	uint64_t pair;			/* its address; 0: the slot is free */
};

struct bucket {
	struct slot slots[SLOTS];
};
_Static_assert(sizeof(struct bucket) == 64, "a READ of a line");

struct room {
	uint64_t number;		/* of the key */
	bool found;
	uint64_t key[KV_KEY_BYTES / 8];
	uint64_t value[];
};

/* Simulated clients share it. */
static struct {
	struct blocks buckets, pairs;
	uint64_t count;			/* of buckets */
} table;

static uint32_t
pair_bytes(const struct requests_options *o)
{
	return KV_KEY_BYTES + o->value_bytes;
}

static void
buckets_of(const uint64_t key[KV_KEY_BYTES / 8], uint32_t *ret_hash, uint64_t ret_buckets[2])
{
	uint64_t hash = nam_hash64(key, KV_KEY_BYTES);

	*ret_hash = (uint32_t)hash;
	ret_buckets[0] = hash % table.count;
	ret_buckets[1] = nam_mix64(hash) % table.count;
}

/* ---- before and after ---------------------------------------------------------------------- */

static int
blocks_take(uint32_t bytes, uint64_t count, struct blocks *ret_blocks)
{
	struct nam_diag diag = { "" };
	int rc = blocks_alloc(session_worker(), nam_client_servers(session.client), bytes,
		count * raw_stride(bytes), ret_blocks, &diag);

	if (!rc && ret_blocks->count < count)
		rc = nam_diag_set(&diag, -NAM_E_REMOTE_FULL, "the memory servers have room for "
			"%" PRIu64 " of %" PRIu64 " blocks; say fewer --keys", ret_blocks->count,
			count);
	return rc ? bench_failed("making the table", rc, diag.text) : NAM_EXIT_OK;
}

static uint32_t
slots_used(const struct bucket *bucket)
{
	uint32_t used = 0;

	while (used < SLOTS && bucket->slots[used].pair)
		used++;
	return used;
}

/* The pair goes to remote memory, and its slot to the less full of its buckets. */
NAM_FIBER_FN static int
pair_put(const struct requests_options *o, struct bucket *buckets, uint64_t number, uint64_t *local)
{
	struct slot slot = { .pair = blocks_at(&table.pairs, number).raw };
	uint32_t used[2];
	uint64_t at[2];

	key_fill(number, local);
	(void)value_fill(o, number, local + KV_KEY_BYTES / 8);
	slot.checksum = (uint32_t)nam_hash64(local, pair_bytes(o));
	buckets_of(local, &slot.hash, at);
	for (uint32_t i = 0; i < 2; i++)
		used[i] = slots_used(&buckets[at[i]]);
	if (used[0] == SLOTS && used[1] == SLOTS)
		return -NAM_E_REMOTE_FULL;
	buckets[at[used[1] < used[0]]].slots[used[0] < used[1] ? used[0] : used[1]] = slot;
	return nam_write_await(session_worker(), blocks_at(&table.pairs, number), local,
		pair_bytes(o)); /* SUSPENDS */
}

NAM_FIBER_FN static int
table_fill(const struct requests_options *o)
{
	struct bucket *buckets = calloc(table.count, sizeof(*buckets));
	uint32_t bytes = KV_KEY_BYTES + NAM_KV_MESSAGE_BYTES_MAX + 8;
	uint64_t *local = nam_buffer_take(session_worker(), bytes);
	int rc = buckets && local ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < o->keys && !rc && !bench_signal; i++)
		rc = pair_put(o, buckets, i, local); /* SUSPENDS */
	for (uint64_t i = 0; i < table.count && !rc && !bench_signal; i++) {
		memcpy(local, &buckets[i], sizeof(buckets[i]));
		rc = nam_write_await(session_worker(), blocks_at(&table.buckets, i), local,
			sizeof(buckets[i])); /* SUSPENDS */
	}
	if (local)
		nam_buffer_give(session_worker(), local, bytes);
	free(buckets);
	return rc;
}

static int
begin(struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	int rc;

	requests_keys_init(bench);
	table.count = BUCKETS_PER_KEY * o->keys;
	rc = blocks_take(sizeof(struct bucket), table.count, &table.buckets);
	if (!rc)
		rc = blocks_take(pair_bytes(o), o->keys, &table.pairs);
	if (rc)
		return rc;
	rc = table_fill(o); /* SUSPENDS */
	return rc ? bench_failed("filling the table", rc, nam_worker_diag(session_worker()))
		  : NAM_EXIT_OK;
}

static void
end(struct requests *bench)
{
	(void)bench;
	if (table.buckets.all)
		blocks_free(&table.buckets);
	if (table.pairs.all)
		blocks_free(&table.pairs);
}

/* ---- one request --------------------------------------------------------------------------- */

static size_t
room_bytes(const struct requests_options *o)
{
	return sizeof(struct room) + value_room(o);
}

static void
prepare(struct requests_part *part, void *arg)
{
	struct room *room = arg;

	room->number = requests_draw(part->bench, &part->rng);
	room->found = false;
	key_fill(room->number, room->key);
}

/* The slot of the key among those of its buckets, or NULL. */
static const struct slot *
slot_of(const struct bucket buckets[2], uint32_t hash)
{
	for (uint32_t i = 0; i < 2 * SLOTS; i++) {
		const struct slot *slot = &buckets[i / SLOTS].slots[i % SLOTS];

		if (slot->pair && slot->hash == hash)
			return slot;
	}
	return NULL;
}

NAM_FIBER_FN static int
get(struct nam_worker *worker, struct room *room, uint32_t bytes, struct bucket *local)
{
	uint8_t *pair = (uint8_t *)(local + 2);
	const struct slot *slot;
	struct nam_batch batch;
	uint64_t at[2];
	uint32_t hash;
	int rc;

	buckets_of(room->key, &hash, at);
	nam_batch_init(&batch, worker);
	for (uint32_t i = 0; i < 2; i++)
		nam_batch_read(&batch, blocks_at(&table.buckets, at[i]), &local[i],
			sizeof(local[i]));
	rc = nam_batch_await(&batch); /* SUSPENDS */
	if (rc)
		return rc;
	slot = slot_of(local, hash);
	if (!slot)
		return 0;
	rc = nam_read_await(worker, (struct nam_gaddr){ slot->pair }, pair, bytes); /* SUSPENDS */
	if (rc)
		return rc;
	room->found = memcmp(pair, room->key, KV_KEY_BYTES) == 0 &&
		      (uint32_t)nam_hash64(pair, bytes) == slot->checksum;
	memcpy(room->value, pair + KV_KEY_BYTES, bytes - KV_KEY_BYTES);
	return 0;
}

NAM_FIBER_FN static int
ask(struct requests_part *part, void *arg, uint32_t count)
{
	uint32_t bytes = pair_bytes(&part->bench->options);
	uint32_t local_bytes = 2 * (uint32_t)sizeof(struct bucket) + bytes;
	struct nam_worker *worker = part->member->worker;
	struct bucket *local = nam_buffer_take(worker, local_bytes);
	int rc;

	(void)count;
	if (!local)
		return -ENOMEM;
	rc = get(worker, arg, bytes, local); /* SUSPENDS */
	nam_buffer_give(worker, local, local_bytes);
	return rc;
}

static void
check(struct requests_part *part, void *arg)
{
	const struct requests_options *o = &part->bench->options;
	const struct room *room = arg;

	if (!room->found || !value_right(o, room->number, room->value, o->value_bytes))
		findings_wrong("key %" PRIu64 " was not found, or with another value",
			room->number);
}

/* ---- results ------------------------------------------------------------------------------- */

static void
print(const struct requests *bench)
{
	const struct requests_options *o = &bench->options;

	printf("  table       %" PRIu64 " keys of %u bytes, %s; values of %u bytes; two READs of "
		"buckets, then one of the pair\n", o->keys, KV_KEY_BYTES,
		requests_distribution(o), o->value_bytes);
}

static void
json(const struct requests *bench, cJSON *object)
{
	cJSON_AddStringToObject(object, "get", "dependent");
	report_number(object, "get_percent", 100);
	requests_keys_json(&bench->options, object);
}

const struct requests_kind requests_pilaf = {
	.name = "pilaf",
	.room_bytes_of = room_bytes,
	.begin = begin,
	.end = end,
	.prepare = prepare,
	.ask = ask,
	.check = check,
	.print = print,
	.json = json,
};
