/* SPDX-License-Identifier: Apache-2.0 */
/* findings.h -- what the checkers of a run found, counted and, the first few, printed. */
#ifndef NAM_TESTS_SIM_FINDINGS_H
#define NAM_TESTS_SIM_FINDINGS_H

#include <stdint.h>
#include <stdio.h>

struct sim_findings {
	FILE *file;		/* NULL: count only */
	uint64_t printed_max;	/* more are counted, not printed */
	uint64_t violations;
	uint64_t undecided;	/* keys that a checker gave up: neither right nor wrong */
};

static inline struct sim_findings
sim_findings_to(FILE *file)
{
	return (struct sim_findings){ .file = file, .printed_max = 10 };
}

/* Count a violation; returns the file to tell it to, or NULL. */
static inline FILE *
sim_findings_violation(struct sim_findings *findings)
{
	return findings->violations++ < findings->printed_max ? findings->file : NULL;
}

static inline FILE *
sim_findings_undecided(struct sim_findings *findings)
{
	return findings->undecided++ < findings->printed_max ? findings->file : NULL;
}

#endif /* NAM_TESTS_SIM_FINDINGS_H */
