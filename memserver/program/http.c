/* SPDX-License-Identifier: Apache-2.0 */
/* http.c -- the metrics of the program nam-memserver over HTTP, for Prometheus. */
#include "http.h"

#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECTIONS_MAX 8u
#define SILENT_S 10u			/* then a connection is closed */

static enum MHD_Result
respond(struct MHD_Connection *connection, unsigned status, const char *type, char *text,
	enum MHD_ResponseMemoryMode mode)
{
	struct MHD_Response *response = MHD_create_response_from_buffer(strlen(text), text, mode);
	enum MHD_Result done;

	if (!response)
		return MHD_NO;
	(void)MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, type);
	done = MHD_queue_response(connection, status, response);
	MHD_destroy_response(response);
	return done;
}

static enum MHD_Result
answer(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
	const char *version, const char *upload, size_t *upload_bytes, void **state)
{
	static char other[] = "The metrics are at /metrics.\n", wrong[] = "Only GET.\n";
	static int begun;
	char *text = NULL;
	size_t bytes;
	FILE *to;
	int rc;

	(void)version;
	(void)upload;
	/* The first call has the headers only. */
	if (!*state) {
		*state = &begun;
		return MHD_YES;
	}
	*upload_bytes = 0;
	if (strcmp(method, MHD_HTTP_METHOD_GET) != 0)
		return respond(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain", wrong,
			MHD_RESPMEM_PERSISTENT);
	if (strcmp(url, "/metrics") != 0)
		return respond(connection, MHD_HTTP_NOT_FOUND, "text/plain", other,
			MHD_RESPMEM_PERSISTENT);
	to = open_memstream(&text, &bytes);
	if (!to)
		return MHD_NO;
	rc = nam_server_metrics(arg, to);
	if (fclose(to) || rc) {
		free(text);
		return MHD_NO;
	}
	return respond(connection, MHD_HTTP_OK, "text/plain; version=0.0.4; charset=utf-8", text,
		MHD_RESPMEM_MUST_FREE);
}

static int
resolve(const char *listen, struct addrinfo **ret, struct nam_diag *diag)
{
	const struct addrinfo hints = { .ai_flags = AI_PASSIVE | AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM };
	const char *colon = strrchr(listen, ':'), *port = colon ? colon + 1 : listen;
	bool bracket = *listen == '[';
	char host[256] = "127.0.0.1";
	int rc;

	if (colon)
		(void)snprintf(host, sizeof(host), "%.*s", (int)(colon - listen) - 2 * bracket,
			listen + bracket);
	rc = getaddrinfo(host, port, &hints, ret);
	if (rc)
		return nam_diag_set(diag, -EINVAL, "'%s' is no PORT or HOST:PORT: %s", listen,
			gai_strerror(rc));
	return 0;
}

int
nam__http_check(const char *listen, struct nam_diag *diag)
{
	struct addrinfo *at;
	int rc = resolve(listen, &at, diag);

	if (!rc)
		freeaddrinfo(at);
	return rc;
}

int
nam__http_start(struct nam_server *server, const char *listen, struct MHD_Daemon **ret,
	struct nam_diag *diag)
{
	unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL | MHD_USE_ITC;
	struct addrinfo *at;
	int rc = resolve(listen, &at, diag);

	if (rc)
		return rc;
	errno = 0;
	if (at->ai_family == AF_INET6)
		flags |= MHD_USE_IPv6;
	*ret = MHD_start_daemon(flags, 0, NULL, NULL, answer, server,
		MHD_OPTION_SOCK_ADDR, at->ai_addr,
		MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
		MHD_OPTION_CONNECTION_TIMEOUT, SILENT_S, MHD_OPTION_END);
	rc = errno;
	freeaddrinfo(at);
	if (*ret)
		return 0;
	return nam_diag_set(diag, rc ? -rc : -EIO, "%s: %s; choose another port", listen,
		strerror(rc ? rc : EIO));
}
