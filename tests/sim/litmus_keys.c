/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_keys.c -- scenes of clients with keys, and of attackers that lack one, or take what is not
 * theirs.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "compute/admin.h"
#include "compute/client/cluster_view.h"
#include "compute/view/fence.h"
#include "compute/worker/worker.h"
#include "litmus_keys.h"
#include "litmus_steward.h"
#include "memserver/memserver_internal.h"

#define KEY 115u
#define STEWARD_MS 1000u

/* ---- key files ------------------------------------------------------------------------------- */

static const struct {
	const char *name, *role;
} holders[KEYS] = { { "app", "write" }, { "other", "write" }, { "reader", "read" },
	{ "ops", "admin" }, { "stranger", "admin" } };

static char folder[] = "/tmp/nam-litmus-XXXXXX";
static char server_file[64], fewer_file[64], client_files[KEYS][64];

/* The secret of key 2 is 000...2. */
static void
write_keys(const char *path, unsigned first, unsigned last)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	FILE *file = fd < 0 ? NULL : fdopen(fd, "w");

	if (!file)
		sim_die("%s cannot be written", path);
	for (unsigned i = first; i <= last; i++)
		(void)fprintf(file, "%s %s %064x\n", holders[i].name, holders[i].role, i);
	if (fclose(file))
		sim_die("%s cannot be written", path);
}

void
litmus_keys_make(struct sim_cluster *cluster)
{
	memcpy(folder + sizeof(folder) - 7, "XXXXXX", 6);
	if (!mkdtemp(folder))
		sim_die("no folder for keys");
	(void)snprintf(server_file, sizeof(server_file), "%s/keys", folder);
	write_keys(server_file, APP, OPS);
	(void)snprintf(fewer_file, sizeof(fewer_file), "%s/fewer", folder);
	write_keys(fewer_file, OTHER, OPS);
	for (unsigned i = 0; i < KEYS; i++) {
		(void)snprintf(client_files[i], sizeof(client_files[i]), "%s/%s", folder,
			holders[i].name);
		write_keys(client_files[i], i, i);
	}
	cluster->keys = server_file;
}

void
litmus_keys_remove(void)
{
	(void)unlink(server_file);
	(void)unlink(fewer_file);
	for (unsigned i = 0; i < KEYS; i++)
		(void)unlink(client_files[i]);
	(void)rmdir(folder);
}

void
litmus_keys_choose(struct sim_cluster *cluster, enum who who)
{
	cluster->key = client_files[who == DIRECTOR ? OPS : who == A ? APP :
		who == C ? READER : OTHER];
}

void
litmus_keys_withdraw(const struct sim_cluster *cluster)
{
	struct nam_diag diag = { "" };

	write_keys(server_file, OTHER, OPS);
	for (uint32_t i = 0; i < cluster->count; i++)
		if (nam_server_reload_keys(cluster->servers[i].server, &diag))
			sim_die("%s", diag.text);
}

static struct nam__auth_keys *
keys_of(enum litmus_key key)
{
	struct nam__auth_keys *keys;
	struct nam_diag diag = { "" };

	if (nam__auth_keys_read(client_files[key], false, &keys, &diag))
		sim_die("%s", diag.text);
	return keys;
}

/* ---- an attacker that speaks the protocol by hand -------------------------------------------- */

struct litmus_attack
litmus_attack_as(enum litmus_key name, enum litmus_key secret, uint16_t client_id,
	uint16_t incarnation)
{
	struct nam__auth_keys *known = keys_of(name), *used = keys_of(secret);
	const struct nam_wire_hello wire = {
		.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION,
		.client_id = client_id,
		.incarnation = incarnation,
		.flags = NAM_HELLO_KEY,
	};
	struct litmus_attack attack = { .hello.bytes = sizeof(wire), .key = used->keys[0] };

	memcpy(attack.hello.data, &wire, sizeof(wire));
	attack.key.print = known->keys[0].print;
	nam__auth_keys_free(known);
	nam__auth_keys_free(used);
	return attack;
}

static int
relay(struct litmus_attack *attack, struct nam_hello *ret_answer, struct nam_diag *diag)
{
	struct nam_hello shown = attack->challenge;
	struct nam_wire_challenge wire;

	memcpy(&wire, shown.data, sizeof(wire));
	if (attack->renames) {
		wire.server_id = attack->client->server->id;
		wire.boot = attack->client->server->boot;
	}
	memcpy(shown.data, &wire, sizeof(wire));
	return nam__shake_answer(attack->client, &shown, ret_answer, diag);
}

int
litmus_attack_answer(void *arg, const struct nam_hello *challenge, struct nam_hello *ret_answer,
	struct nam_diag *diag)
{
	struct litmus_attack *attack = arg;

	attack->challenged = true;
	attack->challenge = *challenge;
	if (attack->pause_ns)
		nam_sleep_ns(attack->pause_ns);
	if (attack->client)
		return relay(attack, ret_answer, diag);
	if (!attack->replay)
		nam__proof_answer(&attack->key, attack->voucher, &attack->hello, challenge,
			&attack->answer);
	*ret_answer = attack->answer;
	if (attack->reflects)
		memcpy(ret_answer->data, challenge->data, challenge->bytes);
	ret_answer->bytes -= attack->lacks;
	return 0;
}

void
litmus_queues_open(struct litmus_queues *queues, unsigned server)
{
	const char *address = litmus.cluster.servers[server].address;
	const struct nam_fabric_ops *ops = nam_fabric_find(address, NULL);
	const struct nam_fabric_options fabric = { .address = address };
	struct nam_diag diag = { "" };

	*queues = (struct litmus_queues){ .ops = ops, .address = address };
	if (ops->domain_open(&fabric, &queues->domain, &diag) ||
		ops->cq_create(queues->domain, 64, &queues->options.cq) ||
		ops->rq_create(queues->domain, queues->options.cq, 16, &queues->options.rq))
		sim_die("the attacker has no queues: %s", diag.text);
}

void
litmus_queues_close(struct litmus_queues *queues)
{
	if (queues->qp)
		queues->ops->qp_destroy(queues->qp);
	queues->ops->rq_destroy(queues->options.rq);
	queues->ops->cq_destroy(queues->options.cq);
	queues->ops->domain_close(queues->domain);
}

bool
litmus_attack_connect(struct litmus_attack *attack, struct litmus_queues *queues)
{
	struct nam_hello *reply = &attack->reply;
	struct nam_diag diag = { "" };
	int rc;

	attack->challenged = false;
	queues->options.answer = litmus_attack_answer;
	queues->options.answer_arg = attack;
	rc = queues->ops->connect(queues->domain, queues->address, &attack->hello,
		&queues->options, reply, &queues->qp, &diag);
	memset(&attack->welcome, 0, sizeof(attack->welcome));
	if (reply->bytes >= sizeof(attack->welcome))
		memcpy(&attack->welcome, reply->data, sizeof(attack->welcome));
	return !rc;
}

/* Whether the memory server takes the connection, which ends at once. */
static bool
admitted(struct litmus_attack *attack, unsigned server)
{
	struct litmus_queues queues;
	bool is_admitted;

	litmus_queues_open(&queues, server);
	is_admitted = litmus_attack_connect(attack, &queues);
	litmus_queues_close(&queues);
	return is_admitted;
}

/* All failures look alike, and tell nothing of the server. */
static void
expect_refused(struct litmus_attack *attack, unsigned server, const char *what)
{
	const struct nam_wire_welcome plain = {
		.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION,
		.status = -NAM_E_FABRIC_DENIED,
	};

	if (admitted(attack, server))
		litmus_fail("%s is admitted", what);
	else if (memcmp(&attack->welcome, &plain, sizeof(plain)) != 0)
		litmus_fail("%s hears more than others: status %d, server %u", what,
			attack->welcome.status, attack->welcome.server_id);
}

/* ---- scenes ---------------------------------------------------------------------------------- */

/* Actors with keys work; a client without one, and one of another cluster's, does not come. */
static void
come_without(struct actor *self)
{
	const char *mine = litmus.cluster.key;
	const char *others[] = { NULL, client_files[STRANGER] };
	struct nam_client *client;
	struct nam_diag diag;

	(void)self;
	for (unsigned i = 0; i < 2; i++) {
		int rc;

		litmus.cluster.key = others[i];
		rc = sim_client_try(&litmus.cluster, litmus.cluster.list, "other", &client, &diag);
		litmus.cluster.key = mine;
		if (rc != -NAM_E_FABRIC_DENIED)
			litmus_fail("a client with %s key: %s", i ? "a stranger's" : "no",
				nam_err_name(rc));
		if (!rc)
			nam_client_close(client);
	}
	litmus_insert(self, KEY);
	litmus_expect(self, KEY, 0);
}

/* The fingerprint is no secret: each connection shows it. */
static void
forge(struct actor *self)
{
	struct litmus_attack good = litmus_attack_as(APP, APP, 0, 0), attack;

	(void)self;
	if (!admitted(&good, 1))
		litmus_fail("the holder of a key is refused: status %d", good.welcome.status);
	attack = litmus_attack_as(APP, STRANGER, 0, 0);
	expect_refused(&attack, 1, "a client that knows a fingerprint");
	attack = litmus_attack_as(STRANGER, STRANGER, 0, 0);
	expect_refused(&attack, 1, "a client of an unknown key");
	attack = litmus_attack_as(APP, APP, 0, 0);
	attack.reflects = true;
	expect_refused(&attack, 1, "a challenge as its own answer");
	attack = litmus_attack_as(APP, APP, 0, 0);
	attack.lacks = 1;
	expect_refused(&attack, 1, "an answer that lacks a byte");
	/* An answer that was good once, again; at the same server, and at another one. */
	attack = good;
	attack.replay = true;
	expect_refused(&attack, 1, "an answer that was given before");
	expect_refused(&attack, 0, "an answer for another memory server");
	/* A relay would have to change the purpose of a connection, which the proof has in it. */
	attack = good;
	attack.hello.data[offsetof(struct nam_wire_hello, flags)] |= NAM_HELLO_PROBE;
	attack.replay = true;
	expect_refused(&attack, 1, "an answer with another hello");
	if (!attack.challenged)
		litmus_fail("no challenge");
}

/* An attacker between clients and memory servers, which has no key. */
static void
relay_between(struct actor *self)
{
	struct nam_client *client = self->client;
	struct litmus_attack attack = litmus_attack_as(STRANGER, STRANGER, 0, 0);
	struct nam__shake shake = { .client = client, .hello = &attack.hello };
	struct nam_hello reply;
	struct nam_diag diag;

	attack.client = &shake;
	/* If it changes nothing, it is as good as a wire. */
	shake.server = &client->servers[client->slot_of_id[0]];
	if (!admitted(&attack, 0))
		litmus_fail("a client is refused by the server that it means");
	reply = attack.reply;
	if (nam__shake_finish(&shake, &reply, &diag))
		litmus_fail("a client refuses the server that it means: %s", diag.text);
	attack.reply.data[offsetof(struct nam_wire_welcome, regions_count)] ^= 1;
	if (!nam__shake_finish(&shake, &attack.reply, &diag))
		litmus_fail("a client takes a welcome that was changed");
	/* The client is on its way to server 1, and the attacker hands it on to server 0. */
	shake.server = &client->servers[client->slot_of_id[1]];
	if (admitted(&attack, 0))
		litmus_fail("a client proves its key to another server than it means");
	attack.renames = true;
	expect_refused(&attack, 0, "an answer to a challenge that named another server");
	litmus_expect(self, KEY, -NAM_E_NOTFOUND);
}

/*
 * Another holder's client id, at the lead and at another memory server, with its own voucher and
 * with the other one's.  And a name that no client has yet, which would make its own client old.
 */
static void
take_name(struct actor *self)
{
	const struct actor *other = &litmus.actors[A];
	const uint8_t *vouchers[] = { NULL, self->client->voucher, other->client->voucher };
	struct litmus_attack attack;

	litmus_await(ONE);
	for (unsigned i = 0; i < 6; i++) {
		attack = litmus_attack_as(OTHER, OTHER, other->id, other->incarnation);
		attack.voucher = vouchers[i / 2];
		expect_refused(&attack, i % 2, "a client with the id of another");
	}
	attack = litmus_attack_as(OTHER, OTHER, self->id, (uint16_t)(self->incarnation + 1));
	attack.voucher = self->client->voucher;
	expect_refused(&attack, 1, "a client with an incarnation that it was not given");
	attack = litmus_attack_as(APP, APP, other->id, other->incarnation);
	attack.voucher = other->client->voucher;
	for (unsigned server = 0; server < 2; server++)
		if (!admitted(&attack, server))
			litmus_fail("the holder of the client's key is refused");
	/* And a client that is alive, or does not exist yet, has not ended. */
	for (uint16_t i = 0; i < 2; i++) {
		const struct nam_rpc_fence_request request = { .step = NAM_RPC_FENCE_CLOSE,
			.client_id = other->id, .incarnation = (uint16_t)(other->incarnation + i) };
		int rc = nam_rpc_call(self->worker, self->client->slot_of_id[1], NAM_RPC_FENCE,
			&request, sizeof(request), NULL, NULL);

		if (rc != -NAM_E_FABRIC_DENIED)
			litmus_fail("a writer closes another client's queue pairs: %s",
				nam_err_name(rc));
	}
	litmus_expect(self, KEY, -NAM_E_NOTFOUND);
	litmus.flags[TWO] = true;
}

/* Its voucher is of an admin's key that was replaced: the lead gives it another one. */
static void
keep_name(struct actor *self)
{
	struct nam_worker *worker;

	litmus_expect(self, KEY, -NAM_E_NOTFOUND);
	self->client->voucher[0] ^= 1;
	worker = sim_worker(self->client);
	if (worker)
		nam_worker_close(worker);
	else if (!nam_sim_zombie())
		litmus_fail("a client with an old voucher is refused");
	litmus.flags[ONE] = true;
	litmus_await(TWO);
}

/* Actors have a writer's key. */
static void
exceed(struct actor *self)
{
	const struct actor *other = &litmus.actors[A];
	struct nam_diag diag = { "" };
	uint32_t state = NAM_CLIENT_UNKNOWN;
	uint64_t term = 0;
	int rc;

	litmus_await(ONE);
	rc = nam__cluster_view_steward(self->worker, self->client->catalog_slot,
		NAM_RPC_STEWARD_ACQUIRE, 0, STEWARD_MS, &term);
	if (rc != -NAM_E_FABRIC_DENIED)
		litmus_fail("a writer becomes the steward: %s", nam_err_name(rc));
	rc = nam__client_fence(self->worker, NULL, other->id, other->incarnation, 0,
		LITMUS_TIMEOUT_NS, &state, &diag);
	if (rc != -NAM_E_FABRIC_DENIED && !(self->client->caps & NAM_CAP_LASTING))
		litmus_fail("a writer fences a living client: %s", nam_err_name(rc));
	litmus.flags[TWO] = true;
}

/* A writer's copy of the view has the largest term, and the lead elsewhere. */
static void
forge_copy(struct actor *self)
{
	const uint32_t slot = self->client->slot_of_id[1];
	const struct nam_view_head *held = &litmus.cluster.servers[1].server->membership.view.head;
	const struct nam_view_head before = *held;
	struct nam__cluster_view *view = NULL;
	int rc = nam__cluster_view_get(self->worker, slot, &view);

	if (!rc) {
		view->head.number = view->head.term = UINT64_MAX;
		(void)snprintf(view->members[0].address, sizeof(view->members[0].address),
			"sim:nowhere");
		rc = nam__cluster_view_copy(self->worker, slot, view);
	}
	free(view);
	if (rc != -NAM_E_FABRIC_DENIED && !nam_sim_zombie())
		litmus_fail("a writer's copy of the view: %s", nam_err_name(rc));
	if (memcmp(held, &before, sizeof(before)) != 0)
		litmus_fail("a memory server has taken a writer's view");
	litmus_expect(self, KEY, -NAM_E_NOTFOUND);
}

/* Twice the time after which a client counts as silent, and some passes. */
static void
pass_until_aborted(struct actor *self, struct litmus_steward *party)
{
	uint64_t deadline_ns = nam_now_ns() + 4 * STEWARD_MS * 1000000ull;
	const struct nam_view_head *view =
		&litmus.cluster.servers[0].server->membership.view.head;
	const uint64_t number = view->number;

	while (view->number == number &&
		nam_now_ns() < deadline_ns && !litmus.failed) {
		(void)litmus_steward_pass(party);
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS);
	}
	litmus_expect_members(self, 2);
	if (litmus_state_of(self, A) != NAM_CLIENT_ALIVE)
		litmus_fail("a client was fenced that does not reach a memory server");
}

/* A memory server joins that does not admit the other client's key. */
static void
add_out_of_reach(struct actor *self)
{
	const struct sim_server *new_server;
	struct litmus_steward party;
	struct nam_server_added added;
	struct nam_diag diag = { "" };
	const char *key;
	int rc;

	litmus_await(ONE);
	litmus_keys_choose(&litmus.cluster, DIRECTOR);
	key = litmus.cluster.key;
	litmus.cluster.keys = fewer_file;
	new_server = sim_cluster_add(&litmus.cluster, 2);
	litmus.cluster.keys = server_file;
	litmus_steward_begin(&party, litmus_steward_store());
	party.steward.fence_ms = STEWARD_MS;
	party.options.key = key;
	party.options.timeout_ms = STEWARD_MS / 4;
	rc = nam_server_add(&party.options, new_server->address, NULL, NULL, &added, &diag);
	if (rc != -NAM_E_FABRIC_TIMEOUT)
		litmus_fail("the addition: %s, %s", nam_err_name(rc), diag.text);
	pass_until_aborted(self, &party);
	litmus_steward_end(&party);
	litmus.flags[TWO] = true;
}

static void
work_on(struct actor *self)
{
	litmus.flags[ONE] = true;
	for (uint64_t i = 0; !litmus.flags[TWO] && !litmus.failed; i++) {
		litmus_insert(self, KEY + 1000 * i);
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS);
	}
	litmus_expect(self, KEY, 0);
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_keys_cases[] = {
	{ { "keys_needed", LITMUS_LOADED, { NULL, come_without }, { { 0 } } },
		"clients come without a key, and with one of another cluster", 2,
		LITMUS_FINE_KEYS },
	{ { "keys_forged", LITMUS_LOADED, { NULL, forge }, { { 0 } } },
		"an attacker forges and repeats answers to challenges", 2, LITMUS_FINE_KEYS },
	{ { "keys_relayed", LITMUS_LOADED, { NULL, relay_between }, { { 0 } } },
		"an attacker hands a client's proof to another memory server", 2,
		LITMUS_FINE_KEYS },
	{ { "keys_name", LITMUS_LOADED, { NULL, keep_name, take_name }, { { 0 } } },
		"a client takes the id of another one", 2, LITMUS_FINE_KEYS },
	{ { "keys_reach", LITMUS_LOADED, { NULL, work_on, add_out_of_reach }, { { 0 } } },
		"a memory server joins that does not admit a client, and a steward takes it out", 2,
		LITMUS_FINE_KEYS },
	{ { "keys_copy", LITMUS_LOADED, { NULL, forge_copy }, { { 0 } } },
		"a writer sends a memory server a copy of the view that is not the lead's", 2,
		LITMUS_FINE_KEYS },
	{ { "keys_role", LITMUS_LOADED, { NULL, keep_name, exceed }, { { 0 } } },
		"a writer changes the view, and fences a living client", 2, LITMUS_FINE_KEYS },
	{ { 0 }, NULL, 0, 0 },
};
