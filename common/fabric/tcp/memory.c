/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c -- registrations.  A key is a slot and a count of its uses, from a random beginning.  So
 * a key of released memory fits nothing.  A key of a server's predecessor seldom fits (1 in
 * 65,536).
 */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fabric/pages.h"
#include "tcp_internal.h"

static int
publish(struct tcp_domain *domain, uint8_t *base, uint64_t bytes, bool mapped, struct nam_mr *ret)
{
	int rc = -NAM_E_LIMIT;

	pthread_mutex_lock(&domain->mutex);
	for (uint32_t i = 0; i < TCP_REGIONS_MAX && rc; i++) {
		struct tcp_mr *mr = &domain->mrs[i];
		uint32_t rkey;

		if (mr->base)
			continue;
		rkey = (uint32_t)++mr->generation << 16 | i;
		mr->base = base;
		mr->bytes = bytes;
		mr->mapped = mapped;
		/* Pairs with the acquire in serve.c: base and bytes belong to this key. */
		atomic_store_explicit(&mr->rkey, rkey, memory_order_release);
		*ret = (struct nam_mr){
			.base = base, .bytes = bytes, .rkey = rkey, .provider = mr, .fd = -1 };
		rc = 0;
	}
	pthread_mutex_unlock(&domain->mutex);
	return rc;
}

int
nam__tcp_region_alloc(struct nam_domain *domain, uint64_t bytes, uint32_t page_bytes_log2,
	int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag)
{
	struct nam__pages pages;
	const struct nam__pages_kind kind = { page_bytes_log2, transparent_huge, numa_node, -1 };
	int rc = nam__pages_alloc(-1, bytes, &kind, domain->populate, &pages, diag);

	if (rc)
		return rc;
	/* The mapping keeps the memory. */
	close(pages.fd);
	rc = publish((struct tcp_domain *)domain, pages.base, pages.bytes, true, ret);
	if (rc) {
		(void)munmap(pages.base, pages.bytes);
		return nam_diag_set(diag, rc, "more than %u regions", TCP_REGIONS_MAX);
	}
	((struct tcp_mr *)ret->provider)->page_bytes_log2 = page_bytes_log2;
	return 0;
}

void
nam__tcp_region_withdraw(struct nam_domain *pub, struct nam_mr *pub_mr)
{
	struct tcp_domain *domain = (struct tcp_domain *)pub;
	struct tcp_mr *mr = pub_mr->provider;

	pthread_mutex_lock(&domain->mutex);
	atomic_store_explicit(&mr->rkey, UINT64_MAX, memory_order_relaxed);
	pthread_mutex_unlock(&domain->mutex);
	(void)madvise(mr->base, mr->bytes, MADV_REMOVE);
}

int
nam__tcp_region_restore(struct nam_domain *pub, struct nam_mr *pub_mr, uint32_t rights,
	struct nam_diag *diag)
{
	struct tcp_domain *domain = (struct tcp_domain *)pub;
	struct tcp_mr *mr = pub_mr->provider;
	const struct nam__pages pages = { .fd = -1, .base = mr->base, .bytes = mr->bytes };
	int rc = nam__pages_renew(&pages, mr->page_bytes_log2, diag);

	if (rc)
		return rc;
	pthread_mutex_lock(&domain->mutex);
	/* Pairs with the acquire in serve.c: the bytes are zero before a peer sees them. */
	atomic_store_explicit(&mr->rkey,
		pub_mr->rkey | (rights & NAM_MR_REMOTE ? 0 : TCP_READ_ONLY), memory_order_release);
	pthread_mutex_unlock(&domain->mutex);
	return 0;
}

int
nam__tcp_mr_register(struct nam_domain *domain, void *base, uint64_t bytes, uint32_t rights,
	struct nam_mr *ret, struct nam_diag *diag)
{
	int rc;

	/* The kernel copies from wherever our own buffers are. */
	if (!(rights & NAM_MR_REMOTE)) {
		*ret = (struct nam_mr){ .base = base, .bytes = bytes, .fd = -1 };
		return 0;
	}
	rc = publish((struct tcp_domain *)domain, base, bytes, false, ret);
	return rc ? nam_diag_set(diag, rc, "more than %u regions", TCP_REGIONS_MAX) : 0;
}

int
nam__tcp_share_alloc(struct nam_domain *domain, uint64_t bytes, struct nam_mr *ret,
	struct nam_diag *diag)
{
	uint64_t rounded = (bytes + NAM__PAGE_BYTES - 1) / NAM__PAGE_BYTES * NAM__PAGE_BYTES;
	void *base;

	(void)domain;
	if (!bytes || bytes > NAM_SHARE_BYTES_MAX)
		return nam_diag_set(diag, -EINVAL, "tcp: a share of %llu bytes",
			(unsigned long long)bytes);
	base = mmap(NULL, rounded, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (base == MAP_FAILED)
		return nam_diag_set(diag, -errno, "tcp: no memory for a share");
	*ret = (struct nam_mr){
		.base = base,
		.bytes = rounded,
		.rkey = TCP_SHARE_KEY,
		.provider = base,
		.fd = -1,
	};
	return 0;
}

void
nam__tcp_mr_release(struct nam_domain *pub, struct nam_mr *pub_mr)
{
	struct tcp_domain *domain = (struct tcp_domain *)pub;
	struct tcp_mr *mr = pub_mr->provider;
	uint8_t *base = NULL;
	uint64_t bytes;

	if (!mr)
		return;
	pub_mr->provider = NULL;
	if (pub_mr->rkey == TCP_SHARE_KEY) {
		(void)munmap(pub_mr->base, pub_mr->bytes);
		return;
	}
	/* A polling thread may be about to look: the releasing thread ensures that no peer asks. */
	pthread_mutex_lock(&domain->mutex);
	atomic_store_explicit(&mr->rkey, UINT64_MAX, memory_order_relaxed);
	if (mr->mapped)
		base = mr->base;
	bytes = mr->bytes;
	mr->base = NULL;
	pthread_mutex_unlock(&domain->mutex);
	if (base)
		(void)munmap(base, bytes);
}
