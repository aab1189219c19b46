/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/peers/redis.h"

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
	return redis_parse(copy, bytes, reply);
}

static void
expect(const char *text, enum reply_kind kind, const char *of_it)
{
	size_t bytes = strlen(text);
	struct reply reply = { 0 };

	for (size_t part = 0; part < bytes; part++)
		assert_int_equal(parse(text, part, &reply), REPLY_PARTIAL);
	assert_int_equal(parse(text, bytes, &reply), kind);
	assert_int_equal(reply.bytes, bytes);
	assert_int_equal(reply.text_bytes, strlen(of_it));
	assert_memory_equal(reply.text, of_it, reply.text_bytes);
}

static void
requests__a_pair__AS_THE_PROTOCOL_HAS_THEM(void **state)
{
	static const char get[] = "*2\r\n$3\r\nGET\r\n$12\r\n000000006401\r\n";
	static const char longer[] = "*2\r\n$3\r\nGET\r\n$16\r\n0000000000006401\r\n";
	static const char set[] = "*3\r\n$3\r\nSET\r\n$12\r\n000000006401\r\n$5\r\n";
	char request[SET_BYTES + 5];
	struct reply reply = { request + sizeof(set) - 1, 5, 7 };

	(void)state;
	assert_int_equal(redis_get(request, 6401, 12), sizeof(get) - 1);
	assert_memory_equal(request, get, sizeof(get) - 1);
	assert_int_equal(redis_get(request, 6401, 16), sizeof(longer) - 1);
	assert_memory_equal(request, longer, sizeof(longer) - 1);
	assert_int_equal(redis_set(request, 6401, 12, 5), sizeof(set) - 1 + 5 + 2);
	assert_memory_equal(request, set, sizeof(set) - 1);
	assert_true(memcached_value_right(6401, 5, &reply));
	assert_memory_equal(reply.text + 5, "\r\n", 2);
}

static void
parse__replies_in_parts__PARTIAL_UNTIL_THEY_ARE_WHOLE(void **state)
{
	(void)state;
	expect("$8\r\nabcdefgh\r\n", REPLY_VALUE, "abcdefgh");
	expect("$0\r\n\r\n", REPLY_VALUE, "");
	expect("$-1\r\n", REPLY_MISS, "$-1");
	expect("+OK\r\n", REPLY_STORED, "+OK");
	expect("-ERR of a test\r\n", REPLY_ERROR, "-ERR of a test");
}

static void
parse__what_is_no_reply__GARBAGE(void **state)
{
	static const char *const texts[] = { "\n", "x\n", "hello\r\n", "$\r\n", "$ 8\r\n",
		"$-2\r\n", "$8x\r\n", "$8 \r\n", "$16385\r\n", "$99999999999999999999\r\n",
		"+OKAY\r\n", ":1\r\n", "$2\r\nabcd", "VA 8\r\n" };
	char line[MEMCACHED_LINE_BYTES_MAX];
	struct reply reply = { 0 };

	(void)state;
	for (unsigned i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		assert_int_equal(parse(texts[i], strlen(texts[i]), &reply), REPLY_GARBAGE);
	memset(line, '$', sizeof(line));
	assert_int_equal(parse(line, sizeof(line), &reply), REPLY_GARBAGE);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests__a_pair__AS_THE_PROTOCOL_HAS_THEM),
		cmocka_unit_test(parse__replies_in_parts__PARTIAL_UNTIL_THEY_ARE_WHOLE),
		cmocka_unit_test(parse__what_is_no_reply__GARBAGE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
