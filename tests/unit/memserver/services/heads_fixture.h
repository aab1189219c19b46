/* SPDX-License-Identifier: Apache-2.0 */
/* heads_fixture.h -- a memory server with heads of records of one store. */
#ifndef NAM_TESTS_HEADS_FIXTURE_H
#define NAM_TESTS_HEADS_FIXTURE_H

#include "tests/unit/memserver/server_fixture.h"

#include "common/rpc/records_rpc.h"

#define STORE 4711u
#define HEADS NAM_RPC_RECORDS_MAX	/* of that store */

static uint16_t heads_region;		/* the memory server's first */

/* Behind the page of the epochs, so that any address will do. */
static inline uint64_t
head_at(uint32_t number)
{
	return nam_gaddr_make(heads_region, 196608 + number * 64, 0).raw;
}

static inline int
heads_setup_id(void **state, uint32_t id)
{
	int rc = fixture_setup_id(state, id);
	const struct fixture *f = *state;

	heads_region = (uint16_t)(id * NAM_REGIONS_PER_SERVER);
	for (uint32_t i = 0; i < HEADS; i++) {
		struct nam__server_head *head = nam__memory_public_at(f->server,
			NAM_GADDR(head_at(i)), sizeof(*head));

		head->tag = nam__record_tag(STORE);
	}
	return rc;
}

static inline int
heads_setup(void **state)
{
	return heads_setup_id(state, 0);
}

#endif /* NAM_TESTS_HEADS_FIXTURE_H */
