/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server_drain.c -- the memory of members passes to successors within the processes of others, one
 * by one.  That is all of a process, or so much that processes are equally full.  Where it stands
 * is in the view and in these processes, so the same call goes on with what another one has left.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster.h"
#include "common/env.h"
#include "common/rpc/status_rpc.h"
#include "compute/view/changer.h"
#include "move_ask.h"
#include "server_drain.h"
#include "server_move.h"

#define PAUSE_NS 50000000ull
#define LEFTOVER_NS 20000000000ull	/* for the end of one, with its connections */

struct draining {
	const struct nam_client_options *options;
	struct nam__view_store *store;
	nam_server_drain_fn fn;
	void *arg;
	struct nam_diag *diag;
	struct nam_server_status *servers;	/* all that there are, members or not */
	uint32_t count;
	bool incomplete;			/* there was no memory for all of them */
	const char *server;			/* of the process that is drained */
	uint64_t process;			/* struct nam_server_status.host */
	bool dry;				/* nothing is to move */
	struct nam_drain_step step;
	uint32_t moved;
};

/* ---- all memory servers ---------------------------------------------------------------------- */

static void
note(void *arg, const struct nam_server_status *status, const char *text)
{
	struct draining *draining = arg;
	struct nam_server_status *more = realloc(draining->servers,
		(draining->count + 1) * sizeof(*more));

	(void)text;
	if (!more) {
		draining->incomplete = true;
		return;
	}
	draining->servers = more;
	more[draining->count++] = *status;
}

NAM_FIBER_FN static int
look(struct draining *draining)
{
	int rc;

	draining->count = 0;
	draining->incomplete = false;
	rc = nam_cluster_status(draining->options, note, draining, draining->diag); /* SUSPENDS */
	if (!rc && draining->incomplete)
		return nam_diag_set(draining->diag, -ENOMEM, "no memory for the state of the "
			"memory servers");
	return rc;
}

static bool
is_member(const struct nam_server_status *status)
{
	return !status->rc && status->member != NAM_MEMBER_NONE &&
		status->member != NAM_MEMBER_SUCCESSOR;
}

/* By its id or its address.  NULL: there is none. */
static const struct nam_server_status *
find(const struct draining *draining, const char *server)
{
	char *end;
	unsigned long id = strtoul(server, &end, 10);
	bool by_id = *server && !*end;

	for (uint32_t i = 0; i < draining->count; i++) {
		const struct nam_server_status *status = &draining->servers[i];

		if (by_id ? status->id == id && (is_member(status) || status->rc) :
			!strcmp(status->address, server))
			return status;
	}
	return NULL;
}

/* Whether there is a process at that address whose memory has moved: it is no member any more. */
static bool
has_moved(const struct draining *draining, const char *address)
{
	struct nam_client *asker = NULL;
	struct nam_diag diag;
	int rc = strchr(address, ':') ? nam__asker_open(draining->options, address, 0, false,
		&asker, &diag) : 0;

	if (asker)
		nam__client_free(asker);
	return nam_err_is(rc, NAM_E_FABRIC_MOVED);
}

/* The process that is named.  *ret_empty: its memory has moved already. */
static int
process_find(struct draining *draining, const char *server, bool *ret_empty)
{
	const struct nam_server_status *status = find(draining, server);

	*ret_empty = (!status || status->rc) && has_moved(draining, server);
	if (*ret_empty)
		return 0;
	if (!status)
		return nam_diag_set(draining->diag, -NAM_E_CLUSTER, "no memory server of this "
			"cluster has the id or the address %s; `namctl status` lists them", server);
	if (status->rc)
		return nam_diag_set(draining->diag, status->rc, "the memory server at %s does not "
			"answer, so its memory cannot move: %s", status->address,
			nam_err_text(status->rc));
	draining->process = status->host;
	return 0;
}

/* A member in that process, or NULL.  The lead comes first, because it refuses. */
static const struct nam_server_status *
member_next(const struct draining *draining)
{
	const struct nam_server_status *next = NULL;

	for (uint32_t i = 0; i < draining->count; i++) {
		const struct nam_server_status *status = &draining->servers[i];

		if (is_member(status) && status->host == draining->process &&
			(!next || status->id < next->id))
			next = status;
	}
	return next;
}

/* The memory server that has the most to spare; NULL: none has so much. */
static const struct nam_server_status *
target_choose(struct draining *draining, const struct nam_server_status *member)
{
	const struct nam_server_status *best = NULL;
	char most[32], needed[32];

	for (uint32_t i = 0; i < draining->count; i++) {
		const struct nam_server_status *status = &draining->servers[i];

		if (!status->rc && status->member == NAM_MEMBER_UP &&
			status->host == status->boot && status->host != draining->process &&
			(!best || status->spare_bytes > best->spare_bytes))
			best = status;
	}
	if (best && best->spare_bytes >= member->memory_bytes)
		return best;
	(void)nam_diag_set(draining->diag, -EDQUOT, "memory server %u has %s, and the most that "
		"another process has to spare is %s; start a memory server with enough --spare and "
		"add it, or move the memory to a --successor", member->id,
		nam__bytes_text(member->memory_bytes, needed, sizeof(needed)),
		nam__bytes_text(best ? best->spare_bytes : 0, most, sizeof(most)));
	return NULL;
}

/* ---- a successor ----------------------------------------------------------------------------- */

static void
tell(struct draining *draining)
{
	if (draining->fn)
		draining->fn(draining->arg, &draining->step);
}

NAM_FIBER_FN static int
ask(struct nam_client *host, enum nam_rpc_move_step step, const struct nam_rpc_move_host *wanted,
	struct nam_rpc_move_hosted *ret)
{
	_Alignas(8) uint8_t reply[sizeof(struct nam_rpc_move_reply) + sizeof(*ret)];
	uint32_t bytes = sizeof(reply);
	int rc = nam__move_ask(host, step, 0, wanted, sizeof(*wanted), 0, (void *)reply,
		&bytes); /* SUSPENDS */

	if (!rc && step == NAM_RPC_MOVE_HOST && bytes != sizeof(reply))
		return -NAM_E_FABRIC_PROTOCOL;
	memcpy(ret, reply + sizeof(struct nam_rpc_move_reply), sizeof(*ret));
	return rc;
}

/* Of an earlier move that was given up: the view has its memory elsewhere. */
NAM_FIBER_FN static int
leftover_end(struct nam_client *host, const struct nam_rpc_move_host *wanted, uint64_t boot)
{
	uint64_t deadline_ns = nam_now_ns() + LEFTOVER_NS;
	struct nam_rpc_move_host old = { .id = wanted->id, .hosted = boot };
	struct nam_rpc_move_hosted none;
	int rc;

	for (;;) {
		rc = ask(host, NAM_RPC_MOVE_UNHOST, &old, &none); /* SUSPENDS */
		if (rc != -EAGAIN || nam_now_ns() > deadline_ns)
			return rc;
		nam_sleep_ns(PAUSE_NS);
	}
}

/* Until it is ready, as long as it gets on. */
NAM_FIBER_FN static int
successor_start(struct draining *draining, struct nam_client *host,
	const struct nam_rpc_move_host *wanted, uint32_t *ret_number)
{
	uint64_t patience_ns = host->options.timeout_ms * 1000000ull;
	uint64_t seen = UINT64_MAX, seen_ns = nam_now_ns();
	struct nam_rpc_move_hosted hosted;
	int rc;

	for (;;) {
		rc = nam__changer_lease_keep(draining->store, draining->diag);
		if (rc)
			return rc;
		rc = ask(host, NAM_RPC_MOVE_HOST, wanted, &hosted); /* SUSPENDS */
		if (!rc && hosted.ready && hosted.phase != NAM_SERVER_SUCCESSOR)
			rc = leftover_end(host, wanted, hosted.boot); /* SUSPENDS */
		else if (!rc && hosted.ready)
			break;
		if (!rc && hosted.ready_bytes == seen && nam_now_ns() - seen_ns > patience_ns)
			rc = -NAM_E_FABRIC_TIMEOUT;
		if (rc)
			return nam_diag_set(draining->diag, rc, "a successor of memory server %u "
				"does not start in the process of the memory server at %s: %s",
				wanted->id, host->servers[0].address, rc == -EDQUOT ?
				"it has less to spare by now" : nam_err_text(rc));
		if (hosted.ready_bytes != seen)
			seen_ns = nam_now_ns();
		seen = hosted.ready_bytes;
		draining->step.ready_bytes = hosted.ready_bytes;
		draining->step.total_bytes = hosted.total_bytes;
		tell(draining);
		nam_sleep_ns(PAUSE_NS);
	}
	*ret_number = hosted.number;
	return 0;
}

/* The size of its regions. */
NAM_FIBER_FN static int
region_bytes(struct draining *draining, const struct nam_server_status *member, uint64_t *ret)
{
	struct nam_client *asker = NULL;
	const struct nam_region *region;
	int rc = nam__asker_open(draining->options, member->address, 0, false, &asker,
		draining->diag);

	if (!rc)
		rc = nam__regions_learn(asker, 0, 1, draining->diag); /* SUSPENDS */
	region = rc ? NULL : nam_region_table_find(&asker->regions,
		nam_gaddr_make((uint16_t)(member->id * NAM_REGIONS_PER_SERVER), 0, 0));
	if (region)
		*ret = region->bytes;
	else if (!rc)
		rc = nam_diag_set(draining->diag, -NAM_E_FABRIC_PROTOCOL, "the memory server at "
			"%s announces no first region", member->address);
	if (asker)
		nam__client_free(asker);
	return rc;
}

/* ---- one member ------------------------------------------------------------------------------ */

static void
on_move(void *arg, const char *client, uint64_t bytes)
{
	struct draining *draining = arg;

	draining->step.client = client;
	draining->step.bytes = bytes;
	tell(draining);
}

NAM_FIBER_FN static int
member_move(struct draining *draining, const struct nam_server_status *member,
	const struct nam_server_status *target)
{
	struct nam_rpc_move_host wanted = { .id = member->id,
		.memory_bytes = member->memory_bytes };
	struct nam_server_moved moved;
	struct nam_client *host = NULL;
	char address[sizeof(member->address)];
	uint32_t number = 0;
	int rc = region_bytes(draining, member, &wanted.region_bytes); /* SUSPENDS */

	draining->step = (struct nam_drain_step){ .id = member->id, .to = target->address };
	if (!rc)
		rc = nam__asker_open(draining->options, target->address, 0, false, &host,
			draining->diag);
	if (!rc)
		rc = successor_start(draining, host, &wanted, &number); /* SUSPENDS */
	if (host)
		nam__client_free(host);
	if (!rc && nam__cluster_address_beside(target->address, number, address,
			sizeof(address)))
		rc = nam_diag_set(draining->diag, -ENAMETOOLONG, "there is no address beside %s",
			target->address);
	if (rc)
		return rc;
	draining->step.to = address;
	draining->step.total_bytes = 0;
	rc = nam__server_move(draining->options, draining->store,
		NAM__SUCCESSOR_MOVES, address, on_move, draining,
		&moved, draining->diag); /* SUSPENDS */
	if (rc)
		return rc;
	draining->step.moved = &moved;
	draining->moved++;
	tell(draining);
	return 0;
}

NAM_FIBER_FN static int
drain(struct draining *draining)
{
	const struct nam_server_status *member, *target;
	bool empty = false;
	int rc = look(draining); /* SUSPENDS */

	if (!rc)
		rc = process_find(draining, draining->server, &empty);
	while (!rc && !empty) {
		member = member_next(draining);
		if (!member)
			return 0;
		if (!member->id)
			return nam_diag_set(draining->diag, -NAM_E_UNMOVABLE, "the memory server "
				"at %s is the lead, whose memory does not move", member->address);
		target = target_choose(draining, member);
		if (!target)
			return -EDQUOT;
		rc = member_move(draining, member, target) ?: look(draining); /* SUSPENDS */
	}
	return rc;
}

/* ---- processes that are equally full --------------------------------------------------------- */

/* The memory of all members in that process. */
static uint64_t
load_of(const struct draining *draining, uint64_t process)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < draining->count; i++)
		if (is_member(&draining->servers[i]) && draining->servers[i].host == process)
			bytes += draining->servers[i].memory_bytes;
	return bytes;
}

/* How much less the fuller of both processes has after that move.  0: impossible, or no use. */
static uint64_t
gain_of(const struct draining *draining, const struct nam_server_status *member,
	const struct nam_server_status *target)
{
	uint64_t from, after;

	if (target->rc || target->member != NAM_MEMBER_UP || target->host != target->boot ||
		target->host == member->host || target->spare_bytes < member->memory_bytes)
		return 0;
	from = load_of(draining, member->host);
	after = load_of(draining, target->host) + member->memory_bytes;
	if (after < from - member->memory_bytes)
		after = from - member->memory_bytes;
	return after < from ? from - after : 0;
}

/*
 * The move that relieves a process most.  Only of memory that a process has taken from another one:
 * its own would leave a process that cannot take any.
 */
static bool
move_choose(const struct draining *draining, struct nam_server_status **ret_member,
	struct nam_server_status **ret_target)
{
	struct nam_server_status *servers = draining->servers;
	uint64_t best = 0, gain;

	for (uint32_t m = 0; m < draining->count; m++) {
		if (servers[m].rc || servers[m].member != NAM_MEMBER_UP ||
			servers[m].host == servers[m].boot)
			continue;
		for (uint32_t t = 0; t < draining->count; t++) {
			gain = gain_of(draining, &servers[m], &servers[t]);
			if (gain <= best)
				continue;
			best = gain;
			*ret_member = &servers[m];
			*ret_target = &servers[t];
		}
	}
	return best != 0;
}

/* In the state that was asked for only. */
static void
move_pretend(struct draining *draining, struct nam_server_status *member,
	struct nam_server_status *target)
{
	draining->step = (struct nam_drain_step){ .id = member->id, .to = target->address,
		.planned = true, .bytes = member->memory_bytes };
	tell(draining);
	for (uint32_t i = 0; i < draining->count; i++)
		if (draining->servers[i].boot == member->host)
			draining->servers[i].spare_bytes += member->memory_bytes;
	target->spare_bytes -= member->memory_bytes;
	member->host = target->host;
	draining->moved++;
}

/* Each move makes the fuller one of two processes less full, so they end. */
NAM_FIBER_FN static int
rebalance(struct draining *draining)
{
	struct nam_server_status *member, *target;
	int rc = look(draining); /* SUSPENDS */

	while (!rc && move_choose(draining, &member, &target)) {
		if (draining->dry)
			move_pretend(draining, member, target);
		else
			rc = member_move(draining, member, target) ?:
				look(draining); /* SUSPENDS */
	}
	return rc;
}

/* ---- all ------------------------------------------------------------------------------------- */

/* Without a store, with that of the lead. */
NAM_FIBER_FN static int
carry_out(struct draining *draining, int (*steps)(struct draining *draining), uint32_t *ret_moved)
{
	struct nam__view_store *own = draining->store ? NULL : nam__view_store_embedded(0);
	int rc;

	*ret_moved = 0;
	if (!draining->store)
		draining->store = own;
	if (!draining->store)
		return nam_diag_set(draining->diag, -ENOMEM, "no memory for a view store");
	rc = steps(draining); /* SUSPENDS */
	*ret_moved = draining->moved;
	free(draining->servers);
	if (own)
		own->ops->close(own);
	return rc;
}

int
nam__server_drain(const struct nam_client_options *options, struct nam__view_store *store,
	const char *server, nam_server_drain_fn fn, void *arg, uint32_t *ret_moved,
	struct nam_diag *diag)
{
	struct draining draining = { .options = options, .store = store, .fn = fn, .arg = arg,
		.diag = diag, .server = server };

	return carry_out(&draining, drain, ret_moved); /* SUSPENDS */
}

int
nam__rebalance(const struct nam_client_options *options, struct nam__view_store *store, bool dry,
	nam_server_drain_fn fn, void *arg, uint32_t *ret_moved, struct nam_diag *diag)
{
	struct draining draining = { .options = options, .store = store, .fn = fn, .arg = arg,
		.diag = diag, .dry = dry };

	return carry_out(&draining, rebalance, ret_moved); /* SUSPENDS */
}

int
nam_server_drain(const struct nam_client_options *options, const char *server,
	nam_server_drain_fn fn, void *arg, uint32_t *ret_moved, struct nam_diag *diag)
{
	return nam__server_drain(options, NULL, server, fn, arg, ret_moved, diag); /* SUSPENDS */
}

int
nam_rebalance(const struct nam_client_options *options, bool dry, nam_server_drain_fn fn, void *arg,
	uint32_t *ret_moved, struct nam_diag *diag)
{
	return nam__rebalance(options, NULL, dry, fn, arg, ret_moved, diag); /* SUSPENDS */
}
