/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memserver_internal.h -- the inside of a memory server.
 *
 *	server		the process: its regions, its handlers, the thread that admits clients
 *	handler		one thread with its own completion queue and receive queue
 *	connection	one queue pair of one client; belongs to one handler
 *	service		what answers one type of request; state under a mutex, held briefly
 *
 * Every byte of a request is untrusted.
 */
#ifndef NAM_MEMSERVER_MEMSERVER_INTERNAL_H
#define NAM_MEMSERVER_MEMSERVER_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cluster.h"
#include "common/env.h"
#include "common/fabric/fabric.h"
#include "common/fabric/colocated.h"
#include "common/gaddr.h"
#include "common/layout.h"
#include "common/rpc/frame.h"
#include "common/rpc/rpc.h"
#include "txn/server/locks.h"
#include "txn/server/records.h"
#include "server.h"

#define NAM__HANDLERS_MAX 64u
#define NAM__HANDLER_BUFFERS 128u	/* requests by SEND that a handler can have under way */
#define NAM__HANDLER_CONNECTIONS_MAX 1000u
/*
 * What a connection can have under way beside those: its mails, a ring, a spare reply; unreliable
 * queue pairs.
 */
#define NAM__CONNECTION_REQUESTS (NAM_FRAMES + 4u)
#define NAM__CATALOG_MAX 4096u
#define NAM__RUNS_MAX 262144u		/* of one server */
#define NAM__STRIDES_MAX 256u
#define NAM__ALLOC_COUNT_MAX 65536u	/* blocks of one request */

/* ---- memory.c ----------------------------------------------------------------------------- */

struct nam__memory {
	uint64_t bytes;			/* all regions */
	uint64_t region_bytes;
	uint32_t count;
	uint32_t page_bytes_log2;
	uint32_t transparent_huge;
	struct nam_mr mrs[NAM_REGIONS_PER_SERVER];
};

/* Choose the pages, allocate and register every region.  All or nothing. */
int nam__memory_open(struct nam__memory *memory, struct nam_domain *domain,
	const struct nam_server_options *options, struct nam_diag *notice,
	struct nam_diag *diag) NAM_MUST_CHECK;
void nam__memory_close(struct nam__memory *memory, struct nam_domain *domain);

/* ---- services/alloc.c --------------------------------------------------------------------- */

struct nam__run;

struct nam__allocator {
	pthread_mutex_t mutex;
	uint32_t first_region_id;
	uint32_t regions_count;
	uint32_t runs_count;
	uint32_t strides_count;
	uint64_t carved_bytes;
	uint64_t free_bytes;
	struct nam__alloc_region {
		uint64_t bytes;
		uint64_t next;		/* offset of the first byte that was never handed out */
		struct nam__run *runs;	/* by offset */
		uint32_t runs_count;
		uint32_t runs_size;
	} *regions;
	struct nam__stride {
		uint32_t stride;
		uint32_t first;		/* link of a run with free blocks, or NAM__LINK_NONE */
	} strides[NAM__STRIDES_MAX];
};

/* `bytes` of each region; `reserved` bytes at the start of the first are never handed out. */
int nam__allocator_init(struct nam__allocator *allocator, uint32_t first_region_id,
	const uint64_t *bytes, uint32_t count, uint64_t reserved) NAM_MUST_CHECK;
void nam__allocator_free(struct nam__allocator *allocator);

/* For the server itself: up to `count` blocks; returns how many.  And back. */
uint32_t nam__allocator_take(struct nam__allocator *allocator, uint32_t stride,
	uint64_t *ret_blocks, uint32_t count);
void nam__allocator_give(struct nam__allocator *allocator, uint32_t stride,
	const uint64_t *blocks, uint32_t count);

/* ---- services/catalog.c ------------------------------------------------------------------- */

struct nam__catalog {
	pthread_mutex_t mutex;
	uint32_t count;
	uint32_t size;
	struct nam_rpc_catalog_entry *entries;	/* by name */
};

int nam__catalog_init(struct nam__catalog *catalog) NAM_MUST_CHECK;
void nam__catalog_free(struct nam__catalog *catalog);

/* ---- trees.c ------------------------------------------------------------------------------ */

#define NAM__TREES_SLOTS (2 * NAM__CATALOG_MAX)
#define NAM__TREE_SCRATCH_BYTES (3u * 16384u)	/* nam__tree_server_scratch_bytes() of any tree */

struct nam__tree;
struct nam__tree_limbo;
struct nam__connection;
struct nam__handler;

struct nam__trees {
	_Atomic(struct nam__tree *) *slots;	/* by number; read without a lock */
	_Atomic uint64_t clock;		/* from 1 on: see trees.h */
	pthread_mutex_t mutex;		/* of what follows, and of changes of the slots */
	_Atomic uint32_t count;
	_Atomic uint32_t dropped_count;
	struct nam__tree_limbo *dropped;	/* oldest first */
};

int nam__trees_init(struct nam__trees *trees) NAM_MUST_CHECK;
/* Nobody may be at work.  Accepts zeroes. */
void nam__trees_free(struct nam__trees *trees);
/* Loads that came over it are over. */
void nam__trees_connection_closed(struct nam__trees *trees,
	const struct nam__connection *connection);
/* To be called between requests: frees dropped trees that nobody works on any more. */
void nam__trees_idle(struct nam_server *server);

/* ---- stores.c ----------------------------------------------------------------------------- */

#define NAM__STORES_MAX 256u

struct nam__store;

struct nam__stores {
	_Atomic(struct nam__store *) slots[NAM__STORES_MAX];	/* read without a lock */
	_Atomic uint32_t slots_used;	/* slots behind these never were */
	pthread_mutex_t mutex;		/* of changes of the slots, and of what follows */
	_Atomic uint32_t dropped_count;
	struct nam__store *dropped;	/* oldest first */
};

int nam__stores_init(struct nam__stores *stores) NAM_MUST_CHECK;
/* Nobody may be at work.  Accepts zeroes. */
void nam__stores_free(struct nam__stores *stores);
/* To be called between requests: frees dropped stores that nobody works on any more. */
void nam__stores_idle(struct nam_server *server);

/* ---- services/membership.c ---------------------------------------------------------------- */

struct nam__member {
	uint16_t incarnation;		/* 0: the id was never given out */
	bool alive;
	/* the session connection, and those whose hello said this id */
	uint32_t connections;
	uint64_t pid;
	char name[48];
};

struct nam__membership {
	pthread_mutex_t mutex;
	uint32_t present[NAM_CLIENTS_MAX];	/* queue pairs of each client id */
	/* Of server 0 only: */
	uint64_t *epoch_slots;		/* in region 0 */
	uint32_t last_id;
	uint32_t alive_count;
	struct nam__member *members;	/* NAM_CLIENTS_MAX */
};

int nam__membership_init(struct nam__membership *membership, uint8_t *meta) NAM_MUST_CHECK;
void nam__membership_free(struct nam__membership *membership);

struct nam__connection;

/*
 * A queue pair that claims to be a client's comes: 0, or -NAM_E_FENCED if that client was declared
 * dead.  And it goes again, once it has been destroyed.
 */
int nam__membership_attach(struct nam__membership *membership,
	struct nam__connection *connection) NAM_MUST_CHECK;
void nam__membership_detach(struct nam__membership *membership,
	struct nam__connection *connection);

/* ---- handler.c ---------------------------------------------------------------------------- */

struct nam__connection {
	struct nam__connection *next, *previous;	/* server->connections */
	struct nam_qp *qp;
	struct nam__handler *handler;
	uint16_t client_id;		/* 0: nobody yet */
	uint16_t incarnation;
	bool life_line;			/* REGISTER came over it */
	bool present;			/* it counts in membership.present */
	uint32_t one_way_done;		/* passive requests, failed or not */
	uint32_t one_way_failed;
	struct nam__mailbox *mailbox;	/* NULL: requests come by SEND only */
};

/* What a SEND of ours and a receive buffer have in common. */
struct nam__buffer {
	uint8_t *request;		/* NULL: a mailbox's, which nobody posts */
	uint8_t *reply;
	struct nam__connection *sending;	/* the reply is on its way to */
};

struct nam__handler {
	struct nam_server *server;
	struct nam_cq *cq;
	struct nam_rq *rq;
	struct nam_thread *thread;
	struct nam_mr mr;
	uint8_t *memory;		/* a request and a reply for each buffer */
	struct nam__buffer *buffers;
	uint64_t *scratch;		/* for work on trees */
	_Atomic uint64_t began;		/* work on a tree or store, at that count of the clock */
	_Atomic uint64_t requests;	/* answered */
	_Atomic uint32_t connections;
	/* mailbox.c */
	_Atomic(struct nam__mailbox *) arrivals;	/* of connections just accepted */
	struct nam__mailbox *mailboxes;
	struct nam_frame *frame;	/* a copy of the request that is being answered */
	uint8_t *reply;			/* and the answer, until it is known where it fits */
	uint64_t looked_ns;		/* when all mailboxes were last looked at */
	uint64_t idle_ns;		/* since when there has been nothing to do; 0: there has */
	uint32_t spin_ns;		/* how long that goes on before the handler sleeps */
	bool announced;			/* everybody knew that it goes to sleep, then it looked */
};

/* A request has been answered. */
void nam__handler_count(struct nam__handler *handler);
/* A reply has left its buffer, or never will. */
void nam__handler_buffer_done(struct nam__handler *handler, struct nam__buffer *buffer);

int nam__handler_start(struct nam__handler *handler, struct nam_server *server, unsigned number,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* Two steps, so that every handler has stopped before any is freed.  Both accept zeroes. */
void nam__handler_stop(struct nam__handler *handler);
void nam__handler_free(struct nam__handler *handler);

/* ---- mailbox.c ---------------------------------------------------------------------------- */

/* What is known of a place in the rings; and one more, for the word in the client's share. */
struct nam__mail {
	struct nam__mailbox *box;
	enum { NAM__MAIL_IDLE, NAM__MAIL_WAITS, NAM__MAIL_WRITING } state;
	uint32_t bytes;			/* of the reply's frame */
	/*
	 * With an unreliable queue pair, of the last request from here: its front word, its number,
	 * our SEND.
	 */
	uint64_t front;
	uint32_t number;
	struct nam__buffer sent;
};

struct nam__mailbox {
	struct nam__mailbox *next;	/* handler->arrivals or ->mailboxes */
	struct nam__connection *connection;
	struct nam_mr mr;		/* our share: requests, replies, the word's next value */
	struct nam_wire_mailbox_hello client;
	uint32_t number;		/* of the last request taken */
	uint32_t waiting;		/* replies that the queue pair had no room for */
	struct nam_qp *unreliable_qp;		/* NULL: requests come over the queue pair */
	uint64_t unreliable_qp_name;
	bool told;			/* the client knows that it must ring */
	bool rung;			/* it did, and wants to hear that it was answered */
	struct nam__buffer ring;	/* stands for our SEND of that */
	struct nam__buffer spare;	/* a reply that fits in no frame; one at a time */
	struct nam__mail mails[NAM_FRAMES + 1];
};

int nam__mailbox_open(struct nam__connection *connection,
	const struct nam_wire_mailbox_hello *client, bool unreliable_qp) NAM_MUST_CHECK;
/* Once the connection is complete: its handler will look at it. */
void nam__mailbox_start(struct nam__connection *connection);
/* By the handler, before the queue pair is destroyed; and the memory, after that. */
void nam__mailbox_stop(struct nam__connection *connection);
void nam__mailbox_free(struct nam__connection *connection);

/* Answer what has come; whether there was anything. */
bool nam__mailboxes_look(struct nam__handler *handler);
/* One of our WRITEs has completed. */
void nam__mailbox_completed(const struct nam_wc *wc);
/* The client has rung. */
void nam__mailbox_rung(struct nam__connection *connection);
/* A request of its came as a message, which may have been for want of a ring. */
void nam__mailbox_woken(struct nam__connection *connection);
/* There was something to do. */
void nam__mailboxes_busy(struct nam__handler *handler);
/* There was nothing to do: whether the handler may sleep now. */
bool nam__mailboxes_rest(struct nam__handler *handler);

/*
 * The handler's reply is too long for a frame, or for a datagram: by SEND, from box->spare, which
 * is free.  If that fails, the client's time is out.
 */
void nam__spare_send(struct nam__mailbox *box, uint32_t bytes);

/*
 * datagram.c: answer what has come over the box's unreliable queue pair; whether there was
 * anything.
 */
bool nam__unreliable_qp_poll(struct nam__handler *handler, struct nam__mailbox *box);

/* ---- services ----------------------------------------------------------------------------- */

/* A request and the room for its answer. */
struct nam__exchange {
	struct nam_server *server;
	struct nam__connection *connection;
	const void *body;		/* 8-byte aligned; a copy, so nobody changes it */
	uint32_t body_bytes;
	void *reply;			/* NAM_RPC_BODY_MAX bytes, 8-byte aligned */
	uint32_t reply_bytes;		/* set by the service; ignored when it fails */
};

typedef int (*nam__service_fn)(struct nam__exchange *exchange);

int nam__service_ping(struct nam__exchange *exchange);
int nam__service_echo(struct nam__exchange *exchange);
int nam__service_regions(struct nam__exchange *exchange);
int nam__service_status(struct nam__exchange *exchange);
int nam__service_register(struct nam__exchange *exchange);
int nam__service_client_state(struct nam__exchange *exchange);
int nam__service_presence(struct nam__exchange *exchange);
int nam__service_alloc(struct nam__exchange *exchange);
int nam__service_free(struct nam__exchange *exchange);
int nam__service_catalog_put(struct nam__exchange *exchange);
int nam__service_catalog_get(struct nam__exchange *exchange);
int nam__service_catalog_list(struct nam__exchange *exchange);
int nam__service_catalog_drop(struct nam__exchange *exchange);
int nam__service_tree_create(struct nam__exchange *exchange);
int nam__service_tree_describe(struct nam__exchange *exchange);
int nam__service_tree_drop(struct nam__exchange *exchange);
int nam__service_tree_point(struct nam__exchange *exchange);
int nam__service_tree_scan(struct nam__exchange *exchange);
int nam__service_tree_load(struct nam__exchange *exchange);
int nam__service_tree_walk(struct nam__exchange *exchange);
int nam__service_tree_collect(struct nam__exchange *exchange);
int nam__service_tree_floor(struct nam__exchange *exchange);
int nam__service_local(struct nam__exchange *exchange);
int nam__service_kv_create(struct nam__exchange *exchange);
int nam__service_kv_describe(struct nam__exchange *exchange);
int nam__service_kv_drop(struct nam__exchange *exchange);
int nam__service_kv_get(struct nam__exchange *exchange);
int nam__service_kv_put(struct nam__exchange *exchange);
int nam__service_kv_delete(struct nam__exchange *exchange);
int nam__service_kv_get_many(struct nam__exchange *exchange);
int nam__service_records_get(struct nam__exchange *exchange);
int nam__service_records_prepare(struct nam__exchange *exchange);
int nam__service_records_commit(struct nam__exchange *exchange);
int nam__service_locking_read(struct nam__exchange *exchange);
int nam__service_locking_release(struct nam__exchange *exchange);
int nam__service_locking_prepare(struct nam__exchange *exchange);
int nam__service_locking_end(struct nam__exchange *exchange);
int nam__service_locking_seal(struct nam__exchange *exchange);

/*
 * nam__dispatch -- answer one message.
 *
 * @message, @bytes	as received
 * @reply		NAM_RPC_BYTES_MAX bytes
 *
 * Returns the length of the reply, or 0 when the message is too broken to be answered, or needs no
 * answer.
 */
uint32_t nam__dispatch(struct nam_server *server, struct nam__connection *connection,
	const void *message, uint32_t bytes, void *reply);

/* ---- server.c ----------------------------------------------------------------------------- */

struct nam_server {
	struct nam_server_options options;
	char listen[128];
	const struct nam_fabric_ops *ops;
	struct nam_domain *domain;
	struct nam_listener *listener;
	uint64_t boot;
	uint64_t started_ns;
	struct nam__memory memory;
	struct nam__proof proof;	/* fd -1: regions are no files, or there is no page */
	struct nam__allocator allocator;
	struct nam__catalog catalog;
	struct nam__membership membership;
	struct nam__trees trees;
	struct nam__stores stores;
	uint32_t record_locks[NAM__RECORDS_LOCKS];	/* services/records.c */
	struct nam__finished finished[NAM_CLIENTS_MAX];	/* services/locking.c */
	struct nam__handler handlers[NAM__HANDLERS_MAX];
	uint32_t next_handler[2];	/* of clients that have no id yet, and of the others */
	atomic_bool stopping;
	_Atomic uint32_t connections_count;
	pthread_mutex_t mutex;		/* connections; held while one is accepted */
	struct nam__connection *connections;
};

/* The handler of a connection has seen it close. */
void nam__connection_closed(struct nam__connection *connection);

static inline uint32_t
nam__first_region_id(const struct nam_server *server)
{
	return server->options.id * NAM_REGIONS_PER_SERVER;
}

#endif /* NAM_MEMSERVER_MEMSERVER_INTERNAL_H */
