/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_kv.h -- what scenes about key-value stores share, in litmus_kv.c, litmus_cuckoo.c and
 * litmus_onesided.c.
 */
#ifndef NAM_TESTS_SIM_LITMUS_KV_H
#define NAM_TESTS_SIM_LITMUS_KV_H

#include "kv/kv.h"
#include "litmus.h"

struct nam__store;

/* A worker of a client of its own, by this RPC transport. */
struct nam_worker *litmus_kv_come(enum nam_transport transport, struct nam_client **ret_client);
/* For race points: one time in four a moment in which others may do something. */
void litmus_linger(struct actor *self);

/* Engine cuckoo with one-sided GETs, one partition of so many chunks. */
void litmus_kv_make(struct nam_worker *worker, const char *name, enum nam_kv_mode mode,
	uint32_t chunks);
struct nam_kv *litmus_kv_open(struct nam_worker *worker, const char *name);
/* The same, but each GET with this handle is a request. */
struct nam_kv *litmus_kv_open_asking(struct nam_worker *worker, const char *name);
/* The part of the only memory server. */
struct nam__store *litmus_kv_store(const struct nam_kv *kv);

#endif /* NAM_TESTS_SIM_LITMUS_KV_H */
