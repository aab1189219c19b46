/* SPDX-License-Identifier: Apache-2.0 */
/* view.c -- records read group, and the rest of their transactions. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash/hash.h"
#include "view.h"

#define GROUP_MAX 16u		/* records of a batch: a head and a version each */
#define GROUP_BYTES (256u << 10)	/* of versions, if there are several */
#define FIRST_BYTES 4096u		/* of a list */
#define ARENA_MOST (1ull << 30)
#define READS_FREE 4096u		/* versions READ, beyond 16 for each record */

/* ---- memory ---------------------------------------------------------------------------------- */

int
nam__reserve(void *list, uint64_t wanted, uint64_t *size, size_t each)
{
	void **memory = list, *larger;
	uint64_t next;

	if (wanted <= *size)
		return 0;
	next = *size ? 2 * *size : FIRST_BYTES / each;
	next = next < wanted ? wanted : next;
	larger = realloc(*memory, next * each);
	if (!larger)
		return -ENOMEM;
	*memory = larger;
	*size = next;
	return 0;
}

static struct nam__word_slot *
map_slot(const struct nam__word_map *map, uint64_t word)
{
	uint64_t i = nam_mix64(word);

	while (map->slots[i & (map->size - 1)].word &&
		map->slots[i & (map->size - 1)].word != word)
		i++;
	return &map->slots[i & (map->size - 1)];
}

/* -1: it is not there. */
static int64_t
map_find(const struct nam__word_map *map, uint64_t word)
{
	const struct nam__word_slot *slot = map->size ? map_slot(map, word) : NULL;

	return slot && slot->word ? (int64_t)slot->number : -1;
}

static int
map_add(struct nam__word_map *map, uint64_t word, uint32_t number)
{
	if (2 * (map->count + 1) > map->size) {
		struct nam__word_map larger = { .size = map->size ? 2 * map->size : 128u };

		larger.slots = calloc(larger.size, sizeof(*larger.slots));
		if (!larger.slots)
			return -ENOMEM;
		for (uint32_t i = 0; i < map->size; i++)
			if (map->slots[i].word)
				*map_slot(&larger, map->slots[i].word) = map->slots[i];
		larger.count = map->count;
		free(map->slots);
		*map = larger;
	}
	*map_slot(map, word) = (struct nam__word_slot){ word, number };
	map->count++;
	return 0;
}

static void
map_clear(struct nam__word_map *map)
{
	if (map->count)
		memset(map->slots, 0, map->size * sizeof(*map->slots));
	map->count = 0;
}

void
nam__view_reset(struct nam__view *view, struct nam_worker *worker,
	struct nam_records *records)
{
	view->worker = worker;
	view->records = records;
	view->found_count = view->first_wanted = 0;
	view->txns_count = view->first_unfollowed = 0;
	view->siblings_count = 0;
	view->arena_bytes = 0;
	view->reads = 0;
	view->reads_most = READS_FREE;
	map_clear(&view->by_head);
	map_clear(&view->by_timestamp);
}

void
nam__view_free(struct nam__view *view)
{
	free(view->found);
	free(view->txns);
	free(view->siblings);
	free(view->arena);
	free(view->by_head.slots);
	free(view->by_timestamp.slots);
}

static int
arena_add(struct nam__view *view, const void *bytes, uint32_t count)
{
	uint64_t wanted = view->arena_bytes + count;
	int rc;

	if (wanted > ARENA_MOST)
		return nam_diag_set(&view->worker->diag, -NAM_E_LIMIT, "the rows take more than "
			"%llu MiB: set a limit, and go on behind the last one",
			(unsigned long long)(ARENA_MOST >> 20));
	rc = nam__reserve(&view->arena, wanted, &view->arena_size, 1);
	if (rc)
		return rc;
	memcpy(view->arena + view->arena_bytes, bytes, count);
	view->arena_bytes = wanted;
	return 0;
}

/* ---- records --------------------------------------------------------------------------------- */

struct nam__seen *
nam__view_find(const struct nam__view *view, uint64_t head)
{
	int64_t number = map_find(&view->by_head, head);

	return number < 0 ? NULL : &view->found[number];
}

static int64_t
add(struct nam__view *view, const struct nam__seen *record)
{
	int rc = nam__reserve(&view->found, view->found_count + 1, &view->found_size,
		sizeof(*view->found));

	if (!rc)
		rc = map_add(&view->by_head, record->head, view->found_count);
	if (rc)
		return rc;
	view->reads_most += 16;
	view->found[view->found_count] = *record;
	return view->found_count++;
}

int64_t
nam__view_name(struct nam__view *view, uint64_t head, uint64_t at)
{
	struct nam__seen *known = nam__view_find(view, head);

	if (!known)
		return add(view, &(struct nam__seen){ .head = head, .at = at, .named = true,
			.state = NAM__SEEN_HEAD });
	known->named = true;
	if (known->state == NAM__SEEN_ABSENT)
		known->state = NAM__SEEN_HEAD;
	if (known->state == NAM__SEEN_HEAD && known - view->found < view->first_wanted)
		view->first_wanted = (uint32_t)(known - view->found);
	return known - view->found;
}

static void
by_head(struct nam__seen *record)
{
	record->state = NAM__SEEN_HEAD;
	record->at = 0;
	record->timestamp = 0;
	record->sibling = false;
}

/* Note the siblings of a transaction that is met for the first time. */
static int
txn_note(struct nam__view *view, const struct nam_version *version, uint64_t at)
{
	const struct nam_version_sibling *siblings;
	uint32_t count = nam__version_siblings(version, &siblings);
	int64_t known = map_find(&view->by_timestamp, version->timestamp);
	int rc;

	if (!count || known >= 0)
		return 0;
	rc = nam__reserve(&view->txns, view->txns_count + 1, &view->txns_size,
		sizeof(*view->txns));
	if (!rc)
		rc = nam__reserve(&view->siblings, view->siblings_count + count,
			&view->siblings_size, sizeof(*view->siblings));
	if (!rc)
		rc = map_add(&view->by_timestamp, version->timestamp, view->txns_count);
	if (rc)
		return rc;
	view->txns[view->txns_count++] = (struct nam__seen_txn){
		.timestamp = version->timestamp,
		.self = { version->key_id, version->head, at },
		.first = view->siblings_count, .count = count };
	memcpy(view->siblings + view->siblings_count, siblings, count * sizeof(*siblings));
	view->siblings_count += count;
	return 0;
}

static int
take(struct nam__view *view, struct nam__seen *record, const struct nam_version *version)
{
	int rc;

	record->timestamp = version->timestamp;
	record->deleted = version->deleted;
	record->key_bytes = version->key_bytes;
	record->value_bytes = version->value_bytes;
	record->bytes_at = view->arena_bytes;
	record->state = NAM__SEEN_FOUND;
	nam__timestamp_seen(view->records->client, version->timestamp);
	rc = arena_add(view, nam__version_key(version), version->key_bytes);
	if (!rc)
		rc = arena_add(view, nam__version_value(version), version->value_bytes);
	return rc ? rc : txn_note(view, version, record->at);
}

int
nam__view_keep(struct nam__view *view, struct nam_gaddr head,
	const struct nam_version *version)
{
	int64_t number = add(view, &(struct nam__seen){ .head = head.raw, .named = true });

	return number < 0 ? (int)number : take(view, &view->found[number], version);
}

/* ---- READs ----------------------------------------------------------------------------------- */

/* Records that are read group. */
struct group {
	uint32_t count, bytes;
	uint32_t numbers[GROUP_MAX];
	struct nam_version *images[GROUP_MAX];
	uint32_t image_bytes[GROUP_MAX];
	uint64_t *heads;
};

/* Ask for one more; false: it has to wait for the next batch. */
static bool
ask(struct nam__view *view, struct group *group, struct nam_batch *batch,
	uint32_t number, int *rc)
{
	const struct nam__seen *record = &view->found[number];
	uint32_t bytes = nam__version_at_bytes(NAM_GADDR(record->at)), i = group->count;

	if (i == GROUP_MAX || (i && group->bytes + bytes > GROUP_BYTES))
		return false;
	group->numbers[i] = number;
	group->images[i] = NULL;
	group->image_bytes[i] = bytes;
	group->count++;
	group->bytes += bytes;
	if (record->state == NAM__SEEN_HEAD)
		nam_batch_read(batch, NAM_GADDR(record->head), &group->heads[i], 8);
	if (record->at == NAM_RECORD_DROPPED && !*rc)
		*rc = nam__records_dropped(view->worker, view->records);
	if (record->at && !*rc)
		*rc = nam__version_at_check(view->worker, view->records, NAM_GADDR(record->at));
	if (record->at && !*rc) {
		group->images[i] = nam_buffer_take(view->worker, bytes);
		if (!group->images[i])
			*rc = -ENOMEM;
		else if (nam__version_gone(view->worker->client, NAM_GADDR(record->at)))
			memset(group->images[i], 0, bytes);
		else
			nam_batch_read(batch, NAM_GADDR(record->at), group->images[i], bytes);
	}
	return true;
}

static bool
is_whole(const struct nam__view *view, const struct nam__seen *record,
	const struct nam_version *version)
{
	/* R1, and R2: the block may hold a version of another record now. */
	return nam__version_whole(version, NAM_GADDR(record->at), view->records->store, false) &&
		(!NAM_GUARD(VERSION_SELF) || version->head == record->head);
}

/*
 * A sibling's version.  If the record was read before, the version is still there, or was replaced
 * since.  If the block of another record's version was reused, its replacement was all committed
 * before the scan began (T3).  If it were in the range, its entry would have named the record.
 * Otherwise the record is read again, by its head.
 */
static int
sibling_arrived(struct nam__view *view, struct nam__seen *record,
	const struct nam_version *version)
{
	bool whole = is_whole(view, record, version) && version->timestamp == record->timestamp;

	if (whole && (record->named || version->current == version->timestamp))
		return take(view, record, version);
	if (whole || record->named)
		by_head(record);
	else
		record->state = NAM__SEEN_ABSENT;
	return 0;
}

static int
arrived(struct nam__view *view, struct nam__seen *record, uint64_t head,
	const struct nam_version *version)
{
	if (record->state == NAM__SEEN_VERSION && record->sibling)
		return sibling_arrived(view, record, version);
	if (record->state == NAM__SEEN_HEAD) {
		/* T4 */
		bool guessed = version && (record->at == head || !NAM_GUARD(SCAN_HEAD));

		record->at = guessed ? record->at : head;
		record->state = head ? NAM__SEEN_VERSION : NAM__SEEN_ABSENT;
		if (!guessed || !head)
			return 0;
	}
	/* The version of a head is whole, unless it was replaced during the READ. */
	if (is_whole(view, record, version))
		return take(view, record, version);
	nam__count_restart(view->worker, NAM_RESTART_TORN);
	by_head(record);
	return 0;
}

static bool
is_wanted(const struct nam__seen *record)
{
	return record->state == NAM__SEEN_HEAD || record->state == NAM__SEEN_VERSION;
}

/* One batch, from record number *from on, which becomes the first that was not in it. */
NAM_FIBER_FN static int
group_read(struct nam__view *view, uint32_t *from)
{
	struct group group = { 0 };
	struct nam_batch batch;
	int rc = 0;

	group.heads = nam_buffer_take(view->worker, GROUP_MAX * sizeof(uint64_t));
	if (!group.heads)
		return -ENOMEM;
	nam_batch_init(&batch, view->worker);
	for (; *from < view->found_count && !rc; ++*from)
		if (is_wanted(&view->found[*from]) &&
			!ask(view, &group, &batch, *from, &rc))
			break;
	view->reads += group.count;
	if (!rc && view->reads > view->reads_most)
		rc = -NAM_E_RESTART_DEAD;
	nam_race_point("view.read");
	/* T4: a head comes with the version that it is expected to lead to. */
	if (!rc)
		rc = nam_batch_await(&batch); /* SUSPENDS */
	for (uint32_t i = 0; i < group.count && !rc; i++)
		rc = arrived(view, &view->found[group.numbers[i]], group.heads[i],
			group.images[i]);
	for (uint32_t i = 0; i < group.count; i++)
		if (group.images[i])
			nam_buffer_give(view->worker, group.images[i],
				group.image_bytes[i]);
	nam_buffer_give(view->worker, group.heads, GROUP_MAX * sizeof(uint64_t));
	return rc;
}

int
nam__view_read(struct nam__view *view)
{
	uint32_t first = view->first_wanted;
	int rc = 0;

	while (!rc && first < view->found_count) {
		for (uint32_t from = first; from < view->found_count && !rc;)
			rc = group_read(view, &from); /* SUSPENDS */
		while (first < view->found_count && !is_wanted(&view->found[first]))
			first++;
	}
	view->first_wanted = first;
	return rc;
}

/* ---- whole transactions ---------------------------------------------------------------------- */

static int
sibling_follow(struct nam__view *view, const struct nam__seen_txn *txn,
	const struct nam_version_sibling *sibling)
{
	struct nam__seen *record = nam__view_find(view, sibling->head);
	int64_t number;

	if (record && record->timestamp >= txn->timestamp)
		return 0;
	if (!record) {
		number = add(view, &(struct nam__seen){ .head = sibling->head });
		if (number < 0)
			return (int)number;
		record = &view->found[number];
	}
	record->at = sibling->at;
	record->timestamp = txn->timestamp;
	record->state = NAM__SEEN_VERSION;
	record->sibling = true;
	if (record - view->found < view->first_wanted)
		view->first_wanted = (uint32_t)(record - view->found);
	return 0;
}

/* R6: a version found as a sibling may not be committed; later readers must find it. */
NAM_FIBER_FN static int
complete(struct nam__view *view)
{
	struct nam__txn *txn = nam__txn_new(view->worker, view->records);
	int rc = txn ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < view->found_count && !rc; i++) {
		const struct nam__seen *record = &view->found[i];
		int64_t number = map_find(&view->by_timestamp, record->timestamp);
		struct nam__seen_txn *half;

		if (record->state != NAM__SEEN_FOUND || !record->sibling || number < 0)
			continue;
		half = &view->txns[number];
		if (half->half)
			continue;
		half->half = true;
		rc = nam__txn_complete(txn, &half->self, half->timestamp,
			&view->siblings[half->first], half->count); /* SUSPENDS */
	}
	nam__txn_free(txn);
	return rc;
}

int
nam__view_whole(struct nam__view *view)
{
	int rc = nam__view_read(view); /* SUSPENDS */

	/* T5: siblings outside of the range are read as well. */
	while (!rc && view->first_unfollowed < view->txns_count && NAM_GUARD(SCAN_SIBLINGS)) {
		while (view->first_unfollowed < view->txns_count && !rc) {
			const struct nam__seen_txn *txn = &view->txns[view->first_unfollowed++];

			for (uint32_t i = 0; i < txn->count && !rc; i++)
				rc = sibling_follow(view, txn, &view->siblings[txn->first + i]);
		}
		if (!rc)
			rc = nam__view_read(view); /* SUSPENDS */
	}
	/* A client that may only read leaves that to others. */
	return rc || view->worker->reads_only ? rc : complete(view); /* SUSPENDS */
}
