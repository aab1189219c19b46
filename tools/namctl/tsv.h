/* SPDX-License-Identifier: Apache-2.0 */
/* tsv.h -- input of load: lines of KEY<TAB>PAYLOAD, read whole before anything is done with it. */
#ifndef NAMCTL_TSV_H
#define NAMCTL_TSV_H

#include <stdbool.h>
#include <stdio.h>

#include "key.h"

struct tsv {
	struct key_format format;
	uint64_t count;			/* pairs; number i stands in line i + 1 */
	uint64_t room;
	uint8_t *keys;			/* format.bytes each */
	uint64_t *payloads;
	bool ascending;			/* in the order of the index, without duplicates */
	uint64_t disorder_at;		/* the first pair that is not above its predecessor */
};

/**
 * tsv_read -- read and check everything.
 *
 * @name	of the file, for messages
 * @unique	whether equal keys are out of order, or only equal pairs
 *
 * Returns 0; -EINVAL for a malformed line, with file, line, what and remedy in *diag; -ENOMEM;
 * or -errno when the file cannot be read.  *ret_tsv must be freed on success only.
 */
int tsv_read(FILE *file, const char *name, const struct key_format *format, bool unique,
	struct tsv *ret_tsv, struct nam_diag *diag) NAM_MUST_CHECK;

void tsv_free(struct tsv *tsv);

static inline const uint8_t *
tsv_key(const struct tsv *tsv, uint64_t number)
{
	return tsv->keys + number * tsv->format.bytes;
}

#endif /* NAMCTL_TSV_H */
