/* SPDX-License-Identifier: Apache-2.0 */
/*
 * htm.h -- hardware transactions around a lock (Wu et al., "RHKV", section 4.6).
 *
 *	RTM	a transaction reads the lock and does not take it, so threads meet only where they
 *		touch the same memory
 *	HLE	the processor does the same with an instruction that seems to take the lock
 *
 * Microcode may disable either, whatever CPUID says, so a trial decides.
 */
#ifndef NAM_KV_SERVER_HTM_H
#define NAM_KV_SERVER_HTM_H

#include <stdbool.h>
#include <stdint.h>

enum nam__htm {
	NAM__HTM_NONE,			/* the lock is taken */
	NAM__HTM_HLE,
	NAM__HTM_RTM,
	NAM__HTM_STAND_IN,		/* for tests: transactions in software, a third aborts */
};

struct nam__htm_counts {
	uint64_t commits, aborts;	/* of transactions, or of elisions of the lock */
	uint64_t fallbacks;		/* critical sections that took the lock in the end */
};

/*
 * A lock; `htm` and `counts` stay while threads use it.  Counts are in another cache line than the
 * lock.  Each transaction has read that, so a count beside it would abort all others.
 */
struct nam__htm_lock {
	uint32_t locked;
	uint32_t stand_in;		/* the lock of stand-in transactions, */
	bool transacts;			/* and whether the thread that has it is in one */
	enum nam__htm htm;
	struct nam__htm_counts *counts;	/* not used by NAM__HTM_NONE */
};

/* The best kind that a trial on this processor showed to work. */
enum nam__htm nam__htm_available(void);
/* "none", "hle", "rtm" */
const char *nam__htm_name(enum nam__htm htm);

/* For tests: which stand-in transactions abort.  Set before there are any. */
extern uint64_t nam__htm_stand_in_seed;

/* The rest of the two below. */
void nam__htm_lock_slowly(struct nam__htm_lock *lock);
void nam__htm_unlock_slowly(struct nam__htm_lock *lock);

/* Waits while another thread is in; bounded tries of transactions, then the lock. */
static inline void
nam__htm_lock(struct nam__htm_lock *lock)
{
	/* Acquire: pairs with the release of the thread that was in before. */
	if (lock->htm != NAM__HTM_NONE || __atomic_exchange_n(&lock->locked, 1, __ATOMIC_ACQUIRE))
		nam__htm_lock_slowly(lock);
}

static inline void
nam__htm_unlock(struct nam__htm_lock *lock)
{
	if (lock->htm != NAM__HTM_NONE)
		nam__htm_unlock_slowly(lock);
	else
		__atomic_store_n(&lock->locked, 0, __ATOMIC_RELEASE);
}

#endif /* NAM_KV_SERVER_HTM_H */
