/* SPDX-License-Identifier: Apache-2.0 */
#include "pending_accepts.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "common/env.h"
#include "wake.h"

#define EVENT_WAKE UINT32_MAX
#define EVENT_SOCKET (1u << 16)		/* plus the number of a listening socket */

static int
watch(const struct nam__pending_accepts *accepts, int fd, uint32_t event)
{
	struct epoll_event interest = { .events = EPOLLIN, .data.u32 = event };

	return epoll_ctl(accepts->epoll_fd, EPOLL_CTL_ADD, fd, &interest) ? -errno : 0;
}

int
nam__pending_accepts_open(struct nam__pending_accepts *accepts)
{
	accepts->count = 0;
	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++)
		accepts->greeted[i].fd = -1;
	return nam__wake_epoll(EVENT_WAKE, &accepts->epoll_fd, &accepts->wake_fd);
}

/* Hand the socket of a greeted client to the caller. */
static int
release(struct nam__pending_accepts *accepts, struct nam__greeted *client)
{
	int fd = client->fd;

	(void)epoll_ctl(accepts->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	client->fd = -1;
	accepts->count--;
	return fd;
}

/* Hang up on those whose time is over. */
static void
drop_silent(struct nam__pending_accepts *accepts, uint64_t now)
{
	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++) {
		struct nam__greeted *client = &accepts->greeted[i];

		if (client->fd >= 0 && client->until_ns < now)
			close(release(accepts, client));
	}
}

void
nam__pending_accepts_close(struct nam__pending_accepts *accepts)
{
	drop_silent(accepts, UINT64_MAX);
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
nam__pending_accepts_wake(struct nam__pending_accepts *accepts)
{
	nam__wake_post(accepts->wake_fd);
}

/* Of the greeted clients; NULL: there are none. */
static struct nam__greeted *
longest_silent(struct nam__pending_accepts *accepts)
{
	struct nam__greeted *found = NULL;

	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++) {
		struct nam__greeted *client = &accepts->greeted[i];

		if (client->fd >= 0 && (!found || client->until_ns < found->until_ns))
			found = client;
	}
	return found;
}

static void
greet(struct nam__pending_accepts *accepts, int socket_fd)
{
	int fd = accept4(socket_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool full = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		errno == ENOBUFS);
	struct nam__greeted *client = accepts->greeted;

	/* Without descriptors, the client that could not be accepted stays in the backlog. */
	if ((full && accepts->count) || (fd >= 0 && accepts->count == NAM__GREETED_MAX))
		close(release(accepts, longest_silent(accepts)));
	else if (full)		/* Do not spin on it. */
		nam_sleep_ns(10000000);
	if (fd < 0)
		return;
	while (client->fd >= 0)
		client++;
	if (watch(accepts, fd, (uint32_t)(client - accepts->greeted))) {
		close(fd);
		return;
	}
	client->fd = fd;
	client->got = 0;
	client->until_ns = nam_now_ns() + NAM__GREETED_NS;
	accepts->count++;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/*
 * 1 with an event: EVENT_SOCKET and a socket's number, or the number of a client.  0 at
 * until_ns, when woken, or interrupted by a signal.  Negative: a code.
 */
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
			return errno == EINTR ? 0 : -errno;
		if (accepts->count)
			drop_silent(accepts, nam_now_ns());
	} while (n == 0 && nam_now_ns() < until_ns);
	if (n && ready.data.u32 == EVENT_WAKE) {
		nam__wake_clear(accepts->wake_fd);
		return 0;
	}
	*ret_event = n ? ready.data.u32 : 0;
	return n;
}

int
nam__pending_accepts_poll(struct nam__pending_accepts *accepts, nam__hear_fn hear,
	uint64_t timeout_ns, struct nam_cm_event *event)
{
	uint64_t now = nam_now_ns();
	uint64_t until_ns = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;

	for (;;) {
		struct nam__greeted *client;
		uint32_t number = 0;
		int rc = wait_event(accepts, until_ns, &number);

		if (rc <= 0)
			return rc;
		if (number >= EVENT_SOCKET) {
			greet(accepts, accepts->sockets[number - EVENT_SOCKET]);
			continue;
		}
		client = &accepts->greeted[number];
		/* It may have been silent for too long by now. */
		rc = client->fd < 0 ? 0 : hear(client, event);
		if (rc < 0)
			close(release(accepts, client));
		if (rc > 0) {
			(void)release(accepts, client);
			return 1;
		}
	}
}
