/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serial.h -- steps of serializable transactions that a memory server's CPU takes.
 *
 * Works on plain pointers into regions, and knows no fabric.  The memory is not trusted: clients
 * can write there, and one-sided requests change it meanwhile.
 */
#ifndef NAM_TXN_SERVER_SERIAL_H
#define NAM_TXN_SERVER_SERIAL_H

#include <stdbool.h>
#include <stdint.h>

#include "common/rpc/serial_rpc.h"
#include "txn/serial/layout.h"

struct nam__server_serial {
	/* Returns `bytes` of memory at an address of this server, or NULL. */
	void *(*find)(void *arg, uint64_t at, uint32_t bytes, bool change);
	void *arg;
	uint64_t store;
};

/*
 * Take a step whose lengths are checked.
 *
 * @more	what comes behind it in the request, 8-byte aligned
 * @reply	room for nam_serial_reply_bytes(), 8-byte aligned
 *
 * Returns 0; -NAM_E_REMOTE_CORRUPT: it leads to no memory of this server; -NAM_E_DROPPED: there is
 * no record of that store; -NAM_E_FABRIC_PROTOCOL: its bytes are not those of a record.
 */
int nam__server_serial_step(const struct nam__server_serial *serial,
	const struct nam_rpc_serial_step *step, const uint64_t *more, uint64_t *reply)
	NAM_MUST_CHECK;

#endif /* NAM_TXN_SERVER_SERIAL_H */
