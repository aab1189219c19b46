/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdio.h>
#include <string.h>

#include "common/rpc/frame.h"
#include "kv/kv.h"
#include "bench/bench.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/simulation.h"

#define SECONDS_DEFAULT 2.0
#define SECONDS_SIMULATED 0.002
#define KEYS_DEFAULT 100000u
#define KEYS_SIMULATED 10000u
#define MIXED_FETCHED 512u		/* as the paper does */

/* Lines of more than one --help. */
#define HELP_CLUSTER                                                                                \
	"  --cluster CLUSTER   shm:PATH,shm:PATH or @FILE (or the environment's NAM_CLUSTER);\n"    \
	"                      sim:PROFILE: a simulated cluster\n"

#define HELP_TRANSPORT                                                                                \
	"  --transport TRANSPORT  srq, mailbox, fetch or datagram (default: the environment's\n"       \
	"                      NAM_TRANSPORT, else srq)\n"

#define HELP_FRAMES                                                                                 \
	"  --frame-bytes N     of a place in a mailbox, a multiple of 64 (default 4160)\n"          \
	"  --always            --transport fetch: fetch even if memory servers are slow\n"

#define HELP_HOW_LONG                                                                               \
	"  --seconds S         how long (default 2; simulated: 0.002)\n"                            \
	"  --clients N         simulated: processes, each with its threads (default 1)\n"           \
	"  --memservers N      simulated (default 1)\n"                                             \
	"  --rpc-threads N     simulated: handler threads of each (default: the profile's)\n"

#define HELP_END                                                                                    \
	"  --json FILE         results as JSON; - for standard output\n"                            \
	"  --quiet             no table\n"                                                          \
	"  --help              this text\n"                                                         \
	"\n"                                                                                        \
	NAM_EXIT_HELP

static const char rpc_help[] =
	"Usage: nam-bench rpc --cluster CLUSTER [OPTION]...\n"
	"Requests to memory servers, closed loop: every reply is checked.\n"
	"\n"
	HELP_CLUSTER
	HELP_TRANSPORT
	"  --bytes N           of a request's body, 8 to 4072 (default 32)\n"
	"  --reply-bytes N     of a reply's body, 0 to 4072 (default 32)\n"
	"  --fetch-bytes N     --transport fetch: of the READ that looks for a reply; 48 of them\n"
	"                      are not the body's (default: as many as this reply takes)\n"
	HELP_FRAMES
	"  --threads N         (default 1)\n"
	"  --fibers N          of each thread, a request each (default 1)\n"
	"  --ops N             how many in all, or\n"
	HELP_HOW_LONG
	"  --seed N            of the simulation (default 1)\n"
	HELP_END;

static const char kv_help[] =
	"Usage: nam-bench kv --cluster CLUSTER [OPTION]...\n"
	"A key-value store that memory servers keep, closed loop: it is made, filled, read and\n"
	"written, and dropped.  Keys have 16 bytes; every value is checked.\n"
	"\n"
	HELP_CLUSTER
	HELP_TRANSPORT
	"  --get-percent P     of operations that read, 0 to 100; the others write (default 95)\n"
	"  --distribution D    of the keys that are asked for: uniform (default) or zipfian,\n"
	"                      with a parameter of 0.99\n"
	"  --value-bytes N     0 to 3800 (default 32); mixed: 1 to 899, 43 on average, as the\n"
	"                      texts were of which the RFP paper tells\n"
	"  --keys N            (default 100k; simulated: 10k)\n"
	"  --partitions N      of each memory server, 1 to 1024 (default 16)\n"
	"  --fetch-bytes N     --transport fetch: of the READ that looks for a reply; 48 of them\n"
	"                      are not the value's (default: as many as a value takes; mixed:\n"
	"                      560)\n"
	HELP_FRAMES
	"  --threads N         (default 1)\n"
	"  --fibers N          of each thread, a request each (default 1)\n"
	"  --ops N             how many in all, or\n"
	HELP_HOW_LONG
	"  --seed N            (default 1)\n"
	HELP_END;

static const char ramp_help[] =
	"Usage: nam-bench ramp --cluster CLUSTER [OPTION]...\n"
	"Transactions over records (RAMP), closed loop: a store is made, loaded, read and\n"
	"written, and dropped.  Every value is checked, and whether half of a transaction was\n"
	"read.\n"
	"\n"
	HELP_CLUSTER
	"  --algorithm A       fast (default), small or hybrid; none: not read atomic; 2pl:\n"
	"                      two-phase locking\n"
	"  --transport C         onesided (default): prepare and commit by WRITE and CAS, get by\n"
	"                      READ; star: get by READ, put by requests in mailboxes; plus: both\n"
	"                      by those; message: both by SEND.  small, hybrid, none and 2pl\n"
	"                      go by plus and message\n"
	"  --transaction-size N  records, 1 to 32 (default 4)\n"
	"  --batch N           transactions of a call, 1 to 64: those that read by one\n"
	"                      nam_records_get_many() (default 1: nam_records_get_all())\n"
	"  --raw-ratio         transactions that read, by turns with READs of as many bytes,\n"
	"                      and the ratio of their rates; only with --read-ratio 100\n"
	"  --read-ratio P      of transactions that read, 0 to 100; the others write (default 95)\n"
	"  --distribution D    of the records: uniform (default) or zipfian, with a parameter of\n"
	"                      0.99\n"
	"  --value-bytes N     8 to 4096 (default 32)\n"
	"  --keys N            (default 100k; simulated: 10k)\n"
	"  --threads N         (default 1)\n"
	"  --fibers N          of each thread, a transaction each (default 1)\n"
	"  --ops N             transactions in all, or\n"
	HELP_HOW_LONG
	"  --seed N            (default 1)\n"
	HELP_END;

enum {
	OPT_CLUSTER = 256, OPT_TRANSPORT, OPT_BYTES, OPT_REPLY_BYTES, OPT_FETCH_BYTES,
	OPT_FRAME_BYTES, OPT_ALWAYS, OPT_THREADS, OPT_FIBERS, OPT_OPS, OPT_SECONDS, OPT_CLIENTS,
	OPT_MEMSERVERS, OPT_RPC_THREADS, OPT_SEED, OPT_JSON, OPT_QUIET, OPT_HELP,
	OPT_GET_PERCENT, OPT_DISTRIBUTION, OPT_VALUE_BYTES, OPT_KEYS, OPT_PARTITIONS,
	OPT_ALGORITHM, OPT_RAMP_TRANSPORT, OPT_TRANSACTION_SIZE, OPT_READ_RATIO,
	OPT_RAMP_VALUE_BYTES, OPT_BATCH, OPT_RAW_RATIO,
};

#define TRANSPORT_OPTIONS                                                                             \
	{ "transport", required_argument, NULL, OPT_TRANSPORT },                                        \
	{ "fetch-bytes", required_argument, NULL, OPT_FETCH_BYTES },                                \
	{ "frame-bytes", required_argument, NULL, OPT_FRAME_BYTES },                                \
	{ "always", no_argument, NULL, OPT_ALWAYS }

#define COMMON_OPTIONS                                                                              \
	{ "cluster", required_argument, NULL, OPT_CLUSTER },                                        \
	{ "threads", required_argument, NULL, OPT_THREADS },                                        \
	{ "fibers", required_argument, NULL, OPT_FIBERS },                                          \
	{ "ops", required_argument, NULL, OPT_OPS },                                                \
	{ "seconds", required_argument, NULL, OPT_SECONDS },                                        \
	{ "clients", required_argument, NULL, OPT_CLIENTS },                                        \
	{ "memservers", required_argument, NULL, OPT_MEMSERVERS },                                  \
	{ "rpc-threads", required_argument, NULL, OPT_RPC_THREADS },                                \
	{ "seed", required_argument, NULL, OPT_SEED },                                              \
	{ "json", required_argument, NULL, OPT_JSON },                                              \
	{ "quiet", no_argument, NULL, OPT_QUIET },                                                  \
	{ "help", no_argument, NULL, OPT_HELP },                                                    \
	{ NULL, 0, NULL, 0 }

static const struct option rpc_known[] = {
	{ "bytes", required_argument, NULL, OPT_BYTES },
	{ "reply-bytes", required_argument, NULL, OPT_REPLY_BYTES },
	TRANSPORT_OPTIONS,
	COMMON_OPTIONS,
};

static const struct option kv_known[] = {
	{ "get-percent", required_argument, NULL, OPT_GET_PERCENT },
	{ "distribution", required_argument, NULL, OPT_DISTRIBUTION },
	{ "value-bytes", required_argument, NULL, OPT_VALUE_BYTES },
	{ "keys", required_argument, NULL, OPT_KEYS },
	{ "partitions", required_argument, NULL, OPT_PARTITIONS },
	TRANSPORT_OPTIONS,
	COMMON_OPTIONS,
};

static const struct option ramp_known[] = {
	{ "algorithm", required_argument, NULL, OPT_ALGORITHM },
	{ "transport", required_argument, NULL, OPT_RAMP_TRANSPORT },
	{ "transaction-size", required_argument, NULL, OPT_TRANSACTION_SIZE },
	{ "batch", required_argument, NULL, OPT_BATCH },
	{ "raw-ratio", no_argument, NULL, OPT_RAW_RATIO },
	{ "read-ratio", required_argument, NULL, OPT_READ_RATIO },
	{ "distribution", required_argument, NULL, OPT_DISTRIBUTION },
	{ "value-bytes", required_argument, NULL, OPT_RAMP_VALUE_BYTES },
	{ "keys", required_argument, NULL, OPT_KEYS },
	COMMON_OPTIONS,
};

static const struct {
	const char *name;
	const char *help;
	const struct option *known;
} subcommands[] = {
	{ "rpc", rpc_help, rpc_known },
	{ "kv", kv_help, kv_known },
	{ "ramp", ramp_help, ramp_known },
};

static int
take_distribution(struct requests_options *o, const char *value)
{
	o->zipfian = !strcmp(value, "zipfian");
	return o->zipfian || !strcmp(value, "uniform") ? 0 :
		option_bad_choice("--distribution", value, "uniform or zipfian");
}

static int
take_value_bytes(struct requests_options *o, const char *value)
{
	o->mixed = !strcmp(value, "mixed");
	if (o->mixed)
		return 0;
	if (*value < '0' || *value > '9')
		return option_bad_choice("--value-bytes", value, "mixed, or a number");
	return option_count32("--value-bytes", value, 0, NAM_KV_VALUE_BYTES_MAX, &o->value_bytes);
}

static int
take_algorithm(struct requests_options *o, const char *value)
{
	int algorithm = nam_ramp_find(value);

	if (algorithm < 0)
		return option_bad_choice("--algorithm", value, "fast, small, hybrid, none or 2pl");
	o->algorithm = (enum nam_ramp)algorithm;
	return 0;
}

static int
take_ramp_transport(struct requests_options *o, const char *value)
{
	static const struct {
		const char *name;
		enum nam_transport transport;
		bool star, onesided;
	} transports[] = {
		{ "message", NAM_TRANSPORT_SRQ, false, false },
		{ "plus", NAM_TRANSPORT_MAILBOX, false, false },
		{ "star", NAM_TRANSPORT_MAILBOX, true, false },
		{ "onesided", NAM_TRANSPORT_SRQ, true, true },
	};

	for (unsigned i = 0; i < 4; i++) {
		if (strcmp(value, transports[i].name) != 0)
			continue;
		o->ramp_transport = transports[i].name;
		o->transport = transports[i].transport;
		o->star = transports[i].star;
		o->onesided = transports[i].onesided;
		return 0;
	}
	return option_bad_choice("--transport", value, "message, plus, star or onesided");
}

static int
take_ramp(struct requests_options *o, int option, const char *value)
{
	switch (option) {
	case OPT_ALGORITHM:
		return take_algorithm(o, value);
	case OPT_RAMP_TRANSPORT:
		return take_ramp_transport(o, value);
	case OPT_TRANSACTION_SIZE:
		return option_count32("--transaction-size", value, 1, NAM_RECORDS_MAX,
			&o->transaction_size);
	case OPT_RAW_RATIO:
		o->raw_ratio = true;
		return 0;
	case OPT_BATCH:
		return option_count32("--batch", value, 1, BENCH_RAMP_BATCH_MAX, &o->batch);
	case OPT_READ_RATIO:
		return option_number("--read-ratio", value, 0, 100, &o->get_percent);
	default:
		return option_count32("--value-bytes", value, 8, BENCH_RAMP_VALUE_BYTES_MAX,
			&o->value_bytes);
	}
}

static int
take_kv(struct requests_options *o, int option, const char *value)
{
	switch (option) {
	case OPT_GET_PERCENT:
		return option_number("--get-percent", value, 0, 100, &o->get_percent);
	case OPT_DISTRIBUTION:
		return take_distribution(o, value);
	case OPT_VALUE_BYTES:
		return take_value_bytes(o, value);
	case OPT_KEYS:
		return option_count("--keys", value, 1, 1ull << 32, &o->keys);
	case OPT_PARTITIONS:
		return option_count32("--partitions", value, 1, NAM_KV_PARTITIONS_MAX,
			&o->partitions);
	default:
		return take_ramp(o, option, value);
	}
}

static int
take(void *options, int option, const char *value)
{
	struct requests_options *o = options;

	switch (option) {
	case OPT_CLUSTER:
		o->cluster = value;
		return 0;
	case OPT_TRANSPORT:
		return option_transport(value, &o->transport);
	case OPT_BYTES:
		return option_count32("--bytes", value, sizeof(struct nam_rpc_echo_request),
			NAM_RPC_BODY_MAX, &o->bytes);
	case OPT_REPLY_BYTES:
		return option_count32("--reply-bytes", value, 0, NAM_RPC_BODY_MAX,
			&o->reply_bytes);
	case OPT_FETCH_BYTES:
		return option_count32("--fetch-bytes", value, NAM_FRAME_OVERHEAD,
			NAM_FRAME_BYTES_MAX, &o->fetch_bytes);
	case OPT_FRAME_BYTES:
		return option_count32("--frame-bytes", value, NAM_FRAME_BYTES_MIN,
			NAM_FRAME_BYTES_MAX, &o->frame_bytes);
	case OPT_ALWAYS:
		o->fetch_always = true;
		return 0;
	case OPT_THREADS:
		return option_count32("--threads", value, 1, 1024, &o->threads);
	case OPT_FIBERS:
		return option_count32("--fibers", value, 1, 1024, &o->fibers);
	case OPT_OPS:
		return option_count("--ops", value, 1, UINT64_MAX / 2, &o->ops);
	case OPT_SECONDS:
		return option_number("--seconds", value, 0.00001, 1e6, &o->seconds);
	case OPT_CLIENTS:
		return option_count32("--clients", value, 1, 1000, &o->clients);
	case OPT_MEMSERVERS:
		return option_count32("--memservers", value, 1, SIMULATION_MEMSERVERS_MAX,
			&o->memservers);
	case OPT_RPC_THREADS:
		return option_count32("--rpc-threads", value, 1, 64, &o->rpc_threads);
	case OPT_SEED:
		return option_count("--seed", value, 0, UINT64_MAX, &o->seed);
	case OPT_JSON:
		o->json = value;
		return 0;
	case OPT_QUIET:
		o->quiet = true;
		return 0;
	default:
		return take_kv(o, option, value);
	}
}

/* How much of a reply's body one fetch is to hold. */
static uint32_t
body_bytes(const struct requests_options *o)
{
	if (strcmp(o->subcommand, "kv") != 0)
		return o->reply_bytes;
	return o->mixed ? MIXED_FETCHED : o->value_bytes;
}

/* Checks of options against each other. */
static int
settle(struct requests_options *o)
{
	bool simulated;

	o->cluster = bench_cluster(o->cluster, o->subcommand);
	if (!o->cluster)
		return -1;
	simulated = simulation_wanted(o->cluster);
	if (!simulated && (o->clients || o->memservers || o->rpc_threads)) {
		bench_complain("--clients, --memservers, --rpc-threads: only of a simulated "
			"cluster; say --cluster sim:PROFILE, or start more of nam-bench");
		return -1;
	}
	if (o->ops && o->seconds > 0) {
		bench_complain("--ops and --seconds: say one of them");
		return -1;
	}
	if (o->raw_ratio && (simulated || o->ops || !o->star || o->get_percent < 100)) {
		bench_complain("--raw-ratio: only of a cluster that is not simulated, for "
			"--seconds, with --transport onesided or star and --read-ratio 100");
		return -1;
	}
	if (o->star && o->algorithm == NAM_RAMP_LOCKING) {
		bench_complain("--transport %s does not go with --algorithm 2pl: memory servers "
			"keep "
			"its locks, and have to be asked; say plus or message", o->ramp_transport);
		return -1;
	}
	if (o->star && o->algorithm == NAM_RAMP_NONE) {
		bench_complain("--transport %s does not go with --algorithm none, which is what "
			"memory servers do without any, to compare with; say plus or message",
			o->ramp_transport);
		return -1;
	}
	if (o->star && o->algorithm != NAM_RAMP_FAST) {
		bench_complain("--transport %s goes with --algorithm fast only: who reads by "
			"address, or commits by CAS, finds no version by its timestamp; say plus "
			"or message", o->ramp_transport);
		return -1;
	}
	if (o->frame_bytes % 64) {
		bench_complain("--frame-bytes: %u is not a multiple of 64", o->frame_bytes);
		return -1;
	}
	if (!(o->seconds > 0))
		o->seconds = simulated ? SECONDS_SIMULATED : SECONDS_DEFAULT;
	o->clients += !o->clients;
	o->memservers += !o->memservers;
	if (!o->fetch_bytes && !o->ramp_transport)
		o->fetch_bytes = nam_frame_bytes((uint32_t)sizeof(struct nam_rpc_header) +
			body_bytes(o));
	if (!o->keys)
		o->keys = simulated ? KEYS_SIMULATED : KEYS_DEFAULT;
	if (o->json && report_check(o->json))
		return -1;
	if (o->json && !strcmp(o->json, "-"))
		o->quiet = true;
	return 0;
}

int
requests_options_parse(const char *subcommand, int argc, char **argv,
	struct requests_options *ret_options, int *ret_exit)
{
	struct requests_options options = {
		.subcommand = subcommand, .bytes = 32, .reply_bytes = 32, .threads = 1,
		.fibers = 1, .seed = 1, .get_percent = 95, .value_bytes = 32,
		.transaction_size = 4, .batch = 1, .algorithm = NAM_RAMP_FAST,
	};
	struct option_set set = { .help_option = OPT_HELP, .take = take };
	unsigned which = 0;

	*ret_exit = NAM_EXIT_USAGE;
	while (strcmp(subcommand, subcommands[which].name) != 0)
		which++;
	if (!strcmp(subcommand, "ramp") && take_ramp_transport(&options, "onesided"))
		return 1;
	set.known = subcommands[which].known;
	set.help = subcommands[which].help;
	if (options_take(argc, argv, &set, &options, ret_exit))
		return 1;
	if (settle(&options))
		return 1;
	*ret_options = options;
	return 0;
}
