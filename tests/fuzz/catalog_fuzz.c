/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catalog_fuzz.c -- superblocks, and what the catalog's server answers, as the client reads them.
 *
 * input	which decoder, flags, bytes
 */
#include "fuzz_rpc.h"

#include "compute/client/names.c"
#include "index/catalog.c"

static int
hear_name(void *arg, const char *name)
{
	unsigned *names = arg;

	if (strlen(name) >= NAM_INDEX_NAME_BYTES)
		abort();
	/* A server that repeats itself must not keep us for ever. */
	if (++*names > 100000)
		abort();
	return 0;
}

static void
try_superblock(struct nam_worker *worker, struct fuzz_input *input)
{
	struct nam_superblock *superblock = fuzz_memory(sizeof(*superblock));
	const struct nam_gaddr at = nam_gaddr_make(0, 4096, 0);
	struct nam_index_options options;
	struct nam__geometry g;
	uint8_t flags = fuzz_u8(input);

	fuzz_take(input, superblock, sizeof(*superblock));
	if (flags & 1)
		superblock->magic = NAM_SUPERBLOCK_MAGIC;
	if (flags & 2)
		superblock->format = NAM_SUPERBLOCK_FORMAT;
	if (flags & 4) {
		memset(superblock->servers, 0, sizeof(superblock->servers));
		superblock->servers[0] = 1;
		superblock->servers_count = 1;
	}
	if (flags & 8)
		superblock->image_hash = superblock_hash(superblock, at);
	/* An accepted superblock must be usable as a geometry. */
	if (superblock_check(worker, "name", superblock, at, &options) == 0 &&
		nam__geometry_init(&g, &options, superblock->seed))
		abort();
	free(superblock);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct nam_worker worker;
	static struct nam_client client;
	struct fuzz_input input = { data, bytes };
	uint64_t at;
	unsigned names = 0, which;

	for (unsigned i = 1; i < NAM_SERVERS_MAX; i++)
		client.slot_of_id[i] = UINT16_MAX;
	client.servers_count = 1;
	worker.client = &client;
	which = fuzz_u8(&input);
	repeating = which & 128;
	switch (which % 3) {
	case 0:
		try_superblock(&worker, &input);
		break;
	case 1:
		answers = again = input;
		(void)!nam_index_list(&worker, hear_name, &names);
		break;
	default:
		answers = again = input;
		(void)!nam__name_find(&worker, NAM_CATALOG_INDEX, "name", &at);
	}
	return 0;
}
