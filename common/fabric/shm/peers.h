/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h -- the memory servers that a domain has mapped. */
#ifndef NAM_COMMON_FABRIC_SHM_PEERS_H
#define NAM_COMMON_FABRIC_SHM_PEERS_H

#include "shm_internal.h"

/* An instance that this domain has mapped.  Queue pairs of the same rights share the mappings. */
struct shm_peer {
	LIST_ENTRY(shm_peer) link;
	uint64_t instance;
	char path[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
	uint32_t users;		/* domain mutex */
	uint32_t regions_count;
	uint32_t populate_region;	/* the watcher's next piece; only it changes it */
	uint64_t populate_offset, populate_ns;	/* in the region; when it begins */
	bool withdrawn[SHM_REGIONS_MAX];	/* when they were mapped: they are not populated */
	uint32_t files_count;
	struct shm_peer_file {
		struct shm_region map;
		bool read_only;
	} *files;		/* behind the regions, as many */
	struct shm_region regions[];	/* in files */
};

/* Whether the peer's memory of this key is mapped for reading alone. */
static inline bool
nam__shm_is_read_only(const struct shm_peer *peer, uint32_t key)
{
	return (key & SHM_READ_ONLY) || (peer->instance & SHM_FOR_READING);
}

/* The instance that was last seen at this path and is still in use, or 0. */
uint64_t nam__shm_peer_known(struct shm_domain *domain, const char *path);
/* A memory server that is mapped already, with one more user; or NULL. */
struct shm_peer *nam__shm_peer_get(struct shm_domain *domain, uint64_t instance);
/* Two threads may map the same server at once: the second one's mappings are freed. */
struct shm_peer *nam__shm_peer_add(struct shm_domain *domain, struct shm_peer *fresh);
/* The peer has one user less.  The last one unmaps. */
void nam__shm_peer_put(struct shm_domain *domain, struct shm_peer *peer);
/* Unmap a peer that was never added. */
void nam__shm_peer_free(struct shm_peer *peer);
/* Build page tables of one more piece.  Milliseconds until the next; -1: nothing is left. */
int nam__shm_peers_populate(struct shm_domain *domain);

#endif /* NAM_COMMON_FABRIC_SHM_PEERS_H */
