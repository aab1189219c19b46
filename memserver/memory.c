/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory.c -- the regions: which pages they are made of, and whether the host has them.  That is
 * checked before memory is touched: a kernel without memory would rather kill a process than say
 * no.
 */
#include <inttypes.h>
#include <numa.h>
#include <stdio.h>
#include <sys/mman.h>

#include "common/cluster.h"
#include "memserver_internal.h"

#define SMALL_LOG2 12u
#define HUGE_LOG2 21u
#define GIANT_LOG2 30u
#define REGION_BYTES_MIN (256ull << 10)
#define REGION_BYTES_LOW (16ull << 20)	/* by default no less, if there is memory for four */
#define REGION_BYTES_MAX (256ull << 20)	/* by default no more, if 255 suffice */
#define SPARE_BYTES (64ull << 20)	/* left to the rest of the host */

static int
read_number(const char *path, uint64_t *ret)
{
	FILE *file = fopen(path, "re");
	int n;

	if (!file)
		return -errno;
	n = fscanf(file, "%" SCNu64, ret);
	(void)fclose(file);
	return n == 1 ? 0 : -EINVAL;
}

/* The path of a kernel's file about the pages of a size, on one node or everywhere. */
static const char *
pool_path(char path[128], uint32_t page_bytes_log2, int node, const char *name)
{
	char where[48] = "kernel/mm";

	if (node >= 0)
		(void)snprintf(where, sizeof(where), "devices/system/node/node%d", node);
	(void)snprintf(path, 128, "/sys/%s/hugepages/hugepages-%llukB/%s", where,
		1ull << (page_bytes_log2 - 10), name);
	return path;
}

static uint64_t
pool_number(uint32_t page_bytes_log2, int node, const char *name)
{
	char path[128];
	uint64_t pages;

	return read_number(pool_path(path, page_bytes_log2, node, name), &pages) ? 0 : pages;
}

/* Free pages of the pool that are not reserved; nodes do not tell their reserved pages. */
static uint64_t
pool_free(uint32_t page_bytes_log2, int node)
{
	uint64_t pages = pool_number(page_bytes_log2, node, "free_hugepages");
	uint64_t promised = pool_number(page_bytes_log2, node, "resv_hugepages");

	return pages > promised ? pages - promised : 0;
}

/* The remedy for that many free pages: the file has the total, so pages in use count. */
static const char *
pool_advice(char text[256], uint32_t page_bytes_log2, int node, uint64_t needed)
{
	uint64_t all = pool_number(page_bytes_log2, node, "nr_hugepages");
	uint64_t available = pool_free(page_bytes_log2, node);
	uint64_t used = all > available ? all - available : 0;
	char path[128];

	(void)snprintf(text, 256, "write at least %" PRIu64 " (%" PRIu64 " for this server and the "
		"%" PRIu64 " that others have) to %s", used + needed, needed, used,
		pool_path(path, page_bytes_log2, node, "nr_hugepages"));
	return text;
}

/* The first line of a file that begins so, without its end. */
static bool
find_line(const char *path, const char *start, char line[256])
{
	FILE *file = fopen(path, "re");
	bool found = false;

	while (file && !found && fgets(line, 256, file))
		found = !strncmp(line, start, strlen(start));
	if (file)
		(void)fclose(file);
	if (found)
		line[strcspn(line, "\n")] = '\0';
	return found;
}

static bool
thp_possible(void)
{
	char line[256];

	return find_line("/sys/kernel/mm/transparent_hugepage/shmem_enabled", "", line) &&
		!strstr(line, "[never]") && !strstr(line, "[deny]");
}

static uint64_t
meminfo_available(void)
{
	uint64_t kib = UINT64_MAX >> 10;
	char line[256];

	if (!find_line("/proc/meminfo", "MemAvailable:", line) ||
		sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
		return UINT64_MAX;
	return kib << 10;
}

static int
cgroup_number(const char *group, const char *name, uint64_t *ret)
{
	char path[320];

	(void)snprintf(path, sizeof(path), "/sys/fs/cgroup%s/%s", group, name);
	return read_number(path, ret);
}

/* Memory that our control group (version 2) leaves us. */
static uint64_t
cgroup_available(void)
{
	uint64_t most, used;
	char line[256];

	/* The most is no number when it says "max". */
	if (!find_line("/proc/self/cgroup", "0::/", line) ||
		cgroup_number(line + 3, "memory.max", &most) ||
		cgroup_number(line + 3, "memory.current", &used))
		return UINT64_MAX;
	return most > used ? most - used : 0;
}

/* Several regions, each of some use, so that public and private memory share them well. */
static uint64_t
default_region_bytes(const struct nam_server_options *options)
{
	uint64_t memory = options->memory_bytes, page = 4096;
	uint64_t bytes = MIN(memory / 16, REGION_BYTES_MAX);

	if (bytes < REGION_BYTES_LOW)
		bytes = MIN(memory / 4, REGION_BYTES_LOW);
	bytes = MAX(MAX(bytes, REGION_BYTES_MIN), memory / (NAM_REGIONS_PER_SERVER - 1));
	if (options->pages == NAM_PAGES_1G)
		page = 1ull << GIANT_LOG2;
	else if (!(memory & ((1ull << HUGE_LOG2) - 1)))
		page = 1ull << HUGE_LOG2;
	return roundup(bytes, page);
}

static int
count_regions(struct nam__memory *memory, const struct nam_server_options *options,
	struct nam_diag *diag)
{
	uint64_t region_bytes = options->region_bytes;
	char a[32], b[32];
	uint64_t count;

	if (options->memory_bytes < SPARE_BYTES >> 8 || options->memory_bytes % 4096)
		return nam_diag_set(diag, -EINVAL, "memory_bytes: %s is not a multiple of 4 KiB of "
			"at least 256 KiB", nam__bytes_text(options->memory_bytes, a, sizeof(a)));
	if (!region_bytes)
		region_bytes = default_region_bytes(options);
	region_bytes = MIN(region_bytes, options->memory_bytes);
	if (region_bytes < SPARE_BYTES >> 8 || region_bytes % 4096 || region_bytes > 256ull << 30)
		return nam_diag_set(diag, -EINVAL, "region_bytes: %s is not a multiple of 4 KiB "
			"between 256 KiB and 256 GiB", nam__bytes_text(region_bytes, a, sizeof(a)));
	count = howmany(options->memory_bytes, region_bytes);
	if (count > NAM_REGIONS_PER_SERVER)
		return nam_diag_set(diag, -EINVAL, "memory_bytes: %s in regions of %s would be %"
			PRIu64 " regions; one server has at most %u: make region_bytes larger",
			nam__bytes_text(options->memory_bytes, a, sizeof(a)),
			nam__bytes_text(region_bytes, b, sizeof(b)), count, NAM_REGIONS_PER_SERVER);
	memory->bytes = options->memory_bytes;
	memory->region_bytes = region_bytes;
	memory->count = (uint32_t)count;
	return 0;
}

static bool
multiple_of_pages(const struct nam__memory *memory, uint32_t page_bytes_log2)
{
	return !((memory->bytes | memory->region_bytes) % (1ull << page_bytes_log2));
}

static int
check_multiple(const struct nam__memory *memory, uint32_t page_bytes_log2, struct nam_diag *diag)
{
	const char *name = page_bytes_log2 == GIANT_LOG2 ? "1G" : "2M";

	if (multiple_of_pages(memory, page_bytes_log2))
		return 0;
	return nam_diag_set(diag, -EINVAL, "pages: %s: memory_bytes and region_bytes must be "
		"multiples of %s", name, name);
}

static int
plan_pool(struct nam__memory *memory, const struct nam_server_options *options,
	uint32_t page_bytes_log2, struct nam_diag *diag)
{
	uint64_t needed = memory->bytes >> page_bytes_log2;
	uint64_t available = pool_free(page_bytes_log2, options->numa_node);
	const char *name = page_bytes_log2 == GIANT_LOG2 ? "1G" : "2M";
	char where[64] = "", advice[256];
	int rc = check_multiple(memory, page_bytes_log2, diag);

	if (rc)
		return rc;
	if (options->numa_node >= 0)
		(void)snprintf(where, sizeof(where), " on NUMA node %d", options->numa_node);
	if (available < needed)
		return nam_diag_set(diag, -ENOMEM, "pages: %s: %" PRIu64 " huge pages are "
			"needed%s and %" PRIu64 " are free; %s, or choose auto", name, needed,
			where, available, pool_advice(advice, page_bytes_log2, options->numa_node,
			needed));
	memory->page_bytes_log2 = page_bytes_log2;
	return 0;
}

static void
plan_auto(struct nam__memory *memory, const struct nam_server_options *options,
	struct nam_diag *notice)
{
	char advice[256] = "make memory_bytes and region_bytes multiples of 2M";

	if (plan_pool(memory, options, HUGE_LOG2, NULL) == 0)
		return;
	if (multiple_of_pages(memory, HUGE_LOG2))
		(void)pool_advice(advice, HUGE_LOG2, options->numa_node,
			memory->bytes >> HUGE_LOG2);
	if (thp_possible()) {
		memory->transparent_huge = 1;
		(void)nam_diag_set(notice, 0, "pages: auto chose transparent huge pages; for "
			"reserved ones %s", advice);
		return;
	}
	(void)nam_diag_set(notice, 0, "pages: auto chose 4 KiB pages, which make random access "
		"slower; %s, or 'advise' to /sys/kernel/mm/transparent_hugepage/shmem_enabled",
		advice);
}

/* @what	has so many bytes, for the message */
static int
check_available(const struct nam__memory *memory, const char *what, uint64_t bytes,
	struct nam_diag *diag)
{
	uint64_t group = cgroup_available(), available = MIN(meminfo_available(), group);
	char text[32];

	if (memory->page_bytes_log2 > SMALL_LOG2)
		return 0;	/* the pool was asked */
	if (bytes <= available && available - bytes >= SPARE_BYTES)
		return 0;
	return nam_diag_set(diag, -ENOMEM, "%s %s is more than the %" PRIu64 " MiB "
		"that %s; ask for less, or free some", what,
		nam__bytes_text(bytes, text, sizeof(text)), available >> 20,
		group <= available ? "this control group has left" : "this host has available");
}

/* Plan the number of regions; their node must be one of this host. */
static int
plan_regions(struct nam__memory *memory, const struct nam_server_options *options,
	struct nam_diag *diag)
{
	int node = options->numa_node, rc = count_regions(memory, options, diag);

	if (rc)
		return rc;
	/* On a host without NUMA, node 0 is the only one. */
	if (node <= 0 || (numa_available() >= 0 && numa_bitmask_isbitset(numa_nodes_ptr,
		(unsigned)node)))
		return 0;
	return nam_diag_set(diag, -EINVAL, "numa_node: this host has no NUMA node %d; "
		"`numactl --hardware` lists them; or use -1 for any", node);
}

int
nam__memory_check(const struct nam_server_options *options, struct nam_diag *diag)
{
	struct nam__memory *memory = calloc(1, sizeof(*memory));
	int rc = memory ? plan_regions(memory, options, diag) :
		nam_diag_set(diag, -ENOMEM, "no memory");

	if (!rc && options->pages >= NAM_PAGES_2M)
		rc = check_multiple(memory,
			options->pages == NAM_PAGES_1G ? GIANT_LOG2 : HUGE_LOG2, diag);
	free(memory);
	return rc;
}

static int
plan(struct nam__memory *memory, const struct nam_server_options *options, struct nam_diag *notice,
	struct nam_diag *diag)
{
	int rc;

	memset(memory, 0, sizeof(*memory));
	memory->mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	rc = plan_regions(memory, options, diag);
	if (rc)
		return rc;
	memory->page_bytes_log2 = SMALL_LOG2;
	switch (options->pages) {
	case NAM_PAGES_AUTO:
		plan_auto(memory, options, notice);
		break;
	case NAM_PAGES_4K:
		break;
	case NAM_PAGES_THP:
		memory->transparent_huge = 1;
		if (!thp_possible())
			rc = nam_diag_set(diag, -EINVAL, "pages: transparent huge pages are off "
				"for shared memory; write 'advise' to "
				"/sys/kernel/mm/transparent_hugepage/shmem_enabled, or choose "
				"auto");
		break;
	case NAM_PAGES_2M:
		rc = plan_pool(memory, options, HUGE_LOG2, diag);
		break;
	case NAM_PAGES_1G:
		rc = plan_pool(memory, options, GIANT_LOG2, diag);
		break;
	default:
		rc = nam_diag_set(diag, -EINVAL, "pages: %d is none of auto, 1G, 2M, thp, 4k",
			(int)options->pages);
	}
	return rc ?: check_available(memory, "memory_bytes:", memory->bytes, diag);
}

static int
allocate(struct nam__memory *memory, struct nam_domain *domain,
	const struct nam_server_options *options, struct nam_diag *diag)
{
	uint64_t left = memory->bytes;
	uint32_t count = memory->count;
	int rc;

	for (memory->count = 0; memory->count < count; memory->count++) {
		uint64_t bytes = MIN(left, memory->region_bytes);

		rc = domain->ops->region_alloc(domain, bytes, memory->page_bytes_log2,
			(int)memory->transparent_huge, options->numa_node,
			&memory->mrs[memory->count], diag);
		if (rc) {
			nam__memory_close(memory, domain);
			return rc;
		}
		memory->public_bases[memory->count] = memory->mrs[memory->count].base;
		memory->bases[memory->count] = memory->public_bases[memory->count];
		left -= bytes;
	}
	memory->numa_node = options->numa_node;
	return 0;
}

/* In the place of a region, of its kind of pages if the pool has so many.  NULL: no memory. */
static uint8_t *
private_map(const struct nam__memory *memory, uint64_t bytes)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	const int huge = MAP_HUGETLB | (int)memory->page_bytes_log2 << MAP_HUGE_SHIFT;
	void *base = MAP_FAILED;

	if (memory->page_bytes_log2 > SMALL_LOG2)
		base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | huge, -1, 0);
	if (base == MAP_FAILED)
		base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (base == MAP_FAILED)
		return NULL;
	if (memory->page_bytes_log2 > SMALL_LOG2 || memory->transparent_huge)
		(void)madvise(base, bytes, MADV_HUGEPAGE);
	if (memory->numa_node >= 0 && numa_available() >= 0)
		numa_tonode_memory(base, bytes, memory->numa_node);
	return base;
}

int
nam__memory_withdraw(struct nam__memory *memory, struct nam_domain *domain, uint32_t region)
{
	uint8_t *base;

	NAM__SCOPED_LOCK(&memory->mutex);
	memory->kinds[region] = NAM_MEMORY_PRIVATE;
	domain->ops->region_withdraw(domain, &memory->mrs[region]);
	base = private_map(memory, memory->mrs[region].bytes);
	if (base)
		atomic_store_explicit(&memory->bases[region], base, memory_order_release);
	return base ? 0 : -ENOMEM;
}

/*
 * The private memory goes first: the region may need just its pages.  If the restore fails, the
 * spare range, which was mapped before, becomes the region's private memory (M13).
 */
int
nam__memory_restore(struct nam__memory *memory, struct nam_domain *domain, uint32_t region,
	enum nam_memory_kind kind, struct nam_diag *diag)
{
	struct nam_mr *mr = &memory->mrs[region];
	uint8_t *base = atomic_load_explicit(&memory->bases[region], memory_order_relaxed);
	void *spare = mmap(NULL, mr->bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	/* M13 */
	bool only_read = NAM_GUARD(KV_READ_ONLY) && kind == NAM_MEMORY_READ_ONLY;
	int rc;

	if (spare == MAP_FAILED)
		return nam_diag_set(diag, -errno, "no address range of %" PRIu64 " bytes: %s",
			mr->bytes, nam_err_text(-errno));
	/* Under the mutex: from here on nam__memory_trim() leaves the region alone. */
	pthread_mutex_lock(&memory->mutex);
	atomic_store_explicit(&memory->bases[region], memory->public_bases[region],
		memory_order_release);
	pthread_mutex_unlock(&memory->mutex);
	(void)munmap(base, mr->bytes);
	rc = check_available(memory, "a region of", mr->bytes, diag) ?:
		domain->ops->region_restore(domain, mr,
			only_read ? NAM_MR_REMOTE_READ : NAM_MR_REMOTE, diag);
	base = rc ? private_map(memory, mr->bytes) : mr->base;
	pthread_mutex_lock(&memory->mutex);
	if (!rc)
		memory->kinds[region] = (uint8_t)kind;
	atomic_store_explicit(&memory->bases[region], base ? base : spare, memory_order_release);
	pthread_mutex_unlock(&memory->mutex);
	if (!base)
		return rc;
	(void)munmap(spare, mr->bytes);
	return rc;
}

int
nam__memory_open(struct nam__memory *memory, struct nam_domain *domain,
	const struct nam_server_options *options, struct nam_diag *notice, struct nam_diag *diag)
{
	struct nam_server_options again = *options;
	int rc;

	rc = plan(memory, options, notice, diag) ?: allocate(memory, domain, options, diag);
	if (!rc || rc == -ECANCELED || options->pages != NAM_PAGES_AUTO ||
		memory->page_bytes_log2 == SMALL_LOG2)
		return rc;
	/* Another process has taken the huge pages since they were counted. */
	again.pages = NAM_PAGES_4K;
	rc = plan(memory, &again, NULL, diag) ?: allocate(memory, domain, &again, diag);
	if (!rc)
		nam_diag_set(notice, 0, "pages: auto chose 4 KiB pages, which make random access "
			"slower, because the huge pages were taken meanwhile");
	return rc;
}

void
nam__memory_trim(struct nam__memory *memory, struct nam_domain *domain)
{
	for (uint32_t i = 0; i < memory->count; i++) {
		struct nam_mr *mr = &memory->mrs[i];
		bool in_place;

		NAM__SCOPED_LOCK(&memory->mutex);
		in_place = memory->bases[i] == memory->public_bases[i];
		if (!in_place && memory->kinds[i] == NAM_MEMORY_PRIVATE)
			domain->ops->region_withdraw(domain, mr);
		else if (!in_place)
			(void)madvise(memory->public_bases[i], mr->bytes, MADV_REMOVE);
	}
}

void *
nam__memory_public_at(const struct nam_server *server, struct nam_gaddr at, uint32_t bytes)
{
	const struct nam__memory *memory = &server->memory;
	uint32_t region = nam_gaddr_region(at) - nam__first_region_id(server);
	uint64_t offset = nam_gaddr_offset(at);

	if (region >= memory->count || bytes > memory->mrs[region].bytes ||
		offset > memory->mrs[region].bytes - bytes)
		return NULL;
	if (nam_gaddr_region(at) == 0 && offset < NAM_META_BYTES)
		return NULL;
	/* The host may have no page for what was withdrawn, and clients change no read-only one. */
	if (atomic_load_explicit(&memory->kinds[region], memory_order_relaxed) != NAM_MEMORY_PUBLIC)
		return NULL;
	return memory->public_bases[region] + offset;
}

void
nam__memory_close(struct nam__memory *memory, struct nam_domain *domain)
{
	while (memory->count) {
		struct nam_mr *mr = &memory->mrs[--memory->count];
		uint8_t *base = memory->bases[memory->count];

		if (base && base != mr->base && base != memory->public_bases[memory->count])
			(void)munmap(base, mr->bytes);
		domain->ops->mr_release(domain, mr);
	}
}
