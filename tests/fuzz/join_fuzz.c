/* SPDX-License-Identifier: Apache-2.0 */
/*
 * join_fuzz.c -- what memory servers tell a client that joins: welcomes, regions, views, REGISTER,
 * STATUS.
 *
 * input	which decoder, bytes
 */
#include "fuzz_rpc.h"

#include "compute/client/prober.c"
#include "compute/client/client.c"
#include "compute/client/cluster_view.c"
#include "compute/client/join.c"
#include "compute/client/regions.c"
#include "compute/client/status.c"
#include "compute/client/workers.c"

/* Addresses in accepted regions must be found, and no others. */
static void
look_regions_up(const struct nam_client *client)
{
	uint64_t bytes = 0;

	for (unsigned id = 0; id < NAM_REGIONS_MAX; id += 7) {
		const struct nam_region *region = nam_region_table_find(
			&client->regions, nam_gaddr_make((uint16_t)id, 64, 0));

		if (region)
			bytes += region->bytes;
	}
	if (bytes && !client->servers_count)
		abort();
}

/* An accepted view is in the order of ids, from the lead on. */
static void
try_view(struct nam_worker *worker)
{
	struct nam__cluster_view *view;

	if (nam__cluster_view_get(worker, 0, &view))
		return;
	for (uint32_t i = 0; i < view->head.count; i++)
		if (view->members[i].id < i || (!i && view->members[i].id) ||
			nam__cluster_view_find(view, view->members[i].id) != &view->members[i])
			abort();
	free(view);
}

static void
try_welcome(struct nam_client *client, struct fuzz_input *input)
{
	struct nam_hello reply = { .bytes = fuzz_u8(input) % (NAM_REPLY_BYTES_MAX + 1) };
	struct nam_diag diag = { "" };

	client->servers[0].boot = fuzz_u8(input) & 1;
	fuzz_take(input, reply.data, reply.bytes);
	(void)!welcome_take(client, &client->servers[0], &reply, &diag);
	(void)explain_refusal(client, &client->servers[0], -ECONNREFUSED, &reply, &diag);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct fuzz_input input = { data, bytes };
	struct nam_client_options options;
	struct nam_server_status status;
	struct nam_worker *worker = fuzz_memory(sizeof(*worker));
	struct nam_diag diag = { "" };
	struct nam_client *client;
	unsigned which = fuzz_u8(&input);

	nam_client_options_init(&options);
	client = nam__client_new(&options);
	if (!client)
		abort();
	client->servers_count = 2;
	client->servers[0].id = fuzz_u8(&input);
	client->servers[0].regions_count = fuzz_u16(&input) % 300;
	client->epoch_worker = worker;
	worker->client = client;
	if (which % 5 == 0)
		try_welcome(client, &input);
	answers = input;
	if (which % 5 == 1)
		(void)!nam__regions_learn(client, 0, 1, &diag);
	if (which % 5 == 2 && !nam__regions_learn(client, 0, 1, &diag))
		(void)!register_client(client, 0, 0, &diag);
	if (which % 5 == 3)
		(void)!nam_server_status_get(worker, 0, &status);
	if (which % 5 == 4)
		try_view(worker);
	look_regions_up(client);
	client->epoch_worker = NULL;
	nam__client_free(client);
	free(worker);
	return 0;
}
