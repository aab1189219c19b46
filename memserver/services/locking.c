/* SPDX-License-Identifier: Apache-2.0 */
/* locking.c -- services that lock records (txn/server/locks.h).  A locked record is refused. */
#include "common/rpc/locking_rpc.h"
#include "txn/server/locks.h"
#include "records.h"

/* A request, and its sender. */
struct asked {
	const struct nam_rpc_locking_request *request;
	struct nam__server_records records;
	struct nam__server_requester requester;
	uint32_t count;
};

/* The request's entries of `entry_bytes` each (0: of any length); NULL: it is malformed. */
static const void *
begin(struct nam__exchange *exchange, uint32_t flags, size_t entry_bytes, struct asked *ret)
{
	const struct nam_rpc_locking_request *request = exchange->body;
	const struct nam__connection *connection = exchange->connection;
	struct nam_server *server = exchange->server;

	if (request->reserved || request->request.stamps ||
		!nam__records_request_ok(&request->request, flags))
		return NULL;
	*ret = (struct asked){
		.request = request,
		.records = nam__records_of(exchange, request->request.store),
		.requester = { request->request.timestamp, request->birth_us,
			nam__records_now(server) },
		.count = request->request.count,
	};
	ret->records.finished = server->finished;
	nam__finished_add(&server->finished[connection->client_id], connection->incarnation,
		request->finished_us);
	return entry_bytes && exchange->body_bytes != sizeof(*request) + ret->count * entry_bytes ?
		NULL : request + 1;
}

/* Lock and read record i of them. */
static int
share(struct nam__exchange *exchange, const struct asked *asked, uint64_t at,
	struct nam_rpc_locking_reply *reply, uint32_t *ret_generation)
{
	struct nam__server_head *head;
	int rc = nam__server_record_lock(&asked->records, at, &head);

	if (rc)
		return rc;
	reply->refusal = nam__server_lock_shared(head, &asked->requester, &reply->timestamp);
	reply->head = at;
	*ret_generation = head->generation;
	if (!reply->refusal)
		nam__records_answer(exchange, &asked->records, head->latest, head->generation,
			true);
	nam__server_record_unlock(&asked->records, at);
	return 0;
}

/* L2: all are locked as the reply leaves, or none is. */
int
nam__service_locking_read(struct nam__exchange *exchange)
{
	uint32_t generations[NAM_RPC_RECORDS_MAX], i;
	struct nam_rpc_locking_reply reply = { 0 };
	const uint64_t *heads;
	struct asked asked;
	int rc = 0;

	heads = begin(exchange, 0, sizeof(*heads), &asked);
	if (!heads)
		return -NAM_E_FABRIC_PROTOCOL;
	exchange->reply_bytes = sizeof(reply);
	for (i = 0; i < asked.count && !rc && !reply.refusal; i++) {
		rc = share(exchange, &asked, heads[i], &reply, &generations[i]);
		nam_race_point("locking.read_one");
	}
	if (rc || reply.refusal) {
		while (--i > 0) {
			struct nam__server_head *head;

			if (nam__server_record_lock(&asked.records, heads[i - 1], &head))
				continue;
			(void)nam__server_unlock_shared(head, generations[i - 1]);
			nam__server_record_unlock(&asked.records, heads[i - 1]);
		}
		exchange->reply_bytes = sizeof(reply);
	}
	memcpy(exchange->reply, &reply, sizeof(reply));
	return rc;
}

/* L2: a lock that was taken away has another generation. */
int
nam__service_locking_release(struct nam__exchange *exchange)
{
	const struct nam_rpc_locking_release *locks;
	struct asked asked;
	uint64_t lost = 0;

	locks = begin(exchange, 0, sizeof(*locks), &asked);
	if (!locks)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < asked.count; i++) {
		struct nam__server_head *head;
		int rc = nam__server_record_lock(&asked.records, locks[i].head, &head);

		if (rc)
			return rc;
		lost += !nam__server_unlock_shared(head, (uint32_t)locks[i].generation) &&
			NAM_GUARD(RECORD_LEASE);
		nam__server_record_unlock(&asked.records, locks[i].head);
	}
	memcpy(exchange->reply, &lost, sizeof(lost));
	exchange->reply_bytes = sizeof(lost);
	return 0;
}

static void
forget(const struct asked *asked, struct nam__server_head *head, uint64_t at)
{
	(void)nam__server_record_abort(&asked->records, head, at);
	nam__server_unlock_exclusive(head);
}

static int
prepare_one(const struct asked *asked, const struct nam_rpc_records_prepared *one,
	const void *image, struct nam_rpc_locking_reply *reply)
{
	struct nam__server_head *head;
	int rc = nam__server_record_lock(&asked->records, one->head, &head);

	if (rc)
		return rc;
	reply->head = one->head;
	reply->refusal = nam__server_lock_exclusive(&asked->records, head, &asked->requester,
		&reply->timestamp);
	if (!reply->refusal) {
		rc = nam__records_prepare(&asked->records, head, one, image);
		if (rc)
			nam__server_unlock_exclusive(head);
	}
	nam__server_record_unlock(&asked->records, one->head);
	return rc;
}

/* L3: if one is refused, none stays prepared. */
int
nam__service_locking_prepare(struct nam__exchange *exchange)
{
	struct nam_rpc_records_version done[NAM_RPC_RECORDS_MAX];
	struct nam_rpc_locking_reply reply = { 0 };
	struct nam__rest rest;
	struct asked asked;
	uint32_t count = 0;
	int rc = 0;

	rest.bytes = begin(exchange, 0, 0, &asked);
	rest.count = exchange->body_bytes - (uint32_t)sizeof(*asked.request);
	if (!rest.bytes || !asked.requester.timestamp)
		return -NAM_E_FABRIC_PROTOCOL;
	while (count < asked.count && !rc && !reply.refusal) {
		const void *image;
		const struct nam_rpc_records_prepared *one = nam__records_prepared_take(&rest,
			&image);

		rc = one ? prepare_one(&asked, one, image, &reply) : -NAM_E_FABRIC_PROTOCOL;
		if (!rc && !reply.refusal)
			done[count++] = (struct nam_rpc_records_version){ one->head, one->at };
		nam_race_point("locking.prepare_one");
	}
	if (!rc && !reply.refusal && rest.count)
		rc = -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < count && (rc || reply.refusal); i++) {
		struct nam__server_head *head;

		if (nam__server_record_lock(&asked.records, done[i].head, &head))
			continue;
		if (head->writer == asked.requester.timestamp)
			forget(&asked, head, done[i].at);
		nam__server_record_unlock(&asked.records, done[i].head);
	}
	memcpy(exchange->reply, &reply, sizeof(reply));
	exchange->reply_bytes = sizeof(reply);
	return rc;
}

static void
end_one(const struct asked *asked, const struct nam_rpc_records_version *version,
	struct nam__server_head *head, uint32_t number, struct nam_rpc_locking_ended *reply)
{
	bool terminate = asked->request->request.flags & NAM_LOCKING_TERMINATE;
	bool is_writer = head->writer == asked->requester.timestamp;

	if (asked->request->request.flags & NAM_LOCKING_ABORT) {
		if (is_writer && (!terminate || !head->until_ns))
			forget(asked, head, version->at);
		return;
	}
	/* L3: a writer whose lock was sealed does not commit. */
	if ((terminate || NAM_GUARD(RECORD_SEALED)) && version->at &&
		!nam__server_lock_is(head, asked->requester.timestamp, terminate)) {
		reply->refused |= 1u << number;
		return;
	}
	reply->count += nam__server_record_commit(&asked->records, head, version->at,
		asked->requester.now_ns, reply->retired + reply->count,
		NAM_RPC_RECORDS_RETIRED_MAX - reply->count);
	if (version->at && is_writer)
		nam__server_unlock_exclusive(head);
}

/* L3: END of one record follows SEAL or PREPARE of all. */
int
nam__service_locking_end(struct nam__exchange *exchange)
{
	struct nam_rpc_locking_ended *reply = exchange->reply;
	const struct nam_rpc_records_version *versions;
	struct asked asked;

	versions = begin(exchange, NAM_LOCKING_ABORT | NAM_LOCKING_TERMINATE, sizeof(*versions),
		&asked);
	if (!versions)
		return -NAM_E_FABRIC_PROTOCOL;
	*reply = (struct nam_rpc_locking_ended){ 0 };
	for (uint32_t i = 0; i < asked.count; i++) {
		struct nam__server_head *head;
		int rc = nam__server_record_lock(&asked.records, versions[i].head, &head);

		if (rc)
			return rc;
		end_one(&asked, &versions[i], head, i, reply);
		nam__server_record_unlock(&asked.records, versions[i].head);
		nam_race_point("locking.end_one");
	}
	exchange->reply_bytes = (uint32_t)sizeof(*reply) + reply->count * 8;
	return 0;
}

/* A prepared version's list of siblings: so many bytes. */
static uint32_t
siblings_copy(const struct asked *asked, uint64_t at, void *ret_siblings)
{
	const uint32_t bytes = nam__version_at_bytes(NAM_GADDR(at));
	const struct nam_version *version = at ? asked->records.find(asked->records.arg, at,
		bytes) : NULL;
	uint32_t metadata_bytes = version ? version->metadata_bytes : 0;

	if (!version || metadata_bytes > NAM_RPC_RECORDS_MAX * sizeof(struct nam_version_sibling) ||
		metadata_bytes + sizeof(*version) > bytes)
		return 0;
	memcpy(ret_siblings, nam__version_metadata(version), metadata_bytes);
	return metadata_bytes;
}

int
nam__service_locking_seal(struct nam__exchange *exchange)
{
	struct nam_rpc_locking_sealed *reply = exchange->reply;
	const uint64_t *heads;
	struct asked asked;

	heads = begin(exchange, NAM_LOCKING_SIBLINGS, sizeof(*heads), &asked);
	if (!heads || (asked.request->request.flags && asked.count != 1))
		return -NAM_E_FABRIC_PROTOCOL;
	exchange->reply_bytes = asked.count * (uint32_t)sizeof(*reply);
	for (uint32_t i = 0; i < asked.count; i++) {
		struct nam__server_head *head;
		int rc = nam__server_record_lock(&asked.records, heads[i], &head);

		if (rc)
			return rc;
		reply[i] = (struct nam_rpc_locking_sealed){ 0 };
		reply[i].state = nam__server_lock_seal(&asked.records, head,
			asked.requester.timestamp, &reply[i].at);
		if (asked.request->request.flags)
			reply[i].metadata_bytes = siblings_copy(&asked, reply[i].at, &reply[i + 1]);
		exchange->reply_bytes += reply[i].metadata_bytes;
		nam__server_record_unlock(&asked.records, heads[i]);
	}
	return 0;
}
