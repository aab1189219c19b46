/* SPDX-License-Identifier: Apache-2.0 */
#include "history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "bench/ticks.h"

struct access {
	uint64_t number, sequence;	/* that was read */
	bool reads, writes;
};

struct history_event {
	SLIST_ENTRY(history_event) link;	/* of the part */
	struct history_time began, ended;
	uint64_t sequence;
	uint32_t process, count;
	bool committed;
	struct access accesses[];
};

static atomic_uint_fast64_t places;
static atomic_uint processes;		/* fibers: each has one transaction at a time */

struct history_time
history_now(void)
{
	return (struct history_time){ atomic_fetch_add(&places, 1), ticks_now() };
}

int
history_add(struct txn_room *room, struct history_time began, uint64_t sequence, bool committed)
{
	struct history_event *event = malloc(sizeof(*event) +
		room->count * sizeof(event->accesses[0]));

	if (!event)
		return -ENOMEM;
	if (!room->process)
		room->process = atomic_fetch_add(&processes, 1) + 1;
	*event = (struct history_event){ .began = began, .ended = history_now(),
		.sequence = sequence, .process = room->process, .count = room->count,
		.committed = committed };
	for (uint32_t i = 0; i < room->count; i++) {
		const struct txn_record *record = &room->records[i];

		event->accesses[i] = (struct access){ record->number, record->sequence,
			room->kind != TXN_LOAD, record->writes };
	}
	SLIST_INSERT_HEAD(&room->part->history, event, link);
	return 0;
}

static void
event_write(FILE *file, const struct history_event *event, bool ends, uint64_t index,
	uint64_t ticks)
{
	const char *type = !ends ? "invoke" : event->committed ? "ok" : "info", *gap = "";

	fprintf(file, "{:index %" PRIu64 ", :type :%s, :process %u, :time %.0f, :f :txn, :value [",
		index, type, event->process - 1, ticks_ns(ticks));
	for (uint32_t i = 0; i < event->count; i++) {
		const struct access *access = &event->accesses[i];

		if (!access->reads)
			continue;
		fprintf(file, "%s[:r %" PRIu64, gap, access->number);
		gap = " ";
		if (ends && access->sequence)
			fprintf(file, " %" PRIu64 "]", access->sequence);
		else
			fputs(" nil]", file);
	}
	for (uint32_t i = 0; i < event->count; i++) {
		if (!event->accesses[i].writes)
			continue;
		fprintf(file, "%s[:w %" PRIu64 " %" PRIu64 "]", gap, event->accesses[i].number,
			event->sequence);
		gap = " ";
	}
	fputs("]}\n", file);
}

/* Places of transactions that failed, and of those under way, are empty. */
static void
write_all(FILE *file, struct history_event *const *at, uint64_t count)
{
	uint64_t index = 0, first = 0;

	for (uint64_t i = 0; i < count; i++) {
		const struct history_event *event = at[i];
		bool ends = event && event->ended.place == i;
		uint64_t ticks = !event ? 0 : ends ? event->ended.ticks : event->began.ticks;

		if (!event)
			continue;
		first = index ? first : ticks;
		event_write(file, event, ends, index++, ticks > first ? ticks - first : 0);
	}
}

int
history_write(struct requests *bench, FILE *file)
{
	uint64_t count = atomic_load(&places);
	struct history_event **at = calloc(count + 1, sizeof(struct history_event *)), *event;
	int rc = at ? 0 : -ENOMEM;

	for (unsigned i = 0; i < thread_pool_size(session.pool) && at; i++)
		SLIST_FOREACH(event, &bench->parts[i].history, link)
			at[event->began.place] = at[event->ended.place] = event;
	if (at)
		write_all(file, at, count);
	if (ferror(file))
		rc = -EIO;
	if (fclose(file) && !rc)
		rc = -errno;
	for (uint64_t i = 0; i < count && at; i++)
		if (at[i] && at[i]->ended.place == i)
			free(at[i]);
	free(at);
	return rc;
}
