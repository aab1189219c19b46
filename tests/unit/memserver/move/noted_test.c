/* SPDX-License-Identifier: Apache-2.0 */
/* noted_test.c -- a memory server that is copied notes pages of its runs, and what it changes. */
#include <errno.h>

#include "move_fixture.h"

#define MEMORY (4ull << 20)
#define REGION (512u << 10)
#define REGION_WORDS 2u
#define WORDS (REGION_WORDS * (uint32_t)(MEMORY / REGION))
#define STRIDE 1088u
#define PAGE NAM_MOVE_NOTE_BYTES

static struct nam__connection mover;

static int
setup(void **state)
{
	memset(&mover, 0, sizeof(mover));
	*state = server_start(ID, false, MEMORY, REGION);
	return 0;
}

static int
teardown(void **state)
{
	server_end(*state);
	return 0;
}

static void
pages_add(uint64_t words[WORDS], uint32_t region, uint64_t offset, uint64_t bytes)
{
	for (uint64_t page = offset / PAGE; page <= (offset + bytes - 1) / PAGE; page++)
		words[region * REGION_WORDS + page / 64] |= 1ull << page % 64;
}

/* Of all runs that have blocks, as the books have them. */
static void
runs_pages(struct fixture *f, uint64_t words[WORDS])
{
	uint32_t vacant = 0, held = 0, whole = 0;
	struct books books;

	memset(words, 0, WORDS * sizeof(words[0]));
	assert_int_equal(export_books(f, &books), 0);
	for (uint32_t i = 0; i < head_of(&books)->runs; i++) {
		const struct nam_move_run *run = &runs_of(&books)[i];

		vacant += !run->stride && run->dirty;
		held += run->stride && run->batch;
		/* Its last page is followed by one that is vacant. */
		whole += run->stride && !run[1].stride && run[1].region == run->region &&
			run[1].offset % PAGE == 0;
		if (run->stride)
			pages_add(words, run->region, run->offset, run->bytes);
	}
	assert_true(vacant && held && whole);
	free(books.words);
}

static void
assert_all_taken(struct fixture *f, const uint64_t words[WORDS])
{
	uint64_t noted[WORDS] = { 0 };

	assert_int_equal(take(f, &mover, 0), 0);
	for (uint32_t i = 0; i < taken_count(f); i++) {
		assert_true(taken(f)->noted[i].word < WORDS);
		noted[taken(f)->noted[i].word] = taken(f)->noted[i].pages;
	}
	assert_memory_equal(noted, words, sizeof(noted));
	assert_int_equal(taken(f)->lost, 0);
}

/* Blocks in use up to the end of a page, a run that is held, and vacant pages that are not zero. */
static void
live(struct fixture *f)
{
	static uint64_t blocks[MEMORY / PAGE];
	uint32_t count = fill(f, PAGE, blocks);

	assert_true(count > 100);
	for (uint32_t i = 0; i < count; i++)
		memset(nam__memory_public_at(f->server, NAM_GADDR(blocks[i]), PAGE), 0xaa, PAGE);
	give_all(f, PAGE, blocks, count);
	assert_true(reclaim_all(f));
	assert_int_equal(ask(f, STRIDE, 100), 0);
	assert_int_equal(ask(f, PAGE, 40), 0);
	count = collect(f, PAGE, blocks);
	give_all(f, PAGE, blocks, count);
	assert_true(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, blocks));
	assert_int_equal(ask(f, 64, 1), 0);
	assert_int_equal(collect(f, 64, blocks), 1);
	count = PAGE / 64 - (uint32_t)(nam_gaddr_offset(NAM_GADDR(blocks[0])) % PAGE) / 64 - 1;
	assert_int_equal(ask(f, 64, count), 0);
}

static void
claim__of_a_server_with_blocks__NOTES_EXACTLY_THE_RUNS_THAT_HAVE_A_STRIDE(void **state)
{
	struct fixture *f = *state;
	uint64_t words[WORDS], none[WORDS] = { 0 };

	live(f);
	runs_pages(f, words);
	assert_int_equal(claim(f, &mover, ID), 0);
	assert_all_taken(f, words);
	assert_all_taken(f, none);
	/* Clients note from now on, so all is to be copied that was changed before. */
	assert_int_equal(claim(f, &mover, ID), 0);
	assert_all_taken(f, words);
}

static void
claim__about_another_member_or_other_regions__IS_CLUSTER(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_move_claim bad[] = {
		{ REGION * 2, ID, MEMORY / REGION }, { REGION, ID, MEMORY / REGION + 1 },
		{ REGION, ID + 1, MEMORY / REGION }, { REGION, 0, MEMORY / REGION },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(move_step(f, &mover, NAM_RPC_MOVE_CLAIM, 0, &bad[i],
			sizeof(bad[i])), -NAM_E_CLUSTER);
	assert_int_equal(claim(f, &mover, ID), 0);
}

static void
change(struct fixture *f, uint32_t region, uint64_t offset, uint64_t bytes)
{
	const struct nam__exchange exchange = { .server = f->server,
		.connection = &f->connection };

	nam__noted_add(&exchange, region, offset, bytes);
}

static void
claim__another_connection_has_claimed__IS_AGAIN_until_that_ends(void **state)
{
	struct fixture *f = *state;
	struct nam__connection other = { 0 };

	assert_int_equal(claim(f, &mover, ID), 0);
	assert_int_equal(claim(f, &other, ID), -EAGAIN);
	assert_int_equal(take(f, &other, 0), -NAM_E_CLUSTER);
	nam__noted_connection_closed(&mover);
	assert_int_equal(take(f, &mover, 0), -NAM_E_CLUSTER);
	/* Nothing is noted that no mover will ask for. */
	change(f, 0, 0, 1);
	assert_int_equal(f->connection.handler->noted_later.count, 0);
	assert_int_equal(claim(f, &other, ID), 0);
}

static void
note__at_another_server_than_the_lead__IS_CLUSTER(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_move_notes body = { ID, 0, 0 };

	f->connection.session = true;
	assert_int_equal(move_step(f, &f->connection, NAM_RPC_MOVE_NOTED, 0, &body, sizeof(body)),
		-NAM_E_CLUSTER);
}

static void
alloc__memory_that_is_not_zero__NOTES_ITS_PAGES_behind_the_request(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_alloc_request request = { .stride = PAGE, .count = 70 };
	struct nam_rpc_alloc_reply *reply = reply_body(f);
	struct nam__exchange exchange = { .server = f->server, .connection = &f->connection,
		.type = NAM_RPC_ALLOC, .body = &request, .body_bytes = sizeof(request),
		.reply = reply };
	uint64_t words[WORDS] = { 0 }, none[WORDS] = { 0 };
	struct nam_gaddr at;

	live(f);
	assert_int_equal(claim(f, &mover, ID), 0);
	assert_int_equal(take(f, &mover, 0), 0);
	assert_int_equal(nam__service_alloc(&exchange), 0);
	assert_true(reply->run_count > 1);
	at = NAM_GADDR(reply->run_at);
	pages_add(words, nam_gaddr_region(at) - ID * NAM_REGIONS_PER_SERVER, nam_gaddr_offset(at),
		(uint64_t)reply->run_count * PAGE);
	/* The mover would READ pages that are not zero yet. */
	for (uint32_t i = 0; i < WORDS; i++)
		assert_int_equal(f->server->noted.words[i], 0);
	nam__noted_flush(f->connection.handler);
	assert_all_taken(f, words);
	/* The next request does so by itself. */
	change(f, 7, REGION - 1, 1);
	assert_all_taken(f, none);
	pages_add(none, 7, REGION - 1, 1);
	assert_all_taken(f, none);
}

static void
alloc__memory_that_is_zero__NOTES_NOTHING(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(claim(f, &mover, ID), 0);
	assert_int_equal(ask(f, STRIDE, 100), 0);
	assert_taken(f, &mover, 0, 0);
}

static void
request__changes_more_than_can_be_noted__LOSES_NOTES(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(claim(f, &mover, ID), 0);
	for (uint32_t i = 0; i < NAM__NOTED_LATER; i++)
		change(f, 1 + i / 64, i % 64 * PAGE, PAGE);
	/* They are in the list already. */
	for (uint32_t i = 0; i < NAM__NOTED_LATER; i++)
		change(f, 1, i % 64 * PAGE + 8, 8);
	nam__noted_flush(f->connection.handler);
	assert_int_equal(take(f, &mover, 0), 0);
	for (uint32_t i = 0; i < NAM__NOTED_LATER / 64; i++) {
		assert_int_equal(taken(f)->noted[i].word, (1 + i) * REGION_WORDS);
		assert_int_equal(taken(f)->noted[i].pages, ~0ull);
	}
	assert_int_equal(taken(f)->lost, 0);
	for (uint32_t i = 0; i <= NAM__NOTED_LATER; i++)
		change(f, 1 + i / 64, i % 64 * PAGE, PAGE);
	nam__noted_flush(f->connection.handler);
	assert_int_equal(take(f, &mover, 0), 0);
	assert_int_equal(taken(f)->lost, 1);
	assert_taken(f, &mover, 0, 0);
	assert_int_equal(taken(f)->lost, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(claim__of_a_server_with_blocks__NOTES_EXACTLY_THE_RUNS_THAT_HAVE_A_STRIDE),
		TEST(claim__about_another_member_or_other_regions__IS_CLUSTER),
		TEST(claim__another_connection_has_claimed__IS_AGAIN_until_that_ends),
		TEST(note__at_another_server_than_the_lead__IS_CLUSTER),
		TEST(alloc__memory_that_is_not_zero__NOTES_ITS_PAGES_behind_the_request),
		TEST(alloc__memory_that_is_zero__NOTES_NOTHING),
		TEST(request__changes_more_than_can_be_noted__LOSES_NOTES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
