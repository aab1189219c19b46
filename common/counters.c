/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

#include <stddef.h>

const char *
nam_op_kind_name(enum nam_op_kind kind)
{
	static const char *const names[] = {
#define NAM_OP_KIND_NAME(name, text) [NAM_OP_##name] = text,
		NAM_OP_KINDS(NAM_OP_KIND_NAME)
#undef NAM_OP_KIND_NAME
	};

	return (unsigned)kind < NAM_OP_KINDS_COUNT ? names[kind] : "unknown";
}

const char *
nam_restart_cause_name(enum nam_restart_cause cause)
{
	static const char *const names[] = {
#define NAM_RESTART_NAME(name, text) [NAM_RESTART_##name] = text,
		NAM_RESTART_CAUSES(NAM_RESTART_NAME)
#undef NAM_RESTART_NAME
	};

	return (unsigned)cause < NAM_RESTART_CAUSES_COUNT ? names[cause] : "unknown";
}

/* Every field is a count. */
void
nam_op_counters_add(struct nam_op_counters *sum, const struct nam_op_counters *more)
{
	const uint64_t *from = (const uint64_t *)more;
	uint64_t *to = (uint64_t *)sum;

	for (size_t i = 0; i < sizeof(*sum) / sizeof(*to); i++)
		to[i] += from[i];
}

uint64_t
nam_op_counters_restarts(const struct nam_op_counters *counters)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < NAM_RESTART_CAUSES_COUNT; i++)
		sum += counters->restarts[i];
	return sum;
}
