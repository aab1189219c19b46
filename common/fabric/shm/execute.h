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

/* A WRITE of one or two whole words; false: it is something else. */
static inline bool
nam__shm_write_words(const struct shm_request *request)
{
	uint64_t *to = (uint64_t *)request->target, words[2];

	if (((uintptr_t)to & 7) || (request->bytes != 8 && request->bytes != 16))
		return false;
	memcpy(words, request->local, 8);
	__atomic_store_n(to, words[0], __ATOMIC_RELAXED);
	if (request->bytes == 8)
		return true;
	memcpy(words + 1, (const uint8_t *)request->local + 8, 8);
	__atomic_store_n(to + 1, words[1], __ATOMIC_RELAXED);
	return true;
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
		/* Most are a word or two: without a call. */
		if (!nam__shm_write_words(request))
			cq->copy_write(request->target, request->local, request->bytes);
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
