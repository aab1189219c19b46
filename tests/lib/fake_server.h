/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_server.h -- a memory server that does what a test tells it to, one thread of this process.
 *
 * It speaks the real protocol over the real fabric.  By default it behaves; a hook may look at each
 * reply before it goes out and change, hold, repeat or drop it.
 */
#ifndef NAM_TESTS_LIB_FAKE_SERVER_H
#define NAM_TESTS_LIB_FAKE_SERVER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/fabric/fabric.h"
#include "common/layout.h"
#include "common/rpc/rpc.h"

struct fake_server;

struct fake_reply {
	struct nam_rpc_header header;
	uint8_t body[NAM_RPC_BODY_MAX];
	uint32_t copies;		/* 1; 0 drops the reply */
	bool hold;			/* until fake_server_release() */
	bool close;			/* the connection, instead of an answer */
};

/* Runs in the server's thread.  `request` is followed by its body. */
typedef void (*fake_hook_fn)(struct fake_server *server, const struct nam_rpc_header *request,
	struct fake_reply *reply);

struct fake_server_options {
	uint32_t id;
	const char *path;		/* of its socket; default: one of its own in /tmp */
	uint64_t boot;			/* default 1000 + id */
	uint32_t magic_version;		/* default: the right one */
	int32_t reject_status;		/* other than 0: every connection is rejected with it */
	uint64_t memory_bytes;		/* default 4 MiB, one region */
	uint64_t reserve_bytes;		/* default 0 */
	uint32_t regions_per_page;	/* default: all in one reply */
	uint32_t regions_count;		/* default 1; that many names for slices of the memory */
	fake_hook_fn hook;
	void *hook_arg;
};

#define FAKE_ADDRESS_BYTES 128u

/* Starts and waits until it listens.  Aborts the program on failure. */
struct fake_server *fake_server_start(const struct fake_server_options *options);
void fake_server_stop(struct fake_server *server);

const char *fake_server_address(const struct fake_server *server);
void *fake_server_hook_arg(const struct fake_server *server);

/* Between connections only: what the next welcome says. */
void fake_server_boot_set(struct fake_server *server, uint64_t boot);

/* Send what was held. */
void fake_server_release(struct fake_server *server);

/* Requests of a type that have arrived. */
uint32_t fake_server_requests(const struct fake_server *server, uint16_t type);

/* Blocks carved and not given back. */
uint32_t fake_server_blocks_out(const struct fake_server *server);

/* A word of the server's memory: of its first region, at a byte offset. */
_Atomic uint64_t *fake_server_word(const struct fake_server *server, uint64_t offset_bytes);

#endif /* NAM_TESTS_LIB_FAKE_SERVER_H */
