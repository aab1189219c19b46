/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tcp_test.c -- what only the tcp provider has: addresses, handshakes, lost peers.
 *
 * The contract of all providers is in fabric_test; frames are in tcp_frames_test.
 */
#include "tcp_fixture.h"

#include <sys/resource.h>

#include "common/sim/sim.h"
#include "common/fabric/provider.h"
#include "common/fabric/shm/copy.h"

/* This provider has the bits of the simulator's profile. */
static void
caps__of_this_processor__ARE_THOSE_OF_THE_SIMULATORS_STRICT(void **state)
{
	/* A network may be cut, and both ends live on. */
	const uint32_t caps = nam_sim_profile_caps(NAM_SIM_STRICT) & ~(uint32_t)NAM_CAP_LASTING;

	(void)state;
#if defined(__x86_64__)
	assert_int_equal(SHM_COPY_CAPS, caps);
#else
	assert_int_equal(SHM_COPY_CAPS | NAM_CAP_ORDERED_LOADS, caps);
#endif
}

/* ---- addresses ---------------------------------------------------------------------------- */

static void
listen__addresses_of_no_use__SAY_WHAT_TO_DO(void **state)
{
	static const struct {
		const char *address;
		int rc;
		const char *text;
	} bad[] = {
		{ "tcp:127.0.0.1", -EINVAL, "tcp:HOST:PORT" },
		{ "tcp::1:7000", -EINVAL, "in brackets" },
		{ "tcp:127.0.0.1:0", -EINVAL, "from 1 to 65535" },
		{ "tcp:127.0.0.1:70000", -EINVAL, "port '70000'" },
		{ "tcp:no.such.host.invalid:7000", -EINVAL, "is not known" },
		{ "tcp:192.0.2.1:7000", -EADDRNOTAVAIL, "no such address" },
	};
	struct nam_domain *domain;

	(void)state;
	assert_int_equal(nam__tcp_ops.domain_open(NULL, &domain, NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct nam_listener *listener;
		struct nam_diag diag = { "" };

		assert_int_equal(nam__tcp_ops.listen(domain, bad[i].address, &listener, &diag),
			bad[i].rc);
		if (!strstr(diag.text, bad[i].text))
			fail_msg("%s: %s", bad[i].address, diag.text);
	}
	nam__tcp_ops.domain_close(domain);
}

/* All of this host's addresses, by the one that stands for them. */
static void
listen__at_any_address__IS_REACHED_BY_EACH(void **state)
{
	static const char *const hosts[] = { "127.0.0.1", "127.0.0.2", "[::1]", "localhost" };
	struct fixture *f = calloc(1, sizeof(*f));

	(void)state;
	if (access("/proc/net/if_inet6", R_OK))
		skip();
	fixture_address(f);
	(void)snprintf(f->address, sizeof(f->address), "tcp:[::]:%u",
		20000 + (unsigned)getpid() % 10000);
	fixture_listen(f);
	side_open(f, &f->client, 0);
	for (unsigned i = 0; i < 4; i++) {
		unsigned port = port_of(f->address);
		struct nam_qp *qp;

		(void)snprintf(f->address, sizeof(f->address), "tcp:%s:%u", hosts[i], port);
		qp = fixture_connect(f, &f->client);
		assert_int_equal(run(f, qp, wr_of(f, NAM_WR_READ, 0, 0, 64)), 0);
		f->ops->qp_destroy(qp);
	}
	side_close(f, &f->client);
	fixture_server_close(f);
	free(f);
}

/* ---- keys --------------------------------------------------------------------------------- */

/* Memory in the place of released memory has another key. */
static void
key__of_memory_that_was_released__FITS_NOTHING(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wr = wr_of(f, NAM_WR_READ, 0, 0, 64);
	struct nam_mr mr;

	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(f->ops->mr_register(f->server.domain, f->server.local,
			LOCAL_BYTES, NAM_MR_REMOTE, &mr, &f->diag), 0);
		assert_int_not_equal(mr.rkey, wr.rkey);
		wr.rkey = mr.rkey;
		wr.remote = mr.remote;
		assert_int_equal(run(f, f->qp, wr), 0);
		f->ops->mr_release(f->server.domain, &mr);
	}
	assert_int_equal(f->ops->mr_register(f->server.domain, f->server.local, LOCAL_BYTES,
		NAM_MR_REMOTE, &mr, &f->diag), 0);
	assert_int_equal(run(f, f->qp, wr), -NAM_E_FABRIC_ACCESS);
	f->ops->mr_release(f->server.domain, &mr);
}

/* ---- handshakes --------------------------------------------------------------------------- */

static void
connect__what_answers_is_no_memory_server__IS_SAID(void **state)
{
	struct fixture *f = *state;
	struct tcp_welcome welcome = { .magic = TCP_MAGIC_WELCOME, .version = TCP_VERSION + 1 };
	struct tcp_hello echo = { .magic = TCP_MAGIC, .version = TCP_VERSION };

	assert_int_equal(connect_to_impostor(f, "HTTP/1.1 400 Bad Request\r\n\r\n", 28),
		-NAM_E_FABRIC_PROTOCOL);
	assert_non_null(strstr(f->diag.text, "not a memory server"));
	assert_int_equal(connect_to_impostor(f, &welcome, sizeof(welcome)), -NAM_E_FABRIC_VERSION);
	assert_non_null(strstr(f->diag.text, "same release"));
	/* A later release may have a longer welcome, or a shorter one. */
	assert_int_equal(connect_to_impostor(f, &welcome, 8), -NAM_E_FABRIC_VERSION);
	welcome.version = TCP_VERSION;
	welcome.bytes = NAM_REPLY_BYTES_MAX + 1;
	assert_int_equal(connect_to_impostor(f, &welcome, sizeof(welcome)),
		-NAM_E_FABRIC_PROTOCOL);
	/* A socket that was connected to itself echoes. */
	assert_int_equal(connect_to_impostor(f, &echo, sizeof(echo)), -NAM_E_FABRIC_PROTOCOL);
	assert_non_null(strstr(f->diag.text, "not a memory server"));
	assert_int_equal(connect_to_impostor(f, NULL, 0), -NAM_E_FABRIC_CONNECT);
	assert_non_null(strstr(f->diag.text, "closed the connection"));
}

static void
connect__nothing_is_said__ENDS_AFTER_5_S(void **state)
{
	struct fixture *f = *state;
	uint64_t begin = nam_now_ns();

	assert_int_equal(connect_to_impostor(f, "", 0), -NAM_E_FABRIC_TIMEOUT);
	assert_in_range(nam_now_ns() - begin, 4500000000ull, 6500000000ull);
}

/* The memory server's welcome to another version says which it speaks. */
static void
hello__of_another_version__IS_TOLD_OURS(void **state)
{
	struct fixture *f = *state;
	struct tcp_hello hello = raw_hello();
	struct tcp_welcome welcome;
	int fd = raw_connect(f->address);

	hello.version++;
	raw_send(fd, &hello, 8);
	assert_true(raw_receive(fd, &welcome, sizeof(welcome)));
	assert_int_equal(welcome.version, TCP_VERSION);
	assert_int_equal(welcome.accepted, 0);
	assert_int_equal(recv(fd, &hello, 1, 0), 0);
	close(fd);
}

static void
hello__malformed__ENDS_THAT_CONNECTION(void **state)
{
	struct fixture *f = *state;
	struct tcp_hello bad[3] = { raw_hello(), raw_hello(), raw_hello() };

	bad[0].magic ^= 1;
	bad[1].bytes = NAM_HELLO_BYTES_MAX + 1;
	bad[2].reserved = 1;
	for (unsigned i = 0; i < 3; i++) {
		int fd = raw_connect(f->address);
		uint8_t byte;

		raw_send(fd, &bad[i], sizeof(bad[i]));
		/* Closed, in whichever way. */
		assert_true(recv(fd, &byte, 1, 0) <= 0 && errno != EAGAIN);
		close(fd);
	}
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 0, 64)), 0);
}

/* More silent clients than a listener has pending at a time; one that speaks is heard at once. */
static void
hello__never_said__HOLDS_UP_NOBODY(void **state)
{
	struct fixture *f = *state;
	struct tcp_hello hello = raw_hello();
	int silent[200], half;

	for (unsigned i = 0; i < 200; i++)
		silent[i] = raw_connect(f->address);
	half = raw_connect(f->address);
	raw_send(half, &hello, sizeof(hello) / 2);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t begin = nam_now_ns();
		struct nam_qp *qp = fixture_connect(f, &f->client);

		assert_true(nam_now_ns() - begin < 2000000000ull);
		assert_int_equal(run(f, qp, wr_of(f, NAM_WR_READ, 0, 0, 64)), 0);
		f->ops->qp_destroy(qp);
	}
	/* The oldest had to go at once, and after 5 s all have. */
	assert_int_equal(recv(silent[0], &hello, 1, 0), 0);
	assert_false(readable(half, 100));
	assert_int_equal(recv(half, &hello, 1, 0), 0);
	for (unsigned i = 0; i < 200; i++)
		close(silent[i]);
	close(half);
}

/* The longest silent clients make room, and no more of them than needed. */
static void
hello__out_of_descriptors__IS_HEARD_BEFORE_THE_SILENT(void **state)
{
	struct fixture *f = *state;
	struct tcp_hello hello = raw_hello();
	struct tcp_welcome welcome;
	struct rlimit before, now;
	unsigned files = open_files();
	int silent[20], fd;

	for (unsigned i = 0; i < 20; i++)
		silent[i] = raw_connect(f->address);
	while (open_files() < files + 40)
		nam_sleep_ns(1000000);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	now = before;
	fd = dup(silent[0]);
	now.rlim_cur = (rlim_t)fd + 1;
	close(fd);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &now), 0);
	/* Takes the last one. */
	fd = raw_connect(f->address);
	raw_send(fd, &hello, sizeof(hello));
	assert_true(raw_receive(fd, &welcome, sizeof(welcome)));
	assert_int_equal(welcome.accepted, 1);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(recv(silent[0], &hello, 1, 0), 0);
	assert_false(readable(silent[19], 0));
	(void)fixture_accepted(f, 1);
	close(fd);
	for (unsigned i = 0; i < 20; i++)
		close(silent[i]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(caps__of_this_processor__ARE_THOSE_OF_THE_SIMULATORS_STRICT),
		cmocka_unit_test(listen__addresses_of_no_use__SAY_WHAT_TO_DO),
		cmocka_unit_test(listen__at_any_address__IS_REACHED_BY_EACH),
		TEST(key__of_memory_that_was_released__FITS_NOTHING),
		TEST(connect__what_answers_is_no_memory_server__IS_SAID),
		TEST(connect__nothing_is_said__ENDS_AFTER_5_S),
		TEST(hello__of_another_version__IS_TOLD_OURS),
		TEST(hello__malformed__ENDS_THAT_CONNECTION),
		TEST(hello__never_said__HOLDS_UP_NOBODY),
		TEST(hello__out_of_descriptors__IS_HEARD_BEFORE_THE_SILENT),
	};

	(void)setenv("NAM_TEST_FABRIC", "tcp:127.0.0.1:0", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
