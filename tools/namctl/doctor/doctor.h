/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h -- what is missing on a machine for each fabric, and what to do about it. */
#ifndef NAM_TOOLS_NAMCTL_DOCTOR_DOCTOR_H
#define NAM_TOOLS_NAMCTL_DOCTOR_DOCTOR_H

#include "machine.h"

enum finding_level {
	FINDING_NOTE,		/* works, but could be better */
	FINDING_DEFECT,		/* this device does not work, and another one does */
	FINDING_MISSING,	/* the fabric does not work without */
};

struct finding {
	const char *fabric;	/* "shm", "tcp", "verbs" */
	enum finding_level level;
	char what[200];
	char remedy[200];	/* a command, or what to do */
};

enum { FINDINGS_MAX = 64 };

struct findings {
	unsigned count;
	struct finding at[FINDINGS_MAX];
};

void doctor_examine(const struct machine *machine, struct findings *ret_findings);

/* Whether nothing is missing for the fabric. */
bool doctor_usable(const struct findings *findings, const char *fabric);

#endif /* NAM_TOOLS_NAMCTL_DOCTOR_DOCTOR_H */
