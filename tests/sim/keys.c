/* SPDX-License-Identifier: Apache-2.0 */
/*
 * keys.c -- numbers as keys of any size, and as payloads.
 *
 * Keys of more than 8 bytes: the number but for its last two bits, then bytes that depend on that,
 * then the two bits.  So four neighbours differ in their last byte only.
 */
#include <string.h>

#include "common/hash/hash.h"
#include "stage.h"

#define LAST_BITS 2u

void
sim_key_from_number(const struct sim_scenario *scenario, uint64_t number, void *ret_key)
{
	uint32_t bytes = scenario->key_bytes;
	uint8_t *key = ret_key;

	if (bytes == 8) {
		nam_key_from_u64(number, key);
		return;
	}
	nam_key_from_u64(number >> LAST_BITS, key);
	for (uint32_t i = 8; i < bytes - 1; i++)
		key[i] = (uint8_t)(nam_mix64(number >> LAST_BITS) >> 8 * (i % 8));
	key[bytes - 1] = (uint8_t)(number & ((1u << LAST_BITS) - 1));
}

uint64_t
sim_key_to_number(const struct sim_scenario *scenario, const void *key)
{
	uint32_t bytes = scenario->key_bytes;
	uint64_t number = nam_key_to_u64(key);
	uint8_t again[NAM_KEY_BYTES_MAX];

	if (bytes == 8)
		return number;
	number = number << LAST_BITS | ((const uint8_t *)key)[bytes - 1];
	sim_key_from_number(scenario, number, again);
	/* No client has written such a key. */
	return memcmp(again, key, bytes) ? UINT64_MAX : number;
}

uint64_t
sim_payload_loaded(const struct sim_scenario *scenario, uint64_t number)
{
	return 1 + (scenario->pairs ? number / 2 % SIM_PAYLOADS : number);
}

uint32_t
sim_pairs_most(const struct sim_scenario *scenario, uint32_t keys)
{
	return scenario->pairs ? SIM_PAYLOADS * keys : keys;
}
