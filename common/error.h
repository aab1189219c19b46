/* SPDX-License-Identifier: Apache-2.0 */
/*
 * error.h -- one error convention for the whole project.
 *
 * Functions return int: 0 or a negative code.  Failures of the host are -errno.  Our own codes lie
 * above every errno and form a tree, so that a caller asks for a class without listing its members:
 *
 *	RESTART	expected in an optimistic protocol; counted, never logged, retried by the operation
 *	ABORT	an honest outcome that the application asked about
 *	FABRIC	the fabric or a peer broke
 *	REMOTE	remote memory holds something it must not, or has no more room
 *	USAGE	the caller's request makes no sense here
 */
#ifndef NAM_COMMON_ERROR_H
#define NAM_COMMON_ERROR_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NAM_MUST_CHECK __attribute__((warn_unused_result))
#define NAM_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))

/* X(name, value, parent, text) */
#define NAM_ERRORS(X)                                                                               \
	X(RESTART, 5000, NONE, "the operation met a concurrent change too often")                   \
	X(RESTART_TORN, 5001, RESTART, "a node image did not verify")                               \
	X(RESTART_FENCE, 5002, RESTART, "a key lies outside the node that a pointer led to")        \
	X(RESTART_DEAD, 5003, RESTART, "a pointer led to a dead or reused node")                    \
	X(RESTART_LOCKED, 5004, RESTART, "a node is locked")                                        \
	X(RESTART_HOPS, 5006, RESTART, "too many nodes were visited without an answer")             \
	X(RESTART_PARENT, 5007, RESTART, "a parent does not name its child yet")                    \
	X(ABORT, 5100, NONE, "the operation changed nothing")                                       \
	X(NOTFOUND, 5101, ABORT, "no such key")                                                     \
	X(EXISTS, 5102, ABORT, "the key exists already")                                            \
	X(NOINDEX, 5103, ABORT, "no index of that name")                                            \
	X(INDEX_EXISTS, 5104, ABORT, "an index of that name exists already")                        \
	X(NOTEMPTY, 5105, ABORT, "the index is not empty")                                          \
	X(CONFLICT, 5106, ABORT, "another transaction writes or has written a record")             \
	X(FABRIC, 5200, NONE, "the fabric failed")                                                  \
	X(FABRIC_CONNECT, 5201, FABRIC, "no memory server answers at that address")                 \
	X(FABRIC_PEER_DEAD, 5202, FABRIC, "the memory server is gone")                              \
	X(FABRIC_TIMEOUT, 5203, FABRIC, "the memory server does not answer")                        \
	X(FABRIC_ACCESS, 5204, FABRIC, "a remote address lies outside registered memory")           \
	X(FABRIC_FULL, 5205, FABRIC, "a queue is full")                                             \
	X(FABRIC_PROTOCOL, 5206, FABRIC, "a peer sent something malformed")                         \
	X(FABRIC_VERSION, 5207, FABRIC, "the peer speaks another version of the protocol")          \
	X(FABRIC_CAPABILITY, 5208, FABRIC, "the provider cannot do that")                           \
	X(FABRIC_ADDRESS_IN_USE, 5209, FABRIC, "another memory server is listening there")          \
	X(FABRIC_DENIED, 5210, FABRIC, "the memory server does not admit this user or key")         \
	X(FABRIC_STARTING, 5211, FABRIC, "the memory server has not got all of its memory yet")     \
	X(FABRIC_REFUSED, 5212, FABRIC, "the memory server takes no more connections")              \
	X(FABRIC_FENCED, 5213, FABRIC, "the memory servers have fenced this client")                \
	X(FABRIC_STORE, 5214, FABRIC, "the view store does not answer")                             \
	X(FABRIC_SUCCESSOR, 5215, FABRIC, "the memory server waits for the memory of another one")  \
	X(FABRIC_MOVED, 5216, FABRIC, "the memory server's memory has passed to another process")   \
	X(REMOTE, 5300, NONE, "remote memory is not as it should be")                               \
	X(REMOTE_FULL, 5301, REMOTE, "the memory servers have no room left")                        \
	X(REMOTE_CORRUPT, 5302, REMOTE, "remote memory holds something malformed")                  \
	X(LOCK_TIMEOUT, 5303, REMOTE, "a lock was not released in time")                            \
	X(LOCK_ORPHANED, 5304, REMOTE, "a client died in a change that cannot be completed")        \
	X(FENCED, 5305, REMOTE, "this client was declared dead and has lost its locks")             \
	X(NOREGION, 5306, REMOTE, "a pointer leads to memory that no connected server has")          \
	X(DROPPED, 5307, REMOTE, "the index or store was dropped")                                  \
	X(LOST, 5308, REMOTE, "a memory server was restarted, and part of the index is gone")       \
	X(USAGE, 5400, NONE, "the request makes no sense here")                                     \
	X(KEY_BYTES, 5401, USAGE, "the key size does not match the index")                          \
	X(UNSORTED, 5402, USAGE, "the input is not sorted")                                         \
	X(CLUSTER, 5403, USAGE, "the memory servers do not form a cluster")                         \
	X(PARTITION, 5405, USAGE, "a key came to a memory server that does not keep it")            \
	X(DESIGN, 5406, USAGE, "the index is of another design or partitioning")                    \
	X(KIND, 5407, USAGE, "the name is an index's where a store's is wanted, or the reverse")    \
	X(VIEW, 5408, USAGE, "the view of the cluster has changed meanwhile")                       \
	X(TERM, 5409, USAGE, "another steward leads")                                               \
	X(VIEW_STORE, 5410, USAGE, "another view store decides the view of the cluster")            \
	X(UNMOVABLE, 5411, USAGE, "the lead cannot move, nor what clients READ of key-value stores")  \
	X(REGIONS, 5412, USAGE, "the memory servers differ in their ids or regions")                \
	X(LIMIT, 5404, USAGE, "a limit of the library was reached")

enum nam_error {
	NAM_E_NONE = 0,
#define NAM_ERROR_ENUM(name, value, parent, text) NAM_E_##name = value,
	NAM_ERRORS(NAM_ERROR_ENUM)
#undef NAM_ERROR_ENUM
};

/**
 * nam_err_is -- whether a return code is a given error or one of its descendants.
 *
 * @rc		what a function returned: 0 or negative
 * @code	a positive code, NAM_E_* or an errno
 *
 * Cost:	at most the depth of the tree, which is 2.
 */
bool nam_err_is(int rc, int code);

/* The constant's name ("NAM_E_NOTFOUND", "ENOMEM"); never NULL. */
const char *nam_err_name(int rc);

/* Returns one sentence without a full stop; never NULL. */
const char *nam_err_text(int rc);

/* A message: the error, its place and the remedy.  Callers may pass NULL instead. */
struct nam_diag {
	char text[480];
};

/**
 * nam_diag_set -- write a message and hand back the code, so that a failure is one statement.
 *
 * @diag	may be NULL
 * @rc		the negative code to return
 */
int nam_diag_set(struct nam_diag *diag, int rc, const char *format, ...) NAM_PRINTF(3, 4);

#ifdef __cplusplus
}
#endif

#endif /* NAM_COMMON_ERROR_H */
