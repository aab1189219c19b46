/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- marks what indexes lead to, for a sweep: compute/view/sweep.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "compute/view/sweep.h"
#include "maintain.h"

#define ATTEMPTS 5u			/* while clients are killed */

struct name {
	char text[NAM_INDEX_NAME_BYTES];
};

struct names {
	struct name *names;
	uint32_t count, size;
};

static int
on_name(void *arg, const char *name)
{
	struct names *all = arg;

	if (all->count == all->size) {
		uint32_t size = all->size ? 2 * all->size : 16;
		struct name *more = realloc(all->names, size * sizeof(*more));

		if (!more)
			return -ENOMEM;
		all->names = more;
		all->size = size;
	}
	(void)snprintf(all->names[all->count++].text, NAM_INDEX_NAME_BYTES, "%s", name);
	return 0;
}

NAM_FIBER_FN static int
on_node(void *arg, struct nam_gaddr at)
{
	struct nam__sweep *sweep = arg;
	int rc = nam__worker_stopped(sweep->worker);

	return rc ? rc : nam__sweep_mark(sweep, at); /* SUSPENDS */
}

NAM_FIBER_FN static int
index_mark(struct nam__sweep *sweep, const char *name)
{
	const struct nam__seen seen = { on_node, sweep };
	struct nam_worker *worker = sweep->worker;
	struct nam_index *index;
	int rc = nam_index_open(worker, name, 0, &index); /* SUSPENDS */

	/* It has been dropped meanwhile. */
	if (rc)
		return rc == -NAM_E_NOINDEX ? 0 : rc;
	rc = nam__index_nodes(worker, index, &seen); /* SUSPENDS */
	if (rc && rc != -NAM_E_DROPPED && rc != -ECANCELED && !worker->diag.text[0])
		(void)nam_diag_set(&worker->diag, rc, "index '%s' cannot be read whole: %s", name,
			nam_err_text(rc));
	nam_index_close(index);
	return rc == -NAM_E_DROPPED ? 0 : rc;
}

NAM_FIBER_FN static int
attempt(struct nam_worker *worker, bool dry, struct nam_sweep_stat *stat)
{
	struct nam__swept suspect = { 0 }, freed = { 0 };
	struct nam__sweep *sweep = malloc(sizeof(*sweep));	/* stacks of fibers are small */
	struct names all = { 0 };
	struct nam_diag diag = { "" };
	int rc;

	if (!sweep)
		return -ENOMEM;
	rc = nam__sweep_begin(sweep, worker, &suspect, &diag); /* SUSPENDS */
	worker->diag.text[0] = '\0';
	/* A name that comes after this is of blocks of a living client. */
	if (!rc)
		rc = nam_index_list(worker, on_name, &all); /* SUSPENDS */
	for (uint32_t i = 0; i < all.count && !rc; i++)
		rc = index_mark(sweep, all.names[i].text); /* SUSPENDS */
	if (!rc)
		rc = nam__sweep_end(sweep, dry, &freed, &diag); /* SUSPENDS */
	*stat = (struct nam_sweep_stat){ suspect.blocks, sweep->marked, freed.blocks, freed.bytes,
		all.count };
	if (rc && diag.text[0])
		worker->diag = diag;
	nam__sweep_free(sweep);
	free(sweep);
	free(all.names);
	return rc;
}

int
nam_sweep(struct nam_worker *worker, bool dry, struct nam_sweep_stat *ret_stat)
{
	unsigned attempts = 0;
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	do
		rc = attempt(worker, dry, ret_stat); /* SUSPENDS */
	while (rc == -EAGAIN && ++attempts < ATTEMPTS);
	return rc;
}
