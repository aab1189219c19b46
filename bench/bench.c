/* SPDX-License-Identifier: Apache-2.0 */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "options.h"
#include "progress.h"

atomic_int bench_signal;

int
bench_complain(const char *format, ...)
{
	va_list args;

	progress_clear();
	flockfile(stderr);
	fputs("nam-bench: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	funlockfile(stderr);
	return -1;
}

int
bench_failed(const char *what, int rc, const char *diag)
{
	static const struct nam_option rows[] = { BENCH_CLUSTER, BENCH_TRANSPORT, { 0 } };
	static const struct nam_options_table table = { .rows = rows };
	struct nam_diag flags = nam__options_flags(&table, "--", diag ? diag : "");
	const char *text = *flags.text ? flags.text : nam_err_text(rc);

	if (what)
		bench_complain("%s: %s (%s)", what, text, nam_err_name(rc));
	else
		bench_complain("%s (%s)", text, nam_err_name(rc));
	return nam_exit_code(rc);
}

static void
on_signal(int number)
{
	bench_signal = number;
}

void
bench_catch_signals(void)
{
	/* A second one ends the process in the usual way. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	struct sigaction before;

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	/* Under nohup it stays ignored. */
	if (!sigaction(SIGHUP, NULL, &before) && before.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
}

int
bench_flush(int exit_code)
{
	bool lost = ferror(stdout) != 0;	/* earlier: the reason is not known any more */

	if (fflush(stdout) == 0 && !lost)
		return exit_code;
	bench_complain("standard output cannot be written%s%s", lost ? "" : ": ",
		lost ? "" : strerror(errno));
	return exit_code ? exit_code : NAM_EXIT_NO;
}
