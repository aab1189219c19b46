/* SPDX-License-Identifier: Apache-2.0 */
/* clients.h -- the other clients of a cluster: their list, and the end of one. */
#ifndef NAM_COMPUTE_CLIENTS_H
#define NAM_COMPUTE_CLIENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "client.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_client_info {
	uint16_t id;			/* 1 to 4095; messages about locks and status name it */
	uint16_t incarnation;		/* of those that had this id, one after another */
	bool alive;			/* else it has ended, and does not count as dead yet */
	uint64_t pid;			/* at its host */
	char name[48];			/* nam_client_options.name */
};

typedef int (*nam_client_list_fn)(void *arg, const struct nam_client_info *info);

/**
 * nam_client_list -- call fn for every other client that is not dead, by id.
 *
 * Returns 0, or the first non-zero value that fn returned, which ends the list; or
 *	-NAM_E_FABRIC_*		the lead does not answer
 * Clients that come or go meanwhile may be told or not.
 *
 * Suspends:	yes, between clients; fn is not called then.
 * Cost:	1 RPC, and 2 for each client.
 */
NAM_FIBER_FN int nam_client_list(struct nam_worker *worker, nam_client_list_fn fn,
	void *arg) NAM_MUST_CHECK;

/**
 * nam_client_fence -- no memory server takes a client any more; then it is dead.
 *
 * For a client that is stopped, or cannot reach some memory server: locks of it are then known to
 * be orphaned, and its operations fail with -NAM_E_FABRIC_FENCED.  Any call
 * may be repeated.
 *
 * @worker	of another client; outside of its fibers
 * @incarnation	0: the present one
 *
 * Returns 0: it is dead.  Or, with a message in *diag:
 *	-EINVAL			it is the worker's own client, or no client's id
 *	-ENOENT			there was no such client yet
 *	-NAM_E_FABRIC_CAPABILITY	it is alive, and what it has mapped cannot be revoked: shm
 *	-NAM_E_FABRIC_TIMEOUT	a memory server does not answer, or is not done yet
 *	-NAM_E_FABRIC_*		a memory server does not say what became of its queue pairs
 *
 * Cost:	1 RPC to each memory server, 2 more to the lead.
 */
NAM_FIBER_FN int nam_client_fence(struct nam_worker *worker, uint16_t id, uint16_t incarnation,
	struct nam_diag *diag) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMPUTE_CLIENTS_H */
