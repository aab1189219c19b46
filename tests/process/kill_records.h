/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_records.h -- the work of processes on a record store until they are killed.  They note it in
 * memory that all of them share, before it is begun and when it is done.
 *
 * A value is a number that says which transaction of which process wrote it, some times over.
 */
#ifndef NAM_TESTS_PROCESS_KILL_RECORDS_H
#define NAM_TESTS_PROCESS_KILL_RECORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/env.h"
#include "tests/lib/cluster.h"
#include "txn/records.h"

#define STORE "killed"
#define SERVERS 2u
#define RECORDS 12u
#define TOGETHER_MAX 6u			/* in a transaction; the coordinator takes all of them */
#define FIBERS 4u
#define WORDS_MAX 640u			/* of a value: more than fits into a message */
#define KEY_BYTES 8u
#define DEEDS_MAX 32768u			/* of a process */
#define PARTIES_MAX 64u			/* processes of a cluster, one after the other */

/* A transaction. */
struct deed {
	uint64_t begin_ns, end_ns;
	uint64_t timestamp;		/* of its versions; 0: it reads, or unknown so far */
	uint64_t values[RECORDS];	/* as they were written, or read; 0: no such record */
	uint64_t stamps[RECORDS];	/* of what was read */
	uint8_t keys[RECORDS];
	uint8_t count, fiber;
	bool write;
	atomic_bool done;		/* it was told so; until then its outcome is unknown */
};

/* A process's transactions, in the order of their begins. */
struct deeds {
	_Atomic uint32_t count;
	struct deed each[DEEDS_MAX];
};

struct board {
	atomic_bool stopping;		/* for parties that are not killed */
	struct deeds parties[PARTIES_MAX];
};

/* Which store, by NAM_TEST_RECORDS of the environment; whether addresses are cached and read. */
void store_chosen(struct nam_records_options *ret_options, int *ret_star);

struct nam_records *store_open(struct nam_worker *worker, uint64_t cache_bytes);

uint32_t value_words(uint64_t value);
/* The writer of a value; NULL if there is none. */
struct deed *deed_of(struct board *board, uint64_t value, uint32_t *ret_item);

struct session {
	struct nam_worker *worker;
	struct nam_records *records;
	struct board *board;
	uint32_t party;
	uint8_t fiber;
	bool survivor;			/* not killed, and most of what it does is reading */
	struct nam_rng rng;
	uint64_t words[RECORDS][WORDS_MAX];
};

/* A transaction of these records.  A failure ends the program: no death explains it. */
NAM_FIBER_FN void session_read(struct session *self, const uint8_t *keys, uint32_t count);
NAM_FIBER_FN void session_write(struct session *self, const uint8_t *keys, uint32_t count);

/*
 * A child that reads and writes until it is killed, or until all shall stop.
 * Arguments: cluster, descriptor of the board, number of the party, "victim" or "survivor".
 */
int party_main(char **argv);

#endif /* NAM_TESTS_PROCESS_KILL_RECORDS_H */
