/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth_fuzz.c -- a client and a memory server prove a key to each other, and an attacker between
 * them changes what they say.  Both take all of it as it was said, or refuse.
 *
 * input	flags; hello; how it is changed; then the same for challenge, answer, reply
 * changes	none; one byte; the length; all bytes; another message of this handshake
 */
#include "common/auth/proof.h"
#include "common/rpc/frame.h"
#include "compute/auth/credentials.h"
#include "fuzz_input.h"
#include "fuzz_keys.h"
#include "memserver/admission/admit.h"

#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define OTHER "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1eff"
#define SERVER_ID 3u
#define BOOT 77u

static const char lines[3][80] = {
	"app write " SECRET "\n",
	"ops admin " OTHER "\n",
	"app admin " OTHER "\n",
};

enum flag {
	FLAG_BARE = 1,			/* a hello of any bytes */
	FLAG_OPS = 2,			/* the client has the second key */
	FLAG_STRANGER = 4,		/* ... or one that the memory server lacks */
	FLAG_KNOWS = 8,			/* the client was connected before */
	FLAG_RESTARTED = 16,		/* ... to an earlier life of the memory server */
	FLAG_MAILBOX = 32,		/* a longer reply */
	FLAG_VOUCHED = 64,		/* the lead gave the name in the hello to this client */
};

static uint64_t now, words;

static uint64_t
now_ns(void)
{
	return now;
}

static uint64_t
entropy(void)
{
	return ++words;
}

/* ---- the memory server ----------------------------------------------------------------------- */

static struct nam_hello challenged;

static void
challenge(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *said)
{
	(void)listener;
	(void)request;
	challenged = *said;
}

static struct nam_server *
server_of(void)
{
	static const struct nam_fabric_ops ops = { .challenge = challenge };
	static const struct nam_env env = { .now_ns = now_ns, .entropy = entropy };
	static struct nam_server *server;
	struct fuzz_key_file file;
	struct nam_diag diag;

	if (server)
		return server;
	nam_env_install(&env);
	file = fuzz_key_file_open(lines, 0);
	if (dprintf(file.fd, "%s%s", lines[0], lines[1]) < 0)
		abort();
	server = fuzz_memory(sizeof(*server));
	server->options.id = SERVER_ID;
	server->options.keys = file.path;
	server->boot = BOOT;
	server->ops = &ops;
	if (pthread_mutex_init(&server->mutex, NULL) || nam__auth_open(server, &diag))
		abort();
	server->options.keys = "there";
	close(file.fd);
	return server;
}

/* ---- the client ------------------------------------------------------------------------------ */

static struct nam_client *
client_of(unsigned key)
{
	static struct nam_client *clients[3];
	struct nam_client_options options;
	struct fuzz_key_file file;
	struct nam_diag diag;

	if (clients[key])
		return clients[key];
	file = fuzz_key_file_open(lines[key], strlen(lines[key]));
	nam_client_options_init(&options);
	options.key = file.path;
	clients[key] = nam__client_new(&options);
	if (!clients[key] || nam__client_key_open(clients[key], &diag))
		abort();
	close(file.fd);
	return clients[key];
}

static struct nam_hello
hello_of(struct fuzz_input *input, unsigned flags)
{
	struct nam_wire_hello wire = {
		.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION,
		.flags = NAM_HELLO_KEY,
	};
	struct nam_hello hello = { .bytes = fuzz_u8(input) % (NAM_HELLO_BYTES_MAX + 1) };

	fuzz_take(input, hello.data, hello.bytes);
	if (flags & FLAG_BARE)
		return hello;
	if (hello.bytes < sizeof(wire))
		hello.bytes = sizeof(wire);
	memcpy(hello.data, &wire, sizeof(wire));
	return hello;
}

/* ---- the attacker ---------------------------------------------------------------------------- */

struct shake {
	struct nam_hello hello, challenge, answer, reply;
};

enum change { NONE, BYTE, LENGTH, ALL, ANOTHER, CHANGES };

/* A message, as the other side hears it; providers see to lengths. */
static struct nam_hello
hear(const struct shake *shake, const struct nam_hello *said, uint32_t max,
	struct fuzz_input *input)
{
	const struct nam_hello *others[] = { &shake->hello, &shake->challenge, &shake->answer,
		&shake->reply };
	struct nam_hello heard = *said;
	uint8_t *byte;

	switch (fuzz_u8(input) % CHANGES) {
	case BYTE:
		byte = &heard.data[fuzz_u8(input) % max];
		*byte ^= fuzz_u8(input);
		break;
	case LENGTH:
		heard.bytes = fuzz_u8(input) % (max + 1);
		break;
	case ALL:
		heard.bytes = fuzz_u8(input) % (max + 1);
		fuzz_take(input, heard.data, heard.bytes);
		break;
	case ANOTHER:
		heard = *others[fuzz_u8(input) % 4];
		heard.bytes = heard.bytes < max ? heard.bytes : max;
		break;
	default:
		break;
	}
	return heard;
}

static bool
same(const struct nam_hello *a, const struct nam_hello *b)
{
	return a->bytes == b->bytes && !memcmp(a->data, b->data, a->bytes);
}

/* ---- the handshake --------------------------------------------------------------------------- */

/* The server's reply: with a proof if it admits the client. */
static bool
admit(struct nam_server *server, const struct nam_cm_event *event, unsigned flags,
	struct nam_hello *reply)
{
	bool known = !(flags & FLAG_STRANGER), ops = flags & FLAG_OPS;
	struct nam__proven proven;

	*reply = (struct nam_hello){ .bytes = sizeof(struct nam_wire_welcome) };
	if (flags & FLAG_MAILBOX)
		reply->bytes += (uint32_t)sizeof(struct nam_wire_mailbox_welcome);
	if (nam__auth_pass(server, event, &proven)) {
		if (proven.role != NAM_ROLE_NONE)
			abort();
		return false;
	}
	if (!known || proven.role != (ops ? NAM_ROLE_ADMIN : NAM_ROLE_WRITE) ||
		!nam__auth_sign(server, event, &proven, reply))
		abort();
	return true;
}

/* Up to the server's challenge, which comes only to a hello that says that there is a key. */
static bool
handshake_begin(struct nam_server *server, const struct nam_cm_event *event)
{
	struct nam__proven proven;
	int rc;

	challenged.bytes = 0;
	rc = nam__auth_pass(server, event, &proven);
	if (rc > 0 ? rc != NAM__AUTH_CHALLENGED : proven.role != NAM_ROLE_NONE)
		abort();
	return rc > 0;
}

/* The client has the name in its hello.  False: without the voucher for it. */
static bool
name(struct nam_server *server, struct nam_client *client, const struct nam_hello *hello,
	unsigned flags)
{
	struct nam_wire_hello wire;
	struct nam__auth_name name = { client->key->keys[0].print, 0, 0 };

	memcpy(&wire, hello->data, sizeof(wire));
	client->id = name.client_id = wire.client_id;
	name.incarnation = wire.incarnation;
	memset(client->voucher, 0, sizeof(client->voucher));
	if (flags & FLAG_VOUCHED && nam__auth_vouch_name(server, &name, client->voucher) !=
			NAM_VOUCHER_BYTES)
		abort();
	return flags & FLAG_VOUCHED || !wire.client_id;
}

static void
shake_hands(struct nam_server *server, struct nam__shake *client, struct shake *said,
	unsigned flags, struct fuzz_input *input)
{
	struct nam_cm_event event = { .kind = NAM_CM_REQUEST, .peer = "there" };
	struct nam_diag diag = { "" };
	bool begun, whole, answered, admitted = false;
	bool may_come = name(server, client->client, &said->hello, flags) &&
		!(flags & FLAG_STRANGER);
	struct nam_hello heard;

	event.hello = hear(said, &said->hello, NAM_HELLO_BYTES_MAX, input);
	begun = handshake_begin(server, &event);
	said->challenge = challenged;
	heard = hear(said, &said->challenge, NAM_REPLY_BYTES_MAX, input);
	whole = begun && same(&event.hello, &said->hello) && same(&heard, &said->challenge);
	answered = !nam__shake_answer(client, &heard, &said->answer, &diag);
	if (!answered && (!diag.text[0] || (whole && !(flags & FLAG_RESTARTED))))
		abort();
	event.answer = hear(said, &said->answer, NAM_HELLO_BYTES_MAX, input);
	event.kind = NAM_CM_ANSWER;
	event.challenge = said->challenge;
	whole &= answered && same(&event.answer, &said->answer);
	if (begun)
		admitted = admit(server, &event, flags, &said->reply);
	if (admitted != (whole && may_come))
		abort();
	heard = hear(said, &said->reply, NAM_REPLY_BYTES_MAX, input);
	whole = admitted && same(&heard, &said->reply);
	if (!nam__shake_finish(client, &heard, &diag) != whole || (!whole && !diag.text[0]))
		abort();
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct nam_server *server = server_of();
	struct nam__server known = { .address = "there" };
	unsigned flags = fuzz_u8(&input);
	struct shake said = { .hello = hello_of(&input, flags) };
	struct nam__shake client = {
		.client = client_of(flags & FLAG_STRANGER ? 2 : flags & FLAG_OPS ? 1 : 0),
		.server = &known,
		.hello = &said.hello,
	};

	if (!(flags & FLAG_KNOWS))
		flags &= ~(unsigned)FLAG_RESTARTED;
	else
		known.boot = flags & FLAG_RESTARTED ? BOOT - 1 : BOOT;
	known.id = SERVER_ID;
	/* Failures of an earlier input are no longer counted. */
	now += 2000000000;
	shake_hands(server, &client, &said, flags, &input);
	return 0;
}
