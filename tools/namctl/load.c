/* SPDX-License-Identifier: Apache-2.0 */
/* load.c -- pairs from a file: in bulk if the index is empty and they are sorted, else singly. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "namctl.h"
#include "tsv.h"

#define FIBERS 16u
#define CACHE_BYTES (64u << 20)
#define NONE UINT64_MAX
#define LOADS_MAX 4u			/* each finds more memory that was dropped */

struct load {
	struct ctl *ctl;
	struct tsv *tsv;
	uint64_t loaded;
	uint64_t existed;
	uint64_t first_existing;	/* pair, or NONE */
	uint64_t failed_at;		/* pair, or NONE */
	int rc;				/* of the failure */
	struct nam_diag diag;
};

/* ---- in bulk ------------------------------------------------------------------------------ */

static int
source_next(void *arg, void *key, uint64_t *payload)
{
	struct load *load = arg;

	if (ctl_signal)
		return -EINTR;
	return load->tsv->left ? tsv_next(load->tsv, key, payload) ?: NAM_INDEX_PAIR :
		NAM_INDEX_END;
}

/* Whether there is nothing in the index. */
static int
index_is_empty(struct ctl *ctl, bool *ret_empty)
{
	struct nam_range range = { .limit = 1 };
	struct nam_cursor *cursor;
	uint64_t payload;
	uint32_t count = 0;
	int rc = nam_cursor_open(ctl->worker, ctl->index, &range, &cursor);

	if (rc)
		return rc;
	rc = nam_cursor_next(cursor, NULL, &payload, 1, &count); /* SUSPENDS */
	nam_cursor_close(cursor);
	*ret_empty = count == 0;
	return rc;
}

/* ---- one by one --------------------------------------------------------------------------- */

/* Takes the next pair.  False: there is none. */
static bool
load_one(struct load *load)
{
	struct ctl *ctl = load->ctl;
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint64_t payload, number = load->tsv->count - load->tsv->left;
	int rc;

	if (!load->tsv->left)
		return false;
	rc = tsv_next(load->tsv, key, &payload);
	if (rc)
		nam_diag_set(&load->diag, rc, "the temporary file of the pairs: %s",
			nam_err_text(rc));
	else if (ctl->replace)
		rc = nam_index_upsert(ctl->worker, ctl->index, key, payload); /* SUSPENDS */
	else
		rc = nam_index_insert(ctl->worker, ctl->index, key, payload); /* SUSPENDS */
	if (!rc) {
		load->loaded++;
	} else if (rc == -NAM_E_EXISTS) {
		load->existed++;
		if (number < load->first_existing)
			load->first_existing = number;
	} else if (!load->rc) {
		load->rc = rc;
		load->failed_at = number;
		if (!load->diag.text[0])
			nam_diag_set(&load->diag, rc, "%s", nam_worker_diag(ctl->worker));
	}
	return true;
}

static void
load_fiber(void *arg)
{
	struct load *load = arg;

	while (!load->rc && !ctl_signal && load_one(load))
		; /* SUSPENDS */
}

static int
load_one_by_one(struct load *load)
{
	for (unsigned i = 0; i < FIBERS; i++) {
		int rc = nam_worker_spawn(load->ctl->worker, load_fiber, load);

		if (rc && !i)
			return rc;
	}
	nam_worker_run(load->ctl->worker);
	return load->rc;
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
report_failure(const struct load *load, const char *file)
{
	/* The memory of a dead memory server has gone with it. */
	bool stay = !nam_err_is(load->rc, NAM_E_FABRIC);

	ctl_complain("%s:%" PRIu64 ": %s (%s); %" PRIu64 " of %" PRIu64 " pairs %s", file,
		load->failed_at + 1,
		load->diag.text[0] ? load->diag.text : nam_err_text(load->rc),
		nam_err_name(load->rc), load->loaded, load->tsv->count,
		stay ? "were loaded and stay" :
		"had been loaded until then; whether they are still there, namctl status tells");
	return nam_exit_code(load->rc);
}

static int
report(const struct load *load, const char *method, const char *file)
{
	const struct ctl *ctl = load->ctl;
	cJSON *object = ctl_json(ctl);

	cJSON_AddStringToObject(object, "index", ctl->index_name);
	cJSON_AddStringToObject(object, "method", method);
	ctl_json_u64(object, "lines", load->tsv->count);
	ctl_json_u64(object, "loaded", load->loaded);
	ctl_json_u64(object, "existed", load->existed);
	ctl_json_print(object);
	ctl_print(ctl, "%s: %" PRIu64 " of %" PRIu64 " pairs loaded (%s)", ctl->index_name,
		load->loaded, load->tsv->count, method);
	if (load->rc)
		return report_failure(load, file);
	if (ctl_signal)
		ctl_complain("ended by signal %d: %" PRIu64 " of %" PRIu64
			" pairs were loaded and stay", (int)ctl_signal, load->loaded,
			load->tsv->count);
	if (load->existed) {
		ctl_complain("%" PRIu64 " %s existed already, the first one in %s:%" PRIu64
			", and were left as they are; --replace would replace them", load->existed,
			ctl->unique ? "keys" : "pairs", file, load->first_existing + 1);
		return NAM_EXIT_CONFLICT;
	}
	return NAM_EXIT_OK;
}

static int
load_pairs(struct ctl *ctl, struct tsv *tsv, const char *file)
{
	struct load load = { .ctl = ctl, .tsv = tsv, .first_existing = NONE, .failed_at = NONE };
	bool empty = false;
	int rc = tsv->ascending ? index_is_empty(ctl, &empty) : 0;

	if (rc)
		return ctl_worker_failed(ctl, ctl->index_name, rc);
	if (empty) {
		/* If memory is full, some may have come back meanwhile from what was dropped. */
		for (unsigned i = 0; i < LOADS_MAX && (!i || rc == -NAM_E_REMOTE_FULL); i++) {
			tsv_rewind(tsv);
			rc = nam_index_bulk_load(ctl->worker, ctl->index, source_next, &load,
				ctl->fill_percent, &load.loaded); /* SUSPENDS */
		}
		if (!rc || (rc == -EINTR && ctl_signal))
			return report(&load, "bulk", file);
		if (rc != -NAM_E_NOTEMPTY)
			return ctl_worker_failed(ctl, ctl->index_name, rc);
		/* Another client has inserted into it since the check. */
		tsv_rewind(tsv);
	}
	rc = load_one_by_one(&load);
	if (rc && !load.rc)
		return ctl_failed("starting to load", rc, NULL);
	return report(&load, ctl->replace ? "upsert" : "insert", file);
}

int
ctl_load(struct ctl *ctl, char **args)
{
	bool from_stdin = !strcmp(args[1], "-");
	const char *name = from_stdin ? "standard input" : args[1];
	struct nam_diag diag = { "" };
	struct tsv tsv;
	FILE *file;
	int exit_code = ctl_open(ctl, args[0], CACHE_BYTES), rc;

	if (exit_code)
		return exit_code;
	file = from_stdin ? stdin : fopen(args[1], "re");
	if (!file) {
		ctl_complain("%s: %s", args[1], strerror(errno));
		return NAM_EXIT_USAGE;
	}
	rc = tsv_read(file, name, &ctl->format, ctl->unique, &tsv, &diag);
	if (!from_stdin)
		fclose(file);
	if (rc) {
		ctl_complain("%s", diag.text);
		return NAM_EXIT_USAGE;
	}
	ctl_catch_signals();
	exit_code = load_pairs(ctl, &tsv, name);
	tsv_free(&tsv);
	return exit_code;
}
