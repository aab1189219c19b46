/* SPDX-License-Identifier: Apache-2.0 */
/* shm.h -- the provider for one host without a NIC; fabric.c lists it. */
#ifndef NAM_COMMON_FABRIC_SHM_SHM_H
#define NAM_COMMON_FABRIC_SHM_SHM_H

#include "common/fabric/fabric.h"

extern const struct nam_fabric_ops nam__shm_ops;

#endif /* NAM_COMMON_FABRIC_SHM_SHM_H */
