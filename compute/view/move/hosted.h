/* SPDX-License-Identifier: Apache-2.0 */
/* hosted.h -- a successor within the process of a memory server that has room (--spare). */
#ifndef NAM_COMPUTE_VIEW_MOVE_HOSTED_H
#define NAM_COMPUTE_VIEW_MOVE_HOSTED_H

#include "common/rpc/move_rpc.h"
#include "compute/admin.h"

/* All memory servers that there are, members or not.  To be freed with nam__servers_free(). */
struct nam__servers {
	struct nam_server_status *list;
	uint32_t count;
	bool incomplete;		/* there was no memory for all of them */
};

NAM_FIBER_FN int nam__servers_query(const struct nam_client_options *options,
	struct nam__servers *servers, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__servers_free(struct nam__servers *servers);

/* The memory server answers, and has a place in the view. */
bool nam__is_member(const struct nam_server_status *status);

/* The process of the memory server at `host` has another one at that address. */
bool nam__hosts(const char *host, const char *address);

/*
 * The memory server with the most to spare, in another process than the member's and its backups'.
 * NULL: none has enough, as *diag says.
 */
const struct nam_server_status *nam__host_choose(const struct nam__servers *servers,
	const struct nam_server_status *member, struct nam_diag *diag);

struct nam__hosting {
	const struct nam_client_options *options;	/* the lease of their store is kept */
	const struct nam_server_status *member, *host;
	/* Called again and again.  A failure ends it, and comes back. */
	int (*fn)(void *arg, uint64_t ready_bytes, uint64_t total_bytes);
	void *arg;
};

/*
 * A successor of that member at that host, which is ready.  Before, a successor that is of no use
 * any more is ended.  0, -EDQUOT: the host has less to spare by now, or as the RPC fails.
 *
 * @address	room for that of the successor, NAM_VIEW_ADDRESS_BYTES
 */
NAM_FIBER_FN int nam__successor_host(const struct nam__hosting *hosting, char *address,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * The successor of that id and boot, whose address is beside the host's, ends.  The view must not
 * name it.  0, also if it is not there, -EAGAIN: not within 20 s, or as the RPC fails.
 */
NAM_FIBER_FN int nam__successor_end(const struct nam_client_options *options, const char *host,
	uint32_t id, uint64_t boot) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_HOSTED_H */
