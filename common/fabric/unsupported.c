/* SPDX-License-Identifier: Apache-2.0 */
/* unsupported.c -- slots of providers that lack what they offer. */
#include "provider.h"

int
nam__unsupported_unreliable_qp_create(struct nam_domain *domain,
	const struct nam_qp_options *options,
	uint64_t *ret_name, struct nam_qp **ret)
{
	(void)domain, (void)options, (void)ret_name, (void)ret;
	return -NAM_E_FABRIC_CAPABILITY;
}

int
nam__unsupported_unreliable_qp_join(struct nam_qp *unreliable_qp, struct nam_qp *beside,
	uint64_t peer_name)
{
	(void)unreliable_qp, (void)beside, (void)peer_name;
	return -NAM_E_FABRIC_CAPABILITY;
}

void
nam__unsupported_qp_share_near(struct nam_qp *qp, const struct nam_colocated_share *share)
{
	(void)qp, (void)share;
}

int
nam__unsupported_is_near(struct nam_domain *domain, const char *address)
{
	(void)domain, (void)address;
	return 0;
}
