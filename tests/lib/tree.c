/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c -- see tree.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include <cmocka.h>

#include "design.h"
#include "tree.h"

/* Machines that run tests are busy: a holder may not get its turn for long. */
uint32_t tree_lock_timeout_ms = 5000;

static void
die(const char *what, int rc, const char *why)
{
	test_die("%s: %s: %s", what, nam_err_name(rc), why);
}

void
tree_start(struct tree *tree, unsigned servers, uint64_t memory_bytes)
{
	memset(tree, 0, sizeof(*tree));
	memory_bytes = test_memory(memory_bytes);
	tree->cluster = local_cluster_start(servers, memory_bytes, 0);
	tree->client = test_connect(local_cluster_list(tree->cluster), "test",
		tree_lock_timeout_ms);
	tree->worker = test_worker(tree->client);
}

void
tree_stop(struct tree *tree)
{
	nam_index_close(tree->index);
	nam_worker_close(tree->worker);
	nam_client_close(tree->client);
	local_cluster_stop(tree->cluster);
}

void
tree_plant(struct tree *tree, const struct nam_index_options *options)
{
	struct nam_index_options designed;
	int rc;

	if (tree->index) {
		nam_index_close(tree->index);
		tree->index = NULL;
		rc = nam_index_drop(tree->worker, TREE_NAME);
		if (rc)
			die("dropping", rc, nam_worker_diag(tree->worker));
	}
	designed = *options;
	tree_design_set(nam_client_servers(tree->client), &designed);
	rc = nam_index_create(tree->worker, TREE_NAME, &designed);
	if (!rc)
		rc = nam_index_open(tree->worker, TREE_NAME, 16u << 20, &tree->index);
	if (rc)
		die("creating", rc, nam_worker_diag(tree->worker));
}

void
tree_guest_come(const char *list, struct tree_guest *guest)
{
	int rc;

	guest->client = test_connect(list, "guest", tree_lock_timeout_ms);
	guest->worker = test_worker(guest->client);
	rc = nam_index_open(guest->worker, TREE_NAME, 16u << 20, &guest->index);
	if (rc)
		die("opening", rc, nam_worker_diag(guest->worker));
}

void
tree_guest_go(struct tree_guest *guest)
{
	nam_index_close(guest->index);
	nam_worker_close(guest->worker);
	nam_client_close(guest->client);
}

void
tree_await_dead(struct tree *tree, uint64_t word)
{
	struct nam__lock_holder holder = { .dead = false };
	int rc = 0;

	for (unsigned i = 0; i < 1000 && !rc && !holder.dead; i++) {
		nam_sleep_ns(1000000);
		rc = nam__lock_holder_query(tree->worker, word, &holder);
	}
	if (rc || !holder.dead)
		die("waiting for the end of a client", rc, nam_err_text(rc));
}

uint64_t
tree_memory_carved(struct tree *tree)
{
	uint64_t carved = 0;

	for (uint32_t slot = 0; slot < nam_client_servers(tree->client); slot++) {
		struct nam_server_status status;
		int rc = nam_server_status_get(tree->worker, slot, &status);

		if (rc)
			die("a server's status", rc, nam_err_text(rc));
		carved += status.carved_bytes;
	}
	return carved;
}

static void
note_violation(void *arg, unsigned invariant, const char *text)
{
	struct tree_violations *violations = arg;

	assert_in_range(invariant, 1, TREE_INVARIANTS - 1);
	violations->of[invariant]++;
	if (!violations->first[0])
		snprintf(violations->first, sizeof(violations->first), "I%u: %s", invariant, text);
}

struct tree_violations
tree_verify(struct tree *tree)
{
	struct tree_violations violations = { 0 };
	int rc = nam_index_verify(tree->worker, tree->index, note_violation, &violations,
		&violations.total);

	if (rc)
		die("verifying", rc, nam_worker_diag(tree->worker));
	return violations;
}

void
tree_assert_sound(struct tree *tree)
{
	struct tree_violations violations = tree_verify(tree);

	if (violations.total)
		fail_msg("%llu violations, the first: %s", (unsigned long long)violations.total,
			violations.first);
}

struct nam_gaddr
tree_node(struct tree *tree, uint64_t key, unsigned level, uint64_t *image)
{
	struct nam__key full = { .w = { key } };
	struct nam_gaddr at = NAM_GADDR_NULL;
	uint64_t *buffer = nam_buffer_take(tree->worker, tree->index->g.node_bytes);
	int rc;

	nam__op_begin(tree->worker, NAM_OP_OTHER);
	rc = nam__read_covering(tree->worker, tree->index, full.w, level, buffer, &at);
	nam__op_end(tree->worker);
	if (rc)
		die("finding a node", rc, nam_worker_diag(tree->worker));
	memcpy(image, buffer, tree->index->g.node_bytes);
	nam_buffer_give(tree->worker, buffer, tree->index->g.node_bytes);
	return at;
}

void
tree_write(struct tree *tree, struct nam_gaddr at, unsigned first_word, const uint64_t *words,
	unsigned count)
{
	uint64_t *buffer = nam_buffer_take(tree->worker, 8 * count);
	struct nam_batch batch;
	int rc;

	memcpy(buffer, words, 8ul * count);
	nam_batch_init(&batch, tree->worker);
	nam_batch_write(&batch, at, 8 * first_word, buffer, 8 * count);
	rc = nam_batch_await(&batch);
	if (rc)
		die("writing", rc, nam_err_text(rc));
	nam_buffer_give(tree->worker, buffer, 8 * count);
}
