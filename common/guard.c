/* SPDX-License-Identifier: Apache-2.0 */
/* guard.c -- the switches of guard.h and the hook of race.h, in builds that have them. */
#include "guard.h"

#include <errno.h>
#include <string.h>

#include "race.h"

static const char *const names[NAM_GUARDS_COUNT] = {
#define NAME(name, text, why) [NAM_GUARD_##name] = text,
	NAM_GUARDS(NAME)
#undef NAME
};

#ifdef NAM_SIM_POINTS
uint64_t nam__guards_off[NAM_GUARD_WORDS];
nam_race_fn nam_race_hook;
nam_fault_fn nam_fault_hook;
#endif

int
nam_guard_off(const char *name)
{
	for (unsigned i = 0; i < NAM_GUARDS_COUNT; i++) {
		if (strcmp(names[i], name))
			continue;
#ifdef NAM_SIM_POINTS
		nam__guards_off[i / 64] |= 1ull << i % 64;
		return 0;
#else
		return -ENOTSUP;
#endif
	}
	return -ENOENT;
}

void
nam_guards_on(void)
{
#ifdef NAM_SIM_POINTS
	memset(nam__guards_off, 0, sizeof(nam__guards_off));
#endif
}
