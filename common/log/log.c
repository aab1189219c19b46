/* SPDX-License-Identifier: Apache-2.0 */
/* log.c -- see log.h. */
#include "log.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

void
nam__log_line(const char *level, const char *event, const char *fields)
{
	char line[1024], date[32];
	struct timespec now;
	struct tm utc;
	int bytes;

	(void)clock_gettime(CLOCK_REALTIME, &now);
	(void)gmtime_r(&now.tv_sec, &utc);
	(void)strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
	bytes = snprintf(line, sizeof(line), "time=%s.%03ldZ level=%s event=%s%s%s\n", date,
		now.tv_nsec / 1000000, level, event, *fields ? " " : "", fields);
	if (bytes >= (int)sizeof(line)) {
		bytes = sizeof(line) - 1;
		line[bytes - 1] = '\n';
	}
	(void)!write(STDERR_FILENO, line, (size_t)bytes);
}
