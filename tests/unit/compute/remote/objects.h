/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h -- objects with a lock word, for tests of locks. */
#ifndef NAM_TESTS_COMPUTE_REMOTE_OBJECTS_H
#define NAM_TESTS_COMPUTE_REMOTE_OBJECTS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "compute/worker/worker.h"
#include "tests/lib/cluster.h"

#define OBJECT_BYTES 256u

/* A lock word and some more, all 0. */
static inline struct nam_gaddr
object_make(struct nam_worker *worker)
{
	uint64_t *zeroes = nam_buffer_take(worker, OBJECT_BYTES);
	struct nam_gaddr at = NAM_GADDR_NULL;

	memset(zeroes, 0, OBJECT_BYTES);
	assert_int_equal(nam_alloc(worker, OBJECT_BYTES, &at), 0);
	at = nam_gaddr_untagged(at);
	assert_int_equal(nam_write_await(worker, at, zeroes, OBJECT_BYTES), 0);
	nam_buffer_give(worker, zeroes, OBJECT_BYTES);
	return at;
}

#endif /* NAM_TESTS_COMPUTE_REMOTE_OBJECTS_H */
