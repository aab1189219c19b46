/* SPDX-License-Identifier: Apache-2.0 */
/* server_fixture.h -- a memory server of 1 MiB, and requests handed to its services directly. */
#ifndef NAM_TESTS_SERVER_FIXTURE_H
#define NAM_TESTS_SERVER_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/rpc/status_rpc.h"
#include "memserver/mailbox.h"

struct fixture {
	char directory[64];
	char address[96];
	struct nam_server *server;
	struct nam__connection connection;
	struct nam_diag notice, diag;
	/* As a handler has them: aligned, and exactly as long as a message may be. */
	_Alignas(8) uint8_t request[NAM_RPC_BYTES_MAX];
	_Alignas(8) uint8_t reply[NAM_RPC_BYTES_MAX];
	uint32_t reply_bytes;		/* of the body */
};

static inline void *
reply_body(struct fixture *f)
{
	return f->reply + sizeof(struct nam_rpc_header);
}

static inline void
fixture_options(struct fixture *f, struct nam_server_options *options)
{
	const char *base = getenv("TMPDIR");

	memset(f, 0, sizeof(*f));
	(void)snprintf(f->directory, sizeof(f->directory), "%s/nam-server-XXXXXX",
		base && strlen(base) < 32 ? base : "/tmp");
	assert_non_null(mkdtemp(f->directory));
	(void)snprintf(f->address, sizeof(f->address), "shm:%s/socket", f->directory);
	nam_server_options_init(options);
	options->listen = f->address;
	options->memory_bytes = 1 << 20;
	options->region_bytes = 512 << 10;
	options->pages = NAM_PAGES_4K;
}

static inline void
fixture_start(struct fixture *f, const struct nam_server_options *options)
{
	if (nam_server_start(options, &f->server, &f->notice, &f->diag))
		fail_msg("%s", f->diag.text);
	/* It has nothing to do: we do it in its place. */
	f->connection.handler = &f->server->handlers[0];
	f->connection.proven.role = NAM_ROLE_ADMIN;
}

static inline int
fixture_setup_id(void **state, uint32_t id)
{
	struct fixture *f = aligned_alloc(64, (sizeof(*f) + 63) & ~63ul);
	struct nam_server_options options;

	assert_non_null(f);
	fixture_options(f, &options);
	options.id = id;
	fixture_start(f, &options);
	*state = f;
	return 0;
}

static inline int
fixture_setup(void **state)
{
	return fixture_setup_id(state, 0);
}

static inline int
fixture_teardown(void **state)
{
	struct fixture *f = *state;

	nam_server_destroy(f->server);
	assert_int_equal(rmdir(f->directory), 0);
	free(f);
	return 0;
}

/* One request over one connection: the status of its reply. */
static inline int
call_over(struct fixture *f, struct nam__connection *connection, uint16_t type, const void *body,
	uint32_t body_bytes)
{
	struct nam_rpc_header *request = (struct nam_rpc_header *)(void *)f->request;
	const struct nam_rpc_header *reply = (const struct nam_rpc_header *)(void *)f->reply;
	uint32_t bytes;

	connection->handler = &f->server->handlers[0];
	/* As every client is where there are no keys. */
	connection->proven.role = connection->proven.role ?: NAM_ROLE_ADMIN;
	nam_rpc_header_fill(request, type, 4711, 0, body_bytes);
	if (body_bytes)
		memcpy(request + 1, body, body_bytes);
	memset(f->reply, 0xee, sizeof(f->reply));
	bytes = nam__dispatch(f->server, connection, f->request,
		(uint32_t)sizeof(*request) + body_bytes, f->reply);
	assert_int_equal(nam_rpc_check(f->reply, bytes), 0);
	assert_int_equal(reply->id, 4711);
	assert_int_equal(reply->type, type);
	f->reply_bytes = reply->body_bytes;
	if (reply->status)
		assert_int_equal(reply->body_bytes, 0);
	return reply->status;
}

static inline int
call(struct fixture *f, uint16_t type, const void *body, uint32_t body_bytes)
{
	return call_over(f, &f->connection, type, body, body_bytes);
}

/* STATUS, up to the figures of services: in the reply. */
static inline int
call_status(struct fixture *f)
{
	const struct nam_rpc_status_request request = { .first = 0 };

	return call(f, NAM_RPC_STATUS, &request, sizeof(request));
}

#endif /* NAM_TESTS_SERVER_FIXTURE_H */
