/* SPDX-License-Identifier: Apache-2.0 */
#include "txn_order.h"

#include <stdlib.h>
#include <string.h>

#include "facts.h"

enum colour {
	WHITE,		/* not reached */
	GREY,		/* on the path */
	BLACK,		/* all that is newer was looked at: no circle goes through it */
};

struct walk {
	const struct sim_txn_order *order;
	size_t *first;		/* [txns + 1] sentences by their older one */
	size_t *next;		/* by transaction: the sentence to follow next */
	uint8_t *colours;	/* by transaction */
	uint32_t *path;
	size_t length;
};

void
sim_txn_order_free(struct sim_txn_order *order)
{
	free(order->sentences);
	memset(order, 0, sizeof(*order));
}

void
sim_txn_order_say(struct sim_txn_order *order, struct sim_txn_sentence sentence)
{
	order->sentences = sim_grow(order->sentences, order->count, &order->room,
		sizeof(*order->sentences));
	order->sentences[order->count++] = sentence;
}

static int
compare_sentences(const void *a, const void *b)
{
	const struct sim_txn_sentence *x = a, *y = b;

	if (x->older != y->older)
		return x->older < y->older ? -1 : 1;
	return x->newer < y->newer ? -1 : x->newer > y->newer;
}

/* The sentence by which a path goes on from one transaction to the next. */
static const struct sim_txn_sentence *
taken(const struct walk *walk, uint32_t from)
{
	return &walk->order->sentences[walk->next[from] - 1];
}

static void
enter(struct walk *walk, uint32_t txn)
{
	walk->colours[txn] = GREY;
	walk->path[walk->length++] = txn;
}

/* Deeper from here, without recursion; true: the path has come to one of its own. */
static bool
walk_from(struct walk *walk, uint32_t start, uint32_t *ret_met)
{
	enter(walk, start);
	while (walk->length > 0) {
		uint32_t txn = walk->path[walk->length - 1], newer;

		if (walk->next[txn] == walk->first[txn + 1]) {
			walk->colours[txn] = BLACK;
			walk->length--;
			continue;
		}
		newer = walk->order->sentences[walk->next[txn]++].newer;
		if (walk->colours[newer] == GREY) {
			*ret_met = newer;
			return true;
		}
		if (walk->colours[newer] == WHITE)
			enter(walk, newer);
	}
	return false;
}

static void
copy_circle(const struct walk *walk, uint32_t met, struct sim_txn_sentence **ret_circle,
	size_t *ret_count)
{
	size_t from = walk->length - 1;

	while (walk->path[from] != met)
		from--;
	*ret_count = walk->length - from;
	*ret_circle = sim_alloc(*ret_count, sizeof(**ret_circle));
	for (size_t i = from; i < walk->length; i++)
		(*ret_circle)[i - from] = *taken(walk, walk->path[i]);
}

void
sim_txn_order_circle(struct sim_txn_order *order, size_t txns,
	struct sim_txn_sentence **ret_circle, size_t *ret_count)
{
	struct walk walk = { .order = order };
	uint32_t met;

	*ret_circle = NULL;
	*ret_count = 0;
	if (order->count == 0)
		return;
	qsort(order->sentences, order->count, sizeof(*order->sentences), compare_sentences);
	walk.first = sim_alloc(txns + 1, sizeof(*walk.first));
	walk.next = sim_alloc(txns, sizeof(*walk.next));
	walk.colours = sim_alloc(txns, sizeof(*walk.colours));
	walk.path = sim_alloc(txns, sizeof(*walk.path));
	for (size_t i = 0; i < order->count; i++)
		walk.first[order->sentences[i].older + 1]++;
	for (size_t i = 0; i < txns; i++) {
		walk.first[i + 1] += walk.first[i];
		walk.next[i] = walk.first[i];
	}
	for (uint32_t i = 0; i < txns && !*ret_circle; i++)
		if (walk.colours[i] == WHITE && walk_from(&walk, i, &met))
			copy_circle(&walk, met, ret_circle, ret_count);
	free(walk.path);
	free(walk.colours);
	free(walk.next);
	free(walk.first);
}
