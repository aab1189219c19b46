/* SPDX-License-Identifier: Apache-2.0 */
/*
 * race.h -- named places between the steps of a change where a simulator may suspend a thread, and
 * places where it may let something fail.
 *
 * A race point stands where others may see a change half done, or before learned facts are used.
 * It is empty unless the build has NAM_SIM_POINTS.  Then it calls the hook, which may suspend the
 * calling thread: hold no host lock across it.
 */
#ifndef NAM_COMMON_RACE_H
#define NAM_COMMON_RACE_H

#include <stdbool.h>

#ifdef NAM_SIM_POINTS

typedef void (*nam_race_fn)(const char *name);

/* Set before any other thread exists; NULL: points do nothing. */
extern nam_race_fn nam_race_hook;

/* @name	"split.sibling_written": the operation, a dot, what has just been done */
static inline void
nam_race_point(const char *name)
{
	if (nam_race_hook)
		nam_race_hook(name);
}

typedef bool (*nam_fault_fn)(const char *name);

/* Set before any other thread exists; NULL: nothing fails. */
extern nam_fault_fn nam_fault_hook;

/* Whether what is about to be asked for shall be refused; may not suspend. */
static inline bool
nam_fault_point(const char *name)
{
	return nam_fault_hook && nam_fault_hook(name);
}

#else

#define nam_race_point(name) ((void)0)
#define nam_fault_point(name) false

#endif

#endif /* NAM_COMMON_RACE_H */
