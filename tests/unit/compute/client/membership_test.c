/* SPDX-License-Identifier: Apache-2.0 */
/* Clients among real memory servers: the living, the dead, and the owner of a block. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "compute/remote/epoch.h"
#include "compute/remote/lock.h"
#include "tests/lib/cluster.h"
#include "member.h"

#define MEMORY_BYTES (32ull << 20)
#define REGION_BYTES (16ull << 20)

static void
join_real(struct member *member, const struct local_cluster *cluster)
{
	member->client = test_connect(local_cluster_list(cluster), "membership_test", 0);
	member->worker = test_worker(member->client);
}

/* ---- what servers tell -------------------------------------------------------------------- */

static void
nam_server_status_get__real_servers__FIGURES(void **state)
{
	struct local_cluster *cluster = local_cluster_start(2, MEMORY_BYTES, REGION_BYTES);
	struct nam_server_status status;
	struct member member;

	(void)state;
	join_real(&member, cluster);
	for (uint32_t slot = 0; slot < 2; slot++) {
		assert_int_equal(nam_server_status_get(member.worker, slot, &status), 0);
		assert_int_equal(status.id, slot);
		assert_string_equal(status.address, local_cluster_address(cluster, slot));
		assert_int_equal(status.memory_bytes, MEMORY_BYTES);
		assert_int_equal(status.regions, 2);
		assert_int_equal(status.clients, slot == 0 ? 1 : 0);
		assert_int_equal(status.pid, getpid());
		assert_true(status.requests > 0);
	}
	leave(&member);
	local_cluster_stop(cluster);
}

struct answers {
	unsigned count, alive;
	int rc[4];
	char text[4][480];
	struct nam_server_status status[4];
};

static void
take_answer(void *arg, const struct nam_server_status *status, const char *text)
{
	struct answers *answers = arg;

	assert_true(answers->count < 4);
	answers->rc[answers->count] = status->rc;
	answers->status[answers->count] = *status;
	snprintf(answers->text[answers->count], sizeof(answers->text[0]), "%s", text);
	answers->alive += !status->rc;
	answers->count++;
}

/* The first one has the catalog: without it no client can join. */
static void
nam_cluster_status__one_is_dead__THE_OTHERS_FIGURES(void **state)
{
	struct local_cluster *cluster = local_cluster_start(3, MEMORY_BYTES, REGION_BYTES);
	struct nam_client_options options;
	struct answers answers = { 0 };
	struct nam_diag diag;

	(void)state;
	nam_client_options_init(&options);
	options.cluster = local_cluster_list(cluster);
	assert_int_equal(nam_cluster_status(&options, take_answer, &answers, &diag), 0);
	assert_int_equal(answers.count, 3);
	assert_int_equal(answers.alive, 3);
	local_cluster_stop_server(cluster, 0);
	memset(&answers, 0, sizeof(answers));
	assert_int_equal(nam_cluster_status(&options, take_answer, &answers, &diag), 0);
	assert_int_equal(answers.count, 3);
	assert_int_equal(answers.rc[0], -NAM_E_FABRIC_CONNECT);
	assert_string_equal(answers.status[0].address, local_cluster_address(cluster, 0));
	assert_non_null(strstr(answers.text[0], local_cluster_address(cluster, 0)));
	assert_int_equal(answers.status[0].memory_bytes, 0);
	for (unsigned i = 1; i < 3; i++) {
		assert_int_equal(answers.rc[i], 0);
		assert_int_equal(answers.status[i].id, i);
		assert_string_equal(answers.status[i].address, local_cluster_address(cluster, i));
		assert_int_equal(answers.status[i].memory_bytes, MEMORY_BYTES);
		assert_int_equal(answers.status[i].clients, 0);
		assert_true(answers.status[i].connections >= 1);
		assert_string_equal(answers.text[i], "");
	}
	local_cluster_stop(cluster);
}

#define SILENT_SERVERS 3

/* Sockets that end a connection only once there is one to each of them. */
static void *
meet(void *arg)
{
	const int *listening = arg;
	int fds[SILENT_SERVERS];

	for (unsigned i = 0; i < SILENT_SERVERS; i++)
		fds[i] = accept(listening[i], NULL, NULL);
	for (unsigned i = 0; i < SILENT_SERVERS; i++)
		close(fds[i]);
	return NULL;
}

static void
nam_cluster_status__each_waits_for_the_others__ALL_ARE_ASKED_AT_ONCE(void **state)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr = { htonl(INADDR_LOOPBACK) } };
	char address[SILENT_SERVERS][32], text[128];
	socklen_t bytes = sizeof(at);
	int listening[SILENT_SERVERS];
	struct nam_client_options options;
	struct answers answers = { 0 };
	struct nam_diag diag;
	pthread_t thread;

	(void)state;
	for (unsigned i = 0; i < SILENT_SERVERS; i++) {
		at.sin_port = 0;
		listening[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		assert_int_equal(bind(listening[i], (struct sockaddr *)&at, bytes), 0);
		assert_int_equal(listen(listening[i], 4), 0);
		assert_int_equal(getsockname(listening[i], (struct sockaddr *)&at, &bytes), 0);
		(void)snprintf(address[i], sizeof(address[i]), "tcp:127.0.0.1:%u",
			ntohs(at.sin_port));
	}
	(void)snprintf(text, sizeof(text), "%s,%s,%s", address[0], address[1], address[2]);
	nam_client_options_init(&options);
	options.cluster = text;
	options.timeout_ms = TIMEOUT_MS;
	assert_int_equal(pthread_create(&thread, NULL, meet, listening), 0);
	assert_int_equal(nam_cluster_status(&options, take_answer, &answers, &diag), 0);
	pthread_join(thread, NULL);
	assert_int_equal(answers.count, SILENT_SERVERS);
	for (unsigned i = 0; i < SILENT_SERVERS; i++) {
		assert_string_equal(answers.status[i].address, address[i]);
		/* The end of the connection, and not of the client's time-out. */
		assert_int_equal(answers.rc[i], -NAM_E_FABRIC_CONNECT);
		assert_non_null(strstr(answers.text[i], address[i]));
		close(listening[i]);
	}
}

static void
nam_cluster_status__malformed_cluster__NOBODY_IS_ASKED(void **state)
{
	static const struct {
		const char *cluster;
		int rc;
	} cases[] = { { "nonsense", -EINVAL }, { "", -EINVAL }, { "@/nonexistent", -ENOENT },
		{ "shm:/a,shm:/a", -NAM_E_CLUSTER }, { "pigeon:1", -EINVAL } };
	struct nam_client_options options;
	struct answers answers = { 0 };

	(void)state;
	nam_client_options_init(&options);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct nam_diag diag = { "" };

		options.cluster = cases[i].cluster;
		assert_int_equal(nam_cluster_status(&options, take_answer, &answers, &diag),
			cases[i].rc);
		assert_true(diag.text[0]);
	}
	assert_int_equal(answers.count, 0);
}

static void
nam_worker_close__real_servers__EVERY_BLOCK_GIVEN_BACK(void **state)
{
	struct local_cluster *cluster = local_cluster_start(2, MEMORY_BYTES, REGION_BYTES);
	struct nam_server_status status;
	struct member member;
	struct nam_diag diag;
	struct nam_gaddr at;
	uint64_t used = 0;

	(void)state;
	join_real(&member, cluster);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
	nam_worker_close(member.worker);
	assert_int_equal(nam_worker_open(member.client, &member.worker, &diag), 0);
	for (uint32_t slot = 0; slot < 2; slot++) {
		assert_int_equal(nam_server_status_get(member.worker, slot, &status), 0);
		used += status.carved_bytes - status.free_bytes;
	}
	assert_int_equal(used, 100 * STRIDE);
	leave(&member);
	local_cluster_stop(cluster);
}

static void
nam_alloc__fresh_blocks__ALL_ZEROES(void **state)
{
	static const uint8_t zeroes[STRIDE];
	/* More than one region's worth, so that both regions of each server are met. */
	uint64_t count = test_scaled(40000), region = (count * STRIDE / 2 * 3 / 4) & ~4095ull;
	struct local_cluster *cluster = local_cluster_start(2, 2 * region, region);
	struct member member;
	struct nam_gaddr at;
	uint8_t *block;

	(void)state;
	join_real(&member, cluster);
	block = nam_buffer_take(member.worker, STRIDE);
	for (uint64_t i = 0; i < count; i++) {
		assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
		assert_int_equal(nam_gaddr_tag(at), NAM_BLOCK_FRESH);
		assert_int_equal(nam_read_await(member.worker, at, block, STRIDE), 0);
		assert_memory_equal(block, zeroes, STRIDE);
		memset(block, 0xff, STRIDE);
		assert_int_equal(nam_write_await(member.worker, at, block, STRIDE), 0);
	}
	nam_buffer_give(member.worker, block, STRIDE);
	leave(&member);
	local_cluster_stop(cluster);
}

static void
nam_alloc__real_servers_full__REMOTE_FULL_and_usable_again(void **state)
{
	struct local_cluster *cluster = local_cluster_start(2, 1u << 20, 1u << 20);
	struct nam_gaddr at, last = NAM_GADDR_NULL;
	struct member member;
	uint32_t count = 0;
	int rc;

	(void)state;
	join_real(&member, cluster);
	while ((rc = nam_alloc(member.worker, STRIDE, &at)) == 0) {
		last = at;
		count++;
	}
	assert_int_equal(rc, -NAM_E_REMOTE_FULL);
	/* All of it was handed out, but for the meta page, reserves, and less than a block each. */
	assert_true(count >= ((2u << 20) / 256 * 255 - NAM_META_BYTES) / STRIDE - 3);
	nam_free_unseen(member.worker, last, STRIDE);
	assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
	leave(&member);
	local_cluster_stop(cluster);
}

/* ---- the owner of a block ----------------------------------------------------------------- */

#define OWNERS 2u
#define HELD 32u

struct owner {
	struct nam_client *client;
	uint64_t number;
	uint64_t rounds;
	const char *failure;
};

/* Write our number into a block that must be free, or back. */
static int
mark(struct nam_worker *worker, struct nam_gaddr at, uint64_t from, uint64_t to)
{
	uint64_t old = ~0ull;
	int rc = nam_cas_await(worker, nam_gaddr_untagged(at), from, to, &old);

	return rc ? rc : old == from ? 0 : -EEXIST;
}

static void
own_and_give_back(void *arg)
{
	struct owner *owner = arg;
	struct nam_rng rng = nam_rng_seed(owner->number);
	struct nam_gaddr held[HELD] = { NAM_GADDR_NULL };
	struct nam_worker *worker = test_worker(owner->client);
	uint64_t reusable;

	for (uint64_t i = 0; i < owner->rounds && !owner->failure; i++) {
		struct nam_gaddr *at = &held[nam_rng_below(&rng, HELD)];

		if (i % 100 == 0 && nam__limbo_advance(worker, &reusable))
			owner->failure = "limbo";
		if (nam_gaddr_is_null(*at)) {
			if (nam_alloc(worker, 64, at))
				owner->failure = "alloc";
			else if (mark(worker, *at, 0, owner->number))
				owner->failure = "a block had two owners";
			continue;
		}
		if (mark(worker, *at, owner->number, 0))
			owner->failure = "another client wrote into our block";
		if (nam_rng_next(&rng) & 1)
			nam_free_unseen(worker, *at, 64);
		else
			nam_retire(worker, *at, 64);
		*at = NAM_GADDR_NULL;
	}
	nam_worker_close(worker);
}

static void
nam_alloc__two_workers_churn__EACH_BLOCK_ONE_OWNER(void **state)
{
	struct local_cluster *cluster = local_cluster_start(2, MEMORY_BYTES, REGION_BYTES);
	struct nam_thread *threads[OWNERS];
	struct owner owners[OWNERS];
	struct member member;

	(void)state;
	join_real(&member, cluster);
	for (uint32_t i = 0; i < OWNERS; i++) {
		owners[i] = (struct owner){ member.client, i + 1, test_scaled(50000), NULL };
		assert_int_equal(nam_thread_start("owner", own_and_give_back, &owners[i],
					 &threads[i]),
			0);
	}
	for (uint32_t i = 0; i < OWNERS; i++)
		nam_thread_join(threads[i]);
	for (uint32_t i = 0; i < OWNERS; i++)
		if (owners[i].failure)
			fail_msg("owner %u: %s", i, owners[i].failure);
	leave(&member);
	local_cluster_stop(cluster);
}

/* ---- dead clients ------------------------------------------------------------------------- */

/* The child: joins, begins an operation, says so, and is killed in the midst of it. */
static void
linger(const char *list)
{
	struct member member;

	member.client = test_connect(list, "linger", 0);
	member.worker = test_worker(member.client);
	nam__op_begin(member.worker, NAM_OP_SCAN);
	printf("%u %u\n", nam_client_id(member.client), member.client->incarnation);
	fflush(stdout);
	for (;;)
		nam_sleep_ns(1000000000);
}

static void
client__killed_in_an_operation__NOBODY_WAITS_FOR_IT(void **state)
{
	struct local_cluster *cluster = local_cluster_start(2, MEMORY_BYTES, REGION_BYTES);
	const char *args[] = { local_cluster_list(cluster), NULL };
	unsigned id = 0, incarnation = 0;
	struct nam__lock_holder holder;
	struct member member;
	struct nam_gaddr at;
	struct child child;
	uint64_t reusable, word;
	char line[64];

	(void)state;
	join_real(&member, cluster);
	child_start_self(&child, "linger", args);
	assert_true(child_line(&child, line, sizeof(line), 60000));
	assert_int_equal(sscanf(line, "%u %u", &id, &incarnation), 2);
	word = nam_lock_word((uint16_t)id, (uint16_t)incarnation, 1);
	assert_int_equal(nam__lock_holder_query(member.worker, word, &holder), 0);
	assert_false(holder.dead);

	assert_int_equal(nam_alloc(member.worker, STRIDE, &at), 0);
	nam_retire(member.worker, at, STRIDE);
	assert_int_equal(nam__limbo_advance(member.worker, &reusable), 0);
	assert_int_equal(reusable, 0);
	for (uint32_t i = 0; i < 30; i++) {
		nam_sleep_ns(PAUSE_NS);
		assert_int_equal(nam__limbo_advance(member.worker, &reusable), 0);
		assert_int_equal(reusable, 0);
	}
	child_kill(&child);
	await_reusable(&member, 1);
	assert_int_equal(nam__lock_holder_query(member.worker, word, &holder), 0);
	assert_true(holder.dead);
	leave(&member);
	local_cluster_stop(cluster);
}

/* Server 0 cannot say that a client is gone which it has not seen: it forgets all when it ends. */
static void
lock_holder__unknown_to_server_0__NOT_DEAD(void **state)
{
	struct local_cluster *cluster = local_cluster_start(1, MEMORY_BYTES, REGION_BYTES);
	struct nam__lock_holder holder;
	struct member member;
	uint64_t word;

	(void)state;
	join_real(&member, cluster);
	word = nam_lock_word(nam_client_id(member.client),
		(uint16_t)(member.client->incarnation + 1), 1);
	assert_int_equal(nam__lock_holder_query(member.worker, word, &holder), 0);
	assert_false(holder.dead);
	assert_true(holder.unknown);
	assert_int_equal(nam__lock_blame(member.worker, NAM_GADDR_NULL, &holder),
		-NAM_E_LOCK_TIMEOUT);
	assert_non_null(strstr(nam_worker_diag(member.worker), "which server 0 does not know"));
	leave(&member);
	local_cluster_stop(cluster);
}

static void
nam_client_connect__after_a_death__ANOTHER_IDENTITY(void **state)
{
	struct local_cluster *cluster = local_cluster_start(1, MEMORY_BYTES, REGION_BYTES);
	struct member first, second;
	uint32_t identity;

	(void)state;
	join_real(&first, cluster);
	identity = (uint32_t)nam_client_id(first.client) << 16 | first.client->incarnation;
	leave(&first);
	join_real(&second, cluster);
	assert_int_not_equal(
		(uint32_t)nam_client_id(second.client) << 16 | second.client->incarnation,
		identity);
	leave(&second);
	local_cluster_stop(cluster);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_server_status_get__real_servers__FIGURES),
		cmocka_unit_test(nam_cluster_status__one_is_dead__THE_OTHERS_FIGURES),
		cmocka_unit_test(
			nam_cluster_status__each_waits_for_the_others__ALL_ARE_ASKED_AT_ONCE),
		cmocka_unit_test(nam_cluster_status__malformed_cluster__NOBODY_IS_ASKED),
		cmocka_unit_test(nam_worker_close__real_servers__EVERY_BLOCK_GIVEN_BACK),
		cmocka_unit_test(nam_alloc__fresh_blocks__ALL_ZEROES),
		cmocka_unit_test(nam_alloc__real_servers_full__REMOTE_FULL_and_usable_again),
		cmocka_unit_test(nam_alloc__two_workers_churn__EACH_BLOCK_ONE_OWNER),
		cmocka_unit_test(client__killed_in_an_operation__NOBODY_WAITS_FOR_IT),
		cmocka_unit_test(lock_holder__unknown_to_server_0__NOT_DEAD),
		cmocka_unit_test(nam_client_connect__after_a_death__ANOTHER_IDENTITY),
	};

	if (argc == 3 && !strcmp(argv[1], "linger"))
		linger(argv[2]);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
