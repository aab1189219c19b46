/* SPDX-License-Identifier: Apache-2.0 */
/*
 * death_test.c -- processes that are killed: the other side learns of it and goes on.
 *
 * Each test forks its victim before it starts any thread of its own.
 */
#include "shm_fixture.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/* A process with one half of the fixture in it; a byte over the pipe says that it is set up. */
struct victim {
	pid_t pid;
	int ready;
	int go;
};

static void
wait_for_byte(int fd)
{
	char byte;

	assert_int_equal(read(fd, &byte, 1), 1);
	close(fd);
}

static void
kill_and_reap(struct victim *victim)
{
	assert_int_equal(kill(victim->pid, SIGKILL), 0);
	assert_int_equal(waitpid(victim->pid, NULL, 0), victim->pid);
}

/* It runs fn once it is let go. */
static struct victim
fork_victim(struct fixture *f, void (*fn)(struct fixture *))
{
	struct victim victim;
	int ready[2], go[2];
	char byte;

	assert_int_equal(pipe(ready), 0);
	assert_int_equal(pipe(go), 0);
	victim.pid = fork();
	assert_true(victim.pid >= 0);
	if (victim.pid == 0) {
		close(ready[0]);
		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		fn(f);
		(void)!write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	close(go[0]);
	victim.ready = ready[0];
	victim.go = go[1];
	return victim;
}

static void
let_go(struct victim *victim)
{
	assert_int_equal(write(victim->go, "x", 1), 1);
	close(victim->go);
	wait_for_byte(victim->ready);
}

/* ---- the server dies ---------------------------------------------------------------------- */

/* `second`, if wanted, is one more server, not let go. */
static struct victim
start_server_and(struct fixture *f, struct victim *second)
{
	struct victim victim;

	fixture_path(f);
	if (second)
		*second = fork_victim(f, fixture_listen);
	victim = fork_victim(f, fixture_listen);
	let_go(&victim);
	side_open(f, &f->client, 64, 64);
	f->qps[0] = fixture_connect(f, &f->client);
	return victim;
}

static struct victim
start_server(struct fixture *f)
{
	return start_server_and(f, NULL);
}

static void
end_client(struct fixture *f)
{
	char lock[128];

	f->ops->qp_destroy(f->qps[0]);
	side_close(f, &f->client);
	/* A killed server leaves both files. */
	(void)snprintf(lock, sizeof(lock), "%s.lock", f->path);
	assert_int_equal(unlink(f->path), 0);
	assert_int_equal(unlink(lock), 0);
	assert_int_equal(rmdir(f->directory), 0);
}

static void
server_killed__client_waits__IS_WOKEN_WITH_CLOSED(void **state)
{
	struct fixture f;
	struct victim victim = start_server(&f);
	struct nam_wc wc;
	uint64_t word = 0;

	(void)state;
	assert_int_equal(run(&f, f.qps[0], wr_write(64, "12345678", 8)), 0);
	kill_and_reap(&victim);
	/* Without a time-out: only the news can end this. */
	while (f.ops->cq_poll(f.client.cq, &wc, 1) == 0)
		(void)f.ops->cq_wait(f.client.cq, UINT64_MAX);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_int_equal(wc.status, -NAM_E_FABRIC_PEER_DEAD);
	assert_ptr_equal(wc.qp, f.qps[0]);
	/* Once; and from now on everything fails, though the memory is still mapped. */
	assert_int_equal(f.ops->cq_poll(f.client.cq, &wc, 1), 0);
	assert_int_equal(run(&f, f.qps[0], wr_read(64, &word, 8)), -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(word, 0);
	assert_int_equal(run(&f, f.qps[0], wr_send(&word, 8)), -NAM_E_FABRIC_PEER_DEAD);
	end_client(&f);
}

static void
server_killed__requests_pending__ARE_FLUSHED_BEFORE_CLOSED(void **state)
{
	struct fixture f;
	struct victim victim = start_server(&f);
	uint64_t words[8];
	struct nam_wc wcs[40];
	struct nam_wr wr;
	unsigned n = 0;

	(void)state;
	/* 16 that fit into the ring, 4 and a READ that wait behind it. */
	for (unsigned i = 0; i < 20; i++) {
		wr = wr_send(words, 8);
		assert_int_equal(f.ops->qp_post(f.qps[0], &wr, 1), 0);
	}
	wr = wr_read(0, words, 8);
	assert_int_equal(f.ops->qp_post(f.qps[0], &wr, 1), 0);
	assert_int_equal(f.ops->cq_poll(f.client.cq, wcs, 40), 0);
	kill_and_reap(&victim);
	/* The news is here when a wait without a time-out ends. */
	assert_int_equal(f.ops->cq_wait(f.client.cq, UINT64_MAX), 0);
	for (unsigned i = 0; i < 8; i++) {
		wr = wr_read(0, &words[i], 8);
		assert_int_equal(f.ops->qp_post(f.qps[0], &wr, 1), 0);
	}
	while (n < 14)
		n += (unsigned)f.ops->cq_poll(f.client.cq, wcs + n, n < 7 ? 2 : 1);
	for (unsigned i = 0; i < 14; i++)
		assert_int_equal(wcs[i].status, -NAM_E_FABRIC_PEER_DEAD);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(wcs[i].op, NAM_WR_SEND);
	for (unsigned i = 4; i < 13; i++)
		assert_int_equal(wcs[i].op, NAM_WR_READ);
	assert_int_equal(wcs[13].op, NAM_WC_CLOSED);
	assert_int_equal(f.ops->cq_poll(f.client.cq, wcs, 40), 0);
	end_client(&f);
}

static void
server_killed__noticed__WITHIN_TWO_SECONDS(void **state)
{
	struct fixture f;
	struct victim victim = start_server(&f);
	uint64_t word, killed_ns;
	int status = 0;

	(void)state;
	assert_int_equal(kill(victim.pid, SIGKILL), 0);
	killed_ns = nam_now_ns();
	while (!status) {
		struct nam_wr wr = wr_read(0, &word, 8);
		struct nam_wc wcs[2];
		int n;

		wr.flags = NAM_WR_SIGNALED;
		assert_int_equal(f.ops->qp_post(f.qps[0], &wr, 1), 0);
		n = f.ops->cq_poll(f.client.cq, wcs, 2);
		for (int i = 0; i < n; i++)
			status = wcs[i].status ? wcs[i].status : status;
	}
	assert_int_equal(status, -NAM_E_FABRIC_PEER_DEAD);
	assert_true(nam_now_ns() - killed_ns < 2000000000);
	assert_int_equal(waitpid(victim.pid, NULL, 0), victim.pid);
	end_client(&f);
}

static void
server_killed__another_takes_its_place__IS_ANOTHER_MEMORY(void **state)
{
	struct fixture f;
	struct victim second, victim = start_server_and(&f, &second);
	uint64_t word = 1;
	struct nam_qp *qp;

	(void)state;
	assert_int_equal(run(&f, f.qps[0], wr_write(64, "12345678", 8)), 0);
	kill_and_reap(&victim);
	let_go(&second);
	/* While the queue pair to the first, and its mappings, still exist. */
	qp = fixture_connect(&f, &f.client);
	/* Before or after: the CLOSED of the first is not what `run` waits for. */
	while (!f.qps[1]) {
		struct nam_wc wc;

		if (f.ops->cq_poll(f.client.cq, &wc, 1) == 1) {
			assert_int_equal(wc.op, NAM_WC_CLOSED);
			assert_ptr_equal(wc.qp, f.qps[0]);
			f.qps[1] = qp;
		}
	}
	assert_int_equal(run(&f, qp, wr_read(64, &word, 8)), 0);
	assert_int_equal(word, 0);
	kill_and_reap(&second);
	f.ops->qp_destroy(qp);
	end_client(&f);
}

/* ---- the client dies ---------------------------------------------------------------------- */

static void
be_a_client(struct fixture *f)
{
	char zero[4096] = { 0 };

	side_open(f, &f->client, 64, 64);
	f->qps[0] = fixture_connect(f, &f->client);
	for (int i = 0; i < 20; i++) {
		struct nam_wr wr = wr_send(zero, sizeof(zero));
		struct nam_wc wc;

		(void)f->ops->qp_post(f->qps[0], &wr, 1);
		(void)f->ops->cq_poll(f->client.cq, &wc, 1);
	}
}

static void
client_killed__server_waits__IS_TOLD_AND_GOES_ON(void **state)
{
	struct fixture f;
	struct victim victim;
	struct nam_wc wc;

	(void)state;
	fixture_path(&f);
	victim = fork_victim(&f, be_a_client);
	fixture_listen(&f);
	let_go(&victim);
	(void)fixture_accepted(&f, 0);
	kill_and_reap(&victim);
	take(&f, f.server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_ptr_equal(wc.qp, f.accepted_qps[0]);
	f.ops->qp_destroy(f.accepted_qps[0]);
	f.accepted_qps[0] = NULL;
	/* The next client is served. */
	side_open(&f, &f.client, 64, 64);
	f.qps[0] = fixture_connect(&f, &f.client);
	assert_int_equal(run(&f, f.qps[0], wr_write(0, "12345678", 8)), 0);
	f.ops->qp_destroy(f.qps[0]);
	side_close(&f, &f.client);
	fixture_server_close(&f);
	assert_int_equal(rmdir(f.directory), 0);
}

static void
qp_destroy__on_one_side__CLOSES_THE_OTHER(void **state)
{
	struct fixture f;
	struct nam_qp *second;
	struct nam_wc wc;

	(void)state;
	fixture_path(&f);
	fixture_listen(&f);
	side_open(&f, &f.client, 64, 64);
	f.qps[0] = fixture_connect(&f, &f.client);
	second = fixture_connect(&f, &f.client);
	(void)fixture_accepted(&f, 1);
	f.ops->qp_destroy(f.accepted_qps[0]);
	f.accepted_qps[0] = NULL;
	take(&f, f.client.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_ptr_equal(wc.qp, f.qps[0]);
	assert_int_equal(run(&f, second, wr_write(0, "12345678", 8)), 0);
	f.ops->qp_destroy(second);
	take(&f, f.server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_ptr_equal(wc.qp, f.accepted_qps[1]);
	f.ops->qp_destroy(f.qps[0]);
	side_close(&f, &f.client);
	fixture_server_close(&f);
	assert_int_equal(rmdir(f.directory), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(server_killed__client_waits__IS_WOKEN_WITH_CLOSED),
		cmocka_unit_test(server_killed__requests_pending__ARE_FLUSHED_BEFORE_CLOSED),
		cmocka_unit_test(server_killed__noticed__WITHIN_TWO_SECONDS),
		cmocka_unit_test(server_killed__another_takes_its_place__IS_ANOTHER_MEMORY),
		cmocka_unit_test(client_killed__server_waits__IS_TOLD_AND_GOES_ON),
		cmocka_unit_test(qp_destroy__on_one_side__CLOSES_THE_OTHER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
