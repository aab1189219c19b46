/* SPDX-License-Identifier: Apache-2.0 */
/* execute.h -- one-sided requests, carried out by the own processor. */
#ifndef NAM_COMMON_FABRIC_SHM_EXECUTE_H
#define NAM_COMMON_FABRIC_SHM_EXECUTE_H

#include <string.h>

#include "shm_internal.h"

static inline void
nam__shm_do_cas(const struct shm_request *request)
{
	uint64_t old = request->compare;

	(void)__atomic_compare_exchange_n((uint64_t *)request->target, &old, request->swap, 0,
		__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	memcpy(request->local, &old, 8);
}

static inline void
nam__shm_do_fetch_add(const struct shm_request *request)
{
	uint64_t old = __atomic_fetch_add((uint64_t *)request->target, request->compare,
		__ATOMIC_SEQ_CST);

	memcpy(request->local, &old, 8);
}

static inline void
nam__shm_word(uint8_t *to, const uint8_t *from)
{
	uint64_t word;

	memcpy(&word, from, 8);
	__atomic_store_n((uint64_t *)(void *)to, word, __ATOMIC_RELAXED);
}

/* A WRITE of whole words, two a turn. */
static inline void
nam__shm_do_words(const struct shm_request *request)
{
	const uint32_t bytes = request->bytes, pairs = bytes & ~15u;
	const uint8_t *from = request->local;
	uint8_t *to = request->target;

	for (uint32_t at = 0; at < pairs; at += 16) {
		nam__shm_word(to + at, from + at);
		nam__shm_word(to + at + 8, from + at + 8);
	}
	if (bytes & 8)
		nam__shm_word(to + pairs, from + pairs);
}

/* Carry out one request that is in order. */
static inline int
nam__shm_execute(struct shm_cq *cq, struct shm_request *request)
{
	switch (request->op) {
	case NAM_WR_READ:
		cq->copy_read(request->local, request->target, request->bytes, request->target);
		return 0;
	case NAM_WR_WRITE:
		cq->copy_write(request->target, request->local, request->bytes);
		return 0;
	case SHM_OP_WORDS:
		nam__shm_do_words(request);
		return 0;
	case NAM_WR_CAS:
		nam__shm_do_cas(request);
		return 0;
	case NAM_WR_FETCH_ADD:
		nam__shm_do_fetch_add(request);
		return 0;
	case SHM_OP_FAIL:
		return request->status;
	default:
		return 0;
	}
}

static inline void
nam__shm_complete(struct nam_wc *wc, const struct shm_request *request, int status)
{
	wc->context = request->context;
	wc->qp = &request->qp->pub;
	wc->status = status;
	wc->bytes = request->bytes;
	wc->op = request->posted_op;
}

#endif /* NAM_COMMON_FABRIC_SHM_EXECUTE_H */
