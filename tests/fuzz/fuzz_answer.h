/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_answer.h -- a client's callback that answers any challenge: with half of it, or not at all.
 */
#ifndef NAM_TESTS_FUZZ_FUZZ_ANSWER_H
#define NAM_TESTS_FUZZ_FUZZ_ANSWER_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fabric/fabric.h"

static inline int
fuzz_answer(void *arg, const struct nam_hello *challenge, struct nam_hello *answer,
	struct nam_diag *diag)
{
	(void)arg;
	(void)diag;
	if (challenge->bytes > NAM_REPLY_BYTES_MAX)
		abort();
	answer->bytes = challenge->bytes / 2;
	memcpy(answer->data, challenge->data, answer->bytes);
	return challenge->bytes & 1 ? -EACCES : 0;
}

#endif /* NAM_TESTS_FUZZ_FUZZ_ANSWER_H */
