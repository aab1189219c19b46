/* SPDX-License-Identifier: Apache-2.0 */
/* load.c -- fill an empty coarse-grained index from sorted input: each part appears as a whole. */
#include <errno.h>
#include <stdlib.h>

#include "coarse.h"
#include "index/tree_load.h"

struct coarse_loader {
	struct nam_worker *worker;
	struct nam_index *index;
	struct nam__tree_load parts[];
};

NAM_FIBER_FN static int
pair_add(void *arg, const struct nam__key *full, uint64_t payload)
{
	struct coarse_loader *loader = arg;

	return nam__tree_load_add(&loader->parts[nam__part_of(loader->index, full->w)], full->w,
		payload); /* SUSPENDS */
}

NAM_FIBER_FN static int
load(struct coarse_loader *loader, nam_index_source_fn source, void *arg, uint32_t fill_percent,
	uint64_t *ret_count)
{
	uint32_t count = loader->index->parts->count;
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++)
		rc = nam__tree_load_begin(&loader->parts[i], fill_percent); /* SUSPENDS */
	/* S6: no part takes other changes any more. */
	nam_race_point("coarse_load.begun");
	if (!rc)
		rc = nam__load_sorted(loader->worker, &loader->index->g, source, arg, pair_add,
			loader, ret_count); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = nam__tree_load_flush(&loader->parts[i]); /* SUSPENDS */
	/* S6: the second trees have all pairs before one appears. */
	nam_race_point("coarse_load.sent");
	for (uint32_t i = 0; i < count && !rc; i++) {
		rc = nam__tree_load_end(&loader->parts[i]); /* SUSPENDS */
		nam_race_point("coarse_load.part_ended");
	}
	return rc;
}

int
nam__coarse_bulk_load(struct nam_worker *worker, struct nam_index *index,
	nam_index_source_fn source, void *arg, uint32_t fill_percent, uint64_t *ret_count)
{
	uint32_t count = index->parts->count, made;
	struct coarse_loader *loader = calloc(1,
		sizeof(*loader) + count * sizeof(loader->parts[0]));
	int rc = 0;

	if (!loader)
		return -ENOMEM;
	loader->worker = worker;
	loader->index = index;
	for (made = 0; made < count && !rc; made++)
		rc = nam__tree_load_init(&loader->parts[made], worker, index,
			index->parts->slots[made], index->g.key_words);
	if (!rc)
		rc = load(loader, source, arg, fill_percent, ret_count); /* SUSPENDS */
	while (made--)
		nam__tree_load_done(&loader->parts[made]); /* SUSPENDS */
	free(loader);
	return rc;
}
