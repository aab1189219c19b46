/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view.c -- the view: the numbered list of the cluster's memory servers.
 *
 * The lead keeps it under the mutex of the clients, so REGISTER, ACK and UP come one after the
 * other.  Others keep a copy, which says where the lead is.  Every change stores the number in the
 * meta page, where epoch threads see it: a hint, which the server never reads.
 *
 * A view that comes in pages is staged with its connection, and takes effect with its last page.
 */
#include "memserver/admission/admit.h"

/* Touched by the handler of its connection only. */
struct nam__view_stage {
	struct nam_view_head head;	/* the same in all pages */
	uint16_t step;
	uint32_t count;			/* members that have come */
	struct nam_view_member members[];	/* head.count */
};

/* To be logged after the mutex has been released. */
struct event {
	const char *change;		/* NULL: nothing */
	uint64_t number;		/* of the view; 0: of stewards */
	uint64_t term;			/* when it is 0 */
	struct nam_view_member member;
	char reason[32];		/* "": it was asked for */
};

static void
stage_drop(struct nam__connection *connection)
{
	free(connection->view_stage);
	connection->view_stage = NULL;
}

static bool
address_ok(const char address[NAM_VIEW_ADDRESS_BYTES])
{
	return address[0] && memchr(address, '\0', NAM_VIEW_ADDRESS_BYTES);
}

static bool
member_ok(const struct nam_view_member *member)
{
	return member->id < NAM_SERVERS_MAX && member->boot && address_ok(member->address);
}

static bool
backups_ok(const struct nam_view_member *member)
{
	static const struct nam_view_backup none;
	bool has = nam_view_backup(member);

	for (uint32_t i = 0; i < NAM_BACKUPS_MAX; i++)
		if (member->backups[i].boot ? !address_ok(member->backups[i].address) :
				memcmp(&member->backups[i], &none, sizeof(none)) != 0)
			return false;
	return member->known <= has && (has ? member->state != NAM_VIEW_JOINING :
		member->state != NAM_VIEW_PROMOTING);
}

static bool
state_ok(const struct nam_view_head *view, const struct nam_view_member *member)
{
	if (!backups_ok(member) ||
		nam_view_backups(member) > nam_view_backups_max(view, member))
		return false;
	if (member->state == NAM_VIEW_JOINING)
		return !member->since && !member->renewed && member->memory == member->boot;
	return member->state >= NAM_VIEW_UP && member->state <= NAM_VIEW_PROMOTING &&
		member->memory && member->since && member->since <= member->renewed &&
		member->renewed <= view->number;
}

/*
 * The living client that has acknowledged least, if that is below `number`; 0: none.  While memory
 * is copied or moves, one that is FENCING counts, too: its requests may be under way.
 */
static uint16_t
delaying(const struct nam__membership *membership, uint64_t number, uint64_t *ret_acknowledged)
{
	const struct nam__view *view = &membership->view;
	bool leaves = nam_view_leaving(&view->head, view->members);
	uint32_t left = membership->alive_count + (leaves ? membership->fencing_count : 0);
	uint16_t least = 0;

	for (uint16_t id = 1; id < NAM_CLIENTS_MAX && left; id++) {
		const struct nam__member *member = &membership->members[id];

		if (member->state != NAM_CLIENT_ALIVE &&
			!(leaves && member->state == NAM_CLIENT_FENCING))
			continue;
		left--;
		if (member->acknowledged < number) {
			number = member->acknowledged;
			least = id;
		}
	}
	*ret_acknowledged = number;
	return least;
}

/* The view; to GET with a page of its members, and a client that is cut off. */
static void
reply_view(struct nam__exchange *exchange)
{
	const struct nam_rpc_view_request *request = exchange->body;
	struct nam__membership *membership = &exchange->server->membership;
	const struct nam__view *view = &membership->view;
	struct nam_rpc_view_reply *reply = exchange->reply;
	bool is_get = request->step == NAM_RPC_VIEW_GET;
	uint64_t acknowledged;
	uint16_t id = delaying(membership, view->head.number, &acknowledged);
	uint32_t count = 0, silent_ms, cut_ms = 0;
	uint16_t silent = nam__member_silent(membership, &silent_ms), cut = 0, cut_from = 0;

	if (is_get && request->first < view->head.count)
		count = MIN(view->head.count - request->first, NAM_RPC_VIEW_MEMBERS);
	if (is_get)
		cut = nam__member_cut(membership, &cut_from, &cut_ms);
	*reply = (struct nam_rpc_view_reply){
		.view = view->head,
		.acknowledged = acknowledged,
		.delaying = id,
		.delaying_incarnation = id ? membership->members[id].incarnation : 0,
		.count = count,
		.silent = silent,
		.silent_incarnation = silent ? membership->members[silent].incarnation : 0,
		.silent_ms = silent_ms,
		.cut = cut,
		.cut_incarnation = cut ? membership->members[cut].incarnation : 0,
		.cut_from = cut_from,
		.cut_ms = cut_ms,
		.unclean = membership->unclean,
		.delaying_ms = id ? nam__ms_since(membership->members[id].acknowledged_ns,
			nam_now_ns()) : 0,
	};
	memcpy(reply->members, view->members + (count ? request->first : 0),
		count * sizeof(reply->members[0]));
	exchange->reply_bytes = (uint32_t)(sizeof(*reply) + count * sizeof(reply->members[0]));
}

/* A lead that never had other members needs no client to publish an end. */
void
nam__view_word_set(struct nam__membership *membership)
{
	const struct nam__view *view = &membership->view;
	uint64_t fencing = view->head.count > 1 || view->head.number > 1 ?
		membership->fencing_count : 0;

	__atomic_store_n(view->word, fencing << NAM_VIEW_WORD_FENCING | view->head.number,
		__ATOMIC_SEQ_CST);
}

static struct nam__view_stage *
stage_new(const struct nam_view_head *head, uint16_t step)
{
	struct nam__view_stage *stage = calloc(1, sizeof(*stage) +
		head->count * sizeof(stage->members[0]));

	if (stage) {
		stage->head = *head;
		stage->step = step;
	}
	return stage;
}

static int
stage_member(struct nam__view_stage *stage, const struct nam_view_member *member)
{
	struct nam_view_member *to = &stage->members[stage->count];

	if (!member_ok(member) || member->wanted || (stage->count && member->id <= to[-1].id) ||
		(stage->step == NAM_RPC_VIEW_COPY && !state_ok(&stage->head, member)))
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < stage->count; i++)
		if (!strcmp(stage->members[i].address, member->address))
			return -NAM_E_FABRIC_PROTOCOL;
	*to = *member;
	stage->count++;
	return 0;
}

/* A page that begins a view, or goes on where the one before ended. */
static int
stage_page(struct nam__connection *connection, const struct nam_rpc_view_request *request)
{
	struct nam__view_stage *stage = connection->view_stage;
	int rc = 0;

	if (request->first == 0) {
		stage_drop(connection);
		connection->view_stage = stage = stage_new(&request->view, request->step);
		if (!stage)
			return -ENOMEM;
	}
	if (!stage || stage->step != request->step || stage->count != request->first ||
		memcmp(&stage->head, &request->view, sizeof(stage->head)) != 0 ||
		request->count > stage->head.count - stage->count)
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < request->count && !rc; i++)
		rc = stage_member(stage, &request->members[i]);
	return rc;
}

static void
replace(struct nam__view *view, const struct nam__view_stage *stage)
{
	view->head = stage->head;
	memcpy(view->members, stage->members, stage->count * sizeof(stage->members[0]));
}

/* The lead of a copy is one of its members, or the backup of one that has ended. */
static bool
lead_ok(const struct nam__view_stage *stage)
{
	const struct nam_view_member *lead = nam_view_find(&stage->head, stage->members,
		stage->head.lead);

	return lead && lead->state != NAM_VIEW_JOINING && stage->head.lead_boot ==
		(lead->state == NAM_VIEW_PROMOTING ? lead->backups[0].boot : lead->boot);
}

/* The first view: all are UP (M16). */
static int
form(struct nam__exchange *exchange, struct nam__view *view, struct event *event)
{
	const struct nam_rpc_view_request *request = exchange->body;
	struct nam__view_stage *stage = exchange->connection->view_stage;
	uint64_t boot = exchange->server->boot;

	if (view->head.number)
		return -NAM_E_VIEW;
	if (stage->count < stage->head.count)
		return 0;
	if (stage->members[0].id != 0 || stage->members[0].boot != boot)
		return -NAM_E_CLUSTER;
	for (struct nam_view_member *member = stage->members;
		member < stage->members + stage->count; member++) {
		member->state = NAM_VIEW_UP;
		member->memory = member->boot;
		member->since = member->renewed = 1;
		member->known = 0;
		memset(member->backups, 0, sizeof(member->backups));
	}
	stage->head.number = 1;
	stage->head.lead_boot = boot;
	stage->head.term = view->head.term;
	exchange->server->membership.before = request->newest;
	replace(view, stage);
	nam__view_word_set(&exchange->server->membership);
	*event = (struct event){ .change = "form", .number = 1, .member = stage->members[0] };
	return 0;
}

/* Behind the members of the request. */
static uint32_t
voucher_bytes(const struct nam__exchange *exchange)
{
	const struct nam_rpc_view_request *request = exchange->body;

	return exchange->body_bytes - (uint32_t)(sizeof(*request) +
		request->count * sizeof(request->members[0]));
}

static struct nam__claim
claim_of(const struct nam__view_stage *stage)
{
	return nam__claim_view(&stage->head, sizeof(stage->head), stage->members,
		stage->count * (uint32_t)sizeof(stage->members[0]));
}

/* M18: a copy whose last page has come is the lead's, or an admin sends it. */
static bool
copy_is_good(const struct nam__exchange *exchange)
{
	const struct nam_rpc_view_request *request = exchange->body;
	const struct nam__view_stage *stage = exchange->connection->view_stage;

	if (request->step != NAM_RPC_VIEW_COPY || stage->count < stage->head.count ||
		nam__is_admin(exchange))
		return true;
	return nam__auth_vouched(exchange->server, claim_of(stage),
		(const uint8_t *)&request->members[request->count], voucher_bytes(exchange)) ||
		!NAM_GUARD(VIEW_COPY);
}

/* M25: the process of the lead has ended, and this one is its backup. */
static int
succeed(struct nam__exchange *exchange, struct nam__view *view, struct event *event)
{
	const struct nam__view_stage *stage = exchange->connection->view_stage;
	const struct nam_view_member *lead = &stage->members[0];

	if (!nam__is_admin(exchange))
		return -NAM_E_FABRIC_DENIED;
	if (lead->state != NAM_VIEW_PROMOTING || lead->backups[0].boot != exchange->server->boot ||
		!lead->known || view->head.lead_boot != lead->boot ||
		view->head.number >= stage->head.number)
		return -NAM_E_VIEW;
	if (view->head.term > stage->head.term)
		return -NAM_E_TERM;
	replace(view, stage);
	view->awaited = view->head.number;
	nam__membership_lead(&exchange->server->membership);
	nam__view_word_set(&exchange->server->membership);
	*event = (struct event){ .change = "succeed", .number = view->head.number,
		.member = *lead };
	return 0;
}

/* If the copy is of the known life of the lead, only a later view counts. */
static int
copy_take(struct nam__view *view, const struct nam__view_stage *stage, struct event *event)
{
	/* M18: the lead vouched for that view in a life that has ended since. */
	for (uint32_t i = 0; i < NAM__LIVES_NOTED && i < view->over_count; i++)
		if (view->over[i] == stage->head.lead_boot)
			return -NAM_E_VIEW;
	if (view->head.lead_boot == stage->head.lead_boot) {
		if (view->head.term > stage->head.term)
			return -NAM_E_TERM;
		if (view->head.number > stage->head.number)
			return -NAM_E_VIEW;
		view->head.term = stage->head.term;
		if (view->head.number == stage->head.number)
			return 0;
	} else if (view->head.number) {
		view->over[view->over_count++ % NAM__LIVES_NOTED] = view->head.lead_boot;
	}
	replace(view, stage);
	*event = (struct event){ .change = "copy", .number = stage->head.number,
		.member = stage->members[0] };
	return 0;
}

static int
copy(struct nam__exchange *exchange, struct nam__view *view, struct event *event)
{
	const struct nam__view_stage *stage = exchange->connection->view_stage;

	if (stage->count < stage->head.count)
		return 0;
	/* M25: it was none as the request came. */
	if (nam__leads(exchange->server))
		return -NAM_E_CLUSTER;
	if (!lead_ok(stage))
		return -NAM_E_FABRIC_PROTOCOL;
	return stage->head.lead_boot == exchange->server->boot ? succeed(exchange, view, event) :
		copy_take(view, stage, event);
}

int
nam__view_stage_make(const struct nam_view_head *head, const struct nam_view_member *members,
	struct nam__view_stage **ret_stage)
{
	struct nam__view_stage *stage = stage_new(head, NAM_RPC_VIEW_COPY);
	int rc = 0;

	if (!stage)
		return -ENOMEM;
	for (uint32_t i = 0; i < head->count && !rc; i++)
		rc = stage_member(stage, &members[i]);
	if (!rc && !lead_ok(stage))
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (rc)
		free(stage);
	else
		*ret_stage = stage;
	return rc;
}

void
nam__view_stage_take(struct nam__membership *membership, const struct nam__view_stage *stage)
{
	struct event event;		/* the move is what is logged */

	NAM__SCOPED_LOCK(&membership->mutex);
	(void)!copy_take(&membership->view, stage, &event);
}

/* M17.  A request without a term is no steward's.  RENEW states a fact. */
static int
term_check(const struct nam__view *view, const struct nam_rpc_view_request *request)
{
	uint64_t term = request->view.term;

	if (term > view->head.term)
		return -NAM_E_FABRIC_PROTOCOL;
	if (!term)
		return view->recorded && request->change != NAM_RPC_VIEW_RENEW ?
			-NAM_E_VIEW_STORE : 0;
	return NAM_GUARD(VIEW_TERM) && term < view->head.term ? -NAM_E_TERM : 0;
}

/* A compare-and-set on the number (M16), by the steward that leads (M17). */
static int
change(struct nam__exchange *exchange, struct nam__view *view, struct event *event)
{
	const struct nam_rpc_view_request *request = exchange->body;
	const struct nam_view_member *asked = &request->members[0];
	const struct nam_view_member *member = nam_view_find(&view->head, view->members, asked->id);
	struct nam__membership *membership = &exchange->server->membership;
	int rc = term_check(view, request);
	uint64_t acknowledged;
	bool leaves;

	if (rc)
		return rc;
	/* M18: a client that joins renews a member that was restarted; the rest is a steward's. */
	if (request->change != NAM_RPC_VIEW_RENEW && !nam__is_admin(exchange))
		return -NAM_E_FABRIC_DENIED;
	if (!view->head.number || (NAM_GUARD(VIEW_NUMBER) &&
			request->view.number != view->head.number))
		return -NAM_E_VIEW;
	/* M15: clients have to acknowledge what has led to that change. */
	if ((request->change == NAM_RPC_VIEW_UP || request->change == NAM_RPC_VIEW_MOVED ||
			request->change == NAM_RPC_VIEW_BACKED) && NAM_GUARD(VIEW_ACK) &&
		delaying(membership, view->awaited, &acknowledged))
		return -NAM_E_VIEW;
	/* M25: a lead that answers has not ended. */
	if (request->change == NAM_RPC_VIEW_PROMOTE && !asked->id)
		return -NAM_E_VIEW;
	/* M23: the claim of another mover is about that MOVE. */
	if (request->change == NAM_RPC_VIEW_NOTE && member && view->mover != exchange->connection &&
		member->state == NAM_VIEW_MOVING)
		return -NAM_E_VIEW;
	*event = (struct event){
		.change = nam_rpc_view_changes[request->change],
		.number = view->head.number + 1,
		.member = member && request->change != NAM_RPC_VIEW_MOVED &&
			request->change != NAM_RPC_VIEW_BACKED ? *member : *asked,
	};
	rc = nam_view_change(&view->head, view->members, request->change, asked);
	if (rc)
		return rc;
	leaves = request->change == NAM_RPC_VIEW_NOTE || request->change == NAM_RPC_VIEW_MOVE;
	if (leaves)
		view->mover = exchange->connection;
	if (leaves || request->change == NAM_RPC_VIEW_ADD ||
		request->change == NAM_RPC_VIEW_PROMOTE)
		view->awaited = view->head.number;
	else
		/* M23: clients that change its memory note nothing from now on. */
		nam__noted_end(exchange->server, asked->id);
	if (request->change == NAM_RPC_VIEW_BACKED)
		view->awaited = view->head.number;
	nam__view_word_set(membership);
	return 0;
}

/* A client may also acknowledge a view that has been replaced meanwhile. */
static int
acknowledge(struct nam__exchange *exchange, struct nam__view *view, struct event *event)
{
	const struct nam_rpc_view_request *request = exchange->body;
	const struct nam__connection *connection = exchange->connection;
	struct nam__member *member;

	(void)event;
	if (!connection->session)
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->view.number > view->head.number)
		return -NAM_E_VIEW;
	member = &exchange->server->membership.members[connection->client_id];
	if (member->acknowledged < request->view.number)
		member->acknowledged = request->view.number;
	member->heard_ns = member->acknowledged_ns = nam_now_ns();
	/* M23 */
	member->handed_over |= request->change;
	if (request->first)
		nam__member_lost(&exchange->server->membership, member, request->first - 1,
			request->view.lead_boot);
	return 0;
}

/* The lease is a courtesy among stewards.  The term keeps an earlier one from changes (M17). */
static int
steward(struct nam__exchange *exchange, struct nam__view *view, struct event *event)
{
	const struct nam_rpc_view_request *request = exchange->body;
	uint64_t now = nam_now_ns(), term = request->view.term;

	if (!nam__is_admin(exchange))
		return -NAM_E_FABRIC_DENIED;
	switch ((enum nam_rpc_view_steward)request->change) {
	case NAM_RPC_STEWARD_ACQUIRE:
		if (view->recorded)
			return -NAM_E_VIEW_STORE;
		if (now < view->lease_ns)
			return -NAM_E_TERM;
		if (view->head.term == UINT64_MAX)
			return -NAM_E_LIMIT;
		view->head.term++;
		*event = (struct event){ .change = "acquire", .term = view->head.term };
		break;
	case NAM_RPC_STEWARD_PRESENT:
		if (term < view->head.term)
			return -NAM_E_TERM;
		if (term > view->head.term)
			*event = (struct event){ .change = "present", .term = term };
		view->head.term = term;
		view->recorded = true;
		return 0;
	case NAM_RPC_STEWARD_RENEW:
	case NAM_RPC_STEWARD_RELEASE:
		if (term != view->head.term || view->recorded)
			return -NAM_E_TERM;
		break;
	default:
		return -NAM_E_FABRIC_PROTOCOL;
	}
	view->lease_ns = now + request->first * 1000000ull;
	if (!request->first)
		*event = (struct event){ .change = "release", .term = term };
	return 0;
}

enum where { ANYWHERE, LEAD, LEADS, OTHERS };	/* LEADS: the lead, and its backup */

static const struct step {
	/* Under the mutex.  NULL: the reply says all. */
	int (*fn)(struct nam__exchange *exchange, struct nam__view *view, struct event *event);
	enum where where;
	uint32_t count_min, count_max;	/* members; more than one: a page of a view */
	bool for_all;			/* also with a reader's key */
} steps[] = {
	[NAM_RPC_VIEW_GET] = { NULL, ANYWHERE, 0, 0, true },
	[NAM_RPC_VIEW_FORM] = { form, LEAD, 1, NAM_RPC_VIEW_MEMBERS, false },
	[NAM_RPC_VIEW_CHANGE] = { change, LEAD, 1, 1, false },
	[NAM_RPC_VIEW_ACK] = { acknowledge, LEADS, 0, 0, true },
	[NAM_RPC_VIEW_COPY] = { copy, OTHERS, 1, NAM_RPC_VIEW_MEMBERS, false },
	[NAM_RPC_VIEW_STEWARD] = { steward, LEAD, 0, 0, false },
};

/* Nothing is set that the step does not use. */
static bool
head_ok(const struct nam_rpc_view_request *request)
{
	static const uint8_t none[sizeof(request->view.removed)];
	const struct nam_view_head *view = &request->view;

	if (request->step == NAM_RPC_VIEW_COPY)
		return view->number && view->count && view->count <= NAM_SERVERS_MAX &&
			view->backups <= NAM_BACKUPS_MAX;
	if (view->backups || memcmp(view->removed, none, sizeof(none)) != 0)
		return false;
	if (view->term && request->step != NAM_RPC_VIEW_CHANGE &&
		request->step != NAM_RPC_VIEW_STEWARD)
		return false;
	if (request->step == NAM_RPC_VIEW_FORM)
		return !view->number && !view->lead && !view->lead_boot && view->count &&
			view->count <= NAM_SERVERS_MAX;
	return !view->count && !view->lead &&
		!view->lead_boot == !(request->step == NAM_RPC_VIEW_ACK && request->first) &&
		(!view->number || (request->step != NAM_RPC_VIEW_GET &&
			request->step != NAM_RPC_VIEW_STEWARD));
}

static bool
steward_ok(const struct nam_rpc_view_request *request)
{
	uint32_t lease = request->first;

	switch ((enum nam_rpc_view_steward)request->change) {
	case NAM_RPC_STEWARD_ACQUIRE:
	case NAM_RPC_STEWARD_RENEW:
		return lease >= NAM_RPC_STEWARD_LEASE_MIN_MS &&
			lease <= NAM_RPC_STEWARD_LEASE_MAX_MS &&
			(request->change == NAM_RPC_STEWARD_RENEW) == !!request->view.term;
	case NAM_RPC_STEWARD_RELEASE:
	case NAM_RPC_STEWARD_PRESENT:
		return !lease && request->view.term;
	default:
		return false;
	}
}

static int
check(const struct nam__exchange *exchange)
{
	const struct nam_rpc_view_request *request = exchange->body;
	bool is_lead = nam__leads(exchange->server), is_ok;
	const struct step *step;

	if (!request->step || request->step >= sizeof(steps) / sizeof(steps[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	step = &steps[request->step];
	if (step->where == LEADS)
		is_lead = exchange->server->options.id == 0;
	if (step->where != ANYWHERE && is_lead == (step->where == OTHERS))
		return -NAM_E_CLUSTER;
	if (!step->for_all && !nam__may_change(exchange->connection))
		return -NAM_E_FABRIC_DENIED;
	if (request->reserved || (request->newest && request->step != NAM_RPC_VIEW_FORM) ||
		request->count < step->count_min ||
		request->count > step->count_max || !head_ok(request) ||
		exchange->body_bytes < sizeof(*request) +
			request->count * sizeof(request->members[0]) ||
		(voucher_bytes(exchange) && (request->step != NAM_RPC_VIEW_COPY ||
			voucher_bytes(exchange) != NAM_VOUCHER_BYTES)))
		return -NAM_E_FABRIC_PROTOCOL;
	if (request->step == NAM_RPC_VIEW_CHANGE)
		is_ok = !request->first && request->change &&
			request->change <= NAM_RPC_VIEW_CHANGES && member_ok(request->members) &&
			(!request->members[0].wanted || request->change == NAM_RPC_VIEW_BACKUPS ||
				(request->change == NAM_RPC_VIEW_MOVED &&
					request->members[0].wanted == 1));
	else if (request->step == NAM_RPC_VIEW_STEWARD)
		is_ok = steward_ok(request);
	else
		is_ok = request->change <= (request->step == NAM_RPC_VIEW_ACK) &&
			(request->step != NAM_RPC_VIEW_ACK || !request->first ||
			(!request->view.number && request->first <= NAM_SERVERS_MAX));
	return is_ok ? 0 : -NAM_E_FABRIC_PROTOCOL;
}

static void
event_log(const struct nam_server *server, const struct event *event)
{
	char address[2 * NAM_VIEW_ADDRESS_BYTES];

	if (event->number)
		nam__log(server, NAM_LOG_INFO, "view",
			"number=%llu change=%s id=%u address=%s%s",
			(unsigned long long)event->number, event->change, event->member.id,
			nam_log_quote(event->member.address, address, sizeof(address)),
			event->reason);
	else if (event->change)
		nam__log(server, NAM_LOG_INFO, "steward", "term=%llu change=%s",
			(unsigned long long)event->term, event->change);
}

/*
 * The caller holds the mutex.  M15: clients do not wait for a move without a mover.  A promotion
 * goes on.
 */
static void
mover_ended(struct nam__membership *membership, struct event *event)
{
	struct nam__view *view = &membership->view;
	const struct nam_view_member *moving = nam_view_leaving(&view->head, view->members);

	view->mover = NULL;
	/* M17: another store decides. */
	if (!moving || view->recorded ||
		nam_view_change(&view->head, view->members, NAM_RPC_VIEW_ABORT, moving))
		return;
	*event = (struct event){
		.change = nam_rpc_view_changes[NAM_RPC_VIEW_ABORT],
		.number = view->head.number,
		.member = *moving,
		.reason = " reason=mover_ended",
	};
	nam__view_word_set(membership);
}

void
nam__view_connection_closed(struct nam__membership *membership, struct nam__connection *connection)
{
	struct event event = { .change = NULL };

	stage_drop(connection);
	pthread_mutex_lock(&membership->mutex);
	if (membership->view.mover == connection)
		mover_ended(membership, &event);
	pthread_mutex_unlock(&membership->mutex);
	if (!event.change)
		return;
	nam__noted_end(connection->handler->server, event.member.id);
	event_log(connection->handler->server, &event);
}

/* With the mutex: a view that clients send on is kept until the lead has vouched for it. */
static struct nam__view_stage *
view_to_vouch(const struct nam__exchange *exchange, const struct nam__view *view)
{
	const struct nam_rpc_view_request *request = exchange->body;
	const struct nam__view_stage *stage = exchange->connection->view_stage;
	struct nam__view_stage *kept = NULL;

	if (!exchange->server->options.keys)
		return NULL;
	if ((request->step == NAM_RPC_VIEW_FORM && stage->count == stage->head.count) ||
		(request->step == NAM_RPC_VIEW_CHANGE && request->change == NAM_RPC_VIEW_RENEW))
		(void)!nam__view_stage_make(&view->head, view->members, &kept);
	return kept;
}

/* Without memory for it the client's copies are refused, and a steward sends others. */
static void
vouch(struct nam__exchange *exchange, struct nam__view_stage *kept)
{
	if (!kept)
		return;
	exchange->reply_bytes += nam__auth_vouch(exchange->server, claim_of(kept),
		(uint8_t *)exchange->reply + exchange->reply_bytes);
	free(kept);
}

/* M25: since the request came. */
static bool
has_retired(const struct nam_server *server)
{
	return atomic_load_explicit(&server->phase, memory_order_acquire) == NAM_SERVER_MOVED;
}

int
nam__service_view(struct nam__exchange *exchange)
{
	const struct nam_rpc_view_request *request = exchange->body;
	struct nam__membership *membership = &exchange->server->membership;
	struct nam__connection *connection = exchange->connection;
	struct nam__view_stage *kept = NULL;
	struct event event = { .change = NULL };
	bool in_pages;
	int rc = check(exchange);

	if (rc)
		return rc;
	in_pages = steps[request->step].count_max > 1;
	if (in_pages)
		rc = stage_page(connection, request);
	if (!rc && !copy_is_good(exchange))
		rc = -NAM_E_FABRIC_DENIED;
	if (!rc) {
		pthread_mutex_lock(&membership->mutex);
		if (steps[request->step].fn)
			rc = has_retired(exchange->server) ? -NAM_E_FABRIC_MOVED :
				steps[request->step].fn(exchange, &membership->view, &event);
		if (!rc) {
			reply_view(exchange);
			kept = view_to_vouch(exchange, &membership->view);
		}
		pthread_mutex_unlock(&membership->mutex);
		vouch(exchange, kept);
	}
	if (in_pages && (rc || connection->view_stage->count == request->view.count))
		stage_drop(connection);
	if (!rc)
		event_log(exchange->server, &event);
	return rc;
}
