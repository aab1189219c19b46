/* SPDX-License-Identifier: Apache-2.0 */
/* shm_test.c -- the shm fabric's one-sided requests: effects, order, limits, races. */
#include "shm_fixture.h"

#include <errno.h>

static void
read__after_write__RETURNS_THE_SAME_BYTES_AND_TOUCHES_NO_OTHERS(void **state)
{
	static const uint32_t sizes[] = { 0, 1, 2, 7, 8, 9, 15, 16, 56, 63, 64, 65, 72, 120, 127,
		128, 129, 136, 192, 200, 255, 256, 257, 264, 320, 328, 1000, 1016, 1023, 1024, 1088,
		4096, 4104, 5000, 65536 };
	struct fixture *f = *state;
	uint8_t *out = malloc(70000), *in = malloc(70000);
	struct nam_rng rng = nam_rng_seed(7);

	for (unsigned i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		for (uint64_t shift = 0; shift < 17; shift++) {
			uint64_t at = 4096 + shift;
			uint32_t bytes = sizes[i];

			memset(f->mr.base, 0xee, 80000);
			memset(in, 0xdd, 70000);
			for (uint32_t j = 0; j < bytes; j++)
				out[j] = (uint8_t)nam_rng_next(&rng);
			assert_int_equal(run(f, f->qps[0], wr_write(at, out, bytes)), 0);
			assert_memory_equal((uint8_t *)f->mr.base + at, out, bytes);
			assert_int_equal(((uint8_t *)f->mr.base)[at - 1], 0xee);
			assert_int_equal(((uint8_t *)f->mr.base)[at + bytes], 0xee);
			/* The local side at any alignment, too. */
			assert_int_equal(run(f, f->qps[0], wr_read(at, in + 3, bytes)), 0);
			assert_memory_equal(in + 3, out, bytes);
			assert_int_equal(in[2], 0xdd);
			assert_int_equal(in[3 + bytes], 0xdd);
		}
	}
	free(out);
	free(in);
}

static void
cas__equal_and_different__SWAPS_AND_DOES_NOT(void **state)
{
	struct fixture *f = *state;
	uint64_t *word = (uint64_t *)((uint8_t *)f->mr.base + 128), old = 1;

	*word = 5;
	assert_int_equal(run(f, f->qps[0], wr_cas(128, &old, 5, 6)), 0);
	assert_int_equal(old, 5);
	assert_int_equal(*word, 6);
	assert_int_equal(run(f, f->qps[0], wr_cas(128, &old, 5, 7)), 0);
	assert_int_equal(old, 6);
	assert_int_equal(*word, 6);
}

static void
fetch_add__wraps__RETURNS_THE_OLD_VALUE(void **state)
{
	struct fixture *f = *state;
	uint64_t *word = (uint64_t *)((uint8_t *)f->mr.base + 8), old = 1;

	*word = UINT64_MAX;
	assert_int_equal(run(f, f->qps[0], wr_fetch_add(8, &old, 3)), 0);
	assert_true(old == UINT64_MAX);
	assert_int_equal(*word, 2);
}

static void
post__one_doorbell__TAKES_EFFECT_IN_POST_ORDER(void **state)
{
	struct fixture *f = *state;
	uint64_t a = 11, seen = 0, old_cas = 0, old_add = 0, last = 0;
	struct nam_wr wrs[5] = {
		wr_write(256, &a, 8),
		wr_cas(256, &old_cas, 11, 20),
		wr_read(256, &seen, 8),
		wr_fetch_add(256, &old_add, 1),
		wr_read(256, &last, 8),
	};
	struct nam_wc wcs[5];

	for (int i = 0; i < 5; i++) {
		wrs[i].flags = NAM_WR_SIGNALED;
		wrs[i].context = &wrs[i];
	}
	assert_int_equal(f->ops->qp_post(f->qps[0], wrs, 5), 0);
	take(f, f->client.cq, wcs, 5);
	for (int i = 0; i < 5; i++) {
		assert_ptr_equal(wcs[i].context, &wrs[i]);
		assert_int_equal(wcs[i].status, 0);
	}
	assert_int_equal(old_cas, 11);
	assert_int_equal(seen, 20);
	assert_int_equal(old_add, 20);
	assert_int_equal(last, 21);
}

static void
post__more_than_the_depth__IS_REFUSED_WHOLE(void **state)
{
	struct fixture *f = *state;
	uint64_t *word = (uint64_t *)f->mr.base, old;
	struct nam_wr wrs[65];
	struct nam_wc wcs[64];

	for (int i = 0; i < 65; i++) {
		wrs[i] = wr_fetch_add(0, &old, 1);
		wrs[i].flags = NAM_WR_SIGNALED;
	}
	assert_int_equal(f->ops->qp_post(f->qps[0], wrs, 65), -NAM_E_FABRIC_FULL);
	assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 64), 0);
	assert_int_equal(*word, 0);
	assert_int_equal(f->ops->qp_post(f->qps[0], wrs, 60), 0);
	assert_int_equal(f->ops->qp_post(f->qps[0], wrs, 5), -NAM_E_FABRIC_FULL);
	assert_int_equal(f->ops->qp_post(f->qps[0], wrs, 4), 0);
	take(f, f->client.cq, wcs, 64);
	assert_int_equal(*word, 64);
	assert_int_equal(f->ops->qp_post(f->qps[0], wrs, 64), 0);
	take(f, f->client.cq, wcs, 64);
	assert_int_equal(*word, 128);
}

static void
poll__unsignaled__COMPLETES_ONLY_FAILURES(void **state)
{
	struct fixture *f = *state;
	uint64_t *word = (uint64_t *)f->mr.base, old;
	struct nam_wr wrs[3] = { wr_fetch_add(0, &old, 1), wr_fetch_add(0, &old, 1),
		wr_fetch_add(REGION_BYTES, &old, 1) };
	struct nam_wc wc;

	assert_int_equal(f->ops->qp_post(f->qps[0], wrs, 2), 0);
	assert_int_equal(f->ops->cq_poll(f->client.cq, &wc, 1), 0);
	assert_int_equal(*word, 2);
	wrs[2].context = &wc;
	assert_int_equal(f->ops->qp_post(f->qps[0], &wrs[2], 1), 0);
	take(f, f->client.cq, &wc, 1);
	assert_int_equal(wc.status, -NAM_E_FABRIC_ACCESS);
	assert_ptr_equal(wc.context, &wc);
}

static void
post__inline__LEAVES_THE_BUFFER_TO_THE_CALLER(void **state)
{
	struct fixture *f = *state;
	uint8_t buffer[128];
	struct nam_wr wr = wr_write(64, buffer, sizeof(buffer));
	struct nam_wc wc;

	memset(buffer, 1, sizeof(buffer));
	wr.flags = NAM_WR_INLINE;
	assert_int_equal(f->ops->qp_post(f->qps[0], &wr, 1), 0);
	memset(buffer, 2, sizeof(buffer));
	assert_int_equal(f->ops->cq_poll(f->client.cq, &wc, 1), 0);
	memset(buffer, 1, sizeof(buffer));
	assert_memory_equal((uint8_t *)f->mr.base + 64, buffer, sizeof(buffer));
	assert_true(f->client.domain->limits.inline_bytes >= sizeof(buffer));
}

static void
post__outside_of_registered_memory__COMPLETES_WITH_ACCESS_AND_BREAKS_THE_QP(void **state)
{
	struct fixture *f = *state;
	uint8_t local[64] = { 0 };
	uint64_t old;
	struct nam_wr bad[] = {
		wr_read(REGION_BYTES, local, 1),
		wr_read(REGION_BYTES - 63, local, 64),
		wr_write(UINT64_MAX, local, 8),
		wr_write(UINT64_MAX - 7, local, 64),
		wr_cas(REGION_BYTES, &old, 0, 0),
		wr_cas(4, &old, 0, 0),
		wr_fetch_add(UINT64_MAX - 6, &old, 0),
		wr_read(0, local, 8),
		wr_read(0, local, UINT32_MAX),
		wr_cas(0, &old, 0, 1),
	};

	bad[7].rkey = 2;		/* the region has two */
	bad[9].bytes = 4;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct nam_qp *qp = fixture_connect(f, &f->client);

		assert_int_equal(run(f, qp, wr_read(0, local, 64)), 0);
		assert_int_equal(run(f, qp, bad[i]), -NAM_E_FABRIC_ACCESS);
		/* As verbs do: what follows is flushed. */
		assert_int_equal(run(f, qp, wr_read(0, local, 64)), -NAM_E_FABRIC_ACCESS);
		f->ops->qp_destroy(qp);
		/* The test's fixture has few places; the server forgets this one. */
		f->ops->qp_destroy(fixture_accepted(f, 1));
		f->accepted_qps[1] = NULL;
		atomic_store(&f->accepted, 1);
	}
	/* Others are not affected. */
	assert_int_equal(run(f, f->qps[0], wr_read(REGION_BYTES - 64, local, 64)), 0);
	assert_int_equal(*(uint64_t *)f->mr.base, 0);
}

static void
post__unknown_operation__COMPLETES_WITH_CAPABILITY(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(run(f, f->qps[0], (struct nam_wr){ .op = 77 }),
		-NAM_E_FABRIC_CAPABILITY);
}

static void
qp_destroy__with_requests_pending__DROPS_ONLY_ITS_OWN(void **state)
{
	struct fixture *f = *state;
	struct nam_qp *other = fixture_connect(f, &f->client);
	uint64_t *word = (uint64_t *)f->mr.base, old;
	struct nam_wr wr = wr_fetch_add(0, &old, 1);
	struct nam_wc wcs[4];

	(void)fixture_accepted(f, 1);
	wr.flags = NAM_WR_SIGNALED;
	assert_int_equal(f->ops->qp_post(other, &wr, 1), 0);
	assert_int_equal(f->ops->qp_post(f->qps[0], &wr, 1), 0);
	assert_int_equal(f->ops->qp_post(other, &wr, 1), 0);
	f->ops->qp_destroy(other);
	assert_int_equal(f->ops->cq_poll(f->client.cq, wcs, 4), 1);
	assert_ptr_equal(wcs[0].qp, f->qps[0]);
	assert_int_equal(*word, 1);
}

/* ---- several threads ---------------------------------------------------------------------- */

#define ADDS 20000u

struct adder {
	struct fixture *f;
	struct nam_thread *thread;
	struct side side;
	struct nam_qp *qp;
};

static void
adder_main(void *arg)
{
	struct adder *adder = arg;
	struct fixture *f = adder->f;
	uint64_t olds[8];
	struct nam_wc wcs[8];

	for (unsigned i = 0; i < ADDS; i += 8) {
		struct nam_wr wrs[8];

		for (unsigned j = 0; j < 8; j++) {
			wrs[j] = wr_fetch_add(0, &olds[j], 1);
			wrs[j].flags = NAM_WR_SIGNALED;
		}
		assert_int_equal(f->ops->qp_post(adder->qp, wrs, 8), 0);
		take(f, adder->side.cq, wcs, 8);
	}
	/* The same with a CAS loop, on another word. */
	for (unsigned i = 0; i < ADDS / 4; i++) {
		uint64_t guess = 0, old = 0;

		do {
			struct nam_wr wr = wr_cas(64, &old, guess = old, old + 1);

			wr.flags = NAM_WR_SIGNALED;
			assert_int_equal(f->ops->qp_post(adder->qp, &wr, 1), 0);
			take(f, adder->side.cq, wcs, 1);
		} while (old != guess);
	}
}

static void
atomics__of_threads_with_their_own_qps__LOSE_NOTHING(void **state)
{
	struct fixture *f = *state;
	struct adder adders[3];

	for (unsigned i = 0; i < 3; i++) {
		adders[i].f = f;
		/* Two share a domain and with it the mapping, the third has its own. */
		side_open(f, &adders[i].side, 64, 1);
		adders[i].qp = fixture_connect(f, &adders[i].side);
	}
	(void)fixture_accepted(f, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(nam_thread_start("adder", adder_main, &adders[i],
			&adders[i].thread), 0);
	for (unsigned i = 0; i < 3; i++)
		nam_thread_join(adders[i].thread);
	assert_int_equal(__atomic_load_n((uint64_t *)f->mr.base, __ATOMIC_SEQ_CST), 3 * ADDS);
	assert_int_equal(__atomic_load_n((uint64_t *)f->mr.base + 8, __ATOMIC_SEQ_CST),
		3 * (ADDS / 4));
	for (unsigned i = 0; i < 3; i++) {
		f->ops->qp_destroy(adders[i].qp);
		side_close(f, &adders[i].side);
	}
}

/*
 * NAM_CAP_ORDERED_LOADS, between a reader and a writer of one image.  Front word at 16, rear word
 * in the last 8 bytes, body filled with the version.  The writer posts rear, body, front.
 */
#define IMAGE_WORDS 128u

static void
writer_main(void *arg)
{
	struct adder *writer = arg;
	struct fixture *f = writer->f;
	uint64_t image[IMAGE_WORDS];
	uint64_t version;

	for (version = 1; !atomic_load_explicit(&f->stop, memory_order_relaxed); version++) {
		struct nam_wr wrs[3] = {
			wr_write(8 * (IMAGE_WORDS - 1), &image[IMAGE_WORDS - 1], 8),
			wr_write(24, &image[3], 8 * (IMAGE_WORDS - 4)),
			wr_write(16, &image[2], 8),
		};
		struct nam_wc wc;

		for (unsigned i = 0; i < IMAGE_WORDS; i++)
			image[i] = version;
		wrs[2].flags = NAM_WR_SIGNALED;
		assert_int_equal(f->ops->qp_post(writer->qp, wrs, 3), 0);
		take(f, writer->side.cq, &wc, 1);
	}
}

static void
read__against_a_writer__NEVER_ACCEPTS_A_TORN_IMAGE(void **state)
{
	struct fixture *f = *state;
	struct adder writer = { .f = f };
	uint64_t image[IMAGE_WORDS], last = 0;
	unsigned accepted = 0, changes = 0;
	uint64_t until;

	if (!(f->client.domain->limits.caps & NAM_CAP_ORDERED_LOADS))
		skip();
	side_open(f, &writer.side, 64, 1);
	writer.qp = fixture_connect(f, &writer.side);
	(void)fixture_accepted(f, 1);
	assert_int_equal(nam_thread_start("writer", writer_main, &writer, &writer.thread), 0);
	until = nam_now_ns() + 500000000;
	/* On one busy processor the writer may need a while to get its turn. */
	while (nam_now_ns() < until || (changes < 3 && nam_now_ns() < until + TIMEOUT_NS)) {
		struct nam_wr wr = wr_read(0, image, sizeof(image));

		assert_int_equal(run(f, f->qps[0], wr), 0);
		if (image[2] != image[IMAGE_WORDS - 1])
			continue;
		accepted++;
		changes += image[2] != last;
		last = image[2];
		for (unsigned i = 3; i < IMAGE_WORDS; i++)
			assert_true(image[i] == image[2]);
	}
	atomic_store(&f->stop, true);
	nam_thread_join(writer.thread);
	assert_true(accepted > 0 && changes >= 3);
	f->ops->qp_destroy(writer.qp);
	side_close(f, &writer.side);
}

static void
limits__of_shm__ARE_WHAT_LAYERS_ABOVE_RELY_ON(void **state)
{
	struct fixture *f = *state;
	const struct nam_fabric_limits *limits = &f->client.domain->limits;

	assert_string_equal(f->ops->name, "shm");
	assert_true(limits->message_bytes >= 4096);
	assert_true(limits->caps & NAM_CAP_ATOMIC_VS_CPU);
	assert_true(limits->caps & NAM_CAP_WORD8_ATOMIC);
	assert_null(nam_fabric_find("nonesuch:/x", NULL));
	assert_null(nam_fabric_find("shm", NULL));
	assert_non_null(strstr(nam_fabric_names(), "shm"));
}

static void
region_alloc__nonsense__IS_AN_ERROR_WITH_A_MESSAGE(void **state)
{
	struct fixture *f = *state;
	struct nam_mr mr;

	f->diag.text[0] = '\0';
	assert_int_equal(f->ops->region_alloc(f->server.domain, 0, 12, 0, -1, &mr, &f->diag),
		-EINVAL);
	assert_true(f->diag.text[0]);
	assert_true(f->ops->region_alloc(f->server.domain, 4096, 12, 0, 1000, &mr, &f->diag) < 0);
	assert_non_null(strstr(f->diag.text, "1000"));
	/* More huge pages than any host that runs tests has. */
	assert_int_equal(f->ops->region_alloc(f->server.domain, 1ull << 40, 21, 0, -1, &mr,
		&f->diag), -ENOMEM);
	assert_non_null(strstr(f->diag.text, "nr_hugepages"));
	assert_int_equal(f->ops->mr_register(f->server.domain, &mr, 8, NAM_MR_REMOTE, &mr,
		&f->diag), -NAM_E_FABRIC_CAPABILITY);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(read__after_write__RETURNS_THE_SAME_BYTES_AND_TOUCHES_NO_OTHERS),
		TEST(cas__equal_and_different__SWAPS_AND_DOES_NOT),
		TEST(fetch_add__wraps__RETURNS_THE_OLD_VALUE),
		TEST(post__one_doorbell__TAKES_EFFECT_IN_POST_ORDER),
		TEST(post__more_than_the_depth__IS_REFUSED_WHOLE),
		TEST(poll__unsignaled__COMPLETES_ONLY_FAILURES),
		TEST(post__inline__LEAVES_THE_BUFFER_TO_THE_CALLER),
		TEST(post__outside_of_registered_memory__COMPLETES_WITH_ACCESS_AND_BREAKS_THE_QP),
		TEST(post__unknown_operation__COMPLETES_WITH_CAPABILITY),
		TEST(qp_destroy__with_requests_pending__DROPS_ONLY_ITS_OWN),
		TEST(atomics__of_threads_with_their_own_qps__LOSE_NOTHING),
		TEST(read__against_a_writer__NEVER_ACCEPTS_A_TORN_IMAGE),
		TEST(limits__of_shm__ARE_WHAT_LAYERS_ABOVE_RELY_ON),
		TEST(region_alloc__nonsense__IS_AN_ERROR_WITH_A_MESSAGE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
