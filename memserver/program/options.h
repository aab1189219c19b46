/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the command line of nam-memserver, and the section of a cluster file behind it. */
#ifndef NAM_MEMSERVER_PROGRAM_OPTIONS_H
#define NAM_MEMSERVER_PROGRAM_OPTIONS_H

#include <limits.h>
#include <stdbool.h>

#include "common/cluster.h"
#include "memserver/server.h"

#define NAM__KEYS_COUNT 9u

struct nam__options {
	struct nam_server_options server;
	int ready_fd;			/* -1: none */
	const char *config;
	const char *metrics;		/* NULL: none */
	struct nam_cluster_server section;	/* of `config`; server.listen may point into it */
	bool on_command_line[NAM__KEYS_COUNT];	/* keys of the section that it goes before */
	struct nam_server_options command_line;	/* `server` without the section */
};

/* False: the program is to exit with *ret_exit. */
bool nam__options_parse(int argc, char **argv, struct nam__options *ret, int *ret_exit)
	NAM_MUST_CHECK;

/*
 * Read `config` again, with all checks of the start but those of what the host has left.
 * *ret_level gets the log level, which a running server can change.  *ret_left gets the keys that
 * have changed and need a restart, with spaces between.  Outputs are untouched on failure, which
 * *diag explains.
 */
int nam__options_reload(const struct nam__options *options, enum nam_log_level *ret_level,
	struct nam_diag *ret_left, struct nam_diag *diag) NAM_MUST_CHECK;

/* A setting as messages name it: the flag; or, if `config` has it, the file, line and key. */
struct nam__place {
	char text[PATH_MAX + 64];
};
struct nam__place nam__options_place(const struct nam__options *options, const char *name);

/* The diag or notice of a library, with flags for the fields that it names. */
struct nam_diag nam__options_named(const char *text);

#endif /* NAM_MEMSERVER_PROGRAM_OPTIONS_H */
