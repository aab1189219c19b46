/* SPDX-License-Identifier: Apache-2.0 */
/*
 * example.h -- what all examples but hello_index share: joining a cluster, an index of their own.
 *
 *	return example_main(argc, argv, "", use, NULL);
 */
#ifndef EXAMPLES_EXAMPLE_H
#define EXAMPLES_EXAMPLE_H

#include <nam/nam.h>

/* Print what failed and why: @diag, or the text of the code if @diag is empty.  Return the code. */
int example_failed(const char *what, int rc, const char *diag);

/* Connect, open a worker, call @use, leave.  Return the exit status of the program. */
int example_run(const char *cluster, int (*use)(struct nam_worker *worker, void *arg), void *arg);

/*
 * The same for the cluster in argv[1], which is the only argument.  --help prints how to start the
 * program, with @more arguments.
 */
int example_main(int argc, char **argv, const char *more,
	int (*use)(struct nam_worker *worker, void *arg), void *arg);

struct example_index {
	const char *name;
	bool unique;
	int (*use)(struct nam_worker *worker, struct nam_index *index);
};

/* The same with an index of the program's own: it is created, and dropped at the end. */
int example_index_main(int argc, char **argv, struct example_index index);

/* The next random number below @end; *@state is any number before the first call. */
uint32_t example_random(uint64_t *state, uint32_t end);

/* The bytes of a column: a text without its end, or a number that nam_key_from_u64() has made. */
struct nam_bytes example_text(const char *text);
/* The number in a column; UINT64_MAX for a column that is not 8 bytes long. */
uint64_t example_number(const struct nam_bytes *column);

#endif /* EXAMPLES_EXAMPLE_H */
