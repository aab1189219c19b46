/* SPDX-License-Identifier: Apache-2.0 */
/* http.h -- the metrics of the program nam-memserver over HTTP, for Prometheus. */
#ifndef NAM_MEMSERVER_PROGRAM_HTTP_H
#define NAM_MEMSERVER_PROGRAM_HTTP_H

#include "memserver/server.h"

struct MHD_Daemon;

/*
 * Whether it is PORT, of the loopback interface, or HOST:PORT of a known host: 0 or -EINVAL.  The
 * caller names the option.
 */
int nam__http_check(const char *listen, struct nam_diag *diag) NAM_MUST_CHECK;
/* Answer GET /metrics there, until MHD_stop_daemon(): 0, -EINVAL or -errno, likewise. */
int nam__http_start(struct nam_server *server, const char *listen, struct MHD_Daemon **ret,
	struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_MEMSERVER_PROGRAM_HTTP_H */
