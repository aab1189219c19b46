/* SPDX-License-Identifier: Apache-2.0 */
/* kill_client_roles.c -- the processes that die, and the one that lives on beside them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/env.h"
#include "index/index_internal.h"
#include "kill_client.h"
#include "tests/lib/cluster.h"

#define VICTIM_FIBERS 8u
#define SURVIVOR_WARM 100u		/* operations before it counts as being at work */

uint64_t
numbers(void)
{
	static _Atomic uint64_t known;

	if (!known)
		known = test_scaled_least(NUMBERS_MAX, 40000) / CLASSES * CLASSES;
	return known < NUMBERS_MAX ? known : NUMBERS_MAX;
}

uint64_t
payload_of(uint64_t number)
{
	return number * 1000003 + 7;
}

int
insert(struct nam_worker *worker, struct nam_index *index, uint64_t number)
{
	uint8_t key[8];

	nam_key_from_u64(number, key);
	return nam_index_insert(worker, index, key, payload_of(number)); /* SUSPENDS */
}

int
lookup(struct nam_worker *worker, struct nam_index *index, uint64_t number, uint64_t *ret_payload)
{
	uint8_t key[8];

	nam_key_from_u64(number, key);
	return nam_index_lookup(worker, index, key, ret_payload); /* SUSPENDS */
}

struct nam_index *
open_index(struct nam_worker *worker, uint64_t cache_bytes)
{
	struct nam_index *index;
	int rc = nam_index_open(worker, INDEX, cache_bytes, &index);

	if (rc)
		test_die("opening: %s (%s)", nam_err_name(rc), nam_worker_diag(worker));
	return index;
}

uint64_t
number_of(unsigned class, uint64_t i)
{
	return i * 7919 % (NUMBERS / CLASSES) * CLASSES + class;
}

/* Once it is there, the same again, so a client that has used all numbers still writes. */
static int
insert_or_rewrite(struct nam_worker *worker, struct nam_index *index, uint64_t number)
{
	int rc = insert(worker, index, number); /* SUSPENDS */
	uint8_t key[8];

	if (rc != -NAM_E_EXISTS)
		return rc;
	nam_key_from_u64(number, key);
	return nam_index_update(worker, index, key, payload_of(number)); /* SUSPENDS */
}

/* ---- the victim: inserts, and says so ----------------------------------------------------- */

struct inserter {
	struct nam_worker *worker;
	struct nam_index *index;
	unsigned class;
	uint64_t next, step;
};

static void
insert_for_ever(void *arg)
{
	struct inserter *self = arg;

	for (;; self->next += self->step) {
		uint64_t number = number_of(self->class, self->next);
		int rc = insert_or_rewrite(self->worker, self->index, number); /* SUSPENDS */

		if (rc)
			test_die(
				"victim: %s (%s)", nam_err_name(rc), nam_worker_diag(self->worker));
		if (write(STDOUT_FILENO, &number, sizeof(number)) != sizeof(number))
			exit(0);
	}
}

/* Arguments: cluster, class, where to begin. */
int
victim_main(char **argv)
{
	struct nam_client *client = test_connect(argv[0], "victim", LOCK_MS);
	struct nam_worker *worker = test_worker(client);
	struct nam_index *index = open_index(worker, 64u << 10);
	struct inserter inserters[VICTIM_FIBERS];

	for (unsigned i = 0; i < VICTIM_FIBERS; i++) {
		inserters[i] = (struct inserter){ worker, index, (unsigned)atoi(argv[1]),
			strtoull(argv[2], NULL, 10) + i, VICTIM_FIBERS };
		if (nam_worker_spawn(worker, insert_for_ever, &inserters[i]))
			test_die("no fiber");
	}
	nam_worker_run(worker); /* SUSPENDS */
	return 1;
}

/* ---- the survivor: changes, looks and scans all the while --------------------------------- */

struct survivor {
	struct nam_worker *worker;
	struct nam_index *index;
	bool *present;			/* of its own class, by number / CLASSES */
	bool stopping;
	uint64_t ops, slowest_ns;
	unsigned wrong;
};

static void
survivor_wrong(struct survivor *self, const char *what, int rc)
{
	(void)fprintf(stderr, "survivor: %s: %s (%s)\n", what, nam_err_name(rc),
		nam_worker_diag(self->worker));
	if (++self->wrong > 10)
		test_die("survivor: too much is wrong");
}

static void
survivor_change(struct survivor *self, uint64_t i)
{
	uint64_t number = number_of(SURVIVOR, i);
	bool *present = &self->present[number / CLASSES];
	uint8_t key[8];
	int rc, expect = 0;

	nam_key_from_u64(number, key);
	if (i % 5 == 4) {
		rc = nam_index_delete(self->worker, self->index, key); /* SUSPENDS */
		expect = *present ? 0 : -NAM_E_NOTFOUND;
	} else {
		rc = insert(self->worker, self->index, number); /* SUSPENDS */
		expect = *present ? -NAM_E_EXISTS : 0;
	}
	if (rc != expect)
		survivor_wrong(self, "change", rc);
	else if (!rc)
		*present = i % 5 != 4;
}

static void
survivor_lookup(struct survivor *self, uint64_t i)
{
	uint64_t number = number_of(i % 2 ? SURVIVOR : 0, i / 7), payload = 0;
	bool present = number % CLASSES == 0 || self->present[number / CLASSES];
	int rc = lookup(self->worker, self->index, number, &payload); /* SUSPENDS */

	if (rc != (present ? 0 : -NAM_E_NOTFOUND) || (!rc && payload != payload_of(number)))
		survivor_wrong(self, "lookup", rc);
}

static void
survivor_scan(struct survivor *self, uint64_t i)
{
	uint64_t from = number_of(0, i), last = 0, payloads[50];
	uint8_t low[8], keys[50 * 8];
	struct nam_range range = { .low = low, .limit = 50 };
	struct nam_cursor *cursor;
	uint32_t count = 0;
	int rc;

	nam_key_from_u64(from, low);
	if (nam_cursor_open(self->worker, self->index, &range, &cursor))
		test_die("no cursor");
	rc = nam_cursor_next(cursor, keys, payloads, 50, &count); /* SUSPENDS */
	nam_cursor_close(cursor);
	if (rc) {
		survivor_wrong(self, "scan", rc);
		return;
	}
	for (uint32_t k = 0; k < count; k++) {
		uint64_t number = nam_key_to_u64(keys + 8 * k);

		if (payloads[k] != payload_of(number) || number < from || (k && number <= last) ||
			(k == 0 && number != from))
			survivor_wrong(self, "scan's order or payload", 0);
		last = number;
	}
}

static void
survive(void *arg)
{
	struct survivor *self = arg;

	for (uint64_t i = 0; !self->stopping; i++, self->ops++) {
		uint64_t start_ns = nam_now_ns(), took_ns;

		switch (i % 4) {
		case 0:
		case 1:
			survivor_change(self, i / 2); /* SUSPENDS */
			break;
		case 2:
			survivor_lookup(self, i); /* SUSPENDS */
			break;
		default:
			survivor_scan(self, i); /* SUSPENDS */
		}
		took_ns = nam_now_ns() - start_ns;
		if (took_ns > self->slowest_ns)
			self->slowest_ns = took_ns;
		if (i == SURVIVOR_WARM) {
			printf("at work\n");
			(void)fflush(stdout);
		}
	}
}

static void
wait_for_the_end(void *arg)
{
	struct survivor *self = arg;
	char byte;

	(void)fcntl(STDIN_FILENO, F_SETFL, O_NONBLOCK);
	while (read(STDIN_FILENO, &byte, 1) < 0)
		nam__pause_await(self->worker, 1000000); /* SUSPENDS */
	self->stopping = true;
}

/* Arguments: cluster.  Ends when its standard input does, and then prints what it knows. */
int
survivor_main(char **argv)
{
	struct nam_client *client = test_connect(argv[0], "survivor", LOCK_MS);
	struct survivor self = { .worker = test_worker(client) };

	self.index = open_index(self.worker, 1u << 20);
	self.present = calloc(NUMBERS / CLASSES, sizeof(bool));
	if (!self.present || nam_worker_spawn(self.worker, survive, &self) ||
		nam_worker_spawn(self.worker, wait_for_the_end, &self))
		test_die("no memory");
	nam_worker_run(self.worker); /* SUSPENDS */
	printf("ops %llu slowest_ms %llu wrong %u\n", (unsigned long long)self.ops,
		(unsigned long long)self.slowest_ns / 1000000, self.wrong);
	for (uint64_t i = 0; i < NUMBERS / CLASSES; i++)
		if (self.present[i])
			printf("present %llu\n", (unsigned long long)(i * CLASSES + SURVIVOR));
	free(self.present);
	nam_index_close(self.index);
	nam_worker_close(self.worker);
	nam_client_close(client);
	return self.wrong || self.slowest_ns > BOUND_NS;
}

/* ---- the locker: dies with one particular lock in its hands ------------------------------- */

/* Arguments: cluster, number, level, "torn" or "whole". */
int
locker_main(char **argv)
{
	struct nam_client *client = test_connect(argv[0], "locker", LOCK_MS);
	struct nam_worker *worker = test_worker(client);
	struct nam_index *index = open_index(worker, 0);
	struct nam__held held = { .image = nam_buffer_take(worker, index->g.node_bytes) };
	unsigned level = (unsigned)atoi(argv[2]);
	struct nam__key full;
	uint8_t key[8];
	int rc;

	nam_key_from_u64(strtoull(argv[1], NULL, 10), key);
	nam__key_encode(&index->g, key, 0, &full);
	nam__op_begin(worker, NAM_OP_OTHER);
	rc = nam__read_covering(worker, index, full.w, level, held.image, &held.at); /* SUSPENDS */
	if (!rc)
		rc = nam__lock_node(worker, index, held.at, (int)level, &held); /* SUSPENDS */
	if (rc)
		test_die("locker: %s (%s)", nam_err_name(rc), nam_worker_diag(worker));
	if (!strcmp(argv[3], "torn")) {
		/* Of a change without a redo record the first WRITE and the hash, and no more. */
		uint32_t rear = index->g.node_words - 1;
		uint64_t *note = held.image, *hash = held.image + NAM__WORD_HASH;
		struct nam_batch batch;

		held.image[rear] += 1ull << 16;
		*note = 0;
		*hash = ~*hash;
		nam_batch_init(&batch, worker);
		nam_batch_write(&batch, held.at, index->g.node_bytes, note, 8);
		nam_batch_write(&batch, held.at, 8 * rear, held.image + rear, 8);
		nam_batch_write(&batch, held.at, 8 * NAM__WORD_HASH, hash, 8);
		if (nam_batch_await(&batch)) /* SUSPENDS */
			test_die("locker: cannot write");
	}
	printf("locked %u\n", nam_client_id(client));
	(void)fflush(stdout);
	(void)raise(SIGKILL);
	return 1;
}
