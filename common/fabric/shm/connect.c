/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c -- the client's side of the handshake. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include "common/fabric/wait/wake.h"
#include "peers.h"

struct handshake {
	struct shm_domain *domain;
	struct shm_qp *qp;
	const char *name;
	struct sockaddr_un address;
	uint32_t absent;
	struct shm_welcome welcome;
	const struct nam_mr *share;
	struct nam_diag *diag;
};

static uint64_t
timeout_ns(const struct handshake *shake)
{
	return shake->domain->pub.timeout_ns ?: SHM_CONNECT_NS;
}

static int
diag_no_answer(struct handshake *shake, int error)
{
	const char *path = shake->address.sun_path;
	struct stat status;

	switch (error) {
	case ENOENT:
		shake->absent = 1;
		return nam_diag_set(shake->diag, -NAM_E_FABRIC_CONNECT, "shm:%s: there is no such "
			"socket; is the memory server running (nam-memserver --listen shm:%s)?",
			path, path);
	case ECONNREFUSED:
		/* The kernel says so of all other files, too. */
		if (!stat(path, &status) && !S_ISSOCK(status.st_mode))
			return nam_diag_set(shake->diag, -NAM_E_FABRIC_CONNECT, "shm:%s: that is "
				"%s and not the socket of a memory server; name the path that "
				"nam-memserver --listen has", path,
				S_ISDIR(status.st_mode) ? "a folder" : "a file");
		shake->absent = 1;
		return nam_diag_set(shake->diag, -NAM_E_FABRIC_CONNECT, "shm:%s: the socket is "
			"there but no memory server listens on it; start it again (nam-memserver "
			"--listen shm:%s)", path, path);
	case EACCES:
	case EPERM:
		return nam_diag_set(shake->diag, -NAM_E_FABRIC_DENIED, "shm:%s: permission "
			"denied; run as the memory server's user, or give this user access to "
			"the socket and its directory", path);
	case EAGAIN:
		return nam_diag_set(shake->diag, -NAM_E_FABRIC_TIMEOUT, "shm:%s: the memory server "
			"does not answer within %u ms; is it stopped or overloaded?", path,
			(unsigned)(timeout_ns(shake) / 1000000));
	case ECONNRESET:
	case EPIPE:
		return nam_diag_set(shake->diag, -NAM_E_FABRIC_CONNECT, "shm:%s: the memory server "
			"closed the connection; it is ending, or has too many clients", path);
	default:
		return nam_diag_set(shake->diag, -NAM_E_FABRIC_CONNECT, "shm:%s: %s; is that the "
			"socket of a memory server?", path, strerror(error));
	}
}

static int
open_socket(struct handshake *shake)
{
	uint64_t limit_ns = timeout_ns(shake);
	struct timeval limit = {
		.tv_sec = (time_t)(limit_ns / 1000000000u),
		.tv_usec = (suseconds_t)(limit_ns % 1000000000u / 1000u),
	};
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	int rc;

	if (fd < 0)
		return nam_diag_set(shake->diag, -errno, "shm:%s: socket: %s",
			shake->address.sun_path, strerror(errno));
	shake->qp->fd = fd;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) ||
		setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit)))
		return nam_diag_set(shake->diag, -errno, "shm:%s: setsockopt: %s",
			shake->address.sun_path, strerror(errno));
	do {
		rc = connect(fd, (const struct sockaddr *)&shake->address, sizeof(shake->address));
	} while (rc && errno == EINTR);
	return rc ? diag_no_answer(shake, errno) : 0;
}

static int
receive_failed(struct handshake *shake, int rc)
{
	if (rc == -EMFILE)
		return nam_diag_set(shake->diag, rc, "shm:%s: too many open files for the memory "
			"server's regions; raise the limit (ulimit -n)", shake->address.sun_path);
	if (rc == -NAM_E_FABRIC_PROTOCOL)
		return nam_diag_set(shake->diag, rc, "shm:%s: malformed answer; is that the socket "
			"of a memory server?", shake->address.sun_path);
	return diag_no_answer(shake, -rc);
}

static int
send_hello(struct handshake *shake, const struct nam_hello *hello)
{
	const int own_fds[2] = { shake->qp->cq->bell_fd, nam__shm_share_fd(shake->share) };
	struct shm_hello out = {
		.magic = SHM_MAGIC,
		.version = SHM_VERSION,
		.known_instance = nam__shm_peer_known(shake->domain, shake->address.sun_path),
		.bell_index = shake->qp->index,
	};
	int rc;

	if (hello && hello->bytes > NAM_HELLO_BYTES_MAX)
		return nam_diag_set(shake->diag, -EINVAL, "hello of %u bytes", hello->bytes);
	out.bytes = nam__hello_put(out.data, hello, NAM_HELLO_BYTES_MAX);
	rc = nam__shm_packet_send(shake->qp->fd, &out, sizeof(out), own_fds,
		own_fds[1] < 0 ? 1 : 2);
	return rc ? diag_no_answer(shake, -rc) : 0;
}

/* The server's side of it, after a hello or an answer. */
union received {
	struct shm_welcome welcome;
	struct shm_challenge challenge;
};

static int
receive(struct handshake *shake, union received *received, size_t *ret_got, int fds[3],
	unsigned *fds_count)
{
	int rc = nam__shm_packet_recv(shake->qp->fd, received, sizeof(*received), ret_got, fds, 3,
		fds_count);

	if (rc)
		return receive_failed(shake, rc);
	if (*ret_got == 0)
		return diag_no_answer(shake, EPIPE);
	return *ret_got < 8 ? receive_failed(shake, -NAM_E_FABRIC_PROTOCOL) : 0;
}

static int
answer_challenge(struct handshake *shake, const struct nam_qp_options *options,
	const struct shm_challenge *message, size_t got)
{
	struct nam_hello challenge = { .bytes = message->bytes }, answer;
	struct shm_answer out = { .magic = SHM_MAGIC_ANSWER };
	int rc;

	if (got != sizeof(*message) || message->bytes > NAM_REPLY_BYTES_MAX)
		return receive_failed(shake, -NAM_E_FABRIC_PROTOCOL);
	memcpy(challenge.data, message->data, message->bytes);
	rc = nam__fabric_answer(options, shake->name, &challenge, &answer, shake->diag);
	if (rc)
		return rc;
	out.bytes = nam__hello_put(out.data, &answer, NAM_HELLO_BYTES_MAX);
	rc = nam__shm_packet_send(shake->qp->fd, &out, sizeof(out), NULL, 0);
	return rc ? diag_no_answer(shake, -rc) : 0;
}

/* From the hello to the welcome with the descriptors of the rings and the server's bell. */
static int
exchange(struct handshake *shake, const struct nam_hello *hello,
	const struct nam_qp_options *options, int fds[3], unsigned *fds_count)
{
	union received received;
	size_t got = 0;
	int rc = send_hello(shake, hello);

	if (!rc)
		rc = receive(shake, &received, &got, fds, fds_count);
	if (!rc && received.challenge.magic == SHM_MAGIC_CHALLENGE && *fds_count == 0) {
		rc = answer_challenge(shake, options, &received.challenge, got);
		if (!rc)
			rc = receive(shake, &received, &got, fds, fds_count);
	}
	if (rc)
		return rc;
	if (received.welcome.magic != SHM_MAGIC)
		return receive_failed(shake, -NAM_E_FABRIC_PROTOCOL);
	if (received.welcome.version != SHM_VERSION)
		return nam_diag_set(shake->diag, -NAM_E_FABRIC_VERSION, "shm:%s: the memory server "
			"speaks version %u of the shm handshake and this library version %u; use "
			"the same release on both sides", shake->address.sun_path,
			received.welcome.version, SHM_VERSION);
	if (got != sizeof(received.welcome) || received.welcome.bytes > NAM_REPLY_BYTES_MAX)
		return receive_failed(shake, -NAM_E_FABRIC_PROTOCOL);
	shake->welcome = received.welcome;
	return 0;
}

/* The file of a note: one that is mapped, or one that comes with this packet. */
static int
file_of_note(struct shm_peer *peer, const struct shm_region_note *note, bool read_only,
	const int *fds, unsigned fds_count, unsigned *taken, const struct shm_peer_file **ret)
{
	struct shm_peer_file *file = &peer->files[note->file];
	int rc;

	if (note->file == peer->files_count && *taken < fds_count) {
		rc = nam__shm_region_file_map(fds[*taken], read_only, note->transparent_huge,
			&file->map);
		if (rc)
			return rc;
		(*taken)++;
		peer->files_count++;
		file->read_only = read_only;
	}
	if (note->file >= peer->files_count || file->read_only != read_only ||
		note->offset % SHM_PAGE_BYTES || !note->bytes ||
		note->offset > file->map.bytes || note->bytes > file->map.bytes - note->offset)
		return -NAM_E_FABRIC_PROTOCOL;
	*ret = file;
	return 0;
}

static int
take_regions(struct handshake *shake, struct shm_peer *peer,
	const struct shm_regions_packet *packet, const int *fds, unsigned fds_count, uint32_t *done)
{
	const struct shm_peer_file *file;
	unsigned taken = 0;
	int rc;

	for (uint32_t i = 0; i < packet->count; i++, (*done)++) {
		const struct shm_region_note *note = &packet->regions[i];

		rc = note->file > peer->files_count || note->file >= peer->regions_count ?
			-NAM_E_FABRIC_PROTOCOL : file_of_note(peer, note,
				nam__shm_is_read_only(peer, *done), fds, fds_count, &taken, &file);
		if (rc)
			return nam_diag_set(shake->diag, rc, "shm:%s: cannot map region %u of "
				"%llu bytes: %s", shake->address.sun_path, *done,
				(unsigned long long)note->bytes, nam_err_text(rc));
		peer->regions[*done] = (struct shm_region){ file->map.base + note->offset,
			note->bytes };
		peer->withdrawn[*done] = note->withdrawn;
	}
	return taken == fds_count ? 0 : receive_failed(shake, -NAM_E_FABRIC_PROTOCOL);
}

static int
receive_packet_of_regions(struct handshake *shake, struct shm_peer *peer, uint32_t *done)
{
	struct shm_regions_packet packet;
	int fds[SHM_REGIONS_PER_PACKET];
	unsigned fds_count = 0;
	size_t got = 0;
	int rc;

	rc = nam__shm_packet_recv(shake->qp->fd, &packet, sizeof(packet), &got, fds,
		SHM_REGIONS_PER_PACKET, &fds_count);
	if (rc)
		return receive_failed(shake, rc);
	if (got != sizeof(packet) || packet.magic != SHM_MAGIC || packet.count == 0 ||
		packet.count > SHM_REGIONS_PER_PACKET ||
		packet.count > peer->regions_count - *done)
		rc = receive_failed(shake, -NAM_E_FABRIC_PROTOCOL);
	else
		rc = take_regions(shake, peer, &packet, fds, fds_count, done);
	nam__shm_close_all(fds, fds_count);
	return rc;
}

static int
receive_regions(struct handshake *shake)
{
	uint32_t count = shake->welcome.regions_count, done = 0;
	struct shm_peer *peer;
	int rc = 0;

	if (count > SHM_REGIONS_MAX)
		return receive_failed(shake, -NAM_E_FABRIC_PROTOCOL);
	peer = calloc(1, sizeof(*peer) + count * sizeof(peer->regions[0]) +
		count * sizeof(peer->files[0]));
	if (!peer)
		return nam_diag_set(shake->diag, -ENOMEM, "no memory");
	peer->instance = shake->welcome.instance;
	peer->regions_count = count;
	peer->files = (void *)(peer->regions + count);
	memcpy(peer->path, shake->address.sun_path, sizeof(peer->path));
	while (done < count && rc == 0)
		rc = receive_packet_of_regions(shake, peer, &done);
	if (rc) {
		nam__shm_peer_free(peer);
		return rc;
	}
	shake->qp->peer = nam__shm_peer_add(shake->domain, peer);
	nam__wake_post(shake->domain->watch.wake_fd);	/* it populates the peer's memory */
	return 0;
}

static int
set_up(struct handshake *shake, const int fds[3], unsigned fds_count)
{
	struct shm_qp *qp = shake->qp;
	void *rings, *bell;
	int rc;

	if (fds_count < 2 || shake->welcome.bell_index >= SHM_QPS_MAX)
		return receive_failed(shake, -NAM_E_FABRIC_PROTOCOL);
	rc = nam__shm_file_map(fds[0], sizeof(struct shm_rings), &rings);
	if (rc)
		return receive_failed(shake, rc);
	qp->rings = rings;
	qp->out = &qp->rings->request;
	qp->in = &qp->rings->reply;
	rc = nam__shm_file_map(fds[1], SHM_PAGE_BYTES, &bell);
	if (rc)
		return receive_failed(shake, rc);
	qp->peer_bell = bell;
	qp->peer_index = shake->welcome.bell_index;
	if (fds_count == 3) {
		rc = nam__shm_share_map(fds[2], &qp->share);
		if (rc)
			return receive_failed(shake, rc);
	}
	if (shake->welcome.regions_follow) {
		rc = receive_regions(shake);
		if (rc)
			return rc;
	} else {
		qp->peer = nam__shm_peer_get(shake->domain, shake->welcome.instance);
	}
	if (!qp->peer)
		return -EAGAIN;
	qp->regions = qp->peer->regions;
	qp->regions_count = qp->peer->regions_count;
	qp->read_only = qp->peer->instance & SHM_FOR_READING ? SHM_READ_ONLY : 0;
	return 0;
}

static int
connect_once(struct handshake *shake, const struct nam_hello *hello,
	const struct nam_qp_options *options, struct nam_hello *reply)
{
	unsigned fds_count = 0;
	int fds[3];
	int rc;

	rc = nam__shm_qp_create(shake->domain, options, &shake->qp);
	if (rc)
		return nam_diag_set(shake->diag, rc, "no memory for a queue pair");
	rc = nam__shm_cq_reserve(shake->qp->cq, shake->qp);
	if (rc) {
		rc = nam_diag_set(shake->diag, rc, "more than %u queue pairs of one thread",
			SHM_QPS_MAX);
		goto destroy_qp;
	}
	rc = open_socket(shake);
	if (rc)
		goto destroy_qp;
	rc = exchange(shake, hello, options, fds, &fds_count);
	if (rc)
		goto close_all;
	reply->bytes = shake->welcome.bytes;
	memcpy(reply->data, shake->welcome.data, shake->welcome.bytes);
	if (!shake->welcome.accepted) {
		rc = nam_diag_set(shake->diag, -ECONNREFUSED, "shm:%s: the memory server refused "
			"the connection", shake->address.sun_path);
		goto close_all;
	}
	rc = nam__fabric_welcome(options, reply, shake->diag);
	if (!rc)
		rc = set_up(shake, fds, fds_count);
	if (rc)
		goto close_all;
	nam__shm_cq_publish(shake->qp->cq, shake->qp);
	rc = nam__shm_watch_add(&shake->domain->watch, shake->qp);
	if (rc) {
		rc = nam_diag_set(shake->diag, rc, "shm:%s: cannot watch the connection: %s",
			shake->address.sun_path, nam_err_text(rc));
		goto close_all;
	}
	nam__shm_close_all(fds, fds_count);
	return 0;

close_all:
	nam__shm_close_all(fds, fds_count);
destroy_qp:
	nam__shm_qp_destroy(&shake->qp->pub);
	return rc;
}

int
nam__shm_connect(struct nam_domain *domain, const char *address, const struct nam_hello *hello,
	const struct nam_qp_options *options, struct nam_hello *reply, struct nam_qp **ret,
	struct nam_diag *diag)
{
	struct handshake shake = {
		.domain = (struct shm_domain *)domain,
		.name = address,
		.share = options->share,
		.diag = diag,
	};
	struct nam_hello own;
	int rc = nam__shm_address(address, &shake.address, diag);

	if (rc)
		return rc;
	reply = reply ?: &own;
	reply->bytes = reply->absent = 0;
	/* -EAGAIN: the last other queue pair to this server went away, and with it the regions. */
	for (int tries = 0; tries < 8; tries++) {
		rc = connect_once(&shake, hello, options, reply);
		if (rc != -EAGAIN)
			break;
	}
	if (rc == -EAGAIN)
		return nam_diag_set(diag, -NAM_E_FABRIC_CONNECT, "shm:%s: the memory server's "
			"regions came and went; try again", shake.address.sun_path);
	if (rc) {
		reply->absent = shake.absent;
		return rc;
	}
	nam__shm_share_sent(options->share);
	*ret = &shake.qp->pub;
	return 0;
}
