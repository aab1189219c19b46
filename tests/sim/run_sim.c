/* SPDX-License-Identifier: Apache-2.0 */
/* run_sim.c -- simulated runs from the command line; see README.md beside it. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/guard.h"
#include "cluster.h"
#include "commit.h"
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
	bool quiet, vary, twice;
	const char *json, *plain;
	char line[1024];		/* the options, to be repeated */
};

static const char usage[] =
	"usage: run_sim [option...]\n"
	"  --profile strict|verbs|weak|routed   what the fabric promises (verbs)\n"
	"  --seed N|random, --seeds N    the first seed (1), and how many (1)\n"
	"  --transport srq|mailbox|fetch|datagram   how requests travel; without it --vary draws\n"
	"                                it; strict has no datagrams\n"
	"  --design fine|coarse|hybrid   where the work is done; without it --vary draws it\n"
	"  --partition hash|range|round-robin   not fine: which server keeps a key; the same\n"
	"  --vary                        all of the following by the seed, instead\n"
	"  --steps 8|64                  bytes of a micro-step (64)\n"
	"  --slowness N                  messages take N times as long (1)\n"
	"  --servers N, --handlers N     memory servers, handler threads of each\n"
	"  --clients N, --workers N, --fibers N, --ops N   processes, threads of each,\n"
	"                                fibers of each, operations of each\n"
	"  --keys N, --node-bytes N, --head-interval N, --cache BYTES\n"
	"  --key-bytes N                 of each key, 8 to 64 (8)\n"
	"  --pairs                       the index is not unique: each key up to four times\n"
	"  --delete-pairs                deletes name the payload, too\n"
	"  --memory BYTES                of each server\n"
	"  --slow-server N               one memory server is N times as slow as the others\n"
	"  --near N                      so many clients are on machines of memory servers\n"
	"  --spare N                     only N blocks of it are left once all is loaded, so that\n"
	"                                inserts are refused for lack of memory\n"
	"  --mix I,U,P,D,L,S             percent inserts, upserts, updates, deletes,\n"
	"                                lookups, scans\n"
	"  --no-collector                no garbage collector beside them\n"
	"  --collects N                  of 1000 operations, so many passes of the collector\n"
	"  --tide N                      after N operations the index shrinks, after N more it\n"
	"                                grows again\n"
	"  --bulk PERCENT                load in bulk, nodes so full, and not by inserts\n"
	"  --temporary                   another index is made, loaded, used and dropped\n"
	"                                meanwhile\n"
	"  --kv N                        N more clients use a key-value store, by any RPC "
	"transports;\n"
	"                                without it --vary draws it\n"
	"  --faults NAME[=N],...         what goes wrong, N times in a million of its unit:\n"
	"      late          messages    that set out late\n"
	"      read_twice    READs       that are carried out twice\n"
	"      break_qp      messages    with which their queue pair breaks\n"
	"      kill          messages    with which the client that sent them dies, or collector\n"
	"      kill_server   messages    with which the memory server that they go to dies\n"
	"      stall         messages    with which their sender stops for a time\n"
	"      preempt       polls       at which a thread loses the processor\n"
	"      race          race points that take long\n"
	"      rnr           SENDs       that find the receiver not ready\n"
	"      full          refills     of a stock that find no memory, though there is\n"
	"      slow          messages    with which the memory server that they go to becomes\n"
	"                                slow, or as fast as the others again\n"
	"      lose, twice   messages    over unreliable queue pairs that are lost, or arrive "
	"twice\n"
	"      zombie        WRITEs      under way as their sender ends that arrive, and late\n"
	"      clock_ppm     ns          that clocks run fast or slow, at the most\n"
	"                                without N a usual rate; `all' names all of them\n"
	"  --kills N, --server-kills N, --stalls N   so many processes beside them that die or\n"
	"                                stop, each after an operation that is drawn\n"
	"  --guard-off NAME              turn a guard off (common/guard.h)\n"
	"  --no-history                  record nothing: for speed\n"
	"  --json FILE, --plain FILE     the last run's history\n"
	"  --trace                       every event to standard output\n"
	"  --twice                       each seed twice: it must be the same run\n"
	"  --points                      at the end, how often each race point was reached\n"
	"  --quiet                       print only what fails\n";

static uint64_t
number(const char *text)
{
	char *end;
	unsigned long long value;

	errno = 0;
	value = strtoull(text, &end, 0);
	if (end == text || *end || errno || strchr(text, '-'))
		sim_die("'%s' is no whole number from 0 to 2^64 - 1; --help tells what there is",
			text);
	return value;
}

static void
set_profile(struct request *request, const char *name)
{
	for (unsigned i = 0; i < NAM_SIM_PROFILES_COUNT; i++) {
		if (!strcmp(nam_sim_profile_name(i), name)) {
			request->scenario.sim.profile = (enum nam_sim_profile)i;
			return;
		}
	}
	sim_die("--profile %s: there are strict, verbs, weak and routed", name);
}

static void
set_design(struct request *request, const char *name)
{
	if (!strcmp(name, "fine"))
		request->scenario.design = NAM_DESIGN_FINE;
	else if (!strcmp(name, "coarse"))
		request->scenario.design = NAM_DESIGN_COARSE;
	else if (!strcmp(name, "hybrid"))
		request->scenario.design = NAM_DESIGN_HYBRID;
	else
		sim_die("--design %s: there are fine, coarse and hybrid", name);
	request->scenario.design_given = true;
}

static void
set_partitioning(struct request *request, const char *name)
{
	static const char *const names[] = { [NAM_PARTITION_RANGE] = "range",
		[NAM_PARTITION_HASH] = "hash", [NAM_PARTITION_ROUND_ROBIN] = "round-robin" };

	for (unsigned i = NAM_PARTITION_RANGE; i <= NAM_PARTITION_ROUND_ROBIN; i++) {
		if (strcmp(names[i], name))
			continue;
		request->scenario.partitioning = (enum nam_partitioning)i;
		request->scenario.partitioning_given = true;
		return;
	}
	sim_die("--partition %s: there are hash, range and round-robin", name);
}

static void
set_mix(struct request *request, const char *text)
{
	struct sim_mix *mix = &request->scenario.mix;

	if (sscanf(text, "%u,%u,%u,%u,%u,%u", &mix->insert, &mix->upsert, &mix->update,
		    &mix->delete, &mix->lookup, &mix->scan) != 6)
		sim_die("--mix %s is not six numbers", text);
	if ((uint64_t)mix->insert + mix->upsert + mix->update + mix->delete + mix->lookup +
			mix->scan != 100)
		sim_die("--mix %s is not 100 percent in all", text);
}

static void
set_faults(struct request *request, const char *text)
{
	struct nam_sim_faults *faults = &request->scenario.sim.faults;
	const struct {
		const char *name;
		uint32_t *rate;
		uint32_t usual;
	} known[] = {
		{ "late", &faults->late, 10000 },
		{ "read_twice", &faults->read_twice, 10000 },
		{ "break_qp", &faults->break_qp, 20 },
		{ "kill", &faults->kill, 50 },
		{ "kill_server", &faults->kill_server, 5 },
		{ "stall", &faults->stall, 200 },
		{ "preempt", &faults->preempt, 5000 },
		{ "race", &faults->race, 100000 },
		{ "rnr", &faults->rnr, 50000 },
		{ "clock_ppm", &faults->clock_ppm, 1000 },
		{ "full", &faults->full, 50000 },
		{ "slow", &faults->slow, 100 },
		{ "lose", &faults->lose, 100000 },
		{ "twice", &faults->twice, 100000 },
		{ "zombie", &faults->zombie, 500000 },
	};
	char copy[256], *rest = copy, *part;

	(void)snprintf(copy, sizeof(copy), "%s", text);
	while ((part = strsep(&rest, ","))) {
		char *value = strchr(part, '=');
		bool found = false;

		if (value)
			*value++ = '\0';
		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
			if (strcmp(part, "all") && strcmp(part, known[i].name))
				continue;
			if (value && number(value) > 1000000)
				sim_die("--faults %s=%s is more than a million in a million", part,
					value);
			*known[i].rate = value ? (uint32_t)number(value) : known[i].usual;
			found = true;
		}
		if (!found)
			sim_die("--faults %s: there is no such fault; --help names them", part);
	}
}

/* ---- race points, by name ----------------------------------------------------------------- */

#define POINTS_MAX 256u

static struct {
	const char *name;
	uint64_t reached;
} points[POINTS_MAX];

static void
point_reached(const char *name)
{
	for (unsigned i = 0; i < POINTS_MAX; i++) {
		if (!points[i].name)
			points[i].name = name;
		if (!strcmp(points[i].name, name)) {
			points[i].reached++;
			return;
		}
	}
	sim_die("more than %u race points", POINTS_MAX);
}

static void
points_print(void)
{
	for (unsigned i = 0; i < POINTS_MAX && points[i].name; i++)
		printf("point %s %llu\n", points[i].name, (unsigned long long)points[i].reached);
}

/* ---- options ------------------------------------------------------------------------------ */

enum {
	OPT_PROFILE = 256, OPT_SEED, OPT_SEEDS, OPT_STEPS, OPT_TWICE, OPT_TIDE, OPT_COLLECTS,
	OPT_SLOWNESS, OPT_SERVERS, OPT_HANDLERS, OPT_CLIENTS, OPT_WORKERS, OPT_FIBERS, OPT_OPS,
	OPT_KEYS, OPT_NODE_BYTES, OPT_HEAD_INTERVAL, OPT_CACHE, OPT_VARY, OPT_MIX,
	OPT_NO_COLLECTOR, OPT_FAULTS, OPT_KILLS, OPT_SERVER_KILLS, OPT_STALLS, OPT_GUARD_OFF,
	OPT_NO_HISTORY, OPT_JSON, OPT_PLAIN, OPT_TRACE, OPT_QUIET, OPT_HELP, OPT_MEMORY,
	OPT_SLOW_SERVER, OPT_NEAR, OPT_SPARE, OPT_BULK, OPT_TEMPORARY, OPT_POINTS, OPT_KEY_BYTES,
	OPT_PAIRS, OPT_TRANSPORT, OPT_DELETE_PAIRS, OPT_DESIGN, OPT_PARTITION, OPT_KV,
};

static const struct option options[] = {
	{ "profile", required_argument, NULL, OPT_PROFILE },
	{ "transport", required_argument, NULL, OPT_TRANSPORT },
	{ "design", required_argument, NULL, OPT_DESIGN },
	{ "partition", required_argument, NULL, OPT_PARTITION },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "seeds", required_argument, NULL, OPT_SEEDS },
	{ "steps", required_argument, NULL, OPT_STEPS },
	{ "slowness", required_argument, NULL, OPT_SLOWNESS },
	{ "servers", required_argument, NULL, OPT_SERVERS },
	{ "handlers", required_argument, NULL, OPT_HANDLERS },
	{ "clients", required_argument, NULL, OPT_CLIENTS },
	{ "workers", required_argument, NULL, OPT_WORKERS },
	{ "fibers", required_argument, NULL, OPT_FIBERS },
	{ "ops", required_argument, NULL, OPT_OPS },
	{ "keys", required_argument, NULL, OPT_KEYS },
	{ "node-bytes", required_argument, NULL, OPT_NODE_BYTES },
	{ "head-interval", required_argument, NULL, OPT_HEAD_INTERVAL },
	{ "cache", required_argument, NULL, OPT_CACHE },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "slow-server", required_argument, NULL, OPT_SLOW_SERVER },
	{ "near", required_argument, NULL, OPT_NEAR },
	{ "spare", required_argument, NULL, OPT_SPARE },
	{ "bulk", required_argument, NULL, OPT_BULK },
	{ "temporary", no_argument, NULL, OPT_TEMPORARY },
	{ "kv", required_argument, NULL, OPT_KV },
	{ "key-bytes", required_argument, NULL, OPT_KEY_BYTES },
	{ "pairs", no_argument, NULL, OPT_PAIRS },
	{ "delete-pairs", no_argument, NULL, OPT_DELETE_PAIRS },
	{ "mix", required_argument, NULL, OPT_MIX },
	{ "vary", no_argument, NULL, OPT_VARY },
	{ "no-collector", no_argument, NULL, OPT_NO_COLLECTOR },
	{ "collects", required_argument, NULL, OPT_COLLECTS },
	{ "tide", required_argument, NULL, OPT_TIDE },
	{ "faults", required_argument, NULL, OPT_FAULTS },
	{ "kills", required_argument, NULL, OPT_KILLS },
	{ "server-kills", required_argument, NULL, OPT_SERVER_KILLS },
	{ "stalls", required_argument, NULL, OPT_STALLS },
	{ "guard-off", required_argument, NULL, OPT_GUARD_OFF },
	{ "no-history", no_argument, NULL, OPT_NO_HISTORY },
	{ "json", required_argument, NULL, OPT_JSON },
	{ "plain", required_argument, NULL, OPT_PLAIN },
	{ "twice", no_argument, NULL, OPT_TWICE },
	{ "trace", no_argument, NULL, OPT_TRACE },
	{ "points", no_argument, NULL, OPT_POINTS },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "help", no_argument, NULL, OPT_HELP },
	{ NULL, 0, NULL, 0 },
};

/* Options that are a number of the scenario's, and what it may be. */
static const struct {
	int option;
	size_t field;
	uint32_t low, high;
} small_numbers[] = {
	{ OPT_SLOWNESS, offsetof(struct sim_scenario, sim.slowness), 1, 1000000 },
	{ OPT_SERVERS, offsetof(struct sim_scenario, servers), 1, SIM_SERVERS_MAX },
	{ OPT_HANDLERS, offsetof(struct sim_scenario, handlers), 1, 64 },
	{ OPT_CLIENTS, offsetof(struct sim_scenario, clients), 1, 1000 },
	{ OPT_WORKERS, offsetof(struct sim_scenario, workers), 1, 64 },
	{ OPT_FIBERS, offsetof(struct sim_scenario, fibers), 1, 64 },
	{ OPT_OPS, offsetof(struct sim_scenario, ops), 0, 100000000 },
	{ OPT_KEYS, offsetof(struct sim_scenario, keys), 1, 100000000 },
	{ OPT_KEY_BYTES, offsetof(struct sim_scenario, key_bytes), NAM_KEY_BYTES_MIN,
		NAM_KEY_BYTES_MAX },
	{ OPT_NODE_BYTES, offsetof(struct sim_scenario, node_bytes), NAM_NODE_BYTES_MIN,
		NAM_NODE_BYTES_MAX },
	{ OPT_HEAD_INTERVAL, offsetof(struct sim_scenario, head_interval), 0, 1000000 },
	{ OPT_TIDE, offsetof(struct sim_scenario, tide), 0, 100000000 },
	{ OPT_COLLECTS, offsetof(struct sim_scenario, collects), 0, 1000 },
	{ OPT_SLOW_SERVER, offsetof(struct sim_scenario, slow_server), 0, 1000000 },
	{ OPT_NEAR, offsetof(struct sim_scenario, near), 0, 1000 },
	{ OPT_SPARE, offsetof(struct sim_scenario, spare), 0, 1000000 },
	{ OPT_BULK, offsetof(struct sim_scenario, bulk), 50, 100 },
	{ OPT_KV, offsetof(struct sim_scenario, kv), 0, 100 },
	{ OPT_KILLS, offsetof(struct sim_scenario, kills), 0, 1000 },
	{ OPT_SERVER_KILLS, offsetof(struct sim_scenario, server_kills), 0, 1000 },
	{ OPT_STALLS, offsetof(struct sim_scenario, stalls), 0, 1000 },
	{ OPT_STEPS, offsetof(struct sim_scenario, sim.step_bytes), 8, 64 },
};
#define SMALL_NUMBERS (sizeof(small_numbers) / sizeof(small_numbers[0]))

static const char *
option_name(int option)
{
	for (const struct option *o = options; o->name; o++)
		if (o->val == option)
			return o->name;
	return "";
}

/* False: it is another kind of option. */
static bool
set_small_number(struct sim_scenario *scenario, int option, const char *text)
{
	for (size_t i = 0; i < SMALL_NUMBERS; i++) {
		uint64_t value;

		if (small_numbers[i].option != option)
			continue;
		value = number(text);
		if (value < small_numbers[i].low || value > small_numbers[i].high ||
			(option == OPT_NODE_BYTES && (value & (value - 1))))
			sim_die("--%s %s: %s from %u to %u is needed", option_name(option), text,
				option == OPT_NODE_BYTES ? "a power of two" : "a number",
				small_numbers[i].low, small_numbers[i].high);
		if (option == OPT_STEPS && value != 8 && value != 64)
			sim_die("--steps %s: 8 or 64 is needed", text);
		*(uint32_t *)(void *)((char *)scenario + small_numbers[i].field) = (uint32_t)value;
		return true;
	}
	return false;
}

/* That it cannot be written is to be known before the run, not after it. */
static const char *
writable(const char *path)
{
	FILE *file = fopen(path, "a");

	if (!file || fclose(file))
		sim_die("%s cannot be written: %s", path, strerror(errno));
	return path;
}

static void
guard_off(const char *name)
{
	int rc = nam_guard_off(name);

	if (rc)
		sim_die("%s: %s", name, rc == -2 ? "there is no such guard" :
			"this build's guards cannot be turned off (-DNAM_SIM_POINTS=ON)");
}

/* Everything but the seeds belongs to the line that repeats a run. */
static void
remember(struct request *request, int option, const char *value)
{
	size_t length = strlen(request->line);

	if (option == OPT_SEED || option == OPT_SEEDS || option == OPT_TWICE ||
		option == OPT_QUIET || option == OPT_TRACE || option == OPT_JSON ||
		option == OPT_PLAIN || option == OPT_POINTS)
		return;
	(void)snprintf(request->line + length, sizeof(request->line) - length, " --%s%s%s",
		option_name(option), value ? " " : "", value ? value : "");
}

static void
set_other(struct request *request, int option)
{
	switch (option) {
	case OPT_PROFILE:
		set_profile(request, optarg);
		break;
	case OPT_TRANSPORT:
		if (nam_transport_find(optarg) < 0)
			sim_die("--transport %s: there are srq, mailbox, fetch and datagram",
			optarg);
		request->scenario.transport = (enum nam_transport)nam_transport_find(optarg);
		request->scenario.transport_given = true;
		break;
	case OPT_DESIGN:
		set_design(request, optarg);
		break;
	case OPT_PARTITION:
		set_partitioning(request, optarg);
		break;
	case OPT_SEED:
		request->scenario.sim.seed = strcmp(optarg, "random") ? number(optarg) :
			nam_entropy() % 1000000000;
		break;
	case OPT_SEEDS:
		request->seeds = number(optarg);
		if (!request->seeds)
			sim_die("--seeds 0 is no run");
		break;
	case OPT_CACHE:
		request->scenario.cache_bytes = number(optarg);
		break;
	case OPT_MEMORY:
		request->scenario.memory_bytes = number(optarg);
		break;
	case OPT_MIX:
		set_mix(request, optarg);
		break;
	case OPT_VARY:
		request->vary = true;
		break;
	case OPT_NO_COLLECTOR:
		request->scenario.collector = false;
		break;
	case OPT_FAULTS:
		set_faults(request, optarg);
		break;
	case OPT_GUARD_OFF:
		guard_off(optarg);
		break;
	case OPT_NO_HISTORY:
		request->scenario.record = false;
		break;
	case OPT_JSON:
		request->json = writable(optarg);
		break;
	case OPT_PLAIN:
		request->plain = writable(optarg);
		break;
	case OPT_TRACE:
		request->scenario.sim.trace = stdout;
		break;
	case OPT_TWICE:
		request->twice = true;
		break;
	case OPT_TEMPORARY:
		request->scenario.temporary = true;
		break;
	case OPT_PAIRS:
		request->scenario.pairs = true;
		break;
	case OPT_DELETE_PAIRS:
		request->scenario.delete_pairs = true;
		break;
	case OPT_POINTS:
		request->scenario.on_race = point_reached;
		break;
	case OPT_QUIET:
		request->quiet = true;
		break;
	case OPT_HELP:
		(void)fputs(usage, stdout);
		exit(0);
	default:
		sim_die("%s", usage);
	}
}

static void
parse(int argc, char **argv, struct request *request)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (!set_small_number(&request->scenario, option, optarg))
			set_other(request, option);
		request->scenario.kv_given |= option == OPT_KV;
		remember(request, option, optarg);
	}
	if (optind != argc)
		sim_die("%s", usage);
	if (request->scenario.pairs && request->plain)
		sim_die("--plain knows one value for a key, and --pairs has several: take --json");
	if (request->scenario.keys > 1000)
		request->scenario.memory_bytes += 512ull * request->scenario.keys;
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

/* How to repeat the run under way: for runs that end without getting to say so themselves. */
static char repeat[1200];

static void
ended_by(int signal_number)
{
	(void)!write(STDOUT_FILENO, repeat, strlen(repeat));
	(void)signal(signal_number, SIG_DFL);
	(void)raise(signal_number);
}

static void
prepare_repeat(const struct request *request)
{
	static const int signals[] = { SIGABRT, SIGTERM,
#ifndef __SANITIZE_ADDRESS__	/* which has more to say of these than we have */
		SIGSEGV, SIGBUS, SIGFPE,
#endif
	};

	(void)snprintf(repeat, sizeof(repeat),
		"ENDED by a signal\ncommit %s " KIND_OF_BUILD "; again: run_sim --seed %llu%s\n",
		NAM_SIM_COMMIT, (unsigned long long)request->scenario.sim.seed, request->line);
	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
		(void)signal(signals[i], ended_by);
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
			"%llu merges, %llu nodes retired, %llu reusable, fingerprint "
			"%016llx, %llu keys undecided; "
			"%llu killed, %llu stalls, %llu servers dead, %llu queue pairs broken, "
			"%llu zombies, %llu refills refused, %llu times a server slow, "
			"%llu loads, %llu drops, %llu operations on a store, %llu of them "
			"unknown, longest operation %.3f ms, pass %.3f ms; "
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
	if (request.scenario.on_race)
		points_print();
	return failures ? 1 : 0;
}
