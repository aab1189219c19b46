/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/raw/blocks.h"
#include "bench/text.h"

static void
at__scattered_runs__EVERY_BLOCK_ONCE_BEHIND_ITS_HEADER(void **state)
{
	static const unsigned run_lengths[] = { 5, 1, 100, 3, 3, 77 };
	struct blocks blocks = { .bytes = 1024, .stride = raw_stride(1024) };
	struct nam_gaddr all[200];
	uint64_t count = 0;

	(void)state;
	/* Runs with gaps between them, in two regions, given in reverse order. */
	for (unsigned run = 0; run < 6; run++)
		for (unsigned i = run_lengths[run]; i > 0; i--)
			all[count++] = nam_gaddr_make((uint16_t)(run % 2),
				run * 1000000 / 64 * 64 + i * (uint64_t)blocks.stride, 0);
	blocks.count = count;
	blocks.all = malloc(sizeof(all));
	assert_non_null(blocks.all);
	memcpy(blocks.all, all, sizeof(all));
	assert_int_equal(blocks_arrange(&blocks), 0);
	assert_int_equal(blocks.half, 4);	/* 6 runs, padded to 8 */
	for (uint64_t i = 0; i < count; i++) {
		struct nam_gaddr at = blocks_at(&blocks, i);

		assert_int_equal(nam_gaddr_region(at), nam_gaddr_region(blocks.all[i]));
		assert_int_equal(nam_gaddr_offset(at), nam_gaddr_offset(blocks.all[i]) + 64);
	}
	free(blocks.all);
	free(blocks.runs);
	free(blocks.firsts);
}

static void
stride__any_size__HOLDS_THE_BLOCK_AND_ITS_HEADER(void **state)
{
	(void)state;
	assert_int_equal(raw_stride(1024), 1088);
	for (uint32_t bytes = 8; bytes < 5000; bytes += 8) {
		assert_int_equal(raw_stride(bytes) % 64, 0);
		assert_true(raw_stride(bytes) >= bytes + 64);
	}
}

static void
arena__plain_pages__FILLED_AND_ALIGNED(void **state)
{
	struct arena arena;

	(void)state;
	assert_int_equal(arena_map(256, 1000, ARENA_4K, &arena), 0);
	assert_string_equal(arena.pages, "4k");
	for (uint64_t i = 0; i < 1000; i++) {
		const uint64_t *words = (const void *)(arena.base + i * arena.stride);

		assert_int_equal(words[0], raw_pattern(i));
		assert_int_equal(words[31], raw_pattern(i));
	}
	arena_unmap(&arena);
	assert_null(arena.mapping);
}

static void
text__numbers__READABLE(void **state)
{
	(void)state;
	assert_string_equal(text_count(0), "0");
	assert_string_equal(text_count(999), "999");
	assert_string_equal(text_count(1000), "1.00 k");
	assert_string_equal(text_count(12345678), "12.3 M");
	assert_string_equal(text_bytes(512), "512 B");
	assert_string_equal(text_bytes(1536), "1.50 KiB");
	assert_string_equal(text_ns(850), "850 ns");
	assert_string_equal(text_ns(1234), "1.23 us");
	assert_string_equal(text_ns(9.999e9), "10.0 s");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(at__scattered_runs__EVERY_BLOCK_ONCE_BEHIND_ITS_HEADER),
		cmocka_unit_test(stride__any_size__HOLDS_THE_BLOCK_AND_ITS_HEADER),
		cmocka_unit_test(arena__plain_pages__FILLED_AND_ALIGNED),
		cmocka_unit_test(text__numbers__READABLE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
