/* SPDX-License-Identifier: Apache-2.0 */
/*
 * frame.h -- a message in memory that the other side polls or READs, and what lies around it.
 *
 * A connection with mailboxes has two shares (fabric.h).  The memory server's has a ring of request
 * frames that the client WRITEs and a ring of reply frames that it may READ.  The client's has a
 * word and a ring of reply frames that the memory server WRITEs.  Request number s, counted from 1,
 * lies in place s % NAM_FRAMES of the first ring, and its reply in that place of the others.  A
 * client does not use a place again before it has taken the reply.
 *
 *	offset	size	field	written by	a reader may assume
 *	0	8	front	with the frame	new-message indicator: a number other than the one
 *						that is due is an old message
 *	8	8	pace	with the frame	reply: nanoseconds since the memory server had
 *						looked for requests before; request: 0
 *	16	bytes	message	with the frame	nothing, before `end` has been checked
 *	behind	8	end	with the frame	completion indicator: a hash of all before it, so
 *						it vouches for every byte, whatever their order
 *
 * front: number:32 | bytes:16 | flags:16.  The message is filled up to a multiple of 8 with zeroes.
 * An empty one says that the reply, if there is one, comes by SEND: it was too long for a frame.
 *
 * With an unreliable queue pair (fabric.h) requests are WRITTEN over that and replies are frames in
 * datagrams.  Either may be lost.  So after a while a client writes an unanswered request again,
 * into the same place, its try one higher.  A memory server carries out a request whose number is
 * higher than the last from that place.  It answers another try of the last with the reply that it
 * has kept.  A client that gives up may use the place again.
 *
 * The word in the client's share says after which of its turns the memory server goes to sleep, and
 * wants a wake.  The client WRITEs its request, waits for the completion, then looks at the word.
 * The memory server WRITEs the word, waits for the completion, then looks for requests.  So one of
 * them sees the other.  A wake is a SEND of 8 bytes, once for each turn.  Waking up takes longer
 * than a client likes to spin, so the memory server sends a wake, too, after its reply.
 */
#ifndef NAM_COMMON_RPC_FRAME_H
#define NAM_COMMON_RPC_FRAME_H

#include <stdint.h>

#include "common/guard.h"
#include "transport.h"
#include "rpc.h"

#define NAM_FRAMES 8u			/* in a ring */
#define NAM_FRAME_OVERHEAD 24u
#define NAM_FRAME_HEADER_BYTES 16u
#define NAM_FRAME_BYTES_MIN 128u
/* The largest frame of any message; frames are multiples of 64 bytes. */
#define NAM_FRAME_BYTES_MAX ((NAM_RPC_BYTES_MAX + NAM_FRAME_OVERHEAD + 63u) / 64 * 64)
#define NAM_WAKE_BYTES 8u		/* of a wake */

enum nam_frame_flag {
	NAM_FRAME_FETCH = 1,		/* request: leave the reply where it is */
	/* request over an unreliable queue pair: times the number of tries before */
	NAM_FRAME_TRY = 2,
};

#define NAM_FRAME_TRIES_MAX 0x7fffu

static inline uint32_t
nam_frame_try(uint16_t flags)
{
	return flags / NAM_FRAME_TRY;
}

struct nam_frame {
	uint64_t front;
	uint64_t pace;
	uint8_t message[];
};
_Static_assert(sizeof(struct nam_frame) == NAM_FRAME_HEADER_BYTES, "wire layout");

static inline uint32_t
nam_frame_place(uint32_t number)
{
	return number % NAM_FRAMES;
}

/* Bytes of a frame with so many bytes of message. */
static inline uint32_t
nam_frame_bytes(uint32_t message_bytes)
{
	return NAM_FRAME_OVERHEAD + (message_bytes + 7) / 8 * 8;
}

/* The client's share: the word in a line of its own, reply frames, then its own business. */
#define NAM_SHARE_WORD_BYTES 64u

static inline uint64_t
nam_share_reply_at(uint32_t number, uint32_t frame_bytes)
{
	return NAM_SHARE_WORD_BYTES + (uint64_t)nam_frame_place(number) * frame_bytes;
}

/* The memory server's share. */
static inline uint64_t
nam_mailbox_request_at(uint32_t number, uint32_t frame_bytes)
{
	return (uint64_t)nam_frame_place(number) * frame_bytes;
}

static inline uint64_t
nam_mailbox_reply_at(uint32_t number, uint32_t frame_bytes)
{
	return (uint64_t)(NAM_FRAMES + nam_frame_place(number)) * frame_bytes;
}

/* Follows a struct nam_wire_hello whose flags say NAM_HELLO_MAILBOX. */
#define NAM_HELLO_MAILBOX 1u
/* Beside it: there is to be an unreliable queue pair; the name of the client's end follows that. */
#define NAM_HELLO_UNRELIABLE 2u
/* Alone: the connection asks for figures; memory servers reserve a few places for these. */
#define NAM_HELLO_PROBE 4u
/* Beside any of them: the client has a key, and answers a challenge (common/auth/proof.h). */
#define NAM_HELLO_KEY 8u

struct nam_wire_mailbox_hello {
	uint64_t remote;	/* the client's share */
	uint32_t rkey;
	uint32_t frame_bytes;
};
_Static_assert(sizeof(struct nam_wire_mailbox_hello) == 16, "wire layout");

/* Follows a struct nam_wire_welcome to that, unless it is a rejection. */
struct nam_wire_mailbox_welcome {
	uint64_t remote;	/* the memory server's share */
	uint32_t rkey;
	uint32_t frame_bytes;	/* as in the hello */
	int32_t file;		/* the share's descriptor, see RPC COLOCATED; -1: it is no file */
	uint32_t zero;
};
_Static_assert(sizeof(struct nam_wire_mailbox_welcome) == 24, "wire layout");

/* The reply to a hello with NAM_HELLO_UNRELIABLE. */
struct nam_wire_unreliable_welcome {
	uint64_t remote;
	uint32_t rkey;
	uint32_t frame_bytes;
	uint64_t unreliable_qp;		/* the name of the memory server's end */
};
_Static_assert(sizeof(struct nam_wire_unreliable_welcome) ==
	sizeof(struct nam_wire_mailbox_welcome), "wire layout");

static inline uint64_t
nam_mailbox_bytes(uint32_t frame_bytes)
{
	return (uint64_t)2 * NAM_FRAMES * frame_bytes + sizeof(uint64_t);
}

/*
 * Put the message at frame->message into its frame, of nam_frame_bytes(bytes).  The front word is
 * stored last: a reader on this host that loads it with acquire sees the rest.
 */
void nam_frame_seal(struct nam_frame *frame, uint32_t number, uint32_t bytes, uint16_t flags,
	uint64_t pace);

/* Whether the frame may be number `number`: a load, and no proof. */
static inline int
nam_frame_is_new(const struct nam_frame *frame, uint32_t number)
{
	uint64_t front = __atomic_load_n(&frame->front, __ATOMIC_ACQUIRE);

	return NAM_GUARD(FRAME_NUMBER) ? (uint32_t)front == number : front != 0;
}

/*
 * Whether a copy of a frame, of which there are `size` bytes, is message number `number`, whole.
 *
 * Returns 0, with the message's length and the flags.  -EAGAIN if it is another message's, or not
 * yet all there; -NAM_E_LIMIT if it is longer than `size`, with the length that it claims.
 */
int nam_frame_check(const struct nam_frame *frame, uint32_t size, uint32_t number,
	uint32_t *ret_bytes, uint16_t *ret_flags) NAM_MUST_CHECK;

/*
 * Take a frame of a ring that others write meanwhile.  The message is then in `copy`, of
 * NAM_FRAME_BYTES_MAX bytes, 8-byte aligned.  Returns 0 or -EAGAIN.
 */
int nam_frame_take(const struct nam_frame *frame, uint32_t frame_bytes, uint32_t number,
	struct nam_frame *copy, uint32_t *ret_bytes, uint16_t *ret_flags) NAM_MUST_CHECK;

#endif /* NAM_COMMON_RPC_FRAME_H */
