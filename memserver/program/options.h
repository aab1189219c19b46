/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the command line of nam-memserver, and the section of a cluster file behind it. */
#ifndef NAM_MEMSERVER_PROGRAM_OPTIONS_H
#define NAM_MEMSERVER_PROGRAM_OPTIONS_H

#include <stdbool.h>

#include "common/cluster.h"
#include "memserver/server.h"

struct nam__options {
	struct nam_server_options server;
	int ready_fd;			/* -1: none */
	const char *config;
	const char *metrics;		/* NULL: none */
	struct nam_cluster_server section;	/* of `config`; server.listen may point into it */
	/* On the command line. */
	bool memory_set, region_set, pages_set, numa_set, rpc_threads_set;
};

/* 0; 1 if the program is to exit with *ret_exit. */
int nam__options_parse(int argc, char **argv, struct nam__options *ret, int *ret_exit)
	NAM_MUST_CHECK;

/* The diag or notice of a library, with flags for the fields that it names. */
struct nam_diag nam__options_named(const char *text);

#endif /* NAM_MEMSERVER_PROGRAM_OPTIONS_H */
