/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tsv_fuzz.c -- input of `namctl load`, and keys as people write them.
 *
 * input	key type, key bytes, unique; text
 */
#include <stdio.h>

#include "fuzz_input.h"
#include "tools/namctl/key.c"
#include "tools/namctl/tsv.c"

/* A key that was understood can be printed, and hexadecimal ones come back. */
static void
print_back(const struct key_format *format, const uint8_t *key)
{
	struct key_format hex = { .type = KEY_HEX, .bytes = format->bytes };
	uint8_t again[NAM_KEY_BYTES_MAX];
	char *text = fuzz_memory(KEY_TEXT_BYTES);
	struct nam_diag diag;

	if (key_print(format, key, text) != strlen(text))
		abort();
	(void)key_print(&hex, key, text);
	if (key_parse(&hex, text, again, &diag) || memcmp(again, key, format->bytes) != 0)
		abort();
	free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static const char *const types[] = { NULL, "u64", "text", "hex" };
	struct fuzz_input input = { data, bytes };
	struct nam_diag diag = { "" };
	struct key_format format;
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint64_t payload;
	struct tsv tsv;
	const char *type = types[fuzz_u8(&input) % 4];
	uint32_t key_bytes = 8 + fuzz_u8(&input) % 57;
	bool unique = fuzz_u8(&input) & 1;
	FILE *file;

	if (!input.left || key_format_choose(type, key_bytes, &format, &diag))
		return 0;
	file = fmemopen((void *)(uintptr_t)input.data, input.left, "r");
	if (!file)
		abort();
	if (!tsv_read(file, "input", &format, unique, &tsv, &diag)) {
		while (tsv.left && !tsv_next(&tsv, key, &payload))
			print_back(&format, key);
		tsv_free(&tsv);
	} else if (!diag.text[0]) {
		abort();
	}
	fclose(file);
	return 0;
}
