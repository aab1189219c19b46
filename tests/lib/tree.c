/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tree.c -- see tree.h.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "../../memserver/server.h"
#include "tree.h"

struct tree_server {
	struct nam_server *server;
	struct nam_thread *thread;
	char address[100];
};

static void
die(const char *what, int rc, const char *why)
{
	fprintf(stderr, "%s: %s: %s\n", what, nam_err_name(rc), why);
	abort();
}

static void
serve(void *arg)
{
	struct tree_server *server = arg;
	int rc = nam_server_run(server->server);

	if (rc)
		die("memory server", rc, nam_err_text(rc));
}

static struct tree_server *
server_start(const char *directory, unsigned id, uint64_t memory_bytes)
{
	struct tree_server *server = calloc(1, sizeof(*server));
	struct nam_server_options options;
	struct nam_diag diag = { "" };
	int rc;

	snprintf(server->address, sizeof(server->address), "shm:%s/%u", directory, id);
	nam_server_options_init(&options);
	options.listen = server->address;
	options.id = id;
	options.memory_bytes = memory_bytes;
	options.region_bytes = memory_bytes;
	options.pages = NAM_PAGES_4K;
	options.rpc_threads = 1;
	rc = nam_server_start(&options, &server->server, NULL, &diag);
	if (rc)
		die("starting a memory server", rc, diag.text);
	rc = nam_thread_start("server", serve, server, &server->thread);
	if (rc)
		die("starting a thread", rc, nam_err_text(rc));
	return server;
}

static void
server_stop(struct tree_server *server)
{
	nam_server_stop(server->server);
	nam_thread_join(server->thread);
	nam_server_destroy(server->server);
	free(server);
}

static void
connect_client(const char *cluster, struct nam_client **ret_client, struct nam_worker **ret_worker)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = cluster;
	options.name = "test";
	options.lock_timeout_ms = 200;
	rc = nam_client_connect(&options, ret_client, &diag);
	if (!rc)
		rc = nam_worker_open(*ret_client, ret_worker, &diag);
	if (rc)
		die("connecting", rc, diag.text);
}

void
tree_start(struct tree *tree, unsigned servers, uint64_t memory_bytes)
{
	memset(tree, 0, sizeof(*tree));
	strcpy(tree->directory, "/tmp/nam-tree-XXXXXX");
	if (!mkdtemp(tree->directory))
		die("making a directory", -1, tree->directory);
	for (unsigned i = 0; i < servers; i++) {
		size_t used = strlen(tree->cluster);

		tree->servers[i] = server_start(tree->directory, i, memory_bytes);
		snprintf(tree->cluster + used, sizeof(tree->cluster) - used, "%s%s", i ? "," : "",
			tree->servers[i]->address);
	}
	tree->servers_count = servers;
	connect_client(tree->cluster, &tree->client, &tree->worker);
}

void
tree_stop(struct tree *tree)
{
	nam_index_close(tree->index);
	nam_worker_close(tree->worker);
	nam_client_close(tree->client);
	for (unsigned i = 0; i < tree->servers_count; i++)
		server_stop(tree->servers[i]);
	rmdir(tree->directory);
}

void
tree_create(struct tree *tree, const struct nam_index_options *options)
{
	int rc;

	if (tree->index) {
		nam_index_close(tree->index);
		tree->index = NULL;
		rc = nam_index_drop(tree->worker, TREE_NAME);
		if (rc)
			die("dropping", rc, nam_worker_diag(tree->worker));
	}
	rc = nam_index_create(tree->worker, TREE_NAME, options);
	if (!rc)
		rc = nam_index_open(tree->worker, TREE_NAME, 16u << 20, &tree->index);
	if (rc)
		die("creating", rc, nam_worker_diag(tree->worker));
}

void
tree_guest_come(struct tree *tree, struct tree_guest *guest)
{
	int rc;

	connect_client(tree->cluster, &guest->client, &guest->worker);
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
