/* SPDX-License-Identifier: Apache-2.0 */
/* services.h -- answers to requests: one function for each type, and the state behind it. */
#ifndef NAM_MEMSERVER_SERVICES_SERVICES_H
#define NAM_MEMSERVER_SERVICES_SERVICES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/gaddr.h"
#include "common/layout.h"
#include "common/rpc/alloc_rpc.h"
#include "common/rpc/rpc.h"
#include "common/rpc/view_rpc.h"

#define NAM__CATALOG_MAX 4096u
#define NAM__RUNS_MAX 262144u		/* of one server */
#define NAM__RUN_BYTES_MIN (1u << 20)
#define NAM__STRIDES_MAX 256u
#define NAM__ALLOC_COUNT_MAX 32768u	/* blocks of one request */

struct nam_server;
struct nam__connection;

/* ---- services/alloc.c ------------------------------------------------------------------------ */

struct nam__run;
LIST_HEAD(nam__run_list, nam__run);

struct nam__allocator_memory {
	void *arg;
	/* The server's own address of a region. */
	uint8_t *(*base)(void *arg, uint32_t region);
	/* Take a region without blocks from the clients: 0, or negative, and the region is lost. */
	int (*withdraw)(void *arg, uint32_t region);
	/* Give one back to the clients, zeroed: 0, or negative, and it stays withdrawn. */
	int (*restore)(void *arg, uint32_t region, enum nam_memory_kind kind);
};

struct nam__allocator {
	pthread_mutex_t mutex;
	uint32_t first_region_id;
	uint32_t regions_count;
	uint32_t runs_count;		/* that have blocks */
	uint32_t strides_count;
	uint64_t run_bytes;		/* the longest run with more than one block */
	uint64_t reserve_bytes;		/* public memory that is left but for passing uses (M20) */
	uint64_t batch;			/* of the last HOLD */
	uint64_t sweep;			/* the number of the one under way; or 0 */
	uint64_t sweep_living[NAM_CLIENTS_MAX / 64];	/* bits: clients that it takes for alive */
	struct nam__run_list held;
	struct nam_memory_figures memory[NAM_MEMORY_KINDS];
	struct nam__allocator_memory calls;
	struct nam__alloc_region {
		uint64_t bytes;
		uint64_t carved_bytes;
		struct nam__run **runs;	/* by offset, one behind the other, up to the end */
		uint32_t runs_count;
		uint32_t runs_size;
		struct nam__run_list vacant;
		bool pinned;		/* it stays public: its first bytes are used otherwise */
		bool had_blocks;	/* not private ones: old addresses lead there */
		enum nam_memory_kind kind;	/* private: withdrawn from the clients */
		uint64_t turning;	/* batch after which it is as announced; 0: it is */
		_Atomic uint32_t announced;	/* the kind that REGIONS says */
	} *regions;
	struct nam__stride {
		uint32_t stride;
		enum nam_memory_kind kind;
		struct nam__run_list runs;	/* with free blocks */
	} strides[NAM__STRIDES_MAX];
};

/*
 * @bytes	of each region
 * @reserved	bytes at the start of the first region that are never handed out
 */
int nam__allocator_init(struct nam__allocator *allocator, uint32_t first_region_id,
	const uint64_t *bytes, uint32_t count, uint64_t reserved,
	const struct nam__allocator_memory *calls) NAM_MUST_CHECK;
void nam__allocator_free(struct nam__allocator *allocator);

/* For the server itself: up to `count` blocks; returns how many.  And back. */
uint32_t nam__allocator_take(struct nam__allocator *allocator, uint32_t stride,
	enum nam_memory_kind kind, uint64_t *ret_blocks, uint32_t count);
void nam__allocator_give(struct nam__allocator *allocator, uint32_t stride,
	enum nam_memory_kind kind, const uint64_t *blocks, uint32_t count);

/* ---- services/catalog.c ---------------------------------------------------------------------- */

struct nam__catalog {
	pthread_mutex_t mutex;
	uint32_t count;
	uint32_t size;
	struct nam_rpc_catalog_entry *entries;	/* by name */
};

int nam__catalog_init(struct nam__catalog *catalog) NAM_MUST_CHECK;
void nam__catalog_free(struct nam__catalog *catalog);

/* ---- services/membership.c ------------------------------------------------------------------- */

struct nam__member {
	uint16_t incarnation;		/* 0: the id was never given out */
	uint8_t state;			/* enum nam_client_state; UNKNOWN likewise */
	/* the session connection, and those whose hello has this id */
	uint32_t connections;
	struct nam__connection *session;
	uint64_t key;			/* fingerprint: REGISTER's; 0: there are no keys */
	uint64_t pid;
	uint64_t acknowledged;		/* the number of the last view that it has installed */
	uint64_t swept;			/* the sweep that it has reported to last */
	uint64_t epoch_seen;		/* in its slot, */
	uint64_t heard_ns;		/* since then, or since its last sign of life */
	uint64_t acknowledged_ns;	/* its last ACK, of whatever, or REGISTER */
	struct {
		uint64_t boot;		/* of a memory server that it has lost; 0: none */
		uint64_t since_ns;
	} cut[4];			/* others are not noted while these are UP */
	bool handed_over;		/* M23: it changes nothing any more, or never did */
	char name[48];
};

/* services/view.c */
#define NAM__LIVES_NOTED 16u

struct nam__view {
	struct nam_view_head head;	/* number 0: none yet */
	uint64_t awaited;		/* the number that the last ADD or MOVE made */
	const struct nam__connection *mover;	/* the last MOVE came over it; NULL: it closed */
	uint64_t *word;			/* of server 0: in region 0 */
	uint64_t lease_ns;		/* when that of the steward whose term it is ends */
	bool recorded;			/* another store decides */
	atomic_bool is_standby;		/* server 0: it is the lead's backup, and does not lead */
	uint64_t over[NAM__LIVES_NOTED];	/* boots of leads whose views were replaced here */
	uint32_t over_count;		/* ever */
	struct nam_view_member members[NAM_SERVERS_MAX];	/* head.count, by id */
};

/* The newest incarnation of an id that has come here, or was fenced.  Earlier ones are over. */
struct nam__newest {
	uint16_t incarnation;		/* 0: none */
	bool fenced;
};

struct nam__membership {
	pthread_mutex_t mutex;
	uint32_t present[NAM_CLIENTS_MAX];	/* queue pairs of each client id */
	struct nam__newest newest[NAM_CLIENTS_MAX];
	uint16_t newest_of_all;		/* by distance; 0: none */
	struct nam__view view;		/* server 0: the one in force; others: a copy */
	/* Server 0 only: */
	uint64_t *epoch_word;		/* in region 0; clients may damage it */
	uint64_t *epoch_slots;		/* likewise */
	uint64_t *sweep_word;		/* likewise: a hint */
	uint64_t sweep;			/* the last one that asked for reports */
	uint32_t last_id;
	uint16_t before;		/* the newest incarnation of other lives of the lead */
	uint32_t alive_count, fencing_count;
	bool unclean;			/* C32: a client ended in the middle since this one leads */
	uint32_t exporting;		/* connections that have a copy of the books */
	struct nam__member *members;	/* NAM_CLIENTS_MAX */
	atomic_bool *notes_lost;	/* of struct nam__noted; NULL: no client is to note */
};

int nam__membership_init(struct nam__membership *membership, uint8_t *meta) NAM_MUST_CHECK;
void nam__membership_free(struct nam__membership *membership);

/*
 * A queue pair that claims to be a client's comes: 0, or -NAM_E_FENCED if that client is over.  And
 * it goes again, once it has been destroyed.
 */
int nam__membership_attach(struct nam__membership *membership,
	struct nam__connection *connection) NAM_MUST_CHECK;
/* The connection's client has been fenced since it came. */
bool nam__membership_fenced(struct nam__membership *membership,
	const struct nam__connection *connection);
/* Attach one that has named no client yet.  -NAM_E_FABRIC_PROTOCOL: it is another's. */
int nam__membership_name(struct nam__membership *membership, struct nam__connection *connection,
	uint16_t client_id, uint16_t incarnation) NAM_MUST_CHECK;
void nam__membership_detach(struct nam__membership *membership,
	struct nam__connection *connection);

/* The caller holds the mutex.  That incarnation is here, or fenced, and earlier ones are over. */
void nam__newest_note(struct nam__membership *membership, uint16_t client_id, uint16_t incarnation,
	bool fenced);
/* The caller holds the mutex.  The member of that id and incarnation, or NULL. */
struct nam__member *nam__member_find(struct nam__membership *membership, uint16_t client_id,
	uint16_t incarnation);
/* The caller holds the mutex.  Server 0, a backup: it leads from now on, by its view (M25). */
void nam__membership_lead(struct nam__membership *membership);
/* The caller holds the mutex.  The member's session is over. */
void nam__member_fence(struct nam__membership *membership, struct nam__member *member);
/* The caller holds the mutex.  The member can no longer act. */
void nam__member_publish(struct nam__membership *membership, struct nam__member *member);
/* The caller holds the mutex.  The incarnation may be another than the member's. */
enum nam_client_state nam__member_state(const struct nam__membership *membership,
	uint16_t client_id, uint16_t incarnation);

/* The caller holds the mutex.  The member is not dead: it may still act. */
static inline bool
nam__member_lives(const struct nam__membership *membership, uint32_t id)
{
	uint8_t state = membership->members[id].state;

	return state == NAM_CLIENT_ALIVE || state == NAM_CLIENT_FENCING;
}

/* ---- services/liveness.c --------------------------------------------------------------------- */

/* At the most UINT32_MAX. */
uint32_t nam__ms_since(uint64_t since, uint64_t now);
/*
 * The caller holds the mutex.  The living client that has held back the epoch longest in silence;
 * 0: none.
 */
uint16_t nam__member_silent(struct nam__membership *membership, uint32_t *ret_ms);
/* The caller holds the mutex.  The member has lost the memory server with that id and boot. */
void nam__member_lost(const struct nam__membership *membership, struct nam__member *member,
	uint32_t id, uint64_t boot);
/* The caller holds the mutex.  The client, and the member, of view_rpc.h; 0: none. */
uint16_t nam__member_cut(const struct nam__membership *membership, uint16_t *ret_from,
	uint32_t *ret_ms);
/* The caller holds the mutex.  The lead's view or clients have changed: clients shall see it. */
void nam__view_word_set(struct nam__membership *membership);

/* Pages of a view whose last one is missing are gone, and so is a mover.  Its handler's thread. */
void nam__view_connection_closed(struct nam__membership *membership,
	struct nam__connection *connection);

struct nam__view_stage;
/*
 * The copy of a view in books: 0, -NAM_E_FABRIC_PROTOCOL or -ENOMEM.  It is taken, unless a later
 * one has come, and is the caller's to free.
 */
int nam__view_stage_make(const struct nam_view_head *head, const struct nam_view_member *members,
	struct nam__view_stage **ret_stage) NAM_MUST_CHECK;
void nam__view_stage_take(struct nam__membership *membership,
	const struct nam__view_stage *stage);

struct nam_move_client;
struct nam_move_head;
/* From books; beside clients that have come or were fenced here. */
void nam__membership_take(struct nam__membership *membership, const struct nam_move_head *head,
	const struct nam_move_client *clients, uint32_t count);

/* Whether the server answers that request, or takes that connection, in its phase. */
int nam__phase_serves(const struct nam_server *server, uint16_t type) NAM_MUST_CHECK;
int nam__phase_admits(const struct nam_server *server,
	const struct nam__connection *connection) NAM_MUST_CHECK;

struct nam__store;
struct nam__tree;

/* A request and the room for its answer.  Its length and its target have been checked. */
struct nam__exchange {
	struct nam_server *server;
	struct nam__connection *connection;
	struct nam__tree *tree;		/* of a request about a tree, */
	struct nam__store *store;	/* or about a key-value store */
	uint16_t type;			/* enum nam_rpc_type */
	const void *body;		/* 8-byte aligned; a copy, so no client changes it */
	uint32_t body_bytes;
	void *reply;			/* NAM_RPC_BODY_MAX bytes, 8-byte aligned */
	uint32_t reply_bytes;		/* set by the service; 0 at first; ignored when it fails */
};

typedef int nam__service_fn(struct nam__exchange *exchange);

nam__service_fn nam__service_ping, nam__service_echo, nam__service_regions, nam__service_status,
	nam__service_colocated;
nam__service_fn nam__service_register, nam__service_client_state, nam__service_presence,
	nam__service_epoch, nam__service_view, nam__service_fence, nam__service_move;
nam__service_fn nam__service_alloc, nam__service_free, nam__service_sweep,
	nam__service_reclaim;
nam__service_fn nam__service_catalog_put, nam__service_catalog_get, nam__service_catalog_list,
	nam__service_catalog_drop;
nam__service_fn nam__service_tree_create, nam__service_tree_describe, nam__service_tree_drop,
	nam__service_tree_point, nam__service_tree_scan, nam__service_tree_load,
	nam__service_tree_walk, nam__service_tree_collect, nam__service_tree_floor;
nam__service_fn nam__service_kv_create, nam__service_kv_describe, nam__service_kv_drop,
	nam__service_kv_key, nam__service_kv_large, nam__service_kv_get_many,
	nam__service_kv_layout;
nam__service_fn nam__service_records_get, nam__service_records_prepare,
	nam__service_records_commit;
nam__service_fn nam__service_locking_read, nam__service_locking_release,
	nam__service_locking_prepare, nam__service_locking_end, nam__service_locking_seal,
	nam__service_serial;

#endif /* NAM_MEMSERVER_SERVICES_SERVICES_H */
