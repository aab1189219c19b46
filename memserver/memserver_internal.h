/* SPDX-License-Identifier: Apache-2.0 */
/*
 * memserver_internal.h -- the inside of a memory server.
 *
 *	server		the process: its regions, its handlers, the thread that admits clients
 *	handler		one thread with its own completion queue and receive queue
 *	connection	one queue pair of one client; belongs to one handler
 *	service		the answer to one type of request; state under a mutex, held briefly
 *
 * Every byte of a request is untrusted.  Sources take from here what nearly all of them need.
 */
#ifndef NAM_MEMSERVER_MEMSERVER_INTERNAL_H
#define NAM_MEMSERVER_MEMSERVER_INTERNAL_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/param.h>		/* MIN */

#include "common/auth/keys.h"
#include "common/env.h"
#include "common/fabric/fabric.h"
#include "common/fabric/pages.h"
#include "common/fabric/wait/spin.h"
#include "common/fabric/colocated.h"
#include "common/guard.h"
#include "common/race.h"
#include "common/rpc/frame.h"
#include "common/rpc/status_rpc.h"
#include "kv/server/htm.h"
#include "memserver/move/noted.h"
#include "memserver/services/services.h"
#include "txn/server/locks.h"
#include "objects.h"
#include "server.h"

static inline pthread_mutex_t *
nam__mutex_take(pthread_mutex_t *mutex)
{
	(void)pthread_mutex_lock(mutex);
	return mutex;
}

static inline void
nam__mutex_give(pthread_mutex_t *const *mutex)
{
	(void)pthread_mutex_unlock(*mutex);
}

/* The mutex is held up to the end of the block. */
#define NAM__SCOPED_LOCK(mutex)                                                                     \
	pthread_mutex_t *const held __attribute__((cleanup(nam__mutex_give), unused)) =             \
		nam__mutex_take(mutex)

/* The array with room for `count` elements; NULL: no memory, and it is as it was. */
static inline void *
nam__array_grown(void *array, uint32_t *size, uint32_t count, size_t element_bytes)
{
	uint32_t larger = MAX(MAX(*size * 2, count), 16);
	void *grown = count <= *size ? array : realloc(array, larger * element_bytes);

	if (grown && count > *size)
		*size = larger;
	return grown;
}

#define NAM__HANDLERS_MAX 64u
#define NAM__HANDLER_BUFFERS 128u	/* requests by SEND that a handler can have under way */
#define NAM__HANDLER_CONNECTIONS_MAX 1000u
#define NAM__PROBES_MAX 8u		/* more connections, which ask for figures; */
#define NAM__PROBES_PEER_MAX 4u		/* of one peer */
/* Requests of a connection under way beside those: its mails, a ring, a spare reply. */
#define NAM__CONNECTION_REQUESTS (NAM_FRAMES + 4u)

/* ---- memory.c -------------------------------------------------------------------------------- */

struct nam__memory {
	uint64_t bytes;			/* all regions */
	uint64_t region_bytes;
	uint32_t count;
	uint32_t page_bytes_log2;
	uint32_t transparent_huge;
	int numa_node;
	struct nam_mr mrs[NAM_REGIONS_PER_SERVER];
	/* The server's own: those of mrs, or private memory in the place of the region. */
	_Atomic(uint8_t *) bases[NAM_REGIONS_PER_SERVER];
	uint8_t *public_bases[NAM_REGIONS_PER_SERVER];	/* where they are while they are public */
	_Atomic uint8_t kinds[NAM_REGIONS_PER_SERVER];	/* enum nam_memory_kind */
	pthread_mutex_t mutex;	/* a region that is trimmed is not changed meanwhile */
};

/* Whether sizes, pages and node fit together; what the host has left does not count. */
int nam__memory_check(const struct nam_server_options *options,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* Choose the pages, allocate and register all regions, or none. */
int nam__memory_open(struct nam__memory *memory, struct nam_domain *domain,
	const struct nam_server_options *options, struct nam_diag *notice,
	struct nam_diag *diag) NAM_MUST_CHECK;
void nam__memory_close(struct nam__memory *memory, struct nam_domain *domain);
/*
 * Take a region from the clients, for structures that this server executes.  It gets fresh memory
 * that no client can reach, whose pages come as they are touched.  0; -ENOMEM: the region is lost.
 */
int nam__memory_withdraw(struct nam__memory *memory, struct nam_domain *domain,
	uint32_t region) NAM_MUST_CHECK;
/*
 * Give a withdrawn region to the clients again, public or read-only: all its pages are there, and
 * zero.  The caller ensures that no handler looks at the private memory, which is lost.  0, or
 * negative with the cause: the region stays private.  Its memory is fresh; pages may be small.
 */
int nam__memory_restore(struct nam__memory *memory, struct nam_domain *domain, uint32_t region,
	enum nam_memory_kind kind, struct nam_diag *diag) NAM_MUST_CHECK;
/* Give back what clients' own mappings have used of withdrawn memory. */
void nam__memory_trim(struct nam__memory *memory, struct nam_domain *domain);
/*
 * `bytes` at an address that a client named.  NULL: they are in no public region of ours, or in
 * the page of the epochs.  Clients may change them at any time.
 */
void *nam__memory_public_at(const struct nam_server *server, struct nam_gaddr at, uint32_t bytes);

/* ---- handler.c ------------------------------------------------------------------------------- */

/* A client as it has proven itself; without keys every client may do all. */
struct nam__proven {
	uint64_t print;			/* its key's fingerprint; 0: there are no keys */
	_Atomic uint32_t role;		/* enum nam_role; less, once its key was removed */
};

struct nam__connection {
	LIST_ENTRY(nam__connection) link;	/* server->connections */
	struct nam_qp *qp;
	struct nam__handler *handler;
	uint16_t client_id;		/* 0: none yet */
	uint16_t incarnation;
	atomic_bool session;		/* its client's: REGISTER came over none later */
	bool present;			/* it counts in membership.present */
	bool probes;			/* for figures only: in a reserved place */
	bool fenced;			/* its handler is to destroy the queue pair */
	bool exports, keeps_objects_out;	/* it counts in membership.exporting; see below */
	struct nam__proven proven;
	uint32_t peer;			/* index in server->peers */
	int64_t pid;			/* of struct nam_cm_event */
	uint32_t one_way_done;		/* one-way requests, failed or not */
	uint32_t one_way_failed;
	struct nam__mailbox *mailbox;	/* NULL: requests come by SEND only */
	struct nam__view_stage *view_stage;	/* services/view.c; NULL: none */
	struct nam__move_stage *move_stage;	/* move/books.h; NULL: none */
};

/* The common part of a SEND and a receive buffer. */
struct nam__buffer {
	uint8_t *request;		/* NULL: a mailbox's, which is not posted */
	uint8_t *reply;
	struct nam__connection *sending;	/* the reply is on its way to */
};

/* struct nam_service_figures; written by one handler. */
struct nam__service_counts {
	_Atomic uint64_t requests, failed, total_ns, within[NAM_LATENCIES];
};

/* For a count of which this thread is the only writer. */
static inline void
nam__count(_Atomic uint64_t *count, uint64_t more)
{
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + more,
		memory_order_relaxed);
}

struct nam__handler {
	struct nam_server *server;
	void (*closed)(struct nam__connection *connection);
	struct nam_cq *cq;
	struct nam_rq *rq;
	struct nam_thread *thread;
	struct nam_mr mr;
	uint8_t *memory;		/* a request and a reply for each buffer */
	struct nam__buffer *buffers;
	uint64_t *scratch;		/* for work on trees */
	uint8_t *value;			/* longer than a message: on its way (services/kv.c) */
	struct nam__noted_later noted_later;
	_Atomic uint64_t began;		/* work on a tree or store, at that count of the clock */
	struct nam__service_counts services[NAM_SERVICES_MAX];
	_Atomic uint32_t connections;
	atomic_bool fencing;		/* some of its connections are fenced */
	/* mailbox.c */
	_Atomic(struct nam__mailbox *) arrivals;	/* of connections just accepted */
	LIST_HEAD(, nam__mailbox) mailboxes;
	struct nam_frame *frame;	/* a copy of the request that is being answered */
	uint8_t *reply;			/* and the answer, until it is known where it fits */
	uint64_t polled_ns;		/* when all mailboxes were last looked at */
	uint64_t idle_ns;		/* since when there has been nothing to do; 0: there has */
	uint64_t asleep_ns;		/* since when the handler has waited, all clients armed */
	struct nam__spin spin;		/* how long it looks on before */
	bool armed;			/* all clients know that they must wake it */
};

/* A reply has left its buffer, or never will. */
void nam__handler_buffer_done(struct nam__handler *handler, struct nam__buffer *buffer);

/* `closed` is called by its thread once a connection of its has closed. */
int nam__handler_start(struct nam__handler *handler, struct nam_server *server, unsigned number,
	void (*closed)(struct nam__connection *connection), struct nam_diag *diag) NAM_MUST_CHECK;
/* Two steps, so that every handler has stopped before any is freed.  Both accept zeroes. */
void nam__handler_stop(struct nam__handler *handler);
void nam__handler_free(struct nam__handler *handler);

/* ---- admission/peers.c ----------------------------------------------------------------------- */

/*
 * Make the handlers close all connections of a fenced client, of that incarnation and before.  If
 * client_id is 0, those of all clients.  `except` stays.  Returns how many are left: their queue
 * pairs are not destroyed yet.
 */
uint32_t nam__connections_fence(struct nam_server *server, uint16_t client_id,
	uint16_t incarnation, const struct nam__connection *except);
/* With server->mutex: its handler is to destroy its queue pair. */
void nam__connection_fence(struct nam__connection *connection);
/* A connection of this handler that is fenced, or NULL. */
struct nam__connection *nam__connection_fenced(struct nam__handler *handler);

void nam__log(const struct nam_server *server, enum nam_log_level level, const char *event,
	const char *format, ...) NAM_PRINTF(4, 5);

/* ---- metrics.c ------------------------------------------------------------------------------- */

/* Counts why a connection was refused.  The listener's thread. */
void nam__count_refusal(struct nam_server *server, int rc);
/* services/info.c: all of STATUS */
void nam__status(struct nam_server *server, struct nam_rpc_status_reply *ret);

struct nam_server {
	struct nam_server_options options;
	const struct nam__life *life;	/* for those that it hosts */
	char listen[128];
	const struct nam_fabric_ops *ops;
	struct nam_domain *domain;
	struct nam_listener *listener;
	uint64_t boot;
	uint64_t started_ns;
	struct nam__hosted *host;	/* move/host.c; NULL: it has its own process */
	struct nam__memory memory;
	struct nam__populate populate;
	struct nam__proof proof;	/* fd -1: regions are no files, or there is no page */
	struct nam__allocator allocator;
	struct nam__catalog catalog;
	struct nam__membership membership;
	struct nam__noted noted;	/* of the memory server that is copied */
	struct nam__objects trees, stores;
	enum nam__htm htm;		/* of partitions of stores */
	_Atomic uint64_t work_clock;	/* from 1 on: objects.h */
	uint32_t record_locks[NAM__RECORDS_LOCKS];	/* services/records.c */
	struct nam__finished finished[NAM_CLIENTS_MAX];	/* services/locking.c */
	uint64_t records_clock_ns;	/* ahead of the host's: services/records.h */
	_Atomic uint32_t phase;		/* enum nam_server_phase */
	struct nam__handler handlers[NAM__HANDLERS_MAX];
	uint32_t next_handler[2];	/* of clients that have no id yet, and of the others */
	atomic_bool stopping;
	_Atomic uint32_t connections_count;
	_Atomic uint64_t accepted, refused[NAM_REFUSALS_COUNT];
	struct nam__strikes *strikes;	/* auth.c; the listener's thread */
	pthread_mutex_t mutex;		/* all below; held while a connection is accepted */
	struct nam__auth_keys *keys;		/* NULL: no client needs one */
	LIST_HEAD(, nam__connection) connections;
	LIST_HEAD(, nam__hosted) hosted;	/* move/host.c: of this process */
	struct nam__peer *peers;	/* peers.c */
	uint32_t peers_count, peers_size;
	uint32_t probes, objects_kept_out;	/* connections: for figures; that keep trees out */
	bool warned_descriptors, warned_peer, warned_handlers;	/* of refused connections */
};

static inline uint32_t
nam__first_region_id(const struct nam_server *server)
{
	return server->options.id * NAM_REGIONS_PER_SERVER;
}

/* The lead has the view in force, the clients and the catalog. */
static inline bool
nam__leads(const struct nam_server *server)
{
	return server->options.id == 0 && !atomic_load_explicit(
		&server->membership.view.is_standby, memory_order_acquire);
}

/* M18: a client with a reader's key changes nothing. */
static inline bool
nam__may_change(const struct nam__connection *connection)
{
	return !NAM_GUARD(KEY_READ) || connection->proven.role >= NAM_ROLE_WRITE;
}

/* M18 */
static inline bool
nam__is_admin(const struct nam__exchange *exchange)
{
	return !NAM_GUARD(KEY_ROLE) || exchange->connection->proven.role >= NAM_ROLE_ADMIN;
}

#endif /* NAM_MEMSERVER_MEMSERVER_INTERNAL_H */
