/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txn.h -- nam-bench txn: what its workloads, and stores of records, agree on.
 *
 * Each record has a number, from which its key follows, and a word, with which its value begins.
 * Words are balances or counts: the sum of all is known at any time.
 */
#ifndef NAM_BENCH_TXN_TXN_H
#define NAM_BENCH_TXN_TXN_H

#include "txn/records.h"
#include "txn/serializable.h"
#include "bench/requests/requests.h"
#include "bench/requests/values.h"

#define TXN_LOAD TXN_KINDS_MAX		/* a transaction that writes new records */
#define TXN_SUM (TXN_KINDS_MAX + 1)	/* one that only reads */

struct txn_record {
	uint64_t number, key;
	int64_t read, word;		/* the word that was read, and the one to be written */
	uint64_t sequence;		/* of the version that was read; 0: none */
	bool writes;
	bool update;			/* known before: it will be written, or may be */
};

/* A transaction: its records, and what the workload makes of them. */
struct txn_room {
	struct requests_part *part;
	unsigned kind;			/* of the workload's transactions, or TXN_LOAD, TXN_SUM */
	uint32_t count;			/* of records */
	uint32_t process;		/* in the history */
	/* The last try: change of the sum of all words; values that were never written. */
	int64_t added;
	uint32_t wrong;
	uint32_t conflicts;		/* tries that ended with one */
	struct txn_record records[NAM_TXN_RECORDS_MAX];
	union {
		struct nam_txn_get gets[NAM_TXN_RECORDS_MAX];
		struct {
			struct nam_record_get gets[NAM_RECORDS_MAX];
			struct nam_record_put puts[NAM_RECORDS_MAX];
		} ramp;
	};
	uint64_t words[];		/* values */
};

static inline void *
txn_value(struct txn_room *room, uint32_t i)
{
	return (uint8_t *)room->words + i * record_room(&room->part->bench->options);
}

/* Take words from the values that were read, let the workload change them, and make values. */
void txn_apply(struct txn_room *room);

extern const struct txn_workload {
	const char *name;
	const char *records, *words;	/* what they are */
	const char *const *kinds;	/* the names of its transactions, ended by NULL */
	const char *paper;		/* its peak in the DrTM+H paper; or NULL */
	uint32_t records_per_key;
	int64_t loaded;			/* each word at first */
	/* Sets kind, count and numbers. */
	void (*draw)(struct requests_part *part, struct txn_room *room);
	/* Has words, and sets those that change, and `writes`. */
	void (*apply)(struct txn_room *room);
} txn_smallbank, txn_ycsb_t;

extern const struct txn_store {
	const char *name;
	bool serializable;
	int (*create)(const struct requests *bench, uint64_t records);
	int (*open)(struct requests_part *part, uint64_t records);
	/*
	 * Read the records unless it is a TXN_LOAD, apply, and write those that change.
	 *
	 * @ret_tries	also on failure
	 * @ret_sequence	of the versions written; also on failure, if that may be committed
	 */
	NAM_FIBER_FN int (*run)(struct txn_room *room, uint32_t *ret_tries,
		uint64_t *ret_sequence);
	void (*close)(struct requests_part *part);
	int (*drop)(struct nam_worker *worker, const char *name);
} txn_store_serializable, txn_store_2pl;

/* Lines and members of both kinds of workloads. */
void txn_phases_print(const struct requests_options *o);
/* @peak	in the DrTM+H paper; NULL: it has none */
void txn_paper_print(const char *peak);
void txn_kinds_json(const struct requests *bench, const char *const *kinds, cJSON *object);

/* The workload and the store that the options say. */
const struct txn_workload *txn_workload_of(const struct requests_options *o);
const struct txn_store *txn_store_of(const struct requests_options *o);

#endif /* NAM_BENCH_TXN_TXN_H */
