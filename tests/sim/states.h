/* SPDX-License-Identifier: Apache-2.0 */
/* states.h -- the states that one key may be in while linearizable.c searches. */
#ifndef NAM_TESTS_SIM_STATES_H
#define NAM_TESTS_SIM_STATES_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_SLOTS 128u		/* operations under way on one key at a time */
#define SIM_WORDS (SIM_SLOTS / 64)

struct sim_bits {
	uint64_t words[SIM_WORDS];
};

/* One state that the key may be in. */
struct sim_state {
	uint64_t value;		/* 0 if absent */
	uint64_t seen_until;	/* the end of the last fact that can tell this value from others */
	bool present;
	bool dull;		/* that has passed: any value is as good as this one */
	bool worse;		/* than one that was added later */
	struct sim_bits done;	/* of those that will return, which took effect */
	struct sim_bits used;	/* of those that may never have happened, which did */
	uint32_t next;		/* in the same bucket */
};

/* States without duplicates, and without one that another is better than. */
struct sim_states {
	struct sim_state *states;
	uint32_t count;
	uint32_t room;
	uint32_t worse;
	uint32_t *buckets;
	uint32_t mask;
};

static inline bool
sim_bits_have(const struct sim_bits *bits, uint32_t bit)
{
	return bits->words[bit / 64] >> bit % 64 & 1;
}

static inline void
sim_bits_set(struct sim_bits *bits, uint32_t bit)
{
	bits->words[bit / 64] |= 1ull << bit % 64;
}

static inline void
sim_bits_clear(struct sim_bits *bits, uint32_t bit)
{
	bits->words[bit / 64] &= ~(1ull << bit % 64);
}

static inline bool
sim_bits_subset(const struct sim_bits *a, const struct sim_bits *b)
{
	for (uint32_t i = 0; i < SIM_WORDS; i++)
		if (a->words[i] & ~b->words[i])
			return false;
	return true;
}

void sim_states_clear(struct sim_states *set);
void sim_states_free(struct sim_states *set);
void sim_states_swap(struct sim_states *a, struct sim_states *b);

/* Unless one as good is there; marks what is worse. */
void sim_states_add(struct sim_states *set, const struct sim_state *state);

#endif /* NAM_TESTS_SIM_STATES_H */
