/* SPDX-License-Identifier: Apache-2.0 */
/* kv_fixture.h -- what unit tests of key-value stores share.  Everything in here asserts. */
#ifndef NAM_TESTS_LIB_KV_FIXTURE_H
#define NAM_TESTS_LIB_KV_FIXTURE_H

#include "index_fixture.h"
#include "kv/kv.h"

/* Create a store, and open it. */
struct nam_kv *store_new(const struct member *who, const char *name,
	const struct nam_kv_options *options);
/* Close it, and drop it. */
void store_end(const struct member *who, const char *name, struct nam_kv *kv);

#endif /* NAM_TESTS_LIB_KV_FIXTURE_H */
