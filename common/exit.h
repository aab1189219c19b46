/* SPDX-License-Identifier: Apache-2.0 */
/* exit.h -- exit statuses of all programs but nam-memserver, which has its own. */
#ifndef NAM_COMMON_EXIT_H
#define NAM_COMMON_EXIT_H

#ifdef __cplusplus
extern "C" {
#endif

/* In --help (below) and in the man pages. */
enum nam_exit {
	NAM_EXIT_OK = 0,
	NAM_EXIT_NO = 1,	/* no: not found, violations, wrong answers; or output was lost */
	NAM_EXIT_USAGE = 2,	/* command line, cluster text or input */
	NAM_EXIT_FABRIC = 3,	/* a memory server does not answer, or died */
	NAM_EXIT_CONFLICT = 4,	/* an index or a key exists already */
	NAM_EXIT_NOINDEX = 5,	/* no index of that name */
	NAM_EXIT_REMOTE = 6,	/* remote memory is full, locked or damaged; or this host failed */
	NAM_EXIT_SIGNAL = 128,	/* plus the number of the signal that ended the program */
};

#define NAM_EXIT_HELP                                                                               \
	"Exit status: 0 done; 1 no: no such key, violations found, a wrong or missing\n"            \
	"answer, fabric not usable, or output that cannot be written; 2 usage or\n"                 \
	"malformed input; 3 the fabric failed: no memory server there, or it died; 4\n"             \
	"conflict: the index or a key exists already; 5 no such index; 6 remote\n"                  \
	"memory is full, locked or damaged, or this host failed; 128 + n ended by\n"                \
	"signal n.\n"

/* The exit status for what a function returned: 0 or a negative code. */
int nam_exit_code(int rc);

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_EXIT_H */
