/* SPDX-License-Identifier: Apache-2.0 */
/*
 * siblings.h -- whether a version names one of a few records, by vectors: for most reads the answer
 * no is all they need.  Versions name their siblings' addresses (P1).
 */
#ifndef NAM_TXN_RAMP_SIBLINGS_H
#define NAM_TXN_RAMP_SIBLINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/layout.h"

#define NAM__NAMED_IDS 4u

/* Whether a sibling that one of the versions names has one of these ids; perhaps, if one is 0. */
typedef bool (*nam__named_fn)(const struct nam_version *const *versions, uint32_t count,
	const uint64_t ids[NAM__NAMED_IDS]);

#define NAM__NAMED_KINDS_MAX 3u

/* The kinds that this processor can run, the fastest last.  Returns how many. */
unsigned nam__named_kinds(nam__named_fn ret_kinds[NAM__NAMED_KINDS_MAX]);

/* The fastest for this processor. */
nam__named_fn nam__named_choose(void);

#endif /* NAM_TXN_RAMP_SIBLINGS_H */
