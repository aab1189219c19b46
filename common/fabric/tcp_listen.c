/* SPDX-License-Identifier: Apache-2.0 */
/* tcp_listen.c -- the server's side: sockets to listen at, and clients that say hello. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "inet.h"
#include "tcp_internal.h"

#define BACKLOG 512
#define SOCKETS_MAX 4u			/* a name may have several addresses */
#define GREETED_MAX 128u		/* clients that have connected and not yet said hello */
#define EVENT_WAKE UINT64_MAX
#define EVENT_SOCKET (1ull << 32)	/* plus its number; else the number of who was greeted */

struct tcp_greeted {
	int fd;				/* -1: free */
	uint32_t got;
	uint64_t until_ns;
	struct tcp_hello hello;
};

struct tcp_listener {
	struct nam_listener pub;
	struct tcp_domain *domain;
	int fds[SOCKETS_MAX];
	uint32_t fds_count;
	int epoll_fd, wake_fd;
	struct tcp_greeted greeted[GREETED_MAX];
	uint32_t greeted_count;
};

struct nam_cm_request {
	int fd;
};

/* ---- opening and closing -------------------------------------------------------------------- */

static int
say_failed(struct nam_diag *diag, const char *address, int error)
{
	switch (error) {
	case EADDRINUSE:
		return nam_diag_set(diag, -NAM_E_FABRIC_ADDRESS_IN_USE, "%s: another program is "
			"listening there; stop it, or choose another port", address);
	case EADDRNOTAVAIL:
		return nam_diag_set(diag, -EADDRNOTAVAIL, "%s: this host has no such address; see "
			"`ip address`, or listen at all of them (0.0.0.0 or [::])", address);
	case EACCES:
		return nam_diag_set(diag, -EACCES, "%s: this user may not listen at that port; "
			"choose one above 1023", address);
	default:
		return nam_diag_set(diag, -error, "%s: %s", address, strerror(error));
	}
}

static int
watch_fd(const struct tcp_listener *listener, int fd, uint64_t event)
{
	struct epoll_event interest = { .events = EPOLLIN, .data.u64 = event };

	return epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, fd, &interest) ? -errno : 0;
}

static int
open_socket(struct tcp_listener *listener, const struct addrinfo *at)
{
	int fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	int one = 1, rc = 0;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) ||
		bind(fd, at->ai_addr, at->ai_addrlen) || listen(fd, BACKLOG))
		rc = -errno;
	if (!rc)
		rc = watch_fd(listener, fd, EVENT_SOCKET + listener->fds_count);
	if (rc) {
		close(fd);
		return rc;
	}
	listener->fds[listener->fds_count++] = fd;
	return 0;
}

/* At each address that a name has and this host, too. */
static int
open_sockets(struct tcp_listener *listener, const struct addrinfo *list)
{
	int rc = -EADDRNOTAVAIL;

	for (; list && listener->fds_count < SOCKETS_MAX; list = list->ai_next) {
		rc = open_socket(listener, list);
		if (rc && rc != -EADDRNOTAVAIL && rc != -EAFNOSUPPORT)
			return rc;
	}
	return listener->fds_count ? 0 : rc;
}

static int
open_epoll(struct tcp_listener *listener)
{
	int rc;

	listener->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (listener->epoll_fd < 0)
		return -errno;
	listener->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = listener->wake_fd < 0 ? -errno :
		watch_fd(listener, listener->wake_fd, EVENT_WAKE);
	if (rc == 0)
		return 0;
	if (listener->wake_fd >= 0)
		close(listener->wake_fd);
	close(listener->epoll_fd);
	return rc;
}

void
nam__tcp_listener_close(struct nam_listener *pub)
{
	struct tcp_listener *listener = (struct tcp_listener *)pub;

	if (!listener)
		return;
	for (uint32_t i = 0; i < GREETED_MAX; i++) {
		if (listener->greeted[i].fd >= 0)
			close(listener->greeted[i].fd);
	}
	for (uint32_t i = 0; i < listener->fds_count; i++)
		close(listener->fds[i]);
	close(listener->wake_fd);
	close(listener->epoll_fd);
	free(listener);
}

/* Clients must know the port before, so 0 for any is of no use to anybody. */
static int
check_port(const struct addrinfo *at, const char *address, struct nam_diag *diag)
{
	in_port_t port = at->ai_family == AF_INET6 ?
		((const struct sockaddr_in6 *)(const void *)at->ai_addr)->sin6_port :
		((const struct sockaddr_in *)(const void *)at->ai_addr)->sin_port;

	return port ? 0 : nam_diag_set(diag, -EINVAL, "'%s': a memory server listens at a port "
		"from 1 to 65535, which its clients have to know", address);
}

int
nam__tcp_listen(struct nam_domain *domain, const char *address, struct nam_listener **ret,
	struct nam_diag *diag)
{
	struct tcp_listener *listener;
	struct addrinfo *list;
	int rc = nam__inet_resolve("tcp", address, true, &list, diag);

	if (rc)
		return rc;
	rc = check_port(list, address, diag);
	if (rc)
		goto free_list;
	rc = -ENOMEM;
	listener = calloc(1, sizeof(*listener));
	if (!listener)
		goto free_list;
	listener->pub.ops = domain->ops;
	listener->domain = (struct tcp_domain *)domain;
	for (uint32_t i = 0; i < GREETED_MAX; i++)
		listener->greeted[i].fd = -1;
	rc = open_epoll(listener);
	if (rc) {
		free(listener);
		goto free_list;
	}
	rc = open_sockets(listener, list);
	if (rc) {
		rc = say_failed(diag, address, -rc);
		nam__tcp_listener_close(&listener->pub);
		goto free_list;
	}
	*ret = &listener->pub;
free_list:
	freeaddrinfo(list);
	return rc;
}

void
nam__tcp_listener_wake(struct nam_listener *pub)
{
	struct tcp_listener *listener = (struct tcp_listener *)pub;
	uint64_t one = 1;
	int saved = errno;

	/* May run in a signal handler.  A full counter means that a wake is pending anyway. */
	(void)!write(listener->wake_fd, &one, sizeof(one));
	errno = saved;
}

/* ---- clients -------------------------------------------------------------------------------- */

static void
drop_greeted(struct tcp_listener *listener, struct tcp_greeted *greeted)
{
	close(greeted->fd);
	greeted->fd = -1;
	listener->greeted_count--;
}

/* A free place, or that of who has been silent for longest. */
static struct tcp_greeted *
free_or_oldest(struct tcp_listener *listener)
{
	struct tcp_greeted *greeted = &listener->greeted[0];

	for (uint32_t i = 0; i < GREETED_MAX && greeted->fd >= 0; i++) {
		struct tcp_greeted *other = &listener->greeted[i];

		if (other->fd < 0 || other->until_ns < greeted->until_ns)
			greeted = other;
	}
	return greeted;
}

/* Out of descriptors: who has said nothing yet makes room for who may. */
static void
drop_oldest(struct tcp_listener *listener)
{
	struct tcp_greeted *oldest = NULL;

	for (uint32_t i = 0; i < GREETED_MAX; i++) {
		struct tcp_greeted *other = &listener->greeted[i];

		if (other->fd >= 0 && (!oldest || other->until_ns < oldest->until_ns))
			oldest = other;
	}
	if (oldest)
		drop_greeted(listener, oldest);
	else	/* The client stays in the backlog.  Do not spin on it. */
		nam_sleep_ns(10000000);
}

/* A client that connects must say hello in time; if too many do not, the oldest goes. */
static void
greet(struct tcp_listener *listener, int socket_fd)
{
	struct tcp_greeted *greeted;
	int fd = accept4(socket_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			drop_oldest(listener);
		return;
	}
	greeted = free_or_oldest(listener);
	if (greeted->fd >= 0)
		drop_greeted(listener, greeted);
	if (nam__tcp_socket_prepare(fd) ||
		watch_fd(listener, fd, (uint64_t)(greeted - listener->greeted))) {
		close(fd);
		return;
	}
	greeted->fd = fd;
	greeted->got = 0;
	greeted->until_ns = nam_now_ns() + TCP_CONNECT_NS;
	listener->greeted_count++;
}

/* The only thing that is said so early: it never waits for room. */
static int
send_welcome(int fd, bool accepted, const struct nam_hello *reply)
{
	struct tcp_welcome welcome = {
		.magic = TCP_MAGIC_WELCOME,
		.version = TCP_VERSION,
		.accepted = accepted,
	};

	if (reply && reply->bytes <= NAM_HELLO_BYTES_MAX) {
		welcome.bytes = reply->bytes;
		memcpy(welcome.data, reply->data, reply->bytes);
	}
	return send(fd, &welcome, sizeof(welcome), MSG_NOSIGNAL | MSG_DONTWAIT) ==
		sizeof(welcome) ? 0 : -EIO;
}

static void
describe_peer(int fd, char *text, size_t size)
{
	struct sockaddr_storage at = { .ss_family = AF_UNSPEC };
	socklen_t length = sizeof(at);

	(void)getpeername(fd, (struct sockaddr *)&at, &length);
	nam__inet_text((struct sockaddr *)&at, text, size);
}

/* More of a hello.  1: it is complete; 0: not yet; negative: that client is none. */
static int
hear_more(struct tcp_greeted *greeted)
{
	struct tcp_hello *hello = &greeted->hello;
	ssize_t n = recv(greeted->fd, (uint8_t *)hello + greeted->got,
		sizeof(*hello) - greeted->got, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return -NAM_E_FABRIC_PEER_DEAD;
	greeted->got += (uint32_t)n;
	if (greeted->got >= 4 && hello->magic != TCP_MAGIC)
		return -NAM_E_FABRIC_PROTOCOL;
	if (greeted->got >= 8 && hello->version != TCP_VERSION) {
		(void)send_welcome(greeted->fd, false, NULL);
		return -NAM_E_FABRIC_VERSION;
	}
	if (greeted->got < sizeof(*hello))
		return 0;
	return hello->bytes > NAM_HELLO_BYTES_MAX || hello->reserved ?
		-NAM_E_FABRIC_PROTOCOL : 1;
}

/* A client has spoken.  1 with an event, or 0 if there is nothing to ask the caller. */
static int
hear(struct tcp_listener *listener, uint32_t slot, struct nam_cm_event *event)
{
	struct tcp_greeted *greeted;
	struct nam_cm_request *request;
	int rc;

	if (slot >= GREETED_MAX || listener->greeted[slot].fd < 0)
		return 0;
	greeted = &listener->greeted[slot];
	rc = hear_more(greeted);
	if (rc == 0)
		return 0;
	request = rc < 0 ? NULL : malloc(sizeof(*request));
	if (!request) {
		drop_greeted(listener, greeted);
		return 0;
	}
	request->fd = greeted->fd;
	memset(event, 0, sizeof(*event));
	event->kind = NAM_CM_REQUEST;
	event->request = request;
	event->hello.bytes = greeted->hello.bytes;
	memcpy(event->hello.data, greeted->hello.data, greeted->hello.bytes);
	describe_peer(request->fd, event->peer, sizeof(event->peer));
	/* The socket is the request's now. */
	(void)epoll_ctl(listener->epoll_fd, EPOLL_CTL_DEL, request->fd, NULL);
	greeted->fd = -1;
	listener->greeted_count--;
	return 1;
}

static void
drop_silent(struct tcp_listener *listener)
{
	uint64_t now = nam_now_ns();

	for (uint32_t i = 0; i < GREETED_MAX; i++) {
		if (listener->greeted[i].fd >= 0 && listener->greeted[i].until_ns < now)
			drop_greeted(listener, &listener->greeted[i]);
	}
}

int
nam__tcp_listener_poll(struct nam_listener *pub, uint64_t timeout_ns, struct nam_cm_event *event)
{
	struct tcp_listener *listener = (struct tcp_listener *)pub;
	uint64_t until = nam_now_ns(), one;

	until = timeout_ns > UINT64_MAX - until ? UINT64_MAX : until + timeout_ns;
	for (;;) {
		struct epoll_event ready;
		uint64_t now = nam_now_ns();
		uint64_t left_ms = now < until ? (until - now + 999999) / 1000000 : 0;
		uint64_t most_ms = listener->greeted_count ? 1000 : 3600000;
		int n = epoll_wait(listener->epoll_fd, &ready, 1,
			(int)(left_ms < most_ms ? left_ms : most_ms));

		if (n < 0)
			return errno == EINTR ? 0 : -errno;
		if (listener->greeted_count)
			drop_silent(listener);
		if (n == 0) {
			if (nam_now_ns() >= until)
				return 0;
			continue;
		}
		if (ready.data.u64 == EVENT_WAKE) {
			(void)!read(listener->wake_fd, &one, sizeof(one));
			return 0;
		}
		if (ready.data.u64 >= EVENT_SOCKET)
			greet(listener, listener->fds[ready.data.u64 - EVENT_SOCKET]);
		else if (hear(listener, (uint32_t)ready.data.u64, event))
			return 1;
	}
}

static void
request_free(struct nam_cm_request *request)
{
	if (request->fd >= 0)
		close(request->fd);
	free(request);
}

void
nam__tcp_reject(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *reply)
{
	(void)listener;
	(void)send_welcome(request->fd, false, reply);
	request_free(request);
}

int
nam__tcp_accept(struct nam_listener *pub, struct nam_cm_request *request,
	const struct nam_qp_options *options, const struct nam_hello *reply, struct nam_qp **ret)
{
	struct tcp_listener *listener = (struct tcp_listener *)pub;
	struct tcp_qp *qp = NULL;
	int rc = reply && reply->bytes > NAM_HELLO_BYTES_MAX ? -EINVAL :
		nam__tcp_qp_create(listener->domain, options, true, &qp);

	if (rc) {
		/* Without the caller's reply, which says yes. */
		nam__tcp_reject(pub, request, NULL);
		return rc;
	}
	qp->fd = request->fd;
	request->fd = -1;
	*ret = &qp->pub;
	/* Of a client that is gone already, the owner hears as of any other. */
	(void)send_welcome(qp->fd, true, reply);
	/* From here on the owner may meet the queue pair, and destroy it. */
	nam__tcp_cq_arrive(qp->cq, qp);
	request_free(request);
	return 0;
}
