/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_internal.h -- the inside of the verbs provider: libibverbs and librdmacm.
 *
 * A domain is one device: a context, one protection domain, and a thread, the watcher.  The watcher
 * takes events of the connection manager and of the device.  A completion queue is a completion
 * channel, one ibv_cq for sends, and one for each shared receive queue.  rdma_cm finds the device,
 * the path and its MTU.  The queue pairs and their changes of state are our own, because a path's
 * attributes can be overridden there.  The four error conventions of these libraries become one
 * here.
 *
 * LOCKS: watch mutex, then the mutex of a queue pair's hold (which is only tried), then cq mutex.
 * The first and the last are not on the data path.  On Soft-RoCE, the owner takes the hold's for
 * each post, and the watcher for each WRITE of its own.
 */
#ifndef NAM_COMMON_FABRIC_VERBS_VERBS_INTERNAL_H
#define NAM_COMMON_FABRIC_VERBS_VERBS_INTERNAL_H

#include "common/fabric/provider.h"
#include "objects.h"

/* ---- wr_id of sends ------------------------------------------------------------------------ */

#define VERBS_KEEP_ALIVE (1ull << 63)

static inline uint64_t
nam__verbs_wr_id(const struct verbs_qp *qp, uint32_t position)
{
	return (uint64_t)(qp->serial & 0x7fffffffu) << 32 | position;
}

/* The functions of the provider's table. */
NAM__PROVIDER_DECLARE(verbs)
NAM__PROVIDER_FUNCTION(verbs, unreliable_qp_create)
NAM__PROVIDER_FUNCTION(verbs, unreliable_qp_join)
NAM__PROVIDER_FUNCTION(verbs, qp_share_near)
NAM__PROVIDER_ENDPOINTS(NAM__PROVIDER_FUNCTION, verbs)

/* ---- address.c ----------------------------------------------------------------------- */

/* A completion's status as a negative code. */
int nam__verbs_status(enum ibv_wc_status status);
/*
 * The status of a request with that enum nam_wr_op.  Soft-RoCE calls a WRITE or an ATOMIC invalid
 * if the other side's queue pair has no right to it.
 */
int nam__verbs_sent_status(enum ibv_wc_status status, uint8_t op);
/*
 * The diag if none of several devices (`names`) was found by `address`, which may be NULL.
 * @way		why no way leads there; 0: one does, but by no RDMA device
 */
int nam__verbs_diag_no_device(const char *address, const char *names, int way,
	struct nam_diag *diag);
/*
 * Hellos, replies, and what is sent of them.  -NAM_E_FABRIC_PROTOCOL: it is none, or of a kind that
 * is not for this side.  ret_params->mtu is 0 for what is no enum ibv_mtu.
 */
void nam__verbs_pack(enum verbs_message message, const struct nam_hello *hello, uint8_t mtu,
	void *ret);
int nam__verbs_unpack(enum verbs_message message, const void *data, size_t bytes,
	struct nam_hello *ret, struct verbs_params *ret_params) NAM_MUST_CHECK;
/* The smallest of those given; 0: not given. */
uint8_t nam__verbs_mtu(uint8_t path, uint8_t own, uint8_t peers);
/* Make a file descriptor return at once when there is nothing. */
int nam__verbs_nonblocking(int fd) NAM_MUST_CHECK;

/* ---- device.c ------------------------------------------------------------------------ */

int nam__verbs_device_open(struct verbs_domain *domain, const struct nam_fabric_options *options,
	struct nam_diag *diag) NAM_MUST_CHECK;
void nam__verbs_device_close(struct verbs_domain *domain);
/* The port whose GID has that index, one that is up if there is any; or -ENOENT. */
int nam__verbs_gid_find(const struct verbs_domain *domain, uint32_t index,
	struct ibv_gid_entry *ret);
/* 0, or why a device of these attributes cannot be used, and what to do. */
int nam__verbs_usable(const char *device, const struct ibv_device_attr *attr,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* The capabilities of such a device: enum nam_fabric_cap. */
uint32_t nam__verbs_caps(const struct ibv_device_attr *attr);
/* The device's queue pair, which completes into qp->cq; sets qp->inline_bytes.  NULL: errno. */
struct ibv_qp *nam__verbs_device_qp(struct verbs_qp *qp, const struct verbs_rq *rq,
	enum ibv_qp_type type, uint32_t depth);
int nam__verbs_channel_create(struct rdma_event_channel **ret, struct nam_diag *diag)
	NAM_MUST_CHECK;
/* Wait for the next event on a channel; -ETIMEDOUT at `until_ns`.  The caller acks it. */
int nam__verbs_cm_wait(struct rdma_event_channel *channel, uint64_t until_ns,
	struct rdma_cm_event **ret) NAM_MUST_CHECK;

/* Let `id` find its way to an address, and so its device: 0, -ETIMEDOUT, -EHOSTUNREACH ... */
int nam__verbs_find_way(struct rdma_cm_id *id, const struct verbs_domain *domain,
	const struct sockaddr *to, uint64_t until_ns) NAM_MUST_CHECK;

/* ---- cq.c ---------------------------------------------------------------------------- */

/* Owner: room for so many completions of the device; 0 or a negative code. */
int nam__verbs_done_open(struct verbs_done *done, struct verbs_cq *cq, uint32_t depth)
	NAM_MUST_CHECK;
/* Also closes one that was never opened. */
void nam__verbs_done_close(struct verbs_done *done);
/* Any thread: there is a new queue pair; its completions may come from now on. */
void nam__verbs_cq_join(struct verbs_cq *cq, struct verbs_qp *qp);
/* Any thread: the peer of qp is gone, or the queue pair is.  True if that is news. */
bool nam__verbs_cq_closed(struct verbs_cq *cq, struct verbs_qp *qp, int status);
/* Owner: take note of both. */
void nam__verbs_cq_news(struct verbs_cq *cq);
struct verbs_qp *nam__verbs_cq_find(struct verbs_cq *cq, uint32_t number);
/* Owner, or a queue pair that its cq has never seen: forget qp altogether. */
void nam__verbs_cq_forget(struct verbs_cq *cq, struct verbs_qp *qp);

/* ---- qp.c ---------------------------------------------------------------------------- */

int nam__verbs_qp_create(struct verbs_domain *domain, const struct nam_qp_options *options,
	struct rdma_cm_id *id, struct verbs_qp **ret, struct nam_diag *diag) NAM_MUST_CHECK;
/* To INIT; later, once the peer is known, to RTR and RTS. */
int nam__verbs_qp_init(struct verbs_qp *qp) NAM_MUST_CHECK;
int nam__verbs_qp_start(struct verbs_qp *qp, const struct nam_cm_request *request) NAM_MUST_CHECK;

/* ---- unreliable_qp.c ------------------------------------------------------------------------- */

void nam__verbs_unreliable_qp_destroy(struct verbs_qp *unreliable_qp);
/* From RESET to RTS, at the port of a path.  @psn	the first packet number */
int nam__verbs_start_ud(struct ibv_qp *ud, const struct ibv_qp_attr *path, uint32_t qkey,
	uint32_t psn) NAM_MUST_CHECK;

/* ---- endpoint.c ---------------------------------------------------------------------- */

/* A completion of the device.  True if a datagram has arrived. */
bool nam__verbs_endpoint_take(struct verbs_endpoint *endpoint, const struct ibv_wc *wc);
/* After a failure: begin anew, but not too often.  All datagrams under way are lost. */
void nam__verbs_endpoint_mend(struct verbs_endpoint *endpoint);

/* ---- watch.c ------------------------------------------------------------------------- */

int nam__verbs_watch_init(struct verbs_domain *domain, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__verbs_watch_free(struct verbs_domain *domain);
/* The watcher: what the device says of itself, or of what was made on it. */
void nam__verbs_watch_event(struct verbs_domain *domain, const struct ibv_async_event *event);
/* Any thread: the device was taken out.  Ends all connections, and says so, once. */
void nam__verbs_watch_gone(struct verbs_domain *domain);
/* From here on the watcher hears what the connection manager says of qp. */
int nam__verbs_watch_add(struct verbs_qp *qp) NAM_MUST_CHECK;
/* From here on what the device says of an unreliable queue pair closes the connection beside it. */
void nam__verbs_watch_unreliable_qp(struct verbs_qp *unreliable_qp, struct verbs_qp *beside);
/* The watcher forgets qp, which may be an unreliable queue pair, and those beside it. */
void nam__verbs_watch_remove(struct verbs_qp *qp);

/* ---- push.c -------------------------------------------------------------------------- */

/* Owner: to the device, whatever is under way.  There is room. */
void nam__verbs_qp_push(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count);
/* Owner: nothing more goes out; requests under way will be handed back. */
void nam__verbs_qp_break(struct verbs_qp *qp, int status);
/* Owner: cq_poll reports what has failed. */
void nam__verbs_qp_mark_broken(struct verbs_qp *qp);

/* ---- hold.c -------------------------------------------------------------------------- */

int nam__verbs_hold_init(struct verbs_qp *qp) NAM_MUST_CHECK;
void nam__verbs_hold_free(struct verbs_qp *qp);
/* Owner, of a queue pair with a hold: push what may go, keep the rest. */
void nam__verbs_hold_post(struct verbs_qp *qp, const struct nam_wr *wrs, unsigned count);
/* Owner: push what may go now; all of it once the queue pair is broken. */
void nam__verbs_hold_release(struct verbs_qp *qp);

static inline uint32_t
nam__verbs_hold_count(const struct verbs_qp *qp)
{
	return qp->hold.tail - qp->hold.head;
}

#endif /* NAM_COMMON_FABRIC_VERBS_VERBS_INTERNAL_H */
