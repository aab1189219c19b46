/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c -- the tables of all ways in which record stores commit. */
#include "ops.h"
#include "protocols.h"

#include "txn/collect/in_doubt.h"

/* A step without an action.  One-sided: no client finds an uncommitted version to be withdrawn. */
static int
nothing(struct nam__txn *txn)
{
	(void)txn;
	return 0;
}

static enum nam__step
never_fractured(struct nam__txn *txn, int *ret_rc)
{
	(void)txn;
	(void)ret_rc;
	return NAM__STEP_DONE;
}

#define RAMP .get = nam__ramp_get, .put = nam__ramp_put

static const struct nam__records_ops onesided = {
	RAMP,
	.look = NAM__ITEM_HEAD,
	.siblings = true,
	.begin = nothing,
	.fractured = nam__fractured_fast,
	.prepare = nam__onesided_prepare,
	.prepare_again = nam__onesided_prepare_again,
	.withdraw = nothing,
	.commit = nam__txn_commit,
	.sweep = nothing,
	.close = nam__onesided_close,
	.in_doubt_add = nam__in_doubt_add_latest,
	.in_doubt_end = nam__in_doubt_end_onesided,
};

#define SERVED                                                                                      \
	.served = true,                                                                             \
	.look = NAM__ITEM_REQUEST,                                                                  \
	.prepare = nam__served_prepare,                                                             \
	.prepare_again = nam__served_prepare,                                                       \
	.withdraw = nam__served_withdraw,                                                           \
	.commit = nam__served_commit,                                                               \
	.close = nam__served_close,                                                                 \
	.in_doubt_end = nam__in_doubt_end_served

#define SERVED_RAMP                                                                                 \
	SERVED, RAMP, .sweep = nam__served_sweep, .in_doubt_add = nam__in_doubt_add_prepared

static const struct nam__records_ops served[] = {
	[NAM_RAMP_FAST] = {
		SERVED_RAMP,
		.siblings = true,
		.begin = nothing,
		.fractured = nam__fractured_fast,
	},
	[NAM_RAMP_SMALL] = {
		SERVED_RAMP,
		.by_stamps = true,
		.begin = nam__begin_small,
		.fractured = nam__fractured_small,
	},
	[NAM_RAMP_HYBRID] = {
		SERVED_RAMP,
		.by_stamps = true,
		.filter_bytes = sizeof(struct nam_version_filter),
		.begin = nothing,
		.fractured = nam__fractured_hybrid,
	},
	[NAM_RAMP_NONE] = {
		SERVED_RAMP,
		.begin = nothing,
		.fractured = never_fractured,
	},
	[NAM_RAMP_LOCKING] = {
		SERVED,
		.siblings = true,
		.get = nam__locking_get,
		.put = nam__locking_put,
		.begin = nothing,
		.fractured = never_fractured,
		.sweep = nam__locks_sweep,
		.in_doubt_add = nam__in_doubt_add_locked,
	},
};

const struct nam__records_ops *
nam__records_ops_of(const struct nam_records_options *options)
{
	return options->commit == NAM_RECORDS_ONESIDED ? &onesided : &served[options->algorithm];
}
