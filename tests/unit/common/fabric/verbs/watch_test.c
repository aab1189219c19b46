/* SPDX-License-Identifier: Apache-2.0 */
/*
 * watch_test.c -- what becomes of a device's asynchronous events, without a device: which
 * connections end, and what the operator is told.
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

#define QPS 3u

/* Two completion queues; the first has queue pairs 0 and 1, the second has 2. */
struct fixture {
	struct verbs_domain domain;
	struct verbs_cq cq[2];
	struct ibv_cq device_cq[2];
	struct ibv_srq device_srq[2];
	struct ibv_qp device_qp[QPS];
	struct verbs_qp qp[QPS];
};

static unsigned notices;
static char last_notice[256];

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

	assert_non_null(f);
	(void)snprintf(f->domain.device, sizeof(f->domain.device), "mlx5_0");
	f->domain.notice = note;
	assert_int_equal(pthread_mutex_init(&f->domain.watch.mutex, NULL), 0);
	for (unsigned i = 0; i < 2; i++) {
		f->cq[i].wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		assert_true(f->cq[i].wake_fd >= 0);
		assert_int_equal(pthread_mutex_init(&f->cq[i].mutex, NULL), 0);
	}
	for (unsigned i = 0; i < QPS; i++) {
		unsigned of = i / 2;

		f->device_qp[i] = (struct ibv_qp){
			.qp_context = &f->qp[i],
			.send_cq = &f->device_cq[of],
			.recv_cq = &f->device_cq[of],
			.srq = &f->device_srq[of],
		};
		f->qp[i].qp = &f->device_qp[i];
		f->qp[i].cq = &f->cq[of];
		f->qp[i].domain = &f->domain;
		f->qp[i].watched = true;
		LIST_INSERT_HEAD(&f->domain.watch.qps, &f->qp[i], watch_link);
	}
	notices = 0;
	last_notice[0] = '\0';
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < 2; i++) {
		close(f->cq[i].wake_fd);
		(void)pthread_mutex_destroy(&f->cq[i].mutex);
	}
	(void)pthread_mutex_destroy(&f->domain.watch.mutex);
	free(f);
	return 0;
}

/* One bit for each queue pair that is to be closed. */
static unsigned
closed(const struct fixture *f)
{
	unsigned bits = 0;

	for (unsigned i = 0; i < QPS; i++)
		bits |= (unsigned)f->qp[i].closed_reported << i;
	return bits;
}

static void
event__a_queue_pair_fails__ENDS_THAT_ONE_AND_IS_SAID_ONCE(void **state)
{
	static const enum ibv_event_type kinds[] = {
		IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR, IBV_EVENT_QP_ACCESS_ERR,
	};
	struct fixture *f = *state;

	for (unsigned i = 0; i < QPS; i++) {
		const struct ibv_async_event event = {
			.event_type = kinds[i],
			.element.qp = &f->device_qp[i],
		};
		const struct ibv_async_event again = {
			.event_type = IBV_EVENT_QP_FATAL,
			.element.qp = &f->device_qp[i],
		};

		nam__verbs_watch_event(&f->domain, &event);
		nam__verbs_watch_event(&f->domain, &again);
		assert_int_equal(closed(f), (2u << i) - 1);
		assert_int_equal(f->qp[i].closed_status, -NAM_E_FABRIC);
		assert_ptr_equal(SLIST_FIRST(&f->qp[i].cq->closed), &f->qp[i]);
		assert_int_equal(notices, i + 1);
		assert_non_null(strstr(last_notice, "mlx5_0: a queue pair failed"));
	}
}

static void
event__of_a_queue_pair_that_is_being_destroyed__IS_NOTHING(void **state)
{
	struct fixture *f = *state;
	const struct ibv_async_event event = {
		.event_type = IBV_EVENT_QP_FATAL,
		.element.qp = &f->device_qp[0],
	};

	f->qp[0].watched = false;
	nam__verbs_watch_event(&f->domain, &event);
	assert_int_equal(closed(f), 0);
	assert_int_equal(notices, 0);
}

static void
event__a_completion_queue_fails__ENDS_ITS_CONNECTIONS_ONLY(void **state)
{
	struct fixture *f = *state;
	const struct ibv_async_event event = {
		.event_type = IBV_EVENT_CQ_ERR,
		.element.cq = &f->device_cq[0],
	};

	nam__verbs_watch_event(&f->domain, &event);
	assert_int_equal(closed(f), 3);
	assert_int_equal(notices, 1);
	assert_non_null(strstr(last_notice, "completion queue"));
}

static void
event__a_receive_queue_fails__ENDS_ITS_CONNECTIONS_ONLY(void **state)
{
	struct fixture *f = *state;
	const struct ibv_async_event event = {
		.event_type = IBV_EVENT_SRQ_ERR,
		.element.srq = &f->device_srq[1],
	};

	nam__verbs_watch_event(&f->domain, &event);
	assert_int_equal(closed(f), 4);
	assert_int_equal(notices, 1);
	assert_non_null(strstr(last_notice, "receive queue failed"));
}

static void
event__the_device_fails__ENDS_EVERYTHING(void **state)
{
	struct fixture *f = *state;
	const struct ibv_async_event event = { .event_type = IBV_EVENT_DEVICE_FATAL };

	nam__verbs_watch_event(&f->domain, &event);
	assert_int_equal(closed(f), 7);
	assert_int_equal(notices, 1);
	assert_non_null(strstr(last_notice, "the device failed"));
}

static void
event__a_port_goes_down_and_up__IS_SAID_ONCE_AND_ENDS_NOTHING_BY_ITSELF(void **state)
{
	struct fixture *f = *state;
	const struct ibv_async_event down = {
		.event_type = IBV_EVENT_PORT_ERR,
		.element.port_num = 2,
	};
	const struct ibv_async_event up = {
		.event_type = IBV_EVENT_PORT_ACTIVE,
		.element.port_num = 2,
	};

	nam__verbs_watch_event(&f->domain, &up);
	assert_int_equal(notices, 0);
	for (unsigned i = 0; i < 3; i++) {
		nam__verbs_watch_event(&f->domain, &down);
		assert_true(f->domain.watch.urgent);
		nam__verbs_watch_event(&f->domain, &down);
		assert_non_null(strstr(last_notice, "mlx5_0: port 2 is down"));
		nam__verbs_watch_event(&f->domain, &up);
		nam__verbs_watch_event(&f->domain, &up);
		assert_non_null(strstr(last_notice, "mlx5_0: port 2 is up again"));
		assert_int_equal(notices, 2 * (i + 1));
	}
	assert_int_equal(closed(f), 0);
}

static void
event__a_receive_queue_runs_low__IS_SAID_WITH_WHAT_MAY_HELP(void **state)
{
	struct fixture *f = *state;
	const struct ibv_async_event event = {
		.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
		.element.srq = &f->device_srq[0],
	};

	nam__verbs_watch_event(&f->domain, &event);
	assert_int_equal(closed(f), 0);
	assert_int_equal(notices, 1);
	assert_non_null(strstr(last_notice, "rpc_threads"));
}

static void
event__nobody_listens_to_notices__ENDS_CONNECTIONS_ALL_THE_SAME(void **state)
{
	struct fixture *f = *state;
	const struct ibv_async_event event = { .event_type = IBV_EVENT_DEVICE_FATAL };

	f->domain.notice = NULL;
	nam__verbs_watch_event(&f->domain, &event);
	assert_int_equal(closed(f), 7);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(event__a_queue_pair_fails__ENDS_THAT_ONE_AND_IS_SAID_ONCE),
		TEST(event__of_a_queue_pair_that_is_being_destroyed__IS_NOTHING),
		TEST(event__a_completion_queue_fails__ENDS_ITS_CONNECTIONS_ONLY),
		TEST(event__a_receive_queue_fails__ENDS_ITS_CONNECTIONS_ONLY),
		TEST(event__the_device_fails__ENDS_EVERYTHING),
		TEST(event__a_port_goes_down_and_up__IS_SAID_ONCE_AND_ENDS_NOTHING_BY_ITSELF),
		TEST(event__a_receive_queue_runs_low__IS_SAID_WITH_WHAT_MAY_HELP),
		TEST(event__nobody_listens_to_notices__ENDS_CONNECTIONS_ALL_THE_SAME),
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
