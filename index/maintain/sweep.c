/* SPDX-License-Identifier: Apache-2.0 */
/* sweep.c -- marks what an index leads to, for a sweep. */
#include "sweep.h"

#include <errno.h>

#include "maintain.h"

NAM_FIBER_FN static int
on_node(void *arg, struct nam_gaddr at)
{
	struct nam__sweep *sweep = arg;
	int rc = nam__worker_stopped(sweep->worker);

	return rc ? rc : nam__sweep_mark(sweep, at); /* SUSPENDS */
}

int
nam__sweep_mark_index(struct nam__sweep *sweep, const char *name)
{
	const struct nam__seen seen = { on_node, sweep };
	struct nam_worker *worker = sweep->worker;
	struct nam_index *index;
	int rc = nam_index_open(worker, name, 0, &index); /* SUSPENDS */

	if (rc)
		return rc;
	rc = nam__sweep_mark_object(sweep, index->tree); /* SUSPENDS */
	if (!rc)
		rc = nam__index_nodes(worker, index, &seen); /* SUSPENDS */
	if (rc && rc != -NAM_E_DROPPED && rc != -ECANCELED && !worker->diag.text[0])
		(void)nam_diag_set(&worker->diag, rc, "index '%s' cannot be read whole: %s", name,
			nam_err_text(rc));
	nam_index_close(index);
	return rc;
}
