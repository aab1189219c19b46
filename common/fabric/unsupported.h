/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unsupported.h -- for providers where nothing could be lost, so that unreliable queue pairs are of
 * no use.
 */
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

#endif /* NAM_COMMON_FABRIC_UNSUPPORTED_H */
