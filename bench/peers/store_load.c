/* SPDX-License-Identifier: Apache-2.0 */
/*
 * store_load.c -- GETs and SETs of memcached or Redis, for bench/peers/compare: one thread, one
 * connection, every answer checked.
 *
 * Answers come in the order of requests, so the inserts that were acknowledged are those with the
 * lowest numbers.
 *
 * Half of a window is asked for at once, when half of it has been answered.  Client and server work
 * at the same time, without a system call for each request.  The first tenth of the time does not
 * count.  JSON of the rest goes to standard output.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/load/check.h"
#include "bench/load/workload.h"
#include "bench/report.h"
#include "bench/ticks.h"
#include "common/options/options.h"
#include "redis.h"

#define DEPTH_MAX 4096u		/* a power of two */
#define IN_BYTES (256u << 10)
#define SILENCE_SECONDS 5

static struct options {
	int protocol;			/* number in protocols */
	const char *name;		/* of the server, for messages */
	const char *address;
	uint64_t pairs;
	uint32_t key_bytes, value_bytes, depth;
	double seconds;
	uint64_t seed;
	const char *workload;
	int distribution;
	uint64_t inserted;		/* of an earlier run, and those acknowledged */
} options = {
	.name = "the server",
	.address = "11211",
	.pairs = 1,
	.key_bytes = 8,
	.depth = 1,
	.seconds = 1,
	.workload = "ycsb-c",
};

static int fd;
static struct nam_rng rng;

static const struct protocol {
	const char *name;
	size_t (*get)(char *to, uint64_t pair, uint32_t key_bytes);
	size_t (*set)(char *to, uint64_t pair, uint32_t key_bytes, uint32_t value_bytes);
	enum reply_kind (*parse)(const char *from, size_t bytes, struct reply *ret);
} *protocol;

static struct workload workload;
static struct op_mix mix;
static struct zipf zipf;
static uint64_t numbered;	/* new pairs */

/* A ring: answers come in the order of requests. */
static struct {
	uint64_t pair;
	uint64_t began;		/* ticks */
	enum workload_op op;
} asked[DEPTH_MAX];
static uint32_t first, under_way;

static char *out, in[IN_BYTES];		/* out: room for as many sets as the depth */
static size_t in_at, in_end;	/* arrived, and not parsed yet */

static struct {
	uint64_t ops;
	double seconds;
	struct histogram latency;	/* in ticks */
} turn;

static int
failed(int rc, const char *why)
{
	findings_failed(rc, options.name, why);
	return rc;
}

static int
connect_to(const char *address)
{
	struct sockaddr_un here = { .sun_family = AF_UNIX };
	struct sockaddr_in there = { .sin_family = AF_INET };
	const struct timeval silence = { .tv_sec = SILENCE_SECONDS };
	bool is_unix = *address == '/';
	int one = 1, rc;

	there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	there.sin_port = htons((uint16_t)atoi(address));
	if (is_unix && (size_t)snprintf(here.sun_path, sizeof(here.sun_path), "%s", address) >=
			       sizeof(here.sun_path))
		return failed(-ENAMETOOLONG, "the path of its socket is too long");
	fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return failed(-errno, "a socket");
	rc = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence)) ||
	     setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence)) ||
	     (!is_unix && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)));
	if (!rc)
		rc = is_unix ? connect(fd, (const struct sockaddr *)&here, sizeof(here))
			     : connect(fd, (const struct sockaddr *)&there, sizeof(there));
	return rc ? failed(-errno, "it takes no connection") : 0;
}

static uint64_t
draw(enum workload_op op)
{
	uint64_t rank;

	if (op == OP_INSERT)
		return options.pairs + numbered++;
	if (workload.distribution == DISTRIBUTION_UNIFORM)
		return nam_rng_below(&rng, options.pairs);
	rank = zipf_next(&zipf, &rng);
	return workload.distribution != DISTRIBUTION_LATEST ? rank :
		options.pairs + options.inserted - 1 - rank;
}

/* Send so many more requests, with one system call. */
static int
ask(uint32_t count)
{
	uint64_t now = ticks_now();
	size_t at = 0, bytes = 0;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t slot = (first + under_way + i) % DEPTH_MAX;
		enum workload_op op = op_mix_draw(&mix, (uint32_t)(nam_rng_next(&rng) >> 32));

		asked[slot].op = op;
		asked[slot].pair = draw(op);
		asked[slot].began = now;
		if (op == OP_LOOKUP)
			bytes += protocol->get(out + bytes, asked[slot].pair, options.key_bytes);
		else
			bytes += protocol->set(out + bytes, asked[slot].pair, options.key_bytes,
				options.value_bytes);
	}
	under_way += count;
	while (at < bytes) {
		ssize_t sent = send(fd, out + at, bytes - at, MSG_NOSIGNAL);

		if (sent < 0 && errno == EAGAIN)
			return failed(-ETIMEDOUT, "it takes no request");
		if (sent < 0)
			return failed(-errno, "the connection is gone");
		at += (size_t)sent;
	}
	return 0;
}

/* Takes arrived bytes; waits for the first one. */
static int
receive(void)
{
	size_t left = in_end - in_at;
	ssize_t bytes;

	memmove(in, in + in_at, left);
	in_at = 0;
	in_end = left;
	bytes = recv(fd, in + left, IN_BYTES - left, 0);
	if (bytes < 0 && errno == EAGAIN)
		return failed(-ETIMEDOUT, "it does not answer");
	if (bytes < 0)
		return failed(-errno, "the connection is gone");
	if (bytes == 0)
		return failed(-ECONNRESET, "it has closed the connection");
	in_end += (size_t)bytes;
	return 0;
}

/* All replies that are there as a whole. */
static int
take(void)
{
	uint64_t now = ticks_now();
	struct reply reply = { 0 };
	char text[128];

	while (under_way) {
		enum reply_kind kind = protocol->parse(in + in_at, in_end - in_at, &reply);
		uint64_t pair = asked[first].pair;

		if (kind == REPLY_PARTIAL)
			return 0;
		if (kind == REPLY_GARBAGE)
			return failed(-EPROTO, "what it answers makes no sense");
		if (kind == REPLY_ERROR) {
			snprintf(text, sizeof(text), "'%.*s'", (int)reply.text_bytes, reply.text);
			return failed(-EREMOTEIO, text);
		}
		if (!reply_fits(kind, asked[first].op != OP_LOOKUP))
			return failed(-EPROTO, "what it answers makes no sense");
		options.inserted += asked[first].op == OP_INSERT;
		if (kind == REPLY_MISS)
			findings_missing(1, "%s: pair %" PRIu64 " was not found", options.name,
				pair);
		else if (kind == REPLY_VALUE &&
			!memcached_value_right(pair, options.value_bytes, &reply))
			findings_wrong("%s: the value of pair %" PRIu64 ", %zu bytes, is not the "
				"one that was stored", options.name, pair, reply.text_bytes);
		histogram_record(&turn.latency, now - asked[first].began);
		turn.ops++;
		in_at += reply.bytes;
		first = (first + 1) % DEPTH_MAX;
		under_way--;
	}
	return in_at < in_end ? failed(-EPROTO, "it says more than it was asked") : 0;
}

static int
run(double seconds)
{
	uint64_t began = ticks_now(), until = began + ticks_from_ns(seconds * 1e9);
	int rc = 0;

	memset(&turn, 0, sizeof(turn));
	while (!rc) {
		bool over = ticks_now() >= until;

		if (over && !under_way)
			break;
		if (!over && under_way <= options.depth / 2)
			rc = ask(options.depth - under_way);
		if (!rc)
			rc = receive();
		if (!rc)
			rc = take();
	}
	turn.seconds = ticks_ns(ticks_now() - began) * 1e-9;
	return rc;
}

static int
report(void)
{
	cJSON *object = cJSON_CreateObject();
	int rc;

	report_number(object, "ops", (double)turn.ops);
	report_number(object, "seconds", turn.seconds);
	report_number(object, "ops_per_s", (double)turn.ops / turn.seconds);
	cJSON_AddNumberToObject(object, "inserted", (double)options.inserted);
	report_number(object, "errors", (double)findings_total());
	report_latency(object, &turn.latency);
	rc = report_write(object, "-");
	cJSON_Delete(object);
	return rc || findings_total() ? NAM_EXIT_NO : NAM_EXIT_OK;
}

static const struct protocol protocols[] = {
	{ "memcached", memcached_get, memcached_set, memcached_parse },
	{ "redis", redis_get, redis_set, redis_parse },
};

#define FIELD(field) NAM_OPTION_FIELD(struct options, field)

static const char *const protocol_names[] = { "memcached", "redis", NULL };

static const struct nam_option rows[] = {
	{ "protocol", "P", "memcached (default) or redis.", NAM_OPTION_CHOICE, FIELD(protocol),
		.choices = protocol_names },
	{ "name", "NAME", "The server, for messages.", NAM_OPTION_TEXT, FIELD(name) },
	{ "address", "PATH|PORT", "Its socket, or its port at 127.0.0.1.", NAM_OPTION_TEXT,
		FIELD(address) },
	{ "pairs", "N", "So many are there.", NAM_OPTION_COUNT, FIELD(pairs), .min = 1,
		.max = INT64_MAX },
	{ "key-bytes", "N", "Of a key.", NAM_OPTION_COUNT, FIELD(key_bytes), .min = 1,
		.max = MEMCACHED_KEY_BYTES_MAX },
	{ "value-bytes", "N", "Of a value.", NAM_OPTION_COUNT, FIELD(value_bytes),
		.max = MEMCACHED_VALUE_BYTES_MAX },
	{ "depth", "N", "Requests under way.", NAM_OPTION_COUNT, FIELD(depth), .min = 1,
		.max = DEPTH_MAX },
	{ "seconds", "S", "How long.", NAM_OPTION_REAL, FIELD(seconds), .low = 1e-9, .high = 1e9 },
	{ "seed", "N", "Of the pairs that are drawn.", NAM_OPTION_COUNT, FIELD(seed),
		.max = UINT64_MAX },
	{ "workload", "W", "GETs, updates and inserts, as in nam-bench.", NAM_OPTION_TEXT,
		FIELD(workload) },
	{ "distribution", "D", "Which pairs are drawn, as in nam-bench.", NAM_OPTION_CHOICE,
		FIELD(distribution), .choices = distribution_names },
	{ "inserted", "N", "Beyond those, so many are there, of an earlier run.",
		NAM_OPTION_COUNT, FIELD(inserted), .max = INT64_MAX },
	{ .help = NULL }
};

static const struct nam_options_table options_table = {
	.program = "store_load",
	.usage = "",
	.purpose = "GETs and SETs of memcached or Redis: one thread, one connection.",
	.rows = rows,
};

int
main(int argc, char **argv)
{
	struct nam_diag diag;
	int exit_code;

	if (!nam__options_take(&options_table, argc, argv, &options, &exit_code))
		return exit_code;
	if (workload_find(options.workload, &workload, &diag)) {
		bench_complain("--workload: %s", diag.text);
		return NAM_EXIT_USAGE;
	}
	workload.distribution = (enum distribution)options.distribution;
	op_mix_init(&mix, &workload);
	zipf_init(&zipf, options.pairs, 0.99);
	protocol = &protocols[options.protocol];
	numbered = options.inserted;
	rng = nam_rng_seed(options.seed);
	out = malloc((size_t)options.depth * (SET_BYTES + options.value_bytes));
	if (!out)
		return NAM_EXIT_REMOTE;
	ticks_init();
	exit_code = NAM_EXIT_REMOTE;
	if (!connect_to(options.address) && !run(options.seconds / 10) && !run(options.seconds))
		exit_code = report();
	free(out);
	return exit_code;
}
