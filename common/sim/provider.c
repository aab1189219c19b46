/* SPDX-License-Identifier: Apache-2.0 */
/* provider.c -- the simulator as a provider of the fabric: domains, and the table. */
#include <stdlib.h>

#include "sim_internal.h"

#define SIM_DATAGRAM_BYTES 1024u	/* the default of RoCE */

int
nam__sim_domain_open(const struct nam_fabric_options *options, struct nam_domain **ret,
	struct nam_diag *diag)
{
	struct sim_thread *thread = nam__sim.current;
	struct sim_domain *domain;

	(void)options;
	if (!thread || !thread->process)
		return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY,
			"sim: there is no simulation; this fabric exists inside of one only");
	domain = nam__sim_alloc(sizeof(*domain));
	domain->pub.ops = &nam__sim_ops;
	domain->pub.limits = (struct nam_fabric_limits){
		.caps = nam__sim.caps,
		.qp_depth = SIM_QP_DEPTH,
		.message_bytes = 4096,
		.inline_bytes = SIM_INLINE_BYTES,
		.datagram_bytes = nam__sim.caps & NAM_CAP_UD ? SIM_DATAGRAM_BYTES : 0,
	};
	domain->id = ++nam__sim.ids;
	domain->process = thread->process;
	LIST_INSERT_HEAD(&thread->process->domains, domain, link);
	*ret = &domain->pub;
	return 0;
}

void
nam__sim_domain_close(struct nam_domain *pub)
{
	struct sim_domain *domain = (struct sim_domain *)pub;

	if (!domain)
		return;
	LIST_REMOVE(domain, link);
	free(domain->mrs);
	free(domain);
}

const struct nam_fabric_ops nam__sim_ops = {
	.name = "sim",
	NAM__PROVIDER_SLOTS(sim)
	NAM__PROVIDER_ENDPOINTS(NAM__PROVIDER_SLOT, sim)
	.qp_share_near = nam__unsupported_qp_share_near,
	.is_near = nam__sim_is_near,
	.unreliable_qp_create = nam__sim_unreliable_qp_create,
	.unreliable_qp_join = nam__sim_unreliable_qp_join,
};
