/* SPDX-License-Identifier: Apache-2.0 */
#include "index_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compute/worker/worker.h"

struct member
member_join(const struct local_cluster *cluster, const char *name, uint32_t lock_timeout_ms)
{
	struct member member = {
		.client = test_connect(local_cluster_list(cluster), name, lock_timeout_ms),
	};

	member.worker = test_worker(member.client);
	return member;
}

void
member_leave(struct member *member)
{
	nam_worker_close(member->worker);
	nam_client_close(member->client);
	member->client = NULL;
}

void
member_says(const struct member *who, const char *text)
{
	if (!strstr(nam_worker_diag(who->worker), text))
		fail_msg("'%s' is not in: %s", text, nam_worker_diag(who->worker));
}

uint64_t
member_sees_used(const struct member *who)
{
	uint64_t bytes = 0;

	for (uint32_t slot = 0; slot < nam_client_servers(who->client); slot++) {
		struct nam_server_status status;

		assert_int_equal(nam_server_status_get(who->worker, slot, &status), 0);
		bytes += status.carved_bytes - status.free_bytes;
	}
	return bytes;
}

const char *
tree_create(struct nam_worker *worker, const struct tree_options *wanted)
{
	static unsigned trees;
	static char name[32];
	struct nam_index_options options;

	nam_index_options_init(&options);
	options.key_bytes = wanted->key_bytes ? wanted->key_bytes : 8;
	options.node_bytes = wanted->node_bytes ? wanted->node_bytes : 256;
	options.unique = !wanted->pairs;
	options.head_interval = wanted->head_interval;
	tree_design_set(nam_client_servers(worker->client), &options);
	(void)snprintf(name, sizeof(name), "tree-%u", trees++);
	assert_int_equal(nam_index_create(worker, name, &options), 0);
	return name;
}

struct nam_index *
tree_open(struct nam_worker *worker, const char *name, uint64_t cache_bytes)
{
	struct nam_index *index = NULL;

	assert_int_equal(nam_index_open(worker, name, cache_bytes, &index), 0);
	return index;
}

struct nam_index *
tree_new(struct nam_worker *worker, const struct tree_options *options, uint64_t cache_bytes)
{
	return tree_open(worker, tree_create(worker, options), cache_bytes);
}

/* The number stands at the key's end; what is before it is the same in all keys. */
const void *
tree_key(const struct nam_index *index, uint64_t number)
{
	static _Thread_local uint8_t keys[4][NAM_KEY_BYTES_MAX];
	static _Thread_local unsigned next;
	uint32_t bytes = nam_index_properties(index)->key_bytes;
	uint8_t *key = keys[next++ % 4];

	tree_key_fill(key, bytes, number);
	return key;
}

uint64_t
tree_key_number(const struct nam_index *index, const void *key)
{
	return nam_key_to_u64((const uint8_t *)key + nam_index_properties(index)->key_bytes - 8);
}

void
tree_fill(struct nam_worker *worker, struct nam_index *index, uint64_t first, uint64_t end,
	uint64_t step)
{
	for (uint64_t number = first; number < end; number += step)
		assert_int_equal(nam_index_insert(worker, index, tree_key(index, number),
					 number * 10 + 1), 0);
}

static void
print_violation(void *arg, unsigned invariant, const char *text)
{
	(void)arg;
	print_error("I%u: %s\n", invariant, text);
}

void
tree_check(struct nam_worker *worker, struct nam_index *index, uint64_t entries)
{
	struct nam_index_stat stat;
	uint64_t violations = 1;

	assert_int_equal(nam_index_verify(worker, index, print_violation, NULL, &violations), 0);
	assert_int_equal(violations, 0);
	assert_int_equal(nam_index_stat(worker, index, &stat), 0);
	assert_int_equal(stat.entries, entries);
}
