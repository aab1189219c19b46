/* SPDX-License-Identifier: Apache-2.0 */
/* proof.c -- see proof.h. */
#include "proof.h"

#include <sodium.h>
#include <string.h>

#include "common/env.h"
#include "common/guard.h"

#define PROOF_BYTES crypto_auth_hmacsha512256_BYTES
_Static_assert(NAM_SERVER_PROOF_BYTES == PROOF_BYTES, "the server's is whole");
_Static_assert(NAM_CLIENT_PROOF_BYTES <= PROOF_BYTES, "the client's is its beginning");
_Static_assert(NAM_VOUCHER_BYTES <= PROOF_BYTES, "a voucher, too");

static const char client_label[16] = "nam client proof";
static const char server_label[16] = "nam server proof";
static const char name_label[16] = "nam name voucher";
static const char view_label[16] = "nam view voucher";

void
nam__nonce_fill(uint8_t nonce[NAM_NONCE_BYTES])
{
	const uint64_t words[2] = { nam_entropy(), nam_entropy() };

	_Static_assert(sizeof(words) == NAM_NONCE_BYTES, "a nonce is two words");
	memcpy(nonce, words, sizeof(words));
}

/* With its length, so that no two lists of messages have the same bytes. */
static void
add(crypto_auth_hmacsha512256_state *state, const void *data, uint32_t bytes)
{
	(void)crypto_auth_hmacsha512256_update(state, (const uint8_t *)&bytes, sizeof(bytes));
	(void)crypto_auth_hmacsha512256_update(state, data, bytes);
}

/* The same bytes as by add(). */
static void
add_challenge(crypto_auth_hmacsha512256_state *state, const struct nam_hello *challenge)
{
	const uint32_t bound = offsetof(struct nam_wire_challenge, nonce);

	(void)crypto_auth_hmacsha512256_update(state, (const uint8_t *)&challenge->bytes,
		sizeof(challenge->bytes));
	/* C23: the server's id and boot. */
	if (NAM_GUARD(KEY_BOUND))
		(void)crypto_auth_hmacsha512256_update(state, challenge->data, bound);
	(void)crypto_auth_hmacsha512256_update(state, challenge->data + bound,
		challenge->bytes - bound);
}

/* ---- vouchers -------------------------------------------------------------------------------- */

struct nam__claim
nam__claim_name(const struct nam__auth_name *name)
{
	return (struct nam__claim){ name_label, {
		{ &name->print, sizeof(name->print) },
		{ &name->client_id, sizeof(name->client_id) },
		{ &name->incarnation, sizeof(name->incarnation) },
	} };
}

struct nam__claim
nam__claim_view(const void *head, uint32_t head_bytes, const void *members, uint32_t members_bytes)
{
	return (struct nam__claim){ view_label,
		{ { head, head_bytes }, { members, members_bytes } } };
}

static void
voucher_under(const struct nam__auth_key *key, const struct nam__claim *claim,
	uint8_t ret[NAM_VOUCHER_BYTES])
{
	crypto_auth_hmacsha512256_state state;
	uint8_t whole[PROOF_BYTES];

	(void)crypto_auth_hmacsha512256_init(&state, key->secret, sizeof(key->secret));
	add(&state, claim->label, sizeof(name_label));
	for (unsigned i = 0; i < 3 && claim->parts[i].bytes; i++)
		add(&state, claim->parts[i].data, claim->parts[i].bytes);
	(void)crypto_auth_hmacsha512256_final(&state, whole);
	sodium_memzero(&state, sizeof(state));
	memcpy(ret, whole, NAM_VOUCHER_BYTES);
}

/* Under the next of the keys that vouch, from *at on: of the highest role.  False: none is left. */
static bool
voucher_next(const struct nam__auth_keys *keys, const struct nam__claim *claim, uint32_t *at,
	uint8_t ret[NAM_VOUCHER_BYTES])
{
	enum nam_role role = NAM_ROLE_NONE;

	for (uint32_t i = 0; i < keys->count; i++)
		if (keys->keys[i].role > role)
			role = keys->keys[i].role;
	while (*at < keys->count && keys->keys[*at].role != role)
		++*at;
	if (*at == keys->count)
		return false;
	voucher_under(&keys->keys[(*at)++], claim, ret);
	return true;
}

void
nam__voucher_make(const struct nam__auth_keys *keys, const struct nam__claim *claim,
	uint8_t ret_voucher[NAM_VOUCHER_BYTES])
{
	uint32_t at = 0;

	/* A file that was read has a key. */
	(void)voucher_next(keys, claim, &at, ret_voucher);
}

bool
nam__voucher_check(const struct nam__auth_keys *keys, const struct nam__claim *claim,
	const uint8_t voucher[NAM_VOUCHER_BYTES])
{
	bool same = false;
	uint8_t ours[NAM_VOUCHER_BYTES];
	uint32_t at = 0;

	while (voucher_next(keys, claim, &at, ours))
		same |= !sodium_memcmp(ours, voucher, sizeof(ours));
	return same;
}

/* ---- proofs ---------------------------------------------------------------------------------- */

/*
 * @voucher	NULL: none
 * @reply	NULL: the client's proof
 */
static void
compute(const struct nam__auth_key *key, const uint8_t *voucher, const struct nam_hello *hello,
	const struct nam_hello *challenge, const struct nam_wire_answer *answer,
	const struct nam_hello *reply, uint8_t ret[PROOF_BYTES])
{
	crypto_auth_hmacsha512256_state state;

	(void)crypto_auth_hmacsha512256_init(&state, key->secret, sizeof(key->secret));
	add(&state, reply ? server_label : client_label, sizeof(client_label));
	add(&state, hello->data, hello->bytes);
	add_challenge(&state, challenge);
	add(&state, answer, offsetof(struct nam_wire_answer, proof));
	if (voucher)
		add(&state, voucher, NAM_VOUCHER_BYTES);
	if (reply)
		add(&state, reply->data, reply->bytes);
	(void)crypto_auth_hmacsha512256_final(&state, ret);
	sodium_memzero(&state, sizeof(state));
}

void
nam__proof_answer(const struct nam__auth_key *key, const uint8_t *voucher,
	const struct nam_hello *hello, const struct nam_hello *challenge,
	struct nam_hello *ret_answer)
{
	struct nam_wire_answer answer = { .print = key->print };
	uint8_t proof[PROOF_BYTES];

	nam__nonce_fill(answer.nonce);
	compute(key, voucher, hello, challenge, &answer, NULL, proof);
	memcpy(answer.proof, proof, sizeof(answer.proof));
	*ret_answer = (struct nam_hello){ .bytes = sizeof(answer) };
	memcpy(ret_answer->data, &answer, sizeof(answer));
}

const struct nam__auth_key *
nam__proof_check(const struct nam__auth_keys *keys, struct nam__auth_name name,
	const struct nam_hello *hello, const struct nam_hello *challenge,
	const struct nam_hello *answer)
{
	static const struct nam__auth_key unknown;
	const struct nam__claim claim = nam__claim_name(&name);
	const struct nam__auth_key *key;
	struct nam_wire_answer given;
	uint8_t proof[PROOF_BYTES], voucher[NAM_VOUCHER_BYTES];
	uint32_t at = 0;
	bool same = false;

	if (answer->bytes != sizeof(given))
		return NULL;
	memcpy(&given, answer->data, sizeof(given));
	key = nam__auth_keys_find(keys, given.print);
	name.print = given.print;
	if (!name.client_id || !NAM_GUARD(KEY_CLIENT)) {
		compute(key ? key : &unknown, NULL, hello, challenge, &given, NULL, proof);
		same = !sodium_memcmp(proof, given.proof, sizeof(given.proof));
	}
	while (name.client_id && voucher_next(keys, &claim, &at, voucher)) {
		compute(key ? key : &unknown, voucher, hello, challenge, &given, NULL, proof);
		same |= !sodium_memcmp(proof, given.proof, sizeof(given.proof));
	}
	return same || !NAM_GUARD(KEY_PROOF) ? key : NULL;
}

static void
server_proof(const struct nam__auth_key *key, const struct nam_hello *hello,
	const struct nam_hello *challenge, const struct nam_hello *answer,
	const struct nam_hello *reply, uint8_t ret[PROOF_BYTES])
{
	struct nam_wire_answer given;

	memcpy(&given, answer->data, sizeof(given));
	compute(key, NULL, hello, challenge, &given, reply, ret);
}

void
nam__proof_append(const struct nam__auth_key *key, const struct nam_hello *hello,
	const struct nam_hello *challenge, const struct nam_hello *answer, struct nam_hello *reply)
{
	server_proof(key, hello, challenge, answer, reply, reply->data + reply->bytes);
	reply->bytes += NAM_SERVER_PROOF_BYTES;
}

bool
nam__proof_take(const struct nam__auth_key *key, const struct nam_hello *hello,
	const struct nam_hello *challenge, const struct nam_hello *answer, struct nam_hello *reply)
{
	uint8_t proof[PROOF_BYTES];

	if (challenge->bytes != sizeof(struct nam_wire_challenge) ||
		reply->bytes < NAM_SERVER_PROOF_BYTES || reply->bytes > NAM_REPLY_BYTES_MAX)
		return false;
	reply->bytes -= NAM_SERVER_PROOF_BYTES;
	server_proof(key, hello, challenge, answer, reply, proof);
	return !sodium_memcmp(proof, reply->data + reply->bytes, sizeof(proof));
}
