/* SPDX-License-Identifier: Apache-2.0 */
/* Redo records: an image that is torn anywhere is completed, and no record reaches beyond it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/env.h"
#include "index/node/redo.h"

#define NODE_BYTES 512u
#define WORDS (NODE_BYTES / 8)
#define ROUNDS 20000u

struct fixture {
	struct nam__geometry g;
	struct nam_gaddr at;
	uint64_t before[WORDS], after[WORDS], record[NAM__REDO_WORDS];
};

static void
begin(struct fixture *fixture)
{
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.node_bytes = NODE_BYTES;
	options.head_interval = 0;
	assert_int_equal(nam__geometry_init(&fixture->g, &options, 0x5eed), 0);
	fixture->at = nam_gaddr_make(1, 64, 1);
	nam__node_init(&fixture->g, fixture->before, NAM__NODE_LEAF, 0, 1, nam__key_lowest.w, NULL);
	nam__node_seal(&fixture->g, fixture->before, fixture->at);
	memcpy(fixture->after, fixture->before, NODE_BYTES);
}

/* Each word of a change may be there or not; that of its hash is the new one if it is. */
static void
tear(struct nam_rng *rng, const struct fixture *fixture, uint64_t *ret_image)
{
	for (uint32_t i = 0; i < WORDS; i++)
		ret_image[i] = nam_rng_below(rng, 2) ? fixture->before[i] : fixture->after[i];
}

static void
expect_completed(struct nam_rng *rng, const struct fixture *fixture, struct nam__dirty dirty,
	enum nam__header_part part, enum nam__redo_kind kind)
{
	enum nam__header_part part_read;
	struct nam__dirty dirty_read;
	uint64_t image[WORDS];

	assert_int_equal(nam__redo_read(&fixture->g, fixture->record, &dirty_read, &part_read),
		kind);
	assert_int_equal(nam__dirty_words(dirty_read), nam__dirty_words(dirty));
	assert_int_equal(part_read, part);
	tear(rng, fixture, image);
	nam__redo_apply(&fixture->g, image, fixture->record,
		kind == NAM__REDO_ELSEWHERE ? fixture->after : NULL, dirty_read, part_read);
	assert_memory_equal(image, fixture->after, NODE_BYTES);
}

static void
record__of_any_change__COMPLETES_A_TORN_IMAGE(void **state)
{
	struct nam_rng rng = nam_rng_seed(1);
	struct fixture fixture;

	(void)state;
	for (unsigned round = 0; round < ROUNDS; round++) {
		enum nam__header_part part = (enum nam__header_part)nam_rng_below(&rng, 4);
		struct nam__dirty dirty = { 0, 0 };
		uint32_t rear, bytes;
		bool fits;

		begin(&fixture);
		rear = fixture.g.node_words - 1;
		if (nam_rng_below(&rng, 8)) {
			dirty.first = fixture.g.entries_at +
				(uint32_t)nam_rng_below(&rng, rear - fixture.g.entries_at);
			dirty.end = dirty.first + 1 +
				(uint32_t)nam_rng_below(&rng, rear - dirty.first);
		}
		for (uint32_t i = dirty.first; i < dirty.end; i++)
			fixture.after[i] = nam_rng_next(&rng);
		if (part >= NAM__HEADER_COUNTS)
			nam__node_set_counts(fixture.after, 3, 2);
		for (uint32_t i = NAM__WORD_SIBLING; i < nam__header_end(&fixture.g, part); i++)
			fixture.after[i] = nam_rng_next(&rng);
		nam__node_seal(&fixture.g, fixture.after, fixture.at);
		fits = nam__redo_fits(dirty, part);
		bytes = nam__redo_fill(fixture.record, fixture.after, dirty, part);
		assert_true(bytes <= NAM_NODE_STAGGER_BYTES);
		expect_completed(&rng, &fixture, dirty, part,
			fits ? NAM__REDO_HERE : NAM__REDO_ELSEWHERE);
	}
}

/* Clients may write any bytes there: words of the header or of entries change, or none do. */
static void
record__of_any_bytes__STAYS_IN_THE_NODE(void **state)
{
	struct nam_rng rng = nam_rng_seed(2);
	uint64_t image[WORDS + 2], block[WORDS];
	struct fixture fixture;
	unsigned kinds[3] = { 0 };

	(void)state;
	begin(&fixture);
	for (unsigned round = 0; round < ROUNDS; round++) {
		enum nam__header_part part;
		struct nam__dirty dirty;
		enum nam__redo_kind kind;

		for (unsigned i = 0; i < NAM__REDO_WORDS; i++)
			fixture.record[i] = nam_rng_next(&rng);
		/* Often enough near what a writer would write. */
		if (round % 2)
			fixture.record[NAM__REDO_NOTE] = nam_rng_below(&rng, 4) << 48 |
				nam_rng_below(&rng, 5) << 32 |
				nam_rng_below(&rng, WORDS + 8) << 16 |
				nam_rng_below(&rng, WORDS + 8);
		for (unsigned i = 0; i < WORDS; i++)
			block[i] = nam_rng_next(&rng);
		kind = nam__redo_read(&fixture.g, fixture.record, &dirty, &part);
		kinds[kind]++;
		if (kind == NAM__REDO_NONE)
			continue;
		memcpy(image + 1, fixture.before, NODE_BYTES);
		image[0] = image[WORDS + 1] = 0x6765617264ull;
		nam__redo_apply(&fixture.g, image + 1, fixture.record,
			kind == NAM__REDO_ELSEWHERE ? block : NULL, dirty, part);
		assert_int_equal(image[0], 0x6765617264ull);
		assert_int_equal(image[WORDS + 1], 0x6765617264ull);
		assert_int_equal(image[1 + NAM__WORD_LOCK], fixture.before[NAM__WORD_LOCK]);
	}
	assert_true(kinds[NAM__REDO_NONE] && kinds[NAM__REDO_HERE] && kinds[NAM__REDO_ELSEWHERE]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(record__of_any_change__COMPLETES_A_TORN_IMAGE),
		cmocka_unit_test(record__of_any_bytes__STAYS_IN_THE_NODE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
