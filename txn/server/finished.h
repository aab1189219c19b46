/* SPDX-License-Identifier: Apache-2.0 */
/* finished.h -- which transactions of each client are over, as memory servers are told. */
#ifndef NAM_TXN_SERVER_FINISHED_H
#define NAM_TXN_SERVER_FINISHED_H

#include <stdbool.h>
#include <stdint.h>

/* Of one client. */
struct nam__finished {
	uint32_t lock;
	uint32_t incarnation;		/* 0: nobody has come yet */
	uint64_t before_us;		/* those with an earlier timestamp are, */
	uint64_t gap_from_us;		/* but for what one that had the id before left undone: */
	uint64_t gap_to_us;		/* that is never known */
};

/* A client says so. */
void nam__finished_add(struct nam__finished *finished, uint32_t incarnation, uint64_t before_us);
/* @clients	NAM_CLIENTS_MAX, by id */
bool nam__finished_has(const struct nam__finished *clients, uint64_t timestamp);

#endif /* NAM_TXN_SERVER_FINISHED_H */
