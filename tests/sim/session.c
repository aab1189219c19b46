/* SPDX-License-Identifier: Apache-2.0 */
/* session.c -- what one fiber of a client does, and what it is told. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/remote/reclaim.h"
#include "compute/worker/worker.h"
#include "index/coarse/coarse.h"
#include "index/maintain.h"
#include "txn/sweep.h"
#include "stage.h"

#define SCAN_ENTRIES_MAX 64u
#define OPERATION_NS_MAX 20000000000ull	/* time-outs of RPCs and locks, some in a row */
#define PASS_NS_MAX 60000000000ull	/* the same for each of many nodes */
#define SLOWNESS_NS 500000000ull	/* more of either for each unit of slowness: round trips */
#define LOOKUPS_MANY 12u
#define CHANGES_MANY 3u
#define TOGETHER_MOST 12u		/* changes in one call, */
#define TOGETHER_NEAR 12u		/* of keys within so many */
#define REFUSED_MAX 5u		/* of one session: locks of the dead cost a time-out each */
#define HANG_PASS 3u
#define RECLAIM_EVERY 3u		/* passes of a collector */
#define MOVE_NS 25000000u		/* ticks of epoch threads, some in a row */
#define BURST 8u			/* operations */

/* The replacement of an operation while the load shrinks, or grows. */
static enum sim_kind
turn(const struct sim_stage *stage, struct nam_rng *rng, enum sim_kind kind)
{
	uint32_t load_wave = stage->scenario->load_wave;
	bool ebb = load_wave && stage->called / load_wave % 2;

	if (!load_wave || nam_rng_below(rng, 8) == 0)
		return kind;
	if (ebb)
		return kind == SIM_INSERT || kind == SIM_UPSERT ? SIM_DELETE : kind;
	return kind == SIM_DELETE ? SIM_INSERT : kind;
}

static enum sim_kind
choose(const struct sim_mix *mix, struct nam_rng *rng)
{
	const uint32_t shares[] = { mix->insert, mix->upsert, mix->update, mix->delete,
		mix->lookup, mix->scan };
	static const enum sim_kind kinds[] = { SIM_INSERT, SIM_UPSERT, SIM_UPDATE, SIM_DELETE,
		SIM_LOOKUP, SIM_SCAN };
	uint64_t dice = nam_rng_below(rng, 100);

	for (unsigned i = 0; i < 6; i++) {
		if (dice < shares[i])
			return kinds[i];
		dice -= shares[i];
	}
	return SIM_LOOKUP;
}

static int
point(struct sim_session *session, enum sim_kind kind, const uint8_t *key, uint64_t *payload)
{
	struct nam_index *index = session->actor->index;

	switch (kind) {
	case SIM_INSERT:
		return nam_index_insert(session->worker, index, key, *payload);
	case SIM_UPSERT:
		return nam_index_upsert(session->worker, index, key, *payload);
	case SIM_UPDATE:
		return nam_index_update(session->worker, index, key, *payload);
	case SIM_DELETE:
		return nam_index_delete(session->worker, index, key);
	case SIM_DELETE_PAIR:
		return nam_index_delete_pair(session->worker, index, key, *payload);
	default:
		return nam_index_lookup(session->worker, index, key, payload);
	}
}

/* Where deletes have to name pairs they do, and there are no updates. */
static enum sim_kind
kind_of(const struct sim_scenario *scenario, enum sim_kind kind)
{
	if ((kind == SIM_DELETE && (scenario->pairs || scenario->delete_pairs)) ||
		(kind == SIM_UPDATE && scenario->pairs))
		return SIM_DELETE_PAIR;
	return kind;
}

/*
 * In a unique index each payload is written once.  A delete of a pair tries, by turns, that of its
 * last one, whose key this then is, and one that no pair has.
 */
static uint64_t
payload_for(struct sim_session *session, enum sim_kind kind, uint64_t *number)
{
	uint64_t unlike = (uint64_t)session->number << 32 | ++session->writes;

	if (session->actor->stage->scenario->pairs)
		return 1 + nam_rng_below(&session->rng, SIM_PAYLOADS);
	if (kind == SIM_INSERT || kind == SIM_UPSERT || kind == SIM_UPDATE) {
		session->last_key = *number;
		session->last_payload = unlike;
	} else if (kind == SIM_DELETE_PAIR && session->last_payload) {
		*number = session->last_key;
		return session->writes % 4 ? session->last_payload : unlike;
	}
	return unlike;
}

int
sim_do_point(struct sim_session *session, enum sim_kind kind, uint64_t number)
{
	struct sim_stage *stage = session->actor->stage;
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint64_t payload;
	size_t op = 0;
	int rc;

	kind = kind_of(stage->scenario, kind);
	payload = payload_for(session, kind, &number);
	sim_key_from_number(stage->scenario, number, key);
	if (stage->scenario->record)
		op = sim_history_call(stage->history, session->actor->number, session->number,
			kind, number, payload, nam_sim_now_ns());
	rc = point(session, kind, key, &payload);
	if (stage->scenario->record && !nam_sim_zombie())
		sim_history_return(stage->history, op, rc, payload, nam_sim_now_ns());
	return rc;
}

/* Sends a request to the memory server that has the key, by hand. */
union by_hand {
	struct nam_rpc_tree_point_request head;
	uint64_t words[4 + NAM__KEY_WORDS_MAX];
};

static void
by_hand_fill(struct sim_session *session, enum sim_kind kind, const uint8_t *key,
	uint64_t payload, union by_hand *request, struct nam_call *ret_call)
{
	static const uint16_t kinds[] = { [SIM_INSERT] = NAM_RPC_TREE_INSERT,
		[SIM_UPSERT] = NAM_RPC_TREE_UPSERT, [SIM_UPDATE] = NAM_RPC_TREE_UPDATE,
		[SIM_DELETE] = NAM_RPC_TREE_DELETE };
	const struct nam_index *index = session->actor->index;
	struct nam__key words;

	nam__key_encode(&index->g, key, 0, &words);
	request->head = (struct nam_rpc_tree_point_request){
		.tree = index->tree,
		.kind = kinds[kind],
		.count = 1,
	};
	memcpy(request->head.pairs, words.w, 8 * index->g.key_words);
	request->head.pairs[index->g.key_words] = kind == SIM_DELETE ? 0 : payload;
	*ret_call = (struct nam_call){
		.slot = index->parts->slots[nam__part_of(index, words.w)],
		.type = NAM_RPC_TREE_POINT,
		.body = request,
		.body_bytes = (uint32_t)sizeof(request->head) + 8 * (index->g.key_words + 1),
	};
}

/* Where memory servers search: changes of keys side by side in one go, or one that is only told. */
static int
do_by_hand(struct sim_session *session, enum sim_kind kind, uint64_t first)
{
	struct {
		uint64_t count;
		struct nam_rpc_tree_point_result result;
	} replies[CHANGES_MANY];
	struct sim_stage *stage = session->actor->stage;
	bool tell = kind == SIM_UPSERT && first % 2 &&
		!stage->scenario->sim.faults.full && !stage->scenario->spare;
	union by_hand requests[CHANGES_MANY];
	struct nam_call calls[CHANGES_MANY];
	uint64_t payloads[CHANGES_MANY], number;
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint32_t count = tell ? 1 : CHANGES_MANY;
	size_t ops[CHANGES_MANY] = { 0 };
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		number = (first + i) % stage->scenario->keys;
		payloads[i] = payload_for(session, kind, &number);
		sim_key_from_number(stage->scenario, number, key);
		by_hand_fill(session, kind, key, payloads[i], &requests[i], &calls[i]);
		calls[i].reply = &replies[i];
		calls[i].reply_size = sizeof(replies[i]);
		ops[i] = sim_history_call(stage->history, session->actor->number, session->number,
			kind, number, payloads[i], nam_sim_now_ns());
	}
	if (tell) {
		rc = nam_rpc_send_one_way(session->worker, calls[0].slot, calls[0].type,
			calls[0].body,
			calls[0].body_bytes);
		if (!rc)
			rc = nam_rpc_flush(session->worker, calls[0].slot);
		calls[0].rc = rc;
		replies[0].result.status = 0;
	} else {
		rc = nam_rpc_call_many(session->worker, calls, count);
	}
	for (uint32_t i = 0; i < count; i++) {
		int one = calls[i].rc ? calls[i].rc : (int)replies[i].result.status;

		if (!rc && one && one != -NAM_E_NOTFOUND && one != -NAM_E_EXISTS)
			rc = one;
		if (!nam_sim_zombie())
			sim_history_return(stage->history, ops[i], one, payloads[i],
				nam_sim_now_ns());
	}
	return rc;
}

static bool
by_hand_can(const struct sim_session *session, enum sim_kind kind)
{
	const struct sim_scenario *scenario = session->actor->stage->scenario;

	return scenario->design == NAM_DESIGN_COARSE && scenario->record && !scenario->pairs &&
	       kind != SIM_LOOKUP && kind != SIM_SCAN && kind_of(scenario, kind) == kind;
}

/* ---- several in one call --------------------------------------------------------------------- */

static enum nam_change_kind
change_kind(enum sim_kind kind)
{
	static const enum nam_change_kind kinds[] = { [SIM_INSERT] = NAM_CHANGE_INSERT,
		[SIM_UPSERT] = NAM_CHANGE_UPSERT, [SIM_UPDATE] = NAM_CHANGE_UPDATE,
		[SIM_DELETE] = NAM_CHANGE_DELETE, [SIM_DELETE_PAIR] = NAM_CHANGE_DELETE_PAIR };

	return kinds[kind];
}

/* Any change of a key of the same neighbourhood. */
static void
draw_change(struct sim_session *session, uint64_t first, enum sim_kind *ret_kind,
	uint64_t *ret_number, uint64_t *ret_payload)
{
	const struct sim_stage *stage = session->actor->stage;
	enum sim_kind kind = turn(stage, &session->rng,
		choose(&stage->scenario->mix, &session->rng));

	if (kind == SIM_LOOKUP || kind == SIM_SCAN)
		kind = SIM_UPSERT;
	*ret_kind = kind_of(stage->scenario, kind);
	*ret_number = (first + nam_rng_below(&session->rng, TOGETHER_NEAR)) %
		stage->scenario->keys;
	*ret_payload = payload_for(session, *ret_kind, ret_number);
}

/*
 * Several changes in one call, some of the same key; each counts as a change of its own.  Returns
 * what is worst of them, and of which kind it was.
 */
static int
do_many_changes(struct sim_session *session, uint64_t first, enum sim_kind *ret_kind)
{
	uint32_t count = 2 + (uint32_t)nam_rng_below(&session->rng, TOGETHER_MOST - 1);
	struct sim_stage *stage = session->actor->stage;
	struct nam_index_change changes[TOGETHER_MOST];
	uint8_t keys[TOGETHER_MOST][NAM_KEY_BYTES_MAX];
	enum sim_kind kinds[TOGETHER_MOST];
	size_t ops[TOGETHER_MOST] = { 0 };
	int rc = 0, all, expected = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t number, payload;

		draw_change(session, first, &kinds[i], &number, &payload);
		sim_key_from_number(stage->scenario, number, keys[i]);
		changes[i] = (struct nam_index_change){ keys[i], payload, change_kind(kinds[i]),
			1 };
		if (stage->scenario->record)
			ops[i] = sim_history_call(stage->history, session->actor->number,
				session->number, kinds[i], number, payload, nam_sim_now_ns());
	}
	all = nam_index_change_many(session->worker, session->actor->index, changes, count);
	for (uint32_t i = 0; i < count; i++) {
		int one = changes[i].rc;

		if (!expected)
			expected = one;
		if (one && one != -NAM_E_NOTFOUND && one != -NAM_E_EXISTS &&
			(!rc || rc == -NAM_E_REMOTE_FULL)) {
			rc = one;
			*ret_kind = kinds[i];
		}
		if (stage->scenario->record && !nam_sim_zombie())
			sim_history_return(stage->history, ops[i], one, changes[i].payload,
				nam_sim_now_ns());
	}
	if (all != expected && !nam_sim_zombie())
		sim_fail(stage, "several changes returned %s, the first that failed %s",
			nam_err_name(all), nam_err_name(expected));
	return rc;
}

/* Keys from `first` on, in one call; each counts as a lookup of its own. */
static int
do_many_lookups(struct sim_session *session, uint64_t first)
{
	struct sim_stage *stage = session->actor->stage;
	uint64_t payloads[LOOKUPS_MANY] = { 0 };
	uint8_t keys[NAM_KEY_BYTES_MAX * LOOKUPS_MANY];
	size_t ops[LOOKUPS_MANY] = { 0 };
	int rcs[LOOKUPS_MANY], rc, all;

	for (uint32_t i = 0; i < LOOKUPS_MANY; i++) {
		uint64_t number = (first + i) % stage->scenario->keys;

		sim_key_from_number(stage->scenario, number,
			keys + (size_t)stage->scenario->key_bytes * i);
		if (stage->scenario->record)
			ops[i] = sim_history_call(stage->history, session->actor->number,
				session->number, SIM_LOOKUP, number, 0, nam_sim_now_ns());
	}
	all = nam_index_lookup_many(session->worker, session->actor->index, keys, LOOKUPS_MANY,
		payloads, rcs);
	rc = all;
	for (uint32_t i = 0; i < LOOKUPS_MANY; i++) {
		if (!all && rcs[i] && rcs[i] != -NAM_E_NOTFOUND)
			rc = rcs[i];
		if (stage->scenario->record && !nam_sim_zombie())
			sim_history_return(stage->history, ops[i], all ? all : rcs[i], payloads[i],
				nam_sim_now_ns());
	}
	return rc;
}

static int
scan(struct sim_session *session, const struct sim_range *range, struct sim_entry *entries,
	uint32_t room, uint32_t *ret_count)
{
	const struct sim_scenario *scenario = session->actor->stage->scenario;
	uint8_t low[NAM_KEY_BYTES_MAX], high[NAM_KEY_BYTES_MAX], keys[16 * NAM_KEY_BYTES_MAX];
	struct nam_range wanted = {
		.low = range->has_low ? low : NULL,
		.high = range->has_high ? high : NULL,
		.high_inclusive = range->high_inclusive,
		.reverse = range->reverse,
		.limit = range->limit,
	};
	bool copied = range->low & 1;	/* or looked at where they are */
	uint64_t payloads[16];
	struct nam_entries where;
	struct nam_cursor *cursor;
	uint32_t count = 0, got;
	int rc;

	sim_key_from_number(scenario, range->low, low);
	sim_key_from_number(scenario, range->high, high);
	rc = nam_cursor_open(session->worker, session->actor->index, &wanted, &cursor);
	if (rc)
		return rc;
	do {
		if (copied)
			rc = nam_cursor_next(cursor, keys, payloads, 16, &got);
		else if (!(rc = nam_cursor_next_entries(cursor, &where)))
			got = where.count;
		for (uint32_t i = 0; !rc && i < got; i++) {
			if (count == room)
				sim_die("a scan delivered more than %u entries", room);
			if (!copied)
				nam_entries_key(&where, i, keys);
			entries[count].key = sim_key_to_number(scenario,
				keys + (copied ? (size_t)scenario->key_bytes * i : 0));
			entries[count++].payload = copied ? payloads[i] :
				nam_entries_payload(&where, i);
		}
	} while (!rc && got);
	nam_cursor_close(cursor);
	*ret_count = count;
	return rc;
}

int
sim_do_scan(struct sim_session *session, const struct sim_range *range, uint32_t room,
	uint32_t *ret_count)
{
	struct sim_stage *stage = session->actor->stage;
	struct sim_entry *entries = calloc(room, sizeof(*entries));
	uint32_t count = 0;
	size_t op = 0;
	int rc;

	if (!entries)
		abort();
	if (stage->scenario->record)
		op = sim_history_call_scan(stage->history, session->actor->number,
			session->number, range, nam_sim_now_ns());
	rc = scan(session, range, entries, room, &count);
	if (stage->scenario->record && !nam_sim_zombie())
		sim_history_return_scan(stage->history, op, rc, entries, count, nam_sim_now_ns());
	free(entries);
	*ret_count = count;
	return rc;
}

static int
do_some_scan(struct sim_session *session)
{
	uint32_t keys = session->actor->stage->scenario->keys, count;
	struct sim_range range = {
		.low = nam_rng_below(&session->rng, keys),
		.has_low = true,
		.has_high = true,
		.high_inclusive = nam_rng_below(&session->rng, 2),
		.reverse = nam_rng_below(&session->rng, 4) == 0,
	};

	range.high = range.low + nam_rng_below(&session->rng, SCAN_ENTRIES_MAX - 1);
	if (range.low % 4 == 0)
		range.limit = 1 + range.high % SCAN_ENTRIES_MAX;
	return sim_do_scan(session, &range,
		sim_pairs_most(session->actor->stage->scenario, SCAN_ENTRIES_MAX), &count);
}

/* Every loop is bounded, whatever happens to the client in it. */
void
sim_check_progress(struct sim_actor *actor, const char *what, bool operation, uint64_t since_ns)
{
	struct sim_result *outcome = actor->stage->outcome;
	uint64_t *longest_ns = operation ? &outcome->operation_ns : &outcome->pass_ns;
	uint64_t took_ns = nam_sim_now_ns() - since_ns;
	uint64_t most_ns = (operation ? OPERATION_NS_MAX : PASS_NS_MAX) +
		SLOWNESS_NS * actor->stage->scenario->sim.slowness;

	if (nam_sim_zombie())
		return;
	if (took_ns > *longest_ns)
		*longest_ns = took_ns;
	if (took_ns > most_ns)
		sim_fail(actor->stage, "no progress: %s took %llu of %llu ns", what,
			(unsigned long long)took_ns, (unsigned long long)most_ns);
}

/* Whether the session can go on after such a result. */
static bool
assess(struct sim_session *session, enum sim_kind kind, uint64_t key, int rc)
{
	struct sim_stage *stage = session->actor->stage;

	if (nam_sim_zombie())
		return false;
	stage->outcome->ops++;
	if (!rc || rc == -NAM_E_NOTFOUND || rc == -NAM_E_EXISTS)
		return true;
	stage->outcome->refused++;
	/* Only what adds pairs may need memory. */
	if ((kind == SIM_INSERT || kind == SIM_UPSERT) && sim_full_explained(stage, rc)) {
		stage->outcome->full++;
		return true;
	}
	session->refused++;
	if (sim_explained(session->actor, rc))
		return !nam_err_is(rc, NAM_E_FABRIC) && !nam_err_is(rc, NAM_E_FENCED);
	nam_sim_note("operation %d of key %llu returned %s", (int)kind, (unsigned long long)key,
		nam_err_name(rc));
	sim_fail(stage, "operation %d of key %llu returned %s (last said: %s)", (int)kind,
		(unsigned long long)key, nam_err_name(rc), nam_worker_diag(session->worker));
	return false;
}

int
sim_collect(struct sim_actor *actor, struct nam_worker *worker)
{
	const struct sim_scenario *scenario = actor->stage->scenario;
	struct sim_result *outcome = actor->stage->outcome;
	struct nam_collect_stat stat = { 0 };
	uint64_t since_ns = nam_sim_now_ns();
	unsigned tries = 0;
	int rc;

	if (scenario->hang_pass_ns && ++actor->stage->passes == HANG_PASS)
		nam_sim_delay_next(0, 0, scenario->hang_pass_ns);
	rc = nam_index_collect(worker, actor->index, &stat);
	if (nam_sim_zombie())
		return rc;
	sim_check_progress(actor, "a pass of the collector", false, since_ns);
	outcome->merges += stat.merges;
	outcome->retired += stat.nodes_retired;
	outcome->reused += stat.nodes_reusable;
	/* Another collector may be at work. */
	if (rc && rc != -NAM_E_LOCK_TIMEOUT && !sim_full_explained(actor->stage, rc) &&
		!sim_explained(actor, rc))
		sim_fail(actor->stage, "the collector: %s", nam_err_name(rc));
	/* As a client does that finds no memory, of its own or of a server. */
	worker->public_full = nam_sim_random() % 8 != 0;
	if (!rc && nam_sim_random() % RECLAIM_EVERY == 0)
		outcome->reclaims += nam__memory_reclaim(worker, &tries);
	return rc;
}

/* Clients die and stand still as they like, and another sweep may begin. */
static int
sweep(struct sim_actor *actor, struct nam_worker *worker)
{
	struct nam_sweep_stat stat = { 0 };
	bool dry = nam_sim_random() % 4 == 0;
	int rc;

	/* In half of them an operation reads three nodes. */
	nam_worker_pace(worker, nam_sim_random() % 2 ? 300 : 0);
	rc = nam_sweep(worker, dry, &stat);

	if (nam_sim_zombie())
		return rc;
	actor->stage->outcome->swept += stat.freed.blocks;
	if (rc && rc != -EAGAIN && rc != -NAM_E_LOCK_TIMEOUT && !sim_explained(actor, rc))
		sim_fail(actor->stage, "a sweep: %s (last said: %s)", nam_err_name(rc),
			nam_worker_diag(worker));
	return rc;
}

/* Where memory moves its clients shall be at work for as long as that takes. */
static void
pause_between(struct sim_session *session)
{
	const struct sim_scenario *scenario = session->actor->stage->scenario;
	uint64_t moves = scenario->moves + scenario->failovers + scenario->lead_moves;
	uint64_t mean_ns = moves * MOVE_NS / scenario->ops * BURST;

	if (mean_ns && nam_rng_below(&session->rng, BURST) == 0)
		nam__pause_await(session->worker,
			nam_rng_below(&session->rng, 2 * mean_ns)); /* SUSPENDS */
}

void
sim_session_main(void *arg)
{
	static const char *const names[] = { [SIM_INSERT] = "an insert", [SIM_UPSERT] =
		"an upsert", [SIM_UPDATE] = "an update", [SIM_DELETE] = "a delete",
		[SIM_LOOKUP] = "a lookup", [SIM_SCAN] = "a scan" };
	struct sim_session *session = arg;
	struct sim_stage *stage = session->actor->stage;
	const struct sim_scenario *scenario = stage->scenario;

	for (uint32_t i = 0; i < scenario->ops && session->refused < REFUSED_MAX &&
		!nam_sim_zombie(); i++) {
		enum sim_kind kind = turn(stage, &session->rng,
			choose(&scenario->mix, &session->rng));
		uint64_t key = nam_rng_below(&session->rng, scenario->keys), since_ns;
		bool together = scenario->many && kind != SIM_SCAN && kind != SIM_LOOKUP &&
			nam_rng_below(&session->rng, 100) < scenario->many;
		int rc;

		pause_between(session);
		sim_fault_plan_tick(stage);
		if (nam_rng_below(&session->rng, 1000) < scenario->collects &&
			nam_err_is(sim_collect(session->actor, session->worker), NAM_E_FABRIC))
			break;
		if (scenario->sweeps && nam_rng_below(&session->rng, 1000) < scenario->sweeps &&
			nam_err_is(sweep(session->actor, session->worker), NAM_E_FABRIC))
			break;
		since_ns = nam_sim_now_ns();
		if (scenario->hang_ns && stage->called == stage->planned / 2)
			nam_sim_delay_next(0, 0, scenario->hang_ns);
		if (kind == SIM_SCAN)
			rc = do_some_scan(session);
		else if (kind == SIM_LOOKUP && i % 4 == 3 && scenario->record)
			rc = do_many_lookups(session, key);
		else if (together)
			rc = do_many_changes(session, key, &kind);
		else if (i % 4 == 1 && by_hand_can(session, kind))
			rc = do_by_hand(session, kind, key);
		else
			rc = sim_do_point(session, kind, key);
		/* Each of several may wait for a lock. */
		sim_check_progress(session->actor, together ? "several changes" : names[kind],
			!together, since_ns);
		if (!assess(session, kind, key, rc))
			break;
	}
}
