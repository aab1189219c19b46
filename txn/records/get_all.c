/* SPDX-License-Identifier: Apache-2.0 */
/*
 * get_all.c -- nam_records_get_all(), nam_records_get_many(): batched reads by cached addresses,
 * else by items.
 *
 * With warm addresses and no concurrent writer a transaction is one round trip.  READ all versions;
 * check that each is the cached one and the latest, and that none names a newer sibling.  This
 * needs neither items nor states.  All other transactions use items (get.c), from the beginning, or
 * with the versions that have come.
 */
#include <errno.h>
#include <string.h>

#include "protocols.h"

#define WARM_RECORDS_MAX NAM_RECORDS_MAX	/* that are READ together, */
#define WARM_BYTES_MAX 65536u			/* and the bytes of their versions */
#define COLD 1					/* in place of a code: nothing was done yet */

/* ---- answers --------------------------------------------------------------------------------- */

/* NULL: there is none. */
static inline void
answer(const struct nam_version *version, struct nam_record_get *get)
{
	get->timestamp = version ? version->timestamp : 0;
	if (__builtin_expect(!version || version->deleted, 0)) {
		get->value_bytes = 0;
		get->rc = -NAM_E_NOTFOUND;
		return;
	}
	get->value_bytes = version->value_bytes;
	get->rc = version->value_bytes > get->size ? -NAM_E_LIMIT : 0;
	if (!get->rc && get->value_bytes)
		memcpy(get->value, nam__version_value(version), get->value_bytes);
}

static void
answer_items(const struct nam__txn *txn, struct nam_record_get *gets, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		const struct nam__item *item = &txn->items[txn->item_of[i]];

		answer(item->state == NAM__ITEM_FOUND ? item->image : NULL, &gets[i]);
	}
}

/* ---- by cached addresses --------------------------------------------------------------------- */

/* A transaction, and which of the records are its. */
struct part {
	struct nam_records_reading *reading;
	uint32_t first, count;
};

/* The first transaction that failed, and its diag. */
struct failure {
	int rc;
	struct nam_diag diag;
};

/* Transactions whose versions are READ together. */
struct warm {
	struct nam_worker *worker;
	struct nam_records *records;
	uint32_t parts_count;
	uint32_t count;			/* of records */
	uint32_t bytes;			/* of all versions */
	uint8_t *buffer;		/* one behind the other */
	struct part parts[WARM_RECORDS_MAX];
	struct nam__record_id ids[WARM_RECORDS_MAX];
	struct nam__address addresses[WARM_RECORDS_MAX];
	const struct nam_version *versions[WARM_RECORDS_MAX];
};

/* False: an invalid key, or a key that occurs twice and is READ once. */
static bool
part_ids(struct warm *warm, const struct nam_record_get *gets, uint32_t count)
{
	struct nam__record_id *ids = &warm->ids[warm->count];
	uint64_t met = 0;		/* one bit of 64 for each */
	bool again = false, twice = false;

	for (uint32_t i = 0; i < count; i++) {
		if (!gets[i].key_bytes || gets[i].key_bytes > NAM_RECORD_KEY_BYTES_MAX)
			return false;
		ids[i] = nam__record_id(gets[i].key, gets[i].key_bytes);
		again |= met >> ids[i].word[0] % 64 & 1;
		met |= 1ull << ids[i].word[0] % 64;
	}
	nam__addresses_prefetch(warm->records->addresses, ids, count);
	for (uint32_t i = 1; i < count && again; i++)
		for (uint32_t k = 0; k < i; k++)
			twice |= ids[k].word[0] == ids[i].word[0];
	return !twice;
}

/* As many transactions as fit; those that cannot be READ this way become no parts. */
static uint32_t
warm_take(struct warm *warm, struct nam_records_reading *readings, uint32_t count)
{
	uint32_t taken = 0;

	warm->parts_count = warm->count = 0;
	for (; taken < count && readings[taken].count <= WARM_RECORDS_MAX - warm->count; taken++) {
		struct nam_records_reading *reading = &readings[taken];

		reading->rc = COLD;
		if (!reading->count || !part_ids(warm, reading->gets, reading->count))
			continue;
		warm->parts[warm->parts_count++] = (struct part){ reading, warm->count,
			reading->count };
		warm->count += reading->count;
	}
	return taken;
}

/*
 * If the versions have too many bytes: as many transactions as fit.  If the first alone has too
 * many, it is read by items.
 */
static __attribute__((noinline)) uint32_t
warm_fit(struct warm *warm, const struct nam_records_reading *readings)
{
	uint32_t p, taken, bytes = 0;

	warm->bytes = 0;
	for (p = 0;; p++) {
		const struct part *part = &warm->parts[p];

		for (uint32_t i = part->first; i < part->first + part->count; i++)
			bytes += nam__version_at_bytes(warm->addresses[i].at);
		if (bytes > WARM_BYTES_MAX)
			break;
		warm->bytes = bytes;
	}
	taken = (uint32_t)(warm->parts[p].reading - readings) + !p;
	warm->count = warm->parts[p].first;
	warm->parts_count = p;
	return taken;
}

/*
 * Find the addresses.  Transactions whose records are not all cached are no longer parts.  False:
 * none is left, or there is no memory.
 */
static bool
warm_find(struct warm *warm, const struct nam_records_reading *readings, uint32_t *taken)
{
	uint32_t parts_count = 0, count = 0;

	for (uint32_t p = 0; p < warm->parts_count; p++) {
		struct part part = warm->parts[p];

		if (!nam__addresses_find_all(warm->records->addresses, &warm->ids[part.first],
			part.count, &warm->addresses[count]))
			continue;
		if (part.first != count)
			memmove(&warm->ids[count], &warm->ids[part.first],
				part.count * sizeof(warm->ids[0]));
		part.first = count;
		count += part.count;
		warm->parts[parts_count++] = part;
	}
	warm->parts_count = parts_count;
	warm->count = count;
	warm->bytes = 0;
	for (uint32_t i = 0; i < count; i++)
		warm->bytes += nam__version_at_bytes(warm->addresses[i].at);
	if (__builtin_expect(warm->bytes > WARM_BYTES_MAX, 0))
		*taken = warm_fit(warm, readings);
	if (!warm->count)
		return false;
	warm->buffer = nam_buffer_take(warm->worker, warm->bytes);
	return warm->buffer;
}

/* R9: with the pin under which the addresses were found.  part_is_right() checks the versions. */
NAM_FIBER_FN static int
warm_read(struct warm *warm)
{
	struct nam__read reads[WARM_RECORDS_MAX];
	uint8_t *to = warm->buffer;

	for (uint32_t i = 0; i < warm->count; i++) {
		struct nam_gaddr at = warm->addresses[i].at;
		uint32_t bytes = nam__version_at_bytes(at);

		reads[i] = (struct nam__read){ at, to, bytes };
		warm->versions[i] = (const struct nam_version *)(const void *)to;
		to += bytes;
	}
	warm->worker->current->counters->ops += warm->parts_count;
	nam_race_point("records.read");
	return nam__reads_await(warm->worker, reads, warm->count); /* SUSPENDS */
}

/* Whether every version is the cached one (R2, R6), and none names a newer sibling (R5). */
static bool
part_is_right(const struct warm *warm, const struct part *part)
{
	const struct nam_record_get *gets = part->reading->gets;
	const struct nam__address *addresses = &warm->addresses[part->first];
	const struct nam_version *const *versions = &warm->versions[part->first];
	uint32_t count = part->count;

	for (uint32_t i = 0; i < count; i++) {
		/* R1 without the hash: by epochs no client writes there, if connections last. */
		bool untorn = warm->records->lasting && addresses[i].timestamp &&
			nam__address_is_recent(warm->worker, &addresses[i]);
		const struct nam__version_wanted wanted = { addresses[i].at, warm->records->store,
			addresses[i].head.raw, addresses[i].timestamp, true, untorn };

		if (nam__version_mismatch(versions[i], &wanted) != NAM_RESTART_CAUSES_COUNT ||
			!nam__version_key_is(versions[i], gets[i].key, gets[i].key_bytes))
			return false;
	}
	return !nam__versions_query(warm->records->named, &warm->ids[part->first], versions, count);
}

/* Each was the latest at some time during this operation. */
static void
part_note(struct warm *warm, const struct part *part)
{
	const struct nam_version *const *versions = &warm->versions[part->first];
	uint64_t epoch = warm->worker->current->epoch, latest = 0;

	for (uint32_t i = 0; i < part->count; i++) {
		struct nam__address *address = &warm->addresses[part->first + i];

		latest = versions[i]->timestamp > latest ? versions[i]->timestamp : latest;
		if (__builtin_expect(address->epoch >= epoch && address->timestamp, 1))
			continue;
		address->timestamp = versions[i]->timestamp;
		address->epoch = epoch;
		nam__addresses_note(warm->records->addresses, &warm->ids[part->first + i], address,
			epoch);
	}
	nam__timestamp_seen(warm->records->client, latest);
}

/* Give the versions that have come to the items of a transaction, which reads on from there. */
NAM_FIBER_FN static __attribute__((noinline)) int
part_go_on(const struct warm *warm, const struct part *part)
{
	struct nam__txn *txn = nam__txn_new(warm->worker, warm->records);
	const struct nam_record_get *gets = part->reading->gets;
	int rc = txn ? 0 : -ENOMEM;
	bool again;

	for (uint32_t i = 0; i < part->count && rc >= 0; i++) {
		const struct nam__address *address = &warm->addresses[part->first + i];
		uint32_t bytes = nam__version_at_bytes(address->at);
		struct nam__item *item;

		rc = nam__txn_add(txn, gets[i].key, gets[i].key_bytes, &again);
		if (rc < 0)
			break;
		txn->item_of[i] = (uint8_t)rc;
		item = &txn->items[rc];
		item->cached = *address;
		item->head = address->head;
		rc = nam__item_room(txn, item, bytes);
		if (!rc)
			memcpy(item->image, warm->versions[part->first + i], bytes);
	}
	if (!rc)
		rc = nam__txn_get_arrived(txn); /* SUSPENDS */
	if (!rc)
		answer_items(txn, part->reading->gets, part->reading->count);
	nam__txn_free(txn);
	return rc;
}

static void
note_failure(struct failure *failure, const struct nam_worker *worker, int rc)
{
	if (!rc || !failure || failure->rc)
		return;
	failure->rc = rc;
	failure->diag = worker->diag;
}

/* Read some of the transactions; those that were not read are COLD.  How many of both. */
NAM_FIBER_FN static uint32_t
warm_get(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_reading *readings, uint32_t count, struct failure *failure)
{
	struct warm warm;
	uint32_t taken;
	int rc;

	warm.worker = worker;
	warm.records = records;
	taken = warm_take(&warm, readings, count);
	if (!warm.parts_count)
		return taken;
	/* The cache is being prefetched: serve other tasks' requests first. */
	if (worker->tasks_alive > 1)
		nam__poll(worker);
	/* R9: pinned before the search, so no address is forgotten before its READ. */
	nam__op_resume(worker, NAM_OP_GET_ALL);
	if (!warm_find(&warm, readings, &taken)) {
		nam__op_end(worker);
		return taken;
	}
	rc = warm_read(&warm); /* SUSPENDS */
	note_failure(failure, worker, rc);
	for (uint32_t p = 0; p < warm.parts_count; p++) {
		const struct part *part = &warm.parts[p];

		part->reading->rc = rc;
		if (rc)
			continue;
		if (__builtin_expect(!part_is_right(&warm, part), 0)) {
			part->reading->rc = part_go_on(&warm, part); /* SUSPENDS */
			note_failure(failure, worker, part->reading->rc);
			continue;
		}
		part_note(&warm, part);
		for (uint32_t i = 0; i < part->count; i++)
			answer(warm.versions[part->first + i], &part->reading->gets[i]);
	}
	nam__op_end(worker);
	nam_buffer_give(worker, warm.buffer, warm.bytes);
	return taken;
}

/* ---- the whole ------------------------------------------------------------------------------- */

NAM_FIBER_FN static int
items_get(struct nam_worker *worker, struct nam_records *records, struct nam_record_get *gets,
	uint32_t count)
{
	struct nam__txn *txn;
	bool again;
	int rc = 0;

	if (!count || count > NAM_RECORDS_MAX)
		return nam_diag_set(&worker->diag, -NAM_E_LIMIT, "record store '%s': %u records; a "
			"transaction has 1 to %u", records->name, count, NAM_RECORDS_MAX);
	txn = nam__txn_new(worker, records);
	if (!txn)
		return -ENOMEM;
	for (uint32_t i = 0; i < count && rc >= 0; i++) {
		rc = nam__txn_add(txn, gets[i].key, gets[i].key_bytes, &again);
		txn->item_of[i] = (uint8_t)rc;
	}
	if (rc >= 0)
		rc = nam__txn_get(txn); /* SUSPENDS */
	if (!rc)
		answer_items(txn, gets, count);
	nam__txn_free(txn);
	return rc;
}

/* Some of them: how many.  @failure	or NULL */
NAM_FIBER_FN static uint32_t
get_some(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_reading *readings, uint32_t count, struct failure *failure)
{
	uint32_t done = 0;

	if (records->star && records->addresses)
		done = warm_get(worker, records, readings, count, failure); /* SUSPENDS */
	if (!done) {
		readings[0].rc = COLD;
		done = 1;
	}
	for (uint32_t i = 0; i < done; i++) {
		if (readings[i].rc != COLD)
			continue;
		readings[i].rc = items_get(worker, records, readings[i].gets,
			readings[i].count); /* SUSPENDS */
		note_failure(failure, worker, readings[i].rc);
	}
	return done;
}

int
nam_records_get_many(struct nam_worker *worker, struct nam_records *records,
	struct nam_records_reading *readings, uint32_t count)
{
	struct failure failure;
	uint32_t done = 0;

	failure.rc = 0;
	while (done < count)
		done += get_some(worker, records, &readings[done], count - done,
			&failure); /* SUSPENDS */
	if (failure.rc)
		worker->diag = failure.diag;
	return failure.rc;
}

int
nam_records_get_all(struct nam_worker *worker, struct nam_records *records,
	struct nam_record_get *gets, uint32_t count)
{
	struct nam_records_reading reading = { .gets = gets, .count = count };

	(void)get_some(worker, records, &reading, 1, NULL); /* SUSPENDS */
	return reading.rc;
}
