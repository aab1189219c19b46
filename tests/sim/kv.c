/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kv.c -- clients of a key-value store beside those of the index, each by an RPC transport of its
 * own.  The seed chooses its engine: chained, cuckoo, or cuckoo with one-sided GETs.  The seed
 * also chooses its mode: a store with room for all keys, or a cache without.
 *
 * Their operations on a few keys have their own history, where every value is put once.  So a
 * request that is carried out a second time shows, once the key has had another value meanwhile.
 * A cache may lose a pair at any time, but no earlier value comes back.
 * Values tell in every word which they are, and so, whether they are whole.  Some are longer than
 * frames, fetches and datagrams, and some than any message.
 */
#include "kv/kv.h"

#include <stdlib.h>
#include <string.h>

#include "memserver/stores.h"
#include "kv_keys.h"
#include "linearizable.h"
#include "stage.h"

#define STORE "store"
#define FIBERS 3u
#define OPERATIONS 40u
#define KEYS 5u
#define CROWD 24u			/* more for each memory server: of cuckoo and of caches */
#define CROWD_NEAR 2u			/* buckets of each table that they crowd; of a cache 1 */
#define KEY_WORDS_MAX 5u
#define MANY 4u
#define WORDS_SHORT 12u
#define WORDS_MESSAGE 400u
#define WORDS_MAX 1000u
#define STAGING_MOST 1u			/* blocks of a value */
#define REFUSED_MAX 5u			/* of one session */
#define IDLE_NS 10000000u
#define IDLES_MAX 100u

struct session {
	struct sim_actor *actor;
	struct nam_worker *worker;
	struct nam_kv *kv;
	struct nam_rng rng;
	uint32_t number, puts, refused;
	uint64_t values[MANY][WORDS_MAX];
};

/* So many words, each its number. */
struct key {
	uint64_t words[KEY_WORDS_MAX];
	uint32_t bytes;
};

static struct key
key_of(uint64_t number)
{
	struct key key = { .bytes = 8 * (1 + (uint32_t)number % KEY_WORDS_MAX) };

	for (uint32_t i = 0; i < KEY_WORDS_MAX; i++)
		key.words[i] = number;
	return key;
}

static uint32_t
words_of(uint64_t payload)
{
	if (payload % 4 == 3)
		return 1 + (uint32_t)(payload * 7 % WORDS_MAX);
	return 1 + (uint32_t)(payload * 7 % (payload % 8 ? WORDS_SHORT : WORDS_MESSAGE));
}

/* In a store long values are of a few keys only, so that there are cells enough. */
static uint64_t
payload_next(struct session *self, uint64_t number)
{
	uint64_t payload;

	do
		payload = (uint64_t)self->actor->number << 32 | self->number << 16 | ++self->puts;
	while (nam_kv_properties(self->kv)->mode == NAM_KV_STORE && number >= KEYS &&
		words_of(payload) > WORDS_SHORT);
	return payload;
}

/* Most often one of a few. */
static uint64_t
number_choose(struct session *self)
{
	const struct sim_stage *stage = self->actor->stage;
	uint32_t few = stage->kv.keys_count == KEYS || nam_rng_below(&self->rng, 2);

	return stage->kv.keys[nam_rng_below(&self->rng, few ? KEYS : stage->kv.keys_count)];
}

/* The number of the value; all values put are whole. */
static uint64_t
payload_of(const struct session *self, const uint64_t *words, uint32_t bytes)
{
	bool whole = bytes >= 8 && bytes == 8 * words_of(words[0]);

	for (uint32_t i = 0; whole && i < bytes / 8; i++)
		whole = words[i] == words[0];
	if (!whole && !nam_sim_zombie())
		sim_fail(self->actor->stage,
			"the store: a value of %u bytes that no writer has put", bytes);
	return words[0];
}

/* ---- the history --------------------------------------------------------------------------- */

static size_t
called(const struct session *self, enum sim_kind kind, uint64_t number, uint64_t payload)
{
	struct sim_stage *stage = self->actor->stage;

	if (!stage->scenario->record)
		return 0;
	return sim_history_call(&stage->kv.history, self->actor->number, self->number, kind,
		number, payload, nam_sim_now_ns());
}

static void
returned(const struct session *self, size_t op, int rc, uint64_t payload)
{
	struct sim_stage *stage = self->actor->stage;

	if (stage->scenario->record && !nam_sim_zombie())
		sim_history_return(&stage->kv.history, op, rc, payload, nam_sim_now_ns());
}

/* By a stream of its own, as is engine_choose(). */
static enum nam_kv_mode
mode_of(const struct sim_scenario *scenario)
{
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x6d6f646500000000ull);

	return nam_rng_below(&rng, 2) ? NAM_KV_CACHE : NAM_KV_STORE;
}

void
sim_kv_history(struct sim_stage *stage, struct sim_findings *findings)
{
	struct sim_linearizable_options options;

	sim_linearizable_options_init(&options);
	options.evicts = mode_of(stage->scenario) == NAM_KV_CACHE;
	sim_check_linearizable(&stage->kv.history, &options, findings);
}

/* ---- operations ---------------------------------------------------------------------------- */

static int
put(struct session *self, uint64_t number)
{
	uint64_t payload = payload_next(self, number);
	struct key key = key_of(number);
	size_t op = called(self, SIM_UPSERT, number, payload);
	int rc;

	for (uint32_t i = 0; i < words_of(payload); i++)
		self->values[0][i] = payload;
	rc = nam_kv_put(self->worker, self->kv, key.words, key.bytes, self->values[0],
		8 * words_of(payload));
	returned(self, op, rc, 0);
	return rc;
}

static int
get(struct session *self, uint64_t number)
{
	struct key key = key_of(number);
	size_t op = called(self, SIM_LOOKUP, number, 0);
	uint32_t bytes = 0;
	int rc = nam_kv_get(self->worker, self->kv, key.words, key.bytes, self->values[0],
		sizeof(self->values[0]), &bytes);

	returned(self, op, rc, rc ? 0 : payload_of(self, self->values[0], bytes));
	return rc;
}

static int
delete_one(struct session *self, uint64_t number)
{
	struct key key = key_of(number);
	size_t op = called(self, SIM_DELETE, number, 0);
	int rc = nam_kv_delete(self->worker, self->kv, key.words, key.bytes);

	returned(self, op, rc, 0);
	return rc;
}

/* Each as a GET of its own; a key may be among them twice. */
static int
get_many(struct session *self)
{
	struct nam_kv_item items[MANY];
	struct key keys[MANY];
	size_t ops[MANY];
	int rc, one = 0;

	for (uint32_t i = 0; i < MANY; i++) {
		uint64_t number = number_choose(self);

		keys[i] = key_of(number);
		ops[i] = called(self, SIM_LOOKUP, number, 0);
		items[i] = (struct nam_kv_item){
			.key = keys[i].words,
			.key_bytes = keys[i].bytes,
			.value = self->values[i],
			.size = sizeof(self->values[i]),
		};
	}
	rc = nam_kv_get_many(self->worker, self->kv, items, MANY);
	for (uint32_t i = 0; i < MANY; i++) {
		int each = rc ? rc : items[i].rc;

		if (each && each != -NAM_E_NOTFOUND)
			one = each;
		returned(self, ops[i], each,
			each ? 0 : payload_of(self, self->values[i], items[i].value_bytes));
	}
	return one;
}

/* ---- clients ------------------------------------------------------------------------------- */

/*
 * The store has room for all keys, so only blocks for long values may lack.  Where public regions
 * become private, for the trees of temporary.c or as collectors ask at random, a memory server
 * may have none left.
 */
static bool
full_explained(const struct session *self, int rc)
{
	const struct sim_stage *stage = self->actor->stage;

	return rc == -NAM_E_REMOTE_FULL &&
	       strstr(nam_worker_diag(self->worker), "no room for a block") &&
	       (sim_full_explained(stage, rc) || stage->scenario->temporary ||
		       stage->scenario->collector || stage->scenario->collects);
}

/*
 * Only the fabric may have failed, or memory lack for a long value.  A client without an answer
 * tries another call: that an answer comes late, or a request, must not matter to it.
 */
static bool
goes_on(struct session *self, int rc)
{
	struct sim_stage *stage = self->actor->stage;

	if (nam_sim_zombie())
		return false;
	stage->outcome->kv_ops++;
	if (!rc || rc == -NAM_E_NOTFOUND || full_explained(self, rc))
		return true;
	stage->outcome->kv_unknown++;
	if (!nam_err_is(rc, NAM_E_FABRIC) || !sim_explained(self->actor, rc))
		sim_fail(stage, "the store: %s (last said: %s)", nam_err_name(rc),
			nam_worker_diag(self->worker));
	return ++self->refused < REFUSED_MAX;
}

static void
session_main(void *arg)
{
	struct session *self = arg;

	for (uint32_t i = 0; i < OPERATIONS && !nam_sim_zombie(); i++) {
		uint64_t number = number_choose(self), since_ns = nam_sim_now_ns();
		uint64_t dice = nam_rng_below(&self->rng, 8);
		int rc;

		if (dice < 3)
			rc = put(self, number);
		else if (dice < 5)
			rc = get(self, number);
		else if (dice < 6)
			rc = get_many(self);
		else
			rc = delete_one(self, number);
		sim_check_progress(self->actor, "an operation on a store", true, since_ns);
		if (!goes_on(self, rc))
			break;
	}
}

static void
work(struct sim_actor *actor, struct nam_worker *worker, struct nam_kv *kv)
{
	struct session *sessions = calloc(FIBERS, sizeof(*sessions));

	if (!sessions)
		abort();
	actor->staging_bytes = FIBERS * STAGING_MOST * NAM_RPC_KV_STAGING_BYTES;
	for (uint32_t i = 0; i < FIBERS; i++) {
		sessions[i].actor = actor;
		sessions[i].worker = worker;
		sessions[i].kv = kv;
		sessions[i].rng = nam_rng_seed(nam_sim_random());
		sessions[i].number = i;
		if (nam_worker_spawn(worker, session_main, &sessions[i]))
			sim_die("cannot spawn a fiber");
	}
	nam_worker_run(worker);
	free(sessions);
}

static enum nam_transport
transport_choose(const struct sim_scenario *scenario)
{
	bool unreliable_qps = nam_sim_profile_caps(scenario->sim.profile) & NAM_CAP_UD;
	uint32_t count = (unreliable_qps ? NAM_TRANSPORT_DATAGRAM
		: NAM_TRANSPORT_FETCH) - NAM_TRANSPORT_SRQ + 1;

	if (scenario->transport_given)
		return scenario->transport;
	return (enum nam_transport)(NAM_TRANSPORT_SRQ + nam_sim_random() % count);
}

void
sim_kv_client(void *arg)
{
	struct sim_actor *actor = arg;
	struct nam_worker *worker;
	struct nam_kv *kv;
	int rc;

	actor->transport = transport_choose(actor->stage->scenario);
	worker = sim_actor_connect(actor, "kv");
	if (!worker)
		goto leave;
	rc = nam_kv_open(worker, STORE, &kv);
	if (!rc) {
		work(actor, worker, kv);
		nam_kv_close(kv);
	} else if (!nam_sim_zombie() && (!nam_err_is(rc, NAM_E_FABRIC) ||
		!sim_explained(actor, rc))) {
		sim_fail(actor->stage, "opening the store: %s", nam_err_name(rc));
	}
leave:
	sim_actor_leave(actor, worker);
}

/* ---- the director -------------------------------------------------------------------------- */

/* By a stream of its own, so that runs of the engine chained do not depend on it. */
static void
engine_choose(const struct sim_scenario *scenario, struct nam_kv_options *options)
{
	struct nam_rng rng = nam_rng_seed(scenario->sim.seed ^ 0x656e67696e650000ull);
	uint64_t dice = nam_rng_below(&rng, 3);

	options->engine = dice ? NAM_KV_CUCKOO : NAM_KV_CHAINED;
	options->onesided = dice == 2;
}

bool
sim_kv_onesided(const struct sim_scenario *scenario)
{
	struct nam_kv_options options = { .onesided = false };

	if (scenario->kv)
		engine_choose(scenario, &options);
	return options.onesided;
}

/* A few keys; and those that fill a few buckets, and so kick each other out, or a cache. */
static void
keys_choose(struct sim_stage *stage)
{
	const struct nam_kv *kv = stage->kv.handle;
	const struct nam__store *store = (const struct nam__store *)nam__objects_find(
		&stage->cluster.servers[0].server->stores, kv->store);
	bool crowded = kv->options.engine == NAM_KV_CUCKOO;
	bool cache = kv->options.mode == NAM_KV_CACHE;
	uint32_t count = KEYS + (crowded || cache) * CROWD * kv->servers;

	stage->kv.keys = calloc(count, sizeof(stage->kv.keys[0]));
	if (!stage->kv.keys)
		abort();
	for (uint64_t i = 0, number = 0; i < count; i++) {
		if (i >= KEYS && crowded)
			number = sim_kv_crowded(kv, &store->partitions[0].cuckoo.shape,
				cache ? 1 : CROWD_NEAR, number + KEY_WORDS_MAX, KEY_WORDS_MAX);
		stage->kv.keys[i] = i < KEYS || !crowded ? i : number;
	}
	stage->kv.keys_count = count;
}

/* One partition on each memory server, so that handlers meet there.  That of a cache is small. */
void
sim_kv_begin(struct sim_stage *stage, struct nam_worker *worker)
{
	struct nam_kv_options options;
	uint32_t times = 1;
	int rc;

	nam_kv_options_init(&options);
	options.mode = mode_of(stage->scenario);
	engine_choose(stage->scenario, &options);
	if (options.mode == NAM_KV_STORE)
		times = options.engine == NAM_KV_CUCKOO ? 3 : 2;
	options.memory_bytes = (uint64_t)stage->scenario->servers * NAM_KV_PARTITION_BYTES_MIN *
		times;
	options.partitions = 1;
	rc = nam_kv_create(worker, STORE, &options);
	if (!rc)
		rc = nam_kv_open(worker, STORE, &stage->kv.handle);
	if (rc)
		sim_die("the store: %s", nam_worker_diag(worker));
	stage->kv.bytes = nam_kv_properties(stage->kv.handle)->memory_bytes;
	keys_choose(stage);
}

/* After any fault of clients, the books of each part agree with its cells. */
static void
check_parts(struct sim_stage *stage, struct nam_server *server)
{
	struct nam_diag diag;

	for (uint32_t i = 0; i < server->stores.slots_count; i++) {
		const struct nam__store *store =
			(const struct nam__store *)nam__objects_at(&server->stores, i);

		for (uint32_t j = 0; store && j < store->shape.partitions; j++) {
			struct nam__kv_partition *partition = &store->partitions[j];

			if (!nam__kv_partition_sound(partition, &diag))
				sim_fail(stage, "the store, server %u: %s", server->options.id,
					diag.text);
			stage->outcome->kv_evictions += partition->counts.evictions;
		}
	}
}

/* Its memory is others' once no handler is at work on it. */
static bool
is_freed(const struct sim_stage *stage)
{
	for (uint32_t i = 0; i < stage->cluster.count; i++)
		if (stage->cluster.servers[i].server &&
			atomic_load(&stage->cluster.servers[i].server->stores.dropped_count))
			return false;
	return true;
}

static void
drop(struct sim_stage *stage, struct nam_worker *worker)
{
	int rc = nam_kv_drop(worker, STORE);

	if (rc)
		sim_fail(stage, "dropping the store: %s", nam_err_name(rc));
	for (uint32_t i = 0; i < IDLES_MAX && !is_freed(stage); i++)
		nam_sleep_ns(IDLE_NS);
	if (!is_freed(stage))
		sim_fail(stage, "the store was dropped and is not freed");
	stage->kv.bytes = 0;
}

void
sim_kv_end(struct sim_stage *stage, struct nam_worker *worker)
{
	struct session *session = calloc(1, sizeof(*session));

	if (!session)
		abort();
	session->actor = &stage->actors[SIM_DIRECTOR];
	session->worker = worker;
	session->kv = stage->kv.handle;
	for (uint32_t i = 0; i < stage->kv.keys_count; i++) {
		int rc = get(session, stage->kv.keys[i]);

		if (rc && rc != -NAM_E_NOTFOUND && !full_explained(session, rc) &&
			!nam_sim_counted().server_kills)
			sim_fail(stage, "the store, the last GET of key %llu: %s",
				(unsigned long long)stage->kv.keys[i], nam_err_name(rc));
	}
	/* A successor that is being filled has anything. */
	for (uint32_t i = 0; i < stage->cluster.count; i++)
		if (sim_server_holds(&stage->cluster.servers[i]) &&
			nam_sim_process_alive(stage->cluster.servers[i].process))
			check_parts(stage, stage->cluster.servers[i].server);
	nam_kv_close(stage->kv.handle);
	free(session);
	if (!sim_servers_dead(&stage->cluster))
		drop(stage, worker);
}
