/* SPDX-License-Identifier: Apache-2.0 */
/* store.c -- stores of serializable transactions by name: create, open, drop, list. */
#include <errno.h>
#include <stdlib.h>

#include "common/hash/hash.h"
#include "indexed.h"
#include "txn/records/superblock.h"

#define RECORDS_MAX (1ull << 25)
#define RECORDS_PER_BUCKET 8u
#define CHUNK_BUCKETS 32u		/* at least, if there are several */

static const struct nam__superblock_kind superblock_kind = { NAM_CATALOG_SERIAL,
	"store of serializable transactions", NAM_SERIAL_MAGIC, NAM_SERIAL_FORMAT,
	sizeof(struct nam_serial_superblock) };

/* ---- options --------------------------------------------------------------------------------- */

void
nam_txn_store_options_init(struct nam_txn_store_options *options)
{
	*options = (struct nam_txn_store_options){
		.key_bytes_max = 32,
		.value_bytes_max = 256,
		.records = 1u << 16,
	};
}

/* Z10: each word is CASed by NICs only, or by CPUs only, unless both are atomic together. */
static int
phases_check(struct nam_worker *worker, const struct nam_txn_store_options *options,
	uint32_t phases)
{
	const uint32_t words = NAM_TXN_LOCK_RPC | NAM_TXN_COMMIT_RPC;
	bool cpu = options->phases & NAM_TXN_LOCK_RPC;

	if (phases & ~(uint32_t)NAM_TXN_PHASES)
		return nam_diag_set(&worker->diag, -EINVAL, "phases %#x: choose some "
			"of enum nam_txn_phase", phases);
	if (phases & NAM_TXN_LOCK_EARLY &&
		(~phases & (NAM_TXN_EXECUTE_RPC | NAM_TXN_LOCK_RPC)))
		return nam_diag_set(&worker->diag, -EINVAL, "phases %#x: LOCK_EARLY goes with "
			"EXECUTE_RPC and LOCK_RPC", phases);
	if (phases & NAM_TXN_RPC &&
		options->key_bytes_max + options->value_bytes_max > NAM_TXN_RPC_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "phases by RPC, with keys of up to %u "
			"and values of up to %u bytes: choose up to %u together",
			options->key_bytes_max, options->value_bytes_max, NAM_TXN_RPC_BYTES_MAX);
	if ((worker->client->caps & NAM_CAP_ATOMIC_VS_CPU) ||
		(phases & words) == (cpu ? words : 0))
		return 0;
	return nam_diag_set(&worker->diag, -NAM_E_FABRIC_CAPABILITY, "this fabric's CAS is not "
		"atomic against the memory server's CPU (no ATOMIC_VS_CPU): lock and commit of "
		"this store both go %s", cpu ? "by RPC" : "one-sided");
}

static int
options_check(struct nam_worker *worker, const struct nam_txn_store_options *options)
{
	if (!options->key_bytes_max || options->key_bytes_max > NAM_TXN_KEY_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "keys of up to %u bytes: choose 1 to "
			"%u", options->key_bytes_max, NAM_TXN_KEY_BYTES_MAX);
	if (options->value_bytes_max > NAM_TXN_VALUE_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "values of up to %u bytes: choose up "
			"to %u", options->value_bytes_max, NAM_TXN_VALUE_BYTES_MAX);
	if (!options->records || options->records > RECORDS_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "%llu records: choose 1 to %llu",
			(unsigned long long)options->records, RECORDS_MAX);
	return phases_check(worker, options, options->phases);
}

/* The stride of a record, which must not be one of nodes. */
static uint32_t
stride_of(const struct nam_txn_store_options *options)
{
	uint32_t bytes = nam__version_bytes(nam__serial_bytes(options->key_bytes_max,
		options->value_bytes_max));

	return bytes + (nam_stride_is_of_nodes(bytes) ? NAM_GADDR_UNIT_BYTES : 0);
}

/* Powers of two, so that hashes select by masks. */
static void
shape_choose(struct nam_serial_superblock *shape)
{
	uint64_t buckets = 1;

	while (buckets * RECORDS_PER_BUCKET < shape->records)
		buckets *= 2;
	shape->chunk_buckets = buckets < CHUNK_BUCKETS ? (uint32_t)buckets : CHUNK_BUCKETS;
	while (buckets / shape->chunk_buckets > NAM__SERIAL_CHUNKS_MAX)
		shape->chunk_buckets *= 2;
	shape->chunks_count = (uint32_t)(buckets / shape->chunk_buckets);
}

static uint32_t
chunk_bytes(const struct nam_serial_superblock *shape)
{
	return shape->chunk_buckets * (uint32_t)sizeof(struct nam_serial_bucket);
}

struct nam_gaddr
nam__serial_bucket_of(const struct nam_txn_store *store, const struct nam__record_id *id)
{
	const struct nam_serial_superblock *shape = &store->shape;
	uint64_t number = id->word[1];
	struct nam_gaddr chunk = NAM_GADDR(shape->chunks[number & (shape->chunks_count - 1)]);
	uint64_t bucket = number >> 32 & (shape->chunk_buckets - 1);

	return nam_gaddr_make(nam_gaddr_region(chunk), nam_gaddr_offset(chunk) +
		bucket * sizeof(struct nam_serial_bucket), 0);
}

struct nam_gaddr
nam__serial_bucket_behind(uint64_t next, const struct nam__record_id *id, uint32_t depth)
{
	uint64_t which = id->word[0] >> 3 * depth & (NAM__SERIAL_NEXT - 1);

	return nam_gaddr_make(nam_gaddr_region(NAM_GADDR(next)), nam_gaddr_offset(NAM_GADDR(next)) +
		which * sizeof(struct nam_serial_bucket), 0);
}

/* ---- create ---------------------------------------------------------------------------------- */

/* R12: before the name, WRITE the chunk: each bucket with that store, and without slots. */
NAM_FIBER_FN static int
chunk_write(struct nam_worker *worker, const struct nam_serial_superblock *shape,
	struct nam_gaddr at, uint64_t store)
{
	const uint32_t bytes = chunk_bytes(shape);
	struct nam_serial_bucket *buckets = nam_buffer_take(worker, bytes);
	int rc;

	if (!buckets)
		return -ENOMEM;
	memset(buckets, 0, bytes);
	for (uint32_t i = 0; i < shape->chunk_buckets; i++)
		buckets[i].store = store;
	rc = nam_write_await(worker, at, buckets, bytes); /* SUSPENDS */
	nam_buffer_give(worker, buckets, bytes);
	return rc;
}

/* R12: before the name, make the log directory, which is empty. */
NAM_FIBER_FN static int
logs_make(struct nam_worker *worker, struct nam_serial_superblock *shape)
{
	void *zeroes = nam_buffer_take(worker, NAM__SERIAL_LOGS_BYTES);
	struct nam_gaddr at;
	int rc;

	if (!zeroes)
		return -ENOMEM;
	memset(zeroes, 0, NAM__SERIAL_LOGS_BYTES);
	rc = nam_alloc(worker, NAM__SERIAL_LOGS_BYTES, &at); /* SUSPENDS */
	if (!rc) {
		shape->logs = nam_gaddr_untagged(at).raw;
		rc = nam_write_await(worker, NAM_GADDR(shape->logs), zeroes,
			NAM__SERIAL_LOGS_BYTES); /* SUSPENDS */
	}
	nam_buffer_give(worker, zeroes, NAM__SERIAL_LOGS_BYTES);
	return rc;
}

/* Free the parts of a store that no other client knows. */
static void
parts_free(struct nam_worker *worker, const struct nam_serial_superblock *shape)
{
	for (uint32_t i = 0; i < shape->chunks_count && shape->chunks[i]; i++)
		nam_free_unseen(worker, NAM_GADDR(shape->chunks[i]), chunk_bytes(shape));
	if (shape->logs)
		nam_free_unseen(worker, NAM_GADDR(shape->logs), NAM__SERIAL_LOGS_BYTES);
}

NAM_FIBER_FN static int
parts_make(struct nam_worker *worker, struct nam_serial_superblock *shape)
{
	struct nam_gaddr at;
	int rc;

	nam__op_begin(worker, NAM_OP_OTHER);
	rc = logs_make(worker, shape); /* SUSPENDS */
	for (uint32_t i = 0; i < shape->chunks_count && !rc; i++) {
		rc = nam_alloc_evenly(worker, chunk_bytes(shape), &at); /* SUSPENDS */
		if (rc)
			break;
		shape->chunks[i] = nam_gaddr_untagged(at).raw;
		rc = chunk_write(worker, shape, NAM_GADDR(shape->chunks[i]),
			shape->store); /* SUSPENDS */
	}
	nam__op_end(worker);
	return rc;
}

int
nam__serial_store_make(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options, bool tables,
	struct nam_rpc_catalog_entry *names, uint32_t *count, struct nam__serial_made *ret_made)
{
	struct nam_serial_superblock *shape;
	int rc = nam__name_check(worker, NAM_CATALOG_SERIAL, name);

	if (!rc)
		rc = options_check(worker, options);
	if (!rc)
		rc = nam__serial_indexes_check(worker, name, options);
	if (rc)
		return rc;
	shape = ret_made->shape = calloc(1, sizeof(*shape));
	if (!shape)
		return -ENOMEM;
	shape->magic = NAM_SERIAL_MAGIC;
	shape->store = nam_entropy();
	shape->format = NAM_SERIAL_FORMAT;
	shape->key_bytes_max = (uint16_t)options->key_bytes_max;
	shape->value_bytes_max = options->value_bytes_max;
	shape->records = options->records;
	shape->phases = options->phases;
	shape->tables = tables;
	shape_choose(shape);
	rc = nam__serial_indexes_make(worker, name, options, shape, names + *count + 1,
		&ret_made->indexes); /* SUSPENDS */
	if (rc)
		goto free_shape;
	rc = parts_make(worker, shape); /* SUSPENDS */
	if (!rc)
		rc = nam__superblock_make(worker, &superblock_kind, shape,
			&ret_made->at); /* SUSPENDS */
	if (rc)
		goto free_parts;
	/* R12: all that the names lead to is written. */
	names[*count] = nam__name_entry(NAM_CATALOG_SERIAL, name, ret_made->at.raw);
	*count += 1 + ret_made->indexes.count;
	return 0;
free_parts:
	nam__serial_indexes_made_end(worker, &ret_made->indexes, -ECANCELED); /* SUSPENDS */
	parts_free(worker, shape);
free_shape:
	free(shape);
	return rc;
}

void
nam__serial_store_made_end(struct nam_worker *worker, struct nam__serial_made *made, int rc)
{
	nam__superblock_made_end(worker, &superblock_kind, made->at, rc);
	nam__serial_indexes_made_end(worker, &made->indexes, rc); /* SUSPENDS */
	if (rc && !nam_err_is(rc, NAM_E_FABRIC))
		parts_free(worker, made->shape);
	free(made->shape);
}

int
nam__serial_store_create(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options, bool tables)
{
	struct nam_rpc_catalog_entry names[NAM__SERIAL_NAMES];
	struct nam__serial_made made;
	uint32_t count = 0;
	int rc = nam__serial_store_make(worker, name, options, tables, names, &count,
		&made); /* SUSPENDS */

	if (rc)
		return rc;
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__names_put(worker, names, count); /* SUSPENDS */
	nam__op_end(worker);
	nam__serial_store_made_end(worker, &made, rc); /* SUSPENDS */
	return rc;
}

int
nam_txn_store_create(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options)
{
	struct nam_txn_store_options defaults;

	nam_txn_store_options_init(&defaults);
	return nam__serial_store_create(worker, name, options ? options : &defaults,
		false); /* SUSPENDS */
}

/* ---- open ------------------------------------------------------------------------------------ */

static bool
is_power(uint32_t number)
{
	return number && !(number & (number - 1));
}

NAM_FIBER_FN static int
shape_find(struct nam_worker *worker, struct nam_txn_store *store)
{
	struct nam_serial_superblock *shape = &store->shape;
	int rc = nam__name_check(worker, NAM_CATALOG_SERIAL, store->name);

	if (!rc)
		rc = nam__superblock_find(worker, &superblock_kind, store->name, shape,
			&store->superblock); /* SUSPENDS */
	if (rc)
		return rc;
	store->store = shape->store;
	store->options = (struct nam_txn_store_options){ .key_bytes_max = shape->key_bytes_max,
		.value_bytes_max = shape->value_bytes_max, .records = shape->records,
		.phases = shape->phases };
	store->phases = shape->phases;
	for (uint32_t i = 0; i < NAM_TXN_INDEXES_MAX; i++)
		store->options.indexes[i] = (struct nam_txn_index){ shape->indexes[i].value_offset,
			shape->indexes[i].key_bytes, shape->indexes[i].key_first };
	store->stride = stride_of(&store->options);
	rc = options_check(worker, &store->options);
	if (rc == -NAM_E_FABRIC_CAPABILITY)
		return rc;
	if (rc || nam__serial_indexes_check(worker, store->name, &store->options) ||
		!is_power(shape->chunks_count) ||
		shape->chunks_count > NAM__SERIAL_CHUNKS_MAX || !is_power(shape->chunk_buckets))
		return -NAM_E_REMOTE_CORRUPT;
	return 0;
}

int
nam__serial_open(struct nam_worker *worker, const char *name, struct nam_txn_store **ret_store)
{
	struct nam_txn_store *store;
	int rc = nam__name_check(worker, NAM_CATALOG_SERIAL, name);

	if (rc)
		return rc;
	store = calloc(1, sizeof(*store));
	if (!store)
		return -ENOMEM;
	store->client = worker->client;
	memcpy(store->name, name, strlen(name) + 1);
	/* If a generation begins meanwhile, the first transaction looks again. */
	atomic_init(&store->generation, nam__generation(worker->client));
	atomic_init(&store->users, 1);
	rc = shape_find(worker, store); /* SUSPENDS */
	if (rc)
		nam_txn_store_close(store);
	else
		*ret_store = store;
	return rc;
}

static int
tables_check(struct nam_worker *worker, const struct nam_txn_store *store, bool tables)
{
	if (store->shape.tables == tables)
		return 0;
	return nam_diag_set(&worker->diag, -NAM_E_KIND, tables ? "store '%s' was not made for "
		"tables: name another one" : "store '%s' holds the rows of tables: open these "
		"(namctl table list)", store->name);
}

int
nam__serial_store_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes,
	bool tables, struct nam_txn_store **ret_store)
{
	struct nam_txn_store *store;
	int rc = nam__serial_open(worker, name, &store); /* SUSPENDS */

	if (rc)
		return rc;
	rc = tables_check(worker, store, tables);
	if (!rc)
		rc = nam__addresses_new(worker->client, cache_bytes, &store->addresses);
	if (!rc)
		rc = nam__serial_indexes_open(worker, store, cache_bytes); /* SUSPENDS */
	if (rc)
		nam_txn_store_close(store);
	else
		*ret_store = store;
	return rc;
}

int
nam_txn_store_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes,
	struct nam_txn_store **ret_store)
{
	return nam__serial_store_open(worker, name, cache_bytes, false,
		ret_store); /* SUSPENDS */
}

void
nam__serial_unref(struct nam_txn_store *store)
{
	/* Release: each user's stores come before the end, which acquires them. */
	if (atomic_fetch_sub_explicit(&store->users, 1, memory_order_acq_rel) > 1)
		return;
	nam__serial_logs_free(store);
	nam__serial_indexes_close(store);
	nam__addresses_free(store->addresses);
	free(store);
}

void
nam_txn_store_close(struct nam_txn_store *store)
{
	if (store)
		nam__serial_unref(store);
}

int
nam_txn_store_phases_set(struct nam_worker *worker, struct nam_txn_store *store, uint32_t phases)
{
	int rc = phases_check(worker, &store->options, phases);

	if (!rc)
		store->phases = phases;
	return rc;
}

const struct nam_txn_store_options *
nam_txn_store_properties(const struct nam_txn_store *store)
{
	return &store->options;
}

int
nam_txn_store_list(struct nam_worker *worker, nam_txn_store_list_fn fn, void *arg)
{
	return nam__names_list(worker, NAM_CATALOG_SERIAL, fn, arg); /* SUSPENDS */
}

/*
 * Once a generation has begun, chunks of a dropped store may be anything (Z8).  If the name still
 * leads to the store, it is not dropped, and its chunks are where they were.
 */
int
nam__serial_check(struct nam_txn *txn)
{
	struct nam_txn_store *store = txn->store;
	unsigned generation = nam__generation(store->client);
	uint64_t entry = 0;
	int rc;

	if (txn->checked || generation == atomic_load(&store->generation)) {
		txn->checked = true;
		return 0;
	}
	rc = nam__name_find(txn->worker, NAM_CATALOG_SERIAL, store->name, &entry); /* SUSPENDS */
	if (rc == -NAM_E_NOINDEX || rc == -NAM_E_KIND ||
		(!rc && entry != store->superblock.raw))
		return nam__serial_dropped(txn->worker, store);
	if (rc)
		return rc;
	atomic_store(&store->generation, generation);
	txn->checked = true;
	return 0;
}
