/* SPDX-License-Identifier: Apache-2.0 */
/* http.h -- JSON over HTTP, to any of several equal hosts. */
#ifndef NAM_STEWARD_HTTP_H
#define NAM_STEWARD_HTTP_H

#include <cjson/cJSON.h>

#include "store.h"

#define NAM__HTTP_HOSTS_MAX 8u

struct nam__http;

/*
 * @hosts	"http://HOST:PORT,HOST:PORT": the first has the scheme, which is that of all;
 *		`bytes` long
 * @port	where a host names none
 *
 * -EINVAL or another -errno: these, or a file of TLS.  The files are read for each connection.
 */
int nam__http_open(const char *hosts, size_t bytes, uint16_t port,
	const struct nam__store_options *options, struct nam__http **ret_http,
	struct nam_diag *diag) NAM_MUST_CHECK;
void nam__http_close(struct nam__http *http);

/* A header of all later requests, or NULL.  0 or -ENOMEM. */
int nam__http_authorize(struct nam__http *http, const char *token) NAM_MUST_CHECK;

/*
 * POST a body, which is freed, until a host answers or the time-out is over; a host may get it
 * more than once.  The answer is an object.  -NAM_E_FABRIC_STORE: none answers, or the host itself
 * says that its cluster does not.  At once: each host is not trusted, or does not trust this
 * client.  -NAM_E_FABRIC_DENIED: 401 or 403.  -NAM_E_FABRIC_PROTOCOL: it refuses the request for
 * another reason, or the answer is malformed.  -EINVAL: a host or a file of TLS is none.
 */
int nam__http_post(struct nam__http *http, const char *path, cJSON *body, cJSON **ret_answer,
	struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_STEWARD_HTTP_H */
