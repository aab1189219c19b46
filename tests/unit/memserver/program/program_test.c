/* SPDX-License-Identifier: Apache-2.0 */
/* program_test.c -- nam-memserver as a person or a script meets it: what it says, how it exits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/wait.h>

static char directory[64];
static char address[96];
static const char *path;

static int
setup(void **state)
{
	(void)state;
	(void)snprintf(directory, sizeof(directory), "/tmp/nam-program-XXXXXX");
	assert_non_null(mkdtemp(directory));
	(void)snprintf(address, sizeof(address), "shm:%s/socket", directory);
	path = address + 4;
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	/* In all cases the program leaves nothing behind. */
	return rmdir(directory);
}

/* Run to the end: the exit code; what it said, on both streams, in text. */
static int
run(const char *arguments, char *text, size_t size)
{
	char command[512];
	FILE *pipe;
	size_t n;
	int status;

	(void)snprintf(command, sizeof(command), "nam-memserver %s 2>&1", arguments);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	n = fread(text, 1, size - 1, pipe);
	text[n] = '\0';
	status = pclose(pipe);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* A server that runs, and the line with which it said that it is ready. */
static pid_t
start(char *line, size_t size, const char *more, const char *value)
{
	int fds[2];
	pid_t pid;
	FILE *out;

	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		(void)execlp("nam-memserver", "nam-memserver", "--listen", address, "--memory",
			"1M", "--pages", "4k", more, value, (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	out = fdopen(fds[0], "r");
	assert_non_null(out);
	assert_non_null(fgets(line, (int)size, out));
	(void)fclose(out);
	return pid;
}

static int
end(pid_t pid, int signal_number)
{
	int status;

	assert_int_equal(kill(pid, signal_number), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void
program__help_and_version__EXIT_0(void **state)
{
	char text[4096];

	(void)state;
	assert_int_equal(run("--help", text, sizeof(text)), 0);
	assert_non_null(strstr(text, "--rpc-threads"));
	assert_non_null(strstr(text, "Exit status"));
	assert_int_equal(run("--version", text, sizeof(text)), 0);
	assert_memory_equal(text, "nam-memserver ", 14);
}

static void
program__bad_usage__EXITS_2_AND_SAYS_WHAT(void **state)
{
	static const struct {
		const char *arguments;
		const char *say;
	} cases[] = {
		{ "", "--listen" },
		{ "--nonsense", "nonsense" },
		{ "--listen", "listen" },
		{ "--listen shm:/tmp/x stray", "'stray'" },
		{ "--listen shm:/tmp/x --memory 12Q", "--memory: '12Q' is not a size" },
		{ "--listen shm:/tmp/x --memory ''", "--memory" },
		{ "--listen shm:/tmp/x --memory 0", "--memory" },
		{ "--listen shm:/tmp/x --region 12Q", "--region: '12Q'" },
		{ "--listen shm:/tmp/x --pages 3M", "--pages: '3M'" },
		{ "--listen shm:/tmp/x --numa x", "--numa: 'x'" },
		{ "--listen shm:/tmp/x --numa 900 --memory 1M", "NUMA node 900" },
		{ "--listen shm:/tmp/x --rpc-threads 0", "--rpc-threads: '0'" },
		{ "--listen shm:/tmp/x --rpc-threads 65", "--rpc-threads: '65'" },
		{ "--listen shm:/tmp/x --rpc-threads 1x", "--rpc-threads: '1x'" },
		{ "--listen shm:/tmp/x --id 256", "--id: '256'" },
		{ "--listen shm:/tmp/x --id -1", "--id: '-1'" },
		{ "--listen shm:/tmp/x --ready-fd 77", "--ready-fd: file descriptor 77" },
		{ "--listen nonesuch:/tmp/x", "'nonesuch:/tmp/x'" },
		{ "--listen sim:strict", "nam-bench" },
		{ "--listen shm:/tmp/x,shm:/tmp/y", "one address" },
		{ "--listen shm:/tmp", "'/tmp' is a folder" },
		{ "--listen shm:", "no path" },
		{ "--listen shm:/nonexistent/x", "no folder '/nonexistent'" },
		{ "--listen shm:/dev/null/x", "no folder '/dev/null'" },
		{ "--config /nonexistent.ini", "/nonexistent.ini" },
	};
	char text[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		int code = run(cases[i].arguments, text, sizeof(text));

		if (code != 2 || !strstr(text, cases[i].say) || !strstr(text, "nam-memserver"))
			fail_msg("'%s' exits %d and says '%s'", cases[i].arguments, code, text);
	}
}

static void
program__not_enough_memory__EXITS_4(void **state)
{
	char text[4096], arguments[256];

	(void)state;
	(void)snprintf(arguments, sizeof(arguments), "-l %s -m 60T -r 256G -p 4k", address);
	assert_int_equal(run(arguments, text, sizeof(text)), 4);
	assert_non_null(strstr(text, "--memory: 60 TiB"));
	(void)snprintf(arguments, sizeof(arguments), "-l %s -m 60T -r 256G -p 1G", address);
	assert_int_equal(run(arguments, text, sizeof(text)), 4);
	assert_non_null(strstr(text, "nr_hugepages"));
}

static void
program__path_of_a_file__EXITS_1_AND_LEAVES_IT(void **state)
{
	char text[4096], arguments[256];
	int fd = open(path, O_CREAT | O_WRONLY, 0600);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	(void)snprintf(arguments, sizeof(arguments), "-l %s -m 1M -p 4k", address);
	assert_int_equal(run(arguments, text, sizeof(text)), 1);
	assert_non_null(strstr(text, "is not a socket"));
	assert_int_equal(unlink(path), 0);
}

/* The limit counts for the memory that is served; without it SIGXFSZ would kill. */
static void
program__limit_of_file_sizes__EXITS_1_AND_SAYS_SO(void **state)
{
	char text[4096], arguments[256];
	struct rlimit before, limit;
	int code;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit = before;
	limit.rlim_cur = 65536;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	(void)snprintf(arguments, sizeof(arguments), "-l %s -m 1M -p 4k", address);
	code = run(arguments, text, sizeof(text));
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	if (code != 1 || !strstr(text, "nam-memserver: "))
		fail_msg("exits %d and says '%s'", code, text);
}

/* The socket is there before the memory is. */
static void
program__terminated_while_starting__EXITS_0_AND_IS_NEVER_READY(void **state)
{
	char out[512];
	int fds[2];
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		(void)dup2(fds[1], STDOUT_FILENO);
		close(fds[0]);
		close(fds[1]);
		(void)execlp("nam-memserver", "nam-memserver", "--listen", address, "--memory",
			"256M", "--region", "1M", "--pages", "4k", (char *)NULL);
		_exit(127);
	}
	close(fds[1]);
	while (access(path, F_OK) && !waitpid(pid, NULL, WNOHANG))
		usleep(100);
	assert_int_equal(end(pid, SIGTERM), 0);
	n = read(fds[0], out, sizeof(out) - 1);
	assert_int_equal(n, 0);
	close(fds[0]);
	assert_int_equal(access(path, F_OK), -1);
}

static void
program__terminated__EXITS_0_AND_REMOVES_ITS_SOCKET(void **state)
{
	static const int signals[] = { SIGTERM, SIGINT };
	char line[512], expected[512];

	(void)state;
	for (int i = 0; i < 2; i++) {
		pid_t pid = start(line, sizeof(line), "--id", "3");

		(void)snprintf(expected, sizeof(expected), "nam-memserver: server 3 ready at %s: "
			"1 MiB in 4 regions of 256 KiB, 4 KiB pages, 1 handler thread\n", address);
		assert_string_equal(line, expected);
		assert_int_equal(access(path, F_OK), 0);
		assert_int_equal(end(pid, signals[i]), 0);
		assert_int_equal(access(path, F_OK), -1);
	}
}

static void
program__address_in_use__EXITS_3(void **state)
{
	char line[512], text[4096], arguments[256];
	pid_t pid = start(line, sizeof(line), "--id", "0");

	(void)state;
	(void)snprintf(arguments, sizeof(arguments), "-l %s -m 1M -p 4k", address);
	assert_int_equal(run(arguments, text, sizeof(text)), 3);
	assert_non_null(strstr(text, address));
	assert_int_equal(end(pid, SIGTERM), 0);
}

static void
program__killed__IS_REPLACED_BY_THE_NEXT(void **state)
{
	char line[512];
	pid_t pid = start(line, sizeof(line), "--id", "0");

	(void)state;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(access(path, F_OK), 0);
	pid = start(line, sizeof(line), "--id", "0");
	assert_int_equal(end(pid, SIGTERM), 0);
}

/* As of a server that was killed, while the kernel takes its memory back. */
static void
program__address_in_use_for_a_moment__WAITS(void **state)
{
	char line[512], lock[128];
	int fds[2], status;
	pid_t holder, pid;
	char byte;

	(void)state;
	(void)snprintf(lock, sizeof(lock), "%s.lock", path);
	assert_int_equal(pipe(fds), 0);
	holder = fork();
	assert_true(holder >= 0);
	if (holder == 0) {
		int fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

		if (fd < 0 || flock(fd, LOCK_EX) || write(fds[1], "", 1) != 1)
			_exit(1);
		usleep(300000);
		_exit(0);
	}
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	close(fds[1]);
	pid = start(line, sizeof(line), "--id", "0");
	assert_int_equal(waitpid(holder, &status, 0), holder);
	assert_int_equal(status, 0);
	assert_non_null(strstr(line, "ready"));
	assert_int_equal(end(pid, SIGTERM), 0);
}

static void
program__ready_fd__GETS_A_LINE(void **state)
{
	char line[512], from_fd[512], number[16];
	int fds[2];
	pid_t pid;
	ssize_t n;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	(void)snprintf(number, sizeof(number), "%d", fds[1]);
	pid = start(line, sizeof(line), "--ready-fd", number);
	close(fds[1]);
	n = read(fds[0], from_fd, sizeof(from_fd));
	assert_int_equal(n, strlen(line));
	assert_memory_equal(from_fd, line, (size_t)n);
	/* And closed it. */
	assert_int_equal(read(fds[0], from_fd, 1), 0);
	close(fds[0]);
	assert_int_equal(end(pid, SIGTERM), 0);
}

static void
program__config__FILLS_WHAT_THE_COMMAND_LINE_LEAVES_OPEN(void **state)
{
	char file[128], arguments[256], text[4096];
	FILE *out;

	(void)state;
	(void)snprintf(file, sizeof(file), "%s/cluster.ini", directory);
	out = fopen(file, "w");
	assert_non_null(out);
	(void)fprintf(out, "[server 0]\nlisten = %s\nmemory = 60T\nregion = 256G\npages = 4k\n"
		"[server 1]\nlisten = %s-1\nmemory = 1Q\n", address, address);
	(void)fclose(out);
	(void)snprintf(arguments, sizeof(arguments), "--config %s", file);
	assert_int_equal(run(arguments, text, sizeof(text)), 4);
	assert_non_null(strstr(text, "60 TiB"));
	/* The command line wins. */
	(void)snprintf(arguments, sizeof(arguments), "--config %s --memory 50T", file);
	assert_int_equal(run(arguments, text, sizeof(text)), 4);
	assert_non_null(strstr(text, "50 TiB"));
	(void)snprintf(arguments, sizeof(arguments), "--config %s --id 1", file);
	assert_int_equal(run(arguments, text, sizeof(text)), 2);
	assert_non_null(strstr(text, file));
	assert_non_null(strstr(text, "memory: '1Q' is not a size"));
	(void)snprintf(arguments, sizeof(arguments), "--config %s --id 2", file);
	assert_int_equal(run(arguments, text, sizeof(text)), 2);
	assert_non_null(strstr(text, "[server 2]"));
	(void)unlink(file);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(program__help_and_version__EXIT_0),
		TEST(program__bad_usage__EXITS_2_AND_SAYS_WHAT),
		TEST(program__not_enough_memory__EXITS_4),
		TEST(program__path_of_a_file__EXITS_1_AND_LEAVES_IT),
		TEST(program__limit_of_file_sizes__EXITS_1_AND_SAYS_SO),
		TEST(program__terminated_while_starting__EXITS_0_AND_IS_NEVER_READY),
		TEST(program__terminated__EXITS_0_AND_REMOVES_ITS_SOCKET),
		TEST(program__address_in_use__EXITS_3),
		TEST(program__killed__IS_REPLACED_BY_THE_NEXT),
		TEST(program__address_in_use_for_a_moment__WAITS),
		TEST(program__ready_fd__GETS_A_LINE),
		TEST(program__config__FILLS_WHAT_THE_COMMAND_LINE_LEAVES_OPEN),
	};
	char text[64];

	if (run("--version", text, sizeof(text))) {
		puts("skip: nam-memserver is not built, or not on the PATH");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
