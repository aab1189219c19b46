/* SPDX-License-Identifier: Apache-2.0 */
/*
 * region_test.c -- regions that are withdrawn and restored, over the fabric that NAM_TEST_FABRIC
 * names.
 *
 * Where clients have mappings of their own (shm), a request to a withdrawn region may succeed and
 * meets unused pages; elsewhere it is refused.
 */
#include "fabric_fixture.h"

#include <errno.h>
#include <sys/syscall.h>

#define MIB (1u << 20)
#define PAGE_BYTES 4096u
#define PAGES (REGION_BYTES / PAGE_BYTES)
/* Over shm clients build their page tables in the background, 50 ms after they connected. */
#define BACKGROUND_NS 300000000u

/* One signalled request of a client's, and its status. */
static int
ask(struct fixture *f, const struct side *side, struct nam_qp *qp, enum nam_wr_op op, uint64_t at,
	uint32_t bytes)
{
	struct nam_wr wr = wr_of(f, (uint8_t)op, at, 0, bytes);
	struct nam_wc wc;

	wr.flags = NAM_WR_SIGNALED;
	wr.lkey = side->local_mr.lkey;
	wr.local = side->local;
	assert_int_equal(f->ops->qp_post(qp, &wr, 1), 0);
	take(f, side->cq, &wc, 1);
	return wc.status;
}

/* A client reads zeroes, then writes and reads that again. */
static void
use(struct fixture *f, const struct side *side, struct nam_qp *qp, uint8_t value)
{
	static const uint8_t zeroes[PAGE_BYTES];

	for (uint32_t i = 0; i < 4; i++) {
		uint64_t at = (uint64_t)i * (REGION_BYTES / 4);

		memset(side->local, 0xff, PAGE_BYTES);
		assert_int_equal(ask(f, side, qp, NAM_WR_READ, at, PAGE_BYTES), 0);
		assert_memory_equal(side->local, zeroes, PAGE_BYTES);
		memset(side->local, value, PAGE_BYTES);
		assert_int_equal(ask(f, side, qp, NAM_WR_WRITE, at, PAGE_BYTES), 0);
		assert_int_equal(*remote(f, at), value);
		memset(side->local, 0, PAGE_BYTES);
		assert_int_equal(ask(f, side, qp, NAM_WR_READ, at, PAGE_BYTES), 0);
		assert_int_equal(side->local[PAGE_BYTES - 1], value);
		memset(side->local, 0, PAGE_BYTES);
		assert_int_equal(ask(f, side, qp, NAM_WR_WRITE, at, PAGE_BYTES), 0);
	}
}

static void
restore(struct fixture *f, uint32_t rights)
{
	assert_int_equal(f->ops->region_restore(f->server.domain, &f->mr, rights, &f->diag), 0);
}

/* Pages of the region that have memory. */
static unsigned
pages_there(const struct fixture *f)
{
	unsigned char there[PAGES];
	unsigned count = 0;

	assert_int_equal(mincore(f->mr.base, REGION_BYTES, there), 0);
	for (unsigned i = 0; i < PAGES; i++)
		count += there[i] & 1;
	return count;
}

static void
region_restore__after_withdraw__ALL_CLIENTS_FIND_ZEROES_AND_WRITE(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *refused = fixture_connect(f, &f->client), *late_qp;
	struct side late;
	int rc;

	memset(f->client.local, 0xaa, MIB);
	assert_int_equal(ask(f, &f->client, f->qp, NAM_WR_WRITE, 0, MIB), 0);
	f->ops->region_withdraw(f->server.domain, &f->mr);
	rc = ask(f, &f->client, refused, NAM_WR_WRITE, 0, 64);
	assert_true(rc == -NAM_E_FABRIC_ACCESS || !strcmp(f->ops->name, "shm"));
	side_open(f, &late, 0);
	late_qp = fixture_connect(f, &late);

	restore(f, NAM_MR_REMOTE);
	use(f, &f->client, f->qp, 0x11);
	use(f, &late, late_qp, 0x22);
	/* And once more. */
	f->ops->region_withdraw(f->server.domain, &f->mr);
	restore(f, NAM_MR_REMOTE);
	use(f, &late, late_qp, 0x33);
	use(f, &f->client, f->qp, 0x44);
	f->ops->qp_destroy(late_qp);
	side_close(f, &late);
	f->ops->qp_destroy(refused);
}

static void
region_restore__after_stray_writes__BYTES_ARE_ZERO(void **state)
{
	struct fixture *f = *state;

	f->ops->region_withdraw(f->server.domain, &f->mr);
	/* As by a client that has a mapping of its own. */
	memset(f->mr.base, 0xbb, REGION_BYTES);
	restore(f, NAM_MR_REMOTE);
	use(f, &f->client, f->qp, 0x11);
}

static void
region_restore__memory_given_back__IS_ALL_THERE_AGAIN(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(pages_there(f), PAGES);
	f->ops->region_withdraw(f->server.domain, &f->mr);
	assert_int_equal(pages_there(f), 0);
	/* A peer has used its mapping. */
	*remote(f, 0) = 1;
	f->ops->region_withdraw(f->server.domain, &f->mr);
	assert_int_equal(pages_there(f), 0);
	restore(f, NAM_MR_REMOTE);
	assert_int_equal(pages_there(f), PAGES);
}

/* A client reads what the owner has there, and none of its other requests is carried out. */
static void
use_read_only(struct fixture *f, const struct side *side, struct nam_qp *qp, uint8_t value)
{
	static const struct {
		enum nam_wr_op op;
		uint32_t bytes;
	} others[] = { { NAM_WR_WRITE, 8 }, { NAM_WR_WRITE, PAGE_BYTES }, { NAM_WR_CAS, 8 },
		{ NAM_WR_FETCH_ADD, 8 } };

	memset(f->mr.base, value, REGION_BYTES);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct nam_qp *refused = fixture_connect(f, side);

		memset(side->local, 0xff, PAGE_BYTES);
		assert_int_equal(ask(f, side, refused, others[i].op, PAGE_BYTES, others[i].bytes),
			-NAM_E_FABRIC_ACCESS);
		f->ops->qp_destroy(refused);
	}
	for (uint64_t at = 0; at < REGION_BYTES; at += MIB) {
		assert_int_equal(ask(f, side, qp, NAM_WR_READ, at, MIB), 0);
		for (uint32_t i = 0; i < MIB; i++)
			assert_int_equal(side->local[i], value);
	}
}

static void
region_restore__read_only__CLIENTS_READ_AND_DO_NOT_WRITE(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *late_qp;
	struct side late;

	memset(f->mr.base, 0xcc, REGION_BYTES);
	f->ops->region_withdraw(f->server.domain, &f->mr);
	restore(f, NAM_MR_REMOTE_READ);
	assert_int_equal(*remote(f, 0), 0);
	assert_int_equal(pages_there(f), PAGES);
	use_read_only(f, &f->client, f->qp, 0x11);
	side_open(f, &late, 0);
	late_qp = fixture_connect(f, &late);
	use_read_only(f, &late, late_qp, 0x22);
	/* To private and to read-only again, and to one that clients write. */
	f->ops->region_withdraw(f->server.domain, &f->mr);
	restore(f, NAM_MR_REMOTE_READ);
	assert_int_equal(*remote(f, 0), 0);
	use_read_only(f, &late, late_qp, 0x33);
	f->ops->region_withdraw(f->server.domain, &f->mr);
	restore(f, NAM_MR_REMOTE);
	use(f, &f->client, f->qp, 0x44);
	use(f, &late, late_qp, 0x55);
	f->ops->qp_destroy(late_qp);
	side_close(f, &late);
}

/* The pages belong to others: a client that connects builds no page tables for them. */
static void
connect__region_is_withdrawn__TAKES_NONE_OF_ITS_PAGES(void **state)
{
	struct fixture *f = *state;

	/* The client that has the region from before must not build its page tables now. */
	f->ops->qp_destroy(f->qp);
	side_close(f, &f->client);
	f->ops->region_withdraw(f->server.domain, &f->mr);
	side_open(f, &f->client, 0);
	f->qp = fixture_connect(f, &f->client);
	nam_sleep_ns(BACKGROUND_NS);
	assert_int_equal(pages_there(f), 0);
}

#define HUGE_LOG2 21u

/* Reserved pages of the host's pool. */
static unsigned long
huge_reserved(void)
{
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages", "re");
	unsigned long pages = 0;

	assert_non_null(file);
	assert_int_equal(fscanf(file, "%lu", &pages), 1);
	(void)fclose(file);
	return pages;
}

static void
connect__withdrawn_region_has_huge_pages__RESERVES_NONE(void **state)
{
	struct fixture *f = *state;
	unsigned long before;
	struct nam_mr huge;
	struct nam_qp *qp;
	struct side late;

	if (f->ops->region_alloc(f->server.domain, REGION_BYTES, HUGE_LOG2, 0, -1, &huge, &f->diag))
		skip();
	f->ops->region_withdraw(f->server.domain, &huge);
	before = huge_reserved();
	side_open(f, &late, 0);
	qp = fixture_connect(f, &late);
	assert_int_equal(huge_reserved(), before);
	assert_int_equal(f->ops->region_restore(f->server.domain, &huge, NAM_MR_REMOTE, &f->diag),
		0);
	f->ops->qp_destroy(qp);
	side_close(f, &late);
	f->ops->mr_release(f->server.domain, &huge);
}

/* As a server does that finds the huge pages taken: it gives back what it has, and begins anew. */
static void
region_alloc__after_release_and_before_clients__CLIENTS_USE_IT(void **state)
{
	struct fixture *f = *state;
	struct nam_mr first[2];

	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(f->ops->region_alloc(f->server.domain, REGION_BYTES, 12, 0, -1,
			&first[i], &f->diag), 0);
	f->ops->mr_release(f->server.domain, &f->mr);
	for (unsigned i = 0; i < 2; i++)
		f->ops->mr_release(f->server.domain, &first[i]);
	assert_int_equal(f->ops->region_alloc(f->server.domain, REGION_BYTES, 12, 0, -1, &f->mr,
		&f->diag), 0);
	side_open(f, &f->client, 0);
	f->qp = fixture_connect(f, &f->client);
	use(f, &f->client, f->qp, 0x11);
}

/*
 * The kernel takes no pages out of a locked range, so they cannot be made zero.  By system call:
 * sanitizers make mlock() do nothing.
 */
static void
region_restore__fails__STAYS_WITHDRAWN_AND_SAYS_WHY(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *refused;

	f->ops->region_withdraw(f->server.domain, &f->mr);
	if (syscall(SYS_mlock, f->mr.base, PAGE_BYTES))
		skip();
	assert_int_equal(f->ops->region_restore(f->server.domain, &f->mr, NAM_MR_REMOTE, &f->diag),
		-EINVAL);
	assert_non_null(strstr(f->diag.text, "region"));
	assert_int_equal(syscall(SYS_munlock, f->mr.base, PAGE_BYTES), 0);
	refused = fixture_connect(f, &f->client);
	assert_true(ask(f, &f->client, refused, NAM_WR_READ, 0, 64) == -NAM_E_FABRIC_ACCESS ||
		!strcmp(f->ops->name, "shm"));
	f->ops->qp_destroy(refused);
	restore(f, NAM_MR_REMOTE);
	use(f, &f->client, f->qp, 0x11);
}

static int
setup_without_clients(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	assert_non_null(f);
	fixture_address(f);
	fixture_listen(f);
	*state = f;
	return 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(region_restore__after_withdraw__ALL_CLIENTS_FIND_ZEROES_AND_WRITE),
		TEST(region_restore__after_stray_writes__BYTES_ARE_ZERO),
		TEST(region_restore__memory_given_back__IS_ALL_THERE_AGAIN),
		TEST(region_restore__read_only__CLIENTS_READ_AND_DO_NOT_WRITE),
		TEST(connect__region_is_withdrawn__TAKES_NONE_OF_ITS_PAGES),
		TEST(connect__withdrawn_region_has_huge_pages__RESERVES_NONE),
		TEST(region_restore__fails__STAYS_WITHDRAWN_AND_SAYS_WHY),
		cmocka_unit_test_setup_teardown(
			region_alloc__after_release_and_before_clients__CLIENTS_USE_IT,
			setup_without_clients, fixture_teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
