/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv_names.c -- stores by name: create, open, drop, list; and their figures.
 *
 * The catalog leads from a name to a number, under which memory servers know the store (K14).
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "compute/client/members.h"
#include "compute/client/names.h"
#include "kv_internal.h"
#include "kv/server/partition.h"

#define MEMORY_BYTES (64ull << 20)
#define PARTITIONS 16u

_Static_assert(NAM_KV_KEY_BYTES_MAX == NAM_RPC_KV_KEY_BYTES_MAX, "as messages have it");
_Static_assert(NAM_KV_VALUE_BYTES_MAX == NAM_RPC_KV_VALUE_BYTES_MAX &&
	NAM_KV_MESSAGE_BYTES_MAX == NAM_RPC_KV_MESSAGE_BYTES_MAX, "as messages have it");
_Static_assert(NAM_KV_KICKED == NAM_RPC_KV_KICKED, "as messages have it");
_Static_assert(NAM_KV_PARTITIONS_MAX == NAM_RPC_KV_PARTITIONS_MAX, "as messages have it");
_Static_assert(NAM_KV_PARTITION_BYTES_MAX == (uint64_t)NAM__KV_CHUNKS_MAX * NAM__KV_CHUNK_BYTES,
	"as memory servers have it");
_Static_assert(offsetof(struct nam_kv_stat, servers) == sizeof(struct nam_rpc_kv_counts),
	"the same counts in the same order");
_Static_assert(NAM_KV_PARTITION_BYTES_MIN == NAM__KV_CHUNKS_MIN * NAM__KV_CHUNK_BYTES,
	"as memory servers have it");

void
nam_kv_options_init(struct nam_kv_options *options)
{
	*options = (struct nam_kv_options){
		.mode = NAM_KV_CACHE,
		.engine = NAM_KV_CHAINED,
		.memory_bytes = MEMORY_BYTES,
	};
}

/* ---- create -------------------------------------------------------------------------------- */

/* Check the options.  @ret_request	of each of `servers` memory servers, but for its number */
static int
request_make(struct nam_worker *worker, const struct nam_kv_options *options, uint32_t servers,
	struct nam_rpc_kv_create_request *ret_request)
{
	uint32_t partitions = options->partitions;
	uint64_t bytes = options->memory_bytes / servers;

	if (options->mode != NAM_KV_CACHE && options->mode != NAM_KV_STORE)
		return nam_diag_set(&worker->diag, -EINVAL, "unknown mode %d of a store: cache "
			"and store are known", (int)options->mode);
	if (options->engine != NAM_KV_CHAINED && options->engine != NAM_KV_CUCKOO)
		return nam_diag_set(&worker->diag, -EINVAL, "unknown engine %d of a store: "
			"chained and cuckoo are known", (int)options->engine);
	if (options->onesided && options->engine != NAM_KV_CUCKOO)
		return nam_diag_set(&worker->diag, -EINVAL, "onesided: only engine cuckoo has "
			"buckets that clients can read");
	if (partitions > NAM_KV_PARTITIONS_MAX)
		return nam_diag_set(&worker->diag, -EINVAL, "%u partitions are more than %u",
			partitions, NAM_KV_PARTITIONS_MAX);
	if (bytes < (uint64_t)NAM_KV_PARTITION_BYTES_MIN * (partitions ? partitions : 1))
		return nam_diag_set(&worker->diag, -EINVAL, "%llu bytes are too few: %u memory "
			"servers with %u partitions each need %llu at least",
			(unsigned long long)options->memory_bytes, servers,
			partitions ? partitions : 1,
			(unsigned long long)NAM_KV_PARTITION_BYTES_MIN * servers *
				(partitions ? partitions : 1));
	if (!partitions)
		partitions = bytes / NAM_KV_PARTITION_BYTES_MIN < PARTITIONS ?
			(uint32_t)(bytes / NAM_KV_PARTITION_BYTES_MIN) : PARTITIONS;
	if (bytes > NAM_KV_PARTITION_BYTES_MAX * partitions)
		return nam_diag_set(&worker->diag, -EINVAL, "%u partitions on each of %u memory "
			"servers are too few for %llu bytes: each has %llu at most", partitions,
			servers, (unsigned long long)options->memory_bytes,
			(unsigned long long)NAM_KV_PARTITION_BYTES_MAX);
	*ret_request = (struct nam_rpc_kv_create_request){
		.store = nam_entropy() >> 16 | 1,
		.memory_bytes = bytes / NAM__KV_CHUNK_BYTES * NAM__KV_CHUNK_BYTES,
		.mode = (uint8_t)options->mode,
		.engine = (uint8_t)options->engine,
		.onesided = options->onesided,
		.partitions = partitions,
		.servers = servers,
	};
	return 0;
}

NAM_FIBER_FN static int
store_drop(struct nam_worker *worker, uint64_t store, const uint16_t *slots, uint32_t count)
{
	struct nam_rpc_kv_request request = { store };
	int rc = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t none = 0;
		int drop_rc = nam_rpc_call(worker, slots[i], NAM_RPC_KV_DROP, &request,
			sizeof(request), NULL, &none); /* SUSPENDS */

		/* Gone already, if the server was restarted, or a client died as it dropped it. */
		if (!rc && drop_rc != -NAM_E_DROPPED)
			rc = drop_rc;
	}
	return rc;
}

NAM_FIBER_FN static int
store_create(struct nam_worker *worker, const char *name,
	struct nam_rpc_kv_create_request *request, const uint16_t *slots)
{
	int rc = 0;

	for (request->number = 0; request->number < request->servers && !rc; request->number++) {
		uint32_t none = 0;

		rc = nam_rpc_call(worker, slots[request->number], NAM_RPC_KV_CREATE, request,
			sizeof(*request), NULL, &none); /* SUSPENDS */
	}
	if (!rc)
		return 0;
	/* The last one may have been made; a memory server that is gone keeps it, nameless. */
	(void)!store_drop(worker, request->store, slots, request->number); /* SUSPENDS */
	if (rc == -NAM_E_REMOTE_FULL)
		return nam_diag_set(&worker->diag, rc, "a memory server has not the %llu bytes "
			"left that are its part of store '%s'. Make it or the servers' "
			"regions smaller, or their memory larger",
			(unsigned long long)request->memory_bytes, name);
	if (rc == -NAM_E_LIMIT)
		return nam_diag_set(&worker->diag, rc, "a memory server has as many stores as it "
			"can have, 256: drop one before '%s' is made", name);
	return rc;
}

int
nam_kv_create(struct nam_worker *worker, const char *name, const struct nam_kv_options *options)
{
	struct nam_rpc_kv_create_request request;
	struct nam__members members;
	uint64_t taken;
	unsigned tries = 0;
	int rc = nam__name_check(worker, NAM_CATALOG_KV, name);

	nam__members_joined(worker->client, &members);
	if (!rc)
		rc = nam__change_check(worker);
	if (!rc)
		rc = request_make(worker, options, members.count, &request);
	if (rc)
		return rc;
again:
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__name_find(worker, NAM_CATALOG_KV, name, &taken); /* SUSPENDS */
	/* Before anything is made that would have to be undone. */
	if (!rc || rc == -NAM_E_KIND)
		rc = nam_diag_set(&worker->diag, -NAM_E_INDEX_EXISTS, "the name '%s' is taken "
			"already: open what has it, drop that, or choose another name", name);
	else if (rc == -NAM_E_NOINDEX)
		rc = store_create(worker, name, &request, members.slots); /* SUSPENDS */
	/* K14: the name comes last. */
	nam_race_point("kv.created");
	if (!rc) {
		rc = nam__name_put(worker, NAM_CATALOG_KV, name, request.store); /* SUSPENDS */
		/* Where it is unknown whether the name is there, it must lead to a store. */
		if (rc && !nam_err_is(rc, NAM_E_FABRIC))
			(void)!store_drop(worker, request.store, members.slots,
				members.count); /* SUSPENDS */
	}
	nam__op_end(worker);
	/* The memory may be in runs of dropped objects. */
	if (rc == -NAM_E_REMOTE_FULL && options->onesided) {
		worker->lacks_stride = NAM__KV_CHUNK_BYTES;
		worker->lacks_count = (uint32_t)(request.memory_bytes / NAM__KV_CHUNK_BYTES);
	}
	if (nam__memory_retry(worker, rc, &tries)) /* SUSPENDS */
		goto again;
	return rc;
}

/* ---- open ---------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
describe(struct nam_worker *worker, uint32_t slot, uint64_t store,
	struct nam_rpc_kv_describe_reply *ret_reply)
{
	struct nam_rpc_kv_request request = { store };
	uint32_t bytes = sizeof(*ret_reply);
	int rc = nam_rpc_call(worker, slot, NAM_RPC_KV_DESCRIBE, &request, sizeof(request),
		ret_reply, &bytes); /* SUSPENDS */

	return !rc && bytes != sizeof(*ret_reply) ? -NAM_E_FABRIC_PROTOCOL : rc;
}

/* The parts of a store, as memory servers tell: they know which part of how many they have. */
struct parts {
	struct nam_rpc_kv_describe_reply first;	/* of the first one that was found */
	uint64_t memory_bytes;		/* of those that were found */
	uint32_t found;
	uint16_t slots[NAM_SERVERS_MAX];	/* by number; UINT16_MAX: not found */
};

static int
part_take(struct nam_worker *worker, const char *name, uint16_t slot,
	const struct nam_rpc_kv_describe_reply *part, struct parts *parts)
{
	const struct nam_rpc_kv_describe_reply *first = &parts->first;

	if (!parts->found)
		parts->first = *part;
	if (!part->partitions || part->partitions > NAM_KV_PARTITIONS_MAX || !part->servers ||
		part->servers > NAM_SERVERS_MAX || part->number >= part->servers ||
		!part->engine || part->engine > NAM_KV_CUCKOO ||
		parts->slots[part->number] != UINT16_MAX || part->servers != first->servers ||
		part->partitions != first->partitions || part->mode != first->mode ||
		part->engine != first->engine || part->onesided != first->onesided)
		return nam_diag_set(&worker->diag, -NAM_E_CLUSTER, "store '%s': what the memory "
			"server at %s keeps is no part of it; drop it", name,
			worker->client->servers[slot].address);
	parts->slots[part->number] = slot;
	parts->memory_bytes += part->memory_bytes;
	parts->found++;
	return 0;
}

/*
 * Ask one memory server after the other until all parts are found.  Servers that were added since
 * the store was made have none, and one that does not answer may be such.
 */
NAM_FIBER_FN static int
parts_find(struct nam_worker *worker, const char *name, uint64_t store, struct parts *parts)
{
	struct nam__members members;
	int failed_rc = 0;

	*parts = (struct parts){ .found = 0 };
	memset(parts->slots, 0xff, sizeof(parts->slots));
	nam__members_installed(worker->client, &members);
	for (uint32_t i = 0; i < members.count; i++) {
		struct nam_rpc_kv_describe_reply part;
		int rc = describe(worker, members.slots[i], store, &part); /* SUSPENDS */

		if (!rc)
			rc = part_take(worker, name, members.slots[i], &part, parts);
		else if (nam_err_is(rc, NAM_E_FABRIC))
			failed_rc = failed_rc ?: rc;
		if (rc && rc != -NAM_E_DROPPED && !nam_err_is(rc, NAM_E_FABRIC))
			return rc;
		if (parts->found && parts->found == parts->first.servers)
			return 0;
	}
	if (failed_rc)
		return failed_rc;
	return nam_diag_set(&worker->diag, -NAM_E_LOST, "%u of the %u memory servers have a part "
		"of store '%s', and there are more parts. A memory server was restarted, or the "
		"store is being dropped. Drop it, and make it anew", parts->found, members.count,
		name);
}

int
nam_kv_open(struct nam_worker *worker, const char *name, struct nam_kv **ret_kv)
{
	struct nam_kv *kv = calloc(1, sizeof(*kv));
	struct parts parts;
	int rc;

	if (!kv)
		return -ENOMEM;
	kv->client = worker->client;
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__name_find(worker, NAM_CATALOG_KV, name, &kv->store); /* SUSPENDS */
	if (!rc) {
		memcpy(kv->name, name, strlen(name) + 1);
		rc = parts_find(worker, name, kv->store, &parts); /* SUSPENDS */
	}
	nam__op_end(worker);
	if (!rc) {
		kv->servers = parts.found;
		memcpy(kv->slots, parts.slots, sizeof(kv->slots));
		kv->options = (struct nam_kv_options){
			.mode = (enum nam_kv_mode)parts.first.mode,
			.engine = (enum nam_kv_engine)parts.first.engine,
			.onesided = parts.first.onesided,
			.partitions = parts.first.partitions,
			.memory_bytes = parts.memory_bytes,
		};
		rc = nam__kv_layouts_init(kv);
	}
	if (rc)
		nam_kv_close(kv);
	else
		*ret_kv = kv;
	return rc;
}

void
nam_kv_close(struct nam_kv *kv)
{
	if (kv)
		nam__kv_layouts_free(kv);
	free(kv);
}

const struct nam_kv_options *
nam_kv_properties(const struct nam_kv *kv)
{
	return &kv->options;
}

/* ---- drop, list, stat ---------------------------------------------------------------------- */

int
nam_kv_drop(struct nam_worker *worker, const char *name)
{
	struct nam__members members;
	uint64_t store;
	int rc;

	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__name_find(worker, NAM_CATALOG_KV, name, &store); /* SUSPENDS */
	nam_race_point("kv.drop_found");
	/* Another store of that name, made meanwhile, is not ours to drop. */
	if (!rc)
		rc = nam__name_take(worker, NAM_CATALOG_KV, name, store); /* SUSPENDS */
	/* K14: the name goes first. */
	nam_race_point("kv.unnamed");
	/* Wherever it lies: those that were added since it was made know nothing of it. */
	nam__members_installed(worker->client, &members);
	if (!rc)
		rc = store_drop(worker, store, members.slots, members.count); /* SUSPENDS */
	nam__op_end(worker);
	return rc;
}

int
nam_kv_list(struct nam_worker *worker, nam_kv_list_fn fn, void *arg)
{
	return nam__names_list(worker, NAM_CATALOG_KV, fn, arg); /* SUSPENDS */
}

int
nam_kv_stat(struct nam_worker *worker, struct nam_kv *kv, struct nam_kv_stat *ret_stat)
{
	struct nam_rpc_kv_counts sum = { 0 };
	int rc = 0;

	nam__op_begin(worker, NAM_OP_OTHER);
	for (uint32_t i = 0; i < kv->servers && !rc; i++) {
		struct nam_rpc_kv_describe_reply part;

		rc = describe(worker, kv->slots[i], kv->store, &part); /* SUSPENDS */
		if (rc)
			break;
		nam_rpc_kv_counts_add(&sum, &part.counts);
	}
	nam__op_end(worker);
	if (rc)
		return rc;
	memcpy(ret_stat, &sum, sizeof(sum));
	ret_stat->servers = kv->servers;
	return 0;
}
