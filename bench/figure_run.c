/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_run.c -- points: nam-bench index, kv or ramp for each, some at a time, and what it says
 * as JSON.
 *
 * Figures share points, and what differs only in what an index does not have, such as the shares of
 * a fine-grained one, is the same run: each command line runs once.
 */
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/env.h"
#include "bench.h"
#include "figure.h"
#include "progress.h"

#define ARGS_MAX 48u
#define TEXT_MAX 2048u
#define JOBS_MAX 64u
#define OUTPUT_MAX (1u << 20)
#define PROBE_SECONDS 0.001
#define AWAIT_NS 2000000u

extern char **environ;

/* ---- command lines ------------------------------------------------------------------------- */

/* Arguments one behind the other, as many as the pointers say. */
struct command {
	unsigned count;
	size_t used;
	char *args[ARGS_MAX];
	char text[TEXT_MAX];
};

NAM_PRINTF(2, 3) static void
say(struct command *command, const char *format, ...)
{
	va_list args;
	size_t room = TEXT_MAX - command->used;
	int written;

	if (command->count + 1 >= ARGS_MAX)
		abort();
	va_start(args, format);
	written = vsnprintf(command->text + command->used, room, format, args);
	va_end(args);
	if (written < 0 || (size_t)written >= room)
		abort();
	command->args[command->count++] = command->text + command->used;
	command->args[command->count] = NULL;
	command->used += (size_t)written + 1;
}

static void
say_cluster(struct command *command, const struct figure_options *o,
	const struct figure_point *point)
{
	say(command, "--cluster");
	say(command, "%s", figure_over_sockets(point) ? FIGURE_SOCKETS_CLUSTER : o->cluster);
	if (!o->simulated) {
		say(command, "--threads");
		say(command, "%u", point->clients);
		return;
	}
	say(command, "--memservers");
	say(command, "%u", point->memservers);
	say(command, "--clients");
	say(command, "%u", point->clients);
	if (o->rpc_threads || point->rpc_threads) {
		say(command, "--rpc-threads");
		say(command, "%u", point->rpc_threads ? point->rpc_threads : o->rpc_threads);
	}
	if (point->colocated)
		say(command, "--colocate");
}

static void
say_index(struct command *command, const struct figure_point *point)
{
	const struct figure_case *which = &point->figure->cases[point->which];
	char shares[FIGURE_SHARES_BYTES];

	say(command, "--design");
	say(command, "%s", figure_designs[point->design]);
	if (strcmp(point->partitioning, "none") != 0) {
		say(command, "--partition");
		say(command, "%s", point->partitioning);
		figure_shares(point->memservers, shares);
		if (which->skewed && shares[0]) {
			say(command, "--shares");
			say(command, "%s", shares);
		}
	}
	say(command, "--keys");
	say(command, "%" PRIu64, point->keys);
	say(command, "--cache-mb");
	say(command, "%.6g", point->cache_mb);
	say(command, "--workload");
	say(command, "%s", which->workload);
	if (which->selectivity > 0) {
		say(command, "--selectivity");
		say(command, "%g", which->selectivity);
	}
}

static void
say_requests(struct command *command, const struct figure_point *point)
{
	const struct figure *figure = point->figure;
	const struct figure_case *which = &figure->cases[point->which];

	say(command, "--transport");
	say(command, "%s", figure_line(figure, point->design));
	say(command, "--get-percent");
	say(command, "%g", figure->x == X_GET_PERCENT ? point->x : 95);
	say(command, "--distribution");
	say(command, "%s", which->zipfian ? "zipfian" : "uniform");
	say(command, "--value-bytes");
	if (which->mixed)
		say(command, "mixed");
	else
		say(command, "%g", figure->x == X_VALUE_BYTES ? point->x : 32);
	if (which->fetch_bytes) {
		say(command, "--fetch-bytes");
		say(command, "%u", which->fetch_bytes);
	}
}

static void
say_transactions(struct command *command, const struct figure_point *point)
{
	const struct figure_case *which = &point->figure->cases[point->which];
	const struct figure_ramp_line *line = &figure_ramp_lines[point->design];

	say(command, "--algorithm");
	say(command, "%s", line->algorithm);
	say(command, "--transport");
	say(command, "%s", line->transport);
	say(command, "--transaction-size");
	say(command, "%u", figure_transaction_size(point));
	say(command, "--read-ratio");
	say(command, "%g", figure_read_ratio(point));
	say(command, "--distribution");
	say(command, "%s", which->zipfian ? "zipfian" : "uniform");
	if (point->keys) {
		say(command, "--keys");
		say(command, "%" PRIu64, point->keys);
	}
	if (which->value_bytes) {
		say(command, "--value-bytes");
		say(command, "%u", which->value_bytes);
	}
}

static void
command_of(const struct figure_options *o, const struct figure_point *point,
	struct command *ret)
{
	static const struct {
		const char *subcommand;
		void (*say)(struct command *command, const struct figure_point *point);
	} kinds[] = {
		[FIGURE_TREES] = { "index", say_index },
		[FIGURE_REQUESTS] = { "kv", say_requests },
		[FIGURE_TRANSACTIONS] = { "ramp", say_transactions },
	};

	memset(ret, 0, sizeof(*ret));
	say(ret, "nam-bench");
	say(ret, "%s", kinds[point->figure->kind].subcommand);
	say_cluster(ret, o, point);
	kinds[point->figure->kind].say(ret, point);
	say(ret, "--fibers");
	say(ret, "1");
	say(ret, "--seconds");
	say(ret, "%.4g", point->seconds);
	say(ret, "--seed");
	say(ret, "%" PRIu64, o->seed);
	say(ret, "--json");
	say(ret, "-");
	say(ret, "--quiet");
}

/* As somebody would type it. */
static void
complain_of(const struct command *command, const char *why)
{
	char line[TEXT_MAX];
	int at = 0;

	for (unsigned i = 0; i < command->count; i++)
		at += snprintf(line + at, sizeof(line) - (size_t)at, "%s%s", i ? " " : "",
			command->args[i]);
	bench_complain("%s: %s", line, why);
}

/* ---- what has run -------------------------------------------------------------------------- */

struct run {
	struct run *next;
	struct command command;
	bool done;
	struct figure_result result;
};

static struct run *runs;

static struct run *
run_find(const struct command *command)
{
	for (struct run *run = runs; run; run = run->next)
		if (run->command.used == command->used &&
			!memcmp(run->command.text, command->text, command->used))
			return run;
	return NULL;
}

static struct run *
run_new(const struct command *command)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		return NULL;
	run->command = *command;
	for (unsigned i = 0; i < command->count; i++)
		run->command.args[i] = run->command.text + (command->args[i] - command->text);
	run->next = runs;
	runs = run;
	return run;
}

void
figure_run_end(void)
{
	while (runs) {
		struct run *run = runs;

		runs = run->next;
		free(run);
	}
}

/* ---- processes ----------------------------------------------------------------------------- */

struct job {
	pid_t pid;			/* 0: free */
	struct run *run;
	FILE *out, *err;
};

static void
job_close(struct job *job)
{
	if (job->out)
		fclose(job->out);
	if (job->err)
		fclose(job->err);
	*job = (struct job){ 0 };
}

static int
job_start(struct job *job, struct run *run)
{
	posix_spawn_file_actions_t actions;
	int rc;

	*job = (struct job){ .run = run, .out = tmpfile(), .err = tmpfile() };
	if (!job->out || !job->err || posix_spawn_file_actions_init(&actions)) {
		job_close(job);
		return -ENOMEM;
	}
	rc = posix_spawn_file_actions_adddup2(&actions, fileno(job->out), STDOUT_FILENO);
	if (!rc)
		rc = posix_spawn_file_actions_adddup2(&actions, fileno(job->err), STDERR_FILENO);
	if (!rc)
		rc = posix_spawn(&job->pid, "/proc/self/exe", &actions, NULL, run->command.args,
			environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc)
		job_close(job);
	return -rc;
}

/* All of it, for the caller to free; NULL without memory. */
static char *
read_all(FILE *file)
{
	char *text = calloc(1, OUTPUT_MAX + 1);

	if (text) {
		rewind(file);
		text[fread(text, 1, OUTPUT_MAX, file)] = '\0';
	}
	return text;
}

static double
number(const cJSON *object, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, name);

	return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static int
result_read(const char *text, struct figure_result *ret)
{
	cJSON *object = cJSON_Parse(text);
	const cJSON *latency = cJSON_GetObjectItemCaseSensitive(object, "latency_ns");
	const cJSON *per_op = cJSON_GetObjectItemCaseSensitive(object, "per_op");
	const cJSON *memory = cJSON_GetObjectItemCaseSensitive(object, "memory");
	const cJSON *cache = cJSON_GetObjectItemCaseSensitive(object, "cache");
	double wanted = number(cache, "hits") + number(cache, "misses") + number(cache, "stale");

	if (!object)
		return -EINVAL;
	*ret = (struct figure_result){
		.ops_per_s = number(object, "ops_per_s"),
		.p50_ns = number(latency, "p50"),
		.p99_ns = number(latency, "p99"),
		.round_trips = number(per_op, "round_trips"),
		.work_requests = number(per_op, "work_requests"),
		.bytes_in = number(per_op, "bytes_in"),
		.bytes_out = number(per_op, "bytes_out"),
		.memservers = number(object, "memservers"),
		.rpc_threads = number(object, "rpc_threads"),
		.height = number(memory, "height"),
		.keys = number(object, "keys"),
		.value_bytes = number(object, "value_bytes"),
		.cached = wanted > 0,
		.hits = wanted > 0 ? number(cache, "hits") / wanted : 0,
		.stale = wanted > 0 ? number(cache, "stale") / wanted : 0,
	};
	cJSON_Delete(object);
	return ret->ops_per_s > 0 ? 0 : -EINVAL;
}

/* The first line of what it complained of, without the program's name. */
static void
first_line(const char *text, char line[256])
{
	static const char program[] = "nam-bench: ";

	if (!strncmp(text, program, strlen(program)))
		text += strlen(program);
	snprintf(line, 256, "%.*s", (int)strcspn(text, "\n"), text);
}

/* The process has ended.  Returns 0 if there is a result; else why[] says why there is none. */
static int
job_end(struct job *job, int status, char why[256])
{
	char *out = read_all(job->out), *err = read_all(job->err);
	int rc = -EINVAL;

	if (!out || !err)
		rc = -ENOMEM;
	else if (WIFEXITED(status) && !WEXITSTATUS(status))
		rc = result_read(out, &job->run->result);
	if (!rc)
		job->run->done = true;
	else if (err && *err)
		first_line(err, why);
	else if (WIFSIGNALED(status))
		snprintf(why, 256, "ended by signal %d", WTERMSIG(status));
	else
		snprintf(why, 256, "it gave no result");
	free(out);
	free(err);
	job_close(job);
	return rc;
}

/* ---- designs ------------------------------------------------------------------------------- */

static int
run_alone(const struct command *command, struct figure_result *ret, char why[256])
{
	struct job job = { 0 };
	struct run run = { .command = *command };
	int status, rc;

	for (unsigned i = 0; i < command->count; i++)
		run.command.args[i] = run.command.text + (command->args[i] - command->text);
	rc = job_start(&job, &run);
	if (rc) {
		snprintf(why, 256, "it cannot be started: %s", strerror(-rc));
		return rc;
	}
	while (waitpid(job.pid, &status, 0) < 0 && errno == EINTR)
		;
	rc = job_end(&job, status, why);
	*ret = run.result;
	return rc;
}

int
figure_probe(struct figure_options *o)
{
	static const struct figure any = { .cases_count = 1,
		.cases = { { .workload = "tree-a" } } };
	bool one = false;

	for (unsigned design = 0; design < FIGURE_DESIGNS; design++) {
		struct figure_point point = {
			.figure = &any,
			.design = design,
			.partitioning = strcmp(figure_designs[design], "fine") ? "range" : "none",
			.keys = 100,
			.memservers = 2,
			.clients = 1,
			.seconds = PROBE_SECONDS,
		};
		struct figure_result result = { 0 };
		struct command command;
		char why[256] = "";

		if (!o->designs[design] || bench_signal)
			continue;
		command_of(o, &point, &command);
		if (run_alone(&command, &result, why)) {
			o->designs[design] = false;
			if (!bench_signal)
				bench_complain("%s is left out: %s", figure_designs[design], why);
			continue;
		}
		o->real_memservers = (unsigned)result.memservers;
		one = true;
	}
	if (bench_signal)
		return NAM_EXIT_SIGNAL + bench_signal;
	return one ? NAM_EXIT_OK : NAM_EXIT_FABRIC;
}

/* ---- points -------------------------------------------------------------------------------- */

struct pool {
	const struct figure_options *o;
	struct job jobs[JOBS_MAX];
	unsigned running;
	bool told;			/* to end */
	size_t ended, failed;
};

static struct job *
job_of(struct pool *pool, pid_t pid)
{
	for (unsigned i = 0; i < pool->o->jobs; i++)
		if (pool->jobs[i].pid == pid)
			return &pool->jobs[i];
	return NULL;
}

/*
 * Told to end, tell those that run.  A simulation ends with its process, and would else go on until
 * each client has done what it is at; a real cluster keeps what nobody drops.
 */
static void
end_all(struct pool *pool)
{
	pool->told = true;
	for (unsigned i = 0; i < pool->o->jobs; i++)
		if (pool->jobs[i].pid)
			(void)kill(pool->jobs[i].pid, pool->o->simulated ? SIGKILL : SIGTERM);
}

/* It looks again and again: a signal that comes before it waits would not end the waiting. */
static void
await_one(struct pool *pool)
{
	char why[256] = "";
	struct run *run;
	struct job *job;
	int status;
	pid_t pid;

	while (!(pid = waitpid(-1, &status, WNOHANG))) {
		if (bench_signal && !pool->told)
			end_all(pool);
		nam_sleep_ns(AWAIT_NS);
	}
	if (pid < 0)
		return;
	job = job_of(pool, pid);
	if (!job)
		return;
	run = job->run;
	pool->running--;
	pool->ended++;
	if (job_end(job, status, why) && !bench_signal) {
		pool->failed++;
		complain_of(&run->command, why);
	}
}

static void
start_one(struct pool *pool, struct run *run)
{
	struct job *job = job_of(pool, 0);
	int rc = job_start(job, run);

	if (!rc) {
		pool->running++;
		return;
	}
	pool->failed++;
	complain_of(&run->command, strerror(-rc));
}

static int
run_points(struct pool *pool, struct figure_points *points)
{
	struct command command;

	for (size_t i = 0; i < points->count && !bench_signal; i++) {
		struct run *run;

		progress_show((double)pool->ended / (double)points->count, pool->ended);
		command_of(pool->o, &points->points[i], &command);
		if (run_find(&command)) {
			pool->ended++;
			continue;
		}
		while (pool->running >= pool->o->jobs && !bench_signal)
			await_one(pool);
		run = bench_signal ? NULL : run_new(&command);
		if (!run)
			return bench_signal ? 0 : -ENOMEM;
		start_one(pool, run);
	}
	return 0;
}

static void
take_results(const struct figure_options *o, struct figure_points *points)
{
	struct command command;

	for (size_t i = 0; i < points->count; i++) {
		const struct run *run;

		command_of(o, &points->points[i], &command);
		run = run_find(&command);
		if (!run || !run->done)
			continue;
		points->points[i].done = true;
		points->points[i].result = run->result;
	}
}

int
figure_run(const struct figure *figure, const struct figure_options *o,
	struct figure_points *points)
{
	struct pool pool = { .o = o };
	int rc;

	if (figure->model_only)
		return NAM_EXIT_OK;
	progress_begin(figure->name);
	rc = run_points(&pool, points);
	while (pool.running) {
		progress_show((double)pool.ended / (double)points->count, pool.ended);
		await_one(&pool);
	}
	progress_clear();
	take_results(o, points);
	if (bench_signal)
		return NAM_EXIT_SIGNAL + bench_signal;
	if (rc)
		return bench_failed(figure->name, rc, NULL);
	return pool.failed ? NAM_EXIT_NO : NAM_EXIT_OK;
}
