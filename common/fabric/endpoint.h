/* SPDX-License-Identifier: Apache-2.0 */
/* endpoint.h -- what names an endpoint, and the size of its datagrams. */
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
