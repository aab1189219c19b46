/* SPDX-License-Identifier: Apache-2.0 */
#include "repeat.h"

#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

char sim_repeat[4400];

static void
ended_by(int signal_number)
{
	(void)!write(STDOUT_FILENO, sim_repeat, strlen(sim_repeat));
	(void)signal(signal_number, SIG_DFL);
	(void)raise(signal_number);
}

void
sim_repeat_on_signals(bool on)
{
	static const int signals[] = { SIGABRT, SIGTERM,
#ifndef __SANITIZE_ADDRESS__	/* it reports more about these */
		SIGSEGV, SIGBUS, SIGFPE,
#endif
	};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		(void)signal(signals[i], on ? ended_by : SIG_DFL);
}
