/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus.h -- the stage of directed schedules: memory servers, a director and up to three clients
 * with a worker each.  These wait for each other at race points.
 *
 * Eleven entries to a leaf: keys 0, 10 .. 430 fill the leaves 0 .. 100, 110 .. 210, 220 .. 320 and
 * 330 .. 430.  Inserting 111 and 112 divides the second; its right half begins at 160.
 */
#ifndef NAM_TESTS_SIM_LITMUS_H
#define NAM_TESTS_SIM_LITMUS_H

#include "common/gaddr.h"
#include "cluster.h"

#define LITMUS_INDEX "litmus"
#define LITMUS_LOADED 44u
#define LITMUS_POLL_NS 20000u
#define LITMUS_TIMEOUT_NS 400000000ull
#define LITMUS_SHORT_NS 30000000ull
#define LITMUS_TICKS_NS 15000000u	/* an epoch thread looks at its clocks every 10 ms */
#define LITMUS_ACTORS 4u
#define LITMUS_HELD 4u

/* SERVER, the last of the memory servers, is held only. */
enum who { DIRECTOR, A, B, C, SERVER };

/* Messages between actors. */
enum flag { READY, ONE, TWO, THREE, FOUR, FIVE, INSERTED, SEEN, FLAGS };

struct actor {
	enum who who;
	struct nam_sim_process *process;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	uint16_t id, incarnation;	/* of the client, also after it has left */
};

struct scene {
	const char *name;
	uint32_t loaded;		/* keys that are there at the beginning */
	void (*act[LITMUS_ACTORS])(struct actor *self);	/* DIRECTOR: at the end; NULL: no such */
	struct {
		const char *point;
		enum who who;
		void (*fn)(struct actor *self);	/* each time that this actor comes there */
	} held[LITMUS_HELD];
};

enum litmus_design {
	LITMUS_FINE,
	LITMUS_COARSE_RANGE, LITMUS_COARSE_HASH, LITMUS_COARSE_ROUND_ROBIN,
	LITMUS_HYBRID_HASH,
	/* The same, and memory servers have keys: litmus_keys.c. */
	LITMUS_FINE_KEYS, LITMUS_HYBRID_KEYS,
};

/* A scene of litmus_test, and where it is set. */
struct litmus_case {
	struct scene scene;
	const char *text;		/* its events */
	uint32_t servers;
	enum litmus_design design;
};

/* Each ends with one whose scene has no name. */
extern const struct litmus_case litmus_tree_cases[];
extern const struct litmus_case litmus_image_cases[];
extern const struct litmus_case litmus_failure_cases[];
extern const struct litmus_case litmus_server_cases[];
extern const struct litmus_case litmus_mail_cases[];
extern const struct litmus_case litmus_kv_cases[];
extern const struct litmus_case litmus_cuckoo_cases[];
extern const struct litmus_case litmus_onesided_cases[];
extern const struct litmus_case litmus_records_cases[];
extern const struct litmus_case litmus_locking_cases[];
extern const struct litmus_case litmus_collect_cases[];
extern const struct litmus_case litmus_dropped_cases[];
extern const struct litmus_case litmus_serial_cases[];
extern const struct litmus_case litmus_grown_cases[];
extern const struct litmus_case litmus_scan_cases[];
extern const struct litmus_case litmus_rows_cases[];
extern const struct litmus_case litmus_table_cases[];
extern const struct litmus_case litmus_reclaim_cases[];
extern const struct litmus_case litmus_later_cases[];
extern const struct litmus_case litmus_view_cases[];
extern const struct litmus_case litmus_in_time_cases[];
extern const struct litmus_case litmus_move_cases[];
extern const struct litmus_case litmus_backup_cases[];
extern const struct litmus_case litmus_backups_cases[];
extern const struct litmus_case litmus_lead_cases[];
extern const struct litmus_case litmus_silent_cases[];
extern const struct litmus_case litmus_fence_cases[];
extern const struct litmus_case litmus_steward_cases[];
extern const struct litmus_case litmus_stopped_cases[];
extern const struct litmus_case litmus_keys_cases[];
extern const struct litmus_case litmus_attacks_cases[];
extern const struct litmus_case litmus_readers_cases[];
extern const struct litmus_case litmus_recover_cases[];
extern const struct litmus_case litmus_sweep_cases[];
extern const struct litmus_case litmus_swept_cases[];

struct litmus {
	const struct scene *scene;
	enum nam_sim_profile profile;
	struct sim_cluster cluster;
	struct actor actors[LITMUS_ACTORS + 1];
	bool flags[FLAGS];
	enum litmus_design design;
	bool failed;
	char why[300];
};

extern struct litmus litmus;

/* Run a scene; litmus.failed and litmus.why have the result.  @trace may be NULL. */
void litmus_perform(const struct litmus_case *what, enum nam_sim_profile profile, uint64_t seed,
	FILE *trace);

/* litmus_mutants.c: an index whose split_unlock takes a wrong order, if an order guard is off. */
void litmus_mutate_index(struct nam_index *index);

/* litmus_keys.c: files of keys, for the memory servers and for the actors; and their end. */
void litmus_keys_make(struct sim_cluster *cluster);
void litmus_keys_remove(void);
/* The key of an actor that comes now: the director is an admin, C a reader; A's is its own. */
void litmus_keys_choose(struct sim_cluster *cluster, enum who who);
/* Every memory server reads its key file again, which lacks A's key now. */
void litmus_keys_withdraw(const struct sim_cluster *cluster);

/* The following is for actors. */
void litmus_fail(const char *format, ...) NAM_PRINTF(1, 2);
void litmus_await_for(enum flag flag, uint64_t timeout_ns);
void litmus_await(enum flag flag);
/* For race points: the first actor says ONE, and waits for TWO. */
void litmus_hold_first(struct actor *self);
/* The same, after an actor has set FOUR. */
void litmus_hold_once(struct actor *self);
/* An actor dies, and says ONE: for nam_sim_call_after(); for race points. */
void litmus_die(void *actor);
void litmus_die_here(struct actor *self);
/* A process stands still for so long. */
void litmus_stall(struct nam_sim_process *process, uint64_t ns);
/* The state of an actor's client, as the lead says; and until it is that. */
enum nam_client_state litmus_state_of(struct actor *self, enum who who);
void litmus_await_state(struct actor *self, enum who who, enum nam_client_state state);
void litmus_write_word(struct actor *self, struct nam_gaddr at, uint64_t number);
uint64_t litmus_read_word(struct actor *self, struct nam_gaddr at);
int litmus_try_insert(struct actor *self, uint64_t number);
/* The payload of a key is the number after it; whatever does not succeed fails the scene. */
void litmus_insert(struct actor *self, uint64_t number);
int litmus_try_lookup(struct actor *self, uint64_t number);
/* Every tenth number from first to last. */
void litmus_delete_range(struct actor *self, uint64_t first, uint64_t last);
void litmus_expect(struct actor *self, uint64_t number, int expected);
void litmus_expect_range(struct actor *self, uint64_t first, uint64_t last, int expected);
uint64_t litmus_collect(struct actor *self);
/* Until unlinked blocks may be reused, or a client evidently holds them back. */
void litmus_collect_until_reusable(struct actor *self);
void litmus_verify(struct actor *self);
/* Of all memory, but for the epochs: those are written for readers, too. */
uint64_t litmus_memory_sum(void);

/* litmus_blocks.c: a block's words become number, number + 1, ... */
void litmus_fill(struct actor *self, struct nam_gaddr at, uint32_t stride, uint64_t number);
/*
 * Blocks that wait become free; then up to `most`, 2,000, are taken and filled.  Free ones come
 * before fresh ones.
 */
void litmus_take(struct actor *self, uint32_t stride, uint32_t most);
/* Nothing else was written to those; and they are given back. */
void litmus_expect_taken(struct actor *self);
/* Blocks that this client has retired go to its block cache, unless a client holds them back. */
void litmus_limbo_empty(struct actor *self);

/* litmus_backup.c: a member gets a backup; its process is killed, and the backup has its place. */
struct sim_server *litmus_back(uint32_t id);
void litmus_fail_over(uint32_t id);
/*
 * Leaves of all memory servers change: keys from LITMUS_KEYS_FROM * (1 + the actor) on.  ONE: there
 * may be a backup; that sets SEEN.  TWO: a process may end.
 */
#define LITMUS_KEYS_FROM 1000u
#define LITMUS_KEYS 40u
void litmus_insert_on(struct actor *self);

/* litmus_view.c: the view in force; to be freed with free(). */
struct nam__cluster_view *litmus_view_of(struct actor *self);
/* All clients come to have it, and all of its members are UP. */
void litmus_expect_members(struct actor *self, uint32_t count);
/* A memory server joins; and until this client can allocate there, or for two ticks. */
void litmus_server_add(const char *address);
void litmus_server_await(const struct actor *self, uint32_t id);
/* Where the leaf that covers a key is; its lock word, unless NULL. */
struct nam_gaddr litmus_leaf_of(struct actor *self, uint64_t number, uint64_t *ret_lock_word);
/* The memory server, by slot, on which a block lies. */
uint32_t litmus_server_of(const struct actor *self, struct nam_gaddr at);

#endif /* NAM_TESTS_SIM_LITMUS_H */
