/* SPDX-License-Identifier: Apache-2.0 */
/* verify_node.c -- the invariants that one node image shows by itself. */
#include <stdarg.h>
#include <stdio.h>

#include "index/validate.h"
#include "verify.h"

#define NODE_FLAGS_KNOWN (NAM__NODE_TYPE_MASK | NAM__NODE_LAST | NAM__NODE_DEAD)

void
nam__violation(struct nam__verifier *verifier, enum nam__invariant invariant, const char *format,
	...)
{
	char text[320];
	va_list args;
	int used;

	used = snprintf(text, sizeof(text), "region %u offset %llu level %u: ",
		nam_gaddr_region(verifier->at),
		(unsigned long long)nam_gaddr_offset(verifier->at), verifier->level);
	va_start(args, format);
	vsnprintf(text + used, sizeof(text) - (size_t)used, format, args);
	va_end(args);
	verifier->violations++;
	if (verifier->violation)
		verifier->violation(verifier->arg, invariant, text);
}

/* I2.  The hash is checked whatever the fabric promises: at rest it must hold everywhere. */
static bool
check_whole(struct nam__verifier *verifier, const uint64_t *image)
{
	const struct nam__geometry *g = &verifier->index->g;

	if (nam__node_is_whole(verifier->index, image, verifier->at))
		return true;
	if (nam__node_ends_agree(g, image))
		nam__violation(verifier, NAM__I_WHOLE, "the hash does not match the image");
	else
		nam__violation(verifier, NAM__I_WHOLE,
			"the image is torn: it begins with version %llu and ends with %llu",
			(unsigned long long)nam__node_version(image),
			(unsigned long long)(image[g->node_words - 1] >> 16));
	return false;
}

/* I3, I8, I9.  False: nothing behind the header can be interpreted. */
static bool
check_header(struct nam__verifier *verifier, const uint64_t *image)
{
	unsigned type = nam__node_type(image), level = verifier->level;
	uint64_t lock = image[NAM__WORD_LOCK];
	bool usable = true;

	if (nam_lock_held(lock))
		nam__violation(verifier, NAM__I_UNLOCKED,
			"the node is locked by client %u, incarnation %u", nam_lock_owner(lock),
			nam_lock_incarnation(lock));
	if (nam__node_dead(image))
		nam__violation(verifier, NAM__I_ALIVE, "a pointer leads to this dead node");
	if ((uint16_t)nam__node_generation(image) != nam_gaddr_tag(verifier->at))
		nam__violation(verifier, NAM__I_PROMISE,
			"the pointer promises generation %u, the node has %u",
			nam_gaddr_tag(verifier->at), nam__node_generation(image));
	if (nam__node_type_and_flags(image) & ~NODE_FLAGS_KNOWN)
		nam__violation(verifier, NAM__I_PROMISE, "unknown flags %#x",
			nam__node_type_and_flags(image));
	if (nam__node_level(image) != level) {
		nam__violation(verifier, NAM__I_PROMISE, "the node says that its level is %u",
			nam__node_level(image));
		usable = false;
	}
	if (level ? type != NAM__NODE_INNER : type != NAM__NODE_LEAF && type != NAM__NODE_HEAD) {
		nam__violation(verifier, NAM__I_PROMISE, "a node of type %u", type);
		return false;
	}
	if (!nam__node_counts_valid(&verifier->index->g, image, nam__node_type(image))) {
		nam__violation(verifier, NAM__I_PROMISE, "%u entries, %u of them sorted",
			nam__node_count(image), nam__node_sorted(image));
		return false;
	}
	return usable;
}

/* I4 of one entry: its key lies between the fences. */
static void
check_fences(struct nam__verifier *verifier, const uint64_t *image, const uint64_t *key,
	unsigned number)
{
	const struct nam__geometry *g = &verifier->index->g;

	if (nam__node_below(image, g, key))
		nam__violation(verifier, NAM__I_ORDER, "entry %u lies below the low fence", number);
	if (nam__node_beyond(image, g, key))
		nam__violation(verifier, NAM__I_ORDER, "entry %u lies at or beyond the high fence",
			number);
}

/* I4 of entries `first` to `end`: strictly ascending. */
static void
check_ascending(struct nam__verifier *verifier, const uint64_t *entries, unsigned count,
	unsigned width, const char *which)
{
	unsigned words = verifier->index->g.full_words;

	for (unsigned i = 1; i < count; i++) {
		int order = nam__key_compare(entries + (i - 1) * width, entries + i * width, words);

		if (order >= 0) {
			nam__violation(verifier, NAM__I_ORDER, "%s %u %s", which, i,
				order ? "is smaller than the one before it" :
					"occurs twice");
			return;
		}
	}
}

static void
check_leaf(struct nam__verifier *verifier, const uint64_t *image)
{
	const struct nam__geometry *g = &verifier->index->g;
	unsigned count = nam__node_count(image), sorted = nam__node_sorted(image);
	const uint64_t *entries = image + g->entries_at;
	unsigned pad_bits = (8 - g->key_bytes % 8) % 8 * 8;

	if (count - sorted > g->tail_max)
		nam__violation(verifier, NAM__I_ORDER, "%u unsorted entries, %u are allowed",
			count - sorted, g->tail_max);
	check_ascending(verifier, entries, sorted, g->leaf_words, "sorted entry");
	for (unsigned i = 0; i < count; i++) {
		const uint64_t *key = entries + i * g->leaf_words;

		check_fences(verifier, image, key, i);
		if (key[g->key_words - 1] & ((1ull << pad_bits) - 1))
			nam__violation(verifier, NAM__I_ORDER,
				"the key of entry %u has no zero padding", i);
	}
	if (count == sorted)
		return;
	/* The tail's entries must differ from the others and among themselves. */
	memcpy(verifier->sorted, image, g->node_bytes);
	nam__leaf_sort(g, verifier->sorted);
	check_ascending(verifier, verifier->sorted + g->entries_at, count, g->leaf_words, "entry");
}

static void
check_inner(struct nam__verifier *verifier, const uint64_t *image)
{
	const struct nam__geometry *g = &verifier->index->g;
	const uint64_t *entries = image + g->entries_at;
	unsigned count = nam__node_count(image);

	if (!count)
		return;
	if (nam__key_compare(entries, nam__node_low(image), g->full_words))
		nam__violation(verifier, NAM__I_SEPARATOR,
			"the first separator is not the low fence");
	check_ascending(verifier, entries, count, g->inner_words, "separator");
	for (unsigned i = 0; i < count; i++)
		check_fences(verifier, image, entries + i * g->inner_words, i);
}

/* I10, but for what comes after it.  Hints may be stale, yet they are addresses. */
static void
check_head(struct nam__verifier *verifier, const uint64_t *image)
{
	const struct nam__geometry *g = &verifier->index->g;
	unsigned count = nam__node_count(image);

	if (nam__node_last(image) ||
		nam__key_compare(nam__node_low(image), nam__node_high(g, image), g->full_words))
		nam__violation(verifier, NAM__I_HEAD, "the head node's range is not empty");
	for (unsigned i = 0; i < count; i++) {
		if (!nam_region_table_find(&verifier->worker->client->regions,
			    nam__head_entry(g, image, i))) {
			nam__violation(verifier, NAM__I_HEAD, "hint %u names no known region", i);
			return;
		}
	}
}

bool
nam__verify_image(struct nam__verifier *verifier, const uint64_t *image)
{
	bool whole = check_whole(verifier, image);

	if (!check_header(verifier, image) || !whole)
		return false;
	switch (nam__node_type(image)) {
	case NAM__NODE_LEAF:
		check_leaf(verifier, image);
		break;
	case NAM__NODE_INNER:
		check_inner(verifier, image);
		break;
	default:
		check_head(verifier, image);
	}
	return true;
}
