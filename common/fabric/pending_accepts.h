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
#define NAM__ACCEPTS_SOCKET (1u << 16)	/* plus the number of a listening socket: an event */

struct nam__pending_accepts {
	int epoll_fd, wake_fd;
	uint32_t count;
	void (*greet)(struct nam_listener *listener, uint32_t socket);
	int (*hear)(struct nam_listener *listener, uint32_t number, struct nam_cm_event *event);
	struct {
		int fd;				/* -1: free */
		uint64_t until_ns;
	} greeted[NAM__GREETED_MAX];
};

int nam__pending_accepts_open(struct nam__pending_accepts *accepts) NAM_MUST_CHECK;
/* And every socket that it has accepted, not those that it listens at. */
void nam__pending_accepts_close(struct nam__pending_accepts *accepts);
/* A listening socket that does not block, of this number. */
int nam__pending_accepts_listen(struct nam__pending_accepts *accepts, int fd,
	uint32_t number) NAM_MUST_CHECK;
/* Make nam__pending_accepts_poll return.  Any thread; allowed in a signal handler. */
void nam__pending_accepts_wake(struct nam__pending_accepts *accepts);
/*
 * The provider's listener_poll: each connection goes to greet, each word of a client to hear, which
 * returns 1 once it has filled the event.
 */
int nam__pending_accepts_poll(struct nam__pending_accepts *accepts, struct nam_listener *listener,
	uint64_t timeout_ns, struct nam_cm_event *event) NAM_MUST_CHECK;
/* Accept one from there.  Its number, or -1 if there is none now. */
int nam__pending_accepts_accept(struct nam__pending_accepts *accepts, int socket_fd);
/* The socket of a greeted client, or -1. */
int nam__pending_accepts_fd(const struct nam__pending_accepts *accepts, uint32_t number);
/* Hang up. */
void nam__pending_accepts_drop(struct nam__pending_accepts *accepts, uint32_t number);
/* Hand the socket to the caller. */
int nam__pending_accepts_release(struct nam__pending_accepts *accepts, uint32_t number);

#endif /* NAM_COMMON_FABRIC_PENDING_ACCEPTS_H */
