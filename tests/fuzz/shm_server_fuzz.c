/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_server_fuzz.c -- what a client says to the shm listener: a hello and an answer, with any
 * descriptors.
 *
 * input	twice: flags, number of descriptors, length, hello or answer, descriptors
 */
#include <sys/socket.h>

#include "fuzz_packets.h"

#include "common/fabric/shm/listen.c"

enum flag {
	FLAG_MAGIC = 1,
	FLAG_VERSION = 2,
	FLAG_LENGTH = 4,
	FLAG_ACCEPT = 8,
	FLAG_SHORT = 16,
	FLAG_CHALLENGE = 32,
};

static struct nam_domain *domain;
static struct shm_listener listener;
static struct nam_qp_options queues;

static void
open_once(void)
{
	const struct nam_fabric_ops *ops = nam_fabric_find("shm:/x", NULL);

	if (domain)
		return;
	if (ops->domain_open(NULL, &domain, NULL) || ops->cq_create(domain, 64, &queues.cq) ||
		ops->rq_create(domain, queues.cq, 8, &queues.rq))
		abort();
	if (nam__pending_accepts_open(&listener.accepts, domain, &accepts_ops))
		abort();
}

static void
say_hello(int peer, struct fuzz_input *input, unsigned flags)
{
	unsigned fds_count = fuzz_u8(input) % 4;
	struct shm_hello hello;
	size_t length = fuzz_u16(input) % (sizeof(hello) + 1);

	fuzz_take(input, &hello, sizeof(hello));
	if (flags & FLAG_MAGIC)
		hello.magic = SHM_MAGIC;
	if (flags & FLAG_VERSION)
		hello.version = SHM_VERSION;
	if (flags & FLAG_LENGTH)
		hello.bytes %= NAM_HELLO_BYTES_MAX + 1;
	if (!(flags & FLAG_SHORT))
		length = sizeof(hello);
	fuzz_send(peer, input, &hello, length, fds_count);
}

static void
say_answer(int peer, struct fuzz_input *input, unsigned flags)
{
	unsigned fds_count = fuzz_u8(input) % 4;
	uint8_t packet[sizeof(struct shm_answer) + 8];
	struct shm_answer *answer = (struct shm_answer *)(void *)packet;
	size_t length = fuzz_u16(input) % (sizeof(packet) + 1);

	fuzz_take(input, packet, sizeof(packet));
	if (flags & FLAG_MAGIC)
		answer->magic = SHM_MAGIC_ANSWER;
	if (flags & FLAG_LENGTH)
		answer->bytes %= NAM_HELLO_BYTES_MAX + 1;
	if (!(flags & FLAG_SHORT))
		length = sizeof(*answer);
	fuzz_send(peer, input, packet, length, flags & FLAG_VERSION ? 0 : fds_count);
}

static void
be_listener(int fd, int peer, struct fuzz_input *input)
{
	struct nam_hello reply = { .bytes = 4 };
	struct nam_cm_request *request = fuzz_memory(sizeof(*request));
	unsigned flags = fuzz_u8(input);
	struct nam_cm_event event;
	struct nam_qp *qp;

	request->fd = fd;
	request->event = (struct nam_cm_event){ .kind = NAM_CM_REQUEST, .request = request };
	say_hello(peer, input, flags);
	if (receive_message(request)) {
		nam__cm_request_free(request);
		return;
	}
	event = request->event;
	if (flags & FLAG_CHALLENGE) {
		nam__socket_challenge(&listener.accepts.pub, request, &reply);
		flags = fuzz_u8(input);
		say_answer(peer, input, flags);
		if (nam__socket_listener_poll(&listener.accepts.pub, 0, &event) !=
			NAM_LISTENER_EVENT)
			return;
	}
	if (event.hello.bytes > NAM_HELLO_BYTES_MAX || event.answer.bytes > NAM_HELLO_BYTES_MAX)
		abort();
	if (!(flags & FLAG_ACCEPT))
		nam__socket_reject(&listener.accepts.pub, event.request, &reply);
	else if (!nam__shm_accept(&listener.accepts.pub, event.request, &queues, &reply, &qp))
		nam__shm_qp_destroy(qp);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct nam_cm_event event;
	int ends[2];

	open_once();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		abort();
	be_listener(ends[0], ends[1], &input);
	close(ends[1]);
	/* A client that is gone is forgotten. */
	if (nam__socket_listener_poll(&listener.accepts.pub, 0, &event) || listener.accepts.count)
		abort();
	return 0;
}
