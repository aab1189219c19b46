/* SPDX-License-Identifier: Apache-2.0 */
/* design.h -- the design of the indexes that tests make. */
#ifndef NAM_TESTS_LIB_DESIGN_H
#define NAM_TESTS_LIB_DESIGN_H

#include <stdbool.h>
#include <stdint.h>

#include "index/index.h"

/*
 * NAM_TEST_DESIGN of the environment: "coarse:hash", "coarse:range", "coarse:round-robin", and
 * "hybrid:" likewise; without it fine-grained.
 */
bool tree_is_fine(void);

/* Sets it in options that are complete but for it: `servers` memory servers. */
void tree_design_set(uint32_t servers, struct nam_index_options *options);

/* Key number `number`, in the order of numbers: they stand at the keys' ends. */
void tree_key_fill(uint8_t *key, uint32_t bytes, uint64_t number);

#endif /* NAM_TESTS_LIB_DESIGN_H */
