/* SPDX-License-Identifier: Apache-2.0 */
#include "pending_accepts.h"

#include <errno.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "common/env.h"
#include "wake.h"

#define EVENT_WAKE UINT32_MAX

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

void
nam__pending_accepts_close(struct nam__pending_accepts *accepts)
{
	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++) {
		if (accepts->greeted[i].fd >= 0)
			nam__pending_accepts_drop(accepts, i);
	}
	close(accepts->wake_fd);
	close(accepts->epoll_fd);
}

int
nam__pending_accepts_listen(struct nam__pending_accepts *accepts, int fd, uint32_t number)
{
	return watch(accepts, fd, NAM__ACCEPTS_SOCKET + number);
}

void
nam__pending_accepts_wake(struct nam__pending_accepts *accepts)
{
	nam__wake_post(accepts->wake_fd);
}

/* ---- greeted clients ------------------------------------------------------------------------ */

int
nam__pending_accepts_fd(const struct nam__pending_accepts *accepts, uint32_t number)
{
	return number < NAM__GREETED_MAX ? accepts->greeted[number].fd : -1;
}

int
nam__pending_accepts_release(struct nam__pending_accepts *accepts, uint32_t number)
{
	int fd = accepts->greeted[number].fd;

	(void)epoll_ctl(accepts->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	accepts->greeted[number].fd = -1;
	accepts->count--;
	return fd;
}

void
nam__pending_accepts_drop(struct nam__pending_accepts *accepts, uint32_t number)
{
	close(nam__pending_accepts_release(accepts, number));
}

/* There is one. */
static uint32_t
oldest(const struct nam__pending_accepts *accepts)
{
	uint32_t found = NAM__GREETED_MAX;

	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++) {
		if (accepts->greeted[i].fd >= 0 && (found == NAM__GREETED_MAX ||
			    accepts->greeted[i].until_ns < accepts->greeted[found].until_ns))
			found = i;
	}
	return found;
}

int
nam__pending_accepts_accept(struct nam__pending_accepts *accepts, int socket_fd)
{
	int fd = accept4(socket_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	bool full = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		errno == ENOBUFS);
	uint32_t number = 0;

	/* Without descriptors, the client that could not be accepted stays in the backlog. */
	if (full && accepts->count)
		nam__pending_accepts_drop(accepts, oldest(accepts));
	else if (full)		/* Do not spin on it. */
		nam_sleep_ns(10000000);
	if (fd < 0)
		return -1;
	while (number < NAM__GREETED_MAX && accepts->greeted[number].fd >= 0)
		number++;
	if (number == NAM__GREETED_MAX) {
		number = oldest(accepts);
		nam__pending_accepts_drop(accepts, number);
	}
	if (watch(accepts, fd, number)) {
		close(fd);
		return -1;
	}
	accepts->greeted[number].fd = fd;
	accepts->greeted[number].until_ns = nam_now_ns() + NAM__GREETED_NS;
	accepts->count++;
	return (int)number;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void
drop_silent(struct nam__pending_accepts *accepts)
{
	uint64_t now = nam_now_ns();

	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++) {
		if (accepts->greeted[i].fd >= 0 && accepts->greeted[i].until_ns < now)
			nam__pending_accepts_drop(accepts, i);
	}
}

/*
 * 1 with an event: NAM__ACCEPTS_SOCKET and a socket's number, or the number of a client.  0 at
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
			drop_silent(accepts);
	} while (n == 0 && nam_now_ns() < until_ns);
	if (n && ready.data.u32 == EVENT_WAKE) {
		nam__wake_clear(accepts->wake_fd);
		return 0;
	}
	*ret_event = n ? ready.data.u32 : 0;
	return n;
}

int
nam__pending_accepts_poll(struct nam__pending_accepts *accepts, struct nam_listener *listener,
	uint64_t timeout_ns, struct nam_cm_event *event)
{
	uint64_t now = nam_now_ns();
	uint64_t until_ns = timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;

	for (;;) {
		uint32_t number = 0;
		int rc = wait_event(accepts, until_ns, &number);

		if (rc <= 0)
			return rc;
		if (number >= NAM__ACCEPTS_SOCKET)
			accepts->greet(listener, number - NAM__ACCEPTS_SOCKET);
		else if (accepts->hear(listener, number, event))
			return 1;
	}
}
