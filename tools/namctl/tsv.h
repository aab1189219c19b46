/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tsv.h -- input of load: lines of KEY<TAB>PAYLOAD, all checked before anything is done with them.
 *
 * The pairs wait in a temporary file, format.bytes + 8 bytes each, which has no name.  So input of
 * any length, also from a pipe, takes the same memory.
 */
#ifndef NAMCTL_TSV_H
#define NAMCTL_TSV_H

#include <stdbool.h>
#include <stdio.h>

#include "key.h"

struct tsv {
	struct key_format format;
	FILE *pairs;			/* the temporary file */
	uint64_t count;			/* pairs; number i stands in line i + 1 */
	uint64_t left;			/* of these, for tsv_next() */
	bool ascending;			/* in the order of the index, without duplicates */
};

/*
 * Reads and checks everything.  0; or with *diag -EINVAL: a malformed line, or -errno: the file, or
 * the temporary one in TMPDIR or /var/tmp.  *ret_tsv must be freed on success only.
 *
 * @name	of the file, for messages
 * @unique	whether equal keys are out of order, or only equal pairs
 */
int tsv_read(FILE *file, const char *name, const struct key_format *format, bool unique,
	struct tsv *ret_tsv, struct nam_diag *diag) NAM_MUST_CHECK;

/* The next pair of the file, which has one left.  0 or -errno.  @key	room for format.bytes */
int tsv_next(struct tsv *tsv, uint8_t *key, uint64_t *ret_payload) NAM_MUST_CHECK;

/* tsv_next() begins with the first pair again. */
void tsv_rewind(struct tsv *tsv);

void tsv_free(struct tsv *tsv);

#endif /* NAMCTL_TSV_H */
