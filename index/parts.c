/* SPDX-License-Identifier: Apache-2.0 */
/*
 * parts.c -- the parts of an index: one on each memory server, in the order of their ids.  A client
 * that opens the index asks them all, and accepts their answers only if all fit together (S5).
 */
#include <errno.h>
#include <stdlib.h>

#include "index/coarse/coarse.h"
#include "index/server/partition.h"

/* ---- what a part is ------------------------------------------------------------------------ */

int
nam__parts_check(struct nam_worker *worker, const struct nam_index_options *options,
	uint32_t count)
{
	uint32_t bounds = options->bounds_count;
	static const uint8_t lowest[NAM_KEY_BYTES_MAX];
	const uint8_t *keys = options->bounds;

	switch (options->partitioning) {
	case NAM_PARTITION_RANGE:
		break;
	case NAM_PARTITION_HASH:
	case NAM_PARTITION_ROUND_ROBIN:
		if (!keys)
			return 0;
		return nam_diag_set(&worker->diag, -EINVAL,
			"bounds are for partitioning by range only");
	default:
		return nam_diag_set(&worker->diag, -EINVAL, "unknown partitioning %d: by range, "
			"hash and round robin are known", (int)options->partitioning);
	}
	if (bounds != count - 1 || (bounds && !keys))
		return nam_diag_set(&worker->diag, -EINVAL, "partitioning by range needs bounds: "
			"with %u memory servers %u keys, where the second and later parts begin; "
			"not %u", count, count - 1, keys ? bounds : 0);
	if (bounds && !memcmp(keys, lowest, options->key_bytes))
		return nam_diag_set(&worker->diag, -EINVAL,
			"the bounds of the parts begin with the lowest key there is, so nothing "
			"would lie in the first part. Say where the second one begins");
	for (uint32_t i = 1; i < bounds; i++)
		if (memcmp(keys + (size_t)(i - 1) * options->key_bytes,
			    keys + (size_t)i * options->key_bytes, options->key_bytes) >= 0)
			return nam_diag_set(&worker->diag, -EINVAL,
				"the bounds of the parts do not ascend: number %u is not above the "
				"one before", i + 1);
	return 0;
}

/* Each memory server's part of a new index. */
static void
part_describe(const struct nam__geometry *g, const struct nam_index_options *options,
	uint32_t number, uint32_t count, struct nam_rpc_tree_part *ret_part)
{
	const uint8_t *bounds = options->bounds;
	struct nam__key key = { { 0 } };

	*ret_part = (struct nam_rpc_tree_part){
		.partitioning = options->partitioning,
		.number = number,
		.parts = count,
	};
	if (options->partitioning != NAM_PARTITION_RANGE)
		return;
	if (number) {
		nam__key_encode(g, bounds + (size_t)(number - 1) * g->key_bytes, 0, &key);
		memcpy(ret_part->low, key.w, 8 * g->key_words);
	}
	if (number + 1 < count) {
		nam__key_encode(g, bounds + (size_t)number * g->key_bytes, 0, &key);
		memcpy(ret_part->next, key.w, 8 * g->key_words);
	}
}

uint32_t
nam__part_of(const struct nam_index *index, const uint64_t *key)
{
	const struct nam__parts *parts = index->parts;
	const struct nam__geometry *g = &index->g;
	uint32_t low = 0;

	switch (parts->partitioning) {
	case NAM_PARTITION_HASH:
		return nam__part_of_hash(key, g->key_words, parts->count);
	case NAM_PARTITION_ROUND_ROBIN:
		return nam__part_of_number(key, g->key_words, g->key_bytes, parts->count);
	default:
		for (uint32_t high = parts->count; high - low > 1;) {
			uint32_t middle = low + (high - low) / 2;

			if (nam__key_compare(parts->lows + (size_t)middle * g->key_words, key,
				    g->key_words) <= 0)
				low = middle;
			else
				high = middle;
		}
		return low;
	}
}

/* ---- making and dropping ------------------------------------------------------------------- */

NAM_FIBER_FN static int
tree_drop(struct nam_worker *worker, uint32_t slot, uint64_t tree)
{
	struct nam_rpc_tree_request request = { .tree = tree };

	return nam_rpc_call(worker, slot, NAM_RPC_TREE_DROP, &request, sizeof(request), NULL,
		NULL); /* SUSPENDS */
}

void
nam__parts_uncreate(struct nam_worker *worker, uint64_t tree, const struct nam__members *members,
	uint32_t count)
{
	while (count--) {
		int rc = tree_drop(worker, members->slots[count], tree); /* SUSPENDS */

		(void)rc;	/* an unreachable server keeps an empty tree without a name */
	}
}

int
nam__parts_create(struct nam_worker *worker, const struct nam_index *index, const char *name,
	const struct nam__members *members, const struct nam_gaddr *leaves)
{
	const struct nam_index_options *options = &index->options;
	struct nam_rpc_tree_create_request request = {
		.tree = index->g.seed,
		.key_bytes = options->key_bytes,
		.node_bytes = options->node_bytes,
		.unique = options->unique,
	};
	uint32_t made;
	int rc = 0;

	for (made = 0; made < members->count && !rc; made++) {
		part_describe(&index->g, options, made, members->count, &request.part);
		request.leaf = leaves ? leaves[made].raw : 0;
		rc = nam_rpc_call(worker, members->slots[made], NAM_RPC_TREE_CREATE, &request,
			sizeof(request), NULL, NULL); /* SUSPENDS */
	}
	if (!rc)
		return 0;
	/* It is unknown whether the part that failed was made. */
	nam__parts_uncreate(worker, request.tree, members, made); /* SUSPENDS */
	if (rc == -NAM_E_REMOTE_FULL)
		return nam_diag_set(&worker->diag, rc,
			"a memory server has no room for its part of index '%s', which needs a "
			"region of its own. Give the servers more memory, or smaller regions",
			name);
	return rc;
}

/* Memory servers tell later requests for the trees that these are gone. */
int
nam__parts_free(struct nam_worker *worker, struct nam_index *index, bool lost)
{
	int rc = 0;

	(void)lost;
	for (uint32_t i = 0; i < index->parts->count; i++) {
		int drop_rc = tree_drop(worker, index->parts->slots[i],
			index->tree); /* SUSPENDS */

		/* Gone already: the server restarted, or a client died as it dropped the tree. */
		if (!rc && drop_rc != -NAM_E_DROPPED)
			rc = drop_rc;
	}
	return rc;
}

int
nam__part_full(struct nam_worker *worker, const struct nam_index *index, uint32_t part)
{
	return nam_diag_set(&worker->diag, -NAM_E_REMOTE_FULL,
		"the memory server at %s keeps this part of index '%s' and has no room for more, "
		"whatever room others have. Drop what is not needed, or start nam-memserver "
		"with more --memory", worker->client->servers[index->parts->slots[part]].address,
		index->name);
}

/* ---- opening ------------------------------------------------------------------------------- */

void
nam__parts_close(struct nam_index *index)
{
	if (!index->parts)
		return;
	free(index->parts->lows);
	free(index->parts->bounds);
	free(index->parts);
}

static int
misfit(struct nam_worker *worker, const struct nam_index *index, uint32_t slot, const char *what)
{
	return nam_diag_set(&worker->diag, -NAM_E_CLUSTER,
		"index '%s': what the memory server at %s keeps is %s; drop the index and load it "
		"anew", index->name, worker->client->servers[slot].address, what);
}

/* A part is not there.  So it is with an index that was dropped since its name was found. */
NAM_FIBER_FN static int
part_missing(struct nam_worker *worker, const struct nam_index *index, uint32_t slot)
{
	struct nam_superblock superblock;
	int rc = nam__superblock_read(worker, index, &superblock); /* SUSPENDS */

	if (rc)
		return rc;
	if (superblock.state)
		return nam_diag_set(&worker->diag, -NAM_E_NOINDEX, "index '%s' is being dropped",
			index->name);
	return misfit(worker, index, slot, "nothing, though it should be a part");
}

static int
check_part(struct nam_worker *worker, const struct nam_index *index, uint32_t number,
	const struct nam_rpc_tree_describe_reply *reply)
{
	const struct nam__parts *parts = index->parts;
	const struct nam_index_options *options = &index->options;
	uint32_t slot = parts->slots[number];

	if (reply->key_bytes != options->key_bytes || reply->node_bytes != options->node_bytes ||
		reply->unique != options->unique ||
		reply->leaves != (nam_index_traits(options->design)->client_levels > 0))
		return misfit(worker, index, slot, "of another kind");
	if (reply->part.partitioning != parts->partitioning || reply->part.parts != parts->count ||
		reply->part.number != number)
		return misfit(worker, index, slot, "partitioned in another way");
	return 0;
}

/* A part begins where the one before it ends. */
static int
take_bounds(struct nam_worker *worker, struct nam_index *index, uint32_t number,
	const struct nam_rpc_tree_part *part, uint64_t *end)
{
	const struct nam__geometry *g = &index->g;
	struct nam__parts *parts = index->parts;

	if (parts->partitioning != NAM_PARTITION_RANGE)
		return 0;
	if (nam__key_compare(part->low, end, g->key_words))
		return misfit(worker, index, parts->slots[number],
			"another range than the others leave to it");
	memcpy(parts->lows + (size_t)number * g->key_words, part->low, 8 * g->key_words);
	memcpy(end, part->next, 8 * g->key_words);
	if (number)
		nam__key_decode(g, part->low, parts->bounds + (size_t)(number - 1) * g->key_bytes);
	return 0;
}

static int
parts_new(struct nam_index *index)
{
	struct nam__parts *parts = calloc(1, sizeof(*parts));

	if (!parts)
		return -ENOMEM;
	index->parts = parts;
	parts->partitioning = index->options.partitioning;
	/* A memory server that was removed is missing only if the index is to be dropped. */
	for (uint32_t id = 0; id < NAM_SERVERS_MAX; id++)
		if ((index->servers[id / 8] >> id % 8 & 1) &&
			index->client->slot_of_id[id] != UINT16_MAX)
			parts->slots[parts->count++] = index->client->slot_of_id[id];
	parts->lows = calloc(parts->count, 8 * (size_t)index->g.key_words);
	parts->bounds = calloc(parts->count, index->g.key_bytes);
	if (!parts->lows || !parts->bounds)
		return -ENOMEM;
	return 0;
}

int
nam__parts_open(struct nam_worker *worker, struct nam_index *index, uint64_t cache_bytes,
	bool to_drop)
{
	struct nam_rpc_tree_request request = { .tree = index->tree };
	struct nam_rpc_tree_describe_reply reply;
	struct nam__key end = { { 0 } };
	int rc = parts_new(index);

	(void)cache_bytes;		/* of parts there is nothing to keep */
	if (rc)
		return rc;
	for (uint32_t number = 0; number < index->parts->count && !rc && !to_drop; number++) {
		uint32_t bytes = sizeof(reply), slot = index->parts->slots[number];

		rc = nam_rpc_call(worker, slot, NAM_RPC_TREE_DESCRIBE, &request, sizeof(request),
			&reply, &bytes); /* SUSPENDS */
		if (rc == -NAM_E_DROPPED)
			rc = part_missing(worker, index, slot); /* SUSPENDS */
		else if (!rc && bytes != sizeof(reply))
			rc = -NAM_E_FABRIC_PROTOCOL;
		if (!rc)
			rc = check_part(worker, index, number, &reply);
		if (!rc)
			rc = take_bounds(worker, index, number, &reply.part, end.w);
	}
	if (!rc && index->parts->partitioning == NAM_PARTITION_RANGE) {
		index->options.bounds = index->parts->bounds;
		index->options.bounds_count = index->parts->count - 1;
	}
	return rc;
}
