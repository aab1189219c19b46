/* SPDX-License-Identifier: Apache-2.0 */
/* kv.c -- key-value stores: all about them, and about their pairs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "namctl.h"

const char *const ctl_kv_engines[] = { "chained", "cuckoo", NULL };

/* ---- stores -------------------------------------------------------------------------------- */

static const char *
mode_name(const struct nam_kv_options *options)
{
	return options->mode == NAM_KV_CACHE ? "cache" : "store";
}

static const char *
engine_name(const struct nam_kv_options *options)
{
	/* Only cuckoo has one-sided GETs. */
	return options->onesided ? "cuckoo, one-sided GETs" : ctl_kv_engines[options->engine - 1];
}

static cJSON *
json_store(const struct ctl *ctl, const char *name, const struct nam_kv_options *is)
{
	cJSON *object = ctl_json(ctl);

	cJSON_AddStringToObject(object, "store", name);
	cJSON_AddStringToObject(object, "mode", mode_name(is));
	cJSON_AddStringToObject(object, "engine", ctl_kv_engines[is->engine - 1]);
	cJSON_AddBoolToObject(object, "onesided", is->onesided);
	ctl_json_u64(object, "memory_bytes", is->memory_bytes);
	ctl_json_u64(object, "partitions", is->partitions);
	return object;
}

static int
open_store(struct ctl *ctl, const char *name)
{
	int rc = nam_kv_open(ctl->worker, name, &ctl->kv); /* SUSPENDS */

	if (rc == -NAM_E_NOINDEX)
		return ctl_no_such("store", "kv", name);
	return rc ? ctl_worker_failed(ctl, name, rc) : NAM_EXIT_OK;
}

int
ctl_kv_create(struct ctl *ctl, char **args)
{
	const struct nam_kv_options *is;
	int exit_code, rc = nam_kv_create(ctl->worker, args[0], &ctl->kv_create); /* SUSPENDS */

	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	exit_code = open_store(ctl, args[0]); /* SUSPENDS */
	if (exit_code)
		return exit_code;
	is = nam_kv_properties(ctl->kv);
	ctl_print(ctl, "created %s: %s, engine %s, %s in %u partitions on each of %u memory "
		"servers", args[0], mode_name(is), engine_name(is),
		ctl_bytes(is->memory_bytes).text, is->partitions,
		nam_client_servers(ctl->client));
	ctl_json_print(json_store(ctl, args[0], is));
	return NAM_EXIT_OK;
}

int
ctl_kv_list(struct ctl *ctl, char **args)
{
	(void)args;
	return ctl_list(ctl, nam_kv_list, "stores", "listing the stores"); /* SUSPENDS */
}

/* The figures of an engine with tables. */
static void
print_cuckoo(const struct nam_kv_stat *stat)
{
	printf("slots            %" PRIu64 ", %.1f %% occupied\n", stat->slots,
		100.0 * (double)(stat->keys - stat->stashed) / (double)stat->slots);
	printf("stash            %" PRIu64 "\n", stat->stashed);
	printf("loops            %" PRIu64 " predicted\n", stat->loops);
	printf("kick-outs       ");
	for (unsigned i = 0; i < NAM_KV_KICKED; i++)
		printf(" %" PRIu64, stat->kicked[i]);
	printf(" (after 0, 1, 2-3, 4-7 ...)\n");
}

static void
print_stat(const struct ctl *ctl, const char *name, const struct nam_kv_stat *stat)
{
	const struct nam_kv_options *is = nam_kv_properties(ctl->kv);

	printf("store            %s\n", name);
	printf("mode             %s\n", mode_name(is));
	printf("engine           %s\n", engine_name(is));
	printf("memory           %s: %u partitions on each of %u memory servers\n",
		ctl_bytes(is->memory_bytes).text, is->partitions, stat->servers);
	printf("pairs            %" PRIu64 ", %" PRIu64 " bytes\n", stat->keys, stat->bytes);
	printf("used             %s of %s\n", ctl_bytes(stat->used_bytes).text,
		ctl_bytes(stat->room_bytes).text);
	printf("hits             %" PRIu64 "\n", stat->hits);
	printf("misses           %" PRIu64 "\n", stat->misses);
	printf("puts             %" PRIu64 "\n", stat->puts);
	printf("deletes          %" PRIu64 "\n", stat->deletes);
	printf("evictions        %" PRIu64 "\n", stat->evictions);
	printf("refusals         %" PRIu64 "\n", stat->refusals);
	if (stat->htm_commits + stat->htm_fallbacks)
		printf("transactions     %" PRIu64 " committed, %" PRIu64 " aborted; %" PRIu64
			" times the lock instead\n", stat->htm_commits, stat->htm_aborts,
			stat->htm_fallbacks);
	if (stat->slots)
		print_cuckoo(stat);
}

static void
json_stat(const struct ctl *ctl, const char *name, const struct nam_kv_stat *stat)
{
	const struct nam_kv_options *is = nam_kv_properties(ctl->kv);
	cJSON *object = json_store(ctl, name, is);

	ctl_json_u64(object, "servers", stat->servers);
	ctl_json_u64(object, "keys", stat->keys);
	ctl_json_u64(object, "bytes", stat->bytes);
	ctl_json_u64(object, "used_bytes", stat->used_bytes);
	ctl_json_u64(object, "room_bytes", stat->room_bytes);
	ctl_json_u64(object, "hits", stat->hits);
	ctl_json_u64(object, "misses", stat->misses);
	ctl_json_u64(object, "puts", stat->puts);
	ctl_json_u64(object, "deletes", stat->deletes);
	ctl_json_u64(object, "evictions", stat->evictions);
	ctl_json_u64(object, "refusals", stat->refusals);
	ctl_json_u64(object, "htm_commits", stat->htm_commits);
	ctl_json_u64(object, "htm_aborts", stat->htm_aborts);
	ctl_json_u64(object, "htm_fallbacks", stat->htm_fallbacks);
	if (stat->slots) {
		cJSON *kicked = cJSON_AddArrayToObject(object, "kicked");

		ctl_json_u64(object, "slots", stat->slots);
		ctl_json_u64(object, "stashed", stat->stashed);
		ctl_json_u64(object, "loops", stat->loops);
		for (unsigned i = 0; i < NAM_KV_KICKED; i++)
			cJSON_AddItemToArray(kicked, cJSON_CreateNumber((double)stat->kicked[i]));
	}
	ctl_json_print(object);
}

int
ctl_kv_stat(struct ctl *ctl, char **args)
{
	struct nam_kv_stat stat;
	int exit_code = open_store(ctl, args[0]), rc; /* SUSPENDS */

	if (exit_code)
		return exit_code;
	rc = nam_kv_stat(ctl->worker, ctl->kv, &stat); /* SUSPENDS */
	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	if (ctl->json)
		json_stat(ctl, args[0], &stat);
	else
		print_stat(ctl, args[0], &stat);
	return NAM_EXIT_OK;
}

int
ctl_kv_drop(struct ctl *ctl, char **args)
{
	int rc = nam_kv_drop(ctl->worker, args[0]); /* SUSPENDS */

	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	return ctl_dropped(ctl, args[0], false);
}

/* ---- pairs --------------------------------------------------------------------------------- */

/* Open the store and read the key. */
static int
begin(struct ctl *ctl, char **args, uint32_t *ret_key_bytes)
{
	int exit_code = ctl_bytes_type(ctl, "stores");

	if (!exit_code)
		exit_code = ctl_bytes_take(ctl, args[1], ret_key_bytes);
	return exit_code ? exit_code : open_store(ctl, args[0]); /* SUSPENDS */
}

static cJSON *
json_pair(const struct ctl *ctl, char **args, uint32_t key_bytes)
{
	cJSON *object = ctl_json(ctl);

	cJSON_AddStringToObject(object, "store", args[0]);
	ctl_json_bytes(object, "key", args[1],
		key_bytes <= NAM_KV_KEY_BYTES_MAX ? key_bytes : 0, ctl_is_hex(ctl));
	return object;
}

/* With --json whether the key is there.  Returns the exit code. */
static int
print_found(const struct ctl *ctl, char **args, uint32_t key_bytes, bool found)
{
	cJSON *object = json_pair(ctl, args, key_bytes);

	cJSON_AddBoolToObject(object, "found", found);
	ctl_json_print(object);
	if (!found && !ctl->json && !ctl->quiet)
		ctl_complain("no such key (NAM_E_NOTFOUND)");
	return found ? NAM_EXIT_OK : NAM_EXIT_NO;
}

int
ctl_kv_get(struct ctl *ctl, char **args)
{
	static uint8_t value[NAM_KV_VALUE_BYTES_MAX];
	uint32_t key_bytes, bytes = 0;
	int exit_code = begin(ctl, args, &key_bytes), rc; /* SUSPENDS */

	if (exit_code)
		return exit_code;
	rc = nam_kv_get(ctl->worker, ctl->kv, args[1], key_bytes, value, sizeof(value),
		&bytes); /* SUSPENDS */
	if (rc == -NAM_E_NOTFOUND)
		return print_found(ctl, args, key_bytes, false);
	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	if (ctl->json) {
		cJSON *object = json_pair(ctl, args, key_bytes);

		cJSON_AddBoolToObject(object, "found", true);
		ctl_json_u64(object, "bytes", bytes);
		ctl_json_bytes(object, "value", value, bytes, ctl_is_hex(ctl));
		ctl_json_print(object);
	} else if (!ctl->quiet) {
		if (ctl_is_hex(ctl))
			ctl_bytes_hex(value, bytes);
		else
			(void)fwrite(value, 1, bytes, stdout);
		putchar('\n');
	}
	return NAM_EXIT_OK;
}

int
ctl_kv_put(struct ctl *ctl, char **args)
{
	static char input[NAM_KV_VALUE_BYTES_MAX + 1];
	char *value = args[2];
	uint32_t key_bytes, bytes;
	cJSON *object;
	int exit_code = begin(ctl, args, &key_bytes), rc; /* SUSPENDS */

	if (exit_code)
		return exit_code;
	if (!strcmp(args[2], "-")) {
		value = input;
		bytes = (uint32_t)fread(input, 1, sizeof(input), stdin);
		if (ferror(stdin)) {
			ctl_complain("-: standard input cannot be read");
			return NAM_EXIT_USAGE;
		}
	} else {
		exit_code = ctl_bytes_take(ctl, value, &bytes);
		if (exit_code)
			return exit_code;
	}
	rc = nam_kv_put(ctl->worker, ctl->kv, args[1], key_bytes, value, bytes); /* SUSPENDS */
	if (rc)
		return ctl_worker_failed(ctl, args[0], rc);
	object = json_pair(ctl, args, key_bytes);
	ctl_json_u64(object, "bytes", bytes);
	ctl_json_print(object);
	return NAM_EXIT_OK;
}

int
ctl_kv_delete(struct ctl *ctl, char **args)
{
	uint32_t key_bytes;
	int exit_code = begin(ctl, args, &key_bytes), rc; /* SUSPENDS */

	if (exit_code)
		return exit_code;
	rc = nam_kv_delete(ctl->worker, ctl->kv, args[1], key_bytes); /* SUSPENDS */
	if (rc && rc != -NAM_E_NOTFOUND)
		return ctl_worker_failed(ctl, args[0], rc);
	return print_found(ctl, args, key_bytes, !rc);
}
