/* SPDX-License-Identifier: Apache-2.0 */
/* collector.h -- the thread of nam-steward that collects, while the steward leads. */
#ifndef NAM_STEWARD_PROGRAM_COLLECTOR_H
#define NAM_STEWARD_PROGRAM_COLLECTOR_H

#include <pthread.h>
#include <stdatomic.h>

#include "steward/collect.h"

struct collector {
	struct nam__collecting collecting;	/* every_ns 0: nothing is collected */
	void (*failed)(const char *text);	/* a round has; "": it has not */
	atomic_bool leads;		/* the steward does, and there is a view */
	pthread_t thread;
	bool runs;
};

/* collecting.stop also ends the thread. */
int collector_start(struct collector *collector) NAM_MUST_CHECK;
/* Once collecting.stop holds. */
void collector_join(struct collector *collector);

#endif /* NAM_STEWARD_PROGRAM_COLLECTOR_H */
