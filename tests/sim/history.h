/* SPDX-License-Identifier: Apache-2.0 */
/*
 * history.h -- what the clients of one simulated run asked, what they were told, and when.
 *
 * Append-only.  An operation is entered when it is called, and completed when it returns.  One that
 * never returns (its client died) stays open and may have taken effect at any time since, or never.
 *
 * Calls and returns are numbered in the order in which they were entered.  The checkers go by that
 * order, not by the clock.  It is total, so two events of the same nanosecond are no special case.
 * It is also the order of events in the simulator.  A returned before B was called exactly if
 * A.return_order < B.call_order.
 *
 * Keys are numbers (nam_key_from_u64).  Payloads should be unique among all writes of a history.
 * The checkers are right either way, but see less when two writes cannot be told apart.
 */
#ifndef NAM_TESTS_SIM_HISTORY_H
#define NAM_TESTS_SIM_HISTORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define SIM_NEVER UINT64_MAX	/* return_ns and return_order of an operation that is still open */
#define SIM_LOADER UINT32_MAX	/* the client of what was there from the beginning */
#define SIM_NO_SCAN UINT32_MAX

enum sim_kind {
	SIM_INSERT,
	SIM_UPSERT,
	SIM_UPDATE,
	SIM_DELETE,
	SIM_DELETE_PAIR,
	SIM_LOOKUP,
	SIM_SCAN,
};

struct sim_entry {
	uint64_t key;
	uint64_t payload;
};

/* Both ends as in struct nam_range: NULL there is has_low or has_high false here. */
struct sim_range {
	uint64_t low;
	uint64_t high;
	bool has_low;
	bool has_high;
	bool high_inclusive;
	bool reverse;
	uint64_t limit;		/* 0: none */
};

struct sim_scan {
	struct sim_range range;
	size_t first;		/* of its entries, in sim_history.entries */
	size_t count;
};

struct sim_op {
	uint64_t key;
	uint64_t payload;	/* written, or read by a lookup that returned 0 */
	uint64_t call_ns;
	uint64_t return_ns;
	uint64_t call_order;
	uint64_t return_order;
	uint32_t client;	/* a process; SIM_LOADER */
	uint32_t session;	/* a fiber of it, which does one thing after another */
	int32_t rc;		/* means nothing while the operation is open */
	uint32_t scan;		/* SIM_SCAN: in sim_history.scans */
	enum sim_kind kind;
};

struct sim_history {
	struct sim_op *ops;	/* in the order of their calls; they move as the history grows */
	size_t ops_count;
	size_t ops_room;
	struct sim_scan *scans;
	size_t scans_count;
	size_t scans_room;
	struct sim_entry *entries;
	size_t entries_count;
	size_t entries_room;
	uint64_t order;		/* calls and returns so far */
};

/* Out of memory ends the program: this is for tests. */
void sim_history_init(struct sim_history *history);
void sim_history_free(struct sim_history *history);

/* A pair that is there before the first call. */
void sim_history_load(struct sim_history *history, uint64_t key, uint64_t payload);

/**
 * sim_history_call -- a point operation begins.
 *
 * @payload	what it writes, or the pair's payload for SIM_DELETE_PAIR; else anything
 * @now_ns	true virtual time, not some process's skewed clock
 *
 * Returns the operation's number, for sim_history_return().
 */
size_t sim_history_call(struct sim_history *history, uint32_t client, uint32_t session,
	enum sim_kind kind, uint64_t key, uint64_t payload, uint64_t now_ns);

/* @payload	what a lookup read; ignored for other kinds and other codes than 0 */
void sim_history_return(struct sim_history *history, size_t op, int rc, uint64_t payload,
	uint64_t now_ns);

/* The same for a scan, from nam_cursor_open() to the nam_cursor_next() that delivered no more. */
size_t sim_history_call_scan(struct sim_history *history, uint32_t client, uint32_t session,
	const struct sim_range *range, uint64_t now_ns);

/*
 * @rc		0: the range, or its limit, was exhausted; else the entries are what came before
 * @entries	[count], as delivered; copied
 */
void sim_history_return_scan(struct sim_history *history, size_t op, int rc,
	const struct sim_entry *entries, size_t count, uint64_t now_ns);

/*
 * The knowledge of an operation's effect.  Unknown: it is open, or the fabric failed, or the client
 * was fenced.  Then it took effect at any time after the call, or never.  That may be after the
 * return, for a late WRITE knows no returns.
 */
enum sim_outcome {
	SIM_DONE,	/* rc 0: it did what it was asked to */
	SIM_EXISTS,	/* it changed nothing, and saw the key, or the pair */
	SIM_NOTFOUND,	/* it changed nothing, and saw that the key, or the pair, is not there */
	SIM_NOTHING,	/* it changed nothing, and says nothing: no room, a lock, restarts */
	SIM_UNKNOWN,
};
enum sim_outcome sim_op_outcome(const struct sim_op *op);

/* When an operation was over for certain: return_order, or SIM_NEVER if its outcome is unknown. */
uint64_t sim_op_end(const struct sim_op *op);

/* "#12 insert(7, 70) by client 1.3 in 100..250 ns: 0"; returns text. */
#define SIM_OP_TEXT_BYTES 200
const char *sim_op_text(const struct sim_history *history, size_t op,
	char text[SIM_OP_TEXT_BYTES]);

/* One JSON object per operation and line, in the order of calls; scans with their entries. */
void sim_history_write_json(const struct sim_history *history, FILE *file);

/**
 * sim_history_write_plain -- the text that public checkers of transactions read.
 *
 * Lines r(key,value,session,txn) and w(key,value,session,txn); transaction -1 was aborted.  Every
 * operation is a transaction of its own, as is every entry of a scan, for a scan is no snapshot.
 * Transaction 0 of session 0 is the loader's and writes every key's first value.  To be absent is a
 * value as well: 2^63 + n, and a delete writes a new one.  Payloads must be unique and below 2^63;
 * the index is a unique one; the text knows no times.
 *
 * Returns how many operations could not be said.  They see only that a key exists, or see it absent
 * when it is not clear which delete was the last.
 */
size_t sim_history_write_plain(const struct sim_history *history, FILE *file);

#endif /* NAM_TESTS_SIM_HISTORY_H */
