/* SPDX-License-Identifier: Apache-2.0 */
/* indexes.c -- the secondary indexes of a store: made, opened and closed with it. */
#include <errno.h>
#include <stdio.h>

#include "indexed.h"

#define NAME_BYTES_MAX 56u

_Static_assert(NAM_TXN_INDEXES_MAX == NAM__SERIAL_INDEXES_MAX, "a superblock has all");
_Static_assert(NAME_BYTES_MAX + sizeof(".index0") == NAM_INDEX_NAME_BYTES, "it fits");

void
nam__serial_index_name(const char *store, uint32_t number, char *ret_text)
{
	(void)snprintf(ret_text, NAM_INDEX_NAME_BYTES, "%.*s.index%u", (int)NAME_BYTES_MAX, store,
		number % 10);
}

int
nam__serial_indexes_check(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options)
{
	const struct nam_txn_index *index = options->indexes;

	if (index->key_bytes && strlen(name) > NAME_BYTES_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "the name of a store with indexes has "
			"up to %u bytes; '%s' has %zu", NAME_BYTES_MAX, name, strlen(name));
	for (uint32_t i = 0; i < NAM_TXN_INDEXES_MAX && index->key_bytes; i++, index++)
		if (index->key_bytes < NAM_KEY_BYTES_MIN || index->key_bytes > NAM_KEY_BYTES_MAX ||
			index->key_bytes > options->value_bytes_max ||
			index->value_offset > options->value_bytes_max - index->key_bytes)
			return nam_diag_set(&worker->diag, -EINVAL, "index %u has %u bytes of a "
				"value from byte %u on: choose %u to %u, within values of up to "
				"%u bytes", i, index->key_bytes, index->value_offset,
				NAM_KEY_BYTES_MIN, NAM_KEY_BYTES_MAX, options->value_bytes_max);
	return 0;
}

int
nam__serial_indexes_make(struct nam_worker *worker, const char *name,
	const struct nam_txn_store_options *options, struct nam_serial_superblock *shape,
	struct nam_rpc_catalog_entry *names, struct nam__serial_indexes_made *ret)
{
	struct nam_index_options index_options;
	int rc = 0;

	ret->count = 0;
	nam_index_options_init(&index_options);
	index_options.unique = false;
	while (!rc && ret->count < NAM_TXN_INDEXES_MAX && options->indexes[ret->count].key_bytes) {
		const uint32_t number = ret->count;
		char text[NAM_INDEX_NAME_BYTES];

		nam__serial_index_name(name, number, text);
		index_options.key_bytes = options->indexes[number].key_bytes;
		rc = nam__index_make(worker, text, &index_options,
			&ret->made[number]); /* SUSPENDS */
		if (rc)
			break;
		shape->indexes[number] = (struct nam_serial_index){
			nam__index_made_entry(ret->made[number]),
			options->indexes[number].value_offset, (uint16_t)index_options.key_bytes,
			options->indexes[number].key_first, 0 };
		names[number] = nam__name_entry(NAM_CATALOG_INDEX, text,
			shape->indexes[number].superblock);
		ret->count++;
	}
	if (rc)
		nam__serial_indexes_made_end(worker, ret, -ECANCELED); /* SUSPENDS */
	return rc;
}

void
nam__serial_indexes_made_end(struct nam_worker *worker, struct nam__serial_indexes_made *made,
	int rc)
{
	for (uint32_t i = 0; i < made->count; i++)
		nam__index_made_end(worker, made->made[i], rc); /* SUSPENDS */
}

int
nam__serial_indexes_open(struct nam_worker *worker, struct nam_txn_store *store,
	uint64_t cache_bytes)
{
	const struct nam_serial_index *indexes = store->shape.indexes;
	char name[NAM_INDEX_NAME_BYTES];

	for (uint32_t i = 0; i < NAM_TXN_INDEXES_MAX && indexes[i].key_bytes; i++) {
		const struct nam_index_options expected = { .design = NAM_DESIGN_FINE,
			.key_bytes = indexes[i].key_bytes };
		struct nam_index *index;
		int rc;

		nam__serial_index_name(store->name, i, name);
		rc = nam_index_open(worker, name, cache_bytes, &index); /* SUSPENDS */
		if (rc)
			return rc;
		store->indexes[store->indexes_count++] = index;
		rc = nam_index_expect(worker, index, &expected);
		if (!rc && nam__index_superblock(index).raw != indexes[i].superblock)
			rc = nam__serial_dropped(worker, store);
		if (rc)
			return rc;
	}
	return 0;
}

void
nam__serial_indexes_close(struct nam_txn_store *store)
{
	for (uint32_t i = 0; i < store->indexes_count; i++)
		nam_index_close(store->indexes[i]);
}
