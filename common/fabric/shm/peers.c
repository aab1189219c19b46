/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c -- the memory servers whose memory a domain has mapped. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "peers.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ 22
#define MADV_POPULATE_WRITE 23
#endif

/* A short command ends before its page tables are built; a long one has them soon. */
#define POPULATE_AFTER_NS 50000000u
#define POPULATE_BYTES (2ull << 20)	/* about 0.4 ms with small pages */

void
nam__shm_peer_free(struct shm_peer *peer)
{
	for (uint32_t i = 0; i < peer->files_count; i++)
		(void)munmap(peer->files[i].map.base, peer->files[i].map.bytes);
	free(peer);
}

uint64_t
nam__shm_peer_known(struct shm_domain *domain, const char *path)
{
	struct shm_peer *peer;
	uint64_t instance = 0;

	pthread_mutex_lock(&domain->mutex);
	LIST_FOREACH(peer, &domain->peers, link) {
		if (!strcmp(peer->path, path))
			instance = peer->instance;
	}
	pthread_mutex_unlock(&domain->mutex);
	return instance;
}

static struct shm_peer *
peer_find_locked(struct shm_domain *domain, uint64_t instance)
{
	struct shm_peer *peer;

	LIST_FOREACH(peer, &domain->peers, link) {
		if (peer->instance == instance) {
			peer->users++;
			break;
		}
	}
	return peer;
}

struct shm_peer *
nam__shm_peer_get(struct shm_domain *domain, uint64_t instance)
{
	struct shm_peer *peer;

	pthread_mutex_lock(&domain->mutex);
	peer = peer_find_locked(domain, instance);
	pthread_mutex_unlock(&domain->mutex);
	return peer;
}

struct shm_peer *
nam__shm_peer_add(struct shm_domain *domain, struct shm_peer *fresh)
{
	struct shm_peer *peer;

	pthread_mutex_lock(&domain->mutex);
	peer = peer_find_locked(domain, fresh->instance);
	if (!peer) {
		fresh->users = 1;
		fresh->populate_ns = nam_now_ns() + POPULATE_AFTER_NS;
		LIST_INSERT_HEAD(&domain->peers, fresh, link);
		peer = fresh;
	}
	pthread_mutex_unlock(&domain->mutex);
	if (peer != fresh)
		nam__shm_peer_free(fresh);
	return peer;
}

/* Spares page faults.  The pages of a withdrawn region belong to others now. */
static void
populate_piece(struct shm_domain *domain, struct shm_peer *peer)
{
	const struct shm_region *region = &peer->regions[peer->populate_region];
	uint64_t all = peer->withdrawn[peer->populate_region] ? 0 : region->bytes;
	uint64_t left = all - peer->populate_offset;
	uint64_t bytes = left < POPULATE_BYTES ? left : POPULATE_BYTES;

	/* Without the mutex, for which workers wait that open or lose a connection. */
	(void)madvise(region->base + peer->populate_offset, bytes,
		nam__shm_is_read_only(peer, peer->populate_region) ? MADV_POPULATE_READ :
			MADV_POPULATE_WRITE);
	pthread_mutex_lock(&domain->mutex);
	peer->populate_offset += bytes;
	if (peer->populate_offset == all) {
		peer->populate_offset = 0;
		peer->populate_region++;
	}
	pthread_mutex_unlock(&domain->mutex);
}

/* A peer whose time has come, with one more user; or NULL, and when to ask again. */
static struct shm_peer *
populate_next(struct shm_domain *domain, int *ret_wait_ms)
{
	uint64_t now = nam_now_ns(), until_ns = UINT64_MAX;
	struct shm_peer *peer;

	pthread_mutex_lock(&domain->mutex);
	LIST_FOREACH(peer, &domain->peers, link) {
		if (peer->populate_region == peer->regions_count)
			continue;
		if (peer->populate_ns <= now) {
			peer->users++;
			break;
		}
		if (peer->populate_ns < until_ns)
			until_ns = peer->populate_ns;
	}
	pthread_mutex_unlock(&domain->mutex);
	*ret_wait_ms = until_ns == UINT64_MAX ? -1 : (int)((until_ns - now) / 1000000u) + 1;
	return peer;
}

int
nam__shm_peers_populate(struct shm_domain *domain)
{
	int wait_ms;
	struct shm_peer *peer = populate_next(domain, &wait_ms);

	if (!peer)
		return wait_ms;
	populate_piece(domain, peer);
	nam__shm_peer_put(domain, peer);
	return 0;
}

void
nam__shm_peer_put(struct shm_domain *domain, struct shm_peer *peer)
{
	pthread_mutex_lock(&domain->mutex);
	if (--peer->users)
		peer = NULL;
	else
		LIST_REMOVE(peer, link);
	pthread_mutex_unlock(&domain->mutex);
	if (peer)
		nam__shm_peer_free(peer);
}
