/* SPDX-License-Identifier: Apache-2.0 */
/* http.c -- requests by libcurl, one at a time. */
#include "etcd_internal.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/env.h"

#define ANSWER_MAX (1u << 20)
#define ATTEMPT_MS 1000u		/* for one host */
#define PAUSE_NS 50000000ull		/* after all hosts have failed */
#define HOST_BYTES 300u

struct nam__http {
	struct nam__store_options options;
	uint32_t hosts_count, host;	/* the host that answered last */
	char hosts[NAM__HTTP_HOSTS_MAX][HOST_BYTES];	/* "http://HOST:PORT" */
	bool tls;
	CURL *curl;
	struct curl_slist *headers;
	char why[CURL_ERROR_SIZE];	/* of the last request's failure */
};

struct answer {
	char *text;
	size_t bytes;
};

/* ---- hosts ----------------------------------------------------------------------------------- */

static int
host_take(struct nam__http *http, const char *scheme, const char *text, size_t bytes, uint16_t port)
{
	char *to = http->hosts[http->hosts_count];
	/* The last colon counts in "[::1]:2379". */
	const char *bracket = memrchr(text, ']', bytes), *colon = memrchr(text, ':', bytes);
	int n;

	if (!bytes || http->hosts_count == NAM__HTTP_HOSTS_MAX || memchr(text, ' ', bytes))
		return -EINVAL;
	if (colon && (!bracket || colon > bracket))
		n = snprintf(to, HOST_BYTES, "%s%.*s", scheme, (int)bytes, text);
	else
		n = snprintf(to, HOST_BYTES, "%s%.*s:%u", scheme, (int)bytes, text, port);
	http->hosts_count++;
	return n < (int)HOST_BYTES ? 0 : -EINVAL;
}

static int
hosts_take(struct nam__http *http, const char *text, size_t bytes, uint16_t port)
{
	const char *end = text + bytes, *scheme;

	http->tls = !strncmp(text, "https://", 8);
	scheme = http->tls ? "https://" : "http://";
	if (strncmp(text, scheme, strlen(scheme)) != 0 || strlen(scheme) > bytes)
		return -EINVAL;
	for (text += strlen(scheme); text <= end;) {
		const char *comma = memchr(text, ',', (size_t)(end - text)) ?: end;
		int rc = host_take(http, scheme, text, (size_t)(comma - text), port);

		if (rc)
			return rc;
		text = comma + 1;
	}
	return 0;
}

/* ---- one request ----------------------------------------------------------------------------- */

static size_t
take_answer(char *data, size_t one, size_t count, void *arg)
{
	struct answer *answer = arg;
	size_t bytes = one * count;
	char *text;

	if (bytes > ANSWER_MAX - answer->bytes)
		return 0;
	text = realloc(answer->text, answer->bytes + bytes + 1);
	if (!text)
		return 0;
	memcpy(text + answer->bytes, data, bytes);
	answer->text = text;
	answer->bytes += bytes;
	text[answer->bytes] = '\0';
	return bytes;
}

static bool
is_stopped(const struct nam__http *http)
{
	return http->options.stop && *http->options.stop;
}

static int
on_progress(void *arg, curl_off_t a, curl_off_t b, curl_off_t c, curl_off_t d)
{
	(void)a;
	(void)b;
	(void)c;
	(void)d;
	return is_stopped(arg);
}

/* The meaning of a host's answer.  -EAGAIN: another one may do better. */
static int
validate(struct nam__http *http, const struct answer *answer, cJSON **ret_answer,
	struct nam_diag *diag)
{
	const char *host = http->hosts[http->host];
	cJSON *object = answer->text ? cJSON_Parse(answer->text) : NULL;
	const char *why = cJSON_GetStringValue(cJSON_GetObjectItem(object, "error"));
	long status = 0;
	int rc = 0;

	curl_easy_getinfo(http->curl, CURLINFO_RESPONSE_CODE, &status);
	if (status == 401 || status == 403)
		rc = nam_diag_set(diag, -NAM_E_FABRIC_DENIED, "the view store at %s refuses this "
			"user: %s", host, why ?: "no reason given");
	else if (status >= 500)
		rc = nam_diag_set(diag, -EAGAIN, "the view store at %s does not work: %s", host,
			why ?: "no reason given");
	else if (status != 200 || !cJSON_IsObject(object)) {
		if (answer->text)
			answer->text[strcspn(answer->text, "\r\n")] = '\0';
		rc = nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL, "the view store at %s answers "
			"with status %ld: %.200s", host, status, why ?: answer->text ?: "");
	}
	if (rc)
		cJSON_Delete(object);
	else
		*ret_answer = object;
	return rc;
}

/* etcd took the connection, and then ended it. */
static bool
is_cut(CURLcode code)
{
	return code == CURLE_SEND_ERROR || code == CURLE_RECV_ERROR || code == CURLE_GOT_NOTHING;
}

/* The host refuses this client for good, in the words of OpenSSL or of GnuTLS. */
static bool
is_alerted(const struct nam__http *http)
{
	return http->tls && strstr(http->why, " alert ");
}

/* The end of a message. */
static const char *
remedy(const struct nam__http *http, CURLcode code)
{
	/* "... matches target host name", or in later versions "target ipv4 address". */
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		return strstr(http->why, " target ") ?
			"; write a host in view_store that etcd's certificate names" :
			"; cacert_file names the authorities to trust";
	if (!http->tls)
		return is_cut(code) || code == CURLE_UNSUPPORTED_PROTOCOL ?
			"; if etcd uses TLS there, write https://" : "";
	if (code == CURLE_SSL_CONNECT_ERROR && !is_alerted(http))
		return "; if etcd uses no TLS there, write http://";
	if (!is_cut(code) && !is_alerted(http))
		return "";
	return http->options.cert_file ? "; etcd may not trust the certificate of cert_file" :
		"; if etcd asks for a certificate, name it with cert_file and key_file";
}

/* -EAGAIN: again may do; -NAM_E_FABRIC_STORE: only another host may; else none will. */
static int
fail(struct nam__http *http, CURLcode code, struct nam_diag *diag)
{
	const char *why = *http->why ? http->why : curl_easy_strerror(code);
	const char *host = http->hosts[http->host];

	switch (code) {
	case CURLE_URL_MALFORMAT:
		return nam_diag_set(diag, -EINVAL, "view_store: %s: %s", host, why);
	case CURLE_SSL_CERTPROBLEM:
		return nam_diag_set(diag, -EINVAL, "cert_file, key_file: %s", why);
	case CURLE_SSL_CACERT_BADFILE:
		return nam_diag_set(diag, -EINVAL, "cacert_file: %s", why);
	case CURLE_PEER_FAILED_VERIFICATION:
		return nam_diag_set(diag, -NAM_E_FABRIC_STORE, "the view store at %s is not "
			"trusted: %s%s", host, why, remedy(http, code));
	default:
		return nam_diag_set(diag, is_alerted(http) ? -NAM_E_FABRIC_STORE : -EAGAIN,
			"the view store at %s does not answer: %s%s", host, why,
			remedy(http, code));
	}
}

/* @again	the message of an attempt before this one stays, if the end comes too early */
static int
attempt(struct nam__http *http, const char *path, uint64_t left_ms, bool again,
	cJSON **ret_answer, struct nam_diag *diag)
{
	struct answer answer = { NULL, 0 };
	long attempt_ms = (long)(left_ms < ATTEMPT_MS ? left_ms : ATTEMPT_MS);
	char url[HOST_BYTES + 64];
	CURLcode code;
	int rc;

	(void)snprintf(url, sizeof(url), "%s%s", http->hosts[http->host], path);
	curl_easy_setopt(http->curl, CURLOPT_URL, url);
	curl_easy_setopt(http->curl, CURLOPT_TIMEOUT_MS, attempt_ms);
	curl_easy_setopt(http->curl, CURLOPT_WRITEDATA, &answer);
	http->why[0] = '\0';
	code = curl_easy_perform(http->curl);
	if (code == CURLE_OK)
		rc = validate(http, &answer, ret_answer, diag);
	else if (code == CURLE_OPERATION_TIMEDOUT && again && left_ms < ATTEMPT_MS)
		rc = -EAGAIN;
	else
		rc = fail(http, code, diag);
	free(answer.text);
	return rc;
}

int
nam__http_post(struct nam__http *http, const char *path, cJSON *body, cJSON **ret_answer,
	struct nam_diag *diag)
{
	uint64_t now = nam_now_ns(), end = now + http->options.timeout_ms * 1000000ull;
	char *text = cJSON_PrintUnformatted(body);
	unsigned hopeless = 0;	/* hosts, one after the other */
	int rc = text ? -EAGAIN : -ENOMEM;

	cJSON_Delete(body);
	curl_easy_setopt(http->curl, CURLOPT_HTTPHEADER, http->headers);
	curl_easy_setopt(http->curl, CURLOPT_POSTFIELDS, text);
	for (unsigned tries = 1; rc == -EAGAIN && now < end && !is_stopped(http); tries++) {
		rc = attempt(http, path, (end - now + 999999) / 1000000, tries > 1, ret_answer,
			diag);
		hopeless = rc == -EAGAIN ? 0 : hopeless + 1;
		if (rc == -NAM_E_FABRIC_STORE && hopeless < http->hosts_count)
			rc = -EAGAIN;
		if (rc != -EAGAIN)
			break;
		http->host = (http->host + 1) % http->hosts_count;
		if (tries % http->hosts_count == 0)
			nam_sleep_ns(PAUSE_NS);
		now = nam_now_ns();
	}
	free(text);
	if (rc == -EAGAIN && is_stopped(http))
		return nam_diag_set(diag, -NAM_E_FABRIC_STORE, "ended while the view store was "
			"asked");
	return rc == -EAGAIN ? -NAM_E_FABRIC_STORE : rc;
}

/* ---- connections ----------------------------------------------------------------------------- */

int
nam__http_authorize(struct nam__http *http, const char *token)
{
	struct curl_slist *headers = curl_slist_append(NULL, "Content-Type: application/json");
	struct curl_slist *both = headers;
	char line[1024];

	if (token && headers) {
		(void)snprintf(line, sizeof(line), "Authorization: %s", token);
		both = curl_slist_append(headers, line);
	}
	if (!both) {
		curl_slist_free_all(headers);
		return -ENOMEM;
	}
	curl_slist_free_all(http->headers);
	http->headers = both;
	return 0;
}

static void
settings_set(struct nam__http *http)
{
	const struct nam__store_options *options = &http->options;

	curl_easy_setopt(http->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(http->curl, CURLOPT_PROXY, "");
	curl_easy_setopt(http->curl, CURLOPT_WRITEFUNCTION, take_answer);
	curl_easy_setopt(http->curl, CURLOPT_XFERINFOFUNCTION, on_progress);
	curl_easy_setopt(http->curl, CURLOPT_XFERINFODATA, http);
	curl_easy_setopt(http->curl, CURLOPT_NOPROGRESS, 0L);
	curl_easy_setopt(http->curl, CURLOPT_ERRORBUFFER, http->why);
#if LIBCURL_VERSION_NUM >= 0x075700
	/* Files are read for each connection, so that an operator may replace them. */
	curl_easy_setopt(http->curl, CURLOPT_CA_CACHE_TIMEOUT, 0L);
#endif
	if (options->cacert_file) {
		curl_easy_setopt(http->curl, CURLOPT_CAINFO, options->cacert_file);
		/* Else the system's folder of authorities is trusted, too. */
		curl_easy_setopt(http->curl, CURLOPT_CAPATH, NULL);
	}
	if (options->cert_file)
		curl_easy_setopt(http->curl, CURLOPT_SSLCERT, options->cert_file);
	if (options->key_file)
		curl_easy_setopt(http->curl, CURLOPT_SSLKEY, options->key_file);
	/* Else OpenSSL asks for a passphrase at the terminal. */
	curl_easy_setopt(http->curl, CURLOPT_KEYPASSWD, "");
}

static int
files_check(const struct nam__http *http, struct nam_diag *diag)
{
	const struct nam__store_options *options = &http->options;
	const struct {
		const char *field, *path;
	} files[] = { { "cacert_file", options->cacert_file },
		{ "cert_file", options->cert_file }, { "key_file", options->key_file } };

	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		int rc = files[i].path && access(files[i].path, R_OK) ? -errno : 0;

		if (rc)
			return nam_diag_set(diag, rc, "%s: %s: %s", files[i].field,
				files[i].path, nam_err_text(rc));
		if (files[i].path && !http->tls)
			return nam_diag_set(diag, -EINVAL, "%s: http:// does not use it; write "
				"https:// in view_store", files[i].field);
	}
	return options->key_file && !options->cert_file ? nam_diag_set(diag, -EINVAL, "key_file: "
		"name its certificate with cert_file") : 0;
}

int
nam__http_open(const char *hosts, size_t bytes, uint16_t port,
	const struct nam__store_options *options, struct nam__http **ret_http,
	struct nam_diag *diag)
{
	struct nam__http *http = calloc(1, sizeof(*http));
	int rc = -ENOMEM;

	if (!http)
		goto no_memory;
	http->options = *options;
	http->options.timeout_ms = options->timeout_ms ?: NAM__STORE_TIMEOUT_MS;
	if (hosts_take(http, hosts, bytes, port)) {
		rc = nam_diag_set(diag, -EINVAL, "'%.*s' are not hosts: write "
			"http://HOST:PORT,HOST:PORT or https://HOST, and at most %u", (int)bytes,
			hosts, NAM__HTTP_HOSTS_MAX);
		goto free_http;
	}
	rc = files_check(http, diag);
	if (rc)
		goto free_http;
	rc = -ENOMEM;
	if (curl_global_init(CURL_GLOBAL_DEFAULT))
		goto free_http;
	http->curl = curl_easy_init();
	if (!http->curl || nam__http_authorize(http, NULL))
		goto clean_up;
	settings_set(http);
	*ret_http = http;
	return 0;
clean_up:
	curl_easy_cleanup(http->curl);
	curl_global_cleanup();
free_http:
	free(http);
no_memory:
	return rc == -ENOMEM ? nam_diag_set(diag, rc, "no memory for libcurl") : rc;
}

void
nam__http_close(struct nam__http *http)
{
	curl_slist_free_all(http->headers);
	curl_easy_cleanup(http->curl);
	curl_global_cleanup();
	free(http);
}
