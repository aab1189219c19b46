/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c -- the memory servers whose memory a domain has mapped. */
#include <stdlib.h>
#include <string.h>

#include "shm_internal.h"

void
nam__shm_peer_free(struct shm_peer *peer)
{
	for (uint32_t i = 0; i < peer->regions_count; i++) {
		if (peer->regions[i].base)
			nam__shm_region_unmap(&peer->regions[i]);
	}
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
		LIST_INSERT_HEAD(&domain->peers, fresh, link);
		peer = fresh;
	}
	pthread_mutex_unlock(&domain->mutex);
	if (peer != fresh)
		nam__shm_peer_free(fresh);
	return peer;
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
