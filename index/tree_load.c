/* SPDX-License-Identifier: Apache-2.0 */
#include "tree_load.h"

#include <errno.h>
#include <stdlib.h>

int
nam__tree_load_init(struct nam__tree_load *load, struct nam_worker *worker,
	struct nam_index *index, uint32_t slot, uint32_t key_words)
{
	*load = (struct nam__tree_load){
		.worker = worker,
		.index = index,
		.slot = slot,
		.key_words = key_words,
		.load = nam_entropy() | 1,
		.most = (uint32_t)NAM_RPC_TREE_LOAD_MAX(key_words),
		.request = malloc(NAM_RPC_BYTES_MAX),
	};
	return load->request ? 0 : -ENOMEM;
}

NAM_FIBER_FN static int
step(struct nam__tree_load *load, enum nam_rpc_tree_load step, uint32_t fill_percent)
{
	struct nam_rpc_tree_load_request request = {
		.tree = load->index->tree,
		.load = load->load,
		.step = (uint16_t)step,
		.fill_percent = (uint16_t)fill_percent,
	};

	return nam_rpc_call(load->worker, load->slot, NAM_RPC_TREE_LOAD, &request,
		sizeof(request), NULL, NULL); /* SUSPENDS */
}

int
nam__tree_load_begin(struct nam__tree_load *load, uint32_t fill_percent)
{
	uint64_t since_ns = 0;
	int rc;

	load->begun = true;	/* or may have, whatever the answer */
	for (unsigned tries = 0;; tries++) {
		rc = step(load, NAM_RPC_TREE_LOAD_BEGIN, fill_percent); /* SUSPENDS */
		if (rc != -NAM_E_RESTART_LOCKED)
			return rc;
		rc = nam__tree_load_wait(load->worker, load->index, tries,
			&since_ns); /* SUSPENDS */
		if (rc)
			return rc;
	}
}

int
nam__tree_load_wait(struct nam_worker *worker, const struct nam_index *index, unsigned tries,
	uint64_t *since_ns)
{
	if (nam__timeout_over(worker, since_ns))
		return nam_diag_set(&worker->diag, -NAM_E_LOCK_TIMEOUT,
			"index '%s' is being loaded by another client", index->name);
	nam__pause_await(worker, tries < 100 ? tries * 1000ull : 100000); /* SUSPENDS */
	return 0;
}

NAM_FIBER_FN static int
land(struct nam__tree_load *load)
{
	if (!load->under_way)
		return 0;
	load->under_way = false;
	return nam__rpc_await(load->worker, &load->call, NULL); /* SUSPENDS */
}

/* Send what has gathered. */
NAM_FIBER_FN static int
send_pairs(struct nam__tree_load *load)
{
	int rc = land(load); /* SUSPENDS */

	if (rc || !load->count)
		return rc;
	*load->request = (struct nam_rpc_tree_load_request){
		.tree = load->index->tree,
		.load = load->load,
		.step = NAM_RPC_TREE_LOAD_PAIRS,
		.count = load->count,
	};
	rc = nam__rpc_begin(load->worker, &load->call, load->slot, NAM_RPC_TREE_LOAD,
		load->request, (uint32_t)sizeof(*load->request) +
			8 * (load->key_words + 1) * load->count, NULL, 0);
	load->under_way = !rc;
	load->count = 0;
	if (!load->call.colocated)
		load->worker->current->counters->round_trips++;
	return rc;
}

int
nam__tree_load_add(struct nam__tree_load *load, const uint64_t *key, uint64_t payload)
{
	uint64_t *pair = load->request->pairs + load->count * (size_t)(load->key_words + 1);

	memcpy(pair, key, 8 * load->key_words);
	pair[load->key_words] = payload;
	return ++load->count < load->most ? 0 : send_pairs(load); /* SUSPENDS */
}

int
nam__tree_load_flush(struct nam__tree_load *load)
{
	int rc = send_pairs(load); /* SUSPENDS */

	return rc ? rc : land(load); /* SUSPENDS */
}

int
nam__tree_load_end(struct nam__tree_load *load)
{
	int rc = step(load, NAM_RPC_TREE_LOAD_END, 0); /* SUSPENDS */

	load->begun = rc != 0;
	return rc;
}

void
nam__tree_load_done(struct nam__tree_load *load)
{
	int rc = land(load); /* SUSPENDS */

	/* The first failure has been told; a memory server that is gone has cancelled. */
	if (load->begun)
		rc = step(load, NAM_RPC_TREE_LOAD_CANCEL, 0); /* SUSPENDS */
	(void)rc;
	free(load->request);
}

int
nam__load_unsorted(struct nam_worker *worker, const struct nam__geometry *g, uint64_t pair,
	int order)
{
	return nam_diag_set(&worker->diag, -NAM_E_UNSORTED,
		"pair %llu of the input %s pair %llu; %s", (unsigned long long)pair + 1,
		order ? "belongs before" : g->unique ? "has the same key as" : "equals",
		(unsigned long long)pair,
		order ? "sort the input by key and, in a non-unique index, by payload"
		      : "each may occur once only");
}
