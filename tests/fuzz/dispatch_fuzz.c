/* SPDX-License-Identifier: Apache-2.0 */
/*
 * dispatch_fuzz.c -- requests to a memory server, whole messages, one after the other.
 *
 * input	which server, then messages: flags, length, bytes
 * flags	whether the envelope is put right, so that the services are reached; which
 *		connection asks; whether it closes
 */
#include "fuzz_server.h"
#include "memserver/mailbox.h"

#define CONNECTIONS 3u

enum flag {
	FLAG_MAGIC = 1,
	FLAG_LENGTH = 2,
	FLAG_TYPE = 4,
	FLAG_CLOSE = 8,
	FLAG_TREE = 0x80,		/* the body begins with a number below 256: of a tree,
					 * or a key-value store */
};

struct fixture {
	struct fuzz_server *memory;
	struct nam_server *server;
	struct nam__connection connections[CONNECTIONS];
};

static struct fixture *
fixture_new(uint32_t id)
{
	struct fixture *fixture = fuzz_memory(sizeof(*fixture));

	fixture->memory = fuzz_server_new(id);
	fixture->server = &fixture->memory->server;
	for (unsigned i = 0; i < CONNECTIONS; i++)
		fixture->connections[i].handler = &fixture->server->handlers[0];
	return fixture;
}

static void
fixture_free(struct fixture *fixture)
{
	for (unsigned i = 0; i < CONNECTIONS; i++)
		nam__membership_detach(&fixture->server->membership, &fixture->connections[i]);
	fuzz_server_free(fixture->memory);
	free(fixture);
}

/* One message, in memory of exactly its length. */
static void
ask(struct fixture *fixture, struct nam__connection *connection, unsigned flags,
	struct fuzz_input *input, uint32_t bytes)
{
	uint8_t *message = fuzz_memory(bytes), *reply = fuzz_memory(NAM_RPC_BYTES_MAX);
	struct nam_rpc_header header;
	uint32_t answered;

	fuzz_take(input, message, bytes);
	if (bytes >= sizeof(header)) {
		memcpy(&header, message, sizeof(header));
		if (flags & FLAG_MAGIC) {
			header.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION;
			header.one_way &= NAM_RPC_ONE_WAY;
			header.status = 0;
		}
		if (flags & FLAG_LENGTH)
			header.body_bytes = bytes - (uint32_t)sizeof(header);
		if (flags & FLAG_TYPE)
			header.type = (uint16_t)(1 + header.type % (NAM_RPC_TYPES_COUNT - 1));
		memcpy(message, &header, sizeof(header));
	}
	if ((flags & FLAG_TREE) && bytes >= sizeof(header) + 8)
		memset(message + sizeof(header) + 1, 0, 7);
	connection->proven.role = NAM_ROLE_ADMIN;	/* there are no keys */
	answered = nam__dispatch(fixture->server, connection, message, bytes, reply);
	if (answered > NAM_RPC_BYTES_MAX || (answered && answered < sizeof(header)))
		abort();
	/* A server's answer must be well-formed for any request. */
	if (answered && header.type && header.type < NAM_RPC_TYPES_COUNT &&
		nam_rpc_check(reply, answered))
		abort();
	free(message);
	free(reply);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct fixture *fixture = fixture_new(fuzz_u8(&input) % 2);

	for (unsigned messages = 0; input.left && messages < 200; messages++) {
		unsigned flags = fuzz_u8(&input);
		struct nam__connection *connection =
			&fixture->connections[(flags >> 4) % CONNECTIONS];
		uint32_t length = fuzz_u16(&input) % (NAM_RPC_BYTES_MAX + 1);

		ask(fixture, connection, flags, &input, length);
		nam__objects_idle(&fixture->server->trees, fixture->server);
		nam__objects_idle(&fixture->server->stores, fixture->server);
		if (flags & FLAG_CLOSE) {
			nam__membership_detach(&fixture->server->membership, connection);
			nam__trees_connection_closed(&fixture->server->trees, connection);
			*connection = (struct nam__connection){
				.handler = &fixture->server->handlers[0] };
		}
	}
	fixture_free(fixture);
	return 0;
}
