/* SPDX-License-Identifier: Apache-2.0 */
/*
 * protocol.h -- what memcached and Redis are asked and how they answer: bytes, no sockets.
 *
 * A pair follows from its number, as everywhere in nam-bench: eight letters are the key, and
 * the value is as long as was asked for.
 */
#ifndef NAM_BENCH_COMPARE_PROTOCOL_H
#define NAM_BENCH_COMPARE_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PROTOCOL_KEY_BYTES 8u
#define PROTOCOL_VALUE_BYTES_MAX 16384u
/* The bytes of a request or a reply besides a key and a value. */
#define PROTOCOL_FRAME_BYTES_MAX 128u
/* A line that is longer is of no protocol that we know. */
#define PROTOCOL_LINE_BYTES_MAX 512u

enum reply_kind {
	REPLY_PARTIAL,		/* the rest has not arrived yet */
	REPLY_VALUE,
	REPLY_MISS,
	REPLY_DONE,		/* it is stored; or a line without a value that is no error */
	REPLY_ERROR,		/* the server says why */
	REPLY_GARBAGE,		/* not this protocol */
};

struct reply {
	const char *text;	/* the value, or the line without its end */
	size_t text_bytes;
	size_t bytes;		/* of all of it */
};

struct protocol {
	const char *name;		/* of the server */
	const char *threads;		/* how it is told to have one for requests */
	const char *version_request;
	/* Write a request; returns its bytes. */
	size_t (*get)(char *to, uint64_t pair);
	size_t (*set)(char *to, uint64_t pair, uint32_t value_bytes);
	/*
	 * The first reply among what has arrived.  *ret_reply is set unless it is partial or
	 * garbage.
	 */
	enum reply_kind (*parse)(const char *from, size_t bytes, struct reply *ret_reply);
	/* Out of the reply to version_request; "" if it is not there. */
	void (*version)(const struct reply *reply, char *ret, size_t size);
};

extern const struct protocol protocol_memcached, protocol_redis;

void protocol_key(uint64_t pair, char ret[PROTOCOL_KEY_BYTES]);
void protocol_value(uint64_t pair, uint32_t value_bytes, char *ret);

/* Whether that is the value of the pair: all of it is looked at. */
bool protocol_value_right(uint64_t pair, uint32_t value_bytes, const struct reply *reply);

#endif /* NAM_BENCH_COMPARE_PROTOCOL_H */
