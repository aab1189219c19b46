/* SPDX-License-Identifier: Apache-2.0 */
/* connect_test.c -- the shm fabric's handshake: listeners, clients let in, what is said. */
#include "shm_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "common/fabric/pages.h"
#include "common/fabric/shm/peers.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

static int
try_connect(struct fixture *f, const char *address, const char *say, struct nam_hello *reply)
{
	struct nam_hello hello = { .bytes = (uint32_t)strlen(say) };
	struct nam_qp_options options = { .cq = f->client.cq, .rq = f->client.rq };
	struct nam_qp *qp = NULL;
	int rc;

	memcpy(hello.data, say, hello.bytes);
	f->diag.text[0] = '\0';
	rc = f->ops->connect(f->client.domain, address, &hello, &options, reply, &qp, &f->diag);
	f->ops->qp_destroy(qp);
	return rc;
}

static int
try_listen(struct fixture *f, const char *address)
{
	struct nam_listener *listener = NULL;
	int rc;

	f->diag.text[0] = '\0';
	rc = f->ops->listen(f->server.domain, address, &listener, &f->diag);
	f->ops->listener_close(listener);
	return rc;
}

/* A socket file without a listener, as a killed server leaves it. */
static void
leave_socket(const char *path, bool listening, int *ret_fd)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	if (listening)
		assert_int_equal(listen(fd, 1), 0);
	*ret_fd = fd;
}

static void
connect__nobody_there__NAMES_PATH_AND_REMEDY(void **state)
{
	struct fixture *f = *state;
	char address[128];
	int fd;

	(void)snprintf(address, sizeof(address), "%s-none", f->address);
	assert_int_equal(try_connect(f, address, "hi", NULL), -NAM_E_FABRIC_CONNECT);
	assert_non_null(strstr(f->diag.text, address));
	assert_non_null(strstr(f->diag.text, "nam-memserver"));
	leave_socket(address + 4, false, &fd);
	close(fd);
	assert_int_equal(try_connect(f, address, "hi", NULL), -NAM_E_FABRIC_CONNECT);
	assert_non_null(strstr(f->diag.text, "no memory server listens"));
	(void)unlink(address + 4);
}

static void
connect__no_socket__SAYS_WHAT_IT_IS(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(try_connect(f, "shm:/tmp", "hi", NULL), -NAM_E_FABRIC_CONNECT);
	assert_non_null(strstr(f->diag.text, "/tmp: that is a folder"));
	assert_int_equal(try_connect(f, "shm:/proc/self/exe", "hi", NULL), -NAM_E_FABRIC_CONNECT);
	assert_non_null(strstr(f->diag.text, "exe: that is a file"));
}

static void
connect__not_allowed__IS_DENIED(void **state)
{
	struct fixture *f = *state;
	bool root = geteuid() == 0;
	int rc;

	assert_int_equal(chmod(f->address + 4, 0), 0);
	/* Root becomes another user for a moment. */
	assert_int_equal(root ? seteuid(65534) : 0, 0);
	rc = try_connect(f, f->address, "hi", NULL);
	assert_int_equal(root ? seteuid(0) : 0, 0);
	assert_int_equal(rc, -NAM_E_FABRIC_DENIED);
	assert_non_null(strstr(f->diag.text, "permission denied"));
}

static void
connect__malformed_address__IS_INVALID(void **state)
{
	struct fixture *f = *state;
	char address[256] = "shm:/";

	assert_int_equal(try_connect(f, "shm:", "hi", NULL), -EINVAL);
	assert_true(f->diag.text[0]);
	memset(address + 5, 'x', 200);
	assert_int_equal(try_connect(f, address, "hi", NULL), -EINVAL);
	assert_int_equal(try_listen(f, address), -EINVAL);
	assert_int_equal(try_listen(f, "shm:"), -EINVAL);
}

static void
connect__rejected__BRINGS_THE_REPLY(void **state)
{
	struct fixture *f = *state;
	struct nam_hello reply;

	assert_int_equal(try_connect(f, f->address, "no", &reply), -ECONNREFUSED);
	assert_int_equal(reply.bytes, 3);
	assert_memory_equal(reply.data, "why", 3);
	assert_int_equal(try_connect(f, f->address, "hi", &reply), 0);
	assert_int_equal(reply.bytes, 5);
}

static void
connect__again__SHARES_THE_MAPPINGS(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *qp = fixture_connect(f, &f->client);
	struct shm_qp *first = (struct shm_qp *)f->qps[0], *second = (struct shm_qp *)qp;

	assert_ptr_equal(first->peer, second->peer);
	assert_int_equal(second->peer->users, 2);
	f->ops->qp_destroy(qp);
	assert_int_equal(first->peer->users, 1);
}

static void
connect__many_regions__MAPS_ALL_OF_THEM(void **state)
{
	struct fixture f;
	struct nam_mr mrs[100];
	uint64_t word = 0;

	(void)state;
	fixture_path(&f);
	fixture_listen(&f);
	for (unsigned i = 0; i < 100; i++) {
		assert_int_equal(f.ops->region_alloc(f.server.domain, 65536, 12, 0, -1, &mrs[i],
			&f.diag), 0);
		memset(mrs[i].base, (int)i, 8);
	}
	side_open(&f, &f.client, 16, 16);
	f.qps[0] = fixture_connect(&f, &f.client);
	for (unsigned i = 0; i < 100; i++) {
		struct nam_wr wr = wr_read(mrs[i].remote, &word, 8);

		wr.rkey = mrs[i].rkey;
		assert_int_equal(run(&f, f.qps[0], wr), 0);
		assert_int_equal(word & 0xff, i);
	}
	f.ops->qp_destroy(f.qps[0]);
	side_close(&f, &f.client);
	for (unsigned i = 0; i < 100; i++)
		f.ops->mr_release(f.server.domain, &mrs[i]);
	fixture_server_close(&f);
	assert_int_equal(rmdir(f.directory), 0);
}

/* Stray stores of a client's own code do not get there either. */
static void
connect__region_is_read_only__CANNOT_BE_MADE_WRITABLE(void **state)
{
	struct shm_region *region;
	struct fixture f;

	(void)state;
	fixture_path(&f);
	fixture_listen(&f);
	f.ops->region_withdraw(f.server.domain, &f.mr);
	assert_int_equal(f.ops->region_restore(f.server.domain, &f.mr, NAM_MR_REMOTE_READ,
		&f.diag), 0);
	side_open(&f, &f.client, 16, 16);
	f.qps[0] = fixture_connect(&f, &f.client);
	region = &((struct shm_qp *)f.qps[0])->peer->regions[f.mr.rkey];
	assert_int_equal(mprotect(region->base, region->bytes, PROT_READ | PROT_WRITE), -1);
	assert_int_equal(errno, EACCES);
	f.ops->qp_destroy(f.qps[0]);
	side_close(&f, &f.client);
	fixture_server_close(&f);
	assert_int_equal(rmdir(f.directory), 0);
}

/* No mapping of a reader's becomes writable, nor does a descriptor that it may have kept. */
static void
connect__of_a_reader__NO_REGION_CAN_BE_MADE_WRITABLE(void **state)
{
	struct shm_domain *server;
	struct shm_peer *peer, *writers;
	char path[32];
	struct fixture f;
	int fd;

	(void)state;
	fixture_path(&f);
	fixture_listen(&f);
	side_open(&f, &f.client, 16, 16);
	f.qps[0] = fixture_connect_as(&f, &f.client, "rd");
	peer = ((struct shm_qp *)f.qps[0])->peer;
	assert_true(peer->regions_count >= 2);
	for (uint32_t i = 0; i < peer->regions_count; i++) {
		assert_int_equal(mprotect(peer->regions[i].base, peer->regions[i].bytes,
			PROT_READ | PROT_WRITE), -1);
		assert_int_equal(errno, EACCES);
	}
	/* A writer of the same process has mappings of its own, and each of them keeps its own. */
	f.qps[1] = fixture_connect(&f, &f.client);
	writers = ((struct shm_qp *)f.qps[1])->peer;
	assert_ptr_not_equal(writers, peer);
	f.qps[2] = fixture_connect_as(&f, &f.client, "rd");
	assert_ptr_equal(((struct shm_qp *)f.qps[2])->peer, peer);
	f.qps[3] = fixture_connect(&f, &f.client);
	assert_ptr_equal(((struct shm_qp *)f.qps[3])->peer, writers);
	for (unsigned i = 0; i < 4; i++)
		f.ops->qp_destroy(f.qps[i]);
	server = (struct shm_domain *)f.server.domain;
	fd = server->files[server->mrs[f.mr.rkey].file].read_fd;
	assert_true(fd >= 0);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	/* The superuser may. */
	if (geteuid())
		assert_int_equal(open(path, O_RDWR | O_CLOEXEC), -1);
	side_close(&f, &f.client);
	fixture_server_close(&f);
	assert_int_equal(rmdir(f.directory), 0);
}

static long
faults(void)
{
	struct rusage usage;

	assert_int_equal(getrusage(RUSAGE_THREAD, &usage), 0);
	return usage.ru_minflt;
}

/* The time to connect does not grow with the memory; later WRITEs meet no faults. */
static void
connect__much_memory__IS_POPULATED_AFTERWARDS(void **state)
{
	enum { MANY = 16384 };		/* small pages */
	struct fixture f;
	struct nam_mr mr;
	struct shm_peer *peer;
	bool populated = false;
	uint64_t end;
	long before;

	(void)state;
	fixture_path(&f);
	fixture_listen(&f);
	assert_int_equal(f.ops->region_alloc(f.server.domain, MANY * SHM_PAGE_BYTES, 12, 0, -1,
		&mr, &f.diag), 0);
	side_open(&f, &f.client, 16, 16);
	before = faults();
	f.qps[0] = fixture_connect(&f, &f.client);
	assert_true(faults() - before < MANY / 4);
	peer = ((struct shm_qp *)f.qps[0])->peer;
	for (end = nam_now_ns() + TIMEOUT_NS; !populated && nam_now_ns() < end;) {
		nam_sleep_ns(1000000);
		pthread_mutex_lock(&((struct shm_domain *)f.client.domain)->mutex);
		populated = peer->populate_region == peer->regions_count;
		pthread_mutex_unlock(&((struct shm_domain *)f.client.domain)->mutex);
	}
	assert_true(populated);
	before = faults();
	/* A sanitizer's own memory would fault beside an access of ours. */
	assert_int_equal(madvise(peer->regions[mr.rkey].base, MANY * SHM_PAGE_BYTES,
		MADV_POPULATE_WRITE), 0);
	assert_true(faults() - before < MANY / 4);
	f.ops->qp_destroy(f.qps[0]);
	side_close(&f, &f.client);
	f.ops->mr_release(f.server.domain, &mr);
	fixture_server_close(&f);
	assert_int_equal(rmdir(f.directory), 0);
}

static void
connect__region_was_withdrawn_and_restored__IS_POPULATED_AS_ANY(void **state)
{
	struct fixture f;
	struct shm_peer *peer;

	(void)state;
	fixture_path(&f);
	fixture_listen(&f);
	for (unsigned i = 0; i < 2; i++) {
		f.ops->region_withdraw(f.server.domain, &f.mr);
		if (i)
			assert_int_equal(f.ops->region_restore(f.server.domain, &f.mr,
				NAM_MR_REMOTE, &f.diag), 0);
		side_open(&f, &f.client, 16, 16);
		f.qps[0] = fixture_connect(&f, &f.client);
		peer = ((struct shm_qp *)f.qps[0])->peer;
		assert_int_equal(peer->withdrawn[f.mr.rkey], !i);
		f.ops->qp_destroy(f.qps[0]);
		side_close(&f, &f.client);
	}
	fixture_server_close(&f);
	assert_int_equal(rmdir(f.directory), 0);
}

/* ---- clients that misbehave --------------------------------------------------------------- */

static int
raw_connect(const struct fixture *f)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	(void)snprintf(address.sun_path, sizeof(address.sun_path), "%s", f->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

static void
listener__silent_clients__DO_NOT_KEEP_OTHERS_OUT(void **state)
{
	struct fixture *f = *state;
	int fds[80];

	for (int i = 0; i < 80; i++)
		fds[i] = raw_connect(f);
	assert_int_equal(try_connect(f, f->address, "hi", NULL), 0);
	for (int i = 0; i < 80; i++)
		close(fds[i]);
}

/* The answer to a packet: its size, 0 for a closed connection. */
static ssize_t
answer_to(const struct fixture *f, const void *data, size_t bytes, int fd_to_send,
	struct shm_welcome *welcome)
{
	int fd = raw_connect(f), fds[2];
	unsigned count = 0;
	size_t got = 0;

	assert_int_equal(nam__shm_packet_send(fd, data, bytes, &fd_to_send, fd_to_send >= 0), 0);
	(void)!nam__shm_packet_recv(fd, welcome, sizeof(*welcome), &got, fds, 2, &count);
	nam__shm_close_all(fds, count);
	close(fd);
	return (ssize_t)got;
}

static void
listener__malformed_hello__CLOSES_THAT_CONNECTION(void **state)
{
	struct fixture *f = *state;
	struct shm_hello hello = { .magic = SHM_MAGIC, .version = SHM_VERSION };
	struct shm_welcome welcome;
	uint8_t noise[200];
	int bell_fd = ((struct shm_cq *)f->client.cq)->bell_fd;

	memset(noise, 0xa5, sizeof(noise));
	assert_int_equal(answer_to(f, noise, sizeof(noise), -1, &welcome), 0);
	assert_int_equal(answer_to(f, noise, 1, -1, &welcome), 0);
	assert_int_equal(answer_to(f, &hello, 20, bell_fd, &welcome), 0);
	assert_int_equal(answer_to(f, &hello, sizeof(hello), -1, &welcome), 0);
	hello.bytes = NAM_HELLO_BYTES_MAX + 1;
	assert_int_equal(answer_to(f, &hello, sizeof(hello), bell_fd, &welcome), 0);
	hello.bytes = 0;
	hello.bell_index = SHM_QPS_MAX;
	assert_int_equal(answer_to(f, &hello, sizeof(hello), bell_fd, &welcome), 0);
	hello.bell_index = 0;
	hello.version = SHM_VERSION + 1;
	/* As long as the welcome of any version, so that its client can say which it meets. */
	assert_int_equal(answer_to(f, &hello, sizeof(hello), bell_fd, &welcome), 8);
	assert_int_equal(welcome.version, SHM_VERSION);
	assert_int_equal(try_connect(f, f->address, "hi", NULL), 0);
}

/* One that could shrink would let its owner kill the server with SIGBUS. */
static void
listener__bell_that_is_not_sealed__IS_NOT_ACCEPTED(void **state)
{
	struct fixture f;
	struct shm_hello hello = { .magic = SHM_MAGIC, .version = SHM_VERSION };
	struct nam_qp_options options;
	struct nam_cm_event event;
	struct nam_qp *qp;
	int fds[3], client;

	(void)state;
	fixture_path(&f);
	side_open(&f, &f.server, 8, 8);
	options = (struct nam_qp_options){ .cq = f.server.cq, .rq = f.server.rq };
	assert_int_equal(f.ops->listen(f.server.domain, f.address, &f.listener, &f.diag), 0);
	fds[0] = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fds[0], SHM_PAGE_BYTES), 0);
	fds[1] = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(fcntl(fds[1], F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW), 0);
	fds[2] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	for (int i = 0; i < 3; i++) {
		client = raw_connect(&f);
		assert_int_equal(nam__shm_packet_send(client, &hello, sizeof(hello), &fds[i], 1),
			0);
		assert_int_equal(f.ops->listener_poll(f.listener, TIMEOUT_NS, &event),
			NAM_LISTENER_EVENT);
		assert_non_null(strstr(event.peer, "pid"));
		assert_true(f.ops->accept(f.listener, event.request, &options, NULL, &qp) < 0);
		close(client);
		close(fds[i]);
	}
	f.ops->listener_close(f.listener);
	side_close(&f, &f.server);
	assert_int_equal(rmdir(f.directory), 0);
}

/* ---- places to listen --------------------------------------------------------------------- */

static void
listen__live_server__IS_IN_USE(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(try_listen(f, f->address), -NAM_E_FABRIC_ADDRESS_IN_USE);
	assert_non_null(strstr(f->diag.text, f->path));
	/* And the live one was not harmed. */
	assert_int_equal(try_connect(f, f->address, "hi", NULL), 0);
}

static void
listen__socket_of_a_dead_server__IS_REPLACED(void **state)
{
	struct fixture f;
	int fd;

	(void)state;
	fixture_path(&f);
	leave_socket(f.path, false, &fd);
	close(fd);
	fixture_listen(&f);
	fixture_server_close(&f);
	assert_int_equal(rmdir(f.directory), 0);
}

static void
listen__socket_of_another_program__IS_IN_USE(void **state)
{
	struct fixture f;
	int fd;

	(void)state;
	fixture_path(&f);
	side_open(&f, &f.server, 8, 8);
	leave_socket(f.path, true, &fd);
	assert_int_equal(try_listen(&f, f.address), -NAM_E_FABRIC_ADDRESS_IN_USE);
	assert_int_equal(access(f.path, F_OK), 0);
	close(fd);
	(void)unlink(f.path);
	side_close(&f, &f.server);
	assert_int_equal(rmdir(f.directory), 0);
}

static void
listen__file_in_the_way__IS_LEFT_ALONE(void **state)
{
	struct fixture f;
	int fd;

	(void)state;
	fixture_path(&f);
	side_open(&f, &f.server, 8, 8);
	fd = open(f.path, O_CREAT | O_RDWR | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	close(fd);
	assert_int_equal(try_listen(&f, f.address), -EEXIST);
	assert_int_equal(access(f.path, F_OK), 0);
	(void)unlink(f.path);
	assert_int_equal(try_listen(&f, "shm:/nonexistent-directory/socket"), -ENOENT);
	assert_non_null(strstr(f.diag.text, "/nonexistent-directory/"));
	side_close(&f, &f.server);
	assert_int_equal(rmdir(f.directory), 0);
}

struct starter {
	struct fixture *f;
	struct nam_thread *thread;
	struct nam_listener *listener;
	int rc;
};

static void
starter_main(void *arg)
{
	struct starter *starter = arg;
	struct fixture *f = starter->f;

	starter->rc = f->ops->listen(f->server.domain, f->address, &starter->listener, NULL);
}

static void
listen__many_at_once_on_a_stale_socket__ONE_WINS(void **state)
{
	struct fixture f;

	(void)state;
	fixture_path(&f);
	side_open(&f, &f.server, 8, 8);
	for (int round = 0; round < 20; round++) {
		struct starter starters[4];
		unsigned winners = 0;
		int fd;

		leave_socket(f.path, false, &fd);
		close(fd);
		for (int i = 0; i < 4; i++) {
			starters[i] = (struct starter){ .f = &f };
			assert_int_equal(nam_thread_start("starter", starter_main, &starters[i],
				&starters[i].thread), 0);
		}
		for (int i = 0; i < 4; i++) {
			nam_thread_join(starters[i].thread);
			winners += starters[i].rc == 0;
			if (starters[i].rc)
				assert_int_equal(starters[i].rc, -NAM_E_FABRIC_ADDRESS_IN_USE);
		}
		assert_int_equal(winners, 1);
		for (int i = 0; i < 4; i++)
			f.ops->listener_close(starters[i].listener);
	}
	side_close(&f, &f.server);
	assert_int_equal(rmdir(f.directory), 0);
}

static void
listen__socket_file__IS_FOR_ITS_OWNER_ONLY(void **state)
{
	struct fixture *f = *state;
	struct stat status;

	assert_int_equal(stat(f->path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(connect__nobody_there__NAMES_PATH_AND_REMEDY),
		TEST(connect__no_socket__SAYS_WHAT_IT_IS),
		TEST(connect__not_allowed__IS_DENIED),
		TEST(connect__malformed_address__IS_INVALID),
		TEST(connect__rejected__BRINGS_THE_REPLY),
		TEST(connect__again__SHARES_THE_MAPPINGS),
		cmocka_unit_test(connect__many_regions__MAPS_ALL_OF_THEM),
		cmocka_unit_test(connect__region_is_read_only__CANNOT_BE_MADE_WRITABLE),
		cmocka_unit_test(connect__of_a_reader__NO_REGION_CAN_BE_MADE_WRITABLE),
		cmocka_unit_test(connect__much_memory__IS_POPULATED_AFTERWARDS),
		cmocka_unit_test(
			connect__region_was_withdrawn_and_restored__IS_POPULATED_AS_ANY),
		TEST(listener__silent_clients__DO_NOT_KEEP_OTHERS_OUT),
		TEST(listener__malformed_hello__CLOSES_THAT_CONNECTION),
		cmocka_unit_test(listener__bell_that_is_not_sealed__IS_NOT_ACCEPTED),
		TEST(listen__live_server__IS_IN_USE),
		cmocka_unit_test(listen__socket_of_a_dead_server__IS_REPLACED),
		cmocka_unit_test(listen__socket_of_another_program__IS_IN_USE),
		cmocka_unit_test(listen__file_in_the_way__IS_LEFT_ALONE),
		cmocka_unit_test(listen__many_at_once_on_a_stale_socket__ONE_WINS),
		TEST(listen__socket_file__IS_FOR_ITS_OWNER_ONLY),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
