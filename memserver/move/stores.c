/* SPDX-License-Identifier: Apache-2.0 */
/* stores.c -- key-value stores in books (books.h), and the pieces of their chunks. */
#include "books.h"
#include "memserver/stores.h"

_Static_assert(NAM_MOVE_CHUNK_BYTES == NAM__KV_CHUNK_BYTES, "pieces are of chunks");

static struct nam__store *
store_at(const struct nam_server *server, uint32_t slot)
{
	return (struct nam__store *)nam__objects_at(&server->stores, slot);
}

int
nam__books_stores_count(struct nam__handler *handler, uint32_t *ret_stores,
	uint32_t *ret_partitions)
{
	const struct nam_server *server = handler->server;
	int rc = 0;

	*ret_stores = *ret_partitions = 0;
	nam__work_begin(handler);
	for (uint32_t slot = 0; slot < server->stores.slots_count; slot++) {
		const struct nam__store *store = store_at(server, slot);

		if (!store)
			continue;
		/* Clients have the addresses of its chunks. */
		if (store->shape.onesided)
			rc = -NAM_E_UNMOVABLE;
		*ret_stores += 1;
		*ret_partitions += store->shape.partitions;
	}
	nam__work_end(handler);
	return rc;
}

void
nam__books_stores_copy(struct nam__handler *handler, struct nam_move_head *head, uint32_t stores,
	uint32_t partitions)
{
	const struct nam_server *server = handler->server;
	struct nam__books_parts parts = nam__books_parts((const void *)head);
	struct nam_rpc_kv_image *image;
	struct nam__store *store;

	nam__work_begin(handler);
	for (uint32_t slot = 0; slot < server->stores.slots_count && head->stores < stores; slot++)
		if ((store = store_at(server, slot)) != NULL)
			parts.stores[head->stores++] = (struct nam_move_store){
				.create = store->shape,
				.owner = store->object.owner,
				.chunks = store->chunks_count,
			};
	image = nam__books_parts((const void *)head).partitions;
	for (uint32_t i = 0; i < head->stores; i++) {
		store = (struct nam__store *)nam__objects_find(&server->stores,
			parts.stores[i].create.store);
		for (uint32_t k = 0; store && k < store->shape.partitions &&
			head->partitions < partitions; k++, head->partitions++)
			nam__kv_partition_image(&store->partitions[k], image++);
	}
	nam__work_end(handler);
}

/* *image moves on behind those of the store. */
static int
store_make(struct nam_server *server, const struct nam_move_store *from,
	const struct nam_rpc_kv_image **image, const struct nam_rpc_kv_image *images_end)
{
	struct nam__store *store;
	bool ok = true;
	int rc;

	if (from->owner >= NAM_CLIENTS_MAX || from->reserved || from->create.onesided ||
		from->create.partitions > (uint64_t)(images_end - *image))
		return -NAM_E_FABRIC_PROTOCOL;
	rc = nam__store_new(server, &from->create, &store);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < store->shape.partitions && ok; i++)
		ok = nam__kv_partition_take(&store->partitions[i], (*image)++);
	if (!ok || store->chunks_count != from->chunks) {
		nam__store_free(&store->object);
		return -NAM_E_FABRIC_PROTOCOL;
	}
	store->object.owner = from->owner;
	return nam__objects_enter(&server->stores, &store->object);
}

int
nam__books_stores_make(struct nam_server *server, const struct nam_move_head *head,
	const struct nam__books_parts *parts)
{
	const struct nam_rpc_kv_image *image = parts->partitions;
	const struct nam_rpc_kv_image *end = image + head->partitions;
	uint32_t made = 0;
	int rc = 0;

	for (; made < head->stores && !rc; made += !rc)
		rc = store_make(server, &parts->stores[made], &image, end);
	if (!rc && image != end)
		rc = -NAM_E_FABRIC_PROTOCOL;
	while (rc && made-- > 0)
		(void)!nam__objects_drop(&server->stores, server, parts->stores[made].create.store);
	nam__objects_idle(&server->stores, server);
	return rc;
}

int
nam__store_piece(struct nam__exchange *exchange, const struct nam_rpc_move_request *request,
	uint32_t page_bytes, uint8_t **ret)
{
	const struct nam_rpc_move_piece *piece = (const void *)request->page;
	uint64_t chunk = request->at / NAM__KV_CHUNK_BYTES;
	uint64_t offset = request->at % NAM__KV_CHUNK_BYTES;
	struct nam__store *store;

	if (page_bytes < sizeof(*piece) || piece->reserved || !piece->bytes ||
		piece->bytes > MIN(NAM_MOVE_PIECE_BYTES, NAM__KV_CHUNK_BYTES - offset))
		return -NAM_E_FABRIC_PROTOCOL;
	store = (struct nam__store *)nam__objects_find(&exchange->server->stores, piece->store);
	if (!store || chunk >= store->chunks_count)
		return store ? -NAM_E_FABRIC_PROTOCOL : -NAM_E_DROPPED;
	*ret = store->chunks[chunk] + offset;
	return 0;
}
