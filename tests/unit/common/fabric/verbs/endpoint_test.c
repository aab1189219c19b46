/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint_test.c -- endpoints on a device that is made up: what it gets of them, and what they
 * make of its failures.  The contract of endpoints is in fabric/endpoint_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#ifdef NAM_VERBS

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/fabric/verbs/verbs_internal.h"

#define SENDS VERBS_ENDPOINT_SENDS
#define RECEIVES VERBS_ENDPOINT_RECEIVES
#define NUMBER 7u
#define PLACES 4096u
#define TIMEOUT_NS 100000000ull
#define AGAIN_NS 30000000000ull
#define MEND_NS 1000000000ull

/* ---- the device ---------------------------------------------------------------------------- */

static struct {
	struct ibv_context context;
	struct ibv_cq done;
	struct ibv_qp qp;
	struct ibv_mr mr;
	struct ibv_qp_attr way;
	struct ibv_ah ahs[PLACES];
	unsigned ahs_made, ahs_asked, ahs_gone;
	bool no_way;			/* to any place */
	struct ibv_ah_attr ah_attr;	/* of the newest one */
	struct ibv_send_wr sent[4 * SENDS];
	struct ibv_sge sge;		/* of the newest one */
	uint8_t data[NAM_DATAGRAM_BYTES_MAX];
	unsigned sent_count;
	unsigned receives;		/* buffers that it has */
	uint64_t buffers[4 * RECEIVES];	/* by slot */
	struct ibv_wc wcs[4 * RECEIVES];
	unsigned head, tail;
	bool refuses;			/* sends */
	unsigned resets;
	bool late;			/* a datagram comes just before the cq is armed */
	void *armed;			/* what its events carry */
	bool rang;
} device;

static int
poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wcs)
{
	int n = 0;

	while (cq == &device.done && n < max && device.head < device.tail)
		wcs[n++] = device.wcs[device.head++];
	return n;
}

static void
completes(struct ibv_wc wc)
{
	assert_true(device.tail < sizeof(device.wcs) / sizeof(device.wcs[0]));
	device.wcs[device.tail++] = wc;
}

/* In the first buffer that the device has got. */
static void
arrives(uint32_t bytes, uint8_t with)
{
	uint32_t slot = RECEIVES - device.receives--;

	memset((uint8_t *)(uintptr_t)device.buffers[slot] + NAM_DATAGRAM_HEADROOM, with,
		bytes <= NAM_DATAGRAM_BYTES_MAX ? bytes : 0);
	completes((struct ibv_wc){
		.wr_id = 1ull << 63 | slot,
		.byte_len = NAM_DATAGRAM_HEADROOM + bytes,
	});
}

static int
req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)solicited_only;
	if (cq == &device.done && device.late) {
		device.late = false;
		arrives(8, 1);
	}
	return 0;
}

static int
post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)bad;
	assert_int_equal(qp->state, IBV_QPS_RTS);
	assert_null(wr->next);
	if (device.refuses)
		return ENOMEM;
	device.sge = *wr->sg_list;
	memcpy(device.data, (const void *)(uintptr_t)device.sge.addr, device.sge.length);
	device.sent[device.sent_count++ % (4 * SENDS)] = *wr;
	return 0;
}

static int
post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	uint32_t slot = (uint32_t)wr->wr_id;

	(void)bad;
	assert_int_equal(qp->state, IBV_QPS_RTS);
	assert_true(slot < RECEIVES && wr->sg_list->lkey == device.mr.lkey);
	assert_int_equal(wr->sg_list->length, NAM_DATAGRAM_HEADROOM + NAM_DATAGRAM_BYTES_MAX);
	device.buffers[slot] = wr->sg_list->addr;
	device.receives++;
	return 0;
}

struct ibv_cq *
ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int comp_vector)
{
	(void)comp_vector;
	assert_int_equal(cqe, SENDS + RECEIVES);
	device.armed = cq_context;
	device.done = (struct ibv_cq){ .context = context, .channel = channel };
	return &device.done;
}

int
ibv_destroy_cq(struct ibv_cq *cq)
{
	assert_ptr_equal(cq, &device.done);
	return 0;
}

int
ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
	uint64_t count;

	if (!device.rang)
		return -1;
	device.rang = false;
	assert_int_equal(read(channel->fd, &count, sizeof(count)), sizeof(count));
	*cq = &device.done;
	*cq_context = device.armed;
	return 0;
}

void
ibv_ack_cq_events(struct ibv_cq *cq, unsigned int count)
{
	(void)cq, (void)count;
}

#undef ibv_reg_mr
struct ibv_mr *
ibv_reg_mr(struct ibv_pd *pd, void *at, size_t bytes, int access)
{
	(void)pd, (void)at, (void)bytes, (void)access;
	device.mr.lkey = 5;
	return &device.mr;
}

struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *at, size_t bytes, uint64_t iova, unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(pd, at, bytes, (int)access);
}

int
ibv_dereg_mr(struct ibv_mr *mr)
{
	assert_ptr_equal(mr, &device.mr);
	return 0;
}

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd;
	assert_int_equal(attr->qp_type, IBV_QPT_UD);
	assert_int_equal(attr->cap.max_send_wr, SENDS);
	assert_int_equal(attr->cap.max_recv_wr, RECEIVES);
	assert_int_equal(attr->sq_sig_all, 0);
	device.qp = (struct ibv_qp){
		.context = &device.context,
		.qp_context = attr->qp_context,
		.qp_num = NUMBER,
		.state = IBV_QPS_RESET,
	};
	return &device.qp;
}

int
ibv_destroy_qp(struct ibv_qp *qp)
{
	assert_ptr_equal(qp, &device.qp);
	return 0;
}

int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)mask;
	if (attr->qp_state == IBV_QPS_RESET) {
		device.resets++;
		device.receives = 0;
		completes((struct ibv_wc){ .wr_id = 1ull << 63, .status = IBV_WC_WR_FLUSH_ERR });
	} else {
		assert_int_equal(attr->qp_state, qp->state + 1);
	}
	qp->state = attr->qp_state;
	return 0;
}

int
ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)qp, (void)mask, (void)init;
	*attr = device.way;
	return 0;
}

#undef ibv_query_port
int
ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	(void)context, (void)attr;
	return port == device.way.port_num ? 0 : EINVAL;
}

int
ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	(void)context;
	memset(gid->raw, port << 4 | index, sizeof(gid->raw));
	return 0;
}

struct ibv_ah *
ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	(void)pd;
	device.ahs_asked++;
	device.ah_attr = *attr;
	return device.no_way ? NULL : &device.ahs[device.ahs_made++];
}

int
ibv_destroy_ah(struct ibv_ah *ah)
{
	(void)ah;
	device.ahs_gone++;
	return 0;
}

/* ---- the fixture --------------------------------------------------------------------------- */

struct fixture {
	struct verbs_domain domain;
	struct ibv_pd pd;
	struct verbs_cq cq;
	struct ibv_cq sends;
	struct ibv_comp_channel channel;
	struct ibv_qp connected;
	struct verbs_qp qp;		/* the connection */
	struct nam_endpoint_name name;
	struct nam_endpoint *endpoint;
	uint32_t handle;		/* to itself */
};

static int
open_endpoint(struct fixture *f)
{
	return nam__verbs_endpoint_open(&f->domain.pub, &f->cq.pub, f, &f->name, &f->endpoint);
}

static int
setup_unconnected(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	memset(&device, 0, sizeof(device));
	device.context.ops.poll_cq = poll_cq;
	device.context.ops.req_notify_cq = req_notify_cq;
	device.context.ops.post_send = post_send;
	device.context.ops.post_recv = post_recv;
	device.way = (struct ibv_qp_attr){ .port_num = 2, .path_mtu = IBV_MTU_512 };
	device.way.ah_attr.grh.sgid_index = 3;
	device.way.ah_attr.is_global = 1;
	f->sends.context = &device.context;
	f->pd.context = &device.context;
	f->channel.fd = eventfd(0, EFD_CLOEXEC);
	f->cq.channel = &f->channel;
	f->cq.domain = &f->domain;
	f->cq.sends.cq = &f->sends;
	LIST_INSERT_HEAD(&f->cq.dones, &f->cq.sends, link);
	f->cq.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->domain.verbs = &device.context;
	f->domain.pd = &f->pd;
	f->domain.pub.limits.qp_depth = 1024;
	f->qp.qp = &f->connected;
	f->qp.domain = &f->domain;
	assert_int_equal(pthread_mutex_init(&f->cq.mutex, NULL), 0);
	assert_int_equal(pthread_mutex_init(&f->domain.watch.mutex, NULL), 0);
	*state = f;
	return 0;
}

static void
connected(struct fixture *f)
{
	LIST_INSERT_HEAD(&f->domain.watch.qps, &f->qp, watch_link);
}

static int
setup(void **state)
{
	struct fixture *f;

	(void)setup_unconnected(state);
	f = *state;
	connected(f);
	assert_int_equal(open_endpoint(f), 0);
	assert_int_equal(nam__verbs_endpoint_place(f->endpoint, f->name.place, &f->handle), 0);
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	nam__verbs_endpoint_close(f->endpoint);
	assert_true(LIST_EMPTY(&f->cq.endpoints));
	assert_int_equal(device.ahs_gone, device.ahs_made);
	close(f->channel.fd);
	close(f->cq.wake_fd);
	(void)pthread_mutex_destroy(&f->cq.mutex);
	(void)pthread_mutex_destroy(&f->domain.watch.mutex);
	free(f);
	return 0;
}

static void
send_some(struct fixture *f, unsigned count)
{
	const uint64_t word = 1;

	while (count--)
		nam__verbs_endpoint_send(f->endpoint, f->handle, NUMBER, &word, sizeof(word));
}

/* The completions of one poll, all of them news of datagrams. */
static int
news(struct fixture *f)
{
	struct nam_wc wcs[4];
	int n = nam__verbs_cq_poll(&f->cq.pub, wcs, 4);

	for (int i = 0; i < n; i++) {
		assert_int_equal(wcs[i].op, NAM_WC_DATAGRAM);
		assert_int_equal(wcs[i].status, 0);
		assert_ptr_equal(wcs[i].context, f);
	}
	return n;
}

static uint32_t
receive(struct fixture *f, uint8_t with)
{
	uint8_t datagram[NAM_DATAGRAM_BYTES_MAX];
	uint32_t bytes = nam__verbs_endpoint_receive(f->endpoint, datagram);

	for (uint32_t i = 0; i < bytes; i++)
		assert_int_equal(datagram[i], with);
	return bytes;
}

/* ---- opening ------------------------------------------------------------------------------- */

static void
open__no_connection_yet__CAPABILITY_UNTIL_THERE_IS_ONE(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(open_endpoint(f), -NAM_E_FABRIC_CAPABILITY);
	connected(f);
	assert_int_equal(open_endpoint(f), 0);
	assert_int_equal(f->name.place[0], 0x23);
	assert_int_equal(f->name.number, NUMBER);
	assert_int_equal(device.receives, RECEIVES);
	/* The way stays, whatever comes after the connection. */
	for (unsigned i = 0; i < 2; i++) {
		nam__verbs_endpoint_close(f->endpoint);
		device.way.ah_attr.grh.sgid_index = 4;
		if (i)
			LIST_REMOVE(&f->qp, watch_link);
		assert_int_equal(open_endpoint(f), 0);
		assert_int_equal(f->name.place[0], 0x23);
	}
}

static void
open__packets_shorter_than_a_datagram__CAPABILITY(void **state)
{
	struct fixture *f = *state;

	connected(f);
	device.way.path_mtu = IBV_MTU_256;
	assert_int_equal(open_endpoint(f), -NAM_E_FABRIC_CAPABILITY);
	assert_null(f->endpoint);
}

/* ---- sending ------------------------------------------------------------------------------- */

static void
send__no_room__IS_NOT_POSTED_UNTIL_A_COMPLETION_IS_POLLED(void **state)
{
	struct fixture *f = *state;
	unsigned signalled = 0;

	send_some(f, SENDS + 10);
	assert_int_equal(device.sent_count, SENDS);
	for (unsigned i = 0; i < SENDS; i++) {
		bool asks = device.sent[i].send_flags & IBV_SEND_SIGNALED;

		assert_int_equal(device.sent[i].opcode, IBV_WR_SEND);
		assert_int_equal(device.sent[i].wr.ud.remote_qpn, NUMBER);
		assert_ptr_equal(device.sent[i].wr.ud.ah, &device.ahs[0]);
		if (asks && !signalled++)
			completes((struct ibv_wc){ .wr_id = device.sent[i].wr_id });
	}
	assert_int_equal(signalled, SENDS / 16);
	send_some(f, 1);
	assert_int_equal(device.sent_count, SENDS);
	assert_int_equal(news(f), 0);
	send_some(f, SENDS);
	assert_int_equal(device.sent_count, SENDS + 16);
}

static void
send__wrong_length_or_handle__IS_NOT_POSTED(void **state)
{
	struct fixture *f = *state;
	uint8_t datagram[2 * NAM_DATAGRAM_BYTES_MAX] = { 0 };

	nam__verbs_endpoint_send(f->endpoint, f->handle, NUMBER, datagram,
		NAM_DATAGRAM_BYTES_MAX + 1);
	nam__verbs_endpoint_send(f->endpoint, f->handle, NUMBER, datagram, UINT32_MAX);
	nam__verbs_endpoint_send(f->endpoint, f->handle, NUMBER, datagram, 0);
	nam__verbs_endpoint_send(f->endpoint, f->handle + 1, NUMBER, datagram, 8);
	nam__verbs_endpoint_send(f->endpoint, UINT32_MAX, NUMBER, datagram, 8);
	assert_int_equal(device.sent_count, 0);
	nam__verbs_endpoint_send(f->endpoint, f->handle, NUMBER, datagram, NAM_DATAGRAM_BYTES_MAX);
	assert_int_equal(device.sent_count, 1);
}

/* Without inline data the device reads a datagram later: each one that is under way has its own. */
static void
send__several_under_way__EACH_HAS_ITS_BYTES(void **state)
{
	struct fixture *f = *state;
	uint64_t at[SENDS];

	for (unsigned i = 0; i < SENDS; i++) {
		uint8_t datagram[NAM_DATAGRAM_BYTES_MAX];

		memset(datagram, (int)i, sizeof(datagram));
		nam__verbs_endpoint_send(f->endpoint, f->handle, NUMBER, datagram,
			sizeof(datagram));
		assert_memory_equal(device.data, datagram, sizeof(datagram));
		assert_false(device.sent[i].send_flags & IBV_SEND_INLINE);
		assert_int_equal(device.sge.lkey, device.mr.lkey);
		at[i] = device.sge.addr;
	}
	for (unsigned i = 0; i < SENDS; i++)
		assert_int_equal(((const uint8_t *)(uintptr_t)at[i])[0], i);
}

/* ---- receiving ----------------------------------------------------------------------------- */

static void
receive__more_than_the_queue_has__GIVES_EACH_BUFFER_BACK(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < RECEIVES; i++)
		arrives(1 + i, (uint8_t)i);
	assert_int_equal(receive(f, 0), 0);
	assert_int_equal(news(f), 1);
	for (unsigned i = 0; i < RECEIVES; i++) {
		assert_int_equal(receive(f, (uint8_t)i), 1 + i);
		assert_int_equal(device.receives, i + 1);
	}
	assert_int_equal(receive(f, 0), 0);
	assert_int_equal(news(f), 0);
	arrives(8, 3);
	assert_int_equal(news(f), 1);
	assert_int_equal(receive(f, 3), 8);
}

static void
receive__of_another_program_without_bytes__THE_NEXT(void **state)
{
	struct fixture *f = *state;

	arrives(0, 0);
	arrives(NAM_DATAGRAM_BYTES_MAX + 1, 0);
	arrives(NAM_DATAGRAM_BYTES_MAX, 7);
	assert_int_equal(news(f), 1);
	assert_int_equal(receive(f, 7), NAM_DATAGRAM_BYTES_MAX);
	assert_int_equal(receive(f, 0), 0);
	assert_int_equal(device.receives, RECEIVES);
}

static void
poll__no_place_for_the_news__COMES_WITH_THE_NEXT_POLL(void **state)
{
	struct fixture *f = *state;
	struct nam_wc wc;

	arrives(8, 1);
	assert_int_equal(nam__verbs_cq_poll(&f->cq.pub, &wc, 0), 0);
	assert_int_equal(news(f), 1);
	assert_int_equal(receive(f, 1), 8);
}

/* ---- waiting ------------------------------------------------------------------------------- */

static void
wait__a_datagram_just_before_it_is_armed__RETURNS_AT_ONCE(void **state)
{
	struct fixture *f = *state;

	device.late = true;
	assert_int_equal(nam__verbs_cq_wait(&f->cq.pub, TIMEOUT_NS), 0);
	assert_int_equal(news(f), 1);
	assert_int_equal(receive(f, 1), 8);
}

static void
wait__the_channel_rings__IS_ARMED_AGAIN_BEFORE_THE_NEXT_SLEEP(void **state)
{
	struct fixture *f = *state;
	const uint64_t one = 1;

	assert_int_equal(write(f->channel.fd, &one, sizeof(one)), sizeof(one));
	device.rang = true;
	assert_int_equal(nam__verbs_cq_wait(&f->cq.pub, TIMEOUT_NS), 0);
	/* If it were not armed, this one would not be seen. */
	device.late = true;
	assert_int_equal(nam__verbs_cq_wait(&f->cq.pub, TIMEOUT_NS), 0);
	assert_int_equal(news(f), 1);
}

/* ---- places -------------------------------------------------------------------------------- */

static void
place__of_another_port__GOES_THE_WAY_OF_THE_CONNECTION(void **state)
{
	struct fixture *f = *state;
	uint8_t place[NAM_PLACE_BYTES] = { 9, 8, 7, [16] = 0x34, [17] = 0x12 };
	uint32_t handle;

	assert_int_equal(device.ah_attr.grh.dgid.raw[15], 0x23);
	assert_int_equal(nam__verbs_endpoint_place(f->endpoint, place, &handle), 0);
	assert_memory_equal(device.ah_attr.grh.dgid.raw, place, 16);
	assert_int_equal(device.ah_attr.dlid, 0x1234);
	assert_int_equal(device.ah_attr.grh.sgid_index, 3);
	assert_true(handle != f->handle);
}

static void
place__led_nowhere__IS_TRIED_AGAIN_AFTER_A_WHILE(void **state)
{
	struct fixture *f = *state;
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)f->endpoint;
	const uint8_t place[NAM_PLACE_BYTES] = { 9 };
	uint32_t handle = 77;

	device.no_way = true;
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(nam__verbs_endpoint_place(f->endpoint, place, &handle),
			-EHOSTUNREACH);
	assert_int_equal(device.ahs_asked, 2);
	assert_int_equal(handle, 77);
	send_some(f, 1);
	nam__verbs_endpoint_send(f->endpoint, 1, NUMBER, place, 8);
	assert_int_equal(device.sent_count, 1);
	device.no_way = false;
	endpoint->places[1].tried_ns -= AGAIN_NS;
	assert_int_equal(nam__verbs_endpoint_place(f->endpoint, place, &handle), 0);
	assert_int_equal(handle, 1);
}

static void
place__more_than_there_is_room_for__FULL_AND_THE_OLD_ONES_STAY(void **state)
{
	struct fixture *f = *state;
	uint32_t handle;

	for (uint32_t i = 1; i < PLACES + 10; i++) {
		uint8_t place[NAM_PLACE_BYTES] = { 1, 2 };
		int rc;

		memcpy(place + 4, &i, sizeof(i));
		rc = nam__verbs_endpoint_place(f->endpoint, place, &handle);
		assert_int_equal(rc, i < PLACES ? 0 : -NAM_E_FABRIC_FULL);
	}
	assert_int_equal(nam__verbs_endpoint_place(f->endpoint, f->name.place, &handle), 0);
	assert_int_equal(handle, f->handle);
	assert_int_equal(device.ahs_asked, PLACES);
}

/* ---- failures ------------------------------------------------------------------------------ */

/* It works again with all its room, and no completion of before counts. */
static void
check_mended(struct fixture *f)
{
	assert_int_equal(device.resets, 1);
	assert_int_equal(device.receives, RECEIVES);
	assert_int_equal(device.head, device.tail);
	assert_int_equal(receive(f, 0), 0);
	device.sent_count = 0;
	send_some(f, SENDS + 1);
	assert_int_equal(device.sent_count, SENDS);
	arrives(8, 5);
	assert_int_equal(news(f), 1);
	assert_int_equal(receive(f, 5), 8);
}

static void
poll__a_send_has_failed__IS_MENDED(void **state)
{
	struct fixture *f = *state;

	send_some(f, 40);
	arrives(8, 1);
	assert_int_equal(news(f), 1);
	completes((struct ibv_wc){ .wr_id = 15, .status = IBV_WC_LOC_QP_OP_ERR });
	for (unsigned i = 0; i < RECEIVES; i++)
		completes((struct ibv_wc){ .wr_id = 1ull << 63, .status = IBV_WC_WR_FLUSH_ERR });
	assert_int_equal(news(f), 0);
	check_mended(f);
}

static void
poll__the_device_refuses_a_send__IS_MENDED(void **state)
{
	struct fixture *f = *state;

	device.refuses = true;
	send_some(f, 1);
	device.refuses = false;
	send_some(f, 1);
	assert_int_equal(device.sent_count, 0);
	assert_int_equal(news(f), 0);
	check_mended(f);
}

static void
poll__fails_again_at_once__WAITS_BEFORE_IT_IS_MENDED(void **state)
{
	struct fixture *f = *state;
	struct verbs_endpoint *endpoint = (struct verbs_endpoint *)f->endpoint;

	for (unsigned i = 0; i < 3; i++) {
		completes((struct ibv_wc){ .status = IBV_WC_GENERAL_ERR });
		assert_int_equal(news(f), 0);
	}
	send_some(f, 1);
	assert_int_equal(device.sent_count, 0);
	assert_int_equal(device.resets, 1);
	endpoint->mended_ns -= MEND_NS;
	assert_int_equal(news(f), 0);
	assert_int_equal(device.resets, 2);
	send_some(f, 1);
	assert_int_equal(device.sent_count, 1);
}

static void
event__the_queue_pair_fails__ENDS_NO_CONNECTION(void **state)
{
	struct fixture *f = *state;
	const struct ibv_async_event event = {
		.event_type = IBV_EVENT_QP_FATAL,
		.element.qp = &device.qp,
	};

	nam__verbs_watch_event(&f->domain, &event);
	assert_false(f->qp.closed_reported);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TEST_UNCONNECTED(name) cmocka_unit_test_setup_teardown(name, setup_unconnected, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST_UNCONNECTED(open__no_connection_yet__CAPABILITY_UNTIL_THERE_IS_ONE),
		TEST_UNCONNECTED(open__packets_shorter_than_a_datagram__CAPABILITY),
		TEST(send__no_room__IS_NOT_POSTED_UNTIL_A_COMPLETION_IS_POLLED),
		TEST(send__wrong_length_or_handle__IS_NOT_POSTED),
		TEST(send__several_under_way__EACH_HAS_ITS_BYTES),
		TEST(receive__more_than_the_queue_has__GIVES_EACH_BUFFER_BACK),
		TEST(receive__of_another_program_without_bytes__THE_NEXT),
		TEST(poll__no_place_for_the_news__COMES_WITH_THE_NEXT_POLL),
		TEST(wait__a_datagram_just_before_it_is_armed__RETURNS_AT_ONCE),
		TEST(wait__the_channel_rings__IS_ARMED_AGAIN_BEFORE_THE_NEXT_SLEEP),
		TEST(place__of_another_port__GOES_THE_WAY_OF_THE_CONNECTION),
		TEST(place__led_nowhere__IS_TRIED_AGAIN_AFTER_A_WHILE),
		TEST(place__more_than_there_is_room_for__FULL_AND_THE_OLD_ONES_STAY),
		TEST(poll__a_send_has_failed__IS_MENDED),
		TEST(poll__the_device_refuses_a_send__IS_MENDED),
		TEST(poll__fails_again_at_once__WAITS_BEFORE_IT_IS_MENDED),
		TEST(event__the_queue_pair_fails__ENDS_NO_CONNECTION),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int
main(void)
{
	puts("skip: built without verbs");
	return 77;
}

#endif
