/* SPDX-License-Identifier: Apache-2.0 */
#include "lease.h"

#include "common/guard.h"
#include "common/race.h"
#include "compute/backup/backups.h"

#define LOOK_NS 50000u
#define GIVE_UP_FACTOR 4u		/* times timeout_ms, without a lease */

void
nam__lease_renew(struct nam_client *client, uint64_t ns)
{
	/* Relaxed: it only grows, and each value of it is true whenever it is read. */
	atomic_store_explicit(&client->lease_ns, ns + NAM__LEASE_NS, memory_order_relaxed);
}

/* C34: the clock is read after the completion was found. */
static bool
holds(const struct nam_client *client)
{
	return nam_now_ns() < atomic_load_explicit(&client->lease_ns, memory_order_relaxed) ||
		!NAM_GUARD(LEASE);
}

/* C34: the epoch thread renews it, unless this client is fenced or cut off. */
static bool
await(const struct nam_worker *worker)
{
	const struct nam_client *client = worker->client;
	uint64_t until_ns = nam_now_ns() +
		GIVE_UP_FACTOR * client->options.timeout_ms * 1000000ull;

	nam_race_point("lease.over");
	while (!holds(client)) {
		if (atomic_load_explicit(&client->fenced, memory_order_relaxed) ||
			atomic_load_explicit(&client->servers[client->catalog_slot].lost,
				memory_order_acquire) || nam_now_ns() >= until_ns)
			return false;
		nam_sleep_ns(LOOK_NS);
	}
	return true;
}

/* C25: locks of this client may stay there, so it is fenced once others hear of that. */
static int
give_up(struct nam_client *client, uint32_t slot)
{
	int none = 0;

	atomic_compare_exchange_strong(&client->servers[slot].lost, &none, -NAM_E_FABRIC_FENCED);
	return -NAM_E_FABRIC_FENCED;
}

int
nam__lease_await(struct nam_worker *worker, uint32_t slot)
{
	/* As below. */
	if (worker->client->caps & NAM_CAP_LASTING || worker == worker->client->epoch_worker ||
		holds(worker->client) || await(worker))
		return 0;
	return give_up(worker->client, slot);
}

static bool
needs_lease(const struct nam_client *client, const struct nam_wc *wc)
{
	return !wc->status && wc->op < NAM_WC_CLOSED &&
		nam__is_backed(client, nam__slot_of(wc->qp));
}

int
nam__poll_leased(struct nam_cq *cq, struct nam_wc *wcs, unsigned max)
{
	struct nam_worker *worker = cq->user;
	struct nam_client *client = worker->client;
	int count = cq->ops->cq_poll(cq, wcs, max);

	/* The epoch thread itself renews the lease. */
	if (count <= 0 || holds(client) || worker == client->epoch_worker)
		return count;
	for (int i = 0; i < count; i++)
		if (needs_lease(client, &wcs[i]) && !holds(client) && !await(worker))
			wcs[i].status = give_up(client, nam__slot_of(wcs[i].qp));
	return count;
}
