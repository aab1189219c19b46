/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pages.h -- the memory of regions: a sealed memfd of small, transparent-huge or huge pages, all of
 * them allocated, on a NUMA node.
 *
 * It is mapped shared: a fork() copies nothing, so the kernel never moves pages away under a
 * device.
 */
#ifndef NAM_COMMON_FABRIC_PAGES_H
#define NAM_COMMON_FABRIC_PAGES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/error.h"

#define NAM__PAGE_BYTES 4096u

/* The population of regions, as other threads see it and may end it. */
struct nam__populate {
	_Atomic uint64_t bytes;		/* populated so far */
	atomic_bool cancelled;
};

struct nam__pages {
	int fd;			/* the caller closes it */
	uint8_t *base;
	uint64_t bytes;		/* rounded up to whole pages */
	uint64_t offset;	/* in the file */
};

struct nam__pages_kind {
	uint32_t page_bytes_log2;
	bool transparent_huge;
	int numa_node;		/* only this one; -1: any */
	int near_node;		/* if it is any, then best this one; -1: no matter */
};

/*
 * @file	-1: pages have a file of their own; else they go behind the end of that one
 * @populate	may be NULL; if it is cancelled: -ECANCELED
 */
int nam__pages_alloc(int file, uint64_t bytes, const struct nam__pages_kind *kind,
	struct nam__populate *populate, struct nam__pages *ret,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* Reserve addresses; memory comes by nam__pages_renew(), so there is no populate. */
int nam__pages_reserve(int file, uint64_t bytes, const struct nam__pages_kind *kind,
	struct nam__pages *ret, struct nam_diag *diag) NAM_MUST_CHECK;

/* An empty file for pages of several regions: its descriptor, or -errno; and its end. */
int nam__pages_file_begin(uint32_t page_bytes_log2) NAM_MUST_CHECK;
int nam__pages_file_end(int fd) NAM_MUST_CHECK;

/*
 * Take the memory of all pages again, once they were given back: every byte is zero.  On failure
 * they are given back, and the message names the cause.
 * @pages	fd may be -1: then a kernel from 5.14 on is needed
 */
int nam__pages_renew(const struct nam__pages *pages, uint32_t page_bytes_log2,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * A file of memory that can neither shrink nor grow: its descriptor, or -errno.
 * @flags	of memfd_create(), besides those
 */
int nam__pages_file(const char *name, uint64_t bytes, unsigned flags) NAM_MUST_CHECK;
/* Another descriptor of it, through which no process maps it for writing: or -errno. */
int nam__pages_file_read_only(int fd) NAM_MUST_CHECK;
/* The size of a file that cannot shrink, so that no access faults; -1: it can, or is no such. */
int64_t nam__pages_file_bytes(int fd);

/*
 * Map such a file again.  NULL with errno on failure.  No huge pages are reserved: its owner has
 * them, or has given them back for another use.
 */
void *nam__pages_map(int fd, uint64_t bytes, bool transparent_huge, bool writable);

#endif /* NAM_COMMON_FABRIC_PAGES_H */
