/* SPDX-License-Identifier: Apache-2.0 */
/* atomics_test.c -- what atomics of every provider must do; the fabric as in fabric_test. */
#include "fabric_fixture.h"

static void
cas__equal_and_different__SWAPS_AND_DOES_NOT(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wr = wr_of(f, NAM_WR_CAS, 128, 0, 8);

	*(uint64_t *)(void *)remote(f, 128) = 5;
	wr.compare = 5;
	wr.swap = 6;
	assert_int_equal(run(f, f->qp, wr), 0);
	assert_int_equal(*local_word(f, 0), 5);
	assert_int_equal(remote_word(f, 128), 6);
	wr.swap = 7;
	assert_int_equal(run(f, f->qp, wr), 0);
	assert_int_equal(*local_word(f, 0), 6);
	assert_int_equal(remote_word(f, 128), 6);
}

static void
fetch_add__wraps__RETURNS_THE_OLD_VALUE(void **state)
{
	struct fixture *f = *state;
	struct nam_wr wr = wr_of(f, NAM_WR_FETCH_ADD, 8, 0, 8);

	*(uint64_t *)(void *)remote(f, 8) = UINT64_MAX;
	wr.compare = 3;
	assert_int_equal(run(f, f->qp, wr), 0);
	assert_true(*local_word(f, 0) == UINT64_MAX);
	assert_int_equal(remote_word(f, 8), 2);
}

/* ---- order -------------------------------------------------------------------------------- */

/* WRITE 11; CAS 11 to 20; READ; FETCH_ADD 1; READ: each sees the ones before, as the bits say. */
/*
 * The answer of an atomic behind a WRITE, with as many under way as there is room for.  On a wire
 * that delays or loses, requests are repeated, and then a software NIC may complete one without it.
 */
static void
post__atomics_behind_writes__ALL_HAVE_THEIR_ANSWERS(void **state)
{
	enum { ROUNDS = 500, AT_A_TIME = DEPTH / 4, UNTOUCHED = 0x5e };
	struct fixture *f = *state;
	unsigned posted = 0, done = 0;
	struct nam_wc wcs[4];
	struct nam_wr wrs[4];

	while (done < ROUNDS) {
		uint64_t answer = 16 * (posted % AT_A_TIME), number = posted;

		if (posted < ROUNDS && posted - done < AT_A_TIME) {
			memset(f->client.local + answer, UNTOUCHED, 16);
			/* The caller's buffer is free as soon as this is posted. */
			memcpy(f->client.local + 4096, &number, sizeof(number));
			wrs[0] = wr_of(f, NAM_WR_WRITE, 64, 4096, 8);
			wrs[0].flags = NAM_WR_INLINE;
			wrs[1] = wr_of(f, NAM_WR_CAS, 0, answer, 8);
			wrs[1].compare = posted;
			wrs[1].swap = posted + 1;
			wrs[2] = wr_of(f, NAM_WR_WRITE, 72, 4096, 8);
			wrs[2].flags = NAM_WR_INLINE;
			wrs[3] = wr_of(f, NAM_WR_FETCH_ADD, 128, answer + 8, 8);
			wrs[3].compare = 1;
			wrs[3].flags = NAM_WR_SIGNALED;
			assert_int_equal(f->ops->qp_post(f->qp, wrs, 4), 0);
			memset(f->client.local + 4096, UNTOUCHED, 8);
			posted++;
			continue;
		}
		take(f, f->client.cq, wcs, 1);
		assert_int_equal(wcs[0].status, 0);
		answer = 16 * (done % AT_A_TIME);
		assert_int_equal(*(uint64_t *)(void *)(f->client.local + answer), done);
		assert_int_equal(*(uint64_t *)(void *)(f->client.local + answer + 8), done);
		done++;
	}
	assert_int_equal(remote_word(f, 0), ROUNDS);
	assert_int_equal(remote_word(f, 128), ROUNDS);
	assert_int_equal(remote_word(f, 64), ROUNDS - 1);
	assert_int_equal(remote_word(f, 72), ROUNDS - 1);
}

/* ---- several clients ---------------------------------------------------------------------- */

#define ADDS 1000u

struct adder {
	struct fixture *f;
	struct nam_thread *thread;
	struct side side;
	struct nam_qp *qp;
	bool failed;
	atomic_bool done;
};

/* cmocka's assertions belong to the main thread. */
static bool
finish(struct fixture *f, struct nam_cq *cq, unsigned count)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	struct nam_wc wcs[8];

	while (count) {
		int n = f->ops->cq_poll(cq, wcs, 8);

		for (int i = 0; i < n; i++) {
			if (wcs[i].status)
				return false;
		}
		count -= (unsigned)n;
		if (!n)
			(void)f->ops->cq_wait(cq, 100000000);
		if (nam_now_ns() > until)
			return false;
	}
	return true;
}

static void
adder_main(void *arg)
{
	struct adder *adder = arg;
	struct fixture *f = adder->f;
	uint64_t *olds = (uint64_t *)(void *)adder->side.local;
	struct nam_wr wrs[8];

	for (unsigned i = 0; i < ADDS && !adder->failed; i += 8) {
		for (unsigned j = 0; j < 8; j++) {
			wrs[j] = wr_of(f, NAM_WR_FETCH_ADD, 0, 0, 8);
			wrs[j].local = &olds[j];
			wrs[j].lkey = adder->side.local_mr.lkey;
			wrs[j].compare = 1;
			wrs[j].flags = NAM_WR_SIGNALED;
		}
		adder->failed = f->ops->qp_post(adder->qp, wrs, 8) ||
			!finish(f, adder->side.cq, 8);
	}
	/* The same with a CAS loop, on another word. */
	for (unsigned i = 0; i < ADDS / 4 && !adder->failed; i++) {
		uint64_t guess = 0;

		olds[0] = 0;
		do {
			guess = olds[0];
			wrs[0] = wr_of(f, NAM_WR_CAS, 64, 0, 8);
			wrs[0].local = &olds[0];
			wrs[0].lkey = adder->side.local_mr.lkey;
			wrs[0].compare = guess;
			wrs[0].swap = guess + 1;
			wrs[0].flags = NAM_WR_SIGNALED;
			adder->failed = f->ops->qp_post(adder->qp, wrs, 1) ||
				!finish(f, adder->side.cq, 1);
		} while (olds[0] != guess && !adder->failed);
	}
	atomic_store(&adder->done, true);
}

static void
atomics__of_two_clients__LOSE_NOTHING(void **state)
{
	struct fixture *f = *state;
	struct adder adders[2] = { { .f = f }, { .f = f } };

	for (unsigned i = 0; i < 2; i++) {
		side_open(f, &adders[i].side, 0);
		adders[i].qp = fixture_connect(f, &adders[i].side);
	}
	(void)fixture_accepted(f, 2);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(nam_thread_start("adder", adder_main, &adders[i],
			&adders[i].thread), 0);
	for (unsigned i = 0; i < 2; i++) {
		while (!atomic_load(&adders[i].done))
			(void)f->ops->cq_wait(f->server.cq, 1000000);
		nam_thread_join(adders[i].thread);
	}
	assert_false(adders[0].failed || adders[1].failed);
	assert_int_equal(remote_word(f, 0), 2 * ADDS);
	assert_int_equal(remote_word(f, 64), 2 * (ADDS / 4));
	for (unsigned i = 0; i < 2; i++) {
		f->ops->qp_destroy(adders[i].qp);
		side_close(f, &adders[i].side);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cas__equal_and_different__SWAPS_AND_DOES_NOT),
		TEST(fetch_add__wraps__RETURNS_THE_OLD_VALUE),
		TEST(post__atomics_behind_writes__ALL_HAVE_THEIR_ANSWERS),
		TEST(atomics__of_two_clients__LOSE_NOTHING),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
