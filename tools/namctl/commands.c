/* SPDX-License-Identifier: Apache-2.0 */
/* commands.c -- gc, and all about indexes as a whole. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "namctl.h"

#define VIOLATIONS_PRINTED_MAX 20u
#define CACHE_BYTES (16u << 20)

/* Invariants of index/README.md that hold at rest only: a client that dies breaks them. */
#define INVARIANT_NAMED 7u
#define INVARIANT_UNLOCKED 9u

/* ---- create, list, drop ------------------------------------------------------------------- */

int
ctl_index_create(struct ctl *ctl, char **args)
{
	bool fine = !nam_index_traits(ctl->create.design)->partitioned;
	uint8_t *bounds;
	cJSON *object;
	int exit_code = ctl_parts_resolve(ctl, &bounds), rc;

	if (exit_code)
		return exit_code;
	rc = nam_index_create(ctl->worker, args[0], &ctl->create); /* SUSPENDS */
	if (rc) {
		exit_code = ctl_worker_failed(ctl, args[0], rc);
		goto free_bounds;
	}
	ctl_print(ctl, "created %s: %s%s%s, %s, keys of %u bytes, nodes of %u bytes", args[0],
		nam_index_traits(ctl->create.design)->name, fine ? "" : " by ",
		fine ? "" : nam_partitioning_name(&ctl->create),
		ctl->create.unique ? "unique" : "non-unique", ctl->create.key_bytes,
		ctl->create.node_bytes);
	object = ctl_json(ctl);
	ctl_index_json(ctl, args[0], &ctl->create, object);
	ctl_json_print(object);
free_bounds:
	free(bounds);
	ctl->create.bounds = NULL;
	return exit_code;
}

int
ctl_index_list(struct ctl *ctl, char **args)
{
	(void)args;
	return ctl_list(ctl, nam_index_list, "indexes", "listing the indexes"); /* SUSPENDS */
}

/* Memory that cannot be used now is worth a message, but no failure.  Prints the object. */
static void
print_blocks_lost(struct ctl *ctl, const char *name, cJSON *object)
{
	struct nam_diag why;
	uint64_t waiting, lost = ctl_blocks_lost(ctl, &waiting, &why);

	if (lost)
		ctl_complain("%s: %" PRIu64 " blocks could not be given back, because clients "
			"kept them locked or a memory server did not answer. They stay allocated "
			"until namctl sweep finds them", name, lost);
	if (waiting)
		ctl_complain("%s: the memory of %" PRIu64 " blocks cannot be used yet%s%s", name,
			waiting, why.text[0] ? ": " : "", why.text);
	ctl_json_u64(object, "blocks_lost", lost);
	ctl_json_u64(object, "blocks_waiting", waiting);
	ctl_json_print(object);
}

int
ctl_index_drop(struct ctl *ctl, char **args)
{
	int rc = nam_index_drop(ctl->worker, args[0]); /* SUSPENDS */
	bool unnamed_only = rc == -NAM_E_LOST;	/* which is as much as could be done */
	cJSON *object;

	if (rc && !unnamed_only)
		return ctl_worker_failed(ctl, args[0], rc);
	if (unnamed_only)
		ctl_complain("%s", nam_worker_diag(ctl->worker));
	else
		ctl_print(ctl, "dropped %s", args[0]);
	object = ctl_json(ctl);
	cJSON_AddStringToObject(object, "dropped", args[0]);
	cJSON_AddBoolToObject(object, "nodes_left", unnamed_only);
	print_blocks_lost(ctl, args[0], object);
	return NAM_EXIT_OK;
}

/* ---- stat --------------------------------------------------------------------------------- */

static double
bytes_per_entry(const struct nam_index_stat *stat)
{
	return stat->entries ? (double)stat->remote_bytes / (double)stat->entries : 0;
}

static void
print_stat(const struct ctl *ctl, const struct nam_index_stat *stat)
{
	const struct nam_index_options *is = nam_index_properties(ctl->index);

	printf("index            %s\n", ctl->index_name);
	printf("design           %s, %s\n", nam_index_traits(is->design)->name,
		is->unique ? "unique" : "non-unique");
	ctl_parts_print(ctl);
	printf("key bytes        %u\n", is->key_bytes);
	printf("node bytes       %u\n", is->node_bytes);
	if (nam_index_traits(is->design)->client_levels)
		printf("head interval    %u\n", is->head_interval);
	printf("entries          %" PRIu64 "\n", stat->entries);
	printf("height           %u\n", stat->height);
	printf("leaves           %" PRIu64 ", %.1f %% full\n", stat->leaves, stat->leaf_fill * 100);
	printf("inner nodes      %" PRIu64 "\n", stat->inner_nodes);
	if (nam_index_traits(is->design)->client_levels)
		printf("head nodes       %" PRIu64 "\n", stat->head_nodes);
	printf("remote memory    %s", ctl_bytes(stat->remote_bytes).text);
	if (stat->entries)
		printf(", %.2f bytes per entry", bytes_per_entry(stat));
	putchar('\n');
	for (unsigned id = 0; id < 256; id++)
		if (stat->servers_nodes[id])
			printf("  on server %-4u %" PRIu64 " nodes\n", id, stat->servers_nodes[id]);
}

static void
json_stat(const struct ctl *ctl, const struct nam_index_stat *stat)
{
	cJSON *object = cJSON_CreateObject();
	cJSON *servers;

	ctl_index_json(ctl, ctl->index_name, nam_index_properties(ctl->index), object);
	ctl_json_u64(object, "entries", stat->entries);
	ctl_json_u64(object, "height", stat->height);
	ctl_json_u64(object, "leaves", stat->leaves);
	cJSON_AddNumberToObject(object, "leaf_fill", stat->leaf_fill);
	ctl_json_u64(object, "inner_nodes", stat->inner_nodes);
	ctl_json_u64(object, "head_nodes", stat->head_nodes);
	ctl_json_u64(object, "remote_bytes", stat->remote_bytes);
	cJSON_AddNumberToObject(object, "bytes_per_entry", bytes_per_entry(stat));
	servers = cJSON_AddObjectToObject(object, "nodes_by_server");
	for (unsigned id = 0; id < 256; id++) {
		char name[8];

		if (!stat->servers_nodes[id])
			continue;
		snprintf(name, sizeof(name), "%u", id);
		ctl_json_u64(servers, name, stat->servers_nodes[id]);
	}
	ctl_json_print(object);
}

int
ctl_index_stat(struct ctl *ctl, char **args)
{
	struct nam_index_stat stat;
	int exit_code = ctl_open(ctl, args[0], CACHE_BYTES), rc;

	if (exit_code)
		return exit_code;
	rc = nam_index_stat(ctl->worker, ctl->index, &stat); /* SUSPENDS */
	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	if (ctl->json)
		json_stat(ctl, &stat);
	else
		print_stat(ctl, &stat);
	return NAM_EXIT_OK;
}

/* ---- verify, gc --------------------------------------------------------------------------- */

struct violations {
	const struct ctl *ctl;
	cJSON *list;
	unsigned printed;
	uint64_t late;			/* separators */
	uint64_t locks;
	bool alone;			/* no other client is alive: those of the locks are dead */
};

static void
on_violation(void *arg, unsigned invariant, const char *text)
{
	struct violations *violations = arg;

	violations->late += invariant == INVARIANT_NAMED;
	violations->locks += invariant == INVARIANT_UNLOCKED;
	if (violations->printed++ >= VIOLATIONS_PRINTED_MAX)
		return;
	if (violations->list) {
		cJSON *one = cJSON_CreateObject();

		ctl_json_u64(one, "invariant", invariant);
		cJSON_AddStringToObject(one, "text", text);
		cJSON_AddItemToArray(violations->list, one);
	} else {
		ctl_print(violations->ctl, "I%u: %s", invariant, text);
	}
}

static int
on_client(void *arg, const struct nam_client_info *client)
{
	struct violations *violations = arg;

	if (client->alive && client->id != nam_client_id(violations->ctl->client))
		violations->alone = false;
	return 0;
}

static void
print_verdict(const struct violations *violations, uint64_t count)
{
	const char *locks = violations->locks == 1 ? "lock is" : "locks are";
	const char *late = violations->late == 1 ? "separator is" : "separators are";
	const struct ctl *ctl = violations->ctl;

	if (count > violations->late + violations->locks)
		ctl_print(ctl,
			"%s: %" PRIu64 " violation%s of the invariants in index/README.md; if "
			"no client was writing meanwhile, the index is damaged: load it anew",
			ctl->index_name, count, count == 1 ? "" : "s");
	else if (violations->locks)
		ctl_print(ctl, "%s: the pairs are all right, but %" PRIu64 " %s set and %" PRIu64
			" %s late; %s: the next writers of these nodes take the locks over",
			ctl->index_name, violations->locks, locks, violations->late, late,
			violations->alone ? "no other client is alive, so a writer died" :
			"if no client was writing meanwhile, a writer died");
	else if (violations->late)
		ctl_print(ctl, "%s: the pairs are all right, but %" PRIu64 " %s late, "
			"which costs time and no more; the next reader to pass adds %s",
			ctl->index_name, violations->late, late,
			violations->late == 1 ? "it" : "them");
	else
		ctl_print(ctl, "%s: every invariant holds", ctl->index_name);
}

int
ctl_index_verify(struct ctl *ctl, char **args)
{
	struct violations violations = { .ctl = ctl, .alone = true };
	cJSON *object;
	uint64_t count = 0;
	bool damaged;
	int exit_code = ctl_open(ctl, args[0], CACHE_BYTES), rc;

	if (exit_code)
		return exit_code;
	object = ctl_json(ctl);
	cJSON_AddStringToObject(object, "index", args[0]);
	violations.list = cJSON_AddArrayToObject(object, "violations");
	rc = nam_index_verify(ctl->worker, ctl->index, on_violation, &violations,
		&count); /* SUSPENDS */
	if (!rc && violations.locks &&
		nam_client_list(ctl->worker, on_client, &violations)) /* SUSPENDS */
		violations.alone = false;
	if (rc) {
		cJSON_Delete(object);
		return ctl_worker_failed(ctl, args[0], rc);
	}
	if (count > VIOLATIONS_PRINTED_MAX)
		ctl_print(ctl, "and %" PRIu64 " more", count - VIOLATIONS_PRINTED_MAX);
	print_verdict(&violations, count);
	damaged = count > violations.late + violations.locks;
	ctl_json_u64(object, "count", count);
	ctl_json_u64(object, "late_separators", violations.late);
	ctl_json_u64(object, "locks", violations.locks);
	cJSON_AddBoolToObject(object, "damaged", damaged);
	ctl_json_print(object);
	return damaged || (violations.locks && !violations.alone) ? NAM_EXIT_NO : NAM_EXIT_OK;
}

int
ctl_gc(struct ctl *ctl, char **args)
{
	struct nam_collect_stat stat;
	int exit_code = ctl_open(ctl, args[0], CACHE_BYTES), rc;
	cJSON *object;

	if (exit_code)
		return exit_code;
	rc = nam_index_collect(ctl->worker, ctl->index, &stat); /* SUSPENDS */
	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	ctl_print(ctl, "%s: %" PRIu64 " nodes visited, %" PRIu64 " merges, %" PRIu64
		" head nodes written, %" PRIu64 " nodes retired, %" PRIu64 " reusable", args[0],
		stat.nodes_visited, stat.merges, stat.heads_written, stat.nodes_retired,
		stat.nodes_reusable);
	object = ctl_json(ctl);
	cJSON_AddStringToObject(object, "index", args[0]);
	ctl_json_u64(object, "nodes_visited", stat.nodes_visited);
	ctl_json_u64(object, "merges", stat.merges);
	ctl_json_u64(object, "heads_written", stat.heads_written);
	ctl_json_u64(object, "nodes_retired", stat.nodes_retired);
	ctl_json_u64(object, "nodes_reusable", stat.nodes_reusable);
	print_blocks_lost(ctl, args[0], object);
	return NAM_EXIT_OK;
}
