/* SPDX-License-Identifier: Apache-2.0 */
/* record_json.h -- a record as text, and bytes in base64. */
#ifndef NAM_STEWARD_RECORD_JSON_H
#define NAM_STEWARD_RECORD_JSON_H

#include "record.h"

/*
 * {"number":3,"lead_boot":"9f...","terms_before":0,"members":[{"id":0,"state":"up",...}],
 * "last":{"change":"up",...}}; the revision is not part of it.  The caller frees the text.  NULL:
 * no memory.
 */
char *nam__record_print(const struct nam__record *record) NAM_MUST_CHECK;

/* -NAM_E_REMOTE_CORRUPT: that is no record.  The caller frees ret_record->view. */
int nam__record_parse(const char *text, struct nam__record *ret_record) NAM_MUST_CHECK;

/* The caller frees the text, which ends with a NUL.  NULL: no memory, or no base64. */
char *nam__base64_encode(const char *text) NAM_MUST_CHECK;
char *nam__base64_decode(const char *text) NAM_MUST_CHECK;

#endif /* NAM_STEWARD_RECORD_JSON_H */
