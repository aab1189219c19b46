/* SPDX-License-Identifier: Apache-2.0 */
/* ramp_run.h -- a run of random transactions on records: its clients, and the last one's visits. */
#ifndef NAM_TESTS_SIM_RAMP_RUN_H
#define NAM_TESTS_SIM_RAMP_RUN_H

#include "ramp_plan.h"
#include "random_clients.h"
#include "txns.h"

#define STORE "ramp"
#define CLIENTS_MAX RAMP_CLIENTS_MAX
#define FIBERS_MAX RAMP_FIBERS_MAX
#define KEYS_MAX RAMP_KEYS_MAX
#define TOGETHER_MAX 6u
#define WORDS_MAX 700u

/* One fiber. */
struct session {
	struct player *player;
	uint32_t number;
	uint64_t words[TOGETHER_MAX][WORDS_MAX];
	char keys[TOGETHER_MAX][16];
};

/* One client. */
struct player {
	struct nam_sim_process *process;
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_records *records;
	uint32_t number;
	uint64_t pause_ns;		/* meanwhile what it remembers grows old */
	struct session sessions[FIBERS_MAX];
};

/* A record was found deleted, or is being deleted: its value is known in the end. */
struct deletion {
	uint32_t txn, key;
	uint64_t timestamp, value;
};

struct deletions {
	struct deletion *each;
	size_t count, room;
};

struct ramp_run {
	enum nam_sim_profile profile;
	uint64_t seed;
	struct ramp_plan plan;
	/* The stage. */
	struct sim_cluster cluster;
	struct player players[CLIENTS_MAX + 1];		/* the last one is the director */
	bool ready;
	struct sim_txns txns;
	struct deletions written, found;
	uint64_t values;
	uint64_t newest[KEYS_MAX];	/* the highest timestamp that a client has read */
	uint64_t reads, writes, unknown, refused, restarts;
	uint64_t collected, completed, aborted, undecided, swept;
	bool dropped;
	struct random_failover failover;
	struct ramp_kind seen;		/* as clients found it */
	struct ramp_deeds deeds;
};

extern struct ramp_run ramp_run;

/* Errors of locks. */
bool ramp_locked(int rc);

void ramp_name_key(struct session *self, uint32_t i, uint32_t key);
void ramp_read(struct session *self, const uint32_t *picked, uint32_t count);
/* @deletes	of eight records so many are deleted */
void ramp_write(struct session *self, const uint32_t *picked, uint32_t count, uint32_t deletes);
void ramp_collect(struct player *player);
int ramp_sweep(struct player *player);
void ramp_leave(struct player *player);

/* ramp_guest.c: by a client that leaves, so that it keeps nothing in a block cache. */
void ramp_visit(void (*fn)(struct player *guest));
void ramp_make(struct player *guest);
void ramp_look(struct player *guest);
void ramp_tidy(struct player *guest);
void ramp_write_again(struct player *guest);
void ramp_sweep_store(struct player *guest);
void ramp_drop(struct player *guest);
void ramp_sweep_all(struct player *guest);

#endif /* NAM_TESTS_SIM_RAMP_RUN_H */
