/* SPDX-License-Identifier: Apache-2.0 */
/* wake.h -- an eventfd that ends another thread's sleep in poll() or epoll_wait(). */
#ifndef NAM_COMMON_FABRIC_WAIT_WAKE_H
#define NAM_COMMON_FABRIC_WAIT_WAKE_H

#include <errno.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/error.h"

/* The descriptor, or -errno. */
static inline int
nam__wake_open(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return fd < 0 ? -errno : fd;
}

/* Allowed in a signal handler.  A full counter means that a wake is pending anyway. */
static inline void
nam__wake_post(int fd)
{
	uint64_t one = 1;
	int saved = errno;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
	errno = saved;
}

static inline void
nam__wake_clear(int fd)
{
	uint64_t count;

	(void)!read(fd, &count, sizeof(count));
}

/* An epoll that reports a wake as an event with this data. */
static inline int NAM_MUST_CHECK
nam__wake_epoll(uint64_t data, int *ret_epoll_fd, int *ret_wake_fd)
{
	struct epoll_event interest = { .events = EPOLLIN, .data.u64 = data };
	int epoll_fd = epoll_create1(EPOLL_CLOEXEC), wake_fd, rc;

	if (epoll_fd < 0)
		return -errno;
	wake_fd = nam__wake_open();
	if (wake_fd >= 0 && !epoll_ctl(epoll_fd, EPOLL_CTL_ADD, wake_fd, &interest)) {
		*ret_epoll_fd = epoll_fd;
		*ret_wake_fd = wake_fd;
		return 0;
	}
	rc = wake_fd < 0 ? wake_fd : -errno;
	if (wake_fd >= 0)
		close(wake_fd);
	close(epoll_fd);
	return rc;
}

#endif /* NAM_COMMON_FABRIC_WAIT_WAKE_H */
