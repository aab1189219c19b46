/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric.h -- what an RNIC offers, and nothing more.
 *
 * A provider fills every slot of a const struct nam_fabric_ops and embeds the public structs below
 * as the first members of its own.  Layers above read capability bits and never ask for a
 * provider's name.
 *
 *	domain		one per process and provider: devices, registered memory, peers
 *	cq		completion queue; owned by one thread
 *	rq		shared receive queue; any number of queue pairs deliver into it
 *	qp		queue pair: a reliable connection; requests complete in post order
 *	unreliable queue pair	a pair beside one of them that may lose messages
 *	endpoint	sends datagrams to endpoints of other clients, without a connection
 *	listener	where a memory server meets its clients
 *
 * Inside one READ or WRITE no order and no atomicity beyond 8 bytes holds unless a capability bit
 * says so.  Only a completion proves that a request has taken effect.  A memory server's SEND may
 * complete as soon as it is copied; then it proves only that its buffer is free.
 *
 * A request that fails (an address outside of registered memory, a dead peer) completes with its
 * error, signalled or not.  It breaks its queue pair: later posts complete with the same error.  A
 * SEND waits until the receiver has room, and so do later requests of that queue pair.
 *
 * THREADS: a cq, and the qps and rqs that complete into it, belong to one thread; no domain does.
 *
 * Without a card, processors carry requests out.  The owner of a cq serves the peers of its queue
 * pairs only while it is in cq_poll or cq_wait, even with timeout 0.
 */
#ifndef NAM_COMMON_FABRIC_FABRIC_H
#define NAM_COMMON_FABRIC_FABRIC_H

#include <stddef.h>
#include <stdint.h>

#include "../error.h"
#include "endpoint.h"
#include "handshake.h"
#include "request.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_fabric_ops;
struct nam__populate;

struct nam_domain {
	const struct nam_fabric_ops *ops;
	struct nam_fabric_limits limits;
	uint64_t timeout_ns;	/* for which peers leave things unanswered; 0: the provider's own */
	struct nam__populate *populate;	/* pages.h: of region_alloc; the owner's, may be NULL */
};

struct nam_cq {
	const struct nam_fabric_ops *ops;
	void *user;			/* of its creator */
};

struct nam_rq {
	const struct nam_fabric_ops *ops;
};

struct nam_qp {
	const struct nam_fabric_ops *ops;
	void *user;			/* the owner's */
};

struct nam_listener {
	const struct nam_fabric_ops *ops;
	nam_dropped_fn *dropped;	/* the owner's, or NULL; in the thread that polls */
	void *owner;
};

#define NAM_SHARE_BYTES_MAX (1u << 20)

struct nam_colocated;			/* colocated.h */
struct nam_colocated_share;

struct nam_qp_options {
	struct nam_cq *cq;
	struct nam_rq *rq;
	void *user;
	/*
	 * Memory from share_alloc that the peer reaches over this queue pair, or NULL.  It belongs
	 * to this queue pair only, and outlives it.
	 */
	const struct nam_mr *share;
	/*
	 * The listener's peer has these in regions.  0, NAM_MR_REMOTE: all; NAM_MR_REMOTE_READ:
	 * others than READs fail; in the share as well without NAM_CAP_READER_SHARE.  The client
	 * names the same: the provider then sends none by itself.
	 */
	uint32_t rights;
	/*
	 * Client side: memory that the processor may copy (qp_post).  NULL: none.  A provider whose
	 * regions are no files knows by itself what is near.  Must outlive the queue pair.
	 */
	const struct nam_colocated *colocated;
	/* Client side, NULL: a challenge ends the attempt with -NAM_E_FABRIC_DENIED. */
	nam_answer_fn *answer;
	/* Client side, NULL: any reply will do.  Runs before the queue pair can carry anything. */
	nam_welcome_fn *welcome;
	void *answer_arg;		/* of both */
};

/* The result of qp_post for requests that it has carried out by itself. */
#define NAM_POSTED_COLOCATED 1

/*
 * The purpose of a domain, and the choice of devices.  A NULL is taken from the environment
 * (NAM_DEVICE, NAM_GID_INDEX, NAM_MTU), or found out.  Providers without devices ignore it.
 */
struct nam_fabric_options {
	const char *address;	/* where the domain will listen, or that it will call first */
	int listens;
	const char *device;	/* as in `ibv_devices` */
	const char *gid_index;	/* of the address that connections come from, or are awaited at */
	const char *mtu;	/* bytes of a packet's payload: 256, 512, 1024, 2048, 4096 */
	/* Messages for the operator: a port that went down.  From any thread. */
	void (*notice)(const char *text);
};

struct nam_fabric_ops {
	const char *name;	/* the part of an address before the first colon: "shm" */

	/* `options` may be NULL, and is not kept. */
	int (*domain_open)(const struct nam_fabric_options *options, struct nam_domain **ret,
		struct nam_diag *diag);
	/* Everything made from the domain must be gone. */
	void (*domain_close)(struct nam_domain *domain);

	/*
	 * region_alloc gives registered memory that the provider can export (a memfd, for shm);
	 * mr_register registers memory of the caller.  A server makes its regions before it accepts
	 * clients.
	 */
	int (*region_alloc)(struct nam_domain *domain, uint64_t bytes, uint32_t page_bytes_log2,
		int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag);
	/*
	 * Peers lose a region: its memory goes back to the host.  Requests that are under way, and
	 * mappings of peers, then meet unused pages, which another call gives back.  mr->base is
	 * as region_alloc gave it, and stays mapped until mr_release.
	 */
	void (*region_withdraw)(struct nam_domain *domain, struct nam_mr *mr);
	/*
	 * The way back, for all peers, also those that connected meanwhile.  It has all its pages
	 * again, and their bytes are zero.  A failure leaves it withdrawn and names its cause.
	 * mr->lkey and mr->rkey may change, each in one atomic store.  With NAM_MR_REMOTE_READ in
	 * place of NAM_MR_REMOTE peers may only READ; mr->base may change until it is withdrawn.
	 */
	int (*region_restore)(struct nam_domain *domain, struct nam_mr *mr, uint32_t rights,
		struct nam_diag *diag);
	int (*mr_register)(struct nam_domain *domain, void *base, uint64_t bytes, uint32_t rights,
		struct nam_mr *ret, struct nam_diag *diag);
	/*
	 * Zeroed memory, at most NAM_SHARE_BYTES_MAX, that the peer of one queue pair may READ and
	 * WRITE, on either side: mailboxes.  The peer has to be told ret->remote and ret->rkey.
	 */
	int (*share_alloc)(struct nam_domain *domain, uint64_t bytes, struct nam_mr *ret,
		struct nam_diag *diag);
	/* Releases memory of any of these three kinds. */
	void (*mr_release)(struct nam_domain *domain, struct nam_mr *mr);

	/* Posts meet FULL beyond this depth, over all its qps, or less if the provider has less. */
	int (*cq_create)(struct nam_domain *domain, uint32_t depth, struct nam_cq **ret);
	void (*cq_destroy)(struct nam_cq *cq);
	/*
	 * At most `max` completions; returns their number, 0 if there are none now.  Never waits.
	 */
	int (*cq_poll)(struct nam_cq *cq, struct nam_wc *wcs, unsigned max);
	/*
	 * Sleep until something may have completed, or the time is over: a short adaptive spin,
	 * then the provider's blocking wait.  Spurious returns are allowed.  0 or -ETIMEDOUT.
	 */
	int (*cq_wait)(struct nam_cq *cq, uint64_t timeout_ns);
	/* Make a concurrent or the next cq_wait return.  The one call for other threads. */
	void (*cq_wake)(struct nam_cq *cq);

	int (*rq_create)(struct nam_domain *domain, struct nam_cq *cq, uint32_t depth,
		struct nam_rq **ret);
	void (*rq_destroy)(struct nam_rq *rq);
	/* 0 or -NAM_E_FABRIC_FULL; then none was posted. */
	int (*rq_post)(struct nam_rq *rq, const struct nam_recv *recvs, unsigned count);

	/*
	 * Client side.  *reply is what the server answered, on success and on rejection
	 * (-ECONNREFUSED with reply->bytes > 0).  Bounded: timeout_ns of the domain, or 5 s.
	 */
	int (*connect)(struct nam_domain *domain, const char *address,
		const struct nam_hello *hello, const struct nam_qp_options *options,
		struct nam_hello *reply, struct nam_qp **ret, struct nam_diag *diag);
	/*
	 * Posts with one doorbell, all requests or none: -NAM_E_FABRIC_FULL when they do not fit
	 * now.  On a broken qp the call succeeds and every request completes with the reason.
	 *
	 * NAM_POSTED_COLOCATED: the processor has copied, and no completion comes.  All requests
	 * were READs or WRITEs of the peer's share, or READs of regions, on a queue pair that has
	 * options->colocated and is not broken.  READs of regions are copies only if nothing else
	 * is in flight on it, so that they see all earlier posts.  Copies of the share are not
	 * ordered with other requests.  WRITEs into regions and atomics are never copies: those of
	 * a card need not be atomic against a processor's.
	 */
	int (*qp_post)(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count);
	/*
	 * Client side, where regions are files: the peer's share is near.  *share must outlive the
	 * queue pair.  Without effect elsewhere.
	 */
	void (*qp_share_near)(struct nam_qp *qp, const struct nam_colocated_share *share);
	/*
	 * Where regions are no files: 1 if the listener's memory is near, so that requests to it
	 * may be copies.  Else 0.
	 */
	int (*is_near)(struct nam_domain *domain, const char *address);
	/* Disconnects.  Requests that have not completed never will. */
	void (*qp_destroy)(struct nam_qp *qp);

	/*
	 * Creates an end of an unreliable queue pair, beside a queue pair that connects the same
	 * domains.  Without NAM_CAP_UD: -NAM_E_FABRIC_CAPABILITY.  The client only WRITEs over it,
	 * into the share of the other end's options; the memory server only SENDs, to the rq of
	 * those.  Messages may be lost, in part, too, or arrive late, twice, or in another order.
	 * A completion says only that its buffer may be used again.  A SEND that finds no buffer is
	 * lost.  The end of one is not reported: it ends with the queue pair beside it.
	 *
	 * Each side sends *ret_name when they connect, and joins its end as soon as it has the
	 * queue pair.  Earlier posts are lost or refused as if there were no room; messages that
	 * arrive before the other end has joined are lost.  The longest message has
	 * limits.datagram_bytes.  qp_post and qp_destroy take unreliable queue pairs, which may be
	 * destroyed before or after the queue pair beside them.
	 */
	int (*unreliable_qp_create)(struct nam_domain *domain, const struct nam_qp_options *options,
		uint64_t *ret_name, struct nam_qp **ret);
	int (*unreliable_qp_join)(struct nam_qp *unreliable_qp, struct nam_qp *beside,
		uint64_t peer_name);

	/*
	 * Datagrams between clients.  They may be lost, or arrive late, twice, or in another order.
	 * A datagram may come from anywhere, so its receiver checks it.  -NAM_E_FABRIC_CAPABILITY:
	 * this provider or network has none, or the domain has no connection yet to show the way.
	 * The endpoint belongs to the thread of the cq.  After datagrams have arrived the cq yields
	 * NAM_WC_DATAGRAM, with `context`, at least once; cq_wait ends then.
	 */
	int (*endpoint_open)(struct nam_domain *domain, struct nam_cq *cq, void *context,
		struct nam_endpoint_name *ret_name, struct nam_endpoint **ret);
	/* A handle for a place, the same until the endpoint is closed.  May block: endpoint.h. */
	int (*endpoint_place)(struct nam_endpoint *endpoint, const uint8_t *place,
		uint32_t *ret_handle);
	/* At most NAM_DATAGRAM_BYTES_MAX, copied.  Lost without room: see endpoint.h. */
	void (*endpoint_send)(struct nam_endpoint *endpoint, uint32_t handle, uint32_t number,
		const void *datagram, uint32_t bytes);
	/* The next one, into NAM_DATAGRAM_BYTES_MAX bytes.  Returns its bytes; 0: there is none. */
	uint32_t (*endpoint_receive)(struct nam_endpoint *endpoint, void *datagram);
	void (*endpoint_close)(struct nam_endpoint *endpoint);

	/* Server side. */
	int (*listen)(struct nam_domain *domain, const char *address, struct nam_listener **ret,
		struct nam_diag *diag);
	/* A nam_listener_result, or a negative code. */
	int (*listener_poll)(struct nam_listener *listener, uint64_t timeout_ns,
		struct nam_cm_event *event);
	/* Make a concurrent or the next listener_poll return.  Allowed in a signal handler. */
	void (*listener_wake)(struct nam_listener *listener);
	/*
	 * The request is consumed either way.  The thread that owns options->cq may poll it
	 * meanwhile.  When the client goes away, that cq yields NAM_WC_CLOSED, and its owner calls
	 * qp_destroy.  This may precede accept's return, so options->user
	 * leads to the owner's data.
	 */
	int (*accept)(struct nam_listener *listener, struct nam_cm_request *request,
		const struct nam_qp_options *options, const struct nam_hello *reply,
		struct nam_qp **ret);
	void (*reject)(struct nam_listener *listener, struct nam_cm_request *request,
		const struct nam_hello *reply);
	/*
	 * Answers a NAM_CM_REQUEST.  The request is consumed, and comes again once, with the
	 * client's answer.  It does not if the client is gone or silent, or if too many wait for
	 * their answers.  In the thread that polls the listener.
	 */
	void (*challenge)(struct nam_listener *listener, struct nam_cm_request *request,
		const struct nam_hello *challenge);
	void (*listener_close)(struct nam_listener *listener);
};

/**
 * nam_fabric_find -- the provider for an address "NAME:REST".
 *
 * Returns NULL when no such provider is built in; *ret_rest is set on success to the part after the
 * first colon and may be NULL.
 */
const struct nam_fabric_ops *nam_fabric_find(const char *address, const char **ret_rest);

/* The names of the providers that an address may name, separated by ", "; for messages. */
const char *nam_fabric_names(void);

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_FABRIC_FABRIC_H */
