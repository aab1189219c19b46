/* SPDX-License-Identifier: Apache-2.0 */
/*
 * damage_tool.c -- indexes with something wrong, for scripts.
 *
 *	damage_tool CLUSTER INDEX hold		locks the root until its standard input ends
 *	damage_tool CLUSTER INDEX lock		leaves it locked
 *	damage_tool CLUSTER INDEX orphan	leaves it locked, and half-written without a record
 *	damage_tool CLUSTER INDEX separator	takes the last separator out of it
 *	damage_tool CLUSTER INDEX hash		spoils its hash
 *	damage_tool CLUSTER INDEX torn		leaves its first child as in the middle of a WRITE
 *
 * Prints "done" when it is so.  No other client may be at work.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "index/index_internal.h"
#include "index/node/redo.h"
#include "tests/lib/cluster.h"

static int
write_word(struct nam_worker *worker, struct nam_gaddr node, uint32_t word, uint64_t value)
{
	uint64_t *buffer = nam_buffer_take(worker, 8);
	struct nam_batch batch;
	int rc;

	*buffer = value;
	nam_batch_init(&batch, worker);
	nam_batch_write(&batch, node, 8 * word, buffer, 8);
	rc = nam_batch_await(&batch);
	nam_buffer_give(worker, buffer, 8);
	return rc;
}

static int
damage(struct nam_worker *worker, struct nam_index *index, const char *how)
{
	uint64_t *image = nam_buffer_take(worker, index->g.node_bytes), seen;
	uint64_t word = nam_lock_word(index->client->id, index->client->incarnation, 1u << 20);
	struct nam_gaddr root;
	char byte;
	int rc;

	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__root_read(worker, index, &root, image);
	nam__op_end(worker);
	if (rc)
		return rc;
	root = nam_gaddr_untagged(root);
	if (!strcmp(how, "torn")) {
		root = nam_gaddr_untagged(nam__inner_child(&index->g, image, 0));
		rc = nam_read_await(worker, root, image, index->g.node_bytes);
		image[NAM__WORD_FRONT] += 1u << 16;
		image[NAM__WORD_HASH]++;
		return rc ? rc : nam_write_await(worker, root, image, index->g.node_bytes);
	}
	if (!strcmp(how, "hash") || !strcmp(how, "separator")) {
		unsigned count = nam__node_count(image) - 1;

		if (!strcmp(how, "separator"))
			nam__node_set_counts(image, count, count);
		nam__node_seal(&index->g, image, root);
		if (!strcmp(how, "hash"))
			image[NAM__WORD_HASH]++;
		return nam_write_await(worker, root, image, index->g.node_bytes);
	}
	rc = nam_cas_await(worker, root, NAM_LOCK_FREE, word, &seen);
	if (!rc && !strcmp(how, "orphan")) {
		image[NAM__WORD_HASH]++;
		rc = write_word(worker, root, NAM__WORD_HASH, image[NAM__WORD_HASH]);
		if (!rc)
			rc = write_word(worker, root, index->g.node_words + NAM__REDO_NOTE, 0);
	}
	if (rc || strcmp(how, "hold"))
		return rc;
	puts("done");
	(void)fflush(stdout);
	while (read(STDIN_FILENO, &byte, 1) > 0)
		continue;
	return nam_cas_await(worker, root, word, NAM_LOCK_FREE, &seen);
}

int
main(int argc, char **argv)
{
	struct nam_client *client;
	struct nam_worker *worker;
	struct nam_index *index;
	int rc;

	if (argc != 4)
		test_die("usage: damage_tool CLUSTER INDEX hold|lock|orphan|separator|hash");
	client = test_connect(argv[1], "damage", 0);
	worker = test_worker(client);
	rc = nam_index_open(worker, argv[2], 0, &index);
	if (rc)
		test_die("%s: %s", argv[2], nam_worker_diag(worker));
	rc = damage(worker, index, argv[3]);
	if (rc)
		test_die("%s: %s", argv[3], nam_err_text(rc));
	if (strcmp(argv[3], "hold"))
		puts("done");
	nam_index_close(index);
	nam_worker_close(worker);
	nam_client_close(client);
	return 0;
}
