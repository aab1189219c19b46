/* SPDX-License-Identifier: Apache-2.0 */
/* view_backup_test.c -- a member gets a backup, loses it, or has it in its place. */
#include "view_fixture.h"

#define BACKUP 6000u			/* its boot */
#define ADDRESS "shm:/run/nam/backup"
#define CHANGES_AT_RANDOM 100000u

/* The backup of a member, as it is named in a change. */
static struct nam_view_member
backup_of(const struct fixture *f, uint32_t id)
{
	struct nam_view_member ret = member(f, id);

	ret.boot = BACKUP;
	(void)snprintf(ret.address, sizeof(ret.address), ADDRESS);
	return ret;
}

static int
change_backup(struct fixture *f, uint64_t now, enum nam_rpc_view_change what, uint32_t id)
{
	struct nam_view_member one = backup_of(f, id);

	return change(f, now, what, &one);
}

/* From view 1 on, without a client: view 3. */
static void
form_backed(struct fixture *f, uint32_t count)
{
	form(f, count);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_BACKED, 1), 0);
}

/* View 4. */
static void
form_promoting(struct fixture *f, uint32_t count)
{
	form_backed(f, count);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_PROMOTE, 1), 0);
}

/* ---- BACKED ---------------------------------------------------------------------------------- */

static void
backed__a_member_that_moves__IS_UP_WITH_A_BACKUP(void **state)
{
	struct fixture *f = *state;
	const struct nam_view_member *one;

	form_backed(f, 3);
	assert_int_equal(view_of(f)->view.number, 3);
	assert_int_equal(view_word(f), 3);
	one = at(f, 1);
	assert_int_equal(one->id, 1);
	assert_int_equal(one->state, NAM_VIEW_UP);
	assert_int_equal(one->boot, 1001);
	assert_int_equal(one->memory, 1001);
	assert_int_equal(one->since, 1);
	assert_int_equal(one->renewed, 1);
	assert_string_equal(one->address, member(f, 1).address);
	assert_int_equal(one->backups[0].boot, BACKUP);
	assert_string_equal(one->backups[0].address, ADDRESS);
	assert_unbacked(at(f, 0));
	assert_unbacked(at(f, 2));
}

static void
backed__a_member_that_does_not_move__IS_VIEW(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(change_backup(f, 0, NAM_RPC_VIEW_BACKED, 1), -NAM_E_VIEW);
	form(f, 3);
	assert_int_equal(change_backup(f, 1, NAM_RPC_VIEW_BACKED, 1), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 1, NAM_RPC_VIEW_BACKED, 0), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 1, NAM_RPC_VIEW_BACKED, 7), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_NOTE, 1), 0);
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_BACKED, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_ABORT, 1), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_BACKED, 5), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_ABORT, 5), 0);
	assert_int_equal(change_id(f, 5, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(change_backup(f, 6, NAM_RPC_VIEW_BACKED, 2), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_BACKED, 1), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 6, NAM_RPC_VIEW_BACKED, 1), 0);
	/* It has one, and moves no more. */
	assert_int_equal(change_backup(f, 7, NAM_RPC_VIEW_BACKED, 1), -NAM_E_VIEW);
	assert_int_equal(number(f), 7);
}

static void
backed__by_itself_or_where_another_one_is__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = backup_of(f, 1);

	form(f, 3);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	one.boot = 1001;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_BACKED, &one), -NAM_E_VIEW);
	one.boot = 0;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_BACKED, &one), -NAM_E_FABRIC_PROTOCOL);
	one.boot = BACKUP;
	for (uint32_t id = 0; id < 3; id++) {
		memcpy(one.address, member(f, id).address, sizeof(one.address));
		assert_int_equal(change(f, 2, NAM_RPC_VIEW_BACKED, &one), -NAM_E_VIEW);
	}
	one.address[0] = '\0';
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_BACKED, &one), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_MOVING);
	assert_unbacked(at(f, 1));
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_BACKED, 1), 0);
}

/* Of another member: for its move, its backup, and one that joins. */
static void
backed__address_of_a_backup__IS_TAKEN(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = backup_of(f, 2), joins = member(f, 5);

	form_backed(f, 3);
	memcpy(joins.address, one.address, sizeof(joins.address));
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_ADD, &joins), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_MOVE, 2), 0);
	one.boot++;
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_MOVED, &one), -NAM_E_VIEW);
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_BACKED, &one), -NAM_E_VIEW);
	(void)snprintf(one.address, sizeof(one.address), ADDRESS "2");
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_BACKED, &one), 0);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
	assert_int_equal(at(f, 2)->backups[0].boot, BACKUP + 1);
	assert_string_equal(at(f, 2)->backups[0].address, ADDRESS "2");
	/* Once it is none any more, the address is free. */
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_UNBACKED, 1), 0);
	assert_int_equal(change(f, 6, NAM_RPC_VIEW_ADD, &joins), 0);
}

/* Of BACKED, the boot and the address count; nothing else that a request says of backups. */
static void
add_and_form__with_a_backup__HAVE_NONE(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member joins = member(f, 5);
	struct draft draft;

	page_fill(f, &draft, NAM_RPC_VIEW_FORM, 2, 0, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct nam_view_backup *backup = request_of(&draft)->members[i].backups;

		backup->boot = BACKUP;
		memset(backup->address, 'x', sizeof(backup->address));
	}
	assert_int_equal(ask(f, &draft), 0);
	assert_unbacked(at(f, 0));
	assert_unbacked(at(f, 1));
	joins.backups[0].boot = BACKUP;
	memset(joins.backups[0].address, 'x', sizeof(joins.backups[0].address));
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_ADD, &joins), 0);
	assert_unbacked(at(f, 2));
	joins = member(f, 1);
	joins.backups[0].boot = BACKUP;
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_UP, 5), 0);
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_MOVE, &joins), 0);
	assert_unbacked(at(f, 1));
	joins = backup_of(f, 1);
	joins.backups[0].boot = 77;
	(void)snprintf(joins.backups[0].address, sizeof(joins.backups[0].address), "shm:/other");
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_BACKED, &joins), 0);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
	assert_string_equal(at(f, 1)->backups[0].address, ADDRESS);
}

/* ---- what is refused ------------------------------------------------------------------------- */

/* It stays as it is; other members do not. */
static void
backed__moved_renewed_or_added__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1);
	static const enum nam_rpc_view_change refused[] = { NAM_RPC_VIEW_ADD, NAM_RPC_VIEW_UP,
		NAM_RPC_VIEW_ABORT, NAM_RPC_VIEW_RENEW, NAM_RPC_VIEW_MOVED, NAM_RPC_VIEW_BACKED };

	form_backed(f, 3);
	for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		assert_int_equal(change_id(f, 3, refused[i], 1), -NAM_E_VIEW);
		assert_int_equal(change_backup(f, 3, refused[i], 1), -NAM_E_VIEW);
	}
	one.boot = 77;
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_RENEW, &one), -NAM_E_VIEW);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
	assert_int_equal(number(f), 3);
	one = member(f, 2);
	one.boot = 78;
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_RENEW, &one), 0);
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_MOVE, &one), 0);
	assert_int_equal(moved(f, 5, 2), 0);
	assert_int_equal(change_id(f, 6, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
}

/* ---- UNBACKED -------------------------------------------------------------------------------- */

static void
unbacked__its_backup__HAS_NONE_and_may_move(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = backup_of(f, 1);

	form_backed(f, 3);
	/* By its boot, wherever it is. */
	memcpy(one.address, member(f, 2).address, sizeof(one.address));
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_UNBACKED, &one), 0);
	assert_int_equal(view_word(f), 4);
	assert_unbacked(at(f, 1));
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(at(f, 1)->boot, 1001);
	assert_int_equal(at(f, 1)->renewed, 1);
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_UNBACKED, &one), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(moved(f, 5, 1), 0);
	one = member(f, 1);
	one.boot = 77;
	assert_int_equal(change(f, 6, NAM_RPC_VIEW_RENEW, &one), 0);
}

static void
unbacked__of_another_boot_or_member__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = backup_of(f, 1);

	form_backed(f, 3);
	one.boot++;
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_UNBACKED, &one), -NAM_E_VIEW);
	one.boot = 0;
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_UNBACKED, &one), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_UNBACKED, 1), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 3, NAM_RPC_VIEW_UNBACKED, 2), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 3, NAM_RPC_VIEW_UNBACKED, 7), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_UNBACKED, 1), -NAM_E_VIEW);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
	assert_int_equal(number(f), 3);
}

/* It needs no gate. */
static void
unbacked__while_another_one_moves__IS_DONE(void **state)
{
	struct fixture *f = *state;

	form_backed(f, 3);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_MOVE, 2), 0);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_UNBACKED, 1), 0);
	assert_unbacked(at(f, 1));
	assert_int_equal(at(f, 2)->state, NAM_VIEW_MOVING);
	assert_int_equal(moved(f, 5, 2), 0);
}

/* ---- PROMOTE --------------------------------------------------------------------------------- */

static void
promote__moved__THE_BACKUP_HAS_THE_PLACE_and_the_same_memory(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = backup_of(f, 1);

	form_promoting(f, 3);
	assert_int_equal(view_word(f), 4);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_PROMOTING);
	assert_int_equal(at(f, 1)->boot, 1001);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
	assert_string_equal(at(f, 1)->address, member(f, 1).address);
	assert_string_equal(at(f, 1)->backups[0].address, ADDRESS);
	/* The address is that of the view. */
	(void)snprintf(one.address, sizeof(one.address), "shm:/elsewhere");
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_MOVED, &one), 0);
	assert_int_equal(view_word(f), 5);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(at(f, 1)->boot, BACKUP);
	assert_int_equal(at(f, 1)->memory, 1001);
	assert_int_equal(at(f, 1)->since, 1);
	assert_int_equal(at(f, 1)->renewed, 1);
	assert_string_equal(at(f, 1)->address, ADDRESS);
	assert_unbacked(at(f, 1));
}

static void
promote__done__IS_A_MEMBER_LIKE_OTHERS(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = backup_of(f, 1), ended = member(f, 1);

	form_promoting(f, 3);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_MOVED, 1), 0);
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_MOVED, 1), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_UNBACKED, 1), -NAM_E_VIEW);
	/* The process that has ended does not come back. */
	assert_int_equal(change(f, 5, NAM_RPC_VIEW_RENEW, &ended), -NAM_E_VIEW);
	assert_int_equal(change(f, 5, NAM_RPC_VIEW_MOVE, &ended), -NAM_E_VIEW);
	/* It may have a backup: at the address of the one that has ended, too. */
	assert_int_equal(change(f, 5, NAM_RPC_VIEW_MOVE, &one), 0);
	ended.boot = 77;
	assert_int_equal(change(f, 6, NAM_RPC_VIEW_BACKED, &ended), 0);
	assert_int_equal(at(f, 1)->boot, BACKUP);
	assert_int_equal(at(f, 1)->backups[0].boot, 77);
	assert_string_equal(at(f, 1)->backups[0].address, ended.address);
	assert_int_equal(change(f, 7, NAM_RPC_VIEW_PROMOTE, &one), 0);
	assert_int_equal(change(f, 8, NAM_RPC_VIEW_MOVED, &ended), 0);
	assert_int_equal(at(f, 1)->boot, 77);
	assert_int_equal(at(f, 1)->memory, 1001);
}

static void
promote__without_a_backup_or_of_another_boot__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1);

	assert_int_equal(change_id(f, 0, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	form(f, 3);
	for (uint32_t id = 0; id < 4; id++)
		assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_PROMOTE, id), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_BACKED, 1), 0);
	one.boot++;
	assert_int_equal(change(f, 3, NAM_RPC_VIEW_PROMOTE, &one), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 3, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 2, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_PROMOTE, 1), 0);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	assert_int_equal(number(f), 4);
}

/* One member at a time: one gate at a time is closed. */
static void
promote__while_another_one_joins_or_moves__IS_VIEW(void **state)
{
	struct fixture *f = *state;

	form_backed(f, 3);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_ADD, 5), 0);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_ABORT, 5), 0);
	assert_int_equal(change_id(f, 5, NAM_RPC_VIEW_NOTE, 2), 0);
	assert_int_equal(change_id(f, 6, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 6, NAM_RPC_VIEW_MOVE, 2), 0);
	assert_int_equal(change_id(f, 7, NAM_RPC_VIEW_PROMOTE, 1), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 7, NAM_RPC_VIEW_ABORT, 2), 0);
	assert_int_equal(change_id(f, 8, NAM_RPC_VIEW_PROMOTE, 1), 0);
}

static void
promoting__anything_but_moved_to_the_backup__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member one = member(f, 1);

	form_promoting(f, 3);
	for (uint16_t what = 1; what <= NAM_RPC_VIEW_CHANGES; what++) {
		assert_int_equal(change_id(f, 4, what, 1), -NAM_E_VIEW);
		if (what != NAM_RPC_VIEW_MOVED)
			assert_int_equal(change_backup(f, 4, what, 1), -NAM_E_VIEW);
	}
	one.boot = 77;
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_RENEW, &one), -NAM_E_VIEW);
	assert_int_equal(moved(f, 4, 1), -NAM_E_VIEW);
	/* Of another member, nothing begins. */
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_ADD, 5), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_MOVE, 2), -NAM_E_VIEW);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_NOTE, 2), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_MOVED, 2), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 3, NAM_RPC_VIEW_MOVED, 1), -NAM_E_VIEW);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_PROMOTING);
	assert_int_equal(number(f), 4);
	/* A restart of another one is a fact. */
	one = member(f, 2);
	one.boot = 78;
	assert_int_equal(change(f, 4, NAM_RPC_VIEW_RENEW, &one), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_PROMOTING);
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_MOVED, 1), 0);
}

/* ---- clients --------------------------------------------------------------------------------- */

static void
backed__a_living_client_has_not_acknowledged__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 }, b = { 0 };

	form(f, 2);
	assert_int_equal(enrol(f, &a, 1), 0);
	assert_int_equal(enrol(f, &b, 1), 0);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_BACKED, 1), -NAM_E_VIEW);
	assert_int_equal(ack(f, &a, 2), 0);
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_BACKED, 1), -NAM_E_VIEW);
	assert_int_equal(ack(f, &b, 2), 0);
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_BACKED, 1), 0);
	/* The loss of a backup waits for no client. */
	assert_int_equal(change_backup(f, 3, NAM_RPC_VIEW_UNBACKED, 1), 0);
	leave(f, &a);
	leave(f, &b);
}

static void
promoted__a_living_client_has_not_acknowledged__IS_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 }, b = { 0 };

	form_backed(f, 2);
	assert_int_equal(enrol(f, &a, 3), 0);
	assert_int_equal(enrol(f, &b, 3), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_PROMOTE, 1), 0);
	assert_int_equal(ack(f, &a, 4), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 3);
	assert_int_equal(view_of(f)->delaying, b.client_id);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_MOVED, 1), -NAM_E_VIEW);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_PROMOTING);
	assert_int_equal(ack(f, &b, 4), 0);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_MOVED, 1), 0);
	leave(f, &a);
	leave(f, &b);
}

/* Its requests to the backup are under way, until all have fenced it. */
static void
promoted__a_client_is_fencing__IS_VIEW_until_it_is_dead(void **state)
{
	struct fixture *f = *state;
	struct nam__connection a = { 0 };
	uint16_t id, incarnation;

	form_backed(f, 2);
	assert_int_equal(enrol(f, &a, 3), 0);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_PROMOTE, 1), 0);
	id = a.client_id;
	incarnation = a.incarnation;
	leave(f, &a);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 3);
	assert_int_equal(view_of(f)->delaying, id);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_MOVED, 1), -NAM_E_VIEW);
	fence_publish(f, id, incarnation, 4);
	get(f, 0);
	assert_int_equal(view_of(f)->acknowledged, 4);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_MOVED, 1), 0);
}

/* ---- stewards -------------------------------------------------------------------------------- */

static int
change_over(struct fixture *f, struct nam__connection *connection, uint64_t now, uint64_t term,
	enum nam_rpc_view_change what)
{
	struct draft draft = { { 0 } };

	*request_of(&draft) = (struct nam_rpc_view_request){
		.step = NAM_RPC_VIEW_CHANGE, .change = (uint16_t)what, .count = 1,
		.view = { .number = now, .term = term },
	};
	request_of(&draft)->members[0] = what == NAM_RPC_VIEW_BACKED ||
		what == NAM_RPC_VIEW_MOVED ? backup_of(f, 1) : member(f, 1);
	return ask_over(f, connection, &draft);
}

static char logged[4096];

static void
log_collect(enum nam_log_level level, const char *event, const char *fields)
{
	size_t used = strlen(logged);

	if (level == NAM_LOG_INFO && !strcmp(event, "view"))
		(void)snprintf(logged + used, sizeof(logged) - used, "%s\n", fields);
}

static void
mover__ends_in_a_promotion__STAYS_PROMOTING_and_another_one_ends_it(void **state)
{
	struct fixture *f = *state;
	struct nam__connection mover = { 0 };

	logged[0] = '\0';
	f->server->options.log = log_collect;
	form(f, 2);
	assert_int_equal(change_over(f, &mover, 1, 0, NAM_RPC_VIEW_MOVE), 0);
	assert_int_equal(change_over(f, &mover, 2, 0, NAM_RPC_VIEW_BACKED), 0);
	assert_int_equal(change_over(f, &mover, 3, 0, NAM_RPC_VIEW_PROMOTE), 0);
	leave(f, &mover);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_PROMOTING);
	assert_int_equal(number(f), 4);
	assert_int_equal(view_word(f), 4);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_MOVED, 1), 0);
	assert_string_equal(logged,
		"number=1 change=form id=0 address=\"shm:/run/nam/0\"\n"
		"number=2 change=move id=1 address=\"shm:/run/nam/1\"\n"
		"number=3 change=backed id=1 address=\"" ADDRESS "\"\n"
		"number=4 change=promote id=1 address=\"shm:/run/nam/1\"\n"
		"number=5 change=moved id=1 address=\"" ADDRESS "\"\n");
}

static void
mover__ends_after_backed__ITS_MEMBER_KEEPS_THE_BACKUP(void **state)
{
	struct fixture *f = *state;
	struct nam__connection mover = { 0 };

	form(f, 2);
	assert_int_equal(change_over(f, &mover, 1, 0, NAM_RPC_VIEW_MOVE), 0);
	assert_int_equal(change_over(f, &mover, 2, 0, NAM_RPC_VIEW_BACKED), 0);
	leave(f, &mover);
	assert_int_equal(number(f), 3);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
}

static void
promote__of_an_earlier_term_or_without__IS_REFUSED(void **state)
{
	struct fixture *f = *state;
	struct draft draft = { { 0 } };

	form_backed(f, 2);
	*request_of(&draft) = (struct nam_rpc_view_request){
		.step = NAM_RPC_VIEW_STEWARD, .change = NAM_RPC_STEWARD_PRESENT, .view.term = 70,
	};
	assert_int_equal(ask(f, &draft), 0);
	assert_int_equal(change_over(f, &f->connection, 3, 0, NAM_RPC_VIEW_PROMOTE),
		-NAM_E_VIEW_STORE);
	assert_int_equal(change_backup(f, 3, NAM_RPC_VIEW_UNBACKED, 1), -NAM_E_VIEW_STORE);
	assert_int_equal(change_over(f, &f->connection, 3, 69, NAM_RPC_VIEW_PROMOTE), -NAM_E_TERM);
	assert_int_equal(change_over(f, &f->connection, 3, 70, NAM_RPC_VIEW_PROMOTE), 0);
	assert_int_equal(change_over(f, &f->connection, 4, 69, NAM_RPC_VIEW_MOVED), -NAM_E_TERM);
	assert_int_equal(change_over(f, &f->connection, 4, 70, NAM_RPC_VIEW_MOVED), 0);
}

/* ---- copies ---------------------------------------------------------------------------------- */

static void
copy_backed(const struct fixture *f, struct draft *draft, uint16_t state)
{
	struct nam_view_member *one;

	copy_fill(f, draft, 5, 50, 3, 0, 3);
	one = &request_of(draft)->members[1];
	one->state = state;
	one->backups[0].boot = BACKUP;
	(void)snprintf(one->backups[0].address, sizeof(one->backups[0].address), ADDRESS);
}

static void
copy__of_a_member_with_a_backup__IS_TAKEN(void **state)
{
	struct fixture *f = *state;
	struct draft draft;

	copy_backed(f, &draft, NAM_VIEW_UP);
	assert_int_equal(ask(f, &draft), 0);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
	assert_string_equal(at(f, 1)->backups[0].address, ADDRESS);
	copy_backed(f, &draft, NAM_VIEW_PROMOTING);
	request_of(&draft)->view.number = 6;
	assert_int_equal(ask(f, &draft), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_PROMOTING);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
}

static void
copy__malformed_backup__IS_PROTOCOL(void **state)
{
	static const uint16_t states[] = { 0, NAM_VIEW_PROMOTING + 1 };
	struct fixture *f = *state;
	struct nam_view_member *one;
	struct draft draft;

	one = &request_of(&draft)->members[1];
	for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		copy_backed(f, &draft, states[i]);
		assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	}
	for (unsigned with = 0; with < 2; with++) {
		uint16_t of = with ? NAM_VIEW_PROMOTING : NAM_VIEW_UP;

		/* One that joins has none. */
		copy_backed(f, &draft, NAM_VIEW_JOINING);
		one->since = one->renewed = 0;
		if (with)
			one->backups[0].boot = 0;
		assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
		/* Both, or none. */
		copy_backed(f, &draft, of);
		one->backups[0].boot = 0;
		assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
		memset(one->backups[0].address, 0, sizeof(one->backups[0].address));
		assert_int_equal(ask(f, &draft), with ? -NAM_E_FABRIC_PROTOCOL : 0);
		copy_backed(f, &draft, of);
		request_of(&draft)->view.number = 6;
		one->backups[0].address[0] = '\0';
		assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
		/* It has an end. */
		memset(one->backups[0].address, 'x', sizeof(one->backups[0].address));
		assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	}
	/* The lead has none that has its place. */
	copy_backed(f, &draft, NAM_VIEW_UP);
	request_of(&draft)->members[0].state = NAM_VIEW_PROMOTING;
	request_of(&draft)->members[0].backups[0].boot = BACKUP + 1;
	(void)snprintf(request_of(&draft)->members[0].backups[0].address, 16, "shm:/b");
	assert_int_equal(ask(f, &draft), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(number(f), 5);
	assert_unbacked(at(f, 1));
}

/* ---- how many are wanted --------------------------------------------------------------------- */

static void
backups__of_the_lead__ARE_WANTED(void **state)
{
	struct fixture *f = *state;
	struct nam_view_member lead, other;

	form(f, 2);
	lead = member(f, 0);
	other = member(f, 1);
	get(f, 0);
	assert_int_equal(view_of(f)->view.backups, 0);
	/* As many as there are. */
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_BACKUPS, &lead), -NAM_E_VIEW);
	lead.wanted = NAM_BACKUPS_MAX;
	assert_int_equal(change(f, 1, NAM_RPC_VIEW_BACKUPS, &lead), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->view.backups, NAM_BACKUPS_MAX);
	assert_int_equal(number(f), 2);
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_BACKUPS, &lead), -NAM_E_VIEW);
	/* They are of the whole cluster, and nothing else is changed by that. */
	other.wanted = 0;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_BACKUPS, &other), -NAM_E_VIEW);
	for (uint16_t what = 1; what < NAM_RPC_VIEW_BACKUPS; what++)
		assert_int_equal(change(f, 2, what, &lead), -NAM_E_FABRIC_PROTOCOL);
	/* 1 says that a backup stays. */
	lead.wanted = 1;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_MOVED, &lead), -NAM_E_VIEW);
	lead.wanted = NAM_BACKUPS_MAX + 1;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_BACKUPS, &lead), -NAM_E_VIEW);
	lead.wanted = 0;
	assert_int_equal(change(f, 2, NAM_RPC_VIEW_BACKUPS, &lead), 0);
	get(f, 0);
	assert_int_equal(view_of(f)->view.backups, 0);
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* As a lead's view always is. */
static void
assert_sound(struct fixture *f, uint32_t *seen)
{
	const struct nam_view_member *one;
	uint32_t busy = 0;

	get(f, 0);
	for (uint32_t i = 0; i < view_of(f)->count; i++) {
		one = &view_of(f)->members[i];
		busy += one->state != NAM_VIEW_UP;
		assert_in_range(one->state, NAM_VIEW_JOINING, NAM_VIEW_PROMOTING);
		*seen |= 1u << one->state;
		assert_in_range(nam_view_backups(one), 0, one->id ? NAM_BACKUPS_MAX : 1);
		for (uint32_t k = 0; k < NAM_BACKUPS_MAX; k++) {
			const struct nam_view_backup *backup = &one->backups[k];

			if (!backup->boot)
				continue;
			assert_true(backup->boot != one->boot && one->known <= 1);
			assert_true(backup->address[0]);
			assert_string_not_equal(backup->address, one->address);
			assert_true(one->state != NAM_VIEW_JOINING &&
				(one->state == NAM_VIEW_UP || one->state == NAM_VIEW_PROMOTING ||
				nam_view_backups(one) < NAM_BACKUPS_MAX));
		}
		if (!nam_view_backup(one)) {
			assert_int_not_equal(one->state, NAM_VIEW_PROMOTING);
			assert_int_equal(one->known, 0);
			assert_unbacked(one);
		}
		for (uint32_t k = 0; k < i; k++)
			assert_string_not_equal(one->address, view_of(f)->members[k].address);
	}
	assert_in_range(busy, 0, 1);
}

static void
change__at_random__LEAVES_A_SOUND_VIEW(void **state)
{
	struct fixture *f = *state;
	struct nam_rng rng = nam_rng_seed(7);
	uint32_t done[NAM_RPC_VIEW_CHANGES + 1] = { 0 }, seen = 0;

	form(f, 3);
	for (unsigned i = 0; i < CHANGES_AT_RANDOM; i++) {
		uint16_t what = (uint16_t)(1 + nam_rng_below(&rng, NAM_RPC_VIEW_CHANGES));
		struct nam_view_member one = member(f, (uint32_t)nam_rng_below(&rng, 5));
		uint64_t now = number(f);
		int rc;

		/* No member gets a removed id again, so there would soon be none left. */
		if (what == NAM_RPC_VIEW_REMOVE && i < CHANGES_AT_RANDOM / 4 * 3)
			continue;
		if (one.id)
			one.boot = 1000 + nam_rng_below(&rng, 8);
		if (what == NAM_RPC_VIEW_BACKUPS)
			one.wanted = (uint16_t)nam_rng_below(&rng, 3);
		(void)snprintf(one.address, sizeof(one.address), "shm:/%u",
			(unsigned)nam_rng_below(&rng, 8));
		rc = change(f, now, what, &one);
		assert_true(rc == 0 || rc == -NAM_E_VIEW);
		assert_int_equal(number(f), now + !rc);
		done[what] += !rc;
		assert_sound(f, &seen);
	}
	for (uint16_t what = 1; what <= NAM_RPC_VIEW_CHANGES; what++)
		assert_int_not_equal(done[what], 0);
	for (uint16_t one = NAM_VIEW_JOINING; one <= NAM_VIEW_PROMOTING; one++)
		assert_true(seen & 1u << one);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(backed__a_member_that_moves__IS_UP_WITH_A_BACKUP),
		TEST(backed__a_member_that_does_not_move__IS_VIEW),
		TEST(backed__by_itself_or_where_another_one_is__IS_VIEW),
		TEST(backed__address_of_a_backup__IS_TAKEN),
		TEST(add_and_form__with_a_backup__HAVE_NONE),
		TEST(backed__moved_renewed_or_added__IS_VIEW),
		TEST(unbacked__its_backup__HAS_NONE_and_may_move),
		TEST(backups__of_the_lead__ARE_WANTED),
		TEST(unbacked__of_another_boot_or_member__IS_VIEW),
		TEST(unbacked__while_another_one_moves__IS_DONE),
		TEST(promote__moved__THE_BACKUP_HAS_THE_PLACE_and_the_same_memory),
		TEST(promote__done__IS_A_MEMBER_LIKE_OTHERS),
		TEST(promote__without_a_backup_or_of_another_boot__IS_VIEW),
		TEST(promote__while_another_one_joins_or_moves__IS_VIEW),
		TEST(promoting__anything_but_moved_to_the_backup__IS_VIEW),
		TEST(backed__a_living_client_has_not_acknowledged__IS_VIEW),
		TEST(promoted__a_living_client_has_not_acknowledged__IS_VIEW),
		TEST(promoted__a_client_is_fencing__IS_VIEW_until_it_is_dead),
		TEST(mover__ends_in_a_promotion__STAYS_PROMOTING_and_another_one_ends_it),
		TEST(mover__ends_after_backed__ITS_MEMBER_KEEPS_THE_BACKUP),
		TEST(promote__of_an_earlier_term_or_without__IS_REFUSED),
		TEST_3(copy__of_a_member_with_a_backup__IS_TAKEN),
		TEST_3(copy__malformed_backup__IS_PROTOCOL),
		TEST(change__at_random__LEAVES_A_SOUND_VIEW),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
