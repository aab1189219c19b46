/* SPDX-License-Identifier: Apache-2.0 */
/* without_sim_test.c -- what a program that links libnam alone says of the address "sim:NAME". */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/fabric/register.h"
#include "compute/client.h"
#include "memserver/server.h"

static void
assert_explained(const struct nam_diag *diag)
{
	assert_non_null(strstr(diag->text, "sim:server0: this program has no simulator"));
	assert_non_null(strstr(diag->text, "link nam-sim"));
	assert_non_null(strstr(diag->text, "nam-bench --cluster sim:PROFILE"));
}

static void
client_connect__sim__SAYS_CAUSE_AND_REMEDY(void **state)
{
	struct nam_client_options options;
	struct nam_client *client = NULL;
	struct nam_diag diag;

	(void)state;
	nam_client_options_init(&options);
	options.cluster = "sim:server0";
	assert_int_equal(nam_client_connect(&options, &client, &diag), -EINVAL);
	assert_null(client);
	assert_explained(&diag);
}

static void
server_start__sim__SAYS_CAUSE_AND_REMEDY(void **state)
{
	struct nam_server_options options;
	struct nam_server *server = NULL;
	struct nam_diag diag;

	(void)state;
	nam_server_options_init(&options);
	options.listen = "sim:server0";
	assert_int_equal(nam_server_start(&options, &server, NULL, &diag), -EINVAL);
	assert_null(server);
	assert_explained(&diag);
}

static void
register__a_provider__IS_FOUND_ONCE(void **state)
{
	static const struct nam_fabric_ops own = { .name = "own" };
	static const struct nam_fabric_ops others[8];
	int rc = 0;

	(void)state;
	assert_null(nam_fabric_find("own:x", NULL));
	assert_int_equal(nam__fabric_register(&own), 0);
	assert_int_equal(nam__fabric_register(&own), 0);
	assert_ptr_equal(nam_fabric_find("own:x", NULL), &own);
	for (unsigned i = 0; i < 8 && !rc; i++)
		rc = nam__fabric_register(&others[i]);
	assert_int_equal(rc, -ENOSPC);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(client_connect__sim__SAYS_CAUSE_AND_REMEDY),
		cmocka_unit_test(server_start__sim__SAYS_CAUSE_AND_REMEDY),
		cmocka_unit_test(register__a_provider__IS_FOUND_ONCE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
