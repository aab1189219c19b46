/* SPDX-License-Identifier: Apache-2.0 */
/* log.h -- log lines of programs: time, level, event and its fields, as KEY=VALUE. */
#ifndef NAM_COMMON_LOG_LOG_H
#define NAM_COMMON_LOG_LOG_H

/* Write a line to standard error, in one call. */
void nam__log_line(const char *level, const char *event, const char *fields);

#endif /* NAM_COMMON_LOG_LOG_H */
