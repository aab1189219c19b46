/* SPDX-License-Identifier: Apache-2.0 */
/*
 * switch.h -- the inside of a fiber, and its inline switch.
 *
 * On x86-64 the switch is ours.  Elsewhere it is Boost.Context's jump_fcontext, which is called but
 * leaves with a jump: the return predictor then fails for all returns of the resumed fiber.  Ours
 * costs 8 ns instead of 24 ns two frames deep; bare, 1 ns instead of 5 ns (EPYC, gcc 12).
 *
 * ASSUMPTIONS: both fibers belong to the calling thread and differ; `from` is the one that runs.
 * The floating-point control words are the thread's, not the fiber's.
 */
#ifndef NAM_COMMON_FIBER_SWITCH_H
#define NAM_COMMON_FIBER_SWITCH_H

#include <assert.h>

#include "fiber.h"

#ifdef NAM_FIBER_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef NAM_FIBER_TSAN
#include <sanitizer/tsan_interface.h>
#endif

/* TSan counts calls: a function that told it of a switch and returned would miscount. */
#define NAM_FIBER_INLINE inline __attribute__((always_inline))

#if (!defined(__x86_64__) || defined(__ILP32__)) && !defined(NAM_FIBER_BOOST)
#define NAM_FIBER_BOOST 1
#endif

struct nam_fiber {
	void *context;			/* where to go on; valid while the fiber does not run */
	nam_fiber_fn fn;
	void *arg;
	void *mapping;			/* guard page, then the stack; NULL for an adopted one */
	size_t mapping_bytes;
	size_t color_bytes;		/* left unused at the stack's upper end */
#ifdef NAM_FIBER_BOOST
	struct nam_fiber *next;		/* it left for this one: how a new fiber finds itself */
#endif
#ifdef NAM_FIBER_ASAN
	void *fake_stack;
	const void *stack_bottom;	/* as ASan sees it; learned when a fiber leaves */
	size_t stack_bytes;
#endif
#ifdef NAM_FIBER_TSAN
	void *tsan;
#endif
};
_Static_assert(offsetof(struct nam_fiber, context) == 0, "the assembly below relies on it");

/* nam__fiber_jump() leaves `from` for `to`, and returns the fiber that jumps back. */
#ifdef NAM_FIBER_BOOST

struct nam_fcontext_transfer {
	void *context;
	void *data;
};

extern struct nam_fcontext_transfer jump_fcontext(void *to, void *data);
extern void *make_fcontext(void *stack_top, size_t stack_bytes,
	void (*fn)(struct nam_fcontext_transfer));

static NAM_FIBER_INLINE struct nam_fiber *
nam__fiber_jump(struct nam_fiber *from, struct nam_fiber *to)
{
	struct nam_fcontext_transfer transfer;
	struct nam_fiber *previous;

	from->next = to;
	transfer = jump_fcontext(to->context, from);
	previous = transfer.data;
	previous->context = transfer.context;
	return previous;
}

#else

#ifdef __AVX512F__
#define NAM_FIBER_CLOBBERS_AVX512                                                                   \
	, "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm24",          \
		"xmm25", "xmm26", "xmm27", "xmm28", "xmm29", "xmm30", "xmm31", "k1", "k2", "k3",    \
		"k4", "k5", "k6", "k7"
#else
#define NAM_FIBER_CLOBBERS_AVX512
#endif

/*
 * The target of a suspended fiber's context: its frame pointer, then where to go on.  There a new
 * fiber enters a function of two arguments, which are in the registers of the ABI.  A resumed one
 * finds `from`, which jumped to it, in rdi.  All other registers are lost to the compiler, which
 * keeps on the stack what it still needs and no more.
 */
static NAM_FIBER_INLINE struct nam_fiber *
nam__fiber_jump(struct nam_fiber *from, struct nam_fiber *to)
{
	__asm__ volatile(
		"lea -128(%%rsp), %%rsp\n\t"	/* a leaf function may keep data below its stack */
		"lea 1f(%%rip), %%rax\n\t"
		"push %%rax\n\t"
		"push %%rbp\n\t"
		"mov %%rsp, (%%rdi)\n\t"
		"mov (%%rsi), %%rsp\n\t"
		"pop %%rbp\n\t"
		"pop %%rax\n\t"
		"jmp *%%rax\n"
		"1:\n\t"
		"lea 128(%%rsp), %%rsp"
		: "+D"(from), "+S"(to)
		:
		: "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15",
		  "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9",
		  "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "st", "st(1)", "st(2)",
		  "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "memory",
		  "cc" NAM_FIBER_CLOBBERS_AVX512);
	return from;
}

#endif

static NAM_FIBER_INLINE void
nam__fiber_before_leave(struct nam_fiber *from, struct nam_fiber *to, bool for_good)
{
	assert(from != to);
	(void)from;
	(void)to;
	(void)for_good;
#ifdef NAM_FIBER_ASAN
	/* Without a place to keep it, ASan frees the fake stack. */
	__sanitizer_start_switch_fiber(for_good ? NULL : &from->fake_stack, to->stack_bottom,
		to->stack_bytes);
#endif
#ifdef NAM_FIBER_TSAN
	__tsan_switch_to_fiber(to->tsan, 0);
#endif
}

static NAM_FIBER_INLINE void
nam__fiber_after_arrival(struct nam_fiber *self, struct nam_fiber *previous)
{
	(void)self;
	(void)previous;
#ifdef NAM_FIBER_ASAN
	__sanitizer_finish_switch_fiber(self->fake_stack, &previous->stack_bottom,
		&previous->stack_bytes);
#endif
}

static NAM_FIBER_INLINE void
nam__fiber_switch(struct nam_fiber *from, struct nam_fiber *to)
{
	nam__fiber_before_leave(from, to, false);
	nam__fiber_after_arrival(from, nam__fiber_jump(from, to));
}

#endif /* NAM_COMMON_FIBER_SWITCH_H */
