/* SPDX-License-Identifier: Apache-2.0 */
/* reload.h -- SIGHUP: nam-memserver reads its file again. */
#ifndef NAM_MEMSERVER_PROGRAM_RELOAD_H
#define NAM_MEMSERVER_PROGRAM_RELOAD_H

#include "common/error.h"

/* First of all: SIGHUP waits, and is taken by the thread below alone.  0 or -errno. */
int nam__reload_prepare(void) NAM_MUST_CHECK;

/* Call `reload`, in a thread that takes no other signal, for each SIGHUP.  0 or -errno. */
int nam__reload_start(void (*reload)(void)) NAM_MUST_CHECK;
/* Waits for a call under way, for a second at the most: the process is about to end. */
void nam__reload_stop(void);

#endif /* NAM_MEMSERVER_PROGRAM_RELOAD_H */
