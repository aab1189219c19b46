/* SPDX-License-Identifier: Apache-2.0 */
/* life.h -- the steps of server.h, for memory servers that a memory server hosts. */
#ifndef NAM_MEMSERVER_LIFE_H
#define NAM_MEMSERVER_LIFE_H

#include "server.h"

/* make() and open() are nam_server_start() in two steps, so another thread sees one that starts. */
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

#endif /* NAM_MEMSERVER_LIFE_H */
