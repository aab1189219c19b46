/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client_internal.h -- a client: the state that the workers of a process share.
 */
#ifndef NAM_COMPUTE_CLIENT_CLIENT_INTERNAL_H
#define NAM_COMPUTE_CLIENT_CLIENT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include "common/auth/proof.h"
#include "common/cluster.h"
#include "common/env.h"
#include "common/fabric/colocated.h"
#include "common/fabric/fabric.h"
#include "common/fiber/fiber.h"
#include "common/layout.h"
#include "common/region_table.h"
#include "common/rpc/rpc.h"
#include "compute/client.h"
#include "compute/remote.h"

#define NAM__CACHE_LINE 64
#define NAM__NO_SLOT UINT16_MAX

/* Texts stay to the client's end: others may still read one that was replaced. */
struct nam__server_address {
	SLIST_ENTRY(nam__server_address) link;
	char text[128];
};

struct nam__server {
	const char *_Atomic address;	/* of the process that has its memory now */
	const struct nam_fabric_ops *ops;
	struct nam_domain *domain;	/* shared by the servers of one provider */
	uint32_t id;
	uint32_t regions_count;
	_Atomic uint64_t boot;		/* of that process */
	_Atomic uint64_t backups[NAM_BACKUPS_MAX];	/* their boots; 0: none (backups.h) */
	atomic_uint ready_mib, total_mib;	/* while it is starting */
	/* Why any worker has seen it close; never cleared.  Behind a gate: until a view follows. */
	atomic_int lost, ended_behind_gate;
	bool loss_reported;			/* the lead knows that; epoch thread only */
	/* Whether the lead was asked if that was because of a fence, and has answered. */
	atomic_bool asked_why, knows_why;
	struct nam_colocated *_Atomic colocated;	/* to READ without a network; or NULL */
	SLIST_HEAD(, nam_colocated) colocated_before;	/* of processes that had its memory */
	uint8_t standby;		/* of a backup, in one of the last slots: 1 + its place */
	bool near;			/* it is in this machine, and not by way of the fabric */
	atomic_bool absent;		/* its host said that nothing listens there */
	atomic_bool usable;		/* new blocks may lie there: it is UP in the view */
	atomic_bool joined;		/* so may parts of new objects: the same, or it is MOVING */
	/* As in the newest ALLOC reply; 65,535 before the first one. */
	_Atomic uint16_t free;
	/* As the view says (view_rpc.h): written in this order, and read in the other one. */
	atomic_uint_fast64_t memory, view_since, view_renewed;
};

#define NAM__LOCAL_EPOCHS 4u	/* window of local epochs in which operations may be active */
#define NAM__EPOCH_MEMORY 2u	/* local epochs for which nam__seen_lately() holds */
#define NAM__EPOCHS_NOTED 8u	/* a power of two, at least the sum of both */

struct nam__garbage;			/* epoch.c */
struct nam__holder;			/* forget.h */

/* State of a room above, which gives it a type: zeroes at first, freed with the client. */
#define NAM__CLIENT_EXTENSION_BYTES 2112u

struct nam_client {
	struct nam_client_options options;
	bool is_prober;			/* the client does not wait for servers that start */
	/* Whether it counts as dead: nam__client_is_over(), once it is registered. */
	bool (*is_over)(const struct nam_client *client);
	bool (*voucher_renew)(struct nam_client *client);	/* likewise */
	atomic_bool fenced;		/* it does */
	char name[48];
	char *key_path;			/* options.key */
	struct nam__auth_keys *key;		/* one; NULL: it has none */
	bool reads_only;		/* a reader's: memory servers refuse changes (C22) */
	_Atomic uint32_t servers_count;	/* it only grows: nam__server_publish() */
	struct nam__server *servers;	/* room for NAM_SERVERS_MAX */
	SLIST_HEAD(, nam__server_address) addresses;	/* of servers, also earlier ones */
	_Atomic uint16_t slot_of_id[NAM_SERVERS_MAX];	/* server id -> slot, or UINT16_MAX */
	uint32_t catalog_slot, lead_slot;	/* of server id 0; where the epoch thread asks it */
	struct nam_domain *domains[4];
	uint32_t domains_count;
	uint32_t caps;			/* what every server's provider promises */
	struct nam_region_table regions;
	struct nam_region_table backups[NAM_BACKUPS_MAX];	/* of backups, by place */
	atomic_uint backed;		/* members with a backup; then: in place of qp_post */
	int (*post_backed)(struct nam_qp *, const struct nam_wr *, unsigned);
	int (*poll_backed)(struct nam_cq *, struct nam_wc *, unsigned);	/* likewise */
	uint16_t id;			/* owner in lock words */
	uint16_t incarnation;
	uint8_t voucher[NAM_VOUCHER_BYTES];	/* under `mutex`: compute/auth/credentials.h */
	uint16_t newest_seen;		/* incarnation of any client, at any memory server */
	atomic_uint lock_sequence;
	struct nam_gaddr epoch_word;
	struct nam_gaddr epoch_slots;	/* slot 0; this client's own: 8 * id bytes further */

	/* epoch.c: the epoch thread advances these; operations read local_epoch. */
	_Alignas(NAM__CACHE_LINE) atomic_uint_fast64_t local_epoch;
	atomic_bool pin_needs_fence;	/* the kernel has no membarrier */
	atomic_uint gates;		/* worker/gates.h: the turn */
	atomic_uint generation;		/* of the epoch word, as followed: forget.h */
	atomic_uint_fast64_t known_since;	/* local epoch in which it began */
	atomic_bool closing;
	struct nam_thread *epoch_thread;
	struct nam_worker *epoch_worker;	/* has the session connection */
	uint64_t remote_epoch_of[NAM__EPOCHS_NOTED];	/* epoch thread only */
	uint64_t oldest_local_epoch;	/* epoch thread only */
	uint64_t published_epoch;	/* epoch thread only: what the client's slot holds */
	uint64_t *epoch_buffer;	/* epoch thread only: registered, 32 bytes */
	bool barrier_pending;	/* epoch thread only: local_epoch was raised without a barrier */
	atomic_uint_fast64_t lease_ns;	/* its end: compute/backup/lease.h */
	atomic_uint_fast64_t limbo_leaked, bytes_leaked;	/* remote blocks given up */
	atomic_uint_fast64_t blocks_waiting;	/* given back for later */
	atomic_uint_fast64_t bytes_unsure;	/* cached, or in RPCs, as connections failed */
	atomic_uint_fast64_t garbage_leaked;	/* local memory given up */

	pthread_mutex_t mutex;		/* workers, garbage; a room above may use it */
	SLIST_HEAD(, nam_worker) workers;
	const struct nam_worker *front;	/* takes the client's datagrams: peers.h */
	struct nam_client_name *names;	/* under `mutex`: of clients, by id; NULL: none */
	uint64_t joined, joined_seen;	/* epoch thread only: as of `names`; at the last tick */
	uint32_t joined_ticks;		/* epoch thread only: since `names` are old */
	atomic_uint_fast64_t view_number;	/* of the view that is installed */
	/* follow.c: the epoch thread has read the view word; it ends. */
	void (*view_follow)(struct nam_client *client, uint64_t word, uint64_t sweep);
	void (*view_leave)(struct nam_client *client);
	uint64_t view_seen, view_retry_ns, lead_gone_ns, lead_retry_ns;	/* epoch thread only */
	uint64_t sweep_seen, sweep_retry_ns;	/* epoch thread only: the last one reported to */
	uint64_t sign_epoch, sign_ns;	/* epoch thread only: the next sign of life, of that slot */
	atomic_uint_fast64_t view_whole;	/* of which all members have slots; 0: none yet */
	uint64_t fence_retry_ns;	/* epoch thread only */
	uint64_t gate_ns;		/* epoch thread only: when a gate was closed last */
	bool moving;			/* epoch thread only: the last gate was closed for a move */
	atomic_bool unfinished;		/* a worker was closed with requests under way */
	struct nam__notes *_Atomic notes;	/* worker/notes.h */
	SLIST_HEAD(, nam__notes) notes_made;	/* also those that workers may still look at */
	uint16_t fence_last;		/* epoch thread only: the client it has fenced last */
	TAILQ_HEAD(nam__garbages, nam__garbage) garbage;	/* oldest label first */

	pthread_mutex_t holders_mutex;	/* holders; before a cache's mutex and `mutex` */
	LIST_HEAD(, nam__holder) holders;
	atomic_bool reclaiming;		/* a task of this process is at it: reclaim.c */
	atomic_bool reclaim_failed[NAM_MEMORY_KINDS];	/* the last time for that kind */
	struct nam_diag waiting_diag;	/* under `mutex`: for which client those wait, or "" */
	struct nam_diag reclaim_diag;	/* under `mutex`: which client was in the way, or "" */
	struct nam__lock_table *locks;	/* lock.c */
	_Alignas(NAM__CACHE_LINE) unsigned char extension[NAM__CLIENT_EXTENSION_BYTES];
};

/* life.c: a client that has nothing yet, or NULL: no memory. */
struct nam_client *nam__client_new(const struct nam_client_options *options);
void nam__client_free(struct nam_client *client);
/* client.c: the texts that the options name, on the heap. */
int nam__cluster_read(const struct nam_client_options *options, struct nam_cluster **ret_cluster,
	struct nam_diag *diag) NAM_MUST_CHECK;
/*
 * prober.c: a client without an id, of one memory server.  Also after a failure *ret_client is set,
 * for what the memory server has said, unless there is no memory for a client.
 *
 * @timeout_ms	0, or a time-out below that of the options
 * @waits	for one that is starting, while it makes progress
 */
int nam__prober_connect(const struct nam_client_options *options, const char *address,
	uint32_t timeout_ms, bool waits, struct nam_client **ret_client,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* By that failure, the process that was there has ended.  A silent one may still be alive. */
bool nam__probed_ended(const struct nam_client *prober, int rc);
/* Whether the lead says that this client is.  Blocks the thread for half a second at the most. */
bool nam__client_is_over(const struct nam_client *client);
/*
 * Ask the lead for the voucher again, because the admin's key that it was given under may have been
 * removed.  True: it is another one now.  Blocks the thread for half a second at the most.
 */
bool nam__voucher_renew(struct nam_client *client);
/*
 * When the epoch thread tries again, after a silent memory server, from `began_ns` on.  Epochs
 * stand still meanwhile, so that takes a fifth of its time at the most.
 */
static inline uint64_t
nam__retry_at_ns(uint64_t began_ns)
{
	uint64_t now = nam_now_ns();

	return now + 1000000000u + 4 * (now - began_ns);
}

/* servers.c: 0, or -NAM_E_FABRIC_CAPABILITY for a fabric that promises too little. */
int nam__caps_check(uint32_t caps, const char *fabric, struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * servers.c: a slot, numbered servers_count, for a memory server.  It is not usable, and other
 * threads cannot see it until nam__server_publish(); until then the next call takes it again.
 * Meanwhile epoch_worker may connect to it, ask it and learn its regions.
 *
 * 0, -EINVAL for what is not an address, -NAM_E_CLUSTER for another fabric, -NAM_E_LIMIT: there are
 * NAM_SERVERS_MAX, or as opening the fabric fails.
 */
int nam__server_append(struct nam_client *client, const char *address, uint32_t *ret_slot,
	struct nam_diag *diag) NAM_MUST_CHECK;
/* Publish the slot by its id, if that is known, and then servers_count. */
void nam__server_publish(struct nam_client *client, uint32_t slot);
/* Another process has its memory now.  0, or -ENOMEM.  The thread that appends. */
int nam__server_address_set(struct nam_client *client, struct nam__server *server,
	const char *address) NAM_MUST_CHECK;
/* Append, publish and make usable all of these, and connect epoch_worker to them. */
int nam__servers_open(struct nam_client *client, const struct nam_cluster_server *servers,
	uint32_t count, struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * join.c: become a client of the cluster of which some memory servers are connected: the seeds, in
 * the first slots.  @text	"@FILE" where the cluster says ids
 *
 * 0, -NAM_E_CLUSTER or -NAM_E_VIEW, or as nam_client_connect().  Cost: 1 RPC for the view, 1 to
 * REGISTER, those of regions.  Forming a view costs 1 for it and 1 to each other memory server.
 */
NAM_FIBER_FN int nam__cluster_join(struct nam_client *client, const struct nam_cluster *cluster,
	const char *text, struct nam_diag *diag) NAM_MUST_CHECK;
/* join.c: leaves out seeds that have ended and are no members.  False: there are none. */
NAM_FIBER_FN bool nam__seeds_leave_out(const struct nam_client_options *options,
	struct nam_cluster *cluster);
/* join.c: are the seeds of one cluster?  Changes nothing there; errors as nam__cluster_join(). */
NAM_FIBER_FN int nam__cluster_check(struct nam_client *client, const struct nam_cluster *cluster,
	const char *text, struct nam_diag *diag) NAM_MUST_CHECK;
/* join.c: connect to a member of the view, learn its regions, and give it a slot. */
struct nam_view_member;
NAM_FIBER_FN int nam__member_install(struct nam_client *client,
	const struct nam_view_member *member, struct nam_diag *diag) NAM_MUST_CHECK;
/* servers.c: what the view says of an installed member.  0 or -ENOMEM. */
int nam__member_note(struct nam_client *client,
	const struct nam_view_member *member) NAM_MUST_CHECK;
/* follow.c: what epoch threads call. */
NAM_FIBER_FN void nam__view_follow(struct nam_client *client, uint64_t word, uint64_t sweep);
NAM_FIBER_FN void nam__view_leave(struct nam_client *client);

/*
 * regions.c: learn and publish the regions of `count` servers, or say which of them announces what
 * cannot be.  Their slots, from `first` on, need not be published.  Cost: 1 round trip for 16.
 */
NAM_FIBER_FN int nam__regions_learn(struct nam_client *client, uint32_t first, uint32_t count,
	struct nam_diag *diag) NAM_MUST_CHECK;
/*
 * regions.c: ask every server for its regions again, and take the keys that have changed.  Only the
 * epoch thread may call it; others use the region table meanwhile.  A server that is gone is left
 * out.  0, or the first failure of another: that one's table may be old.  Cost: 1 RPC for each
 * NAM_RPC_REGIONS_PER_REPLY regions, of 16 servers at once.
 */
NAM_FIBER_FN int nam__regions_refresh(struct nam_client *client) NAM_MUST_CHECK;

/* worker/connect.c: -NAM_E_FABRIC_FENCED, with its text. */
int nam__fenced_explain(const struct nam_client *client, struct nam_diag *diag);
/* workers.c: connect a worker's queue pairs, or say which server refused and why. */
int nam__worker_new(struct nam_client *client, struct nam_worker **ret_worker,
	struct nam_diag *diag) NAM_MUST_CHECK;	/* not yet in client->workers */
void nam__worker_free(struct nam_worker *worker);
/*
 * workers.c: connect one queue pair.  If it fails, there is none.  The memory server is the one
 * that the slot knows, or if it knows none yet, the slot takes what it says of itself.
 */
int nam__worker_connect(struct nam_worker *worker, uint32_t slot, struct nam_diag *diag)
	NAM_MUST_CHECK;
/* Drop a queue pair, if there is one. */
void nam__worker_disconnect(struct nam_worker *worker, uint32_t slot);

/* worker/connect.c: before a change.  0, or -NAM_E_FABRIC_DENIED: it may only read (C22). */
int nam__change_check(struct nam_worker *worker) NAM_MUST_CHECK;

/* The slot of the memory server that gave out a block, or UINT16_MAX: there is none. */
static inline uint16_t
nam__server_slot(const struct nam_client *client, struct nam_gaddr block)
{
	uint32_t id = nam_gaddr_region(block) / NAM_REGIONS_PER_SERVER;

	return id < NAM_SERVERS_MAX ? client->slot_of_id[id] : UINT16_MAX;
}

/* Whether these bytes are memory of that server: the check of addresses that it sent. */
static inline bool
nam__server_has(const struct nam_client *client, uint32_t slot, uint64_t raw, uint64_t bytes)
{
	struct nam_gaddr at = { raw };
	const struct nam_region *region = nam_region_table_find(&client->regions, at);

	return region && region->server == slot && raw && !nam_gaddr_tag(at) &&
	       nam_gaddr_offset(at) <= region->bytes &&
	       bytes <= region->bytes - nam_gaddr_offset(at);
}

/* colocated.c: later connections READ a server's memory directly, if that is this host's. */
NAM_FIBER_FN void nam__colocated_open(struct nam_client *client, uint32_t slot);
/* The memory is at another process now; connections to the earlier one still use that. */
void nam__colocated_leave(struct nam__server *server);
void nam__colocated_forget(struct nam__server *server);

#endif /* NAM_COMPUTE_CLIENT_CLIENT_INTERNAL_H */
