/* SPDX-License-Identifier: Apache-2.0 */
/* etcd.h -- the record as a key of etcd, through its JSON gateway. */
#ifndef NAM_STEWARD_ETCD_H
#define NAM_STEWARD_ETCD_H

#include "record.h"
#include "store.h"

/* @where	"http://HOST:PORT,.../NAME" */
int nam__etcd_open(const char *where, const struct nam__store_options *options,
	struct nam__keeper **ret_keeper, struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_STEWARD_ETCD_H */
