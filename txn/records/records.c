/* SPDX-License-Identifier: Apache-2.0 */
/*
 * records.c -- record stores by name: create, open, drop, list; and their statistics.
 *
 * A store is made in this order: index of the keys, superblock, names.  It is dropped names first.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "protocols.h"
#include "superblock.h"
#include "unnamed.h"
#include "walk.h"

#define INDEX_KEY_BYTES 16u

_Static_assert(NAM_RECORDS_NAME_BYTES_MAX + sizeof(".keys") == NAM_INDEX_NAME_BYTES, "it fits");

static const struct nam__superblock_kind superblock_kind = { NAM_CATALOG_RECORDS, "record store",
	NAM_RECORDS_MAGIC, NAM_RECORDS_FORMAT, sizeof(struct nam_records_superblock) };

static int
name_check(struct nam_worker *worker, const char *name)
{
	int rc = nam__name_check(worker, NAM_CATALOG_RECORDS, name);

	if (!rc && strlen(name) > NAM_RECORDS_NAME_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "the name of a record store has up to "
			"%u bytes; '%s' has %zu", NAM_RECORDS_NAME_BYTES_MAX, name, strlen(name));
	return rc;
}

static void
keys_name(const char *name, char *ret_text)
{
	(void)snprintf(ret_text, NAM_INDEX_NAME_BYTES, "%.*s.keys", (int)NAM_RECORDS_NAME_BYTES_MAX,
		name);
}

#define BY_STAMPS "it looks for versions by their timestamps, which takes a memory server"

static const struct ramp {
	const char *name, *title;
	bool atomic;
	const char *needs;		/* memory servers, and why */
} ramps[] = {
	[NAM_RAMP_FAST] = { "fast", "RAMP fast", true, NULL },
	[NAM_RAMP_SMALL] = { "small", "RAMP small", true, BY_STAMPS },
	[NAM_RAMP_HYBRID] = { "hybrid", "RAMP hybrid", true, BY_STAMPS },
	[NAM_RAMP_NONE] = { "none", "RAMP none", false, "it is for comparison with those" },
	[NAM_RAMP_LOCKING] = { "2pl", "2pl", true, "memory servers keep its locks" },
};

#define RAMPS_END (sizeof(ramps) / sizeof(ramps[0]))

static const struct ramp *
ramp_of(enum nam_ramp algorithm)
{
	return &ramps[(unsigned)algorithm < RAMPS_END ? algorithm : 0];
}

const char *
nam_ramp_name(enum nam_ramp algorithm)
{
	return ramp_of(algorithm)->name;
}

const char *
nam_ramp_title(enum nam_ramp algorithm)
{
	return ramp_of(algorithm)->title;
}

bool
nam_ramp_is_atomic(enum nam_ramp algorithm)
{
	return ramp_of(algorithm)->atomic;
}

void
nam_records_options_init(struct nam_records_options *options)
{
	*options = (struct nam_records_options){
		.algorithm = NAM_RAMP_FAST,
		.commit = NAM_RECORDS_ONESIDED,
	};
}

static int
options_check(struct nam_worker *worker, const struct nam_records_options *options)
{
	if (!nam_ramp_name(options->algorithm))
		return nam_diag_set(&worker->diag, -EINVAL, "unknown algorithm %d: fast, small, "
			"hybrid, none and 2pl are known", (int)options->algorithm);
	if (options->commit != NAM_RECORDS_ONESIDED && options->commit != NAM_RECORDS_SERVED)
		return nam_diag_set(&worker->diag, -EINVAL, "unknown way %d to commit: one-sided "
			"and served are known", (int)options->commit);
	/* P5 */
	if (options->commit == NAM_RECORDS_ONESIDED && options->algorithm != NAM_RAMP_FAST)
		return nam_diag_set(&worker->diag, -EINVAL, "one-sided commits go with RAMP-Fast "
			"only, not with '%s': %s; let the records be served, or choose fast",
			nam_ramp_name(options->algorithm), ramps[options->algorithm].needs);
	return 0;
}

/* ---- create ---------------------------------------------------------------------------------- */

int
nam__records_make(struct nam_worker *worker, const char *name,
	const struct nam_records_options *options, bool tables,
	struct nam_rpc_catalog_entry *ret_names, struct nam__records_made *ret_made)
{
	struct nam_records_superblock superblock;
	struct nam_records_options defaults;
	struct nam_index_options index_options;
	char keys[NAM_INDEX_NAME_BYTES];
	int rc = name_check(worker, name);

	nam_records_options_init(&defaults);
	options = options ? options : &defaults;
	if (!rc)
		rc = options_check(worker, options);
	if (rc)
		return rc;
	keys_name(name, keys);
	nam_index_options_init(&index_options);
	index_options.key_bytes = INDEX_KEY_BYTES;
	rc = nam__index_make(worker, keys, &index_options, &ret_made->keys); /* SUSPENDS */
	if (rc)
		return rc;
	superblock = (struct nam_records_superblock){
		.magic = NAM_RECORDS_MAGIC,
		.store = nam_entropy(),
		.format = NAM_RECORDS_FORMAT,
		.algorithm = (uint8_t)options->algorithm,
		.commit = (uint8_t)options->commit,
		.tables = tables,
	};
	rc = nam__superblock_make(worker, &superblock_kind, &superblock,
		&ret_made->superblock); /* SUSPENDS */
	if (rc) {
		nam__index_made_end(worker, ret_made->keys, -ECANCELED); /* SUSPENDS */
		return rc;
	}
	ret_names[0] = nam__name_entry(NAM_CATALOG_RECORDS, name, ret_made->superblock.raw);
	ret_names[1] = nam__name_entry(NAM_CATALOG_INDEX, keys,
		nam__index_made_entry(ret_made->keys));
	return 0;
}

void
nam__records_made_end(struct nam_worker *worker, struct nam__records_made *made, int rc)
{
	nam__superblock_made_end(worker, &superblock_kind, made->superblock, rc);
	nam__index_made_end(worker, made->keys, rc); /* SUSPENDS */
}

int
nam__records_create(struct nam_worker *worker, const char *name,
	const struct nam_records_options *options, bool tables)
{
	struct nam_rpc_catalog_entry names[NAM__RECORDS_NAMES];
	struct nam__records_made made;
	int rc = nam__records_make(worker, name, options, tables, names, &made); /* SUSPENDS */

	if (rc)
		return rc;
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__names_put(worker, names, NAM__RECORDS_NAMES); /* SUSPENDS */
	nam__op_end(worker);
	nam__records_made_end(worker, &made, rc); /* SUSPENDS */
	return rc;
}

int
nam_records_create(struct nam_worker *worker, const char *name,
	const struct nam_records_options *options)
{
	return nam__records_create(worker, name, options, false); /* SUSPENDS */
}

/* ---- open ------------------------------------------------------------------------------------ */

NAM_FIBER_FN static int
open_superblock(struct nam_worker *worker, struct nam_records *records)
{
	struct nam_records_superblock superblock;
	int rc = nam__superblock_find(worker, &superblock_kind, records->name, &superblock,
		&records->superblock); /* SUSPENDS */

	if (rc)
		return rc;
	records->store = superblock.store;
	records->options = (struct nam_records_options){
		.algorithm = (enum nam_ramp)superblock.algorithm,
		.commit = (enum nam_records_commit)superblock.commit,
	};
	records->star = records->options.algorithm == NAM_RAMP_FAST;
	records->named = nam__named_choose();
	records->lasting = worker->client->caps & NAM_CAP_LASTING;
	if (options_check(worker, &records->options))
		return -NAM_E_REMOTE_CORRUPT;
	records->ops = nam__records_ops_of(&records->options);
	records->rows = superblock.tables;
	return 0;
}

static int
rows_check(struct nam_worker *worker, const struct nam_records *records,
	enum nam__records_rows rows)
{
	if (rows == NAM__RECORDS_ROWS && !records->rows)
		return nam_diag_set(&worker->diag, -NAM_E_KIND, "record store '%s' was not made "
			"for tables: name another one", records->name);
	if (rows == NAM__RECORDS_NO_ROWS && records->rows)
		return nam_diag_set(&worker->diag, -NAM_E_KIND, "record store '%s' holds the rows "
			"of tables: open these (namctl table list); sweeps collect its versions "
			"(namctl sweep)", records->name);
	return 0;
}

int
nam__records_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes,
	enum nam__records_rows rows, struct nam_records **ret_records)
{
	struct nam_records *records;
	char keys[NAM_INDEX_NAME_BYTES];
	int rc = name_check(worker, name);

	if (rc)
		return rc;
	records = calloc(1, sizeof(*records));
	if (!records)
		return -ENOMEM;
	records->client = worker->client;
	memcpy(records->name, name, strlen(name) + 1);
	rc = open_superblock(worker, records); /* SUSPENDS */
	keys_name(name, keys);
	if (!rc)
		rc = nam_index_open(worker, keys, cache_bytes / 2, &records->keys); /* SUSPENDS */
	if (!rc)
		rc = nam__addresses_new(worker->client, cache_bytes / 2, &records->addresses);
	if (!rc && records->options.algorithm == NAM_RAMP_LOCKING)
		rc = nam__process_locks_new(&records->process_locks);
	if (!rc)
		rc = rows_check(worker, records, rows);
	if (rc)
		nam_records_close(records);
	else
		*ret_records = records;
	return rc;
}

int
nam_records_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes,
	struct nam_records **ret_records)
{
	return nam__records_open(worker, name, cache_bytes, NAM__RECORDS_NO_ROWS,
		ret_records); /* SUSPENDS */
}

void
nam_records_close(struct nam_records *records)
{
	if (!records)
		return;
	nam_index_close(records->keys);
	nam__addresses_free(records->addresses);
	free(records->process_locks);
	free(records);
}

const struct nam_records_options *
nam_records_properties(const struct nam_records *records)
{
	return &records->options;
}

int
nam_records_star(struct nam_worker *worker, struct nam_records *records, int star)
{
	if (!star && records->options.commit == NAM_RECORDS_ONESIDED)
		return nam_diag_set(&worker->diag, -EINVAL, "record store '%s' is committed by "
			"its clients: memory servers do not know its records", records->name);
	if (star && records->options.algorithm == NAM_RAMP_LOCKING)
		return nam_diag_set(&worker->diag, -EINVAL, "record store '%s' is locked by memory "
			"servers: a reader by address has no lock", records->name);
	if (star && records->options.algorithm != NAM_RAMP_FAST)
		return nam_diag_set(&worker->diag, -EINVAL, "record store '%s' is not RAMP-Fast: "
			"its versions do not name their siblings, so none can be read by its "
			"address alone", records->name);
	records->star = star;
	return 0;
}

int
nam_records_list(struct nam_worker *worker, nam_records_list_fn fn, void *arg)
{
	return nam__names_list(worker, NAM_CATALOG_RECORDS, fn, arg); /* SUSPENDS */
}

/* ---- all records ----------------------------------------------------------------------------- */

struct counting {
	struct nam_records_stat stat;
	bool ids[NAM_SERVERS_MAX];	/* a record lies there */
};

NAM_FIBER_FN static int
some_count(struct nam_worker *worker, struct nam_records *records, const struct nam__walked *seen,
	uint32_t count, void *arg)
{
	struct counting *counting = arg;
	struct nam_records_stat *stat = &counting->stat;
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		uint32_t id = nam_gaddr_region(seen[i].at) / NAM_REGIONS_PER_SERVER;
		struct nam__chain chain;

		stat->servers += !counting->ids[id];
		counting->ids[id] = true;
		stat->remote_bytes += NAM_RECORD_HEAD_BYTES;
		nam__chain_begin(&chain, &seen[i]);
		while (nam__chain_next(worker, records, &chain, &rc) ==
			NAM__STEP_MORE) { /* SUSPENDS */
			stat->others++;
			stat->others_bytes += nam__version_stride(nam__version_at_bytes(chain.at));
		}
		if (rc || !seen[i].head.latest)
			continue;
		if (!nam__version_is_of(records, &seen[i].latest, seen[i].at))
			return nam__version_misled(worker, records);
		stat->keys++;
		stat->remote_bytes += nam__version_stride(
			nam__version_at_bytes(NAM_GADDR(seen[i].head.latest)));
		if (seen[i].latest.deleted)
			continue;
		stat->records++;
		stat->value_bytes += seen[i].latest.value_bytes;
	}
	return rc;
}

int
nam_records_stat(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_stat *ret_stat)
{
	struct counting counting = { .stat = { 0 } };
	int rc = nam__records_walk(worker, records, false, some_count, &counting); /* SUSPENDS */

	if (!rc)
		*ret_stat = counting.stat;
	return rc;
}

/* Heads that were overwritten are left as they are, with all that they led to. */
NAM_FIBER_FN static int
some_close(struct nam_worker *worker, struct nam_records *records, const struct nam__walked *seen,
	uint32_t count, void *arg)
{
	struct nam__txn *txn = nam__txn_new(worker, records);
	int rc = txn ? 0 : -ENOMEM;

	(void)arg;
	for (uint32_t i = 0; i < count && !rc; i++) {
		const struct nam_version_sibling record = { .head = seen[i].at.raw };

		if (!seen[i].head.latest ||
			nam__version_is_of(records, &seen[i].latest, seen[i].at))
			nam__txn_add_version(txn, &record, 0);
	}
	if (!rc)
		rc = records->ops->close(txn); /* SUSPENDS */
	for (uint32_t i = 0; txn && i < txn->count && !rc; i++)
		nam_retire(worker, txn->items[i].head, NAM_RECORD_HEAD_BYTES);
	nam__txn_free(txn);
	return rc == -NAM_E_REMOTE_CORRUPT ? 0 : rc;
}

int
nam__records_drop_join(struct nam_worker *worker, const char *name,
	struct nam__records_drop *ret_drop, struct nam_rpc_catalog_entry *names, uint32_t *count)
{
	struct nam_records *records = &ret_drop->records;
	char keys[NAM_INDEX_NAME_BYTES];
	int rc = name_check(worker, name);

	*ret_drop = (struct nam__records_drop){ .records = { .client = worker->client } };
	if (rc)
		return rc;
	memcpy(records->name, name, strlen(name) + 1);
	rc = open_superblock(worker, records); /* SUSPENDS */
	ret_drop->unreadable = nam__is_unreadable(rc);
	if (rc && !ret_drop->unreadable)
		return rc;
	names[(*count)++] = nam__name_entry(NAM_CATALOG_RECORDS, name, records->superblock.raw);
	keys_name(name, keys);
	return nam__index_drop_join(worker, keys, &ret_drop->keys, names, count); /* SUSPENDS */
}

int
nam__records_drop_end(struct nam_worker *worker, struct nam__records_drop *drop, int name_rc)
{
	struct nam_diag said;
	int rc = 0, index_rc;

	if (name_rc)
		return nam__index_drop_end(worker, &drop->keys, name_rc); /* SUSPENDS */
	nam_race_point("records.unnamed");
	/* R12: the name has gone. */
	nam_retire(worker, drop->records.superblock, sizeof(struct nam_records_superblock));
	/* R10: until the index is gone, there is a way to the heads that are retired. */
	nam__labels_hold(worker);
	drop->records.keys = drop->keys.index;
	drop->records.rows = false;	/* entries go with their indexes */
	/* If a part of the index is lost, no record is found. */
	if (drop->keys.index && !drop->keys.lost && !drop->unreadable)
		rc = nam__records_walk(worker, &drop->records, false, some_close,
			NULL); /* SUSPENDS */
	index_rc = nam__index_drop_end(worker, &drop->keys, 0); /* SUSPENDS */
	nam__labels_release(worker);
	if (!index_rc && drop->unreadable)
		return nam_diag_set(&worker->diag, -NAM_E_LOST, "record store '%s' was dropped, "
			"but its superblock does not verify: its records stay allocated until a "
			"sweep", drop->records.name);
	rc = index_rc ? index_rc : rc;
	said = worker->diag;
	return !rc ? 0 : nam_diag_set(&worker->diag, rc, "record store '%s' was dropped, but "
		"some of it stays allocated until a sweep: %s", drop->records.name, said.text);
}

int
nam_records_drop(struct nam_worker *worker, const char *name)
{
	/* G7: without a name, heads and versions are in this client's hands alone. */
	bool pinned = NAM_GUARD(SWEEP_DROP);
	uint64_t epoch = pinned ? nam__epoch_pin(worker) : 0;
	struct nam_rpc_catalog_entry names[NAM__RECORDS_NAMES];
	struct nam__records_drop drop;
	uint32_t count = 0;
	int rc = nam__records_drop_join(worker, name, &drop, names, &count); /* SUSPENDS */

	if (!rc) {
		nam__op_begin(worker, NAM_OP_OTHER);
		rc = nam__names_take(worker, names, count); /* SUSPENDS */
		nam__op_end(worker);
		rc = nam__records_drop_end(worker, &drop, rc); /* SUSPENDS */
	}
	if (pinned)
		nam__epoch_unpin(worker, epoch);
	nam__drop_reclaim(worker); /* SUSPENDS */
	return rc;
}
