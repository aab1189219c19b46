/* SPDX-License-Identifier: Apache-2.0 */
#include "exit.h"

#include <errno.h>

#include "error.h"

static const struct {
	int code;		/* or one of its descendants */
	enum nam_exit exit;
} table[] = {
	{ NAM_E_NONE, NAM_EXIT_OK },
	{ NAM_E_NOTFOUND, NAM_EXIT_NO },
	{ NAM_E_NOINDEX, NAM_EXIT_NOINDEX },
	{ NAM_E_DROPPED, NAM_EXIT_NOINDEX },
	{ NAM_E_EXISTS, NAM_EXIT_CONFLICT },
	{ NAM_E_INDEX_EXISTS, NAM_EXIT_CONFLICT },
	{ NAM_E_NOTEMPTY, NAM_EXIT_CONFLICT },
	{ EEXIST, NAM_EXIT_CONFLICT },
	{ NAM_E_FABRIC, NAM_EXIT_FABRIC },
	{ NAM_E_USAGE, NAM_EXIT_USAGE },
	{ EINVAL, NAM_EXIT_USAGE },
	/* A cluster file. */
	{ ENOENT, NAM_EXIT_USAGE },
	{ EACCES, NAM_EXIT_USAGE },
	{ EISDIR, NAM_EXIT_USAGE },
};

int
nam_exit_code(int rc)
{
	for (unsigned i = 0; i < sizeof(table) / sizeof(table[0]); i++)
		if (nam_err_is(rc, table[i].code))
			return table[i].exit;
	return NAM_EXIT_REMOTE;
}
