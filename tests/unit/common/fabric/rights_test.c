/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rights_test.c -- clients that may only READ, over the fabric that NAM_TEST_FABRIC names: the
 * listener's side enforces it, whatever the client believes of itself.
 */
#include "fabric_fixture.h"

#define PAGE_BYTES 4096u

static const struct {
	enum nam_wr_op op;
	uint32_t bytes;
} changes[] = { { NAM_WR_WRITE, 8 }, { NAM_WR_WRITE, PAGE_BYTES }, { NAM_WR_CAS, 8 },
	{ NAM_WR_FETCH_ADD, 8 } };

#define CHANGES_COUNT (sizeof(changes) / sizeof(changes[0]))

static struct nam_qp *
reader_connect(struct fixture *f, const struct side *side)
{
	return fixture_connect_as(f, side, "rd", NAM_MR_REMOTE_READ);
}

static void
check_reads(struct fixture *f, struct nam_qp *qp, uint8_t value)
{
	memset(f->client.local, 0, PAGE_BYTES);
	assert_int_equal(run(f, qp, wr_of(f, NAM_WR_READ, PAGE_BYTES, 0, PAGE_BYTES)), 0);
	for (uint32_t i = 0; i < PAGE_BYTES; i++)
		assert_int_equal(f->client.local[i], value);
}

static void
check_refused(struct fixture *f, struct nam_qp *qp, unsigned change, uint8_t value)
{
	memset(f->client.local, 0xff, PAGE_BYTES);
	assert_int_equal(run(f, qp, wr_of(f, (uint8_t)changes[change].op, PAGE_BYTES, 0,
		changes[change].bytes)), -NAM_E_FABRIC_ACCESS);
	for (uint32_t i = 0; i < 3 * PAGE_BYTES; i++)
		assert_int_equal(*remote(f, i), value);
}

static void
post__of_a_reader__READS_AND_CHANGES_NOTHING(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *reader = reader_connect(f, &f->client);

	memset(f->mr.base, 0x11, REGION_BYTES);
	check_reads(f, reader, 0x11);
	for (unsigned i = 0; i < CHANGES_COUNT; i++) {
		struct nam_qp *refused = reader_connect(f, &f->client);

		check_refused(f, refused, i, 0x11);
		/* That ends the connection, and no other. */
		assert_true(run(f, refused, wr_of(f, NAM_WR_READ, 0, 0, 8)) < 0);
		f->ops->qp_destroy(refused);
	}
	check_reads(f, reader, 0x11);
	memset(f->client.local, 0x22, PAGE_BYTES);
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_WRITE, PAGE_BYTES, 0, PAGE_BYTES)), 0);
	check_reads(f, reader, 0x22);
	f->ops->qp_destroy(reader);
}

/* A program with a bug, or another library. */
static void
post__of_a_reader_that_takes_itself_for_a_writer__CHANGES_NOTHING(void **state)
{
	struct fixture *f = *state;

	memset(f->mr.base, 0x11, REGION_BYTES);
	for (unsigned i = 0; i < CHANGES_COUNT; i++) {
		struct nam_qp *refused = fixture_connect_as(f, &f->client, "rd", 0);

		check_reads(f, refused, 0x11);
		check_refused(f, refused, i, 0x11);
		f->ops->qp_destroy(refused);
	}
}

static void
post__of_a_writer_beside_readers__CHANGES(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *reader = reader_connect(f, &f->client), *writer, *late;

	/* Whichever of them was the last or the first one to come. */
	writer = fixture_connect(f, &f->client);
	late = reader_connect(f, &f->client);
	memset(f->client.local, 0x33, PAGE_BYTES);
	assert_int_equal(run(f, writer, wr_of(f, NAM_WR_WRITE, PAGE_BYTES, 0, PAGE_BYTES)), 0);
	check_reads(f, reader, 0x33);
	*local_word(f, 0) = 0;
	assert_int_equal(run(f, f->qp, wr_of(f, NAM_WR_FETCH_ADD, 0, 0, 8)), 0);
	check_reads(f, late, 0x33);
	f->ops->qp_destroy(late);
	f->ops->qp_destroy(writer);
	f->ops->qp_destroy(reader);
}

static void
post__of_a_reader__SENDS(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *reader = reader_connect(f, &f->client);
	char buffer[64] = { 0 };
	struct nam_mr mr;
	struct nam_wc wc;
	struct nam_recv recv = { .buffer = buffer, .bytes = sizeof(buffer) };

	assert_int_equal(f->ops->mr_register(f->server.domain, buffer, sizeof(buffer), NAM_MR_LOCAL,
		&mr, &f->diag), 0);
	recv.lkey = mr.lkey;
	assert_int_equal(f->ops->rq_post(f->server.rq, &recv, 1), 0);
	memcpy(f->client.local, "a request", 10);
	assert_int_equal(run(f, reader, (struct nam_wr){ .op = NAM_WR_SEND, .bytes = 10,
		.lkey = f->client.local_mr.lkey, .local = f->client.local }), 0);
	take(f, f->server.cq, &wc, 1);
	assert_int_equal(wc.op, NAM_WC_RECV);
	assert_string_equal(buffer, "a request");
	f->ops->qp_destroy(reader);
	f->ops->mr_release(f->server.domain, &mr);
}

/* Where clients keep what they were given, also of regions that had changed their kind. */
static void
region_restore__client_may_only_read__STAYS_SO(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *reader = reader_connect(f, &f->client), *refused;

	f->ops->region_withdraw(f->server.domain, &f->mr);
	assert_int_equal(f->ops->region_restore(f->server.domain, &f->mr, NAM_MR_REMOTE_READ,
		&f->diag), 0);
	memset(f->mr.base, 0x44, REGION_BYTES);
	check_reads(f, reader, 0x44);
	f->ops->region_withdraw(f->server.domain, &f->mr);
	assert_int_equal(f->ops->region_restore(f->server.domain, &f->mr, NAM_MR_REMOTE, &f->diag),
		0);
	memset(f->mr.base, 0x55, REGION_BYTES);
	check_reads(f, reader, 0x55);
	refused = reader_connect(f, &f->client);
	check_refused(f, refused, 2, 0x55);
	f->ops->qp_destroy(refused);
	f->ops->qp_destroy(reader);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(post__of_a_reader__READS_AND_CHANGES_NOTHING),
		TEST(post__of_a_reader_that_takes_itself_for_a_writer__CHANGES_NOTHING),
		TEST(post__of_a_writer_beside_readers__CHANGES),
		TEST(post__of_a_reader__SENDS),
		TEST(region_restore__client_may_only_read__STAYS_SO),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
