/* SPDX-License-Identifier: Apache-2.0 */
/* signals.c -- being told to end: an operation under way is finished, for it may hold locks. */
#include "namctl.h"

volatile sig_atomic_t ctl_signal;

static void
on_signal(int number)
{
	ctl_signal = number;
}

void
ctl_catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	/* A second one ends the process in the usual way. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	struct sigaction before;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		/* nohup, and a shell that starts us in the background, want some ignored. */
		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
}
