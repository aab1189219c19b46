/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c -- registered memory. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/fabric/pages.h"
#include "verbs_internal.h"

#define READ_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ)
#define REMOTE_ACCESS                                                                               \
	(READ_ACCESS | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

/* A registration, and perhaps the memory that was made for it. */
struct verbs_region {
	struct ibv_mr *mr;
	uint8_t *pages;		/* NULL: the caller's */
	int fd;			/* theirs */
	uint64_t bytes;
	uint32_t page_bytes_log2;
};

static int
diag_not_registered(const struct verbs_domain *domain, uint64_t bytes, int rc,
	struct nam_diag *diag)
{
	struct rlimit limit;

	/* Kernels say ENOMEM for too little memory and for too low a limit. */
	if ((rc == -ENOMEM || rc == -EPERM || rc == -EAGAIN) &&
		!getrlimit(RLIMIT_MEMLOCK, &limit) && limit.rlim_cur != RLIM_INFINITY)
		return nam_diag_set(diag, rc, "verbs: %s: %" PRIu64 " bytes cannot be locked in "
			"memory: this process may lock %" PRIu64 " KiB (RLIMIT_MEMLOCK). Raise "
			"it: `ulimit -l unlimited`, LimitMEMLOCK=infinity in a systemd unit, or "
			"'memlock' in /etc/security/limits.conf", domain->device, bytes,
			(uint64_t)limit.rlim_cur >> 10);
	return nam_diag_set(diag, rc, "verbs: %s: %" PRIu64 " bytes cannot be registered: %s",
		domain->device, bytes, nam_err_text(rc));
}

/* Without IBV_ACCESS_RELAXED_ORDERING, which would break NAM_CAP_ORDER_WRITES and _WRITE_ATOMIC. */
static int
device_register(struct verbs_domain *domain, void *base, uint64_t bytes, int access,
	struct ibv_mr **ret, struct nam_diag *diag)
{
	errno = 0;
	*ret = ibv_reg_mr(domain->pd, base, bytes, access);
	return *ret ? 0 : diag_not_registered(domain, bytes, errno ? -errno : -ENOMEM, diag);
}

static int
register_memory(struct verbs_domain *domain, void *base, uint64_t bytes, int access,
	struct nam_mr *ret, struct nam_diag *diag)
{
	struct verbs_region *region = calloc(1, sizeof(*region));
	int rc;

	if (!region)
		return nam_diag_set(diag, -ENOMEM, "no memory");
	rc = device_register(domain, base, bytes, access, &region->mr, diag);
	if (rc) {
		free(region);
		return rc;
	}
	*ret = (struct nam_mr){
		.base = base,
		.bytes = bytes,
		.lkey = region->mr->lkey,
		.rkey = region->mr->rkey,
		.remote = (uintptr_t)base,
		.provider = region,
		.fd = -1,
	};
	return 0;
}

/* Memory that is a file, so that processes of this host can map it: see struct nam_colocated. */
int
nam__verbs_region_alloc(struct nam_domain *pub, uint64_t bytes, uint32_t page_bytes_log2,
	int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag)
{
	struct verbs_domain *domain = (struct verbs_domain *)pub;
	struct verbs_region *region;
	struct nam__pages pages;
	const struct nam__pages_kind kind = { page_bytes_log2, transparent_huge, numa_node,
		domain->numa_node };
	int rc = nam__pages_alloc(-1, bytes, &kind, pub->populate, &pages, diag);

	if (rc)
		return rc;
	rc = register_memory(domain, pages.base, pages.bytes, REMOTE_ACCESS, ret, diag);
	if (rc) {
		(void)munmap(pages.base, pages.bytes);
		close(pages.fd);
		return rc;
	}
	region = ret->provider;
	region->pages = pages.base;
	region->bytes = pages.bytes;
	region->fd = ret->fd = pages.fd;
	region->page_bytes_log2 = page_bytes_log2;
	return 0;
}

void
nam__verbs_region_withdraw(struct nam_domain *domain, struct nam_mr *mr)
{
	struct verbs_region *region = mr->provider;

	(void)domain;
	if (region->mr)
		(void)ibv_dereg_mr(region->mr);
	region->mr = NULL;
	(void)madvise(region->pages, region->bytes, MADV_REMOVE);
}

/* The device gives the registration other keys. */
int
nam__verbs_region_restore(struct nam_domain *domain, struct nam_mr *mr, uint32_t rights,
	struct nam_diag *diag)
{
	struct verbs_region *region = mr->provider;
	const struct nam__pages pages = { region->fd, region->pages, region->bytes, 0 };
	int rc = nam__pages_renew(&pages, region->page_bytes_log2, diag);

	if (rc)
		return rc;
	rc = device_register((struct verbs_domain *)domain, region->pages, region->bytes,
		rights & NAM_MR_REMOTE ? REMOTE_ACCESS : READ_ACCESS, &region->mr, diag);
	if (rc) {
		(void)madvise(region->pages, region->bytes, MADV_REMOVE);
		return rc;
	}
	__atomic_store_n(&mr->lkey, region->mr->lkey, __ATOMIC_RELAXED);
	__atomic_store_n(&mr->rkey, region->mr->rkey, __ATOMIC_RELAXED);
	return 0;
}

int
nam__verbs_share_alloc(struct nam_domain *domain, uint64_t bytes, struct nam_mr *ret,
	struct nam_diag *diag)
{
	if (!bytes || bytes > NAM_SHARE_BYTES_MAX)
		return nam_diag_set(diag, -EINVAL, "verbs: a share of %" PRIu64 " bytes", bytes);
	return nam__verbs_region_alloc(domain, bytes, 12, 0, -1, ret, diag);
}

int
nam__verbs_mr_register(struct nam_domain *domain, void *base, uint64_t bytes, uint32_t rights,
	struct nam_mr *ret, struct nam_diag *diag)
{
	return register_memory((struct verbs_domain *)domain, base, bytes,
		rights & NAM_MR_REMOTE ? REMOTE_ACCESS : IBV_ACCESS_LOCAL_WRITE, ret, diag);
}

void
nam__verbs_mr_release(struct nam_domain *domain, struct nam_mr *mr)
{
	struct verbs_region *region = mr->provider;

	(void)domain;
	if (!region)
		return;
	if (region->mr)
		(void)ibv_dereg_mr(region->mr);
	if (region->pages) {
		(void)munmap(region->pages, region->bytes);
		close(region->fd);
	}
	free(region);
	mr->provider = NULL;
}
