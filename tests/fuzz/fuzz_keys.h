/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_keys.h -- a key file that has no name in any folder.
 */
#ifndef NAM_TESTS_FUZZ_FUZZ_KEYS_H
#define NAM_TESTS_FUZZ_FUZZ_KEYS_H

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct fuzz_key_file {
	int fd;
	char path[64];
};

static inline struct fuzz_key_file
fuzz_key_file_open(const void *text, size_t bytes)
{
	struct fuzz_key_file file = { .fd = memfd_create("keys", MFD_CLOEXEC) };

	if (file.fd < 0 || fchmod(file.fd, 0600) ||
		write(file.fd, text, bytes) != (ssize_t)bytes)
		abort();
	(void)snprintf(file.path, sizeof(file.path), "/proc/self/fd/%d", file.fd);
	return file;
}

#endif /* NAM_TESTS_FUZZ_FUZZ_KEYS_H */
