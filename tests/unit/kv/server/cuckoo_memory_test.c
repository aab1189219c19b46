/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuckoo_memory_test.c -- memory of a partition goes from the tables to cells and back.  Short
 * pairs and long ones come in either order, and at random against a model.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "common/hash/hash.h"
#include "kv/options.h"
#include "kv/server/cuckoo.h"

#define CHUNKS_MAX 128u
#define SHORT_BYTES 32u			/* with a key of 16 bytes: a slot */
#define LONG_BYTES 20000u

static struct nam__kv_partition p;
static uint8_t *chunks[CHUNKS_MAX];

static void
begin_engine(enum nam_kv_engine engine, uint32_t count, bool evicts)
{
	for (uint32_t i = 0; i < count; i++) {
		chunks[i] = aligned_alloc(64, NAM__KV_CHUNK_BYTES);
		assert_non_null(chunks[i]);
		memset(chunks[i], 0x5a, NAM__KV_CHUNK_BYTES);
	}
	nam__kv_partition_init(&p, 4711, NAM__HTM_NONE, engine, chunks, count, evicts);
}

static void
begin(uint32_t count, bool evicts)
{
	begin_engine(NAM_KV_CUCKOO, count, evicts);
}

static void
expect_sound(void)
{
	struct nam_diag diag;

	if (!nam__kv_partition_sound(&p, &diag))
		fail_msg("%s", diag.text);
}

static void
end(void)
{
	expect_sound();
	for (uint32_t i = 0; i < CHUNKS_MAX; i++) {
		free(chunks[i]);
		chunks[i] = NULL;
	}
}

static uint32_t
hash_of(uint32_t number)
{
	return (uint32_t)nam_mix64(number);
}

/* The value tells number, version and length. */
static const uint8_t *
value_of(uint32_t number, uint32_t version, uint32_t bytes)
{
	static uint8_t value[NAM_RPC_KV_VALUE_BYTES_MAX];

	for (uint32_t i = 0; i < bytes; i++)
		value[i] = (uint8_t)(number * 7 + version * 13 + bytes + i + (i >> 8));
	return value;
}

static int
put_version(uint32_t number, uint32_t version, uint32_t bytes)
{
	const uint32_t key[4] = { number };

	return nam__kv_partition_put(&p, hash_of(number), key, sizeof(key),
		value_of(number, version, bytes), bytes);
}

static int
put(uint32_t number, uint32_t bytes)
{
	return put_version(number, 0, bytes);
}

static int
take_out(uint32_t number)
{
	const uint32_t key[4] = { number };

	return nam__kv_partition_delete(&p, hash_of(number), key, sizeof(key));
}

/* 0, or -NAM_E_NOTFOUND: any value but this one is a failure. */
static int
get_version(uint32_t number, uint32_t version, uint32_t bytes)
{
	static uint8_t value[NAM_RPC_KV_VALUE_BYTES_MAX];
	const uint32_t key[4] = { number };
	uint32_t got;
	int rc = nam__kv_partition_get(&p, hash_of(number), key, sizeof(key), value, sizeof(value),
		&got);

	if (!rc) {
		assert_int_equal(got, bytes);
		assert_memory_equal(value, value_of(number, version, bytes), bytes);
	} else {
		assert_int_equal(rc, -NAM_E_NOTFOUND);
	}
	return rc;
}

static int
get(uint32_t number, uint32_t bytes)
{
	return get_version(number, 0, bytes);
}

/* Pairs from this number on, until one is refused.  Returns how many. */
static uint32_t
fill(uint32_t number, uint32_t bytes)
{
	uint32_t count = 0;
	int rc;

	while (!(rc = put(number + count, bytes)))
		count++;
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	return count;
}

static void
empty(uint32_t number, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(take_out(number + i), 0);
}

static uint32_t
cells_of(uint32_t bytes)
{
	return nam__cuckoo_cells_for(16 + bytes);
}

/* Buckets of the stash and of the tables, */
static uint32_t
buckets(void)
{
	return nam__cuckoo_end(&p);
}

static uint32_t
buckets_of(uint32_t count)
{
	return count * NAM__CUCKOO_BUCKETS_PER_CHUNK;
}

/* and those in whose place there are cells, */
static uint32_t
cell_buckets(void)
{
	return p.cells.count / NAM__CUCKOO_BUCKET_CELLS;
}

static uint32_t
buckets_of_cells(uint32_t cells)
{
	return (cells + NAM__CUCKOO_BUCKET_CELLS - 1) / NAM__CUCKOO_BUCKET_CELLS;
}

/* at most, when the tables are as they began. */
static uint32_t
cell_buckets_most(void)
{
	return buckets_of(p.chunks_count) - NAM__CUCKOO_STASH_BUCKETS -
		(4u << NAM__CUCKOO_LEVEL_MIN);
}

/* ---- one kind of pairs after the other ----------------------------------------------------- */

#define LONG_ONES 1000000u		/* numbers of long pairs */

/* Short and long ones by turns, each until there is no room: each turn has as much as the first. */
static void
put__short_and_long_pairs_by_turns__EACH_HAS_ALL_THE_MEMORY(void **state)
{
	static const uint32_t sizes[] = { 2, 3, 4, 9, 37, 128 };

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t shorts, longs, first_shorts = 0, first_longs = 0;

		begin(sizes[i], false);
		for (int turn = 0; turn < 3; turn++) {
			shorts = fill(0, SHORT_BYTES);
			expect_sound();
			assert_int_equal(buckets(), buckets_of(sizes[i]));
			empty(0, shorts);
			assert_int_equal(put(0, 28000), 0);
			expect_sound();
			assert_int_equal(take_out(0), 0);
			longs = fill(LONG_ONES, LONG_BYTES);
			expect_sound();
			assert_in_range(cell_buckets(), buckets_of_cells(longs *
				cells_of(LONG_BYTES)), cell_buckets_most());
			empty(LONG_ONES, longs);
			if (!turn) {
				first_shorts = shorts;
				first_longs = longs;
			}
			assert_in_range(shorts, first_shorts - first_shorts / 200,
				first_shorts + first_shorts / 200 + 1);
			assert_int_equal(longs, first_longs);
		}
		assert_true(shorts >= 0.95 * NAM__KV_CELLS_PER_CHUNK * sizes[i] - 16);
		assert_int_equal(longs, cell_buckets_most() * NAM__CUCKOO_BUCKET_CELLS /
			cells_of(LONG_BYTES));
		end();
	}
}

/* Their cells are everywhere when the tables need chunks. */
static void
put__short_pairs_beside_some_long_ones__CELLS_MOVE(void **state)
{
	uint32_t longs, shorts, kept = 0;

	(void)state;
	begin(40, false);
	longs = fill(LONG_ONES, 1000);
	for (uint32_t i = 0; i < longs; i++) {
		if (i % 8 == 0)
			kept++;
		else
			assert_int_equal(take_out(LONG_ONES + i), 0);
	}
	shorts = fill(0, SHORT_BYTES);
	expect_sound();
	assert_int_equal(cell_buckets(), buckets_of_cells(kept * cells_of(1000)));
	assert_int_equal(nam__cuckoo_buckets_free(&p), 0);
	for (uint32_t i = 0; i < longs; i += 8)
		assert_int_equal(get(LONG_ONES + i, 1000), 0);
	for (uint32_t i = 0; i < shorts; i++)
		assert_int_equal(get(i, SHORT_BYTES), 0);
	end();
}

/* Short pairs at many loads, then long ones until one is refused, and then back. */
static void
put__long_pairs_beside_some_short_ones__TABLES_SHRINK_AND_LOSE_NOTHING(void **state)
{
	uint32_t stashed = 0;

	(void)state;
	for (uint32_t load = 5; load < 100; load += 19) {
		uint32_t shorts, longs, cells, more;

		begin(40, false);
		shorts = fill(0, SHORT_BYTES);
		for (uint32_t i = 0; i < shorts; i++)
			if (i % 100 >= load)
				assert_int_equal(take_out(i), 0);
		longs = fill(LONG_ONES, 3000);
		expect_sound();
		stashed += p.cuckoo.stash_count;
		/* The next pair would not fit if 0.95 of the slots were occupied. */
		cells = longs * cells_of(3000);
		assert_true(cells + cells_of(3000) + (uint32_t)p.counts.keys / 0.95 + 16 >=
			40 * NAM__KV_CELLS_PER_CHUNK);
		empty(LONG_ONES, longs);
		/* Tables grow while the stash has pairs. */
		more = fill(LONG_ONES, SHORT_BYTES);
		assert_in_range(p.counts.keys, shorts - shorts / 100, shorts + shorts / 100);
		expect_sound();
		for (uint32_t i = 0; i < shorts; i++)
			assert_int_equal(get(i, SHORT_BYTES), i % 100 < load ? 0 : -NAM_E_NOTFOUND);
		for (uint32_t i = 0; i < more; i++)
			assert_int_equal(get(LONG_ONES + i, SHORT_BYTES), 0);
		end();
	}
	assert_true(stashed > 0);
}

/* A pair that the slots leave no room for changes nothing. */
static void
put__more_than_the_tables_can_give__FULL_AND_NOTHING_MOVES(void **state)
{
	uint32_t shorts;

	(void)state;
	begin(4, false);
	shorts = fill(0, SHORT_BYTES);
	empty(0, shorts / 2);
	assert_int_equal(put(LONG_ONES, 3 * NAM__KV_CHUNK_BYTES), -NAM_E_REMOTE_FULL);
	assert_int_equal(buckets(), buckets_of(4));
	assert_int_equal(put(LONG_ONES, NAM__KV_CHUNK_BYTES / 2), 0);
	assert_int_equal(buckets(),
		buckets_of(4) - buckets_of_cells(cells_of(NAM__KV_CHUNK_BYTES / 2)));
	end();
}

/* Pairs of this length until one is refused, in partitions of either engine. */
static void
expect_as_many_as_chained(uint32_t count, uint32_t bytes)
{
	uint32_t pairs;

	begin(count, false);
	pairs = fill(0, bytes);
	end();
	begin_engine(NAM_KV_CHAINED, count, false);
	if (fill(0, bytes) > pairs)
		fail_msg("%u chunks have %u pairs with values of %u bytes, fewer than chained",
			count, pairs, bytes);
	end();
}

static void
put__until_a_store_refuses__NO_MORE_MEMORY_FOR_A_PAIR_THAN_CHAINED(void **state)
{
	static const uint32_t sizes[] = { 2, 3, 4, 5, 8, 16, 17, 23, 32, 37, 64, 100, 128 };

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
		expect_as_many_as_chained(sizes[i], SHORT_BYTES);
	/* From 8 bytes to 64 KiB, where a partition can have a pair of these. */
	for (uint32_t bytes = 8; bytes < 65536; bytes += bytes < 400 ? 4 : bytes / 50) {
		expect_as_many_as_chained(8, bytes);
		expect_as_many_as_chained(32, bytes);
	}
	expect_as_many_as_chained(8, 65536);
	expect_as_many_as_chained(32, 65536);
}

/* Pairs of lengths by a seed until one is refused; returns its length. */
static uint32_t
fill_mixed(uint32_t (*bytes_of)(struct nam_rng *rng), uint64_t seed, uint32_t *ret_pairs)
{
	struct nam_rng rng = nam_rng_seed(seed);
	uint32_t bytes;

	for (*ret_pairs = 0;; ++*ret_pairs) {
		bytes = bytes_of(&rng);
		if (put((uint32_t)seed << 20 | *ret_pairs, bytes))
			return bytes;
	}
}

static uint32_t
slot_or_cell(struct nam_rng *rng)
{
	return nam_rng_below(rng, 4) ? 32 : 33;
}

static uint32_t
seldom_a_cell(struct nam_rng *rng)
{
	return nam_rng_below(rng, 100) ? 32 : 33;
}

static uint32_t
up_to_500(struct nam_rng *rng)
{
	return (uint32_t)nam_rng_below(rng, 500);
}

static uint32_t
short_or_long(struct nam_rng *rng)
{
	return nam_rng_below(rng, 50) ? 32 : LONG_BYTES;
}

/* A refused pair would not fit if 0.95 of the slots were occupied, and chained has no more. */
static void
put__mixed_lengths_until_a_store_refuses__FULL_AND_NO_FEWER_THAN_CHAINED(void **state)
{
	static const uint32_t sizes[] = { 2, 3, 4, 6, 8, 12, 16, 24, 45, 64, 91, 128 };
	static uint32_t (*const mixes[])(struct nam_rng *rng) = { slot_or_cell, seldom_a_cell,
		up_to_500, short_or_long };

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]) * 4; i++) {
		uint32_t count = sizes[i / 4], pairs, chained, used, bytes;

		begin(count, false);
		bytes = fill_mixed(mixes[i % 4], i, &pairs);
		used = nam__kv_cells_used(&p.cells) + cells_of(bytes) + 1;
		assert_true(nam__cuckoo_buckets_free(&p) <= buckets_of_cells(cells_of(bytes)));
		if (used + pairs / 0.95 + 8 < count * NAM__KV_CELLS_PER_CHUNK &&
			used <= cell_buckets_most() * NAM__CUCKOO_BUCKET_CELLS)
			fail_msg("%u chunks refuse %u bytes: %u pairs, %u of %u cells", count,
				bytes, pairs, used, p.cells.count);
		end();
		begin_engine(NAM_KV_CHAINED, count, false);
		(void)fill_mixed(mixes[i % 4], i, &chained);
		if (chained > pairs)
			fail_msg("%u chunks: %u pairs, and %u in chained", count, pairs, chained);
		end();
	}
}

/* Subgraphs that deletes have divided are apart again. */
static void
predict__after_tables_have_shrunk__AS_PAIRS_ARE_NOW(void **state)
{
	uint32_t lone = 0, pairs;

	(void)state;
	begin(16, false);
	pairs = fill(0, SHORT_BYTES);
	empty(10, pairs - 10);
	for (uint32_t bucket = NAM__CUCKOO_STASH_BUCKETS; bucket < nam__cuckoo_end(&p); bucket++)
		lone += (nam__cuckoo_bucket_at(&p, bucket)->vertex.up & NAM__CUCKOO_LONE) != 0;
	assert_int_equal(lone, 0);
	assert_int_equal(fill(LONG_ONES, 10 * LONG_BYTES), 2);
	for (uint32_t bucket = NAM__CUCKOO_STASH_BUCKETS; bucket < nam__cuckoo_end(&p); bucket++)
		lone += (nam__cuckoo_bucket_at(&p, bucket)->vertex.up & NAM__CUCKOO_LONE) != 0;
	assert_true(lone >= nam__cuckoo_end(&p) / 2);
	end();
}

/* ---- some buckets --------------------------------------------------------------------------- */

/* A pair that has these buckets in tables of this size; its key is a number. */
static int
put_in(const struct nam__cuckoo_shape *shape, uint32_t first, uint32_t second, uint32_t number)
{
	struct nam_rng rng = nam_rng_seed(number);

	for (;;) {
		uint32_t hash = (uint32_t)nam_rng_next(&rng), buckets[2];

		nam__cuckoo_buckets_of(shape, hash, buckets);
		if (buckets[0] == nam__cuckoo_bucket_number(0, first) &&
			buckets[1] == nam__cuckoo_bucket_number(1, second))
			return nam__kv_partition_put(&p, hash, &number, sizeof(number), NULL, 0);
	}
}

/* The pair in this slot goes. */
static void
take_out_at(uint32_t position)
{
	const struct nam__cuckoo_slot *slot = nam__cuckoo_slot_at(&p, position);
	uint32_t number;

	memcpy(&number, nam__cuckoo_data_at(&p, position), sizeof(number));
	assert_int_equal(nam__kv_partition_delete(&p, slot->hash, &number, sizeof(number)), 0);
}

/* Pairs of the stash for which larger tables have room do not keep these from shrinking. */
static void
put__stash_full_from_smaller_tables__TABLES_SHRINK(void **state)
{
	struct nam__cuckoo_shape small;
	uint32_t number = 0;

	(void)state;
	begin(4, false);
	small = p.cuckoo.shape;
	assert_int_equal(put(LONG_ONES, 80000), 0);
	while (!put_in(&small, 0, 0, number))
		number++;
	assert_int_equal(p.cuckoo.stash_count, NAM__CUCKOO_STASH_SLOTS);
	assert_int_equal(take_out(LONG_ONES), 0);
	while (buckets() < buckets_of(4))
		assert_int_equal(put(++number, SHORT_BYTES), 0);
	assert_int_equal(p.cuckoo.stash_count, NAM__CUCKOO_STASH_SLOTS);
	assert_int_equal(put(LONG_ONES, 1000), 0);
	assert_int_equal(buckets(), buckets_of(4) - buckets_of_cells(cells_of(1000)));
	end();
}

/* A closed set leads out of itself once one of its buckets has gone. */
static void
put__closed_set_loses_a_bucket__FINDS_THE_SLOT_BEHIND_IT(void **state)
{
	uint32_t number = 0, size;

	(void)state;
	begin(2, false);
	empty(0, fill(0, SHORT_BYTES));
	size = 2u << NAM__CUCKOO_LEVEL_MIN;
	while (!put_in(&p.cuckoo.shape, size, 5, number))
		number++;
	assert_true(p.cuckoo.any_closed);
	for (uint32_t i = 0; i < NAM__CUCKOO_STASH_SLOTS; i++)
		take_out_at(i);
	/* The pairs of the bucket that goes have two others by now, which are not full. */
	assert_int_equal(put(LONG_ONES, cell_buckets_most() * NAM__CUCKOO_BUCKET_CELLS *
		NAM__CUCKOO_CELL_DATA + NAM__CUCKOO_HEAD_BYTES - 16), 0);
	assert_int_equal(nam__cuckoo_buckets(&p.cuckoo.shape), 2 * size);
	for (uint32_t i = 0; i <= NAM__CUCKOO_SLOTS; i++)
		assert_int_equal(put_in(&p.cuckoo.shape, 1, 5, number++), 0);
	assert_int_equal(p.cuckoo.stash_count, 0);
	end();
}

/* ---- a cache ------------------------------------------------------------------------------- */

/* It refuses only what is larger than its chunks but those of the smallest tables. */
static void
put__long_pair_in_a_cache_of_short_ones__TABLES_SHRINK(void **state)
{
	static const uint32_t sizes[] = { 2, 4, 24, 128 };

	(void)state;
	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		uint32_t most, n = 0;

		begin(sizes[i], true);
		while (p.counts.evictions < 1000)
			assert_int_equal(put(n++, SHORT_BYTES), 0);
		assert_int_equal(buckets(), buckets_of(sizes[i]));
		assert_int_equal(put(LONG_ONES, 20000), 0);
		assert_int_equal(get(LONG_ONES, 20000), 0);
		assert_int_equal(buckets(),
			buckets_of(sizes[i]) - buckets_of_cells(cells_of(20000)));
		expect_sound();
		most = cell_buckets_most() * NAM__CUCKOO_BUCKET_CELLS * NAM__CUCKOO_CELL_DATA +
			NAM__CUCKOO_HEAD_BYTES - 16;
		if (most >= NAM_RPC_KV_VALUE_BYTES_MAX)
			most = NAM_RPC_KV_VALUE_BYTES_MAX;
		else
			assert_int_equal(put(LONG_ONES + 1, most + 1), -NAM_E_REMOTE_FULL);
		assert_int_equal(get(LONG_ONES, 20000), 0);
		assert_int_equal(put(LONG_ONES + 2, most), 0);
		assert_int_equal(get(LONG_ONES + 2, most), 0);
		expect_sound();
		/* And back: long pairs that are not read make room for short ones. */
		for (uint32_t k = 0; k < 3 * sizes[i] * NAM__KV_CELLS_PER_CHUNK; k++)
			assert_int_equal(put(n++, SHORT_BYTES), 0);
		assert_int_equal(cell_buckets(), 0);
		assert_true(p.counts.keys * 100 >= 93 * NAM__KV_CELLS_PER_CHUNK * sizes[i] - 1600);
		/* The same of short pairs. */
		for (uint32_t k = 0; k < 2 * sizes[i] * NAM__KV_CELLS_PER_CHUNK; k += 36)
			assert_int_equal(put(n++, 2000), 0);
		assert_true(cell_buckets() * 2 >= buckets_of(sizes[i]));
		end();
	}
}

/* Each is read.  Returns how many were not there; they come again. */
static uint32_t
read_all(uint32_t number, uint32_t count, uint32_t bytes)
{
	uint32_t lost = 0;

	for (uint32_t i = 0; i < count; i++)
		if (get(number + i, bytes)) {
			assert_int_equal(put(number + i, bytes), 0);
			lost++;
		}
	return lost;
}

/* Pairs of one kind that are read stay, whatever comes of the other kind. */
static void
put__what_is_not_read_beside_what_is__WHAT_IS_READ_STAYS(void **state)
{
	uint32_t lost = 0;

	(void)state;
	begin(16, true);
	(void)read_all(LONG_ONES, 50, 2000);
	for (uint32_t i = 0; i < 60000; i++) {
		assert_int_equal(put(i, SHORT_BYTES), 0);
		if (i % 500 == 0)
			lost += read_all(LONG_ONES, 50, 2000);
	}
	assert_true(lost <= 120 * 50 / 100);
	end();
	begin(16, true);
	(void)read_all(0, 1000, SHORT_BYTES);
	lost = 0;
	for (uint32_t i = 0; i < 4000; i++) {
		assert_int_equal(put(LONG_ONES + i, 2000), 0);
		if (i % 10 == 0)
			lost += read_all(0, 1000, SHORT_BYTES);
	}
	assert_true(lost <= 400 * 1000 / 100);
	assert_true(cell_buckets() >= buckets_of(10));
	end();
}

/* ---- at random ----------------------------------------------------------------------------- */

#define MODEL_CHUNKS 14u
#define MODEL_KEYS 8000u
#define MODEL_PHASES 24u
#define MODEL_OPERATIONS 10000u		/* of a phase */

static struct {
	uint32_t version, bytes;
	bool there;
} model[MODEL_KEYS];

static uint8_t *copies[MODEL_CHUNKS];

static struct {
	uint32_t tables_gave, cells_gave, refused, lost;
} seen;

static void
model_put(uint32_t number, uint32_t version, uint32_t bytes)
{
	int rc = put_version(number, version, bytes);

	if (rc) {
		assert_int_equal(rc, -NAM_E_REMOTE_FULL);
		assert_false(p.evicts);
		seen.refused++;
		return;
	}
	model[number].version = version;
	model[number].bytes = bytes;
	model[number].there = true;
}

/* A cache may have evicted it. */
static void
model_result(uint32_t number, int rc)
{
	if (rc && model[number].there && p.evicts)
		seen.lost++;
	else
		assert_int_equal(rc, model[number].there ? 0 : -NAM_E_NOTFOUND);
	model[number].there = !rc;
}

static void
model_operate(struct nam_rng *rng, uint32_t version, bool longs)
{
	uint32_t number = (uint32_t)nam_rng_below(rng, MODEL_KEYS);
	bool is_long = model[number].bytes > SHORT_BYTES;
	uint32_t bytes = (uint32_t)nam_rng_below(rng, 33);

	switch (nam_rng_below(rng, 4)) {
	case 0:
		/* More of the other kind go. */
		if (is_long == longs && nam_rng_below(rng, 8))
			break;
		model_result(number, take_out(number));
		model[number].there = false;
		break;
	case 1:
		model_result(number, get_version(number, model[number].version,
			model[number].bytes));
		break;
	default:
		if (longs && nam_rng_below(rng, 8))
			bytes = (uint32_t)nam_rng_below(rng, nam_rng_below(rng, 50) ? 500 : 60000);
		model_put(number, version, bytes);
	}
}

/* As a successor takes the partition: it has all its pairs. */
static void
expect_sound_copy(void)
{
	struct nam__kv_partition copy;
	struct nam_rpc_kv_image image;
	struct nam_diag diag;

	nam__kv_partition_image(&p, &image);
	nam__kv_partition_init(&copy, 4711, NAM__HTM_NONE, NAM_KV_CUCKOO, copies, MODEL_CHUNKS,
		p.evicts);
	assert_true(nam__kv_partition_take(&copy, &image));
	for (uint32_t i = 0; i < MODEL_CHUNKS; i++)
		memcpy(copies[i], chunks[i], NAM__KV_CHUNK_BYTES);
	if (!nam__kv_partition_sound(&copy, &diag))
		fail_msg("of a copy: %s", diag.text);
}

static void
compare(bool evicts, uint64_t seed)
{
	struct nam_rng rng = nam_rng_seed(seed);

	memset(model, 0, sizeof(model));
	memset(&seen, 0, sizeof(seen));
	begin(MODEL_CHUNKS, evicts);
	for (uint32_t i = 0; i < MODEL_CHUNKS; i++) {
		copies[i] = aligned_alloc(64, NAM__KV_CHUNK_BYTES);
		assert_non_null(copies[i]);
	}
	for (uint32_t i = 0; i < MODEL_PHASES * MODEL_OPERATIONS; i++) {
		uint32_t tables = buckets(), cells = cell_buckets();

		model_operate(&rng, i, i / MODEL_OPERATIONS % 2);
		seen.tables_gave += buckets() < tables;
		seen.cells_gave += cell_buckets() < cells;
		if (i % 2000)
			continue;
		expect_sound();
		expect_sound_copy();
	}
	for (uint32_t i = 0; i < MODEL_KEYS; i++)
		model_result(i, get_version(i, model[i].version, model[i].bytes));
	print_message("tables gave %u times, cells %u; %u refused, %u lost, %u in the stash\n",
		seen.tables_gave, seen.cells_gave, seen.refused, seen.lost, p.cuckoo.stash_count);
	assert_true(seen.tables_gave >= 10 && seen.cells_gave >= 10);
	assert_true(evicts ? seen.lost > 100 : seen.refused > 100);
	for (uint32_t i = 0; i < MODEL_CHUNKS; i++)
		free(copies[i]);
	end();
}

static void
random_operations__short_and_long_in_both_modes__AS_A_TABLE_HAS_THEM(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 2; seed++) {
		compare(false, seed);
		compare(true, seed);
	}
}

/* ---- what clients may write ---------------------------------------------------------------- */

/* Numbers that might be taken for positions, links, lengths; else anything. */
static void
stray_write(struct nam_rng *rng)
{
	uint32_t *chunk = (uint32_t *)(void *)chunks[nam_rng_below(rng, p.chunks_count)];
	uint32_t *word = chunk + nam_rng_below(rng, NAM__KV_CHUNK_BYTES / sizeof(*chunk));

	*word = nam_rng_below(rng, 3) ? (uint32_t)nam_rng_below(rng, 4000) |
		(uint32_t)nam_rng_below(rng, 4) << 30 : (uint32_t)nam_rng_next(rng);
}

static void
operations__damaged_while_chunks_move__END_WITH_NAMED_ERRORS(void **state)
{
	(void)state;
	memset(&seen, 0, sizeof(seen));
	for (uint32_t run = 0; run < 48; run++) {
		struct nam_rng rng = nam_rng_seed(run);

		begin(2 + run % 7, run % 2);
		for (uint32_t i = 0; i < 9000; i++) {
			uint32_t tables = buckets(), cells = cell_buckets();
			uint32_t number = (uint32_t)nam_rng_below(&rng, 1200);
			bool longs = i / 1500 % 2;
			int rc = nam_rng_below(&rng, 3) ? put(number, (uint32_t)nam_rng_below(&rng,
				longs ? 3000 : 33)) : take_out(number);

			assert_true(!rc || rc == -NAM_E_NOTFOUND || rc == -NAM_E_REMOTE_FULL ||
				rc == -NAM_E_REMOTE_CORRUPT);
			assert_true(p.cells.free_count <= p.cells.count);
			assert_true(p.cells.carved <= p.cells.count);
			assert_true(buckets() + cell_buckets() <= buckets_of(p.chunks_count));
			seen.tables_gave += buckets() < tables;
			seen.cells_gave += cell_buckets() < cells;
			if (nam_rng_below(&rng, 40) == 0)
				stray_write(&rng);
		}
		for (uint32_t i = 0; i < CHUNKS_MAX; i++) {
			free(chunks[i]);
			chunks[i] = NULL;
		}
	}
	print_message("tables gave %u times, cells %u\n", seen.tables_gave, seen.cells_gave);
	assert_true(seen.tables_gave >= 50 && seen.cells_gave >= 50);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(put__short_and_long_pairs_by_turns__EACH_HAS_ALL_THE_MEMORY),
		cmocka_unit_test(put__short_pairs_beside_some_long_ones__CELLS_MOVE),
		cmocka_unit_test(
			put__long_pairs_beside_some_short_ones__TABLES_SHRINK_AND_LOSE_NOTHING),
		cmocka_unit_test(put__more_than_the_tables_can_give__FULL_AND_NOTHING_MOVES),
		cmocka_unit_test(
			put__until_a_store_refuses__NO_MORE_MEMORY_FOR_A_PAIR_THAN_CHAINED),
		cmocka_unit_test(
			put__mixed_lengths_until_a_store_refuses__FULL_AND_NO_FEWER_THAN_CHAINED),
		cmocka_unit_test(predict__after_tables_have_shrunk__AS_PAIRS_ARE_NOW),
		cmocka_unit_test(put__stash_full_from_smaller_tables__TABLES_SHRINK),
		cmocka_unit_test(put__closed_set_loses_a_bucket__FINDS_THE_SLOT_BEHIND_IT),
		cmocka_unit_test(put__long_pair_in_a_cache_of_short_ones__TABLES_SHRINK),
		cmocka_unit_test(put__what_is_not_read_beside_what_is__WHAT_IS_READ_STAYS),
		cmocka_unit_test(
			random_operations__short_and_long_in_both_modes__AS_A_TABLE_HAS_THEM),
		cmocka_unit_test(operations__damaged_while_chunks_move__END_WITH_NAMED_ERRORS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
