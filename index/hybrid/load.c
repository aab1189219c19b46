/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load.c -- fill an empty hybrid index from sorted input.
 *
 *	step 1	take the collector's word, and lock each part's first leaf, which is empty.  Each
 *		memory server begins to take names into a second tree.
 *	step 2	build the leaves of all parts, and send their names.
 *	step 3	for each part: WRITE its first leaf with the new leaves behind it.  It stays empty
 *		but for the lowest key of all, which can be nowhere else.  From here on the part's
 *		pairs are there, for all readers.
 *	step 4	the names appear, all at once; unlock the first leaf; give the collector's word
 *		back.
 *
 * Between steps 3 and 4 readers go along the leaves.  If step 4 came first, a client that has the
 * first leaf's address could still see the part empty (I22).
 */
#include <errno.h>
#include <stdlib.h>

#include "compute/remote/lock_slot.h"
#include "hybrid.h"
#include "index/fine/loader.h"

struct part_load {
	struct nam__loader loader;
	struct nam__tree_load names;
	struct nam__held first;		/* its leaf that was there before */
	struct nam__key low;		/* of the first pair */
	struct nam__dirty lowest;	/* the lowest key of all goes into that leaf itself */
	bool held, published;
};

struct hybrid_load {
	struct nam_worker *worker;
	struct nam_index *index;
	struct part_load parts[];
};

/* ---- step 1 -------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
first_leaf_find(struct nam_worker *worker, struct nam_index *leaves, uint64_t *image,
	struct nam_gaddr *ret_at)
{
	struct nam_gaddr above;
	int rc = nam__inner_rpc_read(worker, leaves, nam__key_lowest.w, false, image,
		&above); /* SUSPENDS */

	if (!rc && (nam__node_count(image) != 1 || !nam__node_last(image)))
		rc = -NAM_E_NOTEMPTY;
	if (!rc)
		*ret_at = nam__inner_child(&leaves->g, image, 0);
	return rc;
}

NAM_FIBER_FN static int
part_begin(struct hybrid_load *load, uint32_t number, uint32_t fill_percent)
{
	struct nam_worker *worker = load->worker;
	struct part_load *part = &load->parts[number];
	struct nam_index *leaves = load->index->leaves[number];
	uint64_t timeout_ns = worker->client->options.lock_timeout_ms * 1000000ull;
	struct nam_gaddr at;
	int rc;

	nam__loader_init(&part->loader, worker, leaves, fill_percent);
	rc = nam__tree_load_init(&part->names, worker, leaves, leaves->names_slot,
		leaves->g.full_words);
	part->loader.names = &part->names;
	part->first.lock.word = nam__lock_word_new(worker);
	part->first.image = nam_buffer_take(worker, leaves->g.node_bytes);
	if (rc || !part->first.image)
		return -ENOMEM;
	rc = first_leaf_find(worker, leaves, part->first.image, &at); /* SUSPENDS */
	if (!rc)
		rc = nam__unqueued_lock(worker, leaves, at, 0, timeout_ns,
			&part->first); /* SUSPENDS */
	if (rc == -NAM_E_RESTART_LOCKED)
		return nam_diag_set(&worker->diag, -NAM_E_LOCK_TIMEOUT,
			"the first leaf of the index is being written by others");
	if (rc)
		return rc == -NAM_E_RESTART_DEAD ? -NAM_E_DROPPED : rc;
	part->held = true;
	nam_race_point("hybrid_load.locked");
	/* I22: under this lock the part stays empty. */
	if (nam__node_count(part->first.image) || !nam__node_last(part->first.image))
		return -NAM_E_NOTEMPTY;
	rc = nam__tree_load_begin(&part->names, fill_percent); /* SUSPENDS */
	if (!rc)
		rc = nam__tree_load_add(&part->names, nam__key_lowest.w, at.raw); /* SUSPENDS */
	return rc;
}

/* ---- step 2 -------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
pair_add(void *arg, const struct nam__key *full, uint64_t payload)
{
	struct hybrid_load *load = arg;
	const struct nam__geometry *g = &load->index->g;
	struct part_load *part = &load->parts[nam__part_of(load->index, full->w)];

	if (!nam__key_compare(full->w, nam__key_lowest.w, g->full_words)) {
		uint64_t *entry = nam__leaf_entry(g, part->first.image, 0);

		memcpy(entry, full->w, 8 * g->key_words);
		entry[g->key_words] = payload;
		nam__node_set_counts(part->first.image, 1, 1);
		part->lowest = (struct nam__dirty){ g->entries_at, g->entries_at + g->leaf_words };
		return 0;
	}
	if (!part->loader.pairs)
		part->low = *full;
	return nam__loader_add(&part->loader, full->w, payload, full->w); /* SUSPENDS */
}

NAM_FIBER_FN static int
part_close(struct part_load *part)
{
	struct nam_gaddr last;
	int rc;

	if (!part->loader.pairs)
		return 0;
	rc = nam__loader_close(&part->loader, &last); /* SUSPENDS */
	return rc ? rc : nam__tree_load_flush(&part->names); /* SUSPENDS */
}

/* ---- steps 3 and 4 ------------------------------------------------------------------------- */

NAM_FIBER_FN static int
part_publish(struct part_load *part)
{
	struct nam__loader *loader = &part->loader;
	int rc;

	if (!loader->pairs && !part->lowest.end)
		return 0;
	part->published = true;		/* or may be, whatever the answer */
	/* I22: one WRITE shows all pairs of the part.  H2: the entries of leaves come after it. */
	if (loader->pairs)
		nam__loader_link(loader->g, part->first.image, part->low.w, loader->first[0]);
	rc = nam__write_keep(loader->worker, loader->index, &part->first, part->lowest,
		NAM__HEADER_FENCES); /* SUSPENDS */
	nam_race_point("hybrid_load.linked");
	if (rc || !loader->pairs)
		return rc;
	return nam__tree_load_end(&part->names); /* SUSPENDS */
}

NAM_FIBER_FN static int
part_done(struct part_load *part)
{
	struct nam__loader *loader = &part->loader;
	int rc = 0;

	nam__tree_load_done(&part->names); /* SUSPENDS */
	/* I22: until here no other client changed the first leaf. */
	if (part->held)
		rc = nam__unqueued_unlock(loader->worker, &part->first); /* SUSPENDS */
	nam__loader_done(loader, part->published);
	nam_buffer_give(loader->worker, part->first.image, loader->g->node_bytes);
	return rc;
}

/* ---- the whole ----------------------------------------------------------------------------- */

NAM_FIBER_FN static int
load_all(struct hybrid_load *load, nam_index_source_fn source, void *arg, uint32_t fill_percent,
	uint64_t *ret_count)
{
	uint32_t count = load->index->parts->count, begun = 0;
	int rc = 0;

	while (begun < count && !rc)
		rc = part_begin(load, begun++, fill_percent); /* SUSPENDS */
	if (!rc)
		rc = nam__load_sorted(load->worker, &load->index->g, source, arg, pair_add, load,
			ret_count); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = part_close(&load->parts[i]); /* SUSPENDS */
	nam_race_point("hybrid_load.built");
	/* I22: until here no pointer leads to the new leaves. */
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = part_publish(&load->parts[i]); /* SUSPENDS */
	while (begun--) {
		int part_rc = part_done(&load->parts[begun]); /* SUSPENDS */

		rc = rc ?: part_rc;
	}
	return rc;
}

int
nam__hybrid_bulk_load(struct nam_worker *worker, struct nam_index *index,
	nam_index_source_fn source, void *arg, uint32_t fill_percent, uint64_t *ret_count)
{
	uint64_t timeout_ns = worker->client->options.lock_timeout_ms * 1000000ull, word;
	struct hybrid_load *load = calloc(1,
		sizeof(*load) + index->parts->count * sizeof(load->parts[0]));
	int rc, leave_rc;

	if (!load)
		return -ENOMEM;
	load->worker = worker;
	load->index = index;
	rc = nam__collector_enter(worker, index, timeout_ns, &word); /* SUSPENDS */
	if (rc)
		goto free_load;
	rc = load_all(load, source, arg, fill_percent, ret_count); /* SUSPENDS */
	leave_rc = nam__collector_leave(worker, index, word); /* SUSPENDS */
	rc = rc ?: leave_rc;
free_load:
	free(load);
	return rc;
}
