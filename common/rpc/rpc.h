/* SPDX-License-Identifier: Apache-2.0 */
/*
 * rpc.h -- the messages between compute nodes and memory servers.
 *
 * Every message is a struct nam_rpc_header and a body, in one SEND of at most NAM_RPC_BYTES_MAX
 * bytes.  Everything is little-endian; every reserved byte is zero.  A server answers each request
 * with exactly one reply that carries the request's id and type.  A decoder checks magic, version
 * and lengths before it looks at a body, and answers malformed input with -NAM_E_FABRIC_PROTOCOL.
 *
 * A one-way request is answered only if it fails.  Each later reply over the connection says how
 * many one-way requests had been carried out when it was written, and how many had failed.
 */
#ifndef NAM_COMMON_RPC_RPC_H
#define NAM_COMMON_RPC_RPC_H

#include <stddef.h>
#include <stdint.h>

#include "common/error.h"
#include "common/layout.h"
#include "common/rpc/figures.h"

/* Raised whenever a byte of a message, of the handshake or of a remote layout changes meaning. */
#define NAM_WIRE_VERSION 23u
#define NAM_RPC_MAGIC 0x4d414eu		/* "NAM" */
#define NAM_RPC_BYTES_MAX 4096u

/* X(name), from 1 on */
#define NAM_RPC_TYPES(X)                                                                            \
	X(PING)			/* body echoed */                                                   \
	X(REGISTER)		/* server 0: become a client, get an id */                          \
	X(REGIONS)		/* this server's regions */                                         \
	X(CLIENT_STATE)		/* server 0: is that client alive, its identity */                  \
	X(ALLOC)		/* blocks of one stride */                                          \
	X(FREE)			/* give blocks back */                                              \
	X(CATALOG_PUT)		/* server 0: name -> superblock, if absent; several or none */      \
	X(CATALOG_GET)                                                                              \
	X(CATALOG_LIST)		/* one page of names */                                             \
	X(CATALOG_DROP)		/* several or none */                                               \
	X(STATUS)		/* figures of this server */                                        \
	X(TREE_CREATE)		/* a tree that the server searches: tree_rpc.h */                   \
	X(TREE_DESCRIBE)                                                                            \
	X(TREE_DROP)                                                                                \
	X(TREE_POINT)                                                                               \
	X(TREE_SCAN)                                                                                \
	X(TREE_LOAD)                                                                                \
	X(TREE_WALK)                                                                                \
	X(TREE_COLLECT)                                                                             \
	X(TREE_FLOOR)                                                                               \
	X(ECHO)			/* as many bytes as are asked for: to measure with */               \
	X(COLOCATED)		/* how a process of the same host maps the regions */               \
	X(KV_CREATE)		/* a part of a key-value store: kv_rpc.h */                         \
	X(KV_DESCRIBE)                                                                              \
	X(KV_DROP)                                                                                  \
	X(KV_GET)                                                                                   \
	X(KV_PUT)                                                                                   \
	X(KV_DELETE)                                                                                \
	X(KV_GET_MANY)                                                                              \
	X(KV_LAYOUT)                                                                                \
	X(RECORDS_GET)		/* versions of records: records_rpc.h */                            \
	X(RECORDS_PREPARE)                                                                          \
	X(RECORDS_COMMIT)                                                                           \
	X(LOCKING_READ)		/* the same under locks: locking_rpc.h */                           \
	X(LOCKING_RELEASE)                                                                          \
	X(LOCKING_PREPARE)                                                                          \
	X(LOCKING_END)                                                                              \
	X(LOCKING_SEAL)                                                                             \
	X(PRESENCE)		/* of which clients this server has connections */                  \
	X(RECLAIM)		/* runs without used blocks, for blocks of other strides */         \
	X(KV_GET_LARGE)		/* values longer than a message */                                  \
	X(KV_PUT_LARGE)                                                                             \
	X(VIEW)			/* the memory servers of the cluster: view_rpc.h */                 \
	X(FENCE)		/* the end of a client: fence_rpc.h */                              \
	X(EPOCH)		/* server 0: the epoch slot of a client that may not WRITE it */    \
	X(SWEEP)		/* blocks of dead clients: sweep_rpc.h */                           \
	X(SERIAL_READ)		/* steps of serializable transactions: serial_rpc.h */              \
	X(SERIAL_CHANGE)                                                                            \
	X(MOVE)			/* the memory of one passes to another process: move_rpc.h */

enum nam_rpc_type {
	NAM_RPC_NONE = 0,
#define NAM_RPC_TYPE(name) NAM_RPC_##name,
	NAM_RPC_TYPES(NAM_RPC_TYPE)
#undef NAM_RPC_TYPE
	NAM_RPC_TYPES_COUNT
};

struct nam_rpc_header {
	uint32_t magic_version;	/* NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION */
	uint16_t type;		/* enum nam_rpc_type */
	uint16_t one_way;	/* request: 0 or NAM_RPC_ONE_WAY; reply: nam_rpc_one_way() */
	uint32_t body_bytes;
	int32_t status;		/* reply: 0 or a negative code; request: 0 */
	uint64_t id;		/* chosen by the caller, echoed */
};
_Static_assert(sizeof(struct nam_rpc_header) == 24, "wire layout");

#define NAM_RPC_ONE_WAY 0x100u

/* Both counted modulo 256: those carried out, failed or not, and of these the failed. */
static inline uint16_t
nam_rpc_one_way(uint32_t done, uint32_t failed)
{
	return (uint16_t)((done & 0xffu) | (failed & 0xffu) << 8);
}

#define NAM_RPC_BODY_MAX (NAM_RPC_BYTES_MAX - (uint32_t)sizeof(struct nam_rpc_header))

/* The handshake payload of a connecting queue pair, and the answer to it. */
struct nam_wire_hello {
	uint32_t magic_version;
	uint16_t client_id;	/* 0 before REGISTER */
	uint16_t incarnation;
	uint32_t flags;		/* NAM_HELLO_*: frame.h */
	uint32_t reserved;
};
_Static_assert(sizeof(struct nam_wire_hello) == 16, "wire layout");

struct nam_wire_welcome {
	uint32_t magic_version;	/* the server's own, also in a rejection */
	int32_t status;		/* 0, or why not; then the rest is 0 */
	uint32_t server_id;
	uint32_t regions_count;
	/* Differs after a restart.  NAM_E_FABRIC_STARTING: MiB of memory << 32 | MiB populated. */
	uint64_t boot;
};
_Static_assert(sizeof(struct nam_wire_welcome) == 24, "wire layout");

struct nam_rpc_register_request {
	uint64_t pid;
	char name[48];		/* for people; NUL-terminated */
	uint64_t view;		/* the number that it has installed; another one: -NAM_E_VIEW */
	uint64_t acknowledged;	/* the same, or 0: a member that joins did not answer it */
	/*
	 * Set by a client that has them already, over a connection that has named them; or 0, and
	 * the rest, too.  The lead's backup takes the client up: -NAM_E_VIEW if its copy of the
	 * view is older.  At the lead, this connection takes the place of the session connection.
	 */
	uint16_t client_id, incarnation;
	uint32_t reserved;
	uint64_t slot;		/* what its epoch slot holds */
	uint64_t epoch;		/* the latest that it knows: the epoch word is that, or later */
};

/*
 * The connection that REGISTER came over is the client's session connection.  When it closes, the
 * client is fenced (fence_rpc.h).  Its id is not reused before it is dead, then for as long as
 * possible, and never with that incarnation.
 *
 * With keys, the client's voucher comes behind it (common/auth/proof.h).
 */
struct nam_rpc_register_reply {
	uint16_t client_id;	/* 1 .. NAM_CLIENTS_MAX - 1 */
	uint16_t incarnation;
	uint32_t reserved;
	uint64_t epoch_word;	/* gaddr of the global epoch */
	uint64_t epoch_slots;	/* gaddr of slot 0; slot of a client: + 8 * client_id */
};

/* The slot holds that when the reply is sent.  No body. */
struct nam_rpc_epoch_request {
	uint64_t epoch;			/* 0: the client is in none any more */
};

/* Any bytes may follow.  Byte i of the reply is (uint8_t)(seed + i). */
struct nam_rpc_echo_request {
	uint32_t reply_bytes;	/* at most NAM_RPC_BODY_MAX */
	uint32_t seed;
};

struct nam_rpc_region {
	uint16_t id;
	uint16_t kind;		/* enum nam_memory_kind */
	uint32_t rkey;
	uint64_t remote;
	uint64_t bytes;
};
_Static_assert(sizeof(struct nam_rpc_region) == 24, "wire layout");

/* With keys and a client_id, the client's voucher comes behind it. */
struct nam_rpc_regions_request {
	uint32_t first;
	uint16_t client_id;	/* 0, or the connection is this client's, if it had none */
	uint16_t incarnation;
};

#define NAM_RPC_REGIONS_PER_REPLY 160u

struct nam_rpc_regions_reply {
	uint32_t total;
	uint16_t count;
	uint16_t newest;	/* the highest incarnation of a client that has come; 0: none has */
	struct nam_rpc_region regions[];
};

struct nam_rpc_client_state_request {
	uint16_t client_id;
	uint16_t incarnation;	/* 0: the last one that the id was given to */
	uint32_t reserved;
};

enum nam_client_state {
	NAM_CLIENT_UNKNOWN = 0,
	NAM_CLIENT_ALIVE = 1,
	NAM_CLIENT_DEAD = 2,		/* it can no longer act */
	NAM_CLIENT_FENCING = 3,		/* its session has ended; some queue pair may not have */
};

/* With keys, the voucher of a client that is alive comes behind it, for the holder of its key. */
struct nam_rpc_client_state_reply {
	uint32_t state;		/* enum nam_client_state */
	uint16_t incarnation;	/* the last one that the id was given to; 0: none */
	uint16_t reserved;
	uint64_t pid;
	char name[48];
};

/*
 * A client that is not here has no queue pair to this server: nothing that it has sent is still to
 * take effect.  No request body.
 */
struct nam_rpc_presence_reply {
	uint64_t ids[NAM_CLIENTS_MAX / 64];	/* bit i % 64 of word i / 64: client id i */
};
_Static_assert(sizeof(struct nam_rpc_presence_reply) <= NAM_RPC_BODY_MAX, "it fits");

#define NAM_INDEX_NAME_BYTES 64u	/* with the NUL */

/* The kind of an object: entries of the catalog have it in their uppermost 16 bits. */
enum nam_catalog_kind {
	NAM_CATALOG_INDEX = 0,		/* an index; the rest is its superblock's address */
	NAM_CATALOG_KV = 1,		/* a key-value store; its number: kv_rpc.h */
	NAM_CATALOG_RECORDS = 2,	/* a record store; its superblock's address */
	NAM_CATALOG_TABLE = 3,		/* a table; its superblock's address */
	NAM_CATALOG_SERIAL = 4,		/* of serializable transactions; its superblock's address */
};

static inline uint64_t
nam_catalog_entry(enum nam_catalog_kind kind, uint64_t value)
{
	return (uint64_t)kind << 48 | value;
}

static inline uint32_t
nam_catalog_entry_kind(uint64_t entry)
{
	return (uint32_t)(entry >> 48);
}

static inline uint64_t
nam_catalog_entry_value(uint64_t entry)
{
	return entry & 0xffffffffffffull;
}

/*
 * The request of GET, the reply to it, and an element of LIST's.  PUT and DROP have one or several.
 * PUT: if one of the names is there, none is entered.  DROP: if one of them does not lead to its
 * superblock, none goes.
 */
struct nam_rpc_catalog_entry {
	char name[NAM_INDEX_NAME_BYTES];
	uint64_t superblock;			/* nam_catalog_entry() */
};

struct nam_rpc_catalog_list_request {
	char after[NAM_INDEX_NAME_BYTES];	/* names greater than this one; "" for all */
};

struct nam_rpc_catalog_list_reply {
	uint32_t count;		/* 0: no more */
	uint32_t reserved;
	struct nam_rpc_catalog_entry entries[];
};

struct nam_rpc_colocated_request {
	uint64_t nonce;		/* to be written where only mappers of the server's files see it */
};

struct nam_rpc_colocated_reply {
	char boot_id[40];	/* of the server's kernel, as text with a NUL */
	uint64_t pid;
	uint64_t device;	/* limits.device */
	int32_t proof;		/* descriptor of the page with nonces; -1: no such access */
	uint32_t count;
	int32_t files[];	/* descriptors of the regions, in the order of their ids; or -1 */
};

/* Check a message's header: 0, -NAM_E_FABRIC_VERSION or -NAM_E_FABRIC_PROTOCOL. */
int nam_rpc_check(const void *message, size_t bytes);

void nam_rpc_header_fill(struct nam_rpc_header *header, uint16_t type, uint64_t id, int32_t status,
	uint32_t body_bytes);

const char *nam_rpc_type_name(uint16_t type);

#endif /* NAM_COMMON_RPC_RPC_H */
