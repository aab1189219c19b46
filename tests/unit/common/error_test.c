/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"

static void
err_is__own_code__TRUE(void **state)
{
	(void)state;
	assert_true(nam_err_is(-NAM_E_NOTFOUND, NAM_E_NOTFOUND));
	assert_true(nam_err_is(-NAM_E_RESTART, NAM_E_RESTART));
}

static void
err_is__class_of_the_code__TRUE(void **state)
{
	(void)state;
	assert_true(nam_err_is(-NAM_E_RESTART_HOPS, NAM_E_RESTART));
	assert_true(nam_err_is(-NAM_E_NOTFOUND, NAM_E_ABORT));
	assert_true(nam_err_is(-NAM_E_FENCED, NAM_E_REMOTE));
}

static void
err_is__other_class_or_sibling__FALSE(void **state)
{
	(void)state;
	assert_false(nam_err_is(-NAM_E_RESTART_HOPS, NAM_E_ABORT));
	assert_false(nam_err_is(-NAM_E_NOTFOUND, NAM_E_EXISTS));
	assert_false(nam_err_is(-NAM_E_RESTART, NAM_E_RESTART_HOPS));
}

static void
err_is__errno__COMPARED_AS_IT_IS(void **state)
{
	(void)state;
	assert_true(nam_err_is(-ENOMEM, ENOMEM));
	assert_false(nam_err_is(-ENOMEM, EINVAL));
	assert_false(nam_err_is(-ENOMEM, NAM_E_FABRIC));
}

static void
err_is__success__ONLY_NONE(void **state)
{
	(void)state;
	assert_true(nam_err_is(0, NAM_E_NONE));
	assert_false(nam_err_is(0, NAM_E_RESTART));
	assert_false(nam_err_is(-NAM_E_RESTART, NAM_E_NONE));
	assert_false(nam_err_is(-ENOMEM, NAM_E_NONE));
}

static void
err_is__no_return_code_at_all__FALSE(void **state)
{
	(void)state;
	assert_false(nam_err_is(NAM_E_NOTFOUND, NAM_E_NOTFOUND));
	assert_false(nam_err_is(INT_MIN, NAM_E_NOTFOUND));
	assert_false(nam_err_is(INT_MIN, NAM_E_NONE));
}

static void
err_is__every_code__REACHES_ITS_PARENT(void **state)
{
	(void)state;
#define PARENT_REACHED(name, value, parent, text)                                                   \
	assert_true(NAM_E_##parent == NAM_E_NONE || nam_err_is(-(value), NAM_E_##parent));
	NAM_ERRORS(PARENT_REACHED)
#undef PARENT_REACHED
}

static void
err_name__own_code__CONSTANT(void **state)
{
	(void)state;
	assert_string_equal(nam_err_name(-NAM_E_NOTFOUND), "NAM_E_NOTFOUND");
	assert_string_equal(nam_err_name(0), "NAM_E_NONE");
}

static void
err_name__errno__ITS_NAME(void **state)
{
	(void)state;
	assert_string_equal(nam_err_name(-ENOMEM), "ENOMEM");
}

static void
err_name__unknown__SAYS_SO(void **state)
{
	(void)state;
	assert_string_equal(nam_err_name(-4999), "unknown");
	assert_string_equal(nam_err_name(-4000), "unknown");
	assert_string_equal(nam_err_name(NAM_E_NOTFOUND), "unknown");
	assert_string_equal(nam_err_name(INT_MIN), "unknown");
	assert_string_equal(nam_err_name(INT_MAX), "unknown");
}

static void
err_text__any_code__ONE_SENTENCE(void **state)
{
	(void)state;
	assert_string_equal(nam_err_text(-NAM_E_NOTFOUND), "no such key");
	assert_string_equal(nam_err_text(0), "success");
	assert_string_equal(nam_err_text(-ENOMEM), "Cannot allocate memory");
	assert_string_equal(nam_err_text(-4999), "unknown error");
	assert_string_equal(nam_err_text(INT_MIN), "unknown error");
#define TEXT_WITHOUT_STOP(name, value, parent, text)                                                \
	assert_true(strlen(nam_err_text(-(value))) > 5);                                            \
	assert_int_not_equal(text[strlen(text) - 1], '.');
	NAM_ERRORS(TEXT_WITHOUT_STOP)
#undef TEXT_WITHOUT_STOP
}

static void
diag_set__message__TEXT_AND_CODE(void **state)
{
	struct nam_diag diag = { "before" };

	(void)state;
	assert_int_equal(nam_diag_set(&diag, -EINVAL, "%s:%d: bad", "file", 7), -EINVAL);
	assert_string_equal(diag.text, "file:7: bad");
}

static void
diag_set__no_diag__CODE(void **state)
{
	(void)state;
	assert_int_equal(nam_diag_set(NULL, -EINVAL, "%d", 1), -EINVAL);
}

static void
diag_set__long_message__CUT_AND_TERMINATED(void **state)
{
	struct {
		struct nam_diag diag;
		char guard[16];
	} box;
	char text[1000];

	(void)state;
	memset(&box, 'g', sizeof(box));
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(nam_diag_set(&box.diag, -1, "%s", text), -1);
	assert_int_equal(strlen(box.diag.text), sizeof(box.diag.text) - 1);
	assert_int_equal(box.guard[0], 'g');
}

static void
diag_set__quotes_itself__EXTENDED(void **state)
{
	struct nam_diag diag = { "no room" };

	(void)state;
	assert_int_equal(nam_diag_set(&diag, -1, "server 3: %s", diag.text), -1);
	assert_string_equal(diag.text, "server 3: no room");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(err_is__own_code__TRUE),
		cmocka_unit_test(err_is__class_of_the_code__TRUE),
		cmocka_unit_test(err_is__other_class_or_sibling__FALSE),
		cmocka_unit_test(err_is__errno__COMPARED_AS_IT_IS),
		cmocka_unit_test(err_is__success__ONLY_NONE),
		cmocka_unit_test(err_is__no_return_code_at_all__FALSE),
		cmocka_unit_test(err_is__every_code__REACHES_ITS_PARENT),
		cmocka_unit_test(err_name__own_code__CONSTANT),
		cmocka_unit_test(err_name__errno__ITS_NAME),
		cmocka_unit_test(err_name__unknown__SAYS_SO),
		cmocka_unit_test(err_text__any_code__ONE_SENTENCE),
		cmocka_unit_test(diag_set__message__TEXT_AND_CODE),
		cmocka_unit_test(diag_set__no_diag__CODE),
		cmocka_unit_test(diag_set__long_message__CUT_AND_TERMINATED),
		cmocka_unit_test(diag_set__quotes_itself__EXTENDED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
