/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch.c -- noticing that the other process is gone.
 *
 * The mappings of a dead process stay valid, so the data path would not fail.  Its kernel closes
 * its sockets: each domain has one thread that sleeps on those of all queue pairs and tells their
 * cqs.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/fabric/wake.h"
#include "shm_internal.h"

#define WAKE UINT64_MAX
#define NONE UINT32_MAX

int
nam__shm_watch_init(struct shm_watch *watch)
{
	int rc;

	*watch = (struct shm_watch){ .first_free = NONE };
	rc = nam__wake_epoll(WAKE, &watch->epoll_fd, &watch->wake_fd);
	if (rc)
		return rc;
	rc = -pthread_mutex_init(&watch->mutex, NULL);
	if (rc) {
		close(watch->wake_fd);
		close(watch->epoll_fd);
	}
	return rc;
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
	free(watch->slots);
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
			struct shm_watched *watched;

			if (event == WAKE) {
				nam__wake_clear(watch->wake_fd);
				continue;
			}
			/*
			 * If the event is older than the queue pair in its slot, the generation
			 * differs.  The mutex keeps the queue pair alive meanwhile, as
			 * nam__shm_watch_remove needs it.
			 */
			pthread_mutex_lock(&watch->mutex);
			watched = &watch->slots[(uint32_t)event];
			if (watched->qp && watched->generation == (uint32_t)(event >> 32)) {
				(void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, watched->qp->fd,
					NULL);
				nam__shm_cq_closed(watched->qp->cq, watched->qp);
			}
			pthread_mutex_unlock(&watch->mutex);
		}
	}
}

static int
grow(struct shm_watch *watch)
{
	uint32_t count = watch->slots_count ? watch->slots_count * 2 : 16;
	struct shm_watched *slots = realloc(watch->slots, count * sizeof(slots[0]));

	if (!slots)
		return -ENOMEM;
	for (uint32_t i = watch->slots_count; i < count; i++)
		slots[i] = (struct shm_watched){ .next_free = i + 1 < count ? i + 1 : NONE };
	watch->first_free = watch->slots_count;
	watch->slots = slots;
	watch->slots_count = count;
	return 0;
}

static int
add_locked(struct shm_watch *watch, struct shm_qp *qp)
{
	struct epoll_event event = { .events = EPOLLRDHUP };
	struct shm_watched *watched;
	uint32_t slot;
	int rc;

	if (!watch->thread) {
		rc = nam_thread_start("nam-shm-watch", watch_main, qp->domain,
			&watch->thread);
		if (rc)
			return rc;
	}
	if (watch->first_free == NONE) {
		rc = grow(watch);
		if (rc)
			return rc;
	}
	slot = watch->first_free;
	watched = &watch->slots[slot];
	event.data.u64 = (uint64_t)(watched->generation + 1) << 32 | slot;
	if (epoll_ctl(watch->epoll_fd, EPOLL_CTL_ADD, qp->fd, &event))
		return -errno;
	watch->first_free = watched->next_free;
	watched->generation++;
	watched->qp = qp;
	qp->watched = slot;
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
	if (qp->watched != NONE) {
		struct shm_watched *watched = &watch->slots[qp->watched];

		/* Fails harmlessly after a hang-up. */
		(void)epoll_ctl(watch->epoll_fd, EPOLL_CTL_DEL, qp->fd, NULL);
		watched->qp = NULL;
		watched->next_free = watch->first_free;
		watch->first_free = qp->watched;
		qp->watched = NONE;
	}
	pthread_mutex_unlock(&watch->mutex);
}
