/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire.h -- what travels over a connection of the tcp provider.
 *
 * The client's hello, 64 bytes; then the welcome, 112 bytes.  In between there may be a challenge,
 * once, which is like a welcome, and the client's answer, which is like a hello.  The client says
 * nothing else before the welcome.  Then frames in both directions.  A frame is a request of its
 * sender or the answer to one of the receiver's.  Requests are carried out, and answered, in the
 * order in which they were sent.  So an answer names its request only to find mistakes.  All
 * numbers are little-endian, frames follow each other without gaps.
 *
 *	request	offset	size	field
 *		0	1	kind: enum nam_wr_op
 *		1	1	0
 *		2	2	sequence: 0 for the first request of this side, then 1 more each
 *		4	4	bytes: READ, WRITE, SEND; 8 for atomics
 *		8	4	rkey			not SEND
 *		12	4	0			not SEND
 *		16	8	remote			not SEND
 *		24	8	compare, or what to add	CAS, FETCH_ADD
 *		32	8	swap			CAS
 *		then the bytes of a WRITE or SEND
 *
 *	answer	0	1	kind: TCP_ANSWER
 *		1	1	status: enum tcp_status
 *		2	2	sequence of the request
 *		4	4	bytes that follow: what was read, or the old word; 0 after a failure
 *
 * An answer that is a failure is the last one: no later request is carried out.
 *
 * WINDOW.  A peer that cannot carry out a request now keeps it, and those behind it, and goes on to
 * look for answers.  Reasons: a SEND finds no receive buffer; an answer finds no room on its way
 * back.  So that this takes bounded memory, no peer sends more than TCP_WINDOW_BYTES of requests
 * from the oldest READ or SEND on that was not answered.
 *
 * Raise TCP_VERSION whenever any of it changes.
 */
#ifndef NAM_COMMON_FABRIC_TCP_WIRE_H
#define NAM_COMMON_FABRIC_TCP_WIRE_H

#include <stdint.h>

#include "common/fabric/fabric.h"

#define TCP_MAGIC 0x7063746eu		/* "ntcp": of a hello */
#define TCP_MAGIC_WELCOME 0x7763746eu	/* "ntcw" */
#define TCP_MAGIC_CHALLENGE 0x6363746eu	/* "ntcc" */
#define TCP_MAGIC_ANSWER 0x6163746eu	/* "ntca" */
#define TCP_VERSION 3u
#define TCP_MESSAGE_BYTES 4096u
#define TCP_QP_DEPTH 1024u		/* requests without an answer, each way */
#define TCP_WINDOW_BYTES (64u << 10)
#define TCP_SHARE_KEY UINT32_MAX	/* of the share of this queue pair */

#define TCP_ANSWER 0x80u

enum tcp_status {
	TCP_OK = 0,
	TCP_ACCESS = 1,			/* outside of registered memory, or an atomic misaligned */
	TCP_TOO_LONG = 2,		/* a message longer than its receive buffer */
};

struct tcp_frame {
	uint8_t kind;
	uint8_t status;
	uint16_t sequence;
	uint32_t bytes;
};
_Static_assert(sizeof(struct tcp_frame) == 8, "the beginning of all frames");

struct tcp_request_frame {
	struct tcp_frame frame;
	uint32_t rkey;
	uint32_t reserved;
	uint64_t remote;
	uint64_t compare;
	uint64_t swap;
};
_Static_assert(sizeof(struct tcp_request_frame) == 40, "the longest head of a request");

/* A hello, or an answer. */
struct tcp_hello {
	uint32_t magic;
	uint32_t version;
	uint32_t bytes;
	uint32_t reserved;
	uint8_t data[NAM_HELLO_BYTES_MAX];
};

/* A welcome, or a challenge. */
struct tcp_welcome {
	uint32_t magic;
	uint32_t version;
	uint32_t bytes;
	uint32_t accepted;		/* 0 in a challenge */
	uint8_t data[NAM_REPLY_BYTES_MAX];
};
_Static_assert(sizeof(struct tcp_hello) == 64 && sizeof(struct tcp_welcome) == 112, "no padding");

/* The bytes of a request's head; 0: there is no such kind. */
static inline uint32_t
nam__tcp_head_bytes(uint8_t kind)
{
	static const uint8_t heads[8] = {
		[NAM_WR_READ] = 24,
		[NAM_WR_WRITE] = 24,
		[NAM_WR_CAS] = 40,
		[NAM_WR_FETCH_ADD] = 32,
		[NAM_WR_SEND] = 8,
	};

	return kind < 8 ? heads[kind] : 0;
}

/* Bytes of a frame with all that follows; 0: there is no such kind. */
static inline uint64_t
nam__tcp_frame_bytes(struct tcp_frame frame)
{
	uint64_t head = nam__tcp_head_bytes(frame.kind);

	return frame.kind == NAM_WR_WRITE || frame.kind == NAM_WR_SEND ? head + frame.bytes : head;
}

#endif /* NAM_COMMON_FABRIC_TCP_WIRE_H */
