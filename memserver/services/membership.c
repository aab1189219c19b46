/* SPDX-License-Identifier: Apache-2.0 */
/*
 * membership.c -- server 0 gives out client ids, and knows which clients are alive.  Every server
 * knows which have queue pairs to it.
 *
 * A client lives as long as the connection of its REGISTER.  It is dead once none of its queue
 * pairs is left at any memory server (fence.c).  Ids go round, and come again with the next
 * incarnation.  So a lock word of a dead client is never taken for one of the living.
 */
#include "common/rpc/books_rpc.h"
#include "memserver/admission/admit.h"

/* A reader raises the epoch by no more: in between, clients reclaim memory twice. */
#define READER_AHEAD_MAX (2 * (int64_t)NAM_EPOCH_GENERATION)

int
nam__membership_init(struct nam__membership *membership, uint8_t *meta)
{
	int rc;

	memset(membership, 0, sizeof(*membership));
	rc = -pthread_mutex_init(&membership->mutex, NULL);
	if (rc || !meta)
		return rc;
	membership->epoch_word = (uint64_t *)(void *)(meta + NAM_META_EPOCH_OFFSET);
	membership->epoch_slots = (uint64_t *)(void *)(meta + NAM_META_SLOTS_OFFSET);
	membership->sweep_word = (uint64_t *)(void *)(meta + NAM_META_SWEEP_OFFSET);
	membership->view.word = (uint64_t *)(void *)(meta + NAM_META_VIEW_OFFSET);
	membership->members = calloc(NAM_CLIENTS_MAX, sizeof(membership->members[0]));
	return membership->members ? 0 : -ENOMEM;
}

void
nam__membership_free(struct nam__membership *membership)
{
	free(membership->members);
	membership->members = NULL;
	(void)pthread_mutex_destroy(&membership->mutex);
}

/* As a distance, because incarnations wrap. */
static int16_t
ahead(uint16_t incarnation, uint16_t of)
{
	return (int16_t)(incarnation - of);
}

struct nam__member *
nam__member_find(struct nam__membership *membership, uint16_t client_id, uint16_t incarnation)
{
	struct nam__member *member;

	if (!membership->members || !client_id)
		return NULL;
	member = &membership->members[client_id];
	return member->incarnation == incarnation ? member : NULL;
}

/* The member that a connection stands for, or NULL. */
static struct nam__member *
member_of(struct nam__membership *membership, const struct nam__connection *connection)
{
	return nam__member_find(membership, connection->client_id, connection->incarnation);
}

void
nam__member_fence(struct nam__membership *membership, struct nam__member *member)
{
	if (member->state != NAM_CLIENT_ALIVE)
		return;
	member->state = NAM_CLIENT_FENCING;
	membership->alive_count--;
	membership->fencing_count++;
	nam__view_word_set(membership);
}

static bool
has_backups(const struct nam__view *view)
{
	for (uint32_t i = 0; i < view->head.count; i++)
		if (nam_view_backup(&view->members[i]))
			return true;
	return false;
}

void
nam__member_publish(struct nam__membership *membership, struct nam__member *member)
{
	if (member->state != NAM_CLIENT_FENCING)
		return;
	member->state = NAM_CLIENT_DEAD;
	membership->unclean |= !member->handed_over && has_backups(&membership->view);
	/* M23: what it has changed since it handed over notes is noted nowhere. */
	if (membership->notes_lost && !member->handed_over && NAM_GUARD(NOTE_LOST))
		atomic_store_explicit(membership->notes_lost, true, memory_order_release);
	membership->fencing_count--;
	nam__view_word_set(membership);
	/* M6: no client waits for its epoch.  Until now a queue pair might publish one. */
	__atomic_store_n(&membership->epoch_slots[member - membership->members], 0,
		__ATOMIC_SEQ_CST);
}

enum nam_client_state
nam__member_state(const struct nam__membership *membership, uint16_t client_id,
	uint16_t incarnation)
{
	const struct nam__member *member = &membership->members[client_id];

	if (!member->incarnation || ahead(incarnation, member->incarnation) > 0)
		return NAM_CLIENT_UNKNOWN;
	/* Another life of the lead gave it out: nothing is known of it here. */
	if (membership->before && (uint16_t)(member->incarnation - incarnation) >=
		(uint16_t)(member->incarnation - membership->before))
		return NAM_CLIENT_UNKNOWN;
	/* The id may belong to another client now. */
	return incarnation != member->incarnation ? NAM_CLIENT_DEAD :
		(enum nam_client_state)member->state;
}

/* M5: with the mutex. */
static bool
is_over(struct nam__membership *membership, const struct nam__connection *connection)
{
	const struct nam__newest *newest = &membership->newest[connection->client_id];
	const struct nam__member *member;
	int16_t distance = ahead(connection->incarnation, newest->incarnation);

	/* Only the lead knows the clients. */
	if (membership->members && !membership->view.is_standby) {
		member = member_of(membership, connection);
		return !member || member->state != NAM_CLIENT_ALIVE;
	}
	return newest->incarnation && (distance < 0 || (distance == 0 && newest->fenced));
}

static void
newest_raise(struct nam__membership *membership, uint16_t incarnation)
{
	if (!membership->newest_of_all || ahead(incarnation, membership->newest_of_all) > 0)
		__atomic_store_n(&membership->newest_of_all, incarnation, __ATOMIC_RELAXED);
}

void
nam__newest_note(struct nam__membership *membership, uint16_t client_id, uint16_t incarnation,
	bool fenced)
{
	struct nam__newest *newest = &membership->newest[client_id];
	int16_t distance = ahead(incarnation, newest->incarnation);

	if (newest->incarnation && distance < 0)
		return;
	if (!newest->incarnation || distance > 0)
		*newest = (struct nam__newest){ .incarnation = incarnation };
	newest->fenced |= fenced;
	newest_raise(membership, incarnation);
}

void
nam__membership_take(struct nam__membership *membership, const struct nam_move_head *head,
	const struct nam_move_client *clients, uint32_t count)
{
	NAM__SCOPED_LOCK(&membership->mutex);
	for (uint32_t i = 0; i < count; i++) {
		if (clients[i].incarnation)
			nam__newest_note(membership, clients[i].id, clients[i].incarnation,
				clients[i].fenced);
		if (membership->members && clients[i].fenced == 2)
			membership->members[clients[i].id] = (struct nam__member){
				.incarnation = clients[i].incarnation,
				.state = NAM_CLIENT_DEAD,
			};
	}
	if (head->newest)
		newest_raise(membership, head->newest);
	membership->before = head->before;
}

static void
appear(struct nam__membership *membership, struct nam__connection *connection)
{
	nam__newest_note(membership, connection->client_id, connection->incarnation, false);
	membership->present[connection->client_id]++;
	connection->present = true;
}

/* M5: a client that is fenced comes no more. */
static int
attach(struct nam__membership *membership, struct nam__connection *connection)
{
	struct nam__member *member;

	if (NAM_GUARD(FENCE_REFUSE) && is_over(membership, connection))
		return -NAM_E_FENCED;
	member = member_of(membership, connection);
	/* M18: at the lead even a voucher of a file without an admin does not do. */
	if (member && member->key != connection->proven.print && NAM_GUARD(KEY_CLIENT))
		return -NAM_E_FABRIC_DENIED;
	appear(membership, connection);
	if (member)
		member->connections++;
	return 0;
}

int
nam__membership_attach(struct nam__membership *membership, struct nam__connection *connection)
{
	if (!connection->client_id)
		return 0;
	NAM__SCOPED_LOCK(&membership->mutex);
	return attach(membership, connection);
}

/* M5 */
bool
nam__membership_fenced(struct nam__membership *membership, const struct nam__connection *connection)
{
	NAM__SCOPED_LOCK(&membership->mutex);
	return NAM_GUARD(FENCE_REFUSE) && connection->client_id && is_over(membership, connection);
}

int
nam__membership_name(struct nam__membership *membership, struct nam__connection *connection,
	uint16_t client_id, uint16_t incarnation)
{
	int rc;

	NAM__SCOPED_LOCK(&membership->mutex);
	if (connection->client_id)
		return connection->client_id == client_id &&
			connection->incarnation == incarnation ? 0 : -NAM_E_FABRIC_PROTOCOL;
	connection->client_id = client_id;
	connection->incarnation = incarnation;
	rc = attach(membership, connection);
	if (rc)
		connection->client_id = connection->incarnation = 0;
	return rc;
}

void
nam__membership_detach(struct nam__membership *membership, struct nam__connection *connection)
{
	const struct nam__view *view = &membership->view;
	struct nam__member *member;
	bool alone;

	pthread_mutex_lock(&membership->mutex);
	alone = view->head.count <= 1 && !view->members[0].backups[0].boot && !view->is_standby;
	if (connection->present)
		membership->present[connection->client_id]--;
	member = connection->present ? member_of(membership, connection) : NULL;
	connection->present = false;
	membership->exporting -= connection->exports;
	connection->exports = false;
	if (member) {
		member->connections--;
		if (connection->session) {
			member->session = NULL;
			nam__member_fence(membership, member);
		}
		/* M5: at a lead without other members these queue pairs were all that it has. */
		if (alone && member->connections == 0)
			nam__member_publish(membership, member);
	}
	pthread_mutex_unlock(&membership->mutex);
	nam__view_connection_closed(membership, connection);
	free(connection->move_stage);
	connection->move_stage = NULL;
	connection->client_id = 0;
}

/*
 * M4: above those of other lives of the lead, which other members may know; and none lags behind
 * another id's.
 */
static uint16_t
incarnation_next(const struct nam__membership *membership, const struct nam__member *member)
{
	uint16_t last = member->incarnation, next;

	if (!last && NAM_GUARD(FENCE_ABOVE))
		last = membership->before;
	next = (uint16_t)(last + 1);
	if (membership->newest_of_all && ahead(membership->newest_of_all, next) > 0)
		next = membership->newest_of_all;
	return next ?: 1;
}

/* Over this connection.  Its incarnation is set. */
static void
member_begin(struct nam__membership *membership, struct nam__member *member,
	const struct nam_rpc_register_request *request, struct nam__connection *connection)
{
	membership->alive_count++;
	member->state = NAM_CLIENT_ALIVE;
	member->pid = !connection->pid ? request->pid :
		connection->pid > 0 ? (uint64_t)connection->pid : 0;
	member->key = connection->proven.print;
	member->acknowledged = request->acknowledged;
	member->epoch_seen = 0;
	member->heard_ns = member->acknowledged_ns = nam_now_ns();
	member->swept = membership->sweep;
	/* With a reader's key it changes nothing. */
	member->handed_over = !nam__may_change(connection);
	memset(member->cut, 0, sizeof(member->cut));
	memcpy(member->name, request->name, sizeof(member->name));
}

static void
session_set(struct nam__member *member, struct nam__connection *connection)
{
	if (member->session)
		member->session->session = false;
	member->session = connection;
	connection->session = true;
}

/* A client that joins knows the view in force (M15), or there is none. */
static int
give_id(struct nam__membership *membership, const struct nam_rpc_register_request *request,
	struct nam__connection *connection)
{
	if (NAM_GUARD(VIEW_REGISTER) && request->view != membership->view.head.number)
		return -NAM_E_VIEW;
	for (uint32_t tries = 1; tries < NAM_CLIENTS_MAX; tries++) {
		uint32_t id = membership->last_id % (NAM_CLIENTS_MAX - 1) + 1;
		struct nam__member *member = &membership->members[id];

		membership->last_id = id;
		if (nam__member_lives(membership, id) || member->connections)
			continue;
		member->incarnation = incarnation_next(membership, member);
		member->connections = 1;
		member_begin(membership, member, request, connection);
		connection->client_id = (uint16_t)id;
		connection->incarnation = member->incarnation;
		session_set(member, connection);
		appear(membership, connection);
		return 0;
	}
	return -NAM_E_LIMIT;
}

/* Raised, so that it is behind no epoch that a client knows. */
static void
epoch_raise(struct nam__membership *membership, uint64_t epoch)
{
	uint64_t word = __atomic_load_n(membership->epoch_word, __ATOMIC_SEQ_CST);

	while (nam_epoch_ahead(epoch, word) > 0 &&
		!__atomic_compare_exchange_n(membership->epoch_word, &word, epoch, false,
			__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		continue;
}

/* If there are writers, they raise the epoch first: a client with a reader's key cannot. */
static bool
has_writers(const struct nam__membership *membership)
{
	for (uint32_t id = 1; id < NAM_CLIENTS_MAX; id++)
		if (membership->members[id].state == NAM_CLIENT_ALIVE &&
			!membership->members[id].handed_over)
			return true;
	return false;
}

/* M25: a client that the lead has registered comes to its backup; or it has another session. */
static int
take_up(struct nam__membership *membership, const struct nam_rpc_register_request *request,
	struct nam__connection *connection)
{
	struct nam__member *member = &membership->members[request->client_id];
	const struct nam__newest *newest = &membership->newest[request->client_id];
	bool is_same = member->incarnation == request->incarnation;

	if (request->view > membership->view.head.number)
		return -NAM_E_VIEW;
	/* C22 */
	if (!nam__may_change(connection) && nam_epoch_ahead(request->epoch, __atomic_load_n(
			membership->epoch_word, __ATOMIC_SEQ_CST)) > READER_AHEAD_MAX &&
		has_writers(membership))
		return -EAGAIN;
	/* M5 */
	if (newest->fenced || newest->incarnation != request->incarnation ||
		(!membership->view.is_standby && (!is_same || member->state != NAM_CLIENT_ALIVE)))
		return -NAM_E_FENCED;
	if (is_same && member->state == NAM_CLIENT_ALIVE) {
		member->heard_ns = nam_now_ns();
	} else {
		if (member->state == NAM_CLIENT_FENCING)
			membership->fencing_count--;
		else if (member->state == NAM_CLIENT_ALIVE)
			membership->alive_count--;
		member->incarnation = request->incarnation;
		member->connections = membership->present[request->client_id];
		member_begin(membership, member, request, connection);
		membership->last_id = request->client_id;
	}
	session_set(member, connection);
	/* A lead in its place has a later epoch. */
	if (membership->view.is_standby || membership->view.members[0].state == NAM_VIEW_PROMOTING)
		epoch_raise(membership, request->epoch);
	/* A client without a slot gets an old one, and brings its own before this server leads. */
	__atomic_store_n(&membership->epoch_slots[request->client_id], request->slot ?:
		__atomic_load_n(membership->epoch_word, __ATOMIC_SEQ_CST), __ATOMIC_SEQ_CST);
	return 0;
}

/* M18: by this other memory servers see that the name is of the key's holder.  0 without keys. */
static uint32_t
vouch(const struct nam__exchange *exchange, uint16_t client_id, uint16_t incarnation,
	void *ret_voucher)
{
	const struct nam__auth_name name = { exchange->connection->proven.print, client_id,
		incarnation };

	return nam__auth_vouch_name(exchange->server, &name, ret_voucher);
}

int
nam__service_register(struct nam__exchange *exchange)
{
	const struct nam_rpc_register_request *request = exchange->body;
	struct nam_rpc_register_reply *reply = exchange->reply;
	struct nam__membership *membership = &exchange->server->membership;
	uint16_t region = (uint16_t)nam__first_region_id(exchange->server);
	int rc;

	/* Once over one connection, and not over one that has a client already, or as that one. */
	if (request->client_id != exchange->connection->client_id ||
		request->incarnation != exchange->connection->incarnation || request->reserved ||
		(!request->client_id && (request->slot || request->epoch)) ||
		!memchr(request->name, '\0', sizeof(request->name)) ||
		(request->acknowledged && request->acknowledged != request->view))
		return -NAM_E_FABRIC_PROTOCOL;
	if (!request->client_id && !nam__leads(exchange->server))
		return -NAM_E_CLUSTER;
	pthread_mutex_lock(&membership->mutex);
	rc = request->client_id ? take_up(membership, request, exchange->connection) :
		give_id(membership, request, exchange->connection);
	pthread_mutex_unlock(&membership->mutex);
	if (rc)
		return rc;
	*reply = (struct nam_rpc_register_reply){
		.client_id = exchange->connection->client_id,
		.incarnation = exchange->connection->incarnation,
		.epoch_word = nam_gaddr_make(region, NAM_META_EPOCH_OFFSET, 0).raw,
		.epoch_slots = nam_gaddr_make(region, NAM_META_SLOTS_OFFSET, 0).raw,
	};
	exchange->reply_bytes = sizeof(*reply) + vouch(exchange,
		exchange->connection->client_id, exchange->connection->incarnation, reply + 1);
	return 0;
}

int
nam__service_client_state(struct nam__exchange *exchange)
{
	const struct nam_rpc_client_state_request *request = exchange->body;
	struct nam_rpc_client_state_reply *reply = exchange->reply;
	struct nam__membership *membership = &exchange->server->membership;
	const struct nam__member *member;
	uint16_t incarnation;
	bool is_own;

	if (request->reserved || !request->client_id || request->client_id >= NAM_CLIENTS_MAX)
		return -NAM_E_FABRIC_PROTOCOL;
	if (!nam__leads(exchange->server))
		return -NAM_E_CLUSTER;
	memset(reply, 0, sizeof(*reply));
	pthread_mutex_lock(&membership->mutex);
	member = &membership->members[request->client_id];
	incarnation = request->incarnation ?: member->incarnation;
	reply->state = nam__member_state(membership, request->client_id, incarnation);
	reply->incarnation = member->incarnation;
	if (incarnation && incarnation == member->incarnation) {
		reply->pid = member->pid;
		memcpy(reply->name, member->name, sizeof(reply->name));
	}
	/* The admin's key under which it was given may have been replaced since. */
	is_own = reply->state == NAM_CLIENT_ALIVE &&
		member->key == exchange->connection->proven.print;
	pthread_mutex_unlock(&membership->mutex);
	exchange->reply_bytes = sizeof(*reply);
	if (is_own)
		exchange->reply_bytes += vouch(exchange, request->client_id, incarnation,
			reply + 1);
	return 0;
}

int
nam__service_presence(struct nam__exchange *exchange)
{
	struct nam_rpc_presence_reply *reply = exchange->reply;
	struct nam__membership *membership = &exchange->server->membership;

	memset(reply, 0, sizeof(*reply));
	exchange->reply_bytes = sizeof(*reply);
	NAM__SCOPED_LOCK(&membership->mutex);
	for (uint32_t id = 0; id < NAM_CLIENTS_MAX; id++)
		reply->ids[id / 64] |= (uint64_t)(membership->present[id] != 0) << id % 64;
	return 0;
}

/* The slots share a page, which readers may not WRITE.  M6: never that of a dead client. */
int
nam__service_epoch(struct nam__exchange *exchange)
{
	const struct nam_rpc_epoch_request *request = exchange->body;
	const struct nam__connection *connection = exchange->connection;
	struct nam__membership *membership = &exchange->server->membership;
	const struct nam__member *member;

	if (!connection->client_id)
		return -NAM_E_FABRIC_PROTOCOL;
	NAM__SCOPED_LOCK(&membership->mutex);
	member = member_of(membership, connection);
	if (!member || member->state == NAM_CLIENT_DEAD)
		return -NAM_E_FENCED;
	__atomic_store_n(&membership->epoch_slots[connection->client_id], request->epoch,
		__ATOMIC_SEQ_CST);
	return 0;
}
