/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>

#include "common/rpc/transport.h"
#include "common/rpc/frame.h"

#define NUMBER 4711u
#define PACE 99u

union place {
	struct nam_frame frame;
	uint8_t bytes[NAM_FRAME_BYTES_MAX];
};

static void
fill(union place *place, uint32_t bytes)
{
	memset(place, 0x5a, sizeof(*place));
	for (uint32_t i = 0; i < bytes; i++)
		place->frame.message[i] = (uint8_t)(i * 7 + 1);
	nam_frame_seal(&place->frame, NUMBER, bytes, NAM_FRAME_FETCH, PACE);
}

static void
nam_frame_take__any_length__THE_MESSAGE(void **state)
{
	static const uint32_t lengths[] = { 0, 1, 7, 8, 9, 24, 100, NAM_RPC_BYTES_MAX };
	static union place place, copy;

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t bytes = 0;
		uint16_t flags = 0;

		fill(&place, lengths[i]);
		assert_true(nam_frame_is_new(&place.frame, NUMBER));
		assert_int_equal(nam_frame_take(&place.frame, NAM_FRAME_BYTES_MAX, NUMBER,
			&copy.frame, &bytes, &flags), 0);
		assert_int_equal(bytes, lengths[i]);
		assert_int_equal(flags, NAM_FRAME_FETCH);
		assert_int_equal(copy.frame.pace, PACE);
		assert_memory_equal(copy.frame.message, place.frame.message, bytes);
	}
}

static void
nam_frame_check__another_number__AGAIN(void **state)
{
	static union place place;
	uint32_t bytes;
	uint16_t flags;

	(void)state;
	fill(&place, 40);
	assert_false(nam_frame_is_new(&place.frame, NUMBER + NAM_FRAMES));
	assert_int_equal(nam_frame_check(&place.frame, sizeof(place), NUMBER + NAM_FRAMES, &bytes,
		&flags), -EAGAIN);
	memset(&place, 0, sizeof(place));
	assert_int_equal(nam_frame_check(&place.frame, sizeof(place), 1, &bytes, &flags), -EAGAIN);
}

/* Each word missing in turn, or that of an older message: nothing but the whole is taken. */
static void
nam_frame_check__a_word_from_before__AGAIN(void **state)
{
	static union place old, place;
	uint32_t bytes, words = nam_frame_bytes(200) / 8;
	uint16_t flags;

	(void)state;
	for (uint32_t i = 0; i < words; i++) {
		fill(&old, 200);
		memset(old.frame.message, 0x33, 200);
		nam_frame_seal(&old.frame, NUMBER - NAM_FRAMES, 200, 0, PACE + 1);
		fill(&place, 200);
		memcpy(place.bytes + 8ul * i, old.bytes + 8ul * i, 8);
		assert_int_equal(nam_frame_check(&place.frame, sizeof(place), NUMBER, &bytes,
			&flags), -EAGAIN);
	}
}

static void
nam_frame_check__less_than_all_of_it__LIMIT_and_its_length(void **state)
{
	static union place place;
	uint32_t bytes = 0;
	uint16_t flags;

	(void)state;
	fill(&place, 200);
	assert_int_equal(nam_frame_check(&place.frame, 64, NUMBER, &bytes, &flags), -NAM_E_LIMIT);
	assert_int_equal(bytes, 200);
	assert_int_equal(nam_frame_check(&place.frame, nam_frame_bytes(200), NUMBER, &bytes,
		&flags), 0);
}

static void
nam_frame_take__longer_than_its_place__AGAIN(void **state)
{
	static union place place, copy;
	uint32_t bytes;
	uint16_t flags;

	(void)state;
	fill(&place, 200);
	assert_int_equal(nam_frame_take(&place.frame, 128, NUMBER, &copy.frame, &bytes, &flags),
		-EAGAIN);
	place.frame.front = NUMBER | 0xffffull << 32;
	assert_int_equal(nam_frame_take(&place.frame, NAM_FRAME_BYTES_MAX, NUMBER, &copy.frame,
		&bytes, &flags), -EAGAIN);
}

static void
nam_transport_find__names__FOUND_and_others_EINVAL(void **state)
{
	(void)state;
	for (int i = NAM_TRANSPORT_SRQ; i < NAM_TRANSPORTS_COUNT; i++)
		assert_int_equal(nam_transport_find(nam_transport_name((enum nam_transport)i)), i);
	assert_int_equal(nam_transport_find("pigeon"), -EINVAL);
	assert_null(nam_transport_name(NAM_TRANSPORT_DEFAULT));
	assert_null(nam_transport_name(NAM_TRANSPORTS_COUNT));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nam_frame_take__any_length__THE_MESSAGE),
		cmocka_unit_test(nam_frame_check__another_number__AGAIN),
		cmocka_unit_test(nam_frame_check__a_word_from_before__AGAIN),
		cmocka_unit_test(nam_frame_check__less_than_all_of_it__LIMIT_and_its_length),
		cmocka_unit_test(nam_frame_take__longer_than_its_place__AGAIN),
		cmocka_unit_test(nam_transport_find__names__FOUND_and_others_EINVAL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
