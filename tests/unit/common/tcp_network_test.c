/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_network_test.c -- the tcp provider over a wire that is cut, slow or lossy.
 *
 * The wire is a pair of virtual interfaces between two network namespaces that exist only here; the
 * memory server's sockets are in one and the client's in the other.  Root only, else skipped; what
 * delays and loses packets needs tc and the kernel's netem.
 */
#include "unit/common/tcp_fixture.h"

#include <fcntl.h>
#include <sched.h>

#define LEFT "10.78.0.1"
#define RIGHT "10.78.0.2"
#define GONE_NS 10000000000ull	/* TCP_SILENCE_MS, or probes a second apart, and a slow machine */

static int left = -1, right = -1;	/* namespaces */

/* A command in one of them; its output only if asked for. */
static int
in_namespace(int namespace, const char *command)
{
	char line[512];

	(void)snprintf(line, sizeof(line), "nsenter --net=/proc/%d/fd/%d sh -c '%s' 2>/dev/null",
		(int)getpid(), namespace, command);
	return system(line);
}

static void
enter(int namespace)
{
	assert_int_equal(setns(namespace, CLONE_NEWNET), 0);
}

static int
wire_up(void)
{
	char command[256];

	/* Who lives in a namespace may be named by its number: the right one is ours now. */
	(void)snprintf(command, sizeof(command), "ip link set lo up && "
		"ip link add l0 type veth peer name r0 && ip link set r0 netns %d && "
		"ip addr add " LEFT "/24 dev l0 && ip link set l0 up", (int)getpid());
	if (in_namespace(left, command))
		return -1;
	return in_namespace(right, "ip link set lo up && ip addr add " RIGHT "/24 dev r0 && "
		"ip link set r0 up");
}

/* False: this may not be done here. */
static bool
namespaces_open(void)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNET))
		return false;
	left = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (unshare(CLONE_NEWNET))
		return false;
	right = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	/* nsenter opens what this process has open. */
	return left >= 0 && right >= 0 && !wire_up();
}

static void
cut(void)
{
	assert_int_equal(in_namespace(left, "ip link set l0 down"), 0);
}

static void
mend(void)
{
	assert_int_equal(in_namespace(left, "ip link set l0 up"), 0);
	/* Who was asked for in vain would be taken for absent for some seconds. */
	(void)in_namespace(right, "for i in 1 2 3 4 5 6 7 8 9; do "
		"ip link show r0 | grep -q LOWER_UP && break; sleep 0.1; done; "
		"ip neigh flush dev r0");
	(void)in_namespace(left, "ip neigh flush dev l0");
}

static int
setup(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	assert_non_null(f);
	fixture_address(f);
	enter(left);
	fixture_listen(f);
	enter(right);
	side_open(f, &f->client, 0);
	f->qp = fixture_connect(f, &f->client);
	(void)fixture_accepted(f, 0);
	*state = f;
	return 0;
}

static int
teardown(void **state)
{
	(void)in_namespace(left, "tc qdisc del dev l0 root");
	(void)in_namespace(right, "tc qdisc del dev r0 root");
	mend();
	return fixture_teardown(state);
}

/* ---- counting ------------------------------------------------------------------------------ */

/*
 * FETCH_ADDs of 1, each of which says how many there were before: what is done is known to be done
 * once, and in order.
 */
struct adds {
	unsigned posted, done, failed;
	bool closed;
	uint64_t last_ns, longest_ns;	/* without one that was done */
};

#define UNDER_WAY 32u

static void
adds_post(struct fixture *f, struct adds *adds)
{
	while (adds->posted - adds->done - adds->failed < UNDER_WAY) {
		struct nam_wr wr = wr_of(f, NAM_WR_FETCH_ADD, 0, 8 * (adds->posted % UNDER_WAY), 8);

		wr.compare = 1;
		wr.flags = NAM_WR_SIGNALED;
		wr.context = local_word(f, 8 * (adds->posted % UNDER_WAY));
		assert_int_equal(f->ops->qp_post(f->qp, &wr, 1), 0);
		adds->posted++;
	}
}

static void
adds_take(struct fixture *f, struct adds *adds)
{
	struct nam_wc wcs[UNDER_WAY];
	uint64_t now;
	int n;

	let_work(f);
	n = f->ops->cq_poll(f->client.cq, wcs, UNDER_WAY);
	for (int i = 0; i < n; i++) {
		if (wcs[i].op == NAM_WC_CLOSED) {
			adds->closed = true;
		} else if (wcs[i].status) {
			assert_int_equal(wcs[i].status, -NAM_E_FABRIC_PEER_DEAD);
			adds->failed++;
		} else {
			assert_int_equal(adds->failed, 0);
			assert_int_equal(*(uint64_t *)wcs[i].context, adds->done);
			adds->done++;
		}
	}
	if (!n)
		(void)f->ops->cq_wait(f->client.cq, 200000);
	now = nam_now_ns();
	if (adds->last_ns && now - adds->last_ns > adds->longest_ns)
		adds->longest_ns = now - adds->last_ns;
	if (n)
		adds->last_ns = now;
}

static void
adds_run(struct fixture *f, struct adds *adds, unsigned more)
{
	unsigned wanted = adds->done + more;
	uint64_t until = nam_now_ns() + PATIENCE_NS;

	while (adds->done < wanted) {
		adds_post(f, adds);
		adds_take(f, adds);
		assert_true(nam_now_ns() < until && !adds->closed);
	}
}

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
	/* What was said to be done was, once; of the others, as many as may be. */
	assert_in_range(remote_word(f, 0), adds.done, adds.posted);
	/* So does the memory server, and the next connection works. */
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

/* What was lost is sent again by the kernel, and nobody else. */
static void
cut__for_a_moment__LOSES_AND_DOUBLES_NOTHING(void **state)
{
	struct fixture *f = *state;
	struct adds adds = { 0 };

	for (unsigned i = 0; i < 3; i++) {
		uint64_t begin = nam_now_ns();

		adds.last_ns = begin;
		adds.longest_ns = 0;
		/* In one command: where programs take long to start, the moment does not. */
		assert_int_equal(in_namespace(left, "(ip link set l0 down; sleep 0.3; "
			"ip link set l0 up) &"), 0);
		while (adds.longest_ns < 250000000) {
			adds_run(f, &adds, 100);
			assert_true(nam_now_ns() - begin < PATIENCE_NS);
		}
	}
	while (adds.done < adds.posted)
		adds_take(f, &adds);
	assert_int_equal(adds.failed, 0);
	assert_int_equal(remote_word(f, 0), adds.posted);
}

/* ---- a wire that is slow, or loses --------------------------------------------------------- */

static void
over_a_bad_wire(struct fixture *f, const char *netem)
{
	struct adds adds = { 0 };
	char command[256];

	(void)snprintf(command, sizeof(command), "tc qdisc replace dev l0 root netem %s", netem);
	if (in_namespace(left, command)) {
		print_message("skip %s: no netem here\n", netem);
		skip();
	}
	(void)snprintf(command, sizeof(command), "tc qdisc replace dev r0 root netem %s", netem);
	assert_int_equal(in_namespace(right, command), 0);
	adds_run(f, &adds, 2000);
	while (adds.done < adds.posted)
		adds_take(f, &adds);
	assert_int_equal(remote_word(f, 0), adds.posted);
	for (unsigned i = 0; i < 1u << 20; i++)
		f->client.local[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_WRITE, 64, 0, 1u << 20)), 0);
	assert_memory_equal(remote(f, 64), f->client.local, 1u << 20);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 64, 2u << 20, 1u << 20)), 0);
	assert_memory_equal(f->client.local + (2u << 20), f->client.local, 1u << 20);
}

static void
wire__that_delays__CARRIES_EVERYTHING(void **state)
{
	over_a_bad_wire(*state, "delay 10ms 3ms");
}

static void
wire__that_loses__CARRIES_EVERYTHING_ONCE(void **state)
{
	over_a_bad_wire(*state, "delay 1ms loss 3%");
}

/* ---- somebody there ------------------------------------------------------------------------ */

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

/* ---- nobody there -------------------------------------------------------------------------- */

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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		TEST(cut__in_the_middle_of_a_batch__FAILS_WHAT_HAS_NO_ANSWER),
		TEST(cut__of_an_idle_connection__IS_NOTICED_BY_BOTH),
		TEST(cut__of_an_idle_connection_for_a_while__IS_NO_END),
		TEST(cut__for_a_moment__LOSES_AND_DOUBLES_NOTHING),
		TEST(wire__that_delays__CARRIES_EVERYTHING),
		TEST(wire__that_loses__CARRIES_EVERYTHING_ONCE),
		TEST(listen__at_a_name_of_which_one_address_is_here__TAKES_THAT),
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
