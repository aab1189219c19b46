/* SPDX-License-Identifier: Apache-2.0 */
/*
 * connect_test.c -- how a client's time-out is spent on attempts when all packets are lost.  The
 * functions below play librdmacm, and a clock that only waiting advances.
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
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/env.h"
#include "common/fabric/verbs/verbs_internal.h"

#define ATTEMPTS_MAX 8u

static uint64_t now_ms;
static uint64_t began_ms[ATTEMPTS_MAX];
static unsigned attempts;

static uint64_t
now_ns(void)
{
	return now_ms * 1000000;
}

int
poll(struct pollfd *fds, nfds_t count, int timeout_ms)
{
	(void)fds;
	(void)count;
	now_ms += (uint64_t)timeout_ms;
	return 0;
}

struct rdma_event_channel *
rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = calloc(1, sizeof(*channel));

	assert_non_null(channel);
	channel->fd = eventfd(0, EFD_CLOEXEC);
	assert_true(attempts < ATTEMPTS_MAX);
	began_ms[attempts++] = now_ms;
	return channel;
}

void
rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	close(channel->fd);
	free(channel);
}

int
rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
	enum rdma_port_space ps)
{
	(void)context;
	(void)ps;
	*id = calloc(1, sizeof(**id));
	assert_non_null(*id);
	(*id)->channel = channel;
	return 0;
}

int
rdma_destroy_id(struct rdma_cm_id *id)
{
	free(id);
	return 0;
}

int
rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
	(void)id;
	(void)from;
	(void)to;
	(void)timeout_ms;
	return 0;
}

int
rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel;
	(void)event;
	errno = EAGAIN;
	return -1;
}

/* That a client with this time-out begins attempts at these times, and gives up in time. */
static void
spends(uint64_t timeout_ms, const uint64_t *wanted_ms, unsigned wanted)
{
	const struct nam_env env = { .now_ns = now_ns };
	struct verbs_domain domain = { .pub.timeout_ns = timeout_ms * 1000000 };
	const struct nam_qp_options options = { 0 };
	struct nam_diag diag = { "" };
	struct nam_qp *qp;

	now_ms = 1000000;
	attempts = 0;
	nam_env_install(&env);
	assert_int_equal(nam__verbs_connect(&domain.pub, "verbs:127.0.0.1:7100", NULL, &options,
		NULL, &qp, &diag), -ETIMEDOUT);
	nam_env_install(NULL);
	assert_int_equal(now_ms, 1000000 + timeout_ms);
	assert_int_equal(attempts, wanted);
	for (unsigned i = 0; i < wanted; i++)
		assert_int_equal(began_ms[i], 1000000 + wanted_ms[i]);
}

static void
connect__silence_and_3_s_or_more__MAKES_FOUR_ATTEMPTS(void **state)
{
	(void)state;
	spends(3000, (const uint64_t[]){ 0, 500, 1500, 2250 }, 4);
	spends(5000, (const uint64_t[]){ 0, 500, 1500, 3250 }, 4);
	spends(60000, (const uint64_t[]){ 0, 500, 1500, 3500 }, 4);
}

static void
connect__silence_and_little_timeout__GIVES_EACH_ATTEMPT_HALF_A_SECOND(void **state)
{
	(void)state;
	spends(999, (const uint64_t[]){ 0 }, 1);
	spends(1000, (const uint64_t[]){ 0, 500 }, 2);
	spends(2000, (const uint64_t[]){ 0, 500, 1250 }, 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connect__silence_and_3_s_or_more__MAKES_FOUR_ATTEMPTS),
		cmocka_unit_test(
			connect__silence_and_little_timeout__GIVES_EACH_ATTEMPT_HALF_A_SECOND),
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
