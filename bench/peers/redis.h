/* SPDX-License-Identifier: Apache-2.0 */
/* redis.h -- GETs and SETs of Redis and their replies, of the pairs of memcached.h. */
#ifndef NAM_BENCH_PEERS_REDIS_H
#define NAM_BENCH_PEERS_REDIS_H

#include "memcached.h"

/* Write a GET; returns its length. */
static inline size_t
redis_get(char *to, uint64_t pair, uint32_t key_bytes)
{
	return (size_t)sprintf(to, "*2\r\n$3\r\nGET\r\n$%u\r\n%0*llu\r\n", key_bytes,
		(int)key_bytes, (unsigned long long)pair);
}

static inline size_t
redis_set(char *to, uint64_t pair, uint32_t key_bytes, uint32_t value_bytes)
{
	size_t at = (size_t)sprintf(to, "*3\r\n$3\r\nSET\r\n$%u\r\n%0*llu\r\n$%u\r\n",
		key_bytes, (int)key_bytes, (unsigned long long)pair, value_bytes);

	memcached_value(to + at, pair, value_bytes);
	memcpy(to + at + value_bytes, "\r\n", 2);
	return at + value_bytes + 2;
}

/* As memcached_parse(). */
static inline enum reply_kind
redis_parse(const char *from, size_t bytes, struct reply *ret)
{
	enum reply_kind kind = reply_line(from, bytes, ret);

	if (kind != REPLY_VALUE)
		return kind;
	if (*from == '-')
		return REPLY_ERROR;
	if (!strncmp(from, "+OK\r", 4))
		return REPLY_STORED;
	if (!strncmp(from, "$-1\r", 4))
		return REPLY_MISS;
	return *from != '$' ? REPLY_GARBAGE : reply_value(from, bytes, from + 1, '\r', ret);
}

#endif /* NAM_BENCH_PEERS_REDIS_H */
