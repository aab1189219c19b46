/* SPDX-License-Identifier: Apache-2.0 */
/*
 * device_test.c -- what only the verbs provider has, on a device: NAM_TEST_FABRIC says where
 * it is, as in verbs:10.0.0.1:0.  Without it the test is skipped.
 *
 * With the argument "vanish" it cuts the wire, which are the interfaces in NAM_TEST_WIRES.
 */
#include "tests/unit/common/fabric/fabric_fixture.h"

#ifdef NAM_VERBS

#include <errno.h>

#include "common/fabric/provider.h"
#include "common/fabric/verbs/verbs_internal.h"

#define BIG 65536u

static atomic_uint notices_low, notices_others;

static void
note(const char *text)
{
	print_message("notice: %s\n", text);
	atomic_fetch_add(strstr(text, "run low") ? &notices_low : &notices_others, 1);
}

/* ---- overrides ----------------------------------------------------------------------------- */

/* That `options` are refused with these words. */
static void
refused(struct nam_fabric_options options, int wanted, const char *first, const char *second)
{
	struct nam_diag diag = { "" };
	struct nam_domain *domain;
	struct fixture f;
	int rc;

	fixture_address(&f);
	options.address = f.address;
	rc = nam__verbs_ops.domain_open(&options, &domain, &diag);
	if (!rc)
		nam__verbs_ops.domain_close(domain);
	print_message("%s\n", diag.text);
	assert_int_equal(rc, wanted);
	assert_non_null(strstr(diag.text, first));
	assert_non_null(strstr(diag.text, second));
}

static void
device__that_is_not_there__IS_REFUSED_WITH_A_LIST(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	(void)state;
	assert_non_null(list);
	refused((struct nam_fabric_options){ .device = "mlx9_7" }, -EINVAL, "'mlx9_7'",
		ibv_get_device_name(list[0]));
	ibv_free_device_list(list);
}

static void
gid_index__wrong__IS_REFUSED_WITH_WHERE_TO_LOOK(void **state)
{
	(void)state;
	refused((struct nam_fabric_options){ .gid_index = "1000" }, -EINVAL, "gid_index",
		"/ports/*/gids");
	refused((struct nam_fabric_options){ .gid_index = "first" }, -EINVAL, "gid_index",
		"'first'");
	refused((struct nam_fabric_options){ .gid_index = "-1" }, -EINVAL, "gid_index", "'-1'");
	refused((struct nam_fabric_options){ .gid_index = "65536" }, -EINVAL, "gid_index",
		"65535");
}

static void
mtu__wrong__IS_REFUSED(void **state)
{
	static const char *const wrong[] = { "1500", "0", "1024k", "-256", "256 " };

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		refused((struct nam_fabric_options){ .mtu = wrong[i] }, -EINVAL, "mtu",
			wrong[i]);
}

/* The largest that a port carries now, in bytes. */
static unsigned
active_mtu(struct nam_domain *domain)
{
	struct ibv_port_attr port = { 0 };

	assert_int_equal(ibv_query_port(((struct verbs_domain *)domain)->verbs, 1, &port), 0);
	return 128u << port.active_mtu;
}

static void
mtu__larger_than_the_port_carries__IS_REFUSED_WITH_WHAT_IT_CARRIES(void **state)
{
	struct fixture *f = *state;
	unsigned carried = active_mtu(f->server.domain);
	char text[16];

	if (carried >= 4096)
		skip();
	(void)snprintf(text, sizeof(text), "%u", carried);
	refused((struct nam_fabric_options){ .mtu = "4096" }, -EINVAL, "4096", text);
}

/* ---- connections --------------------------------------------------------------------------- */

static void
write_and_read(struct fixture *f, const struct side *side, struct nam_qp *qp)
{
	struct nam_wr wr = wr_of(f, NAM_WR_WRITE, 0, 0, BIG);
	struct nam_wc wc;

	wr.local = side->local;
	wr.lkey = side->local_mr.lkey;
	wr.flags = NAM_WR_SIGNALED;
	for (unsigned i = 0; i < BIG; i++)
		side->local[i] = (uint8_t)(i * 31);
	assert_int_equal(f->ops->qp_post(qp, &wr, 1), 0);
	take(f, side->cq, &wc, 1);
	assert_int_equal(wc.status, 0);
	memset(side->local, 0, BIG);
	wr.op = NAM_WR_READ;
	assert_int_equal(f->ops->qp_post(qp, &wr, 1), 0);
	take(f, side->cq, &wc, 1);
	assert_int_equal(wc.status, 0);
	for (unsigned i = 0; i < BIG; i++)
		assert_int_equal(side->local[i], (uint8_t)(i * 31));
}

/* Both ends must cut messages alike, whichever end has the option. */
static void
mtu_of_one_side(const char *clients, const char *servers)
{
	struct fixture *f;
	void *state;

	fixture_options[0].mtu = clients;
	fixture_options[1].mtu = servers;
	(void)fixture_setup(&state);
	f = state;
	write_and_read(f, &f->client, f->qp);
	(void)fixture_teardown(&state);
}

static int
no_wishes(void **state)
{
	(void)state;
	memset(fixture_options, 0, sizeof(fixture_options));
	return 0;
}

static void
mtu__smaller_at_the_client__HOLDS_FOR_BOTH(void **state)
{
	(void)state;
	mtu_of_one_side("256", NULL);
}

static void
mtu__smaller_at_the_server__HOLDS_FOR_BOTH(void **state)
{
	(void)state;
	mtu_of_one_side(NULL, "512");
}

static void
mtu__different_on_both_sides__THE_SMALLER_HOLDS(void **state)
{
	(void)state;
	mtu_of_one_side("512", "256");
	mtu_of_one_side("256", "1024");
}

/* ---- asynchronous events ------------------------------------------------------------------- */

/* Send until the server's receives are used up; the server does not answer. */
static void
use_up_receives(struct fixture *f)
{
	struct nam_recv recvs[DEPTH];
	struct nam_wc wcs[DEPTH];

	for (unsigned i = 0; i < DEPTH; i++)
		recvs[i] = (struct nam_recv){
			.buffer = f->server.local + 64 * i,
			.bytes = 64,
			.lkey = f->server.local_mr.lkey,
		};
	assert_int_equal(f->ops->rq_post(f->server.rq, recvs, DEPTH), 0);
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_SEND, 0, 0, 64)), 0);
	take(f, f->server.cq, wcs, DEPTH);
	for (unsigned i = 0; i < DEPTH; i++)
		assert_int_equal(wcs[i].op, NAM_WC_RECV);
}

static void
receive_queue__runs_low_again_and_again__IS_SAID_ONCE(void **state)
{
	struct fixture *f = *state;
	uint64_t until = nam_now_ns() + TIMEOUT_NS;

	use_up_receives(f);
	while (!atomic_load(&notices_low) && nam_now_ns() < until)
		nam_sleep_ns(10000000);
	use_up_receives(f);
	use_up_receives(f);
	nam_sleep_ns(300000000);
	assert_int_equal(atomic_load(&notices_low), 1);
	assert_int_equal(atomic_load(&notices_others), 0);
	/* And all goes on. */
	write_and_read(f, &f->client, f->qp);
}

static int
noting_setup(void **state)
{
	atomic_store(&notices_low, 0);
	atomic_store(&notices_others, 0);
	fixture_options[1].notice = note;
	return fixture_setup(state);
}

static int
noting_teardown(void **state)
{
	fixture_options[1].notice = NULL;
	return fixture_teardown(state);
}

/* ---- a host that vanishes without a word ----------------------------------------------------- */

#define BUSY_NS 5000000000ull		/* what an emulated machine may take longer */
/* Retries that run out, and some time for a busy machine. */
#define RETRIES_NS 4000000000ull
/* Where nothing is under way a client tries twice a second, a memory server every 5 s. */
#define CLIENT_IDLE_NS (RETRIES_NS + 1000000000ull)
#define SERVER_IDLE_NS (RETRIES_NS + 6000000000ull)

static void
wire(const char *how)
{
	char text[256];

	(void)snprintf(text, sizeof(text),
		"for w in $NAM_TEST_WIRES; do tc qdisc %s dev $w root %s || exit; done", how,
		strcmp(how, "add") ? "" : "netem loss 100%");
	assert_int_equal(system(text), 0);
}

static int
vanish_teardown(void **state)
{
	(void)!system("for w in $NAM_TEST_WIRES; do tc qdisc del dev $w root 2>/dev/null; done");
	return fixture_teardown(state);
}

/* Take completions until CLOSED, which is the last one; all others failed.  Their number. */
static unsigned
closed_within(struct fixture *f, struct nam_cq *cq, const struct nam_qp *qp, uint64_t ns)
{
	uint64_t begin = nam_now_ns(), until = begin + ns;
	unsigned failed = 0;
	struct nam_wc wc;

	while (nam_now_ns() < until) {
		int n = f->ops->cq_poll(cq, &wc, 1);

		assert_true(n >= 0);
		if (!n) {
			(void)f->ops->cq_wait(cq, 50000000);
			continue;
		}
		assert_ptr_equal(wc.qp, qp);
		assert_int_equal(wc.status, -NAM_E_FABRIC_PEER_DEAD);
		if (wc.op == NAM_WC_CLOSED) {
			print_message("noticed after %u ms\n",
				(unsigned)((nam_now_ns() - begin) / 1000000));
			return failed;
		}
		failed++;
	}
	fail_msg("not noticed within %u ms", (unsigned)(ns / 1000000));
	return 0;
}

/* The same process, with the same domains, once the host is back. */
static void
connect_anew(struct fixture *f)
{
	unsigned accepted = atomic_load(&f->accepted);

	wire("del");
	f->ops->qp_destroy(f->qp);
	f->qp = fixture_connect(f, &f->client);
	(void)fixture_accepted(f, accepted);
	write_and_read(f, &f->client, f->qp);
}

static void
host__vanishes_while_requests_wait__ENDS_THEM_AND_CAN_COME_AGAIN(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wrs[16];

	for (unsigned i = 0; i < 16; i++) {
		wrs[i] = wr_of(f, i % 2 ? NAM_WR_READ : NAM_WR_WRITE, 4096 * i, 4096 * i, 4096);
		wrs[i].flags = NAM_WR_SIGNALED;
	}
	wire("add");
	assert_int_equal(f->ops->qp_post(f->qp, wrs, 16), 0);
	assert_int_equal(closed_within(f, f->client.cq, f->qp, RETRIES_NS), 16);
	/* Later requests end with the same. */
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 0, 8)), -NAM_E_FABRIC_PEER_DEAD);
	connect_anew(f);
}

static void
host__vanishes_while_nothing_is_under_way__IS_NOTICED_ON_BOTH_SIDES(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = nam_now_ns();

	wire("add");
	assert_int_equal(closed_within(f, f->client.cq, f->qp, CLIENT_IDLE_NS), 0);
	assert_int_equal(closed_within(f, f->server.cq, f->accepted_qps[0],
		begin + SERVER_IDLE_NS - nam_now_ns()), 0);
	connect_anew(f);
}

static void
connect__to_a_host_that_vanished__FAILS_IN_TIME_WITH_A_MESSAGE(void **state)
{
	struct fixture *f = *state;
	struct nam_qp_options options = { .cq = f->client.cq, .rq = f->client.rq };
	uint64_t begin = nam_now_ns(), took_ns;
	struct nam_hello reply;
	struct nam_qp *qp;

	wire("add");
	f->diag.text[0] = '\0';
	assert_int_equal(f->ops->connect(f->client.domain, f->address, NULL, &options, &reply, &qp,
		&f->diag), -ETIMEDOUT);
	took_ns = nam_now_ns() - begin;
	print_message("after %u ms: %s\n", (unsigned)(took_ns / 1000000), f->diag.text);
	assert_true(took_ns < VERBS_CONNECT_NS + BUSY_NS);
	assert_non_null(strstr(f->diag.text, f->address));
	assert_non_null(strstr(f->diag.text, "is the host up"));
	(void)closed_within(f, f->client.cq, f->qp, CLIENT_IDLE_NS);
	connect_anew(f);
}

static int
run_vanish(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			host__vanishes_while_requests_wait__ENDS_THEM_AND_CAN_COME_AGAIN,
			fixture_setup, vanish_teardown),
		cmocka_unit_test_setup_teardown(
			host__vanishes_while_nothing_is_under_way__IS_NOTICED_ON_BOTH_SIDES,
			fixture_setup, vanish_teardown),
		cmocka_unit_test_setup_teardown(
			connect__to_a_host_that_vanished__FAILS_IN_TIME_WITH_A_MESSAGE,
			fixture_setup, vanish_teardown),
	};

	return getenv("NAM_TEST_WIRES") ? cmocka_run_group_tests(tests, NULL, NULL) : 77;
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(device__that_is_not_there__IS_REFUSED_WITH_A_LIST),
		cmocka_unit_test(gid_index__wrong__IS_REFUSED_WITH_WHERE_TO_LOOK),
		cmocka_unit_test(mtu__wrong__IS_REFUSED),
		cmocka_unit_test_setup_teardown(
			mtu__larger_than_the_port_carries__IS_REFUSED_WITH_WHAT_IT_CARRIES,
			fixture_setup, fixture_teardown),
		cmocka_unit_test_teardown(mtu__smaller_at_the_client__HOLDS_FOR_BOTH, no_wishes),
		cmocka_unit_test_teardown(mtu__smaller_at_the_server__HOLDS_FOR_BOTH, no_wishes),
		cmocka_unit_test_teardown(mtu__different_on_both_sides__THE_SMALLER_HOLDS,
			no_wishes),
		cmocka_unit_test_setup_teardown(
			receive_queue__runs_low_again_and_again__IS_SAID_ONCE,
			noting_setup, noting_teardown),
	};
	const char *fabric = getenv("NAM_TEST_FABRIC");

	if (!fabric || strncmp(fabric, "verbs:", 6)) {
		puts("skip: takes RDMA devices, as in tests/softroce/run");
		return 77;
	}
	if (argc > 1 && !strcmp(argv[1], "vanish"))
		return run_vanish();
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
