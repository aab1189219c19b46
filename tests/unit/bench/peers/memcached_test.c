/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/peers/memcached.h"

/* The same text in memory that ends with it: sanitizers see a parser that reads on. */
static enum reply_kind
parse(const char *text, size_t bytes, struct reply *reply)
{
	static char *last;
	char *copy = malloc(bytes ? bytes : 1);

	free(last);
	last = copy;
	assert_non_null(copy);
	memcpy(copy, text, bytes);
	return memcached_parse(copy, bytes, reply);
}

static enum reply_kind
parse_all(const char *text)
{
	struct reply reply = { 0 };

	return parse(text, strlen(text), &reply);
}

static void
value__any_length__ALL_OF_IT_IS_CHECKED(void **state)
{
	static const uint32_t lengths[] = { 1, 7, 8, 9, 100, 1024, MEMCACHED_VALUE_BYTES_MAX };
	static const uint64_t word = 12346 * 0x9e3779b97f4a7c15ull;
	char value[MEMCACHED_VALUE_BYTES_MAX];

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t bytes = lengths[i];
		struct reply reply = { value, bytes, bytes + 2 };

		for (uint32_t at = 0; at < sizeof(value); at += sizeof(word))
			memcpy(value + at, &word, sizeof(word));
		assert_true(memcached_value_right(12345, bytes, &reply));
		assert_false(memcached_value_right(12346, bytes, &reply));
		for (uint32_t at = 0; at < bytes; at += 1 + bytes / 50) {
			value[at] ^= 0x10;
			assert_false(memcached_value_right(12345, bytes, &reply));
			value[at] ^= 0x10;
		}
		value[(bytes - 1) % sizeof(value)] ^= 1;
		assert_false(memcached_value_right(12345, bytes, &reply));
		value[(bytes - 1) % sizeof(value)] ^= 1;
		reply.text_bytes--;
		assert_false(memcached_value_right(12345, bytes, &reply));
	}
}

static void
get__a_pair__AS_THE_PROTOCOL_HAS_IT(void **state)
{
	static const struct {
		uint64_t pair;
		uint32_t key_bytes;
		const char *request;
	} gets[] = { { 0, 12, "mg 000000000000 v\r\n" }, { 9, 12, "mg 000000000009 v\r\n" },
		{ 6401, 12, "mg 000000006401 v\r\n" },
		{ 999999999999, 12, "mg 999999999999 v\r\n" },
		{ 6401, 16, "mg 0000000000006401 v\r\n" } };
	char request[MEMCACHED_GET_BYTES_MAX];

	(void)state;
	for (unsigned i = 0; i < sizeof(gets) / sizeof(gets[0]); i++) {
		assert_int_equal(memcached_get(request, gets[i].pair, gets[i].key_bytes),
			strlen(gets[i].request));
		assert_memory_equal(request, gets[i].request, strlen(gets[i].request));
	}
}

static void
set__a_pair__WITH_THE_VALUE_THAT_GETS_EXPECT(void **state)
{
	static const char begins[] = "set 000000006401 0 0 11\r\n";
	char request[SET_BYTES + 11];
	struct reply reply = { request + sizeof(begins) - 1, 11, 13 };

	(void)state;
	assert_int_equal(memcached_set(request, 6401, 12, 11), sizeof(begins) - 1 + 11 + 2);
	assert_memory_equal(request, begins, sizeof(begins) - 1);
	assert_true(memcached_value_right(6401, 11, &reply));
	assert_memory_equal(reply.text + 11, "\r\n", 2);
}

static void
fits__each_kind__ONLY_THAT_OF_THE_REQUEST(void **state)
{
	(void)state;
	assert_true(reply_fits(REPLY_STORED, true));
	assert_false(reply_fits(REPLY_STORED, false));
	assert_true(reply_fits(REPLY_VALUE, false) && reply_fits(REPLY_MISS, false));
	assert_false(reply_fits(REPLY_VALUE, true) || reply_fits(REPLY_MISS, true));
}

/* One reply with what follows it: partial up to its last byte, then itself, whatever follows. */
static void
expect_reply(const char *text, size_t bytes, enum reply_kind kind, const char *of_it,
	size_t of_it_bytes)
{
	char more[4096];
	struct reply reply = { 0 };

	for (size_t part = 0; part < bytes; part++)
		assert_int_equal(parse(text, part, &reply), REPLY_PARTIAL);
	memset(more, '\n', sizeof(more));
	memcpy(more, text, bytes);
	for (size_t extra = 0; extra < 40; extra += 13) {
		assert_int_equal(parse(more, bytes + extra, &reply), kind);
		assert_int_equal(reply.bytes, bytes);
		assert_int_equal(reply.text_bytes, of_it_bytes);
		assert_memory_equal(reply.text, of_it, of_it_bytes);
	}
}

static void
expect_text(const char *text, enum reply_kind kind, const char *of_it)
{
	expect_reply(text, strlen(text), kind, of_it, strlen(of_it));
}

static void
parse__replies_in_parts__PARTIAL_UNTIL_THEY_ARE_WHOLE(void **state)
{
	(void)state;
	expect_text("VA 8\r\nabcdefgh\r\n", REPLY_VALUE, "abcdefgh");
	expect_text("VA 3 f1 t-1\r\nxyz\r\n", REPLY_VALUE, "xyz");
	expect_text("VA 0\r\n\r\n", REPLY_VALUE, "");
	expect_text("EN\r\n", REPLY_MISS, "EN");
	expect_text("STORED\r\n", REPLY_STORED, "STORED");
	expect_reply("VA 7\r\n\r\n\0EN\r\n\r\n", 15, REPLY_VALUE, "\r\n\0EN\r\n", 7);
}

static void
parse__errors__WITH_THE_SERVERS_WORDS(void **state)
{
	(void)state;
	expect_text("ERROR\r\n", REPLY_ERROR, "ERROR");
	expect_text("CLIENT_ERROR bad data chunk\r\n", REPLY_ERROR, "CLIENT_ERROR bad data chunk");
	expect_text("SERVER_ERROR out of memory\r\n", REPLY_ERROR, "SERVER_ERROR out of memory");
}

static void
parse__what_is_no_reply__GARBAGE(void **state)
{
	static const char *const texts[] = { "\n", "x\n", "hello\r\n", "VA\r\n", "VA \r\n",
		"VA  8\r\n", "VA -1\r\n", "VA x8\r\n", "VA 8x\r\n", "VA 16385\r\n",
		"VA 99999999999999999999\r\n", "ENX\r\n", "STORED!\r\n", "VA 2\r\nabcd", "$8\r\n" };
	char line[MEMCACHED_LINE_BYTES_MAX + 1];

	(void)state;
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(parse_all(texts[i]), REPLY_GARBAGE);
	memset(line, 'x', sizeof(line));
	line[MEMCACHED_LINE_BYTES_MAX] = '\0';
	assert_int_equal(parse_all(line), REPLY_GARBAGE);
	line[MEMCACHED_LINE_BYTES_MAX - 1] = '\0';
	assert_int_equal(parse_all(line), REPLY_PARTIAL);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(value__any_length__ALL_OF_IT_IS_CHECKED),
		cmocka_unit_test(get__a_pair__AS_THE_PROTOCOL_HAS_IT),
		cmocka_unit_test(set__a_pair__WITH_THE_VALUE_THAT_GETS_EXPECT),
		cmocka_unit_test(fits__each_kind__ONLY_THAT_OF_THE_REQUEST),
		cmocka_unit_test(parse__replies_in_parts__PARTIAL_UNTIL_THEY_ARE_WHOLE),
		cmocka_unit_test(parse__errors__WITH_THE_SERVERS_WORDS),
		cmocka_unit_test(parse__what_is_no_reply__GARBAGE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
