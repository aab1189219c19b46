/* SPDX-License-Identifier: Apache-2.0 */
/* heads_fixture.h -- a memory server with heads of records of one store. */
#ifndef NAM_TESTS_HEADS_FIXTURE_H
#define NAM_TESTS_HEADS_FIXTURE_H

#include "tests/unit/memserver/server_fixture.h"

#include "common/rpc/records_rpc.h"

#define STORE 4711u
#define HEADS NAM_RPC_RECORDS_MAX	/* of that store */

/* Behind the page of the epochs, so that any address will do. */
static inline uint64_t
head_at(uint32_t number)
{
	return nam_gaddr_make(0, 196608 + number * 64, 0).raw;
}

static inline int
heads_setup(void **state)
{
	int rc = fixture_setup(state);
	const struct fixture *f = *state;

	for (uint32_t i = 0; i < HEADS; i++) {
		struct nam__server_head *head = nam__memory_public_at(f->server,
			NAM_GADDR(head_at(i)), sizeof(*head));

		head->tag = nam__record_tag(STORE);
	}
	return rc;
}

#endif /* NAM_TESTS_HEADS_FIXTURE_H */
