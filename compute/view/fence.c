/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fence.c -- the end of another client: no memory server has a queue pair of it any more (C21).
 *
 * The epoch thread of any client does this when it reads in the view word that one is FENCING.
 * Several may do it at once: every step may be repeated.
 */
#include "fence.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/race.h"
#include "compute/admin.h"
#include "compute/backup/backups.h"
#include "compute/rpc/call.h"
#include "compute/worker/worker.h"
#include "presence.h"

#define PAUSE_NS 500000ull		/* until handlers have destroyed queue pairs */
#define TICK_TIMEOUT_NS 10000000ull	/* of an epoch thread, which has others to see to */
#define ANEW_PAUSE_NS 10000000ull	/* the same where that takes connections */
#define ANEW_TIMEOUT_MS 500u		/* for a memory server whose connection has ended */

/* ---- one request --------------------------------------------------------------------------- */

/* With the voucher of the lead, once it has given one. */
struct asked {
	struct nam_rpc_fence_request is;
	uint8_t voucher[NAM_VOUCHER_BYTES];
	uint32_t voucher_bytes;
};

struct answered {
	struct nam_rpc_fence_reply is;
	uint8_t voucher[NAM_VOUCHER_BYTES];
	uint32_t voucher_bytes;
};

NAM_FIBER_FN static int
ask(struct nam_worker *worker, uint32_t slot, const struct asked *request,
	struct answered *ret_reply)
{
	struct answered reply;
	uint32_t bytes = offsetof(struct answered, voucher_bytes);
	int rc = nam_rpc_call(worker, slot, NAM_RPC_FENCE, request,
		(uint32_t)sizeof(request->is) + request->voucher_bytes, &reply,
		&bytes); /* SUSPENDS */

	/* -EAGAIN has no body. */
	if (rc)
		return rc;
	reply.voucher_bytes = bytes - (uint32_t)sizeof(reply.is);
	if (bytes < sizeof(reply.is) || reply.is.client_id >= NAM_CLIENTS_MAX ||
		(reply.voucher_bytes && reply.voucher_bytes != NAM_VOUCHER_BYTES))
		return -NAM_E_FABRIC_PROTOCOL;
	*ret_reply = reply;
	return 0;
}

/* ---- one memory server --------------------------------------------------------------------- */

/*
 * This client's own queue pair has ended, which may be the fault of the way there.  If its host
 * refuses connections, the memory server has ended, and so have all its queue pairs.  If another
 * one has come to its address, the client may have queue pairs to that.  A silent one may live.
 */
NAM_FIBER_FN static int
close_anew(const struct nam_client_options *options, const char *address,
	const struct asked *request, struct nam_diag *diag)
{
	struct answered reply;
	struct nam_client *prober = NULL;
	int rc;

	diag->text[0] = '\0';
	rc = nam__prober_connect(options, address, ANEW_TIMEOUT_MS, false, &prober, diag);
	if (!rc)
		rc = ask(prober->epoch_worker, 0, request, &reply); /* SUSPENDS */
	else if (nam__probed_ended(prober, rc))
		rc = 0;
	nam__client_free(prober);
	return rc;
}

NAM_FIBER_FN static int
close_at(struct nam_worker *worker, uint32_t slot, const struct asked *request,
	struct answered *ret_reply, struct nam_diag *diag)
{
	const atomic_int *lost = &worker->client->servers[slot].lost;
	int rc = atomic_load_explicit(lost, memory_order_acquire);

	if (!rc)
		rc = ask(worker, slot, request, ret_reply); /* SUSPENDS */
	/* The lead has no other life: with its memory the clients that it knew are gone. */
	if (slot == worker->client->catalog_slot ||
		!atomic_load_explicit(lost, memory_order_acquire))
		return rc;
	return close_anew(&worker->client->options, worker->client->servers[slot].address, request,
		diag); /* SUSPENDS */
}

/* ---- all of them --------------------------------------------------------------------------- */

struct fencing {
	struct nam_worker *worker;
	/* Members are asked over new connections, by a worker that knows the lead; or NULL. */
	const struct nam__cluster_view *view;
	struct asked request;		/* CLOSE */
	uint32_t state;			/* of the client, as the lead says */
};

/* A process that is not the lead closes connections: at that address, or in that slot. */
NAM_FIBER_FN static int
process_close(const struct fencing *f, const char *address, uint32_t slot, struct nam_diag *diag)
{
	const struct nam_client *client = f->worker->client;
	struct answered reply;
	int rc = address ? close_anew(&client->options, address, &f->request, diag) :
		close_at(f->worker, slot, &f->request, &reply, diag); /* SUSPENDS */

	if (rc && rc != -EAGAIN && !diag->text[0])
		return nam_diag_set(diag, rc, "the memory server at %s does not say that the "
			"client's queue pairs are gone: %s", address ?:
			client->servers[slot].address, nam_err_text(rc));
	return rc;
}

/* Of a member's backup in that place; NULL: there is none. */
static const char *
backup_address(const struct fencing *f, uint32_t number, uint32_t place)
{
	const struct nam_client *client = f->worker->client;

	if (f->view)
		return f->view->members[number].backups[place].boot ?
			f->view->members[number].backups[place].address : NULL;
	return nam__backup_boot(client, number, place) ?
		client->servers[nam__backup_slot(number, place)].address : NULL;
}

/*
 * A member and its backups close connections: its number in the view, or its slot.
 *
 * @asked	the member itself was asked
 */
NAM_FIBER_FN static int
member_close(const struct fencing *f, uint32_t number, bool asked, struct nam_diag *diag)
{
	const struct nam_view_member *member = f->view ? &f->view->members[number] : NULL;
	/* C34: a member that is PROMOTING may be silent, and its memory does not count soon. */
	bool leaves = member && member->state == NAM_VIEW_PROMOTING;
	int rc = asked || leaves ? 0 : process_close(f, member ? member->address : NULL, number,
		diag); /* SUSPENDS */

	for (uint32_t place = 0; place < NAM_BACKUPS_MAX && (!rc || rc == -EAGAIN); place++) {
		const char *address = backup_address(f, number, place);

		if (address)
			rc = process_close(f, address, 0, diag) ?: rc; /* SUSPENDS */
	}
	return rc;
}

/* The lead first: it says what the client is, and takes no session from then on. */
NAM_FIBER_FN static int
close_round(struct fencing *f, struct nam_diag *diag)
{
	const struct nam_client *client = f->worker->client;
	uint32_t count = f->view ? f->view->head.count : client->servers_count;
	uint32_t lead = f->view ? 0 : client->catalog_slot;
	struct answered reply = { .is.state = NAM_CLIENT_FENCING };
	int rc = close_at(f->worker, client->catalog_slot, &f->request, &reply,
		diag); /* SUSPENDS */

	f->state = reply.is.state;
	if ((rc && rc != -EAGAIN) || reply.is.state != NAM_CLIENT_FENCING)
		return rc;
	/* Other members want the voucher, which comes once the lead's queue pairs are gone. */
	if (rc && client->key && client->key->keys[0].role != NAM_ROLE_ADMIN)
		return rc;
	memcpy(f->request.voucher, reply.voucher, reply.voucher_bytes);
	f->request.voucher_bytes = reply.voucher_bytes;
	for (uint32_t i = 0; i < count; i++) {
		int one = member_close(f, i, i == lead, diag); /* SUSPENDS */

		if (one && one != -EAGAIN)
			return one;
		rc = rc ? rc : one;
	}
	return rc;
}

/* C33: otherwise the lead's backup would fence the client once more.  That does no harm. */
NAM_FIBER_FN static void
backup_notify(const struct fencing *f, const struct asked *request)
{
	const struct nam_client *client = f->worker->client;
	uint32_t slot = client->catalog_slot;
	struct answered reply;
	struct nam_diag diag;

	if (f->view && f->view->members[0].backups[0].boot)
		(void)!close_anew(&client->options, f->view->members[0].backups[0].address,
			request, &diag); /* SUSPENDS */
	else if (!f->view && nam__is_backed(client, slot) &&
		f->worker->qps[nam__backup_slot(slot, 0)])
		(void)!ask(f->worker, nam__backup_slot(slot, 0), request,
			&reply); /* SUSPENDS */
}

NAM_FIBER_FN static int
publish(struct fencing *f, uint64_t view)
{
	struct asked request = { .is = f->request.is };
	struct answered reply;
	int rc;

	request.is.step = NAM_RPC_FENCE_PUBLISH;
	request.is.view = view;
	rc = ask(f->worker, f->worker->client->catalog_slot, &request, &reply); /* SUSPENDS */
	if (!rc)
		f->state = reply.is.state;
	if (!rc && f->state == NAM_CLIENT_DEAD)
		backup_notify(f, &request); /* SUSPENDS */
	return rc;
}

/* C21: published only after each member of one view has closed its queue pairs. */
NAM_FIBER_FN static int
attempt(struct fencing *f, struct nam_diag *diag)
{
	/*
	 * Before the round: if a member comes later, PUBLISH fails.  Acquire: the slots of the
	 * view's members are seen.
	 */
	uint64_t view = f->view ? f->view->head.number :
		atomic_load_explicit(&f->worker->client->view_whole, memory_order_acquire);
	int rc = close_round(f, diag); /* SUSPENDS */

	nam_race_point("fence.closed");
	return rc || f->state != NAM_CLIENT_FENCING ? rc : publish(f, view); /* SUSPENDS */
}

int
nam__client_fence(struct nam_worker *worker, const struct nam__cluster_view *view, uint16_t id,
	uint16_t incarnation, uint64_t term, uint64_t timeout_ns, uint32_t *ret_state,
	struct nam_diag *diag)
{
	struct fencing f = {
		.worker = worker,
		.view = view,
		.request.is = {
			.step = NAM_RPC_FENCE_CLOSE,
			.client_id = id,
			.incarnation = incarnation,
			.term = term,
		},
	};
	uint64_t deadline_ns = nam_now_ns() + timeout_ns;
	int rc;

	for (;;) {
		diag->text[0] = '\0';
		rc = attempt(&f, diag); /* SUSPENDS */
		*ret_state = f.state;
		/* A view that was given stays what it is. */
		if ((rc != -EAGAIN && (rc != -NAM_E_VIEW || view)) || nam_now_ns() >= deadline_ns)
			break;
		nam_sleep_ns(view ? ANEW_PAUSE_NS : PAUSE_NS);
	}
	return rc != -NAM_E_FABRIC_CAPABILITY ? rc : nam_diag_set(diag, rc, "it is alive, and what "
		"it has mapped cannot be revoked: let it go on, or end its process");
}

static int
explain(struct nam_worker *worker, int rc, const char *client, uint64_t pid, struct nam_diag *diag)
{
	const char *fabric = worker->client->servers[0].ops->name;

	if (nam_err_is(rc, NAM_E_FABRIC_CAPABILITY))
		return nam_diag_set(diag, rc, "%s is alive, and over %s what it has mapped cannot "
			"be revoked: end its process (namctl client fence --evict, or kill -KILL "
			"%llu)", client, fabric, (unsigned long long)pid);
	if (rc == -EAGAIN || rc == -NAM_E_VIEW)
		return nam_diag_set(diag, -NAM_E_FABRIC_TIMEOUT, "%s: %s; try again", client,
			rc == -EAGAIN ? "memory servers still have queue pairs of it" :
			"a memory server is joining, and this client does not reach it, or the "
			"view changes all the time");
	return diag->text[0] ? rc : nam_diag_set(diag, rc, "fencing %s: %s", client,
		nam_err_text(rc));
}

int
nam_client_fence(struct nam_worker *worker, uint16_t id, uint16_t incarnation,
	struct nam_diag *diag)
{
	struct nam_rpc_client_state_reply state = { .name = "" };
	uint32_t after = NAM_CLIENT_UNKNOWN;
	char client[96];
	int rc = nam__change_check(worker);

	if (rc)
		return nam_diag_set(diag, rc, "%s", worker->diag.text);
	if (!id || id >= NAM_CLIENTS_MAX || id == worker->client->id)
		return nam_diag_set(diag, -EINVAL, id && id < NAM_CLIENTS_MAX ?
			"client %u is this client" : "%u is no client: ids are 1 to 4095", id);
	rc = nam__client_state_query(worker, id, incarnation, &state); /* SUSPENDS */
	(void)snprintf(client, sizeof(client), "client %u (%s, pid %llu)", id,
		state.name[0] ? state.name : "unknown", (unsigned long long)state.pid);
	diag->text[0] = '\0';
	if (!rc && state.state == NAM_CLIENT_UNKNOWN)
		return nam_diag_set(diag, -ENOENT, "there has been no client %u yet", id);
	if (!rc)
		rc = nam__client_fence(worker, NULL, id, incarnation ?: state.incarnation, 0,
			worker->client->options.timeout_ms * 1000000ull, &after,
			diag); /* SUSPENDS */
	return rc ? explain(worker, rc, client, state.pid, diag) : 0;
}

/* ---- the epoch thread ---------------------------------------------------------------------- */

int
nam__fence_next(struct nam_worker *worker, uint16_t id, struct nam_rpc_fence_reply *ret_next)
{
	const struct asked request = { .is = { .step = NAM_RPC_FENCE_NEXT, .client_id = id } };
	struct answered next;
	int rc = ask(worker, worker->client->catalog_slot, &request, &next); /* SUSPENDS */

	if (!rc)
		*ret_next = next.is;
	return rc;
}

void
nam__fence_follow(struct nam_client *client, uint64_t count)
{
	uint64_t now = nam_now_ns(), until_ns = now + TICK_TIMEOUT_NS;
	struct nam_rpc_fence_reply found;
	struct nam_diag diag = { "" };
	uint32_t state;
	int rc = 0;

	/* C22: a client that may only read leaves that to others. */
	if (!count || now < client->fence_retry_ns || client->reads_only)
		return;
	/* C28: it would ask the member behind the gate, too.  At a later tick. */
	if (!nam__gate_is_of(client, NAM__GATES_OPEN))
		return;
	while (!rc && nam_now_ns() < until_ns) {
		rc = nam__fence_next(client->epoch_worker, client->fence_last,
			&found); /* SUSPENDS */
		if (rc || !found.client_id)
			break;
		/* A fence that cannot be completed does not delay the others. */
		client->fence_last = found.client_id;
		rc = nam__client_fence(client->epoch_worker, NULL, found.client_id,
			found.incarnation, 0, TICK_TIMEOUT_NS, &state,
			&diag); /* SUSPENDS */
	}
	/* Queue pairs that are being destroyed, or a view to follow: at the next tick. */
	if (rc && rc != -EAGAIN && rc != -NAM_E_VIEW)
		client->fence_retry_ns = nam__retry_at_ns(now);
}
