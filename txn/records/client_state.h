/* SPDX-License-Identifier: Apache-2.0 */
/* client_state.h -- what the transactions and tables of a client share. */
#ifndef NAM_TXN_RECORDS_CLIENT_STATE_H
#define NAM_TXN_RECORDS_CLIENT_STATE_H

#include <sys/queue.h>

#include "compute/worker/worker.h"

#define NAM__UNDER_WAY_MAX 256u		/* transactions of a client that hold locks to write */

struct nam__txn_client {
	atomic_uint_fast64_t last_us;	/* time of the last timestamp given or seen */
	atomic_uint_fast64_t under_way_us[NAM__UNDER_WAY_MAX];	/* each 0, or before one's */
	LIST_HEAD(, nam__table_store) table_stores;	/* under client->mutex */
};
_Static_assert(sizeof(struct nam__txn_client) <= NAM__CLIENT_EXTENSION_BYTES, "room for it");

static inline struct nam__txn_client *
nam__txn_client(struct nam_client *client)
{
	return (struct nam__txn_client *)(void *)client->extension;
}

#endif /* NAM_TXN_RECORDS_CLIENT_STATE_H */
