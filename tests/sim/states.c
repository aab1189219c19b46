/* SPDX-License-Identifier: Apache-2.0 */
#include "states.h"

#include <stdlib.h>
#include <string.h>

#include "common/hash/hash.h"
#include "facts.h"

#define NO_STATE UINT32_MAX

static void
states_rehash(struct sim_states *set)
{
	free(set->buckets);
	set->mask = 2 * set->room - 1;
	set->buckets = sim_alloc(2 * set->room, sizeof(*set->buckets));
	memset(set->buckets, 0xff, 2 * set->room * sizeof(*set->buckets));
}

static uint32_t
state_bucket(const struct sim_states *set, const struct sim_state *state)
{
	uint64_t hash = nam_mix64(state->dull ? 2 : state->value + state->present);

	for (uint32_t i = 0; i < SIM_WORDS; i++)
		hash = nam_mix64(hash ^ state->done.words[i]);
	return (uint32_t)hash & set->mask;
}

static void
states_grow(struct sim_states *set)
{
	set->room = set->room ? 2 * set->room : 16;
	set->states = realloc(set->states, set->room * sizeof(*set->states));
	if (!set->states)
		abort();
	states_rehash(set);
	for (uint32_t i = 0; i < set->count; i++) {
		uint32_t bucket = state_bucket(set, &set->states[i]);

		if (set->states[i].worse)
			continue;
		set->states[i].next = set->buckets[bucket];
		set->buckets[bucket] = i;
	}
}

void
sim_states_clear(struct sim_states *set)
{
	for (uint32_t i = 0; i < set->count; i++)
		set->buckets[state_bucket(set, &set->states[i])] = NO_STATE;
	set->count = set->worse = 0;
}

void
sim_states_free(struct sim_states *set)
{
	free(set->states);
	free(set->buckets);
}

/* Whether a and b differ at the most in what they used, and b used all that a did. */
static bool
state_better(const struct sim_state *a, const struct sim_state *b)
{
	return a->present == b->present && a->dull == b->dull &&
		(a->dull || a->value == b->value) &&
		memcmp(&a->done, &b->done, sizeof(a->done)) == 0 &&
		sim_bits_subset(&a->used, &b->used);
}

void
sim_states_add(struct sim_states *set, const struct sim_state *state)
{
	uint32_t *link, i;

	if (set->count == set->room)
		states_grow(set);
	link = &set->buckets[state_bucket(set, state)];
	for (i = *link; i != NO_STATE; i = set->states[i].next)
		if (state_better(&set->states[i], state))
			return;
	for (uint32_t *at = link; *at != NO_STATE;) {
		struct sim_state *other = &set->states[*at];

		if (state_better(state, other)) {
			*at = other->next;
			other->worse = true;
			set->worse++;
		} else {
			at = &other->next;
		}
	}
	set->states[set->count] = *state;
	set->states[set->count].worse = false;
	set->states[set->count].next = *link;
	*link = set->count++;
}

void
sim_states_swap(struct sim_states *a, struct sim_states *b)
{
	struct sim_states other = *a;

	*a = *b;
	*b = other;
}
