/* SPDX-License-Identifier: Apache-2.0 */
/*
 * provider.h -- the functions that every provider has: their declarations, and their slots.
 *
 * A function nam__NAME_listen has the type of the slot `listen` of struct nam_fabric_ops, where its
 * contract stands.  Slots that a provider may lack, or share, are in lists of their own.
 */
#ifndef NAM_COMMON_FABRIC_PROVIDER_H
#define NAM_COMMON_FABRIC_PROVIDER_H

#include <string.h>

#include "fabric.h"

#define NAM__LIKELY(x) __builtin_expect(!!(x), 1)
#define NAM__UNLIKELY(x) __builtin_expect(!!(x), 0)

/*
 * Fetch a cache line that will be written.  Compilers for any x86-64 prefetch for reading instead:
 * then a line that another processor has comes twice.
 */
static inline void
nam__prefetch_to_write(const void *at)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw %0" : : "m"(*(const uint8_t *)at));
#else
	__builtin_prefetch(at, 1, 3);
#endif
}

#define NAM__PROVIDER_FUNCTIONS(USE, provider)                                                      \
	USE(provider, domain_open)                                                                  \
	USE(provider, domain_close)                                                                 \
	USE(provider, region_alloc)                                                                 \
	USE(provider, region_withdraw)                                                              \
	USE(provider, region_restore)                                                               \
	USE(provider, mr_register)                                                                  \
	USE(provider, share_alloc)                                                                  \
	USE(provider, mr_release)                                                                   \
	USE(provider, cq_create)                                                                    \
	USE(provider, cq_destroy)                                                                   \
	USE(provider, cq_poll)                                                                      \
	USE(provider, cq_wait)                                                                      \
	USE(provider, cq_wake)                                                                      \
	USE(provider, rq_create)                                                                    \
	USE(provider, rq_destroy)                                                                   \
	USE(provider, rq_post)                                                                      \
	USE(provider, connect)                                                                      \
	USE(provider, qp_post)                                                                      \
	USE(provider, qp_destroy)                                                                   \
	USE(provider, listen)                                                                       \
	USE(provider, accept)                                                                       \
	USE(provider, listener_close)
#define NAM__PROVIDER_LISTENER(USE, provider)                                                       \
	USE(provider, listener_poll)                                                                \
	USE(provider, listener_wake)                                                                \
	USE(provider, reject)                                                                       \
	USE(provider, challenge)

#define NAM__PROVIDER_FUNCTION(provider, slot)                                                      \
	__typeof__(*((struct nam_fabric_ops *)NULL)->slot) nam__##provider##_##slot;
#define NAM__PROVIDER_SLOT(provider, slot) .slot = nam__##provider##_##slot,

/* The declarations, and the table's slots. */
#define NAM__PROVIDER_DECLARE(provider)                                                             \
	NAM__PROVIDER_FUNCTIONS(NAM__PROVIDER_FUNCTION, provider)                                   \
	NAM__PROVIDER_LISTENER(NAM__PROVIDER_FUNCTION, provider)
#define NAM__PROVIDER_SLOTS(provider)                                                               \
	NAM__PROVIDER_FUNCTIONS(NAM__PROVIDER_SLOT, provider)                                       \
	NAM__PROVIDER_LISTENER(NAM__PROVIDER_SLOT, provider)

/* For those that lack it: -NAM_E_FABRIC_CAPABILITY. */
NAM__PROVIDER_FUNCTION(unsupported, unreliable_qp_create)
NAM__PROVIDER_FUNCTION(unsupported, unreliable_qp_join)
#define NAM__PROVIDER_ENDPOINTS(USE, provider)                                                      \
	USE(provider, endpoint_open)                                                                \
	USE(provider, endpoint_place)                                                               \
	USE(provider, endpoint_send)                                                                \
	USE(provider, endpoint_receive)                                                             \
	USE(provider, endpoint_close)
NAM__PROVIDER_ENDPOINTS(NAM__PROVIDER_FUNCTION, unsupported)
/* Where regions are no files: without effect; and where no memory is near: 0. */
NAM__PROVIDER_FUNCTION(unsupported, qp_share_near)
NAM__PROVIDER_FUNCTION(unsupported, is_near)

/* The whole table of a provider over sockets, whose listener is of pending_accepts.h. */
NAM__PROVIDER_LISTENER(NAM__PROVIDER_FUNCTION, socket)
#define NAM__PROVIDER_SOCKET_SLOTS(provider)                                                        \
	NAM__PROVIDER_FUNCTIONS(NAM__PROVIDER_SLOT, provider)                                       \
	NAM__PROVIDER_LISTENER(NAM__PROVIDER_SLOT, socket)                                          \
	NAM__PROVIDER_ENDPOINTS(NAM__PROVIDER_SLOT, unsupported)                                    \
	NAM__PROVIDER_SLOT(unsupported, qp_share_near)                                              \
	NAM__PROVIDER_SLOT(unsupported, is_near)                                                    \
	NAM__PROVIDER_SLOT(unsupported, unreliable_qp_create)                                       \
	NAM__PROVIDER_SLOT(unsupported, unreliable_qp_join)

/*
 * Client side: the answer to a challenge by the caller's options, or the negative code that ends
 * the attempt, with its text.
 */
int nam__fabric_answer(const struct nam_qp_options *options, const char *address,
	const struct nam_hello *challenge, struct nam_hello *answer, struct nam_diag *diag)
	NAM_MUST_CHECK;

/* Client side: whether the caller takes the reply of a listener that accepts.  0 or as above. */
int nam__fabric_welcome(const struct nam_qp_options *options, struct nam_hello *reply,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* A message in a receive buffer, and the last completion of a queue pair. */
static inline struct nam_wc
nam__wc_recv(const struct nam_recv *recv, struct nam_qp *qp, uint32_t bytes)
{
	return (struct nam_wc){
		.context = recv->context, .qp = qp, .bytes = bytes, .op = NAM_WC_RECV };
}

static inline struct nam_wc
nam__wc_closed(struct nam_qp *qp, int status)
{
	return (struct nam_wc){ .qp = qp, .status = status, .op = NAM_WC_CLOSED };
}

/* Why a request fails without asking the peer; 0 if it does not. */
static inline int
nam__wr_check(const struct nam_wr *wr, uint64_t most_bytes, uint32_t message_bytes,
	uint32_t inline_bytes)
{
	switch (wr->op) {
	case NAM_WR_READ:
		break;
	case NAM_WR_SEND:
		if (wr->bytes > message_bytes)
			return -NAM_E_FABRIC_PROTOCOL;
		/* fall through */
	case NAM_WR_WRITE:
		if ((wr->flags & NAM_WR_INLINE) && wr->bytes > inline_bytes)
			return -NAM_E_FABRIC_CAPABILITY;
		break;
	case NAM_WR_CAS:
	case NAM_WR_FETCH_ADD:
		return wr->bytes != 8 || (wr->remote & 7) ? -NAM_E_FABRIC_ACCESS : 0;
	default:
		return -NAM_E_FABRIC_CAPABILITY;
	}
	return wr->bytes > most_bytes ? -NAM_E_FABRIC_CAPABILITY : 0;
}

/* Into a packet: its bytes.  NULL, or one that is longer than `most`, is empty. */
static inline uint32_t
nam__hello_put(void *data, const struct nam_hello *hello, uint32_t most)
{
	if (!hello || hello->bytes > most)
		return 0;
	memcpy(data, hello->data, hello->bytes);
	return hello->bytes;
}

/* Listeners: see nam_dropped_fn. */
static inline void
nam__listener_dropped(const struct nam_listener *listener, const char *peer, int why)
{
	if (listener->dropped)
		listener->dropped(listener->owner, peer, why);
}

/* A listener awaits so many clients: their hello, or one answer, within this time. */
#define NAM__PENDING_MAX 128u
#define NAM__HANDSHAKE_NS 5000000000ull

struct nam__pending_accept {
	const char *peer;		/* NULL: the place is free */
	uint64_t since;			/* of any clock */
};

/*
 * fabric.c: which pending client a new one evicts; there is at least one.  If a peer has more than
 * a quarter of the places, it is the oldest of the peer with the most.  So no peer keeps others
 * out.  Otherwise it is the oldest of all, so that many peers do not, either.
 */
uint32_t nam__pending_accept_victim(const struct nam__pending_accept pending[NAM__PENDING_MAX]);

/* The providers that fabric.c lists. */
extern const struct nam_fabric_ops nam__shm_ops, nam__tcp_ops, nam__verbs_ops;

#endif /* NAM_COMMON_FABRIC_PROVIDER_H */
