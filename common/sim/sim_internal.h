/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_internal.h -- the inside of the simulator.
 *
 *	event		something that will happen at a time: a thread goes on, a message makes its
 *			next step, a queue pair notices its peer's end, a connection request
 *			arrives, a call
 *	thread		a stack; whoever waits takes events from the queue, on its own stack, until
 *			one of them makes a thread go on, and switches there; there is no scheduler
 *	message		a posted request, from the doorbell to its completion
 *
 * ORDER: events are taken by (time, number); numbers ascend in the order of planning.  While a
 * message's next step is due before every other event, it goes on without queueing anew.
 *
 * TIME: code between two waits takes no virtual time by itself.  Calls of the fabric and of the
 * clock put a thread in debt, which it pays when it waits: then others catch up.
 */
#ifndef NAM_COMMON_SIM_SIM_INTERNAL_H
#define NAM_COMMON_SIM_SIM_INTERNAL_H

#include "common/fiber/switch.h"
#include "sim.h"

#define SIM_NEVER UINT64_MAX
#define SIM_INLINE_BYTES 128u
#define SIM_QP_DEPTH 256u
#define SIM_CONNECT_NS 5000000000ull
#define SIM_NAME_BYTES 32u

/* ---- events ------------------------------------------------------------------------------- */

enum sim_event_kind {
	SIM_EVENT_THREAD = 1,
	SIM_EVENT_MESSAGE,
	SIM_EVENT_CLOSE,
	SIM_EVENT_REQUEST,
	SIM_EVENT_CALL,
};

struct sim_event {
	uint64_t time;
	uint64_t number;
	uint32_t place;			/* in the heap, counted from 1; 0: not planned */
	uint8_t kind;			/* enum sim_event_kind */
};

/* ---- threads and processes ---------------------------------------------------------------- */

struct sim_thread {
	struct sim_event event;		/* first: it goes on */
	struct nam_fiber here;		/* whatever stack it waits on */
	struct nam_fiber *home;		/* the stack it was given */
	struct nam_sim_process *process;
	struct sim_thread *next;	/* of the process */
	struct sim_thread *joiner;
	nam_thread_fn fn;
	void *arg;
	uint64_t debt_ns;		/* of work since it went on */
	uint64_t earliest_ns;		/* when that work is done */
	struct sim_thread *next_waiting;	/* at a gate */
	uint32_t id;
	uint32_t idle_polls;		/* cq_polls in a row that returned nothing */
	bool started, done, waits, woken;
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
	struct nam_sim_process *next;	/* in the order of starting */
	struct sim_thread *threads;
	struct sim_domain *domains;
	struct sim_nic *nic;		/* NULL: no network, or nothing sent yet */
	uint64_t clock_base_ns;
	int64_t clock_ppm;
	uint32_t id;
	uint32_t threads_alive;
	enum sim_state state;
	uint32_t machine;		/* 0: its own */
	uint32_t port;			/* of its card */
	uint32_t slowness;		/* 0, 1: as fast as the others */
	bool spared;
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
	struct sim_domain *next;	/* of the process */
	struct sim_qp *qps;
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
	struct sim_message *waiting;	/* SENDs that found no buffer, oldest first */
	struct sim_message **waiting_end;
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
	struct sim_qp *next;		/* domain->qps, or the peer's remains */
	struct sim_qp *remains;		/* of peers that have ended: messages still under way */
	struct sim_message *head, *tail;	/* posted and not completed, in order */
	uint32_t outstanding;
	uint32_t unfinished[SIM_CLASSES];	/* not yet carried out */
	uint32_t held;			/* messages that wait for earlier ones */
	struct sim_flow flow;		/* with a network */
	uint32_t id;
	int error;
	/* may lose things; without a domain: what is under way */
	bool unreliable_qp;
	/* unreliable queue pair: what has left it; one of the peer's remains */
	struct sim_qp *transit;
	bool local;			/* requests may be copies, if the peer is near */
	bool closed;			/* CLOSED is in the completion queue */
	bool cut;			/* what is under way from here no longer arrives */
	uint64_t zombies_ns;		/* its peer's end is not noticed before that */
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
	struct sim_message *prev, *next;	/* of the queue pair */
	struct sim_message *next_waiting;	/* of the receive queue */
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
	struct sim_listener *next;
	struct sim_thread *waiter;
	struct nam_cm_request *first, *last;	/* arrived, not yet asked about */
	bool woken;
	char name[SIM_NAME_BYTES * 2];
};

struct nam_cm_request {
	struct sim_event event;		/* first: arrives at the listener */
	struct nam_cm_request *next;
	struct nam_cm_request *all_next;	/* sim.requests */
	struct sim_listener *listener;	/* NULL: closed meanwhile */
	struct sim_qp *qp;		/* the client's; NULL: it gave up */
	struct sim_thread *waiter;
	struct nam_hello hello, reply;
	uint32_t from;			/* process */
	int answer;			/* 0: none; 1: accepted; -1: rejected */
};

struct sim_call {
	struct sim_event event;		/* first */
	void (*fn)(void *arg);
	void *arg;
};

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
	struct sim_thread main;		/* who called nam_sim_run() */
	struct nam_sim_process *processes, **processes_end;
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
	struct sim_listener *listeners;
	struct nam_cm_request *requests;
	/* message.c */
	struct sim_message *free_messages;
	void *chunks;
	uint64_t message_ids;
	struct {
		struct sim_thread *thread;
		uint64_t delay_ns;
		uint32_t before_step;
		uint32_t passing;	/* such messages that go before it */
		uint8_t op;
	} directed;
	uint32_t ids;			/* threads, processes, queues: one series */
	void (*on_race)(const char *name);
	struct sim_nic *nics;
	/* trace.c */
	uint64_t fingerprint;
	struct nam_sim_counts counts;
};

extern struct sim nam__sim;

/* ---- heap.c --------------------------------------------------------------------------- */

/* Plan an event that is not planned.  Aborts without memory: nothing could be repeated then. */
void nam__sim_plan(struct sim_event *event, uint64_t time);
/* Forget an event, planned or not. */
void nam__sim_unplan(struct sim_event *event);
/* The first event, taken out; NULL if there is none. */
struct sim_event *nam__sim_take(void);

/* Whether nothing is planned before `time`. */
static inline bool
nam__sim_first(uint64_t time)
{
	return !nam__sim.heap_count || time < nam__sim.heap[0].time;
}

/* ---- sim.c -------------------------------------------------------------------------------- */

/*
 * The calling thread waits until it is woken or the time has come.  Returns whether it was woken.
 * May be called on any stack of the thread.
 */
bool nam__sim_wait(uint64_t until);
/* A thread that waits goes on, `delay_ns` from now at the soonest. */
void nam__sim_wake(struct sim_thread *thread, uint64_t delay_ns);
/* Virtual time of a moment that is so far away on the calling process's clock. */
uint64_t nam__sim_after(uint64_t local_ns);
void *nam__sim_alloc(size_t bytes);	/* zeroed; aborts without memory */
/* Throw the dice for a fault that is about a process. */
bool nam__sim_drawn(const struct nam_sim_process *process, uint32_t per_million);
/* The calling thread is held up, as the dice have said; the trace tells why, and at what. */
void nam__sim_pause(const char *fault, const char *where);

/* The others come as far as the calling thread, so that what happens meanwhile is seen. */
void nam__sim_catch_up(struct sim_thread *self);

static inline void
nam__sim_work(uint64_t ns)
{
	if (nam__sim.current)
		nam__sim.current->debt_ns += ns;
}

/* When what the calling thread does now happens. */
static inline uint64_t
nam__sim_here(void)
{
	return nam__sim.now + (nam__sim.current ? nam__sim.current->debt_ns : 0);
}

static inline bool
nam__sim_is_gone(const struct nam_sim_process *process)
{
	return process->state >= SIM_DEAD;
}

/* ---- memory.c ------------------------------------------------------------------------- */

int nam__sim_region_alloc(struct nam_domain *domain, uint64_t bytes, uint32_t page_bytes_log2,
	int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag)
	NAM_MUST_CHECK;
int nam__sim_share_alloc(struct nam_domain *domain, uint64_t bytes, struct nam_mr *ret,
	struct nam_diag *diag) NAM_MUST_CHECK;
int nam__sim_mr_register(struct nam_domain *domain, void *base, uint64_t bytes, uint32_t rights,
	struct nam_mr *ret, struct nam_diag *diag) NAM_MUST_CHECK;
void nam__sim_mr_release(struct nam_domain *domain, struct nam_mr *mr);
/* Where a peer's address lies, or NULL. */
uint8_t *nam__sim_resolve(const struct sim_domain *domain, uint32_t rkey, uint64_t remote,
	uint32_t bytes);
/* Whether it is a share's, if it is one: a processor of its machine may write that. */
bool nam__sim_is_share(const struct sim_domain *domain, uint32_t rkey);
/* Whether local memory is registered, where the profile wants that. */
bool nam__sim_local_valid(const struct sim_domain *domain, const struct nam_wr *wr);

/* ---- queue.c -------------------------------------------------------------------------- */

int nam__sim_cq_create(struct nam_domain *domain, uint32_t depth, struct nam_cq **ret)
	NAM_MUST_CHECK;
void nam__sim_cq_destroy(struct nam_cq *cq);
int nam__sim_cq_poll(struct nam_cq *cq, struct nam_wc *wcs, unsigned max);
int nam__sim_cq_wait(struct nam_cq *cq, uint64_t timeout_ns);
void nam__sim_cq_wake(struct nam_cq *cq);
int nam__sim_rq_create(struct nam_domain *domain, struct nam_cq *cq, uint32_t depth,
	struct nam_rq **ret) NAM_MUST_CHECK;
void nam__sim_rq_destroy(struct nam_rq *rq);
int nam__sim_rq_post(struct nam_rq *rq, const struct nam_recv *recvs, unsigned count);
void nam__sim_cq_push(struct sim_cq *cq, const struct nam_wc *wc);
/* Completions of a queue pair that is destroyed are forgotten; receive buffers go back. */
void nam__sim_cq_forget(struct sim_cq *cq, struct sim_qp *qp);
/* A buffer for a message that arrives; false if there is none. */
bool nam__sim_rq_take(struct sim_rq *rq, struct nam_recv *ret);
void nam__sim_rq_wait(struct sim_rq *rq, struct sim_message *message);
void nam__sim_rq_forget(struct sim_rq *rq, struct sim_message *message);

/* ---- post.c, message.c ------------------------------------------------------------ */

int nam__sim_qp_post(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count);
struct sim_message *nam__sim_message_new(void);
void nam__sim_message_free(struct sim_message *message);
/* How a message is cut into steps, and in which order they are done. */
void nam__sim_shape(struct sim_message *message);
/* Append to a queue pair's list; it is planned at once or held back by earlier ones. */
void nam__sim_message_add(struct sim_qp *qp, struct sim_message *message);
/* Times of a message: when it sets out, how long a step takes, how long the answer. */
void nam__sim_cost(struct sim_message *message, const struct nam_sim_process *process,
	uint32_t slowness);
/* One step of a READ or WRITE: number message->done. */
void nam__sim_step(struct sim_message *message);
/* The last step has been done: what it held back may go, and the answer sets out. */
void nam__sim_carried_out(struct sim_message *message);
/* A message's event. */
void nam__sim_message_due(struct sim_message *message);
/* A WRITE has arrived: who polls its memory sees it at once. */
void nam__sim_polled(const struct sim_qp *qp);
/* Everything from `first` on completes with `error`, as it is. */
void nam__sim_flush(struct sim_qp *qp, struct sim_message *first, int error);
/* What may be completed is. */
void nam__sim_complete(struct sim_qp *qp);
void nam__sim_messages_end(void);

/* ---- colocated.c -------------------------------------------------------------------------- */

/* Carry out what is about the own machine's memory; false: it has to be sent like all else. */
bool nam__sim_local_copy(struct sim_qp *qp, const struct nam_wr *wrs, unsigned count);

/* ---- nic.c: only with a network, but for the first and the last ------------------------- */

void nam__sim_flow_begin(struct sim_flow *flow, struct nam_sim_process *process);
/* Send a message, or keep it back until it may go. */
void nam__sim_send(struct sim_qp *qp, struct sim_message *message);
/* Whether it may be carried out now; else it has been planned anew. */
bool nam__sim_serve(struct sim_message *message);
/* Whether the answer is there now; else it has been planned anew. */
bool nam__sim_receive(struct sim_message *message);
/* It is no longer in flight. */
void nam__sim_settle(struct sim_message *message);
void nam__sim_nics_end(void);

/* ---- qp.c ----------------------------------------------------------------------------- */

struct sim_qp *nam__sim_qp_new(struct sim_domain *domain, const struct nam_qp_options *options);
void nam__sim_qp_destroy(struct nam_qp *qp);
/* The queue pair's peer is gone, which is noticed after a while. */
void nam__sim_qp_close_later(struct sim_qp *qp);
void nam__sim_qp_close_due(struct sim_qp *qp);
/* The process behind it has ended: what is under way may still arrive, or not. */
void nam__sim_qp_orphan(struct sim_qp *qp);
/* Broken: its messages fail, both sides will notice. */
void nam__sim_qp_broken(struct sim_qp *qp);
/* Whose memory its messages touch: the queue pair on the other side, or NULL. */
struct sim_qp *nam__sim_qp_target(const struct sim_qp *qp);

/* A message that goes on by itself, with the bytes as they are now. */
struct sim_message *nam__sim_clone(const struct sim_message *message, uint64_t delay_ns);

/* ---- unreliable_qp.c ------------------------------------------------------------------------- */

int nam__sim_unreliable_qp_create(struct nam_domain *domain, const struct nam_qp_options *options,
	uint64_t *ret_name, struct nam_qp **ret);
int nam__sim_unreliable_qp_join(struct nam_qp *unreliable_qp, struct nam_qp *beside,
	uint64_t peer_name);
/* A message has left, or is lost. */
void nam__sim_unreliable_qp_due(struct sim_message *message);

/* ---- connect.c ------------------------------------------------------------------------ */

int nam__sim_connect(struct nam_domain *domain, const char *address, const struct nam_hello *hello,
	const struct nam_qp_options *options, struct nam_hello *reply, struct nam_qp **ret,
	struct nam_diag *diag) NAM_MUST_CHECK;
int nam__sim_listen(struct nam_domain *domain, const char *address, struct nam_listener **ret,
	struct nam_diag *diag) NAM_MUST_CHECK;
int nam__sim_listener_poll(struct nam_listener *listener, uint64_t timeout_ns,
	struct nam_cm_event *event);
void nam__sim_listener_wake(struct nam_listener *listener);
int nam__sim_is_near(struct nam_domain *domain, const char *address);
int nam__sim_accept(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_qp_options *options, const struct nam_hello *reply, struct nam_qp **ret);
void nam__sim_reject(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *reply);
void nam__sim_listener_close(struct nam_listener *listener);
void nam__sim_request_due(struct nam_cm_request *request);
void nam__sim_connect_end(void);

/* ---- trace.c -------------------------------------------------------------------------- */

/* Part of the fingerprint, whether or not there is a trace. */
static inline void
nam__sim_mix(uint64_t what, uint64_t a, uint64_t b)
{
	uint64_t x = nam__sim.fingerprint ^ nam__sim.now;

	x = (x ^ x >> 29 ^ what) * 0xff51afd7ed558ccdull;
	x = (x ^ x >> 32 ^ a) * 0xc4ceb9fe1a85ec53ull;
	x = (x ^ x >> 30 ^ b) * 0x9e3779b97f4a7c15ull;
	nam__sim.fingerprint = x;
}

void nam__sim_trace(const char *format, ...) NAM_PRINTF(1, 2);

/* The line is made only if somebody wants it. */
#define SIM_EVENT(what, a, b, ...)                                                                  \
	do {                                                                                        \
		if (!nam__sim.quiet) {                                                              \
			nam__sim_mix(what, a, b);                                                   \
			if (nam__sim.options.trace)                                                 \
				nam__sim_trace(__VA_ARGS__);                                        \
		}                                                                                   \
	} while (0)

/* The first argument of SIM_EVENT. */
enum sim_what {
	SIM_WHAT_POST = 1, SIM_WHAT_STEP, SIM_WHAT_DONE, SIM_WHAT_COMPLETE, SIM_WHAT_RUN,
	SIM_WHAT_WAKE, SIM_WHAT_CLOSE, SIM_WHAT_CONNECT, SIM_WHAT_PROCESS, SIM_WHAT_FAULT,
	SIM_WHAT_RACE, SIM_WHAT_NOTE, SIM_WHAT_ATOMIC, SIM_WHAT_RECV, SIM_WHAT_LOCAL,
};

const char *nam__sim_op_name(unsigned op);

#endif /* NAM_COMMON_SIM_SIM_INTERNAL_H */
