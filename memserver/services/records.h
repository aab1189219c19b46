/* SPDX-License-Identifier: Apache-2.0 */
/* records.h -- the common parts of requests about records, with locks or without. */
#ifndef NAM_MEMSERVER_SERVICES_RECORDS_H
#define NAM_MEMSERVER_SERVICES_RECORDS_H

#include "common/rpc/records_rpc.h"
#include "memserver/memserver_internal.h"

/* The part of a request that is left to be looked at. */
struct nam__rest {
	const uint8_t *bytes;
	uint32_t count;
};

/* Leases and ages of versions, which lie in public memory, are of this clock. */
static inline uint64_t
nam__records_now(const struct nam_server *server)
{
	return nam_now_ns() + server->records_clock_ns;
}

/* The records of that store in this server's regions; 0: of all. */
struct nam__server_records nam__records_of(const struct nam__exchange *exchange, uint64_t store);

/* Whether a request begins well: as many records as there may be, and no other flags. */
bool nam__records_request_ok(const struct nam_rpc_records_request *request, uint32_t flags);

/* The next version that is to be prepared, with its image unless that was WRITTEN; or NULL. */
const struct nam_rpc_records_prepared *nam__records_prepared_take(struct nam__rest *rest,
	const void **ret_image);
/* Prepare a version, with its head locked. */
int nam__records_prepare(const struct nam__server_records *records, struct nam__server_head *head,
	const struct nam_rpc_records_prepared *one, const void *image) NAM_MUST_CHECK;

/*
 * Add the answer about a version to the reply, and its image if there is room for it.  @mark  its
 * last word
 */
void nam__records_answer(struct nam__exchange *exchange, const struct nam__server_records *records,
	uint64_t at, uint32_t mark, bool image);

#endif /* NAM_MEMSERVER_SERVICES_RECORDS_H */
