/* SPDX-License-Identifier: Apache-2.0 */
/* options.c -- what the designs are like, and the defaults of an index. */
#include "index_internal.h"

const struct nam_index_traits *
nam_index_traits(enum nam_index_design design)
{
	static const struct nam_index_traits traits[] = {
		{ "unknown", false, 0 },
		[NAM_DESIGN_FINE] = { "fine", false, UINT32_MAX },
		[NAM_DESIGN_COARSE] = { "coarse", true, 0 },
		[NAM_DESIGN_HYBRID] = { "hybrid", true, 1 },
	};

	return &traits[design < sizeof(traits) / sizeof(traits[0]) ? design : 0];
}

const char *
nam_partitioning_name(const struct nam_index_options *options)
{
	static const char *const names[] = {
		[NAM_PARTITION_RANGE] = "range",
		[NAM_PARTITION_HASH] = "hash",
		[NAM_PARTITION_ROUND_ROBIN] = "round-robin",
	};

	return nam_index_traits(options->design)->partitioned ? names[options->partitioning] :
		"none";
}

void
nam_index_options_init(struct nam_index_options *options)
{
	*options = (struct nam_index_options){
		.design = NAM_DESIGN_FINE,
		.partitioning = NAM_PARTITION_HASH,
		.key_bytes = 8,
		.unique = true,
		.node_bytes = 1024,
		.head_interval = NAM__HEAD_INTERVAL,
	};
}
