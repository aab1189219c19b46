/* SPDX-License-Identifier: Apache-2.0 */
/* peers.c -- names of clients on server 0: published by their owners, read on demand. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash/hash.h"
#include "compute/remote/batch.h"
#include "peers.h"

#define UNIT_NS 10000u			/* before the first is known */
#define NAMES_READ 512u			/* that one READ brings */
#define LEARN_NS 100000u		/* between two READs of a group by a worker */
#define RAISES_MAX 1000u		/* CAS until the word is raised; others then learn late */

static uint16_t
check_of(const struct nam_client_name *name)
{
	uint64_t words[4], sum = 0;

	memcpy(words, name, sizeof(words));
	words[3] &= UINT64_MAX >> 16;
	for (unsigned i = 0; i < 4; i++)
		sum = nam_mix64(sum ^ words[i]);
	return (uint16_t)sum;
}
_Static_assert(offsetof(struct nam_client_name, check) == 30, "the last two bytes");

/* The name of client 0. */
static struct nam_gaddr
names_at(const struct nam_client *client)
{
	return nam_gaddr_make(nam_gaddr_region(client->epoch_slots),
		nam_gaddr_offset(client->epoch_slots) + NAM_META_NAMES_OFFSET -
		NAM_META_SLOTS_OFFSET, 0);
}

/* ---- the own name ------------------------------------------------------------------------- */

/* Tell the others that a name has changed.  C18: a client that does not hear of it lacks a hint. */
NAM_FIBER_FN static int
joined_raise(struct nam_worker *worker, uint64_t *ret_joined)
{
	struct nam_client *client = worker->client;
	struct nam_gaddr at = nam_gaddr_untagged(client->epoch_word);
	uint64_t *words = nam_buffer_take(worker, 8), old, seen = 0;
	struct nam_batch batch;
	int rc = words ? 0 : -ENOMEM;

	for (unsigned tries = 0; !rc && tries < RAISES_MAX; tries++) {
		uint64_t highest = seen & UINT16_MAX;

		old = seen;
		if (highest < client->id)
			highest = client->id;
		nam_batch_init(&batch, worker);
		nam_batch_cas(&batch, at, NAM_META_JOINED_OFFSET - NAM_META_EPOCH_OFFSET, old,
			((old >> 16) + 1) << 16 | highest, words);
		nam__batch_alone(&batch);
		rc = nam_batch_await(&batch); /* SUSPENDS */
		seen = *words;
		*ret_joined = seen;
		if (!rc && seen == old)
			break;
	}
	nam_buffer_give(worker, words, 8);
	return rc;
}

/* Publish an endpoint's name as the client's; NULL: none.  By C18 it is only a hint. */
NAM_FIBER_FN static int
publish(struct nam_worker *worker, const struct nam_endpoint_name *front, uint64_t *ret_joined)
{
	struct nam_client *client = worker->client;
	struct nam_client_name *name = nam_buffer_take(worker, sizeof(*name));
	struct nam_batch batch;
	int rc;

	if (!name)
		return -ENOMEM;
	memset(name, 0, sizeof(*name));
	if (front) {
		memcpy(name->place, front->place, sizeof(name->place));
		name->number = front->number;
		name->incarnation = client->incarnation;
		name->check = check_of(name);
	}
	nam_batch_init(&batch, worker);
	nam_batch_write(&batch, names_at(client), client->id * (uint32_t)sizeof(*name), name,
		sizeof(*name));
	/* The backup gets the name as it becomes the lead: nam__name_publish_again(). */
	nam__batch_alone(&batch);
	rc = nam_batch_await(&batch); /* SUSPENDS */
	nam_buffer_give(worker, name, sizeof(*name));
	return rc ?: joined_raise(worker, ret_joined); /* SUSPENDS */
}

void
nam__peers_withdraw(struct nam_worker *worker)
{
	struct nam_client *client = worker->client;
	struct nam_endpoint_name name;
	const struct nam_worker *next;
	uint64_t joined;
	bool was;

	if (!worker->peers)
		return;
	pthread_mutex_lock(&client->mutex);
	was = client->front == worker;
	SLIST_FOREACH(next, &client->workers, link)
		if (next != worker && next->peers)
			break;
	if (was)
		client->front = next;
	if (next)
		name = next->peers->name;
	pthread_mutex_unlock(&client->mutex);
	/* If it fails, server 0 is gone, and the client with it. */
	if (was && publish(worker, next ? &name : NULL, &joined)) /* SUSPENDS */
		return;
}

void
nam__name_publish_again(struct nam_client *client)
{
	struct nam_endpoint_name name;
	uint64_t joined;
	bool has;

	pthread_mutex_lock(&client->mutex);
	has = client->front;
	if (has)
		name = client->front->peers->name;
	pthread_mutex_unlock(&client->mutex);
	if (has)
		(void)!publish(client->epoch_worker, &name, &joined); /* SUSPENDS */
}

void
nam__peers_close(struct nam_worker *worker)
{
	if (!worker->peers)
		return;
	worker->peers->endpoint->ops->endpoint_close(worker->peers->endpoint);
	free(worker->peers);
	worker->peers = NULL;
}

/* ---- the others' names -------------------------------------------------------------------- */

/* READ the names of ids from `first`, a multiple of two, to `last`. */
NAM_FIBER_FN static int
names_read(struct nam_worker *worker, uint32_t first, uint32_t last)
{
	struct nam_client *client = worker->client;
	uint32_t count = last < NAM_CLIENTS_MAX ? last + 1 : NAM_CLIENTS_MAX;
	struct nam_client_name *names = nam_buffer_take(worker, NAMES_READ * sizeof(*names));
	int rc = names ? 0 : -ENOMEM;

	for (; !rc && first < count; first += NAMES_READ) {
		uint32_t bytes = (count - first < NAMES_READ ? count - first : NAMES_READ) *
			(uint32_t)sizeof(*names);

		rc = nam_read_await(worker, NAM_GADDR(names_at(client).raw +
			first * sizeof(*names) / NAM_GADDR_UNIT_BYTES), names,
			bytes); /* SUSPENDS */
		if (rc)
			break;
		pthread_mutex_lock(&client->mutex);
		memcpy(&client->names[first], names, bytes);
		pthread_mutex_unlock(&client->mutex);
	}
	nam_buffer_give(worker, names, NAMES_READ * sizeof(*names));
	return rc;
}

void
nam__names_follow(struct nam_client *client, uint64_t joined)
{
	bool quiet = joined == client->joined_seen;

	client->joined_seen = joined;
	if (!client->names || joined == client->joined ||
		(!quiet && ++client->joined_ticks < NAM__JOINING_TICKS))
		return;
	/* After a failure: at another tick. */
	if (names_read(client->epoch_worker, 0, joined & UINT16_MAX)) /* SUSPENDS */
		return;
	client->joined = joined;
	client->joined_ticks = 0;
}

bool
nam__peer_known(struct nam_worker *worker, uint16_t id, uint16_t incarnation)
{
	struct nam_client *client = worker->client;
	struct nam__peers *peers = worker->peers;
	struct nam__peer *peer = &peers->known[id % NAM_CLIENTS_MAX];
	struct nam_client_name name = { .incarnation = 0 };

	if (peer->incarnation == incarnation && incarnation)
		return true;
	pthread_mutex_lock(&client->mutex);
	if (client->names)
		name = client->names[id % NAM_CLIENTS_MAX];
	pthread_mutex_unlock(&client->mutex);
	/* A name may be half written, or that of a client that had the id before. */
	if (!incarnation || name.incarnation != incarnation || name.check != check_of(&name) ||
		peers->endpoint->ops->endpoint_place(peers->endpoint, name.place, &peer->handle))
		return false;
	peer->number = name.number;
	peer->incarnation = incarnation;
	return true;
}

bool
nam__peer_learn(struct nam_worker *worker, uint16_t id, uint16_t incarnation)
{
	uint32_t group = id % NAM_CLIENTS_MAX / NAM__NAMES_LEARNT;
	uint32_t first = group * NAM__NAMES_LEARNT;
	uint64_t now;

	if (nam__peer_known(worker, id, incarnation))
		return true;
	now = nam_now_ns();
	if (now - worker->peers->learnt_ns[group] < LEARN_NS)
		return false;
	worker->peers->learnt_ns[group] = now;
	return !names_read(worker, first, first + NAM__NAMES_LEARNT - 1) && /* SUSPENDS */
	       nam__peer_known(worker, id, incarnation);
}

/* ---- workers ------------------------------------------------------------------------------ */

int
nam__peers_open(struct nam_worker *worker, void (*arrived)(struct nam_worker *,
	struct nam__completion *, const struct nam_wc *))
{
	struct nam_client *client = worker->client;
	struct nam_domain *domain = client->domains[0];
	struct nam__peers *peers = calloc(1, sizeof(*peers));
	uint64_t joined = 0;
	bool first;
	int rc;

	if (!peers)
		return -ENOMEM;
	peers->completion.completed = arrived;
	peers->unit_ns = UNIT_NS;
	rc = domain->ops->endpoint_open(domain, worker->cq,
		nam__handler_context(&peers->completion), &peers->name, &peers->endpoint);
	if (rc) {
		free(peers);
		return rc == -ENOMEM ? rc : 0;
	}
	worker->peers = peers;
	worker->bytes += sizeof(*peers);
	pthread_mutex_lock(&client->mutex);
	if (!client->names)
		client->names = calloc(NAM_CLIENTS_MAX, sizeof(*client->names));
	first = !client->front && client->names;
	if (first)
		client->front = worker;
	pthread_mutex_unlock(&client->mutex);
	if (!first)
		return 0;
	rc = publish(worker, &peers->name, &joined); /* SUSPENDS */
	/* Clients that join later become known at a tick. */
	return rc ?: names_read(worker, 0, joined & UINT16_MAX); /* SUSPENDS */
}

void
nam__peer_meet(struct nam_worker *worker, const struct nam__peer_id *peer_id, const uint8_t *place)
{
	struct nam__peers *peers = worker->peers;
	struct nam__peer *peer = &peers->known[peer_id->client % NAM_CLIENTS_MAX];

	if (peer->incarnation == peer_id->incarnation ||
		peers->endpoint->ops->endpoint_place(peers->endpoint, place, &peer->handle))
		return;
	peer->incarnation = peer_id->incarnation;
	peer->number = peer_id->number;
}

bool
nam__peer_send(struct nam_worker *worker, const struct nam__peer_id *to, const void *datagram,
	uint32_t bytes)
{
	struct nam__peers *peers = worker->peers;
	const struct nam__peer *peer = &peers->known[to->client % NAM_CLIENTS_MAX];

	if (!nam__peer_known(worker, to->client, to->incarnation))
		return false;
	peers->endpoint->ops->endpoint_send(peers->endpoint, peer->handle,
		to->number ?: peer->number, datagram, bytes);
	worker->current->counters->bytes_out += bytes;
	return true;
}
