/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c -- memory that two processes share: regions, and small files of the handshake. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fabric/pages.h"
#include "shm_internal.h"

static int
remember(struct shm_domain *domain, const struct shm_mr *mr, uint32_t *ret_index)
{
	int rc = 0;

	pthread_mutex_lock(&domain->mutex);
	if (domain->mrs_count == SHM_REGIONS_MAX) {
		rc = -NAM_E_LIMIT;
	} else {
		*ret_index = domain->mrs_count;
		domain->mrs[domain->mrs_count++] = *mr;
	}
	pthread_mutex_unlock(&domain->mutex);
	return rc;
}

int
nam__shm_region_alloc(struct nam_domain *pub, uint64_t bytes, uint32_t page_bytes_log2,
	int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	struct nam__pages pages;
	struct shm_mr mr;
	uint32_t index;
	int rc = nam__pages_alloc(bytes, page_bytes_log2, transparent_huge, numa_node, -1,
		pub->populate, &pages, diag);

	if (rc)
		return rc;
	mr = (struct shm_mr){
		.fd = pages.fd,
		.base = pages.base,
		.bytes = pages.bytes,
		.page_bytes_log2 = page_bytes_log2,
		.transparent_huge = transparent_huge ? 1 : 0,
	};
	rc = remember(domain, &mr, &index);
	if (rc) {
		rc = nam_diag_set(diag, rc, "more than %u regions", SHM_REGIONS_MAX);
		goto free_pages;
	}
	*ret = (struct nam_mr){
		.base = mr.base,
		.bytes = mr.bytes,
		.lkey = 0,
		.rkey = index,
		.remote = 0,
		.provider = &domain->mrs[index],
		.fd = -1,
	};
	return 0;

free_pages:
	(void)munmap(mr.base, mr.bytes);
	close(mr.fd);
	return rc;
}

void
nam__shm_region_withdraw(struct nam_domain *pub, struct nam_mr *pub_mr)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	struct shm_mr *mr = pub_mr->provider;

	pthread_mutex_lock(&domain->mutex);
	mr->withdrawn = true;
	pthread_mutex_unlock(&domain->mutex);
	(void)madvise(mr->base, mr->bytes, MADV_REMOVE);
}

/* All clients have it mapped, so nothing has to be sent. */
int
nam__shm_region_restore(struct nam_domain *pub, struct nam_mr *pub_mr, struct nam_diag *diag)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	struct shm_mr *mr = pub_mr->provider;
	const struct nam__pages pages = { mr->fd, mr->base, mr->bytes };
	int rc = nam__pages_renew(&pages, mr->page_bytes_log2, diag);

	if (rc)
		return rc;
	pthread_mutex_lock(&domain->mutex);
	mr->withdrawn = false;
	pthread_mutex_unlock(&domain->mutex);
	return 0;
}

int
nam__shm_mr_register(struct nam_domain *domain, void *base, uint64_t bytes, uint32_t rights,
	struct nam_mr *ret, struct nam_diag *diag)
{
	(void)domain;
	if (rights & NAM_MR_REMOTE)
		return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY,
			"shm: other processes can reach only memory from region_alloc");
	*ret = (struct nam_mr){ .base = base, .bytes = bytes, .fd = -1 };
	return 0;
}

/* ---- shares ------------------------------------------------------------------------------- */

int
nam__shm_share_alloc(struct nam_domain *domain, uint64_t bytes, struct nam_mr *ret,
	struct nam_diag *diag)
{
	struct shm_mr *mr;
	void *base = NULL;
	int rc;

	(void)domain;
	if (!bytes || bytes > NAM_SHARE_BYTES_MAX)
		return nam_diag_set(diag, -EINVAL, "shm: a share of %llu bytes",
			(unsigned long long)bytes);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return nam_diag_set(diag, -ENOMEM, "no memory");
	mr->bytes = (bytes + SHM_PAGE_BYTES - 1) / SHM_PAGE_BYTES * SHM_PAGE_BYTES;
	rc = nam__shm_file_create("nam-share", mr->bytes, &mr->fd, &base);
	if (rc) {
		free(mr);
		return nam_diag_set(diag, rc, "shm: a share of %llu bytes: %s",
			(unsigned long long)bytes, nam_err_text(rc));
	}
	mr->base = base;
	*ret = (struct nam_mr){
		.base = base,
		.bytes = bytes,
		.rkey = SHM_SHARE_KEY,
		.provider = mr,
	};
	return 0;
}

int
nam__shm_share_fd(const struct nam_mr *share)
{
	return share ? ((const struct shm_mr *)share->provider)->fd : -1;
}

void
nam__shm_share_sent(const struct nam_mr *share)
{
	struct shm_mr *mr = share ? share->provider : NULL;

	if (!mr || mr->fd < 0)
		return;
	close(mr->fd);
	mr->fd = -1;
}

int
nam__shm_share_map(int fd, struct shm_region *ret)
{
	int64_t bytes = nam__pages_file_bytes(fd);
	void *at = NULL;
	int rc;

	if (bytes <= 0 || bytes > NAM_SHARE_BYTES_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	rc = nam__shm_file_map(fd, (size_t)bytes, &at);
	if (!rc)
		*ret = (struct shm_region){ at, (uint64_t)bytes };
	return rc;
}

/* ---- the end of a registration ------------------------------------------------------------ */

void
nam__shm_mr_release(struct nam_domain *pub, struct nam_mr *pub_mr)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	struct shm_mr *mr = pub_mr->provider;
	struct shm_mr old;

	if (!mr)
		return;
	if (mr < domain->mrs || mr >= domain->mrs + SHM_REGIONS_MAX) {
		(void)munmap(mr->base, mr->bytes);
		if (mr->fd >= 0)
			close(mr->fd);
		free(mr);
		pub_mr->provider = NULL;
		return;
	}
	/* The slot stays taken: a key is never given to other memory. */
	pthread_mutex_lock(&domain->mutex);
	old = *mr;
	*mr = (struct shm_mr){ .fd = -1 };
	pthread_mutex_unlock(&domain->mutex);
	if (old.fd < 0)
		return;
	(void)munmap(old.base, old.bytes);
	close(old.fd);
	pub_mr->provider = NULL;
}

int
nam__shm_region_map(int fd, const struct shm_region_note *note, struct shm_region *ret)
{
	void *at;

	if (!note->bytes || note->bytes > 1ull << 40 ||
		nam__pages_file_bytes(fd) != (int64_t)note->bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	at = nam__pages_map(fd, note->bytes, note->transparent_huge, true);
	if (!at)
		return -errno;
	/* For speed only: huge entries in our own page tables. */
	if (note->transparent_huge)
		(void)madvise(at, note->bytes, MADV_HUGEPAGE);
	*ret = (struct shm_region){ at, note->bytes };
	return 0;
}

int
nam__shm_file_create(const char *name, size_t bytes, int *ret_fd, void **ret_at)
{
	int fd = nam__pages_file(name, bytes, 0), rc;

	if (fd < 0)
		return fd;
	rc = nam__shm_file_map(fd, bytes, ret_at);
	if (rc)
		close(fd);
	else
		*ret_fd = fd;
	return rc;
}

int
nam__shm_file_map(int fd, size_t bytes, void **ret_at)
{
	void *at;

	if (nam__pages_file_bytes(fd) != (int64_t)bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	at = nam__pages_map(fd, bytes, false, true);
	if (!at)
		return -errno;
	*ret_at = at;
	return 0;
}
