/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h -- the command line of a program, as one table over glibc's argp.
 *
 * A row names the option, the field that it sets, its bounds and its help.  The table makes the
 * parser, --help, --usage and the usage errors, which name the flag.  The hidden option --mdoc
 * prints the lists of options for the man page.
 */
#ifndef NAM_COMMON_OPTIONS_OPTIONS_H
#define NAM_COMMON_OPTIONS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

enum nam_option_type {
	NAM_OPTION_FLAG,	/* a bool that becomes true */
	NAM_OPTION_COUNT,	/* a whole number; k, M and G are powers of 1,000 */
	NAM_OPTION_BYTES,	/* a size; k, M, G and T are powers of 1,024 */
	NAM_OPTION_REAL,
	NAM_OPTION_TEXT,	/* a const char *: the argument itself */
	NAM_OPTION_CHOICE,	/* an enum or int: `min` and the number of the word in `choices` */
	NAM_OPTION_CALL,	/* `take` sets the fields */
};

struct nam_option {
	const char *name;	/* NULL: `help` is the heading of the rows that follow */
	const char *argument;	/* NULL for flags */
	/* NULL ends the table.  It starts with a capital letter and ends with a period. */
	const char *help;
	enum nam_option_type type;
	const char *sets;	/* "server.memory_bytes" */
	uint16_t offset, size;	/* of the field */
	uint16_t set;		/* offset of a bool that tells that the option was given; 0: none */
	char letter;
	int64_t min;		/* of COUNT, BYTES and CHOICE */
	uint64_t max;
	double low, high;	/* of REAL */
	const char *const *choices;	/* ended by NULL */
	/* 0, or -EINVAL with the cause in *diag; the caller names the flag. */
	int (*take)(void *options, const char *text, struct nam_diag *diag);
	const char *scope;	/* commands that take the option: "range,table scan"; NULL: all */
};

#define NAM_OPTION_FIELD(type, field)                                                               \
	.sets = #field, .offset = offsetof(type, field), .size = sizeof(((type *)NULL)->field)

struct nam_options_table {
	const char *program;	/* "nam-bench raw" */
	const char *usage;	/* the synopses after the program's name, one a line */
	const char *purpose;
	const char *after;	/* what --help ends with: exit statuses */
	const struct nam_option *rows;
	/* Takes a word that is no option: 0, or -EINVAL after a message.  NULL: there are none. */
	int (*word)(void *options, char *text);
	/* Learns of each option that was taken, in their order.  NULL: not wanted. */
	void (*taken)(void *options, const struct nam_option *row, const char *text);
};

/*
 * Set the fields of `options` from the command line.  False: the program is to exit with *ret_exit,
 * after --help, --usage or --version, or after a message.
 */
bool nam__options_take(const struct nam_options_table *table, int argc, char **argv, void *options,
	int *ret_exit) NAM_MUST_CHECK;

/* Set one option from another source: 0, or -EINVAL with the cause in *diag, without its name. */
int nam__option_set(const struct nam_options_table *table, const char *name, const char *text,
	void *options, struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * The diag of a library with options for the fields that it names: with the prefix "--",
 * "memory_bytes: ..." becomes "--memory: ...".  Behind the first word, only words with a '_', and
 * the one behind "set", are taken for fields.
 */
struct nam_diag nam__options_flags(const struct nam_options_table *table, const char *prefix,
	const char *text);

/* Whether the command of the program, "index create", takes the option. */
bool nam__option_belongs(const struct nam_option *row, const char *command);

#endif /* NAM_COMMON_OPTIONS_OPTIONS_H */
