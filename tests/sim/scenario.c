/* SPDX-License-Identifier: Apache-2.0 */
/* scenario.c -- see scenario.h. */
#include "scenario.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "../../index/verify.h"
#include "cluster.h"
#include "linearizable.h"
#include "memory.h"
#include "scan_check.h"

#define INDEX_NAME "simulated"
#define SCAN_ENTRIES_MAX 64u
#define POLL_NS 200000u
#define RECOVERY_PASSES 20u
#define RECOVERY_PAUSE_NS 20000000u
#define COLLECT_PAUSE_NS 100000u
#define SETTLE_NS 50000000u
#define MISFORTUNE_DELAY_NS 30000u
#define STALL_NS 40000000u
#define OPERATION_NS_MAX 20000000000ull	/* time-outs of RPCs and locks, some in a row */
#define REFUSED_MAX 5u		/* of one session: locks of the dead cost a time-out each */
#define DIRECTOR 0u		/* its number as a client of the history */

struct actor;

struct stage {
	const struct sim_scenario *scenario;
	struct sim_result *outcome;
	struct sim_history *history;
	struct sim_cluster cluster;
	struct actor *actors;
	bool leaving;			/* all clients are done: the collector shall end */
	struct sim_ballast ballast;	/* what the director has taken so that little is left */
	uint64_t given_up;		/* blocks, by workers that were closed */
	uint64_t planned;		/* operations, if nobody dies */
	uint64_t called;		/* so far */
	struct {
		uint64_t at;		/* operations called by then */
		uint32_t kind;		/* enum misfortune */
	} *misfortunes;
	uint32_t misfortunes_planned;		/* those before it will befall, or have */
	uint32_t misfortunes_count, misfortunes_next;
};

enum misfortune { KILL_CLIENT, KILL_SERVER, STALL };

/* A client process. */
struct actor {
	struct stage *stage;
	struct nam_sim_process *process;
	struct nam_client *client;
	struct nam_index *index;
	uint32_t number;		/* from 1; DIRECTOR is 0 */
	uint32_t sessions;
};

struct session {
	struct actor *actor;
	struct nam_worker *worker;
	struct nam_rng rng;
	uint32_t number;
	uint64_t writes;
	uint32_t refused;
};

static void __attribute__((format(printf, 2, 3)))
fail(struct stage *stage, const char *format, ...)
{
	va_list args;

	if (stage->outcome->failed)
		return;
	stage->outcome->failed = true;
	va_start(args, format);
	(void)vsnprintf(stage->outcome->why, sizeof(stage->outcome->why), format, args);
	va_end(args);
}

/* ---- what befalls processes --------------------------------------------------------------- */

static void
resume(void *arg)
{
	nam_sim_process_resume(arg);
}

static void
befall(void *arg)
{
	struct stage *stage = arg;
	const struct sim_scenario *scenario = stage->scenario;
	uint32_t kind = stage->misfortunes[stage->misfortunes_next++].kind;
	struct nam_sim_process *victim;
	uint64_t dice = nam_sim_random();

	if (kind == KILL_SERVER) {
		victim = stage->cluster.servers[dice % scenario->servers].process;
	} else {
		victim = stage->actors[1 + dice % scenario->clients].process;
		if (nam_sim_process_ended(victim))
			return;
	}
	if (kind != STALL) {
		nam_sim_process_kill(victim);
		return;
	}
	nam_sim_process_stall(victim);
	if (nam_sim_call_after(1 + nam_sim_random() % STALL_NS, resume, victim))
		abort();
}

/* An operation is about to be called: perhaps it is time. */
static void
tick(struct stage *stage)
{
	uint32_t *planned = &stage->misfortunes_planned;

	stage->called++;
	for (; *planned < stage->misfortunes_count &&
		stage->misfortunes[*planned].at <= stage->called; ++*planned)
		if (nam_sim_call_after(nam_sim_random() % MISFORTUNE_DELAY_NS, befall, stage))
			abort();
}

static int
compare_times(const void *a, const void *b)
{
	const uint64_t *left = a, *right = b;

	return *left < *right ? -1 : *left > *right;
}

static void
plan_misfortunes(struct stage *stage)
{
	const struct sim_scenario *scenario = stage->scenario;
	uint32_t count = scenario->kills + scenario->server_kills + scenario->stalls;

	stage->misfortunes = calloc(count + 1, sizeof(stage->misfortunes[0]));
	if (!stage->misfortunes)
		abort();
	stage->misfortunes_count = count;
	for (uint32_t i = 0; i < count; i++) {
		stage->misfortunes[i].at = 1 + nam_sim_random() % stage->planned;
		stage->misfortunes[i].kind = i < scenario->kills ? KILL_CLIENT :
			i < scenario->kills + scenario->server_kills ? KILL_SERVER : STALL;
	}
	qsort(stage->misfortunes, count, sizeof(stage->misfortunes[0]), compare_times);
}

/* ---- operations --------------------------------------------------------------------------- */

/* What an operation is instead when the tide is going out, or coming in. */
static enum sim_kind
turn(const struct stage *stage, struct nam_rng *rng, enum sim_kind kind)
{
	uint32_t tide = stage->scenario->tide;
	bool ebb = tide && stage->called / tide % 2;

	if (!tide || nam_rng_below(rng, 8) == 0)
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
point(struct session *session, enum sim_kind kind, const uint8_t *key, uint64_t *payload)
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
	default:
		return nam_index_lookup(session->worker, index, key, payload);
	}
}

static int
do_point(struct session *session, enum sim_kind kind, uint64_t number)
{
	struct stage *stage = session->actor->stage;
	uint64_t payload = (uint64_t)session->number << 32 | ++session->writes;
	uint8_t key[8];
	size_t op = 0;
	int rc;

	nam_key_from_u64(number, key);
	if (stage->scenario->record)
		op = sim_history_call(stage->history, session->actor->number, session->number,
			kind, number, payload, nam_sim_now_ns());
	rc = point(session, kind, key, &payload);
	if (stage->scenario->record && !nam_sim_ghost())
		sim_history_return(stage->history, op, rc, payload, nam_sim_now_ns());
	return rc;
}

static int
scan(struct session *session, const struct sim_range *range, struct sim_entry *entries,
	uint32_t room, uint32_t *ret_count)
{
	uint8_t low[8], high[8], keys[16 * 8];
	struct nam_range wanted = {
		.low = range->has_low ? low : NULL,
		.high = range->has_high ? high : NULL,
		.high_inclusive = range->high_inclusive,
		.reverse = range->reverse,
		.limit = range->limit,
	};
	uint64_t payloads[16];
	struct nam_cursor *cursor;
	uint32_t count = 0, got;
	int rc;

	nam_key_from_u64(range->low, low);
	nam_key_from_u64(range->high, high);
	rc = nam_cursor_open(session->worker, session->actor->index, &wanted, &cursor);
	if (rc)
		return rc;
	do {
		rc = nam_cursor_next(cursor, keys, payloads, 16, &got);
		for (uint32_t i = 0; !rc && i < got; i++) {
			if (count == room)
				sim_die("a scan delivered more than %u entries", room);
			entries[count].key = nam_key_to_u64(keys + (size_t)8 * i);
			entries[count++].payload = payloads[i];
		}
	} while (!rc && got);
	nam_cursor_close(cursor);
	*ret_count = count;
	return rc;
}

static int
do_scan(struct session *session, const struct sim_range *range, uint32_t room, uint32_t *ret_count)
{
	struct stage *stage = session->actor->stage;
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
	if (stage->scenario->record && !nam_sim_ghost())
		sim_history_return_scan(stage->history, op, rc, entries, count, nam_sim_now_ns());
	free(entries);
	*ret_count = count;
	return rc;
}

static int
do_some_scan(struct session *session)
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
	return do_scan(session, &range, SCAN_ENTRIES_MAX, &count);
}

/* No operation may take longer, whatever befalls it: every loop is bounded. */
static void
check_progress(struct session *session, enum sim_kind kind, uint64_t since_ns)
{
	uint64_t took_ns = nam_sim_now_ns() - since_ns;

	if (took_ns > OPERATION_NS_MAX && !nam_sim_ghost())
		fail(session->actor->stage, "operation %d took %llu ns", (int)kind,
			(unsigned long long)took_ns);
}

/* Whether the session can go on after such a result. */
static bool
judge(struct session *session, enum sim_kind kind, uint64_t key, int rc)
{
	struct stage *stage = session->actor->stage;

	if (nam_sim_ghost())
		return false;
	stage->outcome->ops++;
	if (!rc || rc == -NAM_E_NOTFOUND || rc == -NAM_E_EXISTS)
		return true;
	stage->outcome->refused++;
	/* Only what adds pairs may need memory, and only if there is little of it. */
	if (nam_err_is(rc, NAM_E_REMOTE_FULL) && stage->scenario->spare &&
		(kind == SIM_INSERT || kind == SIM_UPSERT)) {
		stage->outcome->full++;
		return true;
	}
	session->refused++;
	if (nam_err_is(rc, NAM_E_FABRIC) || nam_err_is(rc, NAM_E_FENCED))
		return false;
	if (nam_err_is(rc, NAM_E_RESTART) || nam_err_is(rc, NAM_E_LOCK_TIMEOUT) ||
		nam_err_is(rc, NAM_E_LOCK_ORPHANED))
		return true;
	nam_sim_note("operation %d of key %llu returned %s", (int)kind, (unsigned long long)key,
		nam_err_name(rc));
	fail(stage, "operation %d of key %llu returned %s (last said: %s)", (int)kind,
		(unsigned long long)key, nam_err_name(rc), nam_worker_diag(session->worker));
	return false;
}

/* Whether the collector's result is one that may be. */
static int
collect(struct actor *actor, struct nam_worker *worker)
{
	struct sim_result *outcome = actor->stage->outcome;
	struct nam_collect_stat stat = { 0 };
	int rc = nam_index_collect(worker, actor->index, &stat);

	if (nam_sim_ghost())
		return rc;
	outcome->merges += stat.merges;
	outcome->retired += stat.nodes_retired;
	outcome->reused += stat.nodes_reusable;
	if (rc && !nam_err_is(rc, NAM_E_FABRIC) && !nam_err_is(rc, NAM_E_RESTART) &&
		!nam_err_is(rc, NAM_E_LOCK_TIMEOUT) && !nam_err_is(rc, NAM_E_LOCK_ORPHANED) &&
		!nam_err_is(rc, NAM_E_FENCED) &&
		!(nam_err_is(rc, NAM_E_REMOTE_FULL) && actor->stage->scenario->spare))
		fail(actor->stage, "the collector: %s", nam_err_name(rc));
	return rc;
}

static void
session_main(void *arg)
{
	struct session *session = arg;
	struct stage *stage = session->actor->stage;
	const struct sim_scenario *scenario = stage->scenario;

	for (uint32_t i = 0; i < scenario->ops && session->refused < REFUSED_MAX &&
		!nam_sim_ghost(); i++) {
		enum sim_kind kind = turn(stage, &session->rng,
			choose(&scenario->mix, &session->rng));
		uint64_t key = nam_rng_below(&session->rng, scenario->keys), since_ns;
		int rc;

		tick(stage);
		if (nam_rng_below(&session->rng, 1000) < scenario->collects &&
			nam_err_is(collect(session->actor, session->worker), NAM_E_FABRIC))
			break;
		since_ns = nam_sim_now_ns();
		rc = kind == SIM_SCAN ? do_some_scan(session) : do_point(session, kind, key);
		check_progress(session, kind, since_ns);
		if (!judge(session, kind, key, rc))
			break;
	}
}

/* ---- clients ------------------------------------------------------------------------------ */

static void
work(struct actor *actor, struct nam_worker *worker)
{
	uint32_t fibers = actor->stage->scenario->fibers;
	struct session *sessions = calloc(fibers, sizeof(*sessions));

	if (!sessions)
		abort();
	for (uint32_t i = 0; i < fibers; i++) {
		sessions[i].actor = actor;
		sessions[i].worker = worker;
		sessions[i].rng = nam_rng_seed(nam_sim_random());
		sessions[i].number = actor->number << 16 | ++actor->sessions;
		if (nam_worker_spawn(worker, session_main, &sessions[i]))
			sim_die("cannot spawn a fiber");
	}
	nam_worker_run(worker);
	free(sessions);
}

static bool
open_index(struct actor *actor, struct nam_worker *worker)
{
	int rc = nam_index_open(worker, INDEX_NAME, actor->stage->scenario->cache_bytes,
		&actor->index);

	if (!rc)
		return true;
	if (!nam_sim_ghost() && !nam_err_is(rc, NAM_E_FABRIC))
		fail(actor->stage, "opening the index: %s", nam_err_name(rc));
	return false;
}

static void
thread_main(void *arg)
{
	struct actor *actor = arg;
	struct nam_worker *worker = sim_worker(actor->client);

	if (!worker)
		return;
	work(actor, worker);
	nam_worker_close(worker);
}

static void
leave(struct actor *actor, struct nam_worker *worker)
{
	if (worker)
		nam_worker_close(worker);
	if (!actor->client)
		return;
	actor->stage->given_up += sim_memory_given_up(actor->client);
	nam_client_close(actor->client);
}

static void
client_main(void *arg)
{
	struct actor *actor = arg;
	uint32_t count = actor->stage->scenario->workers - 1, started = 0;
	struct nam_thread **threads = calloc(count + 1, sizeof(*threads));
	struct nam_worker *worker = NULL;

	if (!threads)
		abort();
	actor->client = sim_client(&actor->stage->cluster, "client");
	if (actor->client)
		worker = sim_worker(actor->client);
	if (!worker || !open_index(actor, worker))
		goto leave;
	for (; started < count; started++)
		if (nam_thread_start("worker", thread_main, actor, &threads[started]))
			sim_die("cannot start a thread");
	work(actor, worker);
	for (uint32_t i = 0; i < started; i++)
		nam_thread_join(threads[i]);
	nam_index_close(actor->index);
leave:
	leave(actor, worker);
	free(threads);
}

static void
collector_main(void *arg)
{
	struct actor *actor = arg;
	struct nam_worker *worker = NULL;
	int rc = 0;

	actor->client = sim_client(&actor->stage->cluster, "collector");
	if (actor->client)
		worker = sim_worker(actor->client);
	if (!worker || !open_index(actor, worker))
		goto leave;
	while (!actor->stage->leaving && !nam_sim_ghost() && !nam_err_is(rc, NAM_E_FABRIC)) {
		rc = collect(actor, worker);
		nam_sleep_ns(COLLECT_PAUSE_NS);
	}
	nam_index_close(actor->index);
leave:
	leave(actor, worker);
}

/* ---- the director ------------------------------------------------------------------------- */

static void
create(struct stage *stage, struct actor *director, struct nam_worker *worker)
{
	const struct sim_scenario *scenario = stage->scenario;
	struct nam_index_options options;
	uint8_t key[8];
	int rc;

	nam_index_options_init(&options);
	options.node_bytes = scenario->node_bytes;
	options.head_interval = scenario->head_interval;
	rc = nam_index_create(worker, INDEX_NAME, &options);
	if (rc)
		sim_die("creating the index: %s", nam_worker_diag(worker));
	if (!open_index(director, worker))
		sim_die("the index cannot be opened");
	for (uint64_t number = 0; number < scenario->keys; number += 2) {
		nam_key_from_u64(number, key);
		rc = nam_index_insert(worker, director->index, key, number + 1);
		if (rc)
			sim_die("loading: %s", nam_err_name(rc));
		if (scenario->record)
			sim_history_load(stage->history, number, number + 1);
	}
}

static void
start(struct stage *stage)
{
	const struct sim_scenario *scenario = stage->scenario;

	for (uint32_t i = 1; i <= scenario->clients + scenario->collector; i++) {
		struct actor *actor = &stage->actors[i];
		bool collects = i > scenario->clients;

		actor->stage = stage;
		actor->number = i;
		if (nam_sim_process_start(collects ? "collector" : "client",
			    collects ? collector_main : client_main, actor, &actor->process))
			sim_die("cannot start a client");
	}
}

static void
await(struct stage *stage)
{
	const struct sim_scenario *scenario = stage->scenario;

	for (uint32_t i = 1; i <= scenario->clients; i++)
		while (!nam_sim_process_ended(stage->actors[i].process))
			nam_sleep_ns(POLL_NS);
	stage->leaving = true;
	if (scenario->collector)
		while (!nam_sim_process_ended(stage->actors[scenario->clients + 1].process))
			nam_sleep_ns(POLL_NS);
	/* What the dead have left on its way arrives. */
	nam_sleep_ns(SETTLE_NS);
}

static void
violated(void *arg, unsigned invariant, const char *text)
{
	struct stage *stage = arg;

	nam_sim_note("violation of I%u: %s", invariant, text);
	/*
	 * A separator is late if there was no memory for a parent.  Whoever moves right adds it;
	 * the collector does not where the root itself has a sibling.
	 */
	if (stage->scenario->spare && invariant == NAM__I_NAMED)
		return;
	fail(stage, "I%u: %s", invariant, text);
}

static void
check(struct stage *stage, struct actor *director, struct nam_worker *worker)
{
	const struct sim_scenario *scenario = stage->scenario;
	struct sim_range everything = { .has_low = false };
	struct session session = {
		.actor = director,
		.worker = worker,
		.number = 1,
	};
	bool dies = scenario->kills || scenario->sim.faults.break_qp;
	uint32_t count = 0;
	int rc;

	if (scenario->server_kills)
		return;
	/* Who dies leaves nodes locked, and changes half done. */
	if (!dies) {
		rc = nam_index_verify(worker, director->index, violated, stage,
			&stage->outcome->violations);
		if (rc)
			fail(stage, "the verifier: %s", nam_err_name(rc));
	}
	rc = do_scan(&session, &everything, 2 * scenario->keys + 1, &count);
	if (rc && !dies)
		fail(stage, "the last scan: %s", nam_err_name(rc));
	stage->outcome->entries = count;
}

/* Whether nothing befell anybody that leaves changes half done. */
static bool
undisturbed(const struct sim_scenario *scenario)
{
	return !scenario->kills && !scenario->server_kills && !scenario->sim.faults.break_qp;
}

/*
 * Where memory was scarce: once everything is deleted and collected, there is room for half of what
 * there was.  (Not for all: leaves that are filled anew may be fuller or emptier than they were.)
 */
static void
recover(struct stage *stage, struct actor *director, struct nam_worker *worker)
{
	uint32_t keys = stage->scenario->keys;
	uint8_t key[8];
	uint64_t violations;
	int rc;

	for (uint64_t number = 0; number < keys; number++) {
		nam_key_from_u64(number, key);
		rc = nam_index_delete(worker, director->index, key);
		if (rc && rc != -NAM_E_NOTFOUND)
			fail(stage, "deleting all: %s", nam_err_name(rc));
	}
	for (uint32_t i = 0; i < RECOVERY_PASSES; i++) {
		(void)collect(director, worker);
		nam_sleep_ns(RECOVERY_PAUSE_NS);
	}
	for (uint64_t number = 0; number < stage->outcome->entries / 2; number++) {
		nam_key_from_u64(number, key);
		rc = nam_index_insert(worker, director->index, key, number);
		if (rc)
			fail(stage, "inserting %llu of %llu once there was room: %s",
				(unsigned long long)number,
				(unsigned long long)stage->outcome->entries, nam_err_name(rc));
	}
	rc = nam_index_verify(worker, director->index, violated, stage, &violations);
	if (rc)
		fail(stage, "the verifier, once there was room: %s", nam_err_name(rc));
}

/* Every block is in the index, free, or known to be given up. */
static void
check_memory(struct stage *stage, struct actor *director, struct nam_worker *worker)
{
	struct sim_memory memory;
	int64_t lost;
	int rc = sim_memory_count(worker, director->index, &memory);

	if (rc) {
		fail(stage, "counting blocks: %s", nam_err_name(rc));
		return;
	}
	lost = sim_memory_lost(&memory, stage->given_up);
	stage->outcome->given_up = stage->given_up;
	stage->outcome->lost = lost;
	if (lost > 0)
		fail(stage, "leak: %lld blocks are neither in the index nor free",
			(long long)lost);
	else if (lost < 0)
		fail(stage, "leak: %lld blocks are free and in the index", (long long)-lost);
}

/* The worker that has worked gives back what it had in stock; another one counts. */
static struct nam_worker *
replace_worker(struct stage *stage, struct actor *director, struct nam_worker *worker)
{
	sim_memory_lose(worker, director->index, stage->scenario->leaks);
	nam_worker_close(worker);
	stage->given_up += sim_memory_given_up(director->client);
	worker = sim_worker(director->client);
	if (!worker)
		sim_die("the director cannot connect again");
	return worker;
}

/* One memory server, the same one each time, becomes slow, or as fast as the others again. */
static void
slow_down(struct stage *stage, uint32_t times)
{
	const struct sim_scenario *scenario = stage->scenario;
	uint64_t number = scenario->sim.seed % scenario->servers;

	if (scenario->slow_server)
		nam_sim_process_slow(stage->cluster.servers[number].process, times);
}

static void
director_main(void *arg)
{
	struct stage *stage = arg;
	struct actor *director = &stage->actors[DIRECTOR];
	struct nam_worker *worker;

	director->stage = stage;
	nam_sim_process_spare(nam_sim_self());
	sim_cluster_await(&stage->cluster);
	director->client = sim_client(&stage->cluster, "director");
	worker = director->client ? sim_worker(director->client) : NULL;
	if (!worker)
		sim_die("the director cannot connect");
	create(stage, director, worker);
	if (stage->scenario->spare)
		sim_memory_take(worker, director->index, stage->scenario->spare, &stage->ballast);
	slow_down(stage, stage->scenario->slow_server);
	start(stage);
	await(stage);
	slow_down(stage, 1);
	check(stage, director, worker);
	if (undisturbed(stage->scenario)) {
		if (stage->scenario->spare && !stage->given_up)
			recover(stage, director, worker);
		sim_memory_give(worker, director->index, &stage->ballast);
		worker = replace_worker(stage, director, worker);
		check_memory(stage, director, worker);
	}
	nam_index_close(director->index);
	nam_worker_close(worker);
	nam_client_close(director->client);
	stage->outcome->virtual_ns = nam_sim_now_ns();
	sim_cluster_stop(&stage->cluster);
}

/* ---- the run ------------------------------------------------------------------------------ */

/* What the clients were told, against what can have been. */
static void
check_history(struct stage *stage)
{
	struct sim_findings findings = sim_findings_to(stage->scenario->findings);
	struct sim_linearizable_options options;

	sim_linearizable_options_init(&options);
	sim_check_scans(stage->history, true, &findings);
	sim_check_linearizable(stage->history, &options, &findings);
	stage->outcome->contradictions = findings.violations;
	stage->outcome->undecided = findings.undecided;
	if (findings.violations)
		fail(stage, "the history contradicts itself in %llu places",
			(unsigned long long)findings.violations);
}

struct sim_result
sim_scenario_run(const struct sim_scenario *scenario, struct sim_history *history)
{
	struct sim_result outcome = { 0 };
	struct stage stage = {
		.scenario = scenario,
		.outcome = &outcome,
		.history = history,
		.planned = (uint64_t)scenario->clients * scenario->workers * scenario->fibers *
			scenario->ops,
	};

	stage.actors = calloc(scenario->clients + 2, sizeof(*stage.actors));
	if (!stage.actors || nam_sim_begin(&scenario->sim))
		sim_die("the simulation cannot begin");
	plan_misfortunes(&stage);
	sim_cluster_start(&stage.cluster, scenario->servers, scenario->handlers,
		scenario->memory_bytes);
	if (nam_sim_process_start("director", director_main, &stage, NULL))
		sim_die("cannot start the director");
	outcome.rc = nam_sim_run();
	if (outcome.rc)
		fail(&stage, "the run: %s after %llu ns", nam_err_name(outcome.rc),
			(unsigned long long)nam_sim_now_ns());
	outcome.fingerprint = nam_sim_fingerprint();
	outcome.counts = nam_sim_counted();
	nam_sim_end();
	if (scenario->record && !outcome.rc)
		check_history(&stage);
	free(stage.ballast.blocks);
	free(stage.misfortunes);
	free(stage.actors);
	return outcome;
}
