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

int
nam__unsupported_endpoint_open(struct nam_domain *domain, struct nam_cq *cq, void *context,
	struct nam_endpoint_name *ret_name, struct nam_endpoint **ret)
{
	(void)domain, (void)cq, (void)context, (void)ret_name, (void)ret;
	return -NAM_E_FABRIC_CAPABILITY;
}

/* Without endpoint_open there is no endpoint to call these with. */

int
nam__unsupported_endpoint_place(struct nam_endpoint *endpoint, const uint8_t *place,
	uint32_t *ret_handle)
{
	(void)endpoint, (void)place, (void)ret_handle;
	return -NAM_E_FABRIC_CAPABILITY;
}

void
nam__unsupported_endpoint_send(struct nam_endpoint *endpoint, uint32_t handle, uint32_t number,
	const void *datagram, uint32_t bytes)
{
	(void)endpoint, (void)handle, (void)number, (void)datagram, (void)bytes;
}

uint32_t
nam__unsupported_endpoint_receive(struct nam_endpoint *endpoint, void *datagram)
{
	(void)endpoint, (void)datagram;
	return 0;
}

void
nam__unsupported_endpoint_close(struct nam_endpoint *endpoint)
{
	(void)endpoint;
}
