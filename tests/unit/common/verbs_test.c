/* SPDX-License-Identifier: Apache-2.0 */
/* verbs_test.c -- what of the verbs provider needs no device: addresses, failures, messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef NAM_VERBS

#include <errno.h>
#include <netdb.h>

#include "common/fabric/verbs.h"
#include "common/fabric/verbs_internal.h"

static void
resolve__good_addresses__GIVE_HOST_AND_PORT(void **state)
{
	static const struct {
		const char *address, *text;
	} good[] = {
		{ "verbs:10.1.2.3:7000", "10.1.2.3:7000" },
		{ "10.1.2.3:1", "10.1.2.3:1" },
		{ "verbs:[fd00::1]:7000", "[fd00::1]:7000" },
		{ "verbs:[::]:65535", "[::]:65535" },
		{ "verbs:0.0.0.0:0", "0.0.0.0:0" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct sockaddr_storage at = { 0 };
		struct nam_diag diag = { "" };
		struct addrinfo *list;
		char text[96];

		assert_int_equal(nam__verbs_resolve(good[i].address, true, &list, &diag), 0);
		memcpy(&at, list->ai_addr, list->ai_addrlen);
		nam__verbs_address_text((struct sockaddr *)&at, text, sizeof(text));
		assert_string_equal(text, good[i].text);
		freeaddrinfo(list);
	}
}

static void
resolve__bad_addresses__SAY_WHAT_IS_WRONG(void **state)
{
	static const struct {
		const char *address, *text;
	} bad[] = {
		{ "verbs:", "verbs:HOST:PORT" },
		{ "verbs:10.0.0.1", "verbs:HOST:PORT" },
		{ "verbs::7000", "verbs:HOST:PORT" },
		{ "verbs:[fd00::1", "verbs:HOST:PORT" },
		{ "verbs:[]:7000", "verbs:HOST:PORT" },
		{ "verbs:[fd00::1]7000", "verbs:HOST:PORT" },
		{ "verbs:fd00::1:7000", "in brackets" },
		{ "verbs:10.0.0.1:", "port ''" },
		{ "verbs:10.0.0.1:65536", "port '65536'" },
		{ "verbs:10.0.0.1:99999999999999999999999", "is not a number" },
		{ "verbs:10.0.0.1:70x", "port '70x'" },
		{ "verbs:10.0.0.1.5:7000", "'10.0.0.1.5' is not known" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct nam_diag diag = { "" };
		struct addrinfo *list;

		assert_true(nam__verbs_resolve(bad[i].address, false, &list, &diag) < 0);
		assert_non_null(strstr(diag.text, bad[i].text));
	}
}

static void
status__of_completions__BECOMES_OUR_CODES(void **state)
{
	(void)state;
	assert_int_equal(nam__verbs_status(IBV_WC_SUCCESS), 0);
	assert_int_equal(nam__verbs_status(IBV_WC_REM_ACCESS_ERR), -NAM_E_FABRIC_ACCESS);
	assert_int_equal(nam__verbs_status(IBV_WC_LOC_PROT_ERR), -NAM_E_FABRIC_ACCESS);
	assert_int_equal(nam__verbs_status(IBV_WC_RETRY_EXC_ERR), -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(nam__verbs_status(IBV_WC_WR_FLUSH_ERR), -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(nam__verbs_status(IBV_WC_RNR_RETRY_EXC_ERR), -NAM_E_FABRIC_TIMEOUT);
	assert_int_equal(nam__verbs_status(IBV_WC_REM_INV_REQ_ERR), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(nam__verbs_status(IBV_WC_LOC_QP_OP_ERR), -NAM_E_FABRIC_CAPABILITY);
	for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_TM_ERR; status++)
		assert_true(nam_err_is(nam__verbs_status(status), NAM_E_FABRIC));
}

static void
hello__packed_and_padded__IS_UNPACKED_AGAIN(void **state)
{
	struct nam_hello in = { .bytes = NAM_HELLO_BYTES_MAX }, out;
	uint8_t padded[196] = { 0 };
	struct verbs_hello packed;

	(void)state;
	memset(in.data, 7, sizeof(in.data));
	nam__verbs_hello_pack(&in, &packed);
	memcpy(padded, &packed, sizeof(packed));
	assert_int_equal(nam__verbs_hello_unpack(padded, sizeof(padded), &out), 0);
	assert_int_equal(out.bytes, in.bytes);
	assert_memory_equal(out.data, in.data, in.bytes);
	nam__verbs_hello_pack(NULL, &packed);
	assert_int_equal(nam__verbs_hello_unpack(&packed, sizeof(packed), &out), 0);
	assert_int_equal(out.bytes, 0);
}

static void
hello__not_ours__IS_REFUSED(void **state)
{
	const struct nam_hello in = { .bytes = 1, .data = "x" };
	struct nam_hello out;
	struct verbs_hello packed;

	(void)state;
	nam__verbs_hello_pack(&in, &packed);
	assert_int_equal(nam__verbs_hello_unpack(NULL, 56, &out), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(nam__verbs_hello_unpack(&packed, sizeof(packed) - 1, &out),
		-NAM_E_FABRIC_PROTOCOL);
	packed.bytes = NAM_HELLO_BYTES_MAX + 1;
	assert_int_equal(nam__verbs_hello_unpack(&packed, sizeof(packed), &out),
		-NAM_E_FABRIC_PROTOCOL);
	packed.bytes = 1;
	packed.version++;
	assert_int_equal(nam__verbs_hello_unpack(&packed, sizeof(packed), &out),
		-NAM_E_FABRIC_VERSION);
	packed.magic = 0;
	assert_int_equal(nam__verbs_hello_unpack(&packed, sizeof(packed), &out),
		-NAM_E_FABRIC_PROTOCOL);
}

static void
domain_open__overrides_that_make_no_sense__ARE_NAMED(void **state)
{
	const struct nam_fabric_options options = { .mtu = "1500" };
	struct nam_diag diag = { "" };
	struct nam_domain *domain;

	(void)state;
	assert_int_equal(nam__verbs_ops.domain_open(&options, &domain, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "1500"));
	assert_non_null(strstr(diag.text, "--mtu"));
}

/* On hosts that have a device there is nothing to be said. */
static void
domain_open__no_device__SAYS_WHAT_TO_DO(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool present = list && list[0];
	struct nam_diag diag = { "" };
	struct nam_domain *domain;

	(void)state;
	if (list)
		ibv_free_device_list(list);
	if (present)
		skip();
	assert_int_equal(nam__verbs_ops.domain_open(NULL, &domain, &diag),
		-NAM_E_FABRIC_CAPABILITY);
	assert_non_null(strstr(diag.text, "rdma_rxe"));
	assert_non_null(strstr(diag.text, "shm:"));
}

static void
find__verbs__IS_BUILT_IN(void **state)
{
	const char *rest;

	(void)state;
	assert_ptr_equal(nam_fabric_find("verbs:10.0.0.1:1", &rest), &nam__verbs_ops);
	assert_string_equal(rest, "10.0.0.1:1");
	assert_non_null(strstr(nam_fabric_names(), "verbs"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(resolve__good_addresses__GIVE_HOST_AND_PORT),
		cmocka_unit_test(resolve__bad_addresses__SAY_WHAT_IS_WRONG),
		cmocka_unit_test(status__of_completions__BECOMES_OUR_CODES),
		cmocka_unit_test(hello__packed_and_padded__IS_UNPACKED_AGAIN),
		cmocka_unit_test(hello__not_ours__IS_REFUSED),
		cmocka_unit_test(domain_open__overrides_that_make_no_sense__ARE_NAMED),
		cmocka_unit_test(domain_open__no_device__SAYS_WHAT_TO_DO),
		cmocka_unit_test(find__verbs__IS_BUILT_IN),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int
main(void)
{
	return 77;	/* built without verbs */
}

#endif
