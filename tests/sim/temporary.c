/* SPDX-License-Identifier: Apache-2.0 */
/*
 * temporary.c -- an index that is made, loaded in bulk, looked at, and dropped, again and again,
 * while the clients work on theirs.  A visitor uses it meanwhile.
 *
 * The maker's pairs have even keys and never change.  So for each life of the index, its round, the
 * pairs appear all at once.  A handle shows all of them from then on, until its client is told that
 * the index is gone.  It never shows another round's.  The visitor's keys are odd.  Whether all
 * blocks came back is seen at the end of the run, with those of the other index.
 */
#include "common/layout.h"
#include "index/coarse/coarse.h"
#include "index/index_internal.h"
#include "stage.h"

#define NAME "temporary"
#define PAUSE_NS 50000u
#define VISITS 40u			/* operations through one handle */
#define FILL_MIN 50u
#define ROUNDS_MAX 1000u		/* fit into payloads */
#define VISITORS_ROUND 0xffffu

struct source {
	uint64_t round, pairs, next;
};

static uint64_t
payload_of(uint64_t round, uint64_t key)
{
	return round << 48 | key;
}

static int
source_next(void *arg, void *key, uint64_t *payload)
{
	struct source *source = arg;

	if (source->next == source->pairs)
		return NAM_INDEX_END;
	nam_key_from_u64(2 * source->next, key);
	*payload = payload_of(source->round, 2 * source->next);
	source->next++;
	return NAM_INDEX_PAIR;
}

/* Whether the actor can go on after such a result, which is no success. */
static bool
goes_on(struct sim_actor *actor, const char *what, int rc)
{
	if (nam_sim_zombie())
		return false;
	if (sim_full_explained(actor->stage, rc)) {
		nam_sleep_ns(20 * PAUSE_NS);
		return true;
	}
	/* A collector may be at work. */
	if (rc != -NAM_E_LOCK_TIMEOUT && !sim_explained(actor, rc))
		sim_fail(actor->stage, "the temporary index: %s: %s", what, nam_err_name(rc));
	return !nam_err_is(rc, NAM_E_FABRIC) && !nam_err_is(rc, NAM_E_FENCED);
}

/* ---- the maker ---------------------------------------------------------------------------- */

/* All of the maker's pairs, in order, and perhaps some of the visitor's between them. */
static void
check_pair(struct sim_stage *stage, uint64_t key, uint64_t payload, uint64_t *expected)
{
	if (key % 2 && payload == payload_of(VISITORS_ROUND, key))
		return;
	if (key != *expected)
		sim_fail(stage, "the temporary index, round %llu: key %llu where %llu should be",
			(unsigned long long)stage->temporary.round, (unsigned long long)key,
			(unsigned long long)*expected);
	else if (payload != payload_of(stage->temporary.round, key))
		sim_fail(stage, "the temporary index, round %llu: key %llu has %llx",
			(unsigned long long)stage->temporary.round, (unsigned long long)key,
			(unsigned long long)payload);
	*expected = key + 2;
}

static int
check_contents(struct sim_actor *actor, struct nam_worker *worker, struct nam_index *index)
{
	struct sim_stage *stage = actor->stage;
	uint64_t payloads[16], expected = 0;
	struct nam_cursor *cursor;
	struct nam_range all = { 0 };
	uint8_t keys[16 * 8];
	uint32_t got = 0;
	int rc = nam_cursor_open(worker, index, &all, &cursor);

	if (rc)
		return rc;
	do {
		rc = nam_cursor_next(cursor, keys, payloads, 16, &got);
		for (uint32_t i = 0; !rc && i < got && !nam_sim_zombie(); i++)
			check_pair(stage, nam_key_to_u64(keys + (size_t)8 * i), payloads[i],
				&expected);
	} while (!rc && got);
	nam_cursor_close(cursor);
	if (!rc && expected != 2 * stage->temporary.pairs && !nam_sim_zombie())
		sim_fail(stage, "the temporary index, round %llu: ends before key %llu of %llu",
			(unsigned long long)stage->temporary.round, (unsigned long long)expected,
			(unsigned long long)(2 * stage->temporary.pairs));
	return rc;
}

/* False: others keep the maker from it, or the fabric has failed. */
static bool
load(struct sim_actor *actor, struct nam_worker *worker, struct nam_index *index)
{
	struct sim_stage *stage = actor->stage;
	uint64_t since_ns = nam_sim_now_ns(), count = 0;
	uint32_t fill = FILL_MIN + (uint32_t)(nam_sim_random() % 51);
	struct source source = { stage->temporary.round, stage->temporary.pairs, 0 };
	int rc = nam_index_bulk_load(worker, index, source_next, &source, fill, &count);

	sim_check_progress(actor, "a bulk load", false, since_ns);
	if (!rc && count != stage->temporary.pairs && !nam_sim_zombie())
		sim_fail(stage, "the temporary index: %llu pairs loaded of %llu",
			(unsigned long long)count, (unsigned long long)stage->temporary.pairs);
	if (!rc && !nam_sim_zombie())
		stage->temporary.whole = stage->temporary.round;
	if (!rc)
		rc = check_contents(actor, worker, index);
	if (rc)
		return goes_on(actor, "bulk load", rc);
	stage->outcome->loads++;
	return !nam_sim_zombie();
}

/* A collector of the visitor's may be at work: then another time. */
static bool
drop(struct sim_actor *actor, struct nam_worker *worker)
{
	uint64_t since_ns = nam_sim_now_ns(), given_up = sim_memory_given_up(actor->client);
	bool locked;
	int rc;

	do {
		rc = nam_index_drop(worker, NAME);
		/* A node that stays locked is left as it is. */
		locked = nam_err_is(rc, NAM_E_LOST) && (sim_lock_may_stay(actor->stage) ||
			sim_explained(actor, -NAM_E_LOCK_TIMEOUT));
		if (!rc)
			actor->stage->outcome->drops++;
		else if (!locked && !goes_on(actor, "drop", rc))
			return false;
	} while (nam_err_is(rc, NAM_E_LOCK_TIMEOUT) && !nam_sim_zombie());
	/* And later additions of the lock's epoch thread to such a node are unknown. */
	if (rc || sim_memory_given_up(actor->client) > given_up)
		sim_losses_temporary(actor->stage);
	sim_check_progress(actor, "a drop", false, since_ns);
	return true;
}

static void
key_of(const struct sim_scenario *scenario, uint64_t number, void *ret_key)
{
	(void)scenario;
	nam_key_from_u64(number, ret_key);
}

/* One life of the index.  False: the maker cannot go on. */
static bool
make(struct sim_actor *actor, struct nam_worker *worker)
{
	struct sim_stage *stage = actor->stage;
	const struct sim_scenario *scenario = stage->scenario;
	uint8_t bounds[SIM_BOUNDS_BYTES];
	struct nam_index_options options;
	struct nam_index *index;
	bool goes = true;
	int rc;

	nam_index_options_init(&options);
	options.node_bytes = scenario->node_bytes;
	options.head_interval = scenario->head_interval;
	sim_design_set(scenario, 2ull * scenario->keys, key_of, bounds, &options);
	stage->temporary.round++;
	stage->temporary.pairs = 1 + nam_sim_random() % scenario->keys;
	rc = nam_index_create(worker, NAME, &options);
	if (rc)
		return goes_on(actor, "create", rc);
	rc = nam_index_open(worker, NAME, scenario->cache_bytes, &index);
	if (rc)
		return goes_on(actor, "open", rc);
	stage->temporary.leaf_pairs = index->g.leaf_capacity / 2;
	stage->temporary.added = 0;
	if (nam_sim_random() % 2)
		nam_sleep_ns(nam_sim_random() % PAUSE_NS);
	goes = load(actor, worker, index);
	nam_index_close(index);
	if (!goes)
		return false;
	nam_sleep_ns(nam_sim_random() % (20 * PAUSE_NS));
	return drop(actor, worker);
}

void
sim_temporary_maker(void *arg)
{
	struct sim_actor *actor = arg;
	struct nam_worker *worker = sim_actor_connect(actor, "maker");

	actor->sessions = 1;
	actor->makes = true;
	while (worker && !actor->stage->leaving && !nam_sim_zombie() &&
		actor->stage->temporary.round < ROUNDS_MAX)
		if (!make(actor, worker))
			break;
	sim_actor_leave(actor, worker);
}

/*
 * A loaded leaf is half full at the least.  It may be divided once before that takes as many
 * inserts as half a leaf has.  It may once more where the last leaf of all stays full.  There are
 * fewer inner nodes than leaves, and no more head nodes.  The last visit may be to what a drop has
 * left.
 */
uint64_t
sim_temporary_bytes_most(const struct sim_stage *stage)
{
	uint64_t each = stage->temporary.leaf_pairs, leaves;

	/* Its trees are counted where they are. */
	if (!sim_one_sided(stage->scenario))
		return NAM_SUPERBLOCK_STRIDE;
	if (!each)
		return NAM_SUPERBLOCK_STRIDE + stage->actors[SIM_DIRECTOR].index->g.stride;
	leaves = 2 * (stage->temporary.pairs / each + 1) +
		2 * ((stage->temporary.added + VISITS) / each + 1);
	return NAM_SUPERBLOCK_STRIDE + 3 * leaves * stage->actors[SIM_DIRECTOR].index->g.stride;
}

void
sim_temporary_clear(struct sim_actor *director, struct nam_worker *worker)
{
	uint64_t given_up = sim_memory_given_up(director->client);
	int rc = nam_index_drop(worker, NAME);

	if (rc == -NAM_E_NOINDEX)
		return;
	if (rc || sim_memory_given_up(director->client) > given_up)
		sim_losses_temporary(director->stage);
	if (!sim_disturbed(director->stage) && !director->stage->outcome->failed)
		sim_fail(director->stage, "the temporary index was left behind, dropping it: %s",
			nam_err_name(rc));
}

/* ---- the visitor -------------------------------------------------------------------------- */

struct visit {
	struct sim_actor *actor;
	struct nam_worker *worker;
	struct nam_index *index;
	struct nam_rng rng;
	uint64_t round;			/* of the pairs that it has seen; 0: of none */
	uint32_t part;			/* the last of the parts that it has seen pairs of */
	uint64_t pairs;			/* of that round */
};

/* Parts of a coarse-grained index appear one after the other. */
static uint32_t
part_of(const struct visit *visit, uint64_t number)
{
	struct nam__key key;
	uint8_t bytes[8];

	if (!sim_in_parts(visit->actor->stage->scenario))
		return 0;
	nam_key_from_u64(number, bytes);
	nam__key_encode(&visit->index->g, bytes, 0, &key);
	return nam__part_of(visit->index, key.w);
}

/*
 * Load an index that is loaded already, and be told so: the maker's first part may be empty, but
 * not all of them.
 */
static int
load_too(struct visit *visit)
{
	uint64_t since_ns = nam_sim_now_ns();
	struct source source = { VISITORS_ROUND, visit->pairs, 0 };
	int rc = nam_index_bulk_load(visit->worker, visit->index, source_next, &source, FILL_MIN,
		NULL);

	sim_check_progress(visit->actor, "a second bulk load", false, since_ns);
	if (!rc && !nam_sim_zombie())
		sim_fail(visit->actor->stage, "the temporary index, round %llu: is loaded twice",
			(unsigned long long)visit->round);
	return rc == -NAM_E_NOTEMPTY ? 0 : rc;
}

/* One of the maker's pairs. */
static int
look(struct visit *visit)
{
	struct sim_stage *stage = visit->actor->stage;
	uint64_t most = visit->round ? visit->pairs : stage->scenario->keys;
	uint64_t number = 2 * nam_rng_below(&visit->rng, most), payload = 0;
	bool whole = stage->temporary.whole >= visit->round;
	uint32_t part = part_of(visit, number);
	uint8_t key[8];
	int rc;

	nam_key_from_u64(number, key);
	rc = nam_index_lookup(visit->worker, visit->index, key, &payload);
	if (nam_sim_zombie())
		return rc;
	if (!rc && !visit->round) {
		visit->round = payload >> 48;
		visit->pairs = number / 2 + 1;
		if (visit->round == stage->temporary.round)
			visit->pairs = stage->temporary.pairs;
	}
	if (!rc && payload != payload_of(visit->round, number))
		sim_fail(stage, "the temporary index, round %llu: key %llu has %llx",
			(unsigned long long)visit->round, (unsigned long long)number,
			(unsigned long long)payload);
	else if (rc == -NAM_E_NOTFOUND && visit->round && (whole || part <= visit->part))
		sim_fail(stage, "the temporary index, round %llu of %llu: key %llu is not there",
			(unsigned long long)visit->round,
			(unsigned long long)stage->temporary.round, (unsigned long long)number);
	if (!rc && part > visit->part)
		visit->part = part;
	return rc;
}

/* From end to end, while it may be dropped: the round's pairs, and all if they are whole. */
static int
scan_all(struct visit *visit)
{
	struct sim_stage *stage = visit->actor->stage;
	bool whole = stage->temporary.whole >= visit->round;
	uint64_t payloads[16], last = 0, count = 0, found = 0;
	struct nam_cursor *cursor;
	struct nam_range all = { 0 };
	uint8_t keys[16 * 8];
	uint32_t got = 0;
	int rc = nam_cursor_open(visit->worker, visit->index, &all, &cursor);

	if (rc)
		return rc;
	do {
		rc = nam_cursor_next(cursor, keys, payloads, 16, &got);
		for (uint32_t i = 0; !rc && i < got && !nam_sim_zombie(); i++, count++) {
			uint64_t key = nam_key_to_u64(keys + (size_t)8 * i);

			if ((count && key <= last) || payloads[i] !=
				payload_of(key % 2 ? VISITORS_ROUND : visit->round, key))
				sim_fail(stage, "the temporary index, round %llu: a scan has %llx "
					"for key %llu, behind %llu",
					(unsigned long long)visit->round,
					(unsigned long long)payloads[i], (unsigned long long)key,
					(unsigned long long)last);
			last = key;
			found += key % 2 == 0;
		}
	} while (!rc && got);
	nam_cursor_close(cursor);
	if (!rc && whole && found < visit->pairs && !nam_sim_zombie())
		sim_fail(stage, "the temporary index, round %llu: a scan has %llu of %llu pairs",
			(unsigned long long)visit->round, (unsigned long long)found,
			(unsigned long long)visit->pairs);
	return rc;
}

static int
visit_once(struct visit *visit)
{
	uint64_t dice = nam_rng_below(&visit->rng, 8), since_ns = nam_sim_now_ns(), number;
	struct nam_collect_stat stat;
	uint8_t key[8];
	int rc;

	/* An empty index can be loaded, so nothing is added before a pair was seen. */
	if (visit->round && dice == 3 && sim_in_parts(visit->actor->stage->scenario)) {
		rc = scan_all(visit);
	} else if (!visit->round || dice < 4) {
		rc = look(visit);
	} else if (dice == 7) {
		rc = nam_index_collect(visit->worker, visit->index, &stat);
		sim_check_progress(visit->actor, "a pass over a temporary index", false, since_ns);
		return rc;
	} else if (dice == 6 && sim_in_parts(visit->actor->stage->scenario)) {
		return load_too(visit);
	} else {
		number = 2 * nam_rng_below(&visit->rng, visit->pairs) + 1;
		visit->actor->stage->temporary.added += dice != 4;
		nam_key_from_u64(number, key);
		rc = dice == 4 ? nam_index_delete(visit->worker, visit->index, key) :
			nam_index_insert(visit->worker, visit->index, key,
				payload_of(VISITORS_ROUND, number));
	}
	sim_check_progress(visit->actor, "an operation on a temporary index", true, since_ns);
	return rc;
}

/* Through one handle.  False: the visitor cannot go on. */
static bool
stay(struct visit *visit)
{
	visit->round = 0;
	visit->part = 0;
	for (uint32_t i = 0; i < VISITS && !visit->actor->stage->leaving; i++) {
		int rc = visit_once(visit);

		if (nam_sim_zombie())
			return false;
		if (nam_err_is(rc, NAM_E_DROPPED))
			break;
		if (rc && rc != -NAM_E_NOTFOUND && rc != -NAM_E_EXISTS &&
			!goes_on(visit->actor, "a visit", rc))
			return false;
	}
	return true;
}

void
sim_temporary_visitor(void *arg)
{
	struct visit visit = { .actor = arg };
	struct sim_stage *stage = visit.actor->stage;
	bool goes = true;

	visit.worker = sim_actor_connect(visit.actor, "visitor");
	visit.actor->sessions = 1;
	visit.actor->visits = true;
	visit.rng = nam_rng_seed(nam_sim_random());
	while (visit.worker && goes && !stage->leaving && !nam_sim_zombie()) {
		int rc = nam_index_open(visit.worker, NAME, stage->scenario->cache_bytes,
			&visit.index);

		if (!rc) {
			goes = stay(&visit);
			nam_index_close(visit.index);
		} else if (rc != -NAM_E_NOINDEX) {
			goes = goes_on(visit.actor, "opening", rc);
		}
		nam_sleep_ns(1 + nam_rng_below(&visit.rng, PAUSE_NS));
	}
	sim_actor_leave(visit.actor, visit.worker);
}
