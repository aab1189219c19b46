/* SPDX-License-Identifier: Apache-2.0 */
/* objects.h -- the objects of a simulation: events, threads, processes, queues, messages. */
#ifndef NAM_COMMON_SIM_OBJECTS_H
#define NAM_COMMON_SIM_OBJECTS_H

#include <sys/queue.h>

#include "common/fiber/switch.h"
#include "sim.h"

#define SIM_NEVER UINT64_MAX
#define SIM_INLINE_BYTES 128u
#define SIM_QP_DEPTH 256u
#define SIM_CONNECT_NS 5000000000ull
#define SIM_NAME_BYTES 32u
#define SIM_TAIL_BYTES 8u	/* the last step of an ordered READ */

/* ---- events ------------------------------------------------------------------------------- */

struct sim_event {
	uint64_t time;
	uint64_t number;
	uint32_t place;			/* in the heap, counted from 1; 0: not planned */
	void (*due)(struct sim_event *event);	/* NULL: a thread goes on */
};

/* ---- threads and processes ---------------------------------------------------------------- */

struct sim_thread {
	struct sim_event event;		/* first: it goes on */
	struct nam_fiber here;		/* whatever stack it waits on */
	struct nam_fiber *home;		/* the stack it was given */
	struct nam_sim_process *process;
	LIST_ENTRY(sim_thread) link;	/* of the process */
	struct sim_thread *joiner;
	nam_thread_fn fn;
	void *arg;
	uint64_t debt_ns;		/* of work since it went on */
	uint64_t earliest_ns;		/* when that work is done */
	SLIST_ENTRY(sim_thread) waiting;	/* at a gate */
	uint32_t id;
	uint32_t idle_polls;		/* cq_polls in a row that returned nothing */
	bool started, done, waits, woken, polls;
	bool held;			/* was to go on while its process was stalled or dead */
	char name[16];
};

enum sim_state {
	SIM_RUNS = 0,
	SIM_STALLED,
	SIM_DEAD,
	SIM_ZOMBIE,
};

struct sim_domain;

struct nam_sim_process {
	STAILQ_ENTRY(nam_sim_process) link;	/* in the order of starting */
	LIST_HEAD(, sim_thread) threads;
	LIST_HEAD(, sim_domain) domains;
	struct sim_nic *nic;		/* NULL: no network, or nothing sent yet */
	uint64_t clock_base_ns;
	int64_t clock_ppm;
	uint32_t id;
	uint32_t threads_alive;
	enum sim_state state;
	uint32_t machine;		/* 0: its own */
	uint32_t port;			/* of its card */
	uint32_t slowness;		/* 0, 1: as fast as the others */
	bool spared, borrows;
	bool serves;			/* has listened: a memory server */
	char name[SIM_NAME_BYTES];
};

/* ---- memory ------------------------------------------------------------------------------- */

struct sim_mr {
	uint8_t *base;			/* NULL: released */
	uint64_t bytes;
	uint64_t remote;
	uint32_t rights;
	bool mapped;			/* ours: region_alloc */
	bool share;			/* ... share_alloc: one peer may write it */
};

struct sim_qp;

struct sim_domain {
	struct nam_domain pub;
	struct nam_sim_process *process;
	LIST_ENTRY(sim_domain) link;	/* of the process */
	LIST_HEAD(, sim_qp) qps;
	struct sim_mr *mrs;
	uint32_t mrs_count, mrs_size;
	uint32_t id;
};

/* ---- queues ------------------------------------------------------------------------------- */

struct sim_message;

struct sim_cq {
	struct nam_cq pub;
	struct sim_thread *waiter;
	struct nam_wc *ring;
	uint32_t head, tail, mask;
	uint32_t depth;
	uint32_t outstanding;		/* requests posted and not completed */
	uint32_t id;
	bool woken;
	bool polled;			/* its waiter spins, and may be looking at memory, too */
};

struct sim_rq {
	struct nam_rq pub;
	struct nam_recv *recvs;
	uint32_t head, tail, depth;
	TAILQ_HEAD(, sim_message) waiting;	/* SENDs that found no buffer, oldest first */
};

enum sim_class { SIM_READ, SIM_WRITE, SIM_ATOMIC, SIM_SEND, SIM_CLASSES };

/* With a network: what a card knows of a queue pair. */
struct sim_flow {
	struct sim_nic *nic;
	struct sim_message *blocked;	/* the first that has not been sent, with all after it */
	uint64_t arrived_ns;		/* the last at the other side: nothing overtakes it */
	uint32_t number;		/* of the card's queue pairs */
	uint32_t in_flight;
	uint32_t fetching;		/* READs and atomics in flight */
	uint8_t port;
};

struct sim_qp {
	struct nam_qp pub;
	struct sim_event event;		/* its peer's end is noticed */
	struct sim_domain *domain;	/* NULL: what is left of a queue pair after its process */
	struct sim_cq *cq;
	struct sim_rq *rq;
	struct sim_qp *peer;		/* NULL once either side is destroyed */
	LIST_ENTRY(sim_qp) link;	/* domain->qps, or the peer's effects */
	LIST_HEAD(, sim_qp) effects;	/* of peers that have ended: messages still in flight */
	STAILQ_HEAD(, sim_message) messages;	/* posted and not completed, in order */
	uint32_t outstanding;
	uint32_t unfinished[SIM_CLASSES];	/* not yet carried out */
	uint32_t held;			/* messages that wait for earlier ones */
	struct sim_flow flow;		/* with a network */
	uint32_t id;
	int error;
	/* may lose things; without a domain: what is under way */
	bool unreliable_qp;
	bool peer_reads;	/* the peer may only READ regions */
	/* unreliable queue pair: what has left it; one of the peer's effects */
	struct sim_qp *transit;
	bool colocated;			/* requests may be copies, if the peer is near */
	bool ready;			/* its side has connected; or unreliable */
	bool closed;			/* CLOSED is in the completion queue */
	bool cut;			/* what is under way from here no longer arrives */
	uint64_t zombies_ns;		/* its peer's end is not noticed before that */
	void (*broken)(struct sim_qp *qp);	/* nam__sim_qp_broken(), for messages */
	/* unreliable: a message has left, or is lost */
	void (*left)(struct sim_message *message);
};

enum sim_message_state {
	SIM_HELD = 0,			/* must wait for earlier ones */
	SIM_STEPS,			/* being carried out */
	SIM_RNR,			/* a SEND without a receive buffer */
	SIM_ANSWER,			/* carried out; the acknowledgement is on its way */
	SIM_DONE,			/* completes when those before it have */
};

struct sim_message {
	struct sim_event event;		/* first */
	struct sim_qp *qp;
	STAILQ_ENTRY(sim_message) link;	/* of the queue pair, or free */
	TAILQ_ENTRY(sim_message) waiting_link;	/* of the receive queue */
	uint8_t *target;
	uint8_t *local;
	void *owned;			/* a copy of what was at `local`, or NULL */
	void *context;
	uint64_t id;
	uint64_t compare, swap;
	uint64_t earliest_ns;
	uint64_t remote;
	uint64_t pause_ns;		/* once, before step pause_step */
	uint32_t pause_step;
	uint32_t bytes;
	uint32_t step_ns, answer_ns;
	uint32_t first_bytes;		/* up to the first boundary of steps in the middle */
	uint32_t lead, middle;		/* steps in order; steps in any order; then perhaps one */
	uint32_t steps, done;
	uint32_t factor, shift;		/* middle step i is piece (factor * i + shift) % middle */
	uint32_t holders;		/* earlier messages that it waits for */
	uint32_t break_step;		/* the queue pair breaks before this one; UINT32_MAX */
	int status;
	uint8_t op, flags, class, state;
	uint8_t passes;			/* left, READ */
	bool in_flight;			/* with a network: sent and not answered */
	bool served;			/* ... the other side's card has had it */
	bool received;			/* ... and so has its own */
	bool zombie;			/* arrives late, after its sender's end */
	uint8_t inline_data[SIM_INLINE_BYTES];
};

/* ---- connections -------------------------------------------------------------------------- */

struct sim_listener {
	struct nam_listener pub;
	struct sim_domain *domain;
	LIST_ENTRY(sim_listener) link;
	struct sim_thread *waiter;
	STAILQ_HEAD(, nam_cm_request) arrived;	/* and not yet asked about */
	bool woken;
	uint32_t challenges;		/* so many were sent */
	char name[SIM_NAME_BYTES * 2];
};

enum sim_verdict { SIM_NONE = 0, SIM_ACCEPTED, SIM_REJECTED, SIM_CHALLENGED };

struct nam_cm_request {
	struct sim_event event;		/* first: arrives at the listener */
	STAILQ_ENTRY(nam_cm_request) arrived_link;
	LIST_ENTRY(nam_cm_request) link;	/* sim.requests */
	struct sim_listener *listener;	/* NULL: closed meanwhile */
	struct sim_qp *qp;		/* the client's; NULL: it gave up */
	struct sim_thread *waiter;
	struct nam_hello hello, challenge, answer, reply;
	uint32_t from;			/* process */
	uint32_t number;		/* of its challenge, from 1 on; 0: none yet */
	uint64_t challenged_ns;
	enum sim_verdict verdict;
};

struct sim_call {
	struct sim_event event;		/* first */
	void (*fn)(void *arg);
	void *arg;
};

struct sim_endpoint;
struct sim_datagram;

/* ---- the simulation ----------------------------------------------------------------------- */

struct sim_slot {
	uint64_t time, number;
	struct sim_event *event;
};

struct sim {
	bool active;
	bool quiet;			/* only zombie threads are left */
	struct nam_sim_options options;
	uint32_t caps;
	/* order[a][b]: b, posted after a, waits until a has been carried out */
	bool order[SIM_CLASSES][SIM_CLASSES];
	uint64_t now;
	struct sim_thread *current;	/* NULL while an event is handled */
	struct sim_thread main;		/* the caller of nam_sim_run() */
	STAILQ_HEAD(, nam_sim_process) processes;
	/* of processes that run or are stalled, or zombie threads */
	uint32_t threads_alive;
	int rc;
	/* heap.c */
	struct sim_slot *heap;
	uint32_t heap_count, heap_size;
	uint64_t numbers;
	/* chance, a stream for each use */
	struct nam_rng chance, faults, entropy, scenario;
	/* connect.c */
	LIST_HEAD(, sim_listener) listeners;
	LIST_HEAD(, nam_cm_request) requests;
	const struct nam_sim_process *cuts[64][2];	/* they do not reach each other */
	uint32_t cuts_count;
	/* endpoint.c */
	struct sim_endpoint **endpoints;	/* by number; NULL: closed */
	uint32_t endpoints_count, endpoints_size;
	LIST_HEAD(, sim_datagram) datagrams;
	/* messages.c */
	STAILQ_HEAD(, sim_message) free_messages;
	SLIST_HEAD(, sim_chunk) chunks;
	uint64_t message_ids;
	struct sim_directed {
		struct sim_thread *thread;
		uint64_t delay_ns;
		uint32_t before_step;
		uint32_t passing;	/* such messages that go before it */
		uint8_t op;
	} directed;
	uint32_t ids;			/* threads, processes, queues: one series */
	void (*on_race)(const char *name);
	SLIST_HEAD(, sim_nic) nics;
	/* the trace */
	struct nam_sim_counts counts;
};

extern struct sim nam__sim;

#endif /* NAM_COMMON_SIM_OBJECTS_H */
