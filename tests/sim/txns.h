/* SPDX-License-Identifier: Apache-2.0 */
/*
 * txns.h -- what transactions read and wrote, in which session, when, and how they ended.
 *
 * Append-only.  Transactions are numbered from 1 in the order in which they are entered.  Those of
 * one session are entered in the order in which it made them, those of different sessions in any.
 * Transaction 0 is the loader's: what is there before all others.
 *
 * Keys and values are numbers.  Each write of a key has a value of its own, from 1 to 2^63 - 1: a
 * value names its writer.  To delete is to write a value as well, and a reader of a deleted key
 * must say by which.  To read 0 is to find a key on which nothing was ever written.
 */
#ifndef NAM_TESTS_SIM_TXNS_H
#define NAM_TESTS_SIM_TXNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum sim_txn_outcome {
	SIM_TXN_UNKNOWN,	/* open: its client died, or does not know: all of it, or nothing */
	SIM_TXN_COMMITTED,
	SIM_TXN_ABORTED,
};

struct sim_txn {
	uint64_t name;		/* its number, or what the file said that it was read from */
	uint64_t begin_ns;	/* 0: unknown */
	uint64_t end_ns;	/* 0: unknown, or still open */
	uint64_t timestamp;	/* of the versions that it wrote; 0: unknown */
	uint32_t session;
	enum sim_txn_outcome outcome;
};

struct sim_access {
	uint64_t key;
	uint64_t value;
	uint32_t txn;
	bool write;
};

struct sim_txns {
	struct sim_txn *txns;
	size_t count;
	size_t room;
	struct sim_access *accesses;	/* of each transaction in its order */
	size_t accesses_count;
	size_t accesses_room;
};

/* Out of memory ends the program: this is for tests. */
void sim_txns_init(struct sim_txns *txns);
void sim_txns_free(struct sim_txns *txns);

/* The state before the first transaction. */
void sim_txns_load(struct sim_txns *txns, uint64_t key, uint64_t value);

/* Returns the transaction's number. */
uint32_t sim_txns_begin(struct sim_txns *txns, uint32_t session, uint64_t now_ns);

/* Its reads and writes; a read after its own write of a key sees that write. */
void sim_txns_read(struct sim_txns *txns, uint32_t txn, uint64_t key, uint64_t value);
void sim_txns_write(struct sim_txns *txns, uint32_t txn, uint64_t key, uint64_t value);

/*
 * How it ended.  Without an answer: not called, or with SIM_TXN_UNKNOWN and the timestamp.
 *
 * @timestamp	of what it wrote, by which versions of a key are ordered; 0: unknown, or none
 * @now_ns	by the same clock as all others; 0: unknown
 */
void sim_txns_end(struct sim_txns *txns, uint32_t txn, enum sim_txn_outcome outcome,
	uint64_t timestamp, uint64_t now_ns);

/* "transaction 12 (session 3, timestamp 40, 100..250 ns)"; returns text. */
#define SIM_TXN_TEXT_BYTES 160
const char *sim_txn_text(const struct sim_txns *txns, uint32_t txn, char text[SIM_TXN_TEXT_BYTES]);

/*
 * One JSON object per transaction and line, the loader's first.  It has "number", which counts from
 * 1 in its session, and "ops": ["r", key, value] or ["w", key, value] in its order.  An unknown
 * value is null.
 */
void sim_txns_write_json(const struct sim_txns *txns, FILE *file);

/*
 * sim_txns_write_plain -- the text that public checkers of transactions read (history.h).
 *
 * Lines r(key,value,session,txn) and w(key,value,session,txn).  First those of transaction 0 of
 * session 0, the loader's, which writes each key: where nothing was loaded, 2^63 + n.  A read of
 * 0 there is a read of that.  Then all transactions in their order.  Of aborted ones only writes,
 * with -1 for txn.  One of unknown outcome that a reader saw is written as committed, by a session
 * of its own, for its session need not see it.  An unseen one is written as aborted.  The text
 * knows neither times nor timestamps.
 */
void sim_txns_write_plain(const struct sim_txns *txns, FILE *file);

/**
 * sim_txns_read_plain -- enter what such a text says into a history without transactions.
 *
 * @ret_diag	set on failure: the line, and what is wrong with it
 *
 * Lines of one transaction need not follow one another; their session and txn say which it is.
 * The order of the transactions of a session is that of their first lines.  Each line with txn -1
 * is an aborted transaction.  Blanks between words, and empty lines, mean nothing.  Transaction 0
 * of session 0 comes first, if there is one, and only writes; 0 there says that nothing is loaded.
 *
 * Returns 0, or -EINVAL for a malformed text, or -EIO; the history then has what came before.
 */
#define SIM_TXNS_DIAG_BYTES 200
int sim_txns_read_plain(struct sim_txns *txns, FILE *file, char ret_diag[SIM_TXNS_DIAG_BYTES]);

#endif /* NAM_TESTS_SIM_TXNS_H */
