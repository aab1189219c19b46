/* SPDX-License-Identifier: Apache-2.0 */
/* records_test.c -- requests about records: good ones, and every way to be malformed. */
#include "heads_fixture.h"
#include "tests/unit/memserver/move/step_fixture.h"

#include "common/rpc/records_rpc.h"
#include "txn/server/records.h"

#define REGION_BYTES (512u << 10)

static uint64_t
block_at(uint32_t number, uint32_t bytes)
{
	return nam__version_at(nam_gaddr_make(heads_region, 262144 + number * 4096, 0), bytes).raw;
}

/* A request as it is put together. */
struct draft {
	_Alignas(8) uint8_t body[NAM_RPC_BODY_MAX];
	uint32_t bytes;
};

static struct nam_rpc_records_request *
request_of(struct draft *draft)
{
	return (struct nam_rpc_records_request *)(void *)draft->body;
}

static void
draft_init(struct draft *draft, uint64_t timestamp, uint32_t flags)
{
	memset(draft, 0, sizeof(*draft));
	*request_of(draft) = (struct nam_rpc_records_request){ .store = STORE,
		.timestamp = timestamp, .flags = flags };
	draft->bytes = sizeof(struct nam_rpc_records_request);
}

static void
draft_add(struct draft *draft, const void *bytes, uint32_t count)
{
	memcpy(draft->body + draft->bytes, bytes, count);
	draft->bytes += count;
}

static struct nam_version *
image(uint64_t timestamp, uint64_t head, uint64_t at)
{
	static union {
		struct nam_version version;
		uint8_t bytes[NAM_RPC_BYTES_MAX];
	} room;
	uint32_t bytes = nam__version_at_bytes(NAM_GADDR(at));

	memset(&room, 0, sizeof(room));
	room.version = (struct nam_version){ .timestamp = timestamp, .store = STORE, .head = head,
		.value_bytes = bytes - (uint32_t)sizeof(struct nam_version) };
	nam__version_seal(&room.version, NAM_GADDR(at));
	return &room.version;
}

static int
prepare(struct fixture *f, uint64_t timestamp, uint64_t head, uint64_t at)
{
	uint32_t bytes = nam__version_at_bytes(NAM_GADDR(at));
	struct nam_rpc_records_prepared one = { head, at, bytes, 0 };
	struct draft draft;

	draft_init(&draft, timestamp, 0);
	request_of(&draft)->count = 1;
	draft_add(&draft, &one, sizeof(one));
	draft_add(&draft, image(timestamp, head, at), bytes);
	return call(f, NAM_RPC_RECORDS_PREPARE, draft.body, draft.bytes);
}

static int
commit(struct fixture *f, uint64_t timestamp, uint64_t head, uint64_t at, uint32_t flags)
{
	struct nam_rpc_records_commit one = { head, at, timestamp };
	struct draft draft;

	draft_init(&draft, 0, flags);
	request_of(&draft)->count = 1;
	draft_add(&draft, &one, sizeof(one));
	return call(f, NAM_RPC_RECORDS_COMMIT, draft.body, draft.bytes);
}

static const struct nam_rpc_records_got *
get(struct fixture *f, uint64_t head, uint64_t timestamp, uint32_t flags)
{
	struct nam_rpc_records_wanted one = { head, timestamp };
	struct draft draft;

	draft_init(&draft, 0, flags);
	request_of(&draft)->count = 1;
	draft_add(&draft, &one, sizeof(one));
	assert_int_equal(call(f, NAM_RPC_RECORDS_GET, draft.body, draft.bytes), 0);
	return reply_body(f);
}

static void
record__prepared_committed_found(void **state)
{
	struct fixture *f = *state;
	uint64_t head = head_at(0), first = block_at(0, 128), second = block_at(1, 192);
	const struct nam_rpc_records_got *got = get(f, head, NAM_RECORDS_LATEST, 0);

	assert_true(got->at == 0 && got->timestamp == 0 && got->image_bytes == 0);
	assert_int_equal(prepare(f, 1000, head, first), 0);
	assert_int_equal(f->reply_bytes, 8);
	assert_int_equal(*(uint64_t *)reply_body(f), 0);
	/* Only a client that asks for it is told. */
	got = get(f, head, NAM_RECORDS_LATEST, 0);
	assert_int_equal(got->at, 0);
	got = get(f, head, 1000, 0);
	assert_true(got->at == first && !got->mark);
	assert_int_equal(commit(f, 1000, head, first, 0), 0);
	got = get(f, head, NAM_RECORDS_LATEST, 0);
	assert_true(got->at == first && got->timestamp == 1000 && got->mark);
	assert_int_equal(got->image_bytes, 128);
	assert_true(nam__version_whole((const void *)(got + 1), NAM_GADDR(first), STORE,
		false));
	got = get(f, head, NAM_RECORDS_LATEST, NAM_RECORDS_STAMPS_ONLY);
	assert_true(got->timestamp == 1000 && got->image_bytes == 0);
	assert_int_equal(prepare(f, 2000, head, second), 0);
	assert_int_equal(*(uint64_t *)reply_body(f), 1000);
	/* A request for another version in that block comes too late. */
	assert_int_equal(commit(f, 1999, head, second, NAM_RECORDS_ABORT), 0);
	assert_int_equal(((struct nam_rpc_records_committed *)reply_body(f))->count, 0);
	assert_int_equal(commit(f, 1999, head, second, 0), 0);
	got = get(f, head, 2000, 0);
	assert_true(got->at == second && !got->mark);
	assert_int_equal(commit(f, 2000, head, second, NAM_RECORDS_ABORT), 0);
	assert_int_equal(((struct nam_rpc_records_committed *)reply_body(f))->count, 1);
	got = get(f, head, 2000, 0);
	assert_true(got->at == first && got->mark);
	assert_int_equal(prepare(f, 3000, head, second), 0);
	assert_int_equal(commit(f, 3000, head, second, 0), 0);
	got = get(f, head, 1000, 0);
	assert_true(got->at == first && !got->mark);
}

static void
get__of_several_timestamps__THE_LATEST_OF_THEM(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_records_wanted one = { head_at(1), NAM_RECORDS_OF_STAMPS };
	const struct nam_rpc_records_got *got = reply_body(f);
	const uint64_t stamps[] = { 1000, 5000, 2000 };
	struct draft draft;

	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(prepare(f, 1000 * (i + 1), one.head, block_at(i, 64)), 0);
		assert_int_equal(commit(f, 1000 * (i + 1), one.head, block_at(i, 64), 0),
			0);
	}
	for (uint32_t count = 0; count <= 3; count++) {
		draft_init(&draft, 0, 0);
		request_of(&draft)->count = 1;
		request_of(&draft)->stamps = count;
		draft_add(&draft, &one, sizeof(one));
		draft_add(&draft, stamps, 8 * count);
		assert_int_equal(call(f, NAM_RPC_RECORDS_GET, draft.body, draft.bytes), 0);
		/* None of none, and then the latest. */
		assert_int_equal(got->timestamp, count == 0 ? 3000 : count == 3 ? 2000 : 1000);
	}
}

static void
get__more_than_fits__ADDRESSES_INSTEAD(void **state)
{
	struct fixture *f = *state;
	struct draft draft;
	const uint8_t *at = reply_body(f);
	uint32_t images = 0;

	draft_init(&draft, 0, 0);
	request_of(&draft)->count = NAM_RPC_RECORDS_MAX;
	for (uint32_t i = 0; i < NAM_RPC_RECORDS_MAX; i++) {
		struct nam_rpc_records_wanted one = { head_at(i), NAM_RECORDS_LATEST };

		assert_int_equal(prepare(f, 1000, one.head, block_at(i, 1024)), 0);
		assert_int_equal(commit(f, 1000, one.head, block_at(i, 1024), 0), 0);
		draft_add(&draft, &one, sizeof(one));
	}
	assert_int_equal(call(f, NAM_RPC_RECORDS_GET, draft.body, draft.bytes), 0);
	for (uint32_t i = 0; i < NAM_RPC_RECORDS_MAX; i++) {
		struct nam_rpc_records_got got;

		memcpy(&got, at, sizeof(got));
		assert_int_equal(got.at, block_at(i, 1024));
		assert_int_equal(got.timestamp, 1000);
		images += got.image_bytes != 0;
		at += sizeof(got) + got.image_bytes;
	}
	assert_int_equal(at - (const uint8_t *)reply_body(f), f->reply_bytes);
	assert_true(images >= 2 && images < 4);
}

#define REFUSED(type, draft)                                                                        \
	assert_int_equal(call(f, (type), (draft).body, (draft).bytes), -NAM_E_FABRIC_PROTOCOL)
/* It names a head that is none: where clients learn these, in public memory, is damage. */
#define MISLED(type, draft)                                                                         \
	assert_int_equal(call(f, (type), (draft).body, (draft).bytes), -NAM_E_REMOTE_CORRUPT)

static void
requests__malformed__PROTOCOL(void **state)
{
	static const uint16_t types[] = { NAM_RPC_RECORDS_GET, NAM_RPC_RECORDS_PREPARE,
		NAM_RPC_RECORDS_COMMIT };
	struct fixture *f = *state;
	struct draft draft;

	for (unsigned i = 0; i < 3; i++) {
		draft_init(&draft, 0, 0);
		REFUSED(types[i], draft);	/* of no record */
		draft.bytes--;
		REFUSED(types[i], draft);
		draft_init(&draft, 0, 0);
		request_of(&draft)->count = NAM_RPC_RECORDS_MAX + 1;
		draft.bytes = NAM_RPC_BODY_MAX;
		REFUSED(types[i], draft);
		request_of(&draft)->count = 1;
		request_of(&draft)->flags = 1u << 7;
		REFUSED(types[i], draft);
		request_of(&draft)->flags = 0;
		request_of(&draft)->reserved = 1;
		REFUSED(types[i], draft);
		request_of(&draft)->reserved = 0;
		request_of(&draft)->stamps = NAM_RPC_RECORDS_MAX + 1;
		REFUSED(types[i], draft);
	}
}

static void
addresses__that_are_none__HEADS_CORRUPT_versions_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	const uint64_t good = block_at(0, 64);
	const uint64_t heads[] = { 0, nam_gaddr_make(0, 64, 0).raw,
		nam_gaddr_make(0, REGION_BYTES, 0).raw, nam_gaddr_make(7, 65536, 0).raw };
	const uint64_t blocks[] = { nam_gaddr_make(0, 262144, 0).raw,
		nam__version_at(nam_gaddr_make(0, REGION_BYTES - 64, 0), 128).raw,
		nam__version_at(nam_gaddr_make(0, 4096, 0), 64).raw };

	for (unsigned i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct nam_rpc_records_wanted one = { heads[i], NAM_RECORDS_LATEST };
		struct draft draft;

		assert_int_equal(prepare(f, 1000, heads[i], good), -NAM_E_REMOTE_CORRUPT);
		assert_int_equal(commit(f, 1000, heads[i], good, 0), -NAM_E_REMOTE_CORRUPT);
		draft_init(&draft, 0, 0);
		request_of(&draft)->count = 1;
		draft_add(&draft, &one, sizeof(one));
		MISLED(NAM_RPC_RECORDS_GET, draft);
	}
	for (unsigned i = 0; i < sizeof(blocks) / sizeof(blocks[0]); i++) {
		struct nam_rpc_records_prepared one = { head_at(0), blocks[i], 0, 0 };
		struct draft draft;

		draft_init(&draft, 1000, 0);
		request_of(&draft)->count = 1;
		draft_add(&draft, &one, sizeof(one));
		REFUSED(NAM_RPC_RECORDS_PREPARE, draft);
		assert_int_equal(commit(f, 1000, head_at(0), blocks[i], 0), 0);
	}
	assert_int_equal(prepare(f, 1000, head_at(0), good), 0);
}

static void
heads__of_another_store__DROPPED_and_closed_once(void **state)
{
	struct fixture *f = *state;
	const uint64_t head = head_at(0), other = head_at(HEADS), at = block_at(0, 64);
	struct nam_rpc_records_wanted wanted = { head, NAM_RECORDS_LATEST };
	const struct nam_rpc_records_committed *closed;
	struct draft draft;

	assert_int_equal(prepare(f, 1000, other, at), -NAM_E_DROPPED);
	assert_int_equal(commit(f, 1000, other, at, 0), -NAM_E_DROPPED);
	assert_int_equal(prepare(f, 1000, head, at), 0);
	assert_int_equal(commit(f, 1000, head, at, 0), 0);
	assert_int_equal(commit(f, 0, head, 0, NAM_RECORDS_CLOSE), 0);
	closed = reply_body(f);
	assert_int_equal(closed->count, 1);
	assert_int_equal(closed->retired[0], at);
	assert_int_equal(commit(f, 0, head, 0, NAM_RECORDS_CLOSE), 0);
	closed = reply_body(f);
	assert_int_equal(closed->count, 0);
	draft_init(&draft, 0, 0);
	request_of(&draft)->count = 1;
	draft_add(&draft, &wanted, sizeof(wanted));
	assert_int_equal(call(f, NAM_RPC_RECORDS_GET, draft.body, draft.bytes), -NAM_E_DROPPED);
}

static void
prepare__image_of_another_length__PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_records_prepared one = { head_at(0), block_at(0, 128), 64, 0 };
	struct draft draft;

	for (one.image_bytes = 64; one.image_bytes <= 192; one.image_bytes += 128) {
		draft_init(&draft, 1000, 0);
		request_of(&draft)->count = 1;
		draft_add(&draft, &one, sizeof(one));
		draft.bytes += one.image_bytes;
		REFUSED(NAM_RPC_RECORDS_PREPARE, draft);
	}
	/* Longer than the message. */
	one.image_bytes = 128;
	draft_init(&draft, 1000, 0);
	request_of(&draft)->count = 1;
	draft_add(&draft, &one, sizeof(one));
	draft.bytes += 127;
	REFUSED(NAM_RPC_RECORDS_PREPARE, draft);
	draft.bytes += 2;
	REFUSED(NAM_RPC_RECORDS_PREPARE, draft);
}

/* M23: as a memory server that is copied, which the lead is not. */
static int
copied_setup(void **state)
{
	return heads_setup_id(state, 3);
}

/* Of the head, and of the version. */
static void
assert_both_taken(struct fixture *f, struct nam__connection *mover)
{
	assert_int_equal(take(f, mover, 0), 0);
	assert_int_equal(taken_count(f), 2);
	assert_int_equal(taken(f)->noted[0].word, 0);
	assert_true(taken(f)->noted[0].pages == 1ull << 196608 / NAM_MOVE_NOTE_BYTES);
	assert_int_equal(taken(f)->noted[1].word, 262144 / NAM_MOVE_NOTE_BYTES / 64);
	assert_true(taken(f)->noted[1].pages == 1);
}

static void
requests__of_a_server_that_is_copied__NOTE_PAGES_and_get_does_not(void **state)
{
	struct fixture *f = *state;
	uint64_t head = head_at(0), at = block_at(0, 128);
	struct nam__connection mover = { 0 };

	assert_int_equal(claim(f, &mover, 3), 0);
	assert_int_equal(take(f, &mover, 0), 0);
	assert_int_equal(prepare(f, 1000, head, at), 0);
	assert_both_taken(f, &mover);
	assert_int_equal(get(f, head, 1000, 0)->at, at);
	assert_taken(f, &mover, 0, 0);
	assert_int_equal(commit(f, 1000, head, at, 0), 0);
	assert_both_taken(f, &mover);
	assert_int_equal(get(f, head, NAM_RECORDS_LATEST, 0)->at, at);
	assert_taken(f, &mover, 0, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, heads_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(record__prepared_committed_found),
		TEST(get__of_several_timestamps__THE_LATEST_OF_THEM),
		TEST(get__more_than_fits__ADDRESSES_INSTEAD),
		TEST(requests__malformed__PROTOCOL),
		TEST(addresses__that_are_none__HEADS_CORRUPT_versions_PROTOCOL),
		TEST(heads__of_another_store__DROPPED_and_closed_once),
		TEST(prepare__image_of_another_length__PROTOCOL),
		cmocka_unit_test_setup_teardown(
			requests__of_a_server_that_is_copied__NOTE_PAGES_and_get_does_not,
			copied_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
