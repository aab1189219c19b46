/* SPDX-License-Identifier: Apache-2.0 */
/*
 * env.h -- time, randomness and threads, which a simulator replaces by nam_env_install().
 *
 * Nothing outside env.c and the fabric providers asks the operating system for time, entropy,
 * threads or sleep.
 */
#ifndef NAM_COMMON_ENV_H
#define NAM_COMMON_ENV_H

#include <stdint.h>

#include "error.h"

struct nam_thread;

typedef void (*nam_thread_fn)(void *arg);

struct nam_env {
	uint64_t (*now_ns)(void);		/* monotonic */
	uint64_t (*wall_ns)(void);		/* since 1970, about the same on every host */
	void (*sleep_ns)(uint64_t ns);		/* gives the processor away; may return early */
	void (*yield)(void);
	uint64_t (*entropy)(void);
	int (*thread_start)(const char *name, nam_thread_fn fn, void *arg, struct nam_thread **ret);
	void (*thread_join)(struct nam_thread *thread);		/* also frees it */
	/* For simulators, or NULL: see nam_answered(). */
	void (*answered)(const void *reply, uint32_t bytes);
};

/* Replace the operating system.  NULL puts it back.  Call before any other thread exists. */
void nam_env_install(const struct nam_env *env);

uint64_t nam_now_ns(void);
uint64_t nam_wall_ns(void);
void nam_sleep_ns(uint64_t ns);
void nam_yield(void);
uint64_t nam_entropy(void);

/* Run fn(arg) in a thread, which top and gdb show by its name of up to 15 bytes.  0 or -errno. */
int nam_thread_start(const char *name, nam_thread_fn fn, void *arg,
	struct nam_thread **ret_thread) NAM_MUST_CHECK;
void nam_thread_join(struct nam_thread *thread);

/* A memory server has answered a request in its memory: a simulator charges the calling thread. */
void nam_answered(const void *reply, uint32_t bytes);

/* For workloads, jitter and seeds, not for secrets: SplitMix64 (Steele, Lea, Flood, 2014). */
struct nam_rng {
	uint64_t state;
};

static inline struct nam_rng
nam_rng_seed(uint64_t seed)
{
	return (struct nam_rng){ seed };
}

static inline uint64_t
nam_rng_next(struct nam_rng *rng)
{
	uint64_t z = (rng->state += 0x9e3779b97f4a7c15ull);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	return z ^ z >> 31;
}

/* Uniform in [0, bound); the bias is below bound / 2^64.  bound == 0 gives 0. */
static inline uint64_t
nam_rng_below(struct nam_rng *rng, uint64_t bound)
{
	return (uint64_t)((unsigned __int128)nam_rng_next(rng) * bound >> 64);
}

#endif /* NAM_COMMON_ENV_H */
