/* SPDX-License-Identifier: Apache-2.0 */
/* handshake.h -- how queue pairs come to be: connect.c, listen.c, and their packets in socket.c. */
#ifndef NAM_COMMON_FABRIC_SHM_HANDSHAKE_H
#define NAM_COMMON_FABRIC_SHM_HANDSHAKE_H

#include "shm_internal.h"

/* ---- socket.c ------------------------------------------------------------------------- */

int nam__shm_address(const char *address, struct sockaddr_un *ret, struct nam_diag *diag)
	NAM_MUST_CHECK;
/* One packet, never waiting. */
int nam__shm_packet_send(int fd, const void *data, size_t bytes, const int *fds,
	unsigned fds_count) NAM_MUST_CHECK;
/* One packet; -EAGAIN when there is none in time.  Descriptors are the caller's. */
int nam__shm_packet_recv(int fd, void *data, size_t size, size_t *ret_bytes, int *fds,
	unsigned fds_max, unsigned *ret_fds) NAM_MUST_CHECK;
void nam__shm_close_all(const int *fds, unsigned count);

#endif /* NAM_COMMON_FABRIC_SHM_HANDSHAKE_H */
