/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c -- regions and registrations; memory of the simulator itself. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "sim_internal.h"

#define KEY_STRANGE 0x5au	/* keys and addresses look like nothing that a caller could guess */
#define REGION_SPACING_LOG2 40u

void *
nam__sim_alloc(size_t bytes)
{
	void *memory = calloc(1, bytes);

	/* A run that went on otherwise could not be repeated. */
	if (!memory)
		abort();
	return memory;
}

void *
nam__sim_grow(void *array, uint32_t count, uint32_t *size, size_t bytes)
{
	if (count < *size)
		return array;
	*size = *size ? 2 * *size : 64;
	array = reallocarray(array, *size, bytes);
	if (!array)
		abort();
	return array;
}

static void
mr_add(struct sim_domain *domain, const struct sim_mr *mr, struct nam_mr *ret)
{
	bool keys = !(nam__sim.caps & NAM_CAP_ORDERED_LOADS);	/* as with our own CPU: none */
	uint32_t index = domain->mrs_count;

	domain->mrs = nam__sim_grow(domain->mrs, index, &domain->mrs_size, sizeof(*domain->mrs));
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
}

int
nam__sim_region_alloc(struct nam_domain *pub, uint64_t bytes, uint32_t page_bytes_log2,
	int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag)
{
	struct sim_mr mr = { .bytes = bytes, .rights = NAM_MR_REMOTE, .mapped = true };

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
	mr_add((struct sim_domain *)pub, &mr, ret);
	return 0;
}

void
nam__sim_region_withdraw(struct nam_domain *domain, struct nam_mr *mr)
{
	((struct sim_domain *)domain)->mrs[(uintptr_t)mr->provider - 1].rights = 0;
}

int
nam__sim_region_restore(struct nam_domain *domain, struct nam_mr *pub_mr, uint32_t rights,
	struct nam_diag *diag)
{
	struct sim_mr *mr = &((struct sim_domain *)domain)->mrs[(uintptr_t)pub_mr->provider - 1];

	/* Private pages: this zeroes them. */
	if (madvise(mr->base, mr->bytes, MADV_DONTNEED))
		return nam_diag_set(diag, -errno, "sim: a region of %llu bytes: %s",
			(unsigned long long)mr->bytes, nam_err_text(-errno));
	mr->rights = rights;
	return 0;
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

	(void)diag;
	mr_add((struct sim_domain *)pub, &mr, ret);
	return 0;
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
nam__sim_resolve(const struct sim_qp *peer, const struct nam_wr *wr)
{
	const struct sim_domain *domain = peer->domain;
	const uint32_t rights = wr->op == NAM_WR_READ ? NAM_MR_REMOTE | NAM_MR_REMOTE_READ :
							NAM_MR_REMOTE;
	uint32_t index = (wr->rkey >> 8) - 1;
	uint64_t remote = wr->remote;
	const struct sim_mr *mr;

	if ((wr->rkey & 0xffu) != KEY_STRANGE || index >= domain->mrs_count)
		return NULL;
	mr = &domain->mrs[index];
	if (peer->peer_reads && wr->op != NAM_WR_READ &&
		!(mr->share && (nam__sim.caps & NAM_CAP_READER_SHARE)))
		return NULL;
	if (!mr->base || !(mr->rights & rights) || remote < mr->remote ||
		remote - mr->remote > mr->bytes || wr->bytes > mr->bytes - (remote - mr->remote))
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
