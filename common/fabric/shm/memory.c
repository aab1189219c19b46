/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c -- memory that two processes share: regions, and small files of the handshake. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fabric/pages.h"
#include "shm_internal.h"

/* The two files of a region. */
static int
remember(struct shm_domain *domain, const struct shm_mr mrs[2], uint32_t *ret_index)
{
	int rc = 0;

	pthread_mutex_lock(&domain->mutex);
	if (domain->mrs_count == SHM_REGIONS_MAX) {
		rc = -NAM_E_LIMIT;
	} else {
		*ret_index = domain->mrs_count;
		memcpy(&domain->mrs[domain->mrs_count], mrs, 2 * sizeof(mrs[0]));
		domain->mrs_count += 2;
	}
	pthread_mutex_unlock(&domain->mutex);
	return rc;
}

static void
file_free(const struct shm_mr *mr)
{
	(void)munmap(mr->base, mr->bytes);
	close(mr->fd);
}

/*
 * Peers keep what they have mapped, so no file that they may write can become one that they may
 * only read.  The second file has no memory until then; `pages` are the first one's.
 */
static int
read_only_make(const struct nam__pages *pages, uint32_t page_bytes_log2, int transparent_huge,
	int numa_node, struct shm_mr *ret, struct nam_diag *diag)
{
	struct nam__pages own;
	int rc = nam__pages_reserve(pages->bytes, page_bytes_log2, transparent_huge, numa_node,
		&own, diag), fd;

	if (rc)
		return rc;
	fd = nam__pages_file_read_only(own.fd);
	/* The mapping is enough for the owner. */
	close(own.fd);
	if (fd < 0) {
		(void)munmap(own.base, own.bytes);
		return nam_diag_set(diag, fd, "shm: a region's file cannot be opened for reading "
			"through /proc/self/fd: %s", nam_err_text(fd));
	}
	*ret = (struct shm_mr){ .fd = fd, .base = own.base, .withdrawn = true };
	return 0;
}

int
nam__shm_region_alloc(struct nam_domain *pub, uint64_t bytes, uint32_t page_bytes_log2,
	int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	struct nam__pages pages;
	struct shm_mr mrs[2];
	uint32_t index;
	int rc = nam__pages_alloc(bytes, page_bytes_log2, transparent_huge, numa_node, -1,
		pub->populate, &pages, diag);

	if (rc)
		return rc;
	mrs[0] = (struct shm_mr){ .fd = pages.fd, .base = pages.base };
	rc = read_only_make(&pages, page_bytes_log2, transparent_huge, numa_node, &mrs[1], diag);
	if (rc) {
		(void)munmap(pages.base, pages.bytes);
		close(pages.fd);
		return rc;
	}
	for (unsigned i = 0; i < 2; i++) {
		mrs[i].bytes = pages.bytes;
		mrs[i].page_bytes_log2 = page_bytes_log2;
		mrs[i].transparent_huge = transparent_huge ? 1 : 0;
	}
	rc = remember(domain, mrs, &index);
	if (rc) {
		file_free(&mrs[0]);
		file_free(&mrs[1]);
		return nam_diag_set(diag, rc, "more than %u regions", SHM_REGIONS_MAX / 2);
	}
	*ret = (struct nam_mr){
		.base = pages.base,
		.bytes = pages.bytes,
		.lkey = 0,
		.rkey = index,
		.remote = 0,
		.provider = &domain->mrs[index],
		.fd = -1,
	};
	return 0;
}

void
nam__shm_region_withdraw(struct nam_domain *pub, struct nam_mr *pub_mr)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	struct shm_mr *mrs = pub_mr->provider;

	pub_mr->base = mrs[0].base;
	pthread_mutex_lock(&domain->mutex);
	mrs[0].withdrawn = mrs[SHM_READ_ONLY].withdrawn = true;
	pthread_mutex_unlock(&domain->mutex);
	(void)madvise(mrs[0].base, mrs[0].bytes, MADV_REMOVE);
	(void)madvise(mrs[SHM_READ_ONLY].base, mrs[0].bytes, MADV_REMOVE);
}

/* All clients have both files mapped, so nothing has to be sent. */
int
nam__shm_region_restore(struct nam_domain *pub, struct nam_mr *pub_mr, uint32_t rights,
	struct nam_diag *diag)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	struct shm_mr *mrs = pub_mr->provider;
	struct shm_mr *mr = &mrs[rights & NAM_MR_REMOTE ? 0 : SHM_READ_ONLY];
	const struct nam__pages pages = { mr == mrs ? mr->fd : -1, mr->base, mr->bytes };
	int rc = nam__pages_renew(&pages, mr->page_bytes_log2, diag);

	if (rc)
		return rc;
	pub_mr->base = mr->base;
	__atomic_store_n(&pub_mr->rkey, (uint32_t)(mr - domain->mrs), __ATOMIC_RELAXED);
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
	struct shm_mr old[2];

	if (!mr)
		return;
	pub_mr->provider = NULL;
	if (mr < domain->mrs || mr >= domain->mrs + SHM_REGIONS_MAX) {
		(void)munmap(mr->base, mr->bytes);
		if (mr->fd >= 0)
			close(mr->fd);
		free(mr);
		return;
	}
	/* A key that peers have been told of is never given to other memory. */
	pthread_mutex_lock(&domain->mutex);
	memcpy(old, mr, sizeof(old));
	mr[0] = mr[SHM_READ_ONLY] = (struct shm_mr){ .fd = -1 };
	while (domain->mrs_count > domain->mrs_told && domain->mrs[domain->mrs_count - 1].fd < 0)
		domain->mrs_count -= 2;
	pthread_mutex_unlock(&domain->mutex);
	for (unsigned i = 0; i < 2 && old[i].fd >= 0; i++)
		file_free(&old[i]);
}

int
nam__shm_region_map(int fd, uint32_t read_only, const struct shm_region_note *note,
	struct shm_region *ret)
{
	void *at;

	if (!note->bytes || note->bytes > 1ull << 40 ||
		nam__pages_file_bytes(fd) != (int64_t)note->bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	at = nam__pages_map(fd, note->bytes, note->transparent_huge, !read_only);
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
