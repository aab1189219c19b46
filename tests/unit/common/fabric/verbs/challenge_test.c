/* SPDX-License-Identifier: Apache-2.0 */
/*
 * challenge_test.c -- handshakes in which the listener challenges the client, without a device.
 * The functions below play libibverbs, librdmacm with both ends in one thread, and a clock that
 * only waiting advances.
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

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/env.h"
#include "common/fabric/verbs/verbs_internal.h"

#define EVENTS_MAX 16u
#define REQ_BYTES 56u
#define REJ_BYTES 148u
#define REP_BYTES 196u
#define REASON_CONSUMER 28
#define ADDRESS "verbs:127.0.0.1:7100"

/* ---- the connection manager ---------------------------------------------------------------- */

struct fake_id {
	struct rdma_cm_id id;		/* first */
	struct fake_id *peer;		/* of a client: what the listener has; and back */
};

struct happening {
	struct rdma_event_channel *channel;	/* NULL: free */
	struct rdma_cm_event event;
	uint8_t data[REP_BYTES];
};

enum manner {
	ACCEPTS,			/* an answer */
	REJECTS,			/* an answer */
	CHALLENGES_ANSWERS,		/* by the provider */
	FORGES_REJECTION,		/* a challenge of an answer */
	FORGES_ACCEPTANCE,		/* a challenge in an acceptance, of a hello */
};

static struct {
	struct verbs_domain domain;
	struct verbs_cq cq;
	struct ibv_device device;
	struct ibv_context context;
	struct ibv_qp device_qps[32];
	unsigned qps_made, qps_destroyed;
	enum ibv_qp_state states[32];	/* of each of these */
	struct happening happenings[EVENTS_MAX];	/* a ring */
	unsigned begun, ended;
	struct nam_listener *listener;
	struct rdma_event_channel *at;	/* the listener's */
	struct in_addr from;		/* of clients */
	unsigned addresses;		/* of the memory server's name */
	unsigned connects;
	unsigned lost;			/* one of them, counted from 1; 0: none */
	unsigned turned_away;		/* by the provider, without a word */
	enum manner manner;
	unsigned requests, answers;	/* heard */
	struct verbs_reply last;	/* sent by a rejection */
	uint8_t mtu;			/* of the last accepted request */
	/* the client's callback */
	unsigned asked;
	int rc;
	uint32_t bytes;
	/* the other one, which validates a welcome */
	bool validates;
	unsigned welcomes;
	int welcome_rc;
	unsigned established;
} world;

static uint64_t now_ms;

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

int
getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
	struct addrinfo **list)
{
	static struct sockaddr_in at = { .sin_family = AF_INET };
	static struct addrinfo all[2];

	(void)host;
	(void)port;
	(void)hints;
	for (unsigned i = 0; i < world.addresses; i++)
		all[i] = (struct addrinfo){
			.ai_family = AF_INET,
			.ai_addr = (struct sockaddr *)&at,
			.ai_addrlen = sizeof(at),
			.ai_next = i + 1 < world.addresses ? &all[i + 1] : NULL,
		};
	*list = all;
	return 0;
}

void
freeaddrinfo(struct addrinfo *list)
{
	(void)list;
}

static void
happen(struct rdma_cm_id *id, enum rdma_cm_event_type type, const void *data, size_t bytes,
	size_t padded)
{
	struct happening *happening = &world.happenings[world.ended++ % EVENTS_MAX];

	assert_true(world.ended - world.begun <= EVENTS_MAX);
	assert_true(bytes <= padded && padded <= sizeof(happening->data));
	memset(happening, 0, sizeof(*happening));
	happening->channel = id->channel;
	happening->event.id = id;
	happening->event.event = type;
	happening->event.status = type == RDMA_CM_EVENT_REJECTED ? REASON_CONSUMER : 0;
	if (bytes)
		memcpy(happening->data, data, bytes);
	if (padded)
		happening->event.param.conn.private_data = happening->data;
	happening->event.param.conn.private_data_len = (uint8_t)padded;
}

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

static struct fake_id *
id_new(struct rdma_event_channel *channel)
{
	struct fake_id *fake = calloc(1, sizeof(*fake));

	assert_non_null(fake);
	fake->id.channel = channel;
	fake->id.verbs = &world.context;
	return fake;
}

int
rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
	enum rdma_port_space ps)
{
	(void)context;
	(void)ps;
	*id = &id_new(channel)->id;
	return 0;
}

int
rdma_destroy_id(struct rdma_cm_id *id)
{
	struct fake_id *fake = (struct fake_id *)id;

	if (fake->peer)
		fake->peer->peer = NULL;
	free(fake);
	return 0;
}

int
rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *address)
{
	(void)address;
	world.at = id->channel;
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
rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout_ms)
{
	(void)from;
	(void)to;
	(void)timeout_ms;
	happen(id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, 0, 0);
	return 0;
}

int
rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)timeout_ms;
	happen(id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, 0, 0);
	return 0;
}

/* A request reaches the listener. */
static struct fake_id *
arrive(const void *data, size_t bytes)
{
	struct fake_id *fake = id_new(world.at);
	struct sockaddr_in *peer = (struct sockaddr_in *)&fake->id.route.addr.dst_storage;

	peer->sin_family = AF_INET;
	peer->sin_addr = world.from;
	happen(&fake->id, RDMA_CM_EVENT_CONNECT_REQUEST, data, bytes, REQ_BYTES);
	return fake;
}

int
rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct fake_id *fake = (struct fake_id *)id;

	if (++world.connects == world.lost)
		return 0;
	fake->peer = arrive(param->private_data, param->private_data_len);
	fake->peer->peer = fake;
	return 0;
}

int
rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t bytes)
{
	struct fake_id *peer = ((struct fake_id *)id)->peer;

	world.turned_away += !data;
	memset(&world.last, 0, sizeof(world.last));
	if (data) {
		assert_int_equal(bytes, sizeof(world.last));
		memcpy(&world.last, data, bytes);
	}
	if (peer)
		happen(&peer->id, RDMA_CM_EVENT_REJECTED, data, bytes, REJ_BYTES);
	return 0;
}

int
rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	struct fake_id *peer = ((struct fake_id *)id)->peer;

	assert_non_null(peer);
	happen(&peer->id, RDMA_CM_EVENT_CONNECT_RESPONSE, param->private_data,
		param->private_data_len, REP_BYTES);
	return 0;
}

int
rdma_establish(struct rdma_cm_id *id)
{
	(void)id;
	world.established++;
	return 0;
}

int
rdma_disconnect(struct rdma_cm_id *id)
{
	(void)id;
	return 0;
}

int
rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	id->channel = channel;
	return 0;
}

int
rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id;
	attr->path_mtu = IBV_MTU_4096;
	*mask = 0;
	return 0;
}

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct ibv_qp *made = &world.device_qps[world.qps_made++ % 32];

	(void)pd;
	(void)attr;
	made->qp_num = world.qps_made;
	world.states[made - world.device_qps] = IBV_QPS_RESET;
	return made;
}

int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)mask;
	world.states[qp - world.device_qps] = attr->qp_state;
	return 0;
}

int
ibv_destroy_qp(struct ibv_qp *qp)
{
	(void)qp;
	world.qps_destroyed++;
	return 0;
}

/* ---- the memory server --------------------------------------------------------------------- */

static void
forge(struct nam_cm_request *request, bool accepts)
{
	struct verbs_reply forged;
	const struct rdma_conn_param param = {
		.private_data = &forged,
		.private_data_len = sizeof(forged),
	};

	nam__verbs_pack(VERBS_REPLY, &(const struct nam_hello){ .bytes = 1 }, 0, &forged);
	forged.params.kind = VERBS_CHALLENGE;
	if (accepts)
		(void)rdma_accept(request->id, (struct rdma_conn_param *)&param);
	else
		(void)rdma_reject(request->id, &forged, sizeof(forged));
	(void)rdma_destroy_id(request->id);
	free(request);
}

static void
respond(const struct nam_cm_event *event)
{
	const struct nam_qp_options options = { .cq = &world.cq.pub };
	struct nam_hello words = { .bytes = NAM_REPLY_BYTES_MAX };
	struct nam_qp *qp;

	memset(words.data, event->kind == NAM_CM_REQUEST ? 'c' : 'r', words.bytes);
	assert_int_equal(event->hello.bytes, 2);
	assert_memory_equal(event->hello.data, "hi", 2);
	assert_int_equal(event->request->mtu, IBV_MTU_512);
	if (event->kind == NAM_CM_REQUEST) {
		world.requests++;
		if (world.manner == FORGES_ACCEPTANCE)
			forge(event->request, true);
		else
			nam__verbs_challenge(world.listener, event->request, &words);
		return;
	}
	assert_int_equal(event->kind, NAM_CM_ANSWER);
	world.answers++;
	assert_int_equal(event->challenge.bytes, NAM_REPLY_BYTES_MAX);
	assert_int_equal(event->challenge.data[NAM_REPLY_BYTES_MAX - 1], 'c');
	assert_int_equal(event->answer.bytes, NAM_HELLO_BYTES_MAX);
	assert_int_equal(event->answer.data[NAM_HELLO_BYTES_MAX - 1], 'a');
	if (world.manner == ACCEPTS) {
		assert_int_equal(nam__verbs_accept(world.listener, event->request, &options,
			&words, &qp), 0);
		world.mtu = ((struct verbs_qp *)qp)->mtu;
		nam__verbs_qp_destroy(qp);
	} else if (world.manner == REJECTS) {
		nam__verbs_reject(world.listener, event->request, &words);
	} else if (world.manner == CHALLENGES_ANSWERS) {
		nam__verbs_challenge(world.listener, event->request, &words);
	} else {
		forge(event->request, false);
	}
}

/* While a client waits, the memory server runs. */
int
rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct happening *next = &world.happenings[world.begun % EVENTS_MAX];
	struct nam_cm_event heard;

	if (channel != world.at && world.begun != world.ended && next->channel == world.at &&
		nam__verbs_listener_poll(world.listener, 0, &heard) == NAM_LISTENER_EVENT)
		respond(&heard);
	next = &world.happenings[world.begun % EVENTS_MAX];
	if (world.begun == world.ended || next->channel != channel) {
		errno = EAGAIN;
		return -1;
	}
	world.begun++;
	*event = &next->event;
	return 0;
}

int
rdma_ack_cm_event(struct rdma_cm_event *event)
{
	(void)event;
	return 0;
}

/* ---- the fixture --------------------------------------------------------------------------- */

static int
setup(void **state)
{
	static const struct nam_env env = { .now_ns = now_ns };
	struct verbs_domain *domain = &world.domain;

	(void)state;
	memset(&world, 0, sizeof(world));
	now_ms = 1000000;
	nam_env_install(&env);
	(void)snprintf(domain->device, sizeof(domain->device), "mlx5_0");
	(void)snprintf(world.device.name, sizeof(world.device.name), "mlx5_0");
	world.context.device = &world.device;
	world.from.s_addr = htonl(INADDR_LOOPBACK);
	world.bytes = NAM_HELLO_BYTES_MAX;
	world.addresses = 1;
	domain->pub.limits.qp_depth = 16;
	domain->mtu = IBV_MTU_512;
	/* Never looked at: it stands for a watcher that runs. */
	domain->watch.thread = (struct nam_thread *)&world;
	(void)pthread_mutex_init(&domain->watch.mutex, NULL);
	world.cq.depth = 16;
	(void)pthread_mutex_init(&world.cq.mutex, NULL);
	return nam__verbs_listen(&domain->pub, "verbs:0.0.0.0:7100", &world.listener, NULL);
}

static int
teardown(void **state)
{
	(void)state;
	assert_int_equal(world.begun, world.ended);
	assert_int_equal(world.qps_made, world.qps_destroyed);
	nam__verbs_listener_close(world.listener);
	(void)pthread_mutex_destroy(&world.cq.mutex);
	(void)pthread_mutex_destroy(&world.domain.watch.mutex);
	nam_env_install(NULL);
	return 0;
}

/* ---- a whole client ------------------------------------------------------------------------ */

static int
answer(void *arg, const struct nam_hello *challenge, struct nam_hello *ret, struct nam_diag *diag)
{
	assert_ptr_equal(arg, &world);
	world.asked++;
	assert_int_equal(challenge->bytes, NAM_REPLY_BYTES_MAX);
	assert_int_equal(challenge->data[NAM_REPLY_BYTES_MAX - 1], 'c');
	ret->bytes = world.bytes;
	memset(ret->data, 'a', sizeof(ret->data));
	return world.rc ? nam_diag_set(diag, world.rc, "no") : 0;
}

/* The client's second queue pair, which is the second of all, takes nothing from the server yet. */
static int
validate_welcome(void *arg, struct nam_hello *reply, struct nam_diag *diag)
{
	assert_ptr_equal(arg, &world);
	world.welcomes++;
	assert_int_equal(world.states[1], IBV_QPS_INIT);
	assert_int_equal(world.established, 0);
	assert_int_equal(reply->bytes, NAM_REPLY_BYTES_MAX);
	assert_int_equal(reply->data[NAM_REPLY_BYTES_MAX - 1], 'r');
	return world.welcome_rc ? nam_diag_set(diag, world.welcome_rc, "no") : 0;
}

static int
attempt(nam_answer_fn *fn, struct nam_hello *reply, struct nam_diag *diag)
{
	const struct nam_hello hello = { .bytes = 2, .data = "hi" };
	const struct nam_qp_options options = {
		.cq = &world.cq.pub,
		.answer = fn,
		.welcome = world.validates ? validate_welcome : NULL,
		.answer_arg = &world,
	};
	struct nam_qp *qp;
	int rc = nam__verbs_connect(&world.domain.pub, ADDRESS, &hello, &options, reply, &qp, diag);

	if (rc)
		return rc;
	assert_int_equal(((struct verbs_qp *)qp)->mtu, IBV_MTU_512);
	nam__verbs_qp_destroy(qp);
	return 0;
}

static void
challenge__good_answer__CONNECTS_BY_ANOTHER_QUEUE_PAIR(void **state)
{
	struct nam_hello reply;
	struct nam_diag diag;

	(void)state;
	world.validates = true;
	assert_int_equal(attempt(answer, &reply, &diag), 0);
	assert_int_equal(world.welcomes, 1);
	assert_int_equal(world.states[1], IBV_QPS_RTS);
	assert_int_equal(world.established, 1);
	assert_int_equal(reply.bytes, NAM_REPLY_BYTES_MAX);
	assert_int_equal(reply.data[NAM_REPLY_BYTES_MAX - 1], 'r');
	assert_int_equal(world.connects, 2);
	assert_int_equal(world.qps_made, 3);
	assert_int_equal(world.asked, 1);
	assert_int_equal(world.mtu, IBV_MTU_512);
}

static void
challenge__answer_that_is_refused__HANDS_OVER_THE_REASON(void **state)
{
	struct nam_hello reply;
	struct nam_diag diag;

	(void)state;
	world.manner = REJECTS;
	assert_int_equal(attempt(answer, &reply, &diag), -ECONNREFUSED);
	assert_int_equal(reply.bytes, NAM_REPLY_BYTES_MAX);
	assert_int_equal(reply.data[NAM_REPLY_BYTES_MAX - 1], 'r');
	assert_int_equal(world.connects, 2);
}

static void
challenge__client_without_a_callback__DENIED(void **state)
{
	struct nam_hello reply;
	struct nam_diag diag;

	(void)state;
	world.addresses = 2;
	assert_int_equal(attempt(NULL, &reply, &diag), -NAM_E_FABRIC_DENIED);
	assert_string_equal(diag.text, "key: the memory server at " ADDRESS " wants one, and this "
		"client has none");
	assert_int_equal(reply.bytes, 0);
	assert_int_equal(world.connects, 1);
}

/* Codes that otherwise repeat an attempt, too, here or at another address. */
static void
challenge__callback_fails__ENDS_THE_ATTEMPT_WITH_ITS_CODE(void **state)
{
	static const int codes[] = { -ENOKEY, -ETIMEDOUT, -EAGAIN };
	struct nam_diag diag;

	(void)state;
	world.addresses = 2;
	for (unsigned i = 0; i < 3; i++) {
		world.rc = codes[i];
		assert_int_equal(attempt(answer, NULL, &diag), codes[i]);
		assert_string_equal(diag.text, "no");
		assert_int_equal(world.connects, i + 1);
	}
	world.rc = 0;
	world.bytes = NAM_HELLO_BYTES_MAX + 1;
	assert_int_equal(attempt(answer, NULL, &diag), -EINVAL);
	assert_int_equal(world.answers, 0);
}

/* With codes that otherwise repeat an attempt, too, here or at another address. */
static void
welcome__is_not_taken__QUEUE_PAIR_NEVER_STARTS(void **state)
{
	static const int codes[] = { -EKEYREJECTED, -ETIMEDOUT, -EAGAIN };
	struct nam_hello reply;
	struct nam_diag diag;

	(void)state;
	world.validates = true;
	world.addresses = 2;
	for (unsigned i = 0; i < 3; i++) {
		world.qps_made = world.qps_destroyed = 0;
		world.welcome_rc = codes[i];
		assert_int_equal(attempt(answer, &reply, &diag), codes[i]);
		assert_string_equal(diag.text, "no");
		assert_int_equal(world.welcomes, i + 1);
		assert_int_equal(world.states[1], IBV_QPS_INIT);
		assert_int_equal(world.established, 0);
		assert_int_equal(world.qps_made, 3);
		assert_int_equal(world.qps_destroyed, 3);
	}
}

static void
challenge__answer_is_lost__THE_ATTEMPT_BEGINS_ANEW(void **state)
{
	struct nam_diag diag;

	(void)state;
	world.lost = 2;
	assert_int_equal(attempt(answer, NULL, &diag), 0);
	assert_int_equal(now_ms, 1000500);
	assert_int_equal(world.requests, 2);
	assert_int_equal(world.asked, 2);
	assert_int_equal(world.answers, 1);
	assert_int_equal(world.connects, 4);
}

static void
challenge__of_an_answer__REFUSES_IT(void **state)
{
	struct nam_hello reply;
	struct nam_diag diag;

	(void)state;
	world.manner = CHALLENGES_ANSWERS;
	assert_int_equal(attempt(answer, &reply, &diag), -ECONNREFUSED);
	assert_int_equal(reply.bytes, 0);
	assert_int_equal(world.asked, 1);
}

static void
challenge__where_none_may_be__PROTOCOL(void **state)
{
	struct nam_diag diag;

	(void)state;
	world.manner = FORGES_REJECTION;
	assert_int_equal(attempt(answer, NULL, &diag), -NAM_E_FABRIC_PROTOCOL);
	assert_non_null(strstr(diag.text, "a second time"));
	assert_int_equal(world.asked, 1);
	world.manner = FORGES_ACCEPTANCE;
	assert_int_equal(attempt(answer, NULL, &diag), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(world.asked, 1);
}

/* ---- requests that come as they please ----------------------------------------------------- */

/* Returns the number of the challenge. */
static uint16_t
ask(void)
{
	struct verbs_hello hello;
	struct nam_cm_event event;

	nam__verbs_pack(VERBS_HELLO, &(const struct nam_hello){ .bytes = 2, .data = "hi" },
		IBV_MTU_512, &hello);
	(void)arrive(&hello, sizeof(hello));
	assert_int_equal(nam__verbs_listener_poll(world.listener, 0, &event), NAM_LISTENER_EVENT);
	respond(&event);
	assert_int_equal(world.last.params.kind, VERBS_CHALLENGE);
	return world.last.params.number;
}

/* Whether the owner heard it; else it was turned away as a malformed hello is. */
static bool
is_heard(uint16_t number)
{
	unsigned before = world.turned_away, answers = world.answers;
	struct verbs_hello hello;
	struct nam_cm_event event;
	struct nam_hello text = { .bytes = NAM_HELLO_BYTES_MAX };

	memset(text.data, 'a', sizeof(text.data));
	nam__verbs_pack(VERBS_HELLO, &text, 0, &hello);
	hello.params.kind = VERBS_ANSWER;
	hello.params.number = number;
	world.manner = REJECTS;
	(void)arrive(&hello, sizeof(hello));
	if (nam__verbs_listener_poll(world.listener, 0, &event) == NAM_LISTENER_EVENT)
		respond(&event);
	assert_int_equal(world.turned_away - before + world.answers - answers, 1);
	return world.answers != answers;
}

static void
answer__twice__IS_HEARD_ONCE(void **state)
{
	uint16_t number = ask();

	(void)state;
	assert_true(is_heard(number));
	assert_false(is_heard(number));
}

static void
answer__with_another_number__IS_TURNED_AWAY(void **state)
{
	uint16_t number;

	(void)state;
	/* Nothing has been asked yet. */
	assert_false(is_heard(0));
	number = ask();
	assert_false(is_heard((uint16_t)(number + 1)));
	assert_false(is_heard((uint16_t)(number + NAM__PENDING_MAX)));
	assert_true(is_heard(number));
}

static void
answer__from_another_address__IS_TURNED_AWAY_AND_SPOILS_NOTHING(void **state)
{
	uint16_t number = ask();

	(void)state;
	world.from.s_addr = htonl(INADDR_LOOPBACK + 1);
	assert_false(is_heard(number));
	for (unsigned i = 0; i < 2 * NAM__PENDING_MAX; i++)
		(void)ask();
	world.from.s_addr = htonl(INADDR_LOOPBACK);
	assert_true(is_heard(number));
}

static void
answer__too_late__IS_TURNED_AWAY(void **state)
{
	uint16_t numbers[2] = { ask(), ask() };

	(void)state;
	now_ms += NAM__HANDSHAKE_NS / 1000000;
	assert_true(is_heard(numbers[0]));
	now_ms++;
	assert_false(is_heard(numbers[1]));
}

static void
answer__too_many_wait__THE_OLDEST_IS_FORGOTTEN(void **state)
{
	uint16_t first, second;

	(void)state;
	/* Where the numbers wrap around, too. */
	for (unsigned i = 0; i < 65536 - 2; i++)
		(void)ask();
	first = ask();
	second = ask();
	for (unsigned i = 2; i < NAM__PENDING_MAX + 1; i++)
		(void)ask();
	assert_false(is_heard(first));
	assert_true(is_heard(second));
	assert_true(is_heard((uint16_t)(first + NAM__PENDING_MAX)));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(challenge__good_answer__CONNECTS_BY_ANOTHER_QUEUE_PAIR),
		TEST(challenge__answer_that_is_refused__HANDS_OVER_THE_REASON),
		TEST(challenge__client_without_a_callback__DENIED),
		TEST(challenge__callback_fails__ENDS_THE_ATTEMPT_WITH_ITS_CODE),
		TEST(welcome__is_not_taken__QUEUE_PAIR_NEVER_STARTS),
		TEST(challenge__answer_is_lost__THE_ATTEMPT_BEGINS_ANEW),
		TEST(challenge__of_an_answer__REFUSES_IT),
		TEST(challenge__where_none_may_be__PROTOCOL),
		TEST(answer__twice__IS_HEARD_ONCE),
		TEST(answer__with_another_number__IS_TURNED_AWAY),
		TEST(answer__from_another_address__IS_TURNED_AWAY_AND_SPOILS_NOTHING),
		TEST(answer__too_late__IS_TURNED_AWAY),
		TEST(answer__too_many_wait__THE_OLDEST_IS_FORGOTTEN),
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
