/* SPDX-License-Identifier: Apache-2.0 */
/*
 * small_cache.c -- a cache in front of something slow, in the memory of other machines.
 *
 *	nam-memserver --id 0 --listen shm:/tmp/nam0 --memory 64M &
 *	nam-memserver --id 1 --listen shm:/tmp/nam1 --memory 64M &
 *	example_small_cache shm:/tmp/nam0,shm:/tmp/nam1
 *
 * Run it twice: the second time everything is in the cache already, for it outlives the program.
 */
#include <stdio.h>
#include <string.h>

#include "lib/example.h"

#define NAME "pages"
#define PAGES 20u

/* The slow operation: each call makes the page anew. */
static uint32_t
render(const char *path, char *page, size_t size)
{
	return (uint32_t)snprintf(page, size, "<h1>%s</h1>", path);
}

/* From the cache, or made and then put there. */
static int
page_get(struct nam_worker *worker, struct nam_kv *cache, const char *path, char *page,
	uint32_t size, unsigned *made)
{
	uint32_t bytes;
	int rc = nam_kv_get(worker, cache, path, (uint32_t)strlen(path), page, size - 1, &bytes);

	if (nam_err_is(rc, NAM_E_NOTFOUND)) {
		bytes = render(path, page, size);
		rc = nam_kv_put(worker, cache, path, (uint32_t)strlen(path), page, bytes);
		++*made;
	}
	if (!rc)
		page[bytes] = '\0';
	return rc;
}

/* Several at once: a message to each memory server. */
static int
several(struct nam_worker *worker, struct nam_kv *cache)
{
	static const char *const paths[] = { "/page/3", "/page/none", "/page/1" };
	struct nam_kv_item items[3];
	char pages[3][64];
	int rc;

	for (unsigned i = 0; i < 3; i++)
		items[i] = (struct nam_kv_item){ .key = paths[i],
			.key_bytes = (uint32_t)strlen(paths[i]), .value = pages[i],
			.size = sizeof(pages[i]) };
	rc = nam_kv_get_many(worker, cache, items, 3);
	if (rc)
		return example_failed("get_many", rc, nam_worker_diag(worker));
	for (unsigned i = 0; i < 3; i++)
		if (items[i].rc)
			printf("%s: %s\n", paths[i], nam_err_text(items[i].rc));
		else
			printf("%s: %.*s\n", paths[i], (int)items[i].value_bytes, pages[i]);
	return 0;
}

static int
use(struct nam_worker *worker, struct nam_kv *cache)
{
	unsigned made = 0;
	struct nam_kv_stat stat;
	int rc;

	for (unsigned i = 0; i < 3 * PAGES; i++) {
		char path[32], page[64], expected[64];

		snprintf(path, sizeof(path), "/page/%u", i % PAGES);
		rc = page_get(worker, cache, path, page, sizeof(page), &made);
		if (rc)
			return example_failed("a page", rc, nam_worker_diag(worker));
		render(path, expected, sizeof(expected));
		if (strcmp(page, expected) != 0)
			return example_failed("a page", -NAM_E_REMOTE_CORRUPT, "");
	}
	printf("%u pages were made for %u requests\n", made, 3 * PAGES);
	rc = nam_kv_stat(worker, cache, &stat);
	if (rc)
		return example_failed("stat", rc, nam_worker_diag(worker));
	printf("%u pages are in the cache, %u evicted so far\n", (unsigned)stat.keys,
		(unsigned)stat.evictions);
	return several(worker, cache);
}

/* The first program creates the cache; later ones open it by its name. */
static int
with_worker(struct nam_worker *worker, void *arg)
{
	struct nam_kv_options options;
	struct nam_kv *cache;
	int rc;

	(void)arg;
	nam_kv_options_init(&options);
	options.memory_bytes = 8 << 20;
	rc = nam_kv_create(worker, NAME, &options);
	if (rc && !nam_err_is(rc, NAM_E_INDEX_EXISTS))
		return example_failed("create", rc, nam_worker_diag(worker));
	rc = nam_kv_open(worker, NAME, &cache);
	if (rc)
		return example_failed("open", rc, nam_worker_diag(worker));
	rc = use(worker, cache);
	nam_kv_close(cache);
	return rc;
}

int
main(int argc, char **argv)
{
	return example_main(argc, argv, "", with_worker, NULL);
}
