/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fiber_switch.h -- the inside of a fiber, and its switch without the call around it.
 *
 * Internal: for fiber.c and for the one place that schedules (compute/worker.c).
 *
 * ASSUMPTIONS: both fibers belong to the calling thread; `from` is the one that runs.
 */
#ifndef NAM_COMMON_FIBER_SWITCH_H
#define NAM_COMMON_FIBER_SWITCH_H

#include "fiber.h"

#ifdef NAM_FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef NAM_FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/*
 * Boost.Context's C symbols, which its C++ headers hide.  jump_fcontext leaves the running context
 * and returns, once somebody jumps back, who that was and what they passed.
 */
typedef void *nam_fcontext;

struct nam_fcontext_transfer {
	nam_fcontext context;
	void *data;
};

extern struct nam_fcontext_transfer jump_fcontext(nam_fcontext to, void *data);
extern nam_fcontext make_fcontext(void *stack_top, size_t stack_bytes,
	void (*fn)(struct nam_fcontext_transfer));

struct nam_fiber {
	nam_fcontext context;		/* where to go on; valid while the fiber does not run */
	struct nam_fiber *next;		/* whom it left for: how a new fiber learns who it is */
	nam_fiber_fn fn;
	void *arg;
	void *mapping;			/* guard page, then the stack; NULL for an adopted one */
	size_t mapping_bytes;
	size_t color_bytes;		/* left unused at the stack's top */
#ifdef NAM_FIBER_ASAN
	void *fake_stack;
	const void *stack_bottom;	/* as ASan sees it; learned when somebody leaves the stack */
	size_t stack_bytes;
#endif
#ifdef NAM_FIBER_TSAN
	void *tsan;
#endif
};

static inline void
nam__fiber_before_leave(struct nam_fiber *from, struct nam_fiber *to, bool for_good)
{
	(void)for_good;
	from->next = to;
#ifdef NAM_FIBER_ASAN
	/* Without a place to keep it, ASan frees the fake stack. */
	__sanitizer_start_switch_fiber(for_good ? NULL : &from->fake_stack, to->stack_bottom,
		to->stack_bytes);
#endif
#ifdef NAM_FIBER_TSAN
	__tsan_switch_to_fiber(to->tsan, 0);
#endif
}

/* The first thing on arrival: where we came from can now be resumed. */
static inline void
nam__fiber_after_arrival(struct nam_fiber *self, struct nam_fcontext_transfer transfer)
{
	struct nam_fiber *previous = transfer.data;

	(void)self;
#ifdef NAM_FIBER_ASAN
	__sanitizer_finish_switch_fiber(self->fake_stack, &previous->stack_bottom,
		&previous->stack_bytes);
#endif
	previous->context = transfer.context;
}

static inline void
nam__fiber_switch(struct nam_fiber *from, struct nam_fiber *to)
{
	nam__fiber_before_leave(from, to, false);
	nam__fiber_after_arrival(from, jump_fcontext(to->context, from));
}

#endif /* NAM_COMMON_FIBER_SWITCH_H */
