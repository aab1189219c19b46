/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim.h -- whole clusters in one thread under virtual time, driven by one seed.
 *
 * The simulator, library nam-sim, owns all that env.h and fabric.h offer.  A simulated process is a
 * function, and the threads that it starts belong to it.  Addresses are "sim:NAME".
 *
 *	nam_sim_begin(&options);
 *	nam_sim_process_start("server", server_main, ...);
 *	nam_sim_process_start("client", client_main, ...);
 *	rc = nam_sim_run();
 *	nam_sim_end();
 *
 * The same seed, options and program give the same events, byte for byte.  So a simulated program
 * uses no clock, entropy or thread of the host, nor the value of a pointer.
 *
 * A request is a message of micro-steps.  These are interleaved with those of all others, in any
 * order that the profile's capability bits allow.  Only a completion proves anything.
 *
 * A simulated thread runs until it waits: in cq_wait, listener_poll, connect, sleep, yield, join, a
 * race point, or a cq_poll that keeps returning nothing.  It must hold no host mutex then.
 */
#ifndef NAM_COMMON_SIM_SIM_H
#define NAM_COMMON_SIM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/queue.h>

#include "common/env.h"
#include "common/fabric/fabric.h"
#include "network.h"

struct nam_sim_process;

enum nam_sim_profile {
	/* The bits of shm and tcp: all but NAM_CAP_UD. */
	NAM_SIM_STRICT = 0,
	/* An RNIC: WRITE before ATOMIC, ATOMIC before READ; loads in any order; no CPU atomics. */
	NAM_SIM_VERBS,
	/* Nothing between requests but that a SEND is not overtaken; words of 8 bytes are whole. */
	NAM_SIM_WEAK,
	/* An RNIC whose packets take many ways: as verbs, but WRITEs overtake each other. */
	NAM_SIM_ROUTED,
	NAM_SIM_PROFILES_COUNT
};

/* "strict", "verbs", "weak", "routed"; NULL beyond. */
const char *nam_sim_profile_name(unsigned profile);
/* The bits of enum nam_fabric_cap that a profile promises; 0 beyond. */
uint32_t nam_sim_profile_caps(unsigned profile);

/* How often things go wrong, in a million; times in nanoseconds of virtual time. */
struct nam_sim_faults {
	uint32_t late;		/* messages that set out late, by up to late_ns */
	uint32_t read_twice;	/* READs carried out a second time; the second counts */
	uint32_t break_qp;	/* messages with which their queue pair breaks */
	uint32_t kill;		/* messages with which their sender dies; not a memory server's */
	uint32_t kill_server;	/* messages with which the memory server that they go to dies */
	uint32_t stall;		/* messages with which their sender stops, for up to stall_ns */
	uint32_t preempt;	/* polls at which the operating system takes the thread away */
	uint32_t race;		/* race points that are stretched */
	uint32_t rnr;		/* SENDs that find the receiver not ready, though it is */
	uint32_t full;		/* refills of a block cache that are refused for lack of memory */
	uint32_t slow;		/* messages with which the memory server becomes slow, or quick */
	/* messages over unreliable queue pairs that are lost, some of them in part */
	uint32_t lose;
	uint32_t twice;		/* messages over unreliable queue pairs that arrive twice */
	uint32_t zombie;	/* WRITEs under way at their sender's end that arrive late */
	uint32_t clock_ppm;	/* clocks run fast or slow by up to so much */
	uint64_t late_ns;
	uint64_t pause_ns;	/* preempt and race: the longest pause */
	uint64_t stall_ns;
	uint64_t detect_ns;	/* until a peer's end is noticed, at the most */
};

struct nam_sim_options {
	uint64_t seed;
	enum nam_sim_profile profile;
	uint32_t step_bytes;		/* 8 or 64 */
	uint32_t slowness;		/* messages take so many times as long; 1: an RNIC */
	uint64_t limit_ns;		/* of virtual time; nam_sim_run() gives up then */
	struct nam_sim_faults faults;
	FILE *trace;			/* every event as a line of text, or NULL */
	/*
	 * To measure: times are those of this network, and requests are carried out whole.  NULL:
	 * times are drawn so that all events can meet.  It outlives the simulation.
	 */
	const struct nam_sim_network *network;
	/* With a network: what a message costs a memory server that sends it; NULL: nothing. */
	uint64_t (*serve_ns)(void *arg, const void *message, uint32_t bytes);
	void *serve_arg;
};

struct nam_sim_counts {
	uint64_t fingerprint;		/* a hash of all events so far */
	uint64_t events;		/* whatever was taken from the queue of events */
	uint64_t messages;		/* requests posted */
	uint64_t steps;			/* micro-steps */
	uint64_t switches;		/* from thread to thread */
	uint64_t faults;		/* drawn or directed, of these too: */
	uint64_t broken;		/* queue pairs, but for those of the dead */
	uint64_t kills, server_kills;	/* processes that were not memory servers, or were */
	uint64_t stalls;
	uint64_t full;			/* refills that were refused though there was memory */
	uint64_t slowed;		/* times that a memory server became slow */
	uint64_t lost, twice;		/* messages over unreliable queue pairs */
	uint64_t zombies;		/* WRITEs that arrived for being drawn, after their end */
};

void nam_sim_options_init(struct nam_sim_options *options);

/*
 * Take over env.h and register the provider of addresses "sim:NAME".  Returns 0, -EBUSY (one
 * simulation at a time), -EINVAL or -ENOSPC (too many providers).
 */
int nam_sim_begin(const struct nam_sim_options *options) NAM_MUST_CHECK;

/* A process that runs fn(arg): before nam_sim_run() or from a simulated thread.  0 or -errno. */
int nam_sim_process_start(const char *name, nam_thread_fn fn, void *arg,
	struct nam_sim_process **ret_process) NAM_MUST_CHECK;

/*
 * Until every thread has returned.  In the end threads of killed processes go on as zombie threads,
 * to give their memory back.  They have no connections and no sleeps, and leave no trace.
 *
 * Returns 0, -EDEADLK (threads wait and nothing will ever happen) or -ETIMEDOUT (limit_ns).
 */
int nam_sim_run(void) NAM_MUST_CHECK;

/* Give everything back, env.h too. */
void nam_sim_end(void);

/* ---- measuring ---------------------------------------------------------------------------- */

/* Processes of one machine share its network card; each has its own otherwise.  Before it runs. */
void nam_sim_process_place(struct nam_sim_process *process, uint32_t machine);

/*
 * This memory server has no processors of its own: threads of clients that poll on its machine do
 * its work between their own.  A request waits until one of them polls.  Before it runs.
 */
void nam_sim_process_borrow(struct nam_sim_process *process);

/* The calling thread computes for so long. */
void nam_sim_work(uint64_t ns);

/* Where threads wait for each other: as a condition variable that needs no mutex. */
struct nam_sim_gate {
	SLIST_HEAD(, sim_thread) waiting;
};
void nam_sim_gate_wait(struct nam_sim_gate *gate);
void nam_sim_gate_open(struct nam_sim_gate *gate);	/* all that wait go on */

/* ---- directing ---------------------------------------------------------------------------- */

/*
 * The process dies between two micro-steps.  Its requests in flight are applied in part or in
 * whole, perhaps late.  If the caller is of that process, it returns as a zombie thread.
 */
void nam_sim_process_kill(struct nam_sim_process *process);
/* None of its threads runs until it is resumed; its messages go on. */
void nam_sim_process_stall(struct nam_sim_process *process);
void nam_sim_process_resume(struct nam_sim_process *process);
/*
 * From now on neither process reaches the other: their queue pairs break, and attempts to connect
 * run into their time-out.  Until they are healed.
 */
void nam_sim_process_cut(struct nam_sim_process *one, struct nam_sim_process *other);
void nam_sim_process_heal(struct nam_sim_process *one, struct nam_sim_process *other);
/* Polls, and messages if no network is simulated, take `times` as long; 1: normal. */
void nam_sim_process_slow(struct nam_sim_process *process, uint32_t times);
/* Messages and threads of an observer meet none of the faults that are drawn. */
void nam_sim_process_spare(struct nam_sim_process *process);
/* The faults from now on; the caller may change them. */
struct nam_sim_faults *nam_sim_faults(void);
/* Drawn deaths may end it: it lives, and is neither a memory server nor an observer. */
bool nam_sim_process_mortal(const struct nam_sim_process *process);
/* Neither killed nor a zombie thread. */
bool nam_sim_process_alive(const struct nam_sim_process *process);
/* Every thread has returned, or it was killed. */
bool nam_sim_process_ended(const struct nam_sim_process *process);

/* The process of the calling thread; NULL outside of a simulated thread. */
struct nam_sim_process *nam_sim_self(void);
/* Whether the calling thread is of a process that was killed. */
bool nam_sim_zombie(void);

/* Virtual time without any process's clock. */
uint64_t nam_sim_now_ns(void);
/* Call fn(arg) so much later, between two micro-steps.  fn must not wait. */
void nam_sim_call_after(uint64_t delay_ns, void (*fn)(void *arg), void *arg);
/* Numbers that belong to the simulation, for scenarios. */
uint64_t nam_sim_random(void);

/* The calling thread's next message of that op (0: any) waits for delay_ns before that step. */
void nam_sim_delay_next(uint8_t op, uint32_t before_step, uint64_t delay_ns);
/* Not the next such message, but the one that follows after `passing` of them. */
void nam_sim_delay_after(uint8_t op, uint32_t passing, uint64_t delay_ns);
/* The queue pair breaks now, with any subset of what is in flight applied. */
void nam_sim_qp_break(struct nam_qp *qp);

/* For attackers: a queue pair of the domain that waits for connect(); it takes no request yet. */
struct nam_qp *nam_sim_qp_asking(const struct nam_domain *domain);

/* Called at each race point, before faults are drawn; NULL: no call. */
void nam_sim_on_race(void (*fn)(const char *name));

struct nam_sim_counts nam_sim_counted(void);

/* A line of the trace; also part of the fingerprint. */
void nam_sim_note(const char *format, ...) NAM_PRINTF(1, 2);

extern const struct nam_fabric_ops nam__sim_ops;

#endif /* NAM_COMMON_SIM_SIM_H */
