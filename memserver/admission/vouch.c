/* SPDX-License-Identifier: Apache-2.0 */
/* vouch.c -- M18: names belong to the holders of the keys that registered them. */
#include "admit.h"

uint32_t
nam__auth_vouch(struct nam_server *server, struct nam__claim claim, uint8_t *ret_voucher)
{
	if (!server->options.keys)
		return 0;
	NAM__SCOPED_LOCK(&server->mutex);
	nam__voucher_make(server->keys, &claim, ret_voucher);
	return NAM_VOUCHER_BYTES;
}

bool
nam__auth_vouched(struct nam_server *server, struct nam__claim claim, const uint8_t *voucher,
	uint32_t bytes)
{
	if (!server->options.keys || bytes != NAM_VOUCHER_BYTES)
		return !server->options.keys;
	NAM__SCOPED_LOCK(&server->mutex);
	return nam__voucher_check(server->keys, &claim, voucher);
}

uint32_t
nam__auth_vouch_name(struct nam_server *server, const struct nam__auth_name *name,
	uint8_t *ret_voucher)
{
	return nam__auth_vouch(server, nam__claim_name(name), ret_voucher);
}

/* M18 */
bool
nam__auth_vouched_name(struct nam_server *server, const struct nam__auth_name *name,
	const uint8_t *voucher, uint32_t bytes)
{
	return nam__auth_vouched(server, nam__claim_name(name), voucher, bytes) ||
		!NAM_GUARD(KEY_CLIENT);
}
