/* SPDX-License-Identifier: Apache-2.0 */
/* challenge_test.c -- the shm fabric's challenges: peers that answer badly, or not at all. */
#include "tests/unit/common/fabric/challenge_fixture.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "common/fabric/pending_accepts.h"
#include "common/fabric/shm/shm_internal.h"

static const struct nam_hello hi = { .bytes = 2, .data = "hi" };

static int
raw_connect(const struct fixture *f)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->address + 4);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

/* With two descriptors, which the listener keeps. */
static void
raw_say_hello(const struct fixture *f, int fd)
{
	struct shm_hello hello = {
		.magic = SHM_MAGIC, .version = SHM_VERSION, .bytes = 2, .data = "hi" };
	int bell_fd = ((struct shm_cq *)f->client.cq)->bell_fd, fds[2] = { bell_fd, bell_fd };

	assert_int_equal(nam__shm_packet_send(fd, &hello, sizeof(hello), fds, 2), 0);
}

/* A client that has heard its challenge. */
static int
raw_challenged(struct fixture *f)
{
	struct nam_hello challenge = pattern(32, 7);
	struct shm_challenge heard;
	int fd = raw_connect(f);

	raw_say_hello(f, fd);
	f->ops->challenge(f->listener, await_event(f, NAM_CM_REQUEST, &hi).request, &challenge);
	/* Nothing but the challenge: no descriptor comes with it. */
	assert_int_equal(recv(fd, &heard, sizeof(heard), MSG_TRUNC), sizeof(heard));
	assert_int_equal(heard.magic, SHM_MAGIC_CHALLENGE);
	assert_int_equal(heard.bytes, 32);
	assert_memory_equal(heard.data, challenge.data, NAM_REPLY_BYTES_MAX);
	return fd;
}

static bool
readable(int fd)
{
	struct pollfd ready = { .fd = fd, .events = POLLIN };

	return poll(&ready, 1, 0) == 1;
}

/* Poll the listener, which has nothing to report, until it has hung up. */
static void
await_hang_up(struct fixture *f, int fd)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_cm_event event;
	uint8_t byte;

	while (!readable(fd)) {
		assert_int_equal(f->ops->listener_poll(f->listener, 1000000, &event),
			NAM_LISTENER_QUIET);
		assert_true(nam_now_ns() < until);
	}
	assert_true(recv(fd, &byte, 1, 0) <= 0);
}

static void
answer__malformed__ENDS_THAT_CONNECTION(void **state)
{
	const struct shm_answer good = { .magic = SHM_MAGIC_ANSWER, .bytes = 32 };
	struct fixture *f = *state;
	int bell_fd = ((struct shm_cq *)f->client.cq)->bell_fd;
	struct {
		struct shm_answer answer;
		uint8_t more[8];
		size_t bytes;
		unsigned fds_count;
	} bad[] = {
		{ .answer = { .magic = SHM_MAGIC }, .bytes = sizeof(good) },
		{ .answer = { .magic = SHM_MAGIC_CHALLENGE }, .bytes = sizeof(good) },
		{ .answer = { SHM_MAGIC_ANSWER, NAM_HELLO_BYTES_MAX + 1, { 0 } },
			.bytes = sizeof(good) },
		{ .answer = good, .bytes = sizeof(good) - 1 },
		{ .answer = good, .bytes = sizeof(good) + 1 },
		{ .answer = good, .bytes = 1 },
		{ .answer = good, .bytes = sizeof(good), .fds_count = 1 },
	};
	unsigned files = open_files();
	struct drops drops;

	drops_count(f, &drops);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		int fd = raw_challenged(f);

		assert_int_equal(nam__shm_packet_send(fd, &bad[i], bad[i].bytes, &bell_fd,
			bad[i].fds_count), 0);
		await_hang_up(f, fd);
		close(fd);
	}
	assert_drops(&drops, 0, 0, sizeof(bad) / sizeof(bad[0]));
	assert_int_equal(open_files(), files);
	another_is_served(f);
}

/* It left without waiting for a word. */
static void
challenge__client_is_gone_already__IS_FORGOTTEN(void **state)
{
	struct fixture *f = *state;
	struct nam_hello challenge = pattern(32, 7);
	unsigned files = open_files();
	int fd = raw_connect(f);
	struct nam_cm_event event;
	struct drops drops;

	drops_count(f, &drops);
	raw_say_hello(f, fd);
	close(fd);
	f->ops->challenge(f->listener, await_event(f, NAM_CM_REQUEST, &hi).request, &challenge);
	assert_drops(&drops, 0, 1, 0);
	/* Before its hello; and when it knows its challenge, read or not. */
	close(raw_connect(f));
	close(raw_challenged(f));
	fd = raw_connect(f);
	raw_say_hello(f, fd);
	f->ops->challenge(f->listener, await_event(f, NAM_CM_REQUEST, &hi).request, &challenge);
	close(fd);
	assert_int_equal(f->ops->listener_poll(f->listener, 100000000, &event), NAM_LISTENER_QUIET);
	assert_drops(&drops, 0, 4, 0);
	assert_int_equal(open_files(), files);
	another_is_served(f);
}

/* More of them than the listener keeps; those that go take their descriptors with them. */
static void
challenge__never_answered__HOLDS_UP_NO_OTHER(void **state)
{
	enum { MANY = NAM__PENDING_MAX + 20, FILES = 3 };
	struct fixture *f = *state;
	unsigned files = open_files();
	struct drops drops;
	uint64_t begin;
	uint8_t byte;
	int fds[MANY];

	drops_count(f, &drops);
	for (unsigned i = 0; i < MANY; i++)
		fds[i] = raw_challenged(f);
	assert_int_equal(open_files(), files + MANY + FILES * NAM__PENDING_MAX);
	begin = nam_now_ns();
	another_is_served(f);
	assert_true(nam_now_ns() - begin < 2000000000ull);
	/* The longest silent had to go, and no more of them than needed. */
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(recv(fds[i], &byte, 1, 0), 0);
	assert_false(readable(fds[MANY - 1]));
	/* And one more, for the other client; those that a listener has at its end do not count. */
	assert_drops(&drops, 21, 0, 0);
	assert_non_null(strstr(drops.peer, "pid "));
	f->ops->listener_close(f->listener);
	f->listener = NULL;
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(recv(fds[i], &byte, 1, 0), 0);
		close(fds[i]);
	}
	assert_drops(&drops, 21, 0, 0);
}

/* ---- memory servers that misbehave --------------------------------------------------------- */

struct packet {
	struct shm_challenge challenge;
	uint8_t more[8];
	size_t bytes;
	unsigned fds_count;
};

struct impostor {
	int fd;
	const struct packet *packets;
	int bell_fd;
};

/* Reads a hello, says two packets, and hears the client out. */
static void
impostor_main(void *arg)
{
	struct impostor *impostor = arg;
	int fd = accept(impostor->fd, NULL, NULL);
	uint8_t data[256];

	(void)!recv(fd, data, sizeof(data), 0);
	for (unsigned i = 0; i < 2 && impostor->packets[i].bytes; i++)
		(void)!nam__shm_packet_send(fd, &impostor->packets[i], impostor->packets[i].bytes,
			&impostor->bell_fd, impostor->packets[i].fds_count);
	(void)shutdown(fd, SHUT_WR);
	while (recv(fd, data, sizeof(data), 0) > 0)
		;
	close(fd);
}

static int
connect_to_impostor(struct fixture *f, const struct packet *packets)
{
	struct sockaddr_un at = { .sun_family = AF_UNIX };
	struct impostor impostor = {
		.fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0),
		.packets = packets,
		.bell_fd = ((struct shm_cq *)f->client.cq)->bell_fd,
	};
	struct caller caller = { .f = f, .side = &f->client, .answer = pattern(3, 1) };
	char address[sizeof(f->address)];
	struct nam_thread *thread;

	(void)memcpy(address, f->address, sizeof(address));
	(void)snprintf(at.sun_path, sizeof(at.sun_path), "%s/impostor", f->directory);
	(void)snprintf(f->address, sizeof(f->address), "shm:%s/impostor", f->directory);
	assert_int_equal(bind(impostor.fd, (struct sockaddr *)&at, sizeof(at)), 0);
	assert_int_equal(listen(impostor.fd, 1), 0);
	assert_int_equal(nam_thread_start("impostor", impostor_main, &impostor, &thread), 0);
	caller_main(&caller);
	nam_thread_join(thread);
	assert_non_null(strstr(caller.diag.text, f->address));
	close(impostor.fd);
	(void)unlink(at.sun_path);
	(void)memcpy(f->address, address, sizeof(address));
	return caller.rc;
}

static void
connect__malformed_challenge__IS_A_PROTOCOL_ERROR(void **state)
{
	const struct packet good = {
		.challenge = { .magic = SHM_MAGIC_CHALLENGE, .bytes = 32 },
		.bytes = sizeof(good.challenge) };
	struct fixture *f = *state;
	struct packet packets[2] = { good, good };
	unsigned files = open_files();

	assert_int_equal(connect_to_impostor(f, packets), -NAM_E_FABRIC_PROTOCOL);
	packets[1].bytes = 0;
	assert_int_equal(connect_to_impostor(f, packets), -NAM_E_FABRIC_CONNECT);
	packets[0].challenge.bytes = NAM_REPLY_BYTES_MAX + 1;
	assert_int_equal(connect_to_impostor(f, packets), -NAM_E_FABRIC_PROTOCOL);
	packets[0] = good;
	packets[0].bytes--;
	assert_int_equal(connect_to_impostor(f, packets), -NAM_E_FABRIC_PROTOCOL);
	packets[0].bytes += 2;
	assert_int_equal(connect_to_impostor(f, packets), -NAM_E_FABRIC_PROTOCOL);
	packets[0] = good;
	packets[0].fds_count = 1;
	assert_int_equal(connect_to_impostor(f, packets), -NAM_E_FABRIC_PROTOCOL);
	packets[0] = good;
	packets[0].challenge.magic = SHM_MAGIC_ANSWER;
	assert_int_equal(connect_to_impostor(f, packets), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(open_files(), files);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, challenge_setup, challenge_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(answer__malformed__ENDS_THAT_CONNECTION),
		TEST(challenge__client_is_gone_already__IS_FORGOTTEN),
		TEST(challenge__never_answered__HOLDS_UP_NO_OTHER),
		TEST(connect__malformed_challenge__IS_A_PROTOCOL_ERROR),
	};

	(void)setenv("NAM_TEST_FABRIC", "shm", 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
