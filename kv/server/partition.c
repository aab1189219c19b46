/* SPDX-License-Identifier: Apache-2.0 */
/* partition.c -- one thread at a time in an engine, and the counts of what it did. */
#include "partition.h"

#include <string.h>

#include "common/env.h"
#include "common/guard.h"
#include "engine.h"

#define SPINS_BEFORE_YIELD 64u

/* By enum nam_kv_engine. */
static const struct nam__kv_engine *const engines[] = {
	NULL,
	&nam__kv_chained_engine,
	&nam__kv_cuckoo_engine,
};

static void
lock(struct nam__kv_partition *p)
{
	if (!NAM_GUARD(KV_ALONE))
		return;
	/* Acquire: pairs with unlock(). */
	for (unsigned spins = 1; __atomic_exchange_n(&p->locked, 1, __ATOMIC_ACQUIRE); spins++)
		if (spins % SPINS_BEFORE_YIELD == 0)
			nam_yield();
}

static void
unlock(struct nam__kv_partition *p)
{
	__atomic_store_n(&p->locked, 0, __ATOMIC_RELEASE);
}

bool
nam__kv_engine_known(uint32_t engine)
{
	return engine && engine < sizeof(engines) / sizeof(engines[0]);
}

void
nam__kv_partition_init(struct nam__kv_partition *p, uint64_t store, uint32_t engine,
	uint8_t *const *chunks, uint32_t count, bool evicts)
{
	*p = (struct nam__kv_partition){
		.evicts = evicts,
		.store = store,
		.engine = engines[engine],
		.chunks = chunks,
		.chunks_count = count,
	};
	p->engine->init(p);
}

int
nam__kv_partition_get(struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes, void *value, uint32_t room, uint32_t *ret_bytes)
{
	int rc;

	lock(p);
	rc = p->engine->get(p, hash, key, key_bytes, value, room, ret_bytes);
	p->counts.hits += rc == 0;
	p->counts.misses += rc == -NAM_E_NOTFOUND;
	unlock(p);
	return rc;
}

int
nam__kv_partition_put(struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes, const void *value, uint32_t value_bytes)
{
	int rc;

	lock(p);
	rc = p->engine->put(p, hash, key, key_bytes, value, value_bytes);
	p->counts.puts += rc == 0;
	p->counts.refusals += rc == -NAM_E_REMOTE_FULL;
	unlock(p);
	return rc;
}

int
nam__kv_partition_delete(struct nam__kv_partition *p, uint32_t hash, const void *key,
	uint32_t key_bytes)
{
	int rc;

	lock(p);
	rc = p->engine->remove(p, hash, key, key_bytes);
	p->counts.deletes += rc == 0;
	unlock(p);
	return rc;
}

uint32_t
nam__kv_partition_shape(struct nam__kv_partition *p, struct nam__cuckoo_shape *ret_shape)
{
	uint32_t chunks;

	lock(p);
	*ret_shape = p->cuckoo.shape;
	chunks = p->cuckoo.chunks;
	unlock(p);
	return chunks;
}

void
nam__kv_partition_wipe(struct nam__kv_partition *p)
{
	for (uint32_t i = 0; i < p->cuckoo.chunks; i++) {
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
	unlock(p);
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
