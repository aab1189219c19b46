/* SPDX-License-Identifier: Apache-2.0 */
/*
 * wire_fixture.h -- the tcp provider over a wire that can be disturbed.
 *
 * The wire is a pair of virtual interfaces between two network namespaces that exist only here.
 * The memory server's sockets are in one and the client's in the other.  Root only.
 */
#ifndef NAM_TESTS_UNIT_COMMON_FABRIC_TCP_WIRE_FIXTURE_H
#define NAM_TESTS_UNIT_COMMON_FABRIC_TCP_WIRE_FIXTURE_H

#include <fcntl.h>
#include <sched.h>

#include "tcp_fixture.h"

#define LEFT "10.78.0.1"
#define RIGHT "10.78.0.2"

static int left = -1, right = -1;	/* namespaces */

/* A command in one of them; its output only if asked for. */
static inline int
in_namespace(int namespace, const char *command)
{
	char line[512];

	(void)snprintf(line, sizeof(line), "nsenter --net=/proc/%d/fd/%d sh -c '%s' 2>/dev/null",
		(int)getpid(), namespace, command);
	return system(line);
}

static inline void
enter(int namespace)
{
	assert_int_equal(setns(namespace, CLONE_NEWNET), 0);
}

static inline int
wire_up(void)
{
	char command[256];

	/* A namespace may be named by a process id in it: this process is in the right one now. */
	(void)snprintf(command, sizeof(command), "ip link set lo up && "
		"ip link add l0 type veth peer name r0 && ip link set r0 netns %d && "
		"ip addr add " LEFT "/24 dev l0 && ip link set l0 up", (int)getpid());
	if (in_namespace(left, command))
		return -1;
	return in_namespace(right, "ip link set lo up && ip addr add " RIGHT "/24 dev r0 && "
		"ip link set r0 up");
}

/* False: this may not be done here. */
static inline bool
namespaces_open(void)
{
	if (geteuid() != 0 || unshare(CLONE_NEWNET))
		return false;
	left = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	if (unshare(CLONE_NEWNET))
		return false;
	right = open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC);
	/* nsenter opens what this process has open. */
	return left >= 0 && right >= 0 && !wire_up();
}

static inline void
cut(void)
{
	assert_int_equal(in_namespace(left, "ip link set l0 down"), 0);
}

static inline void
mend(void)
{
	assert_int_equal(in_namespace(left, "ip link set l0 up"), 0);
	/* The kernel remembers a failed ARP request for some seconds. */
	(void)in_namespace(right, "for i in 1 2 3 4 5 6 7 8 9; do "
		"ip link show r0 | grep -q LOWER_UP && break; sleep 0.1; done; "
		"ip neigh flush dev r0");
	(void)in_namespace(left, "ip neigh flush dev l0");
}

static inline int
wire_setup(void **state)
{
	struct fixture *f = malloc(sizeof(*f));

	assert_non_null(f);
	fixture_address(f);
	enter(left);
	fixture_listen(f);
	enter(right);
	side_open(f, &f->client, 0);
	f->qp = fixture_connect(f, &f->client);
	(void)fixture_accepted(f, 0);
	*state = f;
	return 0;
}

static inline int
wire_teardown(void **state)
{
	(void)in_namespace(left, "tc qdisc del dev l0 root");
	(void)in_namespace(right, "tc qdisc del dev r0 root");
	mend();
	return fixture_teardown(state);
}

/* ---- counting ------------------------------------------------------------------------------ */

/*
 * FETCH_ADDs of 1, each of which says how many there were before: what is done is known to be done
 * once, and in order.
 */
struct adds {
	unsigned posted, done, failed;
	bool closed;
	uint64_t last_ns, longest_ns;	/* without one that was done */
};

#define UNDER_WAY 32u

static inline void
adds_post(struct fixture *f, struct adds *adds)
{
	while (adds->posted - adds->done - adds->failed < UNDER_WAY) {
		struct nam_wr wr = wr_of(f, NAM_WR_FETCH_ADD, 0, 8 * (adds->posted % UNDER_WAY), 8);

		wr.compare = 1;
		wr.flags = NAM_WR_SIGNALED;
		wr.context = local_word(f, 8 * (adds->posted % UNDER_WAY));
		assert_int_equal(f->ops->qp_post(f->qp, &wr, 1), 0);
		adds->posted++;
	}
}

static inline void
adds_take(struct fixture *f, struct adds *adds)
{
	struct nam_wc wcs[UNDER_WAY];
	uint64_t now;
	int n;

	let_work(f);
	n = f->ops->cq_poll(f->client.cq, wcs, UNDER_WAY);
	for (int i = 0; i < n; i++) {
		if (wcs[i].op == NAM_WC_CLOSED) {
			adds->closed = true;
		} else if (wcs[i].status) {
			assert_int_equal(wcs[i].status, -NAM_E_FABRIC_PEER_DEAD);
			adds->failed++;
		} else {
			assert_int_equal(adds->failed, 0);
			assert_int_equal(*(uint64_t *)wcs[i].context, adds->done);
			adds->done++;
		}
	}
	if (!n)
		(void)f->ops->cq_wait(f->client.cq, 200000);
	now = nam_now_ns();
	if (adds->last_ns && now - adds->last_ns > adds->longest_ns)
		adds->longest_ns = now - adds->last_ns;
	if (n)
		adds->last_ns = now;
}

static inline void
adds_run(struct fixture *f, struct adds *adds, unsigned more)
{
	unsigned wanted = adds->done + more;
	uint64_t until = nam_now_ns() + TIMEOUT_NS;

	while (adds->done < wanted) {
		adds_post(f, adds);
		adds_take(f, adds);
		assert_true(nam_now_ns() < until && !adds->closed && !adds->failed);
	}
}

#endif /* NAM_TESTS_UNIT_COMMON_FABRIC_TCP_WIRE_FIXTURE_H */
