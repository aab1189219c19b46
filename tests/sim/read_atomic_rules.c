/* SPDX-License-Identifier: Apache-2.0 */
/* Values that a reader must not see, given the sources of all reads; see read_atomic.h. */
#include "read_atomic_parts.h"

#include <inttypes.h>
#include <stdlib.h>

#include "facts.h"

#define TOLD_SENTENCES 16u	/* of a circle */

/* A session's reads and commits; ascending by session, key and transaction, reads first. */
struct event {
	uint64_t key;
	uint64_t value;
	uint32_t session;
	uint32_t txn;
	uint32_t writer;
	bool write;
};

/* A committed write of a key; ascending by key and end. */
struct ended {
	uint64_t key;
	uint64_t end_ns;
	uint32_t txn;
	uint32_t newest;	/* of the key up to here */
};

/* "<reader> read key 7 = 70 of <writer>, which is older than that of <other>, <why>" */
static void
print_older(const struct sim_ra_check *check, const struct sim_ra_saw *saw, uint32_t other,
	const char *why, FILE *file)
{
	sim_ra_print_read(check, saw->txn, saw->key, saw->value, file);
	fputs(" of ", file);
	sim_ra_print_txn(check, saw->writer, file);
	fputs(", which is older than that of ", file);
	sim_ra_print_txn(check, other, file);
	fprintf(file, ", %s\n", why);
}

/* ---- fractured reads ------------------------------------------------------------------------- */

/* saw: older than what newer, of which the same transaction read another key, wrote there. */
static void
print_fractured(struct sim_ra_check *check, const struct sim_ra_saw *saw, uint32_t newer)
{
	FILE *file = sim_ra_violation(check, SIM_RA_FRACTURED);
	const struct sim_ra_saw *other = &check->saws[check->saw_first[saw->txn]];

	if (!file)
		return;
	while (other->writer != newer)
		other++;
	sim_ra_print_read(check, saw->txn, other->key, other->value, file);
	fputs(" of ", file);
	sim_ra_print_txn(check, newer, file);
	fprintf(file, ", which wrote key %" PRIu64 " as well, but key %" PRIu64 " = %" PRIu64
		" of ", saw->key, saw->key, saw->value);
	sim_ra_print_txn(check, saw->writer, file);
	fputs(sim_ra_is_older(check, saw->writer, newer) ? ", which is older\n" :
		", which wrote both, too\n", file);
}

/* The reader also read from newer, which wrote this key. */
static void
assess(struct sim_ra_check *check, const struct sim_ra_saw *saw, uint32_t newer)
{
	if (sim_ra_is_older(check, saw->writer, newer)) {
		print_fractured(check, saw, newer);
	} else if (sim_ra_is_undecided(check, saw->writer, newer)) {
		check->pending = sim_grow(check->pending, check->pending_count,
			&check->pending_room, sizeof(*check->pending));
		check->pending[check->pending_count++] = (struct sim_txn_sentence){
			saw->key, newer, saw->writer, saw->txn, SIM_WHY_FRACTURED };
	}
}

/* Every key that writer wrote and txn read, by the shorter of the two lists. */
static void
compare_with(struct sim_ra_check *check, uint32_t txn, uint32_t writer)
{
	const struct sim_ra_saw *saws = &check->saws[check->saw_first[txn]];
	size_t count = sim_ra_saws_of(check, txn);
	const struct sim_ra_wrote *wrote = &check->wrote[check->wrote_first[writer]];
	size_t writes = sim_ra_writes_of(check, writer);

	if (writes <= count) {
		for (size_t i = 0; i < writes; i++) {
			const struct sim_ra_saw *saw = sim_ra_find_saw(check, txn, wrote[i].key);

			if (saw)
				assess(check, saw, writer);
		}
		return;
	}
	for (size_t i = 0; i < count; i++)
		if (saws[i].writer != writer && sim_ra_did_write(check, writer, saws[i].key))
			assess(check, &saws[i], writer);
}

static uint32_t
lower(const struct sim_txn_sentence *sentence)
{
	return sentence->older < sentence->newer ? sentence->older : sentence->newer;
}

static uint32_t
higher(const struct sim_txn_sentence *sentence)
{
	return sentence->older < sentence->newer ? sentence->newer : sentence->older;
}

/* Statements about the same two stand together. */
static int
compare_pending(const void *a, const void *b)
{
	const struct sim_txn_sentence *x = a, *y = b;

	if (lower(x) != lower(y))
		return lower(x) < lower(y) ? -1 : 1;
	if (higher(x) != higher(y))
		return higher(x) < higher(y) ? -1 : 1;
	return x->older < y->older ? -1 : x->older > y->older;
}

/* Each older than the other: fractured, whatever the order.  Else it remains to be seen. */
static void
resolve_pending(struct sim_ra_check *check)
{
	struct sim_txn_sentence *pending = check->pending;

	qsort(pending, check->pending_count, sizeof(*pending), compare_pending);
	for (size_t i = 0, end; i < check->pending_count; i = end) {
		end = i + 1;
		while (end < check->pending_count && lower(&pending[end]) == lower(&pending[i]) &&
				higher(&pending[end]) == higher(&pending[i]))
			end++;
		if (pending[i].older == pending[end - 1].older)
			sim_txn_order_say(&check->order, pending[i]);
		else
			print_fractured(check, sim_ra_find_saw(check, pending[i].by,
				pending[i].key),
				pending[i].older);
	}
	check->pending_count = 0;
}

static int
compare_numbers(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return x < y ? -1 : x > y;
}

void
sim_ra_check_fractured(struct sim_ra_check *check)
{
	check->writers = sim_alloc(check->saws_count, sizeof(*check->writers));
	for (uint32_t txn = 1; txn < check->txns->count; txn++) {
		const struct sim_ra_saw *saws = &check->saws[check->saw_first[txn]];
		size_t count = sim_ra_saws_of(check, txn);

		for (size_t i = 0; i < count; i++)
			check->writers[i] = saws[i].writer;
		qsort(check->writers, count, sizeof(*check->writers), compare_numbers);
		for (size_t i = 0; i < count; i++) {
			uint32_t writer = check->writers[i];

			if (writer != SIM_RA_LOADER && writer != SIM_RA_NOBODY &&
					(i == 0 || check->writers[i - 1] != writer))
				compare_with(check, txn, writer);
		}
		if (check->pending_count > 0)
			resolve_pending(check);
	}
}

/* ---- sessions -------------------------------------------------------------------------------- */

static int
compare_events(const void *a, const void *b)
{
	const struct event *x = a, *y = b;

	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->txn != y->txn)
		return x->txn < y->txn ? -1 : 1;
	return x->write - y->write;
}

static struct event *
list_events(const struct sim_ra_check *check, size_t *ret_count)
{
	struct event *events = sim_alloc(check->saws_count + check->wrote_count, sizeof(*events));
	const struct sim_txn *txns = check->txns->txns;
	size_t count = 0;

	for (size_t i = 0; i < check->saws_count; i++) {
		const struct sim_ra_saw *saw = &check->saws[i];

		events[count++] = (struct event){ saw->key, saw->value, txns[saw->txn].session,
			saw->txn, saw->writer, false };
	}
	for (size_t i = 0; i < check->wrote_count; i++) {
		const struct sim_ra_wrote *wrote = &check->wrote[i];

		if (wrote->txn != SIM_RA_LOADER &&
				txns[wrote->txn].outcome == SIM_TXN_COMMITTED)
			events[count++] = (struct event){ wrote->key, 0, txns[wrote->txn].session,
				wrote->txn, wrote->txn, true };
	}
	qsort(events, count, sizeof(*events), compare_events);
	*ret_count = count;
	return events;
}

/*
 * The newest version of a key that a session knows of.  Of two that cannot be compared it is the
 * later one: what was said when that came puts it behind the other.
 */
static void
remember(const struct sim_ra_check *check, uint32_t *newest, uint32_t writer)
{
	if (!sim_ra_is_older(check, writer, *newest))
		*newest = writer;
}

/* A read in a session that knows of that version. */
static void
check_past(struct sim_ra_check *check, uint32_t newest, const struct event *read,
	enum sim_read_atomic_kind kind, enum sim_txn_why why)
{
	const struct sim_ra_saw saw = { read->key, read->value, read->txn, read->writer };
	FILE *file;

	if (!sim_ra_is_older(check, read->writer, newest)) {
		if (sim_ra_is_undecided(check, newest, read->writer))
			sim_txn_order_say(&check->order, (struct sim_txn_sentence){ read->key,
				newest, read->writer, read->txn, why });
		return;
	}
	file = sim_ra_violation(check, kind);
	if (file)
		print_older(check, &saw, newest, why == SIM_WHY_MINE ?
			"which its session had committed" : "which its session had read", file);
}

void
sim_ra_check_sessions(struct sim_ra_check *check)
{
	size_t count;
	struct event *events = list_events(check, &count);
	uint32_t wrote, saw;

	for (size_t i = 0; i < count; i++) {
		const struct event *event = &events[i];

		if (i == 0 || event->session != events[i - 1].session ||
				event->key != events[i - 1].key)
			wrote = saw = SIM_RA_NOBODY;
		if (event->write) {
			remember(check, &wrote, event->writer);
			continue;
		}
		check_past(check, wrote, event, SIM_RA_NOT_MINE, SIM_WHY_MINE);
		if (!check->options->monotone_reads)
			continue;
		check_past(check, saw, event, SIM_RA_NOT_MONOTONE, SIM_WHY_MONOTONE);
		remember(check, &saw, event->writer);
	}
	free(events);
}

/* ---- real time ------------------------------------------------------------------------------- */

static int
compare_ended(const void *a, const void *b)
{
	const struct ended *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	if (x->end_ns != y->end_ns)
		return x->end_ns < y->end_ns ? -1 : 1;
	return x->txn < y->txn ? -1 : x->txn > y->txn;
}

static struct ended *
list_ended(const struct sim_ra_check *check, size_t *ret_count)
{
	struct ended *ended = sim_alloc(check->wrote_count, sizeof(*ended));
	size_t count = 0;

	for (size_t i = 0; i < check->wrote_count; i++) {
		const struct sim_ra_wrote *wrote = &check->wrote[i];
		const struct sim_txn *txn = &check->txns->txns[wrote->txn];

		if (txn->outcome == SIM_TXN_COMMITTED && txn->end_ns != 0)
			ended[count++] = (struct ended){ wrote->key, txn->end_ns, wrote->txn,
				wrote->txn };
	}
	qsort(ended, count, sizeof(*ended), compare_ended);
	for (size_t i = 1; i < count; i++)
		if (ended[i].key == ended[i - 1].key && sim_ra_rank(check, ended[i].txn) <
				sim_ra_rank(check, ended[i - 1].newest))
			ended[i].newest = ended[i - 1].newest;
	*ret_count = count;
	return ended;
}

/* The newest version of a key that was committed before a moment. */
static uint32_t
newest_before(const struct ended *ended, size_t count, uint64_t key, uint64_t moment)
{
	size_t low = 0, high = count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (ended[middle].key < key ||
				(ended[middle].key == key && ended[middle].end_ns < moment))
			low = middle + 1;
		else
			high = middle;
	}
	return low > 0 && ended[low - 1].key == key ? ended[low - 1].newest : SIM_RA_NOBODY;
}

void
sim_ra_check_stale(struct sim_ra_check *check)
{
	size_t count;
	struct ended *ended = list_ended(check, &count);

	for (size_t i = 0; i < check->saws_count; i++) {
		const struct sim_ra_saw *saw = &check->saws[i];
		const struct sim_txn *txn = &check->txns->txns[saw->txn];
		uint32_t newest = SIM_RA_NOBODY;
		FILE *file;

		/* Nothing ended before 0: a beginning that is unknown. */
		if (check->options->real_time && sim_ra_writes_of(check, saw->txn) == 0)
			newest = newest_before(ended, count, saw->key, txn->begin_ns);
		if (newest == SIM_RA_NOBODY && sim_ra_did_write(check, SIM_RA_LOADER, saw->key))
			newest = SIM_RA_LOADER;
		if (!sim_ra_is_older(check, saw->writer, newest))
			continue;
		file = sim_ra_violation(check, SIM_RA_STALE);
		if (file)
			print_older(check, saw, newest, "which was there before it began", file);
	}
	free(ended);
}

/* ---- timestamps and the order ---------------------------------------------------------------- */

static void
print_timestamp(struct sim_ra_check *check, enum sim_read_atomic_kind kind, uint32_t txn,
	uint32_t other, const char *what)
{
	FILE *file = sim_ra_violation(check, kind);

	if (!file)
		return;
	sim_ra_print_txn(check, txn, file);
	fprintf(file, " has %s ", what);
	sim_ra_print_txn(check, other, file);
	fputs("\n", file);
}

struct member {
	uint32_t session;
	uint32_t txn;
};

static int
compare_members(const void *a, const void *b)
{
	const struct member *x = a, *y = b;

	if (x->session != y->session)
		return x->session < y->session ? -1 : 1;
	return x->txn < y->txn ? -1 : x->txn > y->txn;
}

/* The commits of each session, in order. */
static struct member *
list_members(const struct sim_ra_check *check, size_t *ret_count)
{
	struct member *members = sim_alloc(check->txns->count, sizeof(*members));
	size_t count = 0;

	for (uint32_t i = 1; i < check->txns->count; i++)
		if (check->txns->txns[i].outcome == SIM_TXN_COMMITTED &&
				sim_ra_writes_of(check, i) > 0)
			members[count++] = (struct member){ check->txns->txns[i].session, i };
	qsort(members, count, sizeof(*members), compare_members);
	*ret_count = count;
	return members;
}

void
sim_ra_check_timestamps(struct sim_ra_check *check)
{
	const struct sim_txn *txns = check->txns->txns;
	size_t count;
	struct sim_ra_stamp *stamps = sim_ra_stamps(check, &count);
	struct member *members;
	uint32_t newest = SIM_RA_NOBODY;

	for (size_t i = 1; i < count; i++)
		if (stamps[i].timestamp == stamps[i - 1].timestamp)
			print_timestamp(check, SIM_RA_TWICE, stamps[i].txn, stamps[i - 1].txn,
				"the timestamp of");
	free(stamps);
	members = list_members(check, &count);
	for (size_t i = 0; i < count; i++) {
		uint32_t txn = members[i].txn;

		if (i == 0 || members[i].session != members[i - 1].session)
			newest = SIM_RA_NOBODY;
		if (txns[txn].timestamp == 0)
			continue;
		if (newest != SIM_RA_NOBODY && txns[txn].timestamp < txns[newest].timestamp)
			print_timestamp(check, SIM_RA_BACKWARDS, txn, newest,
				"a timestamp below that of its session's earlier");
		else
			newest = txn;
	}
	free(members);
}

/* Orders known without reads: of sessions, and of timestamps. */
static void
say_known(struct sim_ra_check *check)
{
	size_t count;
	struct member *members = list_members(check, &count);
	struct sim_ra_stamp *stamps;

	for (size_t i = 1; i < count; i++)
		if (members[i].session == members[i - 1].session &&
				sim_ra_is_older(check, members[i - 1].txn, members[i].txn))
			sim_txn_order_say(&check->order, (struct sim_txn_sentence){
				.older = members[i - 1].txn, .newer = members[i].txn,
				.why = SIM_WHY_SESSION });
	free(members);
	stamps = sim_ra_stamps(check, &count);
	for (size_t i = 1; i < count; i++)
		if (stamps[i].timestamp != stamps[i - 1].timestamp)
			sim_txn_order_say(&check->order, (struct sim_txn_sentence){
				.older = stamps[i - 1].txn, .newer = stamps[i].txn,
				.why = SIM_WHY_TIMESTAMP });
	free(stamps);
}

static void
print_sentence(const struct sim_ra_check *check, const struct sim_txn_sentence *sentence,
	FILE *file)
{
	static const char *const ends[] = {
		[SIM_WHY_FRACTURED] = ", and another one of the first, which wrote this key, too",
		[SIM_WHY_MINE] = " of the second after its session had committed the first",
		[SIM_WHY_MONOTONE] = " of the second after its session had read that of the first",
	};

	fputs("  ", file);
	sim_ra_print_txn(check, sentence->older, file);
	fputs(" is older than ", file);
	sim_ra_print_txn(check, sentence->newer, file);
	fputs(": ", file);
	switch (sentence->why) {
	case SIM_WHY_TIMESTAMP:
		fputs("so say their timestamps\n", file);
		break;
	case SIM_WHY_SESSION:
		fputs("their session committed them in this order\n", file);
		break;
	default:
		sim_ra_print_txn(check, sentence->by, file);
		fprintf(file, " read key %" PRIu64 "%s%s\n", sentence->key,
			sentence->why == SIM_WHY_FRACTURED ? " of the second" : "",
			ends[sentence->why]);
	}
}

void
sim_ra_check_order(struct sim_ra_check *check)
{
	struct sim_txn_sentence *circle;
	size_t count;
	FILE *file;

	if (check->order.count == 0)
		return;
	say_known(check);
	sim_txn_order_circle(&check->order, check->txns->count, &circle, &count);
	if (!circle)
		return;
	file = sim_ra_violation(check, SIM_RA_NO_ORDER);
	if (file)
		fputs("timestamps are unknown, and these cannot all be true:\n", file);
	for (size_t i = 0; file && i < count && i < TOLD_SENTENCES; i++)
		print_sentence(check, &circle[i], file);
	if (file && count > TOLD_SENTENCES)
		fprintf(file, "  and %zu more\n", count - TOLD_SENTENCES);
	free(circle);
}
