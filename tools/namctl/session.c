/* SPDX-License-Identifier: Apache-2.0 */
/* session.c -- membership in the cluster, signals, and the index that a command is about. */
#include <stdlib.h>

#include "namctl.h"

int
ctl_client_options(struct ctl *ctl, struct nam_client_options *ret_options)
{
	if (!ctl->cluster)
		ctl->cluster = getenv("NAM_CLUSTER");
	if (!ctl->cluster || !*ctl->cluster) {
		ctl_complain("which memory servers?  Say --cluster shm:PATH,shm:PATH or @FILE, or "
			     "set NAM_CLUSTER");
		return NAM_EXIT_USAGE;
	}
	nam_client_options_init(ret_options);
	ret_options->cluster = ctl->cluster;
	ret_options->key = ctl->key;
	ret_options->name = "namctl";
	ret_options->transport = ctl->transport;
	if (ctl->timeout_ms)
		ret_options->timeout_ms = ctl->timeout_ms;
	ret_options->copy_rate = ctl->copy_rate ?: UINT64_MAX;
	return NAM_EXIT_OK;
}

/* ---- being told to end: an operation under way is finished, for it may hold locks ------------ */

volatile sig_atomic_t ctl_signal;

static void
on_signal(int number)
{
	ctl_signal = number;
}

void
ctl_catch_signals(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	/* A second one ends the process in the usual way. */
	struct sigaction action = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	struct sigaction before;

	for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
		/* nohup, and a shell that starts us in the background, want some ignored. */
		if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN)
			sigaction(numbers[i], &action, NULL);
	}
}

static bool
signalled(void *arg)
{
	(void)arg;
	return ctl_signal != 0;
}

/* ---- the cluster, the index ------------------------------------------------------------------ */

int
ctl_connect(struct ctl *ctl)
{
	struct nam_client_options options;
	struct nam_diag diag = { "" };
	int exit_code = ctl_client_options(ctl, &options), rc;

	if (exit_code)
		return exit_code;
	rc = nam_client_connect(&options, &ctl->client, &diag);
	if (!rc)
		rc = nam_worker_open(ctl->client, &ctl->worker, &diag);
	if (rc)
		return ctl_failed(NULL, rc, diag.text);
	nam_worker_stop_when(ctl->worker, signalled, NULL);
	return NAM_EXIT_OK;
}

int
ctl_open(struct ctl *ctl, const char *name, uint64_t cache_bytes)
{
	const struct nam_index_options *properties;
	struct nam_diag diag = { "" };
	int rc = nam_index_open(ctl->worker, name, cache_bytes, &ctl->index); /* SUSPENDS */

	ctl->index_name = name;
	if (rc == -NAM_E_NOINDEX)
		return ctl_no_such("index", "index", name);
	if (rc)
		return ctl_worker_failed(ctl, name, rc);
	properties = nam_index_properties(ctl->index);
	ctl->unique = properties->unique;
	if (key_format_choose(ctl->key_type, properties->key_bytes, &ctl->format, &diag)) {
		ctl_complain("%s", diag.text);
		return NAM_EXIT_USAGE;
	}
	return NAM_EXIT_OK;
}

uint64_t
ctl_blocks_lost(struct ctl *ctl, uint64_t *ret_waiting, struct nam_diag *ret_why)
{
	if (ctl->index)
		nam_index_close(ctl->index);
	ctl->index = NULL;
	nam_worker_close(ctl->worker);
	ctl->worker = NULL;
	*ret_waiting = nam_client_blocks_waiting(ctl->client, ret_why);
	return nam_client_blocks_lost(ctl->client);
}

void
ctl_disconnect(struct ctl *ctl)
{
	if (ctl->index)
		nam_index_close(ctl->index);
	nam_kv_close(ctl->kv);
	nam_table_close(ctl->worker, ctl->table);
	if (ctl->worker)
		nam_worker_close(ctl->worker);
	if (ctl->client)
		nam_client_close(ctl->client);
}
