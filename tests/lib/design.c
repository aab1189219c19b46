/* SPDX-License-Identifier: Apache-2.0 */
#include "design.h"

#include <stdlib.h>
#include <string.h>

#include "cluster.h"

#define SERVERS_MAX 16u

void
tree_key_fill(uint8_t *key, uint32_t bytes, uint64_t number)
{
	memset(key, 0x33, bytes);
	nam_key_from_u64(number, key + bytes - 8);
}

bool
tree_is_fine(void)
{
	return !getenv("NAM_TEST_DESIGN");
}

/* Ranges are such that small trees lie on all memory servers. */
void
tree_design_set(uint32_t servers, struct nam_index_options *options)
{
	static uint8_t bounds[SERVERS_MAX * NAM_KEY_BYTES_MAX];
	const char *name = getenv("NAM_TEST_DESIGN");
	const char *partitioning = name ? strchr(name, ':') : NULL;

	if (!name)
		return;
	if (!partitioning || servers > SERVERS_MAX)
		test_die("NAM_TEST_DESIGN: %s, %u memory servers", name, servers);
	if (!strncmp(name, "coarse:", 7)) {
		options->design = NAM_DESIGN_COARSE;
		options->head_interval = 0;
	} else if (!strncmp(name, "hybrid:", 7)) {
		options->design = NAM_DESIGN_HYBRID;
	} else {
		test_die("NAM_TEST_DESIGN: no design %s", name);
	}
	if (!strcmp(partitioning, ":hash"))
		options->partitioning = NAM_PARTITION_HASH;
	else if (!strcmp(partitioning, ":round-robin"))
		options->partitioning = NAM_PARTITION_ROUND_ROBIN;
	else
		options->partitioning = NAM_PARTITION_RANGE;
	for (uint32_t i = 0; i + 1 < servers; i++)
		tree_key_fill(bounds + i * options->key_bytes, options->key_bytes, 300 * (i + 1));
	if (options->partitioning == NAM_PARTITION_RANGE) {
		options->bounds = bounds;
		options->bounds_count = servers - 1;
	}
}
