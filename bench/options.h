/* SPDX-License-Identifier: Apache-2.0 */
/*
 * options.h -- values on the command line, and what to say when they make no sense.
 *
 * Each returns 0, or -EINVAL after it has told the user which option was wrong and what it takes.
 */
#ifndef NAM_BENCH_OPTIONS_H
#define NAM_BENCH_OPTIONS_H

#include <getopt.h>
#include <stdint.h>

#include "common/error.h"
#include "common/rpc/transport.h"

/* Whole numbers; "10M" and "64k" are powers of 1,000 here, since they count things. */
int option_count(const char *option, const char *text, uint64_t min, uint64_t max,
	uint64_t *ret_value) NAM_MUST_CHECK;
int option_count32(const char *option, const char *text, uint32_t min, uint32_t max,
	uint32_t *ret_value) NAM_MUST_CHECK;

/* Bytes; "512M" is a power of 1,024. */
int option_bytes(const char *option, const char *text, uint64_t min, uint64_t max,
	uint64_t *ret_value) NAM_MUST_CHECK;

int option_number(const char *option, const char *text, double min, double max,
	double *ret_value) NAM_MUST_CHECK;

/* --transport. */
int option_transport(const char *text, enum nam_transport *ret_transport) NAM_MUST_CHECK;

/* Complain about a word that is none of `choices` ("a, b or c").  Returns -EINVAL. */
int option_bad_choice(const char *option, const char *text, const char *choices);

/* Reports an error of getopt_long(); `argv` as it was given. */
void option_unknown(int argc, char **argv, int result);

/* A subcommand's options; it takes nothing else. */
struct option_set {
	const struct option *known;
	const char *help;
	int help_option;
	/* 0, or it has said what is wrong.  @value	NULL for options that have none */
	int (*take)(void *options, int option, const char *value);
};

/* Hand all that are given to `take`.  0; 1: the program is to exit, with *ret_exit. */
int options_take(int argc, char **argv, const struct option_set *set, void *options, int *ret_exit)
	NAM_MUST_CHECK;

#endif /* NAM_BENCH_OPTIONS_H */
