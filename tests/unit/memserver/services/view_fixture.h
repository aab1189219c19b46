/* SPDX-License-Identifier: Apache-2.0 */
/* view_fixture.h -- requests about the view, handed to a memory server. */
#ifndef NAM_TESTS_VIEW_FIXTURE_H
#define NAM_TESTS_VIEW_FIXTURE_H

#include "tests/unit/memserver/server_fixture.h"

#include "common/rpc/fence_rpc.h"
#include "common/rpc/view_rpc.h"

#define SUCCESSOR 5000u			/* its boot */

struct draft {
	_Alignas(8) uint8_t body[NAM_RPC_BODY_MAX];
};

static inline struct nam_rpc_view_request *
request_of(struct draft *draft)
{
	return (struct nam_rpc_view_request *)(void *)draft->body;
}

static inline const struct nam_rpc_view_reply *
view_of(struct fixture *f)
{
	return reply_body(f);
}

static inline struct nam_view_member
member(const struct fixture *f, uint32_t id)
{
	struct nam_view_member ret = { .id = (uint16_t)id, .boot = 1000 + id };

	if (id == f->server->options.id)
		ret.boot = f->server->boot;
	(void)snprintf(ret.address, sizeof(ret.address), "shm:/run/nam/%u", id);
	return ret;
}

/* A page of a view of `total` members, whose ids are 0, 1, and so on. */
static inline void
page_fill(const struct fixture *f, struct draft *draft, uint16_t step, uint32_t total,
	uint32_t first, uint32_t count)
{
	memset(draft, 0, sizeof(*draft));
	*request_of(draft) = (struct nam_rpc_view_request){
		.step = step, .first = first, .count = count, .view.count = total,
	};
	for (uint32_t i = 0; i < count && i < NAM_RPC_VIEW_MEMBERS; i++)
		request_of(draft)->members[i] = member(f, first + i);
}

/* A copy of the view `number` of the lead whose boot is `boot`. */
static inline void
copy_fill(const struct fixture *f, struct draft *draft, uint64_t number, uint64_t boot,
	uint32_t total, uint32_t first, uint32_t count)
{
	page_fill(f, draft, NAM_RPC_VIEW_COPY, total, first, count);
	request_of(draft)->view.number = number;
	request_of(draft)->view.lead_boot = boot;
	for (uint32_t i = 0; i < count; i++) {
		struct nam_view_member *one = &request_of(draft)->members[i];

		one->state = NAM_VIEW_UP;
		one->since = one->renewed = 1;
		if (one->id == 0)
			one->boot = boot;
		one->memory = one->boot;
	}
}

static inline int
ask_over(struct fixture *f, struct nam__connection *connection, struct draft *draft)
{
	return call_over(f, connection, NAM_RPC_VIEW, draft->body, (uint32_t)sizeof(
		struct nam_rpc_view_request) + request_of(draft)->count *
		(uint32_t)sizeof(struct nam_view_member));
}

static inline int
ask(struct fixture *f, struct draft *draft)
{
	return ask_over(f, &f->connection, draft);
}

static inline void
get(struct fixture *f, uint32_t first)
{
	struct draft draft = { { 0 } };

	request_of(&draft)->step = NAM_RPC_VIEW_GET;
	request_of(&draft)->first = first;
	assert_int_equal(ask(f, &draft), 0);
	assert_int_equal(f->reply_bytes, sizeof(struct nam_rpc_view_reply) +
		view_of(f)->count * sizeof(struct nam_view_member));
}

static inline uint64_t
number(struct fixture *f)
{
	get(f, 0);
	return view_of(f)->view.number;
}

static inline uint64_t
view_word(const struct fixture *f)
{
	return *(uint64_t *)(void *)((uint8_t *)f->server->memory.mrs[0].base +
		NAM_META_VIEW_OFFSET);
}

/* All at once, in pages: number 1. */
static inline void
form(struct fixture *f, uint32_t count)
{
	struct draft draft;

	for (uint32_t first = 0; first < count; first += NAM_RPC_VIEW_MEMBERS) {
		uint32_t left = count - first;

		page_fill(f, &draft, NAM_RPC_VIEW_FORM, count, first,
			left < NAM_RPC_VIEW_MEMBERS ? left : NAM_RPC_VIEW_MEMBERS);
		assert_int_equal(ask(f, &draft), 0);
		assert_int_equal(f->reply_bytes, sizeof(struct nam_rpc_view_reply));
	}
	assert_int_equal(view_of(f)->view.number, 1);
}

static inline int
change(struct fixture *f, uint64_t now, enum nam_rpc_view_change what,
	const struct nam_view_member *one)
{
	struct draft draft = { { 0 } };

	*request_of(&draft) = (struct nam_rpc_view_request){
		.step = NAM_RPC_VIEW_CHANGE, .change = (uint16_t)what, .count = 1,
		.view.number = now,
	};
	request_of(&draft)->members[0] = *one;
	return ask(f, &draft);
}

static inline int
change_id(struct fixture *f, uint64_t now, enum nam_rpc_view_change what, uint32_t id)
{
	struct nam_view_member one = member(f, id);

	return change(f, now, what, &one);
}

/* The successor of a member, at an address of its own. */
static inline struct nam_view_member
successor(const struct fixture *f, uint32_t id)
{
	struct nam_view_member ret = member(f, id);

	ret.boot = SUCCESSOR;
	(void)snprintf(ret.address, sizeof(ret.address), "shm:/run/nam/successor");
	return ret;
}

static inline int
moved(struct fixture *f, uint64_t now, uint32_t id)
{
	struct nam_view_member one = successor(f, id);

	return change(f, now, NAM_RPC_VIEW_MOVED, &one);
}

static inline int
ack(struct fixture *f, struct nam__connection *connection, uint64_t now)
{
	struct draft draft = { { 0 } };

	request_of(&draft)->step = NAM_RPC_VIEW_ACK;
	request_of(&draft)->view.number = now;
	return ask_over(f, connection, &draft);
}

static inline int
enrol(struct fixture *f, struct nam__connection *connection, uint64_t now)
{
	const struct nam_rpc_register_request request = {
		.pid = 7, .name = "x", .view = now, .acknowledged = now
	};

	return call_over(f, connection, NAM_RPC_REGISTER, &request, sizeof(request));
}

static inline void
leave(struct fixture *f, struct nam__connection *connection)
{
	connection->handler = &f->server->handlers[0];
	nam__noted_connection_closed(connection);
	nam__membership_detach(&f->server->membership, connection);
	memset(connection, 0, sizeof(*connection));
}

static inline void
fence_publish(struct fixture *f, uint16_t id, uint16_t incarnation, uint64_t view)
{
	const struct nam_rpc_fence_request over = { .step = NAM_RPC_FENCE_PUBLISH,
		.client_id = id, .incarnation = incarnation, .view = view };

	assert_int_equal(call(f, NAM_RPC_FENCE, &over, sizeof(over)), 0);
}

static inline const struct nam_view_member *
at(struct fixture *f, uint32_t place)
{
	get(f, place);
	return &view_of(f)->members[0];
}

static inline void
assert_unbacked(const struct nam_view_member *one)
{
	static const struct nam_view_backup none[NAM_BACKUPS_MAX];

	assert_memory_equal(one->backups, none, sizeof(none));
}

static inline int
setup_3(void **state)
{
	return fixture_setup_id(state, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)
#define TEST_3(name) cmocka_unit_test_setup_teardown(name, setup_3, fixture_teardown)

#endif /* NAM_TESTS_VIEW_FIXTURE_H */
