/* SPDX-License-Identifier: Apache-2.0 */
/* records.c -- services that find, prepare and commit versions (txn/server/records.h). */
#include "common/rpc/records_rpc.h"
#include "txn/server/records.h"
#include "records.h"

static void *
find(void *arg, uint64_t at, uint32_t bytes)
{
	const struct nam__exchange *exchange = arg;

	return nam__memory_public_at(exchange->server, NAM_GADDR(at), bytes);
}

static void *
find_to_change(void *arg, uint64_t at, uint32_t bytes)
{
	return nam__memory_public_change(arg, NAM_GADDR(at), bytes);
}

static const struct nam_server *
server_of(const struct nam__server_records *records)
{
	return ((const struct nam__exchange *)records->arg)->server;
}

struct nam__server_records
nam__records_of(const struct nam__exchange *exchange, uint64_t store)
{
	return (struct nam__server_records){
		.find = exchange->type == NAM_RPC_RECORDS_GET ? find : find_to_change,
		.arg = (void *)(uintptr_t)exchange,
		.store = store,
		.locks = exchange->server->record_locks,
	};
}

bool
nam__records_request_ok(const struct nam_rpc_records_request *request, uint32_t flags)
{
	return request->store && request->count && request->count <= NAM_RPC_RECORDS_MAX &&
		request->stamps <= NAM_RPC_RECORDS_MAX && !(request->flags & ~flags) &&
		!request->reserved;
}

void
nam__records_answer(struct nam__exchange *exchange, const struct nam__server_records *records,
	uint64_t at, uint32_t mark, bool image)
{
	uint8_t *reply = (uint8_t *)exchange->reply + exchange->reply_bytes;
	struct nam_rpc_records_got got = { .at = at, .mark = mark,
		.timestamp = nam__server_version_timestamp(records, at) };
	uint32_t room = NAM_RPC_BODY_MAX - exchange->reply_bytes - (uint32_t)sizeof(got);
	uint32_t bytes = nam__version_at_bytes(NAM_GADDR(at));
	const void *version;

	/* Later records need room for an answer at the least. */
	room -= room > NAM_RPC_RECORDS_MAX * sizeof(got) ?
		NAM_RPC_RECORDS_MAX * (uint32_t)sizeof(got) : room;
	version = image && at && bytes <= room ? records->find(records->arg, at, bytes) : NULL;
	if (version) {
		got.image_bytes = bytes;
		memcpy(reply + sizeof(got), version, bytes);
	}
	memcpy(reply, &got, sizeof(got));
	exchange->reply_bytes += (uint32_t)sizeof(got) + got.image_bytes;
}

/* The latest of the timestamps.  A version too old to be known was replaced by the latest. */
static uint64_t
find_wanted(const struct nam__server_records *records, const struct nam__server_head *head,
	uint64_t timestamp, const uint64_t *stamps, uint32_t count)
{
	uint64_t best = 0, best_timestamp = 0;

	if (timestamp == NAM_RECORDS_LATEST)
		return head->latest;
	if (timestamp != NAM_RECORDS_OF_STAMPS) {
		stamps = &timestamp;
		count = 1;
	}
	for (uint32_t i = 0; i < count; i++) {
		uint64_t at = stamps[i] > best_timestamp ?
			nam__server_record_find(records, head, stamps[i],
				nam__records_now(server_of(records))) : 0;

		if (at) {
			best = at;
			best_timestamp = stamps[i];
		}
	}
	return best ? best : head->latest;
}

int
nam__service_records_get(struct nam__exchange *exchange)
{
	const struct nam_rpc_records_request *request = exchange->body;
	const struct nam__server_records records = nam__records_of(exchange, request->store);
	const struct nam_rpc_records_wanted *wanted = (const void *)(request + 1);
	const uint64_t *stamps = (const void *)(wanted + request->count);

	if (!nam__records_request_ok(request, NAM_RECORDS_STAMPS_ONLY) || exchange->body_bytes !=
		sizeof(*request) + request->count * sizeof(*wanted) + request->stamps * 8)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < request->count; i++) {
		struct nam__server_head *head;
		uint64_t at;
		int rc = nam__server_record_lock(&records, wanted[i].head, &head);

		if (rc)
			return rc;
		at = find_wanted(&records, head, wanted[i].timestamp, stamps, request->stamps);
		nam__records_answer(exchange, &records, at, at == head->latest,
			!(request->flags & NAM_RECORDS_STAMPS_ONLY));
		nam__server_record_unlock(&records, wanted[i].head);
	}
	return 0;
}

/* Take `bytes` of a request, or NULL. */
static const void *
take(struct nam__rest *rest, uint32_t bytes)
{
	const uint8_t *at = rest->bytes;

	if (bytes > rest->count)
		return NULL;
	rest->bytes += bytes;
	rest->count -= bytes;
	return at;
}

const struct nam_rpc_records_prepared *
nam__records_prepared_take(struct nam__rest *rest, const void **ret_image)
{
	const struct nam_rpc_records_prepared *one = take(rest, sizeof(*one));

	*ret_image = one ? take(rest, one->image_bytes) : NULL;
	if (!*ret_image || (one->image_bytes &&
			one->image_bytes != nam__version_at_bytes(NAM_GADDR(one->at))))
		return NULL;
	return one;
}

int
nam__records_prepare(const struct nam__server_records *records, struct nam__server_head *head,
	const struct nam_rpc_records_prepared *one, const void *image)
{
	struct nam_version *version = records->find(records->arg, one->at,
		nam__version_at_bytes(NAM_GADDR(one->at)));

	if (!version || head->latest == one->at)
		return -NAM_E_FABRIC_PROTOCOL;
	if (one->image_bytes) {
		/* If it has been prepared before, its link stays. */
		uint64_t previous = version->previous;

		memcpy(version, image, one->image_bytes);
		version->previous = previous;
	}
	return nam__server_record_prepare(records, head, one->at);
}

static int
prepare_one(const struct nam__server_records *records, const struct nam_rpc_records_prepared *one,
	const void *image, uint64_t *ret_latest)
{
	struct nam__server_head *head;
	int rc = nam__server_record_lock(records, one->head, &head);

	if (rc)
		return rc;
	rc = nam__records_prepare(records, head, one, image);
	*ret_latest = nam__server_version_timestamp(records, head->latest);
	nam__server_record_unlock(records, one->head);
	return rc;
}

/* R3: a client commits after it has prepared all. */
int
nam__service_records_prepare(struct nam__exchange *exchange)
{
	uint64_t *reply = exchange->reply;
	const struct nam_rpc_records_request *request = exchange->body;
	const struct nam__server_records records = nam__records_of(exchange, request->store);
	struct nam__rest rest = { (const uint8_t *)(request + 1),
		exchange->body_bytes - (uint32_t)sizeof(*request) };

	if (!nam__records_request_ok(request, 0) || request->stamps)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < request->count; i++) {
		const void *image;
		const struct nam_rpc_records_prepared *one = nam__records_prepared_take(&rest,
			&image);
		int rc;

		if (!one)
			return -NAM_E_FABRIC_PROTOCOL;
		rc = prepare_one(&records, one, image, &reply[i]);
		if (rc)
			return rc;
		nam_race_point("records.prepare_one");
	}
	if (rest.count)
		return -NAM_E_FABRIC_PROTOCOL;
	exchange->reply_bytes = request->count * 8;
	return 0;
}

static void
commit_one(const struct nam__server_records *records, struct nam__server_head *head,
	const struct nam_rpc_records_commit *one, uint32_t flags,
	struct nam_rpc_records_committed *reply)
{
	bool is_that = nam__server_version_timestamp(records, one->at) == one->timestamp;
	uint64_t at = is_that ? one->at : 0;
	uint32_t room = NAM_RPC_RECORDS_RETIRED_MAX - reply->count;

	if (flags & NAM_RECORDS_CLOSE)
		reply->count += nam__server_record_close(records, head, one->head,
			reply->retired + reply->count, room);
	else if (!(flags & NAM_RECORDS_ABORT))
		reply->count += nam__server_record_commit(records, head, at,
			nam__records_now(server_of(records)), reply->retired + reply->count, room);
	else if (nam__server_record_abort(records, head, at))
		reply->retired[reply->count++] = at;
}

/* R5: between two records, readers ask for the version that is not committed yet. */
int
nam__service_records_commit(struct nam__exchange *exchange)
{
	struct nam_rpc_records_committed *reply = exchange->reply;
	const struct nam_rpc_records_request *request = exchange->body;
	struct nam__server_records records = nam__records_of(exchange, request->store);
	const struct nam_rpc_records_commit *versions = (const void *)(request + 1);

	if (!nam__records_request_ok(request, NAM_RECORDS_ABORT | NAM_RECORDS_CLOSE) ||
		request->stamps || request->flags == (NAM_RECORDS_ABORT | NAM_RECORDS_CLOSE) ||
		exchange->body_bytes != sizeof(*request) + request->count * sizeof(*versions))
		return -NAM_E_FABRIC_PROTOCOL;
	*reply = (struct nam_rpc_records_committed){ 0 };
	records.closes = request->flags & NAM_RECORDS_CLOSE;
	for (uint32_t i = 0; i < request->count; i++) {
		struct nam__server_head *head;
		int rc = nam__server_record_lock(&records, versions[i].head, &head);

		if (rc == -NAM_E_DROPPED && request->flags & NAM_RECORDS_CLOSE)
			continue;
		if (rc)
			return rc;
		commit_one(&records, head, &versions[i], request->flags, reply);
		nam__server_record_unlock(&records, versions[i].head);
		nam_race_point("records.commit_one");
	}
	exchange->reply_bytes = (uint32_t)sizeof(*reply) + reply->count * 8;
	return 0;
}
