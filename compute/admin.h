/* SPDX-License-Identifier: Apache-2.0 */
/* admin.h -- for operators: memory servers that come; clients, and the end of one. */
#ifndef NAM_COMPUTE_ADMIN_H
#define NAM_COMPUTE_ADMIN_H

#include <stdbool.h>
#include <stdint.h>

#include "client.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_server_added {
	uint32_t id;
	int already;			/* 1: it was a member, and nothing was changed */
	uint64_t view;			/* the number of the view, which has it */
};

/* @client	which one has not installed the view yet: "client 7 (loader, pid 4711)" */
typedef void (*nam_server_add_fn)(void *arg, const char *client);

/**
 * nam_server_add -- a memory server comes to the cluster, while clients are at work.
 *
 * Once all clients know it, blocks are allocated there.  A call goes on with what another one left
 * undone, so after any failure the same call may follow.
 *
 * @options	as for nam_client_connect(): one memory server of the cluster is enough.  timeout_ms
 *		is also the longest wait for clients
 * @address	"shm:PATH": the new one, as clients reach it; its id is not yet in the cluster
 * @fn		called again and again while clients are waited for; may be NULL
 *
 * Returns 0: it is a member.  Or, with a message in *diag:
 *	-EINVAL, -errno			a cluster text is malformed, or names several to be added
 *	-ENOMEM
 *	-NAM_E_CLUSTER			a member has its id, or its address; it belongs to another
 *					cluster; another fabric; the lead is not to be found
 *	-NAM_E_FABRIC_TIMEOUT		a client did not follow in time, or a memory server is
 *					silent.  The new one stays joining: it has no blocks yet
 *	-NAM_E_FABRIC_*			it does not answer, or the lead does not; it died meanwhile
 *	-NAM_E_VIEW			other clients change the view all the time
 *
 * Cost:	some connections and RPCs to the lead and the new one.  After each change, to each
 *		other one: a connection, and 1 RPC for each 9 members.
 */
int nam_server_add(const struct nam_client_options *options, const char *address,
	nam_server_add_fn fn, void *arg, struct nam_server_added *ret_added,
	struct nam_diag *diag) NAM_MUST_CHECK;

struct nam_server_moved {
	uint32_t id;
	int already;			/* 1: the successor had it, and nothing was changed */
	int retired;			/* 0: the old process still runs, and must be ended */
	uint64_t view;			/* the number of the view, which has the successor */
	uint64_t bytes;			/* that were copied */
	uint64_t stopped_us;		/* clients posted nothing to it for about so long */
};

/*
 * @client	has not stopped its requests yet: "client 7 (loader, pid 4711)"; NULL: all have
 * @bytes	are copied
 */
typedef void (*nam_server_move_fn)(void *arg, const char *client, uint64_t bytes);

/**
 * nam_server_move -- a memory server's memory passes to a successor while clients work.  The
 * successor is a process with the same id and memory, started with --successor.
 *
 * The lead becomes backed, as by nam_server_back(), and then the successor leads in its place.
 *
 * Its memory is copied while clients change it.  Clients' requests wait for the last pass, trees
 * and key-value stores, for half of timeout_ms at the most.  After a failure the old process goes
 * on, and another successor is to be started.
 *
 * @options	as for nam_client_connect(): one memory server of the cluster is enough.  Half of
 *		timeout_ms is the longest time that clients wait
 * @address	"shm:PATH": the successor, as clients reach it
 * @fn		called again and again; may be NULL
 *
 * Returns 0: the successor has the memory, and the old process can be ended.  Or, with a message in
 * *diag:
 *	-EINVAL, -errno			a cluster text is malformed, or names several successors
 *	-ENOMEM
 *	-NAM_E_CLUSTER			no member has its id; it is no successor; the lead is not to
 *					be found
 *	-NAM_E_REGIONS			it has other regions than the old one
 *	-NAM_E_UNMOVABLE		it has a key-value store for one-sided GETs; or it is the
 *					lead, and has trees or key-value stores
 *	-NAM_E_FABRIC_TIMEOUT		a client did not stop in time, or the last pass takes longer
 *	-NAM_E_FABRIC_*			one of both does not answer, or the lead does not
 *	-NAM_E_VIEW			the move was given up meanwhile
 *
 * Cost:	some connections and RPCs; 1 READ and 1 WRITE for up to 1 MiB of neighbouring pages,
 *		of those that change once more in each pass.  To each of both 1 RPC for each 4 KiB
 *		of the books, trees and key-value stores.  For each pass, clients' requests to that
 *		memory server wait until those under way have ended.
 */
int nam_server_move(const struct nam_client_options *options, const char *address,
	nam_server_move_fn fn, void *arg, struct nam_server_moved *ret_moved,
	struct nam_diag *diag) NAM_MUST_CHECK;

/**
 * nam_server_back -- a member gets a backup, or a second one, while clients work.  From then on
 * clients write to it before they write to the member, so that it has all when the member's process
 * ends.
 *
 * The backup is a process with the same id and memory, started with --successor.  It has the nodes
 * of fine-grained and hybrid indexes, and all else that clients WRITE.  Trees and key-value stores,
 * which memory servers change, keep one copy.  Requests about served records are refused then, with
 * -NAM_E_FABRIC_CAPABILITY.
 *
 * Options, errors and cost as nam_server_move(); @ret_moved: `retired` is 0.
 * -NAM_E_UNMOVABLE: it has two other backups; the lead: another one.
 */
int nam_server_back(const struct nam_client_options *options, const char *address,
	nam_server_move_fn fn, void *arg, struct nam_server_moved *ret_moved,
	struct nam_diag *diag) NAM_MUST_CHECK;

/**
 * nam_server_promote -- the process of member `id` has ended: its backup gets its place.
 *
 * Clients' requests wait until then, for timeout_ms at the most, and are carried out by the backup.
 * The backup of the lead, of id 0, becomes the lead.  The options have to name another memory
 * server that knows the lead, or the backup.  After a failure the same call goes on where this one
 * ended.
 *
 * Returns 0, or with a message in *diag: -NAM_E_CLUSTER: no such member, or it has no backup.
 * -NAM_E_VIEW, -NAM_E_FABRIC_TIMEOUT: it answers, or is silent; or a client has not acknowledged
 * in time.  Others as nam_server_move().
 */
int nam_server_promote(const struct nam_client_options *options, uint32_t id,
	struct nam_diag *diag) NAM_MUST_CHECK;

/**
 * nam_server_unback -- the member has no backup any more, whose process may be ended then.
 *
 * Returns 0, or as nam_server_promote().
 */
int nam_server_unback(const struct nam_client_options *options, uint32_t id,
	struct nam_diag *diag) NAM_MUST_CHECK;

/**
 * nam_cluster_replicas -- each member's memory is to have so many copies.
 *
 * Stewards bring that about: they start backups in processes of other members that have enough
 * --spare, one after another, and again after a failure.  With fewer copies than before, this call
 * takes backups away, and ends those in processes of members.
 *
 * @replicas	1 to 3; the lead, of id 0, has 2 at the most
 *
 * Returns 0: that is in force, and backups may come later.  Or, with a message in *diag: -EINVAL,
 * or as nam_server_promote().
 */
int nam_cluster_replicas(const struct nam_client_options *options, uint32_t replicas,
	struct nam_diag *diag) NAM_MUST_CHECK;

struct nam_server_removed {
	int already;			/* 1: it was no member, and nothing was changed */
	uint64_t view;			/* the number of the view, which has it no more */
	char memory_at[128];		/* its memory lives there, and keeps the id; else "" */
};

/**
 * nam_server_remove -- a memory server goes out of the view whose process has ended for good.
 *
 * Its memory is lost: operations that need it fail, for clients that come later, too.  Its id is
 * never given to another one, since pointers and superblocks name regions by it.  If its memory has
 * moved to another process, it is no member any more, and nothing is changed.
 *
 * @options	as for nam_client_connect(): one memory server of the cluster is enough
 *
 * Returns 0, also if it was removed before.  Or, with a message in *diag:
 *	-EINVAL				not an id
 *	-NAM_E_CLUSTER			there is no such member
 *	-NAM_E_UNMOVABLE		it answers and has memory; or it is the lead, the only one,
 *					or has a backup
 *	-NAM_E_FABRIC_TIMEOUT		it is silent, or another one joins or moves
 *	-NAM_E_FABRIC_*			as nam_server_add()
 */
int nam_server_remove(const struct nam_client_options *options, uint32_t id,
	struct nam_server_removed *ret_removed, struct nam_diag *diag) NAM_MUST_CHECK;

/* A step of nam_server_drain() and nam_rebalance(), of one member's memory. */
struct nam_drain_step {
	uint32_t id;
	const char *to;			/* the address where it goes; planned: of that process */
	bool planned;			/* a dry run: so many bytes would move */
	const char *client;		/* has not stopped its requests yet; NULL: all have */
	uint64_t ready_bytes, total_bytes;	/* total not 0: there is so much memory there */
	uint64_t bytes;			/* are copied */
	const struct nam_server_moved *moved;	/* it is done; else NULL */
};

typedef void (*nam_server_drain_fn)(void *arg, const struct nam_drain_step *step);

/**
 * nam_server_drain -- all memory of a process passes to others, while clients are at work: to the
 * memory servers that have the most to spare (nam_server_options.spare_bytes).
 *
 * After a failure some of its memory may have moved; the same call goes on with the rest.
 *
 * @options	as for nam_server_move()
 * @server	"2" or "shm:PATH": one memory server of that process, by id or address.  An address
 *		stays that of the process; an id goes with the memory
 * @fn		called again and again; may be NULL
 * @ret_moved	how many members' memory has moved; 0: the process had none
 *
 * Returns 0: the process can be ended.  Or, with a message in *diag, as nam_server_move(), or:
 *	-EDQUOT				no memory server has enough to spare
 *
 * Cost:	for each member as nam_server_move(), and the state of all memory servers.
 */
int nam_server_drain(const struct nam_client_options *options, const char *server,
	nam_server_drain_fn fn, void *arg, uint32_t *ret_moved,
	struct nam_diag *diag) NAM_MUST_CHECK;

/**
 * nam_rebalance -- memory that processes have taken from others passes on to less full ones.
 *
 * These have room for it (nam_server_options.spare_bytes).  Clients are at work meanwhile.
 *
 * A process is as full as its members' memory is large.  A member's memory moves as a whole, and
 * only where the fuller one of both processes has less afterwards.  After a failure some has moved;
 * the same call goes on.
 *
 * @options	as for nam_server_move()
 * @dry		say what would move
 * @fn		called again and again; may be NULL
 * @ret_moved	how many members' memory has moved, or would
 *
 * Returns 0, or, with a message in *diag, as nam_server_move().
 *
 * Cost:	for each member as nam_server_move(), and the state of all memory servers.
 */
int nam_rebalance(const struct nam_client_options *options, bool dry, nam_server_drain_fn fn,
	void *arg, uint32_t *ret_moved, struct nam_diag *diag) NAM_MUST_CHECK;

struct nam_client_info {
	uint16_t id;			/* 1 to 4095; messages about locks and status name it */
	uint16_t incarnation;		/* of those that had this id, one after another */
	bool alive;			/* else it has ended, and does not count as dead yet */
	/*
	 * At its host, as the client says.  Over shm as the lead's kernel says, in the namespace of
	 * the lead; 0: it is not there.
	 */
	uint64_t pid;
	char name[48];			/* nam_client_options.name */
};

typedef int (*nam_client_list_fn)(void *arg, const struct nam_client_info *info);

/**
 * nam_client_list -- call fn for every client that is not dead, by id; the worker's is one of them.
 *
 * Returns 0, or the first non-zero value that fn returned, which ends the list; or
 *	-NAM_E_FABRIC_*		the lead does not answer
 * Clients that come or go meanwhile may be told or not.
 *
 * Suspends:	yes, between clients; fn is not called then.
 * Cost:	2 RPCs, 1 for each client, and 1 more for each that has ended.
 */
NAM_FIBER_FN int nam_client_list(struct nam_worker *worker, nam_client_list_fn fn,
	void *arg) NAM_MUST_CHECK;

/**
 * nam_client_fence -- no memory server takes a client any more; then it is dead.
 *
 * For a client that is stopped, or cannot reach some memory server.  Its locks are then known to be
 * orphaned, and its operations fail with -NAM_E_FABRIC_FENCED.  Any call may be repeated.
 *
 * @worker	of another client; outside of its fibers
 * @incarnation	0: the present one
 *
 * Returns 0: it is dead.  Or, with a message in *diag:
 *	-EINVAL			it is the worker's own client, or no client's id
 *	-ENOENT			there was no such client yet
 *	-NAM_E_FABRIC_CAPABILITY	it is alive, and what it has mapped cannot be revoked: shm
 *	-NAM_E_FABRIC_TIMEOUT	a memory server does not answer, or is not done yet
 *	-NAM_E_FABRIC_*		a memory server does not say what became of its queue pairs
 *
 * Cost:	1 RPC to each memory server, 2 more to the lead.
 */
NAM_FIBER_FN int nam_client_fence(struct nam_worker *worker, uint16_t id, uint16_t incarnation,
	struct nam_diag *diag) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMPUTE_ADMIN_H */
