/* SPDX-License-Identifier: Apache-2.0 */
/* ini.h -- INI files: a caller gets each key with its place, and refuses it or goes on. */
#ifndef NAM_COMMON_INI_H
#define NAM_COMMON_INI_H

#include "error.h"

/* A file under reading: what messages about a key name. */
struct nam__ini {
	const char *path;
	int line;
	struct nam_diag *diag;
};

/* Called for each key.  0, or a code with its reason in ini->diag, which ends the reading. */
typedef int (*nam__ini_key_fn)(void *arg, const struct nam__ini *ini, const char *section,
	const char *name, const char *value);

/*
 * For messages, `kind` says what the file is, "cluster file", and `section` how a section is
 * written, "[server N]".
 *
 * Returns 0; what take returned; -errno if the file cannot be read.  -EINVAL for a line that is too
 * long, or neither a section nor a key.
 */
int nam__ini_read(const char *path, const char *kind, const char *section, nam__ini_key_fn take,
	void *arg, struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_COMMON_INI_H */
