/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_pingpong_tool.c -- the cost of one READ at a time over the tcp provider.  Beside it, in
 * turns, a bare pair of sockets sends as many bytes there and back.
 *
 *	tcp_pingpong_tool [BYTES [SECONDS]]
 *
 * Prints both times and their ratio, the medians of the turns.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/env.h"
#include "common/fabric/fabric.h"
#include "common/fabric/tcp/wire.h"

#define TURNS 41u
#define BYTES_MAX 65536u
#define REQUEST_BYTES 24u
#define REGION_BYTES (1u << 20)

static uint32_t bytes = 1024;
static uint64_t turn_ns;

static _Noreturn void
die(const char *what)
{
	perror(what);
	exit(1);
}

/* ---- bare sockets ------------------------------------------------------------------------- */

static bool
receive(int fd, uint8_t *data, size_t count)
{
	return recv(fd, data, count, MSG_WAITALL) == (ssize_t)count;
}

static void
bare_main(void *arg)
{
	static uint8_t data[BYTES_MAX + sizeof(struct tcp_frame)];
	int fd = *(const int *)arg;

	while (receive(fd, data, REQUEST_BYTES))
		(void)!send(fd, data, bytes + sizeof(struct tcp_frame), MSG_NOSIGNAL);
	close(fd);
}

static void
bare_open(int fds[2])
{
	struct sockaddr_in at = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int listens = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	socklen_t length = sizeof(at);

	fds[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listens, (struct sockaddr *)&at, sizeof(at)) || listen(listens, 1) ||
		getsockname(listens, (struct sockaddr *)&at, &length) ||
		connect(fds[0], (struct sockaddr *)&at, length))
		die("bare sockets");
	fds[1] = accept(listens, NULL, NULL);
	close(listens);
	for (unsigned i = 0; i < 2; i++)
		(void)setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* Nanoseconds per round trip. */
static double
bare_turn(int fd)
{
	static uint8_t data[BYTES_MAX + sizeof(struct tcp_frame)];
	uint64_t begin = nam_now_ns(), count = 0;

	while (nam_now_ns() - begin < turn_ns) {
		for (unsigned i = 0; i < 32; i++, count++) {
			if (send(fd, data, REQUEST_BYTES, MSG_NOSIGNAL) != REQUEST_BYTES ||
				!receive(fd, data, bytes + sizeof(struct tcp_frame)))
				die("bare sockets");
		}
	}
	return (double)(nam_now_ns() - begin) / (double)count;
}

/* ---- the provider ------------------------------------------------------------------------- */

struct server {
	const struct nam_fabric_ops *ops;
	char address[64];
	struct nam_domain *domain;
	struct nam_cq *cq;
	struct nam_listener *listener;
	struct nam_mr mr;
	struct nam_qp *qp;
	atomic_bool stop;
};

static void
handler_main(void *arg)
{
	struct server *s = arg;
	struct nam_wc wc;

	while (!atomic_load(&s->stop)) {
		if (!s->ops->cq_poll(s->cq, &wc, 1))
			(void)s->ops->cq_wait(s->cq, 100000000);
	}
}

static void
accept_main(void *arg)
{
	struct server *s = arg;
	struct nam_qp_options options = { .cq = s->cq };
	struct nam_cm_event event;

	if (s->ops->listener_poll(s->listener, 5000000000ull, &event) != NAM_LISTENER_EVENT ||
		s->ops->accept(s->listener, event.request, &options, NULL, &s->qp))
		die("accept");
}

static void
server_open(struct server *s)
{
	struct nam_diag diag = { "" };

	s->ops = nam_fabric_find("tcp:", NULL);
	(void)snprintf(s->address, sizeof(s->address), "tcp:127.0.0.1:%u",
		20000 + (unsigned)getpid() % 10000);
	if (s->ops->domain_open(NULL, &s->domain, &diag) ||
		s->ops->cq_create(s->domain, 16, &s->cq) ||
		s->ops->region_alloc(s->domain, REGION_BYTES, 12, 0, -1, &s->mr, &diag) ||
		s->ops->listen(s->domain, s->address, &s->listener, &diag)) {
		(void)fprintf(stderr, "%s\n", diag.text);
		exit(1);
	}
}

static struct nam_qp *
client_open(struct server *s, struct nam_domain **ret_domain, struct nam_cq **ret_cq)
{
	struct nam_qp_options options = { .cq = NULL };
	struct nam_diag diag = { "" };
	struct nam_thread *accepts;
	struct nam_hello reply;
	struct nam_qp *qp;

	if (nam_thread_start("accept", accept_main, s, &accepts) ||
		s->ops->domain_open(NULL, ret_domain, &diag) ||
		s->ops->cq_create(*ret_domain, 16, ret_cq))
		die("client");
	options.cq = *ret_cq;
	if (s->ops->connect(*ret_domain, s->address, NULL, &options, &reply, &qp, &diag)) {
		(void)fprintf(stderr, "%s\n", diag.text);
		exit(1);
	}
	nam_thread_join(accepts);
	return qp;
}

static double
provider_turn(const struct server *s, struct nam_qp *qp, struct nam_cq *cq)
{
	static uint8_t data[BYTES_MAX];
	uint64_t begin = nam_now_ns(), count = 0;
	struct nam_wr wr = {
		.op = NAM_WR_READ,
		.flags = NAM_WR_SIGNALED,
		.bytes = bytes,
		.rkey = s->mr.rkey,
		.local = data,
	};
	struct nam_wc wc;

	while (nam_now_ns() - begin < turn_ns) {
		for (unsigned i = 0; i < 32; i++, count++) {
			wr.remote = count * 64 % (REGION_BYTES - BYTES_MAX);
			if (s->ops->qp_post(qp, &wr, 1))
				die("post");
			while (!s->ops->cq_poll(cq, &wc, 1))
				(void)s->ops->cq_wait(cq, 100000000);
			if (wc.status)
				die("READ");
		}
	}
	return (double)(nam_now_ns() - begin) / (double)count;
}

/* ---- both --------------------------------------------------------------------------------- */

static int
compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double
median(double *values)
{
	qsort(values, TURNS, sizeof(values[0]), compare);
	return values[TURNS / 2];
}

int
main(int argc, char **argv)
{
	double seconds = argc > 2 ? strtod(argv[2], NULL) : 2, bare[TURNS], provider[TURNS];
	struct nam_thread *bare_thread, *handler;
	struct nam_domain *domain;
	struct server s = { .ops = NULL };
	struct nam_cq *cq;
	struct nam_qp *qp;
	int fds[2];

	bytes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : bytes;
	turn_ns = (uint64_t)(seconds * 1e9 / (2 * TURNS));
	if (bytes > BYTES_MAX || seconds <= 0) {
		(void)fprintf(stderr, "usage: tcp_pingpong_tool [BYTES [SECONDS]]\n");
		return 2;
	}
	server_open(&s);
	qp = client_open(&s, &domain, &cq);
	bare_open(fds);
	if (nam_thread_start("bare", bare_main, &fds[1], &bare_thread) ||
		nam_thread_start("handler", handler_main, &s, &handler))
		die("threads");
	for (unsigned i = 0; i < TURNS; i++) {
		bare[i] = bare_turn(fds[0]);
		provider[i] = provider_turn(&s, qp, cq);
	}
	(void)printf("bare sockets %.2f us, READ of %u bytes %.2f us, ratio %.2f\n",
		median(bare) / 1e3, bytes, median(provider) / 1e3,
		median(provider) / median(bare));
	(void)shutdown(fds[0], SHUT_RDWR);
	nam_thread_join(bare_thread);
	close(fds[0]);
	atomic_store(&s.stop, true);
	s.ops->cq_wake(s.cq);
	nam_thread_join(handler);
	s.ops->qp_destroy(qp);
	s.ops->qp_destroy(s.qp);
	s.ops->listener_close(s.listener);
	s.ops->mr_release(s.domain, &s.mr);
	s.ops->cq_destroy(cq);
	s.ops->cq_destroy(s.cq);
	s.ops->domain_close(domain);
	s.ops->domain_close(s.domain);
	return 0;
}
