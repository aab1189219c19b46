/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster.h -- which memory servers form the cluster: a list on the command line, or an INI file.
 *
 *	shm:/run/nam/a,shm:/run/nam/b		or	@/etc/nam/cluster.ini
 *
 *	[server 0]
 *	listen = shm:/run/nam/a
 *	memory = 8G
 *	region = 1G
 *	pages = auto
 *	numa = -1
 *	rpc_threads = 1
 *	log_level = info
 *	metrics = 9466
 */
#ifndef NAM_COMMON_CLUSTER_H
#define NAM_COMMON_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "error.h"
#include "gaddr.h"

struct nam_cluster_server {
	int32_t id;		/* -1: not said (a plain list of addresses) */
	int32_t line;		/* of the file, for messages; 0 for a list */
	char listen[128];
	char memory[32];	/* texts as written; "" where not said */
	char region[32];
	char pages[16];
	char numa[16];
	char rpc_threads[16];
	char log_level[16];
	char metrics[64];
	char keys[128];
};

struct nam_cluster {
	uint32_t count;
	struct nam_cluster_server servers[NAM_SERVERS_MAX];
};

/*
 * Addresses with commas between, or '@' and a file name.
 *
 * Returns 0; -EINVAL with the place and the remedy in *diag; -errno when the file cannot be read.
 * -NAM_E_CLUSTER for one address or one id twice; -NAM_E_LIMIT for too many servers.
 */
int nam_cluster_parse(const char *text, struct nam_cluster *ret_cluster,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* The message for an address that is too long: the fabric's limit, if it is below ours. */
const char *nam_cluster_address_limit(const char *address);

/*
 * The address of a memory server within the process of the one at `address`.  Its port is higher
 * by number * NAM_SERVERS_MAX, or it has ".NUMBER" at its end.  0, -ERANGE or -ENAMETOOLONG.
 */
int nam__cluster_address_beside(const char *address, uint32_t number, char *ret,
	size_t size) NAM_MUST_CHECK;

/*
 * A whole number, perhaps with one of `units`, each of which multiplies it by its factor.  0 or
 * -EINVAL.
 */
int nam__parse_number(const char *text, const char *units, const uint64_t *factors,
	uint64_t *ret_value) NAM_MUST_CHECK;

/* "512M", "1G", "4096", "64k" (powers of 1,024) -> bytes.  0 or -EINVAL. */
int nam_parse_bytes(const char *text, uint64_t *ret_bytes) NAM_MUST_CHECK;

/* The reverse, exact and for people: "8 GiB", "1280 KiB", "100 bytes".  Returns text. */
const char *nam__bytes_text(uint64_t bytes, char *text, size_t size);

#endif /* NAM_COMMON_CLUSTER_H */
