/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_records.h -- what scenes about record stores do, in litmus_records.c, _locking.c,
 * _collect.c and _dropped.c.
 */
#ifndef NAM_TESTS_SIM_LITMUS_RECORDS_H
#define NAM_TESTS_SIM_LITMUS_RECORDS_H

#include "txn/records.h"
#include "litmus.h"

#define LITMUS_RECORDS 3u
#define LITMUS_STORE "litmus-records"

/* Y is on another memory server, and Z on a third, if there is one. */
enum record { X, Y, Z };

const char *litmus_record_key(enum record record);

/* litmus_mutants.c: a store by a protocol of which an order guard is off takes a wrong one. */
void litmus_mutate(struct nam_records *records);

struct nam_records *litmus_store_open(struct actor *self, uint64_t cache_bytes);
/* The store of the scene, empty.  @options	NULL: the defaults */
struct nam_records *litmus_store_make(struct actor *self,
	const struct nam_records_options *options);

/* The records first .. first + count - 1 by one transaction. */
int litmus_try_put(struct actor *self, struct nam_records *records, enum record first,
	uint32_t count, uint64_t number, uint64_t *ret_timestamp);
/* Its timestamp. */
uint64_t litmus_put(struct actor *self, struct nam_records *records, enum record first,
	uint32_t count, uint64_t number);
int litmus_try_get(struct actor *self, struct nam_records *records, enum record first,
	uint32_t count, uint64_t *ret_numbers);
/* The value of X, or of X and Y, which are always written together. */
uint64_t litmus_get(struct actor *self, struct nam_records *records, enum record first,
	uint32_t count);
void litmus_expect_records(struct actor *self, struct nam_records *records, enum record first,
	uint32_t count, uint64_t number);
/* Where the latest version is, as far as this client knows. */
uint64_t litmus_record_at(const struct nam_records *records, enum record record);

#endif /* NAM_TESTS_SIM_LITMUS_RECORDS_H */
