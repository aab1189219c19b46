/* SPDX-License-Identifier: Apache-2.0 */
/*
 * credentials.h -- a client's key.  The client proves it to each memory server, and has each server
 * prove that it knows the key, too.
 */
#ifndef NAM_COMPUTE_AUTH_CREDENTIALS_H
#define NAM_COMPUTE_AUTH_CREDENTIALS_H

#include "compute/client/client_internal.h"

/* The key of options.key or NAM_KEY, if there is one.  0 or as nam__auth_keys_read(). */
int nam__client_key_open(struct nam_client *client, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__client_key_close(struct nam_client *client);

/*
 * The voucher of the client's name, from a reply of the lead; other memory servers want it.  A
 * client without a key, or without an id, has 0 bytes of it.
 */
int nam__voucher_take(struct nam_client *client, const void *voucher,
	uint32_t bytes) NAM_MUST_CHECK;
uint32_t nam__voucher_copy(struct nam_client *client, uint8_t ret_voucher[NAM_VOUCHER_BYTES]);

/* The state of one attempt to connect. */
struct nam__shake {
	struct nam_client *client;
	const struct nam__server *server;
	const struct nam_hello *hello;
	struct nam_hello challenge, answer;
};

/* For nam_qp_options.answer. */
int nam__shake_answer(void *shake, const struct nam_hello *challenge, struct nam_hello *answer,
	struct nam_diag *diag);
/*
 * For nam_qp_options.welcome: takes the server's proof off.  0, or -NAM_E_FABRIC_DENIED: it has
 * proven nothing.
 */
int nam__shake_finish(void *shake, struct nam_hello *reply, struct nam_diag *diag);
/* The text for a memory server that denies.  Returns its code. */
int nam__denial_explain(const struct nam_client *client, const struct nam__server *server,
	struct nam_diag *diag);

#endif /* NAM_COMPUTE_AUTH_CREDENTIALS_H */
