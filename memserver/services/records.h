/* SPDX-License-Identifier: Apache-2.0 */
/* records.h -- what requests about records have in common, with locks or without. */
#ifndef NAM_MEMSERVER_SERVICES_RECORDS_H
#define NAM_MEMSERVER_SERVICES_RECORDS_H

#include "common/rpc/records_rpc.h"
#include "memserver/memserver_internal.h"

/* The part of a request that is left to be looked at. */
struct nam__rest {
	const uint8_t *bytes;
	uint32_t count;
};

/* So many bytes of it, or NULL. */
static inline const void *
nam__rest_take(struct nam__rest *rest, uint32_t bytes)
{
	const uint8_t *at = rest->bytes;

	if (bytes > rest->count)
		return NULL;
	rest->bytes += bytes;
	rest->count -= bytes;
	return at;
}

/* The records in this server's regions. */
struct nam__server_records nam__records_of(const struct nam__exchange *exchange);

/* Whether a request begins well: as many records as there may be, and no other flags. */
bool nam__records_request_ok(const struct nam_rpc_records_request *request, uint32_t flags);

/* The next version that is to be prepared, with its image unless that was WRITTEN; or NULL. */
const struct nam_rpc_records_prepared *nam__records_prepared_take(struct nam__rest *rest,
	const void **ret_image);
/* And prepare it, with its head locked. */
int nam__records_prepare(const struct nam__server_records *records, struct nam__server_head *head,
	const struct nam_rpc_records_prepared *one, const void *image) NAM_MUST_CHECK;

/* The image of the version at an address, if there is one and room for it: its length, or 0. */
uint32_t nam__records_image(const struct nam__server_records *records, uint64_t at, uint32_t room,
	uint8_t *ret_image);

#endif /* NAM_MEMSERVER_SERVICES_RECORDS_H */
