/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client.h -- a compute node's connection to the memory servers, and its workers.
 *
 * A client is a process's membership in the cluster.  A worker is one thread's share of it: queue
 * pairs, a completion queue, fibers, buffers and counters.  Each thread opens its own worker, and
 * no other thread uses it.
 *
 * A thread may call operations directly: they return when done.  Or it spawns fibers that call the
 * same functions: while one waits for the fabric, the others run.
 */
#ifndef NAM_COMPUTE_CLIENT_H
#define NAM_COMPUTE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../common/counters.h"
#include "../common/error.h"
#include "../common/rpc/figures.h"
#include "../common/fiber/fiber.h"
#include "../common/rpc/transport.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_client;
struct nam_worker;

struct nam_client_options {
	const char *cluster;	/* "shm:PATH,shm:PATH", any of its servers; or "@FILE" */
	const char *name;		/* of the program, for messages; NULL: argv[0] */
	/*
	 * The longest wait for a memory server: to connect, for a reply, over tcp for a one-sided
	 * request (and up to half a second more).  And for other clients, while these may see
	 * memory that is to be reused.  Default 5,000.
	 */
	uint32_t timeout_ms;
	uint32_t lock_timeout_ms;	/* default 1,000: for another client's lock */
	uint32_t fibers_max;		/* per worker, default 64; more may take more than 4 MiB */
	size_t stack_bytes;		/* per fiber, 0: the default of fiber.h */
	/*
	 * How requests travel; the default is NAM_TRANSPORT of the environment.  Without it, it is
	 * srq over shm, tcp and verbs alike, but for verbs on one host: see no_colocated.  Requests
	 * that are too long for a frame, or find 8 on their way, go by srq.
	 */
	enum nam_transport transport;
	uint32_t frame_bytes;		/* all but srq: default 4,160, room for any request */
	uint32_t fetch_bytes;		/* fetch: of the READ that looks for a reply; default 256 */
	uint32_t fetch_always;		/* fetch: 1: even if the memory server is slow */
	/*
	 * Use the network even for memory of this host, as does NAM_COLOCATED_ACCESS=0 in the
	 * environment.  Otherwise, over verbs, the processor copies READs of such memory where it
	 * can reach it.  By default, requests there then go by the RPC transport fetch.
	 */
	int no_colocated;
	const char *key;	/* its file; default NAM_KEY, or none.  A reader's: no changes */
	/* Bytes per second that moves of memory copy while clients work; UINT64_MAX: no limit. */
	uint64_t copy_rate;		/* default 256 MiB */
	struct nam__view_store *view_store;	/* of nam's programs; NULL: the lead decides */
};

/* The defaults above; no cluster.  0 in a number later means the default, too. */
void nam_client_options_init(struct nam_client_options *options);

/**
 * nam_client_connect -- join the cluster: connect to every memory server, learn their regions.
 *
 * @options	its strings need not outlive the call
 *
 * Returns 0, or with a message in *diag:
 *	-EINVAL				the cluster text is malformed, or names no known fabric;
 *					there is no such RPC transport; bytes out of range
 *	-errno				a cluster file or the key file cannot be read
 *	-ENOMEM
 *	-NAM_E_FABRIC_CONNECT		a member is not there; others that are listed are left out
 *	-NAM_E_FABRIC_TIMEOUT		a memory server does not answer within timeout_ms
 *	-NAM_E_FABRIC_STARTING		a memory server is starting, without progress for timeout_ms
 *	-NAM_E_FABRIC_REFUSED		a memory server takes no more connections
 *	-NAM_E_FABRIC_DENIED		a memory server does not admit this user or key
 *	-NAM_E_FABRIC_VERSION		a memory server speaks another version
 *	-NAM_E_FABRIC_CAPABILITY	the fabric promises less than is needed
 *	-NAM_E_FABRIC_*			a memory server ended meanwhile, or sent a malformed reply
 *	-NAM_E_CLUSTER			one id twice, no server with id 0, one server twice, two
 *					fabrics; or ids other than in the cluster file
 *	-NAM_E_LIMIT			more than NAM_SERVERS_MAX servers, or as many clients as
 *					there are ids: 4,095
 *
 * Cost:	one connection, one RPC or more to each memory server.  2 RPCs, 1 READ and 1 WRITE
 *		to join; a thread of its own.  While connected, a READ of 24 bytes every 10 ms.
 */
int nam_client_connect(const struct nam_client_options *options, struct nam_client **ret_client,
	struct nam_diag *diag) NAM_MUST_CHECK;

/* All workers must be closed, and all handles.  Ends the membership: server 0 sees it go. */
void nam_client_close(struct nam_client *client);

/* Number of memory servers; slots are 0 .. this - 1, in the order of the cluster text. */
uint32_t nam_client_servers(const struct nam_client *client);
/* The id that server 0 gave this client: 1 .. 4,095. */
uint16_t nam_client_id(const struct nam_client *client);
/* The provider of the first server's address, "shm". */
const char *nam_client_fabric(const struct nam_client *client);
/*
 * Remote blocks that its workers gave up and that stay allocated.  Reasons: another client kept
 * them locked in a dropped index; a memory server did not answer; this host lacked memory.
 * nam_sweep() frees them once the clients that allocated them have ended.
 */
uint64_t nam_client_blocks_lost(const struct nam_client *client);
/*
 * Remote blocks that an operation of another client could see for timeout_ms after a worker was
 * closed.  Once that client has ended the operation, or is gone, memory servers use them again when
 * memory is short.  *ret_why names such a client, or is "".
 */
uint64_t nam_client_blocks_waiting(struct nam_client *client, struct nam_diag *ret_why);

/**
 * nam_worker_open -- a worker for the calling thread.
 *
 * Returns 0, or with a message in *diag:
 *	-ENOMEM
 *	-NAM_E_FENCED			this client was declared dead: connect anew
 *	-NAM_E_FABRIC_PEER_DEAD		a memory server was restarted since: its memory is gone
 *	-NAM_E_FABRIC_*			a memory server does not answer, or has no room for more
 *
 * Cost:	one connection to each memory server.
 * Memory:	0.3 MiB at first; buffers, rings and the fibers' stacks come as they are touched.
 */
int nam_worker_open(struct nam_client *client, struct nam_worker **ret_worker,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * No fiber may be alive and no cursor open.  Gives cached blocks back to the servers.  Waits up to
 * timeout_ms until this worker's retired blocks can be reused, then gives them back for later:
 * nam_client_blocks_waiting().
 */
void nam_worker_close(struct nam_worker *worker);

/**
 * nam_worker_spawn -- start a fiber that runs fn(arg) once nam_worker_run() is called.
 *
 * May be called from a fiber of the same worker.  A fiber ends when fn returns.
 *
 * Returns 0, -ENOMEM, or -NAM_E_LIMIT when fibers_max fibers are alive.
 * Cost:	an allocation and a stack the first time; those of fibers that have ended are used
 *		again.
 */
int nam_worker_spawn(struct nam_worker *worker, nam_fiber_fn fn, void *arg) NAM_MUST_CHECK;

/* Run until every fiber has returned.  Not from a fiber. */
void nam_worker_run(struct nam_worker *worker);

/* Take completions and let other fibers run; from a plain thread, only the former. */
NAM_FIBER_FN void nam_worker_yield(struct nam_worker *worker);

/* Ends what runs on a worker; called often, and must not suspend. */
typedef bool (*nam_worker_stop_fn)(void *arg);

/*
 * Ends a long pass, of nam_index_collect(), nam_records_collect() or nam_sweep(), with -ECANCELED
 * soon after stop(arg) holds: between two nodes, or some records.  Nothing is held then.  NULL:
 * none.
 */
void nam_worker_stop_when(struct nam_worker *worker, nam_worker_stop_fn stop, void *arg);

/*
 * The most blocks, nodes and records per second that passes of nam_records_collect() and
 * nam_sweep() on this worker look at.  So other clients have the network.  0, as at first: no
 * limit.  A pass that is faster pauses with nothing held, and holds back no memory.
 */
void nam_worker_pace(struct nam_worker *worker, uint64_t blocks_per_second);

/*
 * The last message of a failing operation of this worker; "" if there was none.  Operations that
 * succeed, and codes that need no message, like -NAM_E_NOTFOUND, leave it unchanged.
 */
const char *nam_worker_diag(const struct nam_worker *worker);

/* Live counters of this worker; copy them to compare two moments. */
const struct nam_op_counters *nam_worker_counters(const struct nam_worker *worker,
	enum nam_op_kind kind);

/*
 * Bytes of memory that this worker has allocated, stacks counted whole.  With 64 fibers that scan,
 * a fine-grained index takes below 4 MiB with nodes of 1 KiB, about 8 with nodes of 16 KiB.
 * Another design takes 5.  Each fiber above 64 adds up to 64 KiB, or 128.
 * The queues of the fabric's provider come on top: with shm, 0.2 MiB a memory server.
 */
size_t nam_worker_bytes(const struct nam_worker *worker);

enum nam_member_state {
	NAM_MEMBER_NONE,		/* it is not in the view of the cluster, or there is none */
	NAM_MEMBER_JOINING,		/* nam_server_add() waits for clients, or has to go on */
	NAM_MEMBER_UP,
	NAM_MEMBER_SUCCESSOR,		/* it waits for the memory of the member with its id */
	NAM_MEMBER_MOVING,		/* its memory goes to another memory server */
	NAM_MEMBER_COPYING,		/* it is copied there first, while clients change it */
	NAM_MEMBER_PROMOTING,		/* its process has ended, and its backup gets its place */
};

/* A client, as messages name it. */
struct nam_client_named {
	uint32_t id;			/* 0: there is none */
	uint64_t pid;
	char name[48];
};

struct nam_server_status {
	char address[128];
	/* 0, or why there is no answer: the rest is 0, but for *_bytes of one that is starting */
	int rc;
	uint32_t id;
	uint32_t handlers;
	uint32_t regions;
	uint32_t clients;
	uint32_t connections;
	uint32_t indexes;
	uint64_t pid;
	uint64_t uptime_ns;
	uint64_t boot;			/* random: of this life of it */
	uint64_t host;			/* boot of the memory server whose process it is in */
	uint64_t spare_bytes;		/* more, for memory that moves to its process */
	uint64_t memory_bytes;
	uint64_t ready_bytes;		/* below memory_bytes while it is starting */
	uint64_t carved_bytes;		/* ever handed out to clients */
	uint64_t free_bytes;		/* of those, given back since */
	uint64_t waiting_bytes;		/* of those, given back, but a client may still read it */
	uint64_t page_bytes;
	uint64_t requests;
	uint32_t transparent_huge;
	char version[32];
	uint32_t stores;
	struct nam_server_figures figures;
	/* nam_cluster_status() alone sets the rest. */
	enum nam_member_state member;
	/* Of a member: the addresses of its backups; "": none.  The first gets its place first. */
	char backup[128], backup_2[128];
	uint64_t view;			/* the number of its view, or of its copy; 0: none */
	/* The lead, which has the id 0: the view that all clients have installed, and which not. */
	uint64_t view_acknowledged;
	struct nam_client_named delaying;
	struct nam_client_named fencing;	/* it ended and is not dead yet */
	struct nam_client_named silent;		/* it may be stopped, and blocks wait for it */
	uint32_t silent_ms, replicas;		/* for so long; wanted copies of members' memory */
};

/* "ALLOC": a type of request that figures count; 0 is "MALFORMED".  NULL: no such type. */
const char *nam_service_name(uint32_t service);

/**
 * nam_server_status_get -- the state of a memory server.
 *
 * @slot	0 .. nam_client_servers() - 1
 * @ret_status	its address and rc are set even if there is no answer; all else is 0 then
 *
 * Returns 0, -EINVAL (no such slot; *ret_status is untouched), -ENOMEM, or a FABRIC code.
 *
 * Suspends:	yes.
 * Cost:	1 RPC; 2 if that memory server has had requests of more than 42 types.
 */
NAM_FIBER_FN int nam_server_status_get(struct nam_worker *worker, uint32_t slot,
	struct nam_server_status *ret_status) NAM_MUST_CHECK;

/* @text	"", or the message if status->rc is not 0 */
typedef void (*nam_server_status_fn)(void *arg, const struct nam_server_status *status,
	const char *text);

/**
 * nam_cluster_status -- the state of every memory server, without joining: some may be dead.
 *
 * @options	as for nam_client_connect()
 * @fn		called for each one by this thread, in the order of the cluster text; then for the
 *		other members of the view.  If one does not answer, its id is as in the view
 *
 * Returns 0 if all were asked; each status->rc has the result.  Or, with a message in *diag, as
 * nam_client_connect(), which also checks that the memory servers form a cluster:
 *	-EINVAL, -errno, -NAM_E_CLUSTER, -NAM_E_LIMIT	the cluster text; no server was asked
 *	-ENOMEM						not all were asked
 *
 * Cost:	one connection and 2 RPCs or more to each memory server, by threads: 32 at the same
 *		time.
 */
int nam_cluster_status(const struct nam_client_options *options, nam_server_status_fn fn, void *arg,
	struct nam_diag *diag) NAM_MUST_CHECK;

/*
 * nam_cluster_check -- do the memory servers that the options name form a cluster?  As
 * nam_client_connect(), but the client does not join, and the view stays as it is, or absent.
 */
int nam_cluster_check(const struct nam_client_options *options, struct nam_diag *diag)
	NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMPUTE_CLIENT_H */
