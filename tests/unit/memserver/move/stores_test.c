/* SPDX-License-Identifier: Apache-2.0 */
/* stores_test.c -- key-value stores of a memory server are made anew by its successor. */
#include <errno.h>

#include "common/rpc/kv_rpc.h"
#include "kv/kv.h"
#include "kv/server/cuckoo.h"
#include "memserver/stores.h"
#include "move_fixture.h"

#define MEMORY (8ull << 20)
#define REGION (512u << 10)
#define PAIRS 6000u
#define OWNER 5u
#define LONG_BYTES 1500u

enum { CHAINED = 7, CUCKOO = 8, CACHE = 9 };	/* numbers of stores */

static int
setup(void **state)
{
	return pair_start(state, MEMORY, REGION);
}

static int
make(struct fixture *f, uint64_t store, uint8_t engine, uint8_t mode, uint8_t onesided)
{
	const struct nam_rpc_kv_create_request request = { .store = store,
		.memory_bytes = 1 << 20, .mode = mode, .engine = engine, .onesided = onesided,
		.partitions = 3, .servers = 1 };
	int rc;

	f->connection.client_id = OWNER;
	rc = call(f, NAM_RPC_KV_CREATE, &request, sizeof(request));
	f->connection.client_id = 0;
	return rc;
}

/* Each 50th is long. */
static uint16_t
value_bytes(uint64_t i)
{
	return i % 50 ? (uint16_t)(8 + i % 40) : LONG_BYTES;
}

static int
put(struct fixture *f, uint64_t store, uint64_t i)
{
	uint8_t body[NAM_RPC_BODY_MAX] = { 0 };
	struct nam_rpc_kv_key_request *request = (void *)body;

	*request = (struct nam_rpc_kv_key_request){ .store = store, .key_bytes = sizeof(i),
		.value_bytes = value_bytes(i) };
	memcpy(request->bytes, &i, sizeof(i));
	memset(request->bytes + sizeof(i), (int)i, value_bytes(i));
	return call(f, NAM_RPC_KV_PUT, body,
		(uint32_t)(sizeof(*request) + sizeof(i) + value_bytes(i)));
}

/* The answer is in the reply. */
static int
get(struct fixture *f, uint64_t store, uint64_t i)
{
	uint8_t body[sizeof(struct nam_rpc_kv_key_request) + sizeof(i)] = { 0 };
	struct nam_rpc_kv_key_request *request = (void *)body;

	*request = (struct nam_rpc_kv_key_request){ .store = store, .key_bytes = sizeof(i) };
	memcpy(request->bytes, &i, sizeof(i));
	return call(f, NAM_RPC_KV_GET, body, sizeof(body));
}

/* Full ones, of both engines: what does not fit is refused, or takes the place of others. */
static void
live(struct fixture *f)
{
	assert_int_equal(make(f, CHAINED, NAM_KV_CHAINED, NAM_KV_STORE, 0), 0);
	assert_int_equal(make(f, CUCKOO, NAM_KV_CUCKOO, NAM_KV_STORE, 0), 0);
	assert_int_equal(make(f, CACHE, NAM_KV_CUCKOO, NAM_KV_CACHE, 0), 0);
	for (uint64_t i = 0; i < PAIRS; i++) {
		for (uint64_t store = CHAINED; store <= CACHE; store++) {
			int rc = put(f, store, i);

			assert_true(!rc || (rc == -NAM_E_REMOTE_FULL && store != CACHE));
		}
	}
}

static int
piece(struct fixture *f, uint32_t step, uint64_t at, const struct nam_rpc_move_piece *head,
	const void *data)
{
	uint8_t page[NAM_RPC_BODY_MAX];
	uint32_t bytes = sizeof(*head);

	memcpy(page, head, sizeof(*head));
	if (data) {
		memcpy(page + bytes, data, head->bytes);
		bytes += head->bytes;
	}
	return move_step(f, &f->connection, step, at, page, bytes);
}

static void
copy(struct pair *pair, const struct nam_move_store *store)
{
	const struct nam_rpc_move_reply *reply = reply_body(pair->old);
	uint64_t end = (uint64_t)store->chunks * NAM_MOVE_CHUNK_BYTES;
	uint32_t bytes = 2048;

	for (uint64_t at = 0; at < end; at += bytes) {
		const struct nam_rpc_move_piece head = { .store = store->create.store,
			.bytes = bytes };

		assert_int_equal(piece(pair->old, NAM_RPC_MOVE_PEEK, at, &head, NULL), 0);
		assert_int_equal(pair->old->reply_bytes, sizeof(*reply) + bytes);
		assert_int_equal(piece(pair->next, NAM_RPC_MOVE_POKE, at, &head, reply->page), 0);
	}
}

static const struct nam_move_store *
stores_of(const struct books *books)
{
	return nam__books_parts(books->words).stores;
}

static struct nam_rpc_kv_image *
images_of(const struct books *books)
{
	return nam__books_parts(books->words).partitions;
}

static void
same(struct pair *pair, uint64_t store)
{
	const struct nam_rpc_kv_request request = { store };
	struct nam_rpc_kv_describe_reply old, new;
	uint8_t value[LONG_BYTES];
	struct nam__store *made;
	struct nam_diag diag;

	assert_int_equal(call(pair->old, NAM_RPC_KV_DESCRIBE, &request, sizeof(request)), 0);
	memcpy(&old, reply_body(pair->old), sizeof(old));
	assert_int_equal(call(pair->next, NAM_RPC_KV_DESCRIBE, &request, sizeof(request)), 0);
	memcpy(&new, reply_body(pair->next), sizeof(new));
	/* Transactions of the processor are of a process. */
	new.counts.htm_commits = old.counts.htm_commits;
	new.counts.htm_aborts = old.counts.htm_aborts;
	new.counts.htm_fallbacks = old.counts.htm_fallbacks;
	assert_memory_equal(&new, &old, sizeof(old));
	made = (struct nam__store *)nam__objects_find(&pair->next->server->stores, store);
	assert_int_equal(made->object.owner, OWNER);
	for (uint32_t i = 0; i < made->shape.partitions; i++)
		if (!nam__kv_partition_sound(&made->partitions[i], &diag))
			fail_msg("%s", diag.text);
	for (uint64_t i = 0; i < PAIRS; i++) {
		int rc = get(pair->old, store, i);
		uint32_t bytes = pair->old->reply_bytes;

		memcpy(value, reply_body(pair->old), rc ? 0 : bytes);
		assert_int_equal(get(pair->next, store, i), rc);
		if (rc)
			continue;
		assert_int_equal(bytes, value_bytes(i));
		assert_int_equal(pair->next->reply_bytes, bytes);
		assert_memory_equal(reply_body(pair->next), value, bytes);
	}
}

static void
import__stores__ARE_FILLED_AND_OPENED(void **state)
{
	struct pair *pair = *state;
	struct fixture *next = pair->next;
	struct books books;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &books), 0);
	assert_int_equal(head_of(&books)->stores, 3);
	assert_int_equal(head_of(&books)->partitions, 9);
	assert_int_equal(import_books(next, &books), 0);
	assert_int_equal(get(next, CHAINED, 1), -NAM_E_FABRIC_SUCCESSOR);
	for (uint32_t i = 0; i < 3; i++)
		copy(pair, &stores_of(&books)[i]);
	assert_int_equal(move_step(next, &next->connection, NAM_RPC_MOVE_OPEN, 0, NULL, 0), 0);
	for (uint64_t store = CHAINED; store <= CACHE; store++)
		same(pair, store);
	/* They go on. */
	assert_int_equal(put(next, CACHE, PAIRS), 0);
	assert_int_equal(get(next, CACHE, PAIRS), 0);
	free(books.words);
}

/* The parts of a partition beside its chunks are checked: a wrong number leads out of memory. */
static void
import__wrong_images__IS_PROTOCOL(void **state)
{
	struct pair *pair = *state;
	struct books books;
	struct nam_rpc_kv_image *images, was;
	uint32_t chained, cuckoo;

	live(pair->old);
	assert_int_equal(export_books(pair->old, &books), 0);
	images = images_of(&books);
	chained = images[0].level ? 3 : 0;
	for (cuckoo = 0; !images[cuckoo].level; cuckoo += 3)
		continue;
	while (images[chained].level)
		chained += 3;
#define WRONG(which, field, value)                                                                  \
	do {                                                                                        \
		was = images[which];                                                                \
		images[which].field = (value);                                                      \
		books_seal(&books);                                                                 \
		if (import_books(pair->next, &books) != -NAM_E_FABRIC_PROTOCOL)                     \
			fail_msg("%s of %u", #field, which);                                        \
		images[which] = was;                                                                \
	} while (0)
	WRONG(chained, cells, was.cells - 1);
	WRONG(chained, cells, was.cells + 1);
	WRONG(chained, carved, was.cells + 1);
	WRONG(chained, free_count, was.cells + 1);
	WRONG(chained, free_first, was.carved);
	WRONG(chained, hand, was.carved);
	WRONG(cuckoo, level, was.level + 8);
	WRONG(cuckoo, level, 32);
	WRONG(cuckoo, level, NAM__CUCKOO_LEVEL_MIN - 1);
	WRONG(cuckoo, split, 4u << was.level);
	WRONG(cuckoo, cells, was.cells + 1);
	WRONG(cuckoo, cells, 0);
	WRONG(cuckoo, cells, NAM__KV_CELLS_PER_CHUNK << 10);
	WRONG(cuckoo, stash_count, 9);
	WRONG(cuckoo, cell_hand, was.carved);
	WRONG(cuckoo, generation, 0);
	WRONG(cuckoo, generation, NAM__CUCKOO_VISITED);
	WRONG(cuckoo, any_closed, 2);
	books_seal(&books);
	assert_int_equal(import_books(pair->next, &books), 0);
	free(books.words);
}

static void
piece__outside_or_at_a_wrong_time__IS_REFUSED(void **state)
{
	struct pair *pair = *state;
	const struct nam_rpc_move_piece head = { .store = CHAINED, .bytes = 64 };
	struct nam_rpc_move_piece bad[] = {
		{ .store = CHAINED, .bytes = 0 },
		{ .store = CHAINED, .bytes = NAM_MOVE_PIECE_BYTES + 1 },
		{ .store = CHAINED, .bytes = 64, .reserved = 1 },
	};
	const struct nam_rpc_move_piece other = { .store = 99, .bytes = 64 };
	const uint64_t across = NAM_MOVE_CHUNK_BYTES - 56;
	uint8_t data[64] = { 0 };
	struct books books;
	uint64_t end;

	live(pair->old);
	assert_int_equal(piece(pair->old, NAM_RPC_MOVE_PEEK, 0, &head, NULL), -NAM_E_CLUSTER);
	assert_int_equal(export_books(pair->old, &books), 0);
	end = (uint64_t)stores_of(&books)[0].chunks * NAM_MOVE_CHUNK_BYTES;
	assert_int_equal(piece(pair->next, NAM_RPC_MOVE_POKE, 0, &head, data), -NAM_E_CLUSTER);
	assert_int_equal(import_books(pair->next, &books), 0);
	assert_int_equal(piece(pair->next, NAM_RPC_MOVE_PEEK, 0, &head, NULL), -NAM_E_CLUSTER);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(piece(pair->old, NAM_RPC_MOVE_PEEK, 0, &bad[i], NULL),
			-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(piece(pair->old, NAM_RPC_MOVE_PEEK, 0, &other, NULL), -NAM_E_DROPPED);
	assert_int_equal(piece(pair->old, NAM_RPC_MOVE_PEEK, end, &head, NULL),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(piece(pair->old, NAM_RPC_MOVE_PEEK, across, &head, NULL),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(piece(pair->old, NAM_RPC_MOVE_PEEK, end - 64, &head, NULL), 0);
	/* As many bytes as it says. */
	assert_int_equal(piece(pair->next, NAM_RPC_MOVE_POKE, 0, &head, NULL),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(piece(pair->next, NAM_RPC_MOVE_POKE, end, &head, data),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(piece(pair->next, NAM_RPC_MOVE_POKE, end - 64, &head, data), 0);
	free(books.words);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, pair_end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(import__stores__ARE_FILLED_AND_OPENED),
		TEST(import__wrong_images__IS_PROTOCOL),
		TEST(piece__outside_or_at_a_wrong_time__IS_REFUSED),
	};

	return cmocka_run_group_tests_name("stores", tests, NULL, NULL);
}
