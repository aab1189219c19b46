/* SPDX-License-Identifier: Apache-2.0 */
/*
 * facts.h -- a history taken apart: what each operation says about each key.
 *
 * The unit of checking is a key, or, in a non-unique index, a pair.  A fact is one event of one
 * unit at some moment between a call and a return.  It is a change that did happen, one that may
 * have, or an observation.
 *
 * A scan's facts are those of lookups of every unit in the range that it covered.  Each leaf is
 * seen as one whole image while the scan is under way.  So its entries, and their absence, are true
 * of each unit at some moment of the scan, though not at the same moment of all.
 */
#ifndef NAM_TESTS_SIM_FACTS_H
#define NAM_TESTS_SIM_FACTS_H

#include "history.h"

enum sim_what {
	/* changes: what they need, what they leave */
	SIM_ADD,		/* absent -> value */
	SIM_PUT,		/* -> value */
	SIM_REPLACE,		/* present -> value */
	SIM_REMOVE,		/* present -> absent */
	SIM_GO,			/* -> absent */
	SIM_REMOVE_VALUE,	/* value -> absent */
	/* observations */
	SIM_SEE_VALUE,
	SIM_SEE_PRESENT,	/* any value */
	SIM_SEE_ABSENT,
	SIM_SEE_OTHER,		/* absent, or another value */
};

static inline bool
sim_what_changes(enum sim_what what)
{
	return what <= SIM_REMOVE_VALUE;
}

struct sim_fact {
	uint64_t call;		/* it happened after this moment of the history ... */
	uint64_t end;		/* ... and before this; SIM_NEVER: a change, or nothing at all */
	uint64_t value;
	uint32_t op;
	enum sim_what what;
};

struct sim_facts {
	const struct sim_history *history;
	bool unique;
	struct sim_entry *units;	/* ascending; payload 0 in a unique index */
	size_t units_count;
	size_t *first;			/* [units_count + 1]: facts of unit i are first[i] ... */
	struct sim_fact *facts;		/* ... in the order of their calls */
	size_t count;
};

/* @scans	with the facts of scans, which are many */
void sim_facts_init(struct sim_facts *facts, const struct sim_history *history, bool unique,
	bool scans);
void sim_facts_free(struct sim_facts *facts);

/* The range of units that a scan speaks of: both included. */
struct sim_cover {
	struct sim_entry first;
	struct sim_entry last;
	bool empty;
};

/* All of its range; up to what it delivered last if it stopped at its limit, or failed. */
struct sim_cover sim_scan_cover(const struct sim_history *history, const struct sim_op *op,
	bool unique);

/* The first unit at or after this one, by key and payload. */
size_t sim_facts_lower(const struct sim_facts *facts, struct sim_entry unit);

static inline int
sim_entry_compare(struct sim_entry a, struct sim_entry b)
{
	if (a.key != b.key)
		return a.key < b.key ? -1 : 1;
	return a.payload < b.payload ? -1 : a.payload > b.payload;
}

/* malloc() and calloc() that end the program when memory is out. */
void *sim_alloc(size_t count, size_t bytes);

/* Room for one more of what an array holds; it may move.  An empty one may be NULL. */
void *sim_grow(void *array, size_t count, size_t *room, size_t bytes);

#endif /* NAM_TESTS_SIM_FACTS_H */
