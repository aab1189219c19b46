/* SPDX-License-Identifier: Apache-2.0 */
/* peers.h -- the memory servers whose memory a domain has mapped. */
#ifndef NAM_COMMON_FABRIC_SHM_PEERS_H
#define NAM_COMMON_FABRIC_SHM_PEERS_H

#include "shm_internal.h"

/* The instance that was last seen at this path and is still in use, or 0. */
uint64_t nam__shm_peer_known(struct shm_domain *domain, const char *path);
/* A memory server that is mapped already, with one more user; or NULL. */
struct shm_peer *nam__shm_peer_get(struct shm_domain *domain, uint64_t instance);
/* Two threads may map the same server at once: the second one's mappings are freed. */
struct shm_peer *nam__shm_peer_add(struct shm_domain *domain, struct shm_peer *fresh);
/* One user less.  The last one unmaps. */
void nam__shm_peer_put(struct shm_domain *domain, struct shm_peer *peer);
/* Unmap a peer that was never added. */
void nam__shm_peer_free(struct shm_peer *peer);

#endif /* NAM_COMMON_FABRIC_SHM_PEERS_H */
