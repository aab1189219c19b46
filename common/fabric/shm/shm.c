/* SPDX-License-Identifier: Apache-2.0 */
/* shm.c -- the shm provider's table of operations, and its domains. */
#include <errno.h>
#include <stdlib.h>

#include "shm_internal.h"

int
nam__shm_domain_open(const struct nam_fabric_options *options, struct nam_domain **ret,
	struct nam_diag *diag)
{
	struct shm_domain *domain = calloc(1, sizeof(*domain));
	int rc;

	(void)options;
	if (!domain)
		return nam_diag_set(diag, -ENOMEM, "shm: no memory");
	domain->pub.ops = &nam__shm_ops;
	domain->pub.limits = (struct nam_fabric_limits){
		.caps = SHM_COPY_CAPS | NAM_CAP_LASTING,
		.qp_depth = SHM_QP_DEPTH,
		.message_bytes = SHM_MESSAGE_BYTES,
		.inline_bytes = SHM_INLINE_BYTES,
		.in_post_order = 1,
	};
	domain->instance = (nam_entropy() | 2) & ~(uint64_t)SHM_FOR_READING;	/* 0 means "none" */
	rc = nam__shm_watch_init(&domain->watch);
	if (rc) {
		free(domain);
		return nam_diag_set(diag, rc, "shm: %s", nam_err_text(rc));
	}
	(void)pthread_mutex_init(&domain->mutex, NULL);
	*ret = &domain->pub;
	return 0;
}

void
nam__shm_domain_close(struct nam_domain *pub)
{
	struct shm_domain *domain = (struct shm_domain *)pub;

	if (!domain)
		return;
	nam__shm_watch_free(&domain->watch);
	(void)pthread_mutex_destroy(&domain->mutex);
	free(domain);
}

const struct nam_fabric_ops nam__shm_ops = {
	.name = "shm",
	NAM__PROVIDER_SOCKET_SLOTS(shm)
};
