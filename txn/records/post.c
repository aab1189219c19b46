/* SPDX-License-Identifier: Apache-2.0 */
/* post.c -- requests about several records, packed into messages to their memory servers. */
#include "post.h"

#include <errno.h>
#include <string.h>

struct nam__post *
nam__post_new(struct nam_worker *worker, uint16_t type, const void *head, uint32_t head_bytes)
{
	struct nam__post *post = nam_buffer_take(worker, sizeof(*post));

	if (!post)
		return NULL;
	post->worker = worker;
	post->type = type;
	post->head_bytes = head_bytes;
	memcpy(&post->head, head, head_bytes);
	post->count = 0;
	return post;
}

void
nam__post_free(struct nam__post *post)
{
	for (uint32_t i = 0; i < post->count; i++) {
		nam_buffer_give(post->worker, post->parcels[i].body, NAM_RPC_BYTES_MAX);
		nam_buffer_give(post->worker, post->parcels[i].reply, NAM_RPC_BYTES_MAX);
	}
	nam_buffer_give(post->worker, post, sizeof(*post));
}

static int
parcel_new(struct nam__post *post, uint32_t slot, uint32_t *ret_number)
{
	struct nam__parcel *parcel = &post->parcels[post->count];

	*parcel = (struct nam__parcel){
		.body = nam_buffer_take(post->worker, NAM_RPC_BYTES_MAX),
		.reply = nam_buffer_take(post->worker, NAM_RPC_BYTES_MAX),
	};
	*ret_number = post->count++;
	if (!parcel->body || !parcel->reply)
		return -ENOMEM;
	memcpy(parcel->body, &post->head, post->head_bytes);
	post->calls[*ret_number] = (struct nam_call){
		.slot = slot,
		.type = post->type,
		.body = parcel->body,
		.body_bytes = post->head_bytes,
		.reply = parcel->reply,
		.reply_size = NAM_RPC_BODY_MAX,
	};
	return 0;
}

int
nam__post_add(struct nam__post *post, uint32_t slot, uint32_t number, uint32_t spare,
	const void *about, uint32_t about_bytes, const void *more, uint32_t more_bytes)
{
	struct nam__parcel *parcel;
	struct nam_call *call;
	uint32_t which;
	int rc = 0;

	for (which = 0; which < post->count; which++)
		if (post->calls[which].slot == slot && post->calls[which].body_bytes + about_bytes +
			more_bytes + spare <= NAM_RPC_BODY_MAX)
			break;
	if (which == post->count)
		rc = parcel_new(post, slot, &which);
	if (rc)
		return rc;
	parcel = &post->parcels[which];
	call = &post->calls[which];
	memcpy(parcel->body + call->body_bytes, about, about_bytes);
	if (more_bytes)
		memcpy(parcel->body + call->body_bytes + about_bytes, more, more_bytes);
	call->body_bytes += about_bytes + more_bytes;
	parcel->items[parcel->count++] = (uint8_t)number;
	nam__parcel_request(parcel)->count++;
	return 0;
}

int
nam__post_send(struct nam__post *post)
{
	if (!post->count)
		return 0;
	return nam_rpc_call_many(post->worker, post->calls, post->count); /* SUSPENDS */
}
