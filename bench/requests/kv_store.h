/* SPDX-License-Identifier: Apache-2.0 */
/* kv_store.h -- the store of nam-bench kv: its size, its load factor, and its inserts. */
#ifndef NAM_BENCH_REQUESTS_KV_STORE_H
#define NAM_BENCH_REQUESTS_KV_STORE_H

#include <cjson/cJSON.h>

#include "kv/kv.h"
#include "options.h"

struct requests;

/* Memory and partitions, by the options. */
void kv_store_size(const struct requests_options *o, uint32_t servers,
	struct nam_kv_options *store);

/* Pairs to put and delete until the tables have their final size; 0: none. */
uint64_t kv_store_growth(const struct requests_options *o, uint32_t servers,
	const struct nam_kv_options *store);

const char *kv_store_engine(const struct requests_options *o);

/* For comparisons: the other engine, and what the name of this engine's store ends with. */
enum nam_kv_engine kv_store_other(const struct requests_options *o);
const char *kv_store_suffix(const struct requests_options *o);

/* Lines of the table, and JSON: of the run, from bench->before to bench->after. */
void kv_store_print(const struct requests *bench);
void kv_store_json(const struct requests *bench, cJSON *object);

#endif /* NAM_BENCH_REQUESTS_KV_STORE_H */
