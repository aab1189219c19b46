/* SPDX-License-Identifier: Apache-2.0 */
/*
 * guard.h -- the checks that the protocols stand on, each with a switch for tests.
 *
 * A guard that no test misses is not needed or not tested.  So each is written
 *
 *	if (NAM_GUARD(NODE_HASH) && hash != expected)
 *		return -NAM_E_RESTART_TORN;
 *
 * where NAM_GUARD(...) is constant true, unless the build has NAM_SIM_POINTS.  Then it is a bit
 * that nam_guard_off("node-hash") clears, and the simulator must find the resulting failure.
 *
 * Without it a check, a wait or a step is omitted, or a value is wrong.  If a guard is an order of
 * steps, the wrong order is a function of tests/sim/litmus_mutants.c or mutants.c.
 */
#ifndef NAM_COMMON_GUARD_H
#define NAM_COMMON_GUARD_H

#include <stdint.h>

/* X(name, text, what it keeps out) */
#define NAM_GUARDS(X)                                                                               \
	X(NODE_HASH, "node-hash", "torn images of nodes")                                           \
	X(NODE_ENDS, "node-ends", "torn images, where loads are ordered")                           \
	X(NODE_CLAIM, "node-claim", "new nodes that clients with a warm cache write into")          \
	X(GENERATION, "generation", "nodes that were reused under a pointer")                       \
	X(NODE_TYPE, "node-type", "nodes that are not what a pointer promised")                     \
	X(FENCE_LOW, "fence-low", "keys that lie left of the node")                                 \
	X(FENCE_HIGH, "fence-high", "keys that moved right")                                        \
	X(DEAD_NODE, "dead-node", "work on nodes that were taken out")                              \
	X(NEW_NODE_ORDER, "new-node-order", "halves of nodes in blocks used again")                 \
	X(CHILD_ALIVE, "child-alive", "separators of nodes that were taken out")                    \
	X(LOCK_CAS, "lock-cas", "two writers of one node")                                          \
	X(UNLOCK_CAS, "unlock-cas", "a release that overtakes the WRITEs before it")                \
	X(UNLOCK_ORDER, "unlock-order", "a release before its WRITEs are done")                     \
	X(UNLOCK_OWNER, "unlock-owner", "success after another took the lock away")                 \
	X(READ_PASSED_CAS, "read-passed-cas", "an image from before the lock was taken")            \
	X(SIBLING_FIRST, "sibling-first", "a left half whose right half is not there yet")          \
	X(ROOT_CAS, "root-cas", "two roots")                                                        \
	X(MERGE_SIBLING, "merge-sibling", "the loss of a node between two that are merged")         \
	X(MERGE_ROOM, "merge-room", "merges of more than fits")                                     \
	X(HEAD_PLACE, "head-place", "the loss of a leaf where a head node comes or goes")           \
	X(EPOCH_WAIT, "epoch-wait", "the reuse of blocks that a reader may be looking at")           \
	X(EPOCH_PIN, "epoch-pin", "a published epoch later than an operation")                      \
	X(SCAN_GAP, "scan-gap", "leaves that a scan skips after a stale hint")                      \
	X(SCAN_PASSED, "scan-passed", "leaves that a scan repeats after a stale hint")              \
	X(COLLECTOR_WORD, "collector-word", "two collectors in one index")                          \
	X(OWNER_ALIVE, "owner-alive", "the taking of a lock whose owner is at work")                \
	X(MERGE_ENDS, "merge-ends", "changes of nodes in the middle of a dead client's merge")      \
	X(INTENT_FIRST, "intent-first", "halves of merges of which no client knows")                \
	X(INTENT_WHOLE, "intent-whole", "the completion of merges by a part of an intent")          \
	X(INTENT_DONE, "intent-done", "changes of nodes with which a merge is done")                \
	X(ROOT_FOLLOWED, "root-followed", "indexes without a root, when a loader dies")             \
	X(INTENT_ALONE, "intent-alone", "two clients that complete one merge")                      \
	X(SWEEP_OWNER, "sweep-owner", "the loss of blocks in a living client's block cache")        \
	X(SWEEP_OWN, "sweep-own", "the loss of blocks of the dead that a client uses again")         \
	X(SWEEP_WAIT, "sweep-wait", "the loss of blocks that an operation takes out")                \
	X(SWEEP_FENCING, "sweep-fencing", "the loss of versions of a client that is not dead yet")   \
	X(SWEEP_INTENT, "sweep-intent", "the loss of a block that is in a dead client's intent")     \
	X(SWEEP_REPORT, "sweep-report", "the second return of a block that waits in a limbo")        \
	X(COLLECT_ALONE, "collect-alone", "half of a transaction that two clients decide about")    \
	X(SWEEP_OBJECTS, "sweep-objects", "the loss of trees and stores that names lead to")         \
	X(SWEEP_RECORDS, "sweep-records", "the loss of versions that records lead to")               \
	X(SWEEP_CHAIN, "sweep-chain", "the second return of a version that is kept for readers")     \
	X(SWEEP_COLLECT, "sweep-collect", "the loss of versions that a reader commits later")        \
	X(SWEEP_BARRIER, "sweep-barrier", "the same, by a reader that is at it")                     \
	X(SWEEP_ENTRIES, "sweep-entries", "entries of versions that are no more")                    \
	X(SWEEP_DROP, "sweep-drop", "the second return of blocks of a store that is dropped")        \
	X(SWEEP_SLICE, "sweep-slice", "the loss of head nodes between two operations")               \
	X(REPORT_LOST, "report-lost", "locks of a client that is cut off from their memory server") \
	X(SWEEP_CLOSE, "sweep-close", "writes to heads that a sweep has freed")                      \
	X(SWEEP_CLOSE_WAIT, "sweep-close-wait", "versions of such heads that a writer retires")      \
	X(SWEEP_CLOSE_INDEX, "sweep-close-index", "collectors of an index that a sweep has freed")   \
	X(SWEEP_MARK, "sweep-mark", "the loss of blocks that names lead to")                         \
	X(SIGN_OF_LIFE, "sign-of-life", "the fencing of clients that are busy")                     \
	X(RECOVER_CAS, "recover-cas", "two clients that take over one lock")                        \
	X(REDO_FIRST, "redo-first", "half-written nodes that no record completes")                  \
	X(REDO_ORDER, "redo-order", "the same, where WRITEs overtake each other")                   \
	X(REDO_VERSION, "redo-version", "reads that take half of each of two images for one")      \
	X(REDO_ALL, "redo-all", "a node that is half of each of two changes")                       \
	X(REDO_REAR, "redo-rear", "half-written nodes of which a record is half-written, too")      \
	X(REDO_NONE, "redo-none", "records that undo a change without one")                         \
	X(REDO_FAILED, "redo-failed", "success of changes whose records were not written")          \
	X(REDO_BLOCK, "redo-block", "blocks for records that look like torn nodes")                 \
	X(REDO_WHOLE, "redo-whole", "repairs by a record of another image")                         \
	X(TORN_WORD, "torn-word", "blame for a node that another client has completed")             \
	X(HANDOVERS, "handovers", "a process that never lets go of a lock")                         \
	X(LOCK_TIMEOUT, "lock-timeout", "a wait for ever, for a lock that changes hands")         \
	X(RESERVED_LEFT, "reserved-left", "a wait for a client that does not take its turn")        \
	X(QUEUE_TIMEOUT, "queue-timeout", "a wait for ever, for a turn that does not come")       \
	X(SERVER_VERSION, "server-version", "halves of nodes that a memory server searches")          \
	X(SERVER_DEAD, "server-dead", "work on such nodes that were merged away")                     \
	X(SERVER_EPOCH, "server-epoch", "the reuse of such nodes while they are looked at")           \
	X(PART_ROUTE, "part-route", "keys in parts of an index that are not theirs")                \
	X(LOAD_EMPTY, "load-empty", "the loss of what is in a part that is loaded")                 \
	X(LOAD_ALONE, "load-alone", "changes of a part that is being loaded")                       \
	X(LOAD_WAIT, "load-wait", "changes that were under way when a load began")                  \
	X(STALE_NAME, "stale-name", "names of leaves that died, which lead there for ever")         \
	X(NAMED_LAST, "named-last", "names of nodes that their left halves still take for theirs")  \
	X(FRAME_END, "frame-end", "messages in mailboxes of which a part is not there yet")         \
	X(FRAME_NUMBER, "frame-number", "messages in mailboxes that have been seen before")         \
	X(FRAME_FREE, "frame-free", "a message over another that has not been answered")             \
	X(ONE_WAY_FAILED, "one-way-failed", "failures of one-way requests, never reported")  \
	X(DATAGRAM_ONCE, "datagram-once", "requests by datagram that are carried out twice")         \
	X(DATAGRAM_NUMBER, "datagram-number", "replies to requests that were given up")           \
	X(COLOCATED_ORDER, "colocated-order", "a colocated READ that overtakes earlier requests")   \
	X(KV_ALONE, "kv-alone", "two threads in one partition of a key-value store")                \
	X(KV_CHECKSUM, "kv-checksum", "damaged pairs, and those that are READ half written")        \
	X(KV_GONE, "kv-gone", "pairs that have gone, by READs of which a part was before")         \
	X(KV_STORE, "kv-store", "pairs of another store, where memory was reused")                  \
	X(KV_MISS, "kv-miss", "the loss of a pair that is elsewhere than in the buckets READ")      \
	X(KV_READ_ONLY, "kv-read-only", "clients' WRITEs in buckets that others READ")                \
	X(KV_WIPE, "kv-wipe", "pairs of a dropped store, in memory that is free")                   \
	X(KV_WAIT, "kv-wait", "the reuse of a dropped store's memory during requests to it")        \
	X(KV_STAGED, "kv-staged", "values that others have written over on their way")              \
	X(KV_IN_DOUBT, "kv-in-doubt", "the reuse of memory that a late GET may write to")           \
	X(VIEW_OUTSIDE, "view-outside", "clients whose lists name other memory servers")            \
	X(VIEW_USABLE, "view-usable", "blocks at memory servers that not all clients know")         \
	X(VERSION_HASH, "version-hash", "torn versions of records")                                 \
	X(VERSION_SELF, "version-self", "versions in blocks that were reused under an address")     \
	X(SUPERSEDED, "superseded", "versions that are not the latest, by cached addresses")        \
	X(HEAD_TAG, "head-tag", "a version in a head of another store")                             \
	X(SECOND_ROUND, "second-round", "half of a transaction")                                    \
	X(PREPARE_FIRST, "prepare-first", "commits of what is not all prepared")                    \
	X(COMMIT_FORWARD, "commit-forward", "commits that go back in time")                         \
	X(VERSION_LATELY, "version-lately", "the same, by a timestamp that was learned long ago")    \
	X(CLAIM_FIRST, "claim-first", "versions that were replaced and look like the latest")       \
	X(LATE_CLAIM, "late-claim", "the same, of versions that came too late")                     \
	X(RETIRE_ONCE, "retire-once", "versions that two clients have replaced")                    \
	X(VERSION_WAIT, "version-wait", "the reuse of versions that a reader may still ask for")     \
	X(RECORD_LOCKED, "record-locked", "two transactions at one record, one of which writes")    \
	X(RECORD_LEASE, "record-lease", "reads under a lock that was taken away")                   \
	X(RECORD_SEALED, "record-sealed", "commits of a transaction whose lock was taken away")     \
	X(RECORD_FENCE, "record-fence", "locks for a transaction that was given up before")         \
	X(RECORD_ABSENT, "record-absent", "records that come while others are read under locks")    \
	X(RECORD_KNOWN, "record-known", "the loss of what became of a transaction half committed")  \
	X(ENTRY_FIRST, "entry-first", "rows that are seen before an index leads to them")           \
	X(ENTRY_WAIT, "entry-wait", "the loss of entries that a scan has yet to come by")           \
	X(ENTRY_REPLACED, "entry-replaced", "the same, while what replaced them is half committed") \
	X(SCAN_HEAD, "scan-head", "rows by entries whose versions are not the latest")              \
	X(SCAN_SIBLINGS, "scan-siblings", "half of a transaction, where the rest came into a range") \
	X(COLLECT_GONE, "collect-gone", "the end of a transaction whose writer is at work on it")   \
	X(COLLECT_WAIT, "collect-wait", "the commit of half a transaction under a reader's eyes")   \
	X(COLLECT_OUTRUN, "collect-outrun", "the commit of one record, without the others")         \
	X(LEADER_LAST, "leader-last", "the loss of the leader of a transaction half committed")     \
	X(COMBINE_COVERS, "combine-covers", "a change in a leaf that does not have its key")        \
	X(COMBINE_FAILED, "combine-failed", "success of changes that another client has undone")    \
	X(FORGET_WAIT, "forget-wait", "other use of blocks that a client still knows")              \
	X(FREE_LATER_WAIT, "free-later-wait", "the reuse of blocks that wait for their readers")     \
	X(FORGET_HANDLES, "forget-handles", "handles that know blocks from before a generation")    \
	X(FORGET_ADDRESSES, "forget-addresses", "records whose heads may be other objects")         \
	X(FORGET_LAYOUTS, "forget-layouts", "buckets of stores, from before a generation")          \
	X(FORGET_CURSOR, "forget-cursor", "cursors that know blocks from before a generation")      \
	X(HINT_PUBLIC, "hint-public", "READs of memory that is private by now")                     \
	X(HINT_HASH, "hint-hash", "bytes of other use that look like a leaf")                       \
	X(NAME_HASH, "name-hash", "names of what was a leaf before a generation")                   \
	X(SUPERBLOCK_SEEN, "superblock-seen", "a CAS to what was once a superblock")                \
	X(VIEW_ACK, "view-ack", "blocks on a memory server that a client does not know")            \
	X(VIEW_INSTALLED, "view-installed", "the same, of a client that acknowledges too early")    \
	X(VIEW_REGISTER, "view-register", "the same, of a client that joins meanwhile")             \
	X(VIEW_BOOT, "view-boot", "memory servers that two leads use")                              \
	X(VIEW_BEFORE, "view-before", "members that the first client after a restart lacks")        \
	X(VIEW_COPY, "view-copy", "copies of a view that the lead did not give")                     \
	X(VIEW_AFTER, "view-after", "members of the view before, with names of its clients")        \
	X(VIEW_NUMBER, "view-number", "changes of another view than their sender has read")         \
	X(VIEW_TERM, "view-term", "changes by a steward that stalled, after another one led")       \
	X(TERM_LIFE, "term-life", "the same, of a steward of an earlier life of the lead")          \
	X(FENCE_FIRST, "fence-first", "requests of a client that is dead")                          \
	X(FENCE_ABOVE, "fence-above", "names of clients that a lead had given out before it died")    \
	X(FENCE_REFUSE, "fence-refuse", "the return of a client that is dead")                     \
	X(KEY_BOUND, "key-bound", "proofs that the client meant for another server")                \
	X(KEY_CLIENT, "key-client", "clients that take the names of others")                        \
	X(KEY_PROOF, "key-proof", "clients that know a key's fingerprint only")                     \
	X(KEY_READ, "key-read", "changes by clients that may only read")                             \
	X(KEY_ROLE, "key-role", "view changes and fences by clients that may not")                  \
	X(KEY_SERVER, "key-server", "challenges of another server than the client means")           \
	X(GATE_QUIET, "gate-quiet", "requests to memory that is being copied")                      \
	X(EXPORT_FENCE, "export-fence", "the return of a client that was fenced as memory moved")   \
	X(MOVE_OURS, "move-ours", "a copy from before the last writes of clients")                  \
	X(NOTE_WRITES, "note-writes", "a copy from before a write of a client")                     \
	X(NOTE_QUIET, "note-quiet", "the same, of a write that was under way")                      \
	X(NOTE_LAST, "note-last", "the same, of the last writes before a move")                     \
	X(NOTE_LOST, "note-lost", "the same, of a client that has died")                            \
	X(BACKUP_FIRST, "backup-first", "a promoted backup that lacks a write")                     \
	X(BACKUP_DECIDES, "backup-decides", "a word that is older at a promoted backup")            \
	X(BACKUP_OUTCOME, "backup-outcome", "a change that its backup took with it")                \
	X(POSTED_AGAIN, "posted-again", "changes of which a promoted backup lacks a part")          \
	X(LOCKS_AGAIN, "locks-again", "two writers of a node, after a promotion")                   \
	X(BACKUP_MERGES, "backup-merges", "half a merge that a promoted backup forgets")            \
	X(BACKUPS_DIFFER, "backups-differ", "a value that goes back, after two promotions")         \
	X(BACKUP_RUNS, "backup-runs", "blocks that a promoted backup gives out again")              \
	X(LEASE, "lease", "old bytes of a member whose backup has its place")                       \
	X(LEASE_WAIT, "lease-wait", "the same, while a client has its lease")                       \
	X(LEAD_EPOCH, "lead-epoch", "blocks that a client may see, after the lead's backup leads")   \
	X(LEAD_VIEW, "lead-view", "a view that clients know, and the lead's backup does not")       \
	X(LEAD_RETIRES, "lead-retires", "a lead that retires before its backup counts")             \
	X(LEAD_NAMES, "lead-names", "names that the lead's backup lacks")                           \
	X(NOTE_SERVED, "note-served", "the same, of a write of a memory server")                    \
	X(SERIAL_HASH, "serial-hash", "torn records of serializable transactions")                  \
	X(SERIAL_LOCKED, "serial-locked", "reads of records that a transaction writes")             \
	X(SERIAL_LOCK, "serial-lock", "two transactions that replace one value")                    \
	X(SERIAL_VALIDATE, "serial-validate", "commits on reads that do not hold any more")         \
	X(SERIAL_RELEASE, "serial-release", "a release that overtakes the WRITE of its record")     \
	X(SERIAL_LOG, "serial-log", "halves of dead clients' transactions")                         \
	X(SERIAL_DEAD, "serial-dead", "the decision about a transaction whose client works")        \
	X(SERIAL_PASSIVE, "serial-passive", "transactions that committed and are undone")           \
	X(SERIAL_GROWN, "serial-grown", "records that no search finds")                             \
	X(SERIAL_SERVED, "serial-served", "two locks of a record by requests to a memory server")   \
	X(SERIAL_LEAVES, "serial-leaves", "phantoms: commits on scans that do not hold any more")   \
	X(SERIAL_AGAIN, "serial-again", "the same, where the transaction inserts, too")             \
	X(SERIAL_ENTER, "serial-enter", "phantoms that a scan cannot know of")                      \
	X(SERIAL_CONFIRM, "serial-confirm", "rows that a dead client has promised")                 \
	X(SERIAL_REMOVE, "serial-remove", "records that lose an entry that they need")              \
	X(SERIAL_STRAY, "serial-stray", "the same, of a client that tidies up")                     \
	X(VIEW_LOST, "view-lost", "indexes with nodes on a server that was added and restarted")

enum nam_guard {
#define NAM_GUARD_ENUM(name, text, why) NAM_GUARD_##name,
	NAM_GUARDS(NAM_GUARD_ENUM)
#undef NAM_GUARD_ENUM
	NAM_GUARDS_COUNT
};
#define NAM_GUARD_WORDS ((NAM_GUARDS_COUNT + 63) / 64)

/* 0; -ENOENT: no such guard; -ENOTSUP: this build's guards cannot be turned off. */
int nam_guard_off(const char *name);
void nam_guards_on(void);

#ifdef NAM_SIM_POINTS
/* Bit i: guard i; set before any other thread exists. */
extern uint64_t nam__guards_off[NAM_GUARD_WORDS];
#define NAM_GUARD(name) \
	(!(nam__guards_off[NAM_GUARD_##name / 64] >> NAM_GUARD_##name % 64 & 1))
#else
#define NAM_GUARD(name) 1
#endif

#endif /* NAM_COMMON_GUARD_H */
