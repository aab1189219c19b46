/* SPDX-License-Identifier: Apache-2.0 */
/*
 * litmus_attacks.c -- scenes of attackers: requests to memory by connections that may not make them.
 */
#include <errno.h>

#include "litmus_keys.h"
#include "memserver/memserver_internal.h"

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
	for (unsigned i = 0; i < LITMUS_PATIENCE_NS / LITMUS_POLL_NS; i++) {
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
	{ { "keys_guessed", LITMUS_LOADED, { NULL, guess }, { { 0 } } },
		"connections without proof, and a reader's, use true rkeys and addresses", 2,
		LITMUS_FINE_KEYS },
	{ { 0 }, NULL, 0, 0 },
};
