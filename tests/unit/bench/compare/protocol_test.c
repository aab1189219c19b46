/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/compare/protocol.h"

static const struct protocol *const protocols[] = { &protocol_memcached, &protocol_redis };

/* The same text in memory that ends where it ends, so that sanitizers see who reads on. */
static enum reply_kind
parse(const struct protocol *protocol, const char *text, size_t bytes, struct reply *reply)
{
	static char *last;
	char *copy = malloc(bytes ? bytes : 1);

	free(last);
	last = copy;
	assert_non_null(copy);
	memcpy(copy, text, bytes);
	return protocol->parse(copy, bytes, reply);
}

static enum reply_kind
parse_all(const struct protocol *protocol, const char *text)
{
	struct reply reply = { 0 };

	return parse(protocol, text, strlen(text), &reply);
}

/* ---- pairs -------------------------------------------------------------------------------- */

static void
key__many_pairs__SLOTS_AND_NO_TWO_ALIKE(void **state)
{
	char last[PROTOCOL_KEY_BYTES] = "", key[PROTOCOL_KEY_BYTES];

	(void)state;
	for (uint64_t pair = 0; pair < 300000; pair += 61) {
		protocol_key(pair, key);
		for (unsigned i = 0; i < PROTOCOL_KEY_BYTES; i++)
			assert_true(key[i] > ' ' && key[i] < 127);
		assert_memory_not_equal(key, last, sizeof(key));
		memcpy(last, key, sizeof(last));
	}
	protocol_key(0, key);
	assert_memory_equal(key, "00000000", 8);
	protocol_key(64 + 63, key);
	assert_memory_equal(key, "0000001_", 8);
}

static void
value__any_length__ALL_OF_IT_IS_CHECKED(void **state)
{
	static const uint32_t lengths[] = { 1, 7, 8, 9, 100, 1024, PROTOCOL_VALUE_BYTES_MAX };
	char value[PROTOCOL_VALUE_BYTES_MAX];

	(void)state;
	for (unsigned i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		uint32_t bytes = lengths[i];
		struct reply reply = { value, bytes, bytes + 2 };

		protocol_value(12345, bytes, value);
		assert_true(protocol_value_right(12345, bytes, &reply));
		assert_false(protocol_value_right(12346, bytes, &reply));
		for (uint32_t at = 0; at < bytes; at += 1 + bytes / 50) {
			value[at] ^= 0x10;
			assert_false(protocol_value_right(12345, bytes, &reply));
			value[at] ^= 0x10;
		}
		value[bytes - 1] ^= 1;
		assert_false(protocol_value_right(12345, bytes, &reply));
		value[bytes - 1] ^= 1;
		reply.text_bytes--;
		assert_false(protocol_value_right(12345, bytes, &reply));
	}
}

/* ---- requests ----------------------------------------------------------------------------- */

static void
get__a_pair__AS_THE_PROTOCOL_HAS_IT(void **state)
{
	char request[PROTOCOL_FRAME_BYTES_MAX];
	size_t bytes;

	(void)state;
	bytes = protocol_memcached.get(request, 64 * 10 + 1);
	assert_int_equal(bytes, strlen("mg 000000A1 v\r\n"));
	assert_memory_equal(request, "mg 000000A1 v\r\n", bytes);
	bytes = protocol_redis.get(request, 64 * 10 + 1);
	assert_int_equal(bytes, strlen("*2\r\n$3\r\nGET\r\n$8\r\n000000A1\r\n"));
	assert_memory_equal(request, "*2\r\n$3\r\nGET\r\n$8\r\n000000A1\r\n", bytes);
}

static void
set__a_pair__WITH_ITS_VALUE_AND_ITS_LENGTH(void **state)
{
	static const char *const heads[] = { "set 00000007 0 0 20\r\n",
		"*3\r\n$3\r\nSET\r\n$8\r\n00000007\r\n$20\r\n" };
	char request[PROTOCOL_FRAME_BYTES_MAX + 20], value[20];

	(void)state;
	protocol_value(7, sizeof(value), value);
	for (unsigned i = 0; i < 2; i++) {
		size_t head = strlen(heads[i]);

		assert_int_equal(protocols[i]->set(request, 7, sizeof(value)), head + 22);
		assert_memory_equal(request, heads[i], head);
		assert_memory_equal(request + head, value, sizeof(value));
		assert_memory_equal(request + head + 20, "\r\n", 2);
	}
}

static void
set__the_longest_value__LEAVES_ROOM_IN_ITS_FRAME(void **state)
{
	char *request = malloc(PROTOCOL_FRAME_BYTES_MAX + PROTOCOL_VALUE_BYTES_MAX);

	(void)state;
	assert_non_null(request);
	for (unsigned i = 0; i < 2; i++)
		assert_true(protocols[i]->set(request, UINT64_MAX, PROTOCOL_VALUE_BYTES_MAX) <=
			    PROTOCOL_FRAME_BYTES_MAX + PROTOCOL_VALUE_BYTES_MAX);
	free(request);
}

/* ---- replies ------------------------------------------------------------------------------ */

/* One reply with what follows it: partial up to its last byte, then itself, whatever follows. */
static void
expect_reply(const struct protocol *protocol, const char *text, size_t bytes, enum reply_kind kind,
	const char *of_it, size_t of_it_bytes)
{
	char more[4096];
	struct reply reply = { 0 };

	for (size_t part = 0; part < bytes; part++)
		assert_int_equal(parse(protocol, text, part, &reply), REPLY_PARTIAL);
	memset(more, '\n', sizeof(more));
	memcpy(more, text, bytes);
	for (size_t extra = 0; extra < 40; extra += 13) {
		assert_int_equal(parse(protocol, more, bytes + extra, &reply), kind);
		assert_int_equal(reply.bytes, bytes);
		assert_int_equal(reply.text_bytes, of_it_bytes);
		assert_memory_equal(reply.text, of_it, of_it_bytes);
	}
}

static void
expect_text(const struct protocol *protocol, const char *text, enum reply_kind kind,
	const char *of_it)
{
	expect_reply(protocol, text, strlen(text), kind, of_it, strlen(of_it));
}

static void
parse__replies_in_parts__PARTIAL_UNTIL_THEY_ARE_WHOLE(void **state)
{
	(void)state;
	expect_text(&protocol_memcached, "VA 8\r\nabcdefgh\r\n", REPLY_VALUE, "abcdefgh");
	expect_text(&protocol_memcached, "VA 3 f1 t-1\r\nxyz\r\n", REPLY_VALUE, "xyz");
	expect_text(&protocol_memcached, "VA 0\r\n\r\n", REPLY_VALUE, "");
	expect_text(&protocol_memcached, "EN\r\n", REPLY_MISS, "EN");
	expect_text(&protocol_memcached, "STORED\r\n", REPLY_DONE, "STORED");
	expect_text(&protocol_redis, "$8\r\nabcdefgh\r\n", REPLY_VALUE, "abcdefgh");
	expect_text(&protocol_redis, "$0\r\n\r\n", REPLY_VALUE, "");
	expect_text(&protocol_redis, "$-1\r\n", REPLY_MISS, "$-1");
	expect_text(&protocol_redis, "+OK\r\n", REPLY_DONE, "+OK");
}

static void
parse__ends_of_lines_inside_a_value__PART_OF_IT(void **state)
{
	static const char value[] = "\r\n\0EN\r\n";

	(void)state;
	expect_reply(&protocol_memcached, "VA 7\r\n\r\n\0EN\r\n\r\n", 15, REPLY_VALUE, value, 7);
	expect_reply(&protocol_redis, "$7\r\n\r\n\0EN\r\n\r\n", 13, REPLY_VALUE, value, 7);
}

static void
parse__errors__WITH_THE_SERVERS_WORDS(void **state)
{
	static const char *const of_memcached[] = { "ERROR", "CLIENT_ERROR bad data chunk",
		"SERVER_ERROR out of memory storing object", "NOT_STORED" };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		char text[128];

		(void)snprintf(text, sizeof(text), "%s\r\n", of_memcached[i]);
		expect_text(&protocol_memcached, text, REPLY_ERROR, of_memcached[i]);
	}
	expect_text(&protocol_redis, "-OOM command not allowed\r\n", REPLY_ERROR,
		"-OOM command not allowed");
}

static void
parse__what_is_no_reply__GARBAGE(void **state)
{
	static const char *const of_both[] = { "\n", "x\n", "hello\r\n", "VA\r\n", "$\r\n",
		"$x\r\n", "$8x\r\n", "VA \r\n", "VA  8\r\n", "VA -1\r\n", "VA x8\r\n",
		"VA 16385\r\n", "VA 99999999999999999999\r\n", "$16385\r\n",
		"$99999999999999999999\r\n", "ENX\r\n", "STOREDX\r\n", "$-2\r\n", ":1\r\n",
		"*0\r\n" };
	char line[PROTOCOL_LINE_BYTES_MAX + 1];

	(void)state;
	for (unsigned i = 0; i < sizeof(of_both) / sizeof(of_both[0]); i++)
		for (unsigned p = 0; p < 2; p++)
			assert_int_equal(parse_all(protocols[p], of_both[i]), REPLY_GARBAGE);
	assert_int_equal(parse_all(&protocol_memcached, "VA 2\r\nabcd"), REPLY_GARBAGE);
	assert_int_equal(parse_all(&protocol_redis, "$2\r\nab\rx"), REPLY_GARBAGE);
	memset(line, 'x', sizeof(line));
	line[PROTOCOL_LINE_BYTES_MAX] = '\0';
	assert_int_equal(parse_all(&protocol_redis, line), REPLY_GARBAGE);
	line[PROTOCOL_LINE_BYTES_MAX - 1] = '\0';
	assert_int_equal(parse_all(&protocol_redis, line), REPLY_PARTIAL);
}

/* ---- versions ----------------------------------------------------------------------------- */

static void
version__in_the_reply__FOUND_AND_CUT_TO_SIZE(void **state)
{
	static const char info[] = "$48\r\n# Server\r\nredis_version:7.0.15\r\nredis_git:0000\r\n"
				   "\r\n";
	struct reply reply = { 0 };
	char text[24], brief[4];

	(void)state;
	assert_int_equal(parse(&protocol_memcached, "VERSION 1.6.18\r\n", 16, &reply), REPLY_DONE);
	protocol_memcached.version(&reply, text, sizeof(text));
	assert_string_equal(text, "1.6.18");
	protocol_memcached.version(&reply, brief, sizeof(brief));
	assert_string_equal(brief, "1.6");
	assert_int_equal(parse(&protocol_redis, info, sizeof(info) - 1, &reply), REPLY_VALUE);
	protocol_redis.version(&reply, text, sizeof(text));
	assert_string_equal(text, "7.0.15");
	assert_int_equal(parse(&protocol_redis, "+no\r\n", 5, &reply), REPLY_DONE);
	protocol_redis.version(&reply, text, sizeof(text));
	assert_string_equal(text, "");
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key__many_pairs__SLOTS_AND_NO_TWO_ALIKE),
		cmocka_unit_test(value__any_length__ALL_OF_IT_IS_CHECKED),
		cmocka_unit_test(get__a_pair__AS_THE_PROTOCOL_HAS_IT),
		cmocka_unit_test(set__a_pair__WITH_ITS_VALUE_AND_ITS_LENGTH),
		cmocka_unit_test(set__the_longest_value__LEAVES_ROOM_IN_ITS_FRAME),
		cmocka_unit_test(parse__replies_in_parts__PARTIAL_UNTIL_THEY_ARE_WHOLE),
		cmocka_unit_test(parse__ends_of_lines_inside_a_value__PART_OF_IT),
		cmocka_unit_test(parse__errors__WITH_THE_SERVERS_WORDS),
		cmocka_unit_test(parse__what_is_no_reply__GARBAGE),
		cmocka_unit_test(version__in_the_reply__FOUND_AND_CUT_TO_SIZE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
