/* SPDX-License-Identifier: Apache-2.0 */
/*
 * redis.h -- GETs and SETs of Redis and their replies: bytes, no sockets.  Pairs are those of
 * memcached.h.
 */
#ifndef NAM_BENCH_PEERS_REDIS_H
#define NAM_BENCH_PEERS_REDIS_H

#include "memcached.h"

/* Write a GET; returns its length. */
static inline size_t
redis_get(char *to, uint64_t pair)
{
	return (size_t)sprintf(to, "*2\r\n$3\r\nGET\r\n$12\r\n%012llu\r\n",
		(unsigned long long)pair);
}

/* Write a SET; returns its length. */
static inline size_t
redis_set(char *to, uint64_t pair, uint32_t value_bytes)
{
	size_t at = (size_t)sprintf(to, "*3\r\n$3\r\nSET\r\n$12\r\n%012llu\r\n$%u\r\n",
		(unsigned long long)pair, value_bytes);

	memcached_value(to + at, pair, value_bytes);
	memcpy(to + at + value_bytes, "\r\n", 2);
	return at + value_bytes + 2;
}

/* As memcached_parse(). */
static inline enum reply_kind
redis_parse(const char *from, size_t bytes, struct reply *ret)
{
	size_t most = bytes < MEMCACHED_LINE_BYTES_MAX ? bytes : MEMCACHED_LINE_BYTES_MAX, value;
	const char *end = memchr(from, '\n', most);
	char *stop;

	if (!end)
		return most < MEMCACHED_LINE_BYTES_MAX ? REPLY_PARTIAL : REPLY_GARBAGE;
	if (end++ == from || end[-2] != '\r')
		return REPLY_GARBAGE;
	*ret = (struct reply){ from, (size_t)(end - 2 - from), (size_t)(end - from) };
	if (*from == '-')
		return REPLY_ERROR;
	if (!strncmp(from, "+OK\r", 4))
		return REPLY_STORED;
	if (!strncmp(from, "$-1\r", 4))
		return REPLY_MISS;
	if (*from != '$' || from[1] < '0' || from[1] > '9')
		return REPLY_GARBAGE;
	value = strtoul(from + 1, &stop, 10);
	if (value > MEMCACHED_VALUE_BYTES_MAX || *stop != '\r')
		return REPLY_GARBAGE;
	if (bytes < ret->bytes + value + 2)
		return REPLY_PARTIAL;
	*ret = (struct reply){ end, value, ret->bytes + value + 2 };
	return memcmp(end + value, "\r\n", 2) ? REPLY_GARBAGE : REPLY_VALUE;
}

#endif /* NAM_BENCH_PEERS_REDIS_H */
