/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pending_accepts.h -- clients of socket listeners that have connected and not yet said hello.
 *
 * A silent client delays no other.  It is dropped when its time is up, or, the longest silent
 * first, when places or descriptors run out.  One thread, except for nam__pending_accepts_wake().
 */
#ifndef NAM_COMMON_FABRIC_PENDING_ACCEPTS_H
#define NAM_COMMON_FABRIC_PENDING_ACCEPTS_H

#include <stdint.h>

#include "fabric.h"

#define NAM__GREETED_MAX 128u
#define NAM__GREETED_NS 5000000000ull	/* within which a client says hello */
#define NAM__ACCEPTS_SOCKETS_MAX 4u	/* a name may have several addresses */

/* A client that was accepted and is to say hello. */
struct nam__greeted {
	int fd;				/* -1: free */
	uint32_t got;			/* bytes of hello[]; both are the provider's */
	uint64_t until_ns;
	_Alignas(8) uint8_t hello[64];
};

struct nam__pending_accepts {
	int epoll_fd, wake_fd;
	int sockets[NAM__ACCEPTS_SOCKETS_MAX];	/* that it listens at */
	uint32_t sockets_count;
	uint32_t count;				/* of greeted clients */
	struct nam__greeted greeted[NAM__GREETED_MAX];
};

/*
 * A client has spoken.  1: the event is filled, and the socket is the event's request's; 0: more is
 * to come; negative: hang up.
 */
typedef int (*nam__hear_fn)(struct nam__greeted *client, struct nam_cm_event *event);

int nam__pending_accepts_open(struct nam__pending_accepts *accepts) NAM_MUST_CHECK;
/* And every socket of it. */
void nam__pending_accepts_close(struct nam__pending_accepts *accepts);
/* Accept clients at a listening socket that does not block.  It becomes the listener's. */
int nam__pending_accepts_listen(struct nam__pending_accepts *accepts, int fd) NAM_MUST_CHECK;
/* Make nam__pending_accepts_poll return.  Any thread; allowed in a signal handler. */
void nam__pending_accepts_wake(struct nam__pending_accepts *accepts);
/* The provider's listener_poll. */
int nam__pending_accepts_poll(struct nam__pending_accepts *accepts, nam__hear_fn hear,
	uint64_t timeout_ns, struct nam_cm_event *event) NAM_MUST_CHECK;

#endif /* NAM_COMMON_FABRIC_PENDING_ACCEPTS_H */
