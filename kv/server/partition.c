/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c -- one thread at a time in an engine, and the counts of what it did. */
#include "partition.h"

#include <string.h>

#include "common/guard.h"
#include "engine.h"

/* By enum nam_kv_engine. */
static const struct nam__kv_engine *const engines[] = {
	NULL,
	&nam__kv_chained_engine,
	&nam__kv_cuckoo_engine,
};

#define LOAD(word) __atomic_load_n(&(word), __ATOMIC_RELAXED)

/* K1 */
static void
lock(struct nam__kv_partition *p)
{
	if (NAM_GUARD(KV_ALONE))
		nam__htm_lock(&p->lock);
}

/* K1 */
static void
unlock(struct nam__kv_partition *p)
{
	if (NAM_GUARD(KV_ALONE))
		nam__htm_unlock(&p->lock);
}

/* unlock(), and then count: within a transaction the count would conflict with others. */
static void
unlock_and_count(struct nam__kv_partition *p, enum nam__kv_tally tally)
{
	bool inside = p->lock.htm == NAM__HTM_NONE;

	if (tally != NAM__KV_TALLIES && inside)
		p->tally[tally]++;
	unlock(p);
	if (tally != NAM__KV_TALLIES && !inside)
		__atomic_fetch_add(&p->tally_behind[tally], 1, __ATOMIC_RELAXED);
}

static uint64_t
tally_of(const struct nam__kv_partition *p, enum nam__kv_tally tally)
{
	return p->tally[tally] + LOAD(p->tally_behind[tally]);
}

bool
nam__kv_engine_known(uint32_t engine)
{
	return engine && engine < sizeof(engines) / sizeof(engines[0]);
}

void
nam__kv_partition_init(struct nam__kv_partition *p, uint64_t store, enum nam__htm htm,
	uint32_t engine, uint8_t *const *chunks, uint32_t count, bool evicts)
{
	*p = (struct nam__kv_partition){
		.lock.htm = htm,
		.evicts = evicts,
		.store = store,
		.engine = engines[engine],
		.chunks = chunks,
		.chunks_count = count,
	};
	p->lock.counts = &p->htm_counts;
	p->engine->init(p);
}

void
nam__kv_partition_prefetch(const struct nam__kv_partition *p, uint32_t hash)
{
	p->engine->prefetch(p, hash);
}

void
nam__kv_partitions_seek(struct nam__kv_sought *sought, uint32_t count)
{
	sought->partition->engine->seek(sought, count);
}

int
nam__kv_partition_get_sought(const struct nam__kv_sought *sought, void *value, uint32_t room,
	uint32_t *ret_bytes, uint64_t *hits)
{
	struct nam__kv_partition *p = sought->partition;

	if (p->engine->look && p->engine->look(sought, value, room, ret_bytes)) {
		++*hits;
		return 0;
	}
	return nam__kv_partition_get(p, sought->hash, sought->key, sought->key_bytes, value, room,
		ret_bytes);
}

void
nam__kv_partition_hits(struct nam__kv_partition *p, uint64_t hits)
{
	if (hits)
		__atomic_fetch_add(&p->tally_behind[NAM__KV_HITS], hits, __ATOMIC_RELAXED);
}

int
nam__kv_partition_get(struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes, void *value, uint32_t room, uint32_t *ret_bytes)
{
	int rc;

	lock(p);
	rc = p->engine->get(p, hash, key, key_bytes, value, room, ret_bytes);
	unlock_and_count(p, !rc ? NAM__KV_HITS :
		rc == -NAM_E_NOTFOUND ? NAM__KV_MISSES : NAM__KV_TALLIES);
	return rc;
}

int
nam__kv_partition_put(struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes)
{
	int rc;

	lock(p);
	rc = p->engine->put(p, hash, key, key_bytes, value, value_bytes);
	unlock_and_count(p, !rc ? NAM__KV_PUTS :
		rc == -NAM_E_REMOTE_FULL ? NAM__KV_REFUSALS : NAM__KV_TALLIES);
	return rc;
}

int
nam__kv_partition_delete(struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes)
{
	int rc;

	lock(p);
	rc = p->engine->remove(p, hash, key, key_bytes);
	unlock_and_count(p, rc ? NAM__KV_TALLIES : NAM__KV_DELETES);
	return rc;
}

uint32_t
nam__kv_partition_shape(struct nam__kv_partition *p, struct nam__cuckoo_shape *ret_shape)
{
	uint32_t chunks;

	lock(p);
	*ret_shape = p->cuckoo.shape;
	chunks = nam__cuckoo_chunks(&p->cuckoo.shape);
	unlock(p);
	return chunks;
}

/* K12: no READ finds a pair in memory that is free. */
void
nam__kv_partition_wipe(struct nam__kv_partition *p)
{
	for (uint32_t i = 0; NAM_GUARD(KV_WIPE) && i < nam__cuckoo_chunks(&p->cuckoo.shape); i++) {
		struct nam__cuckoo_bucket *buckets = (void *)p->chunks[i];

		for (uint32_t k = 0; k < NAM__CUCKOO_BUCKETS_PER_CHUNK; k++)
			memset(buckets[k].slots, 0, sizeof(buckets[k].slots));
	}
}

void
nam__kv_partition_count(struct nam__kv_partition *p, struct nam_rpc_kv_counts *sum)
{
	lock(p);
	nam_rpc_kv_counts_add(sum, &p->counts);
	p->engine->count(p, sum);
	sum->hits += tally_of(p, NAM__KV_HITS);
	sum->misses += tally_of(p, NAM__KV_MISSES);
	sum->puts += tally_of(p, NAM__KV_PUTS);
	sum->deletes += tally_of(p, NAM__KV_DELETES);
	sum->refusals += tally_of(p, NAM__KV_REFUSALS);
	sum->htm_commits += LOAD(p->htm_counts.commits);
	sum->htm_aborts += LOAD(p->htm_counts.aborts);
	sum->htm_fallbacks += LOAD(p->htm_counts.fallbacks);
	unlock(p);
}

void
nam__kv_partition_image(struct nam__kv_partition *p, struct nam_rpc_kv_image *ret)
{
	lock(p);
	*ret = (struct nam_rpc_kv_image){
		.counts = p->counts,
		.cells = p->cells.count,
		.carved = p->cells.carved,
		.free_first = p->cells.free_first,
		.free_count = p->cells.free_count,
	};
	for (unsigned i = 0; i < NAM__KV_TALLIES; i++)
		ret->tallies[i] = tally_of(p, (enum nam__kv_tally)i);
	p->engine->image(p, ret);
	unlock(p);
}

bool
nam__kv_partition_take(struct nam__kv_partition *p, const struct nam_rpc_kv_image *image)
{
	/* The engine says which counts of cells there may be. */
	if (image->carved > image->cells || image->free_count > image->cells ||
		(image->free_first != NAM__KV_CELL_NONE && image->free_first >= image->carved) ||
		!p->engine->take(p, image))
		return false;
	p->counts = image->counts;
	p->cells.count = image->cells;
	p->cells.carved = image->carved;
	p->cells.free_first = image->free_first;
	p->cells.free_count = image->free_count;
	memcpy(p->tally, image->tallies, sizeof(p->tally));
	return true;
}

bool
nam__kv_partition_sound(struct nam__kv_partition *p, struct nam_diag *diag)
{
	bool sound;

	lock(p);
	sound = p->engine->sound(p, diag);
	unlock(p);
	return sound;
}
