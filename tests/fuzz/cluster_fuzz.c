/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cluster_fuzz.c -- cluster texts, as a list and as an INI file, and sizes.
 *
 * input	which, text
 */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/cluster.h"
#include "fuzz_input.h"

static void
check(int rc, const struct nam_cluster *cluster, const struct nam_diag *diag)
{
	if (rc > 0 || (rc && !diag->text[0]))
		abort();
	if (rc)
		return;
	if (!cluster->count || cluster->count > NAM_SERVERS_MAX)
		abort();
	for (uint32_t i = 0; i < cluster->count; i++) {
		const struct nam_cluster_server *server = &cluster->servers[i];

		if (!memchr(server->listen, '\0', sizeof(server->listen)) || !server->listen[0] ||
			!memchr(server->memory, '\0', sizeof(server->memory)) ||
			!memchr(server->pages, '\0', sizeof(server->pages)) ||
			server->id >= (int32_t)NAM_SERVERS_MAX)
			abort();
	}
}

static void
try_file(const uint8_t *data, size_t bytes, struct nam_cluster *cluster, struct nam_diag *diag)
{
	int fd = memfd_create("cluster", MFD_CLOEXEC);
	char name[64];

	if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
		abort();
	(void)snprintf(name, sizeof(name), "@/proc/self/fd/%d", fd);
	check(nam_cluster_parse(name, cluster, diag), cluster, diag);
	close(fd);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct nam_cluster cluster;
	struct nam_diag diag = { "" };
	uint64_t size;
	char *text;

	if (!bytes)
		return 0;
	if (data[0] & 1) {
		try_file(data + 1, bytes - 1, &cluster, &diag);
		return 0;
	}
	text = fuzz_memory(bytes);
	memcpy(text, data + 1, bytes - 1);
	(void)!nam_parse_bytes(text, &size);
	if (text[0] != '@')
		check(nam_cluster_parse(text, &cluster, &diag), &cluster, &diag);
	free(text);
	return 0;
}
