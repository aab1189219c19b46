/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gone_test.c -- a device that is taken out, without a device.  Its descriptors are ready for ever
 * and say nothing, or the connection manager says that it goes.  The functions below play librdmacm
 * and libibverbs.
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

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/fabric/verbs/verbs_internal.h"

#define QPS 2u
#define TIMEOUT_NS 5000000000ull
#define WATCHED_NS 200000000ull

struct fixture {
	struct verbs_domain domain;
	struct ibv_context verbs;
	struct ibv_device device;
	struct rdma_event_channel channel;
	struct rdma_cm_id id[QPS];
	struct verbs_cq cq;
	struct ibv_qp device_qp[QPS];
	struct verbs_qp qp[QPS];
	int device_pipe[2], cm_pipe[2];
};

static atomic_uint asked, notices;	/* how often the device was asked for an event */
static struct rdma_event_channel listening;
static struct rdma_cm_id listener_id;
static struct rdma_cm_event said;
static struct rdma_event_channel *_Atomic sayer;	/* of `said`, which is to come there */

/* ---- the device and the connection manager ------------------------------------------------- */

int
ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
	(void)context;
	(void)event;
	atomic_fetch_add(&asked, 1);
	errno = EIO;
	return -1;
}

int
rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct rdma_event_channel *expected = channel;
	uint64_t one;

	if (atomic_compare_exchange_strong(&sayer, &expected, NULL)) {
		assert_int_equal(read(channel->fd, &one, sizeof(one)), sizeof(one));
		*event = &said;
		return 0;
	}
	errno = EAGAIN;
	return -1;
}

int
rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

int
rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	(void)id;
	(void)channel;
	return 0;
}

struct rdma_event_channel *
rdma_create_event_channel(void)
{
	listening.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return &listening;
}

void
rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
	if (channel == &listening)
		close(channel->fd);
}

int
rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
	enum rdma_port_space space)
{
	(void)context;
	(void)space;
	listener_id.channel = channel;
	*id = &listener_id;
	return 0;
}

int
rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *at)
{
	(void)id;
	(void)at;
	return 0;
}

int
rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)id;
	(void)backlog;
	return 0;
}

int
rdma_destroy_id(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

/* ---- two connections ----------------------------------------------------------------------- */

static void
note(const char *text)
{
	if (strstr(text, "mlx5_0: the device is gone"))
		atomic_fetch_add(&notices, 1);
}

static int
setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	atomic_store(&asked, 0);
	atomic_store(&notices, 0);
	atomic_store(&sayer, NULL);
	assert_int_equal(pipe(f->device_pipe), 0);
	assert_int_equal(pipe(f->cm_pipe), 0);
	(void)snprintf(f->domain.device, sizeof(f->domain.device), "mlx5_0");
	(void)snprintf(f->device.name, sizeof(f->device.name), "mlx5_0");
	f->verbs.device = &f->device;
	f->verbs.async_fd = f->device_pipe[0];
	f->channel.fd = f->cm_pipe[0];
	f->domain.notice = note;
	f->domain.verbs = &f->verbs;
	f->domain.watch.channel = &f->channel;
	f->domain.watch.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	f->cq.wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	assert_true(f->domain.watch.stop_fd >= 0 && f->cq.wake_fd >= 0);
	assert_int_equal(pthread_mutex_init(&f->domain.watch.mutex, NULL), 0);
	assert_int_equal(pthread_mutex_init(&f->cq.mutex, NULL), 0);
	for (unsigned i = 0; i < QPS; i++) {
		f->qp[i].qp = &f->device_qp[i];
		f->qp[i].cq = &f->cq;
		f->qp[i].domain = &f->domain;
		f->qp[i].id = &f->id[i];
		f->qp[i].dead = true;	/* nothing is sent */
		f->id[i].context = &f->qp[i];
		assert_int_equal(nam__verbs_watch_add(&f->qp[i]), 0);
	}
	*state = f;
	return 0;
}

static void
close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	nam__verbs_watch_free(&f->domain);
	for (unsigned i = 0; i < 2; i++) {
		close_end(&f->device_pipe[i]);
		close_end(&f->cm_pipe[i]);
	}
	close(f->cq.wake_fd);
	(void)pthread_mutex_destroy(&f->cq.mutex);
	free(f);
	return 0;
}

static unsigned
closed(struct fixture *f)
{
	unsigned count = 0;

	pthread_mutex_lock(&f->cq.mutex);
	for (unsigned i = 0; i < QPS; i++)
		count += f->qp[i].closed_reported;
	pthread_mutex_unlock(&f->cq.mutex);
	return count;
}

static void
await_closed(struct fixture *f)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;

	while (closed(f) < QPS && nam_now_ns() < until)
		nam_sleep_ns(1000000);
	assert_int_equal(closed(f), QPS);
	assert_int_equal(atomic_load(&notices), 1);
}

/* The connection manager says to `channel`, whose descriptor `wake` is written to, that ... */
static void
removed(struct rdma_cm_id *id, struct rdma_event_channel *channel, int wake)
{
	uint64_t one = 1;

	said = (struct rdma_cm_event){ .event = RDMA_CM_EVENT_DEVICE_REMOVAL, .id = id };
	atomic_store(&sayer, channel);
	assert_int_equal(write(wake, &one, sizeof(one)), sizeof(one));
}

/* ---- what becomes of it -------------------------------------------------------------------- */

static void
watch__the_devices_descriptor_has_ended__CLOSES_ALL_ONCE_AND_DOES_NOT_SPIN(void **state)
{
	struct fixture *f = *state;
	unsigned before;

	close_end(&f->device_pipe[1]);
	await_closed(f);
	before = atomic_load(&asked);
	nam_sleep_ns(WATCHED_NS);
	assert_int_equal(atomic_load(&asked), before);
	assert_int_equal(before, 1);
	/* The other one, too: nothing is said twice. */
	close_end(&f->cm_pipe[1]);
	nam_sleep_ns(WATCHED_NS);
	assert_int_equal(atomic_load(&notices), 1);
}

static void
watch__the_connection_managers_descriptor_has_ended__CLOSES_ALL_ONCE(void **state)
{
	struct fixture *f = *state;

	close_end(&f->cm_pipe[1]);
	await_closed(f);
}

static void
watch__the_device_is_quiet__CLOSES_NOTHING(void **state)
{
	struct fixture *f = *state;

	nam_sleep_ns(WATCHED_NS);
	assert_int_equal(closed(f), 0);
	assert_int_equal(atomic_load(&asked), 0);
}

static void
watch__a_connections_device_is_removed__CLOSES_ALL_ONCE(void **state)
{
	struct fixture *f = *state;

	removed(&f->id[0], &f->channel, f->cm_pipe[1]);
	await_closed(f);
}

static void
listen_at(struct fixture *f, struct ibv_context *bound_to, struct nam_listener **ret)
{
	struct nam_diag diag = { "" };

	listener_id.verbs = bound_to;
	assert_int_equal(nam__verbs_listen(&f->domain.pub, "127.0.0.1:7100", ret, &diag), 0);
}

static void
listener__its_device_is_removed__SAYS_ENODEV_AND_CLOSES_ALL(void **state)
{
	struct fixture *f = *state;
	struct nam_cm_event event;
	struct nam_listener *listener;

	listen_at(f, &f->verbs, &listener);
	assert_int_equal(nam__verbs_listener_poll(listener, 0, &event), NAM_LISTENER_QUIET);
	removed(&listener_id, &listening, listening.fd);
	assert_int_equal(nam__verbs_listener_poll(listener, TIMEOUT_NS, &event), -ENODEV);
	await_closed(f);
	nam__verbs_listener_close(listener);
}

static void
listener__everywhere_and_some_device_is_removed__GOES_ON(void **state)
{
	struct fixture *f = *state;
	struct nam_cm_event event;
	struct nam_listener *listener;

	listen_at(f, NULL, &listener);
	removed(&listener_id, &listening, listening.fd);
	assert_int_equal(nam__verbs_listener_poll(listener, 0, &event), NAM_LISTENER_QUIET);
	assert_int_equal(closed(f), 0);
	/* Its own, as the watcher sees. */
	close_end(&f->device_pipe[1]);
	await_closed(f);
	assert_int_equal(nam__verbs_listener_poll(listener, 0, &event), -ENODEV);
	nam__verbs_listener_close(listener);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(watch__the_devices_descriptor_has_ended__CLOSES_ALL_ONCE_AND_DOES_NOT_SPIN),
		TEST(watch__the_connection_managers_descriptor_has_ended__CLOSES_ALL_ONCE),
		TEST(watch__the_device_is_quiet__CLOSES_NOTHING),
		TEST(watch__a_connections_device_is_removed__CLOSES_ALL_ONCE),
		TEST(listener__its_device_is_removed__SAYS_ENODEV_AND_CLOSES_ALL),
		TEST(listener__everywhere_and_some_device_is_removed__GOES_ON),
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
