/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_attacks.c -- scenes of attackers that do not connect in order.  Many connections stop
 * half-way, or connections request memory that they may not touch.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fabric/provider.h"
#include "litmus_keys.h"
#include "memserver/memserver_internal.h"

/* ---- connections that stop half-way ---------------------------------------------------------- */

#define CROWD 1000u
#define CROWD_PACE_NS 2000u		/* between two attempts */
#define CROWD_HANGS_UP 4u		/* every so many */
#define CROWD_KEY 1000u

/*
 * Each attempts twice.  The first one gives up before it hears of a challenge.  The second one is
 * challenged, and silent until the gate opens.
 */
struct half_way {
	struct litmus_attack attack;
	struct nam_thread *thread;
	unsigned number;
};

static struct {
	struct nam_server *server;
	struct litmus_queues hasty, silent;
	struct nam_sim_gate gate;
	unsigned challenged, admitted;
	uint32_t connections;		/* before */
} crowd;

static int
answer_late(void *arg, const struct nam_hello *challenge, struct nam_hello *ret_answer,
	struct nam_diag *diag)
{
	struct half_way *one = arg;

	crowd.challenged++;
	nam_sim_gate_wait(&crowd.gate);
	if (one->number % CROWD_HANGS_UP == 0)
		return -ECANCELED;
	return litmus_attack_answer(&one->attack, challenge, ret_answer, diag);
}

static int
attempt(struct half_way *one, const struct litmus_queues *queues, struct nam_qp **ret_qp)
{
	struct nam_qp_options options = queues->options;
	struct nam_diag diag = { "" };
	struct nam_hello reply;

	options.answer = answer_late;
	options.answer_arg = one;
	return queues->ops->connect(queues->domain, queues->address, &one->attack.hello, &options,
		&reply, ret_qp, &diag);
}

static void
stop_half_way(void *arg)
{
	struct half_way *one = arg;
	struct nam_qp *qp = NULL;

	if (attempt(one, &crowd.hasty, &qp) != -NAM_E_FABRIC_TIMEOUT)
		litmus_fail("an attempt is answered before a message could come");
	if (attempt(one, &crowd.silent, &qp))
		return;
	crowd.admitted++;
	crowd.silent.ops->qp_destroy(qp);
}

static uint32_t
connections_now(void)
{
	return atomic_load(&crowd.server->connections_count);
}

/* Connections that have ended are noticed later. */
static void
expect_connections_before(const char *when)
{
	for (unsigned i = 0; i < LITMUS_TIMEOUT_NS / LITMUS_POLL_NS &&
		connections_now() != crowd.connections; i++)
		nam_sleep_ns(LITMUS_POLL_NS);
	if (connections_now() != crowd.connections)
		litmus_fail("%s there are %u connections instead of %u", when, connections_now(),
			crowd.connections);
}

static void
crowd_begin(void)
{
	memset(&crowd, 0, sizeof(crowd));
	crowd.server = litmus.cluster.servers[0].server;
	crowd.connections = connections_now();
	litmus_queues_open(&crowd.hasty, 0);
	litmus_queues_open(&crowd.silent, 0);
	crowd.hasty.domain->timeout_ns = 1;
}

/* All of them have a good key, and most answer in the end. */
static void
come_in_crowds(struct actor *self)
{
	struct half_way *ones = calloc(CROWD, sizeof(*ones));

	(void)self;
	if (!ones)
		sim_die("no memory");
	litmus_await(INSERTED);
	crowd_begin();
	for (unsigned i = 0; i < CROWD; i++) {
		ones[i] = (struct half_way){ .attack = litmus_attack_as(APP, APP, 0, 0),
			.number = i };
		if (nam_thread_start("attacker", stop_half_way, &ones[i], &ones[i].thread))
			sim_die("an attacker cannot be started");
		litmus.flags[ONE] = i >= CROWD / 2;
		nam_sleep_ns(CROWD_PACE_NS);
	}
	for (unsigned i = 0; i < LITMUS_TIMEOUT_NS / LITMUS_POLL_NS &&
		crowd.challenged < CROWD; i++)
		nam_sleep_ns(LITMUS_POLL_NS);
	litmus.flags[TWO] = true;
	litmus_await(THREE);
	nam_sim_gate_open(&crowd.gate);
	for (unsigned i = 0; i < CROWD; i++)
		nam_thread_join(ones[i].thread);
	if (nam_sim_qp_asking(crowd.silent.domain))
		litmus_fail("a connection is half-way that has ended");
	litmus_queues_close(&crowd.silent);
	litmus_queues_close(&crowd.hasty);
	free(ones);
	litmus.flags[FOUR] = true;
	litmus_await(FIVE);
}

/* A client comes, works, and leaves. */
static void
come_and_work(struct actor *self, uint64_t number)
{
	struct actor other = { .who = self->who };
	struct nam_diag diag = { "" };

	litmus_keys_choose(&litmus.cluster, self->who);
	if (sim_client_try(&litmus.cluster, litmus.cluster.list, "other", &other.client, &diag)) {
		litmus_fail("a client beside a crowd: %s", diag.text);
		return;
	}
	other.worker = sim_worker(other.client);
	if (!other.worker || nam_index_open(other.worker, LITMUS_INDEX, 1u << 20, &other.index)) {
		litmus_fail("a worker beside a crowd cannot come");
	} else {
		litmus_insert(&other, number);
		litmus_expect_range(&other, 0, 10 * (LITMUS_LOADED - 1), 0);
		litmus_expect(&other, number, 0);
	}
	nam_index_close(other.index);
	if (other.worker)
		nam_worker_close(other.worker);
	nam_client_close(other.client);
}

static void
work_beside_crowd(struct actor *self)
{
	uint64_t accepted;

	litmus.flags[INSERTED] = true;
	litmus_await(ONE);
	come_and_work(self, CROWD_KEY);
	litmus_await(TWO);
	if (crowd.challenged != CROWD)
		litmus_fail("%u connections stop half-way", crowd.challenged);
	expect_connections_before("beside a crowd");
	come_and_work(self, CROWD_KEY + 1);
	expect_connections_before("beside a crowd, after a client,");
	accepted = atomic_load(&crowd.server->accepted);
	litmus.flags[THREE] = true;
	litmus_await(FOUR);
	/* It has forgotten all but the last ones. */
	if (!crowd.admitted || crowd.admitted > NAM__PENDING_MAX ||
		atomic_load(&crowd.server->accepted) - accepted != crowd.admitted)
		litmus_fail("%u connections that stopped half-way are admitted", crowd.admitted);
	expect_connections_before("after a crowd");
	litmus.flags[FIVE] = true;
	come_and_work(self, CROWD_KEY + 2);
	litmus_expect(self, CROWD_KEY, 0);
}

/* ---- requests to memory ---------------------------------------------------------------------- */

#define VICTIM 1u			/* of the memory servers */
#define GUESS_NS 300u
#define GUESS_PAUSE_NS 10000u		/* the attacker takes so long for its answer */
#define PLACES 3u			/* in each region */

static const uint8_t ops_all[] = { NAM_WR_READ, NAM_WR_WRITE, NAM_WR_CAS, NAM_WR_FETCH_ADD };
#define OPS (sizeof(ops_all) / sizeof(ops_all[0]))

enum stage { ASKS, CHALLENGED, REFUSED, STAGES };

struct guesser {
	struct litmus_attack attack;
	struct litmus_queues queues;
	struct nam_mr mr;
	_Alignas(64) uint64_t words[8];
	uint64_t refused;		/* by the memory server, before */
	unsigned posts[STAGES];
	bool over;
};

/* The true ones: an attacker cannot guess better. */
static const struct nam__memory *
victim_memory(void)
{
	return &litmus.cluster.servers[VICTIM].server->memory;
}

static uint64_t
place(const struct nam_mr *mr, unsigned number)
{
	const uint64_t offsets[PLACES] = { 0, mr->bytes / 2, mr->bytes - 8 };

	return mr->remote + offsets[number];
}

/* A CAS that changes what is 0, and a FETCH_ADD of 1. */
static struct nam_wr
request_of(struct guesser *self, uint8_t op, uint32_t rkey, uint64_t remote)
{
	self->words[0] = 4711;
	return (struct nam_wr){ .op = op, .flags = NAM_WR_SIGNALED, .bytes = 8, .remote = remote,
		.rkey = rkey, .lkey = self->mr.lkey, .local = self->words,
		.compare = op == NAM_WR_FETCH_ADD ? 1 : 0, .swap = 4711 };
}

static void
guesser_open(struct guesser *self, enum litmus_key name, enum litmus_key secret)
{
	struct nam_diag diag = { "" };

	*self = (struct guesser){ .attack = litmus_attack_as(name, secret, 0, 0) };
	litmus_queues_open(&self->queues, VICTIM);
	if (self->queues.ops->mr_register(self->queues.domain, self->words, sizeof(self->words),
			NAM_MR_LOCAL, &self->mr, &diag))
		sim_die("the attacker has no memory: %s", diag.text);
}

static void
guesser_close(struct guesser *self)
{
	self->queues.ops->mr_release(self->queues.domain, &self->mr);
	litmus_queues_close(&self->queues);
}

static uint64_t
refused_now(void)
{
	const struct nam_server *server = litmus.cluster.servers[VICTIM].server;

	return atomic_load(&server->refused[NAM_REFUSED_KEY]);
}

static void
guess_all(struct guesser *self, struct nam_qp *qp)
{
	const struct nam__memory *memory = victim_memory();

	for (uint32_t i = 0; i < memory->count * PLACES * OPS; i++) {
		const struct nam_mr *mr = &memory->mrs[i / OPS / PLACES];
		struct nam_wr wr = request_of(self, ops_all[i % OPS], mr->rkey,
			place(mr, i / OPS % PLACES));

		if (!self->queues.ops->qp_post(qp, &wr, 1))
			litmus_fail("a queue pair without proof takes a request");
	}
}

/* From the hello on, until connect() has returned. */
static void
guess_meanwhile(void *arg)
{
	struct guesser *self = arg;
	struct nam_wc wc;

	while (!self->over) {
		struct nam_qp *qp = nam_sim_qp_asking(self->queues.domain);

		if (qp) {
			self->posts[refused_now() > self->refused ? REFUSED :
				self->attack.challenged ? CHALLENGED : ASKS]++;
			guess_all(self, qp);
		}
		while (self->queues.ops->cq_poll(self->queues.options.cq, &wc, 1) == 1)
			if (!wc.status)
				litmus_fail("a request without proof is carried out");
		nam_sleep_ns(GUESS_NS);
	}
}

/* Ends with a queue pair, if its proof is good. */
static void
connect_and_guess(struct guesser *self)
{
	struct nam_thread *thread;
	uint64_t before = litmus_memory_sum();

	self->attack.pause_ns = GUESS_PAUSE_NS;
	self->refused = refused_now();
	if (nam_thread_start("guesser", guess_meanwhile, self, &thread))
		sim_die("a thread cannot be started");
	(void)litmus_attack_connect(&self->attack, &self->queues);
	self->over = true;
	nam_thread_join(thread);
	if (!self->posts[ASKS] || !self->posts[CHALLENGED])
		litmus_fail("the attacker was too late to guess");
	if (litmus_memory_sum() != before)
		litmus_fail("a connection without proof has changed memory");
}

/* The status of a request on a connection that was admitted. */
static int
carry_out(struct guesser *self, uint8_t op, uint32_t rkey, uint64_t remote)
{
	const struct nam_fabric_ops *ops = self->queues.ops;
	struct nam_wr wr = request_of(self, op, rkey, remote);
	struct nam_wc wc;

	if (ops->qp_post(self->queues.qp, &wr, 1)) {
		litmus_fail("a queue pair takes no request");
		return -ENOBUFS;
	}
	for (unsigned i = 0; i < LITMUS_TIMEOUT_NS / LITMUS_POLL_NS; i++) {
		if (ops->cq_poll(self->queues.options.cq, &wc, 1) == 1)
			return wc.status;
		nam_sleep_ns(LITMUS_POLL_NS);
	}
	litmus_fail("a request does not complete");
	return -ETIMEDOUT;
}

/* A failure breaks the queue pair, so each request has its own. */
static int
try_as(enum litmus_key key, uint8_t op, uint32_t rkey, uint64_t remote)
{
	struct guesser self;
	int rc;

	guesser_open(&self, key, key);
	if (!litmus_attack_connect(&self.attack, &self.queues))
		sim_die("the holder of a key is refused");
	rc = carry_out(&self, op, rkey, remote);
	guesser_close(&self);
	return rc;
}

static void
guess_without_proof(void)
{
	const struct nam_mr *mr = &victim_memory()->mrs[0];
	struct guesser self;

	guesser_open(&self, APP, STRANGER);
	connect_and_guess(&self);
	if (self.queues.qp)
		litmus_fail("an attacker with a wrong proof is admitted");
	if (!self.posts[REFUSED])
		litmus_fail("the attacker was too late to guess after its refusal");
	guesser_close(&self);
	/* A good one: its early requests are lost, and the next one is not. */
	guesser_open(&self, APP, APP);
	connect_and_guess(&self);
	if (!self.queues.qp)
		litmus_fail("the holder of a key is refused");
	else if (carry_out(&self, NAM_WR_READ, mr->rkey, mr->remote))
		litmus_fail("the holder of a key cannot READ");
	guesser_close(&self);
}

static void
expect_access(int rc, const char *what)
{
	if (rc != -NAM_E_FABRIC_ACCESS)
		litmus_fail("%s: %s", what, nam_err_name(rc));
}

/* A reader READs only, and so does a writer what it has no rkey of. */
static void
exceed(void)
{
	const struct nam_mr *mr = &victim_memory()->mrs[0];
	const uint64_t before = litmus_memory_sum();

	for (unsigned i = 0; i < OPS; i++) {
		for (unsigned at = 0; at < PLACES; at++) {
			int rc = try_as(READER, ops_all[i], mr->rkey, place(mr, at));

			if (ops_all[i] != NAM_WR_READ)
				expect_access(rc, "a change by a reader");
			else if (rc)
				litmus_fail("a READ by a reader: %s", nam_err_name(rc));
		}
		expect_access(try_as(APP, ops_all[i], mr->rkey + 1, mr->remote),
			"a guess of an rkey");
		expect_access(try_as(APP, ops_all[i], mr->rkey + (1u << 16), mr->remote),
			"a guess of a later rkey");
		expect_access(try_as(APP, ops_all[i], mr->rkey, mr->remote + mr->bytes),
			"an address behind a region");
		expect_access(try_as(APP, ops_all[i], mr->rkey, mr->remote - 8),
			"an address before a region");
	}
	if (litmus_memory_sum() != before)
		litmus_fail("a connection has changed memory that it may not change");
	/* These requests would have changed it. */
	for (unsigned i = 0; i < OPS; i++)
		if (try_as(APP, ops_all[i], mr->rkey, place(mr, PLACES - 1)))
			litmus_fail("a writer cannot write");
	if (litmus_memory_sum() == before)
		litmus_fail("a writer has changed nothing");
}

static void
guess(struct actor *self)
{
	(void)self;
	guess_without_proof();
	exceed();
}

/* ---- cases ----------------------------------------------------------------------------------- */

const struct litmus_case litmus_attacks_cases[] = {
	{ { "keys_crowd", LITMUS_LOADED, { NULL, work_beside_crowd, come_in_crowds }, { { 0 } } },
		"1,000 connections stop half-way, and a client comes beside them", 2,
		LITMUS_FINE_KEYS },
	{ { "keys_guessed", LITMUS_LOADED, { NULL, guess }, { { 0 } } },
		"connections without proof, and a reader's, use true rkeys and addresses", 2,
		LITMUS_FINE_KEYS },
	{ { 0 }, NULL, 0, 0 },
};
