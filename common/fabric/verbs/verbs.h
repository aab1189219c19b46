/* SPDX-License-Identifier: Apache-2.0 */
/* verbs.h -- the provider for InfiniBand, RoCE and Soft-RoCE; fabric.c lists it. */
#ifndef NAM_COMMON_FABRIC_VERBS_VERBS_H
#define NAM_COMMON_FABRIC_VERBS_VERBS_H

#include "common/fabric/fabric.h"

extern const struct nam_fabric_ops nam__verbs_ops;

#endif /* NAM_COMMON_FABRIC_VERBS_VERBS_H */
