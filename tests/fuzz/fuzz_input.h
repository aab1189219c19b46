/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_input.h -- an input as a stream of bytes; past its end everything is zero.
 */
#ifndef NAM_TESTS_FUZZ_FUZZ_INPUT_H
#define NAM_TESTS_FUZZ_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct fuzz_input {
	const uint8_t *data;
	size_t left;
};

static inline size_t
fuzz_take(struct fuzz_input *input, void *to, size_t bytes)
{
	size_t got = bytes < input->left ? bytes : input->left;

	memset(to, 0, bytes);
	if (got)
		memcpy(to, input->data, got);
	input->data += got;
	input->left -= got;
	return got;
}

static inline uint8_t
fuzz_u8(struct fuzz_input *input)
{
	uint8_t value;

	fuzz_take(input, &value, sizeof(value));
	return value;
}

static inline uint16_t
fuzz_u16(struct fuzz_input *input)
{
	uint16_t value;

	fuzz_take(input, &value, sizeof(value));
	return value;
}

/* Memory of exactly that size, so that a sanitizer sees every byte too many; never NULL. */
static inline void *
fuzz_memory(size_t bytes)
{
	void *memory = calloc(1, bytes ? bytes : 1);

	if (!memory)
		abort();
	return memory;
}

#endif /* NAM_TESTS_FUZZ_FUZZ_INPUT_H */
