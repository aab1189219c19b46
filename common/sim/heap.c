/* SPDX-License-Identifier: Apache-2.0 */
/* heap.c -- the queue of events: a heap of four children, ordered by time, then by number. */
#include "sim_internal.h"

#define CHILDREN 4u

static inline bool
before(const struct sim_slot *a, const struct sim_slot *b)
{
	return a->time < b->time || (a->time == b->time && a->number < b->number);
}

static inline void
put(uint32_t place, struct sim_slot slot)
{
	nam__sim.heap[place] = slot;
	slot.event->place = place + 1;
}

static void
rise(uint32_t place, struct sim_slot slot)
{
	while (place) {
		uint32_t parent = (place - 1) / CHILDREN;

		if (!before(&slot, &nam__sim.heap[parent]))
			break;
		put(place, nam__sim.heap[parent]);
		place = parent;
	}
	put(place, slot);
}

static void
sink(uint32_t place, struct sim_slot slot)
{
	const struct sim_slot *heap = nam__sim.heap;
	const uint32_t count = nam__sim.heap_count;

	for (;;) {
		uint32_t child = CHILDREN * place + 1, least = child;
		uint32_t end = child + CHILDREN < count ? child + CHILDREN : count;

		if (child >= count)
			break;
		for (uint32_t i = child + 1; i < end; i++)
			if (before(&heap[i], &heap[least]))
				least = i;
		if (!before(&heap[least], &slot))
			break;
		put(place, heap[least]);
		place = least;
	}
	put(place, slot);
}

void
nam__sim_plan(struct sim_event *event, uint64_t time)
{
	struct sim *sim = &nam__sim;

	sim->heap = nam__sim_grow(sim->heap, sim->heap_count, &sim->heap_size, sizeof(*sim->heap));
	event->time = time < sim->now ? sim->now : time;
	event->number = ++sim->numbers;
	rise(sim->heap_count++, (struct sim_slot){ event->time, event->number, event });
}

static void
take_out(uint32_t place)
{
	struct sim *sim = &nam__sim;
	struct sim_slot last = sim->heap[--sim->heap_count];

	if (place == sim->heap_count)
		return;
	if (place && before(&last, &sim->heap[(place - 1) / CHILDREN]))
		rise(place, last);
	else
		sink(place, last);
}

void
nam__sim_unplan(struct sim_event *event)
{
	if (!event->place)
		return;
	take_out(event->place - 1);
	event->place = 0;
}

struct sim_event *
nam__sim_take(void)
{
	struct sim_event *event;

	if (!nam__sim.heap_count)
		return NULL;
	event = nam__sim.heap[0].event;
	take_out(0);
	event->place = 0;
	return event;
}
