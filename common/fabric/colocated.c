/* SPDX-License-Identifier: Apache-2.0 */
/* colocated.c -- memory of another process of this host. */
#include "colocated.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "pages.h"

#define PROOF_BYTES (NAM__PROOF_WORDS * sizeof(uint64_t))
#define MEMFD_LINK "/memfd:nam-"

int
nam__proof_open(struct nam__proof *proof)
{
	struct nam__pages pages;
	const struct nam__pages_kind kind = { 12, false, -1, -1 };
	struct nam_diag diag = { "" };
	int rc = nam__pages_alloc(-1, PROOF_BYTES, &kind, NULL, &pages, &diag);

	proof->fd = -1;
	proof->words = NULL;
	if (rc)
		return rc;
	proof->fd = pages.fd;
	proof->words = (uint64_t *)(void *)pages.base;
	return 0;
}

void
nam__proof_close(struct nam__proof *proof)
{
	if (!proof->words)
		return;
	(void)munmap(proof->words, PROOF_BYTES);
	close(proof->fd);
	proof->fd = -1;
	proof->words = NULL;
}

/* Odd numbers, so that none is what an empty word holds. */
static inline uint64_t
word_of(uint64_t nonce)
{
	return nonce / 2 % NAM__PROOF_WORDS;
}

void
nam__proof_write(struct nam__proof *proof, uint64_t nonce)
{
	/* A mapper sees it after the answer has arrived: system calls lie between. */
	__atomic_store_n(&proof->words[word_of(nonce)], nonce, __ATOMIC_RELEASE);
}

void
nam__boot_id(char *ret_text)
{
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	memset(ret_text, 0, NAM__BOOT_ID_BYTES);
	if (!file)
		return;
	if (!fgets(ret_text, NAM__BOOT_ID_BYTES, file))
		ret_text[0] = '\0';
	ret_text[strcspn(ret_text, "\n")] = '\0';
	(void)fclose(file);
}

void *
nam__colocated_map(uint64_t pid, int number, uint64_t bytes, bool writable)
{
	char path[64], link[64] = "";
	struct stat stat;
	void *at = NULL;
	int fd;

	/* Only memory files are opened: to open a device or a pipe may have effects. */
	(void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%d", pid, number);
	if (readlink(path, link, sizeof(link) - 1) < 0 ||
		strncmp(link, MEMFD_LINK, strlen(MEMFD_LINK)))
		return NULL;
	fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return NULL;
	/* Map transparent huge pages, if the file has them; a file of huge pages aligns itself. */
	if (nam__pages_file_bytes(fd) >= (int64_t)bytes && !fstat(fd, &stat))
		at = nam__pages_map(fd, bytes, stat.st_blksize <= (blksize_t)NAM__PAGE_BYTES,
			writable);
	close(fd);
	return at;
}

int
nam__colocated_prove(uint64_t pid, int proof_fd, uint64_t nonce)
{
	uint64_t *words = nam__colocated_map(pid, proof_fd, PROOF_BYTES, false), word;

	if (!words)
		return -EACCES;
	word = __atomic_load_n(&words[word_of(nonce)], __ATOMIC_ACQUIRE);
	(void)munmap(words, PROOF_BYTES);
	return word == nonce ? 0 : -ESTALE;
}
