/* SPDX-License-Identifier: Apache-2.0 */
/* progress.h -- a line on standard error that says how far a run is; only on a terminal. */
#ifndef NAM_BENCH_PROGRESS_H
#define NAM_BENCH_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

/* @quiet or no terminal: everything below does nothing. */
void progress_init(bool quiet);
bool progress_wanted(void);

void progress_begin(const char *what);
/* Draw the line anew.  @fraction	0 .. 1.  @done	units since progress_begin() */
void progress_show(double fraction, uint64_t done);
void progress_clear(void);

#endif /* NAM_BENCH_PROGRESS_H */
