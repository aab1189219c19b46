/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_server.h -- a memory server without a fabric: what its services work on, and one handler.
 */
#ifndef NAM_TESTS_FUZZ_FUZZ_SERVER_H
#define NAM_TESTS_FUZZ_FUZZ_SERVER_H

#include "fuzz_input.h"
#include "memserver/memserver_internal.h"
#include "memserver/stores.h"
#include "memserver/trees.h"

struct fuzz_server {
	struct nam_server server;
	struct nam_domain domain;	/* promises nothing */
	_Alignas(8) uint8_t meta[NAM_META_BYTES];
	_Alignas(64) uint8_t memory[1u << 21 | 1u << 18];
};

static inline uint8_t *
fuzz_base(void *arg, uint32_t region)
{
	return ((struct nam_server *)arg)->memory.bases[region];
}

/* No client has the memory. */
static inline int
fuzz_withdraw(void *arg, uint32_t region)
{
	((struct nam_server *)arg)->memory.kinds[region] = NAM_MEMORY_PRIVATE;
	return 0;
}

static inline int
fuzz_restore(void *arg, uint32_t region, enum nam_memory_kind kind)
{
	((struct nam_server *)arg)->memory.kinds[region] = (uint8_t)kind;
	return 0;
}

static inline struct fuzz_server *
fuzz_server_new(uint32_t id)
{
	static const uint64_t regions[] = { 1u << 18, 1u << 21 };
	struct fuzz_server *fixture = aligned_alloc(_Alignof(struct fuzz_server),
		sizeof(*fixture));
	struct nam_server *server = &fixture->server;
	const struct nam__allocator_memory calls = { server, fuzz_base, fuzz_withdraw,
		fuzz_restore };

	if (!fixture)
		abort();
	memset(fixture, 0, sizeof(*fixture));
	server->options.id = id;
	server->options.rpc_threads = 1;
	server->boot = 1;
	server->domain = &fixture->domain;
	atomic_init(&server->work_clock, 1);
	server->proof.fd = -1;		/* as where regions are no files */
	server->memory.count = 2;
	server->memory.bytes = regions[0] + regions[1];
	for (unsigned i = 0; i < 2; i++) {
		server->memory.public_bases[i] = fixture->memory + (i ? regions[0] : 0);
		server->memory.bases[i] = server->memory.public_bases[i];
		server->memory.mrs[i] = (struct nam_mr){
			.base = server->memory.bases[i],
			.bytes = regions[i],
		};
	}
	server->handlers[0].server = server;
	server->handlers[0].scratch = fuzz_memory(NAM__TREE_SCRATCH_BYTES);
	if (nam__allocator_init(&server->allocator, nam__first_region_id(server), regions, 2,
		    NAM_META_BYTES, &calls) ||
		nam__catalog_init(&server->catalog) ||
		nam__membership_init(&server->membership, id ? NULL : fixture->meta) ||
		nam__noted_init(&server->noted) ||
		nam__objects_init(&server->trees, NAM__CATALOG_MAX, nam__tree_free) ||
		nam__objects_init(&server->stores, NAM__STORES_MAX, nam__store_free))
		abort();
	server->membership.notes_lost = &server->noted.lost;
	return fixture;
}

/* All connections must have been detached from its membership. */
static inline void
fuzz_server_free(struct fuzz_server *fixture)
{
	nam__objects_free(&fixture->server.stores);
	nam__objects_free(&fixture->server.trees);
	free(fixture->server.handlers[0].scratch);
	nam__allocator_free(&fixture->server.allocator);
	nam__catalog_free(&fixture->server.catalog);
	nam__membership_free(&fixture->server.membership);
	nam__noted_free(&fixture->server.noted);
	free(fixture);
}

#endif /* NAM_TESTS_FUZZ_FUZZ_SERVER_H */
