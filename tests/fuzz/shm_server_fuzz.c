/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_server_fuzz.c -- what a client says to the shm listener: a hello, with any descriptors.
 *
 * input	flags, number of descriptors, descriptors, length, hello
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
	listener.pub.ops = ops;
	listener.domain = (struct shm_domain *)domain;
}

static void
answer(struct nam_cm_event *event, bool accept)
{
	struct nam_hello reply = { .bytes = 4 };
	struct nam_qp *qp;

	if (event->hello.bytes > NAM_HELLO_BYTES_MAX)
		abort();
	if (!accept)
		nam__shm_reject(&listener.pub, event->request, &reply);
	else if (!nam__shm_accept(&listener.pub, event->request, &queues, &reply, &qp))
		nam__shm_qp_destroy(qp);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct nam__greeted client = { 0 };
	struct nam_cm_event event;
	struct shm_hello hello;
	unsigned flags, fds_count;
	size_t length;
	int ends[2];

	open_once();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
		abort();
	flags = fuzz_u8(&input);
	fds_count = fuzz_u8(&input) % 4;
	length = fuzz_u16(&input) % (sizeof(hello) + 1);
	fuzz_take(&input, &hello, sizeof(hello));
	if (flags & FLAG_MAGIC)
		hello.magic = SHM_MAGIC;
	if (flags & FLAG_VERSION)
		hello.version = SHM_VERSION;
	if (flags & FLAG_LENGTH)
		hello.bytes %= NAM_HELLO_BYTES_MAX + 1;
	if (!(flags & FLAG_SHORT))
		length = sizeof(hello);
	fuzz_send(ends[1], &input, &hello, length, fds_count);
	client.fd = ends[0];
	if (hear(&client, &event) > 0)
		answer(&event, flags & FLAG_ACCEPT);
	else
		close(ends[0]);
	close(ends[1]);
	return 0;
}
