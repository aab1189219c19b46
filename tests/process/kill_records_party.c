/* SPDX-License-Identifier: Apache-2.0 */
/* kill_records_party.c -- see kill_records.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compute/worker/worker.h"
#include "txn/sweep.h"
#include "kill_records.h"

/* Between two transactions of a fiber, at the most. */
#define SURVIVOR_PAUSE_NS 4000000u
#define VICTIM_PAUSE_NS 100000u
#define VICTIM_DEEDS 4000u		/* which bounds what it can lose */
#define ITEM_BITS 4u
#define DEED_BITS 16u
_Static_assert(RECORDS < 1u << ITEM_BITS && DEEDS_MAX < 1u << DEED_BITS, "a value tells");

void
store_chosen(struct nam_records_options *ret_options, int *ret_star)
{
	const char *wanted = getenv("NAM_TEST_RECORDS");

	wanted = wanted ? wanted : "onesided";
	nam_records_options_init(ret_options);
	*ret_star = !strcmp(wanted, "onesided") || !strcmp(wanted, "star");
	if (strcmp(wanted, "onesided") != 0)
		ret_options->commit = NAM_RECORDS_SERVED;
	if (!strcmp(wanted, "small"))
		ret_options->algorithm = NAM_RAMP_SMALL;
	else if (!strcmp(wanted, "hybrid"))
		ret_options->algorithm = NAM_RAMP_HYBRID;
	else if (!strcmp(wanted, "2pl"))
		ret_options->algorithm = NAM_RAMP_LOCKING;
	else if (!*ret_star && strcmp(wanted, "message") != 0)
		test_die("NAM_TEST_RECORDS: onesided, star, message, small, hybrid or 2pl");
}

struct nam_records *
store_open(struct nam_worker *worker, uint64_t cache_bytes)
{
	struct nam_records_options options;
	struct nam_records *records;
	int star;

	store_chosen(&options, &star);
	if (nam_records_open(worker, STORE, cache_bytes, &records) ||
		nam_records_star(worker, records, star))
		test_die("opening: %s", nam_worker_diag(worker));
	return records;
}

/* ---- values and keys ---------------------------------------------------------------------- */

static uint64_t
value_of(const struct session *self, uint32_t deed, uint32_t item)
{
	return ((uint64_t)(self->party + 1) << DEED_BITS | deed) << ITEM_BITS | item;
}

struct deed *
deed_of(struct board *board, uint64_t value, uint32_t *ret_item)
{
	uint64_t party = value >> (DEED_BITS + ITEM_BITS);
	uint32_t deed = value >> ITEM_BITS & ((1u << DEED_BITS) - 1);

	*ret_item = value & ((1u << ITEM_BITS) - 1);
	if (!party || party > PARTIES_MAX || deed >= board->parties[party - 1].count ||
		*ret_item >= board->parties[party - 1].each[deed].count)
		return NULL;
	return &board->parties[party - 1].each[deed];
}

uint32_t
value_words(uint64_t value)
{
	static const uint32_t words[] = { 1, 12 };
	uint64_t mixed = value * 0x9e3779b97f4a7c15 >> 32;

	return mixed % 64 ? words[mixed / 64 % 2] : WORDS_MAX;
}

static void
key_of(uint32_t number, char key[KEY_BYTES + 1])
{
	(void)snprintf(key, KEY_BYTES + 1, "record%02u", number % 100);
}

/* ---- transactions ------------------------------------------------------------------------- */

/* NULL: there is no room for more. */
static struct deed *
deed_begin(struct session *self, const uint8_t *keys, uint32_t count, bool write)
{
	struct deeds *deeds = &self->board->parties[self->party];
	uint32_t number = deeds->count;
	struct deed *deed = &deeds->each[number];

	if (number == DEEDS_MAX)
		return NULL;
	*deed = (struct deed){ .count = (uint8_t)count, .fiber = self->fiber, .write = write };
	memcpy(deed->keys, keys, count);
	for (uint32_t i = 0; i < count && write; i++)
		deed->values[i] = value_of(self, number, i);
	deed->begin_ns = nam_now_ns();
	/* From here on it is there for the parties that look after our death. */
	atomic_store(&deeds->count, number + 1);
	return deed;
}

static void
deed_end(struct deed *deed)
{
	deed->end_ns = nam_now_ns();
	atomic_store(&deed->done, true);
}

static void
check_value(const struct nam_record_get *get, const uint64_t *words)
{
	if (get->rc || get->value_bytes != 8 * value_words(words[0]))
		test_die("%.*s: %s, %u bytes", (int)get->key_bytes, (const char *)get->key,
			nam_err_name(get->rc), get->value_bytes);
	for (uint32_t k = 1; k < get->value_bytes / 8; k++)
		if (words[k] != words[0])
			test_die("%.*s: a value that no writer has put", (int)get->key_bytes,
				(const char *)get->key);
}

void
session_read(struct session *self, const uint8_t *keys, uint32_t count)
{
	struct deed *deed = deed_begin(self, keys, count, false);
	struct nam_record_get gets[RECORDS];
	char names[RECORDS][KEY_BYTES + 1];
	int rc;

	for (uint32_t i = 0; i < count; i++) {
		key_of(keys[i], names[i]);
		gets[i] = (struct nam_record_get){ .key = names[i], .key_bytes = KEY_BYTES,
			.value = self->words[i], .size = sizeof(self->words[i]) };
	}
	if (!deed)
		return;
	rc = nam_records_get_all(self->worker, self->records, gets, count); /* SUSPENDS */
	if (rc)
		test_die("party %u: get_all: %s (%s)", self->party, nam_err_name(rc),
			nam_worker_diag(self->worker));
	for (uint32_t i = 0; i < count; i++) {
		deed->stamps[i] = gets[i].timestamp;
		if (gets[i].rc == -NAM_E_NOTFOUND)
			continue;
		check_value(&gets[i], self->words[i]);
		deed->values[i] = self->words[i][0];
	}
	deed_end(deed);
}

void
session_write(struct session *self, const uint8_t *keys, uint32_t count)
{
	struct deed *deed = deed_begin(self, keys, count, true);
	struct nam_record_put puts[RECORDS];
	char names[RECORDS][KEY_BYTES + 1];
	int rc;

	if (!deed)
		return;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t words = value_words(deed->values[i]);

		key_of(keys[i], names[i]);
		for (uint32_t k = 0; k < words; k++)
			self->words[i][k] = deed->values[i];
		puts[i] = (struct nam_record_put){ names[i], KEY_BYTES, 8 * words, self->words[i] };
	}
	rc = nam_records_put_all(self->worker, self->records, puts, count,
		&deed->timestamp); /* SUSPENDS */
	if (rc)
		test_die("party %u: put_all: %s (%s)", self->party, nam_err_name(rc),
			nam_worker_diag(self->worker));
	deed_end(deed);
}

/* ---- a process ---------------------------------------------------------------------------- */

/* Different ones. */
static uint32_t
pick(struct nam_rng *rng, uint8_t picked[RECORDS])
{
	uint32_t count = 1 + (uint32_t)nam_rng_below(rng, TOGETHER_MAX);

	for (uint8_t i = 0; i < RECORDS; i++)
		picked[i] = i;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t other = i + (uint32_t)nam_rng_below(rng, RECORDS - i);
		uint8_t key = picked[other];

		picked[other] = picked[i];
		picked[i] = key;
	}
	return count;
}

/* Of what is being written, and of what the dead have left. */
static void
session_collect(struct session *self)
{
	int rc = nam_records_collect(self->worker, self->records, NULL); /* SUSPENDS */

	if (rc)
		test_die("collect: %s", nam_worker_diag(self->worker));
}

/* Clients are killed all the time, and the other survivor sweeps, too. */
static void
session_sweep(struct session *self)
{
	struct nam_sweep_stat stat;
	int rc = nam_sweep(self->worker, false, &stat); /* SUSPENDS */

	if (rc && rc != -EAGAIN && rc != -NAM_E_LOCK_TIMEOUT)
		test_die("sweep: %s", nam_worker_diag(self->worker));
}

static void
session_main(void *arg)
{
	struct session *self = arg;
	uint8_t picked[RECORDS];

	while (!atomic_load(&self->board->stopping)) {
		uint32_t count = pick(&self->rng, picked);

		/* Enough; it will be killed. */
		if (!self->survivor && self->board->parties[self->party].count >= VICTIM_DEEDS) {
			nam__pause_await(self->worker, SURVIVOR_PAUSE_NS); /* SUSPENDS */
			continue;
		}
		if (nam_rng_below(&self->rng, 32) == 0)
			session_collect(self); /* SUSPENDS */
		if (self->survivor && !self->fiber && nam_rng_below(&self->rng, 32) == 0)
			session_sweep(self); /* SUSPENDS */
		/* The killed process mostly writes, the survivor mostly reads. */
		if (nam_rng_below(&self->rng, 4) < (self->survivor ? 3 : 1))
			session_read(self, picked, count); /* SUSPENDS */
		else
			session_write(self, picked, count); /* SUSPENDS */
		if (self->survivor || nam_rng_below(&self->rng, 4) == 0)
			nam__pause_await(self->worker, nam_rng_below(&self->rng, self->survivor ?
				SURVIVOR_PAUSE_NS : VICTIM_PAUSE_NS)); /* SUSPENDS */
	}
}

int
party_main(char **argv)
{
	static const uint64_t caches[] = { 0, 1024, 64 << 10 };
	static struct session sessions[FIBERS];
	struct nam_client *client = test_connect(argv[0], argv[3], 0);
	struct nam_worker *worker = test_worker(client);
	struct board *board = test_shared_map(atoi(argv[1]), sizeof(struct board));
	uint32_t party = (uint32_t)atoi(argv[2]);
	struct nam_records *records = store_open(worker, caches[party % 3]);

	for (uint8_t i = 0; i < FIBERS; i++) {
		sessions[i] = (struct session){ .worker = worker, .records = records,
			.board = board, .party = party, .fiber = i,
			.survivor = !strcmp(argv[3], "survivor"),
			.rng = nam_rng_seed(nam_entropy()) };
		if (nam_worker_spawn(worker, session_main, &sessions[i]))
			test_die("no fiber");
	}
	nam_worker_run(worker); /* SUSPENDS */
	nam_records_close(records);
	nam_worker_close(worker);
	nam_client_close(client);
	return 0;
}
