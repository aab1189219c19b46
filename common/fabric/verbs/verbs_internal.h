/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_internal.h -- the inside of the verbs provider: libibverbs and librdmacm.
 *
 * A domain is one device: a context of our own, one protection domain, and a thread, the watcher,
 * that hears from the connection manager and of the device's asynchronous events.  A completion
 * queue is a completion channel, one ibv_cq for what its queue pairs send, and one for each shared
 * receive queue.  rdma_cm finds the device, the path and its MTU; the queue pairs are our own, and
 * so are their changes of state, because the attributes of a path can be overridden there.
 *
 * Here, and nowhere above, the four error conventions of these libraries become one.
 *
 * LOCKS: watch mutex, then the mutex of a queue pair's hold (which is only tried), then cq mutex.
 * The first and the last are not on the data path.  A hold's is, where there is one, which is on
 * Soft-RoCE: its owner takes it for each post, alone, and the watcher for each WRITE of its own.
 */
#ifndef NAM_COMMON_FABRIC_VERBS_VERBS_INTERNAL_H
#define NAM_COMMON_FABRIC_VERBS_VERBS_INTERNAL_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "common/env.h"
#include "common/fabric/fabric.h"
#include "common/fabric/inet.h"
#include "common/fabric/colocated.h"
#include "common/fabric/shm/copy.h"
#include "sends.h"

#define VERBS_QP_DEPTH 1024u		/* if the device has as much */
#define VERBS_QP_DEPTH_MIN 64u		/* the longest doorbell of compute/, and more */
#define VERBS_RQ_DEPTH_MAX 128u		/* what any receive queue is made with */
#define VERBS_INLINE_BYTES 256u		/* asked for; the device says what it has */
#define VERBS_MESSAGE_BYTES (1u << 30)
#define VERBS_CONNECT_NS 4500000000ull
/*
 * An unanswered packet is sent again after 4.096 us * 2^14 = 67 ms, six times.  Devices may take
 * up to four times as long: a dead peer is noticed within 0.5 to 1.9 s.
 */
#define VERBS_ACK_TIMEOUT 14u
#define VERBS_RETRIES 6u		/* rxe takes 7 for "for ever" */
#define VERBS_RNR_FOREVER 7u
#define VERBS_RNR_TIMER 12u		/* 0.64 ms between attempts */
#define VERBS_FLUSH_NS 1000000000ull	/* how long a device may take to hand requests back */
#define VERBS_HASH 1024u		/* a power of two */
#define VERBS_BATCH 32u

#define VERBS_DATAGRAM_BYTES 1024u	/* with that much RoCE ports come */

#define VERBS_LIKELY(x) __builtin_expect(!!(x), 1)
#define VERBS_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* ---- the handshake: private data of rdma_cm, both ways --------------------------------------- */

#define VERBS_MAGIC 0x6e76u
#define VERBS_VERSION 2u

/*
 * The connection manager pads private data, so the length travels inside.  Both ends have to cut
 * messages into packets of one size, and an override is known to its own end only: so a client says
 * what it was told, and the memory server what holds.
 */
struct verbs_hello {
	uint16_t magic;
	uint8_t version;
	uint8_t bytes;
	uint8_t data[NAM_HELLO_BYTES_MAX];
	uint8_t mtu;			/* enum ibv_mtu; 0: no wish */
	uint8_t reserved[3];
};
_Static_assert(sizeof(struct verbs_hello) <= 56, "what a REQ of rdma_cm leaves us");

/* ---- the objects --------------------------------------------------------------------------- */

struct verbs_qp;
struct verbs_cq;
struct verbs_domain;

struct verbs_watch {
	pthread_mutex_t mutex;
	struct rdma_event_channel *channel;
	int stop_fd;
	struct nam_thread *thread;	/* started with the first queue pair */
	struct verbs_qp *qps;
	struct verbs_qp *unreliable_qps;		/* joined */
	bool urgent;			/* look after all connections now */
	uint64_t ports_down;		/* a bit for each */
	_Atomic bool gone;		/* the device: said, and its connections closed */
};

/* What nam__verbs_qp_post has taken and the device must not have yet: see hold.c. */
struct verbs_hold {
	struct nam_wr *wrs;		/* NULL: this device may have all at once */
	uint8_t *inlined;		/* what was to be copied when it was posted */
	uint32_t mask;
	uint32_t head, tail;		/* they wrap around */
	pthread_mutex_t mutex;		/* owner and watcher: who posts */
};

struct verbs_domain {
	struct nam_domain pub;
	struct ibv_context *verbs;
	struct ibv_pd *pd;
	char device[IBV_SYSFS_NAME_MAX];
	uint8_t reads_out, reads_in;	/* READs and ATOMICs under way, ours and a peer's */
	bool soft;			/* Soft-RoCE: see hold.c */
	uint64_t longest;		/* bytes of one request */
	uint32_t cqes_max;
	int numa_node;			/* the device's, or -1 */
	enum ibv_mtu mtu;		/* 0: what rdma_cm says */
	enum ibv_mtu port_mtu;		/* the largest of any port */
	uint8_t ports;			/* numbered from 1 on */
	bool up[256];			/* each of them */
	struct sockaddr_storage source;	/* family 0: what the route says */
	void (*notice)(const char *text);
	struct verbs_watch watch;
};

/* A receive queue, and the completions of its receives. */
struct verbs_rq {
	struct nam_rq pub;
	struct verbs_cq *cq;
	struct verbs_rq *next;
	struct ibv_srq *srq;
	struct ibv_cq *recvs;
	bool armed;
	struct ibv_wc stash;		/* taken from `recvs` by cq_wait */
	bool stashed;
	uint32_t depth;
	struct nam_recv *slots;		/* by wr_id */
	uint32_t *free;
	uint32_t free_count;
	bool watched;			/* the device says when it runs low, once */
};

struct verbs_cq {
	struct nam_cq pub;
	struct verbs_domain *domain;
	/* owner thread only */
	struct ibv_comp_channel *channel;
	struct ibv_cq *sends;
	struct verbs_rq *rqs;
	uint32_t depth;
	uint32_t outstanding;		/* of all queue pairs */
	uint32_t spin_ns;
	bool armed;
	bool stashed;
	struct ibv_wc stash;
	struct verbs_qp *last;		/* the last one found */
	struct verbs_qp *hash[VERBS_HASH];
	struct verbs_qp *broken;	/* with failed requests, or CLOSED, to report */
	struct ibv_send_wr wrs[VERBS_BATCH];
	struct ibv_sge sges[VERBS_BATCH];
	/* any thread */
	int wake_fd;
	_Atomic uint32_t woken;
	_Atomic uint32_t news;		/* length of `joining` and of `closed` */
	pthread_mutex_t mutex;
	struct verbs_qp *joining;	/* accepted, not yet in `hash` */
	struct verbs_qp *closed;
};

struct verbs_qp {
	struct nam_qp pub;
	struct ibv_qp *qp;
	struct verbs_cq *cq;
	struct verbs_domain *domain;
	struct verbs_sends sends;	/* owner */
	struct verbs_hold hold;		/* owner, but for its mutex */
	const struct nam_colocated *local;	/* NULL: nothing is local */
	const struct nam_colocated_share *share;	/* the peer's, if it is near */
	shm_read_fn copy;
	shm_write_fn copy_out;
	uint32_t inline_bytes;
	uint32_t serial;		/* in wr_id: numbers of queue pairs are used again */
	uint32_t number;
	uint8_t mtu;			/* enum ibv_mtu; at first the peer's wish */
	_Atomic uint32_t posts;		/* counts, so that the watcher sees traffic */
	/*
	 * unreliable_qp.c; of an unreliable queue pair's two queue pairs one is the unreliable
	 * queue pair, the other its companion
	 */
	struct verbs_qp *companion;
	struct verbs_qp *front;		/* of a companion */
	struct ibv_ah *ah;		/* to the one that receives */
	uint64_t name;
	uint32_t peer_number, peer_key;
	bool unreliable_qp;
	bool receives;			/* a client's: the companion is UD */
	bool ready;			/* joined */
	/* end of life; owner */
	bool broken;			/* in cq->broken */
	bool closing;			/* CLOSED is to be reported when all else is */
	bool over;			/* CLOSED has been reported */
	uint64_t flush_until_ns;
	struct verbs_qp *next_hash, *next_broken;
	/* cq mutex */
	bool told_closed;
	bool joined;
	int closed_status;
	struct verbs_qp *next_joining, *next_closed;
	/* watch mutex */
	struct verbs_qp *watch_next, *watch_previous;
	bool watched;
	/* of an unreliable queue pair: the connection that it ends with */
	struct verbs_qp *beside;
	uint32_t seen_posts;
	uint64_t tried_ns;		/* when the watcher last sent something by itself */
	_Atomic bool trying;		/* ... and the owner has not seen it complete */
	_Atomic bool dead;		/* no more such attempts */
	bool accepted;
	struct rdma_cm_id *id;
};

struct nam_cm_request {
	struct rdma_cm_id *id;
	uint8_t reads_out, reads_in;
	uint8_t mtu;			/* the client's wish */
};

/* ---- wr_id of sends ------------------------------------------------------------------------ */

#define VERBS_KEEP_ALIVE (1ull << 63)

static inline uint64_t
nam__verbs_wr_id(const struct verbs_qp *qp, uint32_t position)
{
	return (uint64_t)(qp->serial & 0x7fffffffu) << 32 | position;
}

/* ---- address.c ----------------------------------------------------------------------- */

/* What a completion's status means, as a negative code. */
int nam__verbs_status(enum ibv_wc_status status);
/*
 * A hello and what is sent of it; the second returns -NAM_E_FABRIC_PROTOCOL for what is none.
 * *ret_mtu is the other side's word, or 0 for what is no enum ibv_mtu; it may be NULL.
 */
void nam__verbs_hello_pack(const struct nam_hello *hello, uint8_t mtu, struct verbs_hello *ret);
int nam__verbs_hello_unpack(const void *data, size_t bytes, struct nam_hello *ret,
	uint8_t *ret_mtu) NAM_MUST_CHECK;
/* The smallest of what was said; 0 says nothing. */
uint8_t nam__verbs_mtu(uint8_t path, uint8_t own, uint8_t peers);
/* Make a file descriptor return at once when there is nothing. */
int nam__verbs_nonblocking(int fd) NAM_MUST_CHECK;

/* ---- device.c ------------------------------------------------------------------------ */

int nam__verbs_device_open(struct verbs_domain *domain, const struct nam_fabric_options *options,
	struct nam_diag *diag) NAM_MUST_CHECK;
void nam__verbs_device_close(struct verbs_domain *domain);
/* 0, or why a device of these attributes cannot be used, and what to do. */
/* The port whose GID has that index, one that is up if there is any; or -ENOENT. */
int nam__verbs_gid_find(const struct verbs_domain *domain, uint32_t index,
	struct ibv_gid_entry *ret);
int nam__verbs_usable(const char *device, const struct ibv_device_attr *attr,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* What such a device promises: enum nam_fabric_cap. */
uint32_t nam__verbs_caps(const struct ibv_device_attr *attr);
int nam__verbs_channel_create(struct rdma_event_channel **ret, struct nam_diag *diag)
	NAM_MUST_CHECK;
/* Wait for the next event on a channel; -ETIMEDOUT at `until_ns`.  The caller acks it. */
int nam__verbs_cm_wait(struct rdma_event_channel *channel, uint64_t until_ns,
	struct rdma_cm_event **ret) NAM_MUST_CHECK;

/* Let `id` find its way to an address, and so its device: 0, -ETIMEDOUT, -EHOSTUNREACH ... */
int nam__verbs_find_way(struct rdma_cm_id *id, const struct verbs_domain *domain,
	const struct sockaddr *to, uint64_t until_ns) NAM_MUST_CHECK;

/* ---- memory.c ------------------------------------------------------------------------ */

int nam__verbs_region_alloc(struct nam_domain *domain, uint64_t bytes, uint32_t page_bytes_log2,
	int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag)
	NAM_MUST_CHECK;
int nam__verbs_share_alloc(struct nam_domain *domain, uint64_t bytes, struct nam_mr *ret,
	struct nam_diag *diag) NAM_MUST_CHECK;
int nam__verbs_mr_register(struct nam_domain *domain, void *base, uint64_t bytes, uint32_t rights,
	struct nam_mr *ret, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__verbs_mr_release(struct nam_domain *domain, struct nam_mr *mr);

/* ---- cq.c ---------------------------------------------------------------------------- */

int nam__verbs_cq_create(struct nam_domain *domain, uint32_t depth, struct nam_cq **ret)
	NAM_MUST_CHECK;
void nam__verbs_cq_destroy(struct nam_cq *cq);
int nam__verbs_rq_create(struct nam_domain *domain, struct nam_cq *cq, uint32_t depth,
	struct nam_rq **ret) NAM_MUST_CHECK;
void nam__verbs_rq_destroy(struct nam_rq *rq);
int nam__verbs_rq_post(struct nam_rq *rq, const struct nam_recv *recvs, unsigned count);
/* Any thread: there is a new queue pair; its completions may come from now on. */
void nam__verbs_cq_join(struct verbs_cq *cq, struct verbs_qp *qp);
/* Any thread: the peer of qp is gone, or the queue pair is.  True if that is news. */
bool nam__verbs_cq_closed(struct verbs_cq *cq, struct verbs_qp *qp, int status);
/* Owner: take note of both. */
void nam__verbs_cq_news(struct verbs_cq *cq);
struct verbs_qp *nam__verbs_cq_find(struct verbs_cq *cq, uint32_t number);
/* Owner, or a queue pair that its cq has never seen: forget qp altogether. */
void nam__verbs_cq_forget(struct verbs_cq *cq, struct verbs_qp *qp);

/* ---- wait.c -------------------------------------------------------------------------- */

int nam__verbs_cq_wait(struct nam_cq *cq, uint64_t timeout_ns);
void nam__verbs_cq_wake(struct nam_cq *cq);

/* ---- qp.c ---------------------------------------------------------------------------- */

int nam__verbs_qp_create(struct verbs_domain *domain, const struct nam_qp_options *options,
	struct rdma_cm_id *id, struct verbs_qp **ret, struct nam_diag *diag) NAM_MUST_CHECK;
/* To INIT; later, once the peer is known, to RTR and RTS. */
int nam__verbs_qp_init(struct verbs_qp *qp) NAM_MUST_CHECK;
int nam__verbs_qp_start(struct verbs_qp *qp, const struct nam_cm_request *request) NAM_MUST_CHECK;
void nam__verbs_qp_destroy(struct nam_qp *qp);

/* ---- unreliable_qp.c ------------------------------------------------------------------------- */

int nam__verbs_unreliable_qp_create(struct nam_domain *domain, const struct nam_qp_options *options,
	uint64_t *ret_name, struct nam_qp **ret) NAM_MUST_CHECK;
int nam__verbs_unreliable_qp_join(struct nam_qp *unreliable_qp, struct nam_qp *beside,
	uint64_t peer_name)
	NAM_MUST_CHECK;
void nam__verbs_unreliable_qp_destroy(struct verbs_qp *unreliable_qp);

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
/*
 * After this the watcher does not know qp, which may be an unreliable queue pair, any more; nor
 * those beside it.
 */
void nam__verbs_watch_remove(struct verbs_qp *qp);

/* ---- connect.c, listen.c ------------------------------------------------------- */

int nam__verbs_connect(struct nam_domain *domain, const char *address,
	const struct nam_hello *hello, const struct nam_qp_options *options,
	struct nam_hello *reply, struct nam_qp **ret, struct nam_diag *diag) NAM_MUST_CHECK;
int nam__verbs_listen(struct nam_domain *domain, const char *address, struct nam_listener **ret,
	struct nam_diag *diag) NAM_MUST_CHECK;
int nam__verbs_listener_poll(struct nam_listener *listener, uint64_t timeout_ns,
	struct nam_cm_event *event);
void nam__verbs_listener_wake(struct nam_listener *listener);
int nam__verbs_accept(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_qp_options *options, const struct nam_hello *reply, struct nam_qp **ret)
	NAM_MUST_CHECK;
void nam__verbs_reject(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *reply);
void nam__verbs_listener_close(struct nam_listener *listener);

#endif /* NAM_COMMON_FABRIC_VERBS_VERBS_INTERNAL_H */
