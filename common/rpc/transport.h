/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h -- the ways in which a request and its reply can travel. */
#ifndef NAM_COMMON_RPC_TRANSPORT_H
#define NAM_COMMON_RPC_TRANSPORT_H

#ifdef __cplusplus
extern "C" {
#endif

enum nam_carrier {
	NAM_CARRIER_DEFAULT = 0,	/* what NAM_CARRIER says in the environment, else srq */
	NAM_CARRIER_SRQ = 1,		/* SEND there and back, over shared receive queues */
	NAM_CARRIER_MAILBOX = 2,	/* WRITE there and back, into memory that is polled */
	NAM_CARRIER_FETCH = 3,		/* WRITE there; the reply stays, and the client READs it */
	NAM_CARRIER_DATAGRAM = 4,	/* WRITE there, SEND back; what is lost is tried again */
	NAM_CARRIERS_COUNT
};

/* "srq", "mailbox", "fetch", "datagram"; NULL for what is none. */
const char *nam_carrier_name(enum nam_carrier carrier);

/* The carrier of that name, or -EINVAL. */
int nam_carrier_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_RPC_TRANSPORT_H */
