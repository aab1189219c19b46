/* SPDX-License-Identifier: Apache-2.0 */
/*
 * proof.h -- both sides of a connection show that they know the same key; and vouchers of names.
 *
 *	client	hello		NAM_HELLO_KEY; the client's id and purpose
 *	server	challenge	its id, boot and nonce
 *	client	answer		its key's fingerprint, its nonce, its proof
 *	server	reply		the welcome, then the server's proof
 *
 * A proof is HMAC-SHA-512/256 over all bytes before it, under the key, with a label for each side.
 * So it serves for one hello, one server, one boot, one pair of nonces and one direction.
 *
 * A hello that names a client (its id and incarnation) needs a voucher.  The lead gave it to the
 * holder of that key with the name.  It is an HMAC over both under an admin's key, which other
 * holders do not know.  The client's proof is over the voucher, too, which is not sent.  A copy of
 * the view has a voucher of the lead, too, unless an admin sends it.
 *
 * This proves which holder opens a connection, and protects no later messages.  A relay that
 * forwards all bytes unchanged is inside the connection afterwards.
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
#define NAM_VOUCHER_BYTES 16u		/* the first ones of 32 */

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

/* A client's name, given to the holder of a key; or, with no key, one that has ended. */
struct nam__auth_name {
	uint64_t print;			/* 0: the lead has fenced the client */
	uint16_t client_id;		/* 0: it has none yet, and needs no voucher */
	uint16_t incarnation;
};

/* The lead vouches for it: parts that the caller keeps. */
struct nam__claim {
	const char *label;		/* 16 bytes: another one for each kind of claim */
	struct {
		const void *data;
		uint32_t bytes;		/* 0: the parts before are all */
	} parts[3];
};

struct nam__claim nam__claim_name(const struct nam__auth_name *name);
struct nam__claim nam__claim_view(const void *head, uint32_t head_bytes, const void *members,
	uint32_t members_bytes);

void nam__nonce_fill(uint8_t nonce[NAM_NONCE_BYTES]);

/*
 * The lead: the voucher, under the first of the keys with the highest role.  Others take that of
 * each key of this role, so files may differ while keys are replaced.
 */
void nam__voucher_make(const struct nam__auth_keys *keys, const struct nam__claim *claim,
	uint8_t ret_voucher[NAM_VOUCHER_BYTES]);
bool nam__voucher_check(const struct nam__auth_keys *keys, const struct nam__claim *claim,
	const uint8_t voucher[NAM_VOUCHER_BYTES]);

/* Client: the answer to a challenge.  @voucher NULL: the hello names no client */
void nam__proof_answer(const struct nam__auth_key *key, const uint8_t *voucher,
	const struct nam_hello *hello, const struct nam_hello *challenge,
	struct nam_hello *ret_answer);
/*
 * Memory server: the key whose holder gave the answer, or NULL.  Takes as long if the key is
 * unknown as if the proof is wrong.  @name the hello's, without the print
 */
const struct nam__auth_key *nam__proof_check(const struct nam__auth_keys *keys,
	struct nam__auth_name name, const struct nam_hello *hello,
	const struct nam_hello *challenge, const struct nam_hello *answer);
/* Memory server: append its proof to a reply of at most 64 bytes. */
void nam__proof_append(const struct nam__auth_key *key, const struct nam_hello *hello,
	const struct nam_hello *challenge, const struct nam_hello *answer, struct nam_hello *reply);
/* Client: whether the reply ends with a proof, which is taken off. */
bool nam__proof_take(const struct nam__auth_key *key, const struct nam_hello *hello,
	const struct nam_hello *challenge, const struct nam_hello *answer,
	struct nam_hello *reply) NAM_MUST_CHECK;

#endif /* NAM_COMMON_AUTH_PROOF_H */
