/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lead_fuzz.c -- what memory servers tell a client about others: CLIENT_STATE, PRESENCE, FENCE,
 * SWEEP.
 *
 * input	which decoder, answers
 */
#include "fuzz_rpc.h"

#include "compute/view/presence.c"
#define ask ask_fence
#define explain explain_fence
#include "compute/view/fence.c"
#undef ask
#undef explain
#undef PAUSE_NS
#include "compute/view/sweep.c"

#define SERVERS 3u
#define CLIENT_ID 7u

static void
try_client(struct nam_worker *worker)
{
	struct nam_rpc_client_state_reply state;
	uint8_t voucher[NAM_VOUCHER_BYTES];
	struct nam__presence presence;

	if (!nam__client_voucher_query(worker, CLIENT_ID, 1, &state, voucher) &&
		!memchr(state.name, '\0', sizeof(state.name)))
		abort();
	if (!nam__presence_query(worker, &presence))
		(void)nam__presence_has(&presence, CLIENT_ID);
}

static void
try_fence(struct nam_worker *worker)
{
	struct nam_rpc_fence_reply next;
	struct nam_diag diag = { "" };
	uint32_t state = 0;

	if (!nam__fence_next(worker, CLIENT_ID, &next) && next.client_id >= NAM_CLIENTS_MAX)
		abort();
	(void)!nam__client_fence(worker, NULL, CLIENT_ID, 1, 0, 0, &state, &diag);
}

static void
try_sweep(struct nam_worker *worker)
{
	uint64_t *addresses = fuzz_memory(SERVERS * sizeof(*addresses)), bits, closed;
	struct nam__sweep *sweep = fuzz_memory(sizeof(*sweep));
	struct nam_diag diag = { "" };
	struct nam__swept swept;

	for (unsigned i = 0; i < SERVERS; i++)
		addresses[i] = nam_gaddr_make((uint16_t)(i * NAM_REGIONS_PER_SERVER), 64, 0).raw;
	if (!nam__sweep_open(sweep, worker, true, &diag)) {
		for (uint32_t slot = 0; slot < SERVERS; slot++)
			sweep->begun[slot] = true;
		(void)!spare_living(sweep, &diag);
		(void)!nam__sweep_query(sweep, addresses, SERVERS, &bits);
		(void)!nam__sweep_close(sweep, &closed, &diag);
		(void)!nam__sweep_end(sweep, &swept, &diag);
	}
	nam__sweep_free(sweep);
	free(sweep);
	free(addresses);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	struct nam_worker *worker = fuzz_memory(sizeof(*worker));
	struct nam_client_options options;
	struct nam_client *client;
	unsigned which;

	answers = (struct fuzz_input){ data, bytes };
	which = fuzz_u8(&answers) % 3;
	nam_client_options_init(&options);
	client = nam__client_new(&options);
	if (!client)
		abort();
	client->servers_count = SERVERS;
	for (uint32_t i = 0; i < NAM_SERVERS_MAX; i++)
		client->slot_of_id[i] = i < SERVERS ? (uint16_t)i : NAM__NO_SLOT;
	worker->client = client;
	if (!which)
		try_client(worker);
	else if (which == 1)
		try_fence(worker);
	else
		try_sweep(worker);
	nam__client_free(client);
	free(worker);
	return 0;
}
