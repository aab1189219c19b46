/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_keys.h -- attackers that speak the protocol of connecting by hand, in litmus_keys.c and
 * litmus_attacks.c.
 */
#ifndef NAM_TESTS_SIM_LITMUS_KEYS_H
#define NAM_TESTS_SIM_LITMUS_KEYS_H

#include "common/auth/proof.h"
#include "common/fabric/register.h"
#include "common/rpc/frame.h"
#include "compute/auth/credentials.h"
#include "litmus.h"

/* Memory servers do not know the last one. */
enum litmus_key { APP, OTHER, READER, OPS, STRANGER, KEYS };

struct litmus_attack {
	struct nam_hello hello;
	/* The secret of one key under the name of another. */
	struct nam__auth_key key;
	bool replay;			/* the answer that is there already */
	const uint8_t *voucher;		/* for the name in the hello */
	bool reflects;			/* the challenge is its answer */
	uint32_t lacks;			/* so many bytes of the answer */
	/* It has no key, and hands the challenge to a client that is on its way to a server. */
	struct nam__shake *client;
	bool renames;			/* so that it is that server's challenge */
	uint64_t pause_ns;		/* before it answers */
	struct nam_hello challenge, answer, reply;
	struct nam_wire_welcome welcome;	/* of a rejection, too */
	bool challenged;
};

/* Of an attacker. */
struct litmus_queues {
	const struct nam_fabric_ops *ops;
	const char *address;		/* of the memory server */
	struct nam_domain *domain;
	struct nam_qp_options options;
	struct nam_qp *qp;		/* once it is admitted */
};

struct litmus_attack litmus_attack_as(enum litmus_key name, enum litmus_key secret,
	uint16_t client_id, uint16_t incarnation);
/* The nam_answer_fn of an attack. */
int litmus_attack_answer(void *attack, const struct nam_hello *challenge,
	struct nam_hello *ret_answer, struct nam_diag *diag);
void litmus_queues_open(struct litmus_queues *queues, unsigned server);
void litmus_queues_close(struct litmus_queues *queues);
/* Whether the memory server takes the connection. */
bool litmus_attack_connect(struct litmus_attack *attack, struct litmus_queues *queues);

#endif /* NAM_TESTS_SIM_LITMUS_KEYS_H */
