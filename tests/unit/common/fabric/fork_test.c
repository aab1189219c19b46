/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fork_test.c -- a process that has registered memory may fork, over the fabric that
 * NAM_TEST_FABRIC names.
 *
 * After a fork the first write to a page gives the writer another one.  If the device had kept the
 * old page, which is the child's then, READs would arrive where the parent does not look.  WRITEs
 * would send bytes that the parent has not written.
 */
#include <fcntl.h>
#include <sys/wait.h>

#include "fabric_fixture.h"

#define BYTES 65536u

/* Not by plain stores: on old kernels registered pages are not the child's at all. */
static void
scribble(uint8_t *to)
{
	int fd = open("/proc/self/mem", O_WRONLY | O_CLOEXEC);
	uint8_t child[4096];

	memset(child, 0xcc, sizeof(child));
	for (unsigned at = 0; fd >= 0 && at < BYTES; at += sizeof(child))
		(void)!pwrite(fd, child, sizeof(child), (off_t)(uintptr_t)(to + at));
}

/* A child that writes into all that it has inherited, says so, and lives until told to end. */
static pid_t
fork_a_writer(const struct fixture *f, int *ret_until)
{
	int written[2], until[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(written), 0);
	assert_int_equal(pipe(until), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		close(written[0]);
		close(until[1]);
		scribble(f->client.local);
		(void)!write(written[1], "w", 1);
		(void)!read(until[0], &byte, 1);
		_exit(0);
	}
	close(written[1]);
	close(until[0]);
	assert_int_equal(read(written[0], &byte, 1), 1);
	close(written[0]);
	*ret_until = until[1];
	return pid;
}

static void
end_the_writer(pid_t pid, int until)
{
	int status;

	close(until);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* The parent's WRITEs leave and its READs arrive, while the child lives and after. */
static void
write_and_read(struct fixture *f, uint8_t seed)
{
	for (unsigned i = 0; i < BYTES; i++)
		f->client.local[i] = (uint8_t)(seed + i * 7);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_WRITE, 0, 0, BYTES)), 0);
	for (unsigned i = 0; i < BYTES; i++)
		assert_int_equal(((uint8_t *)f->mr.base)[i], (uint8_t)(seed + i * 7));
	memset(f->client.local, 0, BYTES);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_READ, 0, 0, BYTES)), 0);
	for (unsigned i = 0; i < BYTES; i++)
		assert_int_equal(f->client.local[i], (uint8_t)(seed + i * 7));
}

static void
fork__with_registered_memory__LEAVES_IT_TO_THE_PARENT(void **state)
{
	struct fixture *f = *state;
	int until;
	pid_t pid;

	write_and_read(f, 1);
	pid = fork_a_writer(f, &until);
	write_and_read(f, 2);
	end_the_writer(pid, until);
	write_and_read(f, 3);
}

/* As system() and popen() do: the child becomes another program, and the connection stays. */
static void
fork__of_another_program__LEAVES_THE_CONNECTION(void **state)
{
	struct fixture *f = *state;

	write_and_read(f, 4);
	for (unsigned i = 0; i < 3; i++) {
		pid_t pid = fork();
		int status;

		assert_true(pid >= 0);
		if (pid == 0) {
			(void)execl("/bin/true", "true", (char *)NULL);
			_exit(1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
		write_and_read(f, (uint8_t)(5 + i));
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			fork__with_registered_memory__LEAVES_IT_TO_THE_PARENT,
			fixture_setup, fixture_teardown),
		cmocka_unit_test_setup_teardown(fork__of_another_program__LEAVES_THE_CONNECTION,
			fixture_setup, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
