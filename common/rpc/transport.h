/* SPDX-License-Identifier: Apache-2.0 */
/* transport.h -- the ways in which a request and its reply can travel. */
#ifndef NAM_COMMON_RPC_TRANSPORT_H
#define NAM_COMMON_RPC_TRANSPORT_H

#ifdef __cplusplus
extern "C" {
#endif

enum nam_transport {
	NAM_TRANSPORT_DEFAULT = 0,	/* compute/client.h says which */
	NAM_TRANSPORT_SRQ = 1,		/* SEND there and back, over shared receive queues */
	NAM_TRANSPORT_MAILBOX = 2,	/* WRITE there and back, into memory that is polled */
	/* WRITE there; the reply stays, and the client READs it */
	NAM_TRANSPORT_FETCH = 3,
	NAM_TRANSPORT_DATAGRAM = 4,	/* WRITE there, SEND back; what is lost is tried again */
	NAM_TRANSPORTS_COUNT
};

/* "srq", "mailbox", "fetch", "datagram"; NULL for what is none. */
const char *nam_transport_name(enum nam_transport transport);

/* The RPC transport of that name, or -EINVAL. */
int nam_transport_find(const char *name);

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_RPC_TRANSPORT_H */
