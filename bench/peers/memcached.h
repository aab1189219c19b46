/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memcached.h -- meta gets and sets of memcached and their replies: bytes, no sockets.
 *
 * A pair follows from its number.  The key is the number in decimal digits.  The value repeats one
 * word of eight bytes.  bench/peers/servers.py stores such pairs.
 */
#ifndef NAM_BENCH_PEERS_MEMCACHED_H
#define NAM_BENCH_PEERS_MEMCACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMCACHED_KEY_BYTES_MAX 16u
#define MEMCACHED_GET_BYTES_MAX (sizeof("mg 0000000000000000 v\r\n") - 1)
#define MEMCACHED_VALUE_BYTES_MAX 16384u
#define MEMCACHED_LINE_BYTES_MAX 512u	/* a longer line is of another protocol */

enum reply_kind {
	REPLY_PARTIAL,		/* the rest has not arrived yet */
	REPLY_VALUE,
	REPLY_STORED,
	REPLY_MISS,
	REPLY_ERROR,		/* the server says why */
	REPLY_GARBAGE,		/* another protocol */
};

struct reply {
	const char *text;	/* the value, or the line without its end */
	size_t text_bytes;
	size_t bytes;		/* of all of it */
};

/* Whether a reply without an error is one to a set, or to a get, which may find nothing. */
static inline bool
reply_fits(enum reply_kind kind, bool set)
{
	return set ? kind == REPLY_STORED : kind == REPLY_MISS || kind == REPLY_VALUE;
}

/* Write a meta get, the shortest request that memcached has; returns its length. */
static inline size_t
memcached_get(char to[MEMCACHED_GET_BYTES_MAX], uint64_t pair, uint32_t key_bytes)
{
	char *end = to + 3 + key_bytes;

	memcpy(to, "mg 0000000000000000", 3 + MEMCACHED_KEY_BYTES_MAX);
	for (char *digit = end; pair; pair /= 10)
		*--digit = (char)('0' + pair % 10);
	memcpy(end, " v\r\n", 4);
	return 3 + key_bytes + 4;
}

static inline void
memcached_value(char *to, uint64_t pair, uint32_t value_bytes)
{
	uint64_t word = (pair + 1) * 0x9e3779b97f4a7c15ull;

	for (uint32_t at = 0; at < value_bytes; at += 8)
		memcpy(to + at, &word, value_bytes - at < 8 ? value_bytes - at : 8);
}

/* Room for a set of either protocol, without the value. */
#define SET_BYTES 64u

/* Write a set; returns its length. */
static inline size_t
memcached_set(char *to, uint64_t pair, uint32_t key_bytes, uint32_t value_bytes)
{
	size_t at = (size_t)sprintf(to, "set %0*llu 0 0 %u\r\n", (int)key_bytes,
		(unsigned long long)pair, value_bytes);

	memcached_value(to + at, pair, value_bytes);
	memcpy(to + at + value_bytes, "\r\n", 2);
	return at + value_bytes + 2;
}

/* Whether that is the value of the pair: all of it is checked. */
static inline bool
memcached_value_right(uint64_t pair, uint32_t value_bytes, const struct reply *reply)
{
	uint64_t word = (pair + 1) * 0x9e3779b97f4a7c15ull;
	bool right = reply->text_bytes == value_bytes;

	for (uint32_t at = 0; at < value_bytes && right; at += 8)
		right = !memcmp(reply->text + at, &word,
			value_bytes - at < 8 ? value_bytes - at : 8);
	return right;
}

/* The first line of what has arrived: VALUE if it is whole, and then it is *ret. */
static inline enum reply_kind
reply_line(const char *from, size_t bytes, struct reply *ret)
{
	size_t most = bytes < MEMCACHED_LINE_BYTES_MAX ? bytes : MEMCACHED_LINE_BYTES_MAX;
	const char *end = memchr(from, '\n', most);

	if (!end)
		return most < MEMCACHED_LINE_BYTES_MAX ? REPLY_PARTIAL : REPLY_GARBAGE;
	if (end++ == from || end[-2] != '\r')
		return REPLY_GARBAGE;
	*ret = (struct reply){ from, (size_t)(end - 2 - from), (size_t)(end - from) };
	return REPLY_VALUE;
}

/* The value behind the line in *ret.  @digits	its length there, up to `end` or the line's end */
static inline enum reply_kind
reply_value(const char *from, size_t bytes, const char *digits, char end, struct reply *ret)
{
	size_t value;
	char *stop;

	if (*digits < '0' || *digits > '9')
		return REPLY_GARBAGE;
	value = strtoul(digits, &stop, 10);
	if (value > MEMCACHED_VALUE_BYTES_MAX || (*stop != end && *stop != '\r'))
		return REPLY_GARBAGE;
	from += ret->bytes;
	if (bytes < ret->bytes + value + 2)
		return REPLY_PARTIAL;
	*ret = (struct reply){ from, value, ret->bytes + value + 2 };
	return memcmp(from + value, "\r\n", 2) ? REPLY_GARBAGE : REPLY_VALUE;
}

/* The first reply of what has arrived.  *ret holds if it is neither partial nor garbage. */
static inline enum reply_kind
memcached_parse(const char *from, size_t bytes, struct reply *ret)
{
	enum reply_kind kind = reply_line(from, bytes, ret);

	if (kind != REPLY_VALUE)
		return kind;
	if (!strncmp(from, "EN\r", 3))
		return REPLY_MISS;
	if (!strncmp(from, "STORED\r", 7))
		return REPLY_STORED;
	if (!strncmp(from, "ERROR", 5) || !strncmp(from, "CLIENT_ERROR", 12) ||
		!strncmp(from, "SERVER_ERROR", 12))
		return REPLY_ERROR;
	/* "VA 8" and whatever flags. */
	return strncmp(from, "VA ", 3) ? REPLY_GARBAGE :
		reply_value(from, bytes, from + 3, ' ', ret);
}

#endif /* NAM_BENCH_PEERS_MEMCACHED_H */
