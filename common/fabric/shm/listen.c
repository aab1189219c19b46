/* SPDX-License-Identifier: Apache-2.0 */
/* listen.c -- the server's side: the socket, its lock file, and clients until they are accepted. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fabric/pages.h"
#include "common/fabric/pending_accepts.h"
#include "shm_internal.h"

#define BACKLOG 128

struct shm_listener {
	struct nam__pending_accepts accepts;
	struct sockaddr_un address;
	char lock_path[sizeof(((struct sockaddr_un *)NULL)->sun_path) + 8];
	int lock_fd;
};

static const struct nam__accepts_ops accepts_ops;

/* ---- one server per path ------------------------------------------------------------------ */

/*
 * If servers start together, the one with the lock listens.  The last holder may have removed the
 * file, so the inodes are compared.
 */
static int
take_lock(struct shm_listener *listener, struct nam_diag *diag)
{
	struct stat ours, theirs;
	int fd;

	for (int tries = 0; tries < 16; tries++) {
		fd = open(listener->lock_path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		if (fd < 0)
			return nam_diag_set(diag, -errno, "%s: %s; does the directory exist, and "
				"may this user write there?", listener->lock_path, strerror(errno));
		if (flock(fd, LOCK_EX | LOCK_NB)) {
			int saved = errno;

			close(fd);
			if (saved == EWOULDBLOCK)
				return nam_diag_set(diag, -NAM_E_FABRIC_ADDRESS_IN_USE, "shm:%s: "
					"another memory server is listening there; stop it, or "
					"choose another path", listener->address.sun_path);
			return nam_diag_set(diag, -saved, "%s: flock: %s", listener->lock_path,
				strerror(saved));
		}
		if (!fstat(fd, &ours) && !stat(listener->lock_path, &theirs) &&
			ours.st_ino == theirs.st_ino && ours.st_dev == theirs.st_dev) {
			listener->lock_fd = fd;
			return 0;
		}
		close(fd);
	}
	return nam_diag_set(diag, -NAM_E_FABRIC_ADDRESS_IN_USE, "%s: others keep taking the lock",
		listener->lock_path);
}

/* Remove the socket of a server that died.  0 if the path is free now. */
static int
clear_path(const struct shm_listener *listener, struct nam_diag *diag)
{
	const char *path = listener->address.sun_path;
	struct stat status;
	int fd, rc;

	if (lstat(path, &status))
		return errno == ENOENT ? 0 : nam_diag_set(diag, -errno, "%s: %s", path,
			strerror(errno));
	if (!S_ISSOCK(status.st_mode))
		return nam_diag_set(diag, -EEXIST, "%s: exists and is not a socket; remove it or "
			"choose another path", path);
	fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return nam_diag_set(diag, -errno, "%s: socket: %s", path, strerror(errno));
	rc = connect(fd, (const struct sockaddr *)&listener->address, sizeof(listener->address));
	if (rc == 0 || errno != ECONNREFUSED)
		rc = nam_diag_set(diag, -NAM_E_FABRIC_ADDRESS_IN_USE, "shm:%s: another program is "
			"listening there; stop it, or choose another path", path);
	else if (unlink(path))
		rc = nam_diag_set(diag, -errno, "%s: cannot remove the socket of a server that "
			"ended: %s", path, strerror(errno));
	else
		rc = 0;
	close(fd);
	return rc;
}

static int
listen_at(struct shm_listener *listener, struct nam_diag *diag)
{
	const char *path = listener->address.sun_path;
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), rc;

	if (fd < 0)
		return nam_diag_set(diag, -errno, "%s: socket: %s", path, strerror(errno));
	if (bind(fd, (const struct sockaddr *)&listener->address, sizeof(listener->address))) {
		rc = nam_diag_set(diag, errno == EADDRINUSE ? -NAM_E_FABRIC_ADDRESS_IN_USE : -errno,
			"%s: %s", path, strerror(errno));
		goto close_socket;
	}
	/* Before listen(), so that only permitted clients connect. */
	rc = chmod(path, 0600) || listen(fd, BACKLOG) ? -errno :
		nam__pending_accepts_listen(&listener->accepts, fd);
	if (!rc)
		return 0;
	rc = nam_diag_set(diag, rc, "%s: %s", path, nam_err_text(rc));
	(void)unlink(path);
close_socket:
	close(fd);
	return rc;
}

static void
name_peer(struct nam_cm_request *request)
{
	char *peer = request->event.peer;
	struct ucred who = { .pid = 0 };
	socklen_t length = sizeof(who);

	if (getsockopt(request->fd, SOL_SOCKET, SO_PEERCRED, &who, &length))
		(void)snprintf(peer, sizeof(request->event.peer), "unknown");
	else
		(void)snprintf(peer, sizeof(request->event.peer), "pid %ld uid %lu",
			(long)who.pid, (unsigned long)who.uid);
	request->event.pid = who.pid > 0 ? who.pid : -1;
}

int
nam__shm_listen(struct nam_domain *domain, const char *address, struct nam_listener **ret,
	struct nam_diag *diag)
{
	struct shm_listener *listener = calloc(1, sizeof(*listener));
	int rc;

	if (!listener)
		return nam_diag_set(diag, -ENOMEM, "no memory for a listener");
	rc = nam__shm_address(address, &listener->address, diag);
	if (rc)
		goto free_listener;
	(void)snprintf(listener->lock_path, sizeof(listener->lock_path), "%s.lock",
		listener->address.sun_path);
	rc = take_lock(listener, diag);
	if (rc)
		goto free_listener;
	rc = clear_path(listener, diag);
	if (rc)
		goto release_lock;
	rc = nam__pending_accepts_open(&listener->accepts, domain, &accepts_ops);
	if (rc) {
		(void)nam_diag_set(diag, rc, "epoll: %s", nam_err_text(rc));
		goto release_lock;
	}
	rc = listen_at(listener, diag);
	if (rc)
		goto close_accepts;
	*ret = &listener->accepts.pub;
	return 0;

close_accepts:
	nam__pending_accepts_close(&listener->accepts);
release_lock:
	(void)unlink(listener->lock_path);
	close(listener->lock_fd);
free_listener:
	free(listener);
	return rc;
}

void
nam__shm_listener_close(struct nam_listener *pub)
{
	struct shm_listener *listener = (struct shm_listener *)pub;

	if (!listener)
		return;
	(void)unlink(listener->address.sun_path);
	nam__pending_accepts_close(&listener->accepts);
	(void)unlink(listener->lock_path);
	close(listener->lock_fd);
	free(listener);
}

/* ---- clients ------------------------------------------------------------------------------ */

static const struct shm_hello *
hello_of(const struct nam_cm_request *request)
{
	return (const struct shm_hello *)(const void *)request->message;
}

/* More is to come (-EAGAIN), or the client has left. */
static int
received_nothing(int rc)
{
	return !rc || rc == -ECONNRESET ? -NAM_E_FABRIC_PEER_DEAD : rc;
}

static int
receive_hello(struct nam_cm_request *request)
{
	struct shm_welcome refusal = { .magic = SHM_MAGIC, .version = SHM_VERSION };
	const struct shm_hello *hello = hello_of(request);
	size_t got = 0;
	int rc = nam__shm_packet_recv(request->fd, request->message, sizeof(*hello), &got,
		request->fds, 2, &request->fds_count);

	_Static_assert(sizeof(*hello) <= sizeof(request->message), "there is room for a hello");
	if (rc || !got)
		return received_nothing(rc);
	if (got < 8 || hello->magic != SHM_MAGIC)
		return -NAM_E_FABRIC_PROTOCOL;
	if (hello->version != SHM_VERSION) {
		/* A client of another version may have no room for more. */
		(void)!nam__shm_packet_send(request->fd, &refusal,
			offsetof(struct shm_welcome, accepted), NULL, 0);
		return -NAM_E_FABRIC_VERSION;
	}
	if (got != sizeof(*hello) || request->fds_count < 1 ||
		hello->bytes > NAM_HELLO_BYTES_MAX || hello->bell_index >= SHM_QPS_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	request->event.hello.bytes = hello->bytes;
	memcpy(request->event.hello.data, hello->data, hello->bytes);
	return 0;
}

static int
receive_answer(struct nam_cm_request *request)
{
	struct shm_answer answer;
	unsigned fds_count = 0;
	size_t got = 0;
	int rc = nam__shm_packet_recv(request->fd, &answer, sizeof(answer), &got, NULL, 0,
		&fds_count);

	if (rc || !got)
		return received_nothing(rc);
	if (got != sizeof(answer) || answer.magic != SHM_MAGIC_ANSWER ||
		answer.bytes > NAM_HELLO_BYTES_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	request->event.answer.bytes = answer.bytes;
	memcpy(request->event.answer.data, answer.data, answer.bytes);
	return 0;
}

static int
receive_message(struct nam_cm_request *request)
{
	return request->event.kind == NAM_CM_ANSWER ? receive_answer(request) :
		receive_hello(request);
}

static int
refuse(int fd, const struct nam_hello *reply)
{
	struct shm_welcome welcome = { .magic = SHM_MAGIC, .version = SHM_VERSION };

	welcome.bytes = nam__hello_put(welcome.data, reply, NAM_REPLY_BYTES_MAX);
	return nam__shm_packet_send(fd, &welcome, sizeof(welcome), NULL, 0);
}

static int
challenge(int fd, const struct nam_hello *challenge)
{
	struct shm_challenge packet = { .magic = SHM_MAGIC_CHALLENGE };

	packet.bytes = nam__hello_put(packet.data, challenge, NAM_REPLY_BYTES_MAX);
	return nam__shm_packet_send(fd, &packet, sizeof(packet), NULL, 0);
}

static const struct nam__accepts_ops accepts_ops = { name_peer, receive_message, refuse,
	challenge };

/* Regions that are sent to a peer. */
struct announcement {
	struct shm_regions_packet packet;
	int fds[SHM_REGIONS_PER_PACKET];
	uint32_t fds_count;
	uint32_t files_count;
	uint32_t files[SHM_REGIONS_MAX];	/* by number in notes: in domain->files */
};

/* The number of a file in notes; with its descriptor, if it is new to the peer. */
static int
announce_file(const struct shm_qp *qp, struct announcement *sent, uint32_t index,
	uint32_t *ret_number)
{
	struct shm_file *file = &qp->domain->files[index];
	uint32_t number = 0;
	int rc;

	while (number < sent->files_count && sent->files[number] != index)
		number++;
	*ret_number = number;
	if (number < sent->files_count)
		return 0;
	rc = nam__shm_region_file_end(file);
	if (rc)
		return rc;
	sent->files[sent->files_count++] = index;
	sent->fds[sent->fds_count++] = qp->for_reading || file->read_only ? file->read_fd :
		file->fd;
	return 0;
}

static int
announce_region(const struct shm_qp *qp, struct announcement *sent, const struct shm_mr *mr)
{
	uint32_t file;
	int rc = mr->base ? announce_file(qp, sent, mr->file, &file) : -EINVAL;

	if (rc)
		return rc;
	sent->packet.regions[sent->packet.count++] = (struct shm_region_note){
		.bytes = mr->bytes,
		.offset = mr->offset,
		.file = file,
		.transparent_huge = qp->domain->files[mr->file].transparent_huge,
		.withdrawn = mr->withdrawn,
	};
	return 0;
}

static int
send_regions(const struct shm_qp *qp)
{
	struct shm_domain *domain = qp->domain;
	struct announcement sent = { .files_count = 0 };
	uint32_t at = 0;
	int rc = 0;

	/* Under the mutex, so that no region is released between here and the system call. */
	pthread_mutex_lock(&domain->mutex);
	while (at < domain->mrs_count && rc == 0) {
		sent.packet = (struct shm_regions_packet){ .magic = SHM_MAGIC };
		sent.fds_count = 0;
		while (!rc && at < domain->mrs_count && sent.packet.count < SHM_REGIONS_PER_PACKET)
			rc = announce_region(qp, &sent, &domain->mrs[at++]);
		if (rc == 0)
			rc = nam__shm_packet_send(qp->fd, &sent.packet, sizeof(sent.packet),
				sent.fds, sent.fds_count);
	}
	pthread_mutex_unlock(&domain->mutex);
	return rc;
}

static int
send_welcome(struct shm_qp *qp, const struct nam_cm_request *request, const struct nam_hello *reply,
	int rings_fd, int share_fd)
{
	struct shm_domain *domain = qp->domain;
	uint64_t instance = domain->instance | (qp->for_reading ? SHM_FOR_READING : 0);
	struct shm_welcome welcome = {
		.magic = SHM_MAGIC,
		.version = SHM_VERSION,
		.accepted = 1,
		.bell_index = qp->index,
		.instance = instance,
		.regions_follow = hello_of(request)->known_instance != instance,
	};
	int fds[3] = { rings_fd, qp->cq->bell_fd, share_fd };
	int rc;

	pthread_mutex_lock(&domain->mutex);
	welcome.regions_count = domain->mrs_announced = domain->mrs_count;
	pthread_mutex_unlock(&domain->mutex);
	welcome.bytes = nam__hello_put(welcome.data, reply, NAM_REPLY_BYTES_MAX);
	rc = nam__shm_packet_send(qp->fd, &welcome, sizeof(welcome), fds, share_fd < 0 ? 2 : 3);
	if (rc == 0 && welcome.regions_follow)
		rc = send_regions(qp);
	return rc;
}

int
nam__shm_accept(struct nam_listener *pub, struct nam_cm_request *request,
	const struct nam_qp_options *options, const struct nam_hello *reply, struct nam_qp **ret)
{
	struct shm_domain *domain =
		(struct shm_domain *)((struct nam__pending_accepts *)pub)->domain;
	void *rings = NULL, *bell = NULL;
	struct shm_qp *qp = NULL;
	int rings_fd, rc;

	if (reply && reply->bytes > NAM_REPLY_BYTES_MAX) {
		rc = -EINVAL;
		goto refuse;
	}
	rc = nam__shm_qp_create(domain, options, &qp);
	if (rc)
		goto refuse;
	qp->accepted = true;
	qp->for_reading = options->rights == NAM_MR_REMOTE_READ;
	rc = nam__shm_file_map(request->fds[0], SHM_PAGE_BYTES, &bell);
	if (rc)
		goto destroy_qp;
	qp->peer_bell = bell;
	qp->peer_index = hello_of(request)->bell_index;
	if (request->fds_count == 2) {
		rc = nam__shm_share_map(request->fds[1], &qp->share);
		if (rc)
			goto destroy_qp;
	}
	rc = nam__shm_file_create("nam-rings", sizeof(struct shm_rings), &rings_fd, &rings);
	if (rc)
		goto destroy_qp;
	qp->rings = rings;
	qp->out = &qp->rings->reply;
	qp->in = &qp->rings->request;
	rc = nam__shm_cq_reserve(qp->cq, qp);
	if (rc) {
		close(rings_fd);
		goto destroy_qp;
	}
	qp->fd = request->fd;
	request->fd = -1;
	*ret = &qp->pub;
	/*
	 * From here on only the owner of the cq may destroy the queue pair: a failure closes it at
	 * once.  The watcher comes last: told of a hang-up, the owner may destroy it before this
	 * call returns.
	 */
	nam__shm_cq_publish(qp->cq, qp);
	if (send_welcome(qp, request, reply, rings_fd, nam__shm_share_fd(options->share)))
		(void)shutdown(qp->fd, SHUT_RDWR);
	close(rings_fd);
	nam__shm_share_sent(options->share);
	rc = nam__shm_watch_add(&domain->watch, qp);
	if (rc)
		nam__shm_cq_closed(qp->cq, qp);
	nam__cm_request_free(request);
	return 0;

destroy_qp:
	nam__shm_qp_destroy(&qp->pub);
refuse:
	/* Without the caller's reply, which says yes. */
	nam__socket_reject(pub, request, NULL);
	return rc;
}
