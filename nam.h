/* SPDX-License-Identifier: Apache-2.0 */
/* nam.h -- everything that a program on a compute node needs: #include <nam/nam.h>. */
#ifndef NAM_H
#define NAM_H

#include "common/counters.h"
#include "common/error.h"
#include "common/exit.h"
#include "common/gaddr.h"
#include "common/version.h"
#include "compute/admin.h"
#include "compute/client.h"
#include "compute/remote.h"
#include "index/index.h"
#include "kv/kv.h"
#include "txn/records.h"
#include "txn/serializable.h"
#include "txn/sweep.h"
#include "txn/table.h"

#endif /* NAM_H */
