/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_backups.c -- scenes in which a member has two backups (C31, C32).
 *
 * One of them gets the place of the member, and the other one may get it after that.
 */
#include <stdlib.h>
#include <string.h>

#include "compute/admin.h"
#include "compute/client/cluster_view.h"
#include "compute/remote.h"
#include "litmus.h"
#include "memserver/memserver_internal.h"

#define BACKED 1u			/* the id of the member */
#define TIMEOUT_MS 2000u
#define POSTED_NS 1000000u		/* a WRITE is done by then, or is cut off */

static struct sim_server *backups[2];	/* of the scene */
static struct nam_gaddr word_at;

/* ---- steps ----------------------------------------------------------------------------------- */

static void
back_twice(void)
{
	litmus_await(ONE);
	for (unsigned i = 0; i < 2; i++)
		backups[i] = litmus_back(BACKED);
	litmus.flags[SEEN] = true;
}

static void
promote(void)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };

	nam_client_options_init(&options);
	options.cluster = litmus.cluster.list;
	options.timeout_ms = TIMEOUT_MS;
	if (nam_server_promote(&options, BACKED, &diag))
		litmus_fail("a promotion: %s", diag.text);
}

static void
end_process(struct sim_server *server)
{
	server->succeeded = true;
	nam_sim_process_kill(server->process);
}

/* The member and its first backup end in the same instant. */
static void
back_kill_both(struct actor *self)
{
	(void)self;
	back_twice();
	litmus_await(TWO);
	end_process(backups[0]);
	end_process(&litmus.cluster.servers[BACKED]);
	promote();
	litmus.flags[FOUR] = true;
}

/* The first backup ends once it has the place. */
static void
back_kill_in_turn(struct actor *self)
{
	(void)self;
	back_twice();
	litmus_await(TWO);
	end_process(&litmus.cluster.servers[BACKED]);
	promote();
	end_process(backups[0]);
	promote();
	litmus.flags[FOUR] = true;
}

/* ---- a word ---------------------------------------------------------------------------------- */

/* 1; and then 2, by CAS. */
static void
change_word(struct actor *self)
{
	uint64_t seen = 0;

	if (nam_alloc_on(self->worker, self->client->slot_of_id[BACKED], 64, &word_at))
		sim_die("no block");
	litmus_write_word(self, word_at, 1);
	litmus.flags[ONE] = true;
	litmus_await(SEEN);
	if (nam_cas_await(self->worker, word_at, 1, 2, &seen) || seen != 1)
		litmus_fail("the word was %llu", (unsigned long long)seen);
	litmus.flags[TWO] = true;
	litmus_await(FOUR);
	if (litmus_read_word(self, word_at) != 2)
		litmus_fail("a word is older at the second backup");
}

/* The first backup gets the 2, and neither the second one nor the member does. */
static void
write_half(struct actor *self)
{
	uint64_t *word = nam_buffer_take(self->worker, 8);

	if (nam_alloc_on(self->worker, self->client->slot_of_id[BACKED], 64, &word_at))
		sim_die("no block");
	litmus_write_word(self, word_at, 1);
	litmus.flags[ONE] = true;
	litmus_await(SEEN);
	/* Behind the gate: it knows both. */
	(void)litmus_read_word(self, word_at);
	nam_sim_process_cut(self->process, backups[1]->process);
	litmus.flags[TWO] = true;
	*word = 2;
	/* It dies in it. */
	(void)!nam_write_await(self->worker, nam_gaddr_untagged(word_at), word, 8);
}

/* The member ends together with that client.  The second backup may not count then. */
static void
back_kill_with_writer(struct actor *self)
{
	struct nam__cluster_view *view;
	bool stays;

	back_twice();
	litmus_await(TWO);
	nam_sleep_ns(POSTED_NS);
	litmus_die(&litmus.actors[A]);
	end_process(&litmus.cluster.servers[BACKED]);
	promote();
	litmus.flags[THREE] = true;
	litmus_await(FIVE);
	view = litmus_view_of(self);
	stays = nam_view_backup(&view->members[BACKED]) != NULL;
	free(view);
	if (stays) {
		end_process(backups[0]);
		promote();
	}
	litmus.flags[FOUR] = true;
}

static void
read_twice(struct actor *self)
{
	uint64_t before;

	litmus_await(THREE);
	before = litmus_read_word(self, word_at);
	litmus.flags[FIVE] = true;
	litmus_await(FOUR);
	if (litmus_read_word(self, word_at) < before)
		litmus_fail("a value has gone back");
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void
expect_place(struct actor *self)
{
	struct nam__cluster_view *view;

	litmus_await(FOUR);
	litmus_expect_range(self, 0, 10 * (LITMUS_LOADED - 1), 0);
	view = litmus_view_of(self);
	if (strcmp(view->members[BACKED].address, backups[1]->address) != 0)
		litmus_fail("memory server %u is at %s", BACKED, view->members[BACKED].address);
	free(view);
	litmus_verify(self);
}

static void
expect_inserted(struct actor *self)
{
	expect_place(self);
	for (unsigned i = 0; i < LITMUS_KEYS; i++) {
		litmus_expect(self, LITMUS_KEYS_FROM * (1 + A) + i, 0);
		litmus_expect(self, LITMUS_KEYS_FROM * (1 + B) + i, 0);
	}
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_backups_cases[] = {
	{ { "backups_at_once", LITMUS_LOADED,
		{ expect_inserted, litmus_insert_on, litmus_insert_on, back_kill_both },
		{ { 0 } } },
		"a member and its first backup are killed at once while two clients insert", 2, 0 },
	{ { "backups_in_turn", LITMUS_LOADED,
		{ expect_inserted, litmus_insert_on, litmus_insert_on, back_kill_in_turn },
		{ { 0 } } },
		"the same, one after the other", 2, 0 },
	{ { "backups_word", LITMUS_LOADED, { expect_place, change_word, NULL, back_kill_both },
		{ { 0 } } },
		"the same, at once, of a word that a client has changed by CAS", 2, 0 },
	{ { "backups_differ", 0, { NULL, write_half, read_twice, back_kill_with_writer },
		{ { 0 } } },
		"a writer ends with the member, and one of two backups has its WRITE", 2, 0 },
	{ { 0 }, NULL, 0, 0 },
};
