/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peer.h -- a server of pairs that an index is compared with, and its client: one thread
 * with one connection, and as many requests under way as it is told.
 *
 * Half of a window is asked for at once, when half of it has been answered: so client and server
 * work at the same time, and neither pays a system call for each request.
 */
#ifndef NAM_BENCH_COMPARE_PEER_H
#define NAM_BENCH_COMPARE_PEER_H

#include "bench/load/check.h"
#include "child.h"
#include "protocol.h"
#include "bench/histogram.h"

#define PEER_DEPTH_MAX 4096u	/* a power of two */
#define PEER_NAME_BYTES 32u

enum transport { TRANSPORT_UNIX, TRANSPORT_TCP, TRANSPORTS_COUNT };

extern const char *const transport_names[TRANSPORTS_COUNT];

/* One turn of one contender. */
struct turn {
	uint64_t ops;
	double seconds;
	struct histogram latency;	/* in ticks */
};

struct peer_asked {
	uint64_t pair;
	uint64_t began;			/* ticks */
};

struct peer {
	const struct protocol *protocol;
	enum transport transport;
	uint64_t pairs;
	uint32_t value_bytes;
	struct findings *findings;

	struct child child;
	char name[PEER_NAME_BYTES];	/* "memcached over tcp" */
	char path[CHILD_FOLDER_BYTES + CHILD_NAME_BYTES];	/* of its socket, or */
	int port;
	char version[24];

	int fd;				/* 0: none */
	struct nam_rng rng;
	char *out, *in;
	size_t in_at, in_end;		/* what has arrived and is not parsed yet */
	struct peer_asked asked[PEER_DEPTH_MAX];	/* a ring: in order, as answers come */
	uint32_t first, under_way;
};

/* ---- compare_server.c --------------------------------------------------------------------- */

/* The name of the server's program, and its package. */
const char *peer_program(const struct protocol *protocol);

/**
 * peer_start -- start the server and connect.
 *
 * @program	its path
 * @folder	for its socket and its log
 *
 * Sets what peer->protocol, transport, pairs and value_bytes do not say.  Complains itself; returns
 * an exit code.  peer_stop() is right afterwards in any case.
 */
int peer_start(struct peer *peer, const char *program, const char *folder) NAM_MUST_CHECK;

void peer_stop(struct peer *peer);

/* ---- compare_peer.c ----------------------------------------------------------------------- */

/* Buffers for a connection that is there: peer->fd.  0 or -ENOMEM. */
int peer_open(struct peer *peer) NAM_MUST_CHECK;
void peer_close(struct peer *peer);

/* Ask for its version, which also shows that it answers.  0 or a negative code. */
int peer_ask_version(struct peer *peer) NAM_MUST_CHECK;

/*
 * Store all pairs; or GET random ones, `depth` under way, for so many seconds.  Wrong or
 * missing answers, and failures, are findings.  Both return 0, -EINTR after a signal, or a failure.
 */
int peer_load(struct peer *peer) NAM_MUST_CHECK;
int peer_get(struct peer *peer, uint32_t depth, double seconds, struct turn *ret_turn)
	NAM_MUST_CHECK;

#endif /* NAM_BENCH_COMPARE_PEER_H */
