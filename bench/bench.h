/* SPDX-License-Identifier: Apache-2.0 */
/* bench.h -- what all of nam-bench agrees on: exit codes, subcommands, reporting mistakes. */
#ifndef NAM_BENCH_BENCH_H
#define NAM_BENCH_BENCH_H

#include <stdatomic.h>

#include "nam.h"

int raw_main(int argc, char **argv);
int index_main(int argc, char **argv);
int requests_main(int argc, char **argv);	/* rpc, kv, pilaf, ramp and txn */
int cuckoo_main(int argc, char **argv);
int connect_main(int argc, char **argv);

/* "nam-bench: MESSAGE" on standard error, the progress bar out of the way.  Returns -1. */
int bench_complain(const char *format, ...) NAM_PRINTF(1, 2);

/* A failed library call; returns the exit code.  @what NULL: the diag's text names it. */
int bench_failed(const char *what, int rc, const char *diag);

/* From now on SIGINT and SIGTERM only raise a flag, which ends a run early but in order. */
void bench_catch_signals(void);

/* Write out what is left of standard output; exit_code, or NAM_EXIT_NO if output was lost. */
int bench_flush(int exit_code);

/* The signal that arrived, or 0.  Cheap: asked before every operation. */
extern atomic_int bench_signal;

#endif /* NAM_BENCH_BENCH_H */
