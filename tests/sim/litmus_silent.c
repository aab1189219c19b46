/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_silent.c -- scenes in which a member or a backup is silent, and lives (C34).
 *
 * The steward and one client do not reach the member.  Another client reaches the member only, and
 * must not read there what has been replaced at its backup.
 */
#include <stdlib.h>
#include <string.h>

#include "compute/admin.h"
#include "compute/client/cluster_view.h"
#include "compute/remote.h"
#include "litmus_steward.h"
#include "memserver/memserver_internal.h"

#define LEAD 0u
#define BACKED 1u
#define STEWARD_TIMEOUT_MS 5u
#define SILENT_MS 10u
#define WAIT_NS (20 * LITMUS_TIMEOUT_NS)
#define READS_AFTER 200u		/* of the client that is cut off */
#define READ_PAUSE_NS 200000u

static struct sim_server *backup;	/* of the scene */
static struct nam_gaddr word_at;

static bool
is_lasting(const struct actor *self)
{
	return self->client->caps & NAM_CAP_LASTING;
}

static struct nam_sim_process *
process_of(enum who who)
{
	return litmus.actors[who].process;
}

static struct nam_sim_process *
server_of(uint32_t id)
{
	return litmus.cluster.servers[id].process;
}

/* ---- clients --------------------------------------------------------------------------------- */

static int
try_read(struct actor *self, uint64_t *ret_number)
{
	uint64_t *word = nam_buffer_take(self->worker, 8);
	int rc = nam_read_await(self->worker, nam_gaddr_untagged(word_at), word, 8);

	*ret_number = *word;
	nam_buffer_give(self->worker, word, 8);
	return rc;
}

/* It reads all the time, also when it is cut off from all but the member. */
static void
read_on(struct actor *self)
{
	unsigned after = 0;

	if (nam_alloc_on(self->worker, self->client->slot_of_id[BACKED], 64, &word_at))
		sim_die("no block");
	litmus_write_word(self, word_at, 1);
	litmus.flags[ONE] = true;
	while (!litmus.failed && after < READS_AFTER) {
		bool replaced = litmus.flags[TWO];
		uint64_t number = 0;
		int rc = try_read(self, &number);

		if (!rc && replaced && number != 2)
			litmus_fail("a client reads %llu, which was replaced",
				(unsigned long long)number);
		if (rc && !litmus.flags[FOUR])
			litmus_fail("a read: %s", nam_worker_diag(self->worker));
		after += replaced;
		nam_sleep_ns(READ_PAUSE_NS);
	}
	litmus.flags[THREE] = true;
}

static void
write_once(struct actor *self)
{
	litmus_await(SEEN);
	/* It is connected, and knows the backup. */
	nam_sleep_ns(2 * LITMUS_TICKS_NS);
	litmus_write_word(self, word_at, 1);
	litmus.flags[INSERTED] = true;
	litmus_await_for(FIVE, WAIT_NS);
	litmus_write_word(self, word_at, 2);
	if (litmus_read_word(self, word_at) != 2)
		litmus_fail("a write is not read");
	litmus.flags[TWO] = true;
}

/* ---- the steward ----------------------------------------------------------------------------- */

static void
steward_begin(struct litmus_steward *party)
{
	litmus_await(ONE);
	backup = litmus_back(BACKED);
	litmus.flags[SEEN] = true;
	litmus_steward_begin(party, litmus_steward_store());
	litmus_await(INSERTED);
	party->options.timeout_ms = STEWARD_TIMEOUT_MS;
	party->steward.silent_ms = SILENT_MS;
}

static void
passes(struct litmus_steward *party)
{
	uint64_t until_ns = nam_sim_now_ns() + WAIT_NS;

	while (!litmus.flags[THREE] && !litmus.failed && nam_sim_now_ns() < until_ns) {
		(void)litmus_steward_pass(party);
		nam_sleep_ns(LITMUS_STEWARD_PAUSE_NS / 5);
	}
	litmus_steward_end(party);
}

static void
lose_member(struct actor *self)
{
	struct litmus_steward party;

	steward_begin(&party);
	if (!is_lasting(self)) {
		nam_sim_process_cut(process_of(C), server_of(BACKED));
		nam_sim_process_cut(process_of(B), server_of(BACKED));
		litmus.cluster.servers[BACKED].succeeded = true;
	}
	litmus.flags[FIVE] = true;
	passes(&party);
}

/* As the steward decides, one client is cut off from all but the member. */
static void
cut_reader(struct actor *self)
{
	(void)self;
	if (litmus.flags[FOUR] || !litmus.flags[FIVE])
		return;
	litmus.flags[FOUR] = true;
	nam_sim_process_cut(process_of(A), server_of(LEAD));
	nam_sim_process_cut(process_of(A), backup->process);
}

static void
lose_backup(struct actor *self)
{
	struct litmus_steward party;

	steward_begin(&party);
	if (!is_lasting(self)) {
		nam_sim_process_cut(process_of(C), backup->process);
		nam_sim_process_cut(process_of(B), backup->process);
	}
	litmus.flags[FIVE] = true;
	passes(&party);
}

/* ---- ends ------------------------------------------------------------------------------------ */

/* At the end all reach each other again. */
static void
heal(void)
{
	for (enum who who = A; who <= C; who++) {
		nam_sim_process_heal(process_of(who), server_of(LEAD));
		nam_sim_process_heal(process_of(who), server_of(BACKED));
		nam_sim_process_heal(process_of(who), backup->process);
	}
}

static void
end_at(struct actor *self, const char *address)
{
	struct nam__cluster_view *view = litmus_view_of(self);

	if (strcmp(view->members[BACKED].address, address) != 0)
		litmus_fail("memory server %u is at %s", BACKED, view->members[BACKED].address);
	free(view);
	heal();
	if (litmus_read_word(self, word_at) != 2)
		litmus_fail("a word is older than it was");
	litmus_verify(self);
}

static void
end_promoted(struct actor *self)
{
	litmus_await_for(THREE, WAIT_NS);
	end_at(self, is_lasting(self) ? litmus.cluster.servers[BACKED].address : backup->address);
}

static void
end_unbacked(struct actor *self)
{
	struct nam__cluster_view *view;

	litmus_await_for(THREE, WAIT_NS);
	view = litmus_view_of(self);
	if (!is_lasting(self) && view->members[BACKED].backups[0].boot)
		litmus_fail("a silent backup stays");
	free(view);
	end_at(self, litmus.cluster.servers[BACKED].address);
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_silent_cases[] = {
	{ { "silent_member", LITMUS_LOADED, { end_promoted, read_on, write_once, lose_member },
		{ { "steward.decided", C, cut_reader } } },
		"a member is cut off from the steward and a client; another client reaches only "
		"that member", 2, 0 },
	{ { "silent_backup", LITMUS_LOADED, { end_unbacked, read_on, write_once, lose_backup },
		{ { 0 } } },
		"a backup is cut off from the steward and from clients that write", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
