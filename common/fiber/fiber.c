/* SPDX-License-Identifier: Apache-2.0 */
#include "switch.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef NAM_FIBER_ASAN
#include <sanitizer/asan_interface.h>
#endif

/*
 * Stacks end on page boundaries, so the hot frames of all fibers would compete for a few sets of
 * the first-level cache.  Therefore stacks begin at different distances from their end.
 */
#define COLORS_COUNT 8u
#define COLOR_BYTES 512u

/* Where a new fiber begins.  It must not return: there is nothing to return to. */
static void
fiber_main(struct nam_fiber *previous, struct nam_fiber *self)
{
	nam__fiber_after_arrival(self, previous);
	self->fn(self->arg);
	abort();	/* fn has broken its promise to call nam_fiber_exit_to() */
}

#ifdef NAM_FIBER_BOOST

static void
boost_main(struct nam_fcontext_transfer transfer)
{
	struct nam_fiber *previous = transfer.data;

	previous->context = transfer.context;
	fiber_main(previous, previous->next);
}

static void *
first_context(char *bottom, size_t bytes)
{
	return make_fcontext(bottom + bytes, bytes, boost_main);
}

#else

/* Looks like a fiber that was about to enter fiber_main, with a null return address and frame. */
static void *
first_context(char *bottom, size_t bytes)
{
	uintptr_t *words = (uintptr_t *)(bottom + bytes) - 3;

	words[0] = 0;
	words[1] = (uintptr_t)fiber_main;
	words[2] = 0;	/* at an address of 8 modulo 16, where the ABI wants a return address */
	return words;
}

#endif

int
nam_fiber_adopt(struct nam_fiber **ret_fiber)
{
	struct nam_fiber *fiber = calloc(1, sizeof(*fiber));

	if (!fiber)
		return -ENOMEM;
#ifdef NAM_FIBER_TSAN
	fiber->tsan = __tsan_get_current_fiber();
#endif
	*ret_fiber = fiber;
	return 0;
}

static int
map_stack(struct nam_fiber *fiber, size_t stack_bytes)
{
	size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	size_t bytes;
	void *mapping;

	if (stack_bytes > SIZE_MAX / 2)
		return -ENOMEM;
	bytes = (stack_bytes + page_bytes - 1) / page_bytes * page_bytes + page_bytes;
	mapping = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
	if (mapping == MAP_FAILED)
		return -errno;
	if (mprotect(mapping, page_bytes, PROT_NONE) != 0) {
		int rc = -errno;

		munmap(mapping, bytes);
		return rc;
	}
	fiber->mapping = mapping;
	fiber->mapping_bytes = bytes;
	return 0;
}

int
nam_fiber_create(nam_fiber_fn fn, void *arg, size_t stack_bytes, struct nam_fiber **ret_fiber)
{
	static _Atomic unsigned created;	/* relaxed: only spreads colours */
	struct nam_fiber *fiber = calloc(1, sizeof(*fiber));
	int rc;

	if (!fiber)
		return -ENOMEM;
	rc = map_stack(fiber, stack_bytes ? stack_bytes : NAM_FIBER_STACK_BYTES);
	if (rc) {
		free(fiber);
		return rc;
	}
	/* A small stack keeps the size that the caller asked for. */
	if (fiber->mapping_bytes >= 6u * COLORS_COUNT * COLOR_BYTES)
		fiber->color_bytes = atomic_fetch_add_explicit(&created, 1, memory_order_relaxed) %
				     COLORS_COUNT * COLOR_BYTES;
	nam_fiber_reset(fiber, fn, arg);
	*ret_fiber = fiber;
	return 0;
}

void
nam_fiber_reset(struct nam_fiber *fiber, nam_fiber_fn fn, void *arg)
{
	size_t guard_bytes = (size_t)sysconf(_SC_PAGESIZE);
	char *bottom = (char *)fiber->mapping + guard_bytes;
	size_t bytes = fiber->mapping_bytes - guard_bytes - fiber->color_bytes;

	fiber->fn = fn;
	fiber->arg = arg;
	fiber->context = first_context(bottom, bytes);
#ifdef NAM_FIBER_ASAN
	/* Frames that were abandoned on the way out have left their red zones behind. */
	__asan_unpoison_memory_region(bottom, fiber->mapping_bytes - guard_bytes);
	fiber->fake_stack = NULL;
	fiber->stack_bottom = bottom;
	fiber->stack_bytes = bytes;
#endif
#ifdef NAM_FIBER_TSAN
	/* A new one each time, since the old one still holds the calls that never returned. */
	if (fiber->tsan)
		__tsan_destroy_fiber(fiber->tsan);
	fiber->tsan = __tsan_create_fiber(0);
#endif
}

void
nam_fiber_switch(struct nam_fiber *from, struct nam_fiber *to)
{
	nam__fiber_switch(from, to);
}

void
nam_fiber_exit_to(struct nam_fiber *from, struct nam_fiber *to)
{
	nam__fiber_before_leave(from, to, true);
	nam__fiber_jump(from, to);
	abort();	/* a switch to a fiber that had exited */
}

void
nam_fiber_destroy(struct nam_fiber *fiber)
{
	if (!fiber)
		return;
	if (fiber->mapping) {
#ifdef NAM_FIBER_TSAN
		__tsan_destroy_fiber(fiber->tsan);
#endif
#ifdef NAM_FIBER_ASAN
		__asan_unpoison_memory_region(fiber->mapping, fiber->mapping_bytes);
#endif
		munmap(fiber->mapping, fiber->mapping_bytes);
	}
	free(fiber);
}
