/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "common/error.h"
#include "common/exit.h"

static void
exit_code__each_kind_of_failure__ITS_STATUS(void **state)
{
	static const struct {
		int rc, status;
	} cases[] = {
		{ 0, 0 },
		{ -NAM_E_NOTFOUND, 1 },
		{ -EINVAL, 2 },
		{ -ENOENT, 2 },
		{ -NAM_E_USAGE, 2 },
		{ -NAM_E_KEY_BYTES, 2 },
		{ -NAM_E_UNSORTED, 2 },
		{ -NAM_E_CLUSTER, 2 },
		{ -NAM_E_LIMIT, 2 },
		{ -NAM_E_FABRIC_CONNECT, 3 },
		{ -NAM_E_FABRIC_PEER_DEAD, 3 },
		{ -NAM_E_FABRIC_TIMEOUT, 3 },
		{ -NAM_E_FABRIC_VERSION, 3 },
		{ -NAM_E_EXISTS, 4 },
		{ -NAM_E_INDEX_EXISTS, 4 },
		{ -NAM_E_NOTEMPTY, 4 },
		{ -NAM_E_NOINDEX, 5 },
		{ -NAM_E_DROPPED, 5 },
		{ -NAM_E_REMOTE_FULL, 6 },
		{ -NAM_E_REMOTE_CORRUPT, 6 },
		{ -NAM_E_LOCK_ORPHANED, 6 },
		{ -NAM_E_FENCED, 6 },
		{ -NAM_E_LOST, 6 },
		{ -NAM_E_RESTART_HOPS, 6 },
		{ -ENOMEM, 6 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (nam_exit_code(cases[i].rc) != cases[i].status)
			fail_msg("%s ends a program with %d", nam_err_name(cases[i].rc),
				nam_exit_code(cases[i].rc));
}

/* Each code has a status, and no failure looks like success. */
static void
exit_code__every_code__NOT_SUCCESS(void **state)
{
	(void)state;
#define EXIT_FAILURE_OF(name, value, parent, text)                                                  \
	assert_in_range(nam_exit_code(-(value)), NAM_EXIT_NO, NAM_EXIT_REMOTE);
	NAM_ERRORS(EXIT_FAILURE_OF)
#undef EXIT_FAILURE_OF
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit_code__each_kind_of_failure__ITS_STATUS),
		cmocka_unit_test(exit_code__every_code__NOT_SUCCESS),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
