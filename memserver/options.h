/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the command line of nam-memserver, and the section of a cluster file behind it. */
#ifndef NAM_MEMSERVER_OPTIONS_H
#define NAM_MEMSERVER_OPTIONS_H

#include "common/cluster.h"
#include "server.h"

enum nam__options_result {
	NAM__OPTIONS_RUN,
	NAM__OPTIONS_EXIT_OK,		/* --help, --version: said on stdout */
	NAM__OPTIONS_EXIT_USAGE,	/* said on stderr */
};

struct nam__options {
	struct nam_server_options server;
	int ready_fd;			/* -1: none */
	struct nam_cluster_server texts;	/* what server's strings point into */
};

enum nam__options_result nam__options_parse(int argc, char **argv, struct nam__options *ret);

#endif /* NAM_MEMSERVER_OPTIONS_H */
