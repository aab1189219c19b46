/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- marks what an index leads to, for a sweep. */
#include "sweep.h"

#include <errno.h>

#include "compute/worker/pace.h"
#include "index/design.h"
#include "maintain.h"
#include "merge.h"

#define SLICE_MIN 2u
#define SLICE_MAX 256u
#define SLICES_PER_SECOND 100u		/* or more, so that the pace is even */

struct marking {
	struct nam__sweep *sweep;
	uint32_t count;			/* of nodes since the last pause */
};

NAM_FIBER_FN static int
on_node(void *arg, struct nam_gaddr at)
{
	struct marking *marking = arg;
	int rc = nam__worker_stopped(marking->sweep->worker);

	marking->count++;
	return rc ? rc : nam__sweep_mark(marking->sweep, at); /* SUSPENDS */
}

NAM_FIBER_FN static int
rest(void *arg)
{
	struct marking *marking = arg;
	uint32_t count = marking->count;

	marking->count = 0;
	return nam__worker_pace(marking->sweep->worker, count); /* SUSPENDS */
}

static uint32_t
slice_of(const struct nam_worker *worker)
{
	uint64_t nodes = worker->pace.per_second / SLICES_PER_SECOND;

	if (!worker->pace.per_second || nodes > SLICE_MAX)
		return SLICE_MAX;
	return nodes < SLICE_MIN ? SLICE_MIN : (uint32_t)nodes;
}

/* I20: a collector may have unlinked a node, and die before it retires it.  Its intent names it. */
NAM_FIBER_FN static int
intent_mark(struct nam__sweep *sweep, struct nam_index *index)
{
	struct nam__merge_intent intent = { .word = NAM_LOCK_FREE };
	int rc = nam__merge_intent_read(sweep->worker, index, &intent); /* SUSPENDS */
	const uint64_t nodes[] = { intent.parent, intent.left, intent.right, intent.head };

	if (rc || intent.word == NAM_LOCK_FREE || !NAM_GUARD(SWEEP_INTENT))
		return rc;
	for (unsigned i = 0; i < 4 && !rc; i++)
		if (nodes[i])
			rc = nam__sweep_mark(sweep, (struct nam_gaddr){ nodes[i] }); /* SUSPENDS */
	return rc;
}

int
nam__sweep_mark_index(struct nam__sweep *sweep, const char *name)
{
	struct marking marking = { sweep, 0 };
	const struct nam__seen seen = { on_node, rest, slice_of(sweep->worker), &marking };
	struct nam_worker *worker = sweep->worker;
	struct nam_index *index;
	int rc = nam_index_open(worker, name, 0, &index); /* SUSPENDS */

	if (rc)
		return rc;
	rc = nam__sweep_mark_object(sweep, index->tree); /* SUSPENDS */
	if (!rc)
		rc = nam__index_nodes(worker, index, &seen); /* SUSPENDS */
	if (!rc)
		rc = intent_mark(sweep, index); /* SUSPENDS */
	if (!rc)
		rc = rest(&marking); /* SUSPENDS */
	if (rc && rc != -NAM_E_DROPPED && rc != -ECANCELED && !worker->diag.text[0])
		(void)nam_diag_set(&worker->diag, rc, "index '%s' cannot be read whole: %s", name,
			nam_err_text(rc));
	nam_index_close(index);
	return rc;
}
