/* SPDX-License-Identifier: Apache-2.0 */
/*
 * colocated.h -- memory of another process of this host, where a provider's regions are files.
 *
 * The owner sends its process id, its descriptors, and the descriptor of a page of words.  The
 * mapper draws a number, and the peer that answers over the network writes it there.  A process of
 * this host that shows the number is that peer.  Ids of processes and of boots prove less: they are
 * alike in two copies of one virtual machine.
 */
#ifndef NAM_COMMON_FABRIC_COLOCATED_H
#define NAM_COMMON_FABRIC_COLOCATED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/error.h"

/* Memory of a peer that this processor can read, so that READs become copies: see qp_post. */
struct nam_colocated_region {
	uint64_t remote;	/* as in nam_wr */
	uint64_t bytes;
	_Atomic uint32_t rkey;	/* changes once the peer has restored the region */
	const uint8_t *base;
};

struct nam_colocated {
	uint64_t pid;			/* of the memory server */
	SLIST_ENTRY(nam_colocated) before;	/* of earlier processes; still in use, perhaps */
	uint32_t count;
	struct nam_colocated_region regions[];
};

/* The share of this process alone, which it may also write. */
struct nam_colocated_share {
	uint64_t remote;
	uint64_t bytes;
	uint32_t rkey;
	uint8_t *base;			/* NULL: it is not near */
};

#define NAM__BOOT_ID_BYTES 40u
#define NAM__PROOF_WORDS 512u

struct nam__proof {
	int fd;			/* -1: there is none */
	uint64_t *words;
};

int nam__proof_open(struct nam__proof *proof) NAM_MUST_CHECK;
void nam__proof_close(struct nam__proof *proof);
/* Any thread. */
void nam__proof_write(struct nam__proof *proof, uint64_t nonce);

/* The boot id of the running kernel, as text with a NUL; all zero if it is not known. */
void nam__boot_id(char *ret_text);

/*
 * Map a descriptor's file of a process, `bytes` bytes.  NULL on failure: only a sealed memory file
 * of that size is touched.  The caller unmaps it.
 */
void *nam__colocated_map(uint64_t pid, int fd, uint64_t bytes, bool writable);
/* Whether that process has been told the number. */
int nam__colocated_prove(uint64_t pid, int proof_fd, uint64_t nonce) NAM_MUST_CHECK;

#endif /* NAM_COMMON_FABRIC_COLOCATED_H */
