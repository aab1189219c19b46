/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verbs_test.c -- what of the verbs provider needs no device: addresses, failures, messages; and
 * what devices promise.  Tests of a real device (NAM_DEVICE names one) are skipped without it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#ifdef NAM_VERBS

#include <errno.h>
#include <netdb.h>

#include "common/sim/sim.h"
#include "common/fabric/provider.h"
#include "common/fabric/verbs/verbs_internal.h"

static void
resolve__good_addresses__GIVE_THE_HOST(void **state)
{
	static const struct {
		const char *address, *text;
	} good[] = {
		{ "verbs:10.1.2.3:7000", "10.1.2.3" },
		{ "10.1.2.3:1", "10.1.2.3" },
		{ "verbs:[fd00::1]:7000", "fd00::1" },
		{ "verbs:[::]:65535", "::" },
		{ "verbs:0.0.0.0:1", "0.0.0.0" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct sockaddr_storage at = { 0 };
		struct nam_diag diag = { "" };
		struct addrinfo *list;
		char text[96];

		assert_int_equal(nam__inet_resolve("verbs", good[i].address, true, &list, &diag),
			0);
		memcpy(&at, list->ai_addr, list->ai_addrlen);
		nam__inet_text((struct sockaddr *)&at, text, sizeof(text));
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
		{ "verbs:10.0.0.1:0", "from 1 to 65535" },
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

		assert_true(nam__inet_resolve("verbs", bad[i].address, false, &list, &diag) < 0);
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
	assert_int_equal(nam__verbs_sent_status(IBV_WC_REM_INV_REQ_ERR, NAM_WR_SEND),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(nam__verbs_sent_status(IBV_WC_REM_INV_REQ_ERR, NAM_WR_CAS),
		-NAM_E_FABRIC_ACCESS);
	assert_int_equal(nam__verbs_sent_status(IBV_WC_RETRY_EXC_ERR, NAM_WR_CAS),
		-NAM_E_FABRIC_PEER_DEAD);
	for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_TM_ERR; status++)
		assert_true(nam_err_is(nam__verbs_status(status), NAM_E_FABRIC));
}

static void
hello__packed_and_padded__IS_UNPACKED_AGAIN(void **state)
{
	struct nam_hello in = { .bytes = NAM_HELLO_BYTES_MAX }, out;
	uint8_t padded[196] = { 0 };
	struct verbs_hello packed;
	struct verbs_params params = { 0 };

	(void)state;
	memset(in.data, 7, sizeof(in.data));
	nam__verbs_pack(VERBS_HELLO, &in, IBV_MTU_512, &packed);
	memcpy(padded, &packed, sizeof(packed));
	assert_int_equal(nam__verbs_unpack(VERBS_HELLO, padded, sizeof(padded), &out, &params), 0);
	assert_int_equal(params.mtu, IBV_MTU_512);
	assert_int_equal(params.kind, VERBS_PLAIN);
	assert_int_equal(out.bytes, in.bytes);
	assert_memory_equal(out.data, in.data, in.bytes);
	nam__verbs_pack(VERBS_HELLO, NULL, 0, &packed);
	assert_int_equal(nam__verbs_unpack(VERBS_HELLO, &packed, sizeof(packed), &out, &params), 0);
	assert_int_equal(params.mtu, 0);
	assert_int_equal(out.bytes, 0);
}

static void
reply__of_all_its_bytes__IS_UNPACKED_AGAIN(void **state)
{
	struct nam_hello in = { .bytes = NAM_REPLY_BYTES_MAX }, out;
	uint8_t padded[148] = { 0 };
	struct verbs_reply packed;
	struct verbs_params params = { 0 };

	(void)state;
	memset(in.data, 7, sizeof(in.data));
	nam__verbs_pack(VERBS_REPLY, &in, IBV_MTU_512, &packed);
	memcpy(padded, &packed, sizeof(packed));
	assert_int_equal(nam__verbs_unpack(VERBS_REPLY, padded, sizeof(padded), &out, &params), 0);
	assert_int_equal(params.mtu, IBV_MTU_512);
	assert_int_equal(out.bytes, in.bytes);
	assert_memory_equal(out.data, in.data, in.bytes);
	/* A request to connect has no room for a reply. */
	assert_int_equal(nam__verbs_unpack(VERBS_REPLY, padded, 56, &out, &params),
		-NAM_E_FABRIC_PROTOCOL);
	packed.bytes = NAM_REPLY_BYTES_MAX + 1;
	assert_int_equal(nam__verbs_unpack(VERBS_REPLY, &packed, sizeof(packed), &out, &params),
		-NAM_E_FABRIC_PROTOCOL);
	/* An answer is not for a client, and a challenge not for a memory server. */
	packed.bytes = 1;
	packed.params.kind = VERBS_ANSWER;
	assert_int_equal(nam__verbs_unpack(VERBS_REPLY, &packed, sizeof(packed), &out, &params),
		-NAM_E_FABRIC_PROTOCOL);
	packed.params.kind = VERBS_CHALLENGE;
	assert_int_equal(nam__verbs_unpack(VERBS_HELLO, &packed, sizeof(packed), &out, &params),
		-NAM_E_FABRIC_PROTOCOL);
}

static void
mtu__of_path_and_wishes__IS_THE_SMALLEST_SAID(void **state)
{
	struct nam_hello out;
	struct verbs_hello packed;
	struct verbs_params params = { .mtu = 9 };

	(void)state;
	assert_int_equal(nam__verbs_mtu(IBV_MTU_1024, 0, 0), IBV_MTU_1024);
	assert_int_equal(nam__verbs_mtu(IBV_MTU_1024, IBV_MTU_256, 0), IBV_MTU_256);
	assert_int_equal(nam__verbs_mtu(IBV_MTU_1024, 0, IBV_MTU_512), IBV_MTU_512);
	assert_int_equal(nam__verbs_mtu(IBV_MTU_1024, IBV_MTU_512, IBV_MTU_256), IBV_MTU_256);
	assert_int_equal(nam__verbs_mtu(IBV_MTU_1024, IBV_MTU_4096, IBV_MTU_2048), IBV_MTU_1024);
	/* A peer's values are bounded before use. */
	nam__verbs_pack(VERBS_HELLO, NULL, 200, &packed);
	assert_int_equal(nam__verbs_unpack(VERBS_HELLO, &packed, sizeof(packed), &out, &params), 0);
	assert_int_equal(params.mtu, 0);
}

static void
hello__not_ours__IS_REFUSED(void **state)
{
	const struct nam_hello in = { .bytes = 1, .data = "x" };
	struct nam_hello out;
	struct verbs_hello packed;
	struct verbs_params params;

	(void)state;
	nam__verbs_pack(VERBS_HELLO, &in, IBV_MTU_512, &packed);
	assert_int_equal(nam__verbs_unpack(VERBS_HELLO, NULL, 56, &out, &params),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(nam__verbs_unpack(VERBS_HELLO, &packed, sizeof(packed) - 1, &out, &params),
		-NAM_E_FABRIC_PROTOCOL);
	packed.bytes = NAM_HELLO_BYTES_MAX + 1;
	assert_int_equal(nam__verbs_unpack(VERBS_HELLO, &packed, sizeof(packed), &out, &params),
		-NAM_E_FABRIC_PROTOCOL);
	packed.bytes = 1;
	packed.version++;
	assert_int_equal(nam__verbs_unpack(VERBS_HELLO, &packed, sizeof(packed), &out, &params),
		-NAM_E_FABRIC_VERSION);
	packed.magic = 0;
	assert_int_equal(nam__verbs_unpack(VERBS_HELLO, &packed, sizeof(packed), &out, &params),
		-NAM_E_FABRIC_PROTOCOL);
}

static void
say_no_device__no_way_to_the_host__NAMES_THAT_FIRST(void **state)
{
	static const int unreachable[] = { -ETIMEDOUT, -EHOSTUNREACH, -ENETUNREACH };
	struct nam_diag diag = { "" };

	(void)state;
	for (size_t i = 0; i < sizeof(unreachable) / sizeof(unreachable[0]); i++) {
		assert_int_equal(nam__verbs_diag_no_device("verbs:10.0.0.9:7000", "rxe0, rxe1",
			unreachable[i], &diag), -NAM_E_FABRIC_CONNECT);
		assert_ptr_equal(diag.text,
			strstr(diag.text, "verbs: 'verbs:10.0.0.9:7000' cannot be reached"));
		assert_null(strstr(diag.text, "NAM_DEVICE"));
	}
}

static void
say_no_device__a_way_without_a_device__SAYS_HOW_TO_NAME_ONE(void **state)
{
	static const int others[] = { 0, -ENODEV };
	struct nam_diag diag = { "" };

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		assert_int_equal(nam__verbs_diag_no_device(NULL, "rxe0, rxe1", others[i], &diag),
			-NAM_E_FABRIC_CONNECT);
		assert_non_null(strstr(diag.text, "several RDMA devices (rxe0, rxe1)"));
		assert_non_null(strstr(diag.text, "NAM_DEVICE"));
	}
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
	assert_non_null(strstr(diag.text, "mtu"));
}

static bool
device_present(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	bool present = list && list[0];

	if (list)
		ibv_free_device_list(list);
	return present;
}

/* A device as most are. */
static struct ibv_device_attr
usual_device(void)
{
	return (struct ibv_device_attr){
		.atomic_cap = IBV_ATOMIC_HCA,
		.max_srq = 960,
		.max_srq_wr = 16384,
		.max_qp_wr = 8192,
	};
}

/* A device has at least the bits of the simulator's profile. */
static void
caps__of_a_usual_device__ARE_THOSE_OF_THE_SIMULATORS_VERBS(void **state)
{
	const struct ibv_device_attr attr = usual_device();

	(void)state;
	assert_string_equal(nam_sim_profile_name(NAM_SIM_VERBS), nam__verbs_ops.name);
	assert_int_equal(nam__verbs_caps(&attr), nam_sim_profile_caps(NAM_SIM_VERBS));
}

static void
caps__atomics_that_hold_against_the_cpu__ARE_ONE_BIT_MORE(void **state)
{
	struct ibv_device_attr attr = usual_device();

	(void)state;
	attr.atomic_cap = IBV_ATOMIC_GLOB;
	assert_int_equal(nam__verbs_caps(&attr),
		nam_sim_profile_caps(NAM_SIM_VERBS) | NAM_CAP_ATOMIC_VS_CPU);
}

static void
usable__devices_with_all_that_it_takes__ARE(void **state)
{
	struct ibv_device_attr attr = usual_device();
	struct nam_diag diag = { "" };

	(void)state;
	assert_int_equal(nam__verbs_usable("mlx5_0", &attr, &diag), 0);
	attr.atomic_cap = IBV_ATOMIC_GLOB;
	assert_int_equal(nam__verbs_usable("mlx5_0", &attr, &diag), 0);
	assert_string_equal(diag.text, "");
}

static void
usable__no_atomics__IS_REFUSED_WITH_A_REASON(void **state)
{
	struct ibv_device_attr attr = usual_device();
	struct nam_diag diag = { "" };

	(void)state;
	attr.atomic_cap = IBV_ATOMIC_NONE;
	assert_int_equal(nam__verbs_usable("efa_0", &attr, &diag), -NAM_E_FABRIC_CAPABILITY);
	assert_non_null(strstr(diag.text, "efa_0 has no atomic operations"));
	assert_non_null(strstr(diag.text, "device"));
}

static void
usable__no_shared_receive_queues__IS_REFUSED_WITH_A_REASON(void **state)
{
	struct ibv_device_attr attr = usual_device();
	struct nam_diag diag = { "" };

	(void)state;
	attr.max_srq = 0;
	assert_int_equal(nam__verbs_usable("siw0", &attr, &diag), -NAM_E_FABRIC_CAPABILITY);
	assert_non_null(strstr(diag.text, "siw0 has no shared receive queues"));
	attr = usual_device();
	attr.max_srq_wr = 0;
	assert_int_equal(nam__verbs_usable("siw0", &attr, &diag), -NAM_E_FABRIC_CAPABILITY);
}

static void
usable__short_receive_queues__IS_REFUSED_WITH_A_REASON(void **state)
{
	struct ibv_device_attr attr = usual_device();
	struct nam_diag diag = { "" };

	(void)state;
	attr.max_srq_wr = 127;
	assert_int_equal(nam__verbs_usable("siw0", &attr, &diag), -NAM_E_FABRIC_CAPABILITY);
	assert_non_null(strstr(diag.text, "siw0 holds 127 messages, and must hold 128"));
	attr.max_srq_wr = 128;
	assert_int_equal(nam__verbs_usable("siw0", &attr, &diag), 0);
}

static void
usable__short_queue_pairs__IS_REFUSED_WITH_A_REASON(void **state)
{
	struct ibv_device_attr attr = usual_device();
	struct nam_diag diag = { "" };

	(void)state;
	attr.max_qp_wr = 64;
	assert_int_equal(nam__verbs_usable("siw0", &attr, &diag), -NAM_E_FABRIC_CAPABILITY);
	assert_non_null(strstr(diag.text, "siw0 holds 64 requests, and must hold 65"));
	attr.max_qp_wr = 65;
	assert_int_equal(nam__verbs_usable("siw0", &attr, &diag), 0);
}

/* The same of a real one. */
static void
domain_open__a_device__PROMISES_WHAT_THE_SIMULATOR_ASSUMES(void **state)
{
	struct nam_diag diag = { "" };
	struct nam_domain *domain;
	struct ibv_device_attr attr;
	int rc;

	(void)state;
	if (!device_present())
		skip();
	rc = nam__verbs_ops.domain_open(NULL, &domain, &diag);
	if (rc)
		print_error("%s\n", diag.text);
	assert_int_equal(rc, 0);
	assert_int_equal(ibv_query_device(((struct verbs_domain *)domain)->verbs, &attr), 0);
	print_message("device %s: capability bits %#x, atomic_cap %d\n",
		((struct verbs_domain *)domain)->device, domain->limits.caps, attr.atomic_cap);
	assert_int_equal(domain->limits.caps, nam_sim_profile_caps(NAM_SIM_VERBS) |
		(attr.atomic_cap == IBV_ATOMIC_GLOB ? NAM_CAP_ATOMIC_VS_CPU : 0));
	assert_true(domain->limits.qp_depth >= 1 && domain->limits.message_bytes >= 4096);
	nam__verbs_ops.domain_close(domain);
}

/* On hosts that have a device there is nothing to be said. */
static void
domain_open__no_device__SAYS_WHAT_TO_DO(void **state)
{
	struct nam_diag diag = { "" };
	struct nam_domain *domain;

	(void)state;
	if (device_present())
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
		cmocka_unit_test(resolve__good_addresses__GIVE_THE_HOST),
		cmocka_unit_test(resolve__bad_addresses__SAY_WHAT_IS_WRONG),
		cmocka_unit_test(status__of_completions__BECOMES_OUR_CODES),
		cmocka_unit_test(hello__packed_and_padded__IS_UNPACKED_AGAIN),
		cmocka_unit_test(reply__of_all_its_bytes__IS_UNPACKED_AGAIN),
		cmocka_unit_test(mtu__of_path_and_wishes__IS_THE_SMALLEST_SAID),
		cmocka_unit_test(hello__not_ours__IS_REFUSED),
		cmocka_unit_test(say_no_device__no_way_to_the_host__NAMES_THAT_FIRST),
		cmocka_unit_test(say_no_device__a_way_without_a_device__SAYS_HOW_TO_NAME_ONE),
		cmocka_unit_test(domain_open__overrides_that_make_no_sense__ARE_NAMED),
		cmocka_unit_test(caps__of_a_usual_device__ARE_THOSE_OF_THE_SIMULATORS_VERBS),
		cmocka_unit_test(caps__atomics_that_hold_against_the_cpu__ARE_ONE_BIT_MORE),
		cmocka_unit_test(usable__devices_with_all_that_it_takes__ARE),
		cmocka_unit_test(usable__no_atomics__IS_REFUSED_WITH_A_REASON),
		cmocka_unit_test(usable__no_shared_receive_queues__IS_REFUSED_WITH_A_REASON),
		cmocka_unit_test(usable__short_receive_queues__IS_REFUSED_WITH_A_REASON),
		cmocka_unit_test(usable__short_queue_pairs__IS_REFUSED_WITH_A_REASON),
		cmocka_unit_test(domain_open__a_device__PROMISES_WHAT_THE_SIMULATOR_ASSUMES),
		cmocka_unit_test(domain_open__no_device__SAYS_WHAT_TO_DO),
		cmocka_unit_test(find__verbs__IS_BUILT_IN),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#else

int
main(void)
{
	puts("skip: built without verbs");
	return 77;
}

#endif
