/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c -- noticing that the other process is gone: its mappings stay valid, its socket closes.
 */
#include <errno.h>

#include "common/fabric/wait/wake.h"
#include "peers.h"

#define WAKE UINT64_MAX

int
nam__shm_watch_init(struct shm_watch *watch)
{
	(void)pthread_mutex_init(&watch->mutex, NULL);
	return nam__wake_epoll(WAKE, &watch->epoll_fd, &watch->wake_fd);
}

void
nam__shm_watch_free(struct shm_watch *watch)
{
	if (watch->thread) {
		atomic_store_explicit(&watch->stopping, true, memory_order_release);
		nam__wake_post(watch->wake_fd);
		nam_thread_join(watch->thread);
	}
	(void)pthread_mutex_destroy(&watch->mutex);
	close(watch->wake_fd);
	close(watch->epoll_fd);
}

static void
watch_main(void *arg)
{
	struct shm_domain *domain = arg;
	struct shm_watch *watch = &domain->watch;
	struct epoll_event events[32];

	while (!atomic_load_explicit(&watch->stopping, memory_order_acquire)) {
		int n = epoll_wait(watch->epoll_fd, events, 32, nam__shm_peers_populate(domain));

		for (int i = 0; i < n; i++) {
			uint64_t event = events[i].data.u64;
			struct shm_qp *qp;

			if (event == WAKE) {
				nam__wake_clear(watch->wake_fd);
				continue;
			}
			/*
			 * The event bears a number, as it may be older than the queue pair's
			 * removal.  The mutex keeps the queue pair alive meanwhile.
			 */
			pthread_mutex_lock(&watch->mutex);
			LIST_FOREACH(qp, &watch->qps, watch_link) {
				if (qp->watched == event)
					break;
			}
			if (qp) {
				(void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, qp->fd, NULL);
				nam__shm_cq_closed(qp->cq, qp);
			}
			pthread_mutex_unlock(&watch->mutex);
		}
	}
}

static int
add_locked(struct shm_watch *watch, struct shm_qp *qp)
{
	struct epoll_event event = { .events = EPOLLRDHUP, .data.u64 = watch->count + 1 };

	if (!watch->thread) {
		int rc = nam_thread_start("nam-shm-watch", watch_main, qp->domain, &watch->thread);

		if (rc)
			return rc;
	}
	if (epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, qp->fd, &event))
		return -errno;
	qp->watched = ++watch->count;
	LIST_INSERT_HEAD(&watch->qps, qp, watch_link);
	return 0;
}

int
nam__shm_watch_add(struct shm_watch *watch, struct shm_qp *qp)
{
	int rc;

	pthread_mutex_lock(&watch->mutex);
	rc = add_locked(watch, qp);
	pthread_mutex_unlock(&watch->mutex);
	return rc;
}

void
nam__shm_watch_remove(struct shm_watch *watch, struct shm_qp *qp)
{
	pthread_mutex_lock(&watch->mutex);
	if (qp->watched) {
		/* Fails harmlessly after a hang-up. */
		(void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, qp->fd, NULL);
		LIST_REMOVE(qp, watch_link);
		qp->watched = 0;
	}
	pthread_mutex_unlock(&watch->mutex);
}
