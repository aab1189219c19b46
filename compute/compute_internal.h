/* SPDX-License-Identifier: Apache-2.0 */
/*
 * compute_internal.h -- the inside of clients and workers, for this room and for index/.
 *
 * Who owns what:
 *	client	connections' addresses, region table, membership, epochs; shared by threads
 *	worker	everything that the data path touches; one thread
 *	task	one fiber of a worker, or its plain thread
 */
#ifndef NAM_COMPUTE_COMPUTE_INTERNAL_H
#define NAM_COMPUTE_COMPUTE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "common/cluster.h"
#include "common/env.h"
#include "common/fabric/fabric.h"
#include "common/fabric/colocated.h"
#include "common/fiber/fiber.h"
#include "common/guard.h"
#include "common/layout.h"
#include "common/race.h"
#include "common/region_table.h"
#include "common/rpc/frame.h"
#include "common/rpc/rpc.h"
#include "client.h"
#include "remote.h"
#include "worker/completion.h"

#define NAM__CACHE_LINE 64

/* ---- client ------------------------------------------------------------------------------- */

struct nam__server {
	char address[128];
	const struct nam_fabric_ops *ops;
	struct nam_domain *domain;	/* shared by the servers of one provider */
	uint32_t id;
	uint32_t regions_count;
	uint64_t boot;
	atomic_bool dead;		/* seen closed by any worker; never cleared */
	struct nam_colocated *local;	/* how to READ its memory without a network; or NULL */
	bool near;			/* it is in this machine, and not by way of the fabric */
};

#define NAM__LOCAL_EPOCHS 4u	/* window of local epochs in which operations may be active */
/*
 * What an operation has seen in use is not reused during operations that begin up to so many local
 * epochs later: nam__seen_lately().
 */
#define NAM__EPOCH_MEMORY 2u
#define NAM__EPOCHS_NOTED 8u	/* a power of two, at least the sum of both */

struct nam__garbage;			/* epoch.c */

#define NAM__UNDER_WAY_MAX 256u		/* transactions of a client that hold locks to write */

struct nam_client {
	struct nam_client_options options;
	char name[48];
	uint32_t servers_count;
	struct nam__server *servers;
	uint16_t slot_of_id[NAM_SERVERS_MAX];	/* server id -> slot, or UINT16_MAX */
	uint32_t catalog_slot;		/* of server id 0 */
	struct nam_domain *domains[4];
	uint32_t domains_count;
	uint32_t caps;			/* what every server's provider promises */
	struct nam_region_table regions;

	uint16_t id;			/* owner in lock words */
	uint16_t incarnation;
	atomic_uint lock_sequence;
	atomic_uint_fast64_t transaction_us;	/* txn/: time of the last timestamp given or seen */
	atomic_uint_fast64_t under_way_us[NAM__UNDER_WAY_MAX];	/* txn/: each 0, or before one's */
	struct nam_gaddr epoch_word;
	struct nam_gaddr epoch_slots;	/* slot 0; this client's own: 8 * id bytes further */

	/* epoch.c: the epoch thread advances these; operations read local_epoch. */
	_Alignas(NAM__CACHE_LINE) atomic_uint_fast64_t local_epoch;
	atomic_bool pin_needs_fence;	/* the kernel has no membarrier */
	atomic_bool closing;
	struct nam_thread *epoch_thread;
	/* also the session connection: REGISTER went over it */
	struct nam_worker *epoch_worker;
	uint64_t remote_epoch_of[NAM__EPOCHS_NOTED];	/* epoch thread only */
	uint64_t oldest_local_epoch;	/* epoch thread only */
	uint64_t published_epoch;	/* epoch thread only: what the client's slot holds */
	uint64_t *epoch_buffer;	/* epoch thread only: registered, 8 bytes */
	/* epoch thread only: local_epoch was raised without a barrier */
	bool barrier_owed;
	atomic_uint_fast64_t limbo_leaked;	/* remote blocks given up */
	atomic_uint_fast64_t bytes_leaked;	/* of those blocks */
	atomic_uint_fast64_t bytes_unsure;	/* in stock, or in RPCs, as connections failed */
	atomic_uint_fast64_t garbage_leaked;	/* local memory given up */

	pthread_mutex_t mutex;		/* workers, garbage, table stores */
	struct nam_worker *workers;
	struct nam__garbage *garbage, *garbage_last;	/* oldest label first */

	struct nam__lock_table *locks;	/* lock.c */
	struct nam__table_store *table_stores;	/* txn/: under the mutex */
};

/* ---- worker ------------------------------------------------------------------------------- */

struct nam__task {
	struct nam_fiber *fiber;
	struct nam__task *next;		/* ready queue or free list */
	struct nam__task *made_next;	/* worker->tasks_made */
	struct nam_op_counters *counters;	/* of the operation under way */
	uint32_t pending;		/* signalled requests that it waits for */
	int rc;				/* first failure among them */
	uint64_t epoch;			/* local epoch of the operation under way */
	bool is_thread;			/* the plain thread, not a fiber */
	bool local;			/* it has READ locally and not given way since */
	void *scratch[4];		/* node buffers, taken on first use */
	uint32_t scratch_bytes;
	nam_fiber_fn fn;
	void *arg;
	struct nam_worker *worker;
};

struct nam__call;
struct nam__one_way;
struct nam__message;			/* rpc/call.c */
struct nam__block_cache;			/* alloc.c */
struct nam__limbo;			/* epoch.c */
struct nam__buffer_class {
	void *free;			/* first of a list through the buffers' first words */
};

/*
 * Tasks that wait to be told where to READ.  The search is cheaper for several keys at a time, as
 * the cache misses of each overlap with the others', so worker.c lets some gather before it calls
 * `run`, which posts their READs or makes them ready, and empties the list.
 */
#define NAM__GATHER_MAX 16u

struct nam__lock;			/* lock.h */

struct nam__gathered {
	struct nam__task *task;
	void *local;			/* where the READ goes; NULL: none is wanted */
	struct nam__lock *lock;		/* NULL, or lock what is READ: see nam__lock_post() */
	struct nam_gaddr *ret_at;	/* null: unknown, and nothing was posted */
};

struct nam__gather {
	void (*run)(struct nam_worker *worker);
	void *subject;			/* what they have in common */
	uint32_t count;
	uint64_t keys[NAM__GATHER_MAX];
	struct nam__gathered each[NAM__GATHER_MAX];
};

#define NAM__BUFFER_CLASSES 22u		/* 1 B .. 2 MiB */
#define NAM__RECV_BUFFERS 16u

struct nam_worker {
	/* data path */
	struct nam_client *client;
	struct nam_cq *cq;
	int (*cq_poll)(struct nam_cq *, struct nam_wc *, unsigned);
	int (*qp_post)(struct nam_qp *, const struct nam_wr *, unsigned);
	struct nam_qp **qps;		/* by server slot; NULL once closed */
	struct nam__task *current;
	struct nam__task *ready_head, *ready_tail;
	uint32_t ready_count;
	uint32_t closing_count;
	uint32_t slots_waiting;	/* nobody will tell when their replies have come */
	uint32_t lock_sequence, lock_sequence_end;	/* lock.c: this worker's share of numbers */
	bool lkeys_needed;		/* local memory must be registered on this fabric */
	bool in_post_order;		/* limits.in_post_order of it */
	uint32_t gather_enough;		/* so many do not wait for more */
	struct nam__gather gather;
	struct nam__task thread_task;
	struct nam_op_counters counters[NAM_OP_KINDS_COUNT];
	/* operations under way per local epoch & 3; the epoch thread reads them */
	_Alignas(NAM__CACHE_LINE) atomic_uint active[NAM__LOCAL_EPOCHS];

	/* control path */
	struct nam_rq *rq;
	struct nam_qp **closing;	/* their ends have been noticed, and not seen to */
	struct nam__task *tasks_free;
	struct nam__task *tasks_made;	/* all of them, to be freed */
	uint32_t tasks_alive;
	uint32_t polls;			/* since deadlines were looked at */
	struct nam__call *calls;	/* RPCs waiting for a reply */
	struct nam__one_way **one_way;	/* by server slot; NULL: there were none */
	struct nam__client_mailbox **mailboxes;	/* by server slot; NULL: everything goes by SEND */
	struct nam_frame *frame;	/* a copy of a reply that came to a client mailbox */
	struct nam_rq *datagram_rq;	/* NULL without unreliable queue pairs */
	uint8_t *datagrams;
	struct nam_mr datagrams_mr;
	uint64_t call_ids;
	void **async_done;		/* contexts that nam_async_poll has not handed out */
	uint32_t async_done_count;
	uint32_t async_pending;		/* posted, not handed out */
	uint32_t async_size;		/* room in async_done, for all that are pending */
	int async_rc;
	struct nam__buffer_class buffers[NAM__BUFFER_CLASSES];
	struct nam__slab *slabs;	/* what the buffers were cut from */
	struct nam__block_cache *block_caches;
	uint32_t alloc_next;		/* round robin */
	struct nam__limbo *limbo;
	struct nam_rng rng;
	size_t bytes;
	struct nam_worker *next;	/* client->workers */
	struct nam_diag diag;
};

/* worker.c */
int nam__worker_new(struct nam_client *client, struct nam_worker **ret_worker,
	struct nam_diag *diag) NAM_MUST_CHECK;	/* not yet in client->workers */
void nam__worker_free(struct nam_worker *worker);

/* Completions taken at a time: few, so that work on each overlaps with the others' misses. */
#define NAM__POLL_BATCH 2u

/* See to one completion, whosoever it is; and, after some, to connections that have ended. */
void nam__completed(struct nam_worker *worker, const struct nam_wc *wc);
void nam__closings_end(struct nam_worker *worker);
static inline void
nam__closings_see_to(struct nam_worker *worker)
{
	if (__builtin_expect(worker->closing_count != 0, 0))
		nam__closings_end(worker);
}

/* Take completions and make tasks ready.  Returns how many completions there were. */
int nam__poll(struct nam_worker *worker);

/* Wait until the current task's pending requests are done.  Returns its rc and clears it. */
NAM_FIBER_FN int nam__task_await(struct nam_worker *worker) NAM_MUST_CHECK;

/* Leave the current task until nam__task_ready() is called for it. */
NAM_FIBER_FN void nam__suspend(struct nam_worker *worker);

/* Fill what names the remote side of a request.  The server's slot, or negative. */
static inline int
nam__resolve(const struct nam_worker *worker, struct nam_gaddr at, uint32_t offset_bytes,
	struct nam_wr *wr)
{
	const struct nam_region *region = nam_region_table_find(&worker->client->regions, at);

	if (!region)
		return -NAM_E_NOREGION;
	wr->remote = region->remote + nam_gaddr_offset(at) + offset_bytes;
	wr->rkey = region->rkey;
	return (int)region->server;
}

/*
 * What a request is, in one store: a provider loads it whole, and a load of what was stored in
 * pieces waits until they have left for the cache.
 */
static inline __attribute__((always_inline)) void
nam__wr_begin(struct nam_wr *wr, uint8_t op, uint8_t flags)
{
	wr->op = op;
	wr->flags = flags;
	wr->reserved = 0;
}

/* Post a READ that `task` waits for, which is not the current one; a failure makes it ready. */
void nam__read_for(struct nam_worker *worker, struct nam__task *task, struct nam_gaddr at,
	void *local, uint32_t bytes);

/* Let the ready fibers run, if there are any, without looking for completions. */
NAM_FIBER_FN void nam__give_way(struct nam_worker *worker);

/* Give way for about `ns`; for back-off.  Runs other fibers, and sleeps if there is none to run. */
NAM_FIBER_FN void nam__pause_await(struct nam_worker *worker, uint64_t ns);

/* client.c: 0, or -NAM_E_FABRIC_CAPABILITY for a fabric that promises too little. */
int nam__caps_check(uint32_t caps, const char *fabric, struct nam_diag *diag) NAM_MUST_CHECK;

/* client.c: connect this worker's queue pairs, or say which server refused and why. */
int nam__connect_qps(struct nam_worker *worker, struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * presence.c: which clients have a queue pair to any of the memory servers.  Nothing can take
 * effect any more of what a worker posted that was seen at work before, and whose client is not
 * among them.  Cost: 1 RPC to each.
 */
struct nam__presence {
	uint64_t ids[NAM_CLIENTS_MAX / 64];
};

NAM_FIBER_FN int nam__presence_ask(struct nam_worker *worker, struct nam__presence *ret_presence)
	NAM_MUST_CHECK;

/* The slot of the memory server that gave out a block, or UINT16_MAX: there is none. */
static inline uint16_t
nam__server_slot(const struct nam_client *client, struct nam_gaddr block)
{
	uint32_t id = nam_gaddr_region(block) / NAM_REGIONS_PER_SERVER;

	return id < NAM_SERVERS_MAX ? client->slot_of_id[id] : UINT16_MAX;
}

static inline bool
nam__presence_has(const struct nam__presence *presence, uint32_t client_id)
{
	return presence->ids[client_id % NAM_CLIENTS_MAX / 64] >> client_id % 64 & 1;
}

/* local.c: find out which servers' memory is this host's, for connections made from now on. */
NAM_FIBER_FN void nam__colocated_open(struct nam_client *client);
void nam__colocated_close(struct nam_client *client);

/*
 * remote.c: post what was collected, so that there is room for more; nam_batch_await() awaits it,
 * too, and all is one round trip.  What is wrong then is said by that.
 */
void nam__batch_post(struct nam_batch *batch);

/*
 * remote.c: READs wherever they lie, of who has them all at hand: what nam_batch_read() and
 * nam_batch_await() do, with each request written once, and in any order.
 */
struct nam__read {
	struct nam_gaddr at;
	void *local;			/* from nam_buffer_take() */
	uint32_t bytes;
};

/*
 * 1 to NAM_BATCH_MAX of them.  0, or -NAM_E_NOREGION: nothing was posted, or -NAM_E_FABRIC_*.
 * Cost: 1 round trip, one doorbell per memory server touched; or one for each, where that is but a
 * call (in_post_order).
 */
NAM_FIBER_FN int nam__reads_await(struct nam_worker *worker, const struct nam__read *reads,
	uint32_t count) NAM_MUST_CHECK;

/* buffer.c */
void nam__buffers_free(struct nam_worker *worker);
uint32_t nam__buffer_lkey_find(const struct nam_worker *worker, const void *local);

/* The registration that holds `local`; providers that need none give slabs the lkey 0. */
static inline uint32_t
nam__buffer_lkey(const struct nam_worker *worker, const void *local)
{
	return worker->lkeys_needed ? nam__buffer_lkey_find(worker, local) : 0;
}

/*
 * A registered buffer of the current task: number 0 .. 3, at least `bytes` long.  NULL: no memory.
 */
void *nam__scratch(struct nam_worker *worker, unsigned number, uint32_t bytes);

void nam__task_ready(struct nam_worker *worker, struct nam__task *task);

/*
 * Post the requests of a slot's queue pair for a task that waits for them; failures end up in its
 * rc.  True if they were local, and are done: no round trip, then.
 */
bool nam__post_for(struct nam_worker *worker, struct nam__task *task, uint32_t slot,
	struct nam_wr *wrs, unsigned count);
static inline bool
nam__post(struct nam_worker *worker, uint32_t slot, struct nam_wr *wrs, unsigned count)
{
	return nam__post_for(worker, worker->current, slot, wrs, count);
}

/*
 * What qp_post said was not 0: those of a task are local, or they are posted anew or fail.  True if
 * they were local.
 */
bool nam__posted_otherwise(struct nam_worker *worker, uint32_t slot, struct nam_wr *wrs,
	unsigned count, int rc);
/* READs were local, and their bytes had been counted. */
void nam__count_local(struct nam__task *task, const struct nam_wr *wrs, unsigned count);

/*
 * rpc/call.c: a request under way.  It belongs to who began it and must stay where it is until it
 * has been awaited.
 */
struct nam__call {
	struct nam__call *next;		/* worker->calls */
	uint64_t id;
	uint64_t deadline_ns;
	struct nam__task *task;		/* that awaits it, until the deadline; or NULL */
	struct nam_op_counters *counters;
	struct nam__message *message;	/* NULL once the SEND has completed */
	/* NULL unless it went by a client mailbox, which still waits */
	struct nam__request_slot *req;
	void *body;			/* where the reply's body goes */
	uint32_t body_size;		/* room there */
	uint32_t body_bytes;		/* of the reply */
	uint32_t slot;
	uint32_t acknowledged;		/* passive requests, when it began */
	int rc;
	uint16_t type;
	bool by_send;			/* whatever the RPC transport */
	bool local;			/* it left without the network */
	bool done;
};

/*
 * As nam_rpc_call(), in two steps, so that several can be under way: 0, or it has not begun.  The
 * wait, for one or several, is the caller's to count as a round trip, unless all are local.  Time
 * runs from await on.
 */
int nam__rpc_begin(struct nam_worker *worker, struct nam__call *call, uint32_t slot, uint16_t type,
	const void *body, uint32_t body_bytes, void *ret_body, uint32_t ret_size) NAM_MUST_CHECK;
NAM_FIBER_FN int nam__rpc_await(struct nam_worker *worker, struct nam__call *call,
	uint32_t *ret_bytes) NAM_MUST_CHECK;

/* A call that follows all passive requests so far, as does its reply what is said of them. */
NAM_FIBER_FN int nam__rpc_ping_by_send(struct nam_worker *worker, uint32_t slot) NAM_MUST_CHECK;
/* Send a request that nobody waits for.  0, with its id, or as nam_rpc_call(). */
int nam__rpc_post_one_way(struct nam_worker *worker, uint32_t slot, uint16_t type, const void *body,
	uint32_t body_bytes, uint64_t *ret_id) NAM_MUST_CHECK;

/*
 * rpc/one_way.c: the passive requests of a connection, by number.  Those up to `acknowledged` were
 * carried out, failed or not; the others may have been.
 */
struct nam__one_way {
	uint32_t sent, acknowledged;
	uint32_t failed;		/* of those acknowledged */
	int rc;				/* the first failure that nobody has been told of */
	struct {
		uint64_t id;
		bool failed;		/* said so itself */
	} each[NAM_PASSIVES_MAX];
};

/* A reply has come over the connection; to `call`, unless NULL. */
void nam__one_way_hear(struct nam__one_way *one_way, const struct nam_rpc_header *header,
	const struct nam__call *call);
/* The connection has ended.  Accepts NULL. */
void nam__one_way_closed(struct nam__one_way *one_way);

/* rpc/call.c: what worker.c calls. */
void nam__rpc_server_closed(struct nam_worker *worker, uint32_t slot);
void nam__rpc_check_deadlines(struct nam_worker *worker);
int nam__rpc_post_receives(struct nam_worker *worker) NAM_MUST_CHECK;

/* A message of that server's, wherever it was found: it ends the call that it answers, if any. */
void nam__rpc_reply(struct nam_worker *worker, uint32_t slot, const void *message, uint32_t bytes);
/* Take the call off the list and let its task go on. */
void nam__call_end(struct nam_worker *worker, struct nam__call *call, int rc);

/*
 * rpc/mailbox.c: a connection's side of the memory server's mailbox (common/rpc/frame.h).  A
 * request slot is a request on its way, from its WRITE until the reply has been taken.
 */
struct nam__request_slot {
	struct nam__completion completion;
	struct nam__client_mailbox *box;
	struct nam__call *call;		/* NULL once it has ended */
	struct nam_op_counters *counters;
	enum { NAM__SLOT_FREE, NAM__SLOT_WRITING, NAM__SLOT_WAITING, NAM__SLOT_FETCHING }
		state;
	bool fetch;			/* the reply stays at the memory server */
	/* unreliable queue pair: while the request has not left yet */
	bool answered;
	uint16_t tries;			/* unreliable queue pair: that it was written again */
	uint32_t bytes;			/* unreliable queue pair: of the message */
	bool rang;			/* for it, so the memory server rings back */
	uint32_t number;
	uint32_t fetches;		/* READs that looked for the reply */
	uint32_t here;			/* bytes of the reply's frame that have been READ */
	uint32_t wanted;		/* ... that are to be */
	uint64_t written_ns;		/* the request was there */
	uint64_t due_ns;		/* when to look again */
	uint64_t first_ns;		/* unreliable queue pair: the first try had left */
};

struct nam__client_mailbox {
	struct nam_worker *worker;
	struct nam_domain *domain;
	struct nam_mr mr;		/* our share: the word, replies; requests; what was READ */
	struct nam_wire_mailbox_welcome server;
	uint32_t slot;
	uint32_t fetch_bytes;		/* 0: replies are never fetched */
	/* the memory server's, if it is a file of this host */
	struct nam_colocated_share share;
	bool near;			/* it is in this machine: requests and fetches are copies */
	/* numbers of the last request slots posted, and done with */
	uint32_t sent, taken;
	/* request slots in that state, and one for a ring that is owed */
	uint32_t waiting;
	struct nam_qp *unreliable_qp;		/* NULL unless the RPC transport is datagram */
	uint64_t takes_ns;		/* ... what a call usually does */
	uint32_t rung;			/* the last turn of the memory server's that we rang for */
	bool ring_owed;
	bool reply;			/* the memory server is slow: it is to reply by WRITE */
	uint32_t slow, quick;		/* request slots in a row */
	struct nam__request_slot slots[NAM_FRAMES];
	struct nam__request_slot ring;	/* stands for its SEND */
};

/*
 * A share for a connection about to be made, and an unreliable queue pair if the RPC transport
 * wants one; appends what the memory server has to know to its hello.  0, with the hello's flags,
 * or why not.
 */
int nam__client_mailbox_new(struct nam_worker *worker, uint32_t slot, enum nam_transport transport,
	struct nam_hello *hello, uint32_t *ret_flags, struct nam__client_mailbox **ret_box)
	NAM_MUST_CHECK;
/* What the memory server answered over this queue pair: 0 or -NAM_E_FABRIC_PROTOCOL. */
int nam__client_mailbox_welcome(struct nam__client_mailbox *box, struct nam_qp *qp,
	const struct nam_hello *reply) NAM_MUST_CHECK;
/* The queue pair has been destroyed.  Accepts NULL. */
void nam__client_mailbox_free(struct nam__client_mailbox *box);
/*
 * Take a place for a request, and fill in what posts it; false: it is too long, or all places are
 * taken, so it must go by SEND.
 */
bool nam__client_mailbox_write(struct nam__client_mailbox *box, struct nam__call *call,
	const void *body,
	uint32_t body_bytes, struct nam_wr *ret_wr);
/* It was not posted after all.  The last taken goes first. */
void nam__client_mailbox_unwrite(struct nam__request_slot *req);
/* The processor has copied it. */
void nam__client_mailbox_written_locally(struct nam__request_slot *req);
/* The handler of a request slot: its WRITE, its READ or its SEND has completed. */
void nam__request_slot_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc);
/* The memory server has rung back.  Accepts NULL. */
void nam__client_mailbox_rung(struct nam__client_mailbox *box);
/* Look for replies, if worker->slots_waiting.  Returns how many there were. */
int nam__client_mailboxes_poll(struct nam_worker *worker);
/* How long the worker may sleep, at most wait_ns, before it looks again. */
uint64_t nam__client_mailboxes_patience(const struct nam_worker *worker, uint64_t wait_ns);

/*
 * The states of a request slot, for rpc/mailbox.c and datagram.c: it waits until `due_ns`, or for
 * its reply; its place is free; its call, if it still has one, fails.
 */
void nam__request_slot_wait(struct nam__request_slot *req, uint64_t due_ns);
void nam__request_slot_free(struct nam__request_slot *req);
void nam__request_slot_fail(struct nam__request_slot *req, int rc);
void nam__request_slot_writing(struct nam__request_slot *req);
/* Where its request lies. */
struct nam_frame *nam__request_slot_request(const struct nam__request_slot *req);
/* What posts that. */
void nam__request_slot_write(struct nam__request_slot *req, struct nam_wr *ret_wr);
/*
 * Wake the memory server, if it said that it goes to sleep and nobody of us has rung since.
 * Whether we did.
 */
bool nam__client_mailbox_ring(struct nam__client_mailbox *box, struct nam_op_counters *counters);

/*
 * datagram.c: the same over an unreliable queue pair.  Buffers for replies, before the first
 * unreliable queue pair is made.
 */
int nam__datagrams_open(struct nam_worker *worker, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__datagrams_close(struct nam_worker *worker);
/* A request has left. */
void nam__datagram_left(struct nam__request_slot *req);
/* One that waits: its time may be over. */
void nam__datagram_look(struct nam__request_slot *req);
/* A receive buffer and its handler. */
struct nam__datagram {
	struct nam__completion completion;
	uint8_t reserved[NAM__CACHE_LINE - sizeof(struct nam__completion)];
	uint8_t bytes[];
};

void nam__datagram_completed(struct nam_worker *worker, struct nam__completion *completion,
	const struct nam_wc *wc);

/* epoch.c: before the client's first thread is started; and when it has joined the cluster. */
void nam__epoch_thread_prepare(struct nam_client *client);
int nam__epoch_thread_start(struct nam_client *client, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__epoch_thread_stop(struct nam_client *client);	/* joins; zeroes the epoch slot */
/* Free `memory` with free() once no operation of this process can be using it. */
void nam__garbage_add(struct nam_client *client, void *memory);
/* Blocks in limbo: label them, and put those that nobody can see into the stock. */
NAM_FIBER_FN int nam__limbo_advance(struct nam_worker *worker, uint64_t *ret_reusable)
	NAM_MUST_CHECK;
/* Whether it is worth its cost, for who retires and has no collector to do it. */
bool nam__limbo_due(const struct nam_worker *worker);
void nam__limbo_free(struct nam_worker *worker);
/*
 * Retire a block for which something is left to do once nobody can see it any more: it does not go
 * to the stock but waits to be taken, as it was named here, tag included.
 */
void nam__retire_kept(struct nam_worker *worker, const void *owner, struct nam_gaddr at,
	uint32_t stride);
/* One of this owner's; false: there is none. */
bool nam__limbo_take(struct nam_worker *worker, const void *owner, struct nam_gaddr *ret_at);
/* One that was taken, for another time. */
void nam__limbo_give_back(struct nam_worker *worker, const void *owner, struct nam_gaddr at,
	uint32_t stride);
/* Whether any is to be taken now, or will be. */
bool nam__limbo_has(const struct nam_worker *worker, const void *owner);
uint64_t nam__limbo_bytes(const struct nam_worker *worker);
/* Note that a remote block was given up. */
void nam__block_leaked(struct nam_client *client, uint32_t stride);

/* alloc.c */
void nam__block_cache_put(struct nam_worker *worker, struct nam_gaddr at, uint32_t stride);
/* everything, to the servers */
NAM_FIBER_FN void nam__block_cache_return(struct nam_worker *worker);
/* What the stock holds beyond its own needs goes back to the servers. */
NAM_FIBER_FN void nam__block_cache_trim(struct nam_worker *worker);
void nam__block_cache_free(struct nam_worker *worker);
/* What is in stock; and what RPCs without an answer, yet or for good, move or have moved. */
void nam__block_cache_bytes(const struct nam_worker *worker, uint64_t *ret_cache,
	uint64_t *ret_unsure);

/* From here to its end nothing is reused that was in sight at the beginning. */
static inline uint64_t
nam__epoch_pin(struct nam_worker *worker)
{
	struct nam_client *client = worker->client;

	for (;;) {
		uint64_t epoch = atomic_load_explicit(&client->local_epoch, memory_order_acquire);
		atomic_uint *active = &worker->active[epoch % NAM__LOCAL_EPOCHS];

		atomic_store_explicit(active,
			atomic_load_explicit(active, memory_order_relaxed) + 1,
			memory_order_relaxed);
		/*
		 * Pairs with the epoch thread, which raises local_epoch, makes every thread of the
		 * process pass a full barrier (membarrier), and then reads `active`: either it sees
		 * our increment, or we see its new epoch here and pin that instead.
		 */
		if (atomic_load_explicit(&client->pin_needs_fence, memory_order_relaxed))
			atomic_thread_fence(memory_order_seq_cst);
		else
			atomic_signal_fence(memory_order_seq_cst);
		if (atomic_load_explicit(&client->local_epoch, memory_order_relaxed) == epoch)
			return epoch;
		atomic_store_explicit(active,
			atomic_load_explicit(active, memory_order_relaxed) - 1,
			memory_order_release);
	}
}

static inline void
nam__epoch_unpin(struct nam_worker *worker, uint64_t epoch)
{
	atomic_uint *active = &worker->active[epoch % NAM__LOCAL_EPOCHS];

	/*
	 * Release: whatever the operation read, it has read before the epoch thread sees it gone.
	 */
	atomic_store_explicit(active, atomic_load_explicit(active, memory_order_relaxed) - 1,
		memory_order_release);
}

/*
 * Every operation of the rooms above runs between nam__op_begin() and nam__op_end(): they choose
 * whose counters are charged and keep what the operation may see from being reused.  No nesting: an
 * operation that needs another one ends, and resumes after it, and then what it saw before may have
 * been reused, unless it pinned an epoch before.
 */
static inline void
nam__op_resume(struct nam_worker *worker, enum nam_op_kind kind)
{
	struct nam__task *task = worker->current;

	task->counters = &worker->counters[kind];
	task->epoch = nam__epoch_pin(worker);
}

static inline void
nam__op_begin(struct nam_worker *worker, enum nam_op_kind kind)
{
	worker->counters[kind].ops++;
	nam__op_resume(worker, kind);
}

static inline void
nam__op_end(struct nam_worker *worker)
{
	struct nam__task *task = worker->current;

	nam__epoch_unpin(worker, task->epoch);
	task->counters = &worker->counters[NAM_OP_OTHER];
}

/*
 * Whether remote blocks that an operation of local epoch `epoch` saw in use, not taken out of sight
 * yet, cannot be reused before the operation under way ends.
 */
static inline bool
nam__seen_lately(const struct nam_worker *worker, uint64_t epoch)
{
	return worker->current->epoch - epoch <= NAM__EPOCH_MEMORY;
}

static inline void
nam__count_restart(struct nam_worker *worker, enum nam_restart_cause cause)
{
	worker->current->counters->restarts[cause]++;
}

#endif /* NAM_COMPUTE_COMPUTE_INTERNAL_H */
