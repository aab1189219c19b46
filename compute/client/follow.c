/* SPDX-License-Identifier: Apache-2.0 */
/*
 * follow.c -- the epoch thread takes the changes of the view.
 *
 * A client acknowledges a view once all its threads find the regions of all members.  Before all
 * clients have, nothing is allocated at a new member (C20).
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/backup/backups.h"
#include "cluster_view.h"
#include "common/rpc/move_rpc.h"
#include "compute/remote/epoch.h"
#include "compute/view/fence.h"
#include "compute/view/sweep.h"
#include "compute/worker/notes.h"
#include "compute/worker/worker.h"

#define GIVE_UP_FACTOR 4u		/* times timeout_ms, from the closing of a gate on */
#define SIGN_NS 250000000ull		/* stewards give a client at least four times that */

/* C28: whether nothing is under way there, nor will be before the gate opens; else call again. */
static bool
is_quiet(struct nam_client *client, const struct nam_view_member *member)
{
	client->moving = member->state == NAM_VIEW_MOVING;
	/* If it is lost, one worker has lost its connection.  The others have theirs. */
	nam__gate_close(client, client->slot_of_id[member->id]);
	nam_race_point("gate.closed");
	return nam__barrier_everywhere(client) && (nam__gate_is_quiet(client) ||
		(member->state == NAM_VIEW_COPYING && !NAM_GUARD(NOTE_QUIET)));
}

/* ---- notes (C30) ----------------------------------------------------------------------------- */

/* To the lead.  After a failure all is to be handed over once more. */
NAM_FIBER_FN static int
notes_hand_over(struct nam_client *client, struct nam__notes *notes, bool leaves)
{
	struct nam_rpc_move_request *request = nam_buffer_take(client->epoch_worker,
		NAM_RPC_BODY_MAX);
	struct nam_rpc_move_notes *body;
	uint32_t at = 0;
	int rc = 0;

	if (!request)
		return -ENOMEM;
	body = (void *)request->page;
	*request = (struct nam_rpc_move_request){ .step = NAM_RPC_MOVE_NOTED,
		.boot = client->servers[client->catalog_slot].boot };
	while (!rc && at < notes->count) {
		struct nam_rpc_move_reply reply;
		uint32_t room = sizeof(reply), count = 0;

		/* As many of those taken as fit into a request. */
		*body = (struct nam_rpc_move_notes){ .id = notes->id };
		for (; at < notes->count && count < NAM_MOVE_NOTED_MAX; at++)
			if (notes->taken[at])
				body->noted[count++] = (struct nam_move_noted){
					notes->taken[at], at, 0 };
		body->leaves = leaves && at == notes->count;
		if (count || body->leaves)
			rc = nam_rpc_call(client->epoch_worker, client->catalog_slot, NAM_RPC_MOVE,
				request, (uint32_t)(sizeof(*request) + sizeof(*body) +
				count * sizeof(body->noted[0])), &reply, &room); /* SUSPENDS */
	}
	nam_buffer_give(client->epoch_worker, request, NAM_RPC_BODY_MAX);
	if (!rc)
		memset(notes->taken, 0, notes->count * sizeof(notes->taken[0]));
	return rc;
}

/* All is quiet, so what was noted is done.  With COPYING, workers go on before the hand-over. */
NAM_FIBER_FN static int
notes_pass(struct nam_client *client, const struct nam_view_member *member)
{
	struct nam__notes *notes = client->notes;

	if (notes)
		nam__notes_take(notes);
	if (member->state == NAM_VIEW_COPYING)
		nam__gates_open(client);
	/* C22: a reader changes nothing. */
	if (!notes || client->reads_only ||
		(member->state == NAM_VIEW_MOVING && !NAM_GUARD(NOTE_LAST)))
		return 0;
	return notes_hand_over(client, notes, false); /* SUSPENDS */
}

void
nam__view_leave(struct nam_client *client)
{
	struct nam__notes *notes = client->notes;
	bool whole = !atomic_load_explicit(&client->unfinished, memory_order_acquire);

	if (client->reads_only)
		return;
	/* If this fails, the lead knows of no notes, and all is copied anew. */
	if (notes) {
		nam__notes_take(notes);
		(void)!notes_hand_over(client, notes, whole); /* SUSPENDS */
	} else if (whole && client->backed && client->lead_slot == client->catalog_slot) {
		/* C32: or this client counts as one that ended in the middle. */
		(void)!nam__cluster_view_left(client->epoch_worker,
			client->catalog_slot); /* SUSPENDS */
	}
}

/* ---- members ------------------------------------------------------------------------------- */

/*
 * C28: the memory is at another process now.  The gate is closed, so only this thread has to do
 * with it.  A failure: that process does not answer, and this is to be called again.  If the member
 * is lost, it stays so, and workers drop connections to the earlier process.
 */
NAM_FIBER_FN static int
moved_follow(struct nam_client *client, uint32_t slot, const struct nam_view_member *member)
{
	struct nam__server *server = &client->servers[slot];
	const char *address = server->address;
	uint64_t boot = server->boot;
	struct nam_diag diag = { "" };
	int none = 0, rc = nam__server_address_set(client, server, member->address);

	if (rc)
		return rc;
	/* The connection to the earlier process is behind the gate, unless it was the lead. */
	nam__gate_drop(client->epoch_worker);
	if (nam__gate_passes(client->epoch_worker, slot))
		nam__worker_disconnect(client->epoch_worker, slot);
	server->boot = member->boot;
	atomic_store_explicit(&server->ended_behind_gate, 0, memory_order_relaxed);
	nam__colocated_leave(server);
	/* C32: that one has ended, too, and the gate stays closed. */
	if (member->state == NAM_VIEW_PROMOTING)
		return 0;
	if (atomic_load_explicit(&server->lost, memory_order_relaxed)) {
		server->loss_reported = false;
		return 0;
	}
	rc = nam__worker_connect(client->epoch_worker, slot, &diag);
	if (!rc)
		rc = nam__regions_learn(client, slot, 1, &diag); /* SUSPENDS */
	if (!rc) {
		nam__colocated_open(client, slot); /* SUSPENDS */
		return 0;
	}
	nam__worker_disconnect(client->epoch_worker, slot);
	if (nam_now_ns() < client->gate_ns +
			GIVE_UP_FACTOR * client->options.timeout_ms * 1000000ull) {
		server->address = address;
		server->boot = boot;
		return rc;
	}
	/* This client does not reach the member, so its memory is lost for this client. */
	atomic_compare_exchange_strong(&server->lost, &none, -NAM_E_FABRIC_PEER_DEAD);
	return 0;
}

/* A member as the view has it now.  A failure: it does not answer. */
NAM_FIBER_FN static int
member_follow(struct nam_client *client, const struct nam_view_member *member,
	const struct nam__cluster_view *view)
{
	uint16_t slot = client->slot_of_id[member->id];
	struct nam__server *server = slot == NAM__NO_SLOT ? NULL : &client->servers[slot];
	bool same = server && server->boot == member->boot;
	struct nam_diag diag = { "" };
	int none = 0, rc = 0;

	if (server && !same && member->state != NAM_VIEW_JOINING) {
		if (server->memory == member->memory && nam__gate_is_of(client, slot))
			rc = moved_follow(client, slot, member); /* SUSPENDS */
		/* The member's memory is gone, and so are the addresses that this client has. */
		else
			atomic_compare_exchange_strong(&server->lost, &none,
				-NAM_E_FABRIC_PEER_DEAD);
	} else if (!same) {
		rc = nam__member_install(client, member, &diag); /* SUSPENDS */
	}
	if (!rc && slot == client->catalog_slot)
		rc = nam__lead_return(client, member, view->head.number); /* SUSPENDS */
	if (!rc && member->state != NAM_VIEW_JOINING)
		rc = nam__backup_follow(client, client->slot_of_id[member->id], member, view,
			&diag); /* SUSPENDS */
	return rc ?: nam__member_note(client, member);
}

/* Nothing is allocated at a memory server that did not come UP after all, or was removed. */
static void
absent_pass_over(struct nam_client *client, const struct nam__cluster_view *view)
{
	for (uint32_t slot = 0; slot < client->servers_count; slot++) {
		struct nam__server *server = &client->servers[slot];
		int none = 0;

		if (nam__cluster_view_find(view, server->id))
			continue;
		atomic_store_explicit(&server->usable, false, memory_order_relaxed);
		atomic_store_explicit(&server->joined, false, memory_order_relaxed);
		/* Its process has ended, and so has this client's interest in it. */
		if (!nam_view_was_removed(&view->head, server->id))
			continue;
		server->loss_reported = true;
		atomic_compare_exchange_strong(&server->lost, &none, -NAM_E_FABRIC_PEER_DEAD);
	}
}

NAM_FIBER_FN static void
number_follow(struct nam_client *client, uint64_t number)
{
	const struct nam_view_member *leaving;
	struct nam__cluster_view *view = NULL;
	bool closed = true;
	uint64_t now;
	int rc;

	if (number == client->view_seen)
		return;
	now = nam_now_ns();
	/* A failure before that was the end of the lead. */
	if (now < client->view_retry_ns && !client->lead_gone_ns)
		return;
	nam_race_point("view.word_seen");
	rc = nam__cluster_view_get(client->epoch_worker, client->lead_slot, &view); /* SUSPENDS */
	if (!rc)
		rc = nam__lead_backup_has(client, view); /* SUSPENDS */
	nam_race_point("view.installing");
	for (uint32_t i = 0; !rc && i < view->head.count; i++)
		rc = member_follow(client, &view->members[i], view); /* SUSPENDS */
	if (!rc) {
		absent_pass_over(client, view);
		atomic_store_explicit(&client->view_number, view->head.number,
			memory_order_release);
		atomic_store_explicit(&client->view_whole, view->head.number,
			memory_order_release);
		leaving = nam_view_leaving(&view->head, view->members);
		nam_race_point("view.installed");
		closed = !leaving || is_quiet(client, leaving);
		/* C32 */
		if (leaving && closed && leaving->state == NAM_VIEW_PROMOTING &&
			NAM_GUARD(LOCKS_AGAIN))
			rc = nam__locks_take_again(client,
				client->slot_of_id[leaving->id]); /* SUSPENDS */
		/* C33: the epoch that it goes on from is behind none that a client knows. */
		if (!rc && closed && client->lead_slot != client->catalog_slot)
			rc = nam__lead_backup_enter(client, client->lead_slot, view->head.number,
				NULL, &(struct nam_diag){ "" }); /* SUSPENDS */
		if (!rc && leaving && closed)
			rc = notes_pass(client, leaving); /* SUSPENDS */
	}
	/* C20: its members are installed. */
	if (!rc && closed)
		rc = nam__cluster_view_ack(client->epoch_worker, client->lead_slot,
			view->head.number); /* SUSPENDS */
	/* C33: the lead's backup gets that view soon. */
	if (rc && rc != -NAM_E_VIEW)
		client->view_retry_ns = nam__retry_at_ns(now);
	else if (!rc && closed)
		client->view_seen = number;
	free(view);
}

/*
 * C25: in a long operation, or without a way to a member, a client looks like a stopped one, which
 * a steward fences.  So the lead hears of it.
 */
NAM_FIBER_FN static void
sign_of_life(struct nam_client *client, bool late)
{
	uint64_t local = atomic_load_explicit(&client->local_epoch, memory_order_relaxed);
	bool old = client->published_epoch != client->remote_epoch_of[local % NAM__EPOCHS_NOTED];
	uint64_t now = nam_now_ns();

	if (!late && (!old || client->published_epoch != client->sign_epoch)) {
		client->sign_epoch = client->published_epoch;
		client->sign_ns = now + SIGN_NS;
	}
	/* C25: it is busy, and not stopped. */
	if (now < client->sign_ns || !NAM_GUARD(SIGN_OF_LIFE))
		return;
	client->sign_ns = nam__cluster_view_ack(client->epoch_worker, client->lead_slot,
		0) ? nam__retry_at_ns(now) : now + SIGN_NS; /* SUSPENDS */
}

/* C25: locks stay at a lost memory server.  A steward that reaches it fences this client. */
NAM_FIBER_FN static void
losses_report(struct nam_client *client)
{
	/* C22: a reader holds no locks. */
	if (client->reads_only || !NAM_GUARD(REPORT_LOST))
		return;
	for (uint32_t slot = 0; slot < client->servers_count; slot++) {
		struct nam__server *server = &client->servers[slot];

		if (server->loss_reported || slot == client->catalog_slot ||
			client->slot_of_id[server->id] != slot ||
			!atomic_load_explicit(&server->lost, memory_order_acquire))
			continue;
		server->loss_reported = !nam__cluster_view_lost(client->epoch_worker,
			client->catalog_slot, server->id, server->boot); /* SUSPENDS */
		if (!server->loss_reported)
			break;
	}
}

void
nam__view_follow(struct nam_client *client, uint64_t word, uint64_t sweep)
{
	const uint64_t number = word & ((1ull << NAM_VIEW_WORD_FENCING) - 1);
	const struct nam__notes *notes = client->notes;

	/* Without a lead no memory moves, so a gate that was closed for a pass is of no use. */
	if (notes && nam__gate_is_of(client, notes->slot) && !client->moving &&
		atomic_load_explicit(&client->servers[client->catalog_slot].lost,
			memory_order_relaxed))
		nam__gates_open(client);
	number_follow(client, nam__lead_look(client, number)); /* SUSPENDS */
	/* The rest is for a lead that has its place. */
	if (client->lead_slot != client->catalog_slot) {
		sign_of_life(client, true); /* SUSPENDS */
		return;
	}
	nam__fence_follow(client, word >> NAM_VIEW_WORD_FENCING); /* SUSPENDS */
	sign_of_life(client, number != client->view_seen); /* SUSPENDS */
	losses_report(client); /* SUSPENDS */
	nam__sweep_follow(client, sweep); /* SUSPENDS */
}
