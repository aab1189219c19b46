/* SPDX-License-Identifier: Apache-2.0 */
/*
 * etcd.c -- two keys: nam/NAME/view is the record, nam/NAME/steward is the steward that leads.
 *
 * The second one is attached to a lease, and goes with it.  The revision that created it is the
 * term: etcd's revisions only grow.  Every writing of the record is a transaction, on the record's
 * mod_revision.  A steward's also demands that the key with its term is still there.
 *
 * A request whose answer was lost may have been carried out.  A lost writing then finds another
 * revision, and a lost acquisition finds a key with this lease.
 */
#include "etcd_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PORT 2379u
#define NAME_BYTES 64u

struct etcd {
	struct nam__backend backend;
	struct nam__http *http;
	char name[NAME_BYTES + 1];
	char *view_key, *steward_key;	/* in base64 */
	char *user, *password;		/* NULL: none */
	bool authorized;
	char lease[24];			/* its id; "": none */
	uint64_t term;			/* 0: does not lead */
};

static struct etcd *
etcd_of(struct nam__backend *backend)
{
	return (struct etcd *)backend;
}

/* ---- requests -------------------------------------------------------------------------------- */

static cJSON *
object_of(const char *name, const char *value)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, name, value);
	return object;
}

static int
authenticate(struct etcd *etcd, struct nam_diag *diag)
{
	cJSON *body, *answer;
	const char *token;
	int rc = nam__http_authorize(etcd->http, NULL);

	if (rc)
		return rc;
	body = object_of("name", etcd->user);
	cJSON_AddStringToObject(body, "password", etcd->password ?: "");
	rc = nam__http_post(etcd->http, "/v3/auth/authenticate", body, &answer, diag);
	if (rc)
		return rc;
	token = cJSON_GetStringValue(cJSON_GetObjectItem(answer, "token"));
	rc = token ? nam__http_authorize(etcd->http, token) : nam_diag_set(diag,
		-NAM_E_FABRIC_PROTOCOL, "etcd gives user %s no token", etcd->user);
	cJSON_Delete(answer);
	etcd->authorized = !rc;
	return rc;
}

/* Tokens expire. */
static int
ask(struct etcd *etcd, const char *path, cJSON *body, cJSON **ret_answer, struct nam_diag *diag)
{
	int rc = -NAM_E_FABRIC_DENIED;

	if (etcd->user && etcd->authorized)
		rc = nam__http_post(etcd->http, path, cJSON_Duplicate(body, true), ret_answer,
			diag);
	if (nam_err_is(rc, NAM_E_FABRIC_DENIED)) {
		rc = etcd->user ? authenticate(etcd, diag) : 0;
		if (!rc)
			return nam__http_post(etcd->http, path, body, ret_answer, diag);
	}
	cJSON_Delete(body);
	return rc;
}

static int
malformed(const char *path, struct nam_diag *diag)
{
	return nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL, "etcd's answer to %s is malformed", path);
}

/* 64-bit numbers are strings; zeroes are left out. */
static uint64_t
number_of(const cJSON *object, const char *name)
{
	const char *text = cJSON_GetStringValue(cJSON_GetObjectItem(object, name));

	return text ? strtoull(text, NULL, 10) : 0;
}

static void
number_add(cJSON *object, const char *name, uint64_t number)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, number);
	cJSON_AddStringToObject(object, name, text);
}

/* ---- transactions ---------------------------------------------------------------------------- */

/* @target	"MOD" or "CREATE", of which @field is the revision */
static void
compare_add(cJSON *txn, const char *key, const char *target, const char *field, uint64_t revision)
{
	cJSON *compare = cJSON_GetObjectItem(txn, "compare") ?:
		cJSON_AddArrayToObject(txn, "compare");
	cJSON *one = object_of("key", key);

	cJSON_AddStringToObject(one, "target", target);
	number_add(one, field, revision);
	cJSON_AddItemToArray(compare, one);
}

static void
request_add(cJSON *txn, const char *branch, const char *what, cJSON *request)
{
	cJSON *array = cJSON_GetObjectItem(txn, branch) ?: cJSON_AddArrayToObject(txn, branch);
	cJSON *one = cJSON_CreateObject();

	cJSON_AddItemToObject(one, what, request);
	cJSON_AddItemToArray(array, one);
}

/* The key of a response to a range, or NULL. */
static const cJSON *
key_of(const cJSON *range)
{
	return cJSON_GetArrayItem(cJSON_GetObjectItem(range, "kvs"), 0);
}

/* The steward's key, after a transaction that did not succeed. */
static const cJSON *
steward_of(const cJSON *answer)
{
	const cJSON *response = cJSON_GetArrayItem(cJSON_GetObjectItem(answer, "responses"), 0);

	return key_of(cJSON_GetObjectItem(response, "response_range"));
}

/* ---- the record ------------------------------------------------------------------------------ */

static int
record_read(struct nam__backend *backend, struct nam__record *ret_record, struct nam_diag *diag)
{
	struct etcd *etcd = etcd_of(backend);
	struct nam__record record = { 0 };
	const cJSON *key;
	cJSON *answer;
	const char *value;
	char *text;
	int rc = ask(etcd, "/v3/kv/range", object_of("key", etcd->view_key), &answer, diag);

	if (rc)
		return rc;
	key = key_of(answer);
	if (key) {
		value = cJSON_GetStringValue(cJSON_GetObjectItem(key, "value"));
		text = nam__base64_decode(value ?: "");
		record.revision = number_of(key, "mod_revision");
		rc = text ? nam__record_parse(text, &record) : -NAM_E_REMOTE_CORRUPT;
		free(text);
		if (rc == -NAM_E_REMOTE_CORRUPT)
			rc = nam_diag_set(diag, rc, "etcd's key nam/%s/view is no view of nam",
				etcd->name);
	}
	cJSON_Delete(answer);
	if (!rc)
		*ret_record = record;
	return rc;
}

static int
record_write(struct nam__backend *backend, const struct nam__record *record, uint64_t term,
	struct nam_diag *diag)
{
	struct etcd *etcd = etcd_of(backend);
	cJSON *txn = cJSON_CreateObject(), *put = object_of("key", etcd->view_key), *answer;
	char *text = nam__record_print(record), *value = text ? nam__base64_encode(text) : NULL;
	int rc;

	free(text);
	if (!value) {
		cJSON_Delete(put);
		cJSON_Delete(txn);
		return -ENOMEM;
	}
	cJSON_AddStringToObject(put, "value", value);
	free(value);
	compare_add(txn, etcd->view_key, "MOD", "mod_revision", record->revision);
	if (term)
		compare_add(txn, etcd->steward_key, "CREATE", "create_revision", term);
	request_add(txn, "success", "request_put", put);
	request_add(txn, "failure", "request_range", object_of("key", etcd->steward_key));
	rc = ask(etcd, "/v3/kv/txn", txn, &answer, diag);
	if (rc)
		return rc;
	if (!cJSON_IsTrue(cJSON_GetObjectItem(answer, "succeeded")))
		rc = term && number_of(steward_of(answer), "create_revision") != term ?
			-NAM_E_TERM : -NAM_E_VIEW;
	cJSON_Delete(answer);
	return rc;
}

/* ---- the steward that leads ------------------------------------------------------------------ */

/* A lost request ends with the lease's time. */
static void
lease_revoke(struct etcd *etcd)
{
	struct nam_diag diag;
	cJSON *answer;

	if (!ask(etcd, "/v3/lease/revoke", object_of("ID", etcd->lease), &answer, &diag))
		cJSON_Delete(answer);
	etcd->lease[0] = '\0';
}

static int
lease_grant(struct etcd *etcd, uint32_t lease_ms, struct nam_diag *diag)
{
	cJSON *body = cJSON_CreateObject(), *answer;
	const char *id;
	int rc;

	number_add(body, "TTL", (lease_ms + 999) / 1000);
	rc = ask(etcd, "/v3/lease/grant", body, &answer, diag);
	if (rc)
		return rc;
	id = cJSON_GetStringValue(cJSON_GetObjectItem(answer, "ID"));
	if (id && strlen(id) < sizeof(etcd->lease))
		(void)snprintf(etcd->lease, sizeof(etcd->lease), "%s", id);
	else
		rc = malformed("/v3/lease/grant", diag);
	cJSON_Delete(answer);
	return rc;
}

/* The text of the key, for operators: host and process. */
static char *
steward_text(void)
{
	char host[65] = "", text[100];

	(void)gethostname(host, sizeof(host) - 1);
	(void)snprintf(text, sizeof(text), "%s %d", host, (int)getpid());
	return nam__base64_encode(text);
}

/* *ret_is_there: before any lease is granted for nothing, which etcd writes down. */
static int
steward_look(struct etcd *etcd, bool *ret_is_there, struct nam_diag *diag)
{
	cJSON *answer;
	int rc = ask(etcd, "/v3/kv/range", object_of("key", etcd->steward_key), &answer, diag);

	if (rc)
		return rc;
	*ret_is_there = key_of(answer);
	cJSON_Delete(answer);
	return 0;
}

/* The key with that lease. */
static int
steward_put(struct etcd *etcd, struct nam_diag *diag)
{
	cJSON *txn = cJSON_CreateObject(), *put = object_of("key", etcd->steward_key), *answer;
	char *text = steward_text();
	const char *lease;
	int rc;

	cJSON_AddStringToObject(put, "value", text ?: "");
	free(text);
	cJSON_AddStringToObject(put, "lease", etcd->lease);
	compare_add(txn, etcd->steward_key, "CREATE", "create_revision", 0);
	request_add(txn, "success", "request_put", put);
	request_add(txn, "failure", "request_range", object_of("key", etcd->steward_key));
	rc = ask(etcd, "/v3/kv/txn", txn, &answer, diag);
	if (rc)
		return rc;
	lease = cJSON_GetStringValue(cJSON_GetObjectItem(steward_of(answer), "lease"));
	if (cJSON_IsTrue(cJSON_GetObjectItem(answer, "succeeded")))
		etcd->term = number_of(cJSON_GetObjectItem(answer, "header"), "revision");
	else if (lease && !strcmp(lease, etcd->lease))
		etcd->term = number_of(steward_of(answer), "create_revision");
	else
		rc = -NAM_E_TERM;
	if (!rc && !etcd->term)
		rc = malformed("/v3/kv/txn", diag);
	cJSON_Delete(answer);
	return rc;
}

static int
acquire(struct nam__backend *backend, uint32_t lease_ms, uint64_t *ret_term, struct nam_diag *diag)
{
	struct etcd *etcd = etcd_of(backend);
	bool is_there = false;
	int rc = steward_look(etcd, &is_there, diag);

	if (!rc && is_there)
		rc = -NAM_E_TERM;
	if (!rc)
		rc = lease_grant(etcd, lease_ms, diag);
	if (rc)
		return rc;
	rc = steward_put(etcd, diag);
	if (rc)
		lease_revoke(etcd);
	else
		*ret_term = etcd->term;
	return rc;
}

static int
renew(struct nam__backend *backend, struct nam_diag *diag)
{
	struct etcd *etcd = etcd_of(backend);
	cJSON *answer;
	int rc = ask(etcd, "/v3/lease/keepalive", object_of("ID", etcd->lease), &answer, diag);

	if (rc)
		return rc;
	if (!number_of(cJSON_GetObjectItem(answer, "result"), "TTL")) {
		etcd->lease[0] = '\0';
		etcd->term = 0;
		rc = -NAM_E_TERM;
	}
	cJSON_Delete(answer);
	return rc;
}

static void
release(struct nam__backend *backend)
{
	struct etcd *etcd = etcd_of(backend);

	if (etcd->lease[0])
		lease_revoke(etcd);
	etcd->term = 0;
}

/* ---- open, close ----------------------------------------------------------------------------- */

static void
etcd_close(struct nam__backend *backend)
{
	struct etcd *etcd = etcd_of(backend);

	if (etcd->http)
		nam__http_close(etcd->http);
	free(etcd->view_key);
	free(etcd->steward_key);
	free(etcd->user);
	free(etcd->password);
	free(etcd);
}

static const struct nam__backend_ops ops = {
	.name = "etcd",
	.read = record_read,
	.write = record_write,
	.acquire = acquire,
	.renew = renew,
	.release = release,
	.close = etcd_close,
};

/* The first line of a file that only its owner should be able to read. */
static int
password_read(const char *path, char **ret_password, struct nam_diag *diag)
{
	char line[512];
	FILE *file = fopen(path, "re");

	if (!file || !fgets(line, sizeof(line), file)) {
		int rc = file ? -EINVAL : -errno;

		if (file)
			(void)fclose(file);
		return nam_diag_set(diag, rc, "password_file: %s: %s", path,
			rc == -EINVAL ? "it has no line" : nam_err_text(rc));
	}
	(void)fclose(file);
	line[strcspn(line, "\n")] = '\0';
	*ret_password = strdup(line);
	return *ret_password ? 0 : -ENOMEM;
}

static char *
key_make(const struct etcd *etcd, const char *what)
{
	char text[NAME_BYTES + 16];

	(void)snprintf(text, sizeof(text), "nam/%s/%s", etcd->name, what);
	return nam__base64_encode(text);
}

static int
fill(struct etcd *etcd, const char *where, const struct nam__store_options *options,
	struct nam_diag *diag)
{
	const char *slash = strrchr(where, '/');
	int rc;

	if (!slash || slash - where < 9 || !slash[1] || strlen(slash + 1) > NAME_BYTES)
		return nam_diag_set(diag, -EINVAL, "view_store: 'etcd:%s' should be "
			"etcd:http://HOST:PORT,HOST:PORT/NAME, where NAME is the cluster's and has "
			"at most %u characters", where, NAME_BYTES);
	(void)snprintf(etcd->name, sizeof(etcd->name), "%s", slash + 1);
	rc = nam__http_open(where, (size_t)(slash - where), PORT, options, &etcd->http, diag);
	if (rc)
		return rc;
	etcd->view_key = key_make(etcd, "view");
	etcd->steward_key = key_make(etcd, "steward");
	if (options->user)
		etcd->user = strdup(options->user);
	if (!etcd->view_key || !etcd->steward_key || (options->user && !etcd->user))
		return nam_diag_set(diag, -ENOMEM, "no memory for a view store");
	return options->password_file ? password_read(options->password_file, &etcd->password,
		diag) : 0;
}

int
nam__etcd_open(const char *where, const struct nam__store_options *options,
	struct nam__backend **ret_backend, struct nam_diag *diag)
{
	struct etcd *etcd = calloc(1, sizeof(*etcd));
	int rc;

	if (!etcd)
		return nam_diag_set(diag, -ENOMEM, "no memory for a view store");
	etcd->backend.ops = &ops;
	rc = fill(etcd, where, options, diag);
	if (rc)
		etcd_close(&etcd->backend);
	else
		*ret_backend = &etcd->backend;
	return rc;
}
