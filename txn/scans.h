/* SPDX-License-Identifier: Apache-2.0 */
/* scans.h -- scans of secondary indexes in serializable transactions.  Errors: serializable.h. */
#ifndef NAM_TXN_SCANS_H
#define NAM_TXN_SCANS_H

#include <stdint.h>

#include "../index/index.h"

#ifdef __cplusplus
extern "C" {
#endif

struct nam_txn;

#define NAM_TXN_INDEXES_MAX 4u		/* of a store */
#define NAM_TXN_LEAVES_MAX 64u		/* of indexes, in one transaction */

/*
 * A secondary index: its keys are these bytes of the values, in the order of memcmp().  Records
 * with shorter values are not in it.  All transactions keep it up to date.
 */
struct nam_txn_index {
	uint32_t value_offset;
	uint32_t key_bytes;		/* NAM_KEY_BYTES_MIN to NAM_KEY_BYTES_MAX; 0: no index */
	/* Only records whose keys begin with this byte, such as those of one table; 0: all. */
	uint8_t key_first;
};

/* A record of a scan.  Good until the transaction writes it, or ends. */
struct nam_txn_row {
	const void *key, *value;
	uint32_t key_bytes, value_bytes;
};

/**
 * nam_txn_scan -- read the first records of a range of index keys.
 *
 * @index	the number of an index in the store's options
 * @range	of index keys; a limit counts like the capacity, if it is smaller
 * @rows	room for `capacity` rows, in the order of index keys; for equal ones in any order
 *
 * The transaction depends on the records, and on the absence of all others in the range, up to the
 * last row.  Writes of the transaction itself are seen.
 *
 * Returns 0; or a negative code, and then no row means anything:
 *	-EINVAL			no such index; no room for a row; or low > high.  The transaction
 *				goes on
 *	-NAM_E_LIMIT		the transaction would have more than NAM_TXN_RECORDS_MAX records or
 *				NAM_TXN_LEAVES_MAX leaves
 *	-NAM_E_CONFLICT		another transaction writes one of the records, or others changed
 *				the index all the time
 * After another code than EINVAL nam_txn_abort() is all that may follow.
 *
 * Cost:	that of nam_cursor_next(), and 1 round trip with 1 READ for each entry of the range.
 *		One of a leaf with a warm cache takes 2.  More round trips for entries that dead
 *		clients have left, and as nam_txn_read_all() if a record is locked.  The commit
 *		validates each leaf by 1 READ of 24 bytes, together with the records.
 * Progress:	as nam_txn_read_all().
 */
NAM_FIBER_FN int nam_txn_scan(struct nam_txn *txn, uint32_t index, const struct nam_range *range,
	struct nam_txn_row *rows, uint32_t capacity, uint32_t *ret_count) NAM_MUST_CHECK;

#ifdef __cplusplus
}
#endif

#endif /* NAM_TXN_SCANS_H */
