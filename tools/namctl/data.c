/* SPDX-License-Identifier: Apache-2.0 */
/* data.c -- get, put, delete, range: one pair or a run of them. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "namctl.h"

#define BATCH 256u
#define RANGE_CACHE_BYTES (16u << 20)

/* Open the index and read the key; a point operation needs no cache. */
static int
open_and_parse(struct ctl *ctl, char **args, void *key)
{
	struct nam_diag diag = { "" };
	int exit_code = ctl_open(ctl, args[0], 0), rc;

	if (exit_code)
		return exit_code;
	rc = key_parse(&ctl->format, args[1], key, &diag);
	return rc ? ctl_failed(ctl->index_name, rc, diag.text) : NAM_EXIT_OK;
}

static int
take_payload(const char *text, uint64_t *ret_payload)
{
	struct nam_diag diag = { "" };

	if (payload_parse(text, ret_payload, &diag)) {
		ctl_complain("%s", diag.text);
		return NAM_EXIT_USAGE;
	}
	return NAM_EXIT_OK;
}

static cJSON *
json_key(const struct ctl *ctl, const void *key)
{
	cJSON *object = ctl_json(ctl);

	cJSON_AddStringToObject(object, "index", ctl->index_name);
	if (object)
		cJSON_AddItemToObject(object, "key", ctl_json_key(&ctl->format, key));
	return object;
}

/* An answer about one pair. */
static void
answer(const struct ctl *ctl, const char *verb, const void *key, bool done)
{
	cJSON *object = json_key(ctl, key);

	cJSON_AddBoolToObject(object, verb, done);
	ctl_json_print(object);
}

/* @payload	if it is the pair that is not there, else NULL: then the key is not */
static int
print_not_found(const struct ctl *ctl, const char *key, const char *payload)
{
	if (ctl->quiet || ctl->json)
		return NAM_EXIT_NO;
	if (payload)
		ctl_complain("%s: no such pair: the key is not there, or not with payload %s "
			     "(NAM_E_NOTFOUND)", key, payload);
	else
		ctl_complain("%s: no such key (NAM_E_NOTFOUND)", key);
	return NAM_EXIT_NO;
}

/* ---- get ---------------------------------------------------------------------------------- */

static void
print_payload(const struct ctl *ctl, cJSON *payloads, uint64_t payload)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, payload);
	if (payloads)
		cJSON_AddItemToArray(payloads, cJSON_CreateRaw(text));
	else if (!ctl->quiet)
		puts(text);
}

/* Every payload of a key in a non-unique index. */
static int
get_all(struct ctl *ctl, const void *key, cJSON *payloads, uint64_t *ret_count)
{
	struct nam_range range = { .low = key, .high = key, .high_inclusive = true };
	uint64_t found[BATCH];
	struct nam_cursor *cursor;
	uint32_t count;
	int rc = nam_cursor_open(ctl->worker, ctl->index, &range, &cursor);

	if (rc)
		return rc;
	do {
		rc = nam_cursor_next(cursor, NULL, found, BATCH, &count); /* SUSPENDS */
		for (uint32_t i = 0; !rc && i < count; i++)
			print_payload(ctl, payloads, found[i]);
		if (!rc)
			*ret_count += count;
	} while (!rc && count && !ctl_signal);
	nam_cursor_close(cursor);
	return rc;
}

int
ctl_get(struct ctl *ctl, char **args)
{
	uint8_t key[NAM_KEY_BYTES_MAX];
	cJSON *object, *payloads;
	uint64_t payload, count = 0;
	int exit_code = open_and_parse(ctl, args, key), rc;

	if (exit_code)
		return exit_code;
	object = json_key(ctl, key);
	payloads = cJSON_AddArrayToObject(object, "payloads");
	if (ctl->unique) {
		rc = nam_index_lookup(ctl->worker, ctl->index, key, &payload); /* SUSPENDS */
		if (!rc)
			print_payload(ctl, payloads, payload);
		count = !rc;
		if (rc == -NAM_E_NOTFOUND)
			rc = 0;
	} else {
		rc = get_all(ctl, key, payloads, &count); /* SUSPENDS */
	}
	if (rc) {
		cJSON_Delete(object);
		return ctl_worker_failed(ctl, args[1], rc);
	}
	ctl_json_print(object);
	return count ? NAM_EXIT_OK : print_not_found(ctl, args[1], NULL);
}

/* ---- put, delete -------------------------------------------------------------------------- */

int
ctl_put(struct ctl *ctl, char **args)
{
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint64_t payload;
	int exit_code, rc;

	exit_code = take_payload(args[2], &payload);
	if (!exit_code)
		exit_code = open_and_parse(ctl, args, key);
	if (exit_code)
		return exit_code;
	if (ctl->only_new)
		rc = nam_index_insert(ctl->worker, ctl->index, key, payload); /* SUSPENDS */
	else
		rc = nam_index_upsert(ctl->worker, ctl->index, key, payload); /* SUSPENDS */
	if (rc == -NAM_E_EXISTS) {
		ctl_complain("%s: %s exists already; put it without --new to replace it "
			     "(NAM_E_EXISTS)", args[1], ctl->unique ? "the key" : "the pair");
		return NAM_EXIT_CONFLICT;
	}
	if (rc)
		return ctl_worker_failed(ctl, args[1], rc);
	answer(ctl, "put", key, true);
	return NAM_EXIT_OK;
}

int
ctl_delete(struct ctl *ctl, char **args)
{
	uint8_t key[NAM_KEY_BYTES_MAX];
	uint64_t payload = 0;
	int exit_code, rc;

	exit_code = args[2] ? take_payload(args[2], &payload) : NAM_EXIT_OK;
	if (!exit_code)
		exit_code = open_and_parse(ctl, args, key);
	if (exit_code)
		return exit_code;
	if (!args[2] && !ctl->unique) {
		ctl_complain("%s is not unique: say which of the key's payloads; namctl get shows "
			     "them", ctl->index_name);
		return NAM_EXIT_USAGE;
	}
	if (args[2])
		rc = nam_index_delete_pair(ctl->worker, ctl->index, key, payload); /* SUSPENDS */
	else
		rc = nam_index_delete(ctl->worker, ctl->index, key); /* SUSPENDS */
	if (rc && rc != -NAM_E_NOTFOUND)
		return ctl_worker_failed(ctl, args[1], rc);
	answer(ctl, "deleted", key, !rc);
	return rc ? print_not_found(ctl, args[1], args[2]) : NAM_EXIT_OK;
}

/* ---- range -------------------------------------------------------------------------------- */

static void
print_pair(const struct ctl *ctl, const uint8_t *key, uint64_t payload, bool first)
{
	char text[KEY_TEXT_BYTES];

	if (!ctl->json) {
		key_print(&ctl->format, key, text);
		printf("%s\t%" PRIu64 "\n", text, payload);
	} else {
		cJSON *json_key = ctl_json_key(&ctl->format, key);
		char *quoted = cJSON_PrintUnformatted(json_key);

		printf("%s\n\t\t{ \"key\": %s, \"payload\": %" PRIu64 " }", first ? "" : ",",
			quoted ? quoted : "null", payload);
		free(quoted);
		cJSON_Delete(json_key);
	}
}

/* An end of the range: "-" leaves it open. */
static int
take_end(const struct ctl *ctl, const char *text, uint8_t *key, const void **ret_end)
{
	struct nam_diag diag = { "" };
	int rc;

	*ret_end = NULL;
	if (!strcmp(text, "-"))
		return NAM_EXIT_OK;
	rc = key_parse(&ctl->format, text, key, &diag);
	if (rc)
		return ctl_failed(ctl->index_name, rc, diag.text);
	*ret_end = key;
	return NAM_EXIT_OK;
}

/* -ERANGE: a key does not fit --key-type; earlier pairs have been printed. */
static int
print_range(struct ctl *ctl, struct nam_cursor *cursor, uint64_t *ret_count)
{
	uint8_t keys[BATCH * NAM_KEY_BYTES_MAX];
	uint64_t payloads[BATCH], total = 0;
	uint32_t count;
	int rc;

	do {
		rc = nam_cursor_next(cursor, keys, payloads, BATCH, &count); /* SUSPENDS */
		for (uint32_t i = 0; !rc && i < count; i++) {
			const uint8_t *key = keys + (size_t)i * ctl->format.bytes;

			if (!key_fits(&ctl->format, key)) {
				rc = -ERANGE;
				break;
			}
			print_pair(ctl, key, payloads[i], !total);
			total++;
		}
	} while (!rc && count && !ferror(stdout) && !ctl_signal);
	*ret_count = total;
	return rc;
}

int
ctl_range(struct ctl *ctl, char **args)
{
	struct nam_range range = { .high_inclusive = true, .reverse = ctl->reverse,
		.limit = ctl->limit };
	uint8_t low[NAM_KEY_BYTES_MAX], high[NAM_KEY_BYTES_MAX];
	struct nam_cursor *cursor;
	uint64_t count = 0;
	int exit_code = ctl_open(ctl, args[0], RANGE_CACHE_BYTES), rc;

	if (!exit_code)
		exit_code = take_end(ctl, args[1], low, &range.low);
	if (!exit_code)
		exit_code = take_end(ctl, args[2], high, &range.high);
	if (exit_code)
		return exit_code;
	if (range.low && range.high && memcmp(low, high, ctl->format.bytes) > 0) {
		ctl_complain("range: %s comes after %s; say the lower end first, and --reverse to "
			     "go downwards", args[1], args[2]);
		return NAM_EXIT_USAGE;
	}
	rc = nam_cursor_open(ctl->worker, ctl->index, &range, &cursor);
	if (rc)
		return ctl_worker_failed(ctl, "range", rc);
	if (ctl->json)
		fputs("{\n\t\"pairs\": [", stdout);
	rc = print_range(ctl, cursor, &count); /* SUSPENDS */
	if (ctl->json)
		printf("\n\t],\n\t\"count\": %" PRIu64 "\n}\n", count);
	nam_cursor_close(cursor);
	if (rc == -ERANGE) {
		ctl_complain("range: after %" PRIu64 " pairs comes one of more than 64 bits, which "
			     "u64 cannot show; use --key-type text or hex", count);
		return NAM_EXIT_USAGE;
	}
	return rc ? ctl_worker_failed(ctl, "range", rc) : NAM_EXIT_OK;
}
