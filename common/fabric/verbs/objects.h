/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h -- the objects of the verbs provider: handshake, domains, queues, queue pairs. */
#ifndef NAM_COMMON_FABRIC_VERBS_OBJECTS_H
#define NAM_COMMON_FABRIC_VERBS_OBJECTS_H

#include <infiniband/verbs.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include "common/env.h"
#include "common/fabric/fabric.h"
#include "common/fabric/inet.h"
#include "common/fabric/colocated.h"
#include "common/fabric/shm/copy.h"
#include "common/fabric/wait/spin.h"
#include "sends.h"

#define VERBS_QP_DEPTH 1024u		/* if the device has as much */
#define VERBS_QP_DEPTH_MIN 64u		/* the longest doorbell of compute/, and more */
#define VERBS_RQ_DEPTH_MAX 128u		/* what any receive queue is made with */
#define VERBS_INLINE_BYTES 256u		/* asked for; the device says what it has */
#define VERBS_MESSAGE_BYTES (1u << 30)
#define VERBS_CONNECT_NS 4500000000ull
/*
 * An unanswered packet is sent again after 4.096 us * 2^14 = 67 ms, six times; devices may take up
 * to four times as long.  A device in software has 268 ms.  A dead peer is noticed within 1.9 s.
 */
#define VERBS_ACK_TIMEOUT 14u
#define VERBS_SOFT_ACK_TIMEOUT 16u
#define VERBS_RETRIES 6u		/* rxe takes 7 for "for ever" */
#define VERBS_RNR_FOREVER 7u
#define VERBS_RNR_TIMER 12u		/* 0.64 ms between attempts */
#define VERBS_FLUSH_NS 1000000000ull	/* how long a device may take to hand requests back */
#define VERBS_HASH 1024u		/* a power of two */
#define VERBS_BATCH 32u

#define VERBS_ENDPOINT_SENDS 64u
#define VERBS_ENDPOINT_RECEIVES 256u	/* if a queue pair may have as many */
#define VERBS_NUMBER_MASK 0xffffffu	/* of a queue pair */

#define VERBS_DATAGRAM_BYTES 1024u	/* with that much RoCE ports come */

/* ---- the handshake: private data of rdma_cm, both ways --------------------------------------- */

#define VERBS_MAGIC 0x6e76u
#define VERBS_VERSION 3u

/* A message of the handshake, and the bytes of the program's that it holds. */
enum verbs_message {
	VERBS_HELLO = NAM_HELLO_BYTES_MAX,
	VERBS_REPLY = NAM_REPLY_BYTES_MAX,
};

enum verbs_kind {
	VERBS_PLAIN = 0,		/* a hello, or a reply */
	VERBS_CHALLENGE,		/* in a rejection */
	VERBS_ANSWER,			/* in a second request to connect */
};

struct verbs_params {
	uint8_t mtu;			/* enum ibv_mtu; 0: no wish */
	uint8_t kind;			/* enum verbs_kind */
	uint16_t number;		/* of the challenge */
};

/*
 * The connection manager pads private data, so the length travels inside.  Both ends must use one
 * MTU: the client sends its wish, and the server the result.
 */
struct verbs_hello {
	uint16_t magic;
	uint8_t version;
	uint8_t bytes;
	struct verbs_params params;
	uint8_t data[NAM_HELLO_BYTES_MAX];
};
_Static_assert(sizeof(struct verbs_hello) <= 56, "what a REQ of rdma_cm leaves us");

/* From the server; begins as a hello does. */
struct verbs_reply {
	uint16_t magic;
	uint8_t version;
	uint8_t bytes;
	struct verbs_params params;
	uint8_t data[NAM_REPLY_BYTES_MAX];
};
_Static_assert(sizeof(struct verbs_reply) <= 148, "what a REJ of rdma_cm leaves us; a REP has 196");
_Static_assert(offsetof(struct verbs_reply, data) == offsetof(struct verbs_hello, data),
	"both begin alike");

/* ---- the objects --------------------------------------------------------------------------- */

struct verbs_qp;
struct verbs_cq;
struct verbs_domain;

struct verbs_watch {
	pthread_mutex_t mutex;
	struct rdma_event_channel *channel;
	int stop_fd;
	struct nam_thread *thread;	/* started with the first queue pair */
	LIST_HEAD(verbs_watched, verbs_qp) qps;
	struct verbs_watched unreliable_qps;	/* joined */
	bool urgent;			/* look after all connections now */
	uint64_t ports_down;		/* a bit for each */
	_Atomic bool gone;		/* the device: said, and its connections closed */
};

/* Posted requests that the device must not have yet: see hold.c. */
struct verbs_hold {
	struct nam_wr *wrs;		/* NULL: this device may have all at once */
	uint8_t *inlined;		/* what was to be copied when it was posted */
	uint32_t mask;
	uint32_t head, tail;		/* they wrap around */
	pthread_mutex_t mutex;		/* owner and watcher: the one that posts */
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
	struct ibv_qp_attr way;		/* of endpoints; port 0: there is none yet.  Watch mutex */
};

/* Completions of the device, for a completion queue of ours. */
struct verbs_done {
	struct ibv_cq *cq;
	LIST_ENTRY(verbs_done) link;
	bool armed;
	bool stashed;
	struct ibv_wc stash;		/* taken by cq_wait */
};

/* A receive queue, and the completions of its receives. */
struct verbs_rq {
	struct nam_rq pub;
	struct verbs_cq *cq;
	LIST_ENTRY(verbs_rq) link;
	struct ibv_srq *srq;
	struct verbs_done recvs;
	uint32_t depth;
	struct nam_recv *slots;		/* by wr_id */
	uint32_t *free;
	uint32_t free_count;
	bool watched;			/* the device says when it runs low, once */
};

struct verbs_place {
	uint8_t place[NAM_PLACE_BYTES];
	struct ibv_ah *ah;		/* NULL: it led nowhere */
	uint64_t tried_ns;
};

/* A datagram in a receive buffer; `bytes` with what is in front of it. */
struct verbs_arrival {
	uint32_t slot;
	uint32_t bytes;
};

struct verbs_endpoint {
	struct nam_endpoint pub;
	struct verbs_domain *domain;
	struct verbs_cq *cq;
	LIST_ENTRY(verbs_endpoint) link;
	void *context;
	struct ibv_qp *qp;
	struct verbs_done done;		/* completions of both kinds */
	bool failed;			/* nothing comes or goes until it is mended */
	uint64_t mended_ns;
	uint32_t inline_bytes;
	uint32_t receives;
	uint32_t head, tail;		/* of sends; they wrap around, as do the next ones */
	uint32_t taken, arrived;	/* of `slots` */
	struct verbs_arrival slots[VERBS_ENDPOINT_RECEIVES];
	uint8_t *buffer;		/* datagrams to send, then those received */
	struct ibv_mr *mr;
	struct verbs_place *places;	/* by handle */
	uint32_t places_count, places_size;
};

struct verbs_cq {
	struct nam_cq pub;
	struct verbs_domain *domain;
	/* owner thread only */
	struct ibv_comp_channel *channel;
	struct verbs_done sends;
	LIST_HEAD(, verbs_done) dones;	/* of all kinds: cq_wait looks at each */
	LIST_HEAD(, verbs_rq) rqs;
	LIST_HEAD(, verbs_endpoint) endpoints;
	uint32_t depth;
	uint32_t outstanding;		/* of all queue pairs */
	struct nam__spin spin;		/* of cq_wait */
	struct verbs_qp *last;		/* the last one found */
	SLIST_HEAD(, verbs_qp) hash[VERBS_HASH];
	SLIST_HEAD(, verbs_qp) broken;	/* with failed requests, or CLOSED, to report */
	struct ibv_send_wr wrs[VERBS_BATCH];
	struct ibv_sge sges[VERBS_BATCH];
	/* any thread */
	int wake_fd;
	_Atomic uint32_t woken;
	_Atomic uint32_t news;		/* length of `joining` and of `closed` */
	pthread_mutex_t mutex;
	SLIST_HEAD(, verbs_qp) joining;	/* accepted, not yet in `hash` */
	SLIST_HEAD(, verbs_qp) closed;
};

struct verbs_qp {
	struct nam_qp pub;
	struct ibv_qp *qp;
	struct verbs_cq *cq;
	struct verbs_domain *domain;
	struct verbs_sends sends;	/* owner */
	struct verbs_hold hold;		/* owner, but for its mutex */
	const struct nam_colocated *colocated;	/* NULL: nothing is colocated */
	const struct nam_colocated_share *share;	/* the peer's, if it is near */
	shm_read_fn copy;
	shm_write_fn copy_out;
	uint32_t inline_bytes;
	uint32_t serial;		/* in wr_id: numbers of queue pairs are used again */
	uint32_t number;
	uint8_t mtu;			/* enum ibv_mtu; at first the peer's wish */
	_Atomic uint32_t posts;		/* counts, so that the watcher sees traffic */
	/* unreliable_qp.c: of its two queue pairs the front is handed out, with its companion */
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
	SLIST_ENTRY(verbs_qp) hash_link, broken_link;
	/* cq mutex */
	bool closed_reported;
	bool joined;
	int closed_status;
	SLIST_ENTRY(verbs_qp) joining_link, closed_link;
	/* watch mutex */
	LIST_ENTRY(verbs_qp) watch_link;
	bool watched;
	/* of an unreliable queue pair: the connection that it ends with */
	struct verbs_qp *beside;
	uint32_t seen_posts;
	uint64_t tried_ns;		/* when the watcher last sent something by itself */
	_Atomic bool trying;		/* ... and the owner has not seen it complete */
	_Atomic bool dead;		/* no more such attempts */
	bool accepted;
	bool read_only;		/* the side that listens lets the other one READ only */
	struct rdma_cm_id *id;
};

struct nam_cm_request {
	struct rdma_cm_id *id;
	uint8_t reads_out, reads_in;
	uint8_t mtu;			/* the client's wish */
	bool answers;			/* it has been challenged */
	struct nam_hello hello;
};

#endif /* NAM_COMMON_FABRIC_VERBS_OBJECTS_H */
