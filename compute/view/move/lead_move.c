/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lead_move.c -- the lead's memory and role pass to another process, while clients are at work.
 *
 * The lead has a backup, which knows all that clients know (C33).  RETIRE ends the lead as a death
 * would: it serves nothing more, and all of its connections end.  The rest is as after a death.  So
 * if this program ends in between, a steward goes on, or the same call.
 */
#include <errno.h>
#include <stdio.h>

#include "common/race.h"
#include "compute/view/changer.h"
#include "compute/view/lead.h"
#include "move_internal.h"
#include "server_move.h"

int
nam__lead_unmovable(struct nam_diag *diag)
{
	return nam_diag_set(diag, -NAM_E_UNMOVABLE, "the lead keeps parts of indexes with trees "
		"(coarse, hybrid), or of key-value stores, which have one copy and would be lost. "
		"Load them into fine indexes, and drop them; or leave the lead where it is");
}

NAM_FIBER_FN static int
retire(const struct nam__changer *changer)
{
	const struct nam_client *lead = changer->lead;
	int rc = nam__move_call(changer->lead, NAM_RPC_MOVE_RETIRE, 0, NULL, 0, nam_now_ns() +
		lead->options.timeout_ms * 1000000ull, NULL, NULL); /* SUSPENDS */

	/* It serves nothing more, and a connection that is left ends later. */
	if (!rc || rc == -EAGAIN)
		return 0;
	if (rc == -NAM_E_UNMOVABLE)
		return nam__lead_unmovable(changer->diag);
	return nam_diag_set(changer->diag, rc, "the lead at %s does not retire: %s",
		lead->servers[0].address, rc == -NAM_E_VIEW ? "its backup does not count yet, or "
		"not any more; try again" : nam_err_text(rc));
}

int
nam__lead_hand_over(struct nam__changer *changer, struct nam_server_moved *moved)
{
	const struct nam_view_member lead = changer->view->members[0];
	struct nam_client_options options = *changer->options;
	uint64_t began_ns = nam_now_ns(), stopped_us;
	int rc = retire(changer); /* SUSPENDS */

	if (rc)
		return rc;
	nam_race_point("lead.retired");	/* C33: the backup has all that clients know */
	options.cluster = lead.backups[0].address;
	rc = nam_server_promote(&options, 0, changer->diag); /* SUSPENDS */
	if (rc)
		return rc;
	stopped_us = (nam_now_ns() - began_ns) / 1000;
	if (moved->stopped_us < stopped_us)
		moved->stopped_us = stopped_us;
	moved->already = 0;
	moved->retired = 1;
	nam__client_free(changer->lead);
	changer->lead = NULL;
	rc = nam__prober_open(&options, lead.backups[0].address, 0, false, &changer->lead,
		changer->diag);
	if (!rc)
		rc = nam__changer_query(changer); /* SUSPENDS */
	if (!rc)
		moved->view = changer->view->head.number;
	return rc;
}
