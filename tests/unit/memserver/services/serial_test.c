/* SPDX-License-Identifier: Apache-2.0 */
/* serial_test.c -- steps of serializable transactions, and every malformed request of them. */
#include "tests/unit/memserver/server_fixture.h"

#include "common/rpc/serial_rpc.h"
#include "txn/serial/layout.h"

#define STORE 4711u
#define VALUE_BYTES 24u
#define RECORD_BYTES ((uint32_t)sizeof(struct nam_serial_record) + VALUE_BYTES)
#define BEHIND (RECORD_BYTES - (uint32_t)sizeof(uint64_t))	/* the word */
#define LOCK (1ull << 48 | 99u)
#define KEY 1234567u
#define KEY_BYTES ((uint32_t)sizeof(uint64_t))

struct draft {
	_Alignas(8) uint8_t body[NAM_RPC_BODY_MAX];
	uint32_t bytes;
};

/* Behind the page of the epochs. */
static uint64_t
record_at(uint32_t number)
{
	return nam_gaddr_make(0, 196608 + number * 128, 0).raw;
}

static struct nam_serial_record *
record(struct fixture *f, uint32_t number)
{
	return nam__memory_public_at(f->server, NAM_GADDR(record_at(number)), RECORD_BYTES);
}

static struct nam_rpc_serial_request *
request_of(struct draft *draft)
{
	return (struct nam_rpc_serial_request *)(void *)draft->body;
}

static void
draft_init(struct draft *draft)
{
	memset(draft, 0, sizeof(*draft));
	request_of(draft)->store = STORE;
	draft->bytes = sizeof(struct nam_rpc_serial_request);
}

static void
append(struct draft *draft, const void *bytes, uint32_t count)
{
	memcpy(draft->body + draft->bytes, bytes, count);
	draft->bytes += count;
}

static void
step_add(struct draft *draft, enum nam_serial_step kind, uint64_t at, uint16_t bytes)
{
	const struct nam_rpc_serial_step step = { .at = at, .bytes = bytes,
		.step = (uint16_t)kind };

	append(draft, &step, sizeof(step));
	request_of(draft)->count++;
}

static void
cas_add(struct draft *draft, uint64_t at, uint64_t compare, uint64_t swap)
{
	const uint64_t words[2] = { compare, swap };

	step_add(draft, NAM_SERIAL_CAS, at, 0);
	append(draft, words, sizeof(words));
}

/* The key of record 0. */
static void
lock_add(struct draft *draft, uint64_t at, uint64_t word)
{
	struct nam_rpc_serial_step *step = (void *)(draft->body + draft->bytes);
	const uint64_t key = KEY;

	step_add(draft, NAM_SERIAL_LOCK, at, RECORD_BYTES);
	step->offset = KEY_BYTES;
	append(draft, &word, sizeof(word));
	append(draft, &key, sizeof(key));
}

/* The header of a log, as a transaction writes it. */
static void
log_add(struct draft *draft, uint64_t at, uint64_t store)
{
	const struct nam_serial_log log = { .store = store, .word = LOCK };

	step_add(draft, NAM_SERIAL_LOG, at, sizeof(log));
	append(draft, &log, sizeof(log));
}

static void
commit_add(struct draft *draft, uint64_t at, uint64_t sequence)
{
	const uint64_t words[2] = { LOCK, sequence };
	uint64_t image[RECORD_BYTES / 8] = { 0 };

	((struct nam_serial_record *)(void *)image)->store = STORE;
	((struct nam_serial_record *)(void *)image)->sequence = sequence;
	step_add(draft, NAM_SERIAL_COMMIT, at, BEHIND);
	append(draft, words, sizeof(words));
	append(draft, image + 1, BEHIND);
}

static int
change(struct fixture *f, const struct draft *draft)
{
	return call(f, NAM_RPC_SERIAL_CHANGE, draft->body, draft->bytes);
}

#define REFUSED(type, draft)                                                                        \
	assert_int_equal(call(f, (type), (draft).body, (draft).bytes), -NAM_E_FABRIC_PROTOCOL)

static int
setup(void **state)
{
	int rc = fixture_setup(state);

	for (uint32_t i = 0; i < 2; i++)
		*record(*state, i) = (struct nam_serial_record){ 7, 0, 7, STORE, VALUE_BYTES, 0, 0,
			0 };
	return rc;
}

static void
steps__of_one_request__IN_ORDER(void **state)
{
	struct fixture *f = *state;
	const uint64_t *reply = reply_body(f);
	struct draft draft;

	draft_init(&draft);
	cas_add(&draft, record_at(0), 7, LOCK);
	cas_add(&draft, record_at(1), 6, LOCK);		/* which has 7 */
	commit_add(&draft, record_at(0), 8);
	commit_add(&draft, record_at(1), 8);		/* which is not locked */
	assert_int_equal(change(f, &draft), 0);
	assert_int_equal(f->reply_bytes, 32);
	assert_true(reply[0] == 7 && reply[1] == 7 && reply[2] == LOCK && reply[3] == 7);
	assert_true(record(f, 0)->word == 8 && record(f, 0)->sequence == 8);
	assert_true(record(f, 1)->word == 7 && record(f, 1)->sequence == 7);
	draft_init(&draft);
	step_add(&draft, NAM_SERIAL_READ, record_at(0), 8);
	step_add(&draft, NAM_SERIAL_READ, record_at(1), RECORD_BYTES);
	assert_int_equal(call(f, NAM_RPC_SERIAL_READ, draft.body, draft.bytes), 0);
	assert_int_equal(f->reply_bytes, 8 + RECORD_BYTES);
	assert_true(reply[0] == 8 && reply[1] == 7);
}

/* Each as it was before, in one request with a READ. */
static void
locks__of_what_is_read__ONCE_AND_OF_THAT_KEY(void **state)
{
	struct fixture *f = *state;
	const uint64_t *reply = reply_body(f), key = KEY;
	const uint32_t words = RECORD_BYTES / 8;
	struct draft draft;

	record(f, 0)->key_bytes = KEY_BYTES;
	memcpy(record(f, 0)->bytes, &key, sizeof(key));
	draft_init(&draft);
	lock_add(&draft, record_at(0), LOCK);
	lock_add(&draft, record_at(0), LOCK + 1);
	lock_add(&draft, record_at(1), LOCK);		/* which has another key */
	step_add(&draft, NAM_SERIAL_READ, record_at(1), 8);
	assert_int_equal(change(f, &draft), 0);
	assert_int_equal(f->reply_bytes, 3 * RECORD_BYTES + 8);
	assert_true(reply[0] == 7 && reply[2] == 7);
	assert_true(reply[words] == LOCK && reply[2 * words] == 7 && reply[3 * words] == 7);
	assert_true(record(f, 0)->word == LOCK && record(f, 1)->word == 7);
	record(f, 0)->store = STORE + 1;
	assert_int_equal(change(f, &draft), -NAM_E_DROPPED);
}

static void
records__of_another_store__DROPPED_and_unchanged(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	record(f, 0)->store = STORE + 1;
	draft_init(&draft);
	cas_add(&draft, record_at(0), 7, LOCK);
	assert_int_equal(change(f, &draft), -NAM_E_DROPPED);
	record(f, 0)->word = LOCK;
	draft_init(&draft);
	commit_add(&draft, record_at(0), 8);
	assert_int_equal(change(f, &draft), -NAM_E_DROPPED);
	assert_true(record(f, 0)->word == LOCK && record(f, 0)->sequence == 7);
	/* An image of another store. */
	request_of(&draft)->store = STORE + 1;
	assert_int_equal(change(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(record(f, 0)->word, LOCK);
}

static void
logs__of_another_store__DROPPED_and_unchanged(void **state)
{
	struct fixture *f = *state;
	struct nam_serial_log *log = (void *)record(f, 2);
	struct nam_rpc_serial_step *step;
	struct draft draft;

	*log = (struct nam_serial_log){ .store = STORE, .word = 5 };
	draft_init(&draft);
	log_add(&draft, record_at(2), STORE + 1);
	REFUSED(NAM_RPC_SERIAL_CHANGE, draft);
	draft_init(&draft);
	log_add(&draft, record_at(2), STORE);
	step = (void *)(request_of(&draft) + 1);
	step->offset = 8;			/* within the header */
	REFUSED(NAM_RPC_SERIAL_CHANGE, draft);
	step->offset = 0;
	log->store = STORE + 1;
	assert_int_equal(change(f, &draft), -NAM_E_DROPPED);
	assert_int_equal(log->word, 5);
	log->store = STORE;
	assert_int_equal(change(f, &draft), 0);
	assert_int_equal(log->word, LOCK);
}

static void
addresses__that_are_none__CORRUPT(void **state)
{
	const uint64_t bad[] = { 0, nam_gaddr_make(0, 64, 0).raw, nam_gaddr_make(7, 65536, 0).raw,
		nam_gaddr_make(0, 64ull << 30, 0).raw };
	struct fixture *f = *state;
	struct draft draft;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		draft_init(&draft);
		step_add(&draft, NAM_SERIAL_READ, bad[i], 64);
		assert_int_equal(call(f, NAM_RPC_SERIAL_READ, draft.body, draft.bytes),
			-NAM_E_REMOTE_CORRUPT);
		draft_init(&draft);
		cas_add(&draft, bad[i], 7, LOCK);
		assert_int_equal(change(f, &draft), -NAM_E_REMOTE_CORRUPT);
		draft_init(&draft);
		commit_add(&draft, bad[i], 8);
		assert_int_equal(change(f, &draft), -NAM_E_REMOTE_CORRUPT);
		draft_init(&draft);
		log_add(&draft, bad[i], STORE);
		assert_int_equal(change(f, &draft), -NAM_E_REMOTE_CORRUPT);
	}
}

static void
requests__malformed__PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_serial_step *step;
	struct draft draft;

	draft_init(&draft);
	draft.bytes--;
	REFUSED(NAM_RPC_SERIAL_READ, draft);
	draft_init(&draft);
	request_of(&draft)->count = 1;			/* which is not there */
	REFUSED(NAM_RPC_SERIAL_READ, draft);
	draft_init(&draft);
	request_of(&draft)->store = 0;
	REFUSED(NAM_RPC_SERIAL_READ, draft);
	draft_init(&draft);
	request_of(&draft)->reserved = 1;
	REFUSED(NAM_RPC_SERIAL_READ, draft);
	for (unsigned kind = 0; kind < 8; kind++) {
		draft_init(&draft);
		step_add(&draft, kind, record_at(0), 16);	/* without these bytes */
		/* A READ may be beside others. */
		if (kind != NAM_SERIAL_READ) {
			REFUSED(NAM_RPC_SERIAL_CHANGE, draft);
			REFUSED(NAM_RPC_SERIAL_READ, draft);
		}
	}
	draft_init(&draft);
	lock_add(&draft, record_at(0), LOCK);
	REFUSED(NAM_RPC_SERIAL_READ, draft);
	draft_init(&draft);
	lock_add(&draft, record_at(0), 8);		/* no lock word */
	REFUSED(NAM_RPC_SERIAL_CHANGE, draft);
	draft_init(&draft);
	lock_add(&draft, record_at(0), LOCK);
	step = (void *)(request_of(&draft) + 1);
	step->offset = UINT32_MAX;			/* a key that is longer than the request */
	REFUSED(NAM_RPC_SERIAL_CHANGE, draft);
	step->offset = RECORD_BYTES;			/* ... than what is to be read */
	draft.bytes += RECORD_BYTES - KEY_BYTES;
	REFUSED(NAM_RPC_SERIAL_CHANGE, draft);
	draft_init(&draft);
	step_add(&draft, NAM_SERIAL_READ, record_at(0), UINT16_MAX);
	REFUSED(NAM_RPC_SERIAL_READ, draft);
	draft_init(&draft);
	cas_add(&draft, record_at(0), 7, LOCK);
	step = (void *)(request_of(&draft) + 1);
	step->offset = 8;
	REFUSED(NAM_RPC_SERIAL_CHANGE, draft);
	step->offset = 0;
	step->bytes = 1;
	draft.bytes += 8;
	REFUSED(NAM_RPC_SERIAL_CHANGE, draft);
	draft_init(&draft);
	step_add(&draft, NAM_SERIAL_READ, record_at(0), 8);
	draft.bytes += 8;				/* behind the last step */
	REFUSED(NAM_RPC_SERIAL_READ, draft);
	assert_int_equal(record(f, 0)->word, 7);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(steps__of_one_request__IN_ORDER, setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(locks__of_what_is_read__ONCE_AND_OF_THAT_KEY,
			setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(records__of_another_store__DROPPED_and_unchanged,
			setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(logs__of_another_store__DROPPED_and_unchanged,
			setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(addresses__that_are_none__CORRUPT, setup,
			fixture_teardown),
		cmocka_unit_test_setup_teardown(requests__malformed__PROTOCOL, setup,
			fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
