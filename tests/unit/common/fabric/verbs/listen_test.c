/* SPDX-License-Identifier: Apache-2.0 */
/*
 * listen_test.c -- which requests of clients a listener hands to its owner, with a connection
 * manager that is made up.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#ifdef NAM_VERBS

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/env.h"
#include "common/fabric/verbs/verbs_internal.h"

/* ---- the connection manager ---------------------------------------------------------------- */

static struct {
	struct rdma_cm_id listening;
	struct rdma_cm_event event;
	bool came;		/* `event` has not been taken yet */
	bool acked;
	unsigned rejected, destroyed;	/* of the client's id, once its event is acked */
} manager;

struct rdma_event_channel *
rdma_create_event_channel(void)
{
	struct rdma_event_channel *channel = calloc(1, sizeof(*channel));

	assert_non_null(channel);
	channel->fd = eventfd(0, EFD_CLOEXEC);
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
	manager.listening.channel = channel;
	*id = &manager.listening;
	return 0;
}

int
rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)id;
	(void)address;
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
rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	(void)channel;
	if (!manager.came) {
		errno = EAGAIN;
		return -1;
	}
	manager.came = false;
	*event = &manager.event;
	return 0;
}

int
rdma_ack_cm_event(struct rdma_cm_event *event)
{
	assert_ptr_equal(event, &manager.event);
	manager.acked = true;
	return 0;
}

int
rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	(void)data;
	(void)bytes;
	manager.rejected += id == manager.event.id && manager.acked;
	return 0;
}

/* Waits until the id's events are acked: so this must come first. */
int
rdma_destroy_id(struct rdma_cm_id *id)
{
	manager.destroyed += id == manager.event.id && manager.acked;
	return 0;
}

/* ---- the fixture --------------------------------------------------------------------------- */

struct fixture {
	struct verbs_domain domain;
	struct ibv_device device;	/* where the client's request came */
	struct ibv_context context;
	struct rdma_cm_id id;
	struct verbs_hello hello;
	struct nam_listener *listener;
};

static int
setup(void **state)
{
	const struct nam_hello hello = { .bytes = 2, .data = "hi" };
	struct fixture *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	memset(&manager, 0, sizeof(manager));
	(void)snprintf(f->domain.device, sizeof(f->domain.device), "mlx5_0");
	(void)snprintf(f->device.name, sizeof(f->device.name), "mlx5_0");
	f->domain.reads_in = f->domain.reads_out = 16;
	f->context.device = &f->device;
	f->id.verbs = &f->context;
	f->id.route.addr.dst_addr.sa_family = AF_INET;
	nam__verbs_pack(VERBS_HELLO, &hello, IBV_MTU_512, &f->hello);
	manager.event = (struct rdma_cm_event){
		.id = &f->id,
		.event = RDMA_CM_EVENT_CONNECT_REQUEST,
		.param.conn = {
			.private_data = &f->hello,
			.private_data_len = sizeof(f->hello),
			.responder_resources = 4,
			.initiator_depth = 200,
		},
	};
	manager.came = true;
	assert_int_equal(nam__verbs_listen(&f->domain.pub, "verbs:0.0.0.0:7100", &f->listener,
		NULL), 0);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	struct fixture *f = *state;

	nam__verbs_listener_close(f->listener);
	free(f);
	return 0;
}

/* That the listener's owner hears nothing of the client, and the client that it is not wanted. */
static void
turned_away(struct fixture *f)
{
	struct nam_cm_event event;

	assert_int_equal(nam__verbs_listener_poll(f->listener, 0, &event), NAM_LISTENER_QUIET);
	assert_false(manager.came);
	assert_int_equal(manager.rejected, 1);
	assert_int_equal(manager.destroyed, 1);
}

static void
request__through_the_domains_device__IS_THE_OWNERS(void **state)
{
	struct fixture *f = *state;
	struct nam_cm_event event;

	assert_int_equal(nam__verbs_listener_poll(f->listener, 0, &event), NAM_LISTENER_EVENT);
	assert_int_equal(event.kind, NAM_CM_REQUEST);
	assert_int_equal(event.hello.bytes, 2);
	assert_memory_equal(event.hello.data, "hi", 2);
	assert_ptr_equal(event.request->id, &f->id);
	assert_int_equal(event.request->mtu, IBV_MTU_512);
	assert_int_equal(event.request->reads_in, 4);
	assert_int_equal(event.request->reads_out, 16);
	assert_true(manager.acked);
	assert_int_equal(manager.rejected + manager.destroyed, 0);
	nam__verbs_reject(f->listener, event.request, NULL);
	assert_int_equal(manager.rejected, 1);
	assert_int_equal(manager.destroyed, 1);
}

/* A wildcard listener listens there, too; but no memory is registered with that device. */
static void
request__through_another_device__IS_TURNED_AWAY(void **state)
{
	struct fixture *f = *state;

	(void)snprintf(f->device.name, sizeof(f->device.name), "mlx5_1");
	turned_away(f);
}

static void
request__through_no_device__IS_TURNED_AWAY(void **state)
{
	struct fixture *f = *state;

	f->id.verbs = NULL;
	turned_away(f);
}

static void
request__of_somebody_elses_protocol__IS_TURNED_AWAY(void **state)
{
	struct fixture *f = *state;

	f->hello.magic++;
	turned_away(f);
}

static void
request__without_a_word__IS_TURNED_AWAY(void **state)
{
	manager.event.param.conn.private_data = NULL;
	manager.event.param.conn.private_data_len = 0;
	turned_away(*state);
}

/* ---- clients that do not answer a challenge ------------------------------------------------ */

static uint64_t now_ms;

static uint64_t
now_ns(void)
{
	return now_ms * 1000000;
}

static void
count_drop(void *owner, const char *peer, int why)
{
	assert_int_equal(why, -NAM_E_FABRIC_TIMEOUT);
	assert_string_equal(peer, "0.0.0.0");
	++*(unsigned *)owner;
}

static void
challenge(struct fixture *f)
{
	const struct nam_hello wire = { .bytes = 32 };
	struct nam_cm_event event;

	manager.came = true;
	assert_int_equal(nam__verbs_listener_poll(f->listener, 0, &event), NAM_LISTENER_EVENT);
	nam__verbs_challenge(f->listener, event.request, &wire);
}

/* It is told once of each: of those that were too many at once, and of those that are late. */
static void
challenge__no_answer__THE_OWNER_IS_TOLD(void **state)
{
	static const struct nam_env env = { .now_ns = now_ns };
	struct fixture *f = *state;
	struct nam_cm_event event;
	unsigned drops = 0;

	f->listener->dropped = count_drop;
	f->listener->owner = &drops;
	now_ms = 1000;
	nam_env_install(&env);
	for (unsigned i = 0; i < NAM__PENDING_MAX; i++)
		challenge(f);
	assert_int_equal(drops, 0);
	challenge(f);
	challenge(f);
	assert_int_equal(drops, 2);
	now_ms += NAM__HANDSHAKE_NS / 1000000;
	assert_int_equal(nam__verbs_listener_poll(f->listener, 0, &event), NAM_LISTENER_QUIET);
	assert_int_equal(drops, 2);
	now_ms++;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(nam__verbs_listener_poll(f->listener, 0, &event),
			NAM_LISTENER_QUIET);
	assert_int_equal(drops, 2 + NAM__PENDING_MAX);
	nam_env_install(NULL);
}

static int
listen_at(struct fixture *f, const char *address, struct nam_diag *diag)
{
	struct nam_listener *listener;
	int rc = nam__verbs_listen(&f->domain.pub, address, &listener, diag);

	if (!rc)
		nam__verbs_listener_close(listener);
	return rc;
}

static void
listen__at_an_address_and_a_gid__AGREE_OR_ARE_REFUSED(void **state)
{
	struct sockaddr_in6 *six;
	struct sockaddr_in *four;
	struct fixture *f = *state;
	struct nam_diag diag = { "" };

	four = (struct sockaddr_in *)&f->domain.source;
	four->sin_family = AF_INET;
	assert_int_equal(inet_pton(AF_INET, "127.0.0.2", &four->sin_addr), 1);
	assert_int_equal(listen_at(f, "verbs:0.0.0.0:7100", &diag), 0);
	assert_int_equal(listen_at(f, "verbs:127.0.0.2:7100", &diag), 0);
	assert_string_equal(diag.text, "");
	assert_int_equal(listen_at(f, "verbs:127.0.0.3:7100", &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "another address; leave it out, or listen at 0.0.0.0"));
	assert_int_equal(listen_at(f, "verbs:[::1]:7100", &diag), -EINVAL);

	memset(&f->domain.source, 0, sizeof(f->domain.source));
	six = (struct sockaddr_in6 *)&f->domain.source;
	six->sin6_family = AF_INET6;
	assert_int_equal(inet_pton(AF_INET6, "::1", &six->sin6_addr), 1);
	assert_int_equal(listen_at(f, "verbs:[::1]:7100", &diag), 0);
	assert_int_equal(listen_at(f, "verbs:[::2]:7100", &diag), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(request__through_the_domains_device__IS_THE_OWNERS),
		TEST(request__through_another_device__IS_TURNED_AWAY),
		TEST(request__through_no_device__IS_TURNED_AWAY),
		TEST(request__of_somebody_elses_protocol__IS_TURNED_AWAY),
		TEST(request__without_a_word__IS_TURNED_AWAY),
		TEST(challenge__no_answer__THE_OWNER_IS_TOLD),
		TEST(listen__at_an_address_and_a_gid__AGREE_OR_ARE_REFUSED),
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
