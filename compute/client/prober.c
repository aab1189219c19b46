/* SPDX-License-Identifier: Apache-2.0 */
/* prober.c -- clients without an id, which lock nothing: they ask one memory server. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "compute/auth/credentials.h"
#include "compute/view/presence.h"
#include "compute/worker/worker.h"

#define OVER_TIMEOUT_MS 500u		/* for a lead that may have vanished with its host */

int
nam__prober_connect(const struct nam_client_options *options, const char *address,
	uint32_t timeout_ms, bool waits, struct nam_client **ret_client, struct nam_diag *diag)
{
	struct nam_client_options own = *options;
	struct nam_cluster_server at = { .id = -1 };
	struct nam_client *client;

	own.transport = NAM_TRANSPORT_SRQ;
	if (timeout_ms && (!own.timeout_ms || timeout_ms < own.timeout_ms))
		own.timeout_ms = timeout_ms;
	client = nam__client_new(&own);
	if (!client)
		return nam_diag_set(diag, -ENOMEM, "no memory for a client");
	(void)snprintf(at.listen, sizeof(at.listen), "%s", address);
	client->is_prober = !waits;
	*ret_client = client;
	return nam__servers_open(client, &at, 1, diag);
}

bool
nam__probed_ended(const struct nam_client *prober, int rc)
{
	return nam_err_is(rc, NAM_E_FABRIC_STARTING) || (rc && prober && prober->servers[0].absent);
}

/* The lead's answer about this client, over a new connection.  No voucher is zeroes. */
static int
own_state(const struct nam_client *client, struct nam_rpc_client_state_reply *ret_state,
	uint8_t ret_voucher[NAM_VOUCHER_BYTES])
{
	const struct nam__server *lead = &client->servers[client->catalog_slot];
	struct nam_client *prober = NULL;
	struct nam_diag diag;
	int rc = nam__prober_connect(&client->options, lead->address, OVER_TIMEOUT_MS, false,
		&prober,
		&diag);

	*ret_state = (struct nam_rpc_client_state_reply){ .state = NAM_CLIENT_UNKNOWN };
	memset(ret_voucher, 0, NAM_VOUCHER_BYTES);
	if (!rc && prober->servers[0].boot == lead->boot)
		rc = nam__client_voucher_query(prober->epoch_worker, client->id,
			client->incarnation,
			ret_state, ret_voucher); /* SUSPENDS */
	nam__client_free(prober);
	return rc;
}

bool
nam__client_is_over(const struct nam_client *client)
{
	struct nam_rpc_client_state_reply state;
	uint8_t voucher[NAM_VOUCHER_BYTES];
	int rc = own_state(client, &state, voucher); /* SUSPENDS */

	/* The lead fences the holders of a key that it admits no more. */
	return nam_err_is(rc, NAM_E_FABRIC_DENIED) || (!rc &&
		(state.state == NAM_CLIENT_FENCING || state.state == NAM_CLIENT_DEAD));
}

bool
nam__voucher_renew(struct nam_client *client)
{
	static const uint8_t none[NAM_VOUCHER_BYTES];
	struct nam_rpc_client_state_reply state;
	uint8_t voucher[NAM_VOUCHER_BYTES];
	bool is_new;

	if (!client->key || !client->id ||
		own_state(client, &state, voucher) || /* SUSPENDS */
		!memcmp(voucher, none, sizeof(none)))
		return false;
	pthread_mutex_lock(&client->mutex);
	is_new = memcmp(client->voucher, voucher, sizeof(voucher)) != 0;
	memcpy(client->voucher, voucher, sizeof(voucher));
	pthread_mutex_unlock(&client->mutex);
	return is_new;
}
