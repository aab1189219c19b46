/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_client_fuzz.c -- what a memory server's socket says to a client: challenges, welcome, rings,
 * regions.
 *
 * input	packets: flags, number of descriptors, descriptors, bytes
 */
#include <sys/socket.h>

#include "fuzz_answer.h"
#include "fuzz_packets.h"

/* The socket is a pair whose other end has said everything already. */
static int prepared;

static int
fuzz_connect(int fd, const struct sockaddr *address, socklen_t length)
{
	(void)address;
	(void)length;
	return dup2(prepared, fd) == fd ? 0 : -1;
}

#define connect fuzz_connect
#include "common/fabric/shm/connect.c"
#undef connect

enum flag {
	FLAG_MAGIC = 1,
	FLAG_ACCEPTED = 2,
	FLAG_SMALL = 4,
	FLAG_LAST = 8,
	FLAG_CHALLENGE = 16,		/* the welcome is yet to come */
};

static struct nam_domain *domain;
static struct nam_qp_options queues = { .answer = fuzz_answer };

static void
open_once(void)
{
	const struct nam_fabric_ops *ops = nam_fabric_find("shm:/x", NULL);

	if (domain)
		return;
	if (ops->domain_open(NULL, &domain, NULL) || ops->cq_create(domain, 64, &queues.cq) ||
		ops->rq_create(domain, queues.cq, 8, &queues.rq))
		abort();
}

static void
say_challenge(int fd, struct fuzz_input *input, unsigned flags)
{
	struct shm_challenge challenge;

	fuzz_take(input, &challenge, sizeof(challenge));
	if (flags & FLAG_MAGIC)
		challenge.magic = SHM_MAGIC_CHALLENGE;
	if (flags & FLAG_SMALL)
		challenge.bytes %= NAM_REPLY_BYTES_MAX + 1;
	fuzz_send(fd, input, &challenge, sizeof(challenge) - (flags & FLAG_ACCEPTED ? 0 : 1),
		fuzz_u8(input) % 2);
}

static void
say_welcome(int fd, struct fuzz_input *input, unsigned flags)
{
	struct shm_welcome welcome;

	fuzz_take(input, &welcome, sizeof(welcome));
	if (flags & FLAG_MAGIC) {
		welcome.magic = SHM_MAGIC;
		welcome.version = SHM_VERSION;
	}
	if (flags & FLAG_ACCEPTED) {
		welcome.accepted = 1;
		welcome.bytes %= NAM_REPLY_BYTES_MAX + 1;
		welcome.bell_index %= SHM_QPS_MAX;
	}
	if (flags & FLAG_SMALL)
		welcome.regions_count %= 8;
	fuzz_send(fd, input, &welcome, sizeof(welcome), fuzz_u8(input) % 4);
}

/* @files	so many have been sent */
static void
say_regions(int fd, struct fuzz_input *input, unsigned flags, uint32_t *files)
{
	struct shm_regions_packet packet = { .magic = 0 };
	unsigned fds_count = fuzz_u8(input) % (SHM_REGIONS_PER_PACKET + 1), bits;

	packet.count = fuzz_u8(input);
	packet.magic = flags & FLAG_MAGIC ? SHM_MAGIC : fuzz_u16(input);
	if (flags & FLAG_SMALL)
		packet.count = fds_count;
	for (unsigned i = 0; i < fds_count; i++) {
		packet.regions[i].bytes = flags & FLAG_SMALL ? 1u << 16 : fuzz_u16(input) * 4096ull;
		packet.regions[i].file = flags & FLAG_SMALL ? (*files)++ : fuzz_u8(input);
		bits = fuzz_u8(input);
		packet.regions[i].transparent_huge = bits & 1;
		packet.regions[i].withdrawn = bits >> 1 & 1;
		/* The one before the last: of the same rights. */
		if (bits & 4 && *files > 2)
			packet.regions[i].file = *files - 3;
		if (bits & 8)
			packet.regions[i].offset = fuzz_u8(input) * 1024ull;
	}
	fuzz_send(fd, input, &packet, sizeof(packet), fds_count);
}

/* An accepted region must be there to its last byte, also a withdrawn one. */
static void
touch(struct nam_qp *pub)
{
	const struct shm_qp *qp = (struct shm_qp *)pub;
	volatile uint8_t byte;

	for (uint32_t i = 0; i < qp->regions_count; i++) {
		byte = qp->regions[i].base[0];
		byte = qp->regions[i].base[qp->regions[i].bytes - 1];
	}
	(void)byte;
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct nam_hello hello = { .bytes = 16 }, reply;
	struct nam_diag diag = { "" };
	bool welcomed = false;
	uint32_t files = 0;
	struct nam_qp *qp;
	int ends[2];

	open_once();
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		abort();
	prepared = ends[0];
	for (unsigned packets = 0; input.left && packets < 8; packets++) {
		unsigned flags = fuzz_u8(&input);

		if (!welcomed && flags & FLAG_CHALLENGE)
			say_challenge(ends[1], &input, flags);
		else if (!welcomed)
			say_welcome(ends[1], &input, flags);
		else
			say_regions(ends[1], &input, flags, &files);
		welcomed |= !(flags & FLAG_CHALLENGE);
		if (flags & FLAG_LAST)
			break;
	}
	/* No more will come: a client that waits for more hears so at once. */
	(void)shutdown(ends[1], SHUT_WR);
	if (!nam__shm_connect(domain, "shm:/fuzz", &hello, &queues, &reply, &qp, &diag)) {
		if (reply.bytes > NAM_REPLY_BYTES_MAX)
			abort();
		touch(qp);
		nam__shm_qp_destroy(qp);
	}
	close(ends[0]);
	close(ends[1]);
	return 0;
}
