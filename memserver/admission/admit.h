/* SPDX-License-Identifier: Apache-2.0 */
/* admit.h -- connections that come, and the keys of their clients.  The listener's thread. */
#ifndef NAM_MEMSERVER_ADMISSION_ADMIT_H
#define NAM_MEMSERVER_ADMISSION_ADMIT_H

#include "common/auth/proof.h"
#include "memserver/memserver_internal.h"

/* The events of the listener, once the server serves, and before.  Both consume the request. */
void nam__admit(struct nam_server *server, const struct nam_cm_event *event);
void nam__refuse_starting(struct nam_server *server, const struct nam_cm_event *event);
/* The queue pair is gone, or never was. */
void nam__connection_free(struct nam__connection *connection);

/* ---- auth.c ---------------------------------------------------------------------------------- */

/* Whether other hosts reach the address. */
bool nam__address_is_reached(const char *address);
/* Read the key file, if there is one. */
int nam__auth_open(struct nam_server *server, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__auth_close(struct nam_server *server);
/*
 * NAM__AUTH_PASSED: the client of the event has proven its key, or needs none;
 * NAM__AUTH_CHALLENGED: the request is consumed; -NAM_E_FABRIC_DENIED: it is to be refused.
 */
enum nam__auth_result { NAM__AUTH_PASSED = 0, NAM__AUTH_CHALLENGED = 1 };
int nam__auth_pass(struct nam_server *server, const struct nam_cm_event *event,
	struct nam__proven *ret) NAM_MUST_CHECK;
/* The listener's nam_dropped_fn; its owner is the server. */
void nam__auth_dropped(void *owner, const char *peer, int why);
/*
 * With server->mutex: append the server's own proof to the welcome.  False: the key was removed
 * meanwhile.
 */
bool nam__auth_sign(const struct nam_server *server, const struct nam_cm_event *event,
	const struct nam__proven *proven, struct nam_hello *reply) NAM_MUST_CHECK;

/*
 * Count a connection to its peer and to a handler with room, which is entered.  The listener's
 * thread.  Fails with -NAM_E_LIMIT: no handler has room; -EDQUOT: the peer has its share; -EMFILE:
 * file descriptors are short; -ENOMEM.
 */
int nam__connection_place(struct nam_server *server, struct nam__connection *connection,
	const char *peer) NAM_MUST_CHECK;
/* Any thread. */
void nam__connection_leave(struct nam__connection *connection);

/*
 * Any thread, without server->mutex: what the lead gives with a claim, and whether that was given.
 * Without keys there are 0 bytes of it, and all claims are good.
 */
uint32_t nam__auth_vouch(struct nam_server *server, struct nam__claim claim,
	uint8_t *ret_voucher);
bool nam__auth_vouched(struct nam_server *server, struct nam__claim claim,
	const uint8_t *voucher, uint32_t bytes);
uint32_t nam__auth_vouch_name(struct nam_server *server, const struct nam__auth_name *name,
	uint8_t *ret_voucher);
bool nam__auth_vouched_name(struct nam_server *server, const struct nam__auth_name *name,
	const uint8_t *voucher, uint32_t bytes);

#endif /* NAM_MEMSERVER_ADMISSION_ADMIT_H */
