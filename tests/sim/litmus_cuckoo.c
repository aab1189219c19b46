/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_cuckoo.c -- scenes about the engine cuckoo: GETs by READs of buckets beside requests,
 * where pairs are kicked out, tables grow, and pairs are evicted.
 *
 * All keys crowd the same few buckets.  Of the hot ones the history is linearizable.
 */
#include <stdio.h>
#include <string.h>

#include "kv/server/cuckoo.h"
#include "memserver/stores.h"
#include "findings.h"
#include "kv_keys.h"
#include "linearizable.h"
#include "litmus_kv.h"

#define STORE "cuckoo"
#define SESSIONS 4u			/* fibers of each actor */
#define OPERATIONS 60u
#define HOT 3u
#define COLD_MAX 80u
#define GROWN_SLOTS 700u		/* of 256 at the beginning */
#define WORDS_MAX 40u
#define PINNING_BYTES 65536u		/* at most */
#define BALLAST_BYTES 80000u		/* 1,428 cells */
#define BALLAST_ROUNDS 3u
#define APART_NS 40000u			/* at most, between operations beside it */
#define LONG_NS 20000u			/* of a READ: several requests are carried out */

/* The store of a scene, and its clients. */
struct plan {
	enum nam_kv_mode mode;
	uint32_t chunks;
	uint32_t near;			/* buckets of each table that the keys crowd */
	uint32_t cold;			/* keys beside the hot ones, */
	bool full;			/* which are there from the beginning: some in the stash */
	bool pinned;			/* cells take the memory for larger tables */
	bool dies;			/* C */
	bool alike;			/* all values have the same length */
};

/* Of four chunks the tables begin with one. */
static const struct plan shrunk_plan = { .mode = NAM_KV_STORE, .chunks = 4, .near = 8,
	.cold = COLD_MAX };

static const struct plan *plan;
static struct sim_history history;
static uint64_t numbers[HOT + COLD_MAX];

struct session {
	struct actor *actor;
	struct nam_worker *worker;
	struct nam_kv *kv, *asking;	/* the same store; asking: litmus_kv_open_asking() */
	uint32_t number;
};

/* GETs of all clients that returned a value. */
static struct {
	uint64_t all, asked;
} got;

/* ---- a pair ---------------------------------------------------------------------------------- */

/* Most are in line.  Values tell which they are in every word, and so, whether they are whole. */
static uint32_t
words_of(uint64_t payload)
{
	if (plan->alike)
		return 1;
	return payload % 16 ? 1 + (uint32_t)(payload % 5) : WORDS_MAX;
}

static int
put(const struct session *self, uint64_t number, uint64_t payload)
{
	uint64_t words[WORDS_MAX];

	for (uint32_t i = 0; i < words_of(payload); i++)
		words[i] = payload;
	return nam_kv_put(self->worker, self->kv, &number, sizeof(number), words,
		8 * words_of(payload));
}

static void
expect_whole(const uint64_t *words, uint32_t bytes)
{
	bool whole = bytes >= 8 && bytes == 8 * words_of(words[0]);

	for (uint32_t i = 0; whole && i < bytes / 8; i++)
		whole = words[i] == words[0];
	if (!whole && !nam_sim_zombie())
		litmus_fail("a value of %u bytes that no writer has put, beginning with %llu",
			bytes, (unsigned long long)words[0]);
}

/* Violates K12: buckets without the pair, by an old layout, say that there is none. */
static int
get_unasked(const struct session *self, uint64_t number, uint64_t *words, uint32_t *ret_bytes)
{
	struct nam_kv_item item = { .key = &number, .key_bytes = sizeof(number), .value = words,
		.size = 8 * WORDS_MAX };
	struct nam__kv_read read;
	int rc = nam__kv_reads(self->worker, self->kv, (struct nam_kv_item *[]){ &item }, 1,
		&read);

	if (!rc && read.result == NAM__KV_READ_ASK_AND_FORGET)
		return -NAM_E_NOTFOUND;
	return rc ?: nam_kv_get(self->worker, self->kv, &number, sizeof(number), words, item.size,
		ret_bytes);
}

/* One of three is a request in any case. */
static int
get(const struct session *self, uint64_t number, uint64_t *ret_payload)
{
	bool asks = nam_sim_random() % 3 == 0;
	uint64_t words[WORDS_MAX] = { 0 };
	uint32_t bytes = 0;
	int rc = asks || NAM_GUARD(KV_MISS) ? nam_kv_get(self->worker,
		asks ? self->asking : self->kv, &number, sizeof(number), words, sizeof(words),
		&bytes) : get_unasked(self, number, words, &bytes);

	if (rc)
		return rc;
	got.all++;
	got.asked += asks;
	expect_whole(words, bytes);
	*ret_payload = words[0];
	return 0;
}

/* ---- the store ------------------------------------------------------------------------------- */

void
litmus_kv_make(struct nam_worker *worker, const char *name, enum nam_kv_mode mode, uint32_t chunks)
{
	struct nam_kv_options options;

	nam_kv_options_init(&options);
	options.mode = mode;
	options.engine = NAM_KV_CUCKOO;
	options.onesided = true;
	options.memory_bytes = (uint64_t)chunks * NAM__KV_CHUNK_BYTES;
	options.partitions = 1;
	if (nam_kv_create(worker, name, &options))
		litmus_fail("the store: %s", nam_worker_diag(worker));
}

struct nam_kv *
litmus_kv_open(struct nam_worker *worker, const char *name)
{
	struct nam_kv *kv = NULL;

	if (nam_kv_open(worker, name, &kv))
		sim_die("the store: %s", nam_worker_diag(worker));
	return kv;
}

struct nam_kv *
litmus_kv_open_asking(struct nam_worker *worker, const char *name)
{
	struct nam_kv *kv = litmus_kv_open(worker, name);

	nam__kv_layouts_free(kv);
	kv->layouts = NULL;
	return kv;
}

struct nam__store *
litmus_kv_store(const struct nam_kv *kv)
{
	return (struct nam__store *)nam__objects_find(&litmus.cluster.servers[0].server->stores,
		kv->store);
}

/* The tables have no slots for all of these, whatever is kicked where. */
static void
fill(struct nam_worker *worker, struct nam_kv *kv)
{
	const struct session session = { .worker = worker, .kv = kv };
	uint32_t slots = 2 * plan->near * NAM__CUCKOO_SLOTS;
	struct nam_kv_stat stat = { 0 };
	int rc = 0;

	for (uint32_t i = 0; i < plan->cold && !rc; i++)
		rc = put(&session, numbers[HOT + i], 1);
	if (rc || nam_kv_stat(worker, kv, &stat) || stat.stashed + slots < plan->cold)
		litmus_fail("%llu of %u pairs are in the stash: %s",
			(unsigned long long)stat.stashed, plan->cold, nam_worker_diag(worker));
}

static void
make_crowded(struct nam_worker *worker)
{
	static const uint8_t zeroes[PINNING_BYTES];
	const struct nam__kv_partition *partition;
	uint64_t number = 0;
	struct nam_kv *kv;

	litmus_kv_make(worker, STORE, plan->mode, plan->chunks);
	kv = litmus_kv_open(worker, STORE);
	partition = &litmus_kv_store(kv)->partitions[0];
	for (uint32_t i = 0; i < HOT + plan->cold; i++, number++) {
		number = sim_kv_crowded(kv, &partition->cuckoo.shape, plan->near, number, 1);
		numbers[i] = number;
	}
	if (plan->pinned && nam_kv_put(worker, kv, "pin", 3, zeroes,
			nam__cuckoo_cells_most(partition) * NAM__CUCKOO_CELL_DATA))
		litmus_fail("put: %s", nam_worker_diag(worker));
	if (plan->full)
		fill(worker, kv);
	nam_kv_close(kv);
}

/* It is sound; READs have answered GETs, and so have requests. */
static struct nam_kv_stat
stat_of(struct actor *self)
{
	struct nam_kv *kv = litmus_kv_open(self->worker, STORE);
	struct nam_kv_stat stat = { 0 };
	struct nam_diag diag;

	if (!nam__kv_partition_sound(&litmus_kv_store(kv)->partitions[0], &diag))
		litmus_fail("%s", diag.text);
	if (nam_kv_stat(self->worker, kv, &stat))
		litmus_fail("stat: %s", nam_worker_diag(self->worker));
	if (!got.asked || stat.hits < got.asked || got.all <= stat.hits)
		litmus_fail("%llu values, %llu of them asked for, and %llu requests found one",
			(unsigned long long)got.all, (unsigned long long)got.asked,
			(unsigned long long)stat.hits);
	nam_kv_close(kv);
	return stat;
}

/* ---- histories ------------------------------------------------------------------------------- */

/* Either way: a store may have no room for it. */
static bool
unexpected(int rc)
{
	return rc && rc != -NAM_E_NOTFOUND && rc != -NAM_E_REMOTE_FULL && !nam_sim_zombie();
}

static void
do_cold(const struct session *self)
{
	uint64_t number = numbers[HOT + nam_sim_random() % plan->cold];
	int rc = nam_sim_random() % 4 ? put(self, number, 1 + nam_sim_random() % 1000) :
		nam_kv_delete(self->worker, self->kv, &number, sizeof(number));

	if (unexpected(rc))
		litmus_fail("a cold key: %s", nam_err_name(rc));
}

static void
do_hot(const struct session *self, uint64_t payload)
{
	static const enum sim_kind kinds[] = { SIM_UPSERT, SIM_LOOKUP, SIM_LOOKUP, SIM_LOOKUP,
		SIM_DELETE };
	enum sim_kind kind = kinds[nam_sim_random() % 5];
	uint64_t number = numbers[nam_sim_random() % HOT], read = 0;
	size_t op = sim_history_call(&history, self->actor->who, self->number, kind, number,
		payload, nam_sim_now_ns());
	int rc;

	if (kind == SIM_UPSERT)
		rc = put(self, number, payload);
	else if (kind == SIM_LOOKUP)
		rc = get(self, number, &read);
	else
		rc = nam_kv_delete(self->worker, self->kv, &number, sizeof(number));
	if (nam_sim_zombie())
		return;
	sim_history_return(&history, op, rc, read, nam_sim_now_ns());
	if (unexpected(rc))
		litmus_fail("a hot key: %s", nam_err_name(rc));
}

static void
session_main(void *arg)
{
	struct session *self = arg;

	for (uint32_t i = 0; i < OPERATIONS && !litmus.failed && !nam_sim_zombie(); i++) {
		uint64_t who = (uint64_t)self->actor->who * SESSIONS + self->number;

		if (plan->dies && self->actor->who == C && i == OPERATIONS / 2)
			nam_sim_process_kill(self->actor->process);
		if (plan == &shrunk_plan)
			nam_sleep_ns(nam_sim_random() % APART_NS);
		if (nam_sim_random() % 2)
			do_hot(self, who * OPERATIONS + i + 1);
		else
			do_cold(self);
	}
}

static void
crowd(struct actor *self, enum nam_transport transport, void (*main)(void *arg))
{
	struct session sessions[SESSIONS];
	struct nam_client *client;
	struct nam_worker *worker = litmus_kv_come(transport, &client);
	struct nam_kv *kv, *asking;

	if (self->who == A) {
		memset(&got, 0, sizeof(got));
		make_crowded(worker);
		litmus.flags[ONE] = true;
	}
	litmus_await(ONE);
	kv = litmus_kv_open(worker, STORE);
	asking = litmus_kv_open_asking(worker, STORE);
	for (uint32_t i = 0; i < SESSIONS; i++) {
		sessions[i] = (struct session){ self, worker, kv, asking, i };
		if (nam_worker_spawn(worker, main, &sessions[i]))
			sim_die("no fiber");
	}
	nam_worker_run(worker);
	nam_kv_close(asking);
	nam_kv_close(kv);
	nam_worker_close(worker);
	nam_client_close(client);
}

static void
crowd_of(struct actor *self, const struct plan *of)
{
	static const enum nam_transport transports[] = { [A] = NAM_TRANSPORT_SRQ,
		[B] = NAM_TRANSPORT_MAILBOX, [C] = NAM_TRANSPORT_FETCH };
	enum nam_transport transport = transports[self->who];

	if (self->who == A) {
		plan = of;
		sim_history_free(&history);	/* of a run that failed */
	}
	if (self->who == B && nam_sim_profile_caps(litmus.profile) & NAM_CAP_UD &&
		nam_sim_random() % 2)
		transport = NAM_TRANSPORT_DATAGRAM;
	crowd(self, transport, session_main);
}

static void
in_kicked(struct actor *self)
{
	static const struct plan kicked = { .mode = NAM_KV_STORE, .chunks = 2, .near = 3,
		.cold = 28, .full = true, .pinned = true };

	crowd_of(self, &kicked);
}

static void
in_grown(struct actor *self)
{
	static const struct plan grown = { .mode = NAM_KV_STORE, .chunks = 20, .near = 1,
		.cold = COLD_MAX, .dies = true };

	crowd_of(self, &grown);
}

/* ---- tables that shrink ---------------------------------------------------------------------- */

static struct {
	uint32_t shrunk, grown;
} tables;

/* Tables grow for the cold keys, and half of these go. */
static void
grow(const struct session *self)
{
	for (uint32_t i = 0; i < plan->cold && !litmus.failed; i++) {
		int rc = put(self, numbers[HOT + i], 1 + i);

		if (unexpected(rc))
			litmus_fail("a cold key: %s", nam_err_name(rc));
	}
	for (uint32_t i = 0; i < plan->cold && !litmus.failed; i += 2) {
		uint64_t number = numbers[HOT + i];
		int rc = nam_kv_delete(self->worker, self->kv, &number, sizeof(number));

		if (unexpected(rc))
			litmus_fail("a cold key: %s", nam_err_name(rc));
	}
}

/* A long pair comes, for which the tables give memory, and goes, so they can take it again. */
static void
ballast(struct session *self)
{
	const struct nam__cuckoo_shape *shape =
		&litmus_kv_store(self->kv)->partitions[0].cuckoo.shape;
	static uint8_t bytes[BALLAST_BYTES];

	/* No byte of it says that nothing is here. */
	memset(bytes, 0x11, sizeof(bytes));
	for (uint32_t i = 0; i < BALLAST_ROUNDS && !litmus.failed; i++) {
		uint32_t least = nam__cuckoo_buckets(shape), most;
		int rc;

		grow(self);
		most = nam__cuckoo_buckets(shape);
		rc = nam_kv_put(self->worker, self->kv, "ballast", 7, bytes, sizeof(bytes));
		tables.grown += most > least;
		tables.shrunk += nam__cuckoo_buckets(shape) < most;
		nam_sleep_ns(nam_sim_random() % APART_NS);
		if (!rc)
			rc = nam_kv_delete(self->worker, self->kv, "ballast", 7);
		if (unexpected(rc))
			litmus_fail("the ballast: %s", nam_err_name(rc));
	}
}

static void
session_of_shrunk(void *arg)
{
	struct session *self = arg;

	if (self->actor->who == A && !self->number)
		ballast(self);
	else
		session_main(arg);
}

static void
in_shrunk(struct actor *self)
{
	if (self->who == A) {
		plan = &shrunk_plan;
		memset(&tables, 0, sizeof(tables));
		sim_history_free(&history);	/* of a run that failed */
	}
	crowd(self, self->who == B ? NAM_TRANSPORT_FETCH : NAM_TRANSPORT_SRQ, session_of_shrunk);
}

/* ---- what has happened ----------------------------------------------------------------------- */

/* Each pair is where READs find it, or a request does; and what happened is what should. */
static void
end_crowd(struct actor *self)
{
	struct sim_linearizable_options options;
	struct sim_findings findings = sim_findings_to(stdout);
	struct nam_kv_stat stat = stat_of(self);
	uint64_t kicked = 0;

	for (uint32_t i = 1; i < NAM_KV_KICKED; i++)
		kicked += stat.kicked[i];
	if (plan == &shrunk_plan && (!tables.shrunk || !tables.grown))
		litmus_fail("tables have grown %u times and shrunk %u times", tables.grown,
			tables.shrunk);
	if (!kicked || (!plan->pinned && plan != &shrunk_plan && stat.slots < GROWN_SLOTS))
		litmus_fail("%llu inserts after kick-outs, %llu slots", (unsigned long long)kicked,
			(unsigned long long)stat.slots);
	sim_linearizable_options_init(&options);
	sim_check_linearizable(&history, &options, &findings);
	if (findings.violations || findings.undecided)
		litmus_fail("no order explains the results of %llu keys, %llu are undecided",
			(unsigned long long)findings.violations,
			(unsigned long long)findings.undecided);
	sim_history_free(&history);
}

/* ---- a cache --------------------------------------------------------------------------------- */

/* Of each hot key.  Its only writer puts 1, 2, 3 ...: a pair may go at any time, but not return. */
static struct {
	uint64_t least;			/* that a GET may return which is called now */
	uint64_t called, done;		/* puts */
} watched[HOT];

static void
least_is(uint32_t i, uint64_t number)
{
	if (number > watched[i].least)
		watched[i].least = number;
}

static void
write_watched(const struct session *self, uint32_t i)
{
	uint64_t payload = watched[i].called + 1;
	bool deletes = nam_sim_random() % (plan->alike ? 2 : 4) == 0;
	int rc;

	if (!deletes)
		watched[i].called = payload;
	rc = deletes ? nam_kv_delete(self->worker, self->kv, &numbers[i], sizeof(numbers[i])) :
		put(self, numbers[i], payload);
	if (!deletes && !rc)
		watched[i].done = payload;
	if (!rc || rc == -NAM_E_NOTFOUND)
		least_is(i, payload);
	else
		litmus_fail("a hot key of a cache: %s", nam_err_name(rc));
}

static void
read_watched(const struct session *self, uint32_t i)
{
	uint64_t least = watched[i].least, done = watched[i].done, payload = 0;
	int rc = get(self, numbers[i], &payload);

	if (rc && rc != -NAM_E_NOTFOUND)
		litmus_fail("a hot key of a cache: %s", nam_err_name(rc));
	if (!rc && (payload < least || payload > watched[i].called))
		litmus_fail("the value is %llu, where %llu or a later one should be",
			(unsigned long long)payload, (unsigned long long)least);
	least_is(i, rc ? done + 1 : payload);
}

static void
session_of_cache(void *arg)
{
	struct session *self = arg;

	for (uint32_t i = 0; i < OPERATIONS && !litmus.failed; i++) {
		uint64_t dice = nam_sim_random() % 4;

		if (self->actor->who == A && self->number < HOT && dice < 2)
			write_watched(self, self->number);
		else if (dice < 3)
			read_watched(self, (uint32_t)(nam_sim_random() % HOT));
		else
			do_cold(self);
	}
}

/* A pair goes and the next one comes between two parts of the READ, if it so happens. */
static void
read_in_parts(const struct session *self, uint32_t i)
{
	nam_sim_delay_next(NAM_WR_READ, 1 + (uint32_t)(nam_sim_random() % 31),
		nam_sim_random() % LONG_NS);
	read_watched(self, i);
}

static void
session_of_gone(void *arg)
{
	struct session *self = arg;

	for (uint32_t i = 0; i < OPERATIONS && !litmus.failed; i++)
		if (self->actor->who == A && self->number < HOT)
			write_watched(self, self->number);
		else
			read_in_parts(self, (uint32_t)(nam_sim_random() % HOT));
}

static void
watch(struct actor *self, const struct plan *of, void (*main)(void *arg))
{
	if (self->who == A) {
		plan = of;
		memset(watched, 0, sizeof(watched));
	}
	crowd(self, self->who == B ? NAM_TRANSPORT_FETCH : NAM_TRANSPORT_MAILBOX, main);
}

static void
in_gone(struct actor *self)
{
	static const struct plan gone = { .mode = NAM_KV_STORE, .chunks = 2, .near = 3,
		.alike = true };

	watch(self, &gone, session_of_gone);
}

static void
in_cache(struct actor *self)
{
	static const struct plan cache = { .mode = NAM_KV_CACHE, .chunks = 2, .near = 3,
		.cold = 40, .pinned = true };

	watch(self, &cache, session_of_cache);
}

static void
end_gone(struct actor *self)
{
	(void)stat_of(self);
}

static void
end_cache(struct actor *self)
{
	if (!stat_of(self).evictions)
		litmus_fail("no pair was evicted");
}

#define STRETCHED                                                                                  \
	{                                                                                          \
		{ "kv.kicked", SERVER, litmus_linger }, { "kv.before_head", SERVER, litmus_linger }, \
		{ "kv.half_written", SERVER, litmus_linger }                                       \
	}

const struct litmus_case litmus_cuckoo_cases[] = {
	{ { "kv_kicked", 0, { end_crowd, in_kicked, in_kicked, in_kicked }, STRETCHED },
		"READs and requests beside inserts that kick pairs out of a few buckets", 1,
		LITMUS_COARSE_HASH },
	{ { "kv_grown", 0, { end_crowd, in_grown, in_grown, in_grown }, STRETCHED },
		"the same beside growth, with old layouts, and a client dies", 1,
		LITMUS_COARSE_HASH },
	{ { "kv_shrunk", 0, { end_crowd, in_shrunk, in_shrunk, in_shrunk }, STRETCHED },
		"the same beside tables that shrink and grow, with layouts of other sizes", 1,
		LITMUS_COARSE_HASH },
	{ { "kv_gone", 0, { end_gone, in_gone, in_gone, in_gone }, { { 0 } } },
		"a pair goes and another one comes to its slot, between two parts of a READ", 1,
		LITMUS_COARSE_HASH },
	{ { "kv_evicted", 0, { end_cache, in_cache, in_cache, in_cache }, STRETCHED },
		"the same in a cache: a pair that was evicted does not come back", 1,
		LITMUS_COARSE_HASH },
	{ { 0 }, NULL, 0, 0 },
};
