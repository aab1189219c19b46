/* SPDX-License-Identifier: Apache-2.0 */
/* read_atomic_parts.h -- what the files of the checker of read atomicity share. */
#ifndef NAM_TESTS_SIM_READ_ATOMIC_PARTS_H
#define NAM_TESTS_SIM_READ_ATOMIC_PARTS_H

#include "read_atomic.h"
#include "txn_order.h"

#define SIM_RA_LOADER 0u
#define SIM_RA_NOBODY UINT32_MAX	/* the writer of 0 */

/* Where a transaction is in the order of versions, as far as that is known. */
enum sim_ra_rank {
	SIM_RANK_NOBODY,
	SIM_RANK_LOADER,
	SIM_RANK_UNKNOWN,	/* newer than these two, and that is all */
	SIM_RANK_FIRST,
};

/* A read or a write; in the order of transactions, of their keys, and of what they did. */
struct sim_ra_touch {
	uint64_t key;
	uint64_t value;
	uint32_t txn;
	uint32_t number;
	bool write;
};

/* Ascending by key and value. */
struct sim_ra_version {
	uint64_t key;
	uint64_t value;
	uint32_t txn;
	bool final;
};

/* A key that a transaction wrote; ascending by transaction and key. */
struct sim_ra_wrote {
	uint64_t key;
	uint32_t txn;
};

/* A committed transaction's read of a key; ascending by transaction and key. */
struct sim_ra_saw {
	uint64_t key;
	uint64_t value;
	uint32_t txn;
	uint32_t writer;	/* or SIM_RA_NOBODY */
};

struct sim_ra_check {
	const struct sim_txns *txns;
	const struct sim_read_atomic_options *options;
	struct sim_findings *findings;
	uint64_t *counts;
	uint32_t *ranks;	/* by transaction */
	struct sim_ra_touch *touches;
	struct sim_ra_version *versions;
	size_t versions_count;
	struct sim_ra_wrote *wrote;
	size_t wrote_count;
	size_t *wrote_first;	/* [transactions + 1] */
	struct sim_ra_saw *saws;
	size_t saws_count;
	size_t *saw_first;	/* [transactions + 1] */
	uint32_t *writers;	/* of one transaction's reads */
	struct sim_txn_sentence *pending;	/* what one transaction's reads say */
	size_t pending_count;
	size_t pending_room;
	struct sim_txn_order order;
};

/* Count a violation; returns NULL, or where to tell it, behind the name of its kind. */
FILE *sim_ra_violation(struct sim_ra_check *check, enum sim_read_atomic_kind kind);

void sim_ra_print_txn(const struct sim_ra_check *check, uint32_t txn, FILE *file);

/* "<transaction> read key 7 = 70" */
void sim_ra_print_read(const struct sim_ra_check *check, uint32_t txn, uint64_t key, uint64_t value,
	FILE *file);

static inline uint32_t
sim_ra_rank(const struct sim_ra_check *check, uint32_t txn)
{
	return txn == SIM_RA_NOBODY ? SIM_RANK_NOBODY : check->ranks[txn];
}

/* Whether a is older than b for certain. */
bool sim_ra_is_older(const struct sim_ra_check *check, uint32_t a, uint32_t b);

/* Whether it is open which of them is older. */
bool sim_ra_is_undecided(const struct sim_ra_check *check, uint32_t a, uint32_t b);

/* Transactions by their timestamps, ascending; to be freed. */
struct sim_ra_stamp {
	uint64_t timestamp;
	uint32_t txn;
};
struct sim_ra_stamp *sim_ra_stamps(const struct sim_ra_check *check, size_t *ret_count);

static inline size_t
sim_ra_writes_of(const struct sim_ra_check *check, uint32_t txn)
{
	return check->wrote_first[txn + 1] - check->wrote_first[txn];
}

static inline size_t
sim_ra_saws_of(const struct sim_ra_check *check, uint32_t txn)
{
	return check->saw_first[txn + 1] - check->saw_first[txn];
}

bool sim_ra_did_write(const struct sim_ra_check *check, uint32_t txn, uint64_t key);

/* NULL if it did not read that key. */
const struct sim_ra_saw *sim_ra_find_saw(const struct sim_ra_check *check, uint32_t txn,
	uint64_t key);

/* The rules, once it is clear which transaction read from which. */
void sim_ra_check_fractured(struct sim_ra_check *check);
void sim_ra_check_sessions(struct sim_ra_check *check);
void sim_ra_check_stale(struct sim_ra_check *check);
void sim_ra_check_timestamps(struct sim_ra_check *check);
void sim_ra_check_order(struct sim_ra_check *check);	/* the last of them */

#endif /* NAM_TESTS_SIM_READ_ATOMIC_PARTS_H */
