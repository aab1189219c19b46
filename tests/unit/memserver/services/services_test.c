/* SPDX-License-Identifier: Apache-2.0 */
/* services_test.c -- dispatch, info, catalog and membership, on good and on malformed requests. */
#include "tests/unit/memserver/server_fixture.h"

#include <errno.h>

/* ---- dispatch ----------------------------------------------------------------------------- */

static void
dispatch__too_broken_to_answer__IS_SILENT(void **state)
{
	struct fixture *f = *state;

	memset(f->request, 0xff, sizeof(f->request));
	for (uint32_t bytes = 0; bytes < 100; bytes++)
		assert_int_equal(nam__dispatch(f->server, &f->connection, f->request, bytes,
			f->reply), 0);
}

static void
dispatch__malformed_header__IS_ANSWERED_WITH_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_header *request = (struct nam_rpc_header *)(void *)f->request;
	const struct nam_rpc_header *reply = (const struct nam_rpc_header *)(void *)f->reply;

	nam_rpc_header_fill(request, NAM_RPC_PING, 5, 0, 100);
	assert_int_equal(nam__dispatch(f->server, &f->connection, request, 50, f->reply), 24);
	assert_int_equal(reply->status, -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(reply->id, 5);
	nam_rpc_header_fill(request, 999, 5, 0, 0);
	assert_int_equal(nam__dispatch(f->server, &f->connection, request, 24, f->reply), 24);
	assert_int_equal(reply->status, -NAM_E_FABRIC_PROTOCOL);
	/* A reply is not a request. */
	nam_rpc_header_fill(request, NAM_RPC_PING, 5, -NAM_E_NOINDEX, 0);
	assert_int_equal(nam__dispatch(f->server, &f->connection, request, 24, f->reply), 24);
	assert_int_equal(reply->status, -NAM_E_FABRIC_PROTOCOL);
	nam_rpc_header_fill(request, NAM_RPC_PING, 5, 0, 0);
	request->magic_version++;
	assert_int_equal(nam__dispatch(f->server, &f->connection, request, 24, f->reply), 24);
	assert_int_equal(reply->status, -NAM_E_FABRIC_VERSION);
}

static void
dispatch__random_bodies__NEVER_ANSWER_OUT_OF_BOUNDS(void **state)
{
	struct fixture *f = *state;
	struct nam_rng rng = nam_rng_seed(11);
	uint8_t body[NAM_RPC_BODY_MAX];

	for (int round = 0; round < 20000; round++) {
		uint16_t type = (uint16_t)(1 + nam_rng_below(&rng, NAM_RPC_TYPES_COUNT - 1));
		uint32_t bytes = (uint32_t)nam_rng_below(&rng, round % 2 ? 100 : sizeof(body) + 1);

		/* Small numbers come close to valid requests more often than large ones. */
		for (uint32_t i = 0; i < bytes; i++)
			body[i] = (uint8_t)(nam_rng_below(&rng, 4) ? 0 : nam_rng_next(&rng));
		(void)call(f, type, body, bytes);
		/* REGISTER may have succeeded; this connection has no client again. */
		nam__membership_detach(&f->server->membership, &f->connection);
		f->connection.session = false;
	}
}

static void
dispatch__catalog_server_only__IS_CLUSTER_ELSEWHERE(void **state)
{
	static const uint16_t types[] = { NAM_RPC_REGISTER, NAM_RPC_CLIENT_STATE,
		NAM_RPC_CATALOG_PUT, NAM_RPC_CATALOG_GET, NAM_RPC_CATALOG_LIST,
		NAM_RPC_CATALOG_DROP };
	struct fixture *f = *state;
	struct nam_rpc_region *region;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
		assert_int_equal(call(f, types[i], NULL, 0), -NAM_E_CLUSTER);
	assert_int_equal(call(f, NAM_RPC_PING, "hi", 2), 0);
	assert_int_equal(call(f, NAM_RPC_REGIONS,
		&(struct nam_rpc_regions_request){ 0 }, 8), 0);
	region = ((struct nam_rpc_regions_reply *)reply_body(f))->regions;
	assert_int_equal(region->id, 3 * NAM_REGIONS_PER_SERVER);
}

/* A one-way request is answered only if it fails; replies tell of those before. */
static void
dispatch__one_way__ANSWERED_by_later_replies(void **state)
{
	struct fixture *f = *state;
	uint8_t out[NAM_RPC_BYTES_MAX], in[NAM_RPC_BYTES_MAX];
	struct nam_rpc_header *request = (void *)out, *reply = (void *)in;

	nam_rpc_header_fill(request, NAM_RPC_PING, 5, 0, 0);
	request->one_way = NAM_RPC_ONE_WAY;
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(nam__dispatch(f->server, &f->connection, out, 24, in), 0);
	request->type = NAM_RPC_ECHO;
	assert_int_equal(nam__dispatch(f->server, &f->connection, out, 24, in), 24);
	assert_int_equal(reply->id, 5);
	assert_int_equal(reply->status, -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(reply->one_way, nam_rpc_one_way(301 % 256, 1));
	request->type = NAM_RPC_PING;
	request->one_way = 0;
	assert_int_equal(nam__dispatch(f->server, &f->connection, out, 24, in), 24);
	assert_int_equal(reply->status, 0);
	assert_int_equal(reply->one_way, nam_rpc_one_way(301 % 256, 1));
	/* No other bit has a meaning. */
	for (unsigned bit = 0; bit < 16; bit++) {
		if (1u << bit == NAM_RPC_ONE_WAY)
			continue;
		request->one_way = (uint16_t)(1u << bit);
		assert_int_equal(nam__dispatch(f->server, &f->connection, out, 24, in), 24);
		assert_int_equal(reply->status, -NAM_E_FABRIC_PROTOCOL);
	}
}

/* ---- info --------------------------------------------------------------------------------- */

static void
ping__any_body__IS_ECHOED(void **state)
{
	struct fixture *f = *state;
	uint8_t body[NAM_RPC_BODY_MAX];

	memset(body, 0x5a, sizeof(body));
	assert_int_equal(call(f, NAM_RPC_PING, NULL, 0), 0);
	assert_int_equal(f->reply_bytes, 0);
	assert_int_equal(call(f, NAM_RPC_PING, body, sizeof(body)), 0);
	assert_int_equal(f->reply_bytes, sizeof(body));
	assert_memory_equal(reply_body(f), body, sizeof(body));
}

static void
echo__any_length__ITS_BYTES_and_too_many_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_echo_request request = { 100, 250 };
	const uint8_t *reply = reply_body(f);

	assert_int_equal(call(f, NAM_RPC_ECHO, &request, sizeof(request)), 0);
	assert_int_equal(f->reply_bytes, 100);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(reply[i], (250 + i) & 0xff);
	request.reply_bytes = NAM_RPC_BODY_MAX;
	assert_int_equal(call(f, NAM_RPC_ECHO, &request, sizeof(request)), 0);
	request.reply_bytes = NAM_RPC_BODY_MAX + 1;
	assert_int_equal(call(f, NAM_RPC_ECHO, &request, sizeof(request)), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(call(f, NAM_RPC_ECHO, &request, 7), -NAM_E_FABRIC_PROTOCOL);
}

static void
regions__from_any_start__TELLS_THE_REST(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_regions_request request = { 0 };
	const struct nam_rpc_regions_reply *reply = reply_body(f);

	assert_int_equal(call(f, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	assert_int_equal(reply->total, 2);
	assert_int_equal(reply->count, 2);
	assert_int_equal(reply->regions[1].id, 1);
	assert_int_equal(reply->regions[1].bytes, 512 << 10);
	assert_int_not_equal(reply->regions[0].rkey, reply->regions[1].rkey);
	request.first = 1;
	assert_int_equal(call(f, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	assert_int_equal(reply->count, 1);
	assert_int_equal(reply->regions[0].id, 1);
	request.first = UINT32_MAX;
	assert_int_equal(call(f, NAM_RPC_REGIONS, &request, sizeof(request)), 0);
	assert_int_equal(reply->count, 0);
	request.incarnation = 1;
	assert_int_equal(call(f, NAM_RPC_REGIONS, &request, sizeof(request)),
		-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(call(f, NAM_RPC_REGIONS, &request, 7), -NAM_E_FABRIC_PROTOCOL);
}

static void
status__asked__TELLS_WHAT_THE_SERVER_IS(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_status_reply *reply = reply_body(f);
	const struct nam_rpc_status_request wrong[] = { { NAM_SERVICES_MAX, 0 }, { 0, 1 } };

	assert_int_equal(call(f, NAM_RPC_STATUS, NULL, 0), -NAM_E_FABRIC_PROTOCOL);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_int_equal(call(f, NAM_RPC_STATUS, &wrong[i], sizeof(wrong[i])),
			-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(call_status(f), 0);
	/* STATUS has had requests; its figures are without this one. */
	assert_int_equal(f->reply_bytes, NAM_RPC_STATUS_HEAD_BYTES +
		sizeof(struct nam_rpc_status_service));
	assert_int_equal(reply->next, 0);
	assert_int_equal(reply->memory_bytes, 1 << 20);
	assert_int_equal(reply->page_bytes, 4096);
	assert_int_equal(reply->pid, getpid());
	assert_int_equal(reply->regions, 2);
	assert_int_equal(reply->handlers, 1);
	assert_true(reply->boot);
	assert_true(reply->version[0]);
}

/* All that there is room for, and the rest when it is asked for: each service once. */
static void
status__of_every_type__COMES_IN_TWO_MESSAGES(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_status_request request = { .first = 0 };
	const struct nam_rpc_status_reply *reply = reply_body(f);
	struct nam_rpc_status_service one;
	uint32_t wanted = 0;

	for (uint32_t i = 0; i < NAM_SERVICES_MAX; i++)
		f->server->handlers[0].services[i].requests = 1000 + i;
	for (unsigned message = 0; message < 2; message++) {
		assert_int_equal(call(f, NAM_RPC_STATUS, &request, sizeof(request)), 0);
		for (uint32_t at = NAM_RPC_STATUS_HEAD_BYTES; at < f->reply_bytes;
			at += (uint32_t)sizeof(one)) {
			memcpy(&one, (const uint8_t *)reply + at, sizeof(one));
			assert_int_equal(one.service, wanted);
			assert_true(one.figures.requests >= 1000 + wanted);
			wanted++;
		}
		assert_int_equal(reply->next, message ? 0 : wanted);
		request.first = reply->next;
	}
	assert_int_equal(wanted, NAM_SERVICES_MAX);
}

/* ---- catalog ------------------------------------------------------------------------------ */

static int
catalog(struct fixture *f, uint16_t type, const char *name, uint64_t superblock)
{
	struct nam_rpc_catalog_entry request = { .superblock = superblock };

	(void)snprintf(request.name, sizeof(request.name), "%s", name);
	return call(f, type, &request, sizeof(request));
}

static void
catalog__put_get_drop__AGREE(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_catalog_entry *entry = reply_body(f);

	assert_int_equal(catalog(f, NAM_RPC_CATALOG_GET, "a", 0), -NAM_E_NOINDEX);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_PUT, "a", 64), 0);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_PUT, "a", 65), -NAM_E_INDEX_EXISTS);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_GET, "a", 0), 0);
	assert_int_equal(f->reply_bytes, sizeof(*entry));
	assert_int_equal(entry->superblock, 64);
	assert_string_equal(entry->name, "a");
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_DROP, "a", 65), -NAM_E_NOINDEX);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_DROP, "a", 64), 0);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_DROP, "a", 64), -NAM_E_NOINDEX);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_GET, "a", 0), -NAM_E_NOINDEX);
}

static void
catalog__several_names__COME_AND_GO_TOGETHER(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_catalog_entry names[] = { { "s", 64 }, { "s.keys", 65 }, { "a", 66 } };

	assert_int_equal(catalog(f, NAM_RPC_CATALOG_PUT, "a", 1), 0);
	assert_int_equal(call(f, NAM_RPC_CATALOG_PUT, names, sizeof(names)),
		-NAM_E_INDEX_EXISTS);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_GET, "s", 0), -NAM_E_NOINDEX);
	assert_int_equal(call(f, NAM_RPC_CATALOG_PUT, names, 2 * sizeof(names[0])), 0);
	assert_int_equal(call(f, NAM_RPC_CATALOG_DROP, names, sizeof(names)), -NAM_E_NOINDEX);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_GET, "s", 0), 0);
	assert_int_equal(call(f, NAM_RPC_CATALOG_DROP, names, 2 * sizeof(names[0])), 0);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_GET, "s", 0), -NAM_E_NOINDEX);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_GET, "s.keys", 0), -NAM_E_NOINDEX);
	/* The same name twice. */
	names[1] = names[0];
	assert_int_equal(call(f, NAM_RPC_CATALOG_PUT, names, 2 * sizeof(names[0])),
		-NAM_E_INDEX_EXISTS);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_PUT, "s", 64), 0);
	assert_int_equal(call(f, NAM_RPC_CATALOG_DROP, names, 2 * sizeof(names[0])), 0);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_GET, "a", 0), 0);
}

static void
catalog__malformed__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_catalog_entry request;

	assert_int_equal(catalog(f, NAM_RPC_CATALOG_PUT, "", 64), -NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_PUT, "a", 0), -NAM_E_FABRIC_PROTOCOL);
	memset(&request, 'x', sizeof(request));
	for (uint16_t type = NAM_RPC_CATALOG_PUT; type <= NAM_RPC_CATALOG_DROP; type++) {
		for (uint32_t bytes = 0; bytes <= sizeof(request); bytes++)
			assert_int_equal(call(f, type, &request, bytes), -NAM_E_FABRIC_PROTOCOL);
	}
}

static void
catalog__full__IS_LIMIT_AND_LISTS_IN_ORDER(void **state)
{
	struct fixture *f = *state;
	struct nam_rpc_catalog_list_request request = { "" };
	const struct nam_rpc_catalog_list_reply *reply = reply_body(f);
	uint32_t n = 0;
	char name[16];

	for (uint32_t i = 0; i < NAM__CATALOG_MAX; i++) {
		(void)snprintf(name, sizeof(name), "index-%04x", i * 40503u % NAM__CATALOG_MAX);
		assert_int_equal(catalog(f, NAM_RPC_CATALOG_PUT, name, i + 1), 0);
	}
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_PUT, "one more", 1), -NAM_E_LIMIT);
	for (;;) {
		assert_int_equal(call(f, NAM_RPC_CATALOG_LIST, &request, sizeof(request)), 0);
		if (!reply->count)
			break;
		for (uint32_t i = 0; i < reply->count; i++) {
			(void)snprintf(name, sizeof(name), "index-%04x", n++);
			assert_string_equal(reply->entries[i].name, name);
		}
		memcpy(request.after, reply->entries[reply->count - 1].name,
			sizeof(request.after));
	}
	assert_int_equal(n, NAM__CATALOG_MAX);
	for (uint32_t i = 0; i < NAM__CATALOG_MAX; i++) {
		(void)snprintf(name, sizeof(name), "index-%04x",
			i * 40503u % NAM__CATALOG_MAX);
		assert_int_equal(catalog(f, NAM_RPC_CATALOG_DROP, name, i + 1), 0);
	}
	assert_int_equal(catalog(f, NAM_RPC_CATALOG_PUT, "one more", 1), 0);
}

/* ---- membership --------------------------------------------------------------------------- */

static int
enrol(struct fixture *f, struct nam__connection *connection, const char *name)
{
	struct nam_rpc_register_request request = { .pid = 77 };

	(void)snprintf(request.name, sizeof(request.name), "%s", name);
	return call_over(f, connection, NAM_RPC_REGISTER, &request, sizeof(request));
}

static uint32_t
client_state(struct fixture *f, uint16_t id, uint16_t incarnation)
{
	const struct nam_rpc_client_state_request request = { id, incarnation, 0 };

	assert_int_equal(call(f, NAM_RPC_CLIENT_STATE, &request, sizeof(request)), 0);
	return ((struct nam_rpc_client_state_reply *)reply_body(f))->state;
}

static void
leave(struct fixture *f, struct nam__connection *connection)
{
	connection->handler = &f->server->handlers[0];
	nam__membership_detach(&f->server->membership, connection);
	memset(connection, 0, sizeof(*connection));
}

static void
register__session_connection_closes__CLIENT_IS_DEAD_AND_ITS_SLOT_ZERO(void **state)
{
	struct fixture *f = *state;
	const struct nam_rpc_register_reply *reply = reply_body(f);
	const struct nam_rpc_client_state_reply *who = reply_body(f);
	struct nam__connection session = { 0 };
	uint64_t *slot, *epoch;
	uint16_t id, incarnation;

	assert_int_equal(enrol(f, &session, "tester"), 0);
	id = reply->client_id;
	incarnation = reply->incarnation;
	assert_in_range(id, 1, NAM_CLIENTS_MAX - 1);
	epoch = (uint64_t *)((uint8_t *)f->server->memory.mrs[0].base +
		nam_gaddr_offset((struct nam_gaddr){ reply->epoch_word }));
	slot = (uint64_t *)((uint8_t *)f->server->memory.mrs[0].base +
		nam_gaddr_offset((struct nam_gaddr){ reply->epoch_slots })) + id;
	assert_int_equal(*epoch, 1);
	assert_int_equal(*slot, 0);
	*slot = 5;
	assert_int_equal(client_state(f, id, incarnation), NAM_CLIENT_ALIVE);
	assert_int_equal(who->pid, 77);
	assert_string_equal(who->name, "tester");
	assert_int_equal(client_state(f, id, (uint16_t)(incarnation + 1)), NAM_CLIENT_UNKNOWN);
	assert_int_equal(client_state(f, (uint16_t)(id + 1), 1), NAM_CLIENT_UNKNOWN);
	assert_int_equal(client_state(f, (uint16_t)(id + 1), 0), NAM_CLIENT_UNKNOWN);
	assert_int_equal(client_state(f, id, 0), NAM_CLIENT_ALIVE);
	assert_string_equal(who->name, "tester");
	leave(f, &session);
	assert_int_equal(client_state(f, id, incarnation), NAM_CLIENT_DEAD);
	assert_string_equal(who->name, "tester");
	assert_int_equal(*slot, 0);
}

static void
register__others_of_the_client_still_open__KEEPS_THE_SLOT_UNTIL_THEY_ARE_GONE(void **state)
{
	struct fixture *f = *state;
	struct nam__connection session = { 0 }, worker = { 0 }, late = { 0 };
	uint64_t *slot;

	assert_int_equal(enrol(f, &session, "tester"), 0);
	worker.client_id = late.client_id = session.client_id;
	worker.incarnation = late.incarnation = session.incarnation;
	slot = f->server->membership.epoch_slots + session.client_id;
	assert_int_equal(nam__membership_attach(&f->server->membership, &worker), 0);
	*slot = 5;
	leave(f, &session);
	assert_int_equal(*slot, 5);
	/* A client that was declared dead does not join again. */
	assert_int_equal(nam__membership_attach(&f->server->membership, &late), -NAM_E_FENCED);
	leave(f, &worker);
	assert_int_equal(*slot, 0);
}

static void
register__ids__GO_ROUND_WITH_NEW_INCARNATIONS(void **state)
{
	struct fixture *f = *state;
	struct nam__connection *connections = calloc(NAM_CLIENTS_MAX, sizeof(*connections));
	struct nam__connection extra = { 0 };

	for (uint32_t i = 1; i < NAM_CLIENTS_MAX; i++) {
		assert_int_equal(enrol(f, &connections[i], "x"), 0);
		assert_int_equal(connections[i].client_id, i);
		assert_int_equal(connections[i].incarnation, 1);
	}
	assert_int_equal(enrol(f, &extra, "x"), -NAM_E_LIMIT);
	leave(f, &connections[5]);
	leave(f, &connections[9]);
	assert_int_equal(enrol(f, &connections[5], "x"), 0);
	assert_int_equal(connections[5].client_id, 5);
	assert_int_equal(connections[5].incarnation, 2);
	assert_int_equal(client_state(f, 5, 1), NAM_CLIENT_DEAD);
	leave(f, &connections[5]);
	/* 5 has just been used: 9 has been free for longer. */
	assert_int_equal(enrol(f, &connections[9], "x"), 0);
	assert_int_equal(connections[9].client_id, 9);
	assert_int_equal(connections[9].incarnation, 2);
	free(connections);
}

static void
register__incarnation_wraps__SKIPS_ZERO(void **state)
{
	struct fixture *f = *state;
	struct nam__connection connection = { 0 };

	f->server->membership.members[1].incarnation = UINT16_MAX;
	assert_int_equal(enrol(f, &connection, "x"), 0);
	assert_int_equal(connection.client_id, 1);
	assert_int_equal(connection.incarnation, 1);
	assert_int_equal(client_state(f, 1, UINT16_MAX), NAM_CLIENT_DEAD);
	assert_int_equal(client_state(f, 1, 2), NAM_CLIENT_UNKNOWN);
}

static void
register__malformed_or_twice__IS_PROTOCOL(void **state)
{
	struct fixture *f = *state;
	struct nam__connection connection = { 0 };
	struct nam_rpc_register_request request;
	const struct nam_rpc_client_state_request bad[] = { { 0, 1, 0 }, { 4096, 1, 0 },
		{ 1, 1, 1 } };

	memset(&request, 'x', sizeof(request));
	for (uint32_t bytes = 0; bytes <= sizeof(request); bytes++)
		assert_int_equal(call_over(f, &connection, NAM_RPC_REGISTER, &request, bytes),
			-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(enrol(f, &connection, "x"), 0);
	assert_int_equal(enrol(f, &connection, "x"), -NAM_E_FABRIC_PROTOCOL);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(call(f, NAM_RPC_CLIENT_STATE, &bad[i], sizeof(bad[i])),
			-NAM_E_FABRIC_PROTOCOL);
	assert_int_equal(call(f, NAM_RPC_CLIENT_STATE, bad, 7), -NAM_E_FABRIC_PROTOCOL);
}

static int
setup_3(void **state)
{
	return fixture_setup_id(state, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(dispatch__too_broken_to_answer__IS_SILENT),
		TEST(dispatch__malformed_header__IS_ANSWERED_WITH_PROTOCOL),
		TEST(dispatch__random_bodies__NEVER_ANSWER_OUT_OF_BOUNDS),
		cmocka_unit_test_setup_teardown(dispatch__catalog_server_only__IS_CLUSTER_ELSEWHERE,
			setup_3, fixture_teardown),
		TEST(dispatch__one_way__ANSWERED_by_later_replies),
		TEST(ping__any_body__IS_ECHOED),
		TEST(echo__any_length__ITS_BYTES_and_too_many_PROTOCOL),
		TEST(regions__from_any_start__TELLS_THE_REST),
		TEST(status__asked__TELLS_WHAT_THE_SERVER_IS),
		TEST(status__of_every_type__COMES_IN_TWO_MESSAGES),
		TEST(catalog__put_get_drop__AGREE),
		TEST(catalog__several_names__COME_AND_GO_TOGETHER),
		TEST(catalog__malformed__IS_PROTOCOL),
		TEST(catalog__full__IS_LIMIT_AND_LISTS_IN_ORDER),
		TEST(register__session_connection_closes__CLIENT_IS_DEAD_AND_ITS_SLOT_ZERO),
		TEST(register__others_of_the_client_still_open__KEEPS_THE_SLOT_UNTIL_THEY_ARE_GONE),
		TEST(register__ids__GO_ROUND_WITH_NEW_INCARNATIONS),
		TEST(register__incarnation_wraps__SKIPS_ZERO),
		TEST(register__malformed_or_twice__IS_PROTOCOL),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
