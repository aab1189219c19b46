/* SPDX-License-Identifier: Apache-2.0 */
/* view_lead_test.c -- the lead gets a backup, and that becomes the lead (M25). */
#include <errno.h>

#include "view_fixture.h"

#define LEAD 50u			/* the boot of the earlier one */
#define BACKUP 6000u
#define ADDRESS "shm:/run/nam/backup"
#define NEWEST 9u			/* incarnation of clients of the lead */

/* ---- a lead with a backup -------------------------------------------------------------------- */

static int
change_backup(struct fixture *f, uint64_t now, enum nam_rpc_view_change what)
{
	struct nam_view_member one = member(f, 0);

	one.boot = BACKUP;
	(void)snprintf(one.address, sizeof(one.address), ADDRESS);
	return change(f, now, what, &one);
}

static const struct nam_view_member *
lead_of(struct fixture *f)
{
	get(f, 0);
	return &view_of(f)->members[0];
}

static void
lead__gets_a_backup__IS_KNOWN_ONCE_ALL_HAVE_ACKNOWLEDGED(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 };

	form(f, 2);
	assert_int_equal(enrol(f, &a, 1), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 0), 0);
	assert_int_equal(ack(f, &a, 2), 0);
	/* It does not move. */
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_MOVED), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_BACKED), 0);
	assert_int_equal(lead_of(f)->backups[0].boot, BACKUP);
	assert_int_equal(lead_of(f)->known, 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_UP, 0), -NAM_E_VIEW);
	assert_int_equal(ack(f, &a, 3), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_UP, 0), 0);
	assert_int_equal(lead_of(f)->known, 1);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_UP, 0), -NAM_E_VIEW);
	/* It answers, so it has not ended. */
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_PROMOTE, 0), -NAM_E_VIEW);
	get(f, 0);
	assert_int_equal(view_of(f)->view.lead_boot, f->server->boot);
	/* Before it has none any more, that does not count. */
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_ABORT, 0), 0);
	assert_int_equal(lead_of(f)->known, 0);
	assert_int_equal(lead_of(f)->backups[0].boot, BACKUP);
	assert_int_equal(change_id(f, 5, NAM_RPC_VIEW_ABORT, 0), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_UNBACKED), 0);
	assert_int_equal(lead_of(f)->backups[0].boot, 0);
	assert_int_equal(lead_of(f)->known, 0);
	leave(f, &a);
}

/* As a store decides that is not the lead. */
static void
promote__of_the_lead__NEEDS_A_BACKUP_THAT_IS_KNOWN(void **state)
{
	struct nam_view_member members[NAM_SERVERS_MAX] = { { .state = NAM_VIEW_UP, .boot = LEAD,
		.memory = LEAD, .since = 1, .renewed = 1, .address = "shm:/a",
		.backups = { { BACKUP, ADDRESS } } } };
	struct nam_view_head head = { .number = 7, .lead_boot = LEAD, .count = 1 };
	struct nam_view_member asked = members[0];

	(void)state;
	assert_int_equal(nam_view_change(&head, members, NAM_RPC_VIEW_PROMOTE, &asked),
		-NAM_E_VIEW);
	assert_int_equal(head.lead_boot, LEAD);
	members[0].known = 1;
	assert_int_equal(nam_view_change(&head, members, NAM_RPC_VIEW_PROMOTE, &asked), 0);
	assert_int_equal(head.lead_boot, BACKUP);
	assert_int_equal(head.number, 8);
	assert_int_equal(members[0].state, NAM_VIEW_PROMOTING);
	asked.boot = BACKUP;
	assert_int_equal(nam_view_change(&head, members, NAM_RPC_VIEW_MOVED, &asked), 0);
	assert_int_equal(head.lead_boot, BACKUP);
	assert_int_equal(members[0].boot, BACKUP);
	assert_int_equal(members[0].memory, LEAD);
	assert_string_equal(members[0].address, ADDRESS);
	assert_int_equal(members[0].backups[0].boot + members[0].known, 0);
}

/* ---- a backup of the lead -------------------------------------------------------------------- */

/* Of the lead that has it; or of itself, once that has ended. */
static void
view_fill(const struct fixture *f, struct draft *draft, uint64_t now, bool succeeds)
{
	struct nam_view_member *lead = &request_of(draft)->members[0];

	copy_fill(f, draft, now, LEAD, 2, 0, 2);
	(void)snprintf(lead->address, sizeof(lead->address), "shm:/run/nam/lead");
	lead->backups[0].boot = f->server->boot;
	lead->known = 1;
	(void)snprintf(lead->backups[0].address, sizeof(lead->backups[0].address), ADDRESS);
	if (!succeeds)
		return;
	lead->state = NAM_VIEW_PROMOTING;
	request_of(draft)->view.lead_boot = f->server->boot;
}

/* It has the books of the lead, and its view 5. */
static int
setup_backup(void **state)
{
	struct fixture *f = aligned_alloc(64, (sizeof(*f) + 63) & ~63ul);
	struct nam_server_options options;
	struct draft draft;

	assert_non_null(f);
	fixture_options(f, &options);
	options.successor = true;
	fixture_start(f, &options);
	atomic_store(&f->server->phase, NAM_SERVER_SERVES);
	view_fill(f, &draft, 5, false);
	assert_int_equal(ask(f, &draft), 0);
	*state = f;
	return 0;
}

static int
succeed(struct fixture *f)
{
	struct draft draft;

	view_fill(f, &draft, 6, true);
	return ask(f, &draft);
}

/* A connection that names a client of the lead. */
static void
come(struct fixture *f, struct nam__connection *connection, uint16_t id)
{
	*connection = (struct nam__connection){ .client_id = id, .incarnation = NEWEST };
	assert_int_equal(nam__membership_attach(&f->server->membership, connection), 0);
}

static int
enter(struct fixture *f, struct nam__connection *connection, uint64_t now, uint64_t epoch)
{
	const struct nam_rpc_register_request request = { .pid = 7, .name = "x", .view = now,
		.acknowledged = now, .client_id = connection->client_id,
		.incarnation = connection->incarnation, .slot = epoch / 2, .epoch = epoch };

	return call_over(f, connection, NAM_RPC_REGISTER, &request, sizeof(request));
}

static enum nam_client_state
state_of(struct fixture *f, uint16_t id)
{
	const struct nam_rpc_client_state_request request = { .client_id = id,
		.incarnation = NEWEST };

	assert_int_equal(call(f, NAM_RPC_CLIENT_STATE, &request, sizeof(request)), 0);
	return ((const struct nam_rpc_client_state_reply *)reply_body(f))->state;
}

static uint64_t
word_at(const struct fixture *f, uint32_t offset)
{
	return *(uint64_t *)(void *)((uint8_t *)f->server->memory.mrs[0].base + offset);
}

static void
backup__asked_what_a_lead_is_asked__IS_CLUSTER(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_client_state_request asked = { .client_id = 1 };
	const struct nam_rpc_fence_request next = { .step = NAM_RPC_FENCE_NEXT };
	struct nam__connection a = { 0 };
	struct draft draft;

	assert_int_equal(enrol(f, &a, 5), -NAM_E_CLUSTER);
	assert_int_equal(call(f, NAM_RPC_CLIENT_STATE, &asked, sizeof(asked)), -NAM_E_CLUSTER);
	assert_int_equal(call(f, NAM_RPC_FENCE, &next, sizeof(next)), -NAM_E_CLUSTER);
	assert_int_equal(change_id(f, 5, NAM_RPC_VIEW_ADD, 7), -NAM_E_CLUSTER);
	page_fill(f, &draft, NAM_RPC_VIEW_FORM, 1, 0, 1);
	assert_int_equal(ask(f, &draft), -NAM_E_CLUSTER);
	assert_int_equal(number(f), 5);
}

static void
backup__a_client_of_the_lead__ENTERS_with_no_later_view(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a, b = { 0 };

	come(f, &a, 3);
	assert_int_equal(ack(f, &a, 5), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(enter(f, &a, 6, 10), -NAM_E_VIEW);
	assert_int_equal(enter(f, &a, 5, 10), 0);
	assert_int_equal(ack(f, &a, 5), 0);
	assert_int_equal(ack(f, &a, 6), -NAM_E_VIEW);
	assert_int_equal(word_at(f, NAM_META_EPOCH_OFFSET), 10);
	assert_int_equal(word_at(f, NAM_META_SLOTS_OFFSET + 8 * 3), 5);
	/* The epoch only grows. */
	assert_int_equal(enter(f, &a, 5, 8), 0);
	assert_int_equal(word_at(f, NAM_META_EPOCH_OFFSET), 10);
	/* A connection that names no client is of none. */
	assert_int_equal(enter(f, &b, 5, 10), -NAM_E_FABRIC_PROTOCOL);
	leave(f, &a);
	assert_int_equal(f->server->membership.members[3].state, NAM_CLIENT_FENCING);
	/* It comes again, before the backup leads. */
	come(f, &a, 3);
	assert_int_equal(enter(f, &a, 5, 10), 0);
	assert_int_equal(f->server->membership.members[3].state, NAM_CLIENT_ALIVE);
	leave(f, &a);
}

static void
copy__of_the_next_view__MAKES_IT_LEAD_with_the_clients_that_are_there(void **state)
{
	struct fixture *f = *state;
	struct nam__membership *membership = &f->server->membership;
	struct nam__connection a, b, c = { 0 };

	come(f, &a, 3);
	assert_int_equal(enter(f, &a, 5, 10), 0);
	/* One has never entered, one is dead, as the lead has said, and one was not heard of. */
	come(f, &b, 4);
	nam__membership_detach(membership, &b);
	come(f, &b, 5);
	nam__membership_detach(membership, &b);
	fence_publish(f, 5, NEWEST, 5);
	assert_int_equal(succeed(f), 0);
	assert_int_equal(state_of(f, 3), NAM_CLIENT_ALIVE);
	assert_int_equal(state_of(f, 4), NAM_CLIENT_FENCING);
	assert_int_equal(state_of(f, 5), NAM_CLIENT_DEAD);
	assert_int_equal(state_of(f, 6), NAM_CLIENT_UNKNOWN);
	assert_int_equal(word_at(f, NAM_META_SLOTS_OFFSET + 8 * 3), 5);
	assert_int_equal(view_word(f), 1ull << NAM_VIEW_WORD_FENCING | 6);
	get(f, 0);
	assert_int_equal(view_of(f)->view.number, 6);
	assert_int_equal(view_of(f)->acknowledged, 0);
	assert_int_equal(succeed(f), -NAM_E_CLUSTER);
	/* A client that comes has a later incarnation than all before. */
	assert_int_equal(ack(f, &a, 6), 0);
	assert_int_equal(enrol(f, &c, 6), 0);
	assert_true((int16_t)(c.incarnation - NEWEST) > 1);
	leave(f, &c);
	leave(f, &a);
}

static void
copy__not_of_the_next_view__LEAVES_IT_A_BACKUP(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member *lead;
	struct draft draft;

	lead = &request_of(&draft)->members[0];
	view_fill(f, &draft, 5, true);
	assert_int_equal(ask(f, &draft), -NAM_E_VIEW);
	view_fill(f, &draft, 6, true);
	lead->known = 0;
	assert_int_equal(ask(f, &draft), -NAM_E_VIEW);
	view_fill(f, &draft, 6, true);
	lead->boot = LEAD + 1;
	assert_int_equal(ask(f, &draft), -NAM_E_VIEW);
	view_fill(f, &draft, 6, true);
	lead->state = NAM_VIEW_UP;
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	view_fill(f, &draft, 6, true);
	f->connection.proven.role = NAM_ROLE_WRITE;
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_DENIED);
	f->connection.proven.role = NAM_ROLE_ADMIN;
	assert_false(nam__leads(f->server));
	assert_int_equal(succeed(f), 0);
	assert_true(nam__leads(f->server));
}

static void
session__over_another_connection__STAYS_WHEN_THE_FIRST_ONE_CLOSES(void **state)
{
	struct fixture *f = *state;
	struct nam__connection first, second, late;

	come(f, &first, 3);
	assert_int_equal(enter(f, &first, 5, 10), 0);
	come(f, &late, 4);
	assert_int_equal(succeed(f), 0);
	come(f, &second, 3);
	assert_int_equal(enter(f, &second, 6, 12), 0);
	leave(f, &first);
	assert_int_equal(state_of(f, 3), NAM_CLIENT_ALIVE);
	leave(f, &second);
	assert_int_equal(state_of(f, 3), NAM_CLIENT_FENCING);
	/* A client that has not entered before it leads comes too late. */
	assert_int_equal(enter(f, &late, 6, 12), -NAM_E_FENCED);
	leave(f, &late);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define TEST_BACKUP(name) cmocka_unit_test_setup_teardown(name, setup_backup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(lead__gets_a_backup__IS_KNOWN_ONCE_ALL_HAVE_ACKNOWLEDGED),
		cmocka_unit_test(promote__of_the_lead__NEEDS_A_BACKUP_THAT_IS_KNOWN),
		TEST_BACKUP(backup__asked_what_a_lead_is_asked__IS_CLUSTER),
		TEST_BACKUP(backup__a_client_of_the_lead__ENTERS_with_no_later_view),
		TEST_BACKUP(copy__of_the_next_view__MAKES_IT_LEAD_with_the_clients_that_are_there),
		TEST_BACKUP(copy__not_of_the_next_view__LEAVES_IT_A_BACKUP),
		TEST_BACKUP(session__over_another_connection__STAYS_WHEN_THE_FIRST_ONE_CLOSES),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
