/* SPDX-License-Identifier: Apache-2.0 */
/*
 * handshake.h -- how a client and a memory server connect.
 *
 * A client says hello.  The listener may challenge it, and the client answers.  The listener
 * accepts or rejects, with a reply.  InfiniBand's connection manager leaves less room to the client
 * than to the listener.
 */
#ifndef NAM_COMMON_FABRIC_HANDSHAKE_H
#define NAM_COMMON_FABRIC_HANDSHAKE_H

#include <stdint.h>

#include "../error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NAM_HELLO_BYTES_MAX 48u		/* of a hello or an answer */
#define NAM_REPLY_BYTES_MAX 96u		/* of a challenge or a reply */

struct nam_hello {
	uint32_t bytes;
	uint32_t absent;		/* a reply: as its host says, nothing listens there */
	uint8_t data[NAM_REPLY_BYTES_MAX];
};

/*
 * The client's answer to a challenge: 0 with *answer, or the negative code that ends the attempt,
 * with its text in *diag (may be NULL).  Runs once for each attempt.
 */
typedef int nam_answer_fn(void *arg, const struct nam_hello *challenge, struct nam_hello *answer,
	struct nam_diag *diag);

/*
 * The client validates the reply of a listener that accepts, and may shorten it.  Returns 0, or the
 * negative code that ends the attempt, with its text in *diag (may be NULL).
 */
typedef int nam_welcome_fn(void *arg, struct nam_hello *reply, struct nam_diag *diag);

/*
 * A listener has dropped a client that was neither accepted nor rejected.  -NAM_E_FABRIC_TIMEOUT:
 * it was silent for too long, or others needed its place.  -NAM_E_FABRIC_PEER_DEAD: it has left.
 * Other codes: its message was invalid, or the host lacks memory or descriptors.
 */
typedef void nam_dropped_fn(void *owner, const char *peer, int why);

enum nam_cm_kind {
	NAM_CM_REQUEST = 1,	/* a client asks to connect: accept, reject or challenge it */
	NAM_CM_ANSWER,		/* a challenged client has answered: accept or reject it */
};

/* The results of listener_poll.  QUIET: after the timeout, a wake-up or a signal. */
enum nam_listener_result { NAM_LISTENER_QUIET = 0, NAM_LISTENER_EVENT = 1 };

struct nam_cm_request;

struct nam_cm_event {
	enum nam_cm_kind kind;
	struct nam_cm_request *request;
	struct nam_hello hello;		/* what the client sent first */
	struct nam_hello challenge, answer;	/* NAM_CM_ANSWER */
	char peer[96];			/* its process or host: "pid 4711 uid 0", "10.0.0.1" */
	int64_t pid;			/* 0: the fabric does not say; -1: of another namespace */
};

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_FABRIC_HANDSHAKE_H */
