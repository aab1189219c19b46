/* SPDX-License-Identifier: Apache-2.0 */
/*
 * catalog.c -- indexes by name: create, open, list, drop.  An index is complete before its name is
 * entered, so a client that finds the name finds an index.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/hash/hash.h"
#include "compute/client/names.h"
#include "compute/remote/lock.h"
#include "compute/remote/reclaim.h"
#include "index/hybrid/hybrid.h"
#include "index/design.h"
#include "index/maintain/maintain.h"
#include "index/maintain/merge.h"
#include "index/unnamed.h"

static int
check_options(struct nam_worker *worker, const struct nam_index_options *options)
{
	const struct nam_index_traits *traits = nam_index_traits(options->design);
	struct nam__geometry g;

	if (traits == nam_index_traits((enum nam_index_design)0))
		return nam_diag_set(&worker->diag, -EINVAL, "unknown index design %d",
			(int)options->design);
	if (options->key_bytes < NAM_KEY_BYTES_MIN || options->key_bytes > NAM_KEY_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL,
			"a key size of %u bytes is not between %u and %u", options->key_bytes,
			NAM_KEY_BYTES_MIN, NAM_KEY_BYTES_MAX);
	if (!traits->partitioned && options->bounds)
		return nam_diag_set(&worker->diag, -EINVAL,
			"bounds are of no use to a fine-grained index, which has no parts: "
			"leave them out, or choose another design");
	if (!traits->partitioned && options->partitioning &&
		options->partitioning != NAM_PARTITION_HASH)
		return nam_diag_set(&worker->diag, -EINVAL, "partitioning %d is of no use to a "
			"fine-grained index, which has no parts: leave it at the default, or "
			"choose another design", (int)options->partitioning);
	if (!traits->client_levels && options->head_interval &&
		options->head_interval != NAM__HEAD_INTERVAL)
		return nam_diag_set(&worker->diag, -EINVAL, "a head interval of %u is of no use to "
			"a coarse-grained index, which has no head nodes. Leave it at the default, "
			"or say 0", options->head_interval);
	if (nam__geometry_init(&g, options, 0))
		return nam_diag_set(&worker->diag, -EINVAL,
			"nodes of %u bytes do not suit keys of %u bytes. A power of two from "
			"%u to %u that holds 4 entries is needed",
			options->node_bytes, options->key_bytes, NAM_NODE_BYTES_MIN,
			NAM_NODE_BYTES_MAX);
	return 0;
}

/* ---- superblocks -------------------------------------------------------------------------- */

static uint64_t
superblock_hash(const struct nam_superblock *superblock, struct nam_gaddr at)
{
	const size_t from = offsetof(struct nam_superblock, magic);
	uint64_t hash = nam_hash64((const uint8_t *)superblock + from, sizeof(*superblock) - from);

	return nam_mix64(hash ^ nam_mix64(nam_gaddr_untagged(at).raw));
}

/* The block of an index in remote memory. */
struct block {
	struct nam_superblock head;
	uint64_t boots[NAM_SERVERS_MAX];
	struct nam__merge_intent intent;
};
static_assert(offsetof(struct block, intent) == NAM_SUPERBLOCK_INTENT, "remote layout");
static_assert(sizeof(struct block) == NAM_SUPERBLOCK_STRIDE, "remote layout");

static void
superblock_fill(const struct nam_index *index, const struct nam__members *members,
	struct block *block)
{
	const struct nam_index_options *options = &index->options;
	const struct nam_index_traits *traits = nam_index_traits(options->design);
	struct nam_superblock *superblock = &block->head;

	memset(block->boots, 0, sizeof(block->boots));
	block->intent = (struct nam__merge_intent){ .word = NAM_LOCK_FREE };
	for (uint32_t i = 0; i < members->count; i++) {
		const struct nam__server *server = &index->client->servers[members->slots[i]];

		block->boots[server->id] = server->memory;
	}
	*superblock = (struct nam_superblock){
		.magic = NAM_SUPERBLOCK_MAGIC,
		.format = NAM_SUPERBLOCK_FORMAT,
		.design = options->design,
		.seed = index->g.seed,
		.partitioning = traits->partitioned ? options->partitioning : 0,
		.key_bytes = options->key_bytes,
		.node_bytes = options->node_bytes,
		.unique = options->unique,
		.head_interval = traits->client_levels ? options->head_interval : 0,
		.servers_count = members->count,
		.boots_hash = nam_hash64(block->boots, sizeof(block->boots)),
		.view = members->view,
	};
	memcpy(superblock->servers, members->ids, sizeof(superblock->servers));
}

/* Every byte comes from remote memory: believe none of it before it is checked. */
static int
superblock_check(struct nam_worker *worker, const char *name,
	const struct nam_superblock *superblock, struct nam_gaddr at,
	struct nam_index_options *ret_options)
{
	struct nam_index_options options;
	uint32_t servers_count = 0;

	if (superblock->magic != NAM_SUPERBLOCK_MAGIC ||
		superblock->image_hash != superblock_hash(superblock, at))
		return nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT,
			"the superblock of index '%s' does not verify", name);
	if (superblock->format != NAM_SUPERBLOCK_FORMAT)
		return nam_diag_set(&worker->diag, -NAM_E_FABRIC_VERSION,
			"index '%s' has format %u; this library knows format %u", name,
			superblock->format, NAM_SUPERBLOCK_FORMAT);
	for (uint32_t id = 0; id < NAM_SERVERS_MAX; id++)
		servers_count += superblock->servers[id / 8] >> id % 8 & 1;
	options = (struct nam_index_options){
		.design = (enum nam_index_design)superblock->design,
		.partitioning = (enum nam_partitioning)superblock->partitioning,
		.key_bytes = superblock->key_bytes,
		.unique = superblock->unique != 0,
		.node_bytes = superblock->node_bytes,
		.head_interval = superblock->head_interval,
	};
	if (!servers_count || servers_count != superblock->servers_count ||
		check_options(worker, &options))
		return -NAM_E_REMOTE_CORRUPT;
	*ret_options = options;
	return 0;
}

/* I19: whether a member of the view was restarted in a view after that one. */
static bool
renewed_since(const struct nam__server *server, uint64_t view)
{
	uint64_t renewed = server->view_renewed;

	return renewed > view && renewed > server->view_since && NAM_GUARD(VIEW_LOST);
}

/*
 * I19: pointers to a memory server that was restarted lead nowhere, or to nodes of other indexes.
 * The superblock has been checked.
 */
static int
boots_check(struct nam_worker *worker, const char *name, const struct block *block)
{
	const struct nam_client *client = worker->client;
	/* Leaves, or all nodes, lie on all memory servers. */
	bool scattered = nam_index_traits(block->head.design)->client_levels > 0;
	struct nam__members members;

	if (block->head.boots_hash != nam_hash64(block->boots, sizeof(block->boots)))
		return nam_diag_set(&worker->diag, -NAM_E_REMOTE_CORRUPT,
			"the superblock of index '%s' does not verify", name);
	for (uint32_t id = 0; id < NAM_SERVERS_MAX; id++) {
		uint16_t slot = client->slot_of_id[id];

		if ((block->head.servers[id / 8] >> id % 8 & 1) && (slot == UINT16_MAX ||
				client->servers[slot].memory != block->boots[id]))
			return nam_diag_set(&worker->diag, -NAM_E_LOST,
				"memory server %u was %s since index '%s' was made, and "
				"part of the index is gone; drop it and load it anew", id,
				slot == UINT16_MAX ? "removed" : "restarted", name);
	}
	nam__members_installed(client, &members);
	for (uint32_t i = 0; scattered && i < members.count; i++) {
		const struct nam__server *server = &client->servers[members.slots[i]];

		if (renewed_since(server, block->head.view))
			return nam_diag_set(&worker->diag, -NAM_E_LOST,
				"memory server %u, which may have nodes of index '%s', was "
				"restarted since that was made; drop it and load it anew",
				server->id, name);
	}
	return 0;
}

/* ---- create ------------------------------------------------------------------------------- */

/*
 * Write the superblock, and with it the root leaf of a tree that has no parts, of this generation
 * (0: there is none).  No client can see either yet.
 */
NAM_FIBER_FN static int
write_superblock(struct nam_worker *worker, struct nam_index *index,
	const struct nam__members *members, struct nam_gaddr leaf, uint32_t generation)
{
	struct block *block = nam_buffer_take(worker, sizeof(*block));
	uint64_t *image = nam_buffer_take(worker, index->g.node_bytes);
	struct nam_batch batch;
	int rc = -ENOMEM;

	if (!block || !image)
		goto give_buffers;
	superblock_fill(index, members, block);
	block->head.root = leaf.raw;
	block->head.image_hash = superblock_hash(&block->head, index->superblock);
	nam_batch_init(&batch, worker);
	if (generation) {
		nam__node_init(&index->g, image, NAM__NODE_LEAF, 0, generation, nam__key_lowest.w,
			NULL);
		nam__batch_new_node(&batch, index, leaf, image);
	}
	/* I11: all of it is there before a name leads to it. */
	nam_batch_write(&batch, index->superblock, 0, block, sizeof(*block));
	rc = nam_batch_await(&batch); /* SUSPENDS */
give_buffers:
	nam_buffer_give(worker, image, index->g.node_bytes);
	nam_buffer_give(worker, block, sizeof(*block));
	return rc;
}

struct nam__index_made {
	struct nam_index index;
	struct nam__members members;
	uint32_t leaves_count;
	struct nam_gaddr leaves[];		/* room for one for each of its memory servers */
};

NAM_FIBER_FN static void
unmake(struct nam_worker *worker, struct nam__index_made *made)
{
	struct nam_index *index = &made->index;

	if (nam_index_traits(index->options.design)->partitioned)
		nam__parts_uncreate(worker, index->g.seed, &made->members,
			made->members.count); /* SUSPENDS */
	while (made->leaves_count)
		nam_free_unseen(worker, made->leaves[--made->leaves_count], index->g.stride);
	nam_free_unseen(worker, index->superblock, NAM_SUPERBLOCK_STRIDE);
}

/* I11: trees before the superblock, that before the name: what a client finds is complete. */
NAM_FIBER_FN static int
make(struct nam_worker *worker, const char *name, struct nam__index_made *made)
{
	struct nam_index *index = &made->index;
	const struct nam_index_options *options = &index->options;
	const struct nam__members *members = &made->members;
	bool fine = options->design == NAM_DESIGN_FINE;
	struct nam_gaddr *leaves = made->leaves;
	uint32_t generation = 0;
	int rc = nam_alloc_on(worker, worker->client->catalog_slot, NAM_SUPERBLOCK_STRIDE,
		&index->superblock); /* SUSPENDS */

	if (rc)
		return rc;
	index->superblock = nam_gaddr_untagged(index->superblock);
	if (fine)
		rc = nam__node_alloc(worker, index, false, &leaves[0], &generation); /* SUSPENDS */
	else if (options->design == NAM_DESIGN_HYBRID)
		rc = nam__hybrid_create(worker, index, name, members, leaves); /* SUSPENDS */
	else
		rc = nam__parts_create(worker, index, name, members, NULL); /* SUSPENDS */
	if (rc) {
		nam_free_unseen(worker, index->superblock, NAM_SUPERBLOCK_STRIDE);
		return rc;
	}
	if (options->design != NAM_DESIGN_COARSE)
		made->leaves_count = fine ? 1 : members->count;
	rc = write_superblock(worker, index, members, leaves[0], generation); /* SUSPENDS */
	nam_race_point("create.written");
	if (rc)
		unmake(worker, made); /* SUSPENDS */
	return rc;
}

int
nam__index_make(struct nam_worker *worker, const char *name,
	const struct nam_index_options *options, struct nam__index_made **ret_made)
{
	struct nam__index_made *made;
	struct nam__members members;
	unsigned tries = 0;
	int rc = nam__name_check(worker, NAM_CATALOG_INDEX, name);

	nam__members_joined(worker->client, &members);
	if (!rc)
		rc = nam__change_check(worker);
	if (!rc)
		rc = check_options(worker, options);
	if (!rc && nam_index_traits(options->design)->partitioned)
		rc = nam__parts_check(worker, options, members.count);
	if (rc)
		return rc;
	made = calloc(1, sizeof(*made) + members.count * sizeof(made->leaves[0]));
	if (!made)
		return -ENOMEM;
	made->members = members;
	made->index.client = worker->client;
	made->index.ordered_loads = worker->client->caps & NAM_CAP_ORDERED_LOADS;
	made->index.options = *options;
	rc = nam__geometry_init(&made->index.g, options, nam_entropy() | 1);
	if (rc)
		goto free_made;
	do {
		nam__op_begin(worker, NAM_OP_OTHER);
		rc = make(worker, name, made); /* SUSPENDS */
		nam__op_end(worker);
	} while (nam__memory_retry(worker, rc, &tries)); /* SUSPENDS */
	if (!rc) {
		*ret_made = made;
		return 0;
	}
free_made:
	free(made);
	return rc;
}

uint64_t
nam__index_made_entry(const struct nam__index_made *made)
{
	return made->index.superblock.raw;
}

struct nam_gaddr
nam__index_superblock(const struct nam_index *index)
{
	return index->superblock;
}

void
nam__index_made_end(struct nam_worker *worker, struct nam__index_made *made, int rc)
{
	/* Where it is unknown whether the name is there, it must lead to an index. */
	if (rc && !nam_err_is(rc, NAM_E_FABRIC)) {
		nam__op_begin(worker, NAM_OP_OTHER);
		unmake(worker, made); /* SUSPENDS */
		nam__op_end(worker);
	}
	free(made);
}

int
nam_index_create(struct nam_worker *worker, const char *name,
	const struct nam_index_options *options)
{
	struct nam__index_made *made;
	int rc = nam__index_make(worker, name, options, &made); /* SUSPENDS */

	if (rc)
		return rc;
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__name_put(worker, NAM_CATALOG_INDEX, name,
		nam__index_made_entry(made)); /* SUSPENDS */
	nam__op_end(worker);
	nam__index_made_end(worker, made, rc); /* SUSPENDS */
	return rc;
}

/* ---- open --------------------------------------------------------------------------------- */

/* With *ret_lost, an index part of which is gone can be opened, too: to be dropped. */
NAM_FIBER_FN static int
open_superblock(struct nam_worker *worker, struct nam_index *index, bool *ret_lost)
{
	struct block *block = nam_buffer_take(worker, sizeof(*block));
	const struct nam_superblock *superblock = &block->head;
	int rc = -ENOMEM;

	if (!block)
		return rc;
	rc = nam_read_await(worker, index->superblock, block,
		NAM_SUPERBLOCK_INTENT); /* SUSPENDS */
	if (rc)
		goto give_block;
	if (superblock->state) {
		rc = nam_diag_set(&worker->diag, -NAM_E_NOINDEX,
			"index '%s' is being dropped", index->name);
		goto give_block;
	}
	rc = superblock_check(worker, index->name, superblock, index->superblock, &index->options);
	if (rc)
		goto give_block;
	rc = boots_check(worker, index->name, block);
	if (rc == -NAM_E_LOST && ret_lost) {
		*ret_lost = true;
		rc = 0;
	}
	if (!rc)
		rc = nam__geometry_init(&index->g, &index->options, superblock->seed);
	if (!rc) {
		atomic_init(&index->root, superblock->root);
		index->tree = superblock->seed;
		memcpy(index->servers, superblock->servers, sizeof(index->servers));
	}
give_block:
	nam_buffer_give(worker, block, sizeof(*block));
	return rc;
}

static const struct nam__index_ops *const design_ops[] = {
	[NAM_DESIGN_FINE] = &nam__fine_ops,
	[NAM_DESIGN_COARSE] = &nam__coarse_ops,
	[NAM_DESIGN_HYBRID] = &nam__hybrid_ops,
};

NAM_FIBER_FN static int
open_index(struct nam_worker *worker, const char *name, uint64_t cache_bytes, bool *ret_lost,
	struct nam_index **ret_index)
{
	struct nam_index *index = calloc(1, sizeof(*index));
	int rc;

	if (!index)
		return -ENOMEM;
	index->client = worker->client;
	index->ordered_loads = worker->client->caps & NAM_CAP_ORDERED_LOADS;
	/* I3: the superblock that the name leads to is not reused in this operation. */
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__name_find(worker, NAM_CATALOG_INDEX, name, &index->superblock.raw); /* SUSPENDS */
	if (!rc) {
		nam_race_point("open.found");
		memcpy(index->name, name, strlen(name) + 1);
		rc = open_superblock(worker, index, ret_lost); /* SUSPENDS */
	}
	if (!rc) {
		index->ops = design_ops[index->options.design];
		rc = index->ops->open(worker, index, cache_bytes, ret_lost != NULL); /* SUSPENDS */
	}
	nam__op_end(worker);
	if (rc) {
		nam_index_close(index);
		return rc;
	}
	*ret_index = index;
	return 0;
}

int
nam_index_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes,
	struct nam_index **ret_index)
{
	return open_index(worker, name, cache_bytes, NULL, ret_index); /* SUSPENDS */
}

void
nam_index_close(struct nam_index *index)
{
	if (!index)
		return;
	if (index->ops)
		index->ops->close(index);
	free(index);
}

const struct nam_index_options *
nam_index_properties(const struct nam_index *index)
{
	return &index->options;
}

int
nam_index_expect(struct nam_worker *worker, const struct nam_index *index,
	const struct nam_index_options *expected)
{
	const struct nam_index_options *is = &index->options;

	if (expected->key_bytes && expected->key_bytes != is->key_bytes)
		return nam_diag_set(&worker->diag, -NAM_E_KEY_BYTES, "index '%s' has keys of %u "
			"bytes, not of %u: open another, or drop it and make it anew", index->name,
			is->key_bytes, expected->key_bytes);
	if (expected->design && expected->design != is->design)
		return nam_diag_set(&worker->diag, -NAM_E_DESIGN, "index '%s' is %s, not %s: open "
			"another, or drop it and make it anew", index->name,
			nam_index_traits(is->design)->name,
			nam_index_traits(expected->design)->name);
	if (nam_index_traits(is->design)->partitioned && expected->partitioning &&
		expected->partitioning != is->partitioning)
		return nam_diag_set(&worker->diag, -NAM_E_DESIGN, "index '%s' has partitioning %d, "
			"not %d: open another, or drop it and make it anew", index->name,
			(int)is->partitioning, (int)expected->partitioning);
	return 0;
}

/* ---- list, drop --------------------------------------------------------------------------- */

int
nam_index_list(struct nam_worker *worker, nam_index_list_fn fn, void *arg)
{
	return nam__names_list(worker, NAM_CATALOG_INDEX, fn, arg); /* SUSPENDS */
}

/* A drop goes on: a node is damaged; or (DROPPED) the way around it led to the superblock. */
static bool
cannot_be_found(int rc)
{
	return nam_err_is(rc, NAM_E_RESTART) || rc == -NAM_E_DROPPED ||
	       rc == -NAM_E_REMOTE_CORRUPT || rc == -NAM_E_NOREGION;
}

int
nam__index_drop_begin(struct nam_worker *worker, const char *name, struct nam__index_drop *ret_drop)
{
	int rc;

	*ret_drop = (struct nam__index_drop){ .index = NULL };
	rc = open_index(worker, name, 0, &ret_drop->lost, &ret_drop->index); /* SUSPENDS */
	if (rc)
		return rc;
	nam__op_begin(worker, NAM_OP_OTHER);
	/* I15: collectors and bulk loads take nodes out, too: wait, and keep them out for ever. */
	rc = nam__collector_enter(worker, ret_drop->index,
		worker->client->options.lock_timeout_ms * 1000000ull,
		&ret_drop->word); /* SUSPENDS */
	nam__op_end(worker);
	if (rc) {
		nam_index_close(ret_drop->index);
		ret_drop->index = NULL;
		return rc;
	}
	nam_race_point("drop.alone");
	ret_drop->entry = ret_drop->index->superblock.raw;
	return 0;
}

bool
nam__is_unreadable(int rc)
{
	return rc == -NAM_E_REMOTE_CORRUPT || rc == -NAM_E_FABRIC_VERSION ||
		rc == -NAM_E_CLUSTER || rc == -NAM_E_NOREGION;
}

int
nam__index_drop_join(struct nam_worker *worker, const char *name, struct nam__index_drop *ret_drop,
	struct nam_rpc_catalog_entry *names, uint32_t *count)
{
	int rc = nam__index_drop_begin(worker, name, ret_drop); /* SUSPENDS */

	if (nam__is_unreadable(rc)) {
		ret_drop->unreadable = names[*count].name;
		nam__op_begin(worker, NAM_OP_OTHER);
		rc = nam__name_find(worker, NAM_CATALOG_INDEX, name,
			&ret_drop->entry); /* SUSPENDS */
		nam__op_end(worker);
	}
	if (!rc)
		names[(*count)++] = nam__name_entry(NAM_CATALOG_INDEX, name, ret_drop->entry);
	return rc == -NAM_E_NOINDEX || rc == -NAM_E_KIND ? 0 : rc;
}

/* The name has gone. */
NAM_FIBER_FN static int
free_all(struct nam_worker *worker, struct nam_index *index, bool lost)
{
	/* Leaves, or all nodes, lie on all memory servers: those of a lost tree cannot be found. */
	bool scattered = nam_index_traits(index->options.design)->client_levels > 0;
	int rc, freed_rc = 0;
	uint64_t seen;

	nam_race_point("drop.unnamed");
	/* I17: if a client has the index open, its next look at the superblock says so. */
	rc = nam__word_cas(worker, index->superblock, offsetof(struct nam_superblock, state), 0, 1,
		&seen); /* SUSPENDS */
	nam_race_point("drop.marked");
	/* I3: until the root is gone, there is a way to the nodes that are retired. */
	nam__labels_hold(worker);
	if (!rc)
		rc = freed_rc = index->ops->free(worker, index, lost); /* SUSPENDS */
	nam__labels_release(worker);
	if (!rc)
		nam_retire(worker, index->superblock, NAM_SUPERBLOCK_STRIDE);
	/* The name is gone, and so is what could be found. */
	if (cannot_be_found(freed_rc))
		rc = nam_diag_set(&worker->diag, -NAM_E_LOST,
			"index '%s' was dropped, but one of its nodes cannot be read: those behind "
			"it cannot be found, and stay allocated until a sweep", index->name);
	else if (!rc && lost && scattered)
		rc = nam_diag_set(&worker->diag, -NAM_E_LOST,
			"index '%s' was dropped, but a memory server was restarted or removed "
			"since it was made. Its nodes on the others cannot be found, and stay "
			"allocated until a sweep", index->name);
	return rc;
}

int
nam__index_drop_end(struct nam_worker *worker, struct nam__index_drop *drop, int name_rc)
{
	struct nam_index *index = drop->index;
	int rc = name_rc, leave_rc;

	if (!index && drop->unreadable && !rc)
		return nam_diag_set(&worker->diag, -NAM_E_LOST, "index '%s' was dropped, but its "
			"superblock does not verify: its nodes stay allocated until a sweep",
			drop->unreadable);
	if (!index)
		return rc;
	nam__op_begin(worker, NAM_OP_OTHER);
	if (rc) {
		leave_rc = nam__collector_leave(worker, index, drop->word); /* SUSPENDS */
		(void)leave_rc;		/* the first failure is the one to report */
	} else {
		rc = free_all(worker, index, drop->lost); /* SUSPENDS */
	}
	nam__op_end(worker);
	nam_index_close(index);
	return rc;
}

void
nam__drop_reclaim(struct nam_worker *worker)
{
	uint64_t reusable;

	if (nam__limbo_advance(worker, &reusable)) /* SUSPENDS */
		reusable = 0;	/* another time */
}

int
nam_index_drop(struct nam_worker *worker, const char *name)
{
	struct nam__index_drop drop;
	uint64_t epoch = nam__epoch_pin(worker);
	int rc = nam__index_drop_begin(worker, name, &drop); /* SUSPENDS */

	if (!rc) {
		nam__op_begin(worker, NAM_OP_OTHER);
		/* An open by name from here on finds nothing. */
		rc = nam__name_take(worker, NAM_CATALOG_INDEX, name, drop.entry); /* SUSPENDS */
		nam__op_end(worker);
		rc = nam__index_drop_end(worker, &drop, rc); /* SUSPENDS */
	}
	nam__epoch_unpin(worker, epoch);
	nam__drop_reclaim(worker); /* SUSPENDS */
	return rc;
}
