/* SPDX-License-Identifier: Apache-2.0 */
/* kill_client.h -- what the coordinator of kill_client_test.c and its children agree on. */
#ifndef NAM_TESTS_PROCESS_KILL_CLIENT_H
#define NAM_TESTS_PROCESS_KILL_CLIENT_H

#include <stdint.h>

#include "tests/lib/cluster.h"
#include "nam.h"

#define INDEX "shared"
#define LOCK_MS 500u
/* The bound that README promises. */
#define BOUND_NS test_bound_ns(LOCK_MS * 1000000ull + 1000000000ull)
#define NUMBERS_MAX 400000u
#define NUMBERS numbers()
#define CLASSES 8u			/* of numbers; 0: there before the first death */
#define SURVIVOR 1u
#define LATE 2u				/* the coordinator's, after the deaths */
#define VICTIM 3u			/* and those after it */

/* How many there are, in all classes. */
uint64_t numbers(void);
uint64_t payload_of(uint64_t number);
/* Number `i` of a class, spread over the whole tree. */
uint64_t number_of(unsigned class, uint64_t i);

int insert(struct nam_worker *worker, struct nam_index *index, uint64_t number);
int lookup(struct nam_worker *worker, struct nam_index *index, uint64_t number,
	uint64_t *ret_payload);
struct nam_index *open_index(struct nam_worker *worker, uint64_t cache_bytes);

/*
 * The children.  A victim inserts and says so until it is killed.  The survivor changes, looks and
 * scans all the while.  The locker kills itself while it holds one particular lock.
 */
int victim_main(char **argv);
int survivor_main(char **argv);
int locker_main(char **argv);

#endif /* NAM_TESTS_PROCESS_KILL_CLIENT_H */
