/* SPDX-License-Identifier: Apache-2.0 */
/*
 * profile_test.c -- simulated networks do what is known of real ones, each figure within 10 %.
 *
 * Two figures do not fit one model.  RFP's ConnectX-3 serves 11.26 M READs a second, and profile
 * connectx3 is that card.  With 2.7 M atomics a second, one PUT in ten that needs two of them costs
 * 51 %.  The 72 % that are known of DrTM-KV come from a ConnectX-3 that serves 26 M READs and 35 M
 * WRITEs a second.  So atomics weigh more: with these two rates the model loses 68 %.
 */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/sim/sim.h"

#define REGION_BYTES (1u << 20)
#define WARM_NS 100000u
#define MEASURED_NS 300000u
#define BATCH_MAX 64u
#define QPS_MAX 16u
#define TEXT_BYTES sizeof(((struct nam_diag *)NULL)->text)

enum words { RANDOM_WORDS, ONE_WORD, WORDS_OF_ONE_SLOT };

struct load {
	const struct nam_sim_network *network;
	unsigned machines, threads, qps;	/* queue pairs of each thread */
	unsigned batch;
	bool one_doorbell;		/* all to one queue pair; else each alone to any */
	uint8_t op;
	uint32_t bytes;
	enum words words;
	unsigned puts_percent;		/* CAS, READ, WRITE, CAS instead of a READ */
};

/* One load at a time: what its simulated threads share. */
static struct {
	struct load load;
	struct nam_mr region;
	uint64_t done;
	unsigned running;
	bool listening;
} world;

static uint8_t buffers[BATCH_MAX * 4096];

/* ---- the memory server -------------------------------------------------------------------- */

static void
server_main(void *arg)
{
	struct nam_listener *listener;
	struct nam_domain *domain;
	struct nam_cm_event event;
	struct nam_qp_options options = { 0 };
	struct nam_hello hello = { 0 };
	struct nam_qp *qps[4096];
	unsigned count = 0;

	(void)arg;
	if (nam__sim_ops.domain_open(NULL, &domain, NULL) ||
		domain->ops->region_alloc(domain, REGION_BYTES, 12, 0, -1, &world.region, NULL) ||
		domain->ops->cq_create(domain, 1024, &options.cq) ||
		domain->ops->listen(domain, "sim:server", &listener, NULL))
		abort();
	world.listening = true;
	while (world.running) {
		if (domain->ops->listener_poll(listener, 50000, &event) != NAM_LISTENER_EVENT)
			continue;
		if (domain->ops->accept(listener, event.request, &options, &hello, &qps[count++]))
			abort();
	}
	while (count)
		domain->ops->qp_destroy(qps[--count]);
	domain->ops->listener_close(listener);
	domain->ops->cq_destroy(options.cq);
	domain->ops->mr_release(domain, &world.region);
	domain->ops->domain_close(domain);
}

/* ---- clients ------------------------------------------------------------------------------ */

struct client {
	struct nam_domain *domain;
	struct nam_cq *cq;
	struct nam_mr mr;
	struct nam_qp *qps[QPS_MAX];
	struct nam_rng rng;
};

static uint64_t
offset(struct client *client, uint32_t bytes)
{
	switch (world.load.words) {
	case ONE_WORD:
		return 0;
	case WORDS_OF_ONE_SLOT:
		return nam_rng_below(&client->rng, REGION_BYTES / 4096) * 4096;
	default:
		return nam_rng_below(&client->rng, REGION_BYTES / bytes) * bytes;
	}
}

static struct nam_wr
request(struct client *client, uint8_t op, uint32_t bytes, unsigned place)
{
	struct nam_wr wr = {
		.op = op,
		.flags = NAM_WR_SIGNALED,
		.rkey = world.region.rkey,
		.lkey = client->mr.lkey,
		.remote = world.region.remote + offset(client, bytes),
		.local = buffers + place * 4096,
		.bytes = bytes,
	};

	return wr;
}

static struct nam_qp *
any_qp(struct client *client)
{
	return client->qps[nam_rng_below(&client->rng, world.load.qps)];
}

static unsigned
post(struct client *client, uint8_t op, uint32_t bytes, unsigned place)
{
	struct nam_wr wr = request(client, op, bytes, place);
	struct nam_qp *qp = any_qp(client);

	if (qp->ops->qp_post(qp, &wr, 1))
		abort();
	return 1;
}

/* Returns the number of requests. */
static unsigned
post_round(struct client *client)
{
	const struct load *load = &world.load;
	struct nam_wr wrs[BATCH_MAX];
	struct nam_qp *qp = any_qp(client);
	unsigned count = 0;

	for (unsigned i = 0; i < load->batch && load->one_doorbell; i++)
		wrs[i] = request(client, load->op, load->bytes, i);
	if (load->one_doorbell) {
		if (qp->ops->qp_post(qp, wrs, load->batch))
			abort();
		return load->batch;
	}
	for (unsigned i = 0; i < load->batch; i++) {
		bool put = nam_rng_below(&client->rng, 100) < load->puts_percent;

		if (put)
			count += post(client, NAM_WR_CAS, 8, i);
		count += post(client, load->op, load->bytes, i);
		if (put)
			count += post(client, NAM_WR_WRITE, load->bytes, i) +
				 post(client, NAM_WR_CAS, 8, i);
	}
	return count;
}

static void
await(struct client *client, unsigned count)
{
	struct nam_wc wcs[16];

	while (count) {
		int n = client->cq->ops->cq_poll(client->cq, wcs, 16);

		for (int i = 0; i < n; i++)
			if (wcs[i].status)
				abort();
		count -= (unsigned)n;
		if (!n)
			(void)client->cq->ops->cq_wait(client->cq, UINT64_MAX);
	}
}

static void
client_open(struct client *client)
{
	struct nam_qp_options options = { 0 };
	struct nam_hello hello = { 0 }, reply;

	memset(client, 0, sizeof(*client));
	client->rng = nam_rng_seed(nam_sim_random());
	while (!world.listening)
		nam_sleep_ns(10000);
	if (nam__sim_ops.domain_open(NULL, &client->domain, NULL) ||
		client->domain->ops->cq_create(client->domain, 4096, &client->cq) ||
		client->domain->ops->mr_register(client->domain, buffers, sizeof(buffers),
			NAM_MR_LOCAL, &client->mr, NULL))
		abort();
	options.cq = client->cq;
	for (unsigned i = 0; i < world.load.qps; i++)
		if (client->domain->ops->connect(client->domain, "sim:server", &hello, &options,
			    &reply, &client->qps[i], NULL))
			abort();
}

static void
client_main(void *arg)
{
	/* All clients are connected by then. */
	const uint64_t begin = 10000000, end = begin + WARM_NS + MEASURED_NS;
	struct client client;

	(void)arg;
	client_open(&client);
	nam_sleep_ns(begin - nam_sim_now_ns());
	while (nam_sim_now_ns() < end) {
		await(&client, post_round(&client));
		if (nam_sim_now_ns() >= begin + WARM_NS && nam_sim_now_ns() < end)
			world.done += world.load.batch;
	}
	for (unsigned i = 0; i < world.load.qps; i++)
		client.domain->ops->qp_destroy(client.qps[i]);
	client.domain->ops->cq_destroy(client.cq);
	client.domain->ops->mr_release(client.domain, &client.mr);
	client.domain->ops->domain_close(client.domain);
	world.running--;
}

/* Millions of operations a second of virtual time; *ret_fingerprint may be NULL. */
static double
rate_and_print(const struct load *load, uint64_t *ret_fingerprint)
{
	struct nam_sim_options options;
	struct nam_sim_process *process;

	memset(&world, 0, sizeof(world));
	world.load = *load;
	world.running = load->machines * load->threads;
	nam_sim_options_init(&options);
	options.network = load->network;
	assert_int_equal(nam_sim_begin(&options), 0);
	assert_int_equal(nam_sim_process_start("server", server_main, NULL, NULL), 0);
	for (unsigned i = 0; i < load->machines * load->threads; i++) {
		assert_int_equal(nam_sim_process_start("client", client_main, NULL, &process), 0);
		nam_sim_process_place(process, i / load->threads);
	}
	assert_int_equal(nam_sim_run(), 0);
	if (ret_fingerprint)
		*ret_fingerprint = nam_sim_counted().fingerprint;
	nam_sim_end();
	return (double)world.done * 1e3 / MEASURED_NS;
}

static double
rate(const struct load *load)
{
	return rate_and_print(load, NULL);
}

static struct nam_sim_network
network(const char *name)
{
	struct nam_sim_network result;
	struct nam_diag diag = { "" };

	if (nam_sim_network_read(name, &result, &diag))
		fail_msg("%s", diag.text);
	return result;
}

/* Within 10 % of one figure, or of the ends of a range of them. */
static void
assert_between(const char *what, double is, double low, double high)
{
	print_message("%-62s %7.2f (%g to %g is known)\n", what, is, low, high);
	assert_true(is >= 0.9 * low && is <= 1.1 * high);
}

/* ---- READs -------------------------------------------------------------------------------- */

static void
connectx6__one_read_at_a_time__AS_KNOWN(void **state)
{
	struct nam_sim_network cx6 = network("connectx6");
	struct load load = { .network = &cx6, .machines = 1, .threads = 12, .qps = 1, .batch = 1,
		.op = NAM_WR_READ, .bytes = 64 };

	(void)state;
	assert_between("connectx6: 12 threads, one READ of 64 bytes each, M/s", rate(&load), 4.43,
		4.43);
}

static void
connectx6__batches_of_reads__AS_KNOWN(void **state)
{
	struct nam_sim_network cx6 = network("connectx6");
	struct load load = { .network = &cx6, .machines = 1, .threads = 12, .qps = 1, .batch = 12,
		.one_doorbell = true, .op = NAM_WR_READ, .bytes = 64 };

	(void)state;
	assert_between("connectx6: ... batches of 12", rate(&load), 34, 34);
	load.machines = 8;
	assert_between("connectx6: ... eight such machines", rate(&load), 126, 126);
}

static void
connectx6__large_reads__BANDWIDTH_AS_KNOWN(void **state)
{
	struct nam_sim_network cx6 = network("connectx6");
	struct load load = { .network = &cx6, .machines = 1, .threads = 12, .qps = 1, .batch = 1,
		.op = NAM_WR_READ, .bytes = 4096 };

	(void)state;
	assert_between("connectx6: 12 threads, one READ of 4 KiB each", rate(&load), 2.95, 2.95);
}

static void
connect_ib__many_connections__AS_KNOWN(void **state)
{
	struct nam_sim_network cib = network("connect-ib");
	struct load load = { .network = &cib, .machines = 14, .threads = 10, .qps = 1, .batch = 8,
		.op = NAM_WR_READ, .bytes = 32 };

	(void)state;
	assert_between("connect-ib: READs of 32 bytes over 140 connections", rate(&load), 94.6,
		94.6);
	load.threads = 16;
	load.qps = 10;
	assert_between("connect-ib: ... over 2,240", rate(&load), 20.1, 20.1);
}

/* ---- atomics ------------------------------------------------------------------------------ */

static void
atomics__random_one_and_aliased_words__AS_KNOWN(void **state)
{
	static const char *const names[] = { "connect-ib", "connectx6" };
	struct load load = { .machines = 8, .threads = 12, .qps = 1, .batch = 8,
		.op = NAM_WR_CAS, .bytes = 8 };

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct nam_sim_network card = network(names[i]);
		double one_word;

		load.network = &card;
		load.words = RANDOM_WORDS;
		assert_between("CAS of random words", rate(&load), 48, 52);
		load.words = ONE_WORD;
		one_word = rate(&load);
		assert_between("CAS of one word", one_word, 2, 2.4);
		load.words = WORDS_OF_ONE_SLOT;
		assert_between("CAS of words with equal address bits 11..0, as of one word",
			rate(&load) / one_word, 1, 1);
	}
}

static double
loss_by_puts(const struct nam_sim_network *card)
{
	struct load load = { .network = card, .machines = 20, .threads = 10, .qps = 1,
		.batch = 8, .op = NAM_WR_READ, .bytes = 32 };
	double gets = rate(&load), mixed;

	load.puts_percent = 10;
	mixed = rate(&load);
	return 100 * (1 - mixed / gets);
}

static void
atomics__one_put_in_ten__COST_AS_KNOWN(void **state)
{
	struct nam_sim_network cib = network("connect-ib"), cx3 = network("connectx3");
	double is;

	(void)state;
	assert_between("connect-ib: 10 % PUTs of two atomics cost, %", loss_by_puts(&cib), 31, 31);
	is = loss_by_puts(&cx3);
	print_message("%-62s %7.2f (51 by this model; 72 is known: see above)\n",
		"connectx3: ...", is);
	assert_true(is >= 0.9 * 51 && is <= 1.1 * 51);
	cx3.read.in_per_us = 26;
	cx3.write.in_per_us = 35;
	assert_between("connectx3 with 26 M READs and 35 M WRITEs a second: ...",
		loss_by_puts(&cx3), 72, 72);
}

/* ---- all cards ---------------------------------------------------------------------------- */

static void
every_profile__lone_requests__ROUND_TRIP_AS_WRITTEN(void **state)
{
	static const char *const names[] = { "connectx2", "connectx3", "connect-ib", "connectx4",
		"connectx5", "connectx6" };
	struct load load = { .machines = 1, .threads = 1, .qps = 1, .batch = 1 };

	(void)state;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct nam_sim_network card = network(names[i]);

		load.network = &card;
		load.op = NAM_WR_READ;
		load.bytes = 64;
		assert_true(fabs(1e3 / rate(&load) / card.read.round_trip_ns - 1) < 0.03);
		load.op = NAM_WR_WRITE;
		assert_true(fabs(1e3 / rate(&load) / card.write.round_trip_ns - 1) < 0.03);
		load.op = NAM_WR_CAS;
		load.bytes = 8;
		assert_true(fabs(1e3 / rate(&load) / card.atomic.round_trip_ns - 1) < 0.03);
	}
}

static void
outstanding__more_reads_than_a_queue_pair_may_have__WAIT(void **state)
{
	struct nam_sim_network cib = network("connect-ib");
	struct load load = { .network = &cib, .machines = 1, .threads = 1, .qps = 1, .batch = 16,
		.one_doorbell = true, .op = NAM_WR_READ, .bytes = 64 };
	double many, few;

	(void)state;
	many = rate(&load);
	cib.outstanding = 1;
	few = rate(&load);
	/* One after another: each travels alone. */
	assert_true(few < 1e3 / (cib.read.round_trip_ns - 200));
	assert_true(many > 8 * few);
}

static void
same_seed__SAME_HISTORY(void **state)
{
	struct nam_sim_network cib = network("connect-ib");
	struct load load = { .network = &cib, .machines = 4, .threads = 4, .qps = 2, .batch = 8,
		.op = NAM_WR_READ, .bytes = 256, .puts_percent = 20 };
	uint64_t first, second;
	double rates[2];

	(void)state;
	rates[0] = rate_and_print(&load, &first);
	rates[1] = rate_and_print(&load, &second);
	assert_true(rates[0] == rates[1] && first == second);
}

/* ---- files -------------------------------------------------------------------------------- */

/* A profile that comes with nam, with one line more or one replaced. */
static int
read_changed(const char *line, const char *by, char text[TEXT_BYTES])
{
	char path[] = "/tmp/nam-profile-XXXXXX", name[64];
	struct nam_sim_network result;
	struct nam_diag diag = { "" };
	int fd = mkstemp(path), rc;
	FILE *to = fd < 0 ? NULL : fdopen(fd, "w");

	assert_non_null(to);
	fprintf(to, "[machine]\n");
	if (line)
		fprintf(to, "%s\n", by ? by : line);
	fclose(to);
	(void)snprintf(name, sizeof(name), "%s", path);
	rc = nam_sim_network_read(name, &result, &diag);
	unlink(path);
	(void)snprintf(text, TEXT_BYTES, "%s", diag.text);
	return rc;
}

static void
file__mistakes__SAID_WITH_THEIR_LINE(void **state)
{
	char text[TEXT_BYTES];

	(void)state;
	assert_int_equal(read_changed("speed = 3", NULL, text), -EINVAL);
	assert_non_null(strstr(text, ":2: there is no 'speed' in [machine]"));
	assert_int_equal(read_changed("ports = many", NULL, text), -EINVAL);
	assert_non_null(strstr(text, ":2: [machine] ports: 'many' is not a number from 1 to 8"));
	assert_int_equal(read_changed("ports = 9", NULL, text), -EINVAL);
	assert_int_equal(read_changed("ports = 2\nports = 2", NULL, text), -EINVAL);
	assert_non_null(strstr(text, ":3: 'ports' is there twice"));
	assert_int_equal(read_changed("ports", NULL, text), -EINVAL);
	assert_int_equal(read_changed(NULL, NULL, text), -EINVAL);
	assert_non_null(strstr(text, "[machine] has no 'strict'"));
}

static void
file__unknown_name__SAYS_WHAT_THERE_IS(void **state)
{
	struct nam_sim_network result = { .name = "untouched" };
	struct nam_diag diag = { "" };

	(void)state;
	assert_int_equal(nam_sim_network_read("connectx99", &result, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, "connect-ib"));
	assert_int_equal(nam_sim_network_read("./no/such.ini", &result, &diag), -ENOENT);
	assert_string_equal(result.name, "untouched");
}

static void
file__folder_of_the_environment__COMES_FIRST(void **state)
{
	char folder[] = "/tmp/nam-profiles-XXXXXX", path[64];
	struct nam_sim_network result;
	struct nam_diag diag = { "" };
	FILE *file;

	(void)state;
	assert_non_null(mkdtemp(folder));
	(void)snprintf(path, sizeof(path), "%s/connectx6.ini", folder);
	file = fopen(path, "we");
	assert_non_null(file);
	fprintf(file, "[nothing]\nnothing = 1\n");
	fclose(file);
	setenv("NAM_PROFILES", folder, 1);
	assert_int_equal(nam_sim_network_read("connectx6", &result, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, path));
	assert_int_equal(nam_sim_network_read("connect-ib", &result, &diag), 0);
	assert_string_equal(result.name, "connect-ib");
	unsetenv("NAM_PROFILES");
	unlink(path);
	rmdir(folder);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(connectx6__one_read_at_a_time__AS_KNOWN),
		cmocka_unit_test(connectx6__batches_of_reads__AS_KNOWN),
		cmocka_unit_test(connectx6__large_reads__BANDWIDTH_AS_KNOWN),
		cmocka_unit_test(connect_ib__many_connections__AS_KNOWN),
		cmocka_unit_test(atomics__random_one_and_aliased_words__AS_KNOWN),
		cmocka_unit_test(atomics__one_put_in_ten__COST_AS_KNOWN),
		cmocka_unit_test(every_profile__lone_requests__ROUND_TRIP_AS_WRITTEN),
		cmocka_unit_test(outstanding__more_reads_than_a_queue_pair_may_have__WAIT),
		cmocka_unit_test(same_seed__SAME_HISTORY),
		cmocka_unit_test(file__mistakes__SAID_WITH_THEIR_LINE),
		cmocka_unit_test(file__unknown_name__SAYS_WHAT_THERE_IS),
		cmocka_unit_test(file__folder_of_the_environment__COMES_FIRST),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
