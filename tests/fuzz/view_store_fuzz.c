/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view_store_fuzz.c -- what etcd's hosts answer to a steward: status, JSON, base64, a record.
 *
 * input	for each request: how it ends, the length of the answer, the answer
 */
#include <curl/curl.h>

#include "fuzz_input.h"

/* Only where an answer goes is of use. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#define curl_easy_setopt(curl, option, value)                                                      \
	((option) == CURLOPT_WRITEDATA ? (void)(answer_of = (void *)(uintptr_t)(value)) : (void)0)
#define curl_easy_getinfo(curl, what, ret) ((void)(*(ret) = status_of))
#define curl_easy_perform fuzz_perform
#define nam_sleep_ns fuzz_sleep_ns
static void *answer_of;
static long status_of;
static CURLcode fuzz_perform(CURL *curl);
static void fuzz_sleep_ns(uint64_t ns);
#include "steward/etcd.c"
#undef malformed
#include "steward/http.c"
#include "steward/record_json.c"

#define CALLS_MAX 6u
#define LEASE_MS 1000u

static struct fuzz_input answers;

static void
fuzz_sleep_ns(uint64_t ns)
{
	(void)ns;
}

static CURLcode
fuzz_perform(CURL *curl)
{
	static const long statuses[] = { 200, 200, 200, 401, 404, 503 };
	static const CURLcode codes[] = { CURLE_OK, CURLE_OK, CURLE_OK, CURLE_SEND_ERROR,
		CURLE_PEER_FAILED_VERIFICATION, CURLE_SSL_CONNECT_ERROR, CURLE_URL_MALFORMAT,
		CURLE_OPERATION_TIMEDOUT };
	unsigned how = fuzz_u8(&answers);
	uint16_t bytes = fuzz_u16(&answers);
	char *text;

	(void)curl;
	/* No host of those that are left does it. */
	if (!answers.left)
		return CURLE_URL_MALFORMAT;
	if (bytes > answers.left)
		bytes = (uint16_t)answers.left;
	text = fuzz_memory(bytes);
	fuzz_take(&answers, text, bytes);
	if (bytes && take_answer(text, 1, bytes, answer_of) != bytes)
		abort();
	free(text);
	status_of = statuses[how % 6];
	return codes[how / 6 % 8];
}

/* A record that was taken is the same once it has been written and read again. */
static void
expect_same(const struct nam__record *record)
{
	struct nam__record again = { 0 };
	char *text = nam__record_print(record), *copy;

	if (!text || nam__record_parse(text, &again))
		abort();
	copy = nam__record_print(&again);
	if (!copy || strcmp(text, copy) != 0)
		abort();
	free(copy);
	free(text);
	free(again.view);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const struct nam__store_options options = { .timeout_ms = 1000 };
	struct nam__record record = { 0 };
	struct nam__backend *backend;
	struct nam_diag diag = { "" };
	uint64_t term = 0;

	answers = (struct fuzz_input){ data, bytes };
	if (nam__etcd_open("http://10.0.0.1,10.0.0.2/test", &options, &backend, &diag))
		abort();
	for (unsigned i = 0; i < CALLS_MAX && answers.left; i++) {
		switch (fuzz_u8(&answers) % 4) {
		case 0:
			free(record.view);
			record.view = NULL;
			if (!backend->ops->read(backend, &record, &diag) && record.view)
				expect_same(&record);
			break;
		case 1:
			if (record.view)
				(void)!backend->ops->write(backend, &record, term, &diag);
			break;
		case 2:
			if (!term && backend->ops->acquire(backend, LEASE_MS, &term, &diag))
				term = 0;
			break;
		default:
			if (term && backend->ops->renew(backend, &diag))
				term = 0;
		}
	}
	backend->ops->release(backend);
	backend->ops->close(backend);
	free(record.view);
	return 0;
}
