/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory servers that come while a client runs.  The tests append, connect, learn and publish in
 * the place of the epoch thread, which ends at first.
 *
 * Assertions stay on the thread's own stack: cmocka leaves a failed test with longjmp.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "compute/remote/batch.h"
#include "compute/worker/doorbell.h"
#include "compute/worker/outstanding_reads.h"
#include "tests/lib/cluster.h"
#include "member.h"

#define MEMORY_BYTES (8ull << 20)
#define REGION_BYTES (4ull << 20)
#define MANY_SLOTS 70u		/* more than 65,536 requests, as deep as queue pairs are */

static struct local_cluster *cluster;
static struct member me;
static struct nam_gaddr block;		/* on server 0 */

static void
join_first(const char *address)
{
	me.client = test_connect(address, "growth_test", 0);
	me.worker = test_worker(me.client);
	nam__epoch_thread_stop(me.client);
}

static int
setup(void **state)
{
	(void)state;
	cluster = local_cluster_start(3, MEMORY_BYTES, REGION_BYTES);
	join_first(local_cluster_address(cluster, 0));
	if (nam_alloc(me.worker, 64, &block))
		return -1;
	block = nam_gaddr_untagged(block);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	leave(&me);
	local_cluster_stop(cluster);
	return 0;
}

/* The steps before the slot is published. */
static uint32_t
append_and_learn(const char *address)
{
	struct nam_client *client = me.client;
	struct nam_diag diag = { "" };
	uint32_t slot = UINT32_MAX;

	if (nam__server_append(client, address, &slot, &diag) ||
		nam__worker_connect(client->epoch_worker, slot, &diag) ||
		nam__regions_learn(client, slot, 1, &diag))
		fail_msg("%s", diag.text);
	nam__colocated_open(client, slot);
	return slot;
}

static uint32_t
install(const char *address)
{
	uint32_t slot = append_and_learn(address);

	nam__server_publish(me.client, slot);
	return slot;
}

static void
usable_set(uint32_t slot)
{
	atomic_store(&me.client->servers[slot].usable, true);
}

static const struct nam_region *
region_find(uint16_t id)
{
	return nam_region_table_find(&me.client->regions, nam_gaddr_make(id, 0, 0));
}

/* ---- publication -------------------------------------------------------------------------- */

static void
server_append__step_by_step__SEEN_ONLY_ONCE_PUBLISHED(void **state)
{
	struct nam_client *client = me.client;
	struct nam_diag diag = { "" };
	uint32_t slot;

	(void)state;
	assert_int_equal(nam__server_append(client, local_cluster_address(cluster, 1), &slot,
		&diag), 0);
	assert_int_equal(slot, 1);
	assert_int_equal(nam__worker_connect(client->epoch_worker, slot, &diag), 0);
	assert_int_equal(client->servers[1].id, 1);
	assert_null(region_find(256));
	assert_int_equal(nam_client_servers(client), 1);
	assert_int_equal(nam__server_slot(client, nam_gaddr_make(256, 0, 0)), UINT16_MAX);

	assert_int_equal(nam__regions_learn(client, slot, 1, &diag), 0);
	assert_int_equal(region_find(256)->server, 1);
	assert_non_null(region_find(257));
	assert_null(region_find(258));
	assert_int_equal(nam_client_servers(client), 1);

	nam__server_publish(client, slot);
	assert_int_equal(nam_client_servers(client), 2);
	assert_int_equal(nam__server_slot(client, nam_gaddr_make(256, 0, 0)), 1);
	/* No worker has used it. */
	assert_null(me.worker->qps[1]);
}

static void
server_append__never_published__SLOT_IS_TAKEN_AGAIN(void **state)
{
	struct nam_client *client = me.client;
	struct nam_diag diag = { "" };
	uint32_t slot = 7;

	(void)state;
	assert_int_equal(nam__server_append(client, "toy:here", &slot, &diag), -EINVAL);
	assert_int_equal(slot, 7);
	assert_int_equal(append_and_learn(local_cluster_address(cluster, 1)), 1);
	assert_int_equal(nam__server_append(client, local_cluster_address(cluster, 2), &slot,
		&diag), 0);
	assert_int_equal(slot, 1);
	assert_null(client->epoch_worker->qps[1]);
	assert_int_equal(nam__worker_connect(client->epoch_worker, slot, &diag), 0);
	assert_int_equal(client->servers[1].id, 2);
	assert_int_equal(nam__regions_learn(client, slot, 1, &diag), 0);
	nam__server_publish(client, slot);
	assert_int_equal(region_find(512)->server, 1);
	assert_int_equal(nam__server_slot(client, nam_gaddr_make(512, 0, 0)), 1);
	assert_int_equal(nam__server_slot(client, nam_gaddr_make(256, 0, 0)), UINT16_MAX);
}

static void
server_append__256_servers__LIMIT(void **state)
{
	struct nam_client *client = me.client;
	struct nam_diag diag = { "" };
	uint32_t slot;

	(void)state;
	for (uint32_t i = 1; i < NAM_SERVERS_MAX; i++) {
		assert_int_equal(nam__server_append(client, local_cluster_address(cluster, 1),
			&slot, &diag), 0);
		assert_int_equal(slot, i);
		nam__server_publish(client, slot);
	}
	assert_int_equal(nam_client_servers(client), NAM_SERVERS_MAX);
	assert_int_equal(nam__server_append(client, local_cluster_address(cluster, 1), &slot,
		&diag), -NAM_E_LIMIT);
	assert_non_null(strstr(diag.text, local_cluster_address(cluster, 1)));
	/* None of them is usable. */
	for (unsigned i = 0; i < 100; i++) {
		struct nam_gaddr at;

		assert_int_equal(nam_alloc(me.worker, 128, &at), 0);
		assert_int_equal(nam_gaddr_region(at) / NAM_REGIONS_PER_SERVER, 0);
	}
}

/* ---- first use ---------------------------------------------------------------------------- */

struct use {
	const char *name;
	int (*fn)(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local);
};

static int
use_read(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	return nam_read_await(worker, at, local, 64);
}

static int
use_write(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	return nam_write_await(worker, at, local, 64);
}

static int
use_fetch_add(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	return nam_fetch_add_await(worker, at, 1, local);
}

static int
use_batch(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	struct nam_batch batch;

	nam_batch_init(&batch, worker);
	nam_batch_read(&batch, block, local, 64);
	nam_batch_read(&batch, at, local + 8, 64);
	nam_batch_write(&batch, at, 0, local, 64);
	return nam_batch_await(&batch);
}

static int
use_reads(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	const struct nam__read reads[] = { { block, local, 64 }, { at, local + 8, 64 },
		{ block, local + 16, 64 } };

	return nam__reads_await(worker, reads, 3);
}

static int
use_reads_first(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	const struct nam__read reads[] = { { at, local, 64 }, { block, local + 8, 64 } };

	return nam__reads_await(worker, reads, 2);
}

static int
use_window(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	void *context;
	int rc = nam_async_read(worker, at, local, 64, local);

	while (!rc) {
		rc = nam_async_poll(worker, &context, 1);
		if (rc)
			return rc < 0 ? rc : 0;
		nam_worker_yield(worker); /* SUSPENDS */
	}
	return rc;
}

static int
outstanding_read(struct nam_worker *worker, const struct nam_gaddr *at, uint64_t *local,
	unsigned count)
{
	const struct nam__outstanding_post post = { .at = at, .images = local, .bytes = 64,
		.size = 2 };
	struct nam__outstanding_reads outstanding;

	nam__outstanding_init(&outstanding, worker);
	nam__outstanding_read_many(worker, &outstanding, &post, 0, count);
	for (unsigned i = 0; i < count; i++)
		nam__outstanding_await(worker, &outstanding, i); /* SUSPENDS */
	return outstanding.rc;
}

static int
use_outstanding(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	const struct nam_gaddr both[] = { block, at };

	return outstanding_read(worker, both, local, 2);
}

static int
use_outstanding_one(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	return outstanding_read(worker, &at, local, 1);
}

static int
use_doorbell(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	struct nam__doorbell doorbell;

	nam__doorbell_init(&doorbell, worker, at);
	nam__doorbell_write(&doorbell, 0, local, 64);
	return nam__doorbell_await(&doorbell); /* SUSPENDS */
}

static int
use_call(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	(void)local;
	return nam_rpc_call(worker, nam__server_slot(worker->client, at), NAM_RPC_PING, NULL, 0,
		NULL, NULL);
}

static int
use_calls(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	struct nam_call calls[] = {
		{ .type = NAM_RPC_PING },
		{ .slot = nam__server_slot(worker->client, at), .type = NAM_RPC_PING },
		{ .slot = nam__server_slot(worker->client, at), .type = NAM_RPC_PING },
	};

	(void)local;
	return nam_rpc_call_many(worker, calls, 3);
}

static int
use_one_way(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	uint16_t slot = nam__server_slot(worker->client, at);
	int rc = nam_rpc_send_one_way(worker, slot, NAM_RPC_PING, NULL, 0);

	(void)local;
	return rc ? rc : nam_rpc_flush(worker, slot);
}

static int
use_alloc(struct nam_worker *worker, struct nam_gaddr at, uint64_t *local)
{
	struct nam_gaddr got;

	(void)local;
	return nam_alloc_on(worker, nam__server_slot(worker->client, at), 64, &got);
}

static const struct use uses[] = {
	{ "read", use_read },
	{ "write", use_write },
	{ "fetch and add", use_fetch_add },
	{ "batch", use_batch },
	{ "reads", use_reads },
	{ "reads, the new server first", use_reads_first },
	{ "window", use_window },
	{ "outstanding reads", use_outstanding },
	{ "one outstanding read", use_outstanding_one },
	{ "doorbell", use_doorbell },
	{ "call", use_call },
	{ "calls", use_calls },
	{ "one-way request", use_one_way },
	{ "allocation", use_alloc },
};

#define USES (sizeof(uses) / sizeof(uses[0]))

struct errand {
	const struct use *use;
	struct nam_worker *worker;
	struct nam_gaddr at;
	int rc;
};

static void
run_errand(void *arg)
{
	struct errand *errand = arg;
	uint64_t *local = nam_buffer_take(errand->worker, 256);

	errand->rc = -ENOMEM;
	if (!local)
		return;
	memset(local, 0, 256);
	errand->rc = errand->use->fn(errand->worker, errand->at, local); /* SUSPENDS */
	nam_buffer_give(errand->worker, local, 256);
}

/* On a fiber with the usual stack, or on the thread's. */
static int
use_on(struct nam_worker *worker, const struct use *use, struct nam_gaddr at, bool fiber)
{
	struct errand errand = { use, worker, at, 1 };

	if (!fiber) {
		run_errand(&errand);
		return errand.rc;
	}
	assert_int_equal(nam_worker_spawn(worker, run_errand, &errand), 0);
	nam_worker_run(worker);
	return errand.rc;
}

static void
first_use__of_each_kind__CONNECTS(void **state)
{
	uint32_t slot = install(local_cluster_address(cluster, 1));
	struct nam_gaddr at;

	(void)state;
	assert_int_equal(nam_alloc_on(me.worker, slot, 64, &at), 0);
	at = nam_gaddr_untagged(at);
	for (unsigned i = 0; i < 2 * USES; i++) {
		struct nam_worker *worker = test_worker(me.client);
		int rc;

		assert_null(worker->qps[slot]);
		rc = use_on(worker, &uses[i / 2], at, i % 2);
		if (rc)
			fail_msg("%s: %s", uses[i / 2].name, nam_worker_diag(worker));
		assert_non_null(worker->qps[slot]);
		nam_worker_close(worker);
	}
}

/* The server whose slot is 1 at which a worker may fail to connect, and a region there. */
static struct fake_server *
install_fake(void)
{
	struct fake_server_options options = { .id = 1 };
	struct fake_server *server = fake_server_start(&options);

	assert_int_equal(install(fake_server_address(server)), 1);
	return server;
}

static void
first_use__server_does_not_answer__CODE_OF_CONNECTING(void **state)
{
	struct fake_server *server = install_fake();
	char address[FAKE_ADDRESS_BYTES];
	struct nam_gaddr got;

	(void)state;
	memcpy(address, fake_server_address(server), sizeof(address));
	usable_set(1);
	fake_server_stop(server);
	for (unsigned i = 0; i < 2 * USES; i++) {
		int rc;

		me.worker->diag.text[0] = '\0';
		rc = use_on(me.worker, &uses[i / 2], nam_gaddr_make(256, 64, 0), i % 2);
		if (rc != -NAM_E_FABRIC_CONNECT)
			fail_msg("%s: %s", uses[i / 2].name, nam_err_text(rc));
		assert_non_null(strstr(nam_worker_diag(me.worker), address));
		assert_null(me.worker->qps[1]);
		assert_null(me.worker->mailboxes[1]);
	}
	/* As where a server is gone: blocks come from the others. */
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(nam_alloc(me.worker, 64, &got), 0);
		assert_int_equal(nam_gaddr_region(got) / NAM_REGIONS_PER_SERVER, 0);
	}
}

static void
first_use__server_was_restarted__PEER_DEAD_UNTIL_IT_IS_THE_SAME(void **state)
{
	struct fake_server *server = install_fake();
	struct nam_gaddr at = nam_gaddr_make(256, 4096, 0);
	uint64_t since;
	int rc;

	(void)state;
	/* It has no mailboxes. */
	me.client->options.transport = NAM_TRANSPORT_SRQ;
	fake_server_boot_set(server, 12);
	rc = use_on(me.worker, &uses[0], at, true);
	assert_int_equal(rc, -NAM_E_FABRIC_PEER_DEAD);
	assert_non_null(strstr(nam_worker_diag(me.worker), "restarted"));
	assert_null(me.worker->qps[1]);
	/* The failure holds for a while. */
	fake_server_boot_set(server, 1001);
	since = nam_now_ns();
	while ((rc = use_on(me.worker, &uses[0], at, true))) {
		assert_int_equal(rc, -NAM_E_FABRIC_PEER_DEAD);
		retry_pause(since);
	}
	assert_non_null(me.worker->qps[1]);
	nam_worker_close(me.worker);
	fake_server_stop(server);
	me.worker = test_worker(me.client);
}

/* ---- allocation --------------------------------------------------------------------------- */

static void
alloc__server_not_usable__PASSED_BY(void **state)
{
	unsigned there = 0;
	struct nam_gaddr at;

	(void)state;
	assert_int_equal(install(local_cluster_address(cluster, 1)), 1);
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(nam_alloc(me.worker, 1088, &at), 0);
		assert_int_equal(nam_gaddr_region(at) / NAM_REGIONS_PER_SERVER, 0);
	}
	usable_set(1);
	for (unsigned i = 0; i < 64; i++) {
		assert_int_equal(nam_alloc(me.worker, 1088, &at), 0);
		there += nam_gaddr_region(at) / NAM_REGIONS_PER_SERVER == 1;
	}
	assert_int_equal(there, 32);
	/* Bytes and servers of the message are those that may be used. */
	atomic_store(&me.client->servers[0].usable, false);
	atomic_store(&me.client->servers[1].usable, false);
	assert_int_equal(nam_alloc(me.worker, 64 << 10, &at), -NAM_E_REMOTE_FULL);
	assert_non_null(strstr(nam_worker_diag(me.worker), "The 0 memory servers"));
}

/* ---- queues ------------------------------------------------------------------------------- */

static void
completion_queue__more_servers_than_it_has_room_for__FULL_IN_TIME(void **state)
{
	uint64_t *local = nam_buffer_take(me.worker, 64);
	uint32_t posted = 0, done = 0;
	struct nam_gaddr at;
	void *contexts[64];
	int rc, count;

	(void)state;
	/* The completion queue was made for one server. */
	assert_int_equal(install(local_cluster_address(cluster, 1)), 1);
	assert_int_equal(nam_alloc_on(me.worker, 1, 64, &at), 0);
	at = nam_gaddr_untagged(at);
	while (!(rc = nam_async_write(me.worker, posted % 2 ? at : block, local, 64, local)))
		posted++;
	assert_int_equal(rc, -NAM_E_FABRIC_FULL);
	assert_true(posted <= me.client->domains[0]->limits.qp_depth);
	/* Tasks wait for room. */
	assert_int_equal(use_on(me.worker, &uses[1], at, true), 0);
	while (done < posted) {
		count = nam_async_poll(me.worker, contexts, 64);
		assert_true(count >= 0);
		done += (uint32_t)count;
	}
	assert_int_equal(done, posted);
	nam_buffer_give(me.worker, local, 64);
}

static void
worker_open__more_than_64_servers__ALL_ANSWER(void **state)
{
	struct nam_diag diag = { "" };
	struct nam_worker *worker;
	uint32_t slot;

	(void)state;
	/* To one memory server, which need not know. */
	while (me.client->servers_count < MANY_SLOTS) {
		assert_int_equal(nam__server_append(me.client, local_cluster_address(cluster, 1),
			&slot, &diag), 0);
		assert_int_equal(nam__worker_connect(me.client->epoch_worker, slot, &diag), 0);
		usable_set(slot);
		nam__server_publish(me.client, slot);
	}
	worker = test_worker(me.client);
	for (slot = 0; slot < MANY_SLOTS; slot++) {
		assert_non_null(worker->qps[slot]);
		assert_int_equal(nam_rpc_call(worker, slot, NAM_RPC_PING, NULL, 0, NULL, NULL), 0);
	}
	nam_worker_close(worker);
}

/* ---- beside workers ----------------------------------------------------------------------- */

#define THREADS 2u
#define FIBERS 4u
#define ADDS 500u

static struct {
	atomic_bool learning;		/* the region may be there from now on */
	atomic_uint_fast64_t word;	/* on the new server; 0: not yet */
	atomic_uint failures;
} beside;

struct looker {
	struct nam_worker *worker;
	uint32_t adds;
};

/* Checks of the order of publication, and then a use of the new server. */
static void
look(void *arg)
{
	struct looker *looker = arg;
	struct nam_worker *worker = looker->worker;
	uint64_t *local = nam_buffer_take(worker, 64), old;

	while (looker->adds < ADDS) {
		uint32_t count = worker->client->servers_count;
		bool found = region_find(256) != NULL;
		struct nam_gaddr word = { atomic_load(&beside.word) };

		if ((found && !atomic_load(&beside.learning)) || (count > 1 && !found) ||
			nam_read_await(worker, block, local, 64)) /* SUSPENDS */
			atomic_fetch_add(&beside.failures, 1);
		if (!word.raw)
			continue;
		if (nam__server_slot(worker->client, word) != 1 ||
			nam_fetch_add_await(worker, word, 1, &old)) /* SUSPENDS */
			atomic_fetch_add(&beside.failures, 1);
		looker->adds++;
	}
	nam_buffer_give(worker, local, 64);
}

static void *
look_all(void *arg)
{
	struct nam_worker *worker = test_worker(arg);
	struct looker lookers[FIBERS];

	for (unsigned i = 0; i < FIBERS; i++) {
		lookers[i] = (struct looker){ .worker = worker };
		if (nam_worker_spawn(worker, look, &lookers[i]))
			test_die("no fiber");
	}
	nam_worker_run(worker);
	nam_worker_close(worker);
	return NULL;
}

static void
server_append__workers_run__THEY_USE_IT_ONCE_PUBLISHED(void **state)
{
	pthread_t threads[THREADS];
	struct nam_gaddr word;
	uint32_t slot;
	uint64_t sum;

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look_all, me.client), 0);
	atomic_store(&beside.learning, true);
	slot = append_and_learn(local_cluster_address(cluster, 1));
	usable_set(slot);
	nam__server_publish(me.client, slot);
	assert_int_equal(nam_alloc_on(me.worker, slot, 64, &word), 0);
	word = nam_gaddr_untagged(word);
	atomic_store(&beside.word, word.raw);
	for (unsigned i = 0; i < THREADS; i++)
		(void)pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&beside.failures), 0);
	assert_int_equal(nam_fetch_add_await(me.worker, word, 0, &sum), 0);
	assert_int_equal(sum, THREADS * FIBERS * ADDS);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(server_append__step_by_step__SEEN_ONLY_ONCE_PUBLISHED),
		TEST(server_append__never_published__SLOT_IS_TAKEN_AGAIN),
		TEST(server_append__256_servers__LIMIT),
		TEST(first_use__of_each_kind__CONNECTS),
		TEST(first_use__server_does_not_answer__CODE_OF_CONNECTING),
		TEST(first_use__server_was_restarted__PEER_DEAD_UNTIL_IT_IS_THE_SAME),
		TEST(alloc__server_not_usable__PASSED_BY),
		TEST(completion_queue__more_servers_than_it_has_room_for__FULL_IN_TIME),
		TEST(worker_open__more_than_64_servers__ALL_ANSWER),
		TEST(server_append__workers_run__THEY_USE_IT_ONCE_PUBLISHED),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
