/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_server_tool.c -- peers of another version, for scripts.
 *
 *	fake_server wire PATH		a memory server that speaks another version of the protocol
 *	fake_server handshake PATH	a socket that speaks another version of the shm handshake
 *	fake_server silent PATH		a socket that accepts and never says anything
 *	fake_server client ADDRESS	a client of another version: prints how it was answered
 *
 * Servers print their address and end with their standard input.
 */
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "common/fabric/shm/shm_internal.h"
#include "common/rpc/rpc.h"
#include "tests/lib/cluster.h"
#include "tests/lib/fake_server.h"

#define OTHER_VERSION 99u

static void
wait_for_the_end(void)
{
	char byte;

	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
}

static int
serve_wire(const char *path)
{
	struct fake_server_options options = {
		.path = path,
		.magic_version = NAM_RPC_MAGIC << 8 | OTHER_VERSION,
		.reject_status = -NAM_E_FABRIC_VERSION,
	};
	struct fake_server *server = fake_server_start(&options);

	printf("%s\n", fake_server_address(server));
	(void)fflush(stdout);
	wait_for_the_end();
	fake_server_stop(server);
	return 0;
}

static int
socket_open(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
		test_die("%s: %s", path, strerror(errno));
	memcpy(address.sun_path, path, strlen(path));
	if (bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, 16))
		test_die("%s: %s", path, strerror(errno));
	printf("shm:%s\n", path);
	(void)fflush(stdout);
	return fd;
}

static void
answer(int fd)
{
	struct shm_welcome welcome = { .magic = SHM_MAGIC, .version = OTHER_VERSION };
	struct shm_hello hello;

	if (recv(fd, &hello, sizeof(hello), 0) > 0 &&
		send(fd, &welcome, sizeof(welcome), MSG_NOSIGNAL) != sizeof(welcome))
		test_die("send: %s", strerror(errno));
}

static int
serve_socket(const char *path, bool silent)
{
	int fd = socket_open(path);

	for (;;) {
		struct pollfd fds[2] = {
			{ .fd = STDIN_FILENO, .events = POLLIN },
			{ .fd = fd, .events = POLLIN },
		};
		int client;

		if (poll(fds, 2, -1) < 0)
			test_die("poll: %s", strerror(errno));
		if (fds[0].revents)
			break;
		client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
		if (client < 0)
			test_die("accept: %s", strerror(errno));
		if (silent)
			continue;	/* and keep it open */
		answer(client);
		close(client);
	}
	(void)unlink(path);
	return 0;
}

static int
call(const char *address)
{
	const struct nam_fabric_ops *ops = nam_fabric_find(address, NULL);
	struct nam_wire_hello wire = { .magic_version = NAM_RPC_MAGIC << 8 | OTHER_VERSION };
	struct nam_hello hello = { .bytes = sizeof(wire) }, reply = { .bytes = 0 };
	struct nam_wire_welcome welcome = { .status = 0 };
	struct nam_qp_options options = { .user = NULL };
	struct nam_diag diag = { "" };
	struct nam_domain *domain;
	struct nam_qp *qp = NULL;
	int rc;

	if (!ops || ops->domain_open(NULL, &domain, &diag) ||
		ops->cq_create(domain, 16, &options.cq) ||
		ops->rq_create(domain, options.cq, 4, &options.rq))
		test_die("cannot open the fabric of %s", address);
	memcpy(hello.data, &wire, sizeof(wire));
	rc = ops->connect(domain, address, &hello, &options, &reply, &qp, &diag);
	if (reply.bytes >= sizeof(welcome))
		memcpy(&welcome, reply.data, sizeof(welcome));
	printf("%s: %s, version %u%s%s\n", rc == -ECONNREFUSED ? "refused" : nam_err_name(rc),
		nam_err_name(welcome.status), welcome.magic_version & 0xff, rc ? "; " : "",
		rc ? diag.text : "");
	if (!rc)
		ops->qp_destroy(qp);
	ops->rq_destroy(options.rq);
	ops->cq_destroy(options.cq);
	ops->domain_close(domain);
	return rc != -ECONNREFUSED;
}

int
main(int argc, char **argv)
{
	if (argc != 3)
		test_die("usage: fake_server wire|handshake|silent|client WHAT");
	if (!strcmp(argv[1], "wire"))
		return serve_wire(argv[2]);
	if (!strcmp(argv[1], "client"))
		return call(argv[2]);
	return serve_socket(argv[2], !strcmp(argv[1], "silent"));
}
