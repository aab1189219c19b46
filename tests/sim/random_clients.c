/* SPDX-License-Identifier: Apache-2.0 */
/* random_clients.c -- see random_clients.h. */
#include "random_clients.h"

#include <stdarg.h>
#include <stdio.h>

#include "common/env.h"
#include "common/error.h"
#include "compute/admin.h"

#define TRIES_MAX 10u

static char why[400];			/* "": the run has not failed */

void
random_failed(const char *format, ...)
{
	va_list args;

	if (*why || nam_sim_zombie())
		return;
	va_start(args, format);
	(void)vsnprintf(why, sizeof(why), format, args);
	va_end(args);
}

const char *
random_failure(void)
{
	return *why ? why : NULL;
}

bool
random_explained(int rc)
{
	return (nam_err_is(rc, NAM_E_FABRIC) || nam_err_is(rc, NAM_E_FENCED)) &&
	       (nam_sim_counted().broken || nam_err_is(rc, NAM_E_FABRIC_TIMEOUT));
}

uint64_t
random_now(void)
{
	return nam_sim_now_ns() + 1;
}

uint32_t
random_between(struct nam_rng *rng, uint32_t least, uint32_t most)
{
	return least + (uint32_t)nam_rng_below(rng, most - least + 1);
}

void
random_run(void (*director)(void *arg))
{
	struct nam_sim_process *process;
	int rc;

	*why = '\0';
	if (nam_sim_process_start("director", director, NULL, &process))
		sim_die("the director cannot be started");
	nam_sim_process_spare(process);
	rc = nam_sim_run();
	if (rc)
		random_failed("the run: %s", nam_err_name(rc));
}

void
random_await(const struct nam_sim_process *process)
{
	while (!nam_sim_process_ended(process))
		nam_sleep_ns(RANDOM_POLL_NS);
}

/* ---- a failover ------------------------------------------------------------------------------ */

/* A death, and a slow wire. */
static void
expect_done(const char *what, int rc, const struct nam_diag *diag)
{
	if (rc && rc != -NAM_E_VIEW && !random_explained(rc) && !nam_sim_counted().kills)
		random_failed("%s: %s", what, diag->text);
}

/* NULL: it has come to nothing. */
static struct sim_server *
back(const struct random_failover *self, const struct nam_client_options *options, uint32_t id)
{
	struct sim_server *to = sim_cluster_successor(self->cluster, id);
	struct nam_server_moved moved;
	struct nam_diag diag = { "" };
	int rc = nam_server_back(options, to->address, NULL, NULL, &moved, &diag);

	nam_sim_note("memory server %u gets a backup: %s", id, nam_err_name(rc));
	if (!rc)
		return to;
	expect_done("a backup", rc, &diag);
	sim_server_stop(to);
	return NULL;
}

static void
end(struct sim_server *server)
{
	server->succeeded = true;
	nam_sim_process_kill(server->process);
}

/* With a second backup, the first one ends, too, or instead. */
static void
fail_over(void *arg)
{
	struct random_failover *self = arg;
	uint32_t id = 1 + (uint32_t)(nam_sim_random() % (self->servers - 1));
	struct sim_server *from = &self->cluster->servers[id], *to, *second = NULL;
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int rc;

	nam_client_options_init(&options);
	options.cluster = self->cluster->list;
	nam_sleep_ns(1 + nam_sim_random() % RANDOM_TICK_NS);
	to = back(self, &options, id);
	if (!to)
		return;
	self->backed = true;
	if (nam_sim_random() % 2)
		second = back(self, &options, id);
	if (self->backup_stays)
		return;
	nam_sleep_ns(1 + nam_sim_random() % self->death_ns);
	if (self->backup_dies || second)
		end(to);
	if (!self->backup_dies) {
		(second ?: to)->had_memory = true;
		end(from);
	}
	/* Clients that are slow or dead may delay it. */
	for (unsigned i = 0; i < TRIES_MAX; i++) {
		rc = self->backup_dies ? nam_server_unback(&options, id, &diag) :
			nam_server_promote(&options, id, &diag);
		if (!rc)
			break;
		nam_sleep_ns(RANDOM_TICK_NS);
	}
	nam_sim_note("after a death: %s, %s", nam_err_name(rc), rc ? diag.text : "");
	expect_done("after a death", rc, &diag);
	self->failed_over = !rc;
}

void
random_failover_begin(struct random_failover *failover)
{
	if (nam_sim_process_start("operator", fail_over, failover, &failover->process))
		sim_die("an operator cannot be started");
	nam_sim_process_spare(failover->process);
}

void
random_failover_await(const struct random_failover *failover)
{
	if (failover->process)
		random_await(failover->process);
}
