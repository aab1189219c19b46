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

/* A lock; `htm` stays while threads use it. */
struct nam__htm_lock {
	uint32_t locked;
	uint32_t stand_in;		/* the lock of stand-in transactions */
	enum nam__htm htm;
	uint64_t commits, aborts;	/* of transactions; HLE does not tell */
	uint64_t fallbacks;		/* critical sections that took the lock in the end */
};

/* The best kind that a trial on this processor showed to work. */
enum nam__htm nam__htm_available(void);
/* "none", "hle", "rtm" */
const char *nam__htm_name(enum nam__htm htm);

/* Waits while another thread is in; bounded tries of transactions, then the lock. */
void nam__htm_lock(struct nam__htm_lock *lock);
void nam__htm_unlock(struct nam__htm_lock *lock);

#endif /* NAM_KV_SERVER_HTM_H */
