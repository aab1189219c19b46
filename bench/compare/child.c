/* SPDX-License-Identifier: Apache-2.0 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/env.h"

#define END_PAUSE_NS 5000000u
#define END_TRIES 600u		/* 3 s; then it is killed */
#define READY_FD 3
#define FOLDERS_OPEN_MAX 8

void
child_say(struct child_args *args, const char *format, ...)
{
	size_t room = sizeof(args->text) - args->used;
	va_list list;
	int written;

	if (args->count + 1 >= CHILD_ARGS_MAX)
		abort();
	va_start(list, format);
	written = vsnprintf(args->text + args->used, room, format, list);
	va_end(list);
	if (written < 0 || (size_t)written >= room)
		abort();
	args->args[args->count++] = args->text + args->used;
	args->args[args->count] = NULL;
	args->used += (size_t)written + 1;
}

/* ---- the folder --------------------------------------------------------------------------- */

int
child_folder_make(char ret[CHILD_FOLDER_BYTES])
{
	const char *place = getenv("TMPDIR");
	char folder[CHILD_FOLDER_BYTES];
	int written = -1;

	if (place && *place == '/')
		written = snprintf(folder, sizeof(folder), "%s/nam-compare.XXXXXX", place);
	if (written < 0 || written >= (int)sizeof(folder))
		snprintf(folder, sizeof(folder), "/tmp/nam-compare.XXXXXX");
	if (!mkdtemp(folder))
		return -errno;
	memcpy(ret, folder, sizeof(folder));
	return 0;
}

static int
remove_one(const char *path, const struct stat *what, int kind, struct FTW *where)
{
	(void)what;
	(void)kind;
	(void)where;
	(void)remove(path);
	return 0;
}

void
child_folder_remove(const char *folder)
{
	(void)nftw(folder, remove_one, FOLDERS_OPEN_MAX, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

/* ---- programs ----------------------------------------------------------------------------- */

static bool
beside_us(const char *program, char ret_path[PATH_MAX])
{
	char self[PATH_MAX], *slash;
	ssize_t bytes = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (bytes < 0)
		return false;
	self[bytes] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	return snprintf(ret_path, PATH_MAX, "%s/%s", self, program) < PATH_MAX &&
	       access(ret_path, X_OK) == 0;
}

bool
child_find(const char *program, bool beside, char ret_path[PATH_MAX])
{
	const char *at = getenv("PATH");

	if (beside && beside_us(program, ret_path))
		return true;
	while (at && *at) {
		size_t bytes = strcspn(at, ":");
		int written = snprintf(ret_path, PATH_MAX, "%.*s/%s", (int)bytes, at, program);

		if (bytes && written < PATH_MAX && access(ret_path, X_OK) == 0)
			return true;
		at += bytes + (at[bytes] == ':');
	}
	return false;
}

/* ---- processes ---------------------------------------------------------------------------- */

/* In the new process.  The parent may have died before we asked to be told. */
static void
become(const char *path, char *const *args, pid_t parent, int log, int ready_fd)
{
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != parent || setpgid(0, 0))
		_exit(125);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(log, STDOUT_FILENO) < 0 ||
		dup2(log, STDERR_FILENO) < 0)
		_exit(126);
	/* A descriptor that is in its place already would be closed by execv(). */
	if (ready_fd == READY_FD && fcntl(READY_FD, F_SETFD, 0))
		_exit(126);
	if (ready_fd >= 0 && dup2(ready_fd, READY_FD) < 0)
		_exit(126);
	execv(path, args);
	_exit(127);
}

int
child_start(struct child *child, const char *path, const struct child_args *args,
	const char *folder, const char *name, int ready_fd)
{
	pid_t parent = getpid(), pid;
	struct child made = { 0 };
	int log, rc = 0;

	snprintf(made.log, sizeof(made.log), "%s/%s.log", folder, name);
	log = open(made.log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (log < 0)
		return -errno;
	(void)fflush(NULL);
	pid = fork();
	if (pid == 0)
		become(path, args->args, parent, log, ready_fd);
	if (pid < 0)
		rc = -errno;
	close(log);
	if (rc)
		return rc;
	made.pid = pid;
	*child = made;
	return 0;
}

bool
child_lives(struct child *child)
{
	pid_t ended;

	if (!child->pid)
		return false;
	do
		ended = waitpid(child->pid, NULL, WNOHANG);
	while (ended < 0 && errno == EINTR);
	if (ended == 0)
		return true;
	child->pid = 0;
	return false;
}

void
child_last_words(const struct child *child, char *ret, size_t size)
{
	FILE *file = fopen(child->log, "re");
	char line[256];

	ret[0] = '\0';
	while (file && fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		if (*line)
			snprintf(ret, size, "%s", line);
	}
	if (file)
		fclose(file);
}

void
child_end(struct child *child)
{
	if (!child->pid)
		return;
	(void)kill(child->pid, SIGTERM);
	for (unsigned i = 0; i < END_TRIES && child_lives(child); i++)
		nam_sleep_ns(END_PAUSE_NS);
	if (!child->pid)
		return;
	(void)kill(child->pid, SIGKILL);
	while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	child->pid = 0;
}

int
child_free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t bytes = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), rc;

	if (fd < 0)
		return -errno;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (const struct sockaddr *)&at, bytes) ||
		getsockname(fd, (struct sockaddr *)&at, &bytes))
		rc = -errno;
	else
		rc = ntohs(at.sin_port);
	close(fd);
	return rc;
}
