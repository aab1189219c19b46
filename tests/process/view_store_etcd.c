/* SPDX-License-Identifier: Apache-2.0 */
/* view_store_etcd.c -- an etcd of one member, on loopback, with a folder of its own. */
#include "view_store_etcd.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "steward/etcd_internal.h"

#define TIMEOUT_MS 20000u

struct etcd etcd;

static unsigned
free_port(int *ret_fd)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof(at);

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	*ret_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (*ret_fd < 0 || bind(*ret_fd, (struct sockaddr *)&at, size) ||
		getsockname(*ret_fd, (struct sockaddr *)&at, &size))
		test_die("no free port");
	return ntohs(at.sin_port);
}

void
etcd_start(void)
{
	char client[64], peer[64], members[80], data[80];
	const char *const argv[] = { ETCD, "--name", "one", "--data-dir", data,
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", members, "--heartbeat-interval", "20",
		"--election-timeout", "200", "--logger", "zap", "--log-level", "error",
		NULL };

	(void)snprintf(client, sizeof(client), "http://127.0.0.1:%u", etcd.client_port);
	(void)snprintf(peer, sizeof(peer), "http://127.0.0.1:%u", etcd.peer_port);
	(void)snprintf(members, sizeof(members), "one=%s", peer);
	(void)snprintf(data, sizeof(data), "%s/data", etcd.folder);
	child_start(&etcd.process, argv);
}

void
etcd_begin(void)
{
	int one, other;

	(void)snprintf(etcd.folder, sizeof(etcd.folder), "/tmp/nam-test-XXXXXX");
	if (!mkdtemp(etcd.folder))
		test_die("no folder for etcd");
	etcd.client_port = free_port(&one);
	etcd.peer_port = free_port(&other);
	close(one);
	close(other);
	etcd_start();
}

void
etcd_end(void)
{
	char command[128];

	child_kill(&etcd.process);
	(void)snprintf(command, sizeof(command), "rm -rf '%s'", etcd.folder);
	if (system(command))
		test_die("%s", command);
}

/* @body	JSON */
static void
etcd_post(struct nam__http *http, const char *path, const char *body)
{
	struct nam_diag diag;
	cJSON *answer;

	if (nam__http_post(http, path, cJSON_Parse(body), &answer, &diag))
		test_die("%s: %s", path, diag.text);
	cJSON_Delete(answer);
}

void
etcd_ask_for_users(void)
{
	const struct nam__store_options none = { .timeout_ms = TIMEOUT_MS };
	struct nam__http *http;
	struct nam_diag diag;
	char at[64];

	(void)snprintf(at, sizeof(at), "http://127.0.0.1:%u", etcd.client_port);
	if (nam__http_open(at, strlen(at), 0, &none, &http, &diag))
		test_die("%s", diag.text);
	etcd_post(http, "/v3/auth/user/add", "{\"name\":\"root\",\"password\":\"r\"}");
	etcd_post(http, "/v3/auth/role/add", "{\"name\":\"root\"}");
	etcd_post(http, "/v3/auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}");
	etcd_post(http, "/v3/auth/user/add", "{\"name\":\"nam\",\"password\":\"secret\"}");
	etcd_post(http, "/v3/auth/role/add", "{\"name\":\"nam\"}");
	/* From "nam/" to "nam0", in base64. */
	etcd_post(http, "/v3/auth/role/grant", "{\"name\":\"nam\",\"perm\":{\"permType\":"
		"\"READWRITE\",\"key\":\"bmFtLw==\",\"range_end\":\"bmFtMA==\"}}");
	etcd_post(http, "/v3/auth/user/grant", "{\"user\":\"nam\",\"role\":\"nam\"}");
	etcd_post(http, "/v3/auth/enable", "{}");
	nam__http_close(http);
}
