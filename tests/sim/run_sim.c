/* SPDX-License-Identifier: Apache-2.0 */
/* run_sim.c -- simulated runs from the command line; see README.md beside it. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/guard.h"
#include "common/options/options.h"
#include "cluster.h"
#include "commit.h"
#include "points.h"
#include "repeat.h"
#include "scenario.h"

/* A run can be repeated by the same kind of build only. */
#ifdef NAM_SIM_POINTS
#define KIND_OF_BUILD "with NAM_SIM_POINTS"
#else
#define KIND_OF_BUILD "without NAM_SIM_POINTS"
#endif

struct request {
	struct sim_scenario scenario;
	uint64_t seeds;
	bool quiet, vary, twice, points, no_collector, no_history;
	const char *json, *plain;
	char line[4096];		/* the options, to be repeated */
};

static int
take_seed(void *options, const char *text, struct nam_diag *diag)
{
	struct request *request = options;
	char *end;

	errno = 0;
	request->scenario.sim.seed = strcmp(text, "random") ? strtoull(text, &end, 0) :
		nam_entropy() % 1000000000;
	if (strcmp(text, "random") && (end == text || *end || errno || strchr(text, '-')))
		return nam_diag_set(diag, -EINVAL, "'%s' is neither random nor a whole number",
			text);
	return 0;
}

static int
take_mix(void *options, const char *text, struct nam_diag *diag)
{
	struct sim_mix *mix = &((struct request *)options)->scenario.mix;

	if (sscanf(text, "%u,%u,%u,%u,%u,%u", &mix->insert, &mix->upsert, &mix->update,
		    &mix->delete, &mix->lookup, &mix->scan) != 6)
		return nam_diag_set(diag, -EINVAL, "'%s' is not six numbers", text);
	if ((uint64_t)mix->insert + mix->upsert + mix->update + mix->delete + mix->lookup +
			mix->scan != 100)
		return nam_diag_set(diag, -EINVAL, "'%s' is not 100 percent in all", text);
	return 0;
}

static const struct {
	const char *name;
	size_t rate;
	uint32_t usual;
} faults[] = {
	{ "late", offsetof(struct nam_sim_faults, late), 10000 },
	{ "read_twice", offsetof(struct nam_sim_faults, read_twice), 10000 },
	{ "break_qp", offsetof(struct nam_sim_faults, break_qp), 20 },
	{ "kill", offsetof(struct nam_sim_faults, kill), 50 },
	{ "kill_server", offsetof(struct nam_sim_faults, kill_server), 5 },
	{ "stall", offsetof(struct nam_sim_faults, stall), 200 },
	{ "preempt", offsetof(struct nam_sim_faults, preempt), 5000 },
	{ "race", offsetof(struct nam_sim_faults, race), 100000 },
	{ "rnr", offsetof(struct nam_sim_faults, rnr), 50000 },
	{ "clock_ppm", offsetof(struct nam_sim_faults, clock_ppm), 1000 },
	{ "full", offsetof(struct nam_sim_faults, full), 50000 },
	{ "slow", offsetof(struct nam_sim_faults, slow), 100 },
	{ "lose", offsetof(struct nam_sim_faults, lose), 100000 },
	{ "twice", offsetof(struct nam_sim_faults, twice), 100000 },
	{ "zombie", offsetof(struct nam_sim_faults, zombie), 500000 },
};

static int
take_faults(void *options, const char *text, struct nam_diag *diag)
{
	char *rates = (char *)&((struct request *)options)->scenario.sim.faults;
	char copy[256], *rest = copy, *part;

	(void)snprintf(copy, sizeof(copy), "%s", text);
	while ((part = strsep(&rest, ","))) {
		char *value = strchr(part, '='), *end = "";
		unsigned long rate = 0;
		bool found = false;

		if (value) {
			*value++ = '\0';
			rate = strtoul(value, &end, 0);
		}
		if (*end || rate > 1000000 || (value && !*value))
			return nam_diag_set(diag, -EINVAL, "%s=%s is not a number up to a million",
				part, value);
		for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
			if (strcmp(part, "all") && strcmp(part, faults[i].name))
				continue;
			*(uint32_t *)(void *)(rates + faults[i].rate) =
				value ? (uint32_t)rate : faults[i].usual;
			found = true;
		}
		if (!found)
			return nam_diag_set(diag, -EINVAL, "there is no fault '%s'; --help names "
				"them", part);
	}
	return 0;
}

/* ---- options ------------------------------------------------------------------------------ */

static int
take_trace(void *options, const char *text, struct nam_diag *diag)
{
	(void)text;
	(void)diag;
	((struct request *)options)->scenario.sim.trace = stdout;
	return 0;
}

/* That it cannot be written is to be known before the run, not after it. */
static int
check_writable(const char *path, struct nam_diag *diag)
{
	FILE *file = fopen(path, "a");

	return !file || fclose(file) ? nam_diag_set(diag, -EINVAL, "%s cannot be written: %s",
		path, strerror(errno)) : 0;
}

static int
take_json(void *options, const char *text, struct nam_diag *diag)
{
	((struct request *)options)->json = text;
	return check_writable(text, diag);
}

static int
take_plain(void *options, const char *text, struct nam_diag *diag)
{
	((struct request *)options)->plain = text;
	return check_writable(text, diag);
}

static int
take_guard(void *options, const char *text, struct nam_diag *diag)
{
	int rc = nam_guard_off(text);

	(void)options;
	return rc ? nam_diag_set(diag, -EINVAL, "%s: %s", text, rc == -2 ?
		"there is no such guard" :
		"this build's guards cannot be turned off (-DNAM_SIM_POINTS=ON)") : 0;
}

static const char *const profiles[] = { "strict", "verbs", "weak", "routed", NULL };
static const char *const transports[] = { "srq", "mailbox", "fetch", "datagram", NULL };
static const char *const designs[] = { "fine", "coarse", "hybrid", NULL };
static const char *const partitionings[] = { "range", "hash", "round-robin", NULL };

_Static_assert(sizeof(profiles) / sizeof(profiles[0]) == NAM_SIM_PROFILES_COUNT + 1,
	"each profile has a name");

#define FIELD(field) NAM_OPTION_FIELD(struct request, field)
#define SET(field) .set = offsetof(struct request, scenario.field)
#define NUMBER(option, field, low, high, text)                                                      \
	{ .name = option, .argument = "N", .help = text, .type = NAM_OPTION_COUNT,                  \
		FIELD(scenario.field), .min = low, .max = high }
#define SWITCH(option, field, text)                                                                 \
	{ .name = option, .help = text, .type = NAM_OPTION_FLAG, FIELD(field) }

/* Rows of this scope do not belong to the line that repeats a run. */
#define ONCE .scope = "once"

static const struct nam_option rows[] = {
	{ "profile", "NAME", "The promises of the fabric: strict, verbs (default), weak or routed.",
		NAM_OPTION_CHOICE, FIELD(scenario.sim.profile), .choices = profiles },
	{ "seed", "N", "The first seed (default 1), or random.", NAM_OPTION_CALL,
		.take = take_seed, ONCE },
	{ "seeds", "N", "How many seeds (default 1).", NAM_OPTION_COUNT, FIELD(seeds), .min = 1,
		.max = UINT64_MAX, ONCE },
	SWITCH("vary", vary, "All of the following by the seed, instead."),
	{ .help = "Drawn by --vary, too, unless given:" },
	{ "transport", "NAME", "How requests travel: srq, mailbox, fetch or datagram; strict has "
		"no datagrams.", NAM_OPTION_CHOICE, FIELD(scenario.transport), SET(transport_given),
		.min = NAM_TRANSPORT_SRQ, .choices = transports },
	{ "design", "NAME", "fine, coarse or hybrid.", NAM_OPTION_CHOICE, FIELD(scenario.design),
		SET(design_given), .min = NAM_DESIGN_FINE, .choices = designs },
	{ "partition", "NAME", "Of coarse and hybrid: range, hash or round-robin.",
		NAM_OPTION_CHOICE, FIELD(scenario.partitioning), SET(partitioning_given),
		.min = NAM_PARTITION_RANGE, .choices = partitionings },
	{ "many", "N", "N percent of changes are several in one call.", NAM_OPTION_COUNT,
		FIELD(scenario.many), SET(many_given), .max = 100 },
	{ "kv", "N", "N more clients use a key-value store, by any RPC transport.",
		NAM_OPTION_COUNT, FIELD(scenario.kv), SET(kv_given), .max = 100 },
	{ "add", "N", "N memory servers come while clients are at work.", NAM_OPTION_COUNT,
		FIELD(scenario.add), SET(add_given), .max = 4 },
	{ "moves", "N", "The memory of a memory server moves to another process N times while "
		"clients are at work.", NAM_OPTION_COUNT, FIELD(scenario.moves),
		SET(moves_given), .max = SIM_MOVES_MAX },
	{ "failovers", "N", "N times a memory server gets a backup, is killed, and the backup gets "
		"its place.", NAM_OPTION_COUNT, FIELD(scenario.failovers), .max = 8 },
	NUMBER("replicas", replicas, 2, 3, "The memory of such a server has N copies, 2 by "
		"default, and its backup may be killed with it or after it."),
	{ "lead-moves", "N", "N times the memory and the role of the lead move to another process.",
		NAM_OPTION_COUNT, FIELD(scenario.lead_moves), .max = 8 },
	{ "stewards", "N", "N stewards, unless memory moves.", NAM_OPTION_COUNT,
		FIELD(scenario.stewards), SET(stewards_given), .max = 4 },
	{ "kill-at", "NAME,...", "Up to two clients die at these race points; any: the seed "
		"chooses; none.", NAM_OPTION_TEXT, FIELD(scenario.kill_at), SET(kill_at_given) },
	{ .help = "The cluster:" },
	NUMBER("steps", sim.step_bytes, 8, 64, "Bytes of a micro-step: 8 or 64 (default)."),
	NUMBER("slowness", sim.slowness, 1, 1000000, "Messages take N times as long."),
	NUMBER("servers", servers, 1, SIM_SERVERS_MAX, "Memory servers."),
	NUMBER("handlers", handlers, 1, 64, "Handler threads of each memory server."),
	{ "memory", "SIZE", "Memory of each memory server.", NAM_OPTION_BYTES,
		FIELD(scenario.memory_bytes), .max = UINT64_MAX },
	NUMBER("slow-server", slow_server, 0, 1000000, "One memory server is N times as slow."),
	NUMBER("near", near, 0, 1000, "N clients are on machines of memory servers."),
	NUMBER("spare", spare, 0, 1000000, "Only N blocks of memory are left once all is loaded, "
		"so that inserts are refused for lack of memory."),
	{ .help = "The work:" },
	NUMBER("clients", clients, 1, 1000, "Client processes."),
	NUMBER("workers", workers, 1, 64, "Threads of each client."),
	NUMBER("fibers", fibers, 1, 64, "Fibers of each thread."),
	NUMBER("ops", ops, 0, 100000000, "Operations of each fiber."),
	NUMBER("keys", keys, 1, 100000000, "Keys; every other one is loaded."),
	NUMBER("key-bytes", key_bytes, NAM_KEY_BYTES_MIN, NAM_KEY_BYTES_MAX, "The size of a key, 8 "
		"(default) to 64."),
	NUMBER("node-bytes", node_bytes, NAM_NODE_BYTES_MIN, NAM_NODE_BYTES_MAX, "The size of a "
		"node, a power of two."),
	NUMBER("head-interval", head_interval, 0, 1000000, "Leaves per head node."),
	{ "cache", "SIZE", "The budget of a cache of inner nodes.", NAM_OPTION_BYTES,
		FIELD(scenario.cache_bytes), .max = UINT64_MAX },
	SWITCH("pairs", scenario.pairs, "The index is not unique: each key up to four times."),
	SWITCH("delete-pairs", scenario.delete_pairs, "Deletes name the payload, too."),
	{ "mix", "I,U,P,D,L,S", "Per cent of inserts, upserts, updates, deletes, lookups, scans.",
		NAM_OPTION_CALL, .take = take_mix },
	SWITCH("no-collector", no_collector, "No garbage collector beside the clients."),
	NUMBER("collects", collects, 0, 1000, "Of 1000 operations, N are collector passes."),
	NUMBER("sweeps", sweeps, 0, 1000, "And N are sweeps of dead clients' blocks."),
	NUMBER("load-wave", load_wave, 0, 100000000, "After N operations the index shrinks, after "
		"N more it grows again."),
	NUMBER("bulk", bulk, 50, 100, "Load in bulk, nodes N per cent full, and not by inserts."),
	SWITCH("temporary", scenario.temporary, "Another index is made, loaded, used and dropped "
		"meanwhile."),
	{ .help = "Faults:" },
	{ "faults", "NAME[=N],...", "Faults that occur N times in a million of its unit; without N "
		"at a usual rate; all names all of them. late: messages that set out late. "
		"read_twice: READs that are carried out twice. break_qp: messages that break "
		"their queue pair. kill: messages with which their client, or the collector, dies. "
		"kill_server: messages with which their memory server dies. stall: messages with "
		"which their sender stops for a time. preempt: polls at which a thread loses the "
		"processor. race: race points that take long. rnr: SENDs that find the receiver "
		"not ready. full: refills of a block cache that find no memory, though there is. "
		"slow: messages with which their memory server becomes slow, or fast again. lose, "
		"twice: messages over unreliable queue pairs that are lost, or arrive twice. "
		"zombie: WRITEs under way as their sender ends that arrive, and late. clock_ppm: "
		"ns that clocks run fast or slow, at the most.", NAM_OPTION_CALL,
		.take = take_faults },
	NUMBER("kills", kills, 0, 1000, "N more processes die, after a drawn operation."),
	NUMBER("server-kills", server_kills, 0, 1000, "N more memory servers die."),
	NUMBER("stalls", stalls, 0, 1000, "N more processes stop for a time."),
	{ "guard-off", "NAME", "Turn a guard off (common/guard.h).", NAM_OPTION_CALL,
		.take = take_guard },
	{ .help = "Output:" },
	SWITCH("no-history", no_history, "Record nothing: for speed."),
	{ "json", "FILE", "The last run's history.", NAM_OPTION_CALL, .take = take_json, ONCE },
	{ "plain", "FILE", "The same as text.", NAM_OPTION_CALL, .take = take_plain, ONCE },
	{ "trace", NULL, "Every event to standard output.", NAM_OPTION_CALL, .take = take_trace,
		ONCE },
	{ "twice", NULL, "Each seed twice: it must be the same run.", NAM_OPTION_FLAG,
		FIELD(twice), ONCE },
	{ "points", NULL, "At the end, how often each race point was reached, and how many "
		"clients died there.", NAM_OPTION_FLAG, FIELD(points), ONCE },
	{ "quiet", NULL, "Print only what fails.", NAM_OPTION_FLAG, FIELD(quiet), ONCE },
	{ 0 },
};

/* Everything but the seeds and the output belongs to the line that repeats a run. */
static void
remember(void *options, const struct nam_option *row, const char *text)
{
	struct request *request = options;
	size_t length = strlen(request->line);

	if (!row->scope)
		(void)snprintf(request->line + length, sizeof(request->line) - length,
			" --%s%s%s", row->name, text ? " " : "", text ? text : "");
}

static void
parse(int argc, char **argv, struct request *request)
{
	static const struct nam_options_table table = {
		.program = "run_sim", .usage = "", .rows = rows, .taken = remember,
		.purpose = "Run an index, and what belongs to it, in a simulated cluster.",
		.after = "Exit status: 0 all seeds passed, 1 a seed failed, 2 usage.",
	};
	struct sim_scenario *scenario = &request->scenario;
	int exit_code;

	if (!nam__options_take(&table, argc, argv, request, &exit_code))
		exit(exit_code);
	if (scenario->sim.step_bytes != 8 && scenario->sim.step_bytes != 64)
		sim_die("--steps %u: 8 or 64 is needed", scenario->sim.step_bytes);
	if (scenario->node_bytes & (scenario->node_bytes - 1))
		sim_die("--node-bytes %u: a power of two is needed", scenario->node_bytes);
	if (scenario->pairs && request->plain)
		sim_die("--plain knows one value for a key, and --pairs has several: take --json");
	if (scenario->moves && !request->vary && scenario->servers < 2)
		sim_die("--moves: 2 memory servers are needed; the lead moves by --lead-moves");
	if (scenario->moves && scenario->stewards)
		sim_die("--moves, --stewards: a mover leads, so take one of them");
	if (scenario->servers + scenario->add + scenario->moves > SIM_SERVERS_MAX)
		sim_die("--servers, --add and --moves: at most %u processes in all",
			SIM_SERVERS_MAX);
	scenario->collector = !request->no_collector;
	scenario->record = !request->no_history;
	if (scenario->keys > 1000)
		scenario->memory_bytes += 512ull * scenario->keys;
}

static void
write_history(const char *path, bool json, const struct sim_history *history)
{
	FILE *file = fopen(path, "w");
	size_t unsaid;

	if (!file)
		sim_die("%s cannot be written", path);
	if (json) {
		sim_history_write_json(history, file);
	} else {
		unsaid = sim_history_write_plain(history, file);
		(void)fprintf(stderr, "%s: %zu operations cannot be said there\n", path, unsaid);
	}
	if (fclose(file))
		sim_die("%s cannot be written", path);
}

static void
prepare_repeat(const struct request *request)
{
	(void)snprintf(sim_repeat, sizeof(sim_repeat),
		"ENDED by a signal\ncommit %s " KIND_OF_BUILD "; again: run_sim --seed %llu%s\n",
		NAM_SIM_COMMIT, (unsigned long long)request->scenario.sim.seed, request->line);
	sim_repeat_on_signals(true);
}

/* Real time: how fast the simulator is.  Nothing simulated sees it. */
static double
real_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void
report(const struct request *request, const struct sim_result *outcome, double seconds)
{
	const struct nam_sim_options *sim = &request->scenario.sim;

	if (!request->quiet)
		printf("%s seed %llu: %llu ops (%llu refused, %llu for lack of memory), "
			"%.3f ms virtual, %llu messages, "
			"%llu steps, %llu switches, %llu faults, %llu entries left, "
			"%llu merges, %llu nodes retired, %llu reusable, %llu returns of runs, "
			"%llu swept, fingerprint "
			"%016llx, %llu keys undecided; "
			"%llu killed, %llu stalls, %llu servers dead, %llu queue pairs broken, "
			"%llu zombies, %llu refills refused, %llu times a server slow, "
			"%llu loads, %llu drops, %llu operations on a store, %llu of them "
			"unknown, %llu evictions, %u memory servers added, %u terms, "
			"%u moves, %u given up, %u failovers, longest operation %.3f ms, "
			"pass %.3f ms; "
			"verified: %s; %llu separators late, %llu keys unreadable; "
			"blocks counted: %s",
			nam_sim_profile_name(sim->profile),
			(unsigned long long)sim->seed, (unsigned long long)outcome->ops,
			(unsigned long long)outcome->refused,
			(unsigned long long)outcome->full, 1e-6 * (double)outcome->virtual_ns,
			(unsigned long long)outcome->counts.messages,
			(unsigned long long)outcome->counts.steps,
			(unsigned long long)outcome->counts.switches,
			(unsigned long long)outcome->counts.faults,
			(unsigned long long)outcome->entries,
			(unsigned long long)outcome->merges,
			(unsigned long long)outcome->retired,
			(unsigned long long)outcome->reused,
			(unsigned long long)outcome->reclaims,
			(unsigned long long)outcome->swept,
			(unsigned long long)outcome->fingerprint,
			(unsigned long long)outcome->undecided,
			(unsigned long long)outcome->counts.kills,
			(unsigned long long)outcome->counts.stalls,
			(unsigned long long)outcome->counts.server_kills,
			(unsigned long long)outcome->counts.broken,
			(unsigned long long)outcome->counts.zombies,
			(unsigned long long)outcome->counts.full,
			(unsigned long long)outcome->counts.slowed,
			(unsigned long long)outcome->loads, (unsigned long long)outcome->drops,
			(unsigned long long)outcome->kv_ops,
			(unsigned long long)outcome->kv_unknown,
			(unsigned long long)outcome->kv_evictions, outcome->added, outcome->terms,
			outcome->moved, outcome->unmoved, outcome->promoted,
			1e-6 * (double)outcome->operation_ns, 1e-6 * (double)outcome->pass_ns,
			outcome->verified, (unsigned long long)outcome->late,
			(unsigned long long)outcome->unreadable,
			outcome->counted);
	/* A trace is the same each time, byte for byte: no real time in it. */
	if (!request->quiet && !sim->trace)
		printf(", %.0f ops/s", (double)outcome->ops / seconds);
	if (!request->quiet)
		puts("");
	if (outcome->failed)
		printf("FAILED: %s\ncommit %s " KIND_OF_BUILD "; again: run_sim --seed %llu%s\n",
			outcome->why, NAM_SIM_COMMIT, (unsigned long long)sim->seed, request->line);
	(void)fflush(stdout);
}

static struct sim_result
run_seed(const struct request *request)
{
	struct sim_result outcome, again;
	struct sim_history history;
	double start = real_seconds();

	prepare_repeat(request);
	sim_history_init(&history);
	outcome = sim_scenario_run(&request->scenario, &history);
	report(request, &outcome, real_seconds() - start);
	if (request->json)
		write_history(request->json, true, &history);
	if (request->plain)
		write_history(request->plain, false, &history);
	sim_history_free(&history);
	if (!request->twice)
		return outcome;
	sim_history_init(&history);
	again = sim_scenario_run(&request->scenario, &history);
	sim_history_free(&history);
	if (again.fingerprint != outcome.fingerprint ||
		again.counts.events != outcome.counts.events) {
		printf("FAILED: seed %llu is two different runs\n",
			(unsigned long long)request->scenario.sim.seed);
		outcome.failed = true;
	}
	return outcome;
}

int
main(int argc, char **argv)
{
	struct request request = { .seeds = 1 };
	uint64_t failures = 0, ops = 0, first;
	double start;

	sim_scenario_init(&request.scenario);
	request.scenario.findings = stdout;
	parse(argc, argv, &request);
	first = request.scenario.sim.seed;
	/* A run stopped early has printed how to repeat it. */
	if (request.seeds > 1) {
		printf("%s seeds from %llu on\n",
			nam_sim_profile_name(request.scenario.sim.profile),
			(unsigned long long)first);
		fflush(stdout);
	}
	start = real_seconds();
	for (uint64_t i = 0; i < request.seeds; i++, request.scenario.sim.seed++) {
		struct sim_result outcome;

		if (request.vary)
			sim_scenario_vary(&request.scenario);
		outcome = run_seed(&request);
		failures += outcome.failed;
		ops += outcome.ops;
	}
	if (request.seeds > 1)
		printf("%s seeds %llu .. %llu: %llu operations, %.0f per second, %llu seeds "
			"failed\n", nam_sim_profile_name(request.scenario.sim.profile),
			(unsigned long long)first, (unsigned long long)(first + request.seeds - 1),
			(unsigned long long)ops, (double)ops / (real_seconds() - start),
			(unsigned long long)failures);
	if (request.points)
		sim_points_print();
	return failures ? 1 : 0;
}
