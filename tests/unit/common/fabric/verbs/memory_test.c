/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memory_test.c -- regions that are withdrawn and restored, without a device: the functions below
 * play libibverbs, and give each registration keys of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#ifdef NAM_VERBS

#include <errno.h>

#include "common/fabric/verbs/verbs_internal.h"

#define BYTES (64u << 10)

static struct ibv_mr device_mr;
static uint32_t registered;	/* 0 or 1 */
static uint32_t keys;		/* given so far */
static int refusal;		/* errno of the next registration, or 0 */
static int rights;		/* of the last registration */

struct ibv_mr *
(ibv_reg_mr)(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	(void)pd;
	if (refusal) {
		errno = refusal;
		return NULL;
	}
	assert_int_equal(registered, 0);
	rights = access;
	registered++;
	keys++;
	device_mr = (struct ibv_mr){ .addr = addr, .length = length, .lkey = 100 + keys,
		.rkey = 200 + keys };
	return &device_mr;
}

/* Where the compiler does not see that none of the newer rights is asked for. */
struct ibv_mr *
ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned access)
{
	assert_int_equal(iova, (uintptr_t)addr);
	return (ibv_reg_mr)(pd, addr, length, (int)access);
}

int
ibv_dereg_mr(struct ibv_mr *mr)
{
	assert_ptr_equal(mr, &device_mr);
	assert_int_equal(registered, 1);
	registered--;
	return 0;
}

static struct verbs_domain domain = { .numa_node = -1 };
static struct nam_mr mr;
static struct nam_diag diag;

static int
setup(void **state)
{
	(void)state;
	refusal = 0;
	return nam__verbs_region_alloc(&domain.pub, BYTES, 12, 0, -1, &mr, &diag);
}

static int
teardown(void **state)
{
	(void)state;
	nam__verbs_mr_release(&domain.pub, &mr);
	return registered ? -1 : 0;
}

static void
region_restore__after_withdraw__REGISTERED_WITH_OTHER_KEYS_AND_ZERO(void **state)
{
	const struct nam_mr before = mr;

	(void)state;
	memset(mr.base, 0x11, BYTES);
	nam__verbs_region_withdraw(&domain.pub, &mr);
	assert_int_equal(registered, 0);
	assert_int_equal(nam__verbs_region_restore(&domain.pub, &mr, NAM_MR_REMOTE, &diag), 0);
	assert_int_equal(registered, 1);
	assert_true(rights & IBV_ACCESS_REMOTE_ATOMIC);
	assert_ptr_equal(device_mr.addr, before.base);
	assert_int_equal(device_mr.length, BYTES);
	assert_int_equal(mr.lkey, device_mr.lkey);
	assert_int_equal(mr.rkey, device_mr.rkey);
	assert_int_not_equal(mr.rkey, before.rkey);
	assert_ptr_equal(mr.base, before.base);
	assert_int_equal(mr.remote, before.remote);
	assert_int_equal(mr.fd, before.fd);
	for (uint32_t i = 0; i < BYTES; i++)
		assert_int_equal(((const uint8_t *)mr.base)[i], 0);
}

static void
region_restore__read_only__REGISTERED_FOR_READS_ALONE(void **state)
{
	(void)state;
	assert_true(rights & IBV_ACCESS_REMOTE_ATOMIC);
	nam__verbs_region_withdraw(&domain.pub, &mr);
	assert_int_equal(nam__verbs_region_restore(&domain.pub, &mr, NAM_MR_REMOTE_READ, &diag),
		0);
	assert_int_equal(rights, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
	nam__verbs_region_withdraw(&domain.pub, &mr);
	/* Again: for what processes of this host have used. */
	nam__verbs_region_withdraw(&domain.pub, &mr);
	assert_int_equal(nam__verbs_region_restore(&domain.pub, &mr, NAM_MR_REMOTE, &diag), 0);
	assert_true(rights & IBV_ACCESS_REMOTE_ATOMIC);
}

static void
region_restore__device_refuses__STAYS_WITHDRAWN_AND_SAYS_WHY(void **state)
{
	const struct nam_mr before = mr;

	(void)state;
	nam__verbs_region_withdraw(&domain.pub, &mr);
	refusal = ENOMEM;
	assert_int_equal(nam__verbs_region_restore(&domain.pub, &mr, NAM_MR_REMOTE, &diag),
		-ENOMEM);
	assert_non_null(strstr(diag.text, "verbs"));
	assert_int_equal(registered, 0);
	assert_int_equal(mr.rkey, before.rkey);
	refusal = 0;
	assert_int_equal(nam__verbs_region_restore(&domain.pub, &mr, NAM_MR_REMOTE, &diag), 0);
	assert_int_equal(mr.rkey, device_mr.rkey);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(region_restore__after_withdraw__REGISTERED_WITH_OTHER_KEYS_AND_ZERO),
		TEST(region_restore__read_only__REGISTERED_FOR_READS_ALONE),
		TEST(region_restore__device_refuses__STAYS_WITHDRAWN_AND_SAYS_WHY),
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
