/* SPDX-License-Identifier: Apache-2.0 */
/* finished.h -- which transactions of each client are over, as memory servers are told. */
#ifndef NAM_TXN_SERVER_FINISHED_H
#define NAM_TXN_SERVER_FINISHED_H

#include <stdbool.h>
#include <stdint.h>

/* The transactions of one client that are over. */
struct nam__finished {
	uint32_t lock;
	uint32_t incarnation;		/* 0: no client has come yet */
	uint64_t before_us;		/* those with an earlier timestamp are over, */
	uint64_t gap_from_us;		/* except unreported ones of an earlier client with this */
	uint64_t gap_to_us;		/* id, which are between these two */
};

/* A client says which of its transactions are over. */
void nam__finished_add(struct nam__finished *finished, uint32_t incarnation, uint64_t before_us);
/* A copy of one moment. */
void nam__finished_get(struct nam__finished *finished, struct nam__finished *ret);
/* @clients	NAM_CLIENTS_MAX, by id */
bool nam__finished_has(const struct nam__finished *clients, uint64_t timestamp);

#endif /* NAM_TXN_SERVER_FINISHED_H */
