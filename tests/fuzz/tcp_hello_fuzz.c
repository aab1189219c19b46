/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_hello_fuzz.c -- the handshake of the tcp provider: a hello to the listener, a welcome to the
 * client, whole or in two pieces.
 *
 * input	flags, where the first piece ends, 64 bytes
 */
#define say_failed connect_say_failed
#include "common/fabric/tcp/connect.c"
#undef say_failed
#include "common/fabric/tcp/listen.c"
#include "fuzz_input.h"

enum flag {
	FLAG_MAGIC = 1,
	FLAG_VERSION = 2,
	FLAG_LENGTH = 4,
	FLAG_ACCEPT = 8,
	FLAG_SHORT = 16,
	FLAG_CLIENT = 32,
};

static struct nam_domain *domain;
static struct nam_qp_options queues;
static struct tcp_listener listener;

static void
open_once(void)
{
	const struct nam_fabric_ops *ops = nam_fabric_find("tcp:", NULL);

	if (domain)
		return;
	if (ops->domain_open(NULL, &domain, NULL) || ops->cq_create(domain, 64, &queues.cq))
		abort();
	listener.pub.ops = ops;
	listener.domain = (struct tcp_domain *)domain;
}

/* A client whose memory server is at the other end. */
static void
hear_welcome(int fd)
{
	struct nam_hello reply = { .bytes = 0 };
	struct attempt attempt = {
		.domain = (struct tcp_domain *)domain,
		.address = "tcp:there:1",
		.until_ns = nam_now_ns() + 1000000000,
		.reply = &reply,
	};

	if (nam__tcp_qp_create(attempt.domain, &queues, false, &attempt.qp))
		abort();
	attempt.qp->fd = fd;
	(void)receive_welcome(&attempt);
	if (reply.bytes > NAM_HELLO_BYTES_MAX)
		abort();
	nam__tcp_qp_destroy(&attempt.qp->pub);
}

static void
answer(struct nam_cm_event *event, bool accept)
{
	struct nam_hello reply = { .bytes = 4 };
	struct nam_qp *qp;

	if (event->hello.bytes > NAM_HELLO_BYTES_MAX)
		abort();
	if (!accept)
		nam__tcp_reject(&listener.pub, event->request, &reply);
	else if (!nam__tcp_accept(&listener.pub, event->request, &queues, &reply, &qp))
		nam__tcp_qp_destroy(qp);
}

static void
hear_hello(int fd, int peer, const uint8_t *data, size_t first, size_t length, bool accept)
{
	struct nam__greeted client = { .fd = fd };
	struct nam_cm_event event;
	int rc = 0;

	for (unsigned piece = 0; piece < 2 && !rc; piece++) {
		(void)!send(peer, data + (piece ? first : 0), piece ? length - first : first,
			MSG_NOSIGNAL);
		rc = hear(&client, &event);
	}
	if (rc > 0)
		answer(&event, accept);
	else
		close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct tcp_hello hello;
	size_t length = sizeof(hello), first;
	uint8_t flags;
	int ends[2];

	open_once();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		abort();
	flags = fuzz_u8(&input);
	first = fuzz_u8(&input) % (length + 1);
	fuzz_take(&input, &hello, sizeof(hello));
	if (flags & FLAG_MAGIC)
		hello.magic = flags & FLAG_CLIENT ? TCP_MAGIC_WELCOME : TCP_MAGIC;
	if (flags & FLAG_VERSION)
		hello.version = TCP_VERSION;
	if (flags & FLAG_LENGTH) {
		hello.bytes %= NAM_HELLO_BYTES_MAX + 1;
		hello.reserved %= 2;
	}
	if (flags & FLAG_SHORT)
		length = first;
	if (flags & FLAG_CLIENT) {
		(void)!send(ends[1], &hello, length, MSG_NOSIGNAL);
		(void)shutdown(ends[1], SHUT_WR);
		hear_welcome(ends[0]);
	} else {
		hear_hello(ends[0], ends[1], (const uint8_t *)&hello, first, length,
			flags & FLAG_ACCEPT);
	}
	close(ends[1]);
	return 0;
}
