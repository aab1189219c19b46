/* SPDX-License-Identifier: Apache-2.0 */
/*
 * register.h -- providers that are not part of libnam.
 *
 * The simulator is the library nam-sim.  It registers its provider, so libnam does not name it.
 */
#ifndef NAM_COMMON_FABRIC_REGISTER_H
#define NAM_COMMON_FABRIC_REGISTER_H

#include "fabric.h"

/*
 * Let nam_fabric_find() know a provider.  Call before any other thread exists.  A second call with
 * the same provider has no effect.  Returns 0 or -ENOSPC.
 */
int nam__fabric_register(const struct nam_fabric_ops *ops) NAM_MUST_CHECK;

/*
 * Why nam_fabric_find() does not find the provider of an address that libnam alone does not serve,
 * and the remedy.  NULL for all other addresses.
 */
const char *nam__fabric_absence(const char *address);

#endif /* NAM_COMMON_FABRIC_REGISTER_H */
