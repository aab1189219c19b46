/* SPDX-License-Identifier: Apache-2.0 */
/* sim_test.c -- the simulator's connections, faults, clocks and repetition. */
#include <errno.h>

#include "sim_fixture.h"

#define SEEDS 60u

static struct world *
world_new(void (*body)(struct world *world))
{
	struct world *world = malloc(sizeof(*world));

	assert_non_null(world);
	world_init(world, NAM_SIM_VERBS, body);
	return world;
}

static void
open_one(struct world *world)
{
	end_open(world, &world->ends[0]);
	assert_int_equal(end_connect(&world->ends[0], NULL), 0);
}

/* ---- connections ---------------------------------------------------------------------------- */

static void
domain_open__no_simulation__CAPABILITY(void **state)
{
	struct nam_domain *domain;
	struct nam_diag diag;

	(void)state;
	assert_int_equal(nam__sim_ops.domain_open(NULL, &domain, &diag), -NAM_E_FABRIC_CAPABILITY);
}

static void
connect_body(struct world *world)
{
	struct nam_hello reply;

	end_open(world, &world->ends[0]);
	assert_int_equal(end_connect(&world->ends[0], &reply), 0);
	assert_int_equal(reply.bytes, 3);
	assert_memory_equal(reply.data, "yes", 3);
	end_close(&world->ends[0]);
}

static void
connect__accepted__REPLY_ARRIVES_AND_BOTH_SIDES_END(void **state)
{
	struct world *world = world_new(connect_body);

	(void)state;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	assert_int_equal(world->closed, 1);
	free(world);
}

static void
refused_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_qp_options options = { 0 };
	struct nam_hello reply;
	struct nam_diag diag;

	end_open(world, end);
	options.cq = end->cq;
	assert_int_equal(end_connect(end, &reply), -ECONNREFUSED);
	assert_int_equal(reply.bytes, 3);
	assert_int_equal(ops()->connect(end->domain, "sim:absent", NULL, &options, &reply,
				 &end->qp, &diag), -NAM_E_FABRIC_CONNECT);
	assert_int_equal(ops()->connect(end->domain, "sim:", NULL, &options, &reply, &end->qp,
				 &diag), -EINVAL);
	end->qp = NULL;
	end_close(end);
}

static void
connect__rejected_or_nobody_there__SAYS_SO(void **state)
{
	struct world *world = world_new(refused_body);

	(void)state;
	world->refuses = true;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	free(world);
}

static void
in_use_body(struct world *world)
{
	struct nam_listener *listener;
	struct nam_diag diag;

	open_one(world);
	assert_int_equal(ops()->listen(world->ends[0].domain, "sim:server", &listener, &diag),
		-NAM_E_FABRIC_ADDRESS_IN_USE);
	end_close(&world->ends[0]);
}

static void
listen__somebody_does_already__IN_USE(void **state)
{
	struct world *world = world_new(in_use_body);

	(void)state;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	free(world);
}

/* ---- failing requests ----------------------------------------------------------------------- */

static void
access_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wrs[3];

	open_one(world);
	for (unsigned i = 0; i < 3; i++)
		wrs[i] = request(end, NAM_WR_WRITE, 8 * i, 8 * i, 8);
	wrs[1].remote += REGION_BYTES;
	wrs[1].flags = 0;
	post(end, wrs, 3);
	assert_int_equal(next(end).status, 0);
	assert_int_equal(next(end).status, -NAM_E_FABRIC_ACCESS);
	assert_int_equal(next(end).status, -NAM_E_FABRIC_ACCESS);
	post(end, wrs, 1);
	assert_int_equal(next(end).status, -NAM_E_FABRIC_ACCESS);
	end_close(end);
}

static void
write__outside_of_the_region__BREAKS_THE_QUEUE_PAIR(void **state)
{
	struct world *world = world_new(access_body);

	(void)state;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	free(world);
}

/* Both clients read zeroes and write; one connected before, one while it was withdrawn. */
static void
restore_body(struct world *world)
{
	struct end *early = &world->ends[0], *late = &world->ends[1];
	struct nam_diag diag;

	open_one(world);
	memset(early->local, 0xaa, 64);
	carry_out(early, (struct nam_wr[]){ request(early, NAM_WR_WRITE, 64, 0, 64) }, 1);
	ops()->region_withdraw(world->server_domain, &world->region);
	end_open(world, late);
	assert_int_equal(end_connect(late, NULL), 0);
	post(late, (struct nam_wr[]){ request(late, NAM_WR_READ, 64, 0, 64) }, 1);
	assert_int_equal(next(late).status, -NAM_E_FABRIC_ACCESS);
	end_close(late);
	end_open(world, late);
	assert_int_equal(end_connect(late, NULL), 0);
	assert_int_equal(ops()->region_restore(world->server_domain, &world->region, NAM_MR_REMOTE,
		&diag), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct end *end = &world->ends[i];

		carry_out(end, (struct nam_wr[]){ request(end, NAM_WR_READ, 64, 0, 64) }, 1);
		assert_int_equal(word(end->local, 0), 0);
		assert_int_equal(word(end->local, 56), 0);
		memset(end->local, 0xbb, 64);
		carry_out(end, (struct nam_wr[]){ request(end, NAM_WR_WRITE, 128, 0, 64) }, 1);
		assert_int_equal(world->memory[128 + 63], 0xbb);
	}
	end_close(early);
	end_close(late);
}

static void
region_restore__after_withdraw__ALL_CLIENTS_FIND_ZEROES_AND_WRITE(void **state)
{
	struct world *world = world_new(restore_body);

	(void)state;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	free(world);
}

/* A client reads what the owner has there; none of its other requests is carried out. */
static void
read_only_body(struct world *world)
{
	static const enum nam_wr_op others[] = { NAM_WR_WRITE, NAM_WR_CAS, NAM_WR_FETCH_ADD };
	struct end *reader = &world->ends[0], *writer = &world->ends[1];
	struct nam_diag diag;

	open_one(world);
	ops()->region_withdraw(world->server_domain, &world->region);
	assert_int_equal(ops()->region_restore(world->server_domain, &world->region,
		NAM_MR_REMOTE_READ, &diag), 0);
	memset(world->memory + 64, 0xaa, 64);
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		end_open(world, writer);
		assert_int_equal(end_connect(writer, NULL), 0);
		post(writer, (struct nam_wr[]){ request(writer, others[i], 64, 0, 8) }, 1);
		assert_int_equal(next(writer).status, -NAM_E_FABRIC_ACCESS);
		end_close(writer);
	}
	carry_out(reader, (struct nam_wr[]){ request(reader, NAM_WR_READ, 64, 0, 64) }, 1);
	for (unsigned i = 0; i < 64; i++)
		assert_int_equal(reader->local[i], 0xaa);
	ops()->region_withdraw(world->server_domain, &world->region);
	assert_int_equal(ops()->region_restore(world->server_domain, &world->region, NAM_MR_REMOTE,
		&diag), 0);
	carry_out(reader, (struct nam_wr[]){ request(reader, NAM_WR_WRITE, 64, 0, 64) }, 1);
	assert_int_equal(world->memory[64 + 63], 0xaa);
	end_close(reader);
}

static void
region_restore__read_only__CLIENTS_READ_AND_DO_NOT_WRITE(void **state)
{
	struct world *world = world_new(read_only_body);

	(void)state;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	free(world);
}

static void
lkey_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wr;

	open_one(world);
	wr = request(end, NAM_WR_WRITE, 0, 0, 8);
	wr.lkey = 0;
	post(end, &wr, 1);
	assert_int_equal(next(end).status, -NAM_E_FABRIC_ACCESS);
	end_close(end);
}

static void
write__local_memory_not_registered__ACCESS(void **state)
{
	struct world *world = world_new(lkey_body);

	(void)state;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	free(world);
}

static void
full_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wr;
	unsigned posted = 0;

	open_one(world);
	wr = request(end, NAM_WR_WRITE, 0, 0, 8);
	while (ops()->qp_post(end->qp, &wr, 1) == 0)
		posted++;
	assert_int_equal(posted, 64);	/* the completion queue's depth */
	assert_int_equal(ops()->qp_post(end->qp, &wr, 1), -NAM_E_FABRIC_FULL);
	while (posted--)
		assert_int_equal(next(end).status, 0);
	end_close(end);
}

static void
post__more_than_fits__FULL_AND_NONE_POSTED(void **state)
{
	struct world *world = world_new(full_body);

	(void)state;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	free(world);
}

/* ---- messages ------------------------------------------------------------------------------- */

static void
rnr_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wrs[2];
	struct nam_wc wc;

	open_one(world);
	memcpy(end->local, "message", 8);
	wrs[0] = request(end, NAM_WR_SEND, 0, 0, 8);
	wrs[1] = request(end, NAM_WR_WRITE, 64, 0, 8);
	post(end, wrs, 2);
	nam_sleep_ns(10000000);
	assert_int_equal(ops()->cq_poll(end->cq, &wc, 1), 0);
	assert_int_equal(world->received, 0);
	assert_int_equal(word(world->memory, 64), 0);
	server_receive(world, 0);
	assert_int_equal(next(end).op, NAM_WR_SEND);
	assert_int_equal(next(end).op, NAM_WR_WRITE);
	assert_memory_equal(world->inbox[0], "message", 8);
	assert_int_not_equal(word(world->memory, 64), 0);
	nam_sleep_ns(1000000);
	assert_int_equal(world->received, 1);
	end_close(end);
}

static void
send__no_receive_posted__WAITS_AND_WITH_IT_WHAT_FOLLOWS(void **state)
{
	struct world *world = world_new(rnr_body);

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world_run(world, seed);
		assert_int_equal(world->rc, 0);
	}
	free(world);
}

/* ---- ends ----------------------------------------------------------------------------------- */

static void
break_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wrs[2];
	struct nam_wc wc;

	open_one(world);
	wrs[0] = request(end, NAM_WR_WRITE, 0, 0, 512);
	wrs[1] = request(end, NAM_WR_READ, 0, 512, 512);
	wrs[0].flags = 0;
	post(end, wrs, 2);
	nam_sim_qp_break(end->qp);
	for (unsigned i = 0; i < 2; i++) {
		wc = next(end);
		assert_int_equal(wc.status, -NAM_E_FABRIC_PEER_DEAD);
		assert_int_equal(wc.op, i ? NAM_WR_READ : NAM_WR_WRITE);
	}
	wc = next(end);
	assert_int_equal(wc.op, NAM_WC_CLOSED);
	end_close(end);
}

static void
qp_break__requests_under_way__FAIL_THEN_CLOSED_ON_BOTH_SIDES(void **state)
{
	struct world *world = world_new(break_body);

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world_run(world, seed);
		assert_int_equal(world->rc, 0);
		assert_int_equal(world->closed, 1);
	}
	free(world);
}

/* Long after the break: how often has the request been carried out? */
static void
count_additions(void *arg)
{
	struct world *world = arg;

	world->hits |= 1u << word(world->memory, 0);
	world->done = true;
}

static void
fetch_add_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wr;

	open_one(world);
	wr = request(end, NAM_WR_FETCH_ADD, 0, 0, 8);
	wr.compare = 1;
	post(end, &wr, 1);
	assert_int_equal(next(end).status, -NAM_E_FABRIC_PEER_DEAD);
	nam_sim_call_after(10000000, count_additions, world);
	nam_sleep_ns(20000000);
	end_close(end);
}

static void
qp_break__fetch_add__CARRIED_OUT_ONCE_OR_NOT_AT_ALL(void **state)
{
	struct world *world = world_new(fetch_add_body);
	unsigned outcomes = 0;

	(void)state;
	world->options.faults = (struct nam_sim_faults){ .break_qp = 1000000 };
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world_run(world, seed);
		assert_int_equal(world->rc, 0);
		outcomes |= world->hits;
	}
	assert_int_equal(outcomes, 1u << 0 | 1u << 1);
	free(world);
}

/* How much of a WRITE has arrived: 0, 64, or something between. */
static void
look_after_kill(void *arg)
{
	struct world *world = arg;
	unsigned arrived = 0;

	for (unsigned i = 0; i < 64; i++)
		arrived += word(world->memory, 8 * i) == 0x1111111111111111ull;
	world->hits = arrived == 0 ? 1 : arrived == 64 ? 2 : 4;
}

static void
let_server_end(void *arg)
{
	struct world *world = arg;

	world->done = true;
}

static void
kill_client(void *arg)
{
	struct world *world = arg;

	nam_sim_process_kill(world->client);
	nam_sim_call_after(10000000, look_after_kill, world);
	nam_sim_call_after(30000000, let_server_end, world);
}

static void
kill_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wr;

	open_one(world);
	memset(end->local, 0x11, 512);
	wr = request(end, NAM_WR_WRITE, 0, 0, 512);
	nam_sim_call_after(nam_sim_random() % 1500, kill_client, world);
	post(end, &wr, 1);
	(void)next(end);
	nam_sleep_ns(20000000);
	assert_true(nam_sim_zombie());
	end_close(end);
}

static void
process_kill__in_the_middle_of_a_write__NOTHING_ALL_OR_PART(void **state)
{
	struct world *world = world_new(kill_body);
	unsigned seen = 0;

	(void)state;
	world->options.faults.detect_ns = 20000000;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world->hits = 0;
		world_run(world, seed);
		assert_int_equal(world->rc, 0);
		assert_int_equal(world->closed, 1);
		seen |= world->hits;
	}
	assert_int_equal(seen, 1 | 2 | 4);
	free(world);
}

/* The server has destroyed its queue pair: nothing of the dead client's arrives any more. */
static void
zombie_check(void *arg)
{
	struct world *world = arg;

	if (!world->memory)
		return;
	if (world->closed && !world->memory[REGION_BYTES - 1]) {
		world->memory[REGION_BYTES - 1] = 1;
		memset(world->memory, 0, 512);
	}
	for (uint32_t at = 0; world->memory[REGION_BYTES - 1] && at < 512; at += 8)
		world->zombies += word(world->memory, at) != 0;
	nam_sim_call_after(10000, zombie_check, world);
}

static void
zombie_body(struct world *world)
{
	nam_sim_call_after(1, zombie_check, world);
	kill_body(world);
}

static void
process_kill__server_destroyed_its_queue_pair__NO_ZOMBIES(void **state)
{
	(void)state;
	for (unsigned profile = 0; profile < NAM_SIM_PROFILES_COUNT; profile++) {
		struct world *world = world_new(zombie_body);

		world->options.profile = (enum nam_sim_profile)profile;
		for (uint64_t seed = 1; seed <= SEEDS; seed++) {
			world_run(world, seed);
			assert_int_equal(world->rc, 0);
			assert_int_equal(world->zombies, 0);
		}
		free(world);
	}
}

static void
server_death_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wr;

	open_one(world);
	wr = request(end, NAM_WR_READ, 0, 0, 512);
	nam_sim_process_kill(world->server);
	post(end, &wr, 1);
	assert_int_equal(next(end).status, -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(next(end).op, NAM_WC_CLOSED);
	end_close(end);
}

static void
process_kill__server__REQUESTS_FAIL_THEN_CLOSED(void **state)
{
	struct world *world = world_new(server_death_body);

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		world_run(world, seed);
		assert_int_equal(world->rc, 0);
	}
	free(world);
}

static void
resume_client(void *arg)
{
	struct world *world = arg;

	nam_sim_process_resume(world->client);
}

static void
stall_body(struct world *world)
{
	struct end *end = &world->ends[0];
	uint64_t before = nam_sim_now_ns();
	struct nam_wr wr;

	open_one(world);
	memset(end->local, 0x11, 512);
	wr = request(end, NAM_WR_WRITE, 0, 0, 512);
	post(end, &wr, 1);
	nam_sim_call_after(50000000, resume_client, world);
	nam_sim_process_stall(world->client);
	(void)next(end);
	assert_true(nam_sim_now_ns() - before >= 50000000);
	assert_int_equal(word(world->memory, 504), 0x1111111111111111ull);
	end_close(end);
}

static void
process_stall__and_resume__MESSAGES_WENT_ON(void **state)
{
	struct world *world = world_new(stall_body);

	(void)state;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	free(world);
}

/* ---- the run -------------------------------------------------------------------------------- */

static void
spin_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wr;
	struct nam_wc wc;

	open_one(world);
	wr = request(end, NAM_WR_READ, 0, 0, 512);
	post(end, &wr, 1);
	while (ops()->cq_poll(end->cq, &wc, 1) == 0)
		continue;
	assert_int_equal(wc.status, 0);
	end_close(end);
}

static void
cq_poll__in_a_loop__TIME_GOES_ON(void **state)
{
	struct world *world = world_new(spin_body);

	(void)state;
	world_run(world, 1);
	assert_int_equal(world->rc, 0);
	free(world);
}

static void
waits_for_ever(void *arg)
{
	struct nam_thread **self = arg;

	nam_thread_join(*self);
}

static void
run__nothing_will_ever_happen__DEADLOCK(void **state)
{
	struct nam_sim_options options;
	struct nam_thread *thread = NULL;
	static struct nam_sim_process *process;

	(void)state;
	(void)thread;
	nam_sim_options_init(&options);
	assert_int_equal(nam_sim_begin(&options), 0);
	assert_int_equal(nam_sim_begin(&options), -EBUSY);
	assert_int_equal(nam_sim_process_start("waits", waits_for_ever, &process, &process), 0);
	nam_sim_process_stall(process);
	assert_int_equal(nam_sim_run(), -EDEADLK);
	nam_sim_end();
}

static void
sleeps_long(void *arg)
{
	(void)arg;
	for (;;)
		nam_sleep_ns(1000000);
}

static void
run__beyond_its_limit__TIMEDOUT(void **state)
{
	struct nam_sim_options options;

	(void)state;
	nam_sim_options_init(&options);
	options.limit_ns = 1000000000;
	assert_int_equal(nam_sim_begin(&options), 0);
	assert_int_equal(nam_sim_process_start("sleeps", sleeps_long, NULL, NULL), 0);
	assert_int_equal(nam_sim_run(), -ETIMEDOUT);
	nam_sim_end();
}

static void
measures_a_second(void *arg)
{
	uint64_t *ret = arg;
	uint64_t local = nam_now_ns(), start = nam_sim_now_ns();

	nam_sleep_ns(1000000000);
	ret[0] = nam_now_ns() - local;
	ret[1] = nam_sim_now_ns() - start;
}

static void
clocks__skewed__A_LOCAL_SECOND_IS_NOT_A_SECOND(void **state)
{
	struct nam_sim_options options;
	uint64_t spent[8][2];
	unsigned differ = 0;

	(void)state;
	nam_sim_options_init(&options);
	options.faults.clock_ppm = 10000;
	assert_int_equal(nam_sim_begin(&options), 0);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(nam_sim_process_start("clock", measures_a_second, spent[i],
					 NULL), 0);
	assert_int_equal(nam_sim_run(), 0);
	nam_sim_end();
	for (unsigned i = 0; i < 8; i++) {
		assert_in_range(spent[i][0], 999999000, 1000001000);
		assert_in_range(spent[i][1], 989000000, 1011000000);
		differ += spent[i][1] != 1000000000;
	}
	assert_true(differ > 4);
}

static void
trace_once(uint64_t seed, char **ret_text, size_t *ret_bytes, uint64_t *ret_fingerprint)
{
	struct world *world = world_new(break_body);
	FILE *file = open_memstream(ret_text, ret_bytes);

	assert_non_null(file);
	world->options.trace = file;
	world_run(world, seed);
	*ret_fingerprint = world->fingerprint;
	free(world);
	assert_int_equal(fclose(file), 0);
}

static void
run__same_seed__SAME_TRACE_BYTE_FOR_BYTE(void **state)
{
	char *first, *second, *other;
	size_t first_bytes, second_bytes, other_bytes;
	uint64_t prints[3];

	(void)state;
	trace_once(7, &first, &first_bytes, &prints[0]);
	trace_once(7, &second, &second_bytes, &prints[1]);
	trace_once(8, &other, &other_bytes, &prints[2]);
	assert_true(first_bytes > 500);
	assert_int_equal(first_bytes, second_bytes);
	assert_memory_equal(first, second, first_bytes);
	assert_int_equal(prints[0], prints[1]);
	assert_int_not_equal(prints[0], prints[2]);
	free(first);
	free(second);
	free(other);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(domain_open__no_simulation__CAPABILITY),
		cmocka_unit_test(connect__accepted__REPLY_ARRIVES_AND_BOTH_SIDES_END),
		cmocka_unit_test(connect__rejected_or_nobody_there__SAYS_SO),
		cmocka_unit_test(listen__somebody_does_already__IN_USE),
		cmocka_unit_test(write__outside_of_the_region__BREAKS_THE_QUEUE_PAIR),
		cmocka_unit_test(region_restore__after_withdraw__ALL_CLIENTS_FIND_ZEROES_AND_WRITE),
		cmocka_unit_test(region_restore__read_only__CLIENTS_READ_AND_DO_NOT_WRITE),
		cmocka_unit_test(write__local_memory_not_registered__ACCESS),
		cmocka_unit_test(post__more_than_fits__FULL_AND_NONE_POSTED),
		cmocka_unit_test(send__no_receive_posted__WAITS_AND_WITH_IT_WHAT_FOLLOWS),
		cmocka_unit_test(qp_break__requests_under_way__FAIL_THEN_CLOSED_ON_BOTH_SIDES),
		cmocka_unit_test(qp_break__fetch_add__CARRIED_OUT_ONCE_OR_NOT_AT_ALL),
		cmocka_unit_test(process_kill__in_the_middle_of_a_write__NOTHING_ALL_OR_PART),
		cmocka_unit_test(process_kill__server_destroyed_its_queue_pair__NO_ZOMBIES),
		cmocka_unit_test(process_kill__server__REQUESTS_FAIL_THEN_CLOSED),
		cmocka_unit_test(process_stall__and_resume__MESSAGES_WENT_ON),
		cmocka_unit_test(cq_poll__in_a_loop__TIME_GOES_ON),
		cmocka_unit_test(run__nothing_will_ever_happen__DEADLOCK),
		cmocka_unit_test(run__beyond_its_limit__TIMEDOUT),
		cmocka_unit_test(clocks__skewed__A_LOCAL_SECOND_IS_NOT_A_SECOND),
		cmocka_unit_test(run__same_seed__SAME_TRACE_BYTE_FOR_BYTE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
