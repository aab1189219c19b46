/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm_fixture.h -- both sides of the shm fabric in one process, for the tests of the provider.
 *
 * A thread accepts; the test's own thread polls the completion queues of both sides, so nothing
 * depends on timing.
 */
#ifndef NAM_TESTS_UNIT_COMMON_FABRIC_SHM_SHM_FIXTURE_H
#define NAM_TESTS_UNIT_COMMON_FABRIC_SHM_SHM_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/env.h"
#include "common/fabric/fabric.h"

#define REGION_BYTES (1u << 20)
#define QPS_MAX 8u
#define TIMEOUT_NS 30000000000ull	/* how long to wait for what must come */

struct side {
	struct nam_domain *domain;
	struct nam_cq *cq;
	struct nam_rq *rq;
};

struct fixture {
	const struct nam_fabric_ops *ops;
	char directory[64];
	char address[96];
	const char *path;		/* in address */
	struct side server, client;
	struct nam_mr mr;
	struct nam_listener *listener;
	struct nam_thread *acceptor;
	atomic_bool stop;
	atomic_uint accepted;
	struct nam_qp *accepted_qps[QPS_MAX];
	struct nam_qp *qps[QPS_MAX];	/* the client's */
	struct nam_diag diag;
};

static inline void
acceptor_main(void *arg)
{
	struct fixture *f = arg;
	const struct nam_hello reply = { .bytes = 5, .data = "hello" };

	while (!atomic_load(&f->stop)) {
		struct nam_qp_options options = { .cq = f->server.cq, .rq = f->server.rq };
		struct nam_cm_event event;
		unsigned n;

		if (f->ops->listener_poll(f->listener, 1000000000, &event) != NAM_LISTENER_EVENT)
			continue;
		if (event.hello.bytes == 2 && !memcmp(event.hello.data, "rd", 2))
			options.rights = NAM_MR_REMOTE_READ;
		n = atomic_load(&f->accepted);
		assert_true(n < QPS_MAX);
		if (event.hello.bytes == 2 && !memcmp(event.hello.data, "no", 2)) {
			f->ops->reject(f->listener, event.request,
				&(struct nam_hello){ .bytes = 3, .data = "why" });
			continue;
		}
		assert_int_equal(f->ops->accept(f->listener, event.request, &options, &reply,
			&f->accepted_qps[n]), 0);
		atomic_store(&f->accepted, n + 1);
	}
}

static inline void
side_open(struct fixture *f, struct side *side, uint32_t cq_depth, uint32_t rq_depth)
{
	assert_int_equal(f->ops->domain_open(NULL, &side->domain, &f->diag), 0);
	assert_int_equal(f->ops->cq_create(side->domain, cq_depth, &side->cq), 0);
	assert_int_equal(f->ops->rq_create(side->domain, side->cq, rq_depth, &side->rq), 0);
}

static inline void
side_close(struct fixture *f, struct side *side)
{
	f->ops->rq_destroy(side->rq);
	f->ops->cq_destroy(side->cq);
	f->ops->domain_close(side->domain);
}

static inline void
fixture_path(struct fixture *f)
{
	const char *base = getenv("TMPDIR");

	memset(f, 0, sizeof(*f));
	(void)snprintf(f->directory, sizeof(f->directory), "%s/nam-shm-XXXXXX",
		base && strlen(base) < 32 ? base : "/tmp");
	assert_non_null(mkdtemp(f->directory));
	(void)snprintf(f->address, sizeof(f->address), "shm:%s/socket", f->directory);
	f->ops = nam_fabric_find(f->address, &f->path);
	assert_non_null(f->ops);
}

static inline void
fixture_listen(struct fixture *f)
{
	side_open(f, &f->server, 64, 64);
	assert_int_equal(f->ops->region_alloc(f->server.domain, REGION_BYTES, 12, 0, -1, &f->mr,
		&f->diag), 0);
	assert_int_equal(f->ops->listen(f->server.domain, f->address, &f->listener, &f->diag), 0);
	assert_int_equal(nam_thread_start("acceptor", acceptor_main, f, &f->acceptor), 0);
}

/* @role	"hi"; or "rd", a client that may only READ */
static inline struct nam_qp *
fixture_connect_as(struct fixture *f, struct side *side, const char *role)
{
	struct nam_hello hello = { .bytes = 2 };
	struct nam_qp_options options = { .cq = side->cq, .rq = side->rq };
	struct nam_hello reply;
	struct nam_qp *qp;

	memcpy(hello.data, role, hello.bytes);
	assert_int_equal(f->ops->connect(side->domain, f->address, &hello, &options, &reply, &qp,
		&f->diag), 0);
	assert_int_equal(reply.bytes, 5);
	assert_memory_equal(reply.data, "hello", 5);
	return qp;
}

static inline struct nam_qp *
fixture_connect(struct fixture *f, struct side *side)
{
	return fixture_connect_as(f, side, "hi");
}

/* The accept thread may still be on its way out of accept. */
static inline struct nam_qp *
fixture_accepted(struct fixture *f, unsigned n)
{
	while (atomic_load(&f->accepted) <= n)
		nam_yield();
	return f->accepted_qps[n];
}

static inline int
fixture_setup(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	assert_non_null(f);
	fixture_path(f);
	fixture_listen(f);
	side_open(f, &f->client, 64, 64);
	f->qps[0] = fixture_connect(f, &f->client);
	(void)fixture_accepted(f, 0);
	*state = f;
	return 0;
}

static inline void
fixture_server_close(struct fixture *f)
{
	atomic_store(&f->stop, true);
	f->ops->listener_wake(f->listener);
	nam_thread_join(f->acceptor);
	for (unsigned i = 0; i < QPS_MAX; i++)
		f->ops->qp_destroy(f->accepted_qps[i]);
	f->ops->listener_close(f->listener);
	f->ops->mr_release(f->server.domain, &f->mr);
	side_close(f, &f->server);
}

static inline int
fixture_teardown(void **state)
{
	struct fixture *f = *state;

	for (unsigned i = 0; i < QPS_MAX; i++)
		f->ops->qp_destroy(f->qps[i]);
	side_close(f, &f->client);
	fixture_server_close(f);
	/* A clean end leaves nothing behind. */
	assert_int_equal(rmdir(f->directory), 0);
	free(f);
	return 0;
}

/* Exactly `count` completions, waiting for them. */
static inline void
take(struct fixture *f, struct nam_cq *cq, struct nam_wc *wcs, unsigned count)
{
	uint64_t until = nam_now_ns() + TIMEOUT_NS;
	unsigned n = 0;

	while (n < count) {
		int got = f->ops->cq_poll(cq, wcs + n, count - n);

		assert_true(got >= 0);
		n += (unsigned)got;
		assert_true(nam_now_ns() < until);
		if (!got)
			(void)f->ops->cq_wait(cq, 100000000);
	}
}

/* One signalled request and its status. */
static inline int
run(struct fixture *f, struct nam_qp *qp, struct nam_wr wr)
{
	struct nam_wc wc;

	wr.flags |= NAM_WR_SIGNALED;
	wr.context = &wc;
	assert_int_equal(f->ops->qp_post(qp, &wr, 1), 0);
	take(f, f->client.cq, &wc, 1);
	assert_ptr_equal(wc.context, &wc);
	assert_ptr_equal(wc.qp, qp);
	assert_int_equal(wc.op, wr.op);
	return wc.status;
}

static inline struct nam_wr
wr_read(uint64_t at, void *local, uint32_t bytes)
{
	return (struct nam_wr){ .op = NAM_WR_READ, .bytes = bytes, .remote = at, .local = local };
}

static inline struct nam_wr
wr_write(uint64_t at, const void *local, uint32_t bytes)
{
	return (struct nam_wr){ .op = NAM_WR_WRITE, .bytes = bytes, .remote = at,
		.local = (void *)(uintptr_t)local };
}

static inline struct nam_wr
wr_cas(uint64_t at, uint64_t *old, uint64_t compare, uint64_t swap)
{
	return (struct nam_wr){ .op = NAM_WR_CAS, .bytes = 8, .remote = at, .local = old,
		.compare = compare, .swap = swap };
}

static inline struct nam_wr
wr_fetch_add(uint64_t at, uint64_t *old, uint64_t add)
{
	return (struct nam_wr){ .op = NAM_WR_FETCH_ADD, .bytes = 8, .remote = at, .local = old,
		.compare = add };
}

static inline struct nam_wr
wr_send(const void *local, uint32_t bytes)
{
	return (struct nam_wr){ .op = NAM_WR_SEND, .bytes = bytes,
		.local = (void *)(uintptr_t)local };
}

#endif /* NAM_TESTS_UNIT_COMMON_FABRIC_SHM_SHM_FIXTURE_H */
