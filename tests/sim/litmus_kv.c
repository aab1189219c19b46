/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_kv.c -- scenes about key-value stores: many handlers at work in one partition, and one
 * that is at work on a store as it is dropped.
 */
#include <stdio.h>
#include <string.h>

#include "compute/worker/worker.h"
#include "kv/kv.h"
#include "findings.h"
#include "linearizable.h"
#include "litmus.h"

#define STORE "crowd"
#define SESSIONS 6u			/* fibers of each actor */
#define OPERATIONS 40u
#define KEYS 3u
#define WORDS_MAX 40u			/* of a value: several cells */

/* ---- a crowd in one partition ---------------------------------------------------------------- */

static struct sim_history history;

struct session {
	struct nam_worker *worker;
	struct nam_kv *kv;
	uint32_t actor, number;
};

/* Values tell which they are in every word, and so, whether they are whole. */
static uint32_t
words_of(uint64_t payload)
{
	return 1 + (uint32_t)(payload * 7 % WORDS_MAX);
}

static int
put(const struct session *self, uint64_t key, uint64_t payload)
{
	uint64_t words[WORDS_MAX];

	for (uint32_t i = 0; i < words_of(payload); i++)
		words[i] = payload;
	return nam_kv_put(self->worker, self->kv, &key, sizeof(key), words, 8 * words_of(payload));
}

static int
get(const struct session *self, uint64_t key, uint64_t *ret_payload)
{
	uint64_t words[WORDS_MAX];
	uint32_t bytes = 0;
	int rc = nam_kv_get(self->worker, self->kv, &key, sizeof(key), words, sizeof(words),
		&bytes);

	if (rc)
		return rc;
	*ret_payload = words[0];
	for (uint32_t i = 0; i < bytes / 8; i++)
		if (words[i] != words[0] || bytes != 8 * words_of(words[0]))
			litmus_fail("a value of %u bytes that no writer has put: word %u is %llu, "
				"the first %llu", bytes, i, (unsigned long long)words[i],
				(unsigned long long)words[0]);
	return 0;
}

static void
session_main(void *arg)
{
	struct session *self = arg;

	for (uint32_t i = 0; i < OPERATIONS && !litmus.failed; i++) {
		uint64_t key = nam_sim_random() % KEYS, payload = 0, read = 0;
		static const enum sim_kind kinds[] = { SIM_UPSERT, SIM_LOOKUP, SIM_LOOKUP,
			SIM_DELETE };
		enum sim_kind kind = kinds[nam_sim_random() % 4];
		size_t op;
		int rc;

		payload = ((uint64_t)self->actor * SESSIONS + self->number) * OPERATIONS + i + 1;
		op = sim_history_call(&history, self->actor, self->number, kind, key, payload,
			nam_sim_now_ns());
		if (kind == SIM_UPSERT)
			rc = put(self, key, payload);
		else if (kind == SIM_LOOKUP)
			rc = get(self, key, &read);
		else
			rc = nam_kv_delete(self->worker, self->kv, &key, sizeof(key));
		sim_history_return(&history, op, rc, read, nam_sim_now_ns());
		if (rc && rc != -NAM_E_NOTFOUND)
			litmus_fail("an operation on a store: %s", nam_err_name(rc));
	}
}

static struct nam_worker *
come_by(enum nam_transport transport, struct nam_client **ret_client)
{
	struct nam_worker *worker;

	litmus.cluster.transport = transport;
	litmus.cluster.fetch_bytes = 128;	/* some replies are longer */
	*ret_client = sim_client(&litmus.cluster, "crowd");
	worker = *ret_client ? sim_worker(*ret_client) : NULL;
	if (!worker)
		sim_die("a worker cannot come");
	return worker;
}

static void
make(struct nam_worker *worker, const char *name)
{
	struct nam_kv_options options;
	int rc;

	nam_kv_options_init(&options);
	options.mode = NAM_KV_STORE;
	options.memory_bytes = NAM_KV_PARTITION_BYTES_MIN;
	rc = nam_kv_create(worker, name, &options);
	/* A request that is carried out twice finds the name taken. */
	if (rc)
		litmus_fail("the store: %s", nam_worker_diag(worker));
}

static void
crowd(struct actor *self, enum nam_transport transport)
{
	struct session sessions[SESSIONS];
	struct nam_client *client;
	struct nam_worker *worker = come_by(transport, &client);
	struct nam_kv *kv;
	int rc;

	if (self->who == A) {
		sim_history_init(&history);
		make(worker, STORE);
		litmus.flags[ONE] = true;
	}
	litmus_await(ONE);
	rc = nam_kv_open(worker, STORE, &kv);
	if (rc) {
		litmus_fail("the store: %s", nam_worker_diag(worker));
		goto close_worker;
	}
	for (uint32_t i = 0; i < SESSIONS; i++) {
		sessions[i] = (struct session){ worker, kv, self->who, i };
		if (nam_worker_spawn(worker, session_main, &sessions[i]))
			sim_die("no fiber");
	}
	nam_worker_run(worker);
	nam_kv_close(kv);
close_worker:
	nam_worker_close(worker);
	nam_client_close(client);
}

static void
crowd_by_srq(struct actor *self)
{
	crowd(self, NAM_TRANSPORT_SRQ);
}

static void
crowd_by_mailbox(struct actor *self)
{
	crowd(self, NAM_TRANSPORT_MAILBOX);
}

static void
crowd_and_fetch(struct actor *self)
{
	crowd(self, NAM_TRANSPORT_FETCH);
}

/* Where there are no unreliable queue pairs, which lose things, mailboxes will do. */
static void
crowd_by_datagram(struct actor *self)
{
	nam_sim_lose(200000, 200000);
	crowd(self, nam_sim_profile_caps(litmus.profile) & NAM_CAP_UD ? NAM_TRANSPORT_DATAGRAM :
		NAM_TRANSPORT_MAILBOX);
}

static void
linger(struct actor *self)
{
	(void)self;
	if (nam_sim_random() % 4 == 0)
		nam_sleep_ns(nam_sim_random() % 10000);
}

static void
end_crowd(struct actor *self)
{
	struct sim_linearizable_options options;
	struct sim_findings findings = sim_findings_to(stdout);

	(void)self;
	sim_linearizable_options_init(&options);
	sim_check_linearizable(&history, &options, &findings);
	if (findings.violations || findings.undecided)
		litmus_fail("no order explains the results of %llu keys, %llu are undecided",
			(unsigned long long)findings.violations,
			(unsigned long long)findings.undecided);
	if (history.ops_count != 3 * SESSIONS * OPERATIONS && !litmus.failed)
		litmus_fail("%zu operations", history.ops_count);
	sim_history_free(&history);
}

/* ---- a handler at work on a dropped store ---------------------------------------------------- */

#define SECOND_KEYS 200u

static void
drop_and_make(struct actor *self)
{
	struct nam_kv_stat stat = { 0 };
	struct nam_kv *kv;
	int rc;

	make(self->worker, "first");
	litmus.flags[THREE] = true;
	litmus_await(ONE);
	rc = nam_kv_drop(self->worker, "first");
	if (rc)
		litmus_fail("drop: %s", nam_err_name(rc));
	make(self->worker, "second");
	if (nam_kv_open(self->worker, "second", &kv))
		sim_die("the store: %s", nam_worker_diag(self->worker));
	for (uint64_t key = 0; key < SECOND_KEYS; key++)
		if (nam_kv_put(self->worker, kv, &key, sizeof(key), &key, sizeof(key)))
			litmus_fail("put: %s", nam_worker_diag(self->worker));
	litmus.flags[TWO] = true;
	litmus_await(INSERTED);
	for (uint64_t key = 0, value = 0; key < SECOND_KEYS; key++) {
		uint32_t bytes;

		rc = nam_kv_get(self->worker, kv, &key, sizeof(key), &value, sizeof(value),
			&bytes);
		if (rc || value != key)
			litmus_fail("get(%llu): %s, %llu", (unsigned long long)key,
				nam_err_name(rc), (unsigned long long)value);
	}
	rc = nam_kv_stat(self->worker, kv, &stat);
	if (rc || stat.keys != SECOND_KEYS || stat.puts != SECOND_KEYS)
		litmus_fail("%llu keys and %llu puts where %u were put",
			(unsigned long long)stat.keys, (unsigned long long)stat.puts, SECOND_KEYS);
	nam_kv_close(kv);
}

static void
put_into_first(struct actor *self)
{
	uint64_t words[WORDS_MAX] = { 0 };
	struct nam_kv *kv;
	int rc;

	litmus_await(THREE);
	rc = nam_kv_open(self->worker, "first", &kv);
	if (rc)
		sim_die("the store: %s", nam_worker_diag(self->worker));
	litmus.flags[FOUR] = true;
	/* It has taken effect, or had nothing to do it in. */
	rc = nam_kv_put(self->worker, kv, "mine", 4, words, sizeof(words));
	if (rc && rc != -NAM_E_DROPPED)
		litmus_fail("put: %s", nam_err_name(rc));
	litmus.flags[INSERTED] = true;
	nam_kv_close(kv);
}

const struct litmus_case litmus_kv_cases[] = {
	{ { "kv_crowd", 0, { end_crowd, crowd_by_srq, crowd_by_mailbox, crowd_and_fetch },
		{ { "kv.removed", SERVER, linger }, { "kv.half_written", SERVER, linger } } },
		"many handlers at work in one partition", 1, LITMUS_COARSE_HASH },
	{ { "kv_lossy", 0, { end_crowd, crowd_by_datagram, crowd_by_mailbox, crowd_by_datagram },
		{ { "kv.removed", SERVER, linger }, { "kv.half_written", SERVER, linger } } },
		"the same, two of three clients over unreliable queue pairs that lose and double a "
		"fifth each", 1,
		LITMUS_COARSE_HASH },
	{ { "kv_dropped", 0, { NULL, drop_and_make, put_into_first },
		{ { "kv.found", SERVER, litmus_hold_once } } },
		"a store is dropped while a handler has it in hand", 1, LITMUS_COARSE_HASH },
	{ { 0 }, NULL, 0, 0 },
};
