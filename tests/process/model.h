/* SPDX-License-Identifier: Apache-2.0 */
/*
 * model.h -- what the model test knows of an index: numbered entries, each with one writer.
 *
 * An entry's number is its place in the order of a scan.  Its writer counts versions of it; a
 * version is either present or absent.  Before a change the writer announces the version in
 * `started`, after it in `done`, in memory that all processes share.  So if an observer looks at
 * `done` first and at `started` last, it knows which versions it may have seen.  If the two agree,
 * it is an exact one, for any writer.
 */
#ifndef NAM_TESTS_PROCESS_MODEL_H
#define NAM_TESTS_PROCESS_MODEL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/env.h"
#include "nam.h"

#define MODEL_PROCESSES 3u
#define MODEL_THREADS 2u
#define MODEL_FIBERS 4u
#define MODEL_CLASSES (MODEL_PROCESSES * MODEL_THREADS * MODEL_FIBERS)

/* version << 1 | present */
typedef _Atomic uint64_t model_word;

struct model_shape {
	uint32_t key_bytes, node_bytes;
	uint64_t cache_bytes;
	uint64_t numbers[2];		/* entries of the unique and of the non-unique index */
	uint64_t ops;			/* of each fiber */
};

extern const struct model_shape model_shapes[];
extern const unsigned model_shapes_count;

struct model_table {
	struct nam_index *index;
	bool unique;
	uint32_t key_bytes;
	uint64_t numbers;
	uint64_t per_key;		/* numbers with one key; 1 in a unique index */
	model_word *started, *done;
	model_word *arrived;		/* threads at the gate */
};

/* Names of the indexes and of the file that is shared. */
void model_index_name(unsigned shape, bool unique, char *name, size_t size);

/* Map the shared words of both tables and fill in everything but the index.  [0] is unique. */
void model_tables_map(const char *path, const struct model_shape *shape,
	struct model_table tables[2]);
size_t model_tables_bytes(const struct model_shape *shape);

/* Wait until all threads of all processes have come as far: the work shall overlap. */
void model_gate_pass(const struct model_table *table);

void model_key(const struct model_table *table, uint64_t number, uint8_t *ret_key);
uint64_t model_payload(const struct model_table *table, uint64_t number, uint64_t version);
/*
 * Find the number and version of an entry; the version is 0 in a non-unique index.  False: no
 * client ever wrote the entry.
 */
bool model_recognise(const struct model_table *table, const uint8_t *key, uint64_t payload,
	uint64_t *ret_number, uint64_t *ret_version);

/* Complain, with what it takes to repeat it; too many complaints end the program. */
void model_violation(const char *format, ...) NAM_PRINTF(1, 2);
unsigned model_violations(void);

/* One fiber of a client: writes its own class of entries and looks at those of all classes. */
struct observer {
	struct nam_worker *worker;
	struct model_table *tables;
	struct nam_rng rng;
	unsigned class;
	uint64_t ops, ops_done;
	uint64_t *own[2];		/* this fiber's own words, by number / MODEL_CLASSES */
	uint64_t *seen[2]; /* newest version seen of each number: no observer goes back */
	uint64_t *before;		/* of a scan's range */
	uint8_t *delivered;		/* of a scan's range */
	unsigned *running;		/* fibers of this worker that still work */
};

static inline uint64_t
model_version(uint64_t word)
{
	return word >> 1;
}

static inline bool
model_present(uint64_t word)
{
	return word & 1;
}

/* A return code other than the expected one is a violation. */
void model_check_code(struct observer *self, int rc, int expect, const char *how);

/* model_observe.c: each looks once, at entries of any class, and checks what it saw. */
void model_lookup_unique(struct observer *self);
void model_lookup_pairs(struct observer *self);
void model_lookup_many(struct observer *self, unsigned t);
void model_scan(struct observer *self, unsigned t);

/* The client's main: runs the fibers of process `process` and writes what they know to a file. */
int model_client(int argc, char **argv);

#endif /* NAM_TESTS_PROCESS_MODEL_H */
