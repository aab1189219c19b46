/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_reclaim.c -- scenes in which blocks of a dropped object come to another stride or object.
 * Meanwhile a client has a handle of the dropped one.
 *
 * Bytes that come where the leaves of the index OLD lay look like leaves, with other payloads.  On
 * fabrics with ordered loads only the hash would tell.
 */
#include <string.h>

#include "compute/remote/reclaim.h"
#include "index/coarse/coarse.h"
#include "index/maintain.h"
#include "index/node/node.h"
#include "kv/kv.h"
#include "litmus_records.h"
#include "txn/records/txn_internal.h"
#include "txn/server/records.h"

#define OLD "old"
#define NEW "new"
#define OLD_NUMBER 10000u
#define NEW_NUMBER 20000u
#define KEYS 300u
#define MANY_KEYS 1500u
#define CACHE_BYTES (1u << 20)
#define COLLECTS 60u
#define LEAVES_MAX 256u
#define STRIDE 1024u
#define PRIVATE_REGION 1u		/* of server 0, when it has a key-value store */

/* Not the stride of litmus's own index, so that nothing else is in the run. */
static const struct nam_index_options shape = { .design = NAM_DESIGN_FINE, .key_bytes = 8,
	.unique = true, .node_bytes = 512, .head_interval = 4 };

static struct nam_index *
open_index(struct actor *self, const char *name, uint64_t cache_bytes)
{
	struct nam_index *index = NULL;

	if (nam_index_open(self->worker, name, cache_bytes, &index))
		sim_die("open: %s", nam_worker_diag(self->worker));
	return index;
}

/* Key n has the payload number + n. */
static struct nam_index *
make_index(struct actor *self, const char *name, uint64_t number, uint64_t keys)
{
	struct nam_index_options options = shape;
	struct nam_index *index;
	uint8_t key[8];

	if (litmus.design == LITMUS_HYBRID_HASH) {
		options.design = NAM_DESIGN_HYBRID;
		options.partitioning = NAM_PARTITION_HASH;
	}
	if (nam_index_create(self->worker, name, &options))
		sim_die("create: %s", nam_worker_diag(self->worker));
	index = open_index(self, name, CACHE_BYTES);
	for (uint64_t n = 0; n < keys; n++) {
		nam_key_from_u64(n, key);
		if (nam_index_insert(self->worker, index, key, number + n))
			litmus_fail("insert: %s", nam_worker_diag(self->worker));
	}
	return index;
}

static void
drop_index(struct actor *self, struct nam_index *index, const char *name)
{
	nam_index_close(index);
	if (nam_index_drop(self->worker, name))
		litmus_fail("drop: %s", nam_worker_diag(self->worker));
}

static void
return_runs(struct actor *self)
{
	unsigned tries = 0;

	self->worker->public_full = true;
	if (!nam__memory_reclaim(self->worker, &tries) && !nam_sim_zombie())
		litmus_fail("no run came back");
}

/* ---- what lies where leaves were ------------------------------------------------------------- */

struct leaf {
	struct nam_gaddr at;
	uint64_t image[512 / 8];
};

static struct leaf leaves[LEAVES_MAX];

/* The leaves of an index and its head nodes, from left to right; how many. */
static unsigned
leaves_read(struct actor *self, struct nam_index *index)
{
	uint64_t *buffer = nam_buffer_take(self->worker, index->g.node_bytes);
	unsigned count = 0;
	struct nam_gaddr at;
	int rc;

	nam__op_begin(self->worker, NAM_OP_OTHER);
	rc = nam__read_covering(self->worker, index, nam__key_lowest.w, 0, buffer, &at);
	while (!rc && count < LEAVES_MAX) {
		leaves[count].at = at;
		memcpy(leaves[count++].image, buffer, sizeof(leaves[0].image));
		at = nam__node_sibling(buffer);
		if (nam_gaddr_is_null(at))
			break;
		rc = nam_read_await(self->worker, at, buffer, index->g.node_bytes);
	}
	nam__op_end(self->worker);
	if (rc)
		litmus_fail("leaves: %s", nam_worker_diag(self->worker));
	nam_buffer_give(self->worker, buffer, index->g.node_bytes);
	return count;
}

static bool
covers(struct nam_gaddr block, struct nam_gaddr at)
{
	return nam_gaddr_region(block) == nam_gaddr_region(at) &&
	       nam_gaddr_offset(at) - nam_gaddr_offset(block) < STRIDE;
}

/* Blocks of another stride, until one covers the address. */
static void
cover(struct actor *self, struct nam_gaddr at)
{
	struct nam_gaddr block = NAM_GADDR_NULL;

	for (unsigned i = 0; i < 100 && !covers(block, at); i++)
		if (nam_alloc_on(self->worker, 0, STRIDE, &block))
			litmus_fail("alloc: %s", nam_worker_diag(self->worker));
	if (!covers(block, at))
		litmus_fail("what was returned is nowhere");
}

/* The same leaves with other payloads. */
static void
leaves_forge(struct actor *self, const struct nam__geometry *g, unsigned count)
{
	uint64_t *buffer = nam_buffer_take(self->worker, g->node_bytes);

	for (unsigned i = 0; i < count; i++) {
		memcpy(buffer, leaves[i].image, sizeof(leaves[i].image));
		for (unsigned k = 0; k < nam__node_count(buffer); k++)
			nam__leaf_entry(g, buffer, k)[g->key_words] += NEW_NUMBER;
		if (nam_write_await(self->worker, nam_gaddr_untagged(leaves[i].at), buffer,
			g->node_bytes))
			litmus_fail("write: %s", nam_worker_diag(self->worker));
	}
	nam_buffer_give(self->worker, buffer, g->node_bytes);
}

/* ---- a handle, and a cursor ------------------------------------------------------------------ */

static void
drop_and_forge(struct actor *self)
{
	struct nam_index *index = make_index(self, OLD, OLD_NUMBER, KEYS);
	const struct nam__geometry g = index->g;
	unsigned count = leaves_read(self, index);

	litmus.flags[FOUR] = true;
	litmus_await(ONE);
	drop_index(self, index, OLD);
	return_runs(self);
	cover(self, leaves[0].at);
	leaves_forge(self, &g, count);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
}

static void
look_up_dropped(struct actor *self)
{
	struct nam_index *index;
	uint64_t payload = 0;
	uint8_t key[8];
	int rc;

	litmus_await(FOUR);
	index = open_index(self, OLD, CACHE_BYTES);
	nam_key_from_u64(7, key);
	rc = nam_index_lookup(self->worker, index, key, &payload);
	if (rc || payload != OLD_NUMBER + 7)
		litmus_fail("lookup: %s", nam_worker_diag(self->worker));
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	rc = nam_index_lookup(self->worker, index, key, &payload);
	if (rc != -NAM_E_DROPPED)
		litmus_fail("lookup in a dropped index: %s, %llu", nam_err_name(rc),
			(unsigned long long)payload);
	litmus.flags[THREE] = true;
	nam_index_close(index);
}

static void
scan_dropped(struct actor *self)
{
	const struct nam_range range = { .low = NULL };
	struct nam_index *index;
	struct nam_cursor *cursor;
	uint64_t payloads[3];
	uint32_t count = 3;
	int rc;

	litmus_await(FOUR);
	index = open_index(self, OLD, CACHE_BYTES);
	if (nam_cursor_open(self->worker, index, &range, &cursor) ||
		nam_cursor_next(cursor, NULL, payloads, 3, &count))
		litmus_fail("scan: %s", nam_worker_diag(self->worker));
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	do {
		rc = nam_cursor_next(cursor, NULL, payloads, 3, &count);
		for (uint32_t i = 0; !rc && i < count; i++)
			if (payloads[i] >= NEW_NUMBER)
				litmus_fail("a scan of a dropped index meets %llu",
					(unsigned long long)payloads[i]);
	} while (!rc && count && !litmus.failed);
	litmus.flags[THREE] = true;
	nam_cursor_close(cursor);
	nam_index_close(index);
}

/* ---- a superblock ---------------------------------------------------------------------------- */

/* The block of the superblock is used again for another one. */
static void
collect_often(struct actor *self)
{
	struct nam_index *index;
	uint64_t reusable = 0;
	struct nam_gaddr at;

	index = make_index(self, OLD, OLD_NUMBER, KEYS);
	at = index->superblock;
	litmus.flags[FOUR] = true;
	litmus_await(ONE);
	drop_index(self, index, OLD);
	for (unsigned i = 0; i < 8 && !reusable; i++) {
		if (nam__limbo_advance(self->worker, &reusable))
			litmus_fail("limbo: %s", nam_worker_diag(self->worker));
		nam_sleep_ns(LITMUS_TICKS_NS);
	}
	index = make_index(self, NEW, NEW_NUMBER, KEYS);
	if (!nam_gaddr_same(index->superblock, at))
		litmus_fail("the block was not used again");
	litmus.flags[TWO] = true;
	for (unsigned i = 0; i < COLLECTS && !litmus.failed; i++) {
		struct nam_collect_stat stat;
		int rc = nam_index_collect(self->worker, index, &stat);

		if (rc)
			litmus_fail("the only collector: %s", nam_worker_diag(self->worker));
		nam_sleep_ns(nam_sim_random() % 3000);
	}
	litmus_await(THREE);
	nam_index_close(index);
}

static void
collect_dropped(struct actor *self)
{
	struct nam_collect_stat stat;
	struct nam_index *index;

	litmus_await(FOUR);
	index = open_index(self, OLD, CACHE_BYTES);
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	for (unsigned i = 0; i < COLLECTS / 4; i++) {
		int rc = nam_index_collect(self->worker, index, &stat);

		if (rc != -NAM_E_DROPPED)
			litmus_fail("collect in a dropped index: %s", nam_err_name(rc));
		nam_sleep_ns(nam_sim_random() % 3000);
	}
	litmus.flags[THREE] = true;
	nam_index_close(index);
}

/* ---- a head node's hints --------------------------------------------------------------------- */

/* A head node gets other entries. */
static void
head_forge(struct actor *self, const struct nam_index *index, const struct leaf *head,
	const uint64_t *entries, unsigned count)
{
	uint64_t *buffer = nam_buffer_take(self->worker, shape.node_bytes);

	memcpy(buffer, head->image, sizeof(head->image));
	memcpy(buffer + index->g.entries_at, entries, 8ul * count);
	nam__node_seal(&index->g, buffer, head->at);
	if (nam_write_await(self->worker, nam_gaddr_untagged(head->at), buffer, shape.node_bytes))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	nam_buffer_give(self->worker, buffer, shape.node_bytes);
}

/* Blocks have changed their strides before the scan begins, and it ends before the index goes. */
static void
generation_and_scan(struct actor *self)
{
	uint64_t word;

	if (nam_fetch_add_await(self->worker, self->client->epoch_word, NAM_EPOCH_GENERATION,
		&word))
		litmus_fail("generation: %s", nam_worker_diag(self->worker));
	litmus.flags[FOUR] = true;
	litmus_await_for(THREE, 4 * LITMUS_TIMEOUT_NS);
}

/* Head nodes of OLD name leaves of NEW: so it is when its leaves died, and NEW's came there. */
static void
name_other_leaves(struct actor *self)
{
	static struct leaf heads[LEAVES_MAX];
	struct nam_index *new = make_index(self, NEW, NEW_NUMBER, MANY_KEYS);
	struct nam_index *old = make_index(self, OLD, OLD_NUMBER, MANY_KEYS);
	struct nam_collect_stat stat;
	unsigned count, heads_count = 0, at = 0;

	if (nam_index_collect(self->worker, old, &stat) ||
		nam_index_collect(self->worker, new, &stat))
		litmus_fail("collect: %s", nam_worker_diag(self->worker));
	count = leaves_read(self, new);
	for (unsigned i = 0; i < count; i++)
		if (nam__node_type(leaves[i].image) == NAM__NODE_HEAD)
			heads[heads_count++] = leaves[i];
	count = leaves_read(self, old);
	for (unsigned i = 0; i < count && at < heads_count; i++) {
		const struct leaf *head = &heads[at];

		if (nam__node_type(leaves[i].image) != NAM__NODE_HEAD)
			continue;
		head_forge(self, old, &leaves[i], head->image + new->g.entries_at,
			nam__node_count(head->image));
		at++;
	}
	if (!at)
		litmus_fail("no head nodes");
	generation_and_scan(self);
	nam_index_close(old);
	nam_index_close(new);
}

/* Head nodes of OLD name private memory: so it is when its leaves died, and the server took it. */
static void
name_private_memory(struct actor *self)
{
	struct nam_index *old = make_index(self, OLD, OLD_NUMBER, MANY_KEYS);
	uint64_t entries[LEAVES_MAX];
	struct nam_kv_options options;
	struct nam_collect_stat stat;
	unsigned count, at = 0;

	nam_kv_options_init(&options);
	options.memory_bytes = NAM_KV_PARTITION_BYTES_MIN;
	if (nam_kv_create(self->worker, "private", &options) ||
		nam_index_collect(self->worker, old, &stat))
		litmus_fail("make: %s", nam_worker_diag(self->worker));
	for (unsigned i = 0; i < LEAVES_MAX; i++)
		entries[i] = nam_gaddr_make(PRIVATE_REGION, (i + 1ull) * STRIDE, 1).raw;
	count = leaves_read(self, old);
	for (unsigned i = 0; i < count; i++) {
		if (nam__node_type(leaves[i].image) != NAM__NODE_HEAD)
			continue;
		head_forge(self, old, &leaves[i], entries, nam__node_count(leaves[i].image));
		at++;
	}
	if (!at)
		litmus_fail("no head nodes");
	generation_and_scan(self);
	nam_index_close(old);
}

static uint64_t scanned[MANY_KEYS + 8];

/* The payloads of a range; how many. */
static unsigned
scan_all(struct actor *self, struct nam_index *index, const struct nam_range *range)
{
	struct nam_cursor *cursor;
	uint32_t count = 8;
	unsigned all = 0;

	if (nam_cursor_open(self->worker, index, range, &cursor))
		litmus_fail("scan: %s", nam_worker_diag(self->worker));
	while (count && all <= MANY_KEYS && !litmus.failed) {
		if (nam_cursor_next(cursor, NULL, scanned + all, 8, &count))
			litmus_fail("scan: %s", nam_worker_diag(self->worker));
		all += count;
	}
	nam_cursor_close(cursor);
	return all;
}

static void
scan_by_heads(struct actor *self)
{
	const struct nam_range range = { .low = NULL };
	struct nam_index *index;
	unsigned count;

	litmus_await(FOUR);
	for (unsigned i = 0; i < 20 && !nam__generation(self->client); i++)
		nam_sleep_ns(LITMUS_TICKS_NS);
	index = open_index(self, OLD, 0);
	count = scan_all(self, index, &range);
	for (unsigned i = 0; i < count; i++)
		if (scanned[i] != OLD_NUMBER + i)
			litmus_fail("a scan by head nodes meets %llu",
				(unsigned long long)scanned[i]);
	if (count != MANY_KEYS)
		litmus_fail("a scan by head nodes ends after %u", count);
	litmus.flags[THREE] = true;
	nam_index_close(index);
}

/* ---- a memory server's leaf entry ------------------------------------------------------------ */

/* The leaf that dies; entries of 8-byte keys begin with the number itself. */
#define DEAD_LEAF 3u

/* Other bytes, and what they are. */
static struct {
	struct nam_gaddr at;
	uint64_t low, high;		/* keys of the leaf that its name says is here */
	uint64_t words[512 / 8];
} foreign;

static uint64_t
foreign_read(struct actor *self, uint64_t *words)
{
	uint64_t *buffer = nam_buffer_take(self->worker, sizeof(foreign.words)), lock;

	if (nam_read_await(self->worker, foreign.at, buffer, sizeof(foreign.words)))
		litmus_fail("read: %s", nam_worker_diag(self->worker));
	memcpy(words, buffer, sizeof(foreign.words));
	lock = buffer[NAM__WORD_LOCK];
	nam_buffer_give(self->worker, buffer, sizeof(foreign.words));
	return lock;
}

/* Keys of the leaf go, and the collector takes it out; then its first key but one comes back. */
static void
leaf_bury(struct actor *self, struct nam_index *index, const struct leaf *leaf)
{
	struct nam_collect_stat stat = { 0 };
	uint8_t key[8];

	foreign.low = nam__node_low(leaf->image)[0];
	foreign.high = nam__node_high(&index->g, leaf->image)[0];
	for (uint64_t n = foreign.low; n < foreign.high; n++) {
		nam_key_from_u64(n, key);
		if (nam_index_delete(self->worker, index, key))
			litmus_fail("delete: %s", nam_worker_diag(self->worker));
	}
	if (nam_index_collect(self->worker, index, &stat) || !stat.merges)
		litmus_fail("collect: %s", nam_worker_diag(self->worker));
	nam_key_from_u64(foreign.low + 1, key);
	if (nam_index_insert(self->worker, index, key, OLD_NUMBER + foreign.low + 1))
		litmus_fail("insert: %s", nam_worker_diag(self->worker));
}

/*
 * A leaf entry of a dead leaf leads to a block of another stride.  So it is when the splitter of a
 * leaf died between its INSERT and its look at the leaf, and the block was returned since.
 */
static void
name_foreign(struct actor *self, struct nam_index *index, bool forged, bool empty)
{
	uint64_t *buffer = nam_buffer_take(self->worker, sizeof(foreign.words)), word;
	struct nam_index *part = index->leaves[0];
	const struct leaf *leaf = &leaves[DEAD_LEAF];

	if (leaves_read(self, part) <= DEAD_LEAF + 1)
		litmus_fail("too few leaves");
	leaf_bury(self, index, leaf);
	if (nam_alloc_on(self->worker, 0, STRIDE, &foreign.at))
		litmus_fail("alloc: %s", nam_worker_diag(self->worker));
	foreign.at = nam_gaddr_tagged(nam_gaddr_untagged(foreign.at), nam_gaddr_tag(leaf->at));
	memset(buffer, 0, sizeof(foreign.words));
	if (forged) {
		memcpy(buffer, leaf->image, sizeof(foreign.words));
		for (unsigned k = 0; k < nam__node_count(buffer); k++)
			nam__leaf_entry(&part->g, buffer, k)[part->g.key_words] += NEW_NUMBER;
		if (empty)
			nam__node_set_counts(buffer, 0, 0);
	}
	memcpy(foreign.words, buffer, sizeof(foreign.words));
	if (nam_write_await(self->worker, nam_gaddr_untagged(foreign.at), buffer,
		sizeof(foreign.words)) ||
		nam__tree_point(self->worker, part, part->names_slot, NAM_RPC_TREE_INSERT,
			&foreign.low, 1, foreign.at.raw, NULL) ||
		nam_fetch_add_await(self->worker, self->client->epoch_word, NAM_EPOCH_GENERATION,
			&word))
		litmus_fail("naming: %s", nam_worker_diag(self->worker));
	nam_buffer_give(self->worker, buffer, sizeof(foreign.words));
	litmus.flags[FOUR] = true;
}

static void
foreign_expect_untouched(struct actor *self)
{
	uint64_t words[512 / 8];

	(void)foreign_read(self, words);
	if (memcmp(words, foreign.words, sizeof(words)))
		litmus_fail("an object of another stride was written");
}

/* Whether B, when it has a lock, has it here. */
static void
name_and_look(struct actor *self)
{
	struct nam_index *index = make_index(self, OLD, OLD_NUMBER, KEYS);
	uint64_t words[512 / 8];

	name_foreign(self, index, false, false);
	litmus_await_for(ONE, 4 * LITMUS_TIMEOUT_NS);
	if (foreign_read(self, words))
		litmus_fail("an object of another stride was locked");
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	foreign_expect_untouched(self);
	nam_index_close(index);
}

static void
name_leaf(struct actor *self)
{
	struct nam_index *index = make_index(self, OLD, OLD_NUMBER, KEYS);

	name_foreign(self, index, true, false);
	litmus_await_for(THREE, 4 * LITMUS_TIMEOUT_NS);
	foreign_expect_untouched(self);
	nam_index_close(index);
}

/* An empty leaf is merged with any. */
static void
name_and_watch(struct actor *self)
{
	struct nam_index *index = make_index(self, OLD, OLD_NUMBER, KEYS);
	uint64_t words[512 / 8];

	name_foreign(self, index, true, true);
	while (!litmus.flags[THREE] && !litmus.failed)
		if (foreign_read(self, words))
			litmus_fail("an object of another stride was locked");
	foreign_expect_untouched(self);
	nam_index_close(index);
}

static void
expect_old(struct actor *self, struct nam_index *index, uint64_t number)
{
	uint64_t payload = 0;
	uint8_t key[8];
	int rc;

	nam_key_from_u64(number, key);
	rc = nam_index_lookup(self->worker, index, key, &payload);
	if (rc || payload != OLD_NUMBER + number)
		litmus_fail("lookup(%llu): %s, %llu", (unsigned long long)number, nam_err_name(rc),
			(unsigned long long)payload);
}

/* A handle of a client that follows the generation. */
static struct nam_index *
come_after(struct actor *self, uint64_t cache_bytes)
{
	litmus_await(FOUR);
	for (unsigned i = 0; i < 20 && !nam__generation(self->client); i++)
		nam_sleep_ns(LITMUS_TICKS_NS);
	return open_index(self, OLD, cache_bytes);
}

static void
hold_locked(struct actor *self)
{
	(void)self;
	if (litmus.flags[FIVE])
		litmus_hold_first(self);
}

static void
insert_by_name(struct actor *self)
{
	struct nam_index *index = come_after(self, CACHE_BYTES);
	uint64_t number = foreign.low + 2;
	uint8_t key[8];

	/* Its neighbours' entries may come with its own. */
	expect_old(self, index, foreign.low - 1);
	litmus.flags[FIVE] = true;
	nam_key_from_u64(number, key);
	if (nam_index_insert(self->worker, index, key, OLD_NUMBER + number))
		litmus_fail("insert: %s", nam_worker_diag(self->worker));
	expect_old(self, index, number);
	expect_old(self, index, foreign.low + 1);
	litmus.flags[THREE] = true;
	nam_index_close(index);
}

/* From a key of the dead leaf on, or down to it. */
static void
scan_by_name(struct actor *self, struct nam_index *index, bool reverse)
{
	uint8_t key[8];
	const struct nam_range range = { .low = key, .reverse = reverse };
	unsigned count;

	nam_key_from_u64(foreign.low + 1, key);
	count = scan_all(self, index, &range);
	for (unsigned i = 0; i < count; i++)
		if (scanned[i] >= NEW_NUMBER)
			litmus_fail("a scan by a leaf entry meets %llu",
				(unsigned long long)scanned[i]);
	if (count != KEYS - foreign.high + 1)
		litmus_fail("a scan by leaf entries finds %u", count);
}

/* The scan is led astray, and then a walk is.  A known key costs one READ and no more. */
static void
look_by_name(struct actor *self)
{
	struct nam_index *index = come_after(self, CACHE_BYTES);
	uint64_t reads;

	scan_by_name(self, index, nam_sim_random() % 2);
	expect_old(self, index, foreign.low + 1);
	reads = nam_worker_counters(self->worker, NAM_OP_LOOKUP)->round_trips;
	expect_old(self, index, foreign.low + 1);
	reads = nam_worker_counters(self->worker, NAM_OP_LOOKUP)->round_trips - reads;
	if (reads != 1)
		litmus_fail("a lookup of a known key takes %llu", (unsigned long long)reads);
	litmus.flags[THREE] = true;
	nam_index_close(index);
}

static void
collect_by_name(struct actor *self)
{
	struct nam_index *index = come_after(self, 0);
	struct nam_collect_stat stat;

	if (nam_index_collect(self->worker, index, &stat))
		litmus_fail("collect: %s", nam_worker_diag(self->worker));
	expect_old(self, index, foreign.low + 1);
	litmus.flags[THREE] = true;
	nam_index_close(index);
}

/* ---- a record's head ------------------------------------------------------------------------- */

static uint64_t dropped_store;

static void
head_write(struct actor *self, uint64_t store, struct nam_gaddr at)
{
	struct nam__server_head *empty = nam_buffer_take(self->worker, sizeof(*empty));

	*empty = (struct nam__server_head){ .tag = nam__record_tag(store) };
	if (nam_write_await(self->worker, at, empty, sizeof(*empty)))
		litmus_fail("head: %s", nam_worker_diag(self->worker));
	nam_buffer_give(self->worker, empty, sizeof(*empty));
}

/* X has a head and no version, as after the death of its only writer. */
static void
head_make(struct actor *self, const struct nam_records *records, struct nam_gaddr *ret_at)
{
	const char *key = litmus_record_key(X);
	struct nam__record_id id = nam__record_id(key, (uint32_t)strlen(key));

	dropped_store = records->store;
	if (nam_alloc_on(self->worker, 0, NAM_RECORD_HEAD_BYTES, ret_at))
		litmus_fail("head: %s", nam_worker_diag(self->worker));
	*ret_at = nam_gaddr_untagged(*ret_at);
	head_write(self, dropped_store, *ret_at);
	if (nam_index_insert(self->worker, records->keys, id.word, ret_at->raw))
		litmus_fail("head: %s", nam_worker_diag(self->worker));
}

/* The store is dropped when another client knows the head; where that was. */
static struct nam_gaddr
head_drop(struct actor *self)
{
	struct nam_records *records = litmus_store_make(self, NULL);
	struct nam_gaddr at;

	head_make(self, records, &at);
	nam_records_close(records);
	litmus.flags[FOUR] = true;
	litmus_await(ONE);
	if (nam_records_drop(self->worker, LITMUS_STORE))
		litmus_fail("drop: %s", nam_worker_diag(self->worker));
	return at;
}

static void
drop_and_write(struct actor *self)
{
	struct nam_gaddr at = head_drop(self);

	return_runs(self);
	cover(self, at);
	/* Its bytes look like the head. */
	head_write(self, dropped_store, at);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
}

static void
drop_and_make(struct actor *self)
{
	struct nam_gaddr at = head_drop(self), other = NAM_GADDR_NULL;

	litmus_limbo_empty(self);
	for (unsigned i = 0; i < 100 && nam_gaddr_untagged(other).raw != at.raw; i++)
		if (nam_alloc_on(self->worker, 0, NAM_RECORD_HEAD_BYTES, &other))
			litmus_fail("alloc: %s", nam_worker_diag(self->worker));
	if (nam_gaddr_untagged(other).raw != at.raw)
		litmus_fail("the head was not used again");
	/* Of another store. */
	head_write(self, dropped_store + 1, nam_gaddr_untagged(other));
	litmus.flags[TWO] = true;
	litmus_await(THREE);
}

static void
put_dropped(struct actor *self)
{
	struct nam_records *records;
	struct nam_record_put put = { .key = litmus_record_key(X), .value = "value",
		.value_bytes = 5 };
	uint64_t number = 0;
	int rc;

	litmus_await(FOUR);
	put.key_bytes = (uint32_t)strlen(put.key);
	records = litmus_store_open(self, 1 << 16);
	rc = litmus_try_get(self, records, X, 1, &number);
	if (rc != -NAM_E_NOTFOUND)
		litmus_fail("get: %s", nam_worker_diag(self->worker));
	litmus.flags[ONE] = true;
	litmus_await(TWO);
	if (!nam_records_put_all(self->worker, records, &put, 1, NULL))
		litmus_fail("a put into a dropped store succeeded");
	litmus.flags[THREE] = true;
	nam_records_close(records);
}

const struct litmus_case litmus_reclaim_cases[] = {
	{ { "returned_nodes", 0, { NULL, drop_and_forge, look_up_dropped }, { { 0 } } },
		"other bytes come where a client has cached the leaves of a dropped index", 1, 0 },
	{ { "returned_leaves", 0, { NULL, drop_and_forge, scan_dropped }, { { 0 } } },
		"the same, to a cursor in the middle of its scan", 1, 0 },
	{ { "reused_superblock", 0, { NULL, collect_often, collect_dropped }, { { 0 } } },
		"a collector comes to the superblock of another index", 1, 0 },
	{ { "foreign_hints", 0, { NULL, name_other_leaves, scan_by_heads }, { { 0 } } },
		"a head node names leaves of another index", 1, 0 },
	{ { "private_hints", 0, { NULL, name_private_memory, scan_by_heads }, { { 0 } } },
		"a head node names memory that the server has taken for itself", 1, 0 },
	{ { "foreign_name", 0, { NULL, name_and_look, insert_by_name },
			{ { "lock.taken", B, hold_locked } } },
		"hybrid: the entry of a dead leaf leads to an object of another stride", 1,
		LITMUS_HYBRID_HASH },
	{ { "foreign_leaf", 0, { NULL, name_leaf, look_by_name }, { { 0 } } },
		"hybrid: the same, and its bytes look like the leaf", 1, LITMUS_HYBRID_HASH },
	{ { "foreign_merge", 0, { NULL, name_and_watch, collect_by_name }, { { 0 } } },
		"hybrid: the same, and a collector comes to it", 1, LITMUS_HYBRID_HASH },
	{ { "reused_head", 0, { NULL, drop_and_make, put_dropped }, { { 0 } } },
		"a record's head becomes one of another store", 1, 0 },
	{ { "returned_head", 0, { NULL, drop_and_write, put_dropped }, { { 0 } } },
		"a record's head comes to lie in a block of another kind", 1, 0 },
	{ { 0 }, NULL, 0, 0 },
};
