/* SPDX-License-Identifier: Apache-2.0 */
/* vouch.c -- M18: names of clients belong to the holders of the keys that registered them. */
#include "admit.h"

uint32_t
nam__auth_vouch(struct nam_server *server, const struct nam__auth_name *name, uint8_t *ret_voucher)
{
	if (!server->options.keys)
		return 0;
	pthread_mutex_lock(&server->mutex);
	nam__voucher_make(server->keys, name, ret_voucher);
	pthread_mutex_unlock(&server->mutex);
	return NAM_VOUCHER_BYTES;
}

bool
nam__auth_vouched(struct nam_server *server, const struct nam__auth_name *name,
	const uint8_t *voucher, uint32_t bytes)
{
	bool is_good;

	if (!server->options.keys || bytes != NAM_VOUCHER_BYTES)
		return !server->options.keys;
	pthread_mutex_lock(&server->mutex);
	is_good = nam__voucher_check(server->keys, name, voucher);
	pthread_mutex_unlock(&server->mutex);
	return is_good;
}
