/* SPDX-License-Identifier: Apache-2.0 */
/* top.c -- the rates of memory servers, live. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "namctl.h"

#define SHOWN_MAX 8u			/* services of a memory server */
#define CLEAR "\033[H\033[2J"

struct top {
	struct ctl *ctl;
	struct ctl_servers now, before;
};

static int
look(struct top *top)
{
	struct nam_client_options options;
	int exit_code = ctl_client_options(top->ctl, &options);

	if (exit_code)
		return exit_code;
	free(top->before.list);
	top->before = top->now;
	return ctl_servers_query(&options, &top->now);
}

/* The bound below which that share of the requests took, in us; 0: above all bounds. */
static uint32_t
quantile_us(const struct nam_service_figures *figures, double share)
{
	uint32_t bound_us = NAM_LATENCY_FIRST_NS / 1000;
	uint64_t below = 0;

	for (uint32_t i = 0; i < NAM_LATENCIES; i++, bound_us *= 4) {
		below += figures->within[i];
		if ((double)below >= share * (double)figures->requests)
			return bound_us;
	}
	return 0;
}

static struct nam_service_figures
difference(const struct nam_service_figures *now, const struct nam_service_figures *before)
{
	struct nam_service_figures d = {
		.requests = now->requests - before->requests,
		.failed = now->failed - before->failed,
		.total_ns = now->total_ns - before->total_ns,
	};

	for (uint32_t i = 0; i < NAM_LATENCIES; i++)
		d.within[i] = now->within[i] - before->within[i];
	return d;
}

static void
print_quantile(const struct nam_service_figures *figures, double share)
{
	uint32_t us = quantile_us(figures, share);

	if (us)
		printf(" %9u", us);
	else
		printf(" %9s", ">4096");
}

/* The busiest ones first. */
static void
print_services(const struct nam_service_figures *services, double seconds)
{
	bool shown[NAM_SERVICES_MAX] = { false };

	for (uint32_t n = 0; n < SHOWN_MAX; n++) {
		uint32_t most = NAM_SERVICES_MAX;

		for (uint32_t i = 0; i < NAM_SERVICES_MAX; i++) {
			if (!shown[i] && services[i].requests && (most == NAM_SERVICES_MAX ||
				services[i].requests > services[most].requests))
				most = i;
		}
		if (most == NAM_SERVICES_MAX)
			return;
		shown[most] = true;
		printf("     %-30s %11.0f %9.0f", nam_service_name(most),
			(double)services[most].requests / seconds,
			(double)services[most].failed / seconds);
		print_quantile(&services[most], 0.5);
		print_quantile(&services[most], 0.99);
		printf("\n");
	}
}

/* @earlier	as it was at the look before; or NULL */
static void
print_server(const struct ctl_server *server, const struct ctl_server *earlier)
{
	const struct nam_server_status *is = &server->status;
	const struct nam_server_figures *now = &is->figures;
	struct nam_service_figures services[NAM_SERVICES_MAX], all = { 0 };
	const struct nam_server_figures *before;
	uint64_t refused = 0;
	double seconds;

	if (is->rc) {
		printf("%-4s %-30s %s\n", "?", is->address, nam_err_text(is->rc));
		return;
	}
	if (!earlier || earlier->status.rc || earlier->status.pid != is->pid)
		return;		/* it has begun since the last look */
	before = &earlier->status.figures;
	seconds = (double)(server->at_ns - earlier->at_ns) / 1e9;
	for (uint32_t i = 0; i < NAM_SERVICES_MAX; i++) {
		services[i] = difference(&now->services[i], &before->services[i]);
		all.requests += services[i].requests;
		all.failed += services[i].failed;
		all.total_ns += services[i].total_ns;
	}
	for (uint32_t i = 0; i < NAM_REFUSALS_COUNT; i++)
		refused += now->refused[i];
	printf("%-4u %-30s %11.0f %9.0f %8.0f%% %10s %7u %8u %8" PRIu64 "\n", is->id,
		is->address, (double)all.requests / seconds, (double)all.failed / seconds,
		(double)all.total_ns / seconds / 1e7 / is->handlers,
		ctl_bytes(is->carved_bytes - is->free_bytes -
			is->waiting_bytes).text, is->clients, is->connections,
		refused);
	print_services(services, seconds);
}

static const struct ctl_server *
earlier(const struct top *top, unsigned i)
{
	return i < top->before.count ? &top->before.list[i] : NULL;
}

static void
print_all(const struct top *top)
{
	printf("%-4s %-30s %11s %9s %9s %10s %7s %8s %8s\n"
	       "     %-30s %11s %9s %9s %9s\n", "id", "address", "requests/s", "failed/s", "busy",
		"used", "clients", "connects", "refused", "service", "requests/s", "failed/s",
		"p50 us", "p99 us");
	for (unsigned i = 0; i < top->now.count; i++)
		print_server(&top->now.list[i], earlier(top, i));
	(void)fflush(stdout);
}

/* The status of the first memory server that could not be shown; messages say why. */
static int
missing(const struct top *top)
{
	int exit_code = NAM_EXIT_OK;

	for (unsigned i = 0; i < top->now.count; i++) {
		const struct ctl_server *server = &top->now.list[i], *before = earlier(top, i);
		int rc = server->status.rc ?: before ? before->status.rc : -NAM_E_FABRIC, failed;

		if (!rc)
			continue;
		failed = ctl_failed(*server->text ? NULL : server->status.address, rc,
			server->text);
		exit_code = exit_code ?: failed;
	}
	return exit_code;
}

int
ctl_top(struct ctl *ctl, char **args)
{
	bool live = isatty(STDOUT_FILENO);
	struct top top = { .ctl = ctl };
	int exit_code = ctl->json ? NAM_EXIT_OK : look(&top);

	/* The counts, of which any reader can make rates. */
	if (ctl->json)
		return ctl_status(ctl, args);
	ctl_catch_signals();
	while (!exit_code && !ctl_signal) {
		for (uint32_t ms = 0; ms < ctl->interval_ms && !ctl_signal; ms += 50)
			(void)nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
		if (ctl_signal)
			break;
		exit_code = look(&top);
		if (live)
			printf(CLEAR);
		if (!exit_code)
			print_all(&top);
		if (!live) {
			exit_code = exit_code ?: missing(&top);
			break;
		}
	}
	/* A signal is the usual end. */
	if (live)
		ctl_signal = 0;
	free(top.now.list);
	free(top.before.list);
	return exit_code;
}
