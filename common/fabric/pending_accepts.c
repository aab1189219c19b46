/* SPDX-License-Identifier: Apache-2.0 */
#include "pending_accepts.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/env.h"

#define EVENT_WAKE UINT32_MAX

static int
watch(const struct nam__greeter *greeter, int fd, uint32_t event)
{
	struct epoll_event interest = { .events = EPOLLIN, .data.u32 = event };

	return epoll_ctl(greeter->epoll_fd, EPOLL_CTL_ADD, fd, &interest) ? -errno : 0;
}

int
nam__greeter_open(struct nam__greeter *greeter)
{
	int rc;

	greeter->count = 0;
	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++)
		greeter->greeted[i].fd = -1;
	greeter->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (greeter->epoll_fd < 0)
		return -errno;
	greeter->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	rc = greeter->wake_fd < 0 ? -errno : watch(greeter, greeter->wake_fd, EVENT_WAKE);
	if (rc == 0)
		return 0;
	if (greeter->wake_fd >= 0)
		close(greeter->wake_fd);
	close(greeter->epoll_fd);
	return rc;
}

void
nam__greeter_close(struct nam__greeter *greeter)
{
	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++) {
		if (greeter->greeted[i].fd >= 0)
			nam__greeter_drop(greeter, i);
	}
	close(greeter->wake_fd);
	close(greeter->epoll_fd);
}

int
nam__greeter_listen(struct nam__greeter *greeter, int fd, uint32_t number)
{
	return watch(greeter, fd, NAM__GREETER_SOCKET + number);
}

void
nam__greeter_wake(struct nam__greeter *greeter)
{
	uint64_t one = 1;
	int saved = errno;

	/* A full counter means that a wake is pending anyway. */
	(void)!write(greeter->wake_fd, &one, sizeof(one));
	errno = saved;
}

/* ---- who was greeted ------------------------------------------------------------------------ */

int
nam__greeter_fd(const struct nam__greeter *greeter, uint32_t number)
{
	return number < NAM__GREETED_MAX ? greeter->greeted[number].fd : -1;
}

int
nam__greeter_release(struct nam__greeter *greeter, uint32_t number)
{
	int fd = greeter->greeted[number].fd;

	(void)epoll_ctl(greeter->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
	greeter->greeted[number].fd = -1;
	greeter->count--;
	return fd;
}

void
nam__greeter_drop(struct nam__greeter *greeter, uint32_t number)
{
	close(nam__greeter_release(greeter, number));
}

/* NAM__GREETED_MAX: nobody was greeted. */
static uint32_t
oldest(const struct nam__greeter *greeter)
{
	uint32_t found = NAM__GREETED_MAX;

	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++) {
		if (greeter->greeted[i].fd >= 0 && (found == NAM__GREETED_MAX ||
			    greeter->greeted[i].until_ns < greeter->greeted[found].until_ns))
			found = i;
	}
	return found;
}

static uint32_t
free_place(struct nam__greeter *greeter)
{
	uint32_t number;

	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++) {
		if (greeter->greeted[i].fd < 0)
			return i;
	}
	number = oldest(greeter);
	nam__greeter_drop(greeter, number);
	return number;
}

/* The client that could not be accepted stays in the backlog. */
static void
out_of_descriptors(struct nam__greeter *greeter)
{
	uint32_t number = oldest(greeter);

	if (number < NAM__GREETED_MAX)
		nam__greeter_drop(greeter, number);
	else	/* Do not spin on it. */
		nam_sleep_ns(10000000);
}

int
nam__greeter_accept(struct nam__greeter *greeter, int socket_fd)
{
	int fd = accept4(socket_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	uint32_t number;

	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
			out_of_descriptors(greeter);
		return -1;
	}
	number = free_place(greeter);
	if (watch(greeter, fd, number)) {
		close(fd);
		return -1;
	}
	greeter->greeted[number].fd = fd;
	greeter->greeted[number].until_ns = nam_now_ns() + NAM__GREETED_NS;
	greeter->count++;
	return (int)number;
}

/* ---- waiting -------------------------------------------------------------------------------- */

static void
drop_silent(struct nam__greeter *greeter)
{
	uint64_t now = nam_now_ns();

	for (uint32_t i = 0; i < NAM__GREETED_MAX; i++) {
		if (greeter->greeted[i].fd >= 0 && greeter->greeted[i].until_ns < now)
			nam__greeter_drop(greeter, i);
	}
}

uint64_t
nam__greeter_until(uint64_t timeout_ns)
{
	uint64_t now = nam_now_ns();

	return timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + timeout_ns;
}

int
nam__greeter_poll(struct nam__greeter *greeter, uint64_t until_ns, uint32_t *ret_event)
{
	struct epoll_event ready;
	uint64_t one;
	int n;

	do {
		uint64_t now = nam_now_ns();
		uint64_t left_ms = now < until_ns ? (until_ns - now + 999999) / 1000000 : 0;
		uint64_t most_ms = greeter->count ? 1000 : 3600000;

		n = epoll_wait(greeter->epoll_fd, &ready, 1,
			(int)(left_ms < most_ms ? left_ms : most_ms));
		if (n < 0)
			return errno == EINTR ? 0 : -errno;
		if (greeter->count)
			drop_silent(greeter);
	} while (n == 0 && nam_now_ns() < until_ns);
	if (n && ready.data.u32 == EVENT_WAKE)
		(void)!read(greeter->wake_fd, &one, sizeof(one));
	else if (n)
		*ret_event = ready.data.u32;
	return n && ready.data.u32 != EVENT_WAKE;
}
