/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auth.c -- the keys of clients: challenge, check, and the end of those whose key was removed.  A
 * client without a key, with an unknown key or with a wrong proof gets one and the same answer.
 */
#include "admit.h"
#include "common/fabric/inet.h"
#include "memserver/move/host.h"

/*
 * If a peer fails so often within a second, only its answers that name a known key count in the
 * rest of it.  No more failures are logged.  Many peers together fill no log, either.
 */
#define STRIKES_MAX 16u
#define STRIKES_MAX_OF_ALL 256u
#define STRIKES_NS 1000000000ull
#define STRIKES_PEERS 256u		/* peers share places, by hash */

struct nam__strike {
	uint64_t since_ns;
	uint32_t count;
};

struct nam__strikes {
	uint64_t secret;		/* so that no peer chooses whose place it shares */
	struct nam__strike all, of[STRIKES_PEERS];
};

bool
nam__address_is_reached(const char *address)
{
	const char *rest;
	const struct nam_fabric_ops *ops = nam_fabric_find(address, &rest);

	return strcmp(ops->name, "shm") != 0 && strcmp(ops->name, "sim") != 0 &&
		nam__inet_is_reached(ops->name, address);
}

int
nam__auth_open(struct nam_server *server, struct nam_diag *diag)
{
	struct nam_diag cause = { "" };
	int rc;

	server->strikes = calloc(1, sizeof(*server->strikes));
	if (!server->strikes)
		return nam_diag_set(diag, -ENOMEM, "no memory");
	server->strikes->secret = nam_entropy() | 1;
	if (!server->options.keys)
		return 0;
	rc = nam__auth_keys_read(server->options.keys, false, &server->keys, &cause);
	return rc ? nam_diag_set(diag, rc, "keys: %s", cause.text) : 0;
}

void
nam__auth_close(struct nam_server *server)
{
	nam__auth_keys_free(server->keys);
	free(server->strikes);
}

static struct nam__strike *
of_this_second(struct nam__strike *strike)
{
	uint64_t now = nam_now_ns();

	if (now - strike->since_ns > STRIKES_NS)
		*strike = (struct nam__strike){ .since_ns = now };
	return strike;
}

static struct nam__strike *
strike_of(const struct nam_server *server, const char *peer)
{
	struct nam__strikes *strikes = server->strikes;
	uint64_t place = nam_hash64(peer, strlen(peer)) * strikes->secret >> 32;

	return of_this_second(&strikes->of[place % STRIKES_PEERS]);
}

static void
log_strike(const struct nam_server *server, const char *peer, const char *reason)
{
	struct nam__strike *strike = strike_of(server, peer);
	struct nam__strike *all = of_this_second(&server->strikes->all);
	char quoted[128];

	if (strike->count++ >= STRIKES_MAX || all->count++ >= STRIKES_MAX_OF_ALL)
		return;
	nam__log(server, NAM_LOG_WARN, "refused", "peer=%s reason=%s%s",
		nam_log_quote(peer, quoted, sizeof(quoted)), reason,
		all->count == STRIKES_MAX_OF_ALL ? " next=silence_of_all" :
		strike->count == STRIKES_MAX ? " next=silence" : "");
}

static int
deny(struct nam_server *server, const struct nam_cm_event *event, const char *reason)
{
	/* The reason is for the operator only. */
	log_strike(server, event->peer, reason);
	return -NAM_E_FABRIC_DENIED;
}

/* A client that leaves by itself is no news. */
void
nam__auth_dropped(void *owner, const char *peer, int why)
{
	struct nam_server *server = owner;

	nam__count_refusal(server, why);
	if (nam_err_is(why, NAM_E_FABRIC_TIMEOUT))
		log_strike(server, peer, "unfinished");
}

static int
challenge(struct nam_server *server, const struct nam_cm_event *event)
{
	struct nam_wire_challenge wire = {
		.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION,
		.server_id = server->options.id,
		.boot = server->boot,
	};
	struct nam_hello out = { .bytes = sizeof(wire) };

	nam__nonce_fill(wire.nonce);
	memcpy(out.data, &wire, sizeof(wire));
	server->ops->challenge(server->listener, event->request, &out);
	return NAM__AUTH_CHALLENGED;
}

/* M18: whether the answer proves a key, and that the name in the hello was given to its holder. */
static bool
prove(struct nam_server *server, const struct nam_cm_event *event,
	const struct nam_wire_hello *hello, struct nam__proven *ret)
{
	const struct nam__auth_name name = { 0, hello->client_id, hello->incarnation };
	bool tired = strike_of(server, event->peer)->count >= STRIKES_MAX;
	const struct nam__auth_key *key = NULL, *named;
	struct nam_wire_answer answer = { .print = 0 };

	if (event->answer.bytes == sizeof(answer))
		memcpy(&answer, event->answer.data, sizeof(answer));
	NAM__SCOPED_LOCK(&server->mutex);
	named = nam__auth_keys_find(server->keys, answer.print);
	if (!tired || named)
		key = nam__proof_check(server->keys, name, &event->hello, &event->challenge,
			&event->answer);
	if (key)
		*ret = (struct nam__proven){ key->print, key->role };
	return key;
}

int
nam__auth_pass(struct nam_server *server, const struct nam_cm_event *event, struct nam__proven *ret)
{
	struct nam_wire_hello wire = { .magic_version = 0 };

	*ret = (struct nam__proven){ 0, NAM_ROLE_ADMIN };
	if (!server->options.keys)
		return NAM__AUTH_PASSED;
	ret->role = NAM_ROLE_NONE;
	if (event->hello.bytes >= sizeof(wire))
		memcpy(&wire, event->hello.data, sizeof(wire));
	/* The admission says that it is of another version, or malformed. */
	if (wire.magic_version != (NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION))
		return NAM__AUTH_PASSED;
	if (!(wire.flags & NAM_HELLO_KEY))
		return deny(server, event, "no_key");
	if (event->kind == NAM_CM_REQUEST)
		return challenge(server, event);
	return prove(server, event, &wire, ret) ? NAM__AUTH_PASSED :
		deny(server, event, "wrong_key");
}

bool
nam__auth_sign(const struct nam_server *server, const struct nam_cm_event *event,
	const struct nam__proven *proven, struct nam_hello *reply)
{
	const struct nam__auth_key *key;

	if (!server->keys)
		return true;
	key = nam__auth_keys_find(server->keys, proven->print);
	if (!key || key->role != proven->role)
		return false;
	nam__proof_append(key, &event->hello, &event->challenge, &event->answer, reply);
	return true;
}

/* With both mutexes: the connection ends, and its client is refused from now on. */
static void
expel(struct nam__membership *membership, struct nam__connection *connection)
{
	struct nam__member *member = nam__member_find(membership, connection->client_id,
		connection->incarnation);

	if (member)
		nam__member_fence(membership, member);
	if (connection->client_id)
		nam__newest_note(membership, connection->client_id, connection->incarnation, true);
	nam__connection_fence(connection);
}

/* The caller holds the mutex.  Connections of another role come again with that one. */
static void
expel_others(struct nam_server *server)
{
	struct nam__membership *membership = &server->membership;
	bool lasting = server->domain->limits.caps & NAM_CAP_LASTING;
	struct nam__connection *connection;
	const struct nam__auth_key *key;

	NAM__SCOPED_LOCK(&membership->mutex);
	LIST_FOREACH(connection, &server->connections, link) {
		key = nam__auth_keys_find(server->keys, connection->proven.print);
		if (key && key->role == connection->proven.role)
			continue;
		nam__log(server, NAM_LOG_WARN, "key_removed", "client=%u incarnation=%u %s",
			connection->client_id, connection->incarnation,
			lasting ? "remedy=\"end its process: it has the memory mapped\"" :
				"fenced=1");
		if (!key || key->role < connection->proven.role)
			connection->proven.role = key ? key->role : NAM_ROLE_NONE;
		if (!lasting)
			expel(membership, connection);
	}
}

static int
reload(struct nam_server *server, void *arg)
{
	return nam_server_reload_keys(server, arg);
}

int
nam_server_reload_keys(struct nam_server *server, struct nam_diag *diag)
{
	struct nam__auth_keys *keys, *old;
	int rc;

	if (!server->options.keys)
		return 0;
	rc = nam__auth_keys_read(server->options.keys, false, &keys, diag);
	if (rc)
		return rc;
	pthread_mutex_lock(&server->mutex);
	old = server->keys;
	server->keys = keys;
	expel_others(server);
	pthread_mutex_unlock(&server->mutex);
	nam__auth_keys_free(old);
	return nam__hosted_each(server, reload, diag);
}
