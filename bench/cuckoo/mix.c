/* SPDX-License-Identifier: Apache-2.0 */
#include "mix.h"

#include <errno.h>
#include <stdlib.h>

#include "bench/bench.h"
#include "bench/report.h"
#include "bench/ticks.h"
#include "kv/options.h"

#define STORE 1u
#define KEY_BYTES 16u
#define VALUE_BYTES 32u
#define OPS_WITHOUT_INSERTS 800u

struct pair {
	uint8_t key[KEY_BYTES], value[VALUE_BYTES];
	uint32_t hash;
};

struct op {
	enum { GET, UPDATE, INSERT } kind;
	uint32_t pair;
};

static struct {
	struct nam__kv_partition partition;
	struct pair pairs[TABLES_SLOTS + TABLES_COUNTED];
	uint32_t filled;		/* pairs before the operations */
	struct op *ops;
	uint32_t ops_count;
} table;

void
tables_begin(struct nam__kv_partition *p, uint8_t *const *chunks, enum nam__htm htm)
{
	uint32_t count = 0;

	nam__kv_partition_init(p, STORE, htm, NAM_KV_CUCKOO, chunks, TABLES_CHUNKS, false);
	while (!nam__kv_partition_put(p, (uint32_t)nam_mix64(count), &count, sizeof(count), NULL,
			0))
		count++;
	while (count-- > 0)
		if (nam__kv_partition_delete(p, (uint32_t)nam_mix64(count), &count, sizeof(count)))
			abort();
}

/* ---- a conventional insert ----------------------------------------------------------------- */

/* A pair without a slot. */
struct homeless {
	struct nam__cuckoo_slot slot;
	uint8_t data[NAM__CUCKOO_DATA_BYTES];
};

static void
slot_write(struct nam__cuckoo_bucket *bucket, uint32_t i, const struct homeless *from)
{
	memcpy(bucket->data[i], from->data, sizeof(from->data));
	bucket->slots[i] = from->slot;
}

static bool
place(const struct nam__kv_partition *p, uint32_t bucket, const struct homeless *from)
{
	uint32_t at = nam__cuckoo_free_slot(p, bucket);

	if (at != NAM__CUCKOO_NONE)
		slot_write(nam__cuckoo_bucket_at(p, bucket), at % NAM__CUCKOO_SLOTS, from);
	return at != NAM__CUCKOO_NONE;
}

static bool
holds(const struct nam__kv_partition *p, uint32_t number, const struct pair *pair)
{
	const struct nam__cuckoo_bucket *bucket = nam__cuckoo_bucket_at(p, number);

	for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++)
		if (bucket->slots[i].lengths && bucket->slots[i].hash == pair->hash &&
			memcmp(bucket->data[i], pair->key, KEY_BYTES) == 0)
			return true;
	return false;
}

/* Kick-outs at random until one finds a free slot, as in plain.c. */
static bool
kick_out(const struct nam__kv_partition *p, uint32_t bucket, struct homeless *homeless,
	uint32_t kicks_max, struct nam_rng *rng)
{
	for (uint32_t kicks = 0; kicks < kicks_max; kicks++) {
		struct nam__cuckoo_bucket *at = nam__cuckoo_bucket_at(p, bucket);
		uint32_t i = (uint32_t)nam_rng_below(rng, NAM__CUCKOO_SLOTS);
		struct homeless victim = { .slot = at->slots[i] };

		memcpy(victim.data, at->data[i], sizeof(victim.data));
		slot_write(at, i, homeless);
		*homeless = victim;
		bucket = nam__cuckoo_other(&p->cuckoo.shape, bucket, victim.slot.hash);
		if (place(p, bucket, homeless))
			return true;
	}
	return false;
}

static bool
plain_put(struct nam__kv_partition *p, const struct pair *pair, uint32_t kicks_max,
	struct nam_rng *rng)
{
	struct homeless homeless = { .slot = { .hash = pair->hash,
		.lengths = VALUE_BYTES << NAM__CUCKOO_VALUE_SHIFT | KEY_BYTES } };
	uint32_t buckets[2];
	bool placed;

	memcpy(homeless.data, pair->key, KEY_BYTES);
	memcpy(homeless.data + KEY_BYTES, pair->value, VALUE_BYTES);
	nam__htm_lock(&p->lock);
	nam__cuckoo_buckets_of(&p->cuckoo.shape, pair->hash, buckets);
	homeless.slot.checksum = nam__cuckoo_checksum_in_line(STORE, homeless.data, KEY_BYTES,
		VALUE_BYTES);
	placed = !holds(p, buckets[0], pair) && !holds(p, buckets[1], pair) &&
		 (place(p, buckets[0], &homeless) || place(p, buckets[1], &homeless) ||
			 kick_out(p, buckets[nam_rng_below(rng, 2)], &homeless, kicks_max, rng));
	nam__htm_unlock(&p->lock);
	return placed;
}

/* ---- operations ---------------------------------------------------------------------------- */

static void
pairs_make(const struct mix *mix, struct nam_rng *rng)
{
	table.filled = (uint32_t)(mix->load_factor * TABLES_SLOTS);
	for (uint32_t i = 0; i < table.filled + TABLES_COUNTED; i++) {
		struct pair *pair = &table.pairs[i];

		for (uint32_t at = 0; at < KEY_BYTES; at += 8) {
			uint64_t word = nam_rng_next(rng);

			memcpy(pair->key + at, &word, sizeof(word));
		}
		memset(pair->value, (int)i, VALUE_BYTES);
		pair->hash = (uint32_t)nam_rng_next(rng);
	}
}

static void
ops_make(const struct mix *mix, struct nam_rng *rng)
{
	uint32_t present = table.filled;

	for (uint32_t i = 0; i < table.ops_count; i++) {
		double dice = (double)(nam_rng_next(rng) >> 11) * 0x1p-53 * 100;
		struct op *op = &table.ops[i];

		op->kind = dice < mix->get_percent ? GET :
			dice < mix->get_percent + mix->update_percent ? UPDATE : INSERT;
		if (op->kind == INSERT && present == table.filled + TABLES_COUNTED)
			op->kind = GET;
		op->pair = op->kind == INSERT ? present++ : (uint32_t)nam_rng_below(rng, present);
	}
}

/* Whether it went well. */
static inline bool
op_run(const struct mix *mix, enum mix_way way, const struct op *op, struct nam_rng *rng)
{
	const struct pair *pair = &table.pairs[op->pair];
	uint8_t value[VALUE_BYTES];
	uint32_t bytes;

	if (op->kind == GET)
		return !nam__kv_partition_get(&table.partition, pair->hash, pair->key, KEY_BYTES,
				value, sizeof(value), &bytes) &&
		       value[0] == pair->value[0];
	if (op->kind == INSERT && way == MIX_PLAIN)
		return plain_put(&table.partition, pair, mix->kicks_max, rng);
	return !nam__kv_partition_put(&table.partition, pair->hash, pair->key, KEY_BYTES,
		pair->value, VALUE_BYTES);
}

/* The ns of an operation. */
static double
way_run(struct mix *mix, enum mix_way way, uint8_t *const *chunks, uint64_t seed)
{
	struct nam_rng rng = nam_rng_seed(seed);
	struct nam__htm_counts before;
	uint64_t failed = 0, began;

	tables_begin(&table.partition, chunks, way == MIX_HTM ? mix->htm : NAM__HTM_NONE);
	for (uint32_t i = 0; i < table.filled; i++)
		failed += !op_run(mix, way, &(struct op){ INSERT, i }, &rng);
	before = table.partition.htm_counts;
	began = ticks_now();
	for (uint32_t i = 0; i < table.ops_count; i++)
		failed += !op_run(mix, way, &table.ops[i], &rng);
	began = ticks_now() - began;
	mix->failed += failed;
	mix->htm_counts.commits += table.partition.htm_counts.commits - before.commits;
	mix->htm_counts.fallbacks += table.partition.htm_counts.fallbacks - before.fallbacks;
	return ticks_ns(began) / table.ops_count;
}

static void
table_run(struct mix *mix, uint32_t number, uint8_t *const *chunks, double ret_ns[MIX_WAYS])
{
	struct nam_rng rng = nam_rng_seed(mix->seed * 1000003 + number);
	uint32_t ways = mix->htm == NAM__HTM_NONE ? MIX_HTM : MIX_WAYS;

	pairs_make(mix, &rng);
	ops_make(mix, &rng);
	for (uint32_t i = 0; i < ways; i++) {
		enum mix_way way = (i + number) % ways;

		ret_ns[way] = way_run(mix, way, chunks, ~(mix->seed * 1000003 + number));
	}
}

int
mix_run(struct mix *mix, uint8_t *const *chunks)
{
	double inserts = 100 - mix->get_percent - mix->update_percent;
	double *ns = calloc((size_t)mix->tables * (MIX_WAYS + 2), sizeof(*ns));
	double *plain = ns + (size_t)mix->tables * MIX_WAYS, *htm = plain + mix->tables;

	mix->htm = nam__htm_available();
	table.ops_count = inserts > 0 ? (uint32_t)(TABLES_COUNTED * 100 / inserts)
				      : OPS_WITHOUT_INSERTS;
	table.ops = calloc(table.ops_count, sizeof(*table.ops));
	for (uint32_t i = 0; ns && table.ops && i < mix->tables && !bench_signal; i++) {
		double of[MIX_WAYS] = { 0 };

		table_run(mix, i, chunks, of);
		for (uint32_t way = 0; way < MIX_WAYS; way++)
			ns[way * mix->tables + i] = of[way];
		plain[i] = of[MIX_PLAIN] / of[MIX_GRAPH];
		htm[i] = of[MIX_HTM] / of[MIX_GRAPH];
		mix->ops += table.ops_count;
	}
	if (ns && table.ops && !bench_signal) {
		for (uint32_t way = 0; way < MIX_WAYS; way++)
			mix->ns[way] = report_median(ns + way * mix->tables, mix->tables);
		mix->plain_ratio = report_median(plain, mix->tables);
		mix->htm_ratio = report_median(htm, mix->tables);
	}
	free(table.ops);
	free(ns);
	return !ns || !table.ops ? -ENOMEM : bench_signal ? -EINTR : 0;
}
