/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.c -- the tcp provider's table of operations, and its domains. */
#include <errno.h>
#include <stdlib.h>

#include "tcp_internal.h"

int
nam__tcp_domain_open(const struct nam_fabric_options *options, struct nam_domain **ret,
	struct nam_diag *diag)
{
	struct tcp_domain *domain = calloc(1, sizeof(*domain));
	uint64_t entropy = nam_entropy();

	(void)options;
	if (!domain)
		return nam_diag_set(diag, -ENOMEM, "tcp: no memory");
	domain->pub.ops = &nam__tcp_ops;
	domain->pub.limits = (struct nam_fabric_limits){
		.caps = SHM_COPY_CAPS,
		.qp_depth = TCP_QP_DEPTH,
		.message_bytes = TCP_MESSAGE_BYTES,
		.inline_bytes = TCP_INLINE_BYTES,
	};
	for (uint32_t i = 0; i < TCP_REGIONS_MAX; i++) {
		atomic_init(&domain->mrs[i].rkey, UINT64_MAX);
		domain->mrs[i].generation = (uint16_t)entropy;
	}
	(void)pthread_mutex_init(&domain->mutex, NULL);
	*ret = &domain->pub;
	return 0;
}

void
nam__tcp_domain_close(struct nam_domain *pub)
{
	struct tcp_domain *domain = (struct tcp_domain *)pub;

	if (!domain)
		return;
	(void)pthread_mutex_destroy(&domain->mutex);
	free(domain);
}

const struct nam_fabric_ops nam__tcp_ops = {
	.name = "tcp",
	NAM__PROVIDER_SOCKET_SLOTS(tcp)
};
