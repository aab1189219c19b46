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
	struct nam_diag diag = { "" };
	int rc = nam__pages_alloc(PROOF_BYTES, 12, false, -1, -1, NULL, &pages, &diag);

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

/* Only memory files are opened: to open a device or a pipe may have effects. */
static int
file_open(uint64_t pid, int number, uint64_t bytes, bool writable)
{
	char path[64], link[64] = "";
	struct stat stat;
	int fd, seals, rc = -EACCES;

	(void)snprintf(path, sizeof(path), "/proc/%" PRIu64 "/fd/%d", pid, number);
	if (readlink(path, link, sizeof(link) - 1) < 0)
		return -errno;
	if (strncmp(link, MEMFD_LINK, strlen(MEMFD_LINK)))
		return -EACCES;
	fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0)
		return -errno;
	/* A file that cannot shrink never faults. */
	seals = fcntl(fd, F_GET_SEALS);
	if (seals >= 0 && (seals & F_SEAL_SHRINK) && !fstat(fd, &stat) && stat.st_size >= 0 &&
		(uint64_t)stat.st_size >= bytes)
		return fd;
	close(fd);
	return rc;
}

static int
map(uint64_t pid, int number, uint64_t bytes, bool writable, uint8_t **ret)
{
	int fd = file_open(pid, number, bytes, writable);
	struct stat stat;
	void *at;
	int rc = 0;

	if (fd < 0)
		return fd;
	/* Of transparent huge pages, if it has them; a file of huge pages aligns itself. */
	at = nam__pages_map(fd, bytes,
		!fstat(fd, &stat) && stat.st_blksize <= (blksize_t)NAM__PAGE_BYTES, writable);
	if (!at)
		rc = errno ? -errno : -ENOMEM;
	close(fd);
	if (!rc)
		*ret = at;
	return rc;
}

int
nam__colocated_map(uint64_t pid, int number, uint64_t bytes, const uint8_t **ret)
{
	uint8_t *at;
	int rc = map(pid, number, bytes, false, &at);

	if (!rc)
		*ret = at;
	return rc;
}

int
nam__colocated_map_share(uint64_t pid, int number, uint64_t bytes, uint8_t **ret)
{
	return map(pid, number, bytes, true, ret);
}

void
nam__colocated_unmap(const uint8_t *base, uint64_t bytes)
{
	(void)munmap((void *)(uintptr_t)base, bytes);
}

int
nam__tree_server_prove(uint64_t pid, int proof_fd, uint64_t nonce)
{
	const uint64_t *words;
	const uint8_t *base;
	uint64_t word;
	int rc = nam__colocated_map(pid, proof_fd, PROOF_BYTES, &base);

	if (rc)
		return rc;
	words = (const uint64_t *)(const void *)base;
	word = __atomic_load_n(&words[word_of(nonce)], __ATOMIC_ACQUIRE);
	nam__colocated_unmap(base, PROOF_BYTES);
	return word == nonce ? 0 : -ESTALE;
}
