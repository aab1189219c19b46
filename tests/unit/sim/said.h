/* SPDX-License-Identifier: Apache-2.0 */
/* said.h -- histories written down by hand, and what a checker says of them. */
#ifndef NAM_TESTS_UNIT_SIM_SAID_H
#define NAM_TESTS_UNIT_SIM_SAID_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/error.h"
#include "tests/sim/findings.h"
#include "tests/sim/history.h"

static struct sim_history history;
static char *told;	/* by the last check */

static inline int
set_up(void **state)
{
	(void)state;
	sim_history_init(&history);
	return 0;
}

static inline int
tear_down(void **state)
{
	(void)state;
	sim_history_free(&history);
	free(told);
	told = NULL;
	return 0;
}

/* A call that has not returned; each operation in these tests has a session of its own. */
static inline size_t
call(enum sim_kind kind, uint64_t key, uint64_t payload)
{
	return sim_history_call(&history, 1, (uint32_t)history.ops_count, kind, key, payload,
		10 * history.order);
}

static inline void
returns(size_t op, int rc, uint64_t payload)
{
	sim_history_return(&history, op, rc, payload, 10 * history.order);
}

/* Called and returned with nothing in between. */
static inline void
does(enum sim_kind kind, uint64_t key, uint64_t payload, int rc)
{
	returns(call(kind, key, payload), rc, payload);
}

static inline void
looks_up(uint64_t key, uint64_t payload)
{
	does(SIM_LOOKUP, key, payload, payload ? 0 : -NAM_E_NOTFOUND);
}

#define RUN(check, ret_findings)                                                                    \
	do {                                                                                        \
		size_t told_bytes;                                                                  \
		FILE *file;                                                                         \
		free(told);                                                                         \
		told = NULL;                                                                        \
		file = open_memstream(&told, &told_bytes);                                          \
		struct sim_findings *findings = (ret_findings);                                     \
		*findings = sim_findings_to(file);                                                  \
		check;                                                                              \
		fclose(file);                                                                       \
	} while (0)

#define assert_seen(text) assert_non_null(strstr(told, text))

#endif /* NAM_TESTS_UNIT_SIM_SAID_H */
