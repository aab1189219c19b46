/* SPDX-License-Identifier: Apache-2.0 */
#include "frame.h"

#include <errno.h>
#include <string.h>

#include "common/hash/hash.h"

static inline uint32_t
padded(uint32_t bytes)
{
	return (bytes + 7) / 8 * 8;
}

void
nam_frame_seal(struct nam_frame *frame, uint32_t number, uint32_t bytes, uint16_t flags,
	uint64_t pace)
{
	uint64_t front = number | (uint64_t)bytes << 32 | (uint64_t)flags << 48, end;
	uint64_t hashed[2] = { front, pace };

	memset(frame->message + bytes, 0, padded(bytes) - bytes);
	frame->pace = pace;
	/* The front word is not in its place yet, so it is mixed in. */
	end = nam_hash64(frame->message, padded(bytes)) ^ nam_hash64(hashed, sizeof(hashed));
	memcpy(frame->message + padded(bytes), &end, sizeof(end));
	__atomic_store_n(&frame->front, front, __ATOMIC_RELEASE);
}

int
nam_frame_check(const struct nam_frame *frame, uint32_t size, uint32_t number, uint32_t *ret_bytes,
	uint16_t *ret_flags)
{
	uint32_t bytes;
	uint64_t end;

	if (size < NAM_FRAME_OVERHEAD)
		return -EAGAIN;
	if (NAM_GUARD(FRAME_NUMBER) && (uint32_t)frame->front != number)
		return -EAGAIN;
	bytes = (uint32_t)(frame->front >> 32) & 0xffffu;
	if (bytes > NAM_RPC_BYTES_MAX)
		return -EAGAIN;
	if (nam_frame_bytes(bytes) > size) {
		*ret_bytes = bytes;
		return -NAM_E_LIMIT;
	}
	memcpy(&end, frame->message + padded(bytes), sizeof(end));
	if (NAM_GUARD(FRAME_END) && end != (nam_hash64(frame->message, padded(bytes)) ^
		nam_hash64(frame, sizeof(*frame))))
		return -EAGAIN;
	*ret_bytes = bytes;
	*ret_flags = (uint16_t)(frame->front >> 48);
	return 0;
}

int
nam_frame_take(const struct nam_frame *frame, uint32_t frame_bytes, uint32_t number,
	struct nam_frame *copy, uint32_t *ret_bytes, uint16_t *ret_flags)
{
	uint64_t front = __atomic_load_n(&frame->front, __ATOMIC_ACQUIRE);
	uint32_t bytes = nam_frame_bytes((uint32_t)(front >> 32) & 0xffffu);

	if (bytes > frame_bytes)
		return -EAGAIN;
	memcpy(copy, frame, bytes);
	/* As it is now: the length that the copy claims may be another one's by now. */
	copy->front = front;
	return nam_frame_check(copy, bytes, number, ret_bytes, ret_flags) ? -EAGAIN : 0;
}
