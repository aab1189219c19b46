/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_internal.h -- the inside of the shm provider: one host, no NIC.
 *
 * The memory server's regions are memfds that each client domain maps.  The caller's CPU executes
 * one-sided requests: qp_post resolves and prefetches them, cq_poll carries them out in post
 * order.  Messages travel through two rings per queue pair, in a memfd that the server made.  Each
 * cq has a bell, which every peer of that cq maps: a page with one bit per queue pair and a futex
 * word.
 *
 * TRUST: the other process may change a ring or a bell at any moment, and may die between any two
 * instructions.  So each side keeps its own indexes privately, checks the other's against the
 * ring's size, and copies a message before it looks at it.  Every mapped file is sealed against
 * shrinking, so no access can raise SIGBUS.
 *
 * LOCKS: watch mutex, then cq mutex; the domain mutex is taken alone.  None is on the data path.
 */
#ifndef NAM_COMMON_FABRIC_SHM_SHM_INTERNAL_H
#define NAM_COMMON_FABRIC_SHM_SHM_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "common/env.h"
#include "common/fabric/provider.h"
#include "common/fabric/soft_rq.h"
#include "common/fabric/wait/spin.h"
#include "copy.h"
#include "wire.h"

#define SHM_INLINE_BYTES 128u
#define SHM_QP_DEPTH 1024u
#define SHM_CONNECT_NS 5000000000ull

/* The data path's view of a peer's registration. */
struct shm_region {
	uint8_t *base;
	uint64_t bytes;
};

/* Memory of this domain's regions, of one kind of pages: peers map a file, not each region. */
struct shm_file {
	int fd;			/* -1: none, or no peer may write to it and it is whole */
	int read_fd;		/* of the same, opened for reading */
	uint32_t page_bytes_log2;
	uint32_t regions;	/* that are left */
	bool transparent_huge, read_only;
	bool ended;		/* peers have it: other regions get another one */
};

/* Memory of a region, or a share: mrs[SHM_READ_ONLY] from a region's own is what peers may read. */
struct shm_mr {
	int fd;			/* of a share, until it was sent */
	uint32_t file;		/* of a region: in domain->files */
	uint8_t *base;		/* NULL: the slot was never used, or was released */
	uint64_t bytes, offset;
	bool withdrawn;
};

struct shm_cq;
struct shm_peer;
struct shm_qp;

/* A thread per domain sleeps on the sockets of all queue pairs, and populates mapped memory. */
struct shm_watch {
	pthread_mutex_t mutex;
	int epoll_fd, wake_fd;
	_Atomic bool stopping;
	struct nam_thread *thread;	/* started with the first queue pair */
	LIST_HEAD(, shm_qp) qps;
	uint64_t count;			/* of all that there ever were */
};

struct shm_domain {
	struct nam_domain pub;
	pthread_mutex_t mutex;		/* files, mrs, peers */
	uint64_t instance;		/* random, even: tells a server from its successor */
	uint32_t files_count;		/* that there ever were */
	struct shm_file files[SHM_REGIONS_MAX];
	uint32_t mrs_count;
	uint32_t mrs_announced;		/* the most that any peer has been told of */
	struct shm_mr mrs[SHM_REGIONS_MAX];
	LIST_HEAD(, shm_peer) peers;
	struct shm_watch watch;
};

/* A request between post and poll: a nam_wr whose remote address has been resolved. */
struct shm_request {
	_Alignas(SHM_CACHE_LINE) uint8_t op;	/* enum nam_wr_op, or enum shm_op */
	uint8_t flags;
	uint8_t posted_op;
	uint8_t reserved;
	uint32_t bytes;
	void *target;
	void *local;
	uint64_t compare;
	uint64_t swap;
	void *context;
	struct shm_qp *qp;
	int status;			/* SHM_OP_FAIL: why */
	uint32_t lines;			/* READ: prefetched, and counted in cq->ahead_lines */
};
_Static_assert(sizeof(struct shm_request) == 64, "one cache line");

enum shm_op {
	SHM_OP_NONE = 0,		/* of a queue pair that was destroyed */
	SHM_OP_WORDS = 199,		/* a WRITE of whole words, of a cache line at the most */
	SHM_OP_FAIL = 200,		/* found faulty when it was posted */
	SHM_OP_LATE = 201,		/* a SEND that the peer had no room for: it is not sent */
};

struct shm_qp {
	struct nam_qp pub;
	/* one-sided requests; owner thread only */
	const struct shm_region *regions;
	struct shm_cq *cq;
	uint32_t regions_count;
	uint32_t read_only;		/* SHM_READ_ONLY: only READs of regions, or 0 */
	uint32_t slow;			/* error is set, or requests wait in cq->blocked */
	int error;			/* what every further request completes with */
	uint32_t blocked;		/* requests in cq->blocked */
	uint64_t blocked_ns;		/* since when the first of them has waited */
	/* messages; owner thread only */
	struct nam__soft_rq *rq;
	struct shm_ring *out, *in;
	struct shm_bell *peer_bell;
	uint32_t peer_index;		/* our bit in it */
	uint32_t index;			/* in cq->qps: our bit in cq->bell */
	uint32_t out_tail, out_head, in_head;
	bool accepted;			/* server side */
	bool for_reading;		/* ... the peer may only READ regions */
	bool closing;			/* in cq->closing */
	/* life */
	struct shm_domain *domain;
	struct shm_peer *peer;
	struct shm_rings *rings;
	struct shm_region share;	/* of the peer; base is NULL if it has none for us */
	int fd;
	/* watch mutex */
	uint64_t watched;		/* its number; 0: the watcher does not know it */
	LIST_ENTRY(shm_qp) watch_link;
	/* cq->closed (cq mutex), then cq->closing (owner) */
	SLIST_ENTRY(shm_qp) closed_link;
};

struct shm_cq {
	struct nam_cq pub;
	/* one-sided requests; owner thread only */
	struct shm_request *requests;
	uint32_t head, tail, mask, depth;
	uint32_t ahead;			/* the first of `requests` that is not prefetched */
	uint32_t ahead_lines;		/* prefetched, of requests not yet executed */
	uint32_t burst_lines;		/* prefetched by qp_post since the last poll */
	uint32_t blocked_count;
	bool retry;			/* something in `blocked` may be able to go */
	bool starved;			/* every queue pair in `ready` waits for receive buffers */
	bool turn;			/* one completion fits: requests and messages alternate */
	shm_read_fn copy_read;
	shm_write_fn copy_write;
	struct shm_bell *bell;
	_Atomic uint32_t closed_count;	/* length of `closed` */
	_Atomic uint32_t woken;		/* cq_wake was called */
	SLIST_HEAD(, shm_qp) closing;	/* closed, CLOSED not yet delivered */
	uint8_t *inline_data;		/* SHM_INLINE_BYTES for each of `requests` */
	/* messages; owner thread only */
	uint64_t ready_summary;		/* bits taken from the bell and not yet served */
	uint64_t ready[SHM_BELL_WORDS];
	uint32_t next_index;		/* where the next scan of `ready` begins */
	struct shm_request *blocked;	/* behind a full ring, in post order per queue pair */
	uint8_t *blocked_inline;
	struct nam__spin spin;		/* of cq_wait */
	/* control */
	pthread_mutex_t mutex;		/* closed, slots of qps */
	SLIST_HEAD(, shm_qp) closed;
	int bell_fd;
	size_t arrays_bytes;
	struct shm_qp gone;		/* stands in for destroyed queue pairs in `requests` */
	_Atomic(struct shm_qp *) qps[SHM_QPS_MAX];
};

/* The functions of the provider's table. */
NAM__PROVIDER_FUNCTIONS(NAM__PROVIDER_FUNCTION, shm)

/* ---- memory.c ------------------------------------------------------------------------- */

/* The descriptor to be sent, or -1 for no share; and once the peer has it. */
int nam__shm_share_fd(const struct nam_mr *share);
void nam__shm_share_sent(const struct nam_mr *share);
/* Map the share that a peer sent.  The descriptor stays the caller's. */
int nam__shm_share_map(int fd, struct shm_region *ret) NAM_MUST_CHECK;
/* With the domain's mutex: regions that come later get another file.  0 or a negative code. */
int nam__shm_region_file_end(struct shm_file *file) NAM_MUST_CHECK;
/* Map a file of regions that a server sent.  The descriptor stays the caller's. */
int nam__shm_region_file_map(int fd, bool read_only, bool transparent_huge,
	struct shm_region *ret) NAM_MUST_CHECK;
/* An anonymous, sealed file of small pages, mapped. */
int nam__shm_file_create(const char *name, size_t bytes, int *ret_fd, void **ret_at) NAM_MUST_CHECK;
/* Map a file that a peer sent, if it has that size and cannot shrink. */
int nam__shm_file_map(int fd, size_t bytes, void **ret_at) NAM_MUST_CHECK;

/* ---- ring.c --------------------------------------------------------------------------- */

/* Set a bit and wake the bell's owner if it sleeps. */
void nam__shm_bell_post(struct shm_bell *bell, uint32_t index);
/* Wake the bell's owner if it sleeps. */
void nam__shm_bell_wake(struct shm_bell *bell);
/* 0; -NAM_E_FABRIC_FULL: the receiver posts the bell when there is room; or PROTOCOL. */
int nam__shm_ring_send(struct shm_qp *qp, const void *data, uint32_t bytes) NAM_MUST_CHECK;
/* How many messages wait; 0 .. SHM_SLOTS, or -NAM_E_FABRIC_PROTOCOL. */
int nam__shm_ring_waiting(struct shm_qp *qp) NAM_MUST_CHECK;
/* Copy the oldest waiting message out: its length, or -NAM_E_FABRIC_PROTOCOL. */
int nam__shm_ring_take(struct shm_qp *qp, void *buffer, uint32_t bytes) NAM_MUST_CHECK;
/* After a run of takes: hand the slots back. */
void nam__shm_ring_give_back(struct shm_qp *qp);

/* ---- cq.c ----------------------------------------------------------------------------- */

/* A free place in cq->qps, taken for qp but not yet visible to the owner; -NAM_E_LIMIT. */
int nam__shm_cq_reserve(struct shm_cq *cq, struct shm_qp *qp) NAM_MUST_CHECK;
void nam__shm_cq_publish(struct shm_cq *cq, struct shm_qp *qp);
/* From any thread: the peer of qp is gone. */
void nam__shm_cq_closed(struct shm_cq *cq, struct shm_qp *qp);
/* Owner: forget qp altogether. */
void nam__shm_cq_forget(struct shm_cq *cq, struct shm_qp *qp);

/* ---- poll.c --------------------------------------------------------------------------- */

/* The requests of qp in cq->requests will do nothing. */
void nam__shm_requests_forget(struct shm_cq *cq, const struct shm_qp *qp);

/* ---- messages.c ----------------------------------------------------------------------- */

/* Messages that arrived, into receive buffers. */
unsigned nam__shm_take_messages(struct shm_cq *cq, struct nam_wc *wcs, unsigned max);
/* A request that the fast path does not carry out.  True if it is done, with *status. */
bool nam__shm_execute_slow(struct shm_cq *cq, struct shm_request *request,
	const uint8_t *inline_data, int *ret_status);
void nam__shm_expire_blocked(struct shm_cq *cq);	/* SENDs that wait for too long */
void nam__shm_blocked_forget(struct shm_cq *cq, const struct shm_qp *qp);
/* Requests behind full rings, as far as they can go now. */
unsigned nam__shm_retry_blocked(struct shm_cq *cq, struct nam_wc *wcs, unsigned max);
/* Queue pairs whose peer went away: their requests fail from now on. */
void nam__shm_notice_closed(struct shm_cq *cq);
void nam__shm_qp_fail(struct shm_qp *qp, int error);

/* ---- qp.c ----------------------------------------------------------------------------- */

int nam__shm_qp_create(struct shm_domain *domain, const struct nam_qp_options *options,
	struct shm_qp **ret) NAM_MUST_CHECK;

/* ---- watch.c -------------------------------------------------------------------------- */

int nam__shm_watch_init(struct shm_watch *watch) NAM_MUST_CHECK;
void nam__shm_watch_free(struct shm_watch *watch);
int nam__shm_watch_add(struct shm_watch *watch, struct shm_qp *qp) NAM_MUST_CHECK;
/* After this the watcher does not know qp any more. */
void nam__shm_watch_remove(struct shm_watch *watch, struct shm_qp *qp);

/* ---- socket.c ------------------------------------------------------------------------- */

int nam__shm_address(const char *address, struct sockaddr_un *ret, struct nam_diag *diag)
	NAM_MUST_CHECK;
/* Send a packet, never waiting. */
int nam__shm_packet_send(int fd, const void *data, size_t bytes, const int *fds,
	unsigned fds_count) NAM_MUST_CHECK;
/* Receive a packet; -EAGAIN: none came in time.  Descriptors are the caller's. */
int nam__shm_packet_recv(int fd, void *data, size_t size, size_t *ret_bytes, int *fds,
	unsigned fds_max, unsigned *ret_fds) NAM_MUST_CHECK;
void nam__shm_close_all(const int *fds, unsigned count);

#endif /* NAM_COMMON_FABRIC_SHM_SHM_INTERNAL_H */
