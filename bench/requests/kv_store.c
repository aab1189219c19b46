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
#define STASH_SLOTS 8u			/* cuckoo */
#define PARTITIONS_DEFAULT 16u
#define ERROR_SMALL 0.005

/* ---- sizes --------------------------------------------------------------------------------- */

static uint64_t
chained_cells(uint64_t chunks)
{
	return (chunks - (chunks + CHUNKS_PER_BUCKET_CHUNK - 1) / CHUNKS_PER_BUCKET_CHUNK) *
	       CELLS_PER_CHUNK;
}

static uint64_t
cuckoo_slots(uint64_t chunks)
{
	return chunks * CELLS_PER_CHUNK - STASH_SLOTS;
}

static const struct engine {
	const char *name;
	/* Slots of a grown partition of so many chunks; or its cells. */
	uint64_t (*places_of)(uint64_t chunks);
	uint32_t first_bytes;		/* of a pair in its first place; 52 in each other one */
	uint32_t growth_percent;	/* so many pairs for each 100 places, to grow to the full */
	enum nam_kv_engine other;	/* to be compared with */
	const char *suffix;		/* then: of the name of the store */
} engines[] = {
	[NAM_KV_CHAINED] = { "chained", chained_cells, 48, 0, NAM_KV_CUCKOO, "-a" },
	/* A tenth more than there are slots, for keys do not fall into partitions evenly. */
	[NAM_KV_CUCKOO] = { "cuckoo", cuckoo_slots, UINT32_MAX, 110, NAM_KV_CHAINED, "-b" },
};

/* The chunks of a partition that come closest to so many places. */
static uint64_t
chunks_for(const struct engine *engine, double places)
{
	uint64_t chunks = 2;

	while ((double)engine->places_of(chunks) < places)
		chunks++;
	if (chunks > 2 && places - (double)engine->places_of(chunks - 1) <
				  (double)engine->places_of(chunks) - places)
		chunks--;
	return chunks;
}

static uint32_t
places_of_a_pair(const struct requests_options *o)
{
	uint32_t bytes = KV_KEY_BYTES + o->value_bytes, first = engines[o->engine].first_bytes;

	return bytes <= first ? 1 : 1 + (bytes - first + 51) / 52;
}

/* As many partitions as come close to the load factor; few, so that chance fills them alike. */
static void
size_by_load_factor(const struct requests_options *o, uint32_t servers,
	struct nam_kv_options *store)
{
	const struct engine *engine = &engines[o->engine];
	double places = (double)o->keys * places_of_a_pair(o) / o->load_factor / servers;
	uint32_t least = o->partitions ? o->partitions : 1;
	uint32_t most = o->partitions ? o->partitions : PARTITIONS_DEFAULT;
	double best = INFINITY;

	for (uint32_t i = 0; i <= most - least && best > ERROR_SMALL; i++) {
		uint32_t count = most - i;
		uint64_t chunks = chunks_for(engine, places / count);
		double error = fabs((double)(count * engine->places_of(chunks)) / places - 1);

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
	const struct engine *engine = &engines[o->engine];
	uint64_t partitions = (uint64_t)servers * store->partitions;

	if (!(o->load_factor > 0))
		return 0;
	return engine->places_of(store->memory_bytes / partitions / CHUNK_BYTES) * partitions *
	       engine->growth_percent / 100;
}

/* ---- results ------------------------------------------------------------------------------- */

/* The share of slots in use, if the engine has tables; else of cells. */
static double
load_factor(const struct nam_kv_stat *stat)
{
	if (stat->slots)
		return (double)(stat->keys - stat->stashed) / (double)stat->slots;
	return (double)stat->used_bytes / (double)stat->room_bytes;
}

const char *
kv_store_engine(const struct requests_options *o)
{
	return engines[o->engine].name;
}

enum nam_kv_engine
kv_store_other(const struct requests_options *o)
{
	return engines[o->engine].other;
}

const char *
kv_store_suffix(const struct requests_options *o)
{
	return engines[o->engine].suffix;
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
	struct inserts is = inserts_of(bench);

	printf("  load factor %.4f at the beginning, %.4f at the end, of %s\n",
		load_factor(&bench->before), load_factor(&bench->after),
		bench->after.slots ? "the slots" : "the cells");
	if (!is.added && !is.refused)
		return;
	printf("  inserts     %" PRIu64 " new keys, %" PRIu64 " refused", is.added, is.refused);
	if (bench->after.slots)
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
	struct inserts is = inserts_of(bench);

	report_number(object, "load_factor", load_factor(&bench->before));
	report_number(object, "load_factor_end", load_factor(&bench->after));
	report_number(object, "partitions", nam_kv_properties(bench->parts->kv)->partitions);
	report_number(object, "inserts", (double)is.added);
	report_number(object, "refused", (double)is.refused);
	if (!bench->after.slots)
		return;
	report_number(object, "loops", (double)is.loops);
	report_number(object, "loops_share", share_of(is.loops, &is));
	report_number(object, "stashed", (double)bench->after.stashed);
	report_powers(object, "kicked", is.kicked, NAM_KV_KICKED);
}
