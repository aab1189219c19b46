/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sweep.c -- nam_sweep(): completes what dead clients have begun, and marks blocks that names lead
 * to.  It takes entries of rows that nothing leads to out of tables' indexes, and has the rest
 * freed.
 */
#include "compute/worker/pace.h"
#include "txn/sweep.h"

#include <errno.h>
#include <stdlib.h>

#include "compute/client/names.h"
#include "index/maintain/sweep.h"
#include "txn/records/ops.h"
#include "txn/records/protocols.h"
#include "txn/records/view.h"
#include "txn/records/walk.h"
#include "txn/serial/walk.h"
#include "txn/table/rows_internal.h"

struct sweeping {
	struct nam__sweep sweep;
	struct nam_worker *worker;
	bool dry;
	struct nam_sweep_stat *stat;
	bool rows_only;			/* collect stores with the rows of tables */
	struct nam__catalog_name *names;
	uint64_t size;
	uint32_t count;
	struct nam_table **tables;	/* of names of that kind; NULL: dropped meanwhile */
	struct nam_diag diag;
};

/* ---- names ----------------------------------------------------------------------------------- */

static int
on_name(void *arg, const struct nam__catalog_name *name)
{
	struct sweeping *self = arg;
	int rc = nam__reserve(&self->names, self->count + 1, &self->size, sizeof(*self->names));

	if (!rc)
		self->names[self->count++] = *name;
	return rc;
}

NAM_FIBER_FN static int
names_get(struct sweeping *self)
{
	self->count = 0;
	return nam__catalog_list(self->worker, on_name, self); /* SUSPENDS */
}

typedef int (*name_fn)(struct sweeping *self, uint32_t i);

/* The table that has the name, or has an index or a store of that name; or NULL. */
static const char *
table_of(const struct sweeping *self, const struct nam__catalog_name *name)
{
	for (uint32_t i = 0; i < self->count; i++) {
		const char *table = self->names[i].name;
		size_t bytes = strlen(table);

		if (self->names[i].kind == NAM_CATALOG_TABLE &&
			!strncmp(name->name, table, bytes) &&
			(!name->name[bytes] || !strncmp(name->name + bytes, ".by.", 4) ||
				!strcmp(name->name + bytes, ".rows") ||
				!strcmp(name->name + bytes, ".rows.keys") ||
				!strncmp(name->name + bytes, ".rows.index", 11)))
			return table;
	}
	return NULL;
}

static void
name_report(const struct sweeping *self, int rc, const struct nam__catalog_name *name)
{
	const char *table = table_of(self, name);
	struct nam_worker *worker = self->worker;
	struct nam_diag said = worker->diag;

	if (!strstr(said.text, name->name))
		(void)nam_diag_set(&worker->diag, rc, "'%s': %s", name->name,
			said.text[0] ? said.text : nam_err_text(rc));
	said = worker->diag;
	/* Parts of a table are not dropped alone. */
	if (rc == -NAM_E_LOST && table)
		(void)nam_diag_set(&worker->diag, rc, "table '%s' has lost a part, so drop the "
			"table: %s", table, said.text);
}

/* Call fn for all names of that kind.  A name that was dropped meanwhile leads nowhere. */
NAM_FIBER_FN static int
names_each(struct sweeping *self, enum nam_catalog_kind kind, name_fn fn, uint32_t *ret_count)
{
	int rc = 0;

	*ret_count = 0;
	for (uint32_t i = 0; i < self->count && !rc; i++) {
		if (self->names[i].kind != kind)
			continue;
		rc = nam__worker_stopped(self->worker);
		if (!rc)
			rc = fn(self, i); /* SUSPENDS */
		*ret_count += !rc;
		if (rc == -NAM_E_NOINDEX || rc == -NAM_E_DROPPED || rc == -NAM_E_KIND)
			rc = 0;
		if (rc)
			name_report(self, rc, &self->names[i]);
	}
	return rc;
}

/* ---- what dead clients have begun ------------------------------------------------------------ */

NAM_FIBER_FN static int
table_open(struct sweeping *self, uint32_t i)
{
	return nam_table_open(self->worker, self->names[i].name, 0,
		&self->tables[i]); /* SUSPENDS */
}

NAM_FIBER_FN static void
tables_close(struct sweeping *self, uint32_t count)
{
	for (uint32_t i = 0; self->tables && i < count; i++)
		nam_table_close(self->worker, self->tables[i]); /* SUSPENDS */
	free(self->tables);
	self->tables = NULL;
}

/* With its open tables, which delete the entries of versions that are replaced. */
static struct nam_records *
shared(const struct sweeping *self, const struct nam_records *records)
{
	for (uint32_t i = 0; i < self->count; i++)
		if (self->tables[i] && self->tables[i]->store->number == records->store)
			return self->tables[i]->store->records;
	return NULL;
}

NAM_FIBER_FN static int
store_collect(struct sweeping *self, uint32_t i)
{
	const char *name = self->names[i].name;
	struct nam_records_collected done = { 0 };
	struct nam_worker *worker = self->worker;
	struct nam_records *records;
	int rc = nam__records_open(worker, name, 0, NAM__RECORDS_ANY, &records); /* SUSPENDS */

	if (rc)
		return rc;
	if (!self->rows_only || shared(self, records))
		rc = nam_records_collect(worker, shared(self, records) ?: records,
			&done); /* SUSPENDS */
	/* Where memory servers do not know versions, only records lead to them. */
	if (!rc && done.undecided && !records->ops->served)
		rc = done.busy ? nam_diag_set(&worker->diag, -NAM_E_LOCK_TIMEOUT, "record store "
			"'%s': another client completes transactions of dead clients; try again",
			name) : nam_diag_set(&worker->diag, -NAM_E_LOST, "record store '%s': "
			"transactions of dead clients name records on memory servers that are "
			"gone; drop it", name);
	nam_records_close(records);
	return rc;
}

/* G5: later a reader could commit a version that no record leads to yet. */
NAM_FIBER_FN static int
complete(struct sweeping *self)
{
	uint32_t count = 0, ignored;
	int rc = names_get(self); /* SUSPENDS */

	if (!rc && self->count) {
		self->tables = calloc(self->count, sizeof(struct nam_table *));
		count = self->tables ? self->count : 0;
		rc = self->tables ? names_each(self, NAM_CATALOG_TABLE, table_open,
			&ignored) : -ENOMEM; /* SUSPENDS */
	}
	if (!rc && NAM_GUARD(SWEEP_COLLECT))
		rc = names_each(self, NAM_CATALOG_RECORDS, store_collect, &ignored); /* SUSPENDS */
	tables_close(self, count); /* SUSPENDS */
	return rc;
}

/*
 * R10: clients may know heads of a store, or an index, whose dropper has died.  If a client found
 * such a head open, it may retire the version there.  If a collector found the index open, it may
 * retire its nodes.
 */
NAM_FIBER_FN static int
close_unnamed(struct sweeping *self)
{
	uint64_t closed = 0;
	int rc = self->dry || !NAM_GUARD(SWEEP_CLOSE) ? 0 :
		nam__sweep_close(&self->sweep, &closed, &self->diag); /* SUSPENDS */

	return rc || !closed || !NAM_GUARD(SWEEP_CLOSE_WAIT) ? rc :
		nam__sweep_quiesce(&self->sweep, &self->diag); /* SUSPENDS */
}

/* ---- marks ----------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
index_mark(struct sweeping *self, uint32_t i)
{
	return nam__sweep_mark_index(&self->sweep, self->names[i].name); /* SUSPENDS */
}

NAM_FIBER_FN static int
heads_mark(void *arg, const uint8_t *keys, const uint64_t *heads, uint32_t count)
{
	struct sweeping *self = arg;
	int rc = 0;

	(void)keys;
	for (uint32_t i = 0; i < count && !rc; i++)
		rc = nam__sweep_mark_record(&self->sweep, NAM_GADDR(heads[i])); /* SUSPENDS */
	return rc;
}

NAM_FIBER_FN static int
store_mark(struct sweeping *self, uint32_t i)
{
	struct nam_records *records;
	int rc = nam__records_open(self->worker, self->names[i].name, 0, NAM__RECORDS_ANY,
		&records); /* SUSPENDS */

	if (rc)
		return rc;
	rc = nam__entries_walk(self->worker, records->keys, NULL, true, heads_mark,
		self); /* SUSPENDS */
	nam_records_close(records);
	return rc;
}

NAM_FIBER_FN static int
serial_mark(struct sweeping *self, uint32_t i)
{
	return nam__serial_mark(&self->sweep, self->names[i].name); /* SUSPENDS */
}

/* A name that comes after the sweep has begun is of blocks of a living client. */
NAM_FIBER_FN static int
all_mark(struct sweeping *self)
{
	uint32_t *tables = &self->stat->tables;
	uint32_t ignored;
	int rc = names_get(self); /* SUSPENDS */

	*tables = 0;
	for (uint32_t i = 0; i < self->count && !rc; i++) {
		*tables += self->names[i].kind == NAM_CATALOG_TABLE;
		rc = self->names[i].kind == NAM_CATALOG_KV ?
			nam__sweep_mark_object(&self->sweep, self->names[i].entry) : /* SUSPENDS */
			nam__sweep_mark(&self->sweep,
				NAM_GADDR(self->names[i].entry)); /* SUSPENDS */
	}
	if (!rc)
		rc = names_each(self, NAM_CATALOG_INDEX, index_mark,
			&self->stat->indexes); /* SUSPENDS */
	if (!rc)
		rc = names_each(self, NAM_CATALOG_SERIAL, serial_mark, &ignored); /* SUSPENDS */
	return rc ? rc : names_each(self, NAM_CATALOG_RECORDS, store_mark,
		&self->stat->record_stores); /* SUSPENDS */
}

/* ---- entries of rows that nothing leads to --------------------------------------------------- */

/* An index of a table. */
struct tidying {
	struct sweeping *self;
	struct nam_index *index;
	uint32_t bytes;			/* of values in its keys */
};

/* T2: an address is reused when no entry leads there. */
NAM_FIBER_FN static int
some_delete(void *arg, const uint8_t *keys, const uint64_t *heads, uint32_t count)
{
	const struct tidying *tidying = arg;
	struct sweeping *self = tidying->self;
	const uint32_t bytes = tidying->bytes;
	uint64_t addresses[NAM__ENTRIES_MAX] = { 0 }, suspect;
	int rc;

	for (uint32_t i = 0; i < count; i++)
		memcpy(&addresses[i], keys + i * (bytes + NAM__ENTRY_AT_BYTES) + bytes,
			sizeof(addresses[i]));
	rc = nam__sweep_query(&self->sweep, addresses, count, &suspect); /* SUSPENDS */
	for (uint32_t i = 0; i < count && !rc; i++) {
		if (!(suspect >> i & 1))
			continue;
		self->stat->entries++;
		if (self->dry || !NAM_GUARD(SWEEP_ENTRIES))
			continue;
		rc = nam_index_delete_pair(self->worker, tidying->index,
			keys + i * (bytes + NAM__ENTRY_AT_BYTES), heads[i]); /* SUSPENDS */
		if (rc == -NAM_E_NOTFOUND)
			rc = 0;
	}
	return rc;
}

NAM_FIBER_FN static int
table_tidy(struct sweeping *self, uint32_t i)
{
	const uint32_t room = NAM__ENTRIES_MAX * NAM_KEY_BYTES_MAX;
	struct nam_table *table;
	uint8_t *keys;
	int rc = nam_table_open(self->worker, self->names[i].name, 0, &table); /* SUSPENDS */

	if (rc)
		return rc;
	keys = nam_buffer_take(self->worker, room);
	rc = keys ? 0 : -ENOMEM;
	/* Entries of a serializable table lead to records, which stay. */
	for (uint32_t which = 0; which < table->schema.indexes_count && table->indexes[which] &&
		!rc; which++) {
		struct tidying tidying = { self, table->indexes[which],
			table->schema.indexes[which].bytes };

		rc = nam__entries_walk(self->worker, tidying.index, keys, true, some_delete,
			&tidying); /* SUSPENDS */
	}
	nam_buffer_give(self->worker, keys, room);
	nam_table_close(self->worker, table); /* SUSPENDS */
	return rc;
}

/* ---- all ------------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
steps(struct sweeping *self)
{
	struct nam_sweep_stat *stat = self->stat;
	struct nam__swept swept = { .used = { 0 } };
	uint32_t ignored;
	int rc = nam__sweep_open(&self->sweep, self->worker, self->dry,
		&self->diag); /* SUSPENDS */

	*stat = (struct nam_sweep_stat){ .entries = 0 };
	self->sweep.marked = &stat->named.blocks;
	if (!rc)
		rc = complete(self); /* SUSPENDS */
	if (!rc)
		rc = nam__sweep_begin(&self->sweep, &stat->used, &self->diag); /* SUSPENDS */
	if (!rc)
		rc = all_mark(self); /* SUSPENDS */
	if (!rc)
		rc = nam__sweep_quiesce(&self->sweep, &self->diag); /* SUSPENDS */
	if (!rc)
		rc = close_unnamed(self); /* SUSPENDS */
	/*
	 * T3: a client may have been killed since the sweep began.  The rows that it replaced
	 * before they were marked go when all of its transaction is committed.
	 */
	self->rows_only = true;
	if (!rc)
		rc = complete(self); /* SUSPENDS */
	if (!rc)
		rc = names_each(self, NAM_CATALOG_TABLE, table_tidy, &ignored); /* SUSPENDS */
	if (!rc)
		rc = nam__sweep_end(&self->sweep, &swept, &self->diag); /* SUSPENDS */
	stat->used = swept.used;
	stat->named = swept.named;
	stat->freed = swept.suspect;
	stat->parts = swept.objects;
	stat->parts_used_bytes = swept.objects_used_bytes;
	stat->parts_named_bytes = swept.objects_named_bytes;
	stat->parts_freed_bytes = swept.objects_bytes;
	return rc;
}

int
nam_sweep(struct nam_worker *worker, bool dry, struct nam_sweep_stat *ret_stat)
{
	struct sweeping *self;		/* stacks of fibers are small */
	uint64_t word;
	int rc = nam__change_check(worker);

	if (rc)
		return rc;
	self = calloc(1, sizeof(*self));
	if (!self)
		return -ENOMEM;
	rc = nam__sweeper_enter(worker, &word); /* SUSPENDS */
	if (rc)
		goto free_self;
	self->worker = worker;
	self->dry = dry;
	self->stat = ret_stat;
	worker->diag.text[0] = '\0';
	rc = steps(self); /* SUSPENDS */
	if (rc && self->diag.text[0])
		worker->diag = self->diag;
	nam__sweep_free(&self->sweep);
	free(self->names);
	nam__sweeper_leave(worker, word); /* SUSPENDS */
free_self:
	free(self);
	return rc;
}
