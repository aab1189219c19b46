/* SPDX-License-Identifier: Apache-2.0 */
/* challenge_test.c -- the tcp fabric's challenges: peers that answer badly, or not at all. */
#include "tcp_fixture.h"

#include "common/fabric/pending_accepts.h"
#include "tests/unit/common/fabric/challenge_fixture.h"

static const struct nam_hello hi = { .bytes = 2, .data = "hi" };

static struct tcp_hello
raw_answer(void)
{
	return (struct tcp_hello){
		.magic = TCP_MAGIC_ANSWER, .version = TCP_VERSION, .bytes = 4, .data = "1234" };
}

/* A client that has heard its challenge. */
static int
raw_challenged(struct fixture *f)
{
	struct nam_hello challenge = pattern(32, 7);
	struct tcp_hello hello = raw_hello();
	struct tcp_welcome welcome;
	int fd = raw_connect(f->address);

	raw_send(fd, &hello, sizeof(hello));
	f->ops->challenge(f->listener, await_event(f, NAM_CM_REQUEST, &hi).request, &challenge);
	assert_true(raw_receive(fd, &welcome, sizeof(welcome)));
	assert_int_equal(welcome.magic, TCP_MAGIC_CHALLENGE);
	assert_int_equal(welcome.accepted, 0);
	assert_int_equal(welcome.bytes, 32);
	assert_memory_equal(welcome.data, challenge.data, NAM_REPLY_BYTES_MAX);
	return fd;
}

/* Poll the listener, which has nothing to report, until it has hung up. */
static void
await_hang_up(struct fixture *f, int fd)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_cm_event event;
	uint8_t byte;

	while (!readable(fd, 0)) {
		assert_int_equal(f->ops->listener_poll(f->listener, 1000000, &event),
			NAM_LISTENER_QUIET);
		assert_true(nam_now_ns() < until);
	}
	assert_true(recv(fd, &byte, 1, 0) <= 0);
}

static void
answer__in_pieces__IS_PUT_TOGETHER(void **state)
{
	struct fixture *f = *state;
	struct tcp_hello answer = raw_answer();
	struct tcp_welcome welcome;
	struct nam_cm_event event;

	for (size_t piece = 1; piece < sizeof(answer); piece += 9) {
		int fd = raw_challenged(f);
		size_t sent = 0;

		while (sent < sizeof(answer)) {
			size_t n = piece < sizeof(answer) - sent ? piece : sizeof(answer) - sent;

			assert_int_equal(f->ops->listener_poll(f->listener, 0, &event),
				NAM_LISTENER_QUIET);
			raw_send(fd, (uint8_t *)&answer + sent, n);
			sent += n;
		}
		event = await_event(f, NAM_CM_ANSWER, &hi);
		assert_int_equal(event.answer.bytes, 4);
		assert_memory_equal(event.answer.data, "1234", 4);
		assert_string_equal(event.peer, "127.0.0.1");
		f->ops->reject(f->listener, event.request, NULL);
		assert_true(raw_receive(fd, &welcome, sizeof(welcome)));
		assert_int_equal(welcome.magic, TCP_MAGIC_WELCOME);
		close(fd);
	}
}

static void
answer__malformed__ENDS_THAT_CONNECTION(void **state)
{
	struct fixture *f = *state;
	struct tcp_hello bad[6];
	struct drops drops;
	int fd;

	drops_count(f, &drops);
	for (unsigned i = 0; i < 6; i++)
		bad[i] = raw_answer();
	bad[0].magic = TCP_MAGIC;
	bad[1].magic = TCP_MAGIC_CHALLENGE;
	bad[2].bytes = NAM_HELLO_BYTES_MAX + 1;
	bad[3].bytes = UINT32_MAX;
	bad[4].reserved = 1;
	bad[5].magic = 0;
	for (unsigned i = 0; i < 6; i++) {
		fd = raw_challenged(f);
		raw_send(fd, &bad[i], sizeof(bad[i]));
		await_hang_up(f, fd);
		close(fd);
	}
	assert_drops(&drops, 0, 0, 6);
	another_is_served(f);
}

/* Less, and then the end; or more. */
static void
answer__of_another_length__ENDS_THAT_CONNECTION(void **state)
{
	struct fixture *f = *state;
	struct tcp_hello answers[2] = { raw_answer(), raw_answer() };
	int fd = raw_challenged(f);
	struct drops drops;

	drops_count(f, &drops);
	raw_send(fd, answers, sizeof(answers[0]) - 1);
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	await_hang_up(f, fd);
	close(fd);
	fd = raw_challenged(f);
	raw_send(fd, answers, sizeof(answers[0]) + 1);
	await_hang_up(f, fd);
	close(fd);
	fd = raw_challenged(f);
	raw_send(fd, answers, sizeof(answers));
	await_hang_up(f, fd);
	close(fd);
	assert_drops(&drops, 0, 1, 2);
	another_is_served(f);
}

/* An answer before the challenge is no answer to it. */
static void
answer__with_the_hello__ENDS_THAT_CONNECTION(void **state)
{
	struct fixture *f = *state;
	struct tcp_hello both[2] = { raw_hello(), raw_answer() };
	int fd = raw_connect(f->address);

	raw_send(fd, both, sizeof(both));
	await_hang_up(f, fd);
	close(fd);
	another_is_served(f);
}

/* It left without waiting for a word. */
static void
challenge__client_is_gone_already__IS_FORGOTTEN(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(32, 7);
	struct tcp_hello hello = raw_hello();
	unsigned files = open_files();
	struct drops drops;

	drops_count(f, &drops);
	for (unsigned i = 0; i < 3; i++) {
		int fd = raw_connect(f->address);

		raw_send(fd, &hello, sizeof(hello));
		close(fd);
		f->ops->challenge(f->listener,
			await_event(f, NAM_CM_REQUEST, &hi).request, &challenge);
	}
	another_is_served(f);
	assert_drops(&drops, 0, 3, 0);
	f->ops->qp_destroy(f->accepted_qps[0]);
	f->accepted_qps[0] = NULL;
	assert_int_equal(open_files(), files);
}

/* Before its hello, too, it is known by its host. */
static void
hello__never_comes__THE_LISTENER_IS_TOLD(void **state)
{
	struct fixture *f = *state;
	struct drops drops;
	int fds[2];

	drops_count(f, &drops);
	for (unsigned i = 0; i < 2; i++)
		fds[i] = raw_connect(f->address);
	await_hang_up(f, fds[0]);
	close(fds[0]);
	await_hang_up(f, fds[1]);
	close(fds[1]);
	assert_drops(&drops, 2, 0, 0);
	assert_string_equal(drops.peer, "127.0.0.1");
}

/* More of them than the listener keeps; after 5 s all are gone. */
static void
challenge__never_answered__HOLDS_UP_NO_OTHER(void **state)
{
	enum { MANY = NAM__PENDING_MAX + 20 };
	struct fixture *f = *state;
	unsigned files = open_files();
	uint64_t begin, last_ns = 0;
	struct drops drops;
	uint8_t byte;
	int fds[MANY];

	drops_count(f, &drops);
	for (unsigned i = 0; i < MANY; i++) {
		last_ns = nam_now_ns();
		fds[i] = raw_challenged(f);
	}
	assert_int_equal(open_files(), files + MANY + NAM__PENDING_MAX);
	begin = nam_now_ns();
	another_is_served(f);
	assert_true(nam_now_ns() - begin < 2000000000ull);
	/* The longest silent had to go, and no more of them than needed. */
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(recv(fds[i], &byte, 1, 0), 0);
	assert_false(readable(fds[MANY - 1], 0));
	/* And one more, for the other client. */
	assert_drops(&drops, 21, 0, 0);
	assert_string_equal(drops.peer, "127.0.0.1");
	await_hang_up(f, fds[MANY - 1]);
	assert_drops(&drops, MANY, 0, 0);
	assert_true(nam_now_ns() - last_ns >= NAM__HANDSHAKE_NS);
	for (unsigned i = 0; i < MANY; i++)
		close(fds[i]);
	f->ops->qp_destroy(f->accepted_qps[0]);
	f->accepted_qps[0] = NULL;
	assert_int_equal(open_files(), files);
}

/* From 127.0.0.1 + host. */
static int
connect_from(const struct fixture *f, uint32_t host)
{
	struct sockaddr_in from = raw_at(0), at = raw_at(port_of(f->address));
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	from.sin_addr.s_addr = htonl(INADDR_LOOPBACK + host);
	assert_int_equal(bind(fd, (const struct sockaddr *)&from, sizeof(from)), 0);
	assert_int_equal(connect(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

/* Until the listener has dropped so many silent clients, and no other. */
static void
await_drops(struct fixture *f, const struct drops *drops, unsigned count)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_cm_event event;

	while (drops->silent < count && nam_now_ns() < until)
		assert_int_equal(f->ops->listener_poll(f->listener, 1000000, &event),
			NAM_LISTENER_QUIET);
	assert_drops(drops, count, 0, 0);
}

/* It is still pending. */
static void
say_hello(struct fixture *f, int fd, const char *peer)
{
	struct tcp_hello hello = raw_hello();
	struct nam_cm_event event;

	raw_send(fd, &hello, sizeof(hello));
	event = await_event(f, NAM_CM_REQUEST, &hi);
	assert_string_equal(event.peer, peer);
	f->ops->reject(f->listener, event.request, NULL);
	close(fd);
}

/* It came first, so it would have to go if its host were not known yet. */
static void
hello__awaited_from_too_many_of_one_host__ANOTHER_KEEPS_ITS_PLACE(void **state)
{
	struct fixture *f = *state;
	int fds[NAM__PENDING_MAX], fd = connect_from(f, 1);
	struct drops drops;

	drops_count(f, &drops);
	for (unsigned i = 0; i < NAM__PENDING_MAX; i++)
		fds[i] = raw_connect(f->address);
	await_drops(f, &drops, 1);
	assert_string_equal(drops.peer, "127.0.0.1");
	say_hello(f, fd, "127.0.0.2");
	for (unsigned i = 0; i < NAM__PENDING_MAX; i++)
		close(fds[i]);
}

/* One with a few at a time has the most places, and no more than its share. */
static void
hello__awaited_from_many_hosts__THE_LONGEST_SILENT_GOES(void **state)
{
	enum { FEW = 8 };
	struct fixture *f = *state;
	int fds[NAM__PENDING_MAX], few[FEW];
	struct drops drops;

	drops_count(f, &drops);
	for (unsigned i = 0; i < NAM__PENDING_MAX; i++)
		fds[i] = connect_from(f, 1 + i);
	for (unsigned i = 0; i < FEW; i++)
		few[i] = raw_connect(f->address);
	await_drops(f, &drops, FEW);
	for (unsigned i = 0; i < FEW; i++) {
		assert_true(readable(fds[i], 0));
		say_hello(f, few[i], "127.0.0.1");
	}
	for (unsigned i = 0; i < NAM__PENDING_MAX; i++)
		close(fds[i]);
}

/* ---- memory servers that misbehave --------------------------------------------------------- */

static void
connect__malformed_challenge__IS_A_PROTOCOL_ERROR(void **state)
{
	struct fixture *f = *state;
	struct tcp_welcome twice[2];

	for (unsigned i = 0; i < 2; i++)
		twice[i] = (struct tcp_welcome){
			.magic = TCP_MAGIC_CHALLENGE, .version = TCP_VERSION, .bytes = 32 };
	assert_int_equal(connect_to_impostor(f, twice, sizeof(twice)), -NAM_E_FABRIC_PROTOCOL);
	twice[1].magic = TCP_MAGIC_WELCOME;
	assert_int_equal(connect_to_impostor(f, twice, sizeof(twice)), -ECONNREFUSED);
	twice[0].bytes = NAM_REPLY_BYTES_MAX + 1;
	assert_int_equal(connect_to_impostor(f, twice, sizeof(twice)), -NAM_E_FABRIC_PROTOCOL);
	twice[0].bytes = 32;
	twice[0].accepted = 1;
	assert_int_equal(connect_to_impostor(f, twice, sizeof(twice)), -NAM_E_FABRIC_PROTOCOL);
	twice[0].accepted = 0;
	twice[0].version++;
	assert_int_equal(connect_to_impostor(f, twice, sizeof(twice)), -NAM_E_FABRIC_VERSION);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, challenge_setup, challenge_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answer__in_pieces__IS_PUT_TOGETHER),
		TEST(answer__malformed__ENDS_THAT_CONNECTION),
		TEST(answer__of_another_length__ENDS_THAT_CONNECTION),
		TEST(answer__with_the_hello__ENDS_THAT_CONNECTION),
		TEST(challenge__client_is_gone_already__IS_FORGOTTEN),
		TEST(challenge__never_answered__HOLDS_UP_NO_OTHER),
		TEST(hello__never_comes__THE_LISTENER_IS_TOLD),
		TEST(hello__awaited_from_too_many_of_one_host__ANOTHER_KEEPS_ITS_PLACE),
		TEST(hello__awaited_from_many_hosts__THE_LONGEST_SILENT_GOES),
		TEST(connect__malformed_challenge__IS_A_PROTOCOL_ERROR),
	};

	(void)setenv("NAM_TEST_FABRIC", "tcp:127.0.0.1:0", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
