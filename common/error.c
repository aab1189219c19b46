/* SPDX-License-Identifier: Apache-2.0 */
#include "error.h"

#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Our codes must lie above every errno, which the kernel keeps below 4,096. */
#define ERRNO_MAX 4095
#define NAM_ERROR_ABOVE_ERRNO(name, value, parent, text)                                            \
	_Static_assert((value) > ERRNO_MAX, #name " collides with errno");
NAM_ERRORS(NAM_ERROR_ABOVE_ERRNO)
#undef NAM_ERROR_ABOVE_ERRNO

struct error {
	int code;
	const char *name, *text;
};

static const struct error errors[] = {
	{ NAM_E_NONE, "NAM_E_NONE", "success" },
#define NAM_ERROR_ROW(name, value, parent, text)                                                    \
	{ value, "NAM_E_" #name, text },
	NAM_ERRORS(NAM_ERROR_ROW)
#undef NAM_ERROR_ROW
};

/* NULL: an errno, or no code. */
static const struct error *
find(int64_t code)
{
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		if (errors[i].code == code)
			return &errors[i];
	}
	return NULL;
}

static int
parent_of(int code)
{
	switch (code) {
#define NAM_ERROR_PARENT(name, value, parent, text)                                                 \
	case value:                                                                                 \
		return NAM_E_##parent;
		NAM_ERRORS(NAM_ERROR_PARENT)
#undef NAM_ERROR_PARENT
	default:
		return NAM_E_NONE;
	}
}

bool
nam_err_is(int rc, int code)
{
	/* Success is no kind of failure, and NONE is the root only so that the walk ends. */
	if (rc >= 0 || code == NAM_E_NONE)
		return rc == 0 && code == NAM_E_NONE;
	if (rc == INT_MIN)	/* has no positive counterpart */
		return false;
	for (int at = -rc; at != NAM_E_NONE; at = parent_of(at)) {
		if (at == code)
			return true;
	}
	return false;
}

const char *
nam_err_name(int rc)
{
	const struct error *error = find(-(int64_t)rc);
	const char *name = rc < 0 && rc >= -ERRNO_MAX ? strerrorname_np(-rc) : NULL;

	return error ? error->name : name ? name : "unknown";
}

const char *
nam_err_text(int rc)
{
	const struct error *error = find(-(int64_t)rc);
	const char *text = rc < 0 && rc >= -ERRNO_MAX ? strerrordesc_np(-rc) : NULL;

	return error ? error->text : text ? text : "unknown error";
}

int
nam_diag_set(struct nam_diag *diag, int rc, const char *format, ...)
{
	struct nam_diag fresh;
	va_list args;

	if (!diag)
		return rc;
	/* Through a copy, so that a message may quote the one that it replaces. */
	va_start(args, format);
	if (vsnprintf(fresh.text, sizeof(fresh.text), format, args) < 0)
		fresh.text[0] = '\0';
	va_end(args);
	memcpy(diag->text, fresh.text, strlen(fresh.text) + 1);
	return rc;
}
