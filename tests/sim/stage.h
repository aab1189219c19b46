/* SPDX-License-Identifier: Apache-2.0 */
/*
 * stage.h -- what the parts of a scenario share: the stage, its actors, and what may be said of it
 * while the run is under way.
 */
#ifndef NAM_TESTS_SIM_STAGE_H
#define NAM_TESTS_SIM_STAGE_H

#include "kv/kv.h"
#include "cluster.h"
#include "findings.h"
#include "memory.h"
#include "scenario.h"

#define SIM_INDEX "simulated"
#define SIM_DIRECTOR 0u			/* its number as a client of the history */
#define SIM_COLLECTORS_MAX 12u		/* one after the other, as they die */
#define SIM_SESSIONS_LOCKS 1u		/* that an operation holds at the most */
#define SIM_COLLECTORS_LOCKS 4u		/* that a pass of the collector does */

struct sim_stage;

/* A process that is neither the director nor a memory server. */
struct sim_actor {
	struct sim_stage *stage;
	struct nam_sim_process *process;
	struct nam_client *client;
	struct nam_index *index;
	uint32_t number;		/* its place in stage->actors */
	uint32_t sessions;
	uint64_t staging_bytes;		/* that long values of kv.c may be in, at the most */
	uint32_t id, incarnation;	/* in lock words, once connected */
	bool troubled;			/* the fabric failed it: it may have left locks behind */
	bool makes, visits;		/* the maker of temporary.c, and its visitor */
	enum nam_transport transport;	/* other than the scenario's; 0: that */
};

struct sim_session {
	struct sim_actor *actor;
	struct nam_worker *worker;
	struct nam_rng rng;
	uint32_t number;
	uint64_t writes;
	uint64_t last_key, last_payload;	/* what it has written last */
	uint32_t refused;
};

struct sim_planned_fault {
	uint64_t at;			/* operations called by then */
	uint32_t kind;			/* fault_plan.c */
};

struct sim_stage {
	const struct sim_scenario *scenario;
	struct sim_result *outcome;
	struct sim_history *history;
	struct sim_cluster cluster;
	struct sim_actor *actors;	/* the director; clients; the others as they start */
	uint32_t actors_count, collectors;
	struct sim_actor *collector;	/* the latest; NULL: none yet */
	bool leaving;			/* all clients are done: the others shall end */
	struct sim_ballast ballast;	/* what the director has taken so that little is left */
	bool repaired;			/* it has been given back, and a pass has been made since */
	uint32_t names;			/* of dead leaves, that the verifier came to */
	bool names_removed;		/* a pass has been made since */
	uint64_t given_up;		/* bytes, by workers that were closed */
	uint64_t unsure;		/* bytes that such may have lost with their connections */
	uint64_t late;			/* separators that such left to others */
	uint64_t splits;		/* by such, of the index that stays */
	bool moving;			/* memory has begun to move */
	uint64_t term;			/* the highest with which a steward has led; 0: none */
	uint32_t term_of;		/* the number of that steward, */
	uint64_t term_boot;		/* and of the lead */
	uint64_t planned;		/* operations, without deaths */
	uint64_t called;		/* so far */
	uint64_t passes;		/* of the collector's process */
	struct sim_planned_fault *faults;
	uint32_t faults_planned;	/* those before it are injected, or will be */
	uint32_t faults_count, faults_next;
	uint64_t loaded;		/* pairs, by the director */
	struct {			/* temporary.c: pairs of the load under way or done */
		uint64_t round, pairs;
		uint64_t added;		/* pairs beside them, at the most */
		uint64_t leaf_pairs;	/* half of what a leaf has room for */
		uint64_t whole;		/* the last round whose load has returned */
		uint64_t lost_most;	/* bytes that drops have left behind */
	} temporary;
	struct {			/* kv.c */
		struct nam_kv *handle;	/* the director's */
		uint64_t bytes;		/* that it takes of the servers' memory */
		uint64_t *keys;		/* their numbers */
		uint32_t keys_count;
		struct sim_history history;
	} kv;
};

/* ---- scenario.c --------------------------------------------------------------------------- */

/* The run has failed; the first reason counts. */
void sim_fail(struct sim_stage *stage, const char *format, ...) NAM_PRINTF(2, 3);

/* ---- fault_plan.c ------------------------------------------------------------------------- */

void sim_fault_plan_plan(struct sim_stage *stage);
/* An operation is about to be called: perhaps it is time. */
void sim_fault_plan_tick(struct sim_stage *stage);

/* Whether anything has broken or died by now that leaves changes half done. */
bool sim_disturbed(const struct sim_stage *stage);

/*
 * Whether planned or drawn faults explain a code: codes of the fabric and of locks.  The death of
 * another client explains none.  Notes that the actor may have left something behind.
 */
bool sim_explained(struct sim_actor *actor, int rc);

/* Whether a node may stay torn and locked, since no record completes it. */
bool sim_lock_may_stay(const struct sim_stage *stage);

/* Whether there may be no memory just now. */
bool sim_full_explained(const struct sim_stage *stage, int rc);

/* ---- keys.c: numbers as keys and payloads --------------------------------------------------- */

#define SIM_PAYLOADS 4u			/* of a key, in a non-unique index: 1 .. 4 */

/* In the order of numbers; what comes between first and last byte is all over the place. */
void sim_key_from_number(const struct sim_scenario *scenario, uint64_t number, void *ret_key);
uint64_t sim_key_to_number(const struct sim_scenario *scenario, const void *key);
/* The payload loaded with a key. */
uint64_t sim_payload_loaded(const struct sim_scenario *scenario, uint64_t number);
/* Pairs that there can be of so many keys. */
uint32_t sim_pairs_most(const struct sim_scenario *scenario, uint32_t keys);

/* ---- design.c: what indexes of a run are, and what memory servers keep of them --------------- */

/* A part on each memory server: not fine. */
bool sim_in_parts(const struct sim_scenario *scenario);
/* Clients change leaves themselves: not coarse. */
bool sim_one_sided(const struct sim_scenario *scenario);

/* From number to key. */
typedef void (*sim_key_fn)(const struct sim_scenario *scenario, uint64_t number, void *ret_key);
#define SIM_BOUNDS_BYTES (SIM_SERVERS_MAX * NAM_KEY_BYTES_MAX)

/* The design of the run for an index of so many keys.  @bounds must live until it is made. */
void sim_design_set(const struct sim_scenario *scenario, uint64_t keys, sim_key_fn key,
	uint8_t bounds[SIM_BOUNDS_BYTES], struct nam_index_options *options);

/* The state of memory servers that search trees themselves. */
struct sim_trees {
	uint64_t index_nodes;
	uint64_t nameless_bytes;	/* of trees that no name leads to */
	uint32_t nameless;
	uint32_t dropped;		/* trees that wait until no handler works on them */
	uint64_t kept_bytes;		/* blocks in a block cache or in limbo, of all of these */
};

/* All other actors must have left.  Waits until handlers have seen to trees that were dropped. */
void sim_trees_count(const struct sim_stage *stage, struct sim_trees *ret_trees);

/* ---- session.c ---------------------------------------------------------------------------- */

/* The main function of a fiber; @arg a struct sim_session. */
void sim_session_main(void *arg);

/* Enter it into the history, if there is one. */
int sim_do_point(struct sim_session *session, enum sim_kind kind, uint64_t number);
int sim_do_scan(struct sim_session *session, const struct sim_range *range, uint32_t room,
	uint32_t *ret_count);

/* A pass of the collector, which must end in time, and with a code that may be. */
int sim_collect(struct sim_actor *actor, struct nam_worker *worker);

/* Nothing may take longer: a pass over a whole tree, or (`operation`) anything else. */
void sim_check_progress(struct sim_actor *actor, const char *what, bool operation,
	uint64_t since_ns);

/* ---- actors.c ----------------------------------------------------------------------------- */

/* Start the clients, the collector and all other actors. */
void sim_actors_start(struct sim_stage *stage);
/* Until the clients have ended, then the others; collectors that die are replaced meanwhile. */
void sim_actors_await(struct sim_stage *stage);

/* A client and a worker.  NULL for a zombie thread, or if a memory server is dead. */
struct nam_worker *sim_actor_connect(struct sim_actor *actor, const char *name);
/* Adds the worker's counters. */
void sim_actor_close(struct sim_actor *actor, struct nam_worker *worker);
/* @worker may be NULL. */
void sim_actor_leave(struct sim_actor *actor, struct nam_worker *worker);
bool sim_actor_open(struct sim_actor *actor, struct nam_worker *worker);

/* ---- stewards.c ----------------------------------------------------------------------------- */

/* The main function of a steward's process. */
void sim_steward(void *actor);

/* ---- mover.c: memory that moves ------------------------------------------------------------- */

/* The main function of a process that moves the memory of memory servers. */
void sim_mover(void *arg);

/* ---- temporary.c: an index that comes and goes -------------------------------------------- */

/* Its maker loads and drops it, again and again; its visitor uses it meanwhile. */
void sim_temporary_maker(void *arg);
void sim_temporary_visitor(void *arg);
/* The memory that the largest possible index takes. */
uint64_t sim_temporary_bytes_most(const struct sim_stage *stage);
/* Drop what a maker has left behind. */
void sim_temporary_clear(struct sim_actor *director, struct nam_worker *worker);

/* ---- kv.c: a key-value store beside the index ---------------------------------------------- */

/* Make it. */
void sim_kv_begin(struct sim_stage *stage, struct nam_worker *worker);
/* The main function of a process that uses it. */
void sim_kv_client(void *arg);
/* All have left: look at what it has, and drop it. */
void sim_kv_end(struct sim_stage *stage, struct nam_worker *worker);
/* Compares its clients' answers with possible states. */
void sim_kv_history(struct sim_stage *stage, struct sim_findings *findings);

/* ---- aftermath.c -------------------------------------------------------------------------- */

/* Look at what the run has left.  The worker may be replaced. */
void sim_aftermath(struct sim_stage *stage, struct nam_worker **worker);
/* Compares the clients' answers with possible states. */
void sim_aftermath_history(struct sim_stage *stage);

/* ---- losses.c ----------------------------------------------------------------------------- */

struct sim_losses {
	uint64_t least, most;		/* bytes */
	uint64_t others;		/* at most: blocks of the living that the dead took out */
};

/* A worker is about to be closed; a client is, and its workers have been. */
void sim_losses_worker(struct sim_actor *actor, struct nam_worker *worker);
void sim_losses_client(struct sim_actor *actor);
/* A drop has left part of the temporary index. */
void sim_losses_temporary(struct sim_stage *stage);

/* The losses of dead and disconnected clients, beside stage->given_up. */
struct sim_losses sim_losses(const struct sim_stage *stage);
/* Whether trees may be left that no name leads to: of a temporary index that was not dropped. */
bool sim_losses_nameless(const struct sim_stage *stage);
/* So many separators may be late: those that splits left to others, or could not see to. */
uint64_t sim_losses_late(const struct sim_stage *stage);
/*
 * Whether memory is full of blocks that are cached, retired and not yet reusable, or lost with the
 * dead.  All other used blocks are no more than the trees can take.
 */
bool sim_losses_explain_full(const struct sim_stage *stage);

/* ---- effects.c ---------------------------------------------------------------------------- */

/* Leave the root locked by a live client, if it is free, so that tests see it noticed. */
void sim_effects_stray(struct sim_stage *stage, struct nam_worker *worker);

/*
 * Verify the index, and fail for each violation that no death explains.  Afterwards
 * outcome->verified says how much was seen.
 */
void sim_effects_verify(struct sim_stage *stage, struct nam_worker *worker);

#endif /* NAM_TESTS_SIM_STAGE_H */
