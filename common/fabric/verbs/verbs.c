/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c -- the verbs provider's table of operations, and its domains. */
#include <errno.h>
#include <stdlib.h>

#include "verbs_internal.h"

int
nam__verbs_domain_open(const struct nam_fabric_options *options, struct nam_domain **ret,
	struct nam_diag *diag)
{
	static const struct nam_fabric_options none;
	struct verbs_domain *domain = calloc(1, sizeof(*domain));
	int rc;

	if (!domain)
		return nam_diag_set(diag, -ENOMEM, "verbs: no memory");
	if (!options)
		options = &none;
	domain->pub.ops = &nam__verbs_ops;
	domain->notice = options->notice;
	rc = nam__verbs_device_open(domain, options, diag);
	if (rc)
		goto free_domain;
	rc = nam__verbs_watch_init(domain, diag);
	if (rc)
		goto close_device;
	*ret = &domain->pub;
	return 0;

close_device:
	nam__verbs_device_close(domain);
free_domain:
	free(domain);
	return rc;
}

void
nam__verbs_domain_close(struct nam_domain *pub)
{
	struct verbs_domain *domain = (struct verbs_domain *)pub;

	if (!domain)
		return;
	nam__verbs_watch_free(domain);
	nam__verbs_device_close(domain);
	free(domain);
}

const struct nam_fabric_ops nam__verbs_ops = {
	.name = "verbs",
	NAM__PROVIDER_SLOTS(verbs)
	NAM__PROVIDER_ENDPOINTS(NAM__PROVIDER_SLOT, verbs)
	.qp_share_near = nam__verbs_qp_share_near,
	.is_near = nam__unsupported_is_near,
	.unreliable_qp_create = nam__verbs_unreliable_qp_create,
	.unreliable_qp_join = nam__verbs_unreliable_qp_join,
};
