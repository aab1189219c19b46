/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kill_server_test.c -- memory servers that die or stop answering under clients with many fibers.
 *
 * Every operation ends, with an error of the fabric, within two seconds; afterwards a new server
 * takes the dead one's place.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/env.h"
#include "common/rpc/rpc.h"
#include "tests/lib/cluster.h"
#include "nam.h"

#define INDEX "doomed"
#define STORE "pairs"
#define STORE_BYTES (4u << 20)
#define CLIENTS 3u
#define THREADS 2u
#define FIBERS 12u
#define KEYS test_scaled_least(5000, 500)
#define WRITTEN_KEYS 1000000u
#define TIMEOUT_MS 2000u
/* The bound that README promises after a death. */
#define BOUND_NS test_bound_ns(2000000000)
/* A stopped server is noticed at timeout_ms; on busy processors a little later. */
#define STOPPED_NS test_bound_ns(TIMEOUT_MS * 1000000ull + 1500000000ull)

/*
 * The keys of the index lie all over the range of keys that are written, as its nodes alternate
 * between the servers.  So every few operations need the one that ends, however few came before.
 */
static void
key_of(uint64_t number, uint8_t key[8])
{
	nam_key_from_u64(number * (WRITTEN_KEYS / KEYS), key);
}

#define SAMPLE_NS 100000000ull		/* between two looks at how long a thread has waited */

/* ---- the client: loops until the fabric fails --------------------------------------------- */

struct loop {
	struct nam_worker *worker;
	struct nam_index *index;
	unsigned kind, number;
	bool waited;			/* for a lock that did not come */
	uint64_t ops, ended_ns;
	uint64_t slowest_ns;		/* without the time in which the thread had no processor */
	uint64_t starved_ns;		/* such time, during the last one and SAMPLE_NS before it */
	int rc;
};

static int
step_lookup(struct loop *self, struct nam_rng *rng)
{
	uint64_t payload;
	uint8_t key[8];
	int rc;

	key_of(nam_rng_below(rng, KEYS), key);
	rc = nam_index_lookup(self->worker, self->index, key, &payload); /* SUSPENDS */
	return rc == -NAM_E_NOTFOUND ? 0 : rc;
}

/*
 * In or out again: however late the server dies, its memory has not filled up before.  An operation
 * of another client that has failed leaves its locks.  While other fibers of that client go on, it
 * is alive, so a wait for such a lock may time out, once.
 */
static int
step_write(struct loop *self, struct nam_rng *rng)
{
	uint8_t key[8];
	int rc;

	nam_key_from_u64(nam_rng_below(rng, WRITTEN_KEYS), key);
	rc = nam_index_insert(self->worker, self->index, key, 1); /* SUSPENDS */
	if (rc == -NAM_E_EXISTS)
		rc = nam_index_delete(self->worker, self->index, key); /* SUSPENDS */
	if (rc == -NAM_E_LOCK_TIMEOUT && !self->waited) {
		self->waited = true;
		return 0;
	}
	return rc == -NAM_E_NOTFOUND ? 0 : rc;
}

static int
step_scan(struct loop *self, struct nam_rng *rng)
{
	struct nam_range range = { .limit = 300, .reverse = nam_rng_below(rng, 2) };
	uint64_t payloads[100];
	struct nam_cursor *cursor;
	uint32_t count;
	int rc = nam_cursor_open(self->worker, self->index, &range, &cursor);

	if (rc)
		return rc;
	do
		rc = nam_cursor_next(cursor, NULL, payloads, 100, &count); /* SUSPENDS */
	while (!rc && count);
	nam_cursor_close(cursor);
	return rc;
}

static int
step_rpc(struct loop *self, struct nam_rng *rng)
{
	struct nam_server_status status;

	return nam_server_status_get(self->worker, (uint32_t)nam_rng_below(rng, 2),
		&status); /* SUSPENDS */
}

/* Long messages, of which no two are the same. */
static int
step_ping(struct loop *self, struct nam_rng *rng)
{
	uint32_t bytes = (uint32_t)nam_rng_below(rng, NAM_RPC_BODY_MAX), back = NAM_RPC_BODY_MAX;
	uint8_t sent[NAM_RPC_BODY_MAX], echo[NAM_RPC_BODY_MAX];
	int rc;

	for (uint32_t i = 0; i < bytes; i++)
		sent[i] = (uint8_t)(i + bytes + self->number);
	rc = nam_rpc_call(self->worker, (uint32_t)nam_rng_below(rng, 2), NAM_RPC_PING, sent, bytes,
		echo, &back); /* SUSPENDS */
	if (!rc && (back != bytes || memcmp(sent, echo, bytes) != 0))
		test_die("a PING was not echoed");
	return rc;
}

static int (*const steps[])(struct loop *, struct nam_rng *) = { step_lookup, step_write,
	step_scan, step_rpc, step_ping };
#define STEPS (sizeof(steps) / sizeof(steps[0]))

/* Fibers that have ended an operation: only if all have, memory servers die under load. */
static atomic_uint fibers_under_way;

static void
loop_until_it_breaks(void *arg)
{
	struct loop *self = arg;
	struct nam_rng rng = nam_rng_seed(self->number);
	uint64_t sampled_ns = 0, starved_before = 0;

	while (!self->rc) {
		uint64_t start_ns = nam_now_ns(), took_ns;

		if (start_ns - sampled_ns > SAMPLE_NS) {
			sampled_ns = start_ns;
			starved_before = test_starved_ns();
		}
		self->rc = steps[self->kind](self, &rng); /* SUSPENDS */
		took_ns = nam_now_ns() - start_ns;
		if (took_ns > SAMPLE_NS || self->rc)
			self->starved_ns = test_starved_ns() - starved_before;
		if (took_ns > SAMPLE_NS)
			took_ns -= took_ns < self->starved_ns ? took_ns : self->starved_ns;
		if (took_ns > self->slowest_ns)
			self->slowest_ns = took_ns;
		if (self->ops++ == 0)
			atomic_fetch_add(&fibers_under_way, 1);
	}
	if (!nam_err_is(self->rc, NAM_E_FABRIC))
		(void)fprintf(stderr, "%s\n", nam_worker_diag(self->worker));
	self->ended_ns = nam_now_ns();
}

struct thread_pool {
	struct nam_client *client;
	struct nam_index *index;
	unsigned number;
	struct loop loops[FIBERS];
};

static void
thread_pool_main(void *arg)
{
	struct thread_pool *pool = arg;
	struct nam_worker *worker = test_worker(pool->client);

	for (unsigned i = 0; i < FIBERS; i++) {
		pool->loops[i] = (struct loop){ .worker = worker, .index = pool->index,
			.kind = i % STEPS, .number = pool->number * FIBERS + i };
		if (nam_worker_spawn(worker, loop_until_it_breaks, &pool->loops[i]))
			test_die("no fiber");
	}
	nam_worker_run(worker); /* SUSPENDS */
	nam_worker_close(worker);
}

/* Arguments: cluster, cache bytes.  Prints "ready", and a line for each fiber when it has ended. */
static int
client_main(char **argv)
{
	struct nam_client *client = test_connect(argv[0], "doomed", 0);
	struct nam_worker *worker = test_worker(client);
	struct nam_thread *threads[THREADS];
	struct thread_pool pools[THREADS];
	struct nam_index *index;

	if (nam_index_open(worker, INDEX, strtoull(argv[1], NULL, 10), &index))
		test_die("cannot open: %s", nam_worker_diag(worker));
	for (unsigned i = 0; i < THREADS; i++) {
		pools[i].client = client;
		pools[i].index = index;
		pools[i].number = (unsigned)getpid() * THREADS + i;
		if (nam_thread_start("doomed", thread_pool_main, &pools[i], &threads[i]))
			test_die("no thread");
	}
	while (atomic_load(&fibers_under_way) < THREADS * FIBERS)
		nam_sleep_ns(1000000);
	printf("ready\n");
	(void)fflush(stdout);
	for (unsigned i = 0; i < THREADS; i++)
		nam_thread_join(threads[i]);
	for (unsigned i = 0; i < THREADS * FIBERS; i++) {
		const struct loop *loop = &pools[i / FIBERS].loops[i % FIBERS];

		printf("loop %u ops %llu slowest %llu ended %llu starved %llu rc %d\n", loop->kind,
			(unsigned long long)loop->ops, (unsigned long long)loop->slowest_ns,
			(unsigned long long)loop->ended_ns,
			(unsigned long long)loop->starved_ns, loop->rc);
	}
	(void)fflush(stdout);
	nam_index_close(index);
	nam_worker_close(worker);
	nam_client_close(client);
	return 0;
}

/* ---- the coordinator ---------------------------------------------------------------------- */

static struct cluster cluster;

static int
start(void **state)
{
	(void)state;
	cluster_start(&cluster, 2, 256, "8M");
	return 0;
}

static int
stop(void **state)
{
	(void)state;
	cluster_stop(&cluster);
	return 0;
}

static void
fill_index(void)
{
	struct nam_client *client = test_connect(cluster.list, "coordinator", 0);
	struct nam_worker *worker = test_worker(client);
	struct nam_index_options options;
	struct nam_index *index;

	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 8;
	assert_int_equal(nam_index_create(worker, INDEX, &options), 0);
	assert_int_equal(nam_index_open(worker, INDEX, 1u << 20, &index), 0);
	for (uint64_t n = 0; n < KEYS; n++) {
		uint8_t key[8];

		key_of(n, key);
		assert_int_equal(nam_index_insert(worker, index, key, n), 0);
	}
	nam_index_close(index);
	nam_worker_close(worker);
	nam_client_close(client);
}

static void
start_clients(struct child clients[CLIENTS])
{
	static const char *const caches[CLIENTS] = { "0", "16384", "4194304" };
	char line[64];

	for (unsigned i = 0; i < CLIENTS; i++) {
		const char *const args[] = { cluster.list, caches[i], NULL };

		child_start_self(&clients[i], "client", args);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		assert_true(child_line(&clients[i], line, sizeof(line), 20000));
		assert_string_equal(line, "ready");
	}
}

/*
 * Every fiber of every client has ended with an error of the fabric, so long after `since_ns`.  The
 * time that its thread waited for a processor in its last operation does not count.
 */
static void
end_clients(struct child clients[CLIENTS], uint64_t since_ns, uint64_t bound_ns)
{
	unsigned long long ops, slowest, ended, starved, last = 0, total = 0;
	char line[160];
	unsigned kind;
	int rc;

	for (unsigned i = 0; i < CLIENTS; i++) {
		unsigned loops = 0;

		while (child_line(&clients[i], line, sizeof(line), 30000)) {
			assert_int_equal(
				sscanf(line, "loop %u ops %llu slowest %llu ended %llu "
					"starved %llu rc %d",
					&kind, &ops, &slowest, &ended, &starved, &rc),
				6);
			if (!nam_err_is(rc, NAM_E_FABRIC))
				print_error("%s: %s\n", line, nam_err_name(rc));
			assert_true(nam_err_is(rc, NAM_E_FABRIC));
			assert_true(ended < since_ns + bound_ns + starved);
			assert_true(slowest < bound_ns);
			last = ended > last ? ended : last;
			total += ops;
			loops++;
		}
		assert_int_equal(loops, THREADS * FIBERS);
		/* And the rest of the client's end does not hang either. */
		assert_int_equal(child_wait(&clients[i], 10000), 0);
	}
	assert_true(total > CLIENTS * THREADS * FIBERS);
	print_message("%llu operations, the last one ended %llu ms after\n", total,
		last > since_ns ? (last - since_ns) / 1000000 : 0);
}

/* Where a memory server listens on shm; NULL on other fabrics. */
static const char *
socket_path(unsigned number)
{
	const char *address = cluster.addresses[number];

	return strncmp(address, "shm:", 4) ? NULL : address + 4;
}

static void
kill_under_load(unsigned number)
{
	const char *path = socket_path(number);
	struct child clients[CLIENTS];
	uint64_t killed_ns;
	struct stat status;

	fill_index();
	for (unsigned round = 0; round < test_scaled(5); round++) {
		start_clients(clients);
		nam_sleep_ns(100000000 + 10000000 * round);
		killed_ns = nam_now_ns();
		child_kill(&cluster.servers[number]);
		end_clients(clients, killed_ns, BOUND_NS);

		/* Its socket is still there, and blocks no client. */
		if (path) {
			assert_int_equal(stat(path, &status), 0);
			assert_true(S_ISSOCK(status.st_mode));
		}
		/* Nothing of the index is left without one of its servers: both begin anew. */
		child_kill(&cluster.servers[1 - number]);
		cluster_start_server(&cluster, 0);
		cluster_start_server(&cluster, 1);
		fill_index();
	}
	child_kill(&cluster.servers[0]);
	child_kill(&cluster.servers[1]);
	cluster_start_server(&cluster, 0);
	cluster_start_server(&cluster, 1);
}

static void
server__killed_under_load__EVERY_OPERATION_ENDS_WITH_A_FABRIC_ERROR(void **state)
{
	(void)state;
	kill_under_load(1);
}

static void
catalog_server__killed_under_load__EVERY_OPERATION_ENDS_IN_TIME(void **state)
{
	(void)state;
	kill_under_load(0);
}

static void
both_servers__killed_at_once__EVERY_OPERATION_ENDS_WITH_A_FABRIC_ERROR(void **state)
{
	struct child clients[CLIENTS];
	uint64_t killed_ns;

	(void)state;
	fill_index();
	start_clients(clients);
	nam_sleep_ns(100000000);
	killed_ns = nam_now_ns();
	child_kill(&cluster.servers[0]);
	child_kill(&cluster.servers[1]);
	end_clients(clients, killed_ns, BOUND_NS);
	cluster_start_server(&cluster, 0);
	cluster_start_server(&cluster, 1);
}

/* SIGTERM: the server says good-bye, which for its clients is the same. */
static void
server__ends_in_good_order_under_load__EVERY_OPERATION_ENDS_IN_TIME(void **state)
{
	struct child clients[CLIENTS];
	uint64_t ended_ns;

	(void)state;
	fill_index();
	start_clients(clients);
	nam_sleep_ns(100000000);
	ended_ns = nam_now_ns();
	child_signal(&cluster.servers[1], SIGTERM);
	assert_int_equal(child_wait(&cluster.servers[1], 10000), 0);
	end_clients(clients, ended_ns, BOUND_NS + (nam_now_ns() - ended_ns));
	if (socket_path(1))
		assert_int_equal(access(socket_path(1), F_OK), -1);
	child_kill(&cluster.servers[0]);
	cluster_start_server(&cluster, 0);
	cluster_start_server(&cluster, 1);
}

/* ---- a server that stops answering -------------------------------------------------------- */

static struct nam_client *
connect_patient(void)
{
	struct nam_client_options options;
	struct nam_client *client;
	struct nam_diag diag;

	nam_client_options_init(&options);
	options.cluster = cluster.list;
	options.timeout_ms = TIMEOUT_MS;
	assert_int_equal(nam_client_connect(&options, &client, &diag), 0);
	return client;
}

struct patient {
	struct nam_worker *worker;
	uint64_t took_ns;
	uint32_t slot;
	int rc;
};

static void
ask_once(void *arg)
{
	struct patient *self = arg;
	struct nam_server_status status;
	uint64_t start_ns = nam_now_ns();

	self->rc = nam_server_status_get(self->worker, self->slot, &status); /* SUSPENDS */
	self->took_ns = nam_now_ns() - start_ns;
}

/* Many at once, more than the ring and the receive queue have room for. */
static void
ask(struct nam_worker *worker, uint32_t slot, unsigned fibers, int expect)
{
	struct patient patients[48];

	for (unsigned i = 0; i < fibers; i++) {
		patients[i] = (struct patient){ worker, 0, slot, 0 };
		assert_int_equal(nam_worker_spawn(worker, ask_once, &patients[i]), 0);
	}
	nam_worker_run(worker);
	for (unsigned i = 0; i < fibers; i++) {
		assert_int_equal(patients[i].rc, expect);
		assert_true(patients[i].took_ns < STOPPED_NS);
	}
}

static void
server__stopped__RPCS_TIME_OUT_AND_WORK_AGAIN_AFTER_IT_GOES_ON(void **state)
{
	struct nam_client *client = connect_patient();
	struct nam_worker *worker = test_worker(client);
	struct nam_server_status status;
	uint64_t begin;

	(void)state;
	ask(worker, 1, 48, 0);
	child_stop(&cluster.servers[1]);
	ask(worker, 1, 1, -NAM_E_FABRIC_TIMEOUT);
	assert_non_null(strstr(nam_worker_diag(worker), cluster.addresses[1]));
	assert_non_null(strstr(nam_worker_diag(worker), "does not answer"));
	ask(worker, 1, 48, -NAM_E_FABRIC_TIMEOUT);
	/* The other one answers all the while. */
	ask(worker, 0, 48, 0);
	child_signal(&cluster.servers[1], SIGCONT);
	/* Until the worker hears from it, requests end early. */
	begin = nam_now_ns();
	while (nam_server_status_get(worker, 1, &status) &&
		nam_now_ns() - begin < test_bound_ns(20000000000))
		;
	/* Late replies to abandoned requests must not match other requests. */
	for (unsigned i = 0; i < 20; i++) {
		ask(worker, 1, 20, 0);
		assert_int_equal(nam_server_status_get(worker, 1, &status), 0);
		assert_int_equal(status.id, 1);
		assert_int_equal(status.pid, cluster.servers[1].pid);
	}
	nam_worker_close(worker);
	nam_client_close(client);
}

/* Over TCP its processor carries one-sided requests out. */
static void
server__stopped_over_tcp__LOOKUPS_END_AT_TIMEOUT_MS_AND_SAY_WHY(void **state)
{
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	uint64_t payload, begin;
	uint8_t key[8];

	(void)state;
	if (strncmp(cluster.addresses[0], "tcp:", 4))
		skip();
	fill_index();
	client = connect_patient();
	worker = test_worker(client);
	assert_int_equal(nam_index_open(worker, INDEX, 0, &index), 0);
	child_stop(&cluster.servers[0]);
	child_stop(&cluster.servers[1]);
	/* The second one finds the connection ended, for the same reason. */
	for (unsigned i = 0; i < 2; i++) {
		begin = nam_now_ns();
		key_of(1, key);
		assert_int_equal(nam_index_lookup(worker, index, key, &payload),
			-NAM_E_FABRIC_TIMEOUT);
		assert_true(nam_now_ns() - begin < STOPPED_NS);
		assert_non_null(strstr(nam_worker_diag(worker), "does not answer"));
	}
	ask(worker, 0, 1, -NAM_E_FABRIC_TIMEOUT);
	assert_non_null(strstr(nam_worker_diag(worker), "does not answer"));
	child_signal(&cluster.servers[0], SIGCONT);
	child_signal(&cluster.servers[1], SIGCONT);
	nam_index_close(index);
	nam_worker_close(worker);
	nam_client_close(client);
	client = test_connect(cluster.list, "later", 0);
	worker = test_worker(client);
	assert_int_equal(nam_index_drop(worker, INDEX), 0);
	nam_worker_close(worker);
	nam_client_close(client);
}

/* One-sided operations need no answer from it. */
static void
server__stopped__LOOKUPS_GO_ON(void **state)
{
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	uint64_t payload;

	(void)state;
	/* Over TCP it is the memory server's processor that carries them out. */
	if (!strncmp(cluster.addresses[0], "tcp:", 4))
		skip();
	fill_index();
	client = test_connect(cluster.list, "patient", 0);
	worker = test_worker(client);
	assert_int_equal(nam_index_open(worker, INDEX, 0, &index), 0);
	child_stop(&cluster.servers[0]);
	child_stop(&cluster.servers[1]);
	for (uint64_t n = 0; n < KEYS; n++) {
		uint8_t key[8];

		key_of(n, key);
		assert_int_equal(nam_index_lookup(worker, index, key, &payload), 0);
		assert_int_equal(payload, n);
		assert_int_equal(nam_index_update(worker, index, key, n + 1), 0);
	}
	child_signal(&cluster.servers[0], SIGCONT);
	child_signal(&cluster.servers[1], SIGCONT);
	nam_index_close(index);
	assert_int_equal(nam_index_drop(worker, INDEX), 0);
	nam_worker_close(worker);
	nam_client_close(client);
}

struct store {
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_kv *kv;
};

static int
get_pair(const struct store *store, uint64_t n)
{
	uint64_t value[2] = { 0 };
	uint32_t bytes = 0;
	int rc = nam_kv_get(store->worker, store->kv, &n, sizeof(n), value, sizeof(value), &bytes);

	if (!rc) {
		assert_int_equal(bytes, sizeof(value));
		assert_int_equal(value[0], n * 3);
		assert_int_equal(value[1], ~n);
	}
	return rc;
}

/* With pairs 0 to KEYS - 1, which the client GETs by READs.  Then both memory servers stop. */
static void
store_begin(struct store *store, enum nam_kv_mode mode)
{
	struct nam_kv_options options;

	store->client = connect_patient();
	store->worker = test_worker(store->client);
	nam_kv_options_init(&options);
	options.engine = NAM_KV_CUCKOO;
	options.onesided = true;
	options.mode = mode;
	options.memory_bytes = STORE_BYTES;
	assert_int_equal(nam_kv_create(store->worker, STORE, &options), 0);
	assert_int_equal(nam_kv_open(store->worker, STORE, &store->kv), 0);
	for (uint64_t n = 0; n < KEYS; n++) {
		const uint64_t value[2] = { n * 3, ~n };

		assert_int_equal(nam_kv_put(store->worker, store->kv, &n, sizeof(n), value,
			sizeof(value)), 0);
	}
	/* Now the client knows where the buckets are. */
	for (uint64_t n = 0; n < KEYS; n++)
		assert_int_equal(get_pair(store, n), 0);
	child_stop(&cluster.servers[0]);
	child_stop(&cluster.servers[1]);
}

static void
store_end(struct store *store)
{
	child_signal(&cluster.servers[0], SIGCONT);
	child_signal(&cluster.servers[1], SIGCONT);
	nam_kv_close(store->kv);
	assert_int_equal(nam_kv_drop(store->worker, STORE), 0);
	nam_worker_close(store->worker);
	nam_client_close(store->client);
}

static void
server__stopped__ONESIDED_GETS_GO_ON(void **state)
{
	struct store store;

	(void)state;
	if (!strncmp(cluster.addresses[0], "tcp:", 4))
		skip();
	store_begin(&store, NAM_KV_STORE);
	for (uint64_t n = 0; n < KEYS; n++)
		assert_int_equal(get_pair(&store, n), 0);
	/* The memory server decides what is not there. */
	assert_int_equal(get_pair(&store, KEYS), -NAM_E_FABRIC_TIMEOUT);
	store_end(&store);
}

/* By these the memory server learns which pairs are hot. */
static void
server__stopped__ONE_OF_16_GETS_OF_A_CACHE_TIMES_OUT(void **state)
{
	struct store store;
	unsigned answered = 0;

	(void)state;
	if (!strncmp(cluster.addresses[0], "tcp:", 4))
		skip();
	store_begin(&store, NAM_KV_CACHE);
	for (uint64_t n = 0; n < 16; n++) {
		int rc = get_pair(&store, n);

		assert_true(!rc || rc == -NAM_E_FABRIC_TIMEOUT);
		answered += !rc;
	}
	assert_int_equal(answered, 15);
	store_end(&store);
}

static void
server__stopped__CONNECTING_ENDS_WITH_A_CLEAR_ERROR(void **state)
{
	struct nam_client_options options;
	struct nam_client *client;
	struct nam_diag diag = { "" };
	uint64_t start_ns;
	int rc;

	(void)state;
	child_stop(&cluster.servers[1]);
	nam_client_options_init(&options);
	options.cluster = cluster.list;
	start_ns = nam_now_ns();
	rc = nam_client_connect(&options, &client, &diag);
	child_signal(&cluster.servers[1], SIGCONT);
	assert_true(nam_err_is(rc, NAM_E_FABRIC));
	assert_true(nam_now_ns() - start_ns < 7000000000ull);	/* fabric.h: 5 s at most */
	assert_non_null(strstr(diag.text, cluster.addresses[1]));
	assert_non_null(strstr(diag.text, "does not answer"));
	client = test_connect(cluster.list, "later", 0);
	nam_client_close(client);
}

/* ---- a new one in its place --------------------------------------------------------------- */

static void
server__killed_and_started_again__OLD_CLIENTS_ARE_TOLD_AND_NEW_ONES_WORK(void **state)
{
	struct nam_client *old = test_connect(cluster.list, "old", 0), *fresh;
	struct nam_worker *worker = test_worker(old), *another;
	struct nam_server_status status;
	struct nam_diag diag = { "" };
	uint64_t deadline;
	int rc = 0;

	(void)state;
	child_kill(&cluster.servers[1]);
	cluster_start_server(&cluster, 1);
	deadline = nam_now_ns() + BOUND_NS;
	while (!rc && nam_now_ns() < deadline)
		rc = nam_server_status_get(worker, 1, &status);
	if (!nam_err_is(rc, NAM_E_FABRIC))
		print_error("%s (%s)\n", nam_err_name(rc), nam_worker_diag(worker));
	assert_true(nam_err_is(rc, NAM_E_FABRIC));
	/* The old client's pointers mean nothing to the new server. */
	rc = nam_worker_open(old, &another, &diag);
	assert_true(nam_err_is(rc, NAM_E_FABRIC));
	assert_true(strlen(diag.text) > 0);
	fresh = test_connect(cluster.list, "fresh", 0);
	another = test_worker(fresh);
	assert_int_equal(nam_server_status_get(another, 1, &status), 0);
	assert_int_equal(status.carved_bytes, 0);
	nam_worker_close(another);
	nam_client_close(fresh);
	nam_worker_close(worker);
	nam_client_close(old);
	child_kill(&cluster.servers[0]);
	cluster_start_server(&cluster, 0);
	fill_index();
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			server__killed_under_load__EVERY_OPERATION_ENDS_WITH_A_FABRIC_ERROR),
		cmocka_unit_test(
			catalog_server__killed_under_load__EVERY_OPERATION_ENDS_IN_TIME),
		cmocka_unit_test(
			both_servers__killed_at_once__EVERY_OPERATION_ENDS_WITH_A_FABRIC_ERROR),
		cmocka_unit_test(
			server__ends_in_good_order_under_load__EVERY_OPERATION_ENDS_IN_TIME),
		cmocka_unit_test(server__stopped__RPCS_TIME_OUT_AND_WORK_AGAIN_AFTER_IT_GOES_ON),
		cmocka_unit_test(server__stopped_over_tcp__LOOKUPS_END_AT_TIMEOUT_MS_AND_SAY_WHY),
		cmocka_unit_test(server__stopped__LOOKUPS_GO_ON),
		cmocka_unit_test(server__stopped__ONESIDED_GETS_GO_ON),
		cmocka_unit_test(server__stopped__ONE_OF_16_GETS_OF_A_CACHE_TIMES_OUT),
		cmocka_unit_test(server__stopped__CONNECTING_ENDS_WITH_A_CLEAR_ERROR),
		cmocka_unit_test(
			server__killed_and_started_again__OLD_CLIENTS_ARE_TOLD_AND_NEW_ONES_WORK),
	};

	if (argc > 3 && !strcmp(argv[1], "client"))
		return client_main(argv + 2);
	if (argc == 2)
		cmocka_set_test_filter(argv[1]);	/* "server__stopped*" */
	return cmocka_run_group_tests(tests, start, stop);
}
