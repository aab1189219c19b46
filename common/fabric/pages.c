/* SPDX-License-Identifier: Apache-2.0 */
/* pages.c -- memory for regions: pages of a kind, on a node, all of them there. */
#include "pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <numa.h>
#include <numaif.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/env.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MFD_HUGE_SHIFT
#define MFD_HUGE_SHIFT 26
#endif

#define HUGE_BYTES (2ull << 20)
#define PIECE_BYTES (4ull << 20)	/* the kernel ends no piece early: a signal waits for one */
#define THREADS_MAX 16u

/*
 * Huge pages can back an address that is a multiple of their size.
 * @flags	of mmap(), besides MAP_SHARED
 */
static void *
map_file(int fd, uint64_t offset, uint64_t bytes, bool transparent_huge, int rights, int flags)
{
	uint8_t *reserved, *at;
	void *mapped;
	size_t slack, spare;

	if (!transparent_huge) {
		mapped = mmap(NULL, bytes, rights, MAP_SHARED | flags, fd, (off_t)offset);
		return mapped == MAP_FAILED ? NULL : mapped;
	}
	reserved = mmap(NULL, bytes + HUGE_BYTES, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		return NULL;
	slack = (size_t)(-(uintptr_t)reserved & (HUGE_BYTES - 1));
	at = reserved + slack;
	mapped = mmap(at, bytes, rights, MAP_SHARED | MAP_FIXED | flags, fd, (off_t)offset);
	if (mapped == MAP_FAILED) {
		int saved = errno;

		(void)munmap(reserved, bytes + HUGE_BYTES);
		errno = saved;
		return NULL;
	}
	if (slack)
		(void)munmap(reserved, slack);
	/* The range between the end of the last page and the end of the reservation. */
	bytes = (bytes + NAM__PAGE_BYTES - 1) & ~(uint64_t)(NAM__PAGE_BYTES - 1);
	spare = HUGE_BYTES - slack;
	if (spare >= NAM__PAGE_BYTES)
		(void)munmap(at + bytes, spare & ~(size_t)(NAM__PAGE_BYTES - 1));
	return at;
}

void *
nam__pages_map(int fd, uint64_t bytes, bool transparent_huge, bool writable)
{
	return map_file(fd, 0, bytes, transparent_huge,
		writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_NORESERVE);
}

/* The pages of a region, which several threads populate piece by piece. */
struct pieces {
	const struct nam__pages *pages;
	struct nam__populate *populate;
	uint64_t piece_bytes;
	_Atomic uint64_t next;		/* offset of the next piece */
	_Atomic int rc;			/* 0, or of a piece that failed */
};

static int
populate_piece(const struct nam__pages *pages, uint64_t offset, uint64_t bytes)
{
	if (!madvise(pages->base + offset, bytes, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return errno == EFAULT || errno == EHWPOISON ? -ENOMEM : -errno;
	/* Kernels before 5.14. */
	if (pages->fd < 0)
		return -EOPNOTSUPP;
	while (fallocate(pages->fd, 0, (off_t)(pages->offset + offset), (off_t)bytes)) {
		if (errno != EINTR)
			return errno == ENOSPC ? -ENOMEM : -errno;
	}
	return 0;
}

static void
populate_pieces(void *arg)
{
	struct pieces *pieces = arg;
	uint64_t all = pieces->pages->bytes, offset, bytes;
	int rc = 0;

	while (!atomic_load(&pieces->rc)) {
		offset = atomic_fetch_add(&pieces->next, pieces->piece_bytes);
		if (offset >= all)
			return;
		bytes = all - offset < pieces->piece_bytes ? all - offset : pieces->piece_bytes;
		if (pieces->populate && atomic_load(&pieces->populate->cancelled))
			rc = -ECANCELED;
		else
			rc = populate_piece(pieces->pages, offset, bytes);
		if (rc)
			atomic_store(&pieces->rc, rc);
		else if (pieces->populate)
			atomic_fetch_add(&pieces->populate->bytes, bytes);
	}
}

/* Give every page its memory now, so that a lack of it is an error code and not a SIGBUS. */
static int
populate_all(const struct nam__pages *pages, uint64_t page_bytes, struct nam__populate *populate)
{
	struct pieces pieces = { .pages = pages, .populate = populate,
		.piece_bytes = page_bytes > PIECE_BYTES ? page_bytes : PIECE_BYTES };
	struct nam_thread *threads[THREADS_MAX - 1];
	unsigned processors = (unsigned)numa_num_task_cpus(), started = 0;

	while (started < THREADS_MAX - 1 && started + 1 < processors &&
		pages->bytes / pieces.piece_bytes > started + 1 &&
		!nam_thread_start("nam-populate", populate_pieces, &pieces, &threads[started]))
		started++;
	populate_pieces(&pieces);
	while (started)
		nam_thread_join(threads[--started]);
	return pieces.rc;
}

static int
bind_to_node(const struct nam__pages *pages, const struct nam__pages_kind *kind,
	struct nam_diag *diag)
{
	int node = kind->numa_node < 0 ? kind->near_node : kind->numa_node;
	nodemask_t mask;

	if (node < 0)
		return 0;
	if (node >= NUMA_NUM_NODES)
		return nam_diag_set(diag, -EINVAL, "NUMA node %d: this host has no such node",
			node);
	nodemask_zero(&mask);
	nodemask_set_compat(&mask, node);
	if (kind->numa_node < 0) {
		(void)mbind(pages->base, pages->bytes, MPOL_PREFERRED, mask.n, NUMA_NUM_NODES + 1,
			0);
		return 0;
	}
	if (mbind(pages->base, pages->bytes, MPOL_BIND, mask.n, NUMA_NUM_NODES + 1,
		MPOL_MF_MOVE)) {
		int saved = errno;

		return nam_diag_set(diag, -saved, "NUMA node %d: cannot bind memory to it: %s",
			node, strerror(saved));
	}
	return 0;
}

static int
diag_no_memory(struct nam_diag *diag, int rc, uint64_t bytes, uint32_t page_bytes_log2, int node)
{
	uint64_t page_bytes = 1ull << page_bytes_log2;
	char where[32] = "";

	if (node >= 0)
		(void)snprintf(where, sizeof(where), " on NUMA node %d", node);
	if (page_bytes > NAM__PAGE_BYTES && (rc == -ENOMEM || rc == -ENOSPC))
		return nam_diag_set(diag, -ENOMEM, "a region of %" PRIu64 " bytes needs %" PRIu64
			" free huge pages of %" PRIu64 " KiB%s; raise "
			"/sys/kernel/mm/hugepages/hugepages-%" PRIu64 "kB/nr_hugepages",
			bytes, (bytes + page_bytes - 1) / page_bytes, page_bytes >> 10, where,
			page_bytes >> 10);
	return nam_diag_set(diag, rc, "a region of %" PRIu64 " bytes of %" PRIu64
		" KiB pages%s: %s", bytes, page_bytes >> 10, where, nam_err_text(rc));
}

int
nam__pages_file(const char *name, uint64_t bytes, unsigned flags)
{
	int fd = memfd_create(name, flags | MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;

	if (fd < 0)
		return -errno;
	rc = ftruncate(fd, (off_t)bytes) || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) ? -errno :
		nam__pages_file_end(fd);
	if (!rc)
		return fd;
	close(fd);
	return rc;
}

int
nam__pages_file_begin(uint32_t log2)
{
	int fd = memfd_create("nam-region", MFD_CLOEXEC | MFD_ALLOW_SEALING |
		(log2 > 12 ? MFD_HUGETLB | log2 << MFD_HUGE_SHIFT : 0)), rc;

	if (fd < 0)
		return -errno;
	/* A peer that has a descriptor for reading opens no other one by way of it. */
	if (!fchmod(fd, S_IRUSR) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK))
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int
nam__pages_file_end(int fd)
{
	return fcntl(fd, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SEAL) ? -errno : 0;
}

int
nam__pages_file_read_only(int fd)
{
	char path[32];
	int read_only;

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	read_only = open(path, O_RDONLY | O_CLOEXEC);
	return read_only < 0 ? -errno : read_only;
}

int64_t
nam__pages_file_bytes(int fd)
{
	int seals = fcntl(fd, F_GET_SEALS);
	struct stat status;

	return seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &status) ? status.st_size : -1;
}

/* Make the file longer, by whole pages that huge entries can map. */
static int
file_grow(const struct nam__pages_kind *kind, struct nam__pages *pages)
{
	uint64_t align = 1ull << kind->page_bytes_log2;
	struct stat status;

	if (align < HUGE_BYTES && kind->transparent_huge)
		align = HUGE_BYTES;
	if (fstat(pages->fd, &status))
		return -errno;
	pages->offset = ((uint64_t)status.st_size + align - 1) & ~(align - 1);
	return ftruncate(pages->fd, (off_t)(pages->offset + pages->bytes)) ? -errno : 0;
}

/* Mapped, on its node, and without memory.  @flags	of mmap(), besides MAP_SHARED */
static int
pages_map(int file, uint64_t asked, const struct nam__pages_kind *kind, int flags,
	struct nam__pages *pages, struct nam_diag *diag)
{
	uint32_t log2 = kind->page_bytes_log2;
	uint64_t page_bytes;
	int rc;

	if (log2 < 12 || log2 > 34 || asked == 0 || asked > 1ull << 40)
		return nam_diag_set(diag, -EINVAL, "a region of %" PRIu64 " bytes of 2^%u bytes' "
			"pages is out of range", asked, log2);
	page_bytes = 1ull << log2;
	pages->bytes = (asked + page_bytes - 1) & ~(page_bytes - 1);
	pages->fd = file < 0 ? nam__pages_file_begin(log2) : file;
	if (pages->fd < 0)
		return diag_no_memory(diag, pages->fd, asked, log2, kind->numa_node);
	rc = file_grow(kind, pages);
	if (!rc && file < 0)
		rc = nam__pages_file_end(pages->fd);
	if (rc) {
		rc = nam_diag_set(diag, rc, "the file of a region: %s", nam_err_text(rc));
		goto close_file;
	}
	pages->base = map_file(pages->fd, pages->offset, pages->bytes, kind->transparent_huge,
		PROT_READ | PROT_WRITE, flags);
	if (!pages->base) {
		rc = diag_no_memory(diag, -errno, asked, log2, kind->numa_node);
		goto close_file;
	}
	if (kind->transparent_huge && madvise(pages->base, pages->bytes, MADV_HUGEPAGE)) {
		rc = nam_diag_set(diag, -errno, "this kernel has no transparent huge pages");
		goto unmap;
	}
	rc = bind_to_node(pages, kind, diag);
	if (rc)
		goto unmap;
	return 0;

unmap:
	(void)munmap(pages->base, pages->bytes);
close_file:
	if (file < 0)
		close(pages->fd);
	return rc;
}

int
nam__pages_alloc(int file, uint64_t asked, const struct nam__pages_kind *kind,
	struct nam__populate *populate, struct nam__pages *pages, struct nam_diag *diag)
{
	int rc = pages_map(file, asked, kind, 0, pages, diag);

	if (rc)
		return rc;
	rc = populate_all(pages, 1ull << kind->page_bytes_log2, populate);
	if (!rc)
		return 0;
	/* The file may have other regions, and stay. */
	(void)madvise(pages->base, pages->bytes, MADV_REMOVE);
	(void)munmap(pages->base, pages->bytes);
	if (file < 0)
		close(pages->fd);
	return diag_no_memory(diag, rc, asked, kind->page_bytes_log2, kind->numa_node);
}

int
nam__pages_reserve(int file, uint64_t asked, const struct nam__pages_kind *kind,
	struct nam__pages *pages, struct nam_diag *diag)
{
	return pages_map(file, asked, kind, MAP_NORESERVE, pages, diag);
}

int
nam__pages_renew(const struct nam__pages *pages, uint32_t log2, struct nam_diag *diag)
{
	/* Meanwhile peers may have written to mappings of their own. */
	int rc = madvise(pages->base, pages->bytes, MADV_REMOVE) ? -errno :
		populate_all(pages, 1ull << log2, NULL);

	if (!rc)
		return 0;
	(void)madvise(pages->base, pages->bytes, MADV_REMOVE);
	return diag_no_memory(diag, rc, pages->bytes, log2, -1);
}
