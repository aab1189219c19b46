/* SPDX-License-Identifier: Apache-2.0 */
/* memory.c -- memory that two processes share: regions, and small files of the handshake. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/fabric/pages.h"
#include "shm_internal.h"

static void
file_close(struct shm_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	if (file->read_fd >= 0)
		close(file->read_fd);
	file->fd = file->read_fd = -1;
}

static int
file_make(uint32_t page_bytes_log2, bool transparent_huge, bool read_only, struct shm_file *ret)
{
	*ret = (struct shm_file){
		.fd = nam__pages_file_begin(page_bytes_log2),
		.read_fd = -1,
		.page_bytes_log2 = page_bytes_log2,
		.transparent_huge = transparent_huge,
		.read_only = read_only,
	};
	if (ret->fd < 0)
		return ret->fd;
	ret->read_fd = nam__pages_file_read_only(ret->fd);
	if (ret->read_fd >= 0)
		return 0;
	close(ret->fd);
	return ret->read_fd;
}

/* With the mutex: a file for one more region of that kind. */
static int
file_enter(struct shm_domain *domain, const struct nam__pages_kind *kind, bool read_only,
	struct shm_file **ret, struct nam_diag *diag)
{
	struct shm_file *file;
	int rc;

	for (uint32_t i = domain->files_count; i-- > 0;) {
		file = &domain->files[i];
		if (file->read_fd >= 0 && !file->ended && file->read_only == read_only &&
			file->page_bytes_log2 == kind->page_bytes_log2 &&
			file->transparent_huge == kind->transparent_huge)
			goto found;
	}
	if (domain->files_count == SHM_REGIONS_MAX)
		return nam_diag_set(diag, -NAM_E_LIMIT, "more than %u files of regions",
			SHM_REGIONS_MAX);
	file = &domain->files[domain->files_count];
	rc = file_make(kind->page_bytes_log2, kind->transparent_huge, read_only, file);
	if (rc)
		return nam_diag_set(diag, rc, "shm: a file of regions, and opening it for reading "
			"through /proc/self/fd: %s", nam_err_text(rc));
	domain->files_count++;
found:
	file->regions++;
	*ret = file;
	return 0;
}

/* The caller holds the mutex. */
static void
file_leave(struct shm_domain *domain, struct shm_file *file)
{
	if (--file->regions)
		return;
	file_close(file);
	while (domain->files_count && domain->files[domain->files_count - 1].read_fd < 0)
		domain->files_count--;
}

int
nam__shm_region_file_end(struct shm_file *file)
{
	int rc = file->ended ? 0 : nam__pages_file_end(file->fd);

	if (rc || file->ended)
		return rc;
	file->ended = true;
	/* The owner's mappings are enough. */
	if (file->read_only) {
		close(file->fd);
		file->fd = -1;
	}
	return 0;
}

int
nam__shm_region_file_map(int fd, bool read_only, bool transparent_huge, struct shm_region *ret)
{
	int64_t bytes = nam__pages_file_bytes(fd);
	void *at;

	if (bytes <= 0)
		return -NAM_E_FABRIC_PROTOCOL;
	at = nam__pages_map(fd, (uint64_t)bytes, transparent_huge, !read_only);
	if (!at)
		return -errno;
	/* For speed only: huge entries in our own page tables. */
	if (transparent_huge)
		(void)madvise(at, (size_t)bytes, MADV_HUGEPAGE);
	*ret = (struct shm_region){ at, (uint64_t)bytes };
	return 0;
}

/* Both memories of a region. */
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
memory_free(struct shm_domain *domain, const struct shm_mr *mr)
{
	(void)munmap(mr->base, mr->bytes);
	pthread_mutex_lock(&domain->mutex);
	file_leave(domain, &domain->files[mr->file]);
	pthread_mutex_unlock(&domain->mutex);
}

/*
 * Peers keep what they have mapped.  So memory that they may only READ is another file, which has
 * no pages until a region becomes read-only.
 */
static int
memory_make(struct shm_domain *domain, uint64_t bytes, const struct nam__pages_kind *kind,
	bool read_only, struct shm_mr *ret, struct nam_diag *diag)
{
	struct nam__pages pages;
	struct shm_file *file = NULL;
	int rc;

	pthread_mutex_lock(&domain->mutex);
	rc = file_enter(domain, kind, read_only, &file, diag);
	pthread_mutex_unlock(&domain->mutex);
	if (rc)
		return rc;
	rc = read_only ? nam__pages_reserve(file->fd, bytes, kind, &pages, diag) :
		nam__pages_alloc(file->fd, bytes, kind, domain->pub.populate, &pages, diag);
	if (rc) {
		pthread_mutex_lock(&domain->mutex);
		file_leave(domain, file);
		pthread_mutex_unlock(&domain->mutex);
		return rc;
	}
	*ret = (struct shm_mr){
		.fd = -1,
		.file = (uint32_t)(file - domain->files),
		.base = pages.base,
		.bytes = pages.bytes,
		.offset = pages.offset,
		.withdrawn = read_only,
	};
	return 0;
}

int
nam__shm_region_alloc(struct nam_domain *pub, uint64_t bytes, uint32_t page_bytes_log2,
	int transparent_huge, int numa_node, struct nam_mr *ret, struct nam_diag *diag)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	const struct nam__pages_kind kind = { page_bytes_log2, transparent_huge, numa_node, -1 };
	struct shm_mr mrs[2];
	uint32_t index;
	int rc = memory_make(domain, bytes, &kind, false, &mrs[0], diag);

	if (rc)
		return rc;
	rc = memory_make(domain, bytes, &kind, true, &mrs[SHM_READ_ONLY], diag);
	if (rc)
		goto free_memory;
	rc = remember(domain, mrs, &index);
	if (rc) {
		rc = nam_diag_set(diag, rc, "more than %u regions", SHM_REGIONS_MAX / 2);
		memory_free(domain, &mrs[SHM_READ_ONLY]);
		goto free_memory;
	}
	*ret = (struct nam_mr){
		.base = mrs[0].base,
		.bytes = mrs[0].bytes,
		.lkey = 0,
		.rkey = index,
		.remote = 0,
		.provider = &domain->mrs[index],
		.fd = -1,
	};
	return 0;

free_memory:
	memory_free(domain, &mrs[0]);
	return rc;
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

/* All clients have both memories mapped, so nothing has to be sent. */
int
nam__shm_region_restore(struct nam_domain *pub, struct nam_mr *pub_mr, uint32_t rights,
	struct nam_diag *diag)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	struct shm_mr *mrs = pub_mr->provider;
	struct shm_mr *mr = &mrs[rights & NAM_MR_REMOTE ? 0 : SHM_READ_ONLY];
	const struct shm_file *file = &domain->files[mr->file];
	const struct nam__pages pages = { file->fd, mr->base, mr->bytes, mr->offset };
	int rc = nam__pages_renew(&pages, file->page_bytes_log2, diag);

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
	while (domain->mrs_count > domain->mrs_announced &&
		!domain->mrs[domain->mrs_count - 1].base)
		domain->mrs_count -= 2;
	pthread_mutex_unlock(&domain->mutex);
	for (unsigned i = 0; i < 2 && old[i].base; i++)
		memory_free(domain, &old[i]);
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
