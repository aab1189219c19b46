/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_eight.h -- eight clients, of which one at a time is killed, and what they tell.
 *
 * They work on a fine-grained index, a hybrid one, a table, and a record store of each kind.  An
 * entry has one place among the clients, whose present client alone writes it, in versions: odd
 * ones are there, even ones are deleted.  Before a write its version is announced in memory that
 * all share, and after it acknowledged.  So a reader knows which versions it may find.
 */
#ifndef NAM_TESTS_PROCESS_KILL_EIGHT_H
#define NAM_TESTS_PROCESS_KILL_EIGHT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/env.h"
#include "tests/lib/cluster.h"
#include "nam.h"

#define PLACES 8u
#define ENTRIES 192u			/* of each object; of tables and record stores, pairs */
#define LOCK_MS 5000u			/* a busy machine may take a second to end a process */
#define WAITS_MAX 4096u			/* that a place keeps of each object */

enum { FINE, HYBRID, TABLE, ONESIDED, STAR, MESSAGE, SMALL, RAMP_HYBRID, LOCKING, OBJECTS };
#define STORES (OBJECTS - ONESIDED)

extern const char *const object_names[OBJECTS];

struct entry {
	_Atomic uint64_t begun, done;	/* versions */
};

/*
 * For locks of dead clients: until the operation had the lock.  It counts from the moment at which
 * it began to ask for it, or to read, not from when it had the last one.
 */
struct waits {
	_Atomic uint32_t count;
	uint32_t us[WAITS_MAX];
};

/* Of the clients of a place. */
struct place {
	_Atomic uint64_t ops, slowest_ns;
	atomic_bool hurries;		/* its client is the next to die, and does not pause */
	atomic_bool dies;		/* and kills itself within a doorbell */
	struct waits waits[OBJECTS];
};

struct board {
	atomic_bool stopping;
	struct entry entries[OBJECTS][ENTRIES];
	struct place places[PLACES];
};

/* With time-outs for this machine. */
struct nam_client *party_connect(const char *list, const char *name);

/* As a client opens them. */
struct objects {
	struct nam_worker *worker;
	struct nam_index *indexes[TABLE];
	struct nam_table *table;
	struct nam_records *stores[STORES];
};

void objects_create(struct nam_worker *worker);
void objects_open(struct objects *objects, struct nam_worker *worker, uint64_t cache_bytes);
void objects_close(struct objects *objects);
/* Also of the keys of a record store; NULL: it is the table. */
struct nam_index *object_index(const struct objects *objects, unsigned object);

struct session {
	const struct objects *objects;
	struct board *board;
	struct nam__task *task;
	struct nam_table_rows *rows;
	unsigned place, object, fiber;
	uint64_t since_ns;		/* it has waited, if it waits for a dead client */
	bool asks;			/* for a lock, and has not got it */
	bool meets_dead;		/* and a dead client has held it meanwhile */
	struct nam_rng rng;
	uint64_t least[ENTRIES];	/* of a scan: versions acknowledged when it began */
};

/* A wrong answer ends the program: no death explains it. */
NAM_FIBER_FN void session_write(struct session *self, uint32_t number);
NAM_FIBER_FN void session_read(struct session *self, uint32_t number);
NAM_FIBER_FN void session_scan(struct session *self);

/*
 * A client that works until it is killed, or until all shall stop.
 * Arguments: cluster, descriptor of the board, place.
 */
int party_main(char **argv);

#endif /* NAM_TESTS_PROCESS_KILL_EIGHT_H */
