/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lead.h -- requests of stewards, and of programs that add memory servers, to one memory server
 * at a time.  They have no client id.
 */
#ifndef NAM_COMPUTE_VIEW_LEAD_H
#define NAM_COMPUTE_VIEW_LEAD_H

#include "compute/client/cluster_view.h"

/*
 * A client that asks one memory server, to be freed with nam__client_free().
 *
 * @timeout_ms	0, or a time-out below that of the options
 * @waits	for one that is starting
 */
int nam__prober_open(const struct nam_client_options *options, const char *address,
	uint32_t timeout_ms, bool waits, struct nam_client **ret_client,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* 0: it is there; -ENOENT: it has ended, or another one is there; else it may be silent. */
int nam__member_look(const struct nam_client_options *options, const char *address, uint32_t id,
	uint64_t boot, struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * -NAM_E_CLUSTER: the memory server at that slot is a member of another cluster, whose lead lives.
 * Names of clients of two leads are alike.
 *
 * @lead	of this cluster: its address and boot
 * @ret_copy	its copy of a view, on the heap, if it is ours; or NULL
 */
NAM_FIBER_FN int nam__member_ours(struct nam_client *client, uint32_t slot, const char *lead,
	uint64_t lead_boot, struct nam__cluster_view **ret_copy,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * The boot of the memory server at the address of a member that is UP: another than that of the
 * view if it was restarted.  -NAM_E_CLUSTER: it has another id, or another cluster has it by now.
 */
NAM_FIBER_FN int nam__member_boot(const struct nam_client_options *options,
	const struct nam__cluster_view *view, const struct nam_view_member *member,
	uint64_t *ret_boot) NAM_MUST_CHECK;

/*
 * A prober of the lead.  One seed that knows the lead is enough.
 *
 * @last	the seed that is asked after the others; or NULL
 */
NAM_FIBER_FN int nam__lead_find(const struct nam_client_options *options,
	const struct nam_cluster *seeds, const char *last, struct nam_client **ret_lead,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * To the lead's backup, if it has one: clients do not install a view that the backup lacks.  0: it
 * has that view, or a later one; or there is no such process.
 */
NAM_FIBER_FN int nam__lead_copy_send(const struct nam_client_options *options,
	const struct nam__cluster_view *view) NAM_MUST_CHECK;
/*
 * Send the view to all other members, too.  Returns how many have it.  A lost copy does no harm:
 * another member knows where the lead is.
 */
NAM_FIBER_FN uint32_t nam__copies_send(const struct nam_client_options *options,
	const struct nam__cluster_view *view);

/*
 * As nam_server_promote(), of a member but the lead whose process is alive.  That serves nothing
 * any more then, unless it ends before.  -NAM_E_UNMOVABLE: it has trees or key-value stores.
 */
NAM_FIBER_FN int nam__member_hand_over(const struct nam_client_options *options, uint32_t id,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* As nam_server_unback(), of one backup of the member. */
NAM_FIBER_FN int nam__backup_end(const struct nam_client_options *options, uint32_t id,
	uint64_t boot, struct nam_diag *diag) NAM_MUST_CHECK;

/* The member that is joining, or NULL. */
const struct nam_view_member *nam__view_joining(const struct nam__cluster_view *view);

#endif /* NAM_COMPUTE_VIEW_LEAD_H */
