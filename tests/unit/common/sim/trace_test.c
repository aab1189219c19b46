/* SPDX-License-Identifier: Apache-2.0 */
/*
 * trace_test.c -- the trace names each fault of a run, and its size.  The trace of a run
 * without faults has none.
 */
#include "common/race.h"
#include "sim_fixture.h"

#define SEEDS 40u
#define ALL 1000000u		/* in a million */

/* A run, its fault, and the line of its trace then, in at least one of the seeds. */
struct fault_case {
	const char *name;
	struct nam_sim_faults faults;
	void (*body)(struct world *world);
	unsigned receives;		/* that the server posts */
	const char *said[3];
};

/* ---- what a client does --------------------------------------------------------------------- */

static void
begin(struct world *world)
{
	end_open(world, &world->ends[0]);
	assert_int_equal(end_connect(&world->ends[0], NULL), 0);
}

static void
request_body(struct world *world, enum nam_wr_op op)
{
	struct end *end = &world->ends[0];
	struct nam_wr wr;

	begin(world);
	wr = request(end, op, 0, 0, 128);
	post(end, &wr, 1);
	(void)next(end);
	end_close(end);
}

static void
write_body(struct world *world)
{
	request_body(world, NAM_WR_WRITE);
}

static void
read_body(struct world *world)
{
	request_body(world, NAM_WR_READ);
}

static void
send_body(struct world *world)
{
	request_body(world, NAM_WR_SEND);
}

static void
post_receive(void *arg)
{
	server_receive(arg, 0);
}

static void
send_early_body(struct world *world)
{
	nam_sim_call_after(10000000, post_receive, world);
	request_body(world, NAM_WR_SEND);
}

static void
delayed_body(struct world *world)
{
	nam_sim_delay_next(NAM_WR_WRITE, 3, 5000);
	request_body(world, NAM_WR_WRITE);
}

static void
delayed_after_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr writes[3];

	begin(world);
	for (unsigned i = 0; i < 3; i++)
		writes[i] = request(end, NAM_WR_WRITE, 0, 0, 128);
	nam_sim_delay_after(NAM_WR_WRITE, 1, 5000);
	carry_out(end, writes, 3);
	end_close(end);
}

static void
break_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wr;

	begin(world);
	wr = request(end, NAM_WR_WRITE, 0, 0, 128);
	post(end, &wr, 1);
	nam_sim_qp_break(end->qp);
	while (next(end).op != NAM_WC_CLOSED)
		continue;
	end_close(end);
}

static void
server_ends(void *arg)
{
	struct world *world = arg;

	world->done = true;
}

static void
die(void *arg)
{
	struct world *world = arg;

	nam_sim_process_kill(world->client);
	nam_sim_call_after(10000000, server_ends, world);
}

static void
kill_body(struct world *world)
{
	struct end *end = &world->ends[0];
	struct nam_wr wr;

	begin(world);
	wr = request(end, NAM_WR_WRITE, 0, 0, 128);
	nam_sim_call_after(nam_sim_random() % 1500, die, world);
	post(end, &wr, 1);
	nam_sleep_ns(20000000);
	end_close(end);
}

static void
resume(void *arg)
{
	struct world *world = arg;

	nam_sim_process_resume(world->client);
}

static void
stall_body(struct world *world)
{
	nam_sim_call_after(1000000, resume, world);
	nam_sim_process_stall(world->client);
	write_body(world);
}

static void
slow_body(struct world *world)
{
	nam_sim_process_slow(world->server, 7);
	write_body(world);
}

#ifdef NAM_SIM_POINTS
static void
race_body(struct world *world)
{
	nam_race_point("somewhere.seen");
	write_body(world);
}
#endif

/* ---- what the trace says -------------------------------------------------------------------- */

static const struct fault_case fault_cases[] = {
	{ "late__every_message__TOLD_WITH_ITS_TIME",
		{ .late = ALL, .late_ns = 5000 }, write_body, 0,
		{ "fault late: m1 WRITE sets out ", " ns late\n" } },
	{ "read_twice__every_read__TOLD_WHEN_IT_IS_DONE_AGAIN",
		{ .read_twice = ALL }, read_body, 0,
		{ "fault read_twice: m1 READ is carried out again in " } },
	{ "preempt__every_poll__TOLD_WITH_ITS_TIME",
		{ .preempt = ALL, .pause_ns = 5000 }, write_body, 0,
		{ "fault preempt: cq_poll takes " } },
	{ "rnr__half_of_the_sends__TOLD_WITH_THE_RETRY",
		{ .rnr = ALL / 2 }, send_body, 1,
		{ "fault rnr: m1 SEND finds q", " not ready and comes again in " } },
	{ "rnr__no_buffer__TOLD",
		{ 0 }, send_early_body, 0,
		{ "m1 SEND waits for a buffer at q" } },
	{ "break_qp__every_message__TOLD_WITH_WHAT_WAS_APPLIED",
		{ .break_qp = ALL }, write_body, 0,
		{ "fault break_qp: m1 WRITE breaks its queue pair after 5 of 16 steps\n",
			"fault break: q", " was carried out for 5 of 16 steps\n" } },
	{ "qp_break__a_write_under_way__ITS_REST_IS_TOLD",
		{ .detect_ns = 20000 }, break_body, 0,
		{ "fault break: q", "fault cut: m1 WRITE of q",
			"fault zombie: m1 WRITE goes on as q" } },
	{ "process_kill__a_write_under_way__ITS_REST_IS_TOLD",
		{ .detect_ns = 20000000 }, kill_body, 0,
		{ "fault kill: process p", "fault cut: m1 WRITE of q",
			"fault zombie: m1 WRITE goes on as q" } },
	{ "process_stall__and_resume__TOLD",
		{ 0 }, stall_body, 0,
		{ "fault stall: process p", " (client) goes on\n" } },
	{ "process_slow__a_server__TOLD",
		{ 0 }, slow_body, 0,
		{ " (server) is 7 times as slow as others\n" } },
	{ "delay_next__a_step__TOLD",
		{ 0 }, delayed_body, 0,
		{ "fault directed: m1 WRITE waits 5000 ns before step 3\n" } },
	{ "delay_after__one_that_passes__TOLD_OF_THE_SECOND",
		{ 0 }, delayed_after_body, 0,
		{ "fault directed: m2 WRITE waits 5000 ns before step 0\n" } },
#ifdef NAM_SIM_POINTS
	{ "race__every_point__TOLD_BY_NAME",
		{ .race = ALL, .pause_ns = 5000 }, race_body, 0,
		{ "fault race: somewhere.seen takes " } },
#endif
};
#define FAULT_CASES (sizeof(fault_cases) / sizeof(fault_cases[0]))

/* The trace of a run, to be freed. */
static char *
trace_of(const struct fault_case *fault, uint64_t seed)
{
	struct world *world = malloc(sizeof(*world));
	size_t bytes;
	char *text;

	assert_non_null(world);
	world_init(world, NAM_SIM_VERBS, fault->body);
	world->receives_posted = fault->receives;
	world->options.faults = fault->faults;
	world->options.trace = open_memstream(&text, &bytes);
	assert_non_null(world->options.trace);
	world_run(world, seed);
	assert_int_equal(world->rc, 0);
	assert_int_equal(fclose(world->options.trace), 0);
	free(world);
	return text;
}

static bool
says_all(const struct fault_case *fault, const char *trace)
{
	for (unsigned i = 0; i < 3 && fault->said[i]; i++)
		if (!strstr(trace, fault->said[i]))
			return false;
	return true;
}

static void
trace__fault__TOLD_THE_SAME_EACH_TIME(void **state)
{
	const struct fault_case *fault = *state;
	bool told = false;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		char *trace = trace_of(fault, seed), *again = trace_of(fault, seed);

		assert_string_equal(trace, again);
		told = told || says_all(fault, trace);
		free(trace);
		free(again);
	}
	assert_true(told);
}

static void
trace__no_faults__NO_FAULT_NAMED(void **state)
{
	static const struct fault_case none[] = {
		{ .body = write_body }, { .body = read_body }, { .body = send_body, .receives = 1 },
	};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		char *trace = trace_of(&none[i], 1);

		assert_non_null(strstr(trace, " completes "));
		assert_null(strstr(trace, "fault "));
		assert_null(strstr(trace, " waits for a buffer"));
		free(trace);
	}
}

int
main(void)
{
	struct CMUnitTest tests[FAULT_CASES + 1];

	for (size_t i = 0; i < FAULT_CASES; i++)
		tests[i] = (struct CMUnitTest){ .name = fault_cases[i].name,
			.test_func = trace__fault__TOLD_THE_SAME_EACH_TIME,
			.initial_state = (void *)(uintptr_t)&fault_cases[i] };
	tests[FAULT_CASES] =
		(struct CMUnitTest)cmocka_unit_test(trace__no_faults__NO_FAULT_NAMED);
	return _cmocka_run_group_tests("sim_trace", tests, FAULT_CASES + 1, NULL, NULL);
}
