/* SPDX-License-Identifier: Apache-2.0 */
#include "kv_store.h"

#include <inttypes.h>
#include <math.h>

#include "bench/report.h"
#include "requests.h"

/* kv/README.md: what partitions are made of. */
#define CHUNK_BYTES 32768u
#define CELLS_PER_CHUNK 512u
#define CHUNKS_PER_BUCKET_CHUNK 17u	/* chained */
#define STASH_SLOTS 16u			/* cuckoo */
#define PARTITIONS_DEFAULT 16u
#define ERROR_SMALL 0.005

/* ---- sizes --------------------------------------------------------------------------------- */

/* Slots of a grown partition of so many chunks; or its cells. */
static uint64_t
places_of(const struct requests_options *o, uint64_t chunks)
{
	if (o->engine == NAM_KV_CUCKOO)
		return chunks * CELLS_PER_CHUNK - STASH_SLOTS;
	return (chunks - (chunks + CHUNKS_PER_BUCKET_CHUNK - 1) / CHUNKS_PER_BUCKET_CHUNK) *
	       CELLS_PER_CHUNK;
}

/* The chunks of a partition that come closest to so many places. */
static uint64_t
chunks_for(const struct requests_options *o, double places)
{
	uint64_t chunks = 2;

	while ((double)places_of(o, chunks) < places)
		chunks++;
	if (chunks > 2 && places - (double)places_of(o, chunks - 1) <
				  (double)places_of(o, chunks) - places)
		chunks--;
	return chunks;
}

static uint32_t
cells_of_a_pair(const struct requests_options *o)
{
	uint32_t bytes = KV_KEY_BYTES + o->value_bytes;

	return o->engine == NAM_KV_CUCKOO || bytes <= 48 ? 1 : 1 + (bytes - 48 + 51) / 52;
}

/* As many partitions as come close to the load factor; few, so that chance fills them alike. */
static void
size_by_load_factor(const struct requests_options *o, uint32_t servers,
	struct nam_kv_options *store)
{
	double places = (double)o->keys * cells_of_a_pair(o) / o->load_factor / servers;
	uint32_t least = o->partitions ? o->partitions : 1;
	uint32_t most = o->partitions ? o->partitions : PARTITIONS_DEFAULT;
	double best = INFINITY;

	for (uint32_t i = 0; i <= most - least && best > ERROR_SMALL; i++) {
		uint32_t count = most - i;
		uint64_t chunks = chunks_for(o, places / count);
		double error = fabs((double)(count * places_of(o, chunks)) / places - 1);

		if (error >= best)
			continue;
		best = error;
		store->partitions = count;
		store->memory_bytes = (uint64_t)servers * count * chunks * CHUNK_BYTES;
	}
}

void
kv_store_size(const struct requests_options *o, uint32_t servers, struct nam_kv_options *store)
{
	uint64_t partitions = o->partitions ? o->partitions : PARTITIONS_DEFAULT;
	uint64_t pair = 128 + 64 * (uint64_t)((o->mixed ? 64 : o->value_bytes) / 52);
	uint64_t keys = o->keys + (uint64_t)((double)o->run.ops * o->insert_percent / 100);

	store->engine = o->engine;
	store->onesided = o->onesided;
	store->partitions = o->partitions;
	/* Twice what the pairs take, for keys do not fall into partitions evenly. */
	store->memory_bytes = 2 * pair * keys + 2 * servers * partitions *
		NAM_KV_PARTITION_BYTES_MIN;
	if (o->load_factor > 0)
		size_by_load_factor(o, servers, store);
}

uint64_t
kv_store_growth(const struct requests_options *o, uint32_t servers,
	const struct nam_kv_options *store)
{
	uint64_t partitions = (uint64_t)servers * store->partitions;

	if (o->engine != NAM_KV_CUCKOO || !(o->load_factor > 0))
		return 0;
	/* A tenth more than there are slots, for keys do not fall into partitions evenly. */
	return places_of(o, store->memory_bytes / partitions / CHUNK_BYTES) * partitions * 11 / 10;
}

/* ---- results ------------------------------------------------------------------------------- */

double
kv_store_load_factor(enum nam_kv_engine engine, const struct nam_kv_stat *stat)
{
	if (engine == NAM_KV_CUCKOO)
		return (double)(stat->keys - stat->stashed) / (double)stat->slots;
	return (double)stat->used_bytes / (double)stat->room_bytes;
}

const char *
kv_store_engine(const struct requests_options *o)
{
	return o->engine == NAM_KV_CHAINED ? "chained" : "cuckoo";
}

/* The fate of the new keys of the run. */
struct inserts {
	uint64_t added, refused, loops, placed;
	uint64_t kicked[NAM_KV_KICKED];	/* of those placed in tables: after so many kick-outs */
};

static struct inserts
inserts_of(const struct requests *bench)
{
	const struct nam_kv_stat *before = &bench->before, *after = &bench->after;
	struct inserts is = {
		.added = after->keys - before->keys,
		.refused = after->refusals - before->refusals,
		.loops = after->loops - before->loops,
	};

	for (unsigned i = 0; i < NAM_KV_KICKED; i++) {
		is.kicked[i] = after->kicked[i] - before->kicked[i];
		is.placed += is.kicked[i];
	}
	return is;
}

/* The share of all inserts that the run tried. */
static double
share_of(uint64_t part, const struct inserts *is)
{
	uint64_t all = is->added + is->refused;

	return all ? (double)part / (double)all : 0;
}

void
kv_store_print(const struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	struct inserts is = inserts_of(bench);

	printf("  load factor %.4f at the beginning, %.4f at the end, of %s\n",
		kv_store_load_factor(o->engine, &bench->before),
		kv_store_load_factor(o->engine, &bench->after),
		o->engine == NAM_KV_CUCKOO ? "the slots" : "the cells");
	if (!is.added && !is.refused)
		return;
	printf("  inserts     %" PRIu64 " new keys, %" PRIu64 " refused", is.added, is.refused);
	if (o->engine == NAM_KV_CUCKOO)
		printf(", %.4g %% predicted to loop", 100 * share_of(is.loops, &is));
	putchar('\n');
	if (!is.placed)
		return;
	printf("  kick-outs  ");
	report_print_powers(is.kicked, NAM_KV_KICKED);
}

void
kv_store_json(const struct requests *bench, cJSON *object)
{
	const struct requests_options *o = &bench->options;
	struct inserts is = inserts_of(bench);

	report_number(object, "load_factor", kv_store_load_factor(o->engine, &bench->before));
	report_number(object, "load_factor_end", kv_store_load_factor(o->engine, &bench->after));
	report_number(object, "partitions", nam_kv_properties(bench->parts->kv)->partitions);
	report_number(object, "inserts", (double)is.added);
	report_number(object, "refused", (double)is.refused);
	if (o->engine != NAM_KV_CUCKOO)
		return;
	report_number(object, "loops", (double)is.loops);
	report_number(object, "loops_share", share_of(is.loops, &is));
	report_number(object, "stashed", (double)bench->after.stashed);
	report_powers(object, "kicked", is.kicked, NAM_KV_KICKED);
}
