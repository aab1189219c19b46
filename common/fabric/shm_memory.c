/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_memory.c -- memory that two processes share: regions, and the small files of the handshake.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <numaif.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shm_internal.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
/* Page tables for more small pages than this are better built as pages are touched. */
#define POPULATE_SMALL_BYTES_MAX (16ull << 30)

/*
 * Map a shared file at an address that huge pages can back: a multiple of their size.  NULL with
 * errno on failure.
 */
static void *
map_aligned(int fd, uint64_t bytes, bool transparent_huge)
{
	uint8_t *reserved, *at;
	void *mapped;
	size_t slack, spare;

	if (!transparent_huge) {
		mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		return mapped == MAP_FAILED ? NULL : mapped;
	}
	reserved = mmap(NULL, bytes + SHM_HUGE_BYTES, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		return NULL;
	slack = (size_t)(-(uintptr_t)reserved & (SHM_HUGE_BYTES - 1));
	at = reserved + slack;
	mapped = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
	if (mapped == MAP_FAILED) {
		int saved = errno;

		(void)munmap(reserved, bytes + SHM_HUGE_BYTES);
		errno = saved;
		return NULL;
	}
	if (slack)
		(void)munmap(reserved, slack);
	/* What lies between the end of the last page and the end of the reservation. */
	bytes = (bytes + SHM_PAGE_BYTES - 1) & ~(uint64_t)(SHM_PAGE_BYTES - 1);
	spare = SHM_HUGE_BYTES - slack;
	if (spare >= SHM_PAGE_BYTES)
		(void)munmap(at + bytes, spare & ~(size_t)(SHM_PAGE_BYTES - 1));
	return at;
}

/* Give every page its memory now, so that a lack of it is an error code and not a SIGBUS. */
static int
populate(int fd, void *at, uint64_t bytes)
{
	if (!madvise(at, bytes, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return errno == EFAULT || errno == EHWPOISON ? -ENOMEM : -errno;
	/* Kernels before 5.14. */
	while (fallocate(fd, 0, 0, (off_t)bytes)) {
		if (errno != EINTR)
			return errno == ENOSPC ? -ENOMEM : -errno;
	}
	return 0;
}

static int
bind_to_node(void *at, uint64_t bytes, int node, struct nam_diag *diag)
{
	unsigned long mask[16] = { 0 };
	const int bits = (int)(sizeof(mask) * 8);

	if (node < 0)
		return 0;
	if (node >= bits)
		return nam_diag_set(diag, -EINVAL, "NUMA node %d: this host has no such node",
			node);
	mask[(size_t)node / (8 * sizeof(mask[0]))] = 1ul << (size_t)node % (8 * sizeof(mask[0]));
	if (mbind(at, bytes, MPOL_BIND, mask, (unsigned long)bits + 1, MPOL_MF_MOVE)) {
		int saved = errno;

		return nam_diag_set(diag, -saved, "NUMA node %d: cannot bind memory to it: %s",
			node, strerror(saved));
	}
	return 0;
}

static int
say_no_memory(struct nam_diag *diag, int rc, uint64_t bytes, uint32_t page_bytes_log2, int node)
{
	uint64_t page_bytes = 1ull << page_bytes_log2;
	char where[32] = "";

	if (node >= 0)
		(void)snprintf(where, sizeof(where), " on NUMA node %d", node);
	if (page_bytes > SHM_PAGE_BYTES && (rc == -ENOMEM || rc == -ENOSPC))
		return nam_diag_set(diag, -ENOMEM, "a region of %" PRIu64 " bytes needs %" PRIu64
			" free huge pages of %" PRIu64 " KiB%s; raise "
			"/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/nr_hugepages",
			bytes, (bytes + page_bytes - 1) / page_bytes, page_bytes >> 10, where,
			page_bytes >> 10);
	return nam_diag_set(diag, rc, "a region of %" PRIu64 " bytes of %" PRIu64
		" KiB pages%s: %s", bytes, page_bytes >> 10, where, nam_err_text(rc));
}

static int
region_file(uint64_t bytes, uint32_t page_bytes_log2, int *ret_fd)
{
	unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd, rc;

	if (page_bytes_log2 > 12)
		flags |= MFD_HUGETLB | page_bytes_log2 << MFD_HUGE_SHIFT;
	fd = memfd_create("nam-region", flags);
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, SEALS)) {
		rc = -errno;
		close(fd);
		return rc;
	}
	*ret_fd = fd;
	return 0;
}

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
	struct shm_mr mr = {
		.fd = -1,
		.page_bytes_log2 = page_bytes_log2,
		.transparent_huge = transparent_huge ? 1 : 0,
	};
	uint64_t page_bytes;
	uint32_t index;
	int rc;

	if (page_bytes_log2 < 12 || page_bytes_log2 > 34 || bytes == 0 || bytes > 1ull << 40)
		return nam_diag_set(diag, -EINVAL, "a region of %" PRIu64 " bytes of 2^%u bytes' "
			"pages is out of range", bytes, page_bytes_log2);
	page_bytes = 1ull << page_bytes_log2;
	mr.bytes = (bytes + page_bytes - 1) & ~(page_bytes - 1);
	rc = region_file(mr.bytes, page_bytes_log2, &mr.fd);
	if (rc)
		return say_no_memory(diag, rc, bytes, page_bytes_log2, numa_node);
	mr.base = map_aligned(mr.fd, mr.bytes, mr.transparent_huge);
	if (!mr.base) {
		rc = say_no_memory(diag, -errno, bytes, page_bytes_log2, numa_node);
		goto close_file;
	}
	if (mr.transparent_huge && madvise(mr.base, mr.bytes, MADV_HUGEPAGE)) {
		rc = nam_diag_set(diag, -errno, "this kernel has no transparent huge pages");
		goto unmap;
	}
	rc = bind_to_node(mr.base, mr.bytes, numa_node, diag);
	if (rc)
		goto unmap;
	rc = populate(mr.fd, mr.base, mr.bytes);
	if (rc) {
		rc = say_no_memory(diag, rc, bytes, page_bytes_log2, numa_node);
		goto unmap;
	}
	rc = remember(domain, &mr, &index);
	if (rc) {
		rc = nam_diag_set(diag, rc, "more than %u regions", SHM_REGIONS_MAX);
		goto unmap;
	}
	*ret = (struct nam_mr){
		.base = mr.base,
		.bytes = mr.bytes,
		.lkey = 0,
		.rkey = index,
		.remote = 0,
		.provider = &domain->mrs[index],
	};
	return 0;

unmap:
	(void)munmap(mr.base, mr.bytes);
close_file:
	close(mr.fd);
	return rc;
}

int
nam__shm_mr_register(struct nam_domain *domain, void *base, uint64_t bytes, uint32_t rights,
	struct nam_mr *ret, struct nam_diag *diag)
{
	(void)domain;
	if (rights & NAM_MR_REMOTE)
		return nam_diag_set(diag, -NAM_E_FABRIC_CAPABILITY,
			"shm: other processes can reach only memory from region_alloc");
	*ret = (struct nam_mr){ .base = base, .bytes = bytes };
	return 0;
}

void
nam__shm_mr_release(struct nam_domain *pub, struct nam_mr *pub_mr)
{
	struct shm_domain *domain = (struct shm_domain *)pub;
	struct shm_mr *mr = pub_mr->provider;
	struct shm_mr old;

	if (!mr)
		return;
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

static int
check_file(int fd, uint64_t bytes)
{
	struct stat status;
	int seals = fcntl(fd, F_GET_SEALS);

	if (seals < 0 || !(seals & F_SEAL_SHRINK))
		return -NAM_E_FABRIC_PROTOCOL;
	if (fstat(fd, &status) || (uint64_t)status.st_size != bytes)
		return -NAM_E_FABRIC_PROTOCOL;
	return 0;
}

int
nam__shm_region_map(int fd, const struct shm_region_note *note, struct shm_region *ret)
{
	void *at;
	int rc;

	if (note->bytes == 0 || note->bytes > 1ull << 40)
		return -NAM_E_FABRIC_PROTOCOL;
	rc = check_file(fd, note->bytes);
	if (rc)
		return rc;
	at = map_aligned(fd, note->bytes, note->transparent_huge);
	if (!at)
		return -errno;
	/* Both are for speed only: our own page tables, with huge entries where they can be. */
	if (note->transparent_huge)
		(void)madvise(at, note->bytes, MADV_HUGEPAGE);
	if (note->page_bytes_log2 > 12 || note->transparent_huge ||
		note->bytes <= POPULATE_SMALL_BYTES_MAX)
		(void)madvise(at, note->bytes, MADV_POPULATE_WRITE);
	*ret = (struct shm_region){ at, note->bytes };
	return 0;
}

void
nam__shm_region_unmap(const struct shm_region *region)
{
	(void)munmap(region->base, region->bytes);
}

int
nam__shm_file_create(const char *name, size_t bytes, int *ret_fd, void **ret_at)
{
	int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
	void *at;
	int rc;

	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, SEALS)) {
		rc = -errno;
		goto close_file;
	}
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED) {
		rc = -errno;
		goto close_file;
	}
	*ret_fd = fd;
	*ret_at = at;
	return 0;

close_file:
	close(fd);
	return rc;
}

int
nam__shm_file_map(int fd, size_t bytes, void **ret_at)
{
	int rc = check_file(fd, bytes);
	void *at;

	if (rc)
		return rc;
	at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED)
		return -errno;
	*ret_at = at;
	return 0;
}
