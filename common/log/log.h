/* SPDX-License-Identifier: Apache-2.0 */
/* log.h -- log lines of programs: time, level, event and its fields, as KEY=VALUE. */
#ifndef NAM_COMMON_LOG_LOG_H
#define NAM_COMMON_LOG_LOG_H

/* One line on standard error, in one write. */
void nam__log_line(const char *level, const char *event, const char *fields);

#endif /* NAM_COMMON_LOG_LOG_H */
