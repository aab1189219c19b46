/* SPDX-License-Identifier: Apache-2.0 */
#include "counters.h"

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

void
nam_op_counters_add(struct nam_op_counters *sum, const struct nam_op_counters *more)
{
	sum->ops += more->ops;
	sum->round_trips += more->round_trips;
	sum->doorbells += more->doorbells;
	sum->work_requests += more->work_requests;
	sum->bytes_in += more->bytes_in;
	sum->bytes_out += more->bytes_out;
	sum->splits += more->splits;
	sum->late_separators += more->late_separators;
	sum->local_reads += more->local_reads;
	sum->local_calls += more->local_calls;
	sum->cache_hits += more->cache_hits;
	sum->cache_misses += more->cache_misses;
	sum->cache_stale += more->cache_stale;
	for (unsigned i = 0; i < NAM_RESTART_CAUSES_COUNT; i++)
		sum->restarts[i] += more->restarts[i];
}
/* A field that was added to the struct and forgotten above would vanish from every report. */
_Static_assert(sizeof(struct nam_op_counters) == (13 + NAM_RESTART_CAUSES_COUNT) * sizeof(uint64_t),
	"add the new field to nam_op_counters_add");

uint64_t
nam_op_counters_restarts(const struct nam_op_counters *counters)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < NAM_RESTART_CAUSES_COUNT; i++)
		sum += counters->restarts[i];
	return sum;
}
