/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cuckoo_test.c -- which inserts G-Cuckoo says would loop, against a search of the whole table.
 * How full its tables become, and a plain cuckoo table beside them; growth.
 */
#include "cuckoo_fixture.h"

/* ---- the oracle ---------------------------------------------------------------------------- */

/*
 * How many buckets can be reached from those of a hash; *ret_free: whether one has a free slot.
 *
 * @enough	not to look further; BUCKETS_MAX: look at all
 */
static uint32_t
reach(uint32_t hash, uint32_t enough, bool *ret_free)
{
	static uint32_t queue[BUCKETS_MAX + NAM__CUCKOO_SLOTS];
	static uint64_t seen[BUCKETS_MAX], calls;
	uint32_t count = 2;

	calls++;
	*ret_free = false;
	nam__cuckoo_buckets_of(&p.cuckoo.shape, hash, queue);
	seen[queue[0]] = seen[queue[1]] = calls;
	for (uint32_t at = 0; at < count && count < enough; at++)
		for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++) {
			const struct nam__cuckoo_slot *slot =
				nam__cuckoo_slot_at(&p, queue[at] * NAM__CUCKOO_SLOTS + i);
			uint32_t other;

			if (!slot->lengths) {
				*ret_free = true;
				continue;
			}
			other = nam__cuckoo_other(&p.cuckoo.shape, queue[at], slot->hash);
			if (seen[other] != calls) {
				seen[other] = calls;
				queue[count++] = other;
			}
		}
	return count;
}

/* Where each pair of the tables is, by its hash's place in the array. */
static uint32_t
moved_since(uint32_t *hashes, uint32_t *places, uint32_t count)
{
	uint32_t moved = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t buckets[2], is = NAM__CUCKOO_NONE;

		nam__cuckoo_buckets_of(&p.cuckoo.shape, hashes[i], buckets);
		for (uint32_t at = 0; at < 2 * NAM__CUCKOO_SLOTS; at++) {
			uint32_t position = buckets[at / NAM__CUCKOO_SLOTS] * NAM__CUCKOO_SLOTS +
				at % NAM__CUCKOO_SLOTS;
			const struct nam__cuckoo_slot *slot = nam__cuckoo_slot_at(&p, position);

			if (slot->lengths && slot->hash == hashes[i])
				is = position;
		}
		moved += places[i] != NAM__CUCKOO_NONE && is != places[i];
		places[i] = is;
	}
	return moved;
}

/* ---- predictions --------------------------------------------------------------------------- */

static void
predict__by_what_the_buckets_have__CASES_OF_THE_PAPER(void **state)
{
	static const uint8_t pin[2 * NAM__KV_CHUNK_BYTES];
	uint32_t b[2], number = 0;

	(void)state;
	begin(2);
	/* Its cells take the memory into which the tables could grow. */
	assert_int_equal(nam__kv_partition_put(&p, hash_of_buckets(30, 30), "pin", 3, pin,
		nam__cuckoo_cells_most(&p) * NAM__CUCKOO_CELL_DATA), 0);
#define CASE_OF(first, second)                                                                      \
	(nam__cuckoo_buckets_of(&p.cuckoo.shape, hash_of_buckets(first, second), b),                \
		nam__cuckoo_predict(&p, b))
	assert_int_equal(CASE_OF(0, 0), NAM__CUCKOO_A);
	assert_int_equal(put(hash_of_buckets(0, 0), number++), 0);
	assert_int_equal(CASE_OF(0, 1), NAM__CUCKOO_B);
	assert_int_equal(CASE_OF(1, 0), NAM__CUCKOO_B);
	assert_int_equal(CASE_OF(1, 1), NAM__CUCKOO_A);
	assert_int_equal(CASE_OF(0, 0), NAM__CUCKOO_C1);
	assert_int_equal(put(hash_of_buckets(1, 1), number++), 0);
	assert_int_equal(CASE_OF(0, 1), NAM__CUCKOO_C1);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(put(hash_of_buckets(0, 0), number++), 0);
	/* Two buckets, eight pairs: maximal.  The other subgraph is not. */
	assert_int_equal(CASE_OF(0, 1), NAM__CUCKOO_C2);
	assert_int_equal(CASE_OF(0, 0), NAM__CUCKOO_C3);
	for (uint32_t i = 0; i < 7; i++)
		assert_int_equal(put(hash_of_buckets(1, 1), number++), 0);
	assert_int_equal(CASE_OF(0, 1), NAM__CUCKOO_C3);
	assert_int_equal(CASE_OF(2, 1), NAM__CUCKOO_B);
	/* It goes to the stash, and has a place once a pair has gone. */
	assert_int_equal(put(hash_of_buckets(0, 0), 1000), 0);
	assert_int_equal(counts().stashed, 1);
	assert_int_equal(get(hash_of_buckets(0, 0), 1000), 0);
	assert_int_equal(take_out(hash_of_buckets(0, 0), 0), 0);
	for (uint32_t i = 0; i < NAM__CUCKOO_STASH_SLOTS && counts().stashed; i++) {
		assert_int_equal(put(hash_of_buckets(3, 3), 2000), 0);
		assert_int_equal(take_out(hash_of_buckets(3, 3), 2000), 0);
	}
	assert_int_equal(counts().stashed, 0);
	assert_int_equal(get(hash_of_buckets(0, 0), 1000), 0);
	end();
#undef CASE_OF
}

/* With so few buckets in play, refusals come long before the table counts as full. */
#define AMONG 20u
#define PAIRS_MAX (2 * AMONG * NAM__CUCKOO_SLOTS + NAM__CUCKOO_STASH_SLOTS)
#define ROUNDS 60000u

static void
put__some_buckets_of_many__REFUSED_ONLY_WHERE_NO_SLOT_CAN_BE_REACHED(void **state)
{
	static uint32_t hashes[PAIRS_MAX], places[PAIRS_MAX];
	struct nam_rng rng = nam_rng_seed(5);
	uint32_t count = 0, refused = 0, kicked = 0, most = 0;

	(void)state;
	begin_grown(3);
	for (uint32_t round = 0; round < ROUNDS; round++) {
		uint32_t hash = hash_among(&rng, AMONG), vertices, moved;
		bool free_slot;

		if (count && nam_rng_below(&rng, 100) < 30) {
			uint32_t victim = (uint32_t)nam_rng_below(&rng, count);

			assert_int_equal(take_out(hashes[victim], 0), 0);
			hashes[victim] = hashes[--count];
			(void)moved_since(hashes, places, count);
			continue;
		}
		for (uint32_t i = 0; i < count; i++)
			if (hashes[i] == hash)
				goto next;
		vertices = reach(hash, BUCKETS_MAX, &free_slot);
		if (put(hash, 0)) {
			assert_false(free_slot);
			assert_int_equal(moved_since(hashes, places, count), 0);
			refused++;
			continue;
		}
		assert_true(free_slot || counts().stashed);
		moved = moved_since(hashes, places, count);
		assert_true(moved <= vertices);
		kicked += moved;
		most = moved > most ? moved : most;
		hashes[count] = hash;
		places[count++] = NAM__CUCKOO_NONE;
		(void)moved_since(hashes, places, count);
next:;
	}
	for (uint32_t i = 0; i < count; i++)
		assert_int_equal(get(hashes[i], 0), 0);
	assert_true(refused > 1000 && kicked > 1000 && most > 2);
	assert_int_equal(counts().loops, refused);
	end();
}

/* ---- how full ------------------------------------------------------------------------------ */

static void
put__until_a_store_refuses__AS_FULL_AS_CHAINED_OR_FULLER(void **state)
{
	struct nam_rpc_kv_counts is;
	uint32_t pairs, chained_pairs;

	(void)state;
	begin(CHUNKS_MAX);
	pairs = fill();
	is = counts();
	assert_true((double)(is.keys - is.stashed) / (double)is.slots >= 0.95);
	for (uint32_t i = 0; i < pairs; i++)
		assert_int_equal(get((uint32_t)nam_mix64(i), i), 0);
	end();
	begin_engine(NAM_KV_CHAINED, CHUNKS_MAX);
	chained_pairs = fill();
	assert_true(pairs >= chained_pairs);
	end();
}

/* Small tables can be so full that the pairs of a new bucket find no room elsewhere. */
static void
put__many_sets_of_keys__NONE_REFUSED_WHILE_MEMORY_IS_FREE(void **state)
{
	(void)state;
	for (uint32_t set = 0; set < 300; set++) {
		uint32_t n = 0;

		begin(4);
		while (!put((uint32_t)nam_mix64((uint64_t)set << 32 | n), n))
			n++;
		assert_int_equal(nam__cuckoo_buckets_free(&p), 0);
		end();
	}
}

/* Kick-outs as Pagh and Rodler have them, at random, in the same buckets. */
static bool
plain_insert(uint32_t (*table)[NAM__CUCKOO_SLOTS], uint32_t hash, uint32_t kicks_max,
	struct nam_rng *rng)
{
	uint32_t buckets[2], at;

	nam__cuckoo_buckets_of(&p.cuckoo.shape, hash, buckets);
	at = buckets[nam_rng_below(rng, 2)];
	for (uint32_t kicks = 0; kicks < kicks_max; kicks++) {
		uint32_t victim;

		for (uint32_t i = 0; i < NAM__CUCKOO_SLOTS; i++)
			if (!table[at][i]) {
				table[at][i] = hash;
				return true;
			}
		victim = (uint32_t)nam_rng_below(rng, NAM__CUCKOO_SLOTS);
		nam__cuckoo_buckets_of(&p.cuckoo.shape, table[at][victim], buckets);
		hash ^= table[at][victim];
		table[at][victim] ^= hash;
		hash ^= table[at][victim];
		at = buckets[0] == at ? buckets[1] : buckets[0];
	}
	return false;
}

static void
put__plain_cuckoo_at_the_same_load__LOOPS_WHERE_THIS_PREDICTS(void **state)
{
	static uint32_t table[BUCKETS_MAX][NAM__CUCKOO_SLOTS];
	struct nam_rng rng = nam_rng_seed(9), hashes = nam_rng_seed(7);
	uint32_t predicted = 0, looped = 0, vertices = 2 * AMONG;

	(void)state;
	begin_grown(3);
	memset(table, 0, sizeof(table));
	/* More pairs than slots: some insert must loop. */
	for (uint32_t i = 0; i < PAIRS_MAX + 100; i++) {
		uint32_t hash = hash_among(&hashes, AMONG);

		predicted += put(hash, i) != 0;
		looped += !plain_insert(table, hash, 100 * vertices, &rng);
	}
	assert_int_equal(predicted, counts().loops);
	assert_true(predicted >= 100);
	/* Every walk of those was a hundred times as long as the graph has vertices. */
	assert_true(looped >= 100);
	end();
}

/* ---- a model ------------------------------------------------------------------------------- */

#define MODEL_CHUNKS 9u
#define MODEL_KEYS (2u * MODEL_CHUNKS * NAM__CUCKOO_BUCKETS_PER_CHUNK * NAM__CUCKOO_SLOTS)
#define MODEL_CROWD 800u		/* keys beside them, of the first AMONG buckets */
#define MODEL_OPERATIONS 1000000u
#define MODEL_KICKS_LAST 64u		/* the last class of kick-outs begins here */

/* Which keys are there.  Keys are one word, values the key and its version. */
static struct {
	uint8_t version[MODEL_KEYS + MODEL_CROWD];	/* 0: not there */
	uint32_t crowd[MODEL_CROWD];	/* hashes */
	uint32_t count, refused;
} model;

static uint32_t
model_hash(uint32_t number)
{
	return number < MODEL_KEYS ? (uint32_t)nam_mix64(number) :
		model.crowd[number - MODEL_KEYS];
}

/* One of 16 is of the crowd. */
static uint32_t
model_number(uint64_t dice)
{
	uint32_t of = dice >> 8 & 15 ? MODEL_KEYS : MODEL_CROWD;

	return (uint32_t)((dice >> 32) * of >> 32) + (of == MODEL_CROWD ? MODEL_KEYS : 0);
}

/* None if one of its buckets has a free slot; else as many as its subgraph has vertices (K2c). */
static uint32_t
kicks_most(uint32_t hash)
{
	uint32_t buckets[2];
	bool free_slot;

	nam__cuckoo_buckets_of(&p.cuckoo.shape, hash, buckets);
	for (uint32_t i = 0; i < 2; i++)
		if (nam__cuckoo_free_slot(&p, buckets[i]) != NAM__CUCKOO_NONE)
			return 0;
	return reach(hash, MODEL_KICKS_LAST, &free_slot);
}

/* Where the class of kick-outs begins that has grown; 0: none has. */
static uint32_t
kicks_since(uint64_t *kicked)
{
	uint32_t least = 0;

	for (uint32_t i = 1; i < NAM_RPC_KV_KICKED; i++)
		if (p.counts.kicked[i] != kicked[i])
			least = 1u << (i - 1);
	memcpy(kicked, p.counts.kicked, sizeof(p.counts.kicked));
	return least;
}

static void
model_put(uint32_t number, uint8_t version)
{
	static uint64_t kicked[NAM_RPC_KV_KICKED];
	uint32_t hash = model_hash(number), value[2] = { number, version };
	bool is_new = !model.version[number], free_slot;
	uint32_t most = is_new ? kicks_most(hash) : 0;
	uint64_t loops = p.counts.loops;
	int rc = nam__kv_partition_put(&p, hash, &number, sizeof(number), value, sizeof(value));

	assert_true(kicks_since(kicked) <= most);
	if (!rc) {
		model.count += is_new;
		model.version[number] = version;
		return;
	}
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	assert_true(is_new);
	assert_int_equal(p.counts.loops, loops + 1);
	model.refused++;
	/* Predicted rightly. */
	(void)reach(hash, BUCKETS_MAX, &free_slot);
	assert_false(free_slot);
}

static void
model_get(uint32_t number)
{
	uint32_t value[2], bytes;
	uint64_t hits;
	int rc = get_sought(model_hash(number), &number, sizeof(number), value, sizeof(value),
		&bytes, &hits);

	assert_int_equal(rc, model.version[number] ? 0 : -NAM_E_NOTFOUND);
	if (!rc && (bytes != sizeof(value) || value[0] != number ||
			value[1] != model.version[number]))
		fail_msg("key %u has another value", number);
}

static void
model_delete(uint32_t number)
{
	int rc = nam__kv_partition_delete(&p, model_hash(number), &number, sizeof(number));

	assert_int_equal(rc, model.version[number] ? 0 : -NAM_E_NOTFOUND);
	model.count -= !rc;
	model.version[number] = 0;
}

/* About the given share of slots is occupied. */
static void
model_operate(struct nam_rng *rng, double load, uint64_t operations)
{
	uint32_t goal = (uint32_t)(load * (double)counts().slots);

	while (operations--) {
		uint64_t dice = nam_rng_next(rng);
		uint32_t number = model_number(dice);

		/* The last ones lack a place more often, so more is put. */
		if (model.count < goal && dice % 4 < 3)
			model_put(number, (uint8_t)(1 + dice % 255));
		else if (dice % 2)
			model_get(number);
		else if (model.count >= goal)
			model_delete(number);
		else
			model_put(number, (uint8_t)(1 + dice % 255));
	}
	expect_sound();
}

/* NAM_TEST_OPERATIONS: how many, for example 1000000000. */
static void
operations__at_each_load_factor__AS_A_MODEL_HAS_THEM(void **state)
{
	static const double loads[] = { 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98 };
	const char *wanted = getenv("NAM_TEST_OPERATIONS");
	uint64_t operations = wanted ? strtoull(wanted, NULL, 10) : MODEL_OPERATIONS;
	struct nam_rng rng = nam_rng_seed(operations);
	uint32_t kicked = 0;

	(void)state;
	begin_grown(MODEL_CHUNKS);
	for (uint32_t i = 0; i < MODEL_CROWD; i++)
		model.crowd[i] = hash_among(&rng, AMONG);
	for (unsigned i = 0; i < sizeof(loads) / sizeof(loads[0]); i++) {
		model_operate(&rng, loads[i], operations / 7 + 1);
		print_message("load factor %.3f of %.2f, %u refused, %u in the stash; kick-outs:",
			(double)(model.count - p.cuckoo.stash_count) / (double)counts().slots,
			loads[i], model.refused, p.cuckoo.stash_count);
		for (uint32_t k = 0; k < NAM_RPC_KV_KICKED; k++)
			print_message(" %llu", (unsigned long long)p.counts.kicked[k]);
		print_message("\n");
	}
	for (uint32_t k = 1; k < NAM_RPC_KV_KICKED; k++)
		kicked += p.counts.kicked[k] != 0;
	assert_true(kicked >= 3 && model.refused > 1000);
	for (uint32_t number = 0; number < MODEL_KEYS + MODEL_CROWD; number++)
		model_get(number);
	end();
}

/* ---- growth -------------------------------------------------------------------------------- */

static void
put__more_and_more__TABLES_DOUBLE_AND_LOSE_NOTHING(void **state)
{
	uint32_t level = 0, n = 0, steps = 0;
	uint64_t slots = 0;

	(void)state;
	begin(CHUNKS_MAX);
	for (; !put((uint32_t)nam_mix64(n), n); n++) {
		struct nam_rpc_kv_counts is;

		if (n % 50)
			continue;
		is = counts();
		steps += is.slots != slots;
		slots = is.slots;
		if (p.cuckoo.shape.level == level)
			continue;
		level = p.cuckoo.shape.level;
		expect_sound();
		for (uint32_t i = 0; i <= n; i++)
			assert_int_equal(get((uint32_t)nam_mix64(i), i), 0);
	}
	assert_true(level >= 3);
	/* Step by step, not a table at once. */
	assert_true(steps > 30);
	end();
}

/* ---- without the lock ---------------------------------------------------------------------- */

/* Its hit, if it takes no lock; or the lock is free. */
static uint64_t
hits_of(const uint32_t key[4], uint32_t value_bytes)
{
	uint8_t value[100];
	uint32_t bytes;
	uint64_t hits;

	assert_int_equal(get_sought(key[0], key, 16, value, sizeof(value), &bytes, &hits), 0);
	assert_int_equal(bytes, value_bytes);
	for (uint32_t i = 0; i < bytes; i++)
		assert_int_equal(value[i], (uint8_t)(key[0] + i));
	return hits;
}

static void
get__in_a_slot_while_a_writer_has_the_lock__FOUND(void **state)
{
	static const struct {
		uint32_t bytes;
		bool evicts;
		uint64_t first, second;		/* hits without the lock */
	} cases[] = { { 0, false, 1, 1 }, { 5, false, 1, 1 }, { 32, false, 1, 1 },
		{ 33, false, 0, 0 }, { 32, true, 0, 1 }, { 33, true, 0, 0 } };

	(void)state;
	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t key[4] = { 4711 + i, 1, 2, 3 };
		uint8_t value[100];

		begin(2);
		p.evicts = cases[i].evicts;
		for (uint32_t k = 0; k < sizeof(value); k++)
			value[k] = (uint8_t)(key[0] + k);
		assert_int_equal(nam__kv_partition_put(&p, key[0], key, sizeof(key), value,
			cases[i].bytes), 0);
		p.lock.locked = cases[i].first != 0;
		assert_int_equal(hits_of(key, cases[i].bytes), cases[i].first);
		/* A get that waited for it would not end. */
		p.lock.locked = cases[i].second != 0;
		assert_int_equal(hits_of(key, cases[i].bytes), cases[i].second);
		p.lock.locked = 0;
		nam__kv_partition_hits(&p, 3);
		assert_int_equal(counts().hits, 3 + 2 - cases[i].first - cases[i].second);
		end();
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(predict__by_what_the_buckets_have__CASES_OF_THE_PAPER),
		cmocka_unit_test(
			put__some_buckets_of_many__REFUSED_ONLY_WHERE_NO_SLOT_CAN_BE_REACHED),
		cmocka_unit_test(put__until_a_store_refuses__AS_FULL_AS_CHAINED_OR_FULLER),
		cmocka_unit_test(put__many_sets_of_keys__NONE_REFUSED_WHILE_MEMORY_IS_FREE),
		cmocka_unit_test(put__plain_cuckoo_at_the_same_load__LOOPS_WHERE_THIS_PREDICTS),
		cmocka_unit_test(operations__at_each_load_factor__AS_A_MODEL_HAS_THEM),
		cmocka_unit_test(put__more_and_more__TABLES_DOUBLE_AND_LOSE_NOTHING),
		cmocka_unit_test(get__in_a_slot_while_a_writer_has_the_lock__FOUND),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
