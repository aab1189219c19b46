/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- the program nam-steward. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cluster.h"
#include "common/env.h"
#include "common/exit.h"
#include "common/log/log.h"
#include "memserver/server.h"
#include "steward/collect.h"
#include "steward/options.h"
#include "steward/pass.h"
#include "txn/sweep.h"

#define END_SECONDS 1u			/* after a signal, for what is under way */
#define NAP_NS 20000000ull		/* a signal ends a pause after so long */
#define ROUND_NS 30000000000ull		/* so soon a collector meets new names, at the latest */

static atomic_bool stop;	/* a signal handler may run in any thread */

/* ---- command line ---------------------------------------------------------------------------- */

struct line {
	const char *cluster, *key;
	struct nam__store_options store;
	uint64_t collect_rate, copy_rate;
	uint32_t interval_ms, timeout_ms, fence_ms, silent_ms, collect_s, collect_percent;
	bool once;
};

#define FIELD(field) NAM_OPTION_FIELD(struct line, field)

static const struct nam_option rows[] = {
	{ "cluster", "CLUSTER", "The memory servers: addresses with commas between them, or @FILE, "
		"a cluster file. One is enough. Without this option, NAM_CLUSTER in the "
		"environment names them.", NAM_OPTION_TEXT, FIELD(cluster) },
	{ "key", "FILE", "The file with an admin's key, for memory servers with key files. Without "
		"this option, NAM_KEY in the environment names it.", NAM_OPTION_TEXT, FIELD(key) },
	NAM__STORE_ROWS(struct line, store, NULL),
	{ "fence-ms", "N", "A client is fenced that is stopped for so many milliseconds, and so "
		"delays a view or holds back the reuse of memory. Up to 3600000 (default 30000); "
		"for the reuse of memory at least 1000. 0: none is.", NAM_OPTION_COUNT,
		FIELD(fence_ms), .max = 3600000 },
	{ "silent-ms", "N", "A memory server with a backup is given up that does not answer the "
		"steward for so many milliseconds, as its host is down or cut off: the backup gets "
		"its place. Its trees and key-value stores are lost, as they have one copy. A "
		"silent backup is taken away. Up to 3600000 (default 3000). 0: none is. Over shm "
		"only a process that has ended is given up.", NAM_OPTION_COUNT, FIELD(silent_ms),
		.max = 3600000 },
	{ "collect-s", "N", "The longest time between two passes of the collector of an index or a "
		"record store, in seconds, up to 1000000 (default 3600). It holds for sweeps of "
		"dead clients' blocks, too. 0: neither is done.",
		NAM_OPTION_COUNT, FIELD(collect_s), .max = 1000000 },
	{ "collect-percent", "N", "A pass is made earlier if it can be expected to free so many "
		"percent of the free memory, 1 to 100 (default 5).", NAM_OPTION_COUNT,
		FIELD(collect_percent), .min = 1, .max = 100 },
	{ "collect-rate", "N", "A sweep, or a collector of records, looks at N nodes and records "
		"per second at most (default 100k). 0: at as many as it can.", NAM_OPTION_COUNT,
		FIELD(collect_rate), .max = UINT64_MAX },
	{ "copy-rate", "SIZE", "Copy so much per second at most to a backup, while clients work "
		"(default 256M). 0: as much as it can.", NAM_OPTION_BYTES, FIELD(copy_rate),
		.max = UINT64_MAX },
	{ "interval-ms", "N", "Milliseconds between two passes, 10 to 60000 (default 1000). "
		"Members with backups are looked at every 50 milliseconds at least.",
		NAM_OPTION_COUNT, FIELD(interval_ms), .min = 10, .max = 60000 },
	{ "lease-ms", "N", "The lease of the steward that leads, in milliseconds, 1000 to 600000 "
		"(default 10000). If it ends without a word, another steward leads after so long.",
		NAM_OPTION_COUNT, FIELD(store.lease_ms), .min = 1000, .max = 600000 },
	{ "timeout-ms", "N", "The longest wait for a memory server or for etcd, in milliseconds, "
		"100 to 600000 (default 1000).", NAM_OPTION_COUNT, FIELD(timeout_ms), .min = 100,
		.max = 600000 },
	{ "once", NULL, "One pass, and the end: the exit status says what became of it.",
		NAM_OPTION_FLAG, FIELD(once) },
	{ 0 },
};

static const struct nam_options_table table = {
	.program = "nam-steward",
	.usage = "",
	.purpose = "Look after the view of a cluster.  Start backups of memory servers, and let\n"
		"them take the place of those that have ended.  Complete additions of memory\n"
		"servers, and renew those that were restarted.  Fence clients that have ended,\n"
		"that are stopped and in the way, or that have lost a memory server.  Collect\n"
		"the garbage of indexes and record stores.\n"
		"Several may run; one leads.\n",
	.after = "Exit status: 0 ended by SIGTERM or SIGINT, or one pass was made; 1 this\n"
		"host failed; 2 usage; and with --once: 3 a memory server or the view store\n"
		"does not answer; 4 another steward leads; 6 the view store holds something\n"
		"malformed.\n",
	.rows = rows,
};

/* ---- events ---------------------------------------------------------------------------------- */

static void
on_event(void *arg, const char *event, const char *fields)
{
	(void)arg;
	nam__log_line("info", event, fields);
}

static void
on_warning(void *arg, const char *event, const char *fields)
{
	(void)arg;
	nam__log_line("warn", event, fields);
}

/* The diag of a library with flags for the fields that it names. */
static struct nam_diag
flags(const char *diag)
{
	return nam__options_flags(&table, "--", diag);
}

/* A failure that stays is logged once; @last: the one before. */
static void
failure_log(struct nam_diag *last, const char *text)
{
	char fields[800] = "text=";
	const size_t used = strlen(fields);

	if (!strcmp(last->text, text))
		return;
	(void)snprintf(last->text, sizeof(last->text), "%s", text);
	if (!*text) {
		nam__log_line("info", "recovered", "");
		return;
	}
	(void)nam_log_quote(flags(text).text, fields + used, sizeof(fields) - used);
	nam__log_line("warn", "failed", fields);
}

/* ---- signals --------------------------------------------------------------------------------- */

/* A memory server may be silent.  The lease then ends by itself. */
static void
give_up(int number)
{
	(void)number;
	_exit(0);
}

static void
end(int number)
{
	(void)number;
	atomic_store(&stop, true);
	(void)alarm(END_SECONDS);
}

static int
catch_signals(void)
{
	struct sigaction action = { .sa_handler = end };

	sigemptyset(&action.sa_mask);
	if (sigaction(SIGTERM, &action, NULL) || sigaction(SIGINT, &action, NULL))
		return -errno;
	action.sa_handler = give_up;
	if (sigaction(SIGALRM, &action, NULL))
		return -errno;
	action.sa_handler = SIG_IGN;
	return sigaction(SIGPIPE, &action, NULL) ? -errno : 0;
}

/* ---- work ------------------------------------------------------------------------------------ */

struct collector {
	struct nam__collecting collecting;	/* every_ns 0: nothing is collected */
	atomic_bool leads;		/* the steward does, and there is a view */
};

static void
pause_for(uint32_t interval_ms)
{
	uint64_t end_ns = nam_now_ns() + interval_ms * 1000000ull;

	for (uint64_t now = nam_now_ns(); now < end_ns && !stop; now = nam_now_ns())
		nam_sleep_ns(end_ns - now < NAP_NS ? end_ns - now : NAP_NS);
}

static bool
has_ended(void *arg)
{
	(void)arg;
	return atomic_load(&stop);
}

static int
run_once(struct nam__steward *steward, struct nam__collecting *collecting)
{
	struct nam__steward_passed passed;
	struct nam_diag diag, last = { "" };
	int rc = nam__steward_pass(steward, &passed, &diag);

	if (!rc && !passed.term) {
		nam__log_line("info", "follows", "text=\"another steward leads\"");
		return NAM_EXIT_CONFLICT;
	}
	if (!rc && passed.view && collecting->every_ns)
		rc = nam__collect_round(collecting, &diag);
	nam__collect_free(collecting);
	if (stop)
		return NAM_EXIT_OK;
	failure_log(&last, rc ? diag.text : "");
	return rc ? nam_exit_code(rc) : NAM_EXIT_OK;
}

/* The thread that collects while the steward leads. */
static void *
collect(void *arg)
{
	struct collector *collector = arg;
	uint64_t next_ns = 0, now, every_ns = collector->collecting.every_ns;
	struct nam_diag diag, last = { "" };
	int rc;

	while (!stop) {
		now = nam_now_ns();
		if (atomic_load(&collector->leads) && now >= next_ns) {
			diag.text[0] = '\0';
			rc = nam__collect_round(&collector->collecting, &diag);
			if (rc != -ECANCELED)
				failure_log(&last, rc ? diag.text : "");
			next_ns = now + (every_ns < ROUND_NS ? every_ns : ROUND_NS);
		}
		nam_sleep_ns(NAP_NS);
	}
	return NULL;
}

static int
run(struct nam__steward *steward, struct collector *collector, uint32_t interval_ms)
{
	struct nam__steward_passed passed;
	struct nam_diag diag, last = { "" };
	bool collects = collector->collecting.every_ns;
	pthread_t thread;
	int rc = collects ? -pthread_create(&thread, NULL, collect, collector) : 0;

	if (rc) {
		(void)fprintf(stderr, "nam-steward: a thread: %s\n", nam_err_text(rc));
		return NAM_EXIT_NO;
	}
	do {
		rc = nam__steward_pass(steward, &passed, &diag);
		if (stop)
			break;
		failure_log(&last, rc ? diag.text : "");
		atomic_store(&collector->leads, !rc && passed.term && passed.view);
		pause_for(!rc && passed.within_ms && passed.within_ms < interval_ms ?
			passed.within_ms : interval_ms);
	} while (!stop);
	if (collects)
		(void)pthread_join(thread, NULL);
	nam__collect_free(&collector->collecting);
	return NAM_EXIT_OK;
}

static int
complain(const struct nam_diag *diag, int rc)
{
	(void)fprintf(stderr, "nam-steward: %s\n", *diag->text ?
		flags(diag->text).text : nam_err_text(rc));
	return nam_exit_code(rc);
}

static int
begin(struct line *line)
{
	struct nam_client_options options;
	struct nam__steward steward = { .options = &options, .event = on_event,
		.warning = on_warning, .flags = flags,
		.fence_ms = line->fence_ms, .silent_ms = line->silent_ms };
	struct collector collector = {
		.collecting = {
			.options = &options,
			.every_ns = line->collect_s * 1000000000ull,
			.percent = line->collect_percent,
			.pace = line->collect_rate,
			.event = on_event,
			.stop = has_ended,
		},
	};
	struct nam_cluster *seeds = NULL;
	struct nam_diag diag = { "" };
	char fields[300];
	int rc, status;

	nam_client_options_init(&options);
	options.cluster = line->cluster;
	options.key = line->key;
	options.name = "nam-steward";
	options.copy_rate = line->copy_rate ?: UINT64_MAX;
	options.timeout_ms = line->store.timeout_ms = line->timeout_ms;
	line->store.stop = &stop;
	rc = nam__cluster_read(&options, &seeds, &diag);
	if (!rc)
		rc = nam__store_open(&line->store, &steward.store, &diag);
	if (rc) {
		free(seeds);
		return complain(&diag, rc);
	}
	steward.seeds = seeds;
	steward.stop = &stop;
	(void)snprintf(fields, sizeof(fields), "pid=%d store=%s lease_ms=%u", (int)getpid(),
		steward.store->name, steward.store->lease_ms);
	nam__log_line("info", "started", fields);
	status = line->once ? run_once(&steward, &collector.collecting) :
		run(&steward, &collector, line->interval_ms);
	atomic_store(&stop, false);	/* the store is asked once more */
	nam__steward_end(&steward);
	nam__log_line("info", "ended", "");
	steward.store->ops->close(steward.store);
	free(seeds);
	return status;
}

int
main(int argc, char **argv)
{
	struct line line = { .interval_ms = 1000, .timeout_ms = 1000, .fence_ms = 30000,
		.silent_ms = 3000,
		.collect_s = NAM__COLLECT_EVERY_S, .collect_percent = NAM__COLLECT_PERCENT,
		.collect_rate = NAM_SWEEP_PACE, .copy_rate = 256ull << 20 };
	int status, rc;

	if (!nam__options_take(&table, argc, argv, &line, &status))
		return fflush(stdout) ? NAM_EXIT_NO : status;
	if (!line.cluster)
		line.cluster = getenv("NAM_CLUSTER");
	if (!line.cluster || !*line.cluster) {
		(void)fputs("nam-steward: say which memory servers: --cluster, or NAM_CLUSTER in "
			"the environment\n", stderr);
		return NAM_EXIT_USAGE;
	}
	rc = catch_signals();
	if (rc) {
		(void)fprintf(stderr, "nam-steward: signals: %s\n", nam_err_text(rc));
		return NAM_EXIT_NO;
	}
	return begin(&line);
}
