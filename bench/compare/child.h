/* SPDX-License-Identifier: Apache-2.0 */
/*
 * child.h -- servers that a comparison starts for itself: processes that end with it,
 * whatever ends it, and a folder for their sockets and for what they say.
 */
#ifndef NAM_BENCH_COMPARE_CHILD_H
#define NAM_BENCH_COMPARE_CHILD_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "common/error.h"

#define CHILD_FOLDER_BYTES 64u
#define CHILD_NAME_BYTES 32u
#define CHILD_ARGS_MAX 32u

struct child {
	pid_t pid;			/* 0: none */
	char log[CHILD_FOLDER_BYTES + 48];	/* what it prints */
};

/* Arguments one behind the other. */
struct child_args {
	unsigned count;
	size_t used;
	char *args[CHILD_ARGS_MAX];
	char text[1024];
};

void child_say(struct child_args *args, const char *format, ...) NAM_PRINTF(2, 3);

/* A folder of our own, with a path that leaves room for a socket's name.  0 or a negative code. */
int child_folder_make(char ret[CHILD_FOLDER_BYTES]) NAM_MUST_CHECK;

/* With all that is in it. */
void child_folder_remove(const char *folder);

/* Look for a program beside this one, if `beside`, and in PATH. */
bool child_find(const char *program, bool beside, char ret_path[PATH_MAX]);

/**
 * child_start -- start a program, in a process group of its own, so that ^C is for us to act on.
 *
 * @name	of its log in the folder; no two are alike
 * @ready_fd	what the program has as descriptor 3; -1: nothing
 *
 * Its output goes to that log.  It is killed when the calling thread ends, and so
 * when this process does, however that comes.  Call it while there is no other thread.
 */
int child_start(struct child *child, const char *path, const struct child_args *args,
	const char *folder, const char *name, int ready_fd) NAM_MUST_CHECK;

/* Whether it runs still; if not, it has been waited for. */
bool child_lives(struct child *child);

/* The last line that it printed, to say why it ended; "" if none. */
void child_last_words(const struct child *child, char *ret, size_t size);

/* Tell it to end, and see that it does. */
void child_end(struct child *child);

/* A TCP port of this host that is free at the moment, or a negative code. */
int child_free_port(void) NAM_MUST_CHECK;

#endif /* NAM_BENCH_COMPARE_CHILD_H */
