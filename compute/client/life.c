/* SPDX-License-Identifier: Apache-2.0 */
/* life.c -- a client before it is connected to anything, its options, and its end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/frame.h"
#include "compute/auth/credentials.h"
#include "compute/backup/lease.h"
#include "compute/remote/epoch.h"
#include "compute/remote/lock.h"
#include "compute/worker/notes.h"
#include "compute/worker/worker.h"

void
nam_client_options_init(struct nam_client_options *options)
{
	*options = (struct nam_client_options){
		.timeout_ms = 5000,
		.lock_timeout_ms = 1000,
		.fibers_max = 64,
		.frame_bytes = NAM_FRAME_BYTES_MAX,
		.fetch_bytes = 256,
		.copy_rate = 256ull << 20,
	};
}

struct nam_client *
nam__client_new(const struct nam_client_options *options)
{
	struct nam_client *client = aligned_alloc(_Alignof(struct nam_client), sizeof(*client));
	struct nam_client_options defaults;
	const char *key;

	if (!client)
		return NULL;
	nam_client_options_init(&defaults);
	memset(client, 0, sizeof(*client));
	key = options->key ? options->key : getenv("NAM_KEY");
	client->key_path = key ? strdup(key) : NULL;
	client->servers = calloc(NAM_SERVERS_MAX, sizeof(*client->servers));
	if (!client->servers || (key && !client->key_path)) {
		free(client->key_path);
		free(client->servers);
		free(client);
		return NULL;
	}
	TAILQ_INIT(&client->garbage);
	client->gates = NAM__GATES_OPEN;
	client->options = *options;
	client->options.timeout_ms = options->timeout_ms ?: defaults.timeout_ms;
	client->options.lock_timeout_ms = options->lock_timeout_ms ?: defaults.lock_timeout_ms;
	client->options.fibers_max = options->fibers_max ?: defaults.fibers_max;
	client->options.frame_bytes = options->frame_bytes ?: defaults.frame_bytes;
	client->options.fetch_bytes = options->fetch_bytes ?: defaults.fetch_bytes;
	if (client->options.fetch_bytes > client->options.frame_bytes)
		client->options.fetch_bytes = client->options.frame_bytes;
	/* The caller's strings need not outlive the call. */
	snprintf(client->name, sizeof(client->name), "%s",
		options->name ? options->name : program_invocation_short_name);
	client->options.name = client->name;
	client->options.cluster = NULL;
	client->options.key = client->key_path;
	pthread_mutex_init(&client->mutex, NULL);
	pthread_mutex_init(&client->holders_mutex, NULL);
	nam_region_table_init(&client->regions);
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++)
		nam_region_table_init(&client->backups[i]);
	client->post_backed = nam__post_mirrored;
	client->poll_backed = nam__poll_leased;
	return client;
}

/* The parts of a client, in the reverse order of their making. */
void
nam__client_free(struct nam_client *client)
{
	struct nam__server_address *address;

	if (!client)
		return;
	nam__epoch_thread_stop(client);
	if (client->epoch_worker)
		nam__worker_free(client->epoch_worker);
	nam__notes_free(client);
	nam__lock_table_free(client->locks);
	nam_region_table_free(&client->regions);
	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++)
		nam_region_table_free(&client->backups[i]);
	for (uint32_t i = 0; i < NAM_SERVERS_MAX; i++)
		nam__colocated_forget(&client->servers[i]);
	for (uint32_t i = 0; i < client->domains_count; i++)
		client->domains[i]->ops->domain_close(client->domains[i]);
	nam__client_key_close(client);
	free(client->servers);
	while ((address = SLIST_FIRST(&client->addresses))) {
		SLIST_REMOVE_HEAD(&client->addresses, link);
		free(address);
	}
	free(client->names);
	pthread_mutex_destroy(&client->mutex);
	pthread_mutex_destroy(&client->holders_mutex);
	free(client);
}
