/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/rpc/frame.h"
#include "kv/kv.h"
#include "bench/bench.h"
#include "bench/options.h"
#include "bench/simulation.h"

#define SECONDS_DEFAULT 2.0
#define SECONDS_SIMULATED 0.002
#define KEYS_DEFAULT 100000u
#define KEYS_SIMULATED 10000u
#define MIXED_FETCHED 512u		/* as the paper does */
#define LONG_FETCHED 64u
#define TPCC_ITEMS_MIN 20u		/* and more than an order has */

static const char *const uniform_or_zipfian[] = { "uniform", "zipfian", NULL };
static const char *const get_kinds[] = { "request", "onesided", NULL };
static const char *const engines[] = { "chained", "cuckoo", NULL };
static const char *const ramp_transports[] = { "message", "plus", "star", "onesided", NULL };
static const char *const txn_workloads[] = { "smallbank", "ycsb-t", "tpcc", "tpcc-new-order",
	"tpce-customer-position", NULL };
static const char *const by_means[] = { "onesided", "rpc", NULL };
static const char *const txn_stores[] = { "serializable", "2pl", NULL };
static const char *const algorithms[] = { "fast", "small", "hybrid", "none", "2pl", NULL };

static int
take_value_bytes(void *options, const char *text, struct nam_diag *diag)
{
	struct requests_options *o = options;
	char *end;
	unsigned long bytes = strtoul(text, &end, 10);

	o->mixed = !strcmp(text, "mixed");
	if (o->mixed)
		return 0;
	if (*text < '0' || *text > '9' || *end || bytes > NAM_KV_VALUE_BYTES_MAX)
		return nam_diag_set(diag, -EINVAL, "'%s' is not known; choose mixed, or a whole "
			"number from 0 to %u", text, NAM_KV_VALUE_BYTES_MAX);
	o->value_bytes = (uint32_t)bytes;
	return 0;
}

static const struct {
	const char *name;
	enum nam_txn_preset phases;
} presets[] = { { "drtm-h", NAM_TXN_DRTM_H }, { "farm", NAM_TXN_FARM },
	{ "drtm-r", NAM_TXN_DRTM_R }, { "fasst", NAM_TXN_FASST } };

static int
take_preset(void *options, const char *text, struct nam_diag *diag)
{
	struct requests_options *o = options;

	for (unsigned i = 0; i < sizeof(presets) / sizeof(presets[0]); i++)
		if (!strcmp(text, presets[i].name)) {
			o->txn_preset = presets[i].name;
			o->txn_phases = presets[i].phases;
			return 0;
		}
	return nam_diag_set(diag, -EINVAL, "'%s' is not known; choose farm, drtm-r, fasst or "
		"drtm-h", text);
}

#define FIELD(field) NAM_OPTION_FIELD(struct requests_options, field)
#define SET(field) .set = offsetof(struct requests_options, field)

#define FRAMES                                                                                      \
	{ "fetch-bytes", "N", "With --transport fetch: the size of the READ that looks for a "      \
		"reply (default: what the reply takes; mixed values: 560). 48 bytes of it are the " \
		"frame's. A longer reply takes a second READ.", NAM_OPTION_COUNT,                   \
		BENCH_FIELD(fetch_bytes), .min = NAM_FRAME_OVERHEAD, .max = NAM_FRAME_BYTES_MAX },  \
	{ "frame-bytes", "N", "The size of a slot in a mailbox, a multiple of 64 (default 4160). "  \
		"Longer requests go by srq.", NAM_OPTION_COUNT, BENCH_FIELD(frame_bytes),           \
		.min = NAM_FRAME_BYTES_MIN, .max = NAM_FRAME_BYTES_MAX },                           \
	{ "always", NULL, "With --transport fetch: fetch even if memory servers are slow.",         \
		NAM_OPTION_FLAG, BENCH_FIELD(fetch_always) }

#define KEYS                                                                                        \
	{ "keys", "N", "Keys (default 100k; simulated: 10k).", NAM_OPTION_COUNT, FIELD(keys),       \
		.min = 1, .max = 1ull << 32 }

#define RAW_RATIO(condition)                                                                        \
	{ "raw-ratio", NULL, "By turns with READs of as many bytes; print the ratio of their rates " \
		"per second of processor time. Only with --read-ratio 100, --seconds, and "         \
		condition ".", NAM_OPTION_FLAG, FIELD(raw_ratio) }

#define RUN                                                                                         \
	BENCH_FIBERS("Fibers of a thread, with a request each (default "                            \
		"1)."),                                                                             \
	BENCH_LENGTH("2; simulated: 0.002"),                                                        \
	BENCH_SIMULATED("1", 1000),                                                                 \
	BENCH_OUTPUT

static const struct nam_option rpc_rows[] = {
	BENCH_CLUSTER,
	BENCH_TRANSPORT,
	{ "bytes", "N", "The size of a request's body, 8 to 4072 (default 32).", NAM_OPTION_COUNT,
		FIELD(bytes), .min = sizeof(struct nam_rpc_echo_request), .max = NAM_RPC_BODY_MAX },
	{ "reply-bytes", "N", "The size of a reply's body, 0 to 4072 (default 32).",
		NAM_OPTION_COUNT, FIELD(reply_bytes), .max = NAM_RPC_BODY_MAX },
	FRAMES,
	RUN,
	{ 0 },
};

static const struct nam_option kv_rows[] = {
	BENCH_CLUSTER,
	BENCH_TRANSPORT,
	{ "workload", "W", "Shares and distribution as YCSB has them: ycsb-a to ycsb-d.",
		NAM_OPTION_TEXT, FIELD(workload) },
	{ "get-percent", "P", "The per cent of operations that read (default 95, or what inserts "
		"leave).", NAM_OPTION_REAL, FIELD(get_percent), SET(get_percent_set), .high = 100 },
	{ "insert-percent", "P", "The per cent that add a new key (default 0). The others update.",
		NAM_OPTION_REAL, FIELD(insert_percent), .high = 100 },
	{ "distribution", "D", "Of the keys that are read and updated: uniform (default), "
		"zipfian, or latest: a key is the more likely, the later it was inserted. The "
		"last two with a parameter of 0.99.", NAM_OPTION_CHOICE, FIELD(distribution),
		SET(distribution_set), .choices = distribution_names },
	KEYS,
	{ "value-bytes", "N", "The length of values, 0 to 1048576 (default 32); or mixed: 1 to 899 "
		"bytes, 43 on average, as the texts in the RFP paper.", NAM_OPTION_CALL,
		.take = take_value_bytes },
	{ "batch", "N", "Requests of a call, 1 to 64: the GETs among them by nam_kv_get_many "
		"(default 1: nam_kv_get). Each counts with the latency of the call.",
		NAM_OPTION_COUNT, FIELD(batch), .min = 1, .max = BENCH_BATCH_MAX },
	{ "engine", "ENGINE", "How memory servers keep pairs: chained (default), or cuckoo.",
		NAM_OPTION_CHOICE, FIELD(engine), .min = NAM_KV_CHAINED, .choices = engines },
	{ "compare", NULL, "By turns of 2 ms with a store of the other engine; print the ratio of "
		"their rates. Only of a cluster that is not simulated, for --seconds, by requests, "
		"and without inserts.", NAM_OPTION_FLAG, FIELD(compare) },
	{ "partitions", "N", "Partitions of the store on each memory server, 1 to 1024 (default "
		"16).", NAM_OPTION_COUNT, FIELD(partitions), .min = 1,
		.max = NAM_KV_PARTITIONS_MAX },
	{ "get", "HOW", "request (default), or onesided: READs of the buckets of short pairs, with "
		"--engine cuckoo.", NAM_OPTION_CHOICE, FIELD(onesided), .choices = get_kinds },
	{ "load-factor", "F", "Give the store so much memory that the keys fill it to F, between 0 "
		"and 1 (default: about 0.5). F counts slots of cuckoo, and cells of chained. "
		"Partitions, unless said, are as many as come close to F.", NAM_OPTION_REAL,
		FIELD(load_factor), .low = 0.01, .high = 1 },
	FRAMES,
	RUN,
	{ 0 },
};

static const struct nam_option pilaf_rows[] = {
	BENCH_CLUSTER,
	{ "distribution", "D", "Of the keys: uniform (default), or zipfian with a parameter of "
		"0.99.", NAM_OPTION_CHOICE, FIELD(distribution), .choices = uniform_or_zipfian },
	KEYS,
	{ "value-bytes", "N", "The length of values, 0 to 3800 (default 32).", NAM_OPTION_COUNT,
		FIELD(value_bytes), .max = NAM_KV_MESSAGE_BYTES_MAX },
	RUN,
	{ 0 },
};

static const struct nam_option ramp_rows[] = {
	BENCH_CLUSTER, { "algorithm", "A", "How a reader learns that it "
		"has half of a transaction: fast (default), small or hybrid, as in the RAMP paper. "
		"With none it does not; such reads are counted and are no errors. 2pl is strict "
		"two-phase locking with two-phase commit.", NAM_OPTION_CHOICE, FIELD(algorithm),
		.min = NAM_RAMP_FAST, .choices = algorithms },
	{ "transport", "C", "onesided (default): clients prepare by WRITE, commit by CAS, and get "
		"by READ. star: get by READ, put by requests in mailboxes. plus: both by requests "
		"in mailboxes. message: both by SEND. The first two go with --algorithm fast only.",
		NAM_OPTION_CHOICE, FIELD(ramp_transport), .min = RAMP_MESSAGE,
		.choices = ramp_transports },
	{ "transaction-size", "N", "Records of a transaction, 1 to 32 (default 4).",
		NAM_OPTION_COUNT, FIELD(transaction_size), .min = 1, .max = NAM_RECORDS_MAX },
	{ "batch", "N", "Transactions of a call, 1 to 64: those that read do so by "
		"nam_records_get_many (default 1: nam_records_get_all). Each counts as a "
		"request with the latency of the call.", NAM_OPTION_COUNT, FIELD(batch), .min = 1,
		.max = BENCH_BATCH_MAX },
	RAW_RATIO("--transport onesided or star"),
	{ "read-ratio", "P", "The per cent of transactions that read; the others write (default "
		"95).", NAM_OPTION_REAL, FIELD(get_percent), .high = 100 },
	{ "distribution", "D", "Of the keys: uniform (default), or zipfian with a parameter of "
		"0.99.", NAM_OPTION_CHOICE, FIELD(distribution), .choices = uniform_or_zipfian },
	KEYS,
	{ "value-bytes", "N", "The length of values, 8 to 4096 (default 32).", NAM_OPTION_COUNT,
		FIELD(value_bytes), .min = 8, .max = BENCH_RAMP_VALUE_BYTES_MAX },
	RUN,
	{ 0 },
};

/* enum txn_means of each of NAM_TXN_*_RPC, in the order of these bits. */
#define PHASE(number, name, what)                                                                   \
	{ name, "M", what " goes onesided, or by rpc (default: the preset's).", NAM_OPTION_CHOICE,  \
		FIELD(txn_means[number]), .min = TXN_ONESIDED, .choices = by_means }

#define TPCC(name, what, field, least, most)                                                        \
	{ name, "N", "tpcc, tpcc-new-order: " what ".", NAM_OPTION_COUNT, FIELD(field),             \
		SET(tpcc_set), .min = (least), .max = (most) }

static const struct nam_option txn_rows[] = {
	BENCH_CLUSTER,
	BENCH_TRANSPORT,
	{ "workload", "W", "smallbank (default): six transactions on accounts. ycsb-t: "
		"transactions that read some records, or read each and add 1 to it. tpcc: the "
		"five transactions of TPC-C; at the end its consistency is checked. "
		"tpcc-new-order: one of them, always with an item of another warehouse. "
		"tpce-customer-position: a transaction of TPC-E that reads.",
		NAM_OPTION_CHOICE, FIELD(txn_workload), .min = TXN_SMALLBANK,
		.choices = txn_workloads },
	{ "store", "S", "serializable (default); or 2pl, to compare with: a record store with "
		"two-phase locking. Its transactions either read or write, so a transaction that "
		"does both is two there, and updates are lost.", NAM_OPTION_CHOICE,
		FIELD(txn_store), .min = TXN_SERIALIZABLE, .choices = txn_stores },
	{ "preset", "P", "How the phases of a serializable transaction go, as in a published "
		"system: farm, drtm-r, fasst, drtm-h (default).", NAM_OPTION_CALL,
		.take = take_preset },
	PHASE(0, "execute", "The execution"),
	PHASE(1, "lock", "The lock phase"),
	PHASE(2, "validate", "The validation"),
	PHASE(3, "log", "The log"),
	PHASE(4, "commit", "The write of the records"),
	{ "symmetric", NULL, "Simulated: clients run on the machines of the memory servers, by "
		"turns, and their threads do the work of these as they poll.", NAM_OPTION_FLAG,
		BENCH_FIELD(symmetric) },
	{ "one-at-a-time", NULL, "Await each one-sided request of a phase before the next one.",
		NAM_OPTION_FLAG, FIELD(txn_one_at_a_time) },
	{ "one-doorbell-each", NULL, "Post each one-sided request of a phase by its own doorbell.",
		NAM_OPTION_FLAG, FIELD(txn_one_doorbell_each) },
	{ "no-address-cache", NULL, "Look each record up in its bucket.", NAM_OPTION_FLAG,
		FIELD(txn_no_cache) },
	{ "keys", "N", "Accounts, records of ycsb-t, or customers of tpce-customer-position "
		"(default 100k; simulated: 10k).", NAM_OPTION_COUNT, FIELD(keys), .min = 2,
		.max = 1ull << 25 },
	TPCC("warehouses", "warehouses, each with 10 districts (default 2; simulated: 4)",
		warehouses, 1, UINT16_MAX),
	TPCC("items", "items, and stocks of a warehouse (default 100k; simulated: 1k)", items,
		TPCC_ITEMS_MIN, 1u << 24),
	TPCC("customers", "customers of a district, and with tpcc as many orders that are loaded "
		"(default 3k; simulated: 30)", customers, 2, 1u << 20),
	TPCC("remote-percent", "per cent of order lines from other warehouses (default 1)",
		remote_percent, 0, 100),
	{ "transaction-size", "N", "ycsb-t: records of a transaction, 1 to 256; 2pl: to 32 "
		"(default 4).", NAM_OPTION_COUNT, FIELD(transaction_size), SET(ycsb_t_set),
		.min = 1, .max = NAM_TXN_RECORDS_MAX },
	{ "read-ratio", "P", "ycsb-t: the per cent of transactions that only read (default 95).",
		NAM_OPTION_REAL, FIELD(get_percent), SET(ycsb_t_set), .high = 100 },
	{ "distribution", "D", "ycsb-t, of the records: uniform (default), or zipfian with a "
		"parameter of 0.99.", NAM_OPTION_CHOICE, FIELD(distribution), SET(ycsb_t_set),
		.choices = uniform_or_zipfian },
	{ "value-bytes", "N", "The length of values, 8 to 4096 (default 8; ycsb-t: 32).",
		NAM_OPTION_COUNT, FIELD(value_bytes), .min = 8, .max = NAM_TXN_VALUE_BYTES_MAX },
	RAW_RATIO("--workload ycsb-t"),
	{ "history", "FILE", "Write all transactions as a history for Elle's checker of "
		"read-write registers. The run keeps it in memory; say --ops.", NAM_OPTION_TEXT,
		FIELD(history) },
	RUN,
	{ 0 },
};

static const struct {
	struct nam_options_table table;
	enum nam_kv_engine engine;		/* defaults */
	enum txn_workload_kind txn_workload;
	enum ramp_transport ramp_transport;
	const char *transport_name;
} subcommands[] = {
	{ .table = { .program = "nam-bench rpc", .usage = "--cluster CLUSTER", .rows = rpc_rows,
		.purpose = "Measure requests to memory servers, closed loop.  Every reply is "
			"checked.", .after = NAM_EXIT_HELP } },
	{ .table = { .program = "nam-bench kv", .usage = "--cluster CLUSTER", .rows = kv_rows,
		.purpose = "Measure a key-value store that memory servers keep, closed loop.  The "
			"run creates it, fills it, reads and writes, and drops it.  Keys have 16 "
			"bytes; every value is checked.", .after = NAM_EXIT_HELP },
		.engine = NAM_KV_CHAINED },
	{ .table = { .program = "nam-bench pilaf", .usage = "--cluster CLUSTER", .rows = pilaf_rows,
		.purpose = "Measure GETs of a table of pointers, closed loop: READs of a key's two "
			"buckets, then a READ of its pair, as in Pilaf.  The run writes the table; "
			"nothing changes it.  Every value is checked.", .after = NAM_EXIT_HELP },
		.transport_name = "read" },
	{ .table = { .program = "nam-bench ramp", .usage = "--cluster CLUSTER", .rows = ramp_rows,
		.purpose = "Measure transactions over records (RAMP), closed loop.  The run "
			"creates a record store, loads it, reads and writes, and drops it.  Every "
			"value is checked, and whether a read returned half of a transaction.",
		.after = NAM_EXIT_HELP }, .ramp_transport = RAMP_ONESIDED },
	{ .table = { .program = "nam-bench txn", .usage = "--cluster CLUSTER", .rows = txn_rows,
		.purpose = "Measure serializable transactions, closed loop.  The run creates a "
			"store, loads it, runs transactions until each commits, and drops it.  "
			"Every value is checked, and at the end the sum of all.",
		.after = NAM_EXIT_HELP }, .txn_workload = TXN_SMALLBANK },
};

/* How much of a reply's body one fetch is to hold. */
static uint32_t
body_bytes(const struct requests_options *o)
{
	if (!o->engine)			/* rpc */
		return o->reply_bytes;
	/* A long value comes by READs, and its reply is short. */
	return o->mixed ? MIXED_FETCHED :
		o->value_bytes > NAM_KV_MESSAGE_BYTES_MAX ? LONG_FETCHED : o->value_bytes;
}

/* The shares and the distribution of a workload of YCSB. */
static int
resolve_workload(struct requests_options *o)
{
	struct workload workload;
	struct nam_diag diag = { "" };
	const double *share = workload.share;

	if (o->get_percent_set || o->insert_percent > 0)
		return bench_complain("--workload and --%s-percent: say one of them",
			o->get_percent_set ? "get" : "insert");
	if (workload_find(o->workload, &workload, &diag))
		return bench_complain("--workload: there is none called '%s': choose one of ycsb-a "
			"to ycsb-d, or say --get-percent and --insert-percent", o->workload);
	if (share[OP_LOOKUP] + share[OP_UPDATE] + share[OP_INSERT] < 1)
		return bench_complain("--workload %s: a key-value store has no scan, and no rmw; "
			"choose one of ycsb-a to ycsb-d", o->workload);
	o->get_percent = 100 * share[OP_LOOKUP];
	o->insert_percent = 100 * share[OP_INSERT];
	if (!o->distribution_set)
		o->distribution = workload.distribution;
	return 0;
}

static int
resolve_store(struct requests_options *o)
{
	if (o->workload && resolve_workload(o))
		return -1;
	if (!o->get_percent_set && !o->workload && o->get_percent > 100 - o->insert_percent)
		o->get_percent = 100 - o->insert_percent;
	if (o->get_percent + o->insert_percent > 100)
		return bench_complain("--get-percent %g and --insert-percent %g: together they are "
			"more than 100", o->get_percent, o->insert_percent);
	if (o->onesided && o->engine != NAM_KV_CUCKOO)
		return bench_complain("--get onesided: only with --engine cuckoo");
	if (o->load_factor > 0 && o->mixed)
		return bench_complain("--load-factor: only if all values have one length, which "
			"--value-bytes mixed does not say");
	if (o->load_factor > 0 && (o->engine == NAM_KV_CUCKOO || o->compare) &&
		o->value_bytes > KV_VALUE_BYTES_INLINE)
		return bench_complain("--load-factor: with --engine cuckoo values of %u bytes at "
			"most, for longer ones share memory with the slots",
			KV_VALUE_BYTES_INLINE);
	return 0;
}

/* Sizes of TPC-C, and options that do not go with rows. */
static int
resolve_rows(struct requests_options *o)
{
	bool tpcc = o->txn_workload == TXN_TPCC || o->txn_workload == TXN_TPCC_NEW_ORDER;
	bool simulated = simulation_wanted(o->run.cluster);

	o->rows = o->txn_workload >= TXN_TPCC;
	if (o->tpcc_set && !tpcc)
		return bench_complain("--warehouses, --items, --customers and --remote-percent: "
			"only with --workload tpcc or tpcc-new-order");
	if (o->keys && tpcc)
		return bench_complain("--keys: not with --workload tpcc or tpcc-new-order; say "
			"--warehouses");
	if (o->rows && (o->txn_store == TXN_2PL || o->history || o->value_bytes))
		return bench_complain("--store 2pl, --history and --value-bytes: only with "
			"--workload smallbank or ycsb-t");
	if (!o->warehouses)
		o->warehouses = simulated ? 4 : 2;
	if (!o->items)
		o->items = simulated ? 1000 : 100000;
	if (!o->customers)
		o->customers = simulated ? 30 : 3000;
	return 0;
}

static int
resolve_transactions(struct requests_options *o)
{
	if (!o->txn_workload)
		return 0;
	if (resolve_rows(o))
		return -1;
	if (o->txn_workload != TXN_YCSB_T && o->ycsb_t_set)
		return bench_complain("--transaction-size, --read-ratio and --distribution: only "
			"with --workload ycsb-t");
	if (o->txn_store == TXN_2PL && o->transaction_size > NAM_RECORDS_MAX)
		return bench_complain("--transaction-size %u: with --store 2pl it is %u at most",
			o->transaction_size, NAM_RECORDS_MAX);
	if (o->txn_store == TXN_2PL && o->history)
		return bench_complain("--history: not with --store 2pl, where one transaction of "
			"the workload is two of the store");
	if (!o->value_bytes)
		o->value_bytes = o->txn_workload == TXN_SMALLBANK ? 8 : 32;
	for (unsigned i = 0; i < TXN_PHASES; i++) {
		if (o->txn_means[i])
			o->txn_phases &= ~(1u << i);
		if (o->txn_means[i] == TXN_BY_RPC)
			o->txn_phases |= 1u << i;
	}
	o->txn_phases |= o->txn_one_at_a_time ? NAM_TXN_ONE_AT_A_TIME : 0;
	o->txn_phases |= o->txn_one_doorbell_each ? NAM_TXN_ONE_DOORBELL_EACH : 0;
	if (o->txn_store == TXN_2PL && (o->txn_phases != NAM_TXN_DRTM_H || o->txn_no_cache))
		return bench_complain("--preset, and options of phases: not with --store 2pl");
	if (o->txn_store == TXN_SERIALIZABLE && !(o->txn_phases & NAM_TXN_FASST))
		o->transport_name = "onesided";
	return 0;
}

/* The environment's, if no option says one: so that the report can name it. */
static int
choose_transport(struct requests_options *o)
{
	const char *name = getenv("NAM_TRANSPORT");
	int transport = name && *name ? nam_transport_find(name) : NAM_TRANSPORT_SRQ;

	if (o->run.transport)
		return 0;
	if (transport < 0)
		return bench_complain("NAM_TRANSPORT in the environment is '%s'; known are srq, "
			"mailbox, fetch and datagram", name);
	o->run.transport = (enum nam_transport)transport;
	return 0;
}

static bool
reads_by_address(const struct requests_options *o)
{
	return o->star || (o->txn_workload && o->txn_store == TXN_SERIALIZABLE &&
		!(o->txn_phases & NAM_TXN_FASST));
}

int
requests_options_resolve(void *options)
{
	struct requests_options *o = options;
	bool simulated;

	if (o->ramp_transport) {
		o->run.transport = o->ramp_transport == RAMP_PLUS || o->ramp_transport == RAMP_STAR
					   ? NAM_TRANSPORT_MAILBOX
					   : NAM_TRANSPORT_SRQ;
		o->star = o->ramp_transport >= RAMP_STAR;
		o->transport_name = ramp_transports[o->ramp_transport - RAMP_MESSAGE];
	}
	if (resolve_store(o) || resolve_transactions(o))
		return -1;
	if (bench_options_resolve(&o->run, o->subcommand, SECONDS_DEFAULT, SECONDS_SIMULATED, 1))
		return -1;
	simulated = simulation_wanted(o->run.cluster);
	if (o->raw_ratio && (simulated || o->run.ops || !reads_by_address(o) ||
		o->get_percent < 100))
		return bench_complain("--raw-ratio: only of a cluster that is not simulated, for "
			"--seconds, with %s and --read-ratio 100", o->txn_workload ?
			"--workload ycsb-t" : "--transport onesided or star");
	if (o->compare && (simulated || o->run.ops || o->onesided || o->insert_percent > 0))
		return bench_complain("--compare: only of a cluster that is not simulated, for "
			"--seconds, with --get request and without inserts");
	if (o->star && o->algorithm == NAM_RAMP_LOCKING)
		return bench_complain("--transport %s does not go with --algorithm 2pl: memory "
			"servers keep its locks, and have to be asked; say plus or message",
			o->transport_name);
	if (o->star && o->algorithm == NAM_RAMP_NONE)
		return bench_complain("--transport %s does not go with --algorithm none, which is "
			"what memory servers do without any, to compare with; say plus or message",
			o->transport_name);
	if (o->star && o->algorithm != NAM_RAMP_FAST)
		return bench_complain("--transport %s goes with --algorithm fast only: a READ by "
			"address, or a commit by CAS, finds no version by its timestamp. Say plus "
			"or message", o->transport_name);
	if (o->run.frame_bytes % 64)
		return bench_complain("--frame-bytes: %u is not a multiple of 64",
			o->run.frame_bytes);
	if (!o->run.fetch_bytes && !o->ramp_transport)
		o->run.fetch_bytes = nam_frame_bytes((uint32_t)sizeof(struct nam_rpc_header) +
			body_bytes(o));
	if (!o->keys)
		o->keys = simulated ? KEYS_SIMULATED : KEYS_DEFAULT;
	if (choose_transport(o))
		return -1;
	if (!o->transport_name)
		o->transport_name = nam_transport_name(o->run.transport);
	return 0;
}

const struct nam_options_table *
requests_options_init(const char *subcommand, struct requests_options *ret_options)
{
	unsigned i = 0;

	while (strcmp(subcommand, subcommands[i].table.program + strlen("nam-bench ")) != 0)
		i++;
	*ret_options = (struct requests_options){
		.run = { .threads = 1, .fibers = 1, .seed = 1 }, .subcommand = subcommand,
		.bytes = 32, .reply_bytes = 32, .get_percent = 95, .remote_percent = 1,
		.value_bytes = subcommands[i].txn_workload ? 0 : 32,
		.transaction_size = 4, .batch = 1, .algorithm = NAM_RAMP_FAST,
		.engine = subcommands[i].engine, .ramp_transport = subcommands[i].ramp_transport,
		.transport_name = subcommands[i].transport_name,
		.txn_workload = subcommands[i].txn_workload, .txn_store = TXN_SERIALIZABLE,
		.txn_preset = presets[0].name, .txn_phases = presets[0].phases,
	};
	return &subcommands[i].table;
}
