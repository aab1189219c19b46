/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_test.c -- the making of domains and queue pairs if a device, or the way to it, is unusable.
 * It runs without a device: the functions below play libibverbs and librdmacm.
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

#include "common/fabric/verbs/verbs_internal.h"

static struct ibv_device devices[2] = { { .name = "mlx5_0" }, { .name = "mlx5_1" } };
static struct ibv_qp device_qp;
static uint32_t inline_given;
static unsigned access_given;		/* of the last queue pair that was initialized */

struct ibv_device **
ibv_get_device_list(int *count)
{
	static struct ibv_device *list[3] = { &devices[0], &devices[1], NULL };

	*count = 2;
	return list;
}

void
ibv_free_device_list(struct ibv_device **list)
{
	(void)list;
}

struct rdma_event_channel *
rdma_create_event_channel(void)
{
	errno = ENOENT;
	return NULL;
}

struct ibv_qp *
ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	(void)pd;
	attr->cap.max_inline_data = inline_given;
	return &device_qp;
}

int
rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
	(void)id;
	(void)attr;
	*mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS;
	return 0;
}

int
ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	(void)qp;
	assert_true(mask & IBV_QP_ACCESS_FLAGS);
	access_given = attr->qp_access_flags;
	return 0;
}

/* Port 2 has GIDs 0 to 3, port 3 has 0 to 7, and port 1 none. */
int
_ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
	struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	(void)context;
	(void)flags;
	if (port == 1 || index >= (port == 2 ? 4u : 8u))
		return ENODATA;
	memset(entry, 0, entry_size);
	entry->port_num = port;
	entry->gid_index = index;
	return 0;
}

static void
gid_find__several_ports__ONE_THAT_IS_UP_AND_HAS_IT(void **state)
{
	struct verbs_domain domain = { .ports = 3, .up = { [3] = true } };
	struct ibv_gid_entry entry;

	(void)state;
	assert_int_equal(nam__verbs_gid_find(&domain, 3, &entry), 3);
	assert_int_equal(entry.port_num, 3);
	domain.up[2] = true;
	assert_int_equal(nam__verbs_gid_find(&domain, 3, &entry), 2);
	assert_int_equal(nam__verbs_gid_find(&domain, 7, &entry), 3);
	domain.up[3] = false;
	assert_int_equal(nam__verbs_gid_find(&domain, 7, &entry), 3);
	assert_int_equal(nam__verbs_gid_find(&domain, 8, &entry), -ENOENT);
	domain.ports = 2;
	assert_int_equal(nam__verbs_gid_find(&domain, 7, &entry), -ENOENT);
}

static void
open__several_devices_and_no_rdma_cm__SAYS_WHAT_TO_LOAD(void **state)
{
	const struct nam_fabric_options options = { .address = "127.0.0.1:7100", .listens = true };
	struct verbs_domain domain = { 0 };
	struct nam_diag diag = { "" };

	(void)state;
	(void)unsetenv("NAM_DEVICE");
	assert_int_equal(nam__verbs_device_open(&domain, &options, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "rdma_ucm"));
	assert_null(strstr(diag.text, "leads to none"));
}

/* The inline bytes of a queue pair whose device was found to have as many as we like. */
static uint32_t
inline_bytes(void)
{
	struct verbs_domain domain = {
		.pub.limits = { .qp_depth = 16, .inline_bytes = VERBS_INLINE_BYTES },
	};
	struct verbs_cq cq = { .depth = 16 };
	const struct nam_qp_options options = { .cq = &cq.pub };
	struct rdma_cm_id id = { 0 };
	struct verbs_qp *qp;
	uint32_t bytes;
	int rc = nam__verbs_qp_create(&domain, &options, &id, &qp, NULL);

	assert_int_equal(rc, 0);
	bytes = qp->inline_bytes;
	nam__sends_free(&qp->sends);
	free(qp);
	return bytes;
}

static void
queue_pair__device_gives_more_inline_than_asked__TAKES_WHAT_WAS_ASKED(void **state)
{
	(void)state;
	inline_given = 2 * VERBS_INLINE_BYTES;
	assert_int_equal(inline_bytes(), VERBS_INLINE_BYTES);
}

/* The rights that the card gives to the peer of a queue pair. */
static unsigned
access_of(uint32_t rights, bool accepted)
{
	struct verbs_domain domain = {
		.pub.limits = { .qp_depth = 16, .inline_bytes = VERBS_INLINE_BYTES },
	};
	struct verbs_cq cq = { .depth = 16 };
	const struct nam_qp_options options = { .cq = &cq.pub, .rights = rights };
	struct rdma_cm_id id = { 0 };
	struct verbs_qp *qp;

	assert_int_equal(nam__verbs_qp_create(&domain, &options, &id, &qp, NULL), 0);
	qp->accepted = accepted;
	assert_int_equal(nam__verbs_qp_init(qp), 0);
	nam__sends_free(&qp->sends);
	free(qp);
	return access_given;
}

static void
queue_pair__peer_may_only_read__CARD_REFUSES_THE_REST(void **state)
{
	const unsigned reads = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
	const unsigned all = reads | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;

	(void)state;
	assert_int_equal(access_of(NAM_MR_REMOTE_READ, true), reads);
	assert_int_equal(access_of(NAM_MR_REMOTE, true), all);
	assert_int_equal(access_of(0, true), all);
	/* The memory server tries a silent client by a WRITE of no bytes. */
	assert_int_equal(access_of(NAM_MR_REMOTE_READ, false), all);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queue_pair__peer_may_only_read__CARD_REFUSES_THE_REST),
		cmocka_unit_test(gid_find__several_ports__ONE_THAT_IS_UP_AND_HAS_IT),
		cmocka_unit_test(open__several_devices_and_no_rdma_cm__SAYS_WHAT_TO_LOAD),
		cmocka_unit_test(
			queue_pair__device_gives_more_inline_than_asked__TAKES_WHAT_WAS_ASKED),
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
