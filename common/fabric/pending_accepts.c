/* SPDX-License-Identifier: Apache-2.0 */
#include "pending_accepts.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/env.h"
#include "common/fabric/wait/wake.h"

#define EVENT_WAKE UINT32_MAX
#define EVENT_SOCKET (1u << 16)		/* plus the number of a listening socket */

static int
watch(const struct nam__pending_accepts *accepts, int fd, uint32_t event)
{
	struct epoll_event interest = { .events = EPOLLIN, .data.u32 = event };

	return epoll_ctl(accepts->epoll_fd, EPOLL_CTL_ADD, fd, &interest) ? -errno : 0;
}

int
nam__pending_accepts_open(struct nam__pending_accepts *accepts, struct nam_domain *domain,
	const struct nam__accepts_ops *ops)
{
	accepts->pub.ops = domain->ops;
	accepts->domain = domain;
	accepts->ops = ops;
	return nam__wake_epoll(EVENT_WAKE, &accepts->epoll_fd, &accepts->wake_fd);
}

void
nam__cm_request_free(struct nam_cm_request *request)
{
	if (request->fd >= 0)
		close(request->fd);
	for (uint32_t i = 0; i < request->fds_count; i++)
		close(request->fds[i]);
	free(request);
}

/* Take a client out of the pending ones. */
static struct nam_cm_request *
release(struct nam__pending_accepts *accepts, uint32_t number)
{
	struct nam_cm_request *request = accepts->pending[number];

	(void)epoll_ctl(accepts->epoll_fd, EPOLL_CTL_DEL, request->fd, NULL);
	accepts->pending[number] = NULL;
	accepts->count--;
	return request;
}

/* A client that cannot go on; `why` is for the listener's owner (nam_dropped_fn). */
static void
drop(struct nam__pending_accepts *accepts, struct nam_cm_request *request, int why)
{
	nam__listener_dropped(&accepts->pub, request->event.peer, why);
	nam__cm_request_free(request);
}

/* Hang up on those whose time is over. */
static void
drop_silent(struct nam__pending_accepts *accepts, uint64_t now)
{
	for (uint32_t i = 0; i < NAM__PENDING_MAX; i++) {
		if (accepts->pending[i] && accepts->pending[i]->until_ns < now)
			drop(accepts, release(accepts, i), -NAM_E_FABRIC_TIMEOUT);
	}
}

void
nam__pending_accepts_close(struct nam__pending_accepts *accepts)
{
	for (uint32_t i = 0; i < NAM__PENDING_MAX; i++)
		if (accepts->pending[i])
			nam__cm_request_free(release(accepts, i));
	while (accepts->sockets_count)
		close(accepts->sockets[--accepts->sockets_count]);
	close(accepts->wake_fd);
	close(accepts->epoll_fd);
}

int
nam__pending_accepts_listen(struct nam__pending_accepts *accepts, int fd)
{
	int rc = watch(accepts, fd, EVENT_SOCKET + accepts->sockets_count);

	if (!rc)
		accepts->sockets[accepts->sockets_count++] = fd;
	return rc;
}

void
nam__socket_listener_wake(struct nam_listener *listener)
{
	nam__wake_post(((struct nam__pending_accepts *)listener)->wake_fd);
}

/* There is at least one. */
static void
drop_longest_silent(struct nam__pending_accepts *accepts)
{
	struct nam__pending_accept pending[NAM__PENDING_MAX] = { { 0 } };

	for (uint32_t i = 0; i < NAM__PENDING_MAX; i++)
		if (accepts->pending[i])
			pending[i] = (struct nam__pending_accept){ accepts->pending[i]->event.peer,
				accepts->pending[i]->until_ns };
	drop(accepts, release(accepts, nam__pending_accept_victim(pending)), -NAM_E_FABRIC_TIMEOUT);
}

/* Wait for what this client says next. */
static void
expect(struct nam__pending_accepts *accepts, struct nam_cm_request *request)
{
	uint32_t number = 0;
	int rc;

	if (accepts->count == NAM__PENDING_MAX)
		drop_longest_silent(accepts);
	while (accepts->pending[number])
		number++;
	rc = watch(accepts, request->fd, number);
	if (rc) {
		drop(accepts, request, rc);
		return;
	}
	request->until_ns = nam_now_ns() + NAM__HANDSHAKE_NS;
	accepts->pending[number] = request;
	accepts->count++;
}

static void
handshake_begin(struct nam__pending_accepts *accepts, int socket_fd)
{
	int fd = accept4(socket_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool full = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		errno == ENOBUFS);
	struct nam_cm_request *request;

	/* Without descriptors, the client that could not be accepted stays in the backlog. */
	if (full && accepts->count)
		drop_longest_silent(accepts);
	else if (full)		/* Do not spin on it. */
		nam_sleep_ns(10000000);
	if (fd < 0)
		return;
	request = calloc(1, sizeof(*request));
	if (!request) {
		close(fd);
		return;
	}
	request->fd = fd;
	request->event.kind = NAM_CM_REQUEST;
	request->event.request = request;
	accepts->ops->name_peer(request);
	expect(accepts, request);
}

void
nam__socket_reject(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *reply)
{
	(void)!((struct nam__pending_accepts *)listener)->ops->refuse(request->fd, reply);
	nam__cm_request_free(request);
}

void
nam__socket_challenge(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *challenge)
{
	struct nam__pending_accepts *accepts = (struct nam__pending_accepts *)listener;

	assert(challenge->bytes <= NAM_REPLY_BYTES_MAX);
	if (accepts->ops->challenge(request->fd, challenge)) {
		drop(accepts, request, -NAM_E_FABRIC_PEER_DEAD);
		return;
	}
	request->event.kind = NAM_CM_ANSWER;
	request->event.challenge = *challenge;
	expect(accepts, request);
}

/* As listener_poll; an event is EVENT_SOCKET and a socket's number, or the number of a client. */
static int
wait_event(struct nam__pending_accepts *accepts, uint64_t until_ns, uint32_t *ret_event)
{
	struct epoll_event ready;
	int n;

	do {
		uint64_t now = nam_now_ns();
		uint64_t left_ms = now < until_ns ? (until_ns - now + 999999) / 1000000 : 0;
		uint64_t most_ms = accepts->count ? 1000 : 3600000;

		n = epoll_wait(accepts->epoll_fd, &ready, 1,
			(int)(left_ms < most_ms ? left_ms : most_ms));
		if (n < 0)
			return errno == EINTR ? NAM_LISTENER_QUIET : -errno;
		if (accepts->count)
			drop_silent(accepts, nam_now_ns());
	} while (n == 0 && nam_now_ns() < until_ns);
	if (!n)
		return NAM_LISTENER_QUIET;
	if (ready.data.u32 == EVENT_WAKE) {
		nam__wake_clear(accepts->wake_fd);
		return NAM_LISTENER_QUIET;
	}
	*ret_event = ready.data.u32;
	return NAM_LISTENER_EVENT;
}

int
nam__socket_listener_poll(struct nam_listener *listener, uint64_t timeout_ns,
	struct nam_cm_event *event)
{
	struct nam__pending_accepts *accepts = (struct nam__pending_accepts *)listener;
	uint64_t now = nam_now_ns();
	uint64_t until_ns = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;

	for (;;) {
		uint32_t number = 0;
		int rc = wait_event(accepts, until_ns, &number);

		if (rc != NAM_LISTENER_EVENT)
			return rc;
		if (number >= EVENT_SOCKET) {
			handshake_begin(accepts, accepts->sockets[number - EVENT_SOCKET]);
			continue;
		}
		/* The client may have been dropped by now. */
		rc = accepts->pending[number] ? accepts->ops->receive(accepts->pending[number]) :
			-EAGAIN;
		if (!rc) {
			*event = release(accepts, number)->event;
			return NAM_LISTENER_EVENT;
		}
		if (rc != -EAGAIN)
			drop(accepts, release(accepts, number), rc);
	}
}
