/* SPDX-License-Identifier: Apache-2.0 */
/* etcd_internal.h -- the record as a key of etcd, through its JSON gateway. */
#ifndef NAM_STEWARD_ETCD_INTERNAL_H
#define NAM_STEWARD_ETCD_INTERNAL_H

#include <cjson/cJSON.h>

#include "record.h"
#include "store.h"

/* @where	"http://HOST:PORT,.../NAME" */
int nam__etcd_open(const char *where, const struct nam__store_options *options,
	struct nam__backend **ret_backend, struct nam_diag *diag) NAM_MUST_CHECK;

/* ---- record_json.c: a record as text, and bytes in base64 ----------------------------------- */

/*
 * {"number":3,"lead_boot":"9f...","terms_before":0,"members":[{"id":0,"state":"up",...}],
 * "last":{"change":"up",...}}; the revision is not part of it.  The caller frees the text.  NULL:
 * no memory.
 */
char *nam__record_print(const struct nam__record *record) NAM_MUST_CHECK;

/* -NAM_E_REMOTE_CORRUPT: that is no record.  The caller frees ret_record->view. */
int nam__record_parse(const char *text, struct nam__record *ret_record) NAM_MUST_CHECK;

/* The caller frees the text, which ends with a NUL.  NULL: no memory, or no base64. */
char *nam__base64_encode(const char *text) NAM_MUST_CHECK;
char *nam__base64_decode(const char *text) NAM_MUST_CHECK;

/* ---- http.c: JSON over HTTP, to any of several equal hosts ---------------------------------- */

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

#endif /* NAM_STEWARD_ETCD_INTERNAL_H */
