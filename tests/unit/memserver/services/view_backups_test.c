/* SPDX-License-Identifier: Apache-2.0 */
/* view_backups_test.c -- a member gets two backups, and one of them goes, or gets its place. */
#include "view_fixture.h"

#define BACKUP 6000u			/* the boot of the first; the second one's is the next */
#define ADDRESS "shm:/run/nam/backup"

static struct nam_view_member
backup_of(const struct fixture *f, uint32_t id, unsigned number)
{
	struct nam_view_member ret = member(f, id);

	ret.boot = BACKUP + number;
	(void)snprintf(ret.address, sizeof(ret.address), ADDRESS "%s", number ? "2" : "");
	return ret;
}

static int
change_backup(struct fixture *f, uint64_t now, enum nam_rpc_view_change what, unsigned number)
{
	struct nam_view_member one = backup_of(f, 1, number);

	return change(f, now, what, &one);
}

/* From view 1 on, without a client: view 3. */
static void
form_backed(struct fixture *f, uint32_t count)
{
	form(f, count);
	assert_int_equal(change_id(f, 1, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(change_backup(f, 2, NAM_RPC_VIEW_BACKED, 0), 0);
}

/* View 5. */
static void
form_backed_twice(struct fixture *f)
{
	form_backed(f, 3);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(change_backup(f, 4, NAM_RPC_VIEW_BACKED, 1), 0);
}

/* It is copied for that only. */
static void
backed__again__GETS_A_SECOND_ONE_and_does_not_move(void **state)
{
	struct fixture *f = *state;

	form_backed(f, 3);
	assert_int_equal(change_id(f, 3, NAM_RPC_VIEW_NOTE, 1), 0);
	assert_int_equal(change_id(f, 4, NAM_RPC_VIEW_MOVE, 1), 0);
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_MOVED, 1), -NAM_E_VIEW);
	/* The same one again. */
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_BACKED, 0), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 5, NAM_RPC_VIEW_BACKED, 1), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(at(f, 1)->backups[0].boot, BACKUP);
	assert_int_equal(at(f, 1)->backups[1].boot, BACKUP + 1);
	assert_string_equal(at(f, 1)->backups[1].address, ADDRESS "2");
	assert_int_equal(change_id(f, 6, NAM_RPC_VIEW_NOTE, 1), -NAM_E_VIEW);
	/* Its place stays. */
	assert_int_equal(change_backup(f, 6, NAM_RPC_VIEW_UNBACKED, 0), 0);
	assert_int_equal(at(f, 1)->backups[0].boot, 0);
	assert_int_equal(at(f, 1)->backups[1].boot, BACKUP + 1);
}

/* The first one has its place, and the second one stays if that is asked for. */
static void
promoted_of_two(struct fixture *f, uint16_t stays)
{
	struct nam_view_member first = backup_of(f, 1, 0);

	form_backed_twice(f);
	assert_int_equal(change_id(f, 5, NAM_RPC_VIEW_PROMOTE, 1), 0);
	assert_int_equal(change_backup(f, 6, NAM_RPC_VIEW_MOVED, 1), -NAM_E_VIEW);
	first.wanted = stays;
	assert_int_equal(change(f, 6, NAM_RPC_VIEW_MOVED, &first), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_UP);
	assert_int_equal(at(f, 1)->boot, BACKUP);
	assert_int_equal(at(f, 1)->backups[0].boot, 0);
}

static void
moved__first_of_two__THE_SECOND_STAYS_IF_ASKED(void **state)
{
	promoted_of_two(*state, 1);
	assert_int_equal(at(*state, 1)->backups[1].boot, BACKUP + 1);
}

static void
moved__first_of_two__ELSE_IT_GOES(void **state)
{
	promoted_of_two(*state, 0);
	assert_unbacked(at(*state, 1));
}

static void
unbacked__while_it_is_promoted__NOT_THE_LAST_ONE(void **state)
{
	struct fixture *f = *state;

	form_backed_twice(f);
	assert_int_equal(change_id(f, 5, NAM_RPC_VIEW_PROMOTE, 1), 0);
	assert_int_equal(change_backup(f, 6, NAM_RPC_VIEW_UNBACKED, 0), 0);
	assert_int_equal(at(f, 1)->state, NAM_VIEW_PROMOTING);
	assert_int_equal(change_backup(f, 7, NAM_RPC_VIEW_UNBACKED, 1), -NAM_E_VIEW);
	assert_int_equal(change_backup(f, 7, NAM_RPC_VIEW_MOVED, 1), 0);
	assert_int_equal(at(f, 1)->boot, BACKUP + 1);
	assert_string_equal(at(f, 1)->address, ADDRESS "2");
	assert_unbacked(at(f, 1));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(backed__again__GETS_A_SECOND_ONE_and_does_not_move),
		TEST(moved__first_of_two__THE_SECOND_STAYS_IF_ASKED),
		TEST(moved__first_of_two__ELSE_IT_GOES),
		TEST(unbacked__while_it_is_promoted__NOT_THE_LAST_ONE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
