/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rpc/rpc.h"

static uint8_t message[NAM_RPC_BYTES_MAX + 8];

static struct nam_rpc_header *
good(uint32_t body_bytes)
{
	struct nam_rpc_header *header = (struct nam_rpc_header *)(void *)message;

	memset(message, 0xff, sizeof(message));
	nam_rpc_header_fill(header, NAM_RPC_PING, 7, 0, body_bytes);
	return header;
}

static void
rpc_check__well_formed__IS_0(void **state)
{
	struct nam_rpc_header *header = good(0);

	(void)state;
	assert_int_equal(nam_rpc_check(header, 24), 0);
	header = good(NAM_RPC_BODY_MAX);
	assert_int_equal(nam_rpc_check(header, NAM_RPC_BYTES_MAX), 0);
	header->status = -NAM_E_NOINDEX;
	assert_int_equal(nam_rpc_check(header, NAM_RPC_BYTES_MAX), 0);
	assert_int_equal(header->id, 7);
	assert_int_equal(header->type, NAM_RPC_PING);
}

static void
rpc_check__wrong_length__IS_PROTOCOL(void **state)
{
	struct nam_rpc_header *header = good(8);

	(void)state;
	for (size_t bytes = 0; bytes < 100; bytes++) {
		if (bytes != 32)
			assert_int_equal(nam_rpc_check(header, bytes), -NAM_E_FABRIC_PROTOCOL);
	}
	header->body_bytes = UINT32_MAX;
	assert_int_equal(nam_rpc_check(header, 23), -NAM_E_FABRIC_PROTOCOL);
	header->body_bytes = NAM_RPC_BODY_MAX + 1;
	assert_int_equal(nam_rpc_check(header, NAM_RPC_BYTES_MAX + 1), -NAM_E_FABRIC_PROTOCOL);
}

static void
rpc_check__foreign_magic_or_version__IS_TOLD_APART(void **state)
{
	struct nam_rpc_header *header = good(0);

	(void)state;
	header->magic_version ^= 1u << 31;
	assert_int_equal(nam_rpc_check(header, 24), -NAM_E_FABRIC_PROTOCOL);
	header = good(0);
	header->magic_version++;
	assert_int_equal(nam_rpc_check(header, 24), -NAM_E_FABRIC_VERSION);
}

static void
rpc_check__bad_fields__IS_PROTOCOL(void **state)
{
	struct nam_rpc_header *header = good(0);

	(void)state;
	header->type = 0;
	assert_int_equal(nam_rpc_check(header, 24), -NAM_E_FABRIC_PROTOCOL);
	header->type = NAM_RPC_TYPES_COUNT;
	assert_int_equal(nam_rpc_check(header, 24), -NAM_E_FABRIC_PROTOCOL);
	header = good(0);
	header->status = 1;
	assert_int_equal(nam_rpc_check(header, 24), -NAM_E_FABRIC_PROTOCOL);
}

static void
rpc_type_name__every_type__HAS_ONE(void **state)
{
	(void)state;
	for (uint16_t type = 1; type < NAM_RPC_TYPES_COUNT; type++)
		assert_string_not_equal(nam_rpc_type_name(type), "unknown");
	assert_string_equal(nam_rpc_type_name(0), "unknown");
	assert_string_equal(nam_rpc_type_name(UINT16_MAX), "unknown");
	assert_string_equal(nam_rpc_type_name(NAM_RPC_ALLOC), "ALLOC");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rpc_check__well_formed__IS_0),
		cmocka_unit_test(rpc_check__wrong_length__IS_PROTOCOL),
		cmocka_unit_test(rpc_check__foreign_magic_or_version__IS_TOLD_APART),
		cmocka_unit_test(rpc_check__bad_fields__IS_PROTOCOL),
		cmocka_unit_test(rpc_type_name__every_type__HAS_ONE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
