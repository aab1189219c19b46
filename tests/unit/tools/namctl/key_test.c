/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/namctl/key.h"

static struct key_format
format_of(const char *type, uint32_t bytes)
{
	struct key_format format;

	assert_int_equal(key_format_choose(type, bytes, &format, NULL), 0);
	return format;
}

static void
choose__by_size__U64_FOR_8_BYTES_ELSE_TEXT(void **state)
{
	struct nam_diag diag = { "" };
	struct key_format format;

	(void)state;
	assert_int_equal(format_of(NULL, 8).type, KEY_U64);
	assert_int_equal(format_of(NULL, 16).type, KEY_TEXT);
	assert_int_equal(format_of("hex", 8).type, KEY_HEX);
	assert_int_equal(key_format_choose("octal", 8, &format, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "octal"));
}

static void
parse__u64__BIG_ENDIAN_IN_THE_LAST_8_BYTES(void **state)
{
	static const uint8_t expected[12] = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2 };
	struct key_format format = format_of("u64", 12);
	uint8_t key[12];

	(void)state;
	assert_int_equal(key_parse(&format, "258", key, NULL), 0);
	assert_memory_equal(key, expected, 12);
}

static void
parse__bad_numbers__EINVAL(void **state)
{
	static const char *const texts[] = { "", "-1", "+1", " 1", "1 ", "1x", "0x10",
		"18446744073709551616" };
	struct key_format format = format_of("u64", 8);
	uint8_t key[8];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (key_parse(&format, texts[i], key, NULL) != -EINVAL)
			fail_msg("'%s' was taken", texts[i]);
	assert_int_equal(key_parse(&format, "18446744073709551615", key, NULL), 0);
}

static void
parse__text__PADDED_AND_NOT_TOO_LONG(void **state)
{
	struct key_format format = format_of("text", 8);
	struct nam_diag diag = { "" };
	uint8_t key[8];

	(void)state;
	assert_int_equal(key_parse(&format, "abc", key, NULL), 0);
	assert_memory_equal(key, "abc\0\0\0\0\0", 8);
	assert_int_equal(key_parse(&format, "12345678", key, NULL), 0);
	assert_int_equal(key_parse(&format, "123456789", key, &diag), -NAM_E_KEY_BYTES);
	assert_non_null(strstr(diag.text, "9 bytes"));
}

static void
parse__hex__BYTES(void **state)
{
	struct key_format format = format_of("hex", 8);
	uint8_t key[8];

	(void)state;
	assert_int_equal(key_parse(&format, "00fFA0000000000a", key, NULL), 0);
	assert_memory_equal(key, "\x00\xff\xa0\0\0\0\0\x0a", 8);
	assert_int_equal(key_parse(&format, "abc", key, NULL), -EINVAL);
	assert_int_equal(key_parse(&format, "", key, NULL), -EINVAL);
	assert_int_equal(key_parse(&format, "zzzzzzzzzzzzzzzz", key, NULL), -EINVAL);
}

static void
parse__hex_of_another_length__KEY_BYTES(void **state)
{
	static const char *const texts[] = { "00", "11223344556677", "112233445566778899" };
	struct key_format format = format_of("hex", 8);
	struct nam_diag diag = { "" };
	uint8_t key[8];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (key_parse(&format, texts[i], key, &diag) != -NAM_E_KEY_BYTES)
			fail_msg("'%s' was taken", texts[i]);
		assert_non_null(strstr(diag.text, "write 16 hexadecimal digits"));
	}
}

static void
print__each_type__AS_IT_WAS_PARSED(void **state)
{
	static const struct {
		const char *type, *text;
	} cases[] = { { "u64", "0" }, { "u64", "18446744073709551615" }, { "text", "hello w" },
		{ "hex", "0123456789abcdef" } };

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct key_format format = format_of(cases[i].type, 8);
		char text[KEY_TEXT_BYTES];
		uint8_t key[8];

		assert_int_equal(key_parse(&format, cases[i].text, key, NULL), 0);
		assert_int_equal(key_print(&format, key, text), strlen(cases[i].text));
		assert_string_equal(text, cases[i].text);
	}
}

static void
print__bytes_that_are_no_text__ESCAPED(void **state)
{
	struct key_format format = format_of("text", 64);
	char text[KEY_TEXT_BYTES];
	uint8_t key[64];

	(void)state;
	memset(key, 1, sizeof(key));
	assert_int_equal(key_print(&format, key, text), 4 * 64);
	assert_memory_equal(text, "\\x01\\x01", 8);
}

/* Every byte at every place of a key that has something before and behind it. */
static void
print__any_byte__TEXT_THAT_PARSES_TO_THE_SAME_KEY(void **state)
{
	static const char *const keys[] = { "aaaaaaaa", "a\\bc", "\\x41", "\\\\", "\xc3\xa4",
		"\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc0\x80", "a\xe2\x82", "" };
	static const char *const types[] = { "text", "hex" };

	(void)state;
	for (size_t t = 0; t < 2 * sizeof(keys) / sizeof(keys[0]); t++) {
		struct key_format format = format_of(types[t % 2], 8);

		for (unsigned i = 0; i < 8 * 256; i++) {
			char text[KEY_TEXT_BYTES];
			uint8_t key[8] = { 0 }, again[8];

			memcpy(key, keys[t / 2], strlen(keys[t / 2]));
			key[i / 256] = (uint8_t)i;
			(void)key_print(&format, key, text);
			assert_true(*text);
			assert_null(strpbrk(text, "\t\n\r"));
			assert_int_equal(key_parse(&format, text, again, NULL), 0);
			assert_memory_equal(again, key, 8);
		}
	}
}

static void
print__not_utf8__ESCAPED(void **state)
{
	static const struct {
		const char *key, *text;
	} cases[] = {
		{ "a\\b", "a\\\\b" },
		{ "gr\xc3\xbcn", "gr\xc3\xbcn" },
		{ "\xf0\x9f\x8c\xb2", "\xf0\x9f\x8c\xb2" },
		{ "\xff\xfe", "\\xff\\xfe" },
		{ "\xc3", "\\xc3" },
		{ "\xc0\x80", "\\xc0\\x80" },
		{ "\xed\xa0\x80", "\\xed\\xa0\\x80" },
		{ "\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80" },
		{ "", "\\x00" },
	};
	struct key_format format = format_of("text", 8);

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[KEY_TEXT_BYTES];
		uint8_t key[8] = { 0 };

		memcpy(key, cases[i].key, strlen(cases[i].key));
		assert_int_equal(key_print(&format, key, text), strlen(cases[i].text));
		assert_string_equal(text, cases[i].text);
	}
}

static void
parse__stray_backslash__EINVAL(void **state)
{
	static const char *const texts[] = { "\\", "a\\b", "\\x", "\\x4", "\\xg0", "\\n",
		"\\\\\\" };
	struct key_format format = format_of("text", 8);
	struct nam_diag diag = { "" };
	uint8_t key[8];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (key_parse(&format, texts[i], key, &diag) != -EINVAL)
			fail_msg("'%s' was taken", texts[i]);
		assert_non_null(strstr(diag.text, "backslash"));
	}
}

static void
fits__u64__UP_TO_64_BITS(void **state)
{
	uint8_t key[12] = { 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff };
	struct key_format number = format_of("u64", 12), text = format_of("text", 12);

	(void)state;
	assert_true(key_fits(&number, key));
	key[3] = 1;
	assert_false(key_fits(&number, key));
	assert_true(key_fits(&text, key));
	number = format_of("u64", 8);
	assert_true(key_fits(&number, key + 4));
}

static void
payload__numbers__DECIMAL_ONLY(void **state)
{
	struct nam_diag diag = { "" };
	uint64_t payload;

	(void)state;
	assert_int_equal(payload_parse("18446744073709551615", &payload, NULL), 0);
	assert_true(payload == UINT64_MAX);
	assert_int_equal(payload_parse("12a", &payload, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, "12a"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(choose__by_size__U64_FOR_8_BYTES_ELSE_TEXT),
		cmocka_unit_test(parse__u64__BIG_ENDIAN_IN_THE_LAST_8_BYTES),
		cmocka_unit_test(parse__bad_numbers__EINVAL),
		cmocka_unit_test(parse__text__PADDED_AND_NOT_TOO_LONG),
		cmocka_unit_test(parse__hex__BYTES),
		cmocka_unit_test(parse__hex_of_another_length__KEY_BYTES),
		cmocka_unit_test(print__each_type__AS_IT_WAS_PARSED),
		cmocka_unit_test(print__bytes_that_are_no_text__ESCAPED),
		cmocka_unit_test(print__any_byte__TEXT_THAT_PARSES_TO_THE_SAME_KEY),
		cmocka_unit_test(print__not_utf8__ESCAPED),
		cmocka_unit_test(parse__stray_backslash__EINVAL),
		cmocka_unit_test(fits__u64__UP_TO_64_BITS),
		cmocka_unit_test(payload__numbers__DECIMAL_ONLY),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
