/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fiber.h -- stacks that are switched by hand, so that code which waits reads from top to bottom.
 *
 * The switch is ours on x86-64 and Boost.Context's elsewhere, or with -DNAM_FIBER_BOOST=ON.  ASan
 * and TSan are told of every switch.  compute/worker/worker.c chooses the next fiber.
 *
 * A function that may switch is marked NAM_FIBER_FN, and the line of each call to one ends with a
 * SUSPENDS comment.  State read before a suspension may be stale after it.
 */
#ifndef NAM_COMMON_FIBER_FIBER_H
#define NAM_COMMON_FIBER_FIBER_H

#include <stddef.h>

#include "../error.h"

#ifdef __cplusplus
extern "C" {
#endif

#define NAM_FIBER_FN /* may suspend: hold no host lock and no thread-local address across it */

/* Sanitizers must be told of switches; clang has its own macros. */
#if defined(__SANITIZE_ADDRESS__)
#define NAM_FIBER_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__)
#define NAM_FIBER_TSAN 1
#endif
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define NAM_FIBER_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define NAM_FIBER_TSAN 1
#endif
#endif

/* The library takes 12 KiB at the most, 6 for points and scans.  The rest is for its callers. */
#if defined(NAM_FIBER_ASAN) || defined(NAM_FIBER_TSAN)
#define NAM_FIBER_STACK_BYTES (256u << 10)
#else
#define NAM_FIBER_STACK_BYTES (24u << 10)
#endif

struct nam_fiber;

typedef void (*nam_fiber_fn)(void *arg);

/* A handle for the calling thread's own stack.  The same thread destroys it. */
int nam_fiber_adopt(struct nam_fiber **ret_fiber) NAM_MUST_CHECK;

/*
 * A fiber that will run fn(arg) when first switched to; fn ends with nam_fiber_exit_to().
 *
 * @stack_bytes	rounded up to pages, with a guard page below; 0: NAM_FIBER_STACK_BYTES.  Memory
 *		is committed as it is touched.
 */
int nam_fiber_create(nam_fiber_fn fn, void *arg, size_t stack_bytes,
	struct nam_fiber **ret_fiber) NAM_MUST_CHECK;

/* Re-arm a fiber that has exited, on the same stack, to run fn(arg) when next switched to. */
void nam_fiber_reset(struct nam_fiber *fiber, nam_fiber_fn fn, void *arg);

/* Leave `from` (the running fiber) and run `to`.  Returns after a switch back to `from`. */
void nam_fiber_switch(struct nam_fiber *from, struct nam_fiber *to);

/* Leave `from` for good; it may be reset or destroyed once another fiber runs. */
void nam_fiber_exit_to(struct nam_fiber *from, struct nam_fiber *to) __attribute__((noreturn));

/* The fiber must not be running.  NULL is allowed. */
void nam_fiber_destroy(struct nam_fiber *fiber);

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_FIBER_FIBER_H */
