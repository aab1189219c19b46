/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.c -- the verbs provider's table of operations, and its domains. */
#include "verbs.h"

#include <errno.h>
#include <stdlib.h>

#include "common/fabric/unsupported.h"
#include "verbs_internal.h"

static int
domain_open(const struct nam_fabric_options *options, struct nam_domain **ret,
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

static void
domain_close(struct nam_domain *pub)
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
	.domain_open = domain_open,
	.domain_close = domain_close,
	.region_alloc = nam__verbs_region_alloc,
	.mr_register = nam__verbs_mr_register,
	.share_alloc = nam__verbs_share_alloc,
	.mr_release = nam__verbs_mr_release,
	.cq_create = nam__verbs_cq_create,
	.cq_destroy = nam__verbs_cq_destroy,
	.cq_poll = nam__verbs_cq_poll,
	.cq_wait = nam__verbs_cq_wait,
	.cq_wake = nam__verbs_cq_wake,
	.rq_create = nam__verbs_rq_create,
	.rq_destroy = nam__verbs_rq_destroy,
	.rq_post = nam__verbs_rq_post,
	.connect = nam__verbs_connect,
	.qp_post = nam__verbs_qp_post,
	.qp_share_near = nam__verbs_qp_share_near,
	.is_near = nam__unsupported_is_near,
	.qp_destroy = nam__verbs_qp_destroy,
	.unreliable_qp_create = nam__verbs_unreliable_qp_create,
	.unreliable_qp_join = nam__verbs_unreliable_qp_join,
	.listen = nam__verbs_listen,
	.listener_poll = nam__verbs_listener_poll,
	.listener_wake = nam__verbs_listener_wake,
	.accept = nam__verbs_accept,
	.reject = nam__verbs_reject,
	.listener_close = nam__verbs_listener_close,
};
