/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.c -- see credentials.h. */
#include "credentials.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/guard.h"

int
nam__client_key_open(struct nam_client *client, struct nam_diag *diag)
{
	struct nam__auth_keys *keys;
	int rc;

	if (!client->options.key || !*client->options.key)
		return 0;
	rc = nam__auth_keys_read(client->options.key, false, &keys, diag);
	if (rc)
		return rc;
	if (keys->count == 1) {
		client->key = keys;
		client->reads_only = keys->keys[0].role == NAM_ROLE_READ;
		return 0;
	}
	rc = nam_diag_set(diag, -EINVAL, "%s: it has %u keys, and a client has one; copy its line "
		"to a file of its own", client->options.key, keys->count);
	nam__auth_keys_free(keys);
	return rc;
}

void
nam__client_key_close(struct nam_client *client)
{
	nam__auth_keys_free(client->key);
	free(client->key_path);
}

int
nam__voucher_take(struct nam_client *client, const void *voucher, uint32_t bytes)
{
	/* A memory server without keys gives none, and has admitted this client all the same. */
	if (bytes && bytes != NAM_VOUCHER_BYTES)
		return -NAM_E_FABRIC_PROTOCOL;
	pthread_mutex_lock(&client->mutex);
	if (bytes)
		memcpy(client->voucher, voucher, bytes);
	pthread_mutex_unlock(&client->mutex);
	return 0;
}

uint32_t
nam__voucher_copy(struct nam_client *client, uint8_t ret_voucher[NAM_VOUCHER_BYTES])
{
	if (!client->key || !client->id)
		return 0;
	pthread_mutex_lock(&client->mutex);
	memcpy(ret_voucher, client->voucher, NAM_VOUCHER_BYTES);
	pthread_mutex_unlock(&client->mutex);
	return NAM_VOUCHER_BYTES;
}

int
nam__shake_answer(void *arg, const struct nam_hello *challenge, struct nam_hello *answer,
	struct nam_diag *diag)
{
	struct nam__shake *shake = arg;
	const struct nam__server *server = shake->server;
	struct nam_wire_challenge wire;
	struct nam_wire_hello hello;
	uint8_t voucher[NAM_VOUCHER_BYTES];
	uint32_t bytes = nam__voucher_copy(shake->client, voucher);

	if (challenge->bytes != sizeof(wire))
		return nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL, "the memory server at %s sent a "
			"challenge of %u bytes", server->address, challenge->bytes);
	memcpy(&wire, challenge->data, sizeof(wire));
	if (wire.magic_version != (NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION))
		return nam_diag_set(diag, -NAM_E_FABRIC_VERSION, "the memory server at %s speaks "
			"another version of the protocol; install the same release on both sides",
			server->address);
	/* C23: no proof for another server than the one that the client knows. */
	if (NAM_GUARD(KEY_SERVER) && server->boot &&
		(wire.boot != server->boot || wire.server_id != server->id))
		return nam_diag_set(diag, -NAM_E_FABRIC_PEER_DEAD, "the memory server at %s was "
			"restarted since this client connected, and its memory is gone; connect "
			"anew", server->address);
	shake->challenge = *challenge;
	memcpy(&hello, shake->hello->data, sizeof(hello));
	nam__proof_answer(&shake->client->key->keys[0], bytes && hello.client_id ? voucher : NULL,
		shake->hello, challenge, &shake->answer);
	*answer = shake->answer;
	return 0;
}

int
nam__shake_finish(void *arg, struct nam_hello *reply, struct nam_diag *diag)
{
	const struct nam__shake *shake = arg;
	const struct nam__auth_keys *key = shake->client->key;

	if (nam__proof_take(&key->keys[0], shake->hello, &shake->challenge, &shake->answer,
			reply))
		return 0;
	return nam_diag_set(diag, -NAM_E_FABRIC_DENIED, "the memory server at %s has not proven "
		"that it knows the key %s of %s; start nam-memserver with --keys, or connect "
		"without a key",
		shake->server->address, key->keys[0].name, shake->client->options.key);
}

int
nam__denial_explain(const struct nam_client *client, const struct nam__server *server,
	struct nam_diag *diag)
{
	if (!client->key)
		return nam_diag_set(diag, -NAM_E_FABRIC_DENIED, "key: the memory server at %s "
			"admits holders of a key only; name the file with yours, here or as "
			"NAM_KEY in the environment", server->address);
	return nam_diag_set(diag, -NAM_E_FABRIC_DENIED, "the memory server at %s does not admit "
		"the key %s of %s. Is that line, unchanged, in the --keys file of its "
		"nam-memserver, as well as an admin's line of server 0's? Was it told to read "
		"them (SIGHUP)?",
		server->address, client->key->keys[0].name, client->options.key);
}
