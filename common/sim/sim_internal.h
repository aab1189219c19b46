/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_internal.h -- the inside of the simulator.
 *
 * A thread is a stack.  If it waits, it takes events from the queue on its own stack, until one of
 * them makes a thread go on, and switches there.  There is no scheduler.
 *
 * ORDER: events are taken by (time, number); numbers ascend in the order of planning.  While a
 * message's next step is due before every other event, it goes on without queueing anew.
 *
 * TIME: code between two waits takes no virtual time by itself.  Calls of the fabric and of the
 * clock put a thread in debt, which it pays when it waits: then others catch up.
 */
#ifndef NAM_COMMON_SIM_SIM_INTERNAL_H
#define NAM_COMMON_SIM_SIM_INTERNAL_H

#include "common/fabric/provider.h"
#include "objects.h"

/* The functions of the provider's table. */
NAM__PROVIDER_DECLARE(sim)
NAM__PROVIDER_FUNCTION(sim, unreliable_qp_create)
NAM__PROVIDER_FUNCTION(sim, unreliable_qp_join)
NAM__PROVIDER_FUNCTION(sim, is_near)
NAM__PROVIDER_ENDPOINTS(NAM__PROVIDER_FUNCTION, sim)

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
/* Throw the dice for a fault that is about a process. */
bool nam__sim_drawn(const struct nam_sim_process *process, uint32_t per_million);
/* The calling thread is held up, as the dice have said; the trace tells why, and at what. */
void nam__sim_pause(const char *fault, const char *where);

void nam__sim_run(void);		/* until no thread has anything to do */
int nam__sim_thread_new(struct nam_sim_process *process, const char *name, nam_thread_fn fn,
	void *arg, struct sim_thread **ret) NAM_MUST_CHECK;
void nam__sim_thread_free(struct sim_thread *thread);
void nam__sim_call_due(struct sim_event *event);
extern const struct nam_env nam__sim_env;

/* The others come as far as the calling thread, so that what happens meanwhile is seen. */
void nam__sim_catch_up(struct sim_thread *self);

static inline void
nam__sim_work(uint64_t ns)
{
	if (nam__sim.current)
		nam__sim.current->debt_ns += ns;
}

/* How long a memory server's work takes its thread: longer if client threads must do it. */
uint64_t nam__sim_serve_ns(uint64_t ns);

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

/* connect.c: whether they do not reach each other. */
bool nam__sim_is_cut(const struct nam_sim_process *one, const struct nam_sim_process *other);

/* ---- memory.c ------------------------------------------------------------------------- */

void *nam__sim_alloc(size_t bytes);	/* zeroed; aborts without memory */
/* The array with room for one element more; likewise. */
void *nam__sim_grow(void *array, uint32_t count, uint32_t *size, size_t bytes);
/* Where the address of a peer's request lies; NULL: it may not do that there. */
uint8_t *nam__sim_resolve(const struct sim_qp *peer, const struct nam_wr *wr);
/* Whether it is a share's, if it is one: a processor of its machine may write that. */
bool nam__sim_is_share(const struct sim_domain *domain, uint32_t rkey);
/* Whether local memory is registered, where the profile wants that. */
bool nam__sim_local_valid(const struct sim_domain *domain, const struct nam_wr *wr);

/* ---- queue.c -------------------------------------------------------------------------- */

void nam__sim_cq_push(struct sim_cq *cq, const struct nam_wc *wc);
/* Completions of a queue pair that is destroyed are forgotten; receive buffers go back. */
void nam__sim_cq_forget(struct sim_cq *cq, struct sim_qp *qp);
/* A buffer for a message that arrives; false if there is none. */
bool nam__sim_rq_take(struct sim_rq *rq, struct nam_recv *ret);
/* If the message waits for a buffer: it waits no longer. */
void nam__sim_rq_forget(struct sim_message *message);

/* ---- post.c, messages.c, steps.c ---------------------------------------------------------- */

struct sim_message *nam__sim_message_new(void);
void nam__sim_message_free(struct sim_message *message);
/* How a message is cut into steps, and in which order they are done. */
void nam__sim_shape(struct sim_message *message);
/* Append to a queue pair's list; it is planned at once or held back by earlier ones. */
void nam__sim_message_add(struct sim_qp *qp, struct sim_message *message);
/* Take step message->done of a READ or WRITE. */
void nam__sim_step(struct sim_message *message);
/* The last step has been done: messages that it held back may go, and the answer sets out. */
void nam__sim_carried_out(struct sim_message *message);
/* A message's event. */
void nam__sim_message_due(struct sim_event *event);
/* A WRITE has arrived: a thread that polls its memory sees it at once. */
void nam__sim_polled(const struct sim_qp *qp);
/* Everything from `first` on completes with `error`, as it is. */
void nam__sim_flush(struct sim_qp *qp, struct sim_message *first, int error);
/* Complete the messages that may complete, in post order. */
void nam__sim_complete(struct sim_qp *qp);

/* Carry out what is about the own machine's memory; false: it has to be sent like all else. */
bool nam__sim_colocated_copy(struct sim_qp *qp, const struct nam_wr *wrs, unsigned count);

/* ---- nic.c: only with a network, but for the first and the last ------------------------- */

void nam__sim_flow_begin(struct sim_flow *flow, struct nam_sim_process *process);
/* Send a message, or keep it back until it may go. */
void nam__sim_send(struct sim_qp *qp, struct sim_message *message);
/* Whether it may be carried out now; else it has been planned anew. */
bool nam__sim_serve(struct sim_message *message);
/* Whether the answer is there now; else it has been planned anew. */
bool nam__sim_receive(struct sim_message *message);
/* The message is no longer in flight. */
void nam__sim_flight_end(struct sim_message *message);
/* A datagram leaves a card; when it is at the other one, in nanoseconds. */
uint64_t nam__sim_datagram_out(struct sim_flow *flow, uint32_t bytes);
/* A datagram has arrived at the other card; when it is in memory, in nanoseconds. */
uint64_t nam__sim_datagram_in(struct sim_flow *flow, uint32_t bytes);

/* ---- qp.c ----------------------------------------------------------------------------- */

struct sim_qp *nam__sim_qp_new(struct sim_domain *domain, const struct nam_qp_options *options);
/* The queue pair's peer is gone, which is noticed after a while. */
void nam__sim_qp_close_later(struct sim_qp *qp);
/* The process behind it has ended: messages under way may still arrive, or not. */
void nam__sim_qp_orphan(struct sim_qp *qp);
/* Broken: its messages fail, both sides will notice. */
void nam__sim_qp_broken(struct sim_qp *qp);

/* A queue pair without an owner, for messages to the peer of this one. */
struct sim_qp *nam__sim_effects_new(const struct sim_qp *qp);
/* A message that goes on by itself, with the bytes as they are now. */
struct sim_message *nam__sim_clone(const struct sim_message *message, uint64_t delay_ns);

/* ---- for nam_sim_end(): forget all of a kind ------------------------------------------------ */

void nam__sim_connect_end(void);
void nam__sim_endpoints_end(void);
void nam__sim_messages_end(void);
void nam__sim_nics_end(void);

/* ---- sim.c, for the trace --------------------------------------------------------------- */

/* Part of the fingerprint, whether or not there is a trace. */
static inline void
nam__sim_mix(uint64_t what, uint64_t a, uint64_t b)
{
	uint64_t x = nam__sim.counts.fingerprint ^ nam__sim.now;

	x = (x ^ x >> 29 ^ what) * 0xff51afd7ed558ccdull;
	x = (x ^ x >> 32 ^ a) * 0xc4ceb9fe1a85ec53ull;
	x = (x ^ x >> 30 ^ b) * 0x9e3779b97f4a7c15ull;
	nam__sim.counts.fingerprint = x;
}

void nam__sim_trace(const char *format, ...) NAM_PRINTF(1, 2);

/* The line is made only for a trace. */
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
	SIM_WHAT_RACE, SIM_WHAT_NOTE, SIM_WHAT_ATOMIC, SIM_WHAT_RECV, SIM_WHAT_COLOCATED,
};

const char *nam__sim_op_name(unsigned op);

#endif /* NAM_COMMON_SIM_SIM_INTERNAL_H */
