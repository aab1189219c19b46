/* SPDX-License-Identifier: Apache-2.0 */
#include "protocol.h"

#include <stdio.h>
#include <string.h>

/* ---- pairs -------------------------------------------------------------------------------- */

void
protocol_key(uint64_t pair, char ret[PROTOCOL_KEY_BYTES])
{
	static const char slots[64] = "0123456789"
					"ABCDEFGHIJKLMNOPQRSTUVWXYZ"
					"abcdefghijklmnopqrstuvwxyz"
					"-_";

	for (unsigned i = PROTOCOL_KEY_BYTES; i > 0; i--) {
		ret[i - 1] = slots[pair & 63];
		pair >>= 6;
	}
}

static inline uint64_t
value_word(uint64_t pair, uint32_t word)
{
	return (pair + 1) * 0x9e3779b97f4a7c15ull ^ word * 0xc2b2ae3d27d4eb4full;
}

void
protocol_value(uint64_t pair, uint32_t value_bytes, char *ret)
{
	for (uint32_t at = 0; at < value_bytes; at += 8) {
		uint64_t word = value_word(pair, at / 8);

		memcpy(ret + at, &word, value_bytes - at < 8 ? value_bytes - at : 8);
	}
}

bool
protocol_value_right(uint64_t pair, uint32_t value_bytes, const struct reply *reply)
{
	bool right = reply->text_bytes == value_bytes;

	for (uint32_t at = 0; at < value_bytes && right; at += 8) {
		uint64_t word = value_word(pair, at / 8);

		right = !memcmp(reply->text + at, &word,
			value_bytes - at < 8 ? value_bytes - at : 8);
	}
	return right;
}

/* ---- requests ----------------------------------------------------------------------------- */

/* Appends a literal. */
#define PUT(to, text) ((char *)mempcpy(to, text, sizeof(text) - 1))

static char *
put_key(char *to, uint64_t pair)
{
	protocol_key(pair, to);
	return to + PROTOCOL_KEY_BYTES;
}

static char *
put_value(char *to, uint64_t pair, uint32_t value_bytes)
{
	protocol_value(pair, value_bytes, to);
	return PUT(to + value_bytes, "\r\n");
}

/* A meta get: the shortest request and reply that memcached has. */
static size_t
memcached_get(char *to, uint64_t pair)
{
	char *at = put_key(PUT(to, "mg "), pair);

	return (size_t)(PUT(at, " v\r\n") - to);
}

static size_t
memcached_set(char *to, uint64_t pair, uint32_t value_bytes)
{
	char *at = put_key(PUT(to, "set "), pair);

	at += sprintf(at, " 0 0 %u\r\n", value_bytes);
	return (size_t)(put_value(at, pair, value_bytes) - to);
}

static size_t
redis_get(char *to, uint64_t pair)
{
	char *at = put_key(PUT(to, "*2\r\n$3\r\nGET\r\n$8\r\n"), pair);

	return (size_t)(PUT(at, "\r\n") - to);
}

static size_t
redis_set(char *to, uint64_t pair, uint32_t value_bytes)
{
	char *at = put_key(PUT(to, "*3\r\n$3\r\nSET\r\n$8\r\n"), pair);

	at += sprintf(at, "\r\n$%u\r\n", value_bytes);
	return (size_t)(put_value(at, pair, value_bytes) - to);
}

/* ---- replies ------------------------------------------------------------------------------ */

/* The first line, as it is told to people; what it means is the caller's. */
static enum reply_kind
take_line(const char *from, size_t bytes, struct reply *ret)
{
	size_t most = bytes < PROTOCOL_LINE_BYTES_MAX ? bytes : PROTOCOL_LINE_BYTES_MAX;
	const char *end = memchr(from, '\n', most);

	if (!end)
		return most < PROTOCOL_LINE_BYTES_MAX ? REPLY_PARTIAL : REPLY_GARBAGE;
	if (end == from || end[-1] != '\r')
		return REPLY_GARBAGE;
	*ret = (struct reply){
		.text = from,
		.text_bytes = (size_t)(end - 1 - from),
		.bytes = (size_t)(end + 1 - from),
	};
	return REPLY_DONE;
}

static bool
begins(const struct reply *line, const char *with)
{
	size_t bytes = strlen(with);

	return line->text_bytes >= bytes && !memcmp(line->text, with, bytes);
}

/* The number behind the first `skip` bytes of a line; `end` may follow it.  -1: there is none. */
static long
take_number(const struct reply *line, size_t skip, char end)
{
	const char *at = line->text + skip, *until = line->text + line->text_bytes;
	long number = -1;

	for (; at < until && *at != end; at++) {
		if (*at < '0' || *at > '9' || number > (long)PROTOCOL_VALUE_BYTES_MAX)
			return -1;
		number = (number < 0 ? 0 : number) * 10 + (*at - '0');
	}
	return number;
}

/* The line was the head of a value of so many bytes, which ends with an end of line. */
static enum reply_kind
take_value(const char *from, size_t bytes, size_t head_bytes, long value_bytes, struct reply *ret)
{
	size_t all;

	if (value_bytes < 0 || value_bytes > (long)PROTOCOL_VALUE_BYTES_MAX)
		return REPLY_GARBAGE;
	all = head_bytes + (size_t)value_bytes + 2;
	if (bytes < all)
		return REPLY_PARTIAL;
	if (from[all - 2] != '\r' || from[all - 1] != '\n')
		return REPLY_GARBAGE;
	*ret = (struct reply){ from + head_bytes, (size_t)value_bytes, all };
	return REPLY_VALUE;
}

/* "VA 8" and whatever else, a line of bytes; "EN"; "STORED"; errors end in or begin with ERROR. */
static enum reply_kind
memcached_parse(const char *from, size_t bytes, struct reply *ret)
{
	struct reply line;
	enum reply_kind kind = take_line(from, bytes, &line);

	if (kind != REPLY_DONE)
		return kind;
	if (begins(&line, "VA "))
		return take_value(from, bytes, line.bytes, take_number(&line, 3, ' '), ret);
	*ret = line;
	if (line.text_bytes == 2 && begins(&line, "EN"))
		return REPLY_MISS;
	if ((line.text_bytes == 6 && begins(&line, "STORED")) || begins(&line, "VERSION "))
		return REPLY_DONE;
	if (begins(&line, "ERROR") || begins(&line, "CLIENT_ERROR") ||
		begins(&line, "SERVER_ERROR") || begins(&line, "NOT_STORED"))
		return REPLY_ERROR;
	return REPLY_GARBAGE;
}

/* RESP2: "$8", a line of bytes; "$-1"; "+OK"; "-ERR why". */
static enum reply_kind
redis_parse(const char *from, size_t bytes, struct reply *ret)
{
	struct reply line;
	enum reply_kind kind = take_line(from, bytes, &line);

	if (kind != REPLY_DONE)
		return kind;
	if (begins(&line, "$") && !begins(&line, "$-"))
		return take_value(from, bytes, line.bytes, take_number(&line, 1, '\0'), ret);
	*ret = line;
	if (line.text_bytes == 3 && begins(&line, "$-1"))
		return REPLY_MISS;
	if (begins(&line, "+"))
		return REPLY_DONE;
	return begins(&line, "-") ? REPLY_ERROR : REPLY_GARBAGE;
}

/* ---- versions ----------------------------------------------------------------------------- */

/* The text behind `label`, up to the end of the line. */
static void
take_version(const struct reply *reply, const char *label, char *ret, size_t size)
{
	const char *end = reply->text + reply->text_bytes;
	const char *at = memmem(reply->text, reply->text_bytes, label, strlen(label));
	size_t bytes = 0;

	if (at)
		at += strlen(label);
	while (at && at + bytes < end && at[bytes] > ' ' && bytes + 1 < size)
		bytes++;
	if (bytes)
		memcpy(ret, at, bytes);
	ret[bytes] = '\0';
}

static void
memcached_version(const struct reply *reply, char *ret, size_t size)
{
	take_version(reply, "VERSION ", ret, size);
}

static void
redis_version(const struct reply *reply, char *ret, size_t size)
{
	take_version(reply, "redis_version:", ret, size);
}

const struct protocol protocol_memcached = {
	.name = "memcached",
	.threads = "-t 1",
	.version_request = "version\r\n",
	.get = memcached_get,
	.set = memcached_set,
	.parse = memcached_parse,
	.version = memcached_version,
};

const struct protocol protocol_redis = {
	.name = "redis",
	.threads = "--io-threads 1",
	.version_request = "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n",
	.get = redis_get,
	.set = redis_set,
	.parse = redis_parse,
	.version = redis_version,
};
