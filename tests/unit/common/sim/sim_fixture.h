/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sim_fixture.h -- a simulated server of bare memory, and a client that talks to it in work
 * requests.  Tests of the simulator's own promises stand on them.
 */
#ifndef NAM_TESTS_UNIT_COMMON_SIM_SIM_FIXTURE_H
#define NAM_TESTS_UNIT_COMMON_SIM_SIM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/sim/sim.h"

#define REGION_BYTES 65536u
#define LOCAL_BYTES 8192u
#define SERVER_RECEIVES 4u

struct world;

/* One connection of the client process, and registered memory of its own. */
struct end {
	struct world *world;
	struct nam_domain *domain;
	struct nam_cq *cq;
	struct nam_rq *rq;
	struct nam_qp *qp;
	struct nam_mr mr;
	uint8_t local[LOCAL_BYTES];
};

struct world {
	struct nam_sim_options options;
	void (*body)(struct world *world);	/* in the client process */
	void *arg;
	/* the server's */
	struct nam_sim_process *server, *client;
	struct nam_mr region;
	uint8_t *memory;
	struct nam_domain *server_domain;
	struct nam_rq *server_rq;
	struct nam_qp *server_qp;	/* accepted last */
	bool refuses, ready, done;
	uint32_t rights;		/* of connections that the server accepts from now on */
	unsigned receives_posted;	/* by the server at the start */
	unsigned received, closed;	/* seen by the server */
	uint8_t inbox[SERVER_RECEIVES][256];
	/* the client's */
	struct end ends[2];
	unsigned opened;
	unsigned hits, zombies;		/* for the body's purposes */
	int rc;				/* of nam_sim_run() */
	uint64_t fingerprint;
};

static inline const struct nam_fabric_ops *
ops(void)
{
	return nam_fabric_find("sim:", NULL);
}

/* ---- the server --------------------------------------------------------------------------- */

static inline void
server_receive(struct world *world, unsigned number)
{
	struct nam_recv recv = {
		.buffer = world->inbox[number],
		.bytes = sizeof(world->inbox[number]),
		.context = world->inbox[number],
	};

	assert_int_equal(ops()->rq_post(world->server_rq, &recv, 1), 0);
}

static inline void
server_poll(struct world *world, struct nam_cq *cq)
{
	struct nam_wc wc;

	while (ops()->cq_poll(cq, &wc, 1) == 1) {
		if (wc.op == NAM_WC_RECV) {
			world->received++;
		} else if (wc.op == NAM_WC_CLOSED) {
			world->closed++;
			ops()->qp_destroy(wc.qp);
		}
	}
}

static inline void
server_main(void *arg)
{
	struct world *world = arg;
	struct nam_qp_options options = { 0 };
	struct nam_hello reply = { .bytes = 3, .data = "yes" };
	struct nam_listener *listener;
	struct nam_domain *domain;
	struct nam_cm_event event;
	struct nam_diag diag;

	assert_int_equal(ops()->domain_open(NULL, &domain, &diag), 0);
	assert_int_equal(ops()->region_alloc(domain, REGION_BYTES, 12, 0, -1, &world->region,
				 &diag), 0);
	world->server_domain = domain;
	world->memory = world->region.base;
	assert_int_equal(ops()->cq_create(domain, 64, &options.cq), 0);
	assert_int_equal(ops()->rq_create(domain, options.cq, SERVER_RECEIVES, &options.rq), 0);
	world->server_rq = options.rq;
	for (unsigned i = 0; i < world->receives_posted; i++)
		server_receive(world, i);
	assert_int_equal(ops()->listen(domain, "sim:server", &listener, &diag), 0);
	world->ready = true;
	while (!world->done) {
		if (ops()->listener_poll(listener, 20000, &event) == NAM_LISTENER_EVENT) {
			options.rights = world->rights;
			if (world->refuses)
				ops()->reject(listener, event.request, &reply);
			else
				assert_int_equal(ops()->accept(listener, event.request, &options,
							 &reply, &world->server_qp), 0);
		}
		server_poll(world, options.cq);
	}
	while (world->closed < world->opened) {
		server_poll(world, options.cq);
		nam_sleep_ns(1000);
	}
	ops()->listener_close(listener);
	ops()->rq_destroy(options.rq);
	ops()->cq_destroy(options.cq);
	world->memory = NULL;
	ops()->mr_release(domain, &world->region);
	ops()->domain_close(domain);
}

/* ---- the client --------------------------------------------------------------------------- */

static inline void
end_open(struct world *world, struct end *end)
{
	struct nam_diag diag;

	memset(end, 0, sizeof(*end));
	end->world = world;
	assert_int_equal(ops()->domain_open(NULL, &end->domain, &diag), 0);
	assert_int_equal(ops()->mr_register(end->domain, end->local, LOCAL_BYTES, NAM_MR_LOCAL,
				 &end->mr, &diag), 0);
	assert_int_equal(ops()->cq_create(end->domain, 64, &end->cq), 0);
	assert_int_equal(ops()->rq_create(end->domain, end->cq, 4, &end->rq), 0);
}

static inline int
end_connect(struct end *end, struct nam_hello *reply)
{
	struct nam_qp_options options = { .cq = end->cq, .rq = end->rq };
	struct nam_hello hello = { .bytes = 2, .data = "hi" };
	struct nam_diag diag;
	int rc = ops()->connect(end->domain, "sim:server", &hello, &options, reply, &end->qp,
		&diag);

	end->world->opened += !rc;
	return rc;
}

static inline void
end_close(struct end *end)
{
	ops()->qp_destroy(end->qp);
	ops()->rq_destroy(end->rq);
	ops()->cq_destroy(end->cq);
	ops()->mr_release(end->domain, &end->mr);
	ops()->domain_close(end->domain);
}

/* @offset	of both the server's region and `local` */
static inline struct nam_wr
request(const struct end *end, enum nam_wr_op op, uint32_t remote, uint32_t local, uint32_t bytes)
{
	return (struct nam_wr){
		.op = (uint8_t)op,
		.flags = NAM_WR_SIGNALED,
		.bytes = bytes,
		.remote = end->world->region.remote + remote,
		.rkey = end->world->region.rkey,
		.lkey = end->mr.lkey,
		.local = (void *)(uintptr_t)(end->local + local),
		.context = (void *)(uintptr_t)(op * 1000u + local),
	};
}

static inline void
post(struct end *end, const struct nam_wr *wrs, unsigned count)
{
	assert_int_equal(ops()->qp_post(end->qp, wrs, count), 0);
}

/* The next completion; waits for it. */
static inline struct nam_wc
next(struct end *end)
{
	struct nam_wc wc;

	while (ops()->cq_poll(end->cq, &wc, 1) != 1)
		(void)ops()->cq_wait(end->cq, 1000000);
	return wc;
}

/* Post, and wait for as many completions as there are signalled requests; all are good. */
static inline void
carry_out(struct end *end, const struct nam_wr *wrs, unsigned count)
{
	post(end, wrs, count);
	for (unsigned i = 0; i < count; i++)
		if (wrs[i].flags & NAM_WR_SIGNALED)
			assert_int_equal(next(end).status, 0);
}

static inline uint64_t
word(const void *memory, uint32_t offset)
{
	uint64_t value;

	memcpy(&value, (const uint8_t *)memory + offset, 8);
	return value;
}

static inline void
client_main(void *arg)
{
	struct world *world = arg;

	while (!world->ready)
		nam_sleep_ns(1000);
	world->body(world);
	world->done = true;
}

/* ---- runs --------------------------------------------------------------------------------- */

static inline void
world_init(struct world *world, enum nam_sim_profile profile, void (*body)(struct world *world))
{
	memset(world, 0, sizeof(*world));
	nam_sim_options_init(&world->options);
	world->options.profile = profile;
	world->options.step_bytes = 8;
	world->options.limit_ns = 60000000000ull;
	world->body = body;
}

static inline void
world_run(struct world *world, uint64_t seed)
{
	world->options.seed = seed;
	world->ready = false;
	world->done = false;
	world->opened = 0;
	world->received = 0;
	world->closed = 0;
	assert_int_equal(nam_sim_begin(&world->options), 0);
	assert_int_equal(nam_sim_process_start("server", server_main, world, &world->server), 0);
	assert_int_equal(nam_sim_process_start("client", client_main, world, &world->client), 0);
	world->rc = nam_sim_run();
	world->fingerprint = nam_sim_counted().fingerprint;
	nam_sim_end();
}

/* In how many of so many seeds the body had a hit. */
static inline unsigned
hits(enum nam_sim_profile profile, void (*body)(struct world *world), unsigned seeds)
{
	struct world *world = malloc(sizeof(*world));
	unsigned count = 0;

	assert_non_null(world);
	for (unsigned seed = 1; seed <= seeds; seed++) {
		world_init(world, profile, body);
		world_run(world, seed);
		assert_int_equal(world->rc, 0);
		count += world->hits != 0;
	}
	free(world);
	return count;
}

#endif /* NAM_TESTS_UNIT_COMMON_SIM_SIM_FIXTURE_H */
