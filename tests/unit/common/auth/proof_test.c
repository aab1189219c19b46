/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs of keys: each bit of what they stand for counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/auth/proof.h"

/* The messages of one client that connects. */
struct shake {
	struct nam_hello hello, challenge, answer, reply;
};

static struct nam__auth_keys *keys;

static int
setup(void **state)
{
	(void)state;
	keys = calloc(1, sizeof(*keys) + 2 * sizeof(keys->keys[0]));
	assert_non_null(keys);
	keys->count = 2;
	assert_int_equal(nam__auth_key_make("one", NAM_ROLE_WRITE, &keys->keys[0], NULL), 0);
	assert_int_equal(nam__auth_key_make("two", NAM_ROLE_ADMIN, &keys->keys[1], NULL), 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	free(keys);
	return 0;
}

static struct nam_hello
hello_of(uint32_t bytes, uint8_t first)
{
	struct nam_hello hello = { .bytes = bytes };

	for (uint32_t i = 0; i < bytes; i++)
		hello.data[i] = (uint8_t)(first + i);
	return hello;
}

static struct shake
shake_hands_as(const struct nam__auth_key *key, const uint8_t *voucher)
{
	struct shake shake = {
		.hello = hello_of(40, 1),
		.challenge = hello_of(sizeof(struct nam_wire_challenge), 100),
		.reply = hello_of(48, 200),
	};

	nam__proof_answer(key, voucher, &shake.hello, &shake.challenge, &shake.answer);
	assert_int_equal(shake.answer.bytes, NAM_HELLO_BYTES_MAX);
	nam__proof_append(key, &shake.hello, &shake.challenge, &shake.answer, &shake.reply);
	assert_int_equal(shake.reply.bytes, 48 + NAM_SERVER_PROOF_BYTES);
	return shake;
}

static struct shake
shake_hands(const struct nam__auth_key *key)
{
	return shake_hands_as(key, NULL);
}

static const struct nam__auth_key *
check_as(const struct shake *shake, uint16_t client_id, uint16_t incarnation)
{
	const struct nam__auth_name name = { 0, client_id, incarnation };

	return nam__proof_check(keys, name, &shake->hello, &shake->challenge, &shake->answer);
}

static const struct nam__auth_key *
check(const struct shake *shake)
{
	return check_as(shake, 0, 0);
}

static bool
take(const struct nam__auth_key *key, const struct shake *shake)
{
	struct nam_hello reply = shake->reply;
	bool taken = nam__proof_take(key, &shake->hello, &shake->challenge, &shake->answer, &reply);

	if (taken)
		assert_int_equal(reply.bytes, shake->reply.bytes - NAM_SERVER_PROOF_BYTES);
	return taken;
}

static void
shake__right_key__BOTH_ARE_PROVEN(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < keys->count; i++) {
		struct shake shake = shake_hands(&keys->keys[i]);

		assert_ptr_equal(check(&shake), &keys->keys[i]);
		assert_true(take(&keys->keys[i], &shake));
	}
}

static void
check__any_other_bit__IS_NO_PROOF(void **state)
{
	struct shake good = shake_hands(&keys->keys[0]);
	struct nam_hello *parts[3];
	struct shake shake;

	(void)state;
	for (unsigned part = 0; part < 3; part++) {
		shake = good;
		parts[0] = &shake.hello;
		parts[1] = &shake.challenge;
		parts[2] = &shake.answer;
		for (uint32_t bit = 0; bit < parts[part]->bytes * 8; bit++) {
			parts[part]->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
			assert_null(check(&shake));
			parts[part]->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		}
		assert_non_null(check(&shake));
	}
}

static void
check__other_lengths__IS_NO_PROOF(void **state)
{
	struct shake good = shake_hands(&keys->keys[0]), shake = good;

	(void)state;
	shake.hello.bytes--;
	assert_null(check(&shake));
	/* The same bytes, cut elsewhere. */
	shake = good;
	shake.hello.data[shake.hello.bytes++] = shake.challenge.data[0];
	memmove(shake.challenge.data, shake.challenge.data + 1, --shake.challenge.bytes);
	assert_null(check(&shake));
	for (uint32_t bytes = 0; bytes < good.answer.bytes; bytes++) {
		shake = good;
		shake.answer.bytes = bytes;
		assert_null(check(&shake));
	}
}

static void
check__key_that_is_not_there__IS_NO_PROOF(void **state)
{
	struct nam__auth_key stranger = { .role = NAM_ROLE_ADMIN };
	struct shake shake;

	(void)state;
	/* All zeroes, as what unknown keys are compared with. */
	shake = shake_hands(&stranger);
	assert_null(check(&shake));
	/* It knows the fingerprint of a key, from a connection that it has seen. */
	stranger.print = keys->keys[1].print;
	shake = shake_hands(&stranger);
	assert_null(check(&shake));
}

static void
check__name__NEEDS_THE_VOUCHER_FOR_THAT_KEY(void **state)
{
	const struct nam__auth_name name = { keys->keys[0].print, 7, 3 };
	const struct nam__claim claim = nam__claim_name(&name);
	uint8_t voucher[NAM_VOUCHER_BYTES], none[NAM_VOUCHER_BYTES] = { 0 };
	struct shake shake;

	(void)state;
	nam__voucher_make(keys, &claim, voucher);
	shake = shake_hands_as(&keys->keys[0], voucher);
	assert_ptr_equal(check_as(&shake, 7, 3), &keys->keys[0]);
	assert_null(check_as(&shake, 7, 4));
	assert_null(check_as(&shake, 8, 3));
	assert_null(check(&shake));
	shake = shake_hands_as(&keys->keys[1], voucher);
	assert_null(check_as(&shake, 7, 3));
	shake = shake_hands_as(&keys->keys[0], none);
	assert_null(check_as(&shake, 7, 3));
	shake = shake_hands(&keys->keys[0]);
	assert_null(check_as(&shake, 7, 3));
}

static void
voucher_check__keys_are_replaced__GOOD_UNTIL_ITS_ADMIN_GOES(void **state)
{
	const struct nam__auth_name name = { 5, 7, 3 }, other = { 6, 7, 3 };
	const struct nam__claim claim = nam__claim_name(&name), another = nam__claim_name(&other);
	const uint32_t bytes = sizeof(*keys) + 3 * sizeof(keys->keys[0]);
	struct nam__auth_keys *more = calloc(1, bytes);
	uint8_t voucher[NAM_VOUCHER_BYTES];

	(void)state;
	assert_non_null(more);
	more->count = 3;
	memcpy(more->keys, keys->keys, 2 * sizeof(keys->keys[0]));
	assert_int_equal(nam__auth_key_make("new", NAM_ROLE_ADMIN, &more->keys[2], NULL), 0);
	nam__voucher_make(keys, &claim, voucher);
	assert_true(nam__voucher_check(keys, &claim, voucher));
	assert_false(nam__voucher_check(keys, &another, voucher));
	assert_true(nam__voucher_check(more, &claim, voucher));
	/* The old one is removed: here last, and at the lead first. */
	more->keys[1] = more->keys[2];
	more->count = 2;
	assert_false(nam__voucher_check(more, &claim, voucher));
	nam__voucher_make(more, &claim, voucher);
	more->keys[2] = keys->keys[1];
	more->count = 3;
	assert_true(nam__voucher_check(more, &claim, voucher));
	/* A file without an admin: the highest role that there is. */
	more->count = 1;
	nam__voucher_make(more, &claim, voucher);
	assert_true(nam__voucher_check(more, &claim, voucher));
	free(more);
}

static void
take__any_other_bit__IS_NO_PROOF(void **state)
{
	struct shake good = shake_hands(&keys->keys[0]), shake;

	(void)state;
	shake = good;
	for (uint32_t bit = 0; bit < shake.reply.bytes * 8; bit++) {
		shake.reply.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
		assert_false(take(&keys->keys[0], &shake));
		shake.reply.data[bit / 8] ^= (uint8_t)(1u << bit % 8);
	}
	shake.hello.data[0] ^= 1;
	assert_false(take(&keys->keys[0], &shake));
	shake = good;
	shake.challenge.data[31] ^= 1;
	assert_false(take(&keys->keys[0], &shake));
	assert_false(take(&keys->keys[1], &good));
	for (uint32_t bytes = 0; bytes < good.reply.bytes; bytes++) {
		shake = good;
		shake.reply.bytes = bytes;
		assert_false(take(&keys->keys[0], &shake));
	}
	/* No challenge was answered. */
	shake = good;
	shake.challenge.bytes = 0;
	assert_false(take(&keys->keys[0], &shake));
}

/* A server without the key sends the client's own proof back. */
static void
take__proof_of_the_client__IS_NO_PROOF(void **state)
{
	struct shake shake = shake_hands(&keys->keys[0]);
	struct nam_wire_answer answer;

	(void)state;
	memcpy(&answer, shake.answer.data, sizeof(answer));
	shake.reply = (struct nam_hello){ .bytes = NAM_SERVER_PROOF_BYTES };
	memcpy(shake.reply.data, answer.proof, sizeof(answer.proof));
	assert_false(take(&keys->keys[0], &shake));
}

static void
answer__again__HAS_ANOTHER_NONCE(void **state)
{
	struct shake a = shake_hands(&keys->keys[0]), b = shake_hands(&keys->keys[0]);

	(void)state;
	assert_memory_not_equal(a.answer.data + 8, b.answer.data + 8, NAM_NONCE_BYTES);
	assert_memory_not_equal(a.answer.data + 24, b.answer.data + 24, NAM_CLIENT_PROOF_BYTES);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shake__right_key__BOTH_ARE_PROVEN),
		cmocka_unit_test(check__any_other_bit__IS_NO_PROOF),
		cmocka_unit_test(check__other_lengths__IS_NO_PROOF),
		cmocka_unit_test(check__key_that_is_not_there__IS_NO_PROOF),
		cmocka_unit_test(check__name__NEEDS_THE_VOUCHER_FOR_THAT_KEY),
		cmocka_unit_test(voucher_check__keys_are_replaced__GOOD_UNTIL_ITS_ADMIN_GOES),
		cmocka_unit_test(take__any_other_bit__IS_NO_PROOF),
		cmocka_unit_test(take__proof_of_the_client__IS_NO_PROOF),
		cmocka_unit_test(answer__again__HAS_ANOTHER_NONCE),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
