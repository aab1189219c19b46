/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_fixture.h -- peers of the tcp provider that are only a socket, and may say anything.
 */
#ifndef NAM_TESTS_UNIT_COMMON_FABRIC_TCP_TCP_FIXTURE_H
#define NAM_TESTS_UNIT_COMMON_FABRIC_TCP_TCP_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "common/fabric/tcp/tcp_internal.h"
#include "tests/unit/common/fabric/fabric_fixture.h"

static inline struct sockaddr_in
raw_at(unsigned port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
}

static inline unsigned
port_of(const char *address)
{
	return (unsigned)strtoul(strrchr(address, ':') + 1, NULL, 10);
}

/* A socket to a memory server that has not said anything yet. */
static inline int
raw_connect(const char *address)
{
	struct sockaddr_in at = raw_at(port_of(address));
	struct timeval limit = { .tv_sec = 20 };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	assert_true(fd >= 0);
	/* All sent bytes have arrived, then. */
	assert_int_equal(setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)), 0);
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static inline void
raw_send(int fd, const void *data, size_t bytes)
{
	assert_int_equal(send(fd, data, bytes, MSG_NOSIGNAL), bytes);
}

/* Whether so many bytes came before the end. */
static inline bool
raw_receive(int fd, void *data, size_t bytes)
{
	return recv(fd, data, bytes, MSG_WAITALL) == (ssize_t)bytes;
}

static inline bool
readable(int fd, int timeout_ms)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, timeout_ms) == 1;
}

static inline struct tcp_hello
raw_hello(void)
{
	return (struct tcp_hello){
		.magic = TCP_MAGIC, .version = TCP_VERSION, .bytes = 2, .data = "hi" };
}

/* A connection that speaks frames from now on; the fixture's nth. */
static inline int
raw_client(struct fixture *f, unsigned n)
{
	struct tcp_hello hello = raw_hello();
	struct tcp_welcome welcome;
	int fd = raw_connect(f->address);

	raw_send(fd, &hello, sizeof(hello));
	assert_true(raw_receive(fd, &welcome, sizeof(welcome)));
	assert_int_equal(welcome.accepted, 1);
	(void)fixture_accepted(f, n);
	return fd;
}

/* The memory server's side of things until that socket has something, or an end. */
static inline void
work_until_readable(struct fixture *f, int fd)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;

	while (!readable(fd, 1)) {
		let_work(f);
		assert_true(nam_now_ns() < until);
	}
}

/* The same until so many bytes are there. */
static inline void
work_and_receive(struct fixture *f, int fd, void *data, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		ssize_t n;

		work_until_readable(f, fd);
		n = recv(fd, (uint8_t *)data + got, bytes - got, 0);
		assert_true(n > 0);
		got += (size_t)n;
	}
}

static inline struct tcp_request_frame
raw_request(const struct fixture *f, uint8_t kind, uint16_t sequence, uint64_t at, uint32_t bytes)
{
	return (struct tcp_request_frame){
		.frame = { .kind = kind, .sequence = sequence, .bytes = bytes },
		.rkey = f->mr.rkey,
		.remote = f->mr.remote + at,
	};
}

/* A memory server's request to its client, with its own buffer. */
static inline struct nam_wr
server_wr(const struct fixture *f, uint8_t op, uint32_t bytes)
{
	return (struct nam_wr){
		.op = op,
		.flags = NAM_WR_SIGNALED,
		.bytes = bytes,
		.rkey = TCP_SHARE_KEY,
		.lkey = f->server.local_mr.lkey,
		.local = f->server.local,
	};
}

/* ---- a memory server that is only a socket ------------------------------------------------- */

static inline int
answer_any(void *arg, const struct nam_hello *challenge, struct nam_hello *answer,
	struct nam_diag *diag)
{
	(void)arg, (void)challenge, (void)diag;
	answer->bytes = 2;
	memcpy(answer->data, "me", 2);
	return 0;
}

static inline int
try_to_connect(struct fixture *f, const char *address)
{
	const struct nam_hello hello = { .bytes = 2, .data = "hi" };
	struct nam_qp_options options = {
		.cq = f->client.cq, .rq = f->client.rq, .answer = answer_any };
	struct nam_hello reply;
	struct nam_qp *qp;

	f->diag.text[0] = '\0';
	return f->ops->connect(f->client.domain, address, &hello, &options, &reply, &qp, &f->diag);
}

/* A foreign server: reads a hello, and sends given bytes. */
struct impostor {
	int fd;
	char address[64];
	const void *answer;
	size_t bytes;
	struct nam_thread *thread;
};

static inline void
impostor_main(void *arg)
{
	struct impostor *impostor = arg;
	int fd = accept(impostor->fd, NULL, NULL);
	uint8_t hello[sizeof(struct tcp_hello)];

	(void)!recv(fd, hello, sizeof(hello), MSG_WAITALL);
	if (impostor->bytes)
		(void)!send(fd, impostor->answer, impostor->bytes, MSG_NOSIGNAL);
	/* Until the client has had enough. */
	if (impostor->answer)
		(void)!recv(fd, hello, sizeof(hello), MSG_WAITALL);
	close(fd);
}

/* `answer` of NULL: it hangs up. */
static inline int
connect_to_impostor(struct fixture *f, const void *answer, size_t bytes)
{
	struct impostor impostor = { .answer = answer, .bytes = bytes };
	struct sockaddr_in at = raw_at(0);
	socklen_t length = sizeof(at);
	int rc;

	impostor.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(impostor.fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(impostor.fd, 4), 0);
	assert_int_equal(getsockname(impostor.fd, (struct sockaddr *)&at, &length), 0);
	(void)snprintf(impostor.address, sizeof(impostor.address), "tcp:127.0.0.1:%u",
		ntohs(at.sin_port));
	assert_int_equal(nam_thread_start("impostor", impostor_main, &impostor, &impostor.thread),
		0);
	rc = try_to_connect(f, impostor.address);
	nam_thread_join(impostor.thread);
	close(impostor.fd);
	assert_non_null(strstr(f->diag.text, impostor.address));
	return rc;
}

#endif /* NAM_TESTS_UNIT_COMMON_FABRIC_TCP_TCP_FIXTURE_H */
