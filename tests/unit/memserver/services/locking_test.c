/* SPDX-License-Identifier: Apache-2.0 */
/* locking_test.c -- requests that lock records: all or none, and every malformed one. */
#include "heads_fixture.h"

#include "common/rpc/locking_rpc.h"
#include "txn/records/version.h"

#define REGION_BYTES (512u << 10)
#define TIMESTAMP 8192u

static uint64_t
block_at(uint32_t number)
{
	return nam__version_at(nam_gaddr_make(0, 262144 + number * 4096, 0), 64).raw;
}

struct draft {
	_Alignas(8) uint8_t body[NAM_RPC_BODY_MAX];
	uint32_t bytes;
};

static struct nam_rpc_locking_request *
request_of(struct draft *draft)
{
	return (struct nam_rpc_locking_request *)(void *)draft->body;
}

static void
draft_init(struct draft *draft, uint64_t timestamp, uint32_t flags, uint32_t count)
{
	memset(draft, 0, sizeof(*draft));
	*request_of(draft) = (struct nam_rpc_locking_request){ .request = {
		.store = STORE, .timestamp = timestamp, .flags = flags, .count = count },
		.birth_us = 1 };
	draft->bytes = sizeof(struct nam_rpc_locking_request);
}

static void
draft_add(struct draft *draft, const void *bytes, uint32_t count)
{
	memcpy(draft->body + draft->bytes, bytes, count);
	draft->bytes += count;
}

/* Of the records from `first` on: what kept it from being granted. */
static uint32_t
prepare(struct fixture *f, uint64_t timestamp, uint32_t first, uint32_t count)
{
	struct draft draft;

	draft_init(&draft, timestamp, 0, count);
	for (uint32_t i = first; i < first + count; i++) {
		struct nam_rpc_records_prepared one = { head_at(i), block_at(i), 64, 0 };
		struct nam_version version = { .current = timestamp, .timestamp = timestamp,
			.store = STORE, .head = head_at(i) };

		draft_add(&draft, &one, sizeof(one));
		draft_add(&draft, &version, sizeof(version));
	}
	assert_int_equal(call(f, NAM_RPC_LOCKING_PREPARE, draft.body, draft.bytes), 0);
	assert_int_equal(f->reply_bytes, sizeof(struct nam_rpc_locking_reply));
	return ((struct nam_rpc_locking_reply *)reply_body(f))->refusal;
}

static uint32_t
read_some(struct fixture *f, uint32_t first, uint32_t count)
{
	struct draft draft;

	draft_init(&draft, 0, 0, count);
	for (uint32_t i = first; i < first + count; i++) {
		uint64_t head = head_at(i);

		draft_add(&draft, &head, sizeof(head));
	}
	assert_int_equal(call(f, NAM_RPC_LOCKING_READ, draft.body, draft.bytes), 0);
	return ((struct nam_rpc_locking_reply *)reply_body(f))->refusal;
}

/* Which of them were refused. */
static uint32_t
end(struct fixture *f, uint64_t timestamp, uint32_t flags, uint32_t first, uint32_t count)
{
	struct draft draft;

	draft_init(&draft, timestamp, flags, count);
	for (uint32_t i = first; i < first + count; i++) {
		struct nam_rpc_records_version one = { head_at(i), block_at(i) };

		draft_add(&draft, &one, sizeof(one));
	}
	assert_int_equal(call(f, NAM_RPC_LOCKING_END, draft.body, draft.bytes), 0);
	return ((struct nam_rpc_locking_ended *)reply_body(f))->refused;
}

static void
prepare__one_of_them_is_locked__NONE_IS(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(prepare(f, TIMESTAMP, 2, 1), NAM_LOCKING_GRANTED);
	assert_int_equal(prepare(f, TIMESTAMP + 1, 0, 4), NAM_LOCKING_BUSY);
	assert_int_equal(((struct nam_rpc_locking_reply *)reply_body(f))->head, head_at(2));
	assert_int_equal(((struct nam_rpc_locking_reply *)reply_body(f))->timestamp, TIMESTAMP);
	assert_int_equal(read_some(f, 0, 2), NAM_LOCKING_GRANTED);
	assert_int_equal(read_some(f, 3, 1), NAM_LOCKING_GRANTED);
	/* Nothing of it can be committed. */
	assert_int_equal(end(f, TIMESTAMP + 1, 0, 0, 4), 0xf);
	assert_int_equal(end(f, TIMESTAMP, 0, 2, 1), 0);
	assert_int_equal(end(f, TIMESTAMP, 0, 2, 1), 1);
}

static void
read__one_of_them_is_locked__NONE_IS(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(prepare(f, TIMESTAMP, 2, 1), NAM_LOCKING_GRANTED);
	assert_int_equal(read_some(f, 0, 4), NAM_LOCKING_BUSY);
	assert_int_equal(f->reply_bytes, sizeof(struct nam_rpc_locking_reply));
	assert_int_equal(prepare(f, TIMESTAMP + 1, 0, 2), NAM_LOCKING_GRANTED);
	assert_int_equal(end(f, TIMESTAMP, NAM_LOCKING_ABORT, 2, 1), 0);
	assert_int_equal(read_some(f, 2, 2), NAM_LOCKING_GRANTED);
}

static void
end__of_the_terminator__ONLY_IF_SEALED(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_locking_sealed *sealed = reply_body(f);
	uint64_t head = head_at(0);
	struct draft draft;

	assert_int_equal(prepare(f, TIMESTAMP, 0, 1), NAM_LOCKING_GRANTED);
	assert_int_equal(end(f, TIMESTAMP, NAM_LOCKING_TERMINATE, 0, 1), 1);
	assert_int_equal(end(f, TIMESTAMP, NAM_LOCKING_TERMINATE | NAM_LOCKING_ABORT, 0, 1), 0);
	draft_init(&draft, TIMESTAMP, NAM_LOCKING_SIBLINGS, 1);
	draft_add(&draft, &head, sizeof(head));
	assert_int_equal(call(f, NAM_RPC_LOCKING_SEAL, draft.body, draft.bytes), 0);
	assert_int_equal(sealed->state, NAM_LOCKING_SEALED);
	assert_int_equal(sealed->at, block_at(0));
	assert_int_equal(sealed->metadata_bytes, 0);
	assert_int_equal(end(f, TIMESTAMP, 0, 0, 1), 1);
	assert_int_equal(end(f, TIMESTAMP, NAM_LOCKING_TERMINATE, 0, 1), 0);
	assert_int_equal(call(f, NAM_RPC_LOCKING_SEAL, draft.body, draft.bytes), 0);
	assert_int_equal(sealed->state, NAM_LOCKING_COMMITTED);
}

#define REFUSED(type, draft)                                                                        \
	assert_int_equal(call(f, (type), (draft).body, (draft).bytes), -NAM_E_FABRIC_PROTOCOL)
/* It names a head that is none: where clients learn these, in public memory, is damage. */
#define MISLED(type, draft)                                                                         \
	assert_int_equal(call(f, (type), (draft).body, (draft).bytes), -NAM_E_REMOTE_CORRUPT)

static void
requests__malformed__PROTOCOL(void **state)
{
	static const uint16_t types[] = { NAM_RPC_LOCKING_READ, NAM_RPC_LOCKING_RELEASE,
		NAM_RPC_LOCKING_PREPARE, NAM_RPC_LOCKING_END, NAM_RPC_LOCKING_SEAL };
	struct fixture *f = *state;
	struct draft draft;
	int rc;

	for (unsigned i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		draft_init(&draft, TIMESTAMP, 0, 0);
		REFUSED(types[i], draft);	/* of no record */
		draft.bytes--;
		REFUSED(types[i], draft);
		draft_init(&draft, TIMESTAMP, 0, 1);
		REFUSED(types[i], draft);	/* which is not there */
		draft_init(&draft, TIMESTAMP, 0, NAM_RPC_RECORDS_MAX + 1);
		draft.bytes = NAM_RPC_BODY_MAX;
		REFUSED(types[i], draft);
		draft_init(&draft, TIMESTAMP, 1u << 7, 1);
		draft.bytes += sizeof(uint64_t);
		REFUSED(types[i], draft);
		draft_init(&draft, TIMESTAMP, 0, 1);
		draft.bytes += 16;		/* an address that is none, 0, or too many bytes */
		rc = call(f, types[i], draft.body, draft.bytes);
		assert_true(rc == -NAM_E_REMOTE_CORRUPT || rc == -NAM_E_FABRIC_PROTOCOL);
		request_of(&draft)->reserved = 1;
		REFUSED(types[i], draft);
		request_of(&draft)->reserved = 0;
		request_of(&draft)->request.stamps = 1;
		REFUSED(types[i], draft);
		request_of(&draft)->request.stamps = 0;
		request_of(&draft)->request.store = 0;
		REFUSED(types[i], draft);
	}
}

static void
addresses__that_are_none__CORRUPT_and_nothing_is_locked(void **state)
{
	struct fixture *f = *state;
	const uint64_t bad[] = { 0, nam_gaddr_make(0, 64, 0).raw,
		nam_gaddr_make(0, REGION_BYTES, 0).raw, nam_gaddr_make(7, 65536, 0).raw };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const uint64_t heads[] = { head_at(0), bad[i] };
		struct nam_rpc_records_prepared one = { head_at(0), bad[i], 0, 0 };
		struct draft draft;

		draft_init(&draft, 0, 0, 2);
		draft_add(&draft, heads, sizeof(heads));
		MISLED(NAM_RPC_LOCKING_READ, draft);
		draft_init(&draft, TIMESTAMP, 0, 1);
		draft_add(&draft, &bad[i], sizeof(bad[i]));
		MISLED(NAM_RPC_LOCKING_SEAL, draft);
		draft_init(&draft, TIMESTAMP, 0, 1);
		draft_add(&draft, &one, sizeof(one));
		REFUSED(NAM_RPC_LOCKING_PREPARE, draft);
		/* A transaction has a timestamp. */
		one.at = block_at(0);
		draft_init(&draft, 0, 0, 1);
		draft_add(&draft, &one, sizeof(one));
		REFUSED(NAM_RPC_LOCKING_PREPARE, draft);
	}
	assert_int_equal(prepare(f, TIMESTAMP, 0, 1), NAM_LOCKING_GRANTED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, heads_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(prepare__one_of_them_is_locked__NONE_IS),
		TEST(read__one_of_them_is_locked__NONE_IS),
		TEST(end__of_the_terminator__ONLY_IF_SEALED),
		TEST(requests__malformed__PROTOCOL),
		TEST(addresses__that_are_none__CORRUPT_and_nothing_is_locked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
