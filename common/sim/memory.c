/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c -- domains, regions and registrations. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "common/fabric/unsupported.h"
#include "sim_internal.h"

#define KEY_STRANGE 0x5au	/* keys and addresses look like nothing that a caller could guess */
#define REGION_SPACING_LOG2 40u
#define SIM_DATAGRAM_BYTES 1024u	/* what RoCE has where nobody has asked for more */

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

static int
mr_add(struct sim_domain *domain, const struct sim_mr *mr, struct nam_mr *ret)
{
	bool keys = !(nam__sim.caps & NAM_CAP_ORDERED_LOADS);	/* as with our own CPU: none */
	uint32_t index = domain->mrs_count;

	if (index == domain->mrs_size) {
		uint32_t size = domain->mrs_size ? 2 * domain->mrs_size : 16;
		struct sim_mr *mrs = realloc(domain->mrs, size * sizeof(*mrs));

		if (!mrs)
			return -ENOMEM;
		domain->mrs = mrs;
		domain->mrs_size = size;
	}
	domain->mrs[index] = *mr;
	domain->mrs[index].remote = (uint64_t)(index + 1) << REGION_SPACING_LOG2;
	domain->mrs_count++;
	*ret = (struct nam_mr){
		.base = mr->base,
		.bytes = mr->bytes,
		.lkey = keys ? index + 1 : 0,
		.rkey = (index + 1) << 8 | KEY_STRANGE,
		.remote = domain->mrs[index].remote,
		.provider = (void *)(uintptr_t)(index + 1),
		.fd = -1,
	};
	return 0;
}

int
nam__sim_region_alloc(struct nam_domain *pub, uint64_t bytes, uint32_t page_bytes_log2,
	int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag)
{
	struct sim_mr mr = { .bytes = bytes, .rights = NAM_MR_REMOTE, .mapped = true };
	int rc;

	(void)transparent_huge;
	(void)numa_node;
	if (page_bytes_log2 < 12 || page_bytes_log2 > 34 || !bytes ||
		bytes > 1ull << REGION_SPACING_LOG2)
		return nam_diag_set(diag, -EINVAL, "sim: a region of %llu bytes of 2^%u bytes' "
			"pages is out of range", (unsigned long long)bytes, page_bytes_log2);
	mr.base = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mr.base == MAP_FAILED)
		return nam_diag_set(diag, -errno, "sim: a region of %llu bytes: %s",
			(unsigned long long)bytes, nam_err_text(-errno));
	rc = mr_add((struct sim_domain *)pub, &mr, ret);
	if (rc)
		(void)munmap(mr.base, bytes);
	return rc;
}

int
nam__sim_share_alloc(struct nam_domain *domain, uint64_t bytes, struct nam_mr *ret,
	struct nam_diag *diag)
{
	int rc;

	if (!bytes || bytes > NAM_SHARE_BYTES_MAX)
		return nam_diag_set(diag, -EINVAL, "sim: a share of %llu bytes",
			(unsigned long long)bytes);
	rc = nam__sim_region_alloc(domain, bytes, 12, 0, -1, ret, diag);
	if (!rc)
		((struct sim_domain *)domain)->mrs[(uintptr_t)ret->provider - 1].share = true;
	return rc;
}

int
nam__sim_mr_register(struct nam_domain *pub, void *base, uint64_t bytes, uint32_t rights,
	struct nam_mr *ret, struct nam_diag *diag)
{
	struct sim_mr mr = { .base = base, .bytes = bytes, .rights = rights };
	int rc = mr_add((struct sim_domain *)pub, &mr, ret);

	return rc ? nam_diag_set(diag, rc, "sim: no memory") : 0;
}

void
nam__sim_mr_release(struct nam_domain *pub, struct nam_mr *pub_mr)
{
	struct sim_domain *domain = (struct sim_domain *)pub;
	uintptr_t index = (uintptr_t)pub_mr->provider;
	struct sim_mr *mr;

	if (!index)
		return;
	mr = &domain->mrs[index - 1];
	if (mr->mapped && mr->base)
		(void)munmap(mr->base, mr->bytes);
	mr->base = NULL;
	pub_mr->provider = NULL;
}

uint8_t *
nam__sim_resolve(const struct sim_domain *domain, uint32_t rkey, uint64_t remote, uint32_t bytes)
{
	uint32_t index = (rkey >> 8) - 1;
	const struct sim_mr *mr;

	if ((rkey & 0xffu) != KEY_STRANGE || index >= domain->mrs_count)
		return NULL;
	mr = &domain->mrs[index];
	if (!mr->base || !(mr->rights & NAM_MR_REMOTE) || remote < mr->remote ||
		remote - mr->remote > mr->bytes || bytes > mr->bytes - (remote - mr->remote))
		return NULL;
	return mr->base + (remote - mr->remote);
}

bool
nam__sim_is_share(const struct sim_domain *domain, uint32_t rkey)
{
	uint32_t index = (rkey >> 8) - 1;

	return index < domain->mrs_count && domain->mrs[index].share;
}

bool
nam__sim_local_valid(const struct sim_domain *domain, const struct nam_wr *wr)
{
	const struct sim_mr *mr;
	uintptr_t at = (uintptr_t)wr->local;

	if ((nam__sim.caps & NAM_CAP_ORDERED_LOADS) || (wr->flags & NAM_WR_INLINE))
		return true;
	if (!wr->lkey || wr->lkey > domain->mrs_count)
		return false;
	mr = &domain->mrs[wr->lkey - 1];
	return mr->base && at >= (uintptr_t)mr->base && at - (uintptr_t)mr->base <= mr->bytes &&
	       wr->bytes <= mr->bytes - (at - (uintptr_t)mr->base);
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
