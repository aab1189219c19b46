/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ring.c -- message rings and bells: the parts that two processes share.
 *
 * Neither side waits for the other: a death between two steps loses its own message only.
 */
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shm_internal.h"

void
nam__shm_bell_wake(struct shm_bell *bell)
{
	uint32_t word;

	/* Pairs with nam__shm_cq_wait: we see its sleep, or it sees what we have published. */
	atomic_thread_fence(memory_order_seq_cst);
	word = atomic_load_explicit(&bell->word, memory_order_relaxed);
	if (!(word & 1))
		return;
	/*
	 * Change the word first, so that an owner about to sleep does not, but leave bit 0.  If
	 * this process dies before the system call, the next sender still wakes the owner.
	 * Afterwards clear it, unless the owner has meanwhile announced another sleep.
	 */
	word = atomic_fetch_add_explicit(&bell->word, 2, memory_order_seq_cst) + 2;
	(void)syscall(SYS_futex, &bell->word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
	if (word & 1)
		(void)atomic_compare_exchange_strong_explicit(&bell->word, &word, word & ~1u,
			memory_order_relaxed, memory_order_relaxed);
}

void
nam__shm_bell_post(struct shm_bell *bell, uint32_t index)
{
	/* In this order: the owner clears the summary before it clears the word. */
	atomic_fetch_or_explicit(&bell->bits[index / 64], 1ull << index % 64, memory_order_release);
	atomic_fetch_or_explicit(&bell->summary, 1ull << index / 64, memory_order_release);
	nam__shm_bell_wake(bell);
}

/* Refresh what we know of the receiver's progress.  False: it claims the impossible. */
static bool
see_head(struct shm_qp *qp)
{
	uint32_t head = atomic_load_explicit(&qp->out->head, memory_order_acquire);

	if (qp->out_tail - head > SHM_SLOTS)
		return false;
	qp->out_head = head;
	return true;
}

int
nam__shm_ring_send(struct shm_qp *qp, const void *data, uint32_t bytes)
{
	struct shm_ring *ring = qp->out;
	struct shm_slot *slot = &ring->slots[qp->out_tail % SHM_SLOTS];

	if (bytes > SHM_MESSAGE_BYTES)
		return -NAM_E_FABRIC_PROTOCOL;
	if (qp->out_tail - qp->out_head == SHM_SLOTS) {
		if (!see_head(qp))
			return -NAM_E_FABRIC_PROTOCOL;
		if (qp->out_tail - qp->out_head == SHM_SLOTS) {
			atomic_store_explicit(&ring->want_space, 1, memory_order_relaxed);
			/* Pairs with nam__shm_ring_give_back: we see its head, or it sees this. */
			atomic_thread_fence(memory_order_seq_cst);
			if (!see_head(qp))
				return -NAM_E_FABRIC_PROTOCOL;
			if (qp->out_tail - qp->out_head == SHM_SLOTS)
				return -NAM_E_FABRIC_FULL;
		}
	}
	memcpy(slot->data, data, bytes);
	atomic_store_explicit(&slot->bytes, bytes, memory_order_relaxed);
	/* Pairs with the acquire in nam__shm_ring_waiting: the message precedes the new tail. */
	atomic_store_explicit(&ring->tail, ++qp->out_tail, memory_order_release);
	nam__shm_bell_post(qp->peer_bell, qp->peer_index);
	return 0;
}

int
nam__shm_ring_waiting(struct shm_qp *qp)
{
	uint32_t tail = atomic_load_explicit(&qp->in->tail, memory_order_acquire);

	if (tail - qp->in_head > SHM_SLOTS)
		return -NAM_E_FABRIC_PROTOCOL;
	return (int)(tail - qp->in_head);
}

int
nam__shm_ring_take(struct shm_qp *qp, void *buffer, uint32_t bytes)
{
	struct shm_slot *slot = &qp->in->slots[qp->in_head % SHM_SLOTS];
	/* Loaded once: the sender may change it between a check and a second look. */
	uint32_t message_bytes = atomic_load_explicit(&slot->bytes, memory_order_relaxed);

	if (message_bytes > SHM_MESSAGE_BYTES || message_bytes > bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	memcpy(buffer, slot->data, message_bytes);
	qp->in_head++;
	return (int)message_bytes;
}

void
nam__shm_ring_give_back(struct shm_qp *qp)
{
	/* Pairs with the acquire in see_head: the copies are done before the slots are reused. */
	atomic_store_explicit(&qp->in->head, qp->in_head, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load_explicit(&qp->in->want_space, memory_order_relaxed))
		return;
	atomic_store_explicit(&qp->in->want_space, 0, memory_order_relaxed);
	nam__shm_bell_post(qp->peer_bell, qp->peer_index);
}
