/* SPDX-License-Identifier: Apache-2.0 */
/* provider.c -- the simulator as a provider of the fabric: domains, and the table. */
#include <errno.h>
#include <stdlib.h>

#include "common/fabric/unsupported.h"
#include "sim_internal.h"

#define SIM_DATAGRAM_BYTES 1024u	/* the default of RoCE */

static int
domain_open(const struct nam_fabric_options *options, struct nam_domain **ret,
	struct nam_diag *diag)
{
	struct sim_thread *thread = nam__sim.current;
	struct sim_domain *domain;

	(void)options;
	if (!thread || !thread->process)
		return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY,
			"sim: there is no simulation; this fabric exists inside of one only");
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return nam_diag_set(diag, -ENOMEM, "sim: no memory");
	domain->pub.ops = &nam__sim_ops;
	domain->pub.limits = (struct nam_fabric_limits){
		.caps = nam__sim.caps,
		.qp_depth = SIM_QP_DEPTH,
		.message_bytes = 4096,
		.inline_bytes = SIM_INLINE_BYTES,
		.hello_bytes = NAM_HELLO_BYTES_MAX,
		.datagram_bytes = nam__sim.caps & NAM_CAP_UD ? SIM_DATAGRAM_BYTES : 0,
	};
	domain->id = ++nam__sim.ids;
	domain->process = thread->process;
	domain->next = thread->process->domains;
	thread->process->domains = domain;
	*ret = &domain->pub;
	return 0;
}

static void
domain_close(struct nam_domain *pub)
{
	struct sim_domain *domain = (struct sim_domain *)pub, **link;

	if (!domain)
		return;
	for (link = &domain->process->domains; *link != domain; link = &(*link)->next)
		continue;
	*link = domain->next;
	free(domain->mrs);
	free(domain);
}

const struct nam_fabric_ops nam__sim_ops = {
	.name = "sim",
	.domain_open = domain_open,
	.domain_close = domain_close,
	.region_alloc = nam__sim_region_alloc,
	.mr_register = nam__sim_mr_register,
	.share_alloc = nam__sim_share_alloc,
	.mr_release = nam__sim_mr_release,
	.cq_create = nam__sim_cq_create,
	.cq_destroy = nam__sim_cq_destroy,
	.cq_poll = nam__sim_cq_poll,
	.cq_wait = nam__sim_cq_wait,
	.cq_wake = nam__sim_cq_wake,
	.rq_create = nam__sim_rq_create,
	.rq_destroy = nam__sim_rq_destroy,
	.rq_post = nam__sim_rq_post,
	.connect = nam__sim_connect,
	.qp_post = nam__sim_qp_post,
	.qp_share_near = nam__unsupported_qp_share_near,
	.is_near = nam__sim_is_near,
	.qp_destroy = nam__sim_qp_destroy,
	.unreliable_qp_create = nam__sim_unreliable_qp_create,
	.unreliable_qp_join = nam__sim_unreliable_qp_join,
	.listen = nam__sim_listen,
	.listener_poll = nam__sim_listener_poll,
	.listener_wake = nam__sim_listener_wake,
	.accept = nam__sim_accept,
	.reject = nam__sim_reject,
	.listener_close = nam__sim_listener_close,
};
