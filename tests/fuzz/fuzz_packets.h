/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_packets.h -- packets of the shm handshake, with file descriptors of all sorts, as a hostile
 * process may send them.
 */
#ifndef NAM_TESTS_FUZZ_FUZZ_PACKETS_H
#define NAM_TESTS_FUZZ_FUZZ_PACKETS_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/fabric/shm/shm_internal.h"
#include "fuzz_input.h"

#define FUZZ_FILES 6u

/* Open for the whole run: what is to be sent is duplicated by the kernel. */
static inline const int *
fuzz_files(void)
{
	static int files[FUZZ_FILES];
	static const size_t bytes[4] = { SHM_PAGE_BYTES, sizeof(struct shm_rings), 1u << 16,
		1u << 16 };
	int ends[2];

	if (files[0])
		return files;
	for (unsigned i = 0; i < 4; i++) {
		files[i] = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
		if (files[i] < 0 || ftruncate(files[i], (off_t)bytes[i]))
			abort();
		/* The last one may shrink under its mapping: it must be refused. */
		if (i < 3 && fcntl(files[i], F_ADD_SEALS,
				     F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
			abort();
	}
	files[4] = open("/dev/zero", O_RDWR | O_CLOEXEC);
	if (files[4] < 0 || pipe2(ends, O_CLOEXEC))
		abort();
	files[5] = ends[0];
	return files;
}

/* Send a packet with up to 32 descriptors, chosen by a byte each. */
static inline void
fuzz_send(int fd, struct fuzz_input *input, const void *data, size_t bytes, unsigned fds_count)
{
	int fds[SHM_REGIONS_PER_PACKET];

	for (unsigned i = 0; i < fds_count && i < SHM_REGIONS_PER_PACKET; i++)
		fds[i] = fuzz_files()[fuzz_u8(input) % FUZZ_FILES];
	(void)!nam__shm_packet_send(fd, data, bytes, fds,
		fds_count < SHM_REGIONS_PER_PACKET ? fds_count : SHM_REGIONS_PER_PACKET);
}

#endif /* NAM_TESTS_FUZZ_FUZZ_PACKETS_H */
