/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serial_rpc.h -- steps of serializable transactions that a memory server's CPU takes
 * (txn/README.md).
 *
 * A request has steps on records, buckets and logs of one store.  They are taken in their order.
 * SERIAL_READ has only steps of that kind; SERIAL_CHANGE may have all.
 * If one is refused, the later ones are not taken, and the reply has no body.
 */
#ifndef NAM_COMMON_RPC_SERIAL_RPC_H
#define NAM_COMMON_RPC_SERIAL_RPC_H

#include <stdbool.h>

#include "rpc.h"

enum nam_serial_step {
	NAM_SERIAL_READ = 1,	/* reply: `bytes` from the address on */
	NAM_SERIAL_CAS,		/* of a record's word.  reply: the old word */
	/* If the record's word is `compare`: WRITE what is behind it, then CAS.  reply: same. */
	NAM_SERIAL_COMMIT,
	NAM_SERIAL_LOG,		/* WRITE a part of a log; no reply */
	/*
	 * If the record has that key, and its word is a sequence: CAS the word to the lock word.
	 * reply: as READ, with the word as it was.
	 */
	NAM_SERIAL_LOCK,
};

struct nam_rpc_serial_request {
	uint64_t store;
	uint32_t count;			/* of steps */
	uint32_t reserved;
};
_Static_assert(sizeof(struct nam_rpc_serial_request) == 16, "wire layout");

/*
 * Then, for CAS and COMMIT, two words: compare, swap; for LOCK, the lock word and the key.  Then,
 * for COMMIT and LOG, `bytes`.  Keys and bytes are in whole words, and so are parts of a reply.
 */
struct nam_rpc_serial_step {
	uint64_t at;
	uint32_t offset;		/* LOG; LOCK: the bytes of the key; else 0 */
	uint16_t bytes;			/* CAS: 0 */
	uint16_t step;			/* enum nam_serial_step */
};
_Static_assert(sizeof(struct nam_rpc_serial_step) == 16, "wire layout");

static inline uint32_t
nam_serial_words(uint32_t bytes)
{
	return (bytes + 7u) & ~7u;
}

/* The bytes of a step in a request, and in the reply. */
static inline uint32_t
nam_serial_step_bytes(const struct nam_rpc_serial_step *step)
{
	bool cas = step->step == NAM_SERIAL_CAS || step->step == NAM_SERIAL_COMMIT;

	if (step->step == NAM_SERIAL_LOCK)
		return (uint32_t)sizeof(*step) + 8u + nam_serial_words(step->offset);
	return (uint32_t)sizeof(*step) + (cas ? 16u : 0) +
		(step->step == NAM_SERIAL_READ ? 0 : nam_serial_words(step->bytes));
}

static inline uint32_t
nam_serial_reply_bytes(const struct nam_rpc_serial_step *step)
{
	return step->step == NAM_SERIAL_READ || step->step == NAM_SERIAL_LOCK ?
		nam_serial_words(step->bytes) :
		step->step == NAM_SERIAL_LOG ? 0 : 8u;
}

#endif /* NAM_COMMON_RPC_SERIAL_RPC_H */
