/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame_fuzz.c -- what lies in a place of a mailbox: nothing is taken from it but a whole message
 * of the number that is due.
 *
 * input	size of the ring's frames, the number that is due; whether a message is sealed, then
 *		how long it is, and which byte is changed afterwards; else the place's bytes
 */
#include "common/rpc/frame.h"
#include "fuzz_input.h"

/* A copy that was taken must be what sealing its message anew makes of it. */
static void
taken(const struct nam_frame *copy, uint32_t number, uint32_t bytes, uint16_t flags)
{
	uint32_t all = nam_frame_bytes(bytes);
	struct nam_frame *again = fuzz_memory(all);

	memcpy(again->message, copy->message, bytes);
	nam_frame_seal(again, number, bytes, flags, copy->pace);
	if (memcmp(again, copy, NAM_FRAME_HEADER_BYTES + bytes))
		abort();
	free(again);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input input = { data, size };
	uint32_t frame_bytes = NAM_FRAME_BYTES_MIN + fuzz_u8(&input) % 64 * 64;
	uint32_t number = fuzz_u16(&input), bytes = 0;
	uint8_t sealed = fuzz_u8(&input);
	struct nam_frame *place, *copy = fuzz_memory(NAM_FRAME_BYTES_MAX);
	uint16_t flags = 0;

	if (frame_bytes > NAM_FRAME_BYTES_MAX)
		frame_bytes = NAM_FRAME_BYTES_MAX;
	place = fuzz_memory(frame_bytes);
	if (sealed & 1) {
		uint32_t most = frame_bytes - NAM_FRAME_OVERHEAD, length;

		/* Only messages are sealed. */
		if (most > NAM_RPC_BYTES_MAX)
			most = NAM_RPC_BYTES_MAX;
		length = fuzz_u16(&input) % (most + 1);
		fuzz_take(&input, place->message, length);
		nam_frame_seal(place, number, length, sealed & 2, sealed);
		if (sealed & 4)
			((uint8_t *)place)[fuzz_u16(&input) % nam_frame_bytes(length)] ^= 0x10;
	} else {
		fuzz_take(&input, place, frame_bytes);
	}
	if (!nam_frame_take(place, frame_bytes, number, copy, &bytes, &flags)) {
		if (sealed & 4 && sealed & 1)
			abort();
		taken(copy, number, bytes, flags);
	} else if ((sealed & 5) == 1) {
		abort();
	}
	/* The same with a part of it, as a fetch has it. */
	memcpy(copy, place, frame_bytes);
	(void)!nam_frame_check(copy, fuzz_u16(&input) % (frame_bytes + 1), number, &bytes, &flags);
	free(place);
	free(copy);
	return 0;
}
