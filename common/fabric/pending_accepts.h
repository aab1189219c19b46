/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending_accepts.h -- clients of socket listeners that are to say hello, or to answer a challenge.
 *
 * A silent client delays no other.  It is dropped when its time is up.  When places or descriptors
 * run out, the longest silent goes: of a peer that has more than its share, else of all.  One
 * thread, except for nam__socket_listener_wake().
 */
#ifndef NAM_COMMON_FABRIC_PENDING_ACCEPTS_H
#define NAM_COMMON_FABRIC_PENDING_ACCEPTS_H

#include <stdint.h>

#include "provider.h"

#define NAM__ACCEPTS_SOCKETS_MAX 4u	/* a name may have several addresses */

/* A client, from its connection until it is accepted, rejected or dropped. */
struct nam_cm_request {
	int fd;				/* -1: its queue pair has it */
	struct nam_cm_event event;	/* of what it says next, with all that was said before */
	uint64_t until_ns;		/* its next message is late then */
	/* the provider's */
	int fds[2];			/* descriptors that came with the hello */
	uint32_t fds_count;
	uint32_t got;			/* bytes of message[] */
	_Alignas(8) uint8_t message[72];
};

/* The provider's side of the handshake. */
struct nam__accepts_ops {
	/* Fills event.peer and event.pid as soon as there is a connection. */
	void (*name_peer)(struct nam_cm_request *request);
	/*
	 * A client speaks: request->event.kind says what is due.  0: the event is complete;
	 * -EAGAIN: more is to come; else hang up.
	 */
	int (*receive)(struct nam_cm_request *request);
	/* Sent without waiting for room, or a negative code.  A reply of NULL is an empty one. */
	int (*refuse)(int fd, const struct nam_hello *reply);
	int (*challenge)(int fd, const struct nam_hello *challenge);
};

/* A provider's listener, or the beginning of it. */
struct nam__pending_accepts {
	struct nam_listener pub;
	struct nam_domain *domain;
	const struct nam__accepts_ops *ops;
	int epoll_fd, wake_fd;
	int sockets[NAM__ACCEPTS_SOCKETS_MAX];	/* that it listens at */
	uint32_t sockets_count;
	uint32_t count;				/* of pending */
	struct nam_cm_request *pending[NAM__PENDING_MAX];	/* NULL: free */
};

/* @accepts	all zero */
int nam__pending_accepts_open(struct nam__pending_accepts *accepts,
	struct nam_domain *domain, const struct nam__accepts_ops *ops) NAM_MUST_CHECK;
/* Close all sockets.  The listener's owner does not learn of clients that are dropped so. */
void nam__pending_accepts_close(struct nam__pending_accepts *accepts);
/* Accept clients at a listening socket that does not block.  It becomes the listener's. */
int nam__pending_accepts_listen(struct nam__pending_accepts *accepts, int fd) NAM_MUST_CHECK;
/* With its socket and its descriptors. */
void nam__cm_request_free(struct nam_cm_request *request);

#endif /* NAM_COMMON_FABRIC_PENDING_ACCEPTS_H */
