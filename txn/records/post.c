/* SPDX-License-Identifier: Apache-2.0 */
/* post.c -- requests about several records, packed into messages to their memory servers. */
#include "post.h"
#include "protocols.h"

#include <errno.h>
#include <string.h>

struct nam__post *
nam__post_new(const struct nam__txn *txn, uint64_t timestamp, uint16_t type, uint32_t flags)
{
	bool locks = type >= NAM_RPC_LOCKING_READ && type <= NAM_RPC_LOCKING_SEAL;
	struct nam__post *post = nam_buffer_take(txn->worker, sizeof(*post));

	if (!post)
		return NULL;
	post->worker = txn->worker;
	post->type = type;
	post->head_bytes = locks ? sizeof(post->head) : sizeof(post->head.request);
	post->head = (struct nam_rpc_locking_request){
		.request = { .store = txn->records->store, .timestamp = timestamp, .flags = flags },
		.finished_us = locks ? nam__under_way_since_us(txn->records->client) : 0,
		.birth_us = txn->birth_us,
	};
	post->rc = 0;
	post->count = 0;
	return post;
}

static int
bundle_new(struct nam__post *post, uint32_t slot, uint32_t *ret_number)
{
	struct nam__bundle *bundle = &post->bundles[post->count];

	*bundle = (struct nam__bundle){
		.body = nam_buffer_take(post->worker, NAM_RPC_BYTES_MAX),
		.reply = nam_buffer_take(post->worker, NAM_RPC_BYTES_MAX),
	};
	*ret_number = post->count++;
	if (!bundle->body || !bundle->reply)
		return -ENOMEM;
	memcpy(bundle->body, &post->head, post->head_bytes);
	post->calls[*ret_number] = (struct nam_call){
		.slot = slot,
		.type = post->type,
		.body = bundle->body,
		.body_bytes = post->head_bytes,
		.reply = bundle->reply,
		.reply_size = NAM_RPC_BODY_MAX,
		.rc = -ENOMEM,		/* until it is sent */
	};
	return 0;
}

void
nam__post_add_with(struct nam__post *post, uint64_t head, uint32_t number, uint32_t spare,
	const void *entry, uint32_t entry_bytes, const void *more, uint32_t more_bytes)
{
	struct nam__bundle *bundle;
	struct nam_call *call;
	uint32_t which;
	uint16_t slot;

	if (!post || post->rc)
		return;
	slot = nam__server_slot(post->worker->client, NAM_GADDR(head));
	if (slot == NAM__NO_SLOT) {
		post->rc = nam_diag_set(&post->worker->diag, -NAM_E_REMOTE_CORRUPT, "a record is "
			"said to be in region %u, of no memory server of this cluster: memory was "
			"overwritten", nam_gaddr_region(NAM_GADDR(head)));
		return;
	}
	for (which = 0; which < post->count; which++)
		if (post->calls[which].slot == slot && post->calls[which].body_bytes + entry_bytes +
			more_bytes + spare <= NAM_RPC_BODY_MAX)
			break;
	if (which == post->count)
		post->rc = bundle_new(post, slot, &which);
	if (post->rc)
		return;
	bundle = &post->bundles[which];
	call = &post->calls[which];
	memcpy(bundle->body + call->body_bytes, entry, entry_bytes);
	if (more_bytes)
		memcpy(bundle->body + call->body_bytes + entry_bytes, more, more_bytes);
	call->body_bytes += entry_bytes + more_bytes;
	bundle->items[bundle->count++] = (uint8_t)number;
	nam__bundle_request(bundle)->count++;
}

void
nam__post_add(struct nam__post *post, uint64_t head, uint32_t number, const void *entry,
	uint32_t entry_bytes)
{
	nam__post_add_with(post, head, number, 0, entry, entry_bytes, NULL, 0);
}

int
nam__post_run(struct nam__post *post, struct nam__txn *txn, nam__answered_fn answered, void *arg)
{
	int rc = post ? post->rc : -ENOMEM;

	if (!post)
		return rc;
	if (rc || !post->count)
		goto free;
	rc = nam_rpc_call_many(post->worker, post->calls, post->count); /* SUSPENDS */
	for (uint32_t i = 0; i < post->count; i++) {
		int each_rc = post->calls[i].rc;

		if (each_rc == -NAM_E_DROPPED)
			each_rc = nam__records_dropped(post->worker, txn->records);
		if (!each_rc)
			each_rc = answered(txn, &post->bundles[i], post->calls[i].reply_bytes, arg);
		rc = rc ? rc : each_rc;
	}
free:
	for (uint32_t i = 0; i < post->count; i++) {
		nam_buffer_give(post->worker, post->bundles[i].body, NAM_RPC_BYTES_MAX);
		nam_buffer_give(post->worker, post->bundles[i].reply, NAM_RPC_BYTES_MAX);
	}
	nam_buffer_give(post->worker, post, sizeof(*post));
	return rc;
}

int
nam__post_malformed(struct nam__txn *txn)
{
	return nam_diag_set(&txn->worker->diag, -NAM_E_FABRIC_PROTOCOL, "record store '%s': a "
		"memory server gave a malformed answer", txn->records->name);
}
