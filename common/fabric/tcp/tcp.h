/* SPDX-License-Identifier: Apache-2.0 */
/* tcp.h -- the tcp provider: any network, no NIC that knows of memory. */
#ifndef NAM_COMMON_FABRIC_TCP_TCP_H
#define NAM_COMMON_FABRIC_TCP_TCP_H

#include "common/fabric/fabric.h"

extern const struct nam_fabric_ops nam__tcp_ops;

#endif /* NAM_COMMON_FABRIC_TCP_TCP_H */
