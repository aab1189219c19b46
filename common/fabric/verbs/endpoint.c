/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.c -- endpoints: a queue pair of type UD, with an ibv_cq of its own.
 *
 * A place is a port's GID and LID, and a number that of a queue pair.  All endpoints of a domain
 * have the port, the GID and the class of service of one connection.  Only each 16th send is
 * signalled: its completion gives back the room of those before it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "verbs_internal.h"

#define KEY 0x4e414d45u		/* one for all, and not one that only the kernel may use */
#define SIGNALLED 16u		/* one of so many sends */
#define PLACES_MAX 4096u
#define AGAIN_NS 30000000000ull	/* before a place is looked up again that led nowhere */
#define MEND_NS 1000000000ull	/* before a queue pair that has failed is mended again */
#define ARRIVED (1ull << 63)	/* in wr_id: a datagram, in this slot */
#define SLOT_BYTES (NAM_DATAGRAM_HEADROOM + NAM_DATAGRAM_BYTES_MAX)
#define BUFFER_BYTES                                                                                \
	(VERBS_ENDPOINT_SENDS * NAM_DATAGRAM_BYTES_MAX + VERBS_ENDPOINT_RECEIVES * SLOT_BYTES)
#define PAGE_BYTES 4096u

struct place {
	uint8_t gid[16];
	uint16_t lid;
	uint8_t reserved[6];
};
_Static_assert(sizeof(struct place) == NAM_PLACE_BYTES, "what a name has room for");

static uint8_t *
slot_at(const struct verbs_endpoint *endpoint, uint32_t slot)
{
	return endpoint->buffer + VERBS_ENDPOINT_SENDS * NAM_DATAGRAM_BYTES_MAX +
	       (size_t)slot * SLOT_BYTES;
}

static void
post_slot(struct verbs_endpoint *endpoint, uint32_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)slot_at(endpoint, slot),
		.length = SLOT_BYTES,
		.lkey = endpoint->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = ARRIVED | slot, .sg_list = &sge, .num_sge = 1 };

	endpoint->failed |= ibv_post_recv(endpoint->qp, &wr, &bad) != 0;
}

/* The way of the domain's datagrams, which is that of a connection. */
static int
find_way(struct verbs_domain *domain)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr way = { 0 };
	const struct verbs_qp *qp;
	int rc = 0;

	pthread_mutex_lock(&domain->watch.mutex);
	qp = LIST_FIRST(&domain->watch.qps);
	if (!domain->way.port_num && qp) {
		rc = -ibv_query_qp(qp->qp, &way, IBV_QP_AV | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
			IBV_QP_PATH_MTU, &init);
		if (!rc)
			domain->way = way;
	}
	/* There is none, or its packets are too short. */
	if (!rc && NAM_DATAGRAM_BYTES_MAX > 128u << domain->way.path_mtu)
		rc = -NAM_E_FABRIC_CAPABILITY;
	pthread_mutex_unlock(&domain->watch.mutex);
	return rc;
}

static int
start(struct verbs_endpoint *endpoint)
{
	int rc = nam__verbs_start_ud(endpoint->qp, &endpoint->domain->way, KEY, 0);

	if (rc)
		return rc;
	endpoint->failed = false;
	endpoint->head = endpoint->tail = 0;
	endpoint->taken = endpoint->arrived = 0;
	for (uint32_t slot = 0; slot < endpoint->receives; slot++)
		post_slot(endpoint, slot);
	return 0;
}

void
nam__verbs_endpoint_mend(struct verbs_endpoint *endpoint)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RESET };
	uint64_t now = nam_now_ns();
	struct ibv_wc wc;

	if (now - endpoint->mended_ns < MEND_NS)
		return;
	endpoint->mended_ns = now;
	if (ibv_modify_qp(endpoint->qp, &attr, IBV_QP_STATE))
		return;
	/* Completions of requests before that; no more come. */
	while (ibv_poll_cq(endpoint->done.cq, 1, &wc) > 0)
		continue;
	(void)start(endpoint);
}

static int
make(struct verbs_endpoint *endpoint)
{
	struct verbs_domain *domain = endpoint->domain;
	struct ibv_qp_init_attr attr = {
		.cap = {
			.max_send_wr = VERBS_ENDPOINT_SENDS,
			.max_recv_wr = endpoint->receives,
			.max_send_sge = 1,
			.max_recv_sge = 1,
			.max_inline_data = domain->pub.limits.inline_bytes,
		},
		.qp_type = IBV_QPT_UD,
	};
	int rc;

	endpoint->buffer = aligned_alloc(PAGE_BYTES,
		(BUFFER_BYTES + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES);
	if (!endpoint->buffer)
		return -ENOMEM;
	errno = 0;
	endpoint->mr = ibv_reg_mr(domain->pd, endpoint->buffer, BUFFER_BYTES,
		IBV_ACCESS_LOCAL_WRITE);
	if (!endpoint->mr)
		return errno ? -errno : -ENOMEM;
	rc = nam__verbs_done_open(&endpoint->done, endpoint->cq,
		VERBS_ENDPOINT_SENDS + endpoint->receives);
	if (rc)
		return rc;
	attr.send_cq = attr.recv_cq = endpoint->done.cq;
	errno = 0;
	endpoint->qp = ibv_create_qp(domain->pd, &attr);
	if (!endpoint->qp)
		return errno ? -errno : -ENOMEM;
	endpoint->inline_bytes = attr.cap.max_inline_data;
	return start(endpoint);
}

static int
name_of(const struct verbs_endpoint *endpoint, struct nam_endpoint_name *ret_name)
{
	const struct verbs_domain *domain = endpoint->domain;
	const struct ibv_ah_attr *ah = &domain->way.ah_attr;
	struct ibv_port_attr port;
	struct place place = { .lid = 0 };
	union ibv_gid gid;

	errno = 0;
	if (ibv_query_port(domain->verbs, domain->way.port_num, &port) ||
		ibv_query_gid(domain->verbs, domain->way.port_num, ah->grh.sgid_index, &gid))
		return errno ? -errno : -NAM_E_FABRIC;
	memcpy(place.gid, gid.raw, sizeof(place.gid));
	place.lid = port.lid;
	memcpy(ret_name->place, &place, sizeof(place));
	ret_name->number = endpoint->qp->qp_num;
	return 0;
}

int
nam__verbs_endpoint_open(struct nam_domain *pub, struct nam_cq *cq, void *context,
	struct nam_endpoint_name *ret_name, struct nam_endpoint **ret)
{
	struct verbs_domain *domain = (struct verbs_domain *)pub;
	struct verbs_endpoint *endpoint;
	int rc = find_way(domain);

	if (rc)
		return rc;
	endpoint = calloc(1, sizeof(*endpoint));
	if (!endpoint)
		return -ENOMEM;
	endpoint->pub.ops = pub->ops;
	endpoint->domain = domain;
	endpoint->cq = (struct verbs_cq *)cq;
	endpoint->context = context;
	endpoint->receives = pub->limits.qp_depth < VERBS_ENDPOINT_RECEIVES ?
		pub->limits.qp_depth : VERBS_ENDPOINT_RECEIVES;
	LIST_INSERT_HEAD(&endpoint->cq->endpoints, endpoint, link);
	rc = make(endpoint);
	if (!rc)
		rc = name_of(endpoint, ret_name);
	if (rc) {
		nam__verbs_endpoint_close(&endpoint->pub);
		return rc;
	}
	*ret = &endpoint->pub;
	return 0;
}

/* Also closes what open could not finish. */
void
nam__verbs_endpoint_close(struct nam_endpoint *pub)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)pub;

	if (!endpoint)
		return;
	LIST_REMOVE(endpoint, link);
	if (endpoint->qp)
		(void)ibv_destroy_qp(endpoint->qp);
	nam__verbs_done_close(&endpoint->done);
	if (endpoint->mr)
		(void)ibv_dereg_mr(endpoint->mr);
	for (uint32_t i = 0; i < endpoint->places_count; i++)
		if (endpoint->places[i].ah)
			(void)ibv_destroy_ah(endpoint->places[i].ah);
	free(endpoint->places);
	free(endpoint->buffer);
	free(endpoint);
}

/* The entry of a place, which may be new; NULL: there is no room. */
static struct verbs_place *
entry_of(struct verbs_endpoint *endpoint, const uint8_t *place)
{
	uint32_t i, size = endpoint->places_size;

	for (i = 0; i < endpoint->places_count; i++)
		if (!memcmp(endpoint->places[i].place, place, NAM_PLACE_BYTES))
			return &endpoint->places[i];
	if (i == PLACES_MAX)
		return NULL;
	if (i == size) {
		struct verbs_place *places;

		size = size ? 2 * size : 16;
		places = realloc(endpoint->places, size * sizeof(*places));
		if (!places)
			return NULL;
		endpoint->places = places;
		endpoint->places_size = size;
	}
	endpoint->places[i] = (struct verbs_place){ .ah = NULL };
	memcpy(endpoint->places[i].place, place, NAM_PLACE_BYTES);
	endpoint->places_count++;
	return &endpoint->places[i];
}

int
nam__verbs_endpoint_place(struct nam_endpoint *pub, const uint8_t *bytes, uint32_t *ret_handle)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)pub;
	struct ibv_ah_attr attr = endpoint->domain->way.ah_attr;
	struct verbs_place *entry = entry_of(endpoint, bytes);
	struct place place;
	uint64_t now;

	if (!entry)
		return -NAM_E_FABRIC_FULL;
	if (!entry->ah) {
		now = nam_now_ns();
		if (entry->tried_ns && now - entry->tried_ns < AGAIN_NS)
			return -EHOSTUNREACH;
		memcpy(&place, bytes, sizeof(place));
		memcpy(attr.grh.dgid.raw, place.gid, sizeof(place.gid));
		attr.dlid = place.lid;
		entry->ah = ibv_create_ah(endpoint->domain->pd, &attr);
		/* ibv_create_ah() may have taken long. */
		entry->tried_ns = nam_now_ns();
		if (!entry->ah)
			return -EHOSTUNREACH;
	}
	*ret_handle = (uint32_t)(entry - endpoint->places);
	return 0;
}

/* A longer one than the queue pair is made for would put it into its error state. */
void
nam__verbs_endpoint_send(struct nam_endpoint *pub, uint32_t handle, uint32_t number,
	const void *datagram, uint32_t bytes)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)pub;
	uint32_t position = endpoint->tail;
	uint8_t *copy = endpoint->buffer +
		(size_t)(position % VERBS_ENDPOINT_SENDS) * NAM_DATAGRAM_BYTES_MAX;
	struct ibv_sge sge = { .addr = (uintptr_t)copy, .length = bytes };
	struct ibv_send_wr *bad, wr = {
		.wr_id = position,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = (bytes <= endpoint->inline_bytes ? IBV_SEND_INLINE : 0) |
			(position % SIGNALLED == SIGNALLED - 1 ? IBV_SEND_SIGNALED : 0),
	};

	if (!bytes || bytes > NAM_DATAGRAM_BYTES_MAX || endpoint->failed ||
		handle >= endpoint->places_count || !endpoint->places[handle].ah ||
		position - endpoint->head >= VERBS_ENDPOINT_SENDS)
		return;
	memcpy(copy, datagram, bytes);
	sge.lkey = endpoint->mr->lkey;
	wr.wr.ud.ah = endpoint->places[handle].ah;
	wr.wr.ud.remote_qpn = number & VERBS_NUMBER_MASK;
	wr.wr.ud.remote_qkey = KEY;
	if (ibv_post_send(endpoint->qp, &wr, &bad))
		endpoint->failed = true;
	else
		endpoint->tail++;
}

bool
nam__verbs_endpoint_take(struct verbs_endpoint *endpoint, const struct ibv_wc *wc)
{
	uint32_t position = (uint32_t)wc->wr_id;

	if (NAM__UNLIKELY(wc->status)) {
		endpoint->failed = true;
		return false;
	}
	if (!(wc->wr_id & ARRIVED)) {
		endpoint->head = position + 1;
		return false;
	}
	endpoint->slots[endpoint->arrived++ % VERBS_ENDPOINT_RECEIVES] = (struct verbs_arrival){
		.slot = position,
		.bytes = wc->byte_len,
	};
	return true;
}

uint32_t
nam__verbs_endpoint_receive(struct nam_endpoint *pub, void *datagram)
{
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)pub;
	uint32_t bytes = 0;

	while (!bytes && endpoint->taken != endpoint->arrived) {
		struct verbs_arrival arrival =
			endpoint->slots[endpoint->taken++ % VERBS_ENDPOINT_RECEIVES];

		/* A datagram of a foreign sender may have no bytes. */
		if (arrival.bytes - NAM_DATAGRAM_HEADROOM <= NAM_DATAGRAM_BYTES_MAX)
			bytes = arrival.bytes - NAM_DATAGRAM_HEADROOM;
		memcpy(datagram, slot_at(endpoint, arrival.slot) + NAM_DATAGRAM_HEADROOM, bytes);
		post_slot(endpoint, arrival.slot);
	}
	return bytes;
}
