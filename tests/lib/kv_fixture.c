/* SPDX-License-Identifier: Apache-2.0 */
#include "kv_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct nam_kv *
store_new(const struct member *who, const char *name, const struct nam_kv_options *options)
{
	struct nam_kv *kv;

	assert_int_equal(nam_kv_create(who->worker, name, options), 0);
	assert_int_equal(nam_kv_open(who->worker, name, &kv), 0);
	return kv;
}

void
store_end(const struct member *who, const char *name, struct nam_kv *kv)
{
	nam_kv_close(kv);
	assert_int_equal(nam_kv_drop(who->worker, name), 0);
}
