/* SPDX-License-Identifier: Apache-2.0 */
/*
 * member.h -- for tests of epochs: a client with one worker, and waiting for what must come.
 *
 * The epoch thread has its own pace.  So these tests wait for an event that must come, or show that
 * one does not come while later ones do.
 */
#ifndef NAM_TESTS_UNIT_COMPUTE_CLIENT_MEMBER_H
#define NAM_TESTS_UNIT_COMPUTE_CLIENT_MEMBER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "compute/remote/epoch.h"
#include "tests/lib/fake_server.h"

#define STRIDE 1088u
#define TIMEOUT_NS 60000000000ull
#define TIMEOUT_MS 60000u
#define PAUSE_NS 1000000ull

struct member {
	struct nam_client *client;
	struct nam_worker *worker;
};

static inline struct fake_server *
start_server(void)
{
	struct fake_server_options options = { .id = 0 };

	return fake_server_start(&options);
}

static inline void
join(struct member *member, const struct fake_server *server)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };

	nam_client_options_init(&options);
	options.cluster = fake_server_address(server);
	options.timeout_ms = TIMEOUT_MS;
	if (nam_client_connect(&options, &member->client, &diag))
		fail_msg("%s", diag.text);
	assert_int_equal(nam_worker_open(member->client, &member->worker, &diag), 0);
}

static inline void
leave(struct member *member)
{
	nam_worker_close(member->worker);
	nam_client_close(member->client);
}

static inline uint64_t
slot_value(const struct fake_server *server, uint16_t client_id)
{
	return atomic_load(fake_server_word(server, NAM_META_SLOTS_OFFSET + 8u * client_id));
}

static inline uint64_t
local_epoch(const struct member *member)
{
	return atomic_load(&member->client->local_epoch);
}

static inline bool
has_garbage(const struct member *member)
{
	bool has;

	pthread_mutex_lock(&member->client->mutex);
	has = !TAILQ_EMPTY(&member->client->garbage);
	pthread_mutex_unlock(&member->client->mutex);
	return has;
}

/* Once more, or has it taken too long? */
static inline bool
retry_pause(uint64_t since_ns)
{
	nam_sleep_ns(PAUSE_NS);
	if (nam_now_ns() - since_ns > TIMEOUT_NS)
		fail_msg("it never happened");
	return true;
}

static inline void
await_local_epoch(const struct member *member, uint64_t epoch)
{
	uint64_t since = nam_now_ns();

	while (local_epoch(member) < epoch)
		retry_pause(since);
}

static inline void
await_no_garbage(const struct member *member)
{
	uint64_t since = nam_now_ns();

	while (has_garbage(member))
		retry_pause(since);
}

/* How many blocks of this member's limbo may be reused in the end. */
static inline uint64_t
await_reusable(const struct member *member, uint64_t wanted)
{
	uint64_t since = nam_now_ns(), sum = 0, more;

	while (sum < wanted) {
		assert_int_equal(nam__limbo_advance(member->worker, &more), 0);
		sum += more;
		if (sum < wanted)
			retry_pause(since);
	}
	return sum;
}

#endif /* NAM_TESTS_UNIT_COMPUTE_CLIENT_MEMBER_H */
