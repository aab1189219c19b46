/* SPDX-License-Identifier: Apache-2.0 */
/* litmus.c -- see litmus.h. */
#include "litmus.h"

#include <stdarg.h>
#include <string.h>

#include "common/layout.h"
#include "compute/view/presence.h"
#include "index/coarse/coarse.h"
#include "index/index_internal.h"
#include "memserver/memserver_internal.h"

#define HANDLERS 16u

struct litmus litmus;

void
litmus_fail(const char *format, ...)
{
	va_list args;

	if (litmus.failed)
		return;
	litmus.failed = true;
	va_start(args, format);
	(void)vsnprintf(litmus.why, sizeof(litmus.why), format, args);
	va_end(args);
}

void
litmus_await_for(enum flag flag, uint64_t timeout_ns)
{
	for (uint64_t i = 0; !litmus.flags[flag] && i < timeout_ns / LITMUS_POLL_NS; i++)
		nam_sleep_ns(LITMUS_POLL_NS);
}

void
litmus_await(enum flag flag)
{
	litmus_await_for(flag, LITMUS_TIMEOUT_NS);
}

void
litmus_hold_first(struct actor *self)
{
	(void)self;
	if (litmus.flags[ONE])
		return;
	litmus.flags[ONE] = true;
	litmus_await(TWO);
}

void
litmus_hold_once(struct actor *self)
{
	if (litmus.flags[FOUR])
		litmus_hold_first(self);
}

/* ---- operations ------------------------------------------------------------------------------ */

static const char *const names[LITMUS_ACTORS + 1] = { "director", "A", "B", "C",
	"the server" };

/* The result of an operation, for the trace. */
static int
traced(const struct actor *self, const char *what, uint64_t number, int rc)
{
	nam_sim_note("%s: %s(%llu): %s", names[self->who], what, (unsigned long long)number,
		nam_err_name(rc));
	return rc;
}

void
litmus_die(void *actor)
{
	struct actor *self = actor;

	nam_sim_process_kill(self->process);
	litmus.flags[ONE] = true;
}

void
litmus_die_here(struct actor *self)
{
	nam_sim_call_after(0, litmus_die, self);
	/* No further. */
	nam_sleep_ns(LITMUS_TIMEOUT_NS);
}

static void
resume(void *process)
{
	nam_sim_process_resume(process);
}

void
litmus_stall(struct nam_sim_process *process, uint64_t ns)
{
	nam_sim_process_stall(process);
	nam_sim_call_after(ns, resume, process);
}

enum nam_client_state
litmus_state_of(struct actor *self, enum who who)
{
	const struct actor *other = &litmus.actors[who];
	struct nam_rpc_client_state_reply reply;

	if (nam__client_state_query(self->worker, other->id, other->incarnation, &reply))
		sim_die("no state: %s", nam_worker_diag(self->worker));
	return (enum nam_client_state)reply.state;
}

void
litmus_await_state(struct actor *self, enum who who, enum nam_client_state state)
{
	for (uint64_t i = 0; i < LITMUS_TIMEOUT_NS / LITMUS_POLL_NS; i++) {
		if (litmus_state_of(self, who) == state)
			return;
		nam_sleep_ns(LITMUS_POLL_NS);
	}
	litmus_fail("a client that ended does not come to state %d", (int)state);
}

void
litmus_write_word(struct actor *self, struct nam_gaddr at, uint64_t number)
{
	uint64_t *word = nam_buffer_take(self->worker, 8);

	*word = number;
	if (nam_write_await(self->worker, nam_gaddr_untagged(at), word, 8))
		litmus_fail("write: %s", nam_worker_diag(self->worker));
	nam_buffer_give(self->worker, word, 8);
}

uint64_t
litmus_read_word(struct actor *self, struct nam_gaddr at)
{
	uint64_t *word = nam_buffer_take(self->worker, 8), number;

	if (nam_read_await(self->worker, nam_gaddr_untagged(at), word, 8))
		litmus_fail("read: %s", nam_worker_diag(self->worker));
	number = *word;
	nam_buffer_give(self->worker, word, 8);
	return number;
}

int
litmus_try_insert(struct actor *self, uint64_t number)
{
	uint8_t key[8];

	nam_key_from_u64(number, key);
	return traced(self, "insert", number,
		nam_index_insert(self->worker, self->index, key, number + 1));
}

void
litmus_insert(struct actor *self, uint64_t number)
{
	int rc = litmus_try_insert(self, number);

	if (rc && !nam_sim_zombie())
		litmus_fail("insert(%llu): %s", (unsigned long long)number,
			nam_err_name(rc));
}

void
litmus_delete_range(struct actor *self, uint64_t first, uint64_t last)
{
	uint8_t key[8];

	for (uint64_t number = first; number <= last; number += 10) {
		int rc;

		nam_key_from_u64(number, key);
		rc = traced(self, "delete", number,
			nam_index_delete(self->worker, self->index, key));
		if (rc)
			litmus_fail("delete(%llu): %s", (unsigned long long)number,
				nam_err_name(rc));
	}
}

int
litmus_try_lookup(struct actor *self, uint64_t number)
{
	uint64_t payload = 0;
	uint8_t key[8];
	int rc;

	nam_key_from_u64(number, key);
	rc = traced(self, "lookup", number,
		nam_index_lookup(self->worker, self->index, key, &payload));
	if (!rc && payload != number + 1)
		litmus_fail("lookup(%llu): %s, %llu", (unsigned long long)number, nam_err_name(rc),
			(unsigned long long)payload);
	return rc;
}

void
litmus_expect(struct actor *self, uint64_t number, int expected)
{
	int rc = litmus_try_lookup(self, number);

	if (rc != expected)
		litmus_fail("lookup(%llu): %s; %s", (unsigned long long)number, nam_err_name(rc),
			nam_worker_diag(self->worker));
}

void
litmus_expect_range(struct actor *self, uint64_t first, uint64_t last, int expected)
{
	for (uint64_t number = first; number <= last; number += 10)
		litmus_expect(self, number, expected);
}

uint64_t
litmus_collect(struct actor *self)
{
	struct nam_collect_stat stat = { 0 };
	int rc = nam_index_collect(self->worker, self->index, &stat);

	(void)traced(self, "collect, merges", stat.merges, rc);
	if (rc && !nam_err_is(rc, NAM_E_RESTART) && !nam_err_is(rc, NAM_E_LOCK_TIMEOUT))
		litmus_fail("collect: %s", nam_err_name(rc));
	return stat.nodes_reusable;
}

/* Until unlinked blocks may be reused, or a client evidently holds them back. */
void
litmus_collect_until_reusable(struct actor *self)
{
	for (unsigned i = 0; i < 8; i++) {
		if (litmus_collect(self))
			return;
		nam_sleep_ns(LITMUS_TICKS_NS);
	}
}

static void
violated(void *arg, unsigned invariant, const char *text)
{
	(void)arg;
	litmus_fail("I%u: %s", invariant, text);
}

void
litmus_verify(struct actor *self)
{
	uint64_t violations;
	int rc = nam_index_verify(self->worker, self->index, violated, NULL, &violations);

	if (rc)
		litmus_fail("the verifier: %s", nam_err_name(rc));
}

struct nam_gaddr
litmus_leaf_of(struct actor *self, uint64_t number, uint64_t *ret_lock_word)
{
	struct nam_index *index = self->index;
	uint64_t *image = nam_buffer_take(self->worker, index->g.node_bytes);
	struct nam_gaddr at = NAM_GADDR_NULL;
	struct nam__key key;
	uint8_t bytes[8];
	int rc;

	if (!image)
		sim_die("no memory");
	nam_key_from_u64(number, bytes);
	nam__key_encode(&index->g, bytes, 0, &key);
	/* Each part of a hybrid index has leaves of its own. */
	if (index->leaves)
		index = index->leaves[nam__part_of(index, key.w)];
	nam__op_begin(self->worker, NAM_OP_OTHER);
	rc = nam__read_covering(self->worker, index, key.w, 0, image, &at);
	nam__op_end(self->worker);
	if (rc)
		litmus_fail("reading a leaf: %s", nam_err_name(rc));
	if (ret_lock_word)
		*ret_lock_word = rc ? 0 : image[NAM__WORD_LOCK];
	nam_buffer_give(self->worker, image, index->g.node_bytes);
	return at;
}

uint32_t
litmus_server_of(const struct actor *self, struct nam_gaddr at)
{
	const struct nam_region *region = nam_region_table_find(&self->client->regions, at);

	if (!region)
		sim_die("a pointer leads nowhere");
	return region->server;
}

uint64_t
litmus_memory_sum(void)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < litmus.cluster.count; i++) {
		const struct nam__memory *memory = &litmus.cluster.servers[i].server->memory;

		for (uint32_t region = 0; region < memory->count; region++) {
			const uint64_t *words = memory->mrs[region].base;
			uint64_t at = i || region ? 0 : NAM_META_BYTES / 8;

			for (; at < memory->mrs[region].bytes / 8; at++)
				sum = words[at] ? (sum ^ words[at] ^ at) * 0xff51afd7ed558ccdull :
						  sum;
		}
	}
	return sum;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static void
on_race(const char *name)
{
	for (unsigned i = 0; i < LITMUS_HELD; i++) {
		struct actor *actor = &litmus.actors[litmus.scene->held[i].who];

		if (!litmus.scene->held[i].point || strcmp(litmus.scene->held[i].point, name) ||
			!litmus.flags[READY] || nam_sim_self() != actor->process)
			continue;
		nam_sim_note("%s is held at %s", names[actor->who], name);
		litmus.scene->held[i].fn(actor);
		nam_sim_note("%s goes on from %s", names[actor->who], name);
	}
}

static bool
come(struct actor *self)
{
	int rc = 0;

	if (litmus.cluster.keys)
		litmus_keys_choose(&litmus.cluster, self->who);
	self->worker = sim_come(&litmus.cluster, "actor", &self->client);
	if (self->client) {
		self->id = self->client->id;
		self->incarnation = self->client->incarnation;
	}
	if (self->worker && self->who != DIRECTOR)
		rc = nam_index_open(self->worker, LITMUS_INDEX, 1u << 20, &self->index);
	if (self->index && !rc)
		litmus_mutate_index(self->index);
	return self->worker && !rc;
}

static void
go(struct actor *self)
{
	nam_index_close(self->index);
	sim_leave(&self->client, &self->worker);
}

static void
actor_main(void *arg)
{
	struct actor *self = arg;

	if (come(self))
		litmus.scene->act[self->who](self);
	else
		litmus_fail("an actor cannot come");
	go(self);
}

static void
plant(struct actor *self)
{
	static const enum nam_partitioning partitionings[] = {
		[LITMUS_COARSE_RANGE] = NAM_PARTITION_RANGE,
		[LITMUS_COARSE_HASH] = NAM_PARTITION_HASH,
		[LITMUS_COARSE_ROUND_ROBIN] = NAM_PARTITION_ROUND_ROBIN,
		[LITMUS_HYBRID_HASH] = NAM_PARTITION_HASH,
	};
	struct nam_index_options options;
	uint8_t bound[NAM_KEY_BYTES_MAX];
	int rc;

	nam_index_options_init(&options);
	options.node_bytes = 256;
	options.head_interval = 0;
	if (litmus.design) {
		options.design = litmus.design < LITMUS_HYBRID_HASH ? NAM_DESIGN_COARSE :
			NAM_DESIGN_HYBRID;
		options.partitioning = partitionings[litmus.design];
	}
	/* Two memory servers. */
	nam_key_from_u64(5 * LITMUS_LOADED, bound);
	if (litmus.design == LITMUS_COARSE_RANGE) {
		options.bounds = bound;
		options.bounds_count = 1;
	}
	rc = nam_index_create(self->worker, LITMUS_INDEX, &options);
	if (!rc)
		rc = nam_index_open(self->worker, LITMUS_INDEX, 1u << 20, &self->index);
	if (rc)
		sim_die("the index: %s", nam_worker_diag(self->worker));
	litmus_mutate_index(self->index);
	for (uint64_t i = 0; i < litmus.scene->loaded; i++)
		litmus_insert(self, 10 * i);
}

static void
director_main(void *arg)
{
	struct actor *self = arg;

	sim_cluster_await(&litmus.cluster);
	if (!come(self))
		sim_die("the director cannot come");
	plant(self);
	litmus.flags[READY] = true;
	for (unsigned i = A; i < LITMUS_ACTORS; i++) {
		litmus.actors[i] = (struct actor){ .who = (enum who)i };
		if (litmus.scene->act[i] &&
			nam_sim_process_start(names[i], actor_main, &litmus.actors[i],
				&litmus.actors[i].process))
			sim_die("an actor cannot be started");
	}
	for (unsigned i = A; i < LITMUS_ACTORS; i++)
		while (litmus.actors[i].process && !nam_sim_process_ended(litmus.actors[i].process))
			nam_sleep_ns(LITMUS_POLL_NS);
	if (litmus.scene->act[DIRECTOR])
		litmus.scene->act[DIRECTOR](self);
	go(self);
	sim_cluster_stop(&litmus.cluster);
}

void
litmus_perform(const struct litmus_case *what, enum nam_sim_profile profile, uint64_t seed,
	FILE *trace)
{
	bool keyed = what->design >= LITMUS_FINE_KEYS;
	struct nam_sim_options options;
	int rc;

	nam_sim_options_init(&options);
	options.seed = seed;
	options.profile = profile;
	options.step_bytes = 8;
	options.trace = trace;
	memset(&litmus, 0, sizeof(litmus));
	litmus.scene = &what->scene;
	litmus.profile = profile;
	litmus.design = what->design == LITMUS_FINE_KEYS ? LITMUS_FINE :
		keyed ? LITMUS_HYBRID_HASH : what->design;
	/* So a wait in one handler does not delay others. */
	sim_cluster_begin(&options, &litmus.cluster, what->servers,
		litmus.design ? HANDLERS : 1, 8u << 20);
	/* Of parts of an index beside those of stores. */
	sim_cluster_htm(&litmus.cluster, seed);
	litmus.cluster.regions += litmus.design != LITMUS_FINE;
	if (keyed)
		litmus_keys_make(&litmus.cluster);
	nam_sim_on_race(on_race);
	litmus.actors[SERVER] = (struct actor){ .who = SERVER,
		.process = litmus.cluster.servers[what->servers - 1].process };
	litmus.actors[DIRECTOR] = (struct actor){ .who = DIRECTOR };
	if (nam_sim_process_start("director", director_main, &litmus.actors[DIRECTOR],
		    &litmus.actors[DIRECTOR].process))
		sim_die("the director cannot be started");
	rc = nam_sim_run();
	if (rc)
		litmus_fail("the run: %s", nam_err_name(rc));
	nam_sim_end();
	if (keyed)
		litmus_keys_remove();
}
