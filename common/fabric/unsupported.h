/* SPDX-License-Identifier: Apache-2.0 */
/* unsupported.h -- slots of struct nam_fabric_ops for providers that lack what they offer. */
#ifndef NAM_COMMON_FABRIC_UNSUPPORTED_H
#define NAM_COMMON_FABRIC_UNSUPPORTED_H

#include "fabric.h"

/* -NAM_E_FABRIC_CAPABILITY, both. */
int nam__unsupported_unreliable_qp_create(struct nam_domain *domain,
	const struct nam_qp_options *options,
	uint64_t *ret_name, struct nam_qp **ret) NAM_MUST_CHECK;
int nam__unsupported_unreliable_qp_join(struct nam_qp *unreliable_qp, struct nam_qp *beside,
	uint64_t peer_name)
	NAM_MUST_CHECK;

/* For providers whose regions are no files: without effect. */
void nam__unsupported_qp_share_near(struct nam_qp *qp, const struct nam_colocated_share *share);
/* For providers that copy nothing by themselves: 0. */
int nam__unsupported_is_near(struct nam_domain *domain, const char *address);

#endif /* NAM_COMMON_FABRIC_UNSUPPORTED_H */
