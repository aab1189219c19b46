/* SPDX-License-Identifier: Apache-2.0 */
/*
 * poll_test.c -- how the data path takes completions, how it waits for them, and which requests it
 * keeps from Soft-RoCE.  The device is made up: it does nothing but what a test says.
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

#define NUMBER 7u		/* of every queue pair: as if each were destroyed before the next */
#define DEPTH 4u
#define TIMEOUT_NS 100000000ull

/* ---- the device ---------------------------------------------------------------------------- */

struct made_up_cq {
	struct ibv_cq pub;
	struct ibv_wc wcs[16];
	unsigned head, tail;
};

static struct {
	struct ibv_context context;
	struct ibv_send_wr posts[16];
	unsigned posted;
	struct ibv_cq *late;	/* has this completion just before it is armed */
	struct ibv_wc late_wc;
} device;

static void
completes(struct ibv_cq *pub, struct ibv_wc wc)
{
	struct made_up_cq *cq = (struct made_up_cq *)pub;

	assert_true(cq->tail < sizeof(cq->wcs) / sizeof(cq->wcs[0]));
	wc.qp_num = NUMBER;
	cq->wcs[cq->tail++] = wc;
}

static int
poll_cq(struct ibv_cq *pub, int max, struct ibv_wc *wcs)
{
	struct made_up_cq *cq = (struct made_up_cq *)pub;
	int n = 0;

	while (n < max && cq->head < cq->tail)
		wcs[n++] = cq->wcs[cq->head++];
	return n;
}

/* Raises no event for what is there already, as devices do not. */
static int
req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)solicited_only;
	if (cq == device.late)
		completes(cq, device.late_wc);
	return 0;
}

static int
post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp;
	(void)bad;
	for (; wr; wr = wr->next) {
		assert_true(device.posted < sizeof(device.posts) / sizeof(device.posts[0]));
		device.posts[device.posted++] = *wr;
	}
	return 0;
}

static int
post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)srq;
	(void)wr;
	(void)bad;
	return 0;
}

struct ibv_comp_channel *
ibv_create_comp_channel(struct ibv_context *context)
{
	struct ibv_comp_channel *channel = calloc(1, sizeof(*channel));

	assert_non_null(channel);
	channel->context = context;
	channel->fd = eventfd(0, EFD_CLOEXEC);
	return channel;
}

int
ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	close(channel->fd);
	free(channel);
	return 0;
}

struct ibv_cq *
ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
	struct ibv_comp_channel *channel, int comp_vector)
{
	struct made_up_cq *cq = calloc(1, sizeof(*cq));

	(void)cqe;
	(void)comp_vector;
	assert_non_null(cq);
	cq->pub.context = context;
	cq->pub.channel = channel;
	cq->pub.cq_context = cq_context;
	return &cq->pub;
}

int
ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	return 0;
}

struct ibv_srq *
ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct ibv_srq *srq = calloc(1, sizeof(*srq));

	(void)attr;
	assert_non_null(srq);
	srq->context = pd->context;
	return srq;
}

int
ibv_destroy_srq(struct ibv_srq *srq)
{
	free(srq);
	return 0;
}

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	assert_non_null(qp);
	qp->context = pd->context;
	qp->qp_context = attr->qp_context;
	qp->qp_num = NUMBER;
	return qp;
}

int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)mask;
	qp->state = attr->qp_state;
	return 0;
}

int
ibv_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}

int
rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

int
rdma_destroy_id(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

/* ---- the fixture --------------------------------------------------------------------------- */

struct fixture {
	struct verbs_domain domain;
	struct ibv_pd pd;
	struct rdma_cm_id id;
	struct verbs_cq *cq;
	struct verbs_rq *rq;
	struct verbs_qp *qp;
	int context;		/* its address is that of the newest request */
};

/* Also instead of the one that there is. */
static void
connect_qp(struct fixture *f)
{
	const struct nam_qp_options options = { .cq = &f->cq->pub, .rq = &f->rq->pub };
	struct nam_wc wc;

	nam__verbs_qp_destroy(f->qp ? &f->qp->pub : NULL);
	assert_int_equal(nam__verbs_qp_create(&f->domain, &options, &f->id, &f->qp, NULL), 0);
	nam__verbs_cq_join(f->cq, f->qp);
	assert_int_equal(nam__verbs_cq_poll(&f->cq->pub, &wc, 1), 0);
}

static int
make(void **state, bool soft)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct nam_cq *cq;
	struct nam_rq *rq;

	assert_non_null(f);
	memset(&device, 0, sizeof(device));
	device.context.ops.poll_cq = poll_cq;
	device.context.ops.req_notify_cq = req_notify_cq;
	device.context.ops.post_send = post_send;
	device.context.ops.post_srq_recv = post_srq_recv;
	f->pd.context = &device.context;
	f->domain.verbs = &device.context;
	f->domain.pd = &f->pd;
	f->domain.soft = soft;
	f->domain.longest = VERBS_MESSAGE_BYTES;
	f->domain.cqes_max = 1u << 16;
	f->domain.pub.limits.qp_depth = DEPTH;
	assert_int_equal(pthread_mutex_init(&f->domain.watch.mutex, NULL), 0);
	assert_int_equal(nam__verbs_cq_create(&f->domain.pub, 2 * DEPTH, &cq), 0);
	assert_int_equal(nam__verbs_rq_create(&f->domain.pub, cq, DEPTH, &rq), 0);
	f->cq = (struct verbs_cq *)cq;
	f->rq = (struct verbs_rq *)rq;
	connect_qp(f);
	*state = f;
	return 0;
}

static int
setup(void **state)
{
	return make(state, false);
}

static int
soft_setup(void **state)
{
	return make(state, true);
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	nam__verbs_qp_destroy(&f->qp->pub);
	nam__verbs_rq_destroy(&f->rq->pub);
	nam__verbs_cq_destroy(&f->cq->pub);
	(void)pthread_mutex_destroy(&f->domain.watch.mutex);
	free(f);
	return 0;
}

static void
post(struct fixture *f, enum nam_wr_op op)
{
	const struct nam_wr wr = {
		.op = (uint8_t)op,
		.flags = NAM_WR_SIGNALED,
		.bytes = 8,
		.context = &f->context,
	};

	assert_int_equal(nam__verbs_qp_post(&f->qp->pub, &wr, 1), 0);
}

/* The device is done with the request that it got `i` before the newest one. */
static struct ibv_wc
done(unsigned i)
{
	return (struct ibv_wc){ .wr_id = device.posts[device.posted - 1 - i].wr_id };
}

/* That this alone is reported. */
static void
reports(struct fixture *f, enum nam_wr_op op)
{
	struct nam_wc wcs[2];

	assert_int_equal(nam__verbs_cq_poll(&f->cq->pub, wcs, 2), 1);
	assert_int_equal(wcs[0].op, op);
	assert_ptr_equal(wcs[0].qp, &f->qp->pub);
}

static void
reports_nothing(struct fixture *f)
{
	struct nam_wc wcs[2];

	assert_int_equal(nam__verbs_cq_poll(&f->cq->pub, wcs, 2), 0);
}

/* `count` messages arrive in buffers that were there for them. */
static void
messages_arrive(struct fixture *f, unsigned count)
{
	struct nam_recv recvs[DEPTH] = { 0 };

	assert_int_equal(nam__verbs_rq_post(&f->rq->pub, recvs, count), 0);
	for (unsigned i = 0; i < count; i++)
		completes(f->rq->recvs.cq, (struct ibv_wc){ .wr_id = i, .byte_len = 1 });
}

/* ---- waiting ------------------------------------------------------------------------------- */

static void
wait__done_just_before_it_is_armed__RETURNS_AT_ONCE(void **state)
{
	struct fixture *f = *state;

	post(f, NAM_WR_READ);
	device.late = f->cq->sends.cq;
	device.late_wc = done(0);
	assert_int_equal(nam__verbs_cq_wait(&f->cq->pub, TIMEOUT_NS), 0);
	reports(f, NAM_WR_READ);
}

static void
wait__a_message_just_before_it_is_armed__RETURNS_AT_ONCE(void **state)
{
	struct nam_recv recv = { 0 };
	struct fixture *f = *state;

	assert_int_equal(nam__verbs_rq_post(&f->rq->pub, &recv, 1), 0);
	device.late = f->rq->recvs.cq;
	device.late_wc = (struct ibv_wc){ .byte_len = 1 };
	assert_int_equal(nam__verbs_cq_wait(&f->cq->pub, TIMEOUT_NS), 0);
	reports(f, NAM_WC_RECV);
}

static void
wait__nothing_comes__ENDS_IN_TIME(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(nam__verbs_cq_wait(&f->cq->pub, TIMEOUT_NS / 10), -ETIMEDOUT);
	reports_nothing(f);
}

/* ---- completions of others ----------------------------------------------------------------- */

static void
poll__of_an_earlier_queue_pair_of_the_same_number__IS_NOT_THIS_ONES(void **state)
{
	struct fixture *f = *state;
	struct ibv_wc late, failed;

	post(f, NAM_WR_READ);
	late = failed = done(0);
	failed.status = IBV_WC_WR_FLUSH_ERR;
	connect_qp(f);
	post(f, NAM_WR_READ);
	completes(f->cq->sends.cq, late);
	completes(f->cq->sends.cq, failed);
	reports_nothing(f);
	assert_false(f->qp->broken);
	completes(f->cq->sends.cq, done(0));
	reports(f, NAM_WR_READ);
	assert_int_equal(f->cq->outstanding, 0);
}

/* The watcher may have one WRITE under way, and the device room for one. */
static void
poll__of_an_earlier_queue_pairs_watcher__LEAVES_THIS_ONES_WRITE_UNDER_WAY(void **state)
{
	struct fixture *f = *state;
	uint64_t earlier = nam__verbs_wr_id(f->qp, 0) | VERBS_KEEP_ALIVE;

	connect_qp(f);
	atomic_store(&f->qp->trying, true);
	completes(f->cq->sends.cq, (struct ibv_wc){ .wr_id = earlier });
	reports_nothing(f);
	assert_true(atomic_load(&f->qp->trying));
	completes(f->cq->sends.cq,
		(struct ibv_wc){ .wr_id = nam__verbs_wr_id(f->qp, 0) | VERBS_KEEP_ALIVE });
	reports_nothing(f);
	assert_false(atomic_load(&f->qp->trying));
}

/* ---- the end ------------------------------------------------------------------------------- */

static void
poll__a_peer_that_sent_and_went__REPORTS_ITS_MESSAGES_BEFORE_CLOSED(void **state)
{
	/* However many are asked for at a time. */
	for (unsigned max = 1; max <= DEPTH + 2; max++) {
		struct fixture *f = *state;
		struct nam_wc wcs[DEPTH + 2];
		unsigned n = 0;

		messages_arrive(f, DEPTH);
		assert_true(nam__verbs_cq_closed(f->cq, f->qp, -NAM_E_FABRIC_PEER_DEAD));
		for (unsigned tries = 0; n < DEPTH + 1 && tries < DEPTH + 1; tries++)
			n += (unsigned)nam__verbs_cq_poll(&f->cq->pub, &wcs[n],
				max < DEPTH + 2 - n ? max : DEPTH + 2 - n);
		assert_int_equal(n, DEPTH + 1);
		for (unsigned i = 0; i < DEPTH; i++)
			assert_int_equal(wcs[i].op, NAM_WC_RECV);
		assert_int_equal(wcs[DEPTH].op, NAM_WC_CLOSED);
		reports_nothing(f);
		(void)teardown(state);
		(void)setup(state);
	}
}

/* ---- what Soft-RoCE must not have yet ------------------------------------------------------ */

static void
hold__an_atomic_behind_the_watchers_write__WAITS_FOR_ITS_COMPLETION(void **state)
{
	struct fixture *f = *state;
	uint64_t watchers = nam__verbs_wr_id(f->qp, 0) | VERBS_KEEP_ALIVE;

	atomic_store(&f->qp->trying, true);
	post(f, NAM_WR_READ);
	assert_int_equal(device.posted, 1);
	completes(f->cq->sends.cq, done(0));
	reports(f, NAM_WR_READ);
	post(f, NAM_WR_CAS);
	reports_nothing(f);
	assert_int_equal(device.posted, 1);
	/* Nothing else is under way, so nothing else would let it go. */
	completes(f->cq->sends.cq, (struct ibv_wc){ .wr_id = watchers });
	reports_nothing(f);
	assert_int_equal(device.posted, 2);
	assert_int_equal(device.posts[1].opcode, IBV_WR_ATOMIC_CMP_AND_SWP);
	completes(f->cq->sends.cq, done(0));
	reports(f, NAM_WR_CAS);
	assert_int_equal(f->cq->outstanding, 0);
}

static void
hold__an_atomic_behind_a_write__WAITS_FOR_ITS_COMPLETION(void **state)
{
	struct fixture *f = *state;

	post(f, NAM_WR_WRITE);
	post(f, NAM_WR_FETCH_ADD);
	assert_int_equal(device.posted, 1);
	completes(f->cq->sends.cq, done(0));
	reports(f, NAM_WR_WRITE);
	assert_int_equal(device.posted, 2);
	assert_int_equal(device.posts[1].opcode, IBV_WR_ATOMIC_FETCH_AND_ADD);
	completes(f->cq->sends.cq, done(0));
	reports(f, NAM_WR_FETCH_ADD);
}

static void
hold__other_devices__HAVE_ALL_AT_ONCE(void **state)
{
	struct fixture *f = *state;

	atomic_store(&f->qp->trying, true);
	post(f, NAM_WR_WRITE);
	post(f, NAM_WR_CAS);
	assert_int_equal(device.posted, 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SOFT_TEST(name) cmocka_unit_test_setup_teardown(name, soft_setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(wait__done_just_before_it_is_armed__RETURNS_AT_ONCE),
		TEST(wait__a_message_just_before_it_is_armed__RETURNS_AT_ONCE),
		TEST(wait__nothing_comes__ENDS_IN_TIME),
		TEST(poll__of_an_earlier_queue_pair_of_the_same_number__IS_NOT_THIS_ONES),
		TEST(poll__of_an_earlier_queue_pairs_watcher__LEAVES_THIS_ONES_WRITE_UNDER_WAY),
		TEST(poll__a_peer_that_sent_and_went__REPORTS_ITS_MESSAGES_BEFORE_CLOSED),
		SOFT_TEST(hold__an_atomic_behind_the_watchers_write__WAITS_FOR_ITS_COMPLETION),
		SOFT_TEST(hold__an_atomic_behind_a_write__WAITS_FOR_ITS_COMPLETION),
		TEST(hold__other_devices__HAVE_ALL_AT_ONCE),
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
