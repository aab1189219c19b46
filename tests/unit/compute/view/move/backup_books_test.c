/* SPDX-License-Identifier: Apache-2.0 */
/* backup_books_test.c -- the books of a member, as its backup gets and takes them. */
#include "common/rpc/kv_rpc.h"
#include "common/rpc/tree_rpc.h"
#include "compute/view/move/move_internal.h"
#include "kv/kv.h"
#include "memserver/stores.h"
#include "tests/unit/memserver/move/move_fixture.h"

#define MEMORY (8ull << 20)
#define REGION (512u << 10)
#define SMALL 64u
#define LARGE 4096u
#define COUNT 100u
#define CLIENT 6u			/* an id */

static int
setup(void **state)
{
	return pair_start(state, MEMORY, REGION);
}

/* ---- a member that has had clients ----------------------------------------------------------- */

static struct {
	uint64_t small[COUNT], large[COUNT];
} made;

static void
alloc_as(struct fixture *f, uint16_t client, uint32_t stride, uint64_t *blocks)
{
	f->connection.client_id = client;
	assert_int_equal(ask(f, stride, COUNT), 0);
	assert_int_equal(collect(f, stride, blocks), COUNT);
	f->connection.client_id = 0;
}

static void
view_copy(struct fixture *f)
{
	_Alignas(8) uint8_t body[sizeof(struct nam_rpc_view_request) +
		2 * sizeof(struct nam_view_member)] = { 0 };
	struct nam_rpc_view_request *request = (void *)body;

	*request = (struct nam_rpc_view_request){ .step = NAM_RPC_VIEW_COPY, .count = 2,
		.view = { .number = 5, .term = 2, .lead_boot = 1000, .count = 2 } };
	request->members[0] = (struct nam_view_member){ .id = 0, .state = NAM_VIEW_UP,
		.boot = 1000, .memory = 1000, .since = 1, .renewed = 1, .address = "shm:/a" };
	request->members[1] = request->members[0];
	request->members[1].id = ID;
	request->members[1].boot = request->members[1].memory = 1001;
	request->members[1].address[5] = 'b';
	assert_int_equal(call(f, NAM_RPC_VIEW, body, sizeof(body)), 0);
}

/* A tree and a store, in private memory; blocks that are used, free, waiting and held. */
static void
live(struct fixture *f)
{
	const struct nam_rpc_tree_create_request tree = {
		.tree = 7, .key_bytes = 8, .node_bytes = 1024, .unique = 1,
		.part = { .partitioning = 1, .parts = 1 },
	};
	const struct nam_rpc_kv_create_request store = { .store = 8, .memory_bytes = 1 << 20,
		.mode = NAM_KV_STORE, .engine = NAM_KV_CUCKOO, .partitions = 3, .servers = 1 };
	uint64_t batch;

	assert_int_equal(call(f, NAM_RPC_TREE_CREATE, &tree, sizeof(tree)), 0);
	assert_int_equal(call(f, NAM_RPC_KV_CREATE, &store, sizeof(store)), 0);
	alloc_as(f, CLIENT, SMALL, made.small);
	alloc_as(f, CLIENT + 1, LARGE, made.large);
	assert_int_equal(give(f, SMALL, made.small, 10), 0);
	assert_int_equal(give_later(f, 9, SMALL, made.small + 10, 10), 0);
	assert_int_equal(give(f, LARGE, made.large, COUNT), 0);
	/* It is held, and not yet vacant. */
	oldest_slot = 1;
	assert_true(reclaim(f, NAM_RPC_RECLAIM_HOLD, 0, &batch));
	nam__finished_add(&f->server->finished[CLIENT], 3, 1000);
	view_copy(f);
}

/* ---- two books ------------------------------------------------------------------------------- */

static void
books_back(const struct books *from, struct books *ret)
{
	uint8_t *copy;

	assert_int_equal(nam__backup_books((const uint8_t *)from->words, &copy, &ret->bytes), 0);
	ret->words = (uint64_t *)(void *)copy;
}

static uint32_t
private_count(const struct books *books)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < head_of(books)->regions; i++)
		count += !regions_of(books)[i].runs;
	return count;
}

/* The runs of a region without any: all of it but its first bytes. */
static void
assert_vacant(const struct nam_move_run *run, uint32_t region)
{
	const struct nam_move_run vacant = { .offset = NAM_GADDR_UNIT_BYTES,
		.bytes = REGION - NAM_GADDR_UNIT_BYTES, .region = region, .dirty = 1 };

	assert_memory_equal(run, &vacant, sizeof(vacant));
}

/* The same place and blocks, all used, by clients that are not known. */
static void
assert_used(const struct nam_move_run *run, const struct nam_move_run *from)
{
	struct nam_move_run used = *from;

	used.words = 0;
	used.batch = used.label = 0;
	assert_memory_equal(run, &used, sizeof(used));
}

static void
backup_books__of_a_member_with_clients__HAVE_ITS_RUNS_AND_NO_WORDS(void **state)
{
	struct pair *pair = *state;
	const struct nam_move_run *run, *from;
	struct books one, other;
	uint32_t labels = 0, batches = 0;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &one), 0);
	assert_true(private_count(&one) > 0 && head_of(&one)->words > 0);
	books_back(&one, &other);
	run = runs_of(&other);
	from = runs_of(&one);
	for (uint32_t i = 0; i < head_of(&one)->regions; i++) {
		const struct nam_move_region *region = &regions_of(&other)[i];

		assert_int_equal(region->bytes, REGION);
		assert_int_equal(region->kind, NAM_MEMORY_PUBLIC);
		assert_int_equal(region->announced, NAM_MEMORY_PUBLIC);
		assert_int_equal(region->turning, 0);
		assert_int_equal(region->had_blocks, regions_of(&one)[i].had_blocks);
		assert_int_equal(region->runs, regions_of(&one)[i].runs ?: 1);
		if (!regions_of(&one)[i].runs)
			assert_vacant(run++, i);
		for (uint32_t k = 0; k < regions_of(&one)[i].runs; k++, run++, from++) {
			assert_used(run, from);
			labels += from->label != 0;
			batches += from->batch != 0;
		}
	}
	assert_ptr_equal(run, runs_of(&other) + head_of(&other)->runs);
	assert_true(labels && batches);
	free(one.words);
	free(other.words);
}

static void
backup_books__trees_and_stores__ARE_GONE_and_the_rest_is_there(void **state)
{
	struct pair *pair = *state;
	const struct nam_move_head *head;
	struct books one, other;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &one), 0);
	assert_int_equal(head_of(&one)->trees, 1);
	assert_int_equal(head_of(&one)->stores, 1);
	assert_int_equal(head_of(&one)->partitions, 3);
	books_back(&one, &other);
	head = head_of(&other);
	assert_int_equal(head->trees, 0);
	assert_int_equal(head->stores, 0);
	assert_int_equal(head->partitions, 0);
	assert_int_equal(head->words, 0);
	assert_int_equal(head->runs, head_of(&one)->runs + private_count(&one));
	assert_int_equal(head->bytes, other.bytes);
	assert_int_equal(nam__books_bytes(head), other.bytes);
	assert_int_equal(head->server, ID);
	assert_true(head->now_ns == head_of(&one)->now_ns && head->batch == head_of(&one)->batch);
	assert_int_equal(head->newest, head_of(&one)->newest);
	assert_memory_equal(&head->view, &head_of(&one)->view, sizeof(head->view));
	assert_int_equal(head->clients, head_of(&one)->clients);
	assert_int_not_equal(head->clients, 0);
	assert_memory_equal(clients_of(&other), clients_of(&one),
		head->clients * sizeof(struct nam_move_client));
	assert_int_equal(head->members, 2);
	assert_memory_equal(members_of(&other), members_of(&one),
		2 * sizeof(struct nam_view_member));
	assert_true(other.words[other.bytes / 8 - 1] ==
		nam_hash64(other.words, other.bytes - sizeof(uint64_t)));
	free(one.words);
	free(other.words);
}

/* ---- a backup that takes them ---------------------------------------------------------------- */

static int
send_runs(struct fixture *f, uint64_t block)
{
	const struct nam_rpc_move_runs head = { .stride = LARGE };
	uint8_t body[sizeof(head) + sizeof(block)];

	memcpy(body, &head, sizeof(head));
	memcpy(body + sizeof(head), &block, sizeof(block));
	return move_step(f, &f->connection, NAM_RPC_MOVE_RUNS, 0, body, sizeof(body));
}

static void
import__of_backup_books__IS_AN_ORDINARY_ONE_and_all_is_public(void **state)
{
	struct pair *pair = *state;
	struct nam__allocator *allocator = &pair->next->server->allocator;
	struct books one, other, after;
	uint64_t block;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &one), 0);
	books_back(&one, &other);
	assert_int_equal(import_books(pair->next, &other), 0);
	assert_int_equal(call_status(pair->next), 0);
	assert_int_equal(((struct nam_rpc_status_reply *)reply_body(pair->next))->phase,
		NAM_SERVER_SERVES);
	assert_int_equal(allocator->memory[NAM_MEMORY_PUBLIC].bytes, MEMORY);
	assert_int_equal(allocator->memory[NAM_MEMORY_PRIVATE].bytes, 0);
	assert_int_equal(allocator->memory[NAM_MEMORY_PUBLIC].free_bytes, 0);
	assert_int_equal(allocator->memory[NAM_MEMORY_PUBLIC].waiting_bytes, 0);
	/* Its own are the same once more. */
	assert_int_equal(export_books(pair->next, &after), 0);
	head_of(&after)->now_ns = head_of(&other)->now_ns;
	books_seal(&after);
	assert_int_equal(after.bytes, other.bytes);
	assert_memory_equal(after.words, other.words, other.bytes);
	/* It can be told of blocks: of those that it has, and where it has none. */
	assert_int_equal(send_runs(pair->next, made.large[0]), 0);
	block = nam_gaddr_make(ID * NAM_REGIONS_PER_SERVER + MEMORY / REGION - 1,
		NAM_GADDR_UNIT_BYTES, 0).raw;
	assert_int_equal(send_runs(pair->next, block), 0);
	free(after.words);
	free(one.words);
	free(other.words);
}

/* It has had no clients. */
static void
import__of_backup_books_of_an_idle_member__IS_AN_ORDINARY_ONE(void **state)
{
	struct pair *pair = *state;
	struct books one, other;

	assert_int_equal(export_books(pair->old, &one), 0);
	assert_int_equal(private_count(&one), 0);
	books_back(&one, &other);
	assert_int_equal(other.bytes, one.bytes);
	assert_memory_equal(other.words, one.words, one.bytes);
	assert_int_equal(import_books(pair->next, &other), 0);
	alloc_as(pair->next, CLIENT, LARGE, made.large);
	free(one.words);
	free(other.words);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, pair_end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(backup_books__of_a_member_with_clients__HAVE_ITS_RUNS_AND_NO_WORDS),
		TEST(backup_books__trees_and_stores__ARE_GONE_and_the_rest_is_there),
		TEST(import__of_backup_books__IS_AN_ORDINARY_ONE_and_all_is_public),
		TEST(import__of_backup_books_of_an_idle_member__IS_AN_ORDINARY_ONE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
