/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h -- successors within this process.  Each is a memory server of another id, with its own
 * memory, threads and address.  Together they take up to options.spare_bytes.
 */
#ifndef NAM_MEMSERVER_MOVE_HOST_H
#define NAM_MEMSERVER_MOVE_HOST_H

#include "common/rpc/move_rpc.h"
#include "memserver/memserver_internal.h"

/*
 * The steps of server.h.  make() and open() are nam_server_start() in two, so another thread sees
 * one that starts.
 */
struct nam__life {
	int (*check)(const struct nam_server_options *options, struct nam_diag *diag);
	int (*make)(const struct nam_server_options *options, struct nam_server **ret_server,
		struct nam_diag *diag);
	/* After a failure the caller destroys it.  -ECANCELED early if server->stopping is set. */
	int (*open)(struct nam_server *server, struct nam_diag *notice, struct nam_diag *diag);
	int (*run)(struct nam_server *server);
	void (*stop)(struct nam_server *server);
	void (*destroy)(struct nam_server *server);
};

/* Start one; or say how far it is, if it was started before: as HOST. */
int nam__hosted_start(struct nam_server *server, const struct nam_rpc_move_host *request,
	struct nam_rpc_move_hosted *ret) NAM_MUST_CHECK;
/* End one, as UNHOST. */
int nam__hosted_end(struct nam_server *server,
	const struct nam_rpc_move_host *request) NAM_MUST_CHECK;
/* The process ends: all of them do, before this returns. */
void nam__hosted_end_all(struct nam_server *server);
/* The server's own thread asks whether no memory came to it, or its memory has moved on. */
bool nam__hosted_is_over(struct nam_server *hosted);
/* The memory server whose process it is in: itself, or its host. */
struct nam_server *nam__hosted_host(struct nam_server *server);
/* Bytes that are left of options.spare_bytes. */
uint64_t nam__hosted_spare(struct nam_server *server);
/* Call fn for each that serves, or waits for memory.  Its first nonzero result, or 0. */
int nam__hosted_each(struct nam_server *server, int (*fn)(struct nam_server *hosted, void *arg),
	void *arg);

#endif /* NAM_MEMSERVER_MOVE_HOST_H */
