/* SPDX-License-Identifier: Apache-2.0 */
/* Keys at the door of a memory server, without a fabric: events are made up. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/auth/proof.h"
#include "memserver/admission/admit.h"

#define BURST 40u		/* failures at once, more than are looked at */
#define TIMEOUT_NS 60000000000ull

static char path[] = "/tmp/nam-admission-XXXXXX";
static struct nam_server server;
static struct nam_fabric_ops ops;
static struct nam_domain domain;
static struct nam_hello challenge;	/* the last one */
static struct nam__auth_key app, stranger;
static unsigned challenges, warnings;

static void
count_challenge(struct nam_listener *listener, struct nam_cm_request *request,
	const struct nam_hello *what)
{
	(void)listener;
	(void)request;
	challenges++;
	challenge = *what;
}

static void
count_warning(enum nam_log_level level, const char *event, const char *fields)
{
	warnings += level == NAM_LOG_WARN && !strcmp(event, "refused");
	assert_null(strstr(fields, "secret"));
}

static void
write_keys(const struct nam__auth_key *key)
{
	char line[NAM_AUTH_LINE_BYTES];
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	nam__auth_key_line(key, line);
	assert_true(fputs(line, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static int
setup(void **state)
{
	struct nam_diag diag;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(nam__auth_key_make("app", NAM_ROLE_ADMIN, &app, NULL), 0);
	assert_int_equal(nam__auth_key_make("app", NAM_ROLE_ADMIN, &stranger, NULL), 0);
	write_keys(&app);
	ops.challenge = count_challenge;
	server.ops = &ops;
	server.domain = &domain;
	server.options.keys = path;
	server.options.log = count_warning;
	server.options.log_level = NAM_LOG_WARN;
	assert_int_equal(pthread_mutex_init(&server.mutex, NULL), 0);
	assert_int_equal(pthread_mutex_init(&server.membership.mutex, NULL), 0);
	return nam__auth_open(&server, &diag);
}

static int
teardown(void **state)
{
	(void)state;
	nam__auth_close(&server);
	return unlink(path);
}

/* A client's first message. */
static struct nam_cm_event
hello_of(const char *peer, uint32_t flags)
{
	const struct nam_wire_hello wire = {
		.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION,
		.flags = flags,
	};
	struct nam_cm_event event = { .kind = NAM_CM_REQUEST, .hello.bytes = sizeof(wire) };

	memcpy(event.hello.data, &wire, sizeof(wire));
	(void)snprintf(event.peer, sizeof(event.peer), "%s", peer);
	return event;
}

/* And what becomes of it, if it answers by this key. */
static int
come(const char *peer, const struct nam__auth_key *key, struct nam_cm_event *event,
	struct nam__proven *proven)
{
	*event = hello_of(peer, NAM_HELLO_KEY);
	assert_int_equal(nam__auth_pass(&server, event, proven), NAM__AUTH_CHALLENGED);
	event->kind = NAM_CM_ANSWER;
	event->challenge = challenge;
	nam__proof_answer(key, NULL, &event->hello, &challenge, &event->answer);
	return nam__auth_pass(&server, event, proven);
}

static void
pass__keys__THEIR_HOLDERS_ONLY(void **state)
{
	struct nam_cm_event event = hello_of("10.0.0.1", 0);
	struct nam__proven proven;

	(void)state;
	assert_int_equal(nam__auth_pass(&server, &event, &proven), -NAM_E_FABRIC_DENIED);
	assert_int_equal(proven.role, NAM_ROLE_NONE);
	assert_int_equal(come("10.0.0.1", &stranger, &event, &proven), -NAM_E_FABRIC_DENIED);
	assert_int_equal(proven.role, NAM_ROLE_NONE);
	assert_int_equal(come("10.0.0.1", &app, &event, &proven), 0);
	assert_int_equal(proven.role, NAM_ROLE_ADMIN);
	assert_true(proven.print == app.print);
}

/* Its peers suffer no more than some log lines, and holders of a key not at all. */
static void
pass__many_failures__ARE_NOT_LOGGED_AND_KEEP_NO_HOLDER_OUT(void **state)
{
	struct nam_cm_event event;
	struct nam__proven proven;
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	unsigned before;

	(void)state;
	/* A burst that fits into one second, on whatever machine. */
	do {
		uint64_t began = nam_now_ns();

		assert_true(began < until);
		before = warnings;
		for (unsigned i = 0; i < BURST; i++)
			assert_int_equal(come("10.0.0.2", &stranger, &event, &proven),
				-NAM_E_FABRIC_DENIED);
		if (nam_now_ns() - began < 500000000u)
			break;
	} while (true);
	assert_in_range(warnings - before, 1, BURST - 1);
	assert_int_equal(come("10.0.0.2", &app, &event, &proven), 0);
}

/* Each is counted; some lines of them are logged, and none of those that leave by themselves. */
static void
dropped__before_the_proof__COUNTED_BY_CAUSE_AND_LOGGED_WITHIN_A_LIMIT(void **state)
{
	static const struct {
		int why;
		enum nam_refusal reason;
		bool logged;
	} cases[] = {
		{ -NAM_E_FABRIC_TIMEOUT, NAM_REFUSED_UNFINISHED, true },
		{ -NAM_E_FABRIC_PEER_DEAD, NAM_REFUSED_UNFINISHED, false },
		{ -NAM_E_FABRIC_PROTOCOL, NAM_REFUSED_HELLO, false },
		{ -NAM_E_FABRIC_VERSION, NAM_REFUSED_HELLO, false },
		{ -EMFILE, NAM_REFUSED_DESCRIPTORS, false },
		{ -ENOMEM, NAM_REFUSED_OTHER, false },
	};

	/* One may share its place with a peer of another test; not all do. */
	static const char *const peers[] = { "10.0.0.4", "10.0.0.5", "10.0.0.6", "10.0.0.7" };
	const unsigned count = BURST * sizeof(peers) / sizeof(peers[0]);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t counted = atomic_load(&server.refused[cases[i].reason]);
		unsigned before = warnings;

		for (unsigned j = 0; j < count; j++)
			nam__auth_dropped(&server, peers[j / BURST], cases[i].why);
		assert_int_equal(atomic_load(&server.refused[cases[i].reason]), counted + count);
		if (cases[i].logged)
			assert_in_range(warnings - before, 1, count - 1);
		else
			assert_int_equal(warnings, before);
	}
}

static void
dropped__many_peers__FILL_NO_LOG(void **state)
{
	unsigned before = warnings;
	char peer[32];

	(void)state;
	for (unsigned i = 0; i < 4000; i++) {
		(void)snprintf(peer, sizeof(peer), "10.1.%u.%u", i / 250, i % 250);
		nam__auth_dropped(&server, peer, -NAM_E_FABRIC_TIMEOUT);
	}
	/* Of two seconds at the most. */
	assert_in_range(warnings - before, 1, 512);
}

static void
sign__key_removed_meanwhile__IS_REFUSED(void **state)
{
	struct nam_cm_event event;
	struct nam__proven proven;
	struct nam_hello reply = { .bytes = 24 };
	struct nam_diag diag = { "" };

	(void)state;
	assert_int_equal(come("10.0.0.3", &app, &event, &proven), 0);
	assert_true(nam__auth_sign(&server, &event, &proven, &reply));
	assert_true(nam__proof_take(&app, &event.hello, &event.challenge, &event.answer, &reply));
	assert_int_equal(reply.bytes, 24);
	write_keys(&stranger);
	assert_int_equal(nam_server_reload_keys(&server, &diag), 0);
	assert_false(nam__auth_sign(&server, &event, &proven, &reply));
	assert_int_equal(reply.bytes, 24);
	assert_int_equal(come("10.0.0.3", &app, &event, &proven), -NAM_E_FABRIC_DENIED);
	assert_int_equal(come("10.0.0.3", &stranger, &event, &proven), 0);
	/* Another role is another right to be here. */
	stranger.role = NAM_ROLE_WRITE;
	write_keys(&stranger);
	assert_int_equal(nam_server_reload_keys(&server, &diag), 0);
	assert_false(nam__auth_sign(&server, &event, &proven, &reply));
	stranger.role = NAM_ROLE_ADMIN;
	write_keys(&app);
	assert_int_equal(nam_server_reload_keys(&server, &diag), 0);
}

/* Where mappings cannot be revoked, a connection keeps the lower of both roles. */
static void
reload__other_role_of_a_lasting_connection__GAINS_NO_RIGHT(void **state)
{
	static const struct {
		enum nam_role before, now;
		bool changes;
	} cases[] = {
		{ NAM_ROLE_ADMIN, NAM_ROLE_WRITE, true },
		{ NAM_ROLE_WRITE, NAM_ROLE_READ, false },
		{ NAM_ROLE_READ, NAM_ROLE_WRITE, false },
	};
	struct nam__connection connection = { .proven = { app.print, NAM_ROLE_NONE } };
	struct nam_diag diag = { "" };

	(void)state;
	domain.limits.caps = NAM_CAP_LASTING;
	LIST_INSERT_HEAD(&server.connections, &connection, link);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		app.role = cases[i].now;
		write_keys(&app);
		connection.proven.role = cases[i].before;
		assert_int_equal(nam_server_reload_keys(&server, &diag), 0);
		assert_int_equal(nam__may_change(&connection), cases[i].changes);
	}
	connection.proven.role = NAM_ROLE_WRITE;
	write_keys(&stranger);
	assert_int_equal(nam_server_reload_keys(&server, &diag), 0);
	assert_false(nam__may_change(&connection));
	LIST_REMOVE(&connection, link);
	domain.limits.caps = 0;
	app.role = NAM_ROLE_ADMIN;
	write_keys(&app);
	assert_int_equal(nam_server_reload_keys(&server, &diag), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pass__keys__THEIR_HOLDERS_ONLY),
		cmocka_unit_test(pass__many_failures__ARE_NOT_LOGGED_AND_KEEP_NO_HOLDER_OUT),
		cmocka_unit_test(
			dropped__before_the_proof__COUNTED_BY_CAUSE_AND_LOGGED_WITHIN_A_LIMIT),
		cmocka_unit_test(dropped__many_peers__FILL_NO_LOG),
		cmocka_unit_test(sign__key_removed_meanwhile__IS_REFUSED),
		cmocka_unit_test(reload__other_role_of_a_lasting_connection__GAINS_NO_RIGHT),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
