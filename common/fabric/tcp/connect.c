/* SPDX-License-Identifier: Apache-2.0 */
/* connect.c -- the client's side of the handshake. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fabric/inet.h"
#include "tcp_internal.h"

struct attempt {
	struct tcp_domain *domain;
	const char *address;
	struct tcp_qp *qp;
	uint64_t until_ns;
	struct nam_hello *reply;
	struct nam_diag *diag;
	bool challenged, accepted;
};

/* The kernel's probes notice a dead peer while nothing is in flight, and keepalive.c otherwise. */
int
nam__tcp_socket_prepare(int fd)
{
	static const struct {
		int level, option, value;
	} options[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 1 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 1 },
		{ IPPROTO_TCP, TCP_KEEPCNT, TCP_PROBES },
	};

	for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
		if (setsockopt(fd, options[i].level, options[i].option, &options[i].value,
			sizeof(options[i].value)))
			return -errno;
	}
	return 0;
}

static int
diag_silent(const struct attempt *attempt)
{
	return nam_diag_set(attempt->diag, -NAM_E_FABRIC_TIMEOUT, "%s: it does not answer within "
		"%u ms. Is the host up, the memory server running and not stopped or overloaded, "
		"and does a firewall let that port through?", attempt->address,
		(unsigned)((attempt->domain->pub.timeout_ns ?: TCP_CONNECT_NS) / 1000000));
}

static int
diag_closed(const struct attempt *attempt)
{
	return nam_diag_set(attempt->diag, -NAM_E_FABRIC_CONNECT, "%s: the memory server closed "
		"the connection; it is ending, or has too many clients, or is no memory server",
		attempt->address);
}

static int
diag_failed(const struct attempt *attempt, int error)
{
	switch (error) {
	case ECONNREFUSED:
		attempt->reply->absent = 1;
		return nam_diag_set(attempt->diag, -NAM_E_FABRIC_CONNECT, "%s: the host is there, "
			"and no memory server listens at that port; is it running (nam-memserver "
			"--listen %s)?", attempt->address, attempt->address);
	case ENETUNREACH:
	case EHOSTUNREACH:
		return nam_diag_set(attempt->diag, -NAM_E_FABRIC_CONNECT, "%s: no way there: %s; "
			"look at the address, and at the routes of this host (ip route)",
			attempt->address, strerror(error));
	case ETIMEDOUT:
		return diag_silent(attempt);
	case EINVAL:
		return nam_diag_set(attempt->diag, -EINVAL, "%s: a link-local address needs its "
			"interface, as in tcp:[fe80::1%%eth0]:7000", attempt->address);
	case ECONNRESET:
	case EPIPE:
		return diag_closed(attempt);
	default:
		return nam_diag_set(attempt->diag, -NAM_E_FABRIC_CONNECT, "%s: %s",
			attempt->address, strerror(error));
	}
}

/* 0 once the socket is ready for `events`; -NAM_E_FABRIC_TIMEOUT. */
static int
await(const struct attempt *attempt, short events)
{
	for (;;) {
		struct pollfd ready = { .fd = attempt->qp->fd, .events = events };
		uint64_t now = nam_now_ns();
		int n;

		if (now >= attempt->until_ns)
			return diag_silent(attempt);
		n = poll(&ready, 1, (int)((attempt->until_ns - now + 999999) / 1000000));
		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return diag_failed(attempt, errno);
	}
}

static int
open_socket(struct attempt *attempt, const struct addrinfo *at)
{
	socklen_t length = sizeof(int);
	int fd, error = 0, rc;

	fd = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return diag_failed(attempt, errno);
	attempt->qp->fd = fd;
	if (connect(fd, at->ai_addr, at->ai_addrlen)) {
		if (errno != EINPROGRESS && errno != EINTR)
			return diag_failed(attempt, errno);
		rc = await(attempt, POLLOUT);
		if (rc)
			return rc;
		if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &length))
			error = errno;
		if (error)
			return diag_failed(attempt, error);
	}
	/* Not before: the bound on silence is shorter than that on connecting. */
	rc = nam__tcp_socket_prepare(fd);
	return rc ? diag_failed(attempt, -rc) : 0;
}

/* A hello or an answer. */
static int
send_hello(const struct attempt *attempt, uint32_t magic, const struct nam_hello *hello)
{
	struct tcp_hello out = { .magic = magic, .version = TCP_VERSION };

	if (hello && hello->bytes > NAM_HELLO_BYTES_MAX)
		return nam_diag_set(attempt->diag, -EINVAL, "hello of %u bytes", hello->bytes);
	out.bytes = nam__hello_put(out.data, hello, NAM_HELLO_BYTES_MAX);
	/* Among the first bytes of a connection: there is room for them. */
	if (send(attempt->qp->fd, &out, sizeof(out), MSG_NOSIGNAL) != sizeof(out))
		return diag_failed(attempt, errno);
	return 0;
}

/* Exactly so many bytes. */
static int
receive(const struct attempt *attempt, void *data, size_t bytes)
{
	size_t got = 0;

	while (got < bytes) {
		ssize_t n;
		int rc = await(attempt, POLLIN);

		if (rc)
			return rc;
		n = recv(attempt->qp->fd, (uint8_t *)data + got, bytes - got, 0);
		if (n == 0)
			return diag_closed(attempt);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return diag_failed(attempt, errno);
		got += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* A welcome, or the first challenge. */
static int
receive_welcome(const struct attempt *attempt, struct tcp_welcome *welcome)
{
	int rc = receive(attempt, welcome, 8);

	if (rc)
		return rc;
	if (welcome->magic != TCP_MAGIC_WELCOME &&
		(welcome->magic != TCP_MAGIC_CHALLENGE || attempt->challenged))
		return nam_diag_set(attempt->diag, -NAM_E_FABRIC_PROTOCOL, "%s: the peer "
			"is not a memory server", attempt->address);
	if (welcome->version != TCP_VERSION)
		return nam_diag_set(attempt->diag, -NAM_E_FABRIC_VERSION, "%s: the memory server "
			"speaks version %u of the tcp handshake and this library version %u; use "
			"the same release on both sides", attempt->address, welcome->version,
			TCP_VERSION);
	rc = receive(attempt, (uint8_t *)welcome + 8, sizeof(*welcome) - 8);
	if (rc)
		return rc;
	if (welcome->bytes > NAM_REPLY_BYTES_MAX ||
		welcome->accepted > (welcome->magic == TCP_MAGIC_WELCOME))
		return nam_diag_set(attempt->diag, -NAM_E_FABRIC_PROTOCOL, "%s: malformed answer; "
			"is that a memory server?", attempt->address);
	return 0;
}

static int
answer_challenge(struct attempt *attempt, const struct nam_qp_options *options,
	const struct tcp_welcome *message)
{
	struct nam_hello challenge = { .bytes = message->bytes }, answer;
	int rc;

	attempt->challenged = true;
	memcpy(challenge.data, message->data, message->bytes);
	rc = nam__fabric_answer(options, attempt->address, &challenge, &answer, attempt->diag);
	return rc ? rc : send_hello(attempt, TCP_MAGIC_ANSWER, &answer);
}

/* Everything behind the hello. */
static int
be_welcomed(struct attempt *attempt, const struct nam_qp_options *options)
{
	struct tcp_welcome welcome;
	int rc = receive_welcome(attempt, &welcome);

	if (!rc && welcome.magic == TCP_MAGIC_CHALLENGE) {
		rc = answer_challenge(attempt, options, &welcome);
		if (!rc)
			rc = receive_welcome(attempt, &welcome);
	}
	if (rc)
		return rc;
	attempt->reply->bytes = welcome.bytes;
	memcpy(attempt->reply->data, welcome.data, welcome.bytes);
	if (!welcome.accepted)
		return nam_diag_set(attempt->diag, -ECONNREFUSED, "%s: the memory server refused "
			"the connection", attempt->address);
	attempt->accepted = true;
	return nam__fabric_welcome(options, attempt->reply, attempt->diag);
}

static int
connect_once(struct attempt *attempt, const struct addrinfo *at, const struct nam_hello *hello,
	const struct nam_qp_options *options)
{
	int rc = nam__tcp_qp_create(attempt->domain, options, false, &attempt->qp);

	if (rc)
		return nam_diag_set(attempt->diag, rc, "no memory for a queue pair");
	rc = open_socket(attempt, at);
	if (!rc)
		rc = send_hello(attempt, TCP_MAGIC, hello);
	if (!rc)
		rc = be_welcomed(attempt, options);
	if (rc) {
		nam__tcp_qp_destroy(&attempt->qp->pub);
		return rc;
	}
	nam__tcp_cq_arrive(attempt->qp->cq, attempt->qp);
	return 0;
}

int
nam__tcp_connect(struct nam_domain *domain, const char *address, const struct nam_hello *hello,
	const struct nam_qp_options *options, struct nam_hello *reply, struct nam_qp **ret,
	struct nam_diag *diag)
{
	struct nam_hello own;
	struct attempt attempt = {
		.domain = (struct tcp_domain *)domain,
		.address = address,
		.reply = reply ?: &own,
		.diag = diag,
	};
	uint64_t until_ns, left = 0;
	struct addrinfo *list;
	int rc = nam__inet_resolve("tcp", address, false, &list, diag);

	if (rc)
		return rc;
	attempt.reply->bytes = attempt.reply->absent = 0;
	/* A name may have addresses that lead nowhere before one that does: each has its part. */
	until_ns = nam_now_ns() + (domain->timeout_ns ?: TCP_CONNECT_NS);
	for (const struct addrinfo *at = list; at; at = at->ai_next)
		left++;
	for (const struct addrinfo *at = list; at; at = at->ai_next, left--) {
		uint64_t now = nam_now_ns();

		attempt.until_ns = now < until_ns ? now + (until_ns - now) / left : now;
		rc = connect_once(&attempt, at, hello, options);
		/* A listener that challenges or accepts is the right one; try no other address. */
		if (!rc || rc == -ECONNREFUSED || attempt.challenged || attempt.accepted)
			break;
	}
	freeaddrinfo(list);
	if (rc)
		return rc;
	*ret = &attempt.qp->pub;
	return 0;
}
