/* SPDX-License-Identifier: Apache-2.0 */
/* phases.h -- phases of serializable transactions that go by RPC, and presets. */
#ifndef NAM_TXN_PHASES_H
#define NAM_TXN_PHASES_H

#define NAM_TXN_RPC_BYTES_MAX 3968u

/*
 * Phases that go by RPC; the others are one-sided.  A fabric without NAM_CAP_ATOMIC_VS_CPU allows
 * no CAS by the NIC beside one by the memory server's CPU.  There LOCK_RPC and COMMIT_RPC go
 * together, and are as the store was made.
 */
enum nam_txn_phase {
	NAM_TXN_EXECUTE_RPC = 1u << 0,
	NAM_TXN_LOCK_RPC = 1u << 1,
	NAM_TXN_VALIDATE_RPC = 1u << 2,
	NAM_TXN_LOG_RPC = 1u << 3,
	NAM_TXN_COMMIT_RPC = 1u << 4,
	/* One-sided requests of a phase: each is awaited before the next one, */
	NAM_TXN_ONE_AT_A_TIME = 1u << 5,
	/* or has a doorbell of its own, where no member has a backup. */
	NAM_TXN_ONE_DOORBELL_EACH = 1u << 6,
	/*
	 * Passive acknowledgement: nam_txn_commit() returns once the log is complete.  The records
	 * are being written then, and locked until they are.  If that fails, nam_txn_flush() or
	 * the next nam_txn_begin() returns why.  A thread that does something else for long calls
	 * nam_txn_flush() before: locks may stay, and memory that others free, until its worker
	 * runs again.
	 */
	NAM_TXN_PASSIVE = 1u << 7,
	/*
	 * With EXECUTE_RPC and LOCK_RPC: a record that the transaction is going to write is locked
	 * as it is read (struct nam_txn_get), as in FaSST.
	 */
	NAM_TXN_LOCK_EARLY = 1u << 8,
	NAM_TXN_RPC = (1u << 5) - 1,	/* the phases */
	NAM_TXN_PHASES = (1u << 9) - 1,	/* all of these */
};

/* Presets of published systems, as the paper on DrTM+H has them in its table 4. */
enum nam_txn_preset {
	NAM_TXN_FARM = NAM_TXN_LOCK_RPC | NAM_TXN_COMMIT_RPC,
	NAM_TXN_DRTM_R = 0,
	NAM_TXN_FASST = NAM_TXN_RPC | NAM_TXN_LOCK_EARLY,
	NAM_TXN_DRTM_H = NAM_TXN_PASSIVE,
};

#endif /* NAM_TXN_PHASES_H */
