/* SPDX-License-Identifier: Apache-2.0 */
#include "htm.h"

#include "common/env.h"
#include "common/hash/hash.h"

#define SPINS_BEFORE_YIELD 64u
#define TRIES_MAX 4u			/* transactions of a critical section */
#define TRIALS 64u			/* an empty transaction may abort now and then */

/* ---- the processor ------------------------------------------------------------------------- */

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define CODE_LOCKED 0xffu		/* of an abort: another thread has the lock */

/* Returns whether a transaction is under way, in which the lock is free. */
__attribute__((target("rtm"))) static bool
rtm_enter(const uint32_t *locked, unsigned *ret_status)
{
	*ret_status = _xbegin();
	if (*ret_status != _XBEGIN_STARTED)
		return false;
	/* Subscribes: if a thread takes the lock, the transaction aborts. */
	if (__atomic_load_n(locked, __ATOMIC_RELAXED))
		_xabort(CODE_LOCKED);
	return true;
}

__attribute__((target("rtm"))) static void
rtm_leave(void)
{
	_xend();
}

/* Whether this is a transaction, or a critical section whose lock is elided. */
__attribute__((target("rtm"))) static bool
transacts_now(void)
{
	/* XTEST is no instruction of other processors. */
	static int known;		/* 1: they are told apart, -1: they are not */
	uint32_t a, b, c, d;

	if (!known)
		known = __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & (bit_RTM | bit_HLE) ? 1 : -1;
	return known > 0 && _xtest() != 0;
}

/* Whether the lock is taken now, or seems so to this thread. */
static bool
hle_enter(uint32_t *locked)
{
	uint32_t was = 1;

	__asm__ volatile("xacquire xchgl %0, %1" : "+r"(was), "+m"(*locked) : : "memory");
	return !was;
}

static void
hle_leave(uint32_t *locked)
{
	__asm__ volatile("xrelease movl $0, %0" : "=m"(*locked) : : "memory");
}

enum nam__htm
nam__htm_available(void)
{
	/* On the stack: its page is there.  Where a page is missing, each transaction aborts. */
	uint32_t a, b = 0, c, d, lock = 0;
	unsigned status;

	if (!__get_cpuid_count(7, 0, &a, &b, &c, &d))
		return NAM__HTM_NONE;
#ifdef __SANITIZE_THREAD__
	/* TSan does not see that transactions exclude each other. */
	b &= ~(uint32_t)(bit_RTM | bit_HLE);
#endif
	for (unsigned i = 0; i < TRIALS && b & bit_RTM; i++)
		if (rtm_enter(&lock, &status)) {
			rtm_leave();
			return NAM__HTM_RTM;
		}
	for (unsigned i = 0; i < TRIALS && b & bit_HLE; i++) {
		bool elided = hle_enter(&lock) && transacts_now();

		hle_leave(&lock);
		if (elided)
			return NAM__HTM_HLE;
	}
	return NAM__HTM_NONE;
}

#define IS_LOCKED(status) ((status) & _XABORT_EXPLICIT && _XABORT_CODE(status) == CODE_LOCKED)
#define IS_WORTH_A_TRY(status) ((status) & (_XABORT_RETRY | _XABORT_EXPLICIT))

#else

#define IS_LOCKED(status) false
#define IS_WORTH_A_TRY(status) false

static bool
rtm_enter(const uint32_t *locked, unsigned *ret_status)
{
	(void)locked;
	*ret_status = 0;
	return false;
}

static void
rtm_leave(void)
{
}

static bool
transacts_now(void)
{
	return false;
}

static bool
hle_enter(uint32_t *locked)
{
	return !__atomic_exchange_n(locked, 1, __ATOMIC_ACQUIRE);
}

static void
hle_leave(uint32_t *locked)
{
	__atomic_store_n(locked, 0, __ATOMIC_RELEASE);
}

enum nam__htm
nam__htm_available(void)
{
	return NAM__HTM_NONE;
}

#endif

const char *
nam__htm_name(enum nam__htm htm)
{
	static const char *const names[] = { "none", "hle", "rtm", "stand-in" };

	return names[htm];
}

/* ---- the stand-in -------------------------------------------------------------------------- */

static void
spin(unsigned *spins)
{
	if (++*spins % SPINS_BEFORE_YIELD == 0)
		nam_yield();
}

static void
take(uint32_t *word)
{
	/* Acquire: pairs with the release of the thread that was in before. */
	for (unsigned spins = 0; __atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE);)
		spin(&spins);
}

static void
give(uint32_t *word)
{
	__atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

uint64_t nam__htm_stand_in_seed;

/* A transaction holds a lock of its own, which real ones do without; about a third aborts. */
static bool
stand_in_enter(struct nam__htm_lock *lock)
{
	uint64_t number = __atomic_load_n(&lock->counts->aborts, __ATOMIC_RELAXED) +
		__atomic_load_n(&lock->counts->commits, __ATOMIC_RELAXED);

	if (nam_mix64(number ^ nam__htm_stand_in_seed) % 3 == 0)
		return false;
	take(&lock->stand_in);
	if (__atomic_load_n(&lock->locked, __ATOMIC_RELAXED)) {
		give(&lock->stand_in);
		return false;
	}
	lock->transacts = true;
	return true;
}

/* ---- the lock ------------------------------------------------------------------------------ */

static inline void
count(uint64_t *word)
{
	__atomic_fetch_add(word, 1, __ATOMIC_RELAXED);
}

/* Whether the critical section is a transaction. */
static bool
begin(struct nam__htm_lock *lock)
{
	for (unsigned tries = 0; tries < TRIES_MAX; tries++) {
		bool stand_in = lock->htm == NAM__HTM_STAND_IN;
		unsigned status = 0, spins = 0;

		if (stand_in ? stand_in_enter(lock) : rtm_enter(&lock->locked, &status))
			return true;
		count(&lock->counts->aborts);
		if (!stand_in && !IS_WORTH_A_TRY(status))
			break;
		while (IS_LOCKED(status) && spins < SPINS_BEFORE_YIELD &&
			__atomic_load_n(&lock->locked, __ATOMIC_RELAXED))
			spin(&spins);
	}
	count(&lock->counts->fallbacks);
	return false;
}

void
nam__htm_lock_slowly(struct nam__htm_lock *lock)
{
	unsigned spins = 0;

	if (lock->htm == NAM__HTM_HLE) {
		while (!hle_enter(&lock->locked))
			spin(&spins);
		/* An elision that aborts takes the lock in its second try. */
		if (!transacts_now()) {
			count(&lock->counts->aborts);
			count(&lock->counts->fallbacks);
		}
		return;
	}
	if (lock->htm != NAM__HTM_NONE && begin(lock))
		return;
	take(&lock->locked);
	if (lock->htm == NAM__HTM_STAND_IN)
		take(&lock->stand_in);
}

void
nam__htm_unlock_slowly(struct nam__htm_lock *lock)
{
	bool transacts = false;

	if (lock->htm == NAM__HTM_HLE) {
		transacts = transacts_now();
		hle_leave(&lock->locked);
		if (transacts)
			count(&lock->counts->commits);
		return;
	}
	/* A thread that has taken the lock sees it taken; a transaction has seen it free. */
	if (lock->htm == NAM__HTM_RTM) {
		transacts = !__atomic_load_n(&lock->locked, __ATOMIC_RELAXED);
		if (transacts)
			rtm_leave();
	} else if (lock->htm == NAM__HTM_STAND_IN) {
		/* Nothing aborts it if another thread takes the lock meanwhile, and then waits. */
		transacts = lock->transacts;
		lock->transacts = false;
		give(&lock->stand_in);
	}
	if (transacts)
		count(&lock->counts->commits);
	else
		give(&lock->locked);
}
