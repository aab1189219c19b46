/* SPDX-License-Identifier: Apache-2.0 */
/* names_test.c -- which fabrics a program knows, and what it says of one left out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/fabric/fabric.h"

static void
find__shm_and_tcp__ARE_ALWAYS_THERE(void **state)
{
	const char *rest;

	(void)state;
	assert_non_null(nam_fabric_find("shm:/run/nam/a", &rest));
	assert_string_equal(rest, "/run/nam/a");
	assert_non_null(nam_fabric_find("tcp:10.0.0.1:7000", &rest));
	assert_string_equal(rest, "10.0.0.1:7000");
	assert_int_equal(strncmp(nam_fabric_names(), "shm, tcp", 8), 0);
}

static void
find__no_fabric__IS_NOT_FOUND(void **state)
{
	(void)state;
	assert_null(nam_fabric_find("shm", NULL));
	assert_null(nam_fabric_find("udp:10.0.0.1:7000", NULL));
	assert_null(nam_fabric_find("verbs2:10.0.0.1:7000", NULL));
	assert_null(nam_fabric_find(":", NULL));
}

/* This file is built twice: as everything else is, and without verbs. */
static void
find__verbs__IS_THERE_OR_SAYS_HOW_TO_COME_BY_IT(void **state)
{
	(void)state;
#ifdef NAM_VERBS
	assert_non_null(nam_fabric_find("verbs:10.0.0.1:7000", NULL));
	assert_string_equal(nam_fabric_names(), "shm, tcp, verbs");
#else
	assert_null(nam_fabric_find("verbs:10.0.0.1:7000", NULL));
	assert_non_null(strstr(nam_fabric_names(), "verbs was left out"));
	assert_non_null(strstr(nam_fabric_names(), "libibverbs-dev and librdmacm-dev"));
	assert_non_null(strstr(nam_fabric_names(), "-DNAM_VERBS=ON"));
#endif
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(find__shm_and_tcp__ARE_ALWAYS_THERE),
		cmocka_unit_test(find__no_fabric__IS_NOT_FOUND),
		cmocka_unit_test(find__verbs__IS_THERE_OR_SAYS_HOW_TO_COME_BY_IT),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
