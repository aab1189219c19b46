/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c -- nam-bench kv: a key-value store under reads, updates and inserts. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"
#include "kv_store.h"
#include "pairs.h"
#include "requests.h"

/* GETs of a client for each partition, so that chance leaves hardly a layout to be learnt. */
#define WARM_GETS 8u

enum op { GET, UPDATE, INSERT };

struct room {
	uint64_t number;		/* of the key */
	enum op op;
	bool refused;			/* an insert that found no room */
	uint32_t bytes;			/* of the value */
	uint64_t key[KV_KEY_BYTES / 8];
	uint64_t value[];		/* value_room() bytes */
};

/* ---- before and after ---------------------------------------------------------------------- */

/* A GET of any key: with --get onesided the client learns the layout of a partition. */
NAM_FIBER_FN static int
warm_one(struct requests_part *part, uint64_t number, uint64_t *value)
{
	uint64_t key[KV_KEY_BYTES / 8];
	struct nam_rng rng = nam_rng_seed(number);
	uint32_t bytes;

	key_fill(nam_rng_below(&rng, part->bench->options.keys), key);
	return nam_kv_get(part->member->worker, part->kv, key, KV_KEY_BYTES, value,
		value_room(&part->bench->options), &bytes); /* SUSPENDS */
}

/* A key of the phase under way; the keys of GROW and SHRINK are not those of the run. */
NAM_FIBER_FN static int
fill_one(struct requests_part *part, uint64_t number, uint64_t *value)
{
	const struct requests *bench = part->bench;
	uint64_t key[KV_KEY_BYTES / 8];
	struct nam_worker *worker = part->member->worker;
	int rc;

	if (bench->phase == KV_WARM)
		return warm_one(part, number, value); /* SUSPENDS */
	key_fill(bench->phase == KV_FILL ? number : ~number, key);
	if (bench->phase == KV_SHRINK) {
		rc = nam_kv_delete(worker, part->kv, key, KV_KEY_BYTES); /* SUSPENDS */
		return rc == -NAM_E_NOTFOUND ? 0 : rc;
	}
	rc = nam_kv_put(worker, part->kv, key, KV_KEY_BYTES, value,
		value_fill(&bench->options, number, value)); /* SUSPENDS */
	return rc == -NAM_E_REMOTE_FULL && bench->phase == KV_GROW ? 0 : rc;
}

/* Keys of the thread's share, as long as there are some. */
static void
fill_fiber(void *arg)
{
	struct requests_part *part = arg;
	const struct requests *bench = part->bench;
	/* A word more than needed, so that NULL is a failure. */
	uint64_t *value = malloc(value_room(&bench->options) + sizeof(*value));
	int rc = value ? 0 : -ENOMEM;

	while (!rc && !bench_signal && !findings.fatal) {
		uint64_t number = part->member->number +
			part->filled++ * thread_pool_size(session.pool);

		if (number >= bench->phase_keys)
			break;
		rc = fill_one(part, number, value); /* SUSPENDS */
	}
	free(value);
	if (rc == -NAM_E_REMOTE_FULL && bench->options.load_factor > 0)
		bench_complain("--load-factor %g: chance gives some partitions more keys, or whole "
			"chunks are too few, and one is full already; a lower one, more --keys, or "
			"--partitions 1 helps",
			bench->options.load_factor);
	if (rc)
		requests_failed(part, rc, "filling the store");
}

static void
fill_main(struct thread_pool_member *member, void *arg)
{
	struct requests *bench = arg;
	struct requests_part *part = &bench->parts[member->number];
	uint32_t fibers = bench->options.run.fibers;
	int rc = 0;

	part->filled = 0;
	if (!part->kv)
		rc = nam_kv_open(member->worker, bench->name, &part->kv); /* SUSPENDS */
	if (!rc && fibers == 1)
		fill_fiber(part);
	for (uint32_t i = 0; i < fibers && fibers > 1 && !rc; i++)
		rc = nam_worker_spawn(member->worker, fill_fiber, part);
	if (rc)
		requests_failed(part, rc, "filling the store");
	if (fibers > 1)
		nam_worker_run(member->worker);
}

static int
fill(struct requests *bench, enum kv_phase phase, uint64_t keys)
{
	bench->phase = phase;
	bench->phase_keys = keys;
	if (!findings.fatal)
		thread_pool_run(session.pool, fill_main, bench, 0, 0);
	return findings.fatal;
}

static int
store_stat(const struct requests *bench, struct nam_kv_stat *ret_stat)
{
	struct nam_worker *worker = session_worker();
	int rc = nam_kv_stat(worker, bench->parts->kv, ret_stat); /* SUSPENDS */

	if (rc)
		(void)bench_failed("asking for counts", rc, nam_worker_diag(worker));
	return rc;
}

/* The store that is asked, and that of the other engine. */
static void
swap(struct requests *bench)
{
	char name[sizeof(bench->name)];

	memcpy(name, bench->name, sizeof(name));
	memcpy(bench->name, bench->other_name, sizeof(name));
	memcpy(bench->other_name, name, sizeof(name));
	for (unsigned i = 0; i < thread_pool_size(session.pool); i++) {
		struct requests_part *part = &bench->parts[i];
		struct nam_kv *kv = part->kv;

		part->kv = part->other;
		part->other = kv;
	}
	bench->options.engine = kv_store_other(&bench->options);
}

static int
store_begin(struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	struct nam_worker *worker = session_worker();
	struct nam_kv_options options;
	uint32_t servers = nam_client_servers(session.client);
	uint64_t growth, gets;
	int rc;

	nam_kv_options_init(&options);
	options.mode = NAM_KV_STORE;
	kv_store_size(o, servers, &options);
	growth = kv_store_growth(o, servers, &options);
	requests_keys_init(bench);
	if (o->compare)
		(void)strcat(bench->name, kv_store_suffix(o));
	rc = nam_kv_create(worker, bench->name, &options); /* SUSPENDS */
	if (rc) {
		bench->name[0] = '\0';
		return bench_failed("making the store", rc, nam_worker_diag(worker));
	}
	if (growth && (fill(bench, KV_GROW, growth) || fill(bench, KV_SHRINK, growth)))
		return nam_exit_code(findings.fatal);
	if (fill(bench, KV_FILL, o->keys))
		return nam_exit_code(findings.fatal);
	gets = (uint64_t)WARM_GETS * servers * nam_kv_properties(bench->parts->kv)->partitions;
	if (o->onesided && fill(bench, KV_WARM, gets * thread_pool_size(session.pool)))
		return nam_exit_code(findings.fatal);
	return nam_exit_code(store_stat(bench, &bench->before)); /* SUSPENDS */
}

static int
begin(struct requests *bench)
{
	struct nam_kv_stat other;
	int rc = store_begin(bench); /* SUSPENDS */

	if (rc || !bench->options.compare)
		return rc;
	other = bench->before;
	swap(bench);
	rc = store_begin(bench); /* SUSPENDS */
	swap(bench);
	bench->before = other;
	return rc;
}

/* The store itself says how many pairs have come. */
static int
measured(struct requests *bench)
{
	int rc = store_stat(bench, &bench->after); /* SUSPENDS */
	uint64_t added = requests_sum(bench, offsetof(struct requests_part, added));

	if (!rc && bench->after.keys - bench->before.keys != added)
		findings_wrong("the store has %" PRIu64 " keys more than before %" PRIu64
			" inserts", bench->after.keys - bench->before.keys, added);
	return rc;
}

static void
store_end(struct requests *bench)
{
	struct nam_worker *worker = session_worker();
	int rc = bench->name[0] ? nam_kv_drop(worker, bench->name) : 0; /* SUSPENDS */

	if (rc == -NAM_E_NOINDEX)
		bench_complain("%s: another client has dropped it", bench->name);
	else if (rc)
		bench_complain("%s: %s; namctl kv drop %s", bench->name, nam_worker_diag(worker),
			bench->name);
	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		nam_kv_close(bench->parts[i].kv);
}

static void
end(struct requests *bench)
{
	store_end(bench);
	for (unsigned i = 0; i < thread_pool_size(session.pool); i++)
		inserted_free(&bench->parts[i].inserted);
	if (!bench->options.compare)
		return;
	swap(bench);
	store_end(bench);
	swap(bench);
}

/* ---- one request --------------------------------------------------------------------------- */

/*
 * The key of a rank counted back from the newest: threads insert side by side, so rank r is one of
 * thread r mod threads.  Beyond its inserts lie the keys of the fill, the last first.
 */
static uint64_t
latest(const struct requests *bench, uint64_t rank)
{
	uint64_t threads = thread_pool_size(session.pool), keys = bench->options.keys;
	const struct inserted *inserted = &bench->parts[rank % threads].inserted;
	uint64_t back = rank / threads, count = inserted_count(inserted);

	if (back < count)
		return *inserted_at(inserted, count - 1 - back);
	return keys - 1 - (rank - count * threads) % keys;
}

static size_t
room_bytes(const struct requests_options *o)
{
	return sizeof(struct room) + value_room(o);
}

static void
prepare(struct requests_part *part, void *arg)
{
	const struct requests *bench = part->bench;
	struct room *room = arg;
	uint64_t dice;

	room->number = requests_draw(bench, &part->rng);
	dice = nam_rng_below(&part->rng, REQUESTS_DICE);
	room->op = dice < bench->reads_below ? GET : dice < bench->inserts_below ? INSERT : UPDATE;
	room->refused = false;
	if (room->op == INSERT)
		room->number = bench->options.keys + part->member->number +
			part->numbered++ * thread_pool_size(session.pool);
	else if (bench->options.distribution == DISTRIBUTION_LATEST)
		room->number = latest(bench, room->number);
	key_fill(room->number, room->key);
	if (room->op != GET)
		room->bytes = value_fill(&bench->options, room->number, room->value);
}

NAM_FIBER_FN static int
put(struct requests_part *part, struct room *room)
{
	int rc = nam_kv_put(part->member->worker, part->kv, room->key, KV_KEY_BYTES, room->value,
		room->bytes); /* SUSPENDS */

	room->refused = room->op == INSERT && rc == -NAM_E_REMOTE_FULL;
	return room->refused ? 0 : rc;
}

/* With --batch: puts one by one, and then all gets in one call. */
NAM_FIBER_FN static int
ask_many(struct requests_part *part, uint8_t *rooms, uint32_t count)
{
	const struct requests_options *o = &part->bench->options;
	struct nam_kv_item items[BENCH_BATCH_MAX];
	struct room *asked[BENCH_BATCH_MAX];
	uint32_t gets = 0;
	int rc = 0;

	for (uint32_t i = 0; i < count && !rc; i++) {
		struct room *room = (void *)(rooms + i * room_bytes(o));

		if (room->op != GET) {
			rc = put(part, room); /* SUSPENDS */
			continue;
		}
		asked[gets] = room;
		items[gets++] = (struct nam_kv_item){ .key = room->key, .key_bytes = KV_KEY_BYTES,
			.value = room->value, .size = value_room(o) };
	}
	if (!rc)
		rc = nam_kv_get_many(part->member->worker, part->kv, items,
			gets); /* SUSPENDS */
	for (uint32_t i = 0; i < gets && !rc; i++) {
		rc = items[i].rc;
		asked[i]->bytes = items[i].value_bytes;
	}
	return rc;
}

NAM_FIBER_FN static int
ask(struct requests_part *part, void *arg, uint32_t count)
{
	struct room *room = arg;

	if (part->bench->options.batch > 1)
		return ask_many(part, arg, count); /* SUSPENDS */
	if (room->op != GET)
		return put(part, room); /* SUSPENDS */
	return nam_kv_get(part->member->worker, part->kv, room->key, KV_KEY_BYTES, room->value,
		value_room(&part->bench->options), &room->bytes); /* SUSPENDS */
}

static void
check(struct requests_part *part, void *arg)
{
	const struct room *room = arg;

	if (room->op == INSERT && !room->refused) {
		part->added++;
		if (part->bench->options.distribution == DISTRIBUTION_LATEST &&
			inserted_add(&part->inserted, room->number))
			requests_failed(part, -ENOMEM, "remembering an insert");
	}
	if (room->op != GET)
		return;
	if (!value_right(&part->bench->options, room->number, room->value, room->bytes))
		findings_wrong("the value of key %" PRIu64 ", %u bytes, is not the one that was "
			"put", room->number, room->bytes);
}

/* ---- results ------------------------------------------------------------------------------- */

static void
print(const struct requests *bench)
{
	const struct requests_options *o = &bench->options;
	char bytes[16];

	(void)snprintf(bytes, sizeof(bytes), "%u", o->value_bytes);
	printf("  store       %s%s: %" PRIu64 " keys of %u bytes, %s; values of %s bytes; %g %% "
		"GET, %g %% INSERT, %g %% UPDATE\n", kv_store_engine(o),
		o->onesided ? ", one-sided GETs" : "", o->keys, KV_KEY_BYTES,
		requests_distribution(o), o->mixed ? "1 to 899" : bytes, o->get_percent,
		o->insert_percent, 100 - o->get_percent - o->insert_percent);
	kv_store_print(bench);
}

static void
json(const struct requests *bench, cJSON *object)
{
	const struct requests_options *o = &bench->options;

	cJSON_AddStringToObject(object, "engine", kv_store_engine(o));
	cJSON_AddStringToObject(object, "get", o->onesided ? "onesided" : "request");
	report_number(object, "get_percent", o->get_percent);
	report_number(object, "insert_percent", o->insert_percent);
	requests_keys_json(o, object);
	kv_store_json(bench, object);
}

const struct requests_kind requests_kv = {
	.name = "kv",
	.room_bytes_of = room_bytes,
	.begin = begin,
	.end = end,
	.prepare = prepare,
	.ask = ask,
	.check = check,
	.measured = measured,
	.print = print,
	.json = json,
	.swap = swap,
};
