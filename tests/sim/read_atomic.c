/* SPDX-License-Identifier: Apache-2.0 */
#include "read_atomic.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "facts.h"
#include "read_atomic_parts.h"

#define WRONG (UINT32_MAX - 1)	/* a read that is of no use to what follows */

static const char *const names[] = {
	[SIM_RA_UNUSABLE] = "unusable",
	[SIM_RA_THIN_AIR] = "thin-air",
	[SIM_RA_ABORTED] = "aborted",
	[SIM_RA_INTERMEDIATE] = "intermediate",
	[SIM_RA_OWN] = "own-write",
	[SIM_RA_NON_REPEATABLE] = "non-repeatable",
	[SIM_RA_FUTURE] = "future",
	[SIM_RA_FRACTURED] = "fractured",
	[SIM_RA_NOT_MINE] = "read-your-writes",
	[SIM_RA_NOT_MONOTONE] = "monotone-reads",
	[SIM_RA_STALE] = "stale",
	[SIM_RA_BACKWARDS] = "timestamp-backwards",
	[SIM_RA_TWICE] = "timestamp-twice",
	[SIM_RA_NO_ORDER] = "no-order",
};

const char *
sim_read_atomic_name(enum sim_read_atomic_kind kind)
{
	return names[kind];
}

/* ---- telling --------------------------------------------------------------------------------- */

FILE *
sim_ra_violation(struct sim_ra_check *check, enum sim_read_atomic_kind kind)
{
	FILE *file = sim_findings_violation(check->findings);

	check->counts[kind]++;
	if (file)
		fprintf(file, "%s: ", names[kind]);
	return file;
}

void
sim_ra_print_txn(const struct sim_ra_check *check, uint32_t txn, FILE *file)
{
	char text[SIM_TXN_TEXT_BYTES];

	fputs(txn == SIM_RA_NOBODY ? "none" : sim_txn_text(check->txns, txn, text), file);
}

void
sim_ra_print_read(const struct sim_ra_check *check, uint32_t txn, uint64_t key, uint64_t value,
	FILE *file)
{
	sim_ra_print_txn(check, txn, file);
	fprintf(file, " read key %" PRIu64 " = %" PRIu64, key, value);
}

/* ---- the order of versions ------------------------------------------------------------------- */

static enum sim_txn_outcome
outcome(const struct sim_ra_check *check, uint32_t txn)
{
	return check->txns->txns[txn].outcome;
}

static bool
both_ranked(const struct sim_ra_check *check, uint32_t a, uint32_t b)
{
	return sim_ra_rank(check, a) != SIM_RANK_UNKNOWN &&
		sim_ra_rank(check, b) != SIM_RANK_UNKNOWN;
}

bool
sim_ra_is_older(const struct sim_ra_check *check, uint32_t a, uint32_t b)
{
	uint32_t a_rank = sim_ra_rank(check, a), b_rank = sim_ra_rank(check, b);
	const struct sim_txn *txns = check->txns->txns;

	if (a == b || b_rank < SIM_RANK_UNKNOWN || a_rank < SIM_RANK_UNKNOWN ||
			both_ranked(check, a, b))
		return a_rank < b_rank;
	return txns[a].session == txns[b].session && a < b &&
		txns[a].outcome == SIM_TXN_COMMITTED && txns[b].outcome == SIM_TXN_COMMITTED;
}

bool
sim_ra_is_undecided(const struct sim_ra_check *check, uint32_t a, uint32_t b)
{
	return a != b && !both_ranked(check, a, b) && !sim_ra_is_older(check, a, b) &&
		!sim_ra_is_older(check, b, a);
}

static int
compare_stamps(const void *a, const void *b)
{
	const struct sim_ra_stamp *x = a, *y = b;

	if (x->timestamp != y->timestamp)
		return x->timestamp < y->timestamp ? -1 : 1;
	return x->txn < y->txn ? -1 : x->txn > y->txn;
}

/* Timestamps that may be in use, ascending. */
struct sim_ra_stamp *
sim_ra_stamps(const struct sim_ra_check *check, size_t *ret_count)
{
	struct sim_ra_stamp *stamps = sim_alloc(check->txns->count, sizeof(*stamps));
	size_t count = 0;

	for (uint32_t i = 1; i < check->txns->count; i++)
		if (check->txns->txns[i].timestamp != 0 && outcome(check, i) != SIM_TXN_ABORTED)
			stamps[count++] = (struct sim_ra_stamp){
				check->txns->txns[i].timestamp, i };
	qsort(stamps, count, sizeof(*stamps), compare_stamps);
	*ret_count = count;
	return stamps;
}

static void
rank_txns(struct sim_ra_check *check)
{
	size_t count;
	struct sim_ra_stamp *stamps = sim_ra_stamps(check, &count);
	uint32_t rank = SIM_RANK_FIRST;

	check->ranks = sim_alloc(check->txns->count, sizeof(*check->ranks));
	check->ranks[SIM_RA_LOADER] = SIM_RANK_LOADER;
	for (uint32_t i = 1; i < check->txns->count; i++)
		check->ranks[i] = SIM_RANK_UNKNOWN;
	for (size_t i = 0; i < count; i++) {
		rank += i > 0 && stamps[i].timestamp != stamps[i - 1].timestamp;
		check->ranks[stamps[i].txn] = rank;
	}
	free(stamps);
}

/* ---- what was written ------------------------------------------------------------------------ */

static int
compare_touches(const void *a, const void *b)
{
	const struct sim_ra_touch *x = a, *y = b;

	if (x->txn != y->txn)
		return x->txn < y->txn ? -1 : 1;
	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->number < y->number ? -1 : x->number > y->number;
}

static int
compare_versions(const void *a, const void *b)
{
	const struct sim_ra_version *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->value < y->value ? -1 : x->value > y->value;
}

static void
list_touches(struct sim_ra_check *check)
{
	const struct sim_txns *txns = check->txns;

	check->touches = sim_alloc(txns->accesses_count, sizeof(*check->touches));
	for (uint32_t i = 0; i < txns->accesses_count; i++) {
		const struct sim_access *access = &txns->accesses[i];

		check->touches[i] = (struct sim_ra_touch){ access->key, access->value,
			access->txn, i, access->write };
	}
	qsort(check->touches, txns->accesses_count, sizeof(*check->touches), compare_touches);
}

/* The end of what one transaction did to one key. */
static size_t
group_end(const struct sim_ra_check *check, size_t from)
{
	const struct sim_ra_touch *touches = check->touches;
	size_t end = from;

	while (end < check->txns->accesses_count && touches[end].txn == touches[from].txn &&
			touches[end].key == touches[from].key)
		end++;
	return end;
}

static void
list_writes_of_group(struct sim_ra_check *check, size_t from, size_t end)
{
	struct sim_ra_version *last = NULL;

	for (size_t i = from; i < end; i++) {
		const struct sim_ra_touch *touch = &check->touches[i];

		if (!touch->write)
			continue;
		last = &check->versions[check->versions_count++];
		*last = (struct sim_ra_version){ touch->key, touch->value, touch->txn, false };
	}
	if (!last)
		return;
	last->final = true;
	check->wrote[check->wrote_count++] = (struct sim_ra_wrote){ last->key, last->txn };
	check->wrote_first[last->txn + 1]++;
}

static void
check_versions(struct sim_ra_check *check)
{
	for (size_t i = 0; i < check->versions_count; i++) {
		const struct sim_ra_version *version = &check->versions[i];
		bool twice = i > 0 && compare_versions(version - 1, version) == 0;
		FILE *file;

		if (!twice && version->value != 0)
			continue;
		file = sim_ra_violation(check, SIM_RA_UNUSABLE);
		if (!file)
			continue;
		sim_ra_print_txn(check, version->txn, file);
		fprintf(file, " wrote key %" PRIu64 " = %" PRIu64 ", ", version->key,
			version->value);
		if (twice)
			sim_ra_print_txn(check, (version - 1)->txn, file);
		fputs(twice ? " as well\n" : "which stands for what was never written\n", file);
	}
}

static void
list_writes(struct sim_ra_check *check)
{
	size_t most = check->txns->accesses_count;

	check->versions = sim_alloc(most, sizeof(*check->versions));
	check->wrote = sim_alloc(most, sizeof(*check->wrote));
	check->wrote_first = sim_alloc(check->txns->count + 1, sizeof(*check->wrote_first));
	for (size_t i = 0, end; i < most; i = end) {
		end = group_end(check, i);
		list_writes_of_group(check, i, end);
	}
	for (size_t i = 0; i < check->txns->count; i++)
		check->wrote_first[i + 1] += check->wrote_first[i];
	qsort(check->versions, check->versions_count, sizeof(*check->versions), compare_versions);
	check_versions(check);
}

static int
compare_wrote_key(const void *key, const void *wrote)
{
	uint64_t x = *(const uint64_t *)key, y = ((const struct sim_ra_wrote *)wrote)->key;

	return x < y ? -1 : x > y;
}

bool
sim_ra_did_write(const struct sim_ra_check *check, uint32_t txn, uint64_t key)
{
	return bsearch(&key, check->wrote + check->wrote_first[txn], sim_ra_writes_of(check, txn),
		sizeof(*check->wrote), compare_wrote_key);
}

/* ---- what was read --------------------------------------------------------------------------- */

/* A value that was never written to that key: perhaps to another one. */
static void
print_thin_air(const struct sim_ra_check *check, const struct sim_ra_touch *read, FILE *file)
{
	sim_ra_print_read(check, read->txn, read->key, read->value, file);
	fputs(", which no transaction wrote there", file);
	for (size_t i = 0; i < check->versions_count; i++) {
		const struct sim_ra_version *version = &check->versions[i];

		if (version->value != read->value)
			continue;
		fprintf(file, ", but to key %" PRIu64 " ", version->key);
		sim_ra_print_txn(check, version->txn, file);
		break;
	}
	fputs("\n", file);
}

static void
print_bad_read(struct sim_ra_check *check, enum sim_read_atomic_kind kind,
	const struct sim_ra_touch *read, uint32_t writer, const char *why)
{
	FILE *file = sim_ra_violation(check, kind);

	if (!file)
		return;
	sim_ra_print_read(check, read->txn, read->key, read->value, file);
	fputs(" of ", file);
	sim_ra_print_txn(check, writer, file);
	fprintf(file, ", %s\n", why);
}

/* The writer of a value read, or WRONG. */
static uint32_t
resolve(struct sim_ra_check *check, const struct sim_ra_touch *read)
{
	struct sim_ra_version wanted = { .key = read->key, .value = read->value };
	const struct sim_txn *txns = check->txns->txns, *writer;
	const struct sim_ra_version *found;

	if (read->value == 0)
		return SIM_RA_NOBODY;
	found = bsearch(&wanted, check->versions, check->versions_count, sizeof(wanted),
		compare_versions);
	if (!found) {
		FILE *file = sim_ra_violation(check, SIM_RA_THIN_AIR);

		if (file)
			print_thin_air(check, read, file);
		return WRONG;
	}
	if (found->txn == read->txn) {
		print_bad_read(check, SIM_RA_OWN, read, found->txn,
			"that is its own, before it wrote that");
		return WRONG;
	}
	writer = &txns[found->txn];
	if (writer->outcome == SIM_TXN_ABORTED) {
		print_bad_read(check, SIM_RA_ABORTED, read, found->txn, "which aborted");
		return WRONG;
	}
	if (!found->final) {
		print_bad_read(check, SIM_RA_INTERMEDIATE, read, found->txn,
			"which wrote that key once more");
		return WRONG;
	}
	if (check->options->real_time && txns[read->txn].end_ns != 0 &&
			writer->begin_ns > txns[read->txn].end_ns)
		print_bad_read(check, SIM_RA_FUTURE, read, found->txn, "which had not begun yet");
	return found->txn;
}

static void
resolve_own(struct sim_ra_check *check, const struct sim_ra_touch *read,
	const struct sim_ra_touch *own)
{
	FILE *file;

	if (read->value == own->value)
		return;
	file = sim_ra_violation(check, SIM_RA_OWN);
	if (!file)
		return;
	sim_ra_print_read(check, read->txn, read->key, read->value, file);
	fprintf(file, " after it wrote %" PRIu64 " there\n", own->value);
}

static void
check_repeated(struct sim_ra_check *check, const struct sim_ra_touch *read,
	const struct sim_ra_touch *first)
{
	FILE *file;

	if (read->value == first->value)
		return;
	file = sim_ra_violation(check, SIM_RA_NON_REPEATABLE);
	if (!file)
		return;
	sim_ra_print_read(check, read->txn, read->key, read->value, file);
	fprintf(file, " after it had read %" PRIu64 " there\n", first->value);
}

/* A committed transaction's read of one key. */
static void
resolve_group(struct sim_ra_check *check, size_t from, size_t end)
{
	const struct sim_ra_touch *own = NULL, *first = NULL;

	for (size_t i = from; i < end; i++) {
		const struct sim_ra_touch *touch = &check->touches[i];
		uint32_t writer;

		if (touch->write) {
			own = touch;
			continue;
		}
		if (own) {
			resolve_own(check, touch, own);
			continue;
		}
		writer = resolve(check, touch);
		if (first) {
			check_repeated(check, touch, first);
			continue;
		}
		first = touch;
		if (writer == WRONG)
			continue;
		check->saws[check->saws_count++] = (struct sim_ra_saw){ touch->key, touch->value,
			touch->txn, writer };
		check->saw_first[touch->txn + 1]++;
	}
}

static void
list_reads(struct sim_ra_check *check)
{
	size_t most = check->txns->accesses_count;

	check->saws = sim_alloc(most, sizeof(*check->saws));
	check->saw_first = sim_alloc(check->txns->count + 1, sizeof(*check->saw_first));
	for (size_t i = 0, end; i < most; i = end) {
		end = group_end(check, i);
		if (outcome(check, check->touches[i].txn) == SIM_TXN_COMMITTED)
			resolve_group(check, i, end);
	}
	for (size_t i = 0; i < check->txns->count; i++)
		check->saw_first[i + 1] += check->saw_first[i];
}

static int
compare_saw_key(const void *key, const void *saw)
{
	uint64_t x = *(const uint64_t *)key, y = ((const struct sim_ra_saw *)saw)->key;

	return x < y ? -1 : x > y;
}

const struct sim_ra_saw *
sim_ra_find_saw(const struct sim_ra_check *check, uint32_t txn, uint64_t key)
{
	return bsearch(&key, check->saws + check->saw_first[txn],
		check->saw_first[txn + 1] - check->saw_first[txn], sizeof(*check->saws),
		compare_saw_key);
}

/* ---- the check ------------------------------------------------------------------------------- */

void
sim_read_atomic_options_init(struct sim_read_atomic_options *options)
{
	*options = (struct sim_read_atomic_options){ .real_time = true, .monotone_reads = true };
}

void
sim_check_read_atomic(const struct sim_txns *txns, const struct sim_read_atomic_options *options,
	struct sim_findings *findings, uint64_t *ret_counts)
{
	uint64_t counts[SIM_RA_KINDS] = { 0 };
	struct sim_ra_check check = { .txns = txns, .options = options, .findings = findings,
		.counts = counts };

	rank_txns(&check);
	list_touches(&check);
	list_writes(&check);
	list_reads(&check);
	sim_ra_check_fractured(&check);
	sim_ra_check_sessions(&check);
	sim_ra_check_stale(&check);
	sim_ra_check_timestamps(&check);
	sim_ra_check_order(&check);
	if (ret_counts)
		memcpy(ret_counts, counts, sizeof(counts));
	free(check.ranks);
	free(check.touches);
	free(check.versions);
	free(check.wrote);
	free(check.wrote_first);
	free(check.saws);
	free(check.saw_first);
	free(check.writers);
	free(check.pending);
	sim_txn_order_free(&check.order);
}
