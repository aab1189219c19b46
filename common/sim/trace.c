/* SPDX-License-Identifier: Apache-2.0 */
/* trace.c -- events as text. */
#include <stdarg.h>
#include <string.h>

#include "sim_internal.h"

const char *
nam__sim_op_name(unsigned op)
{
	static const char *const names[] = {
		[NAM_WR_READ] = "READ", [NAM_WR_WRITE] = "WRITE", [NAM_WR_CAS] = "CAS",
		[NAM_WR_FETCH_ADD] = "FETCH_ADD", [NAM_WR_SEND] = "SEND", [NAM_WC_RECV] = "RECV",
		[NAM_WC_CLOSED] = "CLOSED",
	};

	return op < sizeof(names) / sizeof(names[0]) && names[op] ? names[op] : "?";
}

/* "time actor: event": nanoseconds; the actor is p<process>.t<thread>, or - for none. */
void
nam__sim_trace(const char *format, ...)
{
	const struct sim_thread *thread = nam__sim.current;
	FILE *to = nam__sim.options.trace;
	va_list args;

	if (thread && thread->process)
		(void)fprintf(to, "%12llu p%u.t%u: ", (unsigned long long)nam__sim_here(),
			thread->process->id, thread->id);
	else
		(void)fprintf(to, "%12llu -: ", (unsigned long long)nam__sim.now);
	va_start(args, format);
	(void)vfprintf(to, format, args);
	va_end(args);
	(void)fputc('\n', to);
}

void
nam_sim_note(const char *format, ...)
{
	char text[256];
	uint64_t word;
	va_list args;

	if (nam__sim.quiet)
		return;
	memset(text, 0, sizeof(text));
	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	for (size_t i = 0; i < sizeof(text) && text[i]; i += sizeof(word)) {
		memcpy(&word, text + i, sizeof(word));
		nam__sim_mix(SIM_WHAT_NOTE, word, i);
	}
	if (nam__sim.options.trace)
		nam__sim_trace("note: %s", text);
}
