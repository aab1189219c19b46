/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fabric_fixture.h -- both sides of a fabric in one process, for what every provider must do.
 *
 * NAM_TEST_FABRIC names the fabric: "shm" (the default), or an address whose port 0 stands for a
 * new one each time, as in verbs:10.0.0.1:0.  A thread accepts; the test's own thread polls the
 * completion queues of both sides, so nothing depends on timing.
 */
#ifndef NAM_TESTS_UNIT_COMMON_FABRIC_FABRIC_FIXTURE_H
#define NAM_TESTS_UNIT_COMMON_FABRIC_FABRIC_FIXTURE_H

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/env.h"
#include "common/fabric/fabric.h"

#define REGION_BYTES (4u << 20)
#define LOCAL_BYTES (4u << 20)
#define DEPTH 64u
#define QPS_MAX 16u
#define TIMEOUT_NS 30000000000ull	/* how long to wait for what must come */

struct side {
	struct nam_domain *domain;
	struct nam_cq *cq;
	struct nam_rq *rq;
	uint8_t *local;			/* LOCAL_BYTES, registered */
	struct nam_mr local_mr;
};

struct fixture {
	const struct nam_fabric_ops *ops;
	char directory[64];
	char address[128];
	struct side server, client;
	struct nam_mr mr;
	struct nam_listener *listener;
	struct nam_thread *acceptor;
	atomic_bool stop;
	atomic_uint accepted;
	struct nam_qp *accepted_qps[QPS_MAX];
	struct nam_qp *qp;		/* the client's */
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
		n = atomic_load(&f->accepted);
		if (event.hello.bytes == 2 && !memcmp(event.hello.data, "rd", 2))
			options.rights = NAM_MR_REMOTE_READ;
		if (event.hello.bytes == 2 && !memcmp(event.hello.data, "no", 2)) {
			f->ops->reject(f->listener, event.request,
				&(struct nam_hello){ .bytes = 3, .data = "why" });
			continue;
		}
		if (n == QPS_MAX)
			abort();
		/* A client that gave up asks again; connecting makes it work. */
		if (!f->ops->accept(f->listener, event.request, &options, &reply,
			    &f->accepted_qps[n]))
			atomic_store(&f->accepted, n + 1);
	}
}

/* Options of a test's domains, beside the address. */
static struct nam_fabric_options fixture_options[2];	/* client, server */

static inline void
side_open(struct fixture *f, struct side *side, int listens)
{
	struct nam_fabric_options options = fixture_options[listens];

	options.address = f->address;
	options.listens = listens;
	assert_int_equal(f->ops->domain_open(&options, &side->domain, &f->diag), 0);
	assert_int_equal(f->ops->cq_create(side->domain, DEPTH, &side->cq), 0);
	assert_int_equal(f->ops->rq_create(side->domain, side->cq, DEPTH, &side->rq), 0);
	side->local = mmap(NULL, LOCAL_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		-1, 0);
	assert_true(side->local != MAP_FAILED);
	assert_int_equal(f->ops->mr_register(side->domain, side->local, LOCAL_BYTES, NAM_MR_LOCAL,
		&side->local_mr, &f->diag), 0);
}

static inline void
side_close(struct fixture *f, struct side *side)
{
	f->ops->rq_destroy(side->rq);
	f->ops->cq_destroy(side->cq);
	f->ops->mr_release(side->domain, &side->local_mr);
	(void)munmap(side->local, LOCAL_BYTES);
	f->ops->domain_close(side->domain);
}

/* Sets the address, and the folder if there is one. */
static inline void
fixture_address(struct fixture *f)
{
	static unsigned ports;
	const char *fabric = getenv("NAM_TEST_FABRIC"), *base = getenv("TMPDIR");
	size_t bytes = fabric ? strlen(fabric) : 0;

	memset(f, 0, sizeof(*f));
	if (!fabric || !strcmp(fabric, "shm")) {
		(void)snprintf(f->directory, sizeof(f->directory), "%s/nam-fabric-XXXXXX",
			base && strlen(base) < 32 ? base : "/tmp");
		assert_non_null(mkdtemp(f->directory));
		(void)snprintf(f->address, sizeof(f->address), "shm:%s/socket", f->directory);
	} else if (bytes > 2 && !strcmp(fabric + bytes - 2, ":0")) {
		(void)snprintf(f->address, sizeof(f->address), "%.*s:%u", (int)(bytes - 2), fabric,
			20000 + ((unsigned)getpid() * 64 + ports++) % 10000);
	} else {
		(void)snprintf(f->address, sizeof(f->address), "%s", fabric);
	}
	f->ops = nam_fabric_find(f->address, NULL);
	assert_non_null(f->ops);
}

/* A listener that the test polls by itself. */
static inline void
fixture_server_open(struct fixture *f)
{
	side_open(f, &f->server, 1);
	assert_int_equal(f->ops->listen(f->server.domain, f->address, &f->listener, &f->diag), 0);
	assert_int_equal(f->ops->region_alloc(f->server.domain, REGION_BYTES, 12, 0, -1, &f->mr,
		&f->diag), 0);
}

static inline void
fixture_listen(struct fixture *f)
{
	fixture_server_open(f);
	assert_int_equal(nam_thread_start("acceptor", acceptor_main, f, &f->acceptor), 0);
}

static inline struct nam_qp *
fixture_connect_as(struct fixture *f, const struct side *side, const char *role, uint32_t rights)
{
	struct nam_hello hello = { .bytes = 2 };
	struct nam_qp_options options = { .cq = side->cq, .rq = side->rq, .rights = rights };
	struct nam_hello reply;
	struct nam_qp *qp;
	int rc;

	memcpy(hello.data, role, hello.bytes);
	rc = f->ops->connect(side->domain, f->address, &hello, &options, &reply, &qp, &f->diag);

	if (rc)
		print_error("%s\n", f->diag.text);
	assert_int_equal(rc, 0);
	assert_int_equal(reply.bytes, 5);
	assert_memory_equal(reply.data, "hello", 5);
	return qp;
}

static inline struct nam_qp *
fixture_connect(struct fixture *f, const struct side *side)
{
	return fixture_connect_as(f, side, "hi", 0);
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
	fixture_address(f);
	fixture_listen(f);
	side_open(f, &f->client, 0);
	f->qp = fixture_connect(f, &f->client);
	(void)fixture_accepted(f, 0);
	*state = f;
	return 0;
}

static inline void
fixture_server_close(struct fixture *f)
{
	atomic_store(&f->stop, true);
	if (f->acceptor) {
		f->ops->listener_wake(f->listener);
		nam_thread_join(f->acceptor);
	}
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

	f->ops->qp_destroy(f->qp);
	side_close(f, &f->client);
	fixture_server_close(f);
	/* A clean end leaves nothing behind. */
	if (f->directory[0])
		assert_int_equal(rmdir(f->directory), 0);
	free(f);
	return 0;
}

/*
 * Without a card a thread must be in cq_wait for the other side's requests.  Nothing but
 * completions comes of it elsewhere.
 */
static inline void
let_work(struct fixture *f)
{
	(void)f->ops->cq_wait(f->server.cq, 0);
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
		if (got)
			continue;
		if (f->server.cq)
			let_work(f);
		(void)f->ops->cq_wait(cq, 1000000);
	}
}

static inline uint8_t *
remote(const struct fixture *f, uint64_t at)
{
	return (uint8_t *)f->mr.base + at;
}

static inline uint64_t
remote_word(const struct fixture *f, uint64_t at)
{
	return __atomic_load_n((uint64_t *)(void *)remote(f, at), __ATOMIC_SEQ_CST);
}

static inline uint64_t *
local_word(const struct fixture *f, uint64_t at)
{
	return (uint64_t *)(void *)(f->client.local + at);
}

/* One request of the client's own buffer at `from`, unsignalled. */
static inline struct nam_wr
wr_of(const struct fixture *f, uint8_t op, uint64_t at, uint64_t from, uint32_t bytes)
{
	return (struct nam_wr){
		.op = op,
		.bytes = bytes,
		.remote = f->mr.remote + at,
		.rkey = f->mr.rkey,
		.lkey = f->client.local_mr.lkey,
		.local = f->client.local + from,
	};
}

/* One signalled request on a queue pair of the client's, and its status. */
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

/* Opens none itself, since a descriptor of another thread could then leave a gap below it. */
static inline unsigned
open_files(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

#endif /* NAM_TESTS_UNIT_COMMON_FABRIC_FABRIC_FIXTURE_H */
