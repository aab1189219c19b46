/* SPDX-License-Identifier: Apache-2.0 */
/*
 * endpoint.h -- what names an endpoint, and the size of its datagrams; for its slots in fabric.h.
 *
 * A datagram has 1 to NAM_DATAGRAM_BYTES_MAX bytes; others are not sent.  A sender's room comes
 * back only when its cq is polled.  A receiver has room for some hundred datagrams; those that find
 * none are dropped, and neither side hears of it.
 *
 * endpoint_open may need a connection of the domain, which shows the device and the port.
 * endpoint_place may look a new place up on the network.  On Ethernet the kernel asks for the
 * hardware address; a host that does not answer holds the caller for a second.
 */
#ifndef NAM_COMMON_FABRIC_ENDPOINT_H
#define NAM_COMMON_FABRIC_ENDPOINT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct nam_fabric_ops;

struct nam_endpoint {
	const struct nam_fabric_ops *ops;
};

#define NAM_PLACE_BYTES 24u
#define NAM_DATAGRAM_BYTES_MAX 288u	/* between endpoints */

/* Where an endpoint is: all endpoints of a domain have the same place. */
struct nam_endpoint_name {
	uint8_t place[NAM_PLACE_BYTES];
	uint32_t number;	/* never 0 */
};

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_FABRIC_ENDPOINT_H */
