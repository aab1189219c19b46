/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuckoo_damage_test.c -- damaged buckets and cells of the engine cuckoo: GETs return no value that
 * was not put, and operations end with named errors.
 */
#include "cuckoo_fixture.h"

/* ---- a bit of a pair ------------------------------------------------------------------------- */

#define VALUE_SHORT 16u			/* bytes: with the key two thirds of a slot's data */
#define VALUE_LONG 100u			/* two cells */

static const uint32_t pair_key[4] = { 1, 2, 3, 4 };
static uint8_t pair_value[NAM_RPC_KV_VALUE_BYTES_MAX];

/* GETs of a pair, each with one bit flipped. */
static struct {
	uint32_t same, missing, corrupt;
} got;

static void
get_damaged(uint32_t hash, uint32_t value_bytes)
{
	static uint8_t value[NAM_RPC_KV_VALUE_BYTES_MAX];
	uint32_t bytes = 0;
	uint64_t hits;
	int locked = nam__kv_partition_get(&p, hash, pair_key, sizeof(pair_key), value,
		sizeof(value), &bytes);
	int rc = get_sought(hash, pair_key, sizeof(pair_key), value, sizeof(value), &bytes, &hits);

	assert_int_equal(rc, locked);
	got.same += !rc;
	got.missing += rc == -NAM_E_NOTFOUND;
	got.corrupt += rc == -NAM_E_REMOTE_CORRUPT;
	assert_true(!rc || rc == -NAM_E_NOTFOUND || rc == -NAM_E_REMOTE_CORRUPT);
	if (!rc && (bytes != value_bytes || memcmp(value, pair_value, bytes)))
		fail_msg("a value of %u bytes that was not put", bytes);
}

static void
expect_got(uint32_t same, uint32_t missing, uint32_t corrupt)
{
	assert_int_equal(got.same, same);
	assert_int_equal(got.missing, missing);
	assert_int_equal(got.corrupt, corrupt);
}

/* A GET marks the slot as used, so all of it is put back. */
static void
flip_each_bit(void *memory, uint32_t bytes, uint32_t hash, uint32_t value_bytes)
{
	uint8_t was[64], *at = memory;

	memcpy(was, memory, bytes);
	memset(&got, 0, sizeof(got));
	for (uint32_t bit = 0; bit < 8 * bytes; bit++) {
		at[bit / 8] ^= (uint8_t)(1u << bit % 8);
		get_damaged(hash, value_bytes);
		memcpy(memory, was, bytes);
	}
}

/* Its slot; *ret_data: key and value. */
static struct nam__cuckoo_slot *
put_pair(uint32_t hash, uint32_t value_bytes, uint8_t **ret_data)
{
	uint32_t buckets[2];

	for (uint32_t i = 0; i < value_bytes; i++)
		pair_value[i] = (uint8_t)(100 + i);
	nam__cuckoo_buckets_of(&p.cuckoo.shape, hash, buckets);
	assert_int_equal(nam__kv_partition_put(&p, hash, pair_key, sizeof(pair_key), pair_value,
		value_bytes), 0);
	*ret_data = nam__cuckoo_data_at(&p, buckets[0] * NAM__CUCKOO_SLOTS);
	return nam__cuckoo_slot_at(&p, buckets[0] * NAM__CUCKOO_SLOTS);
}

static void
get__any_bit_of_a_pair_flipped__A_MISS_OR_CORRUPT(void **state)
{
	struct nam__cuckoo_slot *slot;
	uint32_t hash;
	uint8_t *data;

	(void)state;
	begin(2);
	hash = hash_of_buckets(5, 6);
	slot = put_pair(hash, VALUE_SHORT, &data);
	flip_each_bit(&slot->checksum, sizeof(slot->checksum), hash, VALUE_SHORT);
	expect_got(0, 0, 32);
	flip_each_bit(&slot->hash, sizeof(slot->hash), hash, VALUE_SHORT);
	expect_got(0, 32, 0);
	/* Version and mark are no part of the pair.  Other lengths that fit in line are corrupt. */
	flip_each_bit(&slot->lengths, sizeof(slot->lengths), hash, VALUE_SHORT);
	expect_got(3, 8 + 16, 5);
	/* Key, value, and what is behind them. */
	flip_each_bit(data, NAM__CUCKOO_DATA_BYTES, hash, VALUE_SHORT);
	expect_got(128, 128, 128);
	get_damaged(hash, VALUE_SHORT);
	assert_int_equal(got.same, 129);
	end();
}

static void
get__any_bit_of_a_longer_pair_flipped__A_MISS_OR_CORRUPT(void **state)
{
	struct nam__cuckoo_slot *slot;
	uint32_t hash, cell;
	uint8_t *data;

	(void)state;
	begin(2);
	hash = hash_of_buckets(5, 6);
	slot = put_pair(hash, VALUE_LONG, &data);
	memcpy(&cell, data + NAM__CUCKOO_HEAD_BYTES, sizeof(cell));
	flip_each_bit(&slot->checksum, sizeof(slot->checksum), hash, VALUE_LONG);
	expect_got(0, 0, 32);
	flip_each_bit(&slot->hash, sizeof(slot->hash), hash, VALUE_LONG);
	expect_got(0, 32, 0);
	flip_each_bit(&slot->lengths, sizeof(slot->lengths), hash, VALUE_LONG);
	assert_int_equal(got.same, 3);
	/* Key, 28 bytes of the value, and the number of the first cell. */
	flip_each_bit(data, NAM__CUCKOO_DATA_BYTES, hash, VALUE_LONG);
	expect_got(0, 128 + 32, 28 * 8);
	/* Link, owner and 56 bytes of the first cell; 16 bytes of the second one. */
	flip_each_bit(nam__cuckoo_cell_at(&p, cell), NAM__KV_CELL_BYTES, hash, VALUE_LONG);
	expect_got(0, 32, 32 + 56 * 8);
	flip_each_bit(nam__cuckoo_cell_at(&p, nam__cuckoo_cell_at(&p, cell)->next)->data, 16, hash,
		VALUE_LONG);
	expect_got(0, 0, 128);
	get_damaged(hash, VALUE_LONG);
	assert_int_equal(got.same, 1);
	end();
}

/* ---- what clients may write ---------------------------------------------------------------- */

/* Numbers that might be taken for positions, links, lengths; else anything. */
static uint32_t
stray_word(struct nam_rng *rng)
{
	static const uint32_t flags[] = { 0, 1u << 29, 1u << 30, 1u << 31, UINT32_MAX };

	switch (nam_rng_below(rng, 3)) {
	case 0:
		return (uint32_t)nam_rng_below(rng, 5000) | flags[nam_rng_below(rng, 4)];
	case 1:
		return flags[nam_rng_below(rng, 5)];
	default:
		return (uint32_t)nam_rng_next(rng);
	}
}

static void
stray_write(struct nam_rng *rng, uint32_t count)
{
	uint32_t at = (uint32_t)nam_rng_below(rng, NAM__KV_CHUNK_BYTES / 4);
	uint32_t words = 1 + (uint32_t)nam_rng_below(rng, 16);
	uint32_t *chunk = (uint32_t *)(void *)chunks[nam_rng_below(rng, count)];

	for (; words-- && at < NAM__KV_CHUNK_BYTES / 4; at++)
		chunk[at] = stray_word(rng);
}

static int
operate(struct nam_rng *rng, uint8_t *value)
{
	uint32_t number = (uint32_t)nam_rng_below(rng, 2000), bytes;
	uint32_t hash = (uint32_t)nam_mix64(number);
	uint64_t hits;

	switch (nam_rng_below(rng, 4)) {
	case 0:
		return get_sought(hash, &number, sizeof(number), value,
			NAM_RPC_KV_VALUE_BYTES_MAX, &bytes, &hits);
	case 1:
		return nam__kv_partition_delete(&p, hash, &number, sizeof(number));
	default:
		bytes = (uint32_t)nam_rng_below(rng, nam_rng_below(rng, 4) ? 60 : 3000);
		return nam__kv_partition_put(&p, hash, &number, sizeof(number), value, bytes);
	}
}

static void
operations__memory_overwritten_at_random__END_WITH_NAMED_ERRORS(void **state)
{
	static uint8_t value[NAM_RPC_KV_VALUE_BYTES_MAX];
	uint32_t corrupt = 0;

	(void)state;
	for (uint32_t run = 0; run < 40; run++) {
		struct nam_rng rng = nam_rng_seed(run);

		begin(3 + run % 8);
		p.evicts = run % 2;
		for (uint32_t i = 0; i < 4000; i++) {
			int rc = operate(&rng, value);

			assert_true(!rc || rc == -NAM_E_NOTFOUND || rc == -NAM_E_REMOTE_FULL ||
				rc == -NAM_E_REMOTE_CORRUPT || rc == -NAM_E_LIMIT);
			assert_true(p.cells.free_count <= p.cells.count);
			corrupt += rc == -NAM_E_REMOTE_CORRUPT;
			if (i > 1000)
				stray_write(&rng, p.chunks_count);
		}
		for (uint32_t i = 0; i < CHUNKS_MAX; i++) {
			free(chunks[i]);
			chunks[i] = NULL;
		}
	}
	assert_true(corrupt > 100);
}

/* The cells of a long pair seem to be those of short ones, whose eviction gives none back. */
static void
put__cells_with_wrong_owners__EVICTS_NO_MORE_PAIRS_THAN_IT_NEEDS_CELLS(void **state)
{
	static const uint8_t value[2 * NAM__KV_CHUNK_BYTES];
	uint32_t cell = 1, key[4] = { 1 }, owned = 0;

	(void)state;
	begin(2);
	p.evicts = true;
	assert_int_equal(nam__kv_partition_put(&p, 1, key, sizeof(key), value,
		nam__cuckoo_cells_most(&p) * NAM__CUCKOO_CELL_DATA), 0);
	assert_int_equal(p.cells.free_count, 0);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(put((uint32_t)nam_mix64(i), i), 0);
	for (uint32_t i = NAM__CUCKOO_STASH_SLOTS; owned < 100; i++) {
		const struct nam__cuckoo_slot *slot = nam__cuckoo_slot_at(&p, i);

		if (!slot->lengths || nam__cuckoo_cells(slot))
			continue;
		nam__cuckoo_cell_at(&p, cell++)->owner = NAM__CUCKOO_FIRST | i;
		owned++;
	}
	key[0] = 2;
	assert_int_equal(nam__kv_partition_put(&p, 2, key, sizeof(key), value, 100),
		-NAM_E_REMOTE_CORRUPT);
	assert_int_equal(counts().evictions, nam__cuckoo_cells_for(sizeof(key) + 100));
	for (uint32_t i = 0; i < 2; i++) {
		free(chunks[i]);
		chunks[i] = NULL;
	}
}

/* The chain of the old value ends early, so the new one finds no cells. */
static void
put__chain_of_the_old_value_ends_early__LATER_LONG_PAIRS_ARE_REFUSED(void **state)
{
	static uint8_t value[44 + NAM__KV_CELLS_PER_CHUNK * NAM__CUCKOO_CELL_DATA - 4];
	uint32_t key = 1;

	(void)state;
	begin(2);
	assert_int_equal(nam__kv_partition_put(&p, 1, &key, sizeof(key), value, sizeof(value)), 0);
	assert_int_equal(p.cells.free_count, 0);
	/* The first cell of all is the first one of the pair. */
	nam__cuckoo_cell_at(&p, 0)->next = NAM__KV_CELL_NONE;
	assert_int_equal(nam__kv_partition_put(&p, 1, &key, sizeof(key), value, sizeof(value)), 0);
	key = 2;
	assert_int_equal(nam__kv_partition_put(&p, 2, &key, sizeof(key), value, 100),
		-NAM_E_REMOTE_FULL);
	for (uint32_t i = 0; i < 2; i++) {
		free(chunks[i]);
		chunks[i] = NULL;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(get__any_bit_of_a_pair_flipped__A_MISS_OR_CORRUPT),
		cmocka_unit_test(get__any_bit_of_a_longer_pair_flipped__A_MISS_OR_CORRUPT),
		cmocka_unit_test(operations__memory_overwritten_at_random__END_WITH_NAMED_ERRORS),
		cmocka_unit_test(
			put__cells_with_wrong_owners__EVICTS_NO_MORE_PAIRS_THAN_IT_NEEDS_CELLS),
		cmocka_unit_test(
			put__chain_of_the_old_value_ends_early__LATER_LONG_PAIRS_ARE_REFUSED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
