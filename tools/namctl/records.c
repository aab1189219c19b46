/* SPDX-License-Identifier: Apache-2.0 */
/* records.c -- record stores: which there are, what they hold, tidying up, and their end. */
#include <inttypes.h>
#include <stdio.h>

#include "namctl.h"

static const char *
commit_name(const struct nam_records_options *options)
{
	static const char *const names[] = {
		[NAM_RECORDS_ONESIDED] = "clients",
		[NAM_RECORDS_SERVED] = "memory servers",
	};

	return names[options->commit];
}

static int
failed(struct ctl *ctl, const char *name, int rc)
{
	return rc == -NAM_E_NOINDEX ? ctl_no_such("record store", "records", name) :
		ctl_worker_failed(ctl, name, rc);
}

/* Those of serializable transactions, too: tables share both. */
NAM_FIBER_FN static int
list_all(struct nam_worker *worker, int (*fn)(void *arg, const char *name), void *arg)
{
	int rc = nam_records_list(worker, fn, arg); /* SUSPENDS */

	return rc ? rc : nam_txn_store_list(worker, fn, arg); /* SUSPENDS */
}

int
ctl_records_list(struct ctl *ctl, char **args)
{
	(void)args;
	return ctl_list(ctl, list_all, "record_stores",
		"listing the record stores"); /* SUSPENDS */
}

static void
print_stat(const char *name, const struct nam_records_options *is,
	const struct nam_records_stat *stat)
{
	printf("record store     %s\n", name);
	printf("algorithm        %s\n", nam_ramp_title(is->algorithm));
	printf("committed by     %s\n", commit_name(is));
	printf("records          %" PRIu64 ", and %" PRIu64 " deleted\n", stat->records,
		stat->keys - stat->records);
	printf("values           %s\n", ctl_bytes(stat->value_bytes).text);
	printf("memory           %s on %u memory servers; and index %s.keys\n",
		ctl_bytes(stat->remote_bytes).text, stat->servers, name);
	if (stat->others)
		printf("not the latest   %" PRIu64 " versions, %s: prepared, or replaced lately "
			"(namctl records collect %s)\n", stat->others,
			ctl_bytes(stat->others_bytes).text, name);
}

static void
json_stat(const char *name, const struct nam_records_options *is,
	const struct nam_records_stat *stat)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "record_store", name);
	cJSON_AddStringToObject(object, "algorithm", nam_ramp_name(is->algorithm));
	cJSON_AddStringToObject(object, "committed_by", commit_name(is));
	ctl_json_u64(object, "servers", stat->servers);
	ctl_json_u64(object, "keys", stat->keys);
	ctl_json_u64(object, "records", stat->records);
	ctl_json_u64(object, "value_bytes", stat->value_bytes);
	ctl_json_u64(object, "remote_bytes", stat->remote_bytes);
	ctl_json_u64(object, "others", stat->others);
	ctl_json_u64(object, "others_bytes", stat->others_bytes);
	ctl_json_print(object);
}

int
ctl_records_stat(struct ctl *ctl, char **args)
{
	struct nam_records_stat stat = { 0 };
	struct nam_records *records;
	int rc = nam_records_open(ctl->worker, args[0], 0, &records); /* SUSPENDS */

	if (rc)
		return failed(ctl, args[0], rc);
	rc = nam_records_stat(ctl->worker, records, &stat); /* SUSPENDS */
	if (!rc && ctl->json)
		json_stat(args[0], nam_records_properties(records), &stat);
	else if (!rc)
		print_stat(args[0], nam_records_properties(records), &stat);
	nam_records_close(records);
	return rc ? failed(ctl, args[0], rc) : NAM_EXIT_OK;
}

static void
print_collected(const struct nam_records_collected *done)
{
	printf("looked at %" PRIu64 " records: %" PRIu64 " versions given up, %s\n", done->records,
		done->versions, ctl_bytes(done->bytes).text);
	if (done->committed || done->aborted)
		printf("of clients that are gone %" PRIu64 " transactions were committed and %"
			PRIu64 " aborted\n", done->committed, done->aborted);
	if (done->undecided)
		printf("%" PRIu64 " prepared versions of clients that are gone stay: another "
			"client decides about them, or nothing says what else their transactions "
			"wrote\n", done->undecided);
}

static void
json_collected(const char *name, const struct nam_records_collected *done)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "record_store", name);
	ctl_json_u64(object, "records", done->records);
	ctl_json_u64(object, "versions", done->versions);
	ctl_json_u64(object, "bytes", done->bytes);
	ctl_json_u64(object, "committed", done->committed);
	ctl_json_u64(object, "aborted", done->aborted);
	ctl_json_u64(object, "undecided", done->undecided);
	ctl_json_print(object);
}

int
ctl_records_collect(struct ctl *ctl, char **args)
{
	struct nam_records_collected done = { 0 };
	struct nam_records *records;
	int rc = nam_records_open(ctl->worker, args[0], 0, &records); /* SUSPENDS */

	if (rc)
		return failed(ctl, args[0], rc);
	rc = nam_records_collect(ctl->worker, records, &done); /* SUSPENDS */
	if (!rc && ctl->json)
		json_collected(args[0], &done);
	else if (!rc && !ctl->quiet)
		print_collected(&done);
	nam_records_close(records);
	return rc ? failed(ctl, args[0], rc) : NAM_EXIT_OK;
}

int
ctl_records_drop(struct ctl *ctl, char **args)
{
	int rc = nam_records_drop(ctl->worker, args[0]); /* SUSPENDS */

	if (rc == -NAM_E_KIND)
		rc = nam_txn_store_drop(ctl->worker, args[0]); /* SUSPENDS */
	if (rc && rc != -NAM_E_LOST)
		return failed(ctl, args[0], rc);
	return ctl_dropped(ctl, args[0], rc == -NAM_E_LOST);
}
