/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_hello_fuzz.c -- the handshake of the tcp provider, whole or in two pieces.  The listener gets
 * a hello and an answer; the client a challenge, or two, and a welcome.
 *
 * input	up to 3 times: flags, where the first piece ends, a hello or a welcome
 */
#include "common/fabric/tcp/connect.c"
#include "common/fabric/tcp/listen.c"
#include "fuzz_answer.h"
#include "fuzz_input.h"

enum flag {
	FLAG_MAGIC = 1,
	FLAG_VERSION = 2,
	FLAG_LENGTH = 4,
	FLAG_ACCEPT = 8,
	FLAG_SHORT = 16,
	FLAG_CLIENT = 32,		/* of the first message */
	FLAG_CHALLENGE = 64,
};

static struct nam_domain *domain;
static struct nam_qp_options queues = { .answer = fuzz_answer };
static struct nam__pending_accepts listener;

static void
open_once(void)
{
	const struct nam_fabric_ops *ops = nam_fabric_find("tcp:", NULL);

	if (domain)
		return;
	if (ops->domain_open(NULL, &domain, NULL) || ops->cq_create(domain, 64, &queues.cq))
		abort();
	if (nam__pending_accepts_open(&listener, domain, &accepts_ops))
		abort();
}

/* Messages of a memory server, at once. */
static void
be_client(int fd, int peer, struct fuzz_input *input, unsigned flags)
{
	struct nam_hello reply = { .bytes = 0 };
	struct attempt attempt = {
		.domain = (struct tcp_domain *)domain,
		.address = "tcp:there:1",
		.until_ns = nam_now_ns() + 1000000000,
		.reply = &reply,
	};

	for (unsigned i = 0; i < 3; i++) {
		size_t bytes = fuzz_u8(input);
		struct tcp_welcome welcome;

		fuzz_take(input, &welcome, sizeof(welcome));
		if (flags & FLAG_MAGIC)
			welcome.magic = flags & FLAG_CHALLENGE ? TCP_MAGIC_CHALLENGE :
				TCP_MAGIC_WELCOME;
		if (flags & FLAG_VERSION)
			welcome.version = TCP_VERSION;
		if (flags & FLAG_LENGTH) {
			welcome.bytes %= NAM_REPLY_BYTES_MAX + 1;
			welcome.accepted = (flags & FLAG_ACCEPT) != 0;
		}
		if (!(flags & FLAG_SHORT) || bytes > sizeof(welcome))
			bytes = sizeof(welcome);
		(void)!send(peer, &welcome, bytes, MSG_NOSIGNAL);
		flags = fuzz_u8(input);
	}
	(void)shutdown(peer, SHUT_WR);
	if (nam__tcp_qp_create(attempt.domain, &queues, false, &attempt.qp))
		abort();
	attempt.qp->fd = fd;
	(void)be_welcomed(&attempt, &queues);
	if (reply.bytes > NAM_REPLY_BYTES_MAX)
		abort();
	nam__tcp_qp_destroy(&attempt.qp->pub);
}

/* A hello or an answer, in two pieces.  0: the event is complete. */
static int
hear_pieces(struct nam_cm_request *request, int peer, struct fuzz_input *input, unsigned flags,
	struct nam_cm_event *event)
{
	bool answers = request->event.kind == NAM_CM_ANSWER;
	struct tcp_hello hello;
	size_t first = fuzz_u8(input) % (sizeof(hello) + 1), length = sizeof(hello);
	const uint8_t *data = (const uint8_t *)&hello;
	int rc = -EAGAIN;

	fuzz_take(input, &hello, sizeof(hello));
	if (flags & FLAG_MAGIC)
		hello.magic = answers ? TCP_MAGIC_ANSWER : TCP_MAGIC;
	if (flags & FLAG_VERSION)
		hello.version = TCP_VERSION;
	if (flags & FLAG_LENGTH) {
		hello.bytes %= NAM_HELLO_BYTES_MAX + 1;
		hello.reserved %= 2;
	}
	if (flags & FLAG_SHORT)
		length = first;
	for (unsigned piece = 0; piece < 2 && rc == -EAGAIN; piece++) {
		(void)!send(peer, data + (piece ? first : 0), piece ? length - first : first,
			MSG_NOSIGNAL);
		rc = !answers ? receive_message(request) :
			nam__socket_listener_poll(&listener.pub, 0, event) ==
			NAM_LISTENER_EVENT ? 0 : -EAGAIN;
	}
	return rc;
}

static void
be_listener(int fd, int peer, struct fuzz_input *input, unsigned flags)
{
	struct nam_hello reply = { .bytes = 4 };
	struct nam_cm_request *request = fuzz_memory(sizeof(*request));
	struct nam_cm_event event;
	struct nam_qp *qp;

	request->fd = fd;
	request->event = (struct nam_cm_event){ .kind = NAM_CM_REQUEST, .request = request };
	if (hear_pieces(request, peer, input, flags, &event)) {
		nam__cm_request_free(request);
		return;
	}
	event = request->event;
	if (flags & FLAG_CHALLENGE) {
		nam__socket_challenge(&listener.pub, request, &reply);
		flags = fuzz_u8(input);
		if (hear_pieces(request, peer, input, flags, &event))
			return;
	}
	if (event.hello.bytes > NAM_HELLO_BYTES_MAX || event.answer.bytes > NAM_HELLO_BYTES_MAX)
		abort();
	if (!(flags & FLAG_ACCEPT))
		nam__socket_reject(&listener.pub, event.request, &reply);
	else if (!nam__tcp_accept(&listener.pub, event.request, &queues, &reply, &qp))
		nam__tcp_qp_destroy(qp);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct nam_cm_event event;
	unsigned flags;
	int ends[2];

	open_once();
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		abort();
	flags = fuzz_u8(&input);
	if (flags & FLAG_CLIENT)
		be_client(ends[0], ends[1], &input, flags);
	else
		be_listener(ends[0], ends[1], &input, flags);
	close(ends[1]);
	/* A client that is gone is forgotten. */
	if (nam__socket_listener_poll(&listener.pub, 0, &event) || listener.count)
		abort();
	return 0;
}
