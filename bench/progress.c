/* SPDX-License-Identifier: Apache-2.0 */
#include "progress.h"

#include <stdio.h>
#include <unistd.h>

#include "common/env.h"
#include "text.h"

#define BAR_WIDTH 32

static bool wanted;
static bool drawn;
static const char *what_now = "";
static uint64_t since_ns;

void
progress_init(bool quiet)
{
	wanted = !quiet && isatty(STDERR_FILENO);
}

bool
progress_wanted(void)
{
	return wanted;
}

void
progress_begin(const char *what)
{
	what_now = what;
	since_ns = nam_now_ns();
}

void
progress_show(double fraction, uint64_t done)
{
	uint64_t elapsed_ns = nam_now_ns() - since_ns;
	char bar[BAR_WIDTH + 1];
	int full;

	if (!wanted)
		return;
	if (!(fraction >= 0))
		fraction = 0;
	if (fraction > 1)
		fraction = 1;
	full = (int)(fraction * BAR_WIDTH);
	for (int i = 0; i < BAR_WIDTH; i++)
		bar[i] = i < full ? '#' : '.';
	bar[BAR_WIDTH] = '\0';
	fprintf(stderr, "\r\033[K%-6.10s [%s] %3.0f %%  %s  %s/s", what_now, bar, fraction * 100,
		text_count((double)done),
		text_count(elapsed_ns ? (double)done * 1e9 / (double)elapsed_ns : 0));
	fflush(stderr);
	drawn = true;
}

void
progress_clear(void)
{
	if (!drawn)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	drawn = false;
}
