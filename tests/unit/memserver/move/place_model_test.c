/* SPDX-License-Identifier: Apache-2.0 */
/* place_model_test.c -- the books of a backup against a model, and after a promotion (M24). */
#include "place_fixture.h"

#define UNITS (MEMORY / NAM_GADDR_UNIT_BYTES)
#define REGION_UNITS (REGION / NAM_GADDR_UNIT_BYTES)
#define USED_BYTE 0xcd

static int
setup_pair(void **state)
{
	return pair_start(state, MEMORY, REGION);
}

static const uint32_t strides[] = { 64, 128, 192, 1088, 4096, 65536 };
#define STRIDES (sizeof(strides) / sizeof(strides[0]))

enum block_state { NONE, USED, FREE, WAITING };

/* Of a unit of 64 bytes; `state` and what follows count in the first one of a block. */
struct unit {
	uint32_t first;			/* of its block; 0: of none */
	uint32_t stride;
	enum block_state state;
	uint16_t owner;
	bool swept;
};

struct model {
	struct fixture *f;
	struct nam_rng rng;
	struct unit units[UNITS];
	uint64_t placed, cut, given, taken, vacated;
};

static uint32_t
unit_of(uint64_t raw)
{
	struct nam_gaddr at = { raw };

	return (nam_gaddr_region(at) - ID * NAM_REGIONS_PER_SERVER) * REGION_UNITS +
		(uint32_t)at.raw;
}

static uint64_t
raw_of(uint32_t unit)
{
	return address(unit / REGION_UNITS, unit % REGION_UNITS * 64ull);
}

static void
model_remove(struct model *model, uint32_t first)
{
	uint32_t count = model->units[first].stride / 64;

	memset(&model->units[first], 0, count * sizeof(model->units[0]));
}

static void
model_add(struct model *model, uint32_t first, uint32_t stride, uint16_t owner)
{
	for (uint32_t i = first; i < first + stride / 64; i++)
		model->units[i] = (struct unit){ .first = first, .stride = stride };
	model->units[first].state = USED;
	model->units[first].owner = owner;
	/* A client writes to it. */
	memset(nam__memory_public_at(model->f->server, NAM_GADDR(raw_of(first)), stride),
		USED_BYTE, stride);
}

static void
model_place(struct model *model, uint32_t first, uint32_t stride)
{
	for (uint32_t i = first; i < first + stride / 64; i++) {
		const struct unit *unit = &model->units[i];

		if (unit->stride && (unit->first != first || unit->stride != stride)) {
			model_remove(model, unit->first);
			model->cut++;
		}
	}
	model_add(model, first, stride, 0);
	model->placed++;
}

/* A block somewhere, that there may be already; so many have to fit behind it. */
static uint32_t
anywhere(struct model *model, uint32_t stride, uint32_t count)
{
	uint32_t region = (uint32_t)nam_rng_below(&model->rng, MEMORY / REGION) * REGION_UNITS;
	uint32_t last = REGION_UNITS - stride / 64 * count;
	uint32_t first = region + 1 + (uint32_t)nam_rng_below(&model->rng, last);

	for (uint32_t i = first; i < first + 500 && i <= region + last; i++)
		if (model->units[i].first == i && model->units[i].stride == stride &&
			nam_rng_below(&model->rng, 2))
			return i;
	return first;
}

static void
round_place(struct model *model)
{
	uint32_t stride = strides[nam_rng_below(&model->rng, STRIDES)];
	uint32_t most = stride > 4096 ? 3 : stride > STRIDE ? 20 : 200;
	uint32_t run_count = (uint32_t)nam_rng_below(&model->rng, most);
	uint32_t count = (uint32_t)nam_rng_below(&model->rng, stride > 4096 ? 2 : 20);
	uint32_t run = run_count ? anywhere(model, stride, run_count) : 0;
	uint64_t blocks[20];

	count += !run_count && !count;
	for (uint32_t i = 0; i < count; i++)
		blocks[i] = raw_of(anywhere(model, stride, 1)) |
			(uint64_t)(nam_rng_below(&model->rng, 2) ? NAM_BLOCK_SWEPT : 0) << 48;
	assert_int_equal(place(model->f, stride, run_count ? raw_of(run) : 0, run_count, blocks,
		count), 0);
	for (uint32_t i = 0; i < run_count; i++)
		model_place(model, run + i * stride / 64, stride);
	for (uint32_t i = 0; i < count; i++)
		model_place(model, unit_of(blocks[i]), stride);
}

/* Blocks of that stride, which are given back; those that are not used are refused. */
static void
round_give(struct model *model)
{
	uint32_t stride = strides[nam_rng_below(&model->rng, STRIDES)], count = 0;
	uint64_t label = nam_rng_below(&model->rng, 3) ? 0 : oldest_slot +
		nam_rng_below(&model->rng, 2), blocks[400];
	bool swept = nam_rng_below(&model->rng, 4) == 0;
	uint64_t from = nam_rng_below(&model->rng, UNITS), share = nam_rng_below(&model->rng, 3);

	for (uint32_t i = (uint32_t)from; i < UNITS && count < 400; i++) {
		const struct unit *unit = &model->units[i];

		if (!unit->state || unit->first != i || unit->stride != stride)
			continue;
		blocks[count] = raw_of(i) | (uint64_t)(swept ? NAM_BLOCK_SWEPT : 0) << 48;
		if (unit->state != USED)
			assert_int_equal(give_later(model->f, label, stride, blocks + count, 1),
				-NAM_E_FABRIC_PROTOCOL);
		else if (nam_rng_below(&model->rng, 3) >= share)
			count++;
	}
	if (!count)
		return;
	assert_int_equal(give_later(model->f, label, stride, blocks, count), 0);
	for (uint32_t i = 0; i < count; i++) {
		struct unit *unit = &model->units[unit_of(blocks[i])];

		unit->state = label ? WAITING : FREE;
		unit->swept = swept;
	}
	model->given += count;
}

static void
round_take(struct model *model)
{
	const struct nam_rpc_alloc_reply *reply = reply_body(model->f);
	uint32_t stride = strides[nam_rng_below(&model->rng, STRIDES)];
	uint16_t owner = (uint16_t)(1 + nam_rng_below(&model->rng, 9));
	uint32_t count, recycled;
	uint64_t blocks[200];
	int rc;

	model->f->connection.client_id = owner;
	rc = ask(model->f, stride, 1 + (uint32_t)nam_rng_below(&model->rng, 199));
	model->f->connection.client_id = 0;
	if (rc) {
		assert_int_equal(rc, -NAM_E_REMOTE_FULL);
		return;
	}
	recycled = reply->count;
	count = collect(model->f, stride, blocks);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t first = unit_of(blocks[i]);
		const struct unit *unit = &model->units[first];
		const uint8_t *bytes = nam__memory_public_at(model->f->server,
			nam_gaddr_untagged(NAM_GADDR(blocks[i])), stride);

		for (uint32_t k = 0; k < stride / 64 && i >= recycled; k++)
			assert_int_equal(unit[k].stride, 0);
		/* M3 */
		for (uint32_t k = 0; k < stride && i >= recycled; k++)
			assert_int_equal(bytes[k], 0);
		if (i < recycled) {
			assert_int_equal(unit->first, first);
			assert_int_equal(unit->stride, stride);
			assert_int_equal(unit->state, FREE);
			assert_int_equal(nam_gaddr_tag(NAM_GADDR(blocks[i])), unit->swept ?
				NAM_BLOCK_SWEPT : 0);
		}
		model_add(model, first, stride, owner);
	}
	model->taken += count;
}

/* As the books have a block. */
static enum block_state
book_state(const struct nam__run *run, uint32_t number)
{
	const struct nam__run_bits *bits = number / 64 < run->words ? &run->bits[number / 64] :
		NULL;
	uint64_t bit = 1ull << number % 64;

	return !bits ? USED : bits->free & bit ? FREE : bits->waiting & bit ? WAITING : USED;
}

/*
 * The books and the model agree.  If RECLAIM came in between, the model follows: blocks that waited
 * may be free, and those that are free may be none.
 */
static void
compare(struct model *model, bool reclaimed)
{
	struct nam__allocator *allocator = books(model->f);
	uint32_t blocks = 0, there = 0;

	check_books(model->f);
	for (uint32_t i = 0; i < allocator->regions_count; i++)
		for (uint32_t k = 0; k < allocator->regions[i].runs_count; k++) {
			const struct nam__run *run = allocator->regions[i].runs[k];

			for (uint32_t n = 0; n < run->count; n++) {
				uint32_t first = i * REGION_UNITS + (uint32_t)((run->offset +
					(uint64_t)n * run->stride) / 64);
				struct unit *unit = &model->units[first];
				enum block_state state = book_state(run, n);

				assert_int_equal(unit->first, first);
				assert_int_equal(unit->stride, run->stride);
				if (reclaimed && unit->state == WAITING && state == FREE)
					unit->state = FREE;
				assert_int_equal(unit->state, state);
				if (n / 64 < run->words && state == USED)
					assert_int_equal(run->owners[n], unit->owner);
				if (n / 64 < run->words && state != USED)
					assert_int_equal(run->bits[n / 64].swept >> n % 64 & 1,
						unit->swept);
				blocks++;
				unit->first |= 1u << 31;
			}
		}
	for (uint32_t i = 0; i < UNITS; i++) {
		struct unit *unit = &model->units[i];
		bool seen = unit->first >> 31;

		unit->first &= ~(1u << 31);
		if (!unit->state)
			continue;
		if (!seen && reclaimed && unit->state == FREE) {
			model_remove(model, i);
			model->vacated++;
			continue;
		}
		assert_true(seen);
		there++;
	}
	assert_int_equal(blocks, there);
}

static void
place__at_random__AGREES_WITH_A_MODEL(void **state)
{
	struct model *model = calloc(1, sizeof(*model));
	uint64_t batch = 0;

	model->f = *state;
	model->rng = nam_rng_seed(17);
	oldest_slot = 1;
	for (int round = 0; round < 4000; round++) {
		uint64_t what = nam_rng_below(&model->rng, 10);
		bool reclaims = what == 0 || round % 100 > 90;

		/* In waves: memory becomes vacant, too. */
		if (reclaims) {
			oldest_slot++;
			if (nam_rng_below(&model->rng, 2) && batch)
				(void)reclaim(model->f, NAM_RPC_RECLAIM_RETURN, batch, NULL);
			else
				(void)reclaim(model->f, NAM_RPC_RECLAIM_HOLD, 0, &batch);
		} else if (what < 4) {
			round_place(model);
		} else if (what < (round / 100 % 2 ? 9u : 6u)) {
			round_give(model);
		} else {
			round_take(model);
		}
		if (reclaims || round % 8 == 0)
			compare(model, reclaims);
	}
	compare(model, false);
	assert_true(model->placed > 10000 && model->cut > 1000 && model->given > 10000 &&
		model->taken > 10000 && model->vacated > 1000);
	oldest_slot = 1;
	free(model);
}

/* ---- a backup ------------------------------------------------------------------------------ */

/* As the first books of a backup: all blocks are used, by clients that are not known. */
static void
books_strip(struct books *from)
{
	struct books to = { .bytes = from->bytes -
		head_of(from)->words * sizeof(struct nam_move_word) };
	uint64_t before = (uint64_t)((uint8_t *)words_of(from) - (uint8_t *)from->words);

	to.words = malloc(to.bytes);
	memcpy(to.words, from->words, before);
	memcpy((uint8_t *)to.words + before, clients_of(from), to.bytes - before);
	head_of(&to)->bytes = to.bytes;
	head_of(&to)->words = 0;
	for (uint32_t i = 0; i < head_of(&to)->runs; i++) {
		struct nam_move_run *run = &runs_of(&to)[i];

		run->words = 0;
		run->batch = run->label = 0;
	}
	books_seal(&to);
	free(from->words);
	*from = to;
}

struct client {
	uint64_t blocks[STRIDES][UNITS / 8];
	uint32_t counts[STRIDES];
};

/* A client gets blocks, and tells the backup before it uses them. */
static void
client_take(struct pair *pair, struct client *client, uint32_t k, uint32_t count)
{
	struct nam_rpc_alloc_reply reply;
	uint64_t *blocks = &client->blocks[k][client->counts[k]];
	int rc = ask(pair->old, strides[k], count);

	if (rc) {
		assert_int_equal(rc, -NAM_E_REMOTE_FULL);
		return;
	}
	memcpy(&reply, reply_body(pair->old), sizeof(reply));
	client->counts[k] += collect(pair->old, strides[k], blocks);
	if (!pair->next)
		return;
	assert_int_equal(place(pair->next, strides[k], reply.run_at, reply.run_count, blocks,
		reply.count), 0);
	for (uint32_t i = 0; i < reply.count; i++)
		blocks[i] = nam_gaddr_untagged(NAM_GADDR(blocks[i])).raw;
}

static void
client_live(struct pair *pair, struct client *client, struct nam_rng *rng, int rounds)
{
	for (int round = 0; round < rounds; round++) {
		uint32_t k = (uint32_t)nam_rng_below(rng, STRIDES);
		uint32_t count = 1 + (uint32_t)nam_rng_below(rng, strides[k] > 4096 ? 4 : 200);
		uint32_t *have = &client->counts[k];

		if (nam_rng_below(rng, 4) < (round / 100 % 2 ? 1u : 3u) || *have < count) {
			client_take(pair, client, k, count);
		} else {
			for (uint32_t i = 0; i < count; i++) {
				uint64_t at = nam_rng_below(rng, *have - i), block =
					client->blocks[k][at];

				client->blocks[k][at] = client->blocks[k][*have - 1 - i];
				client->blocks[k][*have - 1 - i] = block;
			}
			*have -= count;
			assert_int_equal(give(pair->old, strides[k], client->blocks[k] + *have,
				count), 0);
		}
		if (nam_rng_below(rng, 20) == 0)
			(void)reclaim_all(pair->old);
	}
}

static void
place__what_a_primary_hands_out__IS_USED_AFTER_THE_PROMOTION(void **state)
{
	struct pair *pair = *state, alone = { pair->old, NULL };
	static struct client client;
	static bool used[UNITS];
	static uint64_t all[UNITS];
	struct nam_rng rng = nam_rng_seed(5);
	uint32_t rest = 0;
	struct books stripped;

	client_live(&alone, &client, &rng, 300);
	assert_int_equal(export_books(pair->old, &stripped), 0);
	books_strip(&stripped);
	assert_int_equal(import_books(pair->next, &stripped), 0);
	free(stripped.words);
	check_books(pair->next);
	client_live(pair, &client, &rng, 3000);
	check_books(pair->next);
	for (uint32_t k = 0; k < STRIDES; k++)
		for (uint32_t i = 0; i < client.counts[k]; i++, rest++)
			memset(&used[unit_of(client.blocks[k][i])], true, strides[k] / 64);
	assert_true(rest > 100);
	/* It is promoted: none of these comes again, and each goes back once. */
	for (uint32_t k = STRIDES; k-- > 0;) {
		uint32_t count = fill(pair->next, strides[k], all);

		for (uint32_t i = 0; i < count; i++)
			for (uint32_t u = 0; u < strides[k] / 64; u++)
				assert_false(used[unit_of(all[i]) + u]);
	}
	for (uint32_t k = 0; k < STRIDES; k++) {
		give_all(pair->next, strides[k], client.blocks[k], client.counts[k]);
		for (uint32_t i = 0; i < client.counts[k]; i++)
			assert_int_equal(give(pair->next, strides[k], client.blocks[k] + i, 1),
				-NAM_E_FABRIC_PROTOCOL);
	}
	check_books(pair->next);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define PAIR(name) cmocka_unit_test_setup_teardown(name, setup_pair, pair_end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(place__at_random__AGREES_WITH_A_MODEL),
		PAIR(place__what_a_primary_hands_out__IS_USED_AFTER_THE_PROMOTION),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
