/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proof.h -- both sides of a connection show that they know the same key.
 *
 *	client	hello		NAM_HELLO_KEY; the client's id and purpose
 *	server	challenge	its id, boot and nonce
 *	client	answer		its key's fingerprint, its nonce, its proof
 *	server	reply		the welcome, then the server's proof
 *
 * A proof is HMAC-SHA-512/256 over all bytes before it, under the key, with a label for each side.
 * So it serves for one hello, one server, one boot, one pair of nonces and one direction.
 *
 * This tells the holder that opens a connection.  It does not protect later messages: tcp is not
 * encrypted, and the number of a queue pair is in no proof.  A relay that forwards all bytes
 * unchanged is inside the connection afterwards.
 */
#ifndef NAM_COMMON_AUTH_PROOF_H
#define NAM_COMMON_AUTH_PROOF_H

#include <stdbool.h>
#include <stdint.h>

#include "common/fabric/fabric.h"
#include "keys.h"

#define NAM_NONCE_BYTES 16u
#define NAM_CLIENT_PROOF_BYTES 24u	/* the first ones of 32 */
#define NAM_SERVER_PROOF_BYTES 32u

struct nam_wire_challenge {
	uint32_t magic_version;
	uint32_t server_id;
	uint64_t boot;
	uint8_t nonce[NAM_NONCE_BYTES];
};
_Static_assert(sizeof(struct nam_wire_challenge) == 32, "wire layout");

struct nam_wire_answer {
	uint64_t print;
	uint8_t nonce[NAM_NONCE_BYTES];
	uint8_t proof[NAM_CLIENT_PROOF_BYTES];
};
_Static_assert(sizeof(struct nam_wire_answer) == NAM_HELLO_BYTES_MAX, "wire layout");

void nam__nonce_fill(uint8_t nonce[NAM_NONCE_BYTES]);

/* Client: the answer to a challenge. */
void nam__proof_answer(const struct nam__auth_key *key, const struct nam_hello *hello,
	const struct nam_hello *challenge, struct nam_hello *ret_answer);
/*
 * Memory server: the key whose holder gave the answer, or NULL.  Takes as long if the key is
 * unknown as if the proof is wrong.
 */
const struct nam__auth_key *nam__proof_check(const struct nam__auth_keys *keys,
	const struct nam_hello *hello, const struct nam_hello *challenge,
	const struct nam_hello *answer);
/* Memory server: append its proof to a reply of at most 64 bytes. */
void nam__proof_append(const struct nam__auth_key *key, const struct nam_hello *hello,
	const struct nam_hello *challenge, const struct nam_hello *answer, struct nam_hello *reply);
/* Client: whether the reply ends with a proof, which is taken off. */
bool nam__proof_take(const struct nam__auth_key *key, const struct nam_hello *hello,
	const struct nam_hello *challenge, const struct nam_hello *answer,
	struct nam_hello *reply) NAM_MUST_CHECK;

#endif /* NAM_COMMON_AUTH_PROOF_H */
