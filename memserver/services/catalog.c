/* SPDX-License-Identifier: Apache-2.0 */
/* catalog.c -- server 0 knows the superblock of each index: names, sorted, in its own memory. */
#include "memserver/memserver_internal.h"

#define LIST_MAX ((NAM_RPC_BODY_MAX - (uint32_t)sizeof(struct nam_rpc_catalog_list_reply)) /         \
	(uint32_t)sizeof(struct nam_rpc_catalog_entry))

int
nam__catalog_init(struct nam__catalog *catalog)
{
	memset(catalog, 0, sizeof(*catalog));
	return -pthread_mutex_init(&catalog->mutex, NULL);
}

void
nam__catalog_free(struct nam__catalog *catalog)
{
	free(catalog->entries);
	catalog->entries = NULL;
	(void)pthread_mutex_destroy(&catalog->mutex);
}

/* The first entry whose name is not below this one. */
static uint32_t
lower_bound(const struct nam__catalog *catalog, const char *name)
{
	uint32_t low = 0, high = catalog->count;

	while (low < high) {
		uint32_t middle = low + (high - low) / 2;

		if (strcmp(catalog->entries[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool
is_at(const struct nam__catalog *catalog, uint32_t at, const char *name)
{
	return at < catalog->count && !strcmp(catalog->entries[at].name, name);
}

static struct nam_rpc_catalog_entry *
find(const struct nam__catalog *catalog, const char *name)
{
	uint32_t at = lower_bound(catalog, name);

	return is_at(catalog, at, name) ? &catalog->entries[at] : NULL;
}

static int
check_request(const struct nam__exchange *exchange, uint32_t *ret_count)
{
	const struct nam_rpc_catalog_entry *entries = exchange->body;

	*ret_count = exchange->body_bytes / sizeof(*entries);
	if (exchange->body_bytes % sizeof(*entries))
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < *ret_count; i++)
		if (!entries[i].name[0] ||
			!memchr(entries[i].name, '\0', sizeof(entries[i].name)))
			return -NAM_E_FABRIC_PROTOCOL;
	return 0;
}

static int
put(struct nam__catalog *catalog, const struct nam_rpc_catalog_entry *request)
{
	uint32_t at = lower_bound(catalog, request->name);
	struct nam_rpc_catalog_entry *entry;

	if (!request->superblock)
		return -NAM_E_FABRIC_PROTOCOL;
	if (is_at(catalog, at, request->name))
		return -NAM_E_INDEX_EXISTS;
	if (catalog->count == NAM__CATALOG_MAX)
		return -NAM_E_LIMIT;
	entry = nam__array_grown(catalog->entries, &catalog->size, catalog->count + 1,
		sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	catalog->entries = entry;
	entry = &catalog->entries[at];
	memmove(entry + 1, entry, (catalog->count - at) * sizeof(*entry));
	*entry = (struct nam_rpc_catalog_entry){ .superblock = request->superblock };
	memcpy(entry->name, request->name, strlen(request->name));
	catalog->count++;
	return 0;
}

static void
take(struct nam__catalog *catalog, struct nam_rpc_catalog_entry *entry)
{
	const struct nam_rpc_catalog_entry *end = catalog->entries + catalog->count--;

	memmove(entry, entry + 1, (size_t)(end - entry - 1) * sizeof(*entry));
}

/* M21 */
int
nam__service_catalog_put(struct nam__exchange *exchange)
{
	const struct nam_rpc_catalog_entry *entries = exchange->body;
	struct nam__catalog *catalog = &exchange->server->catalog;
	uint32_t count, done = 0;
	int rc = check_request(exchange, &count);

	NAM__SCOPED_LOCK(&catalog->mutex);
	for (; !rc && done < count; done += !rc)
		rc = put(catalog, &entries[done]);
	while (rc && done-- > 0)
		take(catalog, find(catalog, entries[done].name));
	return rc;
}

int
nam__service_catalog_get(struct nam__exchange *exchange)
{
	const struct nam_rpc_catalog_entry *request = exchange->body, *entry;
	struct nam__catalog *catalog = &exchange->server->catalog;
	uint32_t count;
	int rc = check_request(exchange, &count);

	if (rc)
		return rc;
	NAM__SCOPED_LOCK(&catalog->mutex);
	entry = find(catalog, request->name);
	if (!entry)
		return -NAM_E_NOINDEX;
	memcpy(exchange->reply, entry, sizeof(*entry));
	exchange->reply_bytes = sizeof(*entry);
	return 0;
}

/* M21 */
int
nam__service_catalog_drop(struct nam__exchange *exchange)
{
	const struct nam_rpc_catalog_entry *entries = exchange->body;
	struct nam__catalog *catalog = &exchange->server->catalog;
	struct nam_rpc_catalog_entry *entry;
	uint32_t count;
	int rc = check_request(exchange, &count);

	if (rc)
		return rc;
	NAM__SCOPED_LOCK(&catalog->mutex);
	for (uint32_t i = 0; i < count; i++) {
		entry = find(catalog, entries[i].name);
		if (!entry || entry->superblock != entries[i].superblock)
			return -NAM_E_NOINDEX;
	}
	for (uint32_t i = 0; i < count; i++) {
		entry = find(catalog, entries[i].name);
		if (entry)		/* else the request has it twice */
			take(catalog, entry);
	}
	return 0;
}

int
nam__service_catalog_list(struct nam__exchange *exchange)
{
	const struct nam_rpc_catalog_list_request *request = exchange->body;
	struct nam_rpc_catalog_list_reply *reply = exchange->reply;
	struct nam__catalog *catalog = &exchange->server->catalog;
	uint32_t at, count;

	if (!memchr(request->after, '\0', sizeof(request->after)))
		return -NAM_E_FABRIC_PROTOCOL;
	NAM__SCOPED_LOCK(&catalog->mutex);
	at = lower_bound(catalog, request->after);
	at += is_at(catalog, at, request->after);
	count = MIN(catalog->count - at, LIST_MAX);
	*reply = (struct nam_rpc_catalog_list_reply){ .count = count };
	if (count)
		memcpy(reply->entries, &catalog->entries[at], count * sizeof(reply->entries[0]));
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) + count * sizeof(reply->entries[0]));
	return 0;
}
