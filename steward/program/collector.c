/* SPDX-License-Identifier: Apache-2.0 */
#include "collector.h"

#include <errno.h>

#include "common/env.h"

#define ROUND_NS 30000000000ull		/* so soon new names are met, at the latest */
#define NAP_NS 20000000ull

static bool
stopped(const struct collector *collector)
{
	return collector->collecting.stop(collector->collecting.stop_arg);
}

static void *
run(void *arg)
{
	struct collector *collector = arg;
	uint64_t next_ns = 0, now, every_ns = collector->collecting.every_ns;
	struct nam_diag diag;
	int rc;

	while (!stopped(collector)) {
		now = nam_now_ns();
		if (atomic_load(&collector->leads) && now >= next_ns) {
			diag.text[0] = '\0';
			rc = nam__collect_round(&collector->collecting, &diag);
			if (rc != -ECANCELED)
				collector->failed(rc ? diag.text : "");
			next_ns = now + (every_ns < ROUND_NS ? every_ns : ROUND_NS);
		}
		nam_sleep_ns(NAP_NS);
	}
	return NULL;
}

int
collector_start(struct collector *collector)
{
	int rc = collector->collecting.every_ns ?
		-pthread_create(&collector->thread, NULL, run, collector) : 0;

	collector->runs = !rc && collector->collecting.every_ns;
	return rc;
}

void
collector_join(struct collector *collector)
{
	if (collector->runs)
		(void)pthread_join(collector->thread, NULL);
	nam__collect_free(&collector->collecting);
}
