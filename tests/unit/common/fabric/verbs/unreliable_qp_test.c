/* SPDX-License-Identifier: Apache-2.0 */
/*
 * unreliable_qp_test.c -- an unreliable queue pair whose device has bad news, without a device:
 * libibverbs is played by the functions below.  The contract of unreliable queue pairs is in
 * fabric/unreliable_qp_test.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef NAM_VERBS

#include <sys/eventfd.h>
#include <unistd.h>

#include "common/fabric/verbs/verbs_internal.h"

struct fixture {
	struct verbs_domain domain;
	struct verbs_cq cq;
	struct ibv_cq sends;
	struct verbs_rq rq;
	struct ibv_cq recvs;
	struct ibv_srq srq;
	struct ibv_qp device_qp;
	struct verbs_qp qp;		/* the connection */
	struct nam_qp *unreliable_qp;
};

static struct ibv_qp *made[2];		/* UC, UD */
static unsigned made_count, notices;
static char last_notice[256];

/* ---- the device ---------------------------------------------------------------------------- */

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *qp = calloc(1, sizeof(*qp));

	(void)pd;
	assert_non_null(qp);
	assert_true(made_count < 2);
	*qp = (struct ibv_qp){
		.qp_context = attr->qp_context,
		.send_cq = attr->send_cq,
		.recv_cq = attr->recv_cq,
		.srq = attr->srq,
		.qp_num = 17 + made_count,
		.qp_type = attr->qp_type,
	};
	return made[made_count++] = qp;
}

int
ibv_destroy_qp(struct ibv_qp *qp)
{
	free(qp);
	return 0;
}

int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	(void)attr;
	(void)mask;
	return 0;
}

int
ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init)
{
	(void)qp;
	(void)mask;
	(void)init;
	*attr = (struct ibv_qp_attr){ .path_mtu = IBV_MTU_1024, .port_num = 1 };
	return 0;
}

/* ---- a client's unreliable queue pair -------------------------------------------------------- */

static void
note(const char *text)
{
	notices++;
	(void)snprintf(last_notice, sizeof(last_notice), "%s", text);
}

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	struct nam_qp_options options = { .cq = &f->cq.pub, .rq = &f->rq.pub };
	uint64_t name;

	assert_non_null(f);
	made_count = notices = 0;
	last_notice[0] = '\0';
	(void)snprintf(f->domain.device, sizeof(f->domain.device), "mlx5_0");
	f->domain.notice = note;
	f->domain.pub.limits = (struct nam_fabric_limits){
		.caps = NAM_CAP_UD,
		.qp_depth = 64,
		.datagram_bytes = 1024,
	};
	assert_int_equal(pthread_mutex_init(&f->domain.watch.mutex, NULL), 0);
	f->cq.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(f->cq.wake_fd >= 0);
	assert_int_equal(pthread_mutex_init(&f->cq.mutex, NULL), 0);
	f->cq.sends.cq = &f->sends;
	LIST_INSERT_HEAD(&f->cq.dones, &f->cq.sends, link);
	f->rq.srq = &f->srq;
	f->rq.recvs.cq = &f->recvs;
	f->device_qp.send_cq = f->device_qp.recv_cq = &f->sends;
	f->qp = (struct verbs_qp){
		.qp = &f->device_qp,
		.cq = &f->cq,
		.domain = &f->domain,
		.watched = true,
	};
	LIST_INSERT_HEAD(&f->domain.watch.qps, &f->qp, watch_link);
	assert_int_equal(nam__verbs_unreliable_qp_create(&f->domain.pub, &options, &name,
		&f->unreliable_qp), 0);
	assert_int_equal(made_count, 2);
	assert_int_equal(nam__verbs_unreliable_qp_join(f->unreliable_qp, &f->qp.pub, 5), 0);
	*state = f;
	return 0;
}

static void
end_unreliable_qp(struct fixture *f)
{
	if (f->unreliable_qp)
		nam__verbs_unreliable_qp_destroy((struct verbs_qp *)f->unreliable_qp);
	f->unreliable_qp = NULL;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	end_unreliable_qp(f);
	close(f->cq.wake_fd);
	(void)pthread_mutex_destroy(&f->cq.mutex);
	(void)pthread_mutex_destroy(&f->domain.watch.mutex);
	free(f);
	return 0;
}

/* ---- what it says -------------------------------------------------------------------------- */

static void
fails(struct fixture *f, struct ibv_qp *qp, enum ibv_event_type kind)
{
	const struct ibv_async_event event = { .event_type = kind, .element.qp = qp };

	nam__verbs_watch_event(&f->domain, &event);
}

static void
receive_queue_fails(struct fixture *f)
{
	const struct ibv_async_event event = {
		.event_type = IBV_EVENT_SRQ_ERR,
		.element.srq = &f->srq,
	};

	nam__verbs_watch_event(&f->domain, &event);
}

/* Either of its queue pairs, by any of the three words for it. */
static void
check_failure(struct fixture *f, unsigned which, enum ibv_event_type kind)
{
	fails(f, made[which], kind);
	assert_true(f->qp.closed_reported);
	assert_int_equal(f->qp.closed_status, -NAM_E_FABRIC);
	assert_ptr_equal(SLIST_FIRST(&f->cq.closed), &f->qp);
	assert_int_equal(notices, 1);
	assert_non_null(strstr(last_notice, "its connection is closed"));
	fails(f, made[!which], IBV_EVENT_QP_FATAL);
	assert_int_equal(notices, 1);
}

static void
event__a_unreliable_qps_uc_queue_pair_fails__ENDS_THE_CONNECTION_BESIDE_IT(void **state)
{
	check_failure(*state, 0, IBV_EVENT_QP_ACCESS_ERR);
}

static void
event__a_unreliable_qps_ud_queue_pair_fails__ENDS_THE_CONNECTION_BESIDE_IT(void **state)
{
	check_failure(*state, 1, IBV_EVENT_QP_FATAL);
}

static void
event__a_unreliable_qps_receive_queue_fails__ENDS_THE_CONNECTION_BESIDE_IT(void **state)
{
	struct fixture *f = *state;

	receive_queue_fails(f);
	assert_true(f->qp.closed_reported);
	assert_int_equal(notices, 1);
	assert_non_null(strstr(last_notice, "its connections are closed"));
}

static void
event__of_a_unreliable_qp_whose_connection_is_gone__IS_NOTHING(void **state)
{
	struct fixture *f = *state;

	nam__verbs_watch_remove(&f->qp);
	fails(f, made[0], IBV_EVENT_QP_REQ_ERR);
	assert_false(f->qp.closed_reported);
	assert_int_equal(notices, 0);
	receive_queue_fails(f);
	assert_false(f->qp.closed_reported);
}

static void
event__after_the_unreliable_qp_was_destroyed__ENDS_NOTHING(void **state)
{
	struct fixture *f = *state;

	end_unreliable_qp(f);
	receive_queue_fails(f);
	assert_false(f->qp.closed_reported);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(event__a_unreliable_qps_uc_queue_pair_fails__ENDS_THE_CONNECTION_BESIDE_IT),
		TEST(event__a_unreliable_qps_ud_queue_pair_fails__ENDS_THE_CONNECTION_BESIDE_IT),
		TEST(event__a_unreliable_qps_receive_queue_fails__ENDS_THE_CONNECTION_BESIDE_IT),
		TEST(event__of_a_unreliable_qp_whose_connection_is_gone__IS_NOTHING),
		TEST(event__after_the_unreliable_qp_was_destroyed__ENDS_NOTHING),
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
