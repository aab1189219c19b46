/* SPDX-License-Identifier: Apache-2.0 */
/* network_test.c -- the tcp provider over a wire that is cut, and names that lead nowhere. */
#include <sys/mount.h>

#include "wire_fixture.h"

#define SILENT "10.78.0.3"
#define GONE_NS 10000000000ull	/* TCP_SILENCE_MS, or probes a second apart, and a slow machine */

/* ---- a wire that is cut -------------------------------------------------------------------- */

static void
cut__in_the_middle_of_a_batch__FAILS_WHAT_HAS_NO_ANSWER(void **state)
{
	struct fixture *f = *state;
	struct adds adds = { 0 };
	uint64_t begin;
	struct nam_wc wc;

	adds_run(f, &adds, 1000);
	adds_post(f, &adds);
	/* Some are on their way, some not yet. */
	(void)f->ops->cq_poll(f->client.cq, &wc, 0);
	cut();
	begin = nam_now_ns();
	while (!adds.closed) {
		adds_take(f, &adds);
		assert_true(nam_now_ns() - begin < GONE_NS);
	}
	assert_int_equal(adds.done + adds.failed, adds.posted);
	assert_true(adds.failed > 0);
	print_message("figure cut_noticed_after %llu ms\n",
		(unsigned long long)((nam_now_ns() - begin) / 1000000));
	/* Acknowledged requests took effect once; the others once or never. */
	assert_in_range(remote_word(f, 0), adds.done, adds.posted);
	/* The memory server notices it, too, and the next connection works. */
	do {
		take(f, f->server.cq, &wc, 1);
		assert_true(nam_now_ns() - begin < 2 * GONE_NS);
	} while (wc.op != NAM_WC_CLOSED);
	f->ops->qp_destroy(wc.qp);
	f->accepted_qps[0] = NULL;
	mend();
	f->ops->qp_destroy(f->qp);
	f->qp = fixture_connect(f, &f->client);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 0, 8)), 0);
	assert_int_equal(*local_word(f, 0), remote_word(f, 0));
}

/* Nothing is under way: probes find out, on either side. */
static void
cut__of_an_idle_connection__IS_NOTICED_BY_BOTH(void **state)
{
	struct fixture *f = *state;
	uint64_t begin;
	struct nam_wc wc;

	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 0, 8)), 0);
	cut();
	begin = nam_now_ns();
	take(f, f->client.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_true(nam_now_ns() - begin < GONE_NS);
	take(f, f->server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	assert_true(nam_now_ns() - begin < GONE_NS);
}

/* A probe or two are lost, and the next is answered. */
static void
cut__of_an_idle_connection_for_a_while__IS_NO_END(void **state)
{
	struct fixture *f = *state;
	uint64_t begin;
	struct nam_wc wc;

	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 0, 8)), 0);
	assert_int_equal(in_namespace(left, "(ip link set l0 down; sleep 1.5; "
		"ip link set l0 up) &"), 0);
	begin = nam_now_ns();
	while (nam_now_ns() - begin < 5000000000ull) {
		let_work(f);
		assert_int_equal(f->ops->cq_poll(f->client.cq, &wc, 1), 0);
		(void)f->ops->cq_wait(f->client.cq, 100000000);
	}
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 0, 8)), 0);
}

/* Only the kernel sends lost data again. */
static void
cut__for_a_while__LOSES_AND_DOUBLES_NOTHING(void **state)
{
	static const char *const seconds[] = { "0.3", "0.3", "0.3", "1.5" };
	struct fixture *f = *state;
	struct adds adds = { 0 };

	for (unsigned i = 0; i < 4; i++) {
		uint64_t begin = nam_now_ns(), least = i < 3 ? 250000000 : 1400000000;
		char command[128];

		adds.last_ns = begin;
		adds.longest_ns = 0;
		/* In one command: where programs take long to start, the while does not. */
		(void)snprintf(command, sizeof(command), "(ip link set l0 down; sleep %s; "
			"ip link set l0 up) &", seconds[i]);
		assert_int_equal(in_namespace(left, command), 0);
		while (adds.longest_ns < least) {
			adds_run(f, &adds, 100);
			assert_true(nam_now_ns() - begin < TIMEOUT_NS);
		}
	}
	while (adds.done < adds.posted)
		adds_take(f, &adds);
	assert_int_equal(adds.failed, 0);
	assert_int_equal(remote_word(f, 0), adds.posted);
}

/* ---- a peer there -------------------------------------------------------------------------- */

/* Where there is no IPv6, localhost often has an IPv6 address all the same. */
static void
listen__at_a_name_of_which_one_address_is_here__TAKES_THAT(void **state)
{
	char address[64];
	struct nam_listener *listener;
	struct fixture *f = *state;

	(void)snprintf(address, sizeof(address), "tcp:localhost:%u", port_of(f->address));
	assert_int_equal(in_namespace(left,
		"echo 1 > /proc/sys/net/ipv6/conf/lo/disable_ipv6"), 0);
	enter(left);
	assert_int_equal(f->ops->listen(f->server.domain, address, &listener, &f->diag), 0);
	enter(right);
	f->ops->listener_close(listener);
}

/*
 * Of two addresses the first takes what is sent to it and says nothing: it has half of the time.
 * The one with more bits in common with ours comes first.
 */
static void
connect__by_a_name_whose_first_address_is_silent__TRIES_THE_NEXT(void **state)
{
	static const char hosts[] = SILENT " twofold.test\n" LEFT " twofold.test\n";
	struct fixture *f = *state;
	struct nam_qp_options options = { .cq = f->client.cq, .rq = f->client.rq };
	char address[64], path[] = "/tmp/nam-hosts-XXXXXX";
	uint64_t begin = nam_now_ns();
	struct nam_hello reply;
	int fd = mkstemp(path);
	struct nam_qp *qp;

	assert_int_equal(write(fd, hosts, sizeof(hosts) - 1), sizeof(hosts) - 1);
	close(fd);
	assert_int_equal(in_namespace(right, "ip neigh replace " SILENT
		" lladdr 02:00:00:00:00:77 dev r0"), 0);
	/* For this thread alone. */
	assert_int_equal(unshare(CLONE_NEWNS), 0);
	assert_int_equal(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
	assert_int_equal(mount(path, "/etc/hosts", NULL, MS_BIND, NULL), 0);
	(void)snprintf(address, sizeof(address), "tcp:twofold.test:%u", port_of(f->address));
	assert_int_equal(f->ops->connect(f->client.domain, address, NULL, &options, &reply, &qp,
		&f->diag), 0);
	/* Or this test shows nothing. */
	assert_true(nam_now_ns() - begin > 2000000000);
	assert_int_equal(umount2("/etc/hosts", 0), 0);
	assert_int_equal(unlink(path), 0);
	f->ops->qp_destroy(qp);
}

/* ---- no peer there ------------------------------------------------------------------------- */

static void
connect__to_where_nobody_is__SAYS_SO_IN_TIME(void **state)
{
	static const struct {
		const char *address, *text;
	} nowhere[] = {
		{ "tcp:10.78.0.77:7000", "no way there" },	/* no such host on the wire */
		{ "tcp:10.99.0.1:7000", "no way there" },	/* no route */
		{ "tcp:" LEFT ":7000", "no memory server listens" },
	};
	struct fixture *f = *state;
	struct nam_qp_options options = { .cq = f->client.cq, .rq = f->client.rq };
	struct nam_hello reply;
	struct nam_qp *qp;

	for (unsigned i = 0; i < 3; i++) {
		uint64_t begin = nam_now_ns();

		f->diag.text[0] = '\0';
		assert_int_equal(f->ops->connect(f->client.domain, nowhere[i].address, NULL,
			&options, &reply, &qp, &f->diag), -NAM_E_FABRIC_CONNECT);
		assert_true(nam_now_ns() - begin < 5500000000ull);
		if (!strstr(f->diag.text, nowhere[i].text))
			fail_msg("%s", f->diag.text);
	}
	/* Sent, and never answered. */
	cut();
	f->diag.text[0] = '\0';
	assert_true(f->ops->connect(f->client.domain, f->address, NULL, &options, &reply, &qp,
		&f->diag) < 0);
	assert_true(f->diag.text[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, wire_setup, wire_teardown)

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(cut__in_the_middle_of_a_batch__FAILS_WHAT_HAS_NO_ANSWER),
		TEST(cut__of_an_idle_connection__IS_NOTICED_BY_BOTH),
		TEST(cut__of_an_idle_connection_for_a_while__IS_NO_END),
		TEST(cut__for_a_while__LOSES_AND_DOUBLES_NOTHING),
		TEST(listen__at_a_name_of_which_one_address_is_here__TAKES_THAT),
		TEST(connect__by_a_name_whose_first_address_is_silent__TRIES_THE_NEXT),
		TEST(connect__to_where_nobody_is__SAYS_SO_IN_TIME),
	};

	if (!namespaces_open()) {
		puts("skip: network namespaces take root, and ip and nsenter");
		return 77;
	}
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	(void)setenv("NAM_TEST_FABRIC", "tcp:" LEFT ":0", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
