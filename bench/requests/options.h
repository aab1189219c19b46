/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- the command lines of nam-bench rpc, kv, pilaf, ramp and txn. */
#ifndef NAM_BENCH_REQUESTS_OPTIONS_H
#define NAM_BENCH_REQUESTS_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/load/workload.h"
#include "bench/options.h"
#include "kv/options.h"
#include "txn/records.h"
#include "txn/serializable.h"

#define KV_KEY_BYTES 16u
#define KV_VALUE_BYTES_INLINE 32u	/* of a pair in a slot of the engine cuckoo */
#define BENCH_RAMP_VALUE_BYTES_MAX 4096u
#define BENCH_BATCH_MAX 64u

enum ramp_transport {		/* 0: not ramp */
	RAMP_MESSAGE = 1,
	RAMP_PLUS,
	RAMP_STAR,
	RAMP_ONESIDED,
};

enum txn_workload_kind {	/* 0: not txn */
	TXN_SMALLBANK = 1,
	TXN_YCSB_T,
	TXN_TPCC,
	TXN_TPCC_NEW_ORDER,
	TXN_TPCE,
};

enum txn_store_kind {
	TXN_SERIALIZABLE = 1,
	TXN_2PL,
};

enum txn_means { TXN_ONESIDED = 1, TXN_BY_RPC };	/* 0: as the preset says */

#define TXN_PHASES 5u			/* of enum nam_txn_phase, by bit */

struct requests_options {
	struct bench_options run;
	const char *subcommand;		/* "rpc", "kv", "pilaf", "ramp" or "txn" */
	uint32_t bytes, reply_bytes;	/* rpc: of bodies */
	/* kv, pilaf, ramp, txn */
	double get_percent;
	enum distribution distribution;
	bool mixed;			/* lengths of values: as the RFP paper's texts; else */
	uint32_t value_bytes;
	uint64_t keys;
	uint32_t partitions;		/* 0: the default */
	/* kv */
	enum nam_kv_engine engine;	/* 0: not kv */
	bool onesided;			/* gets by READ */
	double insert_percent;		/* the rest updates */
	double load_factor;		/* 0: twice the memory that the keys take */
	bool compare;			/* by turns with a store of the other engine */
	const char *workload;		/* NULL: the shares as given */
	bool get_percent_set, distribution_set;
	/* txn */
	enum txn_workload_kind txn_workload;
	enum txn_store_kind txn_store;
	bool rows;			/* its workload is over rows: tpcc and those behind it */
	uint32_t warehouses, items, customers, remote_percent;
	bool tpcc_set;			/* options of these workloads alone */
	const char *history;		/* a file; NULL: not wanted */
	bool ycsb_t_set;		/* options of that workload alone */
	const char *txn_preset;
	uint32_t txn_phases;		/* enum nam_txn_phase */
	enum txn_means txn_means[TXN_PHASES];
	bool txn_one_at_a_time, txn_one_doorbell_each, txn_no_cache;
	/* ramp, txn */
	enum nam_ramp algorithm;
	enum ramp_transport ramp_transport;
	bool star;			/* clients get by READ */
	const char *transport_name;	/* of ramp_transport, else of the RPC transport */
	uint32_t transaction_size;
	bool raw_ratio;
	uint32_t batch;			/* kv, ramp: requests of a call; else 1 */
};

/* The defaults of a subcommand, and its command line. */
const struct nam_options_table *requests_options_init(const char *subcommand,
	struct requests_options *ret_options);

int requests_options_resolve(void *options) NAM_MUST_CHECK;

#endif /* NAM_BENCH_REQUESTS_OPTIONS_H */
