/* SPDX-License-Identifier: Apache-2.0 */
/* backup_books.h -- the books of a member, as its backup gets them. */
#ifndef NAM_COMPUTE_VIEW_MOVE_BACKUP_BOOKS_H
#define NAM_COMPUTE_VIEW_MOVE_BACKUP_BOOKS_H

#include "common/rpc/move_rpc.h"

/*
 * A copy on the heap, of books that are whole.  All memory is public, and all blocks are used, by
 * clients that are not known: the backup does not hear of blocks that come back.  It has no trees
 * and no stores: these keep one copy.  0, or -ENOMEM.
 */
int nam__backup_books(const uint8_t *books, uint8_t **ret_books,
	uint64_t *ret_bytes) NAM_MUST_CHECK;

#endif /* NAM_COMPUTE_VIEW_MOVE_BACKUP_BOOKS_H */
