/* SPDX-License-Identifier: Apache-2.0 */
/*
 * peers.h -- datagrams to other clients: a worker's endpoint, and the names of the others'.
 *
 * A client's name lies on server 0, behind the epoch slots.  It is that of the endpoint of one of
 * its workers, which takes datagrams for all of them.  The epoch thread reads the names of others
 * after some have changed, so that no operation waits for them.
 */
#ifndef NAM_COMPUTE_CLIENT_PEERS_H
#define NAM_COMPUTE_CLIENT_PEERS_H

#include "common/fabric/endpoint.h"
#include "compute/worker/worker.h"

/* A worker of a client.  number 0: the one that the client's name says. */
struct nam__peer_id {
	uint16_t client, incarnation;
	uint32_t number;
};

struct nam__peer {
	uint16_t incarnation;		/* 0: unknown */
	uint32_t handle, number;
};

#define NAM__NAMES_LEARNT 64u		/* READ where one is missing */

struct nam__peers {
	struct nam__completion completion;	/* first: datagrams have arrived */
	struct nam_endpoint *endpoint;
	struct nam_endpoint_name name;		/* its own */
	uint64_t unit_ns;			/* about a round trip */
	/* when names were last READ here, for each group of NAM__NAMES_LEARNT ids */
	uint64_t learnt_ns[NAM_CLIENTS_MAX / NAM__NAMES_LEARNT];
	struct nam__peer known[NAM_CLIENTS_MAX];
};

/*
 * Open an endpoint for a connected worker, and publish its name if the client has none.
 *
 * @arrived	called in completions, with datagrams to receive
 *
 * Without endpoints on this fabric worker->peers stays NULL.  -ENOMEM.  Cost: 1 WRITE, if any.
 */
NAM_FIBER_FN int nam__peers_open(struct nam_worker *worker, void (*arrived)(struct nam_worker *,
	struct nam__completion *, const struct nam_wc *)) NAM_MUST_CHECK;
/* The client's name becomes another worker's, or ends.  Cost: 1 WRITE, if it was this one's. */
NAM_FIBER_FN void nam__peers_withdraw(struct nam_worker *worker);
/* The epoch thread: at the backup that has become the lead.  Cost: 1 WRITE, if there is one. */
NAM_FIBER_FN void nam__name_publish_again(struct nam_client *client);
void nam__peers_close(struct nam_worker *worker);

/*
 * For the epoch thread: read the names if they have changed and nothing has joined for a tick, or
 * for NAM__JOINING_TICKS.  Cost: nothing, or READs of 32 bytes for each client id.
 */
NAM_FIBER_FN void nam__names_follow(struct nam_client *client, uint64_t joined);
#define NAM__JOINING_TICKS 16u

/* Whether a client's name is known.  Cost: no round trip. */
bool nam__peer_known(struct nam_worker *worker, uint16_t client, uint16_t incarnation);

/*
 * As nam__peer_known().  If the peer is unknown, READ the names of its group of ids, each group at
 * most every 100 us.
 * Cost: at most 1 round trip.
 */
NAM_FIBER_FN bool nam__peer_learn(struct nam_worker *worker, uint16_t client,
	uint16_t incarnation);

/* A client has said itself where it is: one that is unknown becomes known. */
void nam__peer_meet(struct nam_worker *worker, const struct nam__peer_id *peer_id,
	const uint8_t *place);

/* Send to a known peer; else false. */
bool nam__peer_send(struct nam_worker *worker, const struct nam__peer_id *to, const void *datagram,
	uint32_t bytes);

static inline struct nam__peer_id
nam__peer_id_own(const struct nam_worker *worker)
{
	return (struct nam__peer_id){
		.client = worker->client->id,
		.incarnation = worker->client->incarnation,
		.number = worker->peers->name.number,
	};
}

#endif /* NAM_COMPUTE_CLIENT_PEERS_H */
