/* SPDX-License-Identifier: Apache-2.0 */
/* cq.c -- completion queues and receive queues: their making, and how a thread waits. */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/fabric/list.h"
#include "shm_internal.h"

#define LOOKS 8				/* between two looks at the clock */

static const struct nam__spin_limits limits = { .max_ns = 100000, .lost_ns = 30000 };

int
nam__shm_cq_create(struct nam_domain *domain, uint32_t depth, struct nam_cq **ret)
{
	struct shm_cq *cq;
	size_t entry = sizeof(struct shm_request) + SHM_INLINE_BYTES;
	uint32_t capacity;
	uint8_t *arrays;
	void *bell;
	int rc;

	if (depth == 0)
		return -EINVAL;
	if (depth > NAM__SOFT_DEPTH_MAX)
		depth = NAM__SOFT_DEPTH_MAX;
	cq = aligned_alloc(SHM_CACHE_LINE, (sizeof(*cq) + SHM_CACHE_LINE - 1) / SHM_CACHE_LINE *
		SHM_CACHE_LINE);
	if (!cq)
		return -ENOMEM;
	memset(cq, 0, sizeof(*cq));
	cq->pub.ops = domain->ops;
	cq->depth = depth;
	capacity = nam__round_up_power2(depth);
	cq->mask = capacity - 1;
	cq->gone.cq = cq;
	nam__shm_copy_choose(&cq->copy_read, &cq->copy_write);
	/* Twice, for the blocked ones; an unused part is never touched and costs nothing. */
	cq->arrays_bytes = 2 * entry * capacity;
	arrays = mmap(NULL, cq->arrays_bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (arrays == MAP_FAILED) {
		rc = -errno;
		goto free_cq;
	}
	cq->requests = (struct shm_request *)(void *)arrays;
	cq->blocked = cq->requests + capacity;
	cq->inline_data = (uint8_t *)(cq->blocked + capacity);
	cq->blocked_inline = cq->inline_data + (size_t)SHM_INLINE_BYTES * capacity;
	rc = nam__shm_file_create("nam-bell", SHM_PAGE_BYTES, &cq->bell_fd, &bell);
	if (rc)
		goto unmap_arrays;
	cq->bell = bell;
	(void)pthread_mutex_init(&cq->mutex, NULL);
	*ret = &cq->pub;
	return 0;

unmap_arrays:
	(void)munmap(arrays, cq->arrays_bytes);
free_cq:
	free(cq);
	return rc;
}

void
nam__shm_cq_destroy(struct nam_cq *pub)
{
	struct shm_cq *cq = (struct shm_cq *)pub;

	if (!cq)
		return;
	(void)pthread_mutex_destroy(&cq->mutex);
	(void)munmap(cq->bell, SHM_PAGE_BYTES);
	close(cq->bell_fd);
	(void)munmap(cq->requests, cq->arrays_bytes);
	free(cq);
}

static bool
has_work(const struct shm_cq *cq)
{
	return cq->head != cq->tail || cq->retry || !SLIST_EMPTY(&cq->closing) ||
		(cq->ready_summary && !cq->starved) ||
		atomic_load_explicit(&cq->bell->summary, memory_order_acquire) ||
		atomic_load_explicit(&cq->closed_count, memory_order_acquire) ||
		atomic_load_explicit(&cq->woken, memory_order_acquire);
}

static inline void
cpu_relax(void)
{
#if defined(__x86_64__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield" ::: "memory");
#endif
}

static bool
has_come(void *cq)
{
	for (int i = 0; i < LOOKS; i++) {
		if (has_work(cq))
			return true;
		cpu_relax();
	}
	return false;
}

int
nam__shm_cq_wait(struct nam_cq *pub, uint64_t timeout_ns)
{
	struct shm_cq *cq = (struct shm_cq *)pub;
	struct timespec timeout;
	uint32_t word, asleep;
	int rc = 0;

	if (has_work(cq) || nam__spin(&cq->spin, &limits, &timeout_ns, has_come, cq))
		goto out;
	if (timeout_ns == 0) {
		rc = -ETIMEDOUT;
		goto out;
	}
	word = atomic_load_explicit(&cq->bell->word, memory_order_relaxed);
	do {
		asleep = (word | 1) + 2;
	} while (!atomic_compare_exchange_weak_explicit(&cq->bell->word, &word, asleep,
		memory_order_relaxed, memory_order_relaxed));
	/* Pairs with nam__shm_bell_wake: that sees us asleep, or has_work what was published. */
	atomic_thread_fence(memory_order_seq_cst);
	if (!has_work(cq)) {
		if (timeout_ns > 3600000000000ull)
			timeout_ns = 3600000000000ull;
		timeout.tv_sec = (time_t)(timeout_ns / 1000000000u);
		timeout.tv_nsec = (long)(timeout_ns % 1000000000u);
		uint64_t begin = nam_now_ns();

		if (syscall(SYS_futex, &cq->bell->word, FUTEX_WAIT, asleep, &timeout, NULL, 0) &&
			errno == ETIMEDOUT)
			rc = -ETIMEDOUT;
		nam__spin_slept(&cq->spin, &limits, rc ? UINT64_MAX : nam_now_ns() - begin);
	}
	atomic_fetch_and_explicit(&cq->bell->word, ~1u, memory_order_relaxed);
out:
	atomic_store_explicit(&cq->woken, 0, memory_order_relaxed);
	return rc;
}

void
nam__shm_cq_wake(struct nam_cq *pub)
{
	struct shm_cq *cq = (struct shm_cq *)pub;

	atomic_store_explicit(&cq->woken, 1, memory_order_release);
	nam__shm_bell_wake(cq->bell);
}

int
nam__shm_rq_create(struct nam_domain *domain, struct nam_cq *cq, uint32_t depth,
	struct nam_rq **ret)
{
	return nam__soft_rq_create(domain, cq, depth, (struct nam__soft_rq **)ret);
}

void
nam__shm_rq_destroy(struct nam_rq *rq)
{
	nam__soft_rq_destroy((struct nam__soft_rq *)rq);
}

int
nam__shm_rq_post(struct nam_rq *pub, const struct nam_recv *recvs, unsigned count)
{
	struct nam__soft_rq *rq = (struct nam__soft_rq *)pub;
	int rc = nam__soft_rq_post(rq, recvs, count);

	if (!rc && count)
		((struct shm_cq *)rq->cq)->starved = false;
	return rc;
}

int
nam__shm_cq_reserve(struct shm_cq *cq, struct shm_qp *qp)
{
	int rc = -NAM_E_LIMIT;

	pthread_mutex_lock(&cq->mutex);
	for (uint32_t i = 0; i < SHM_QPS_MAX; i++) {
		if (atomic_load_explicit(&cq->qps[i], memory_order_relaxed))
			continue;
		/* Taken, but bits for it lead nowhere until it is published. */
		atomic_store_explicit(&cq->qps[i], &cq->gone, memory_order_relaxed);
		qp->index = i;
		rc = 0;
		break;
	}
	pthread_mutex_unlock(&cq->mutex);
	return rc;
}

void
nam__shm_cq_publish(struct shm_cq *cq, struct shm_qp *qp)
{
	/* Pairs with the acquire in nam__shm_take_messages: the owner sees it finished. */
	atomic_store_explicit(&cq->qps[qp->index], qp, memory_order_release);
}

void
nam__shm_cq_closed(struct shm_cq *cq, struct shm_qp *qp)
{
	pthread_mutex_lock(&cq->mutex);
	SLIST_INSERT_HEAD(&cq->closed, qp, closed_link);
	atomic_fetch_add_explicit(&cq->closed_count, 1, memory_order_release);
	pthread_mutex_unlock(&cq->mutex);
	nam__shm_bell_wake(cq->bell);
}

void
nam__shm_cq_forget(struct shm_cq *cq, struct shm_qp *qp)
{
	nam__shm_requests_forget(cq, qp);
	nam__shm_blocked_forget(cq, qp);
	(void)NAM__SLIST_UNLINK(&cq->closing, qp, closed_link);
	pthread_mutex_lock(&cq->mutex);
	if (NAM__SLIST_UNLINK(&cq->closed, qp, closed_link))
		atomic_fetch_sub_explicit(&cq->closed_count, 1, memory_order_relaxed);
	atomic_store_explicit(&cq->qps[qp->index], NULL, memory_order_relaxed);
	pthread_mutex_unlock(&cq->mutex);
}
