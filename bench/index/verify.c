/* SPDX-License-Identifier: Apache-2.0 */
/*
 * verify.c -- afterwards: the tree's invariants, and its whole content (B4).  The content follows
 * from each fiber's counters: so many of its first victims, and of its first inserts, are deleted.
 */
#include <errno.h>
#include <inttypes.h>

#include "bench/bench.h"
#include "bench.h"

#define VIOLATIONS_PRINTED_MAX 10u
#define INVARIANT_NAMED 7u		/* both: of index/README.md */
#define INVARIANT_UNLOCKED 9u

struct invariants {
	uint64_t printed;
	uint64_t left;			/* late separators, locks */
};

static void
on_violation(void *arg, unsigned invariant, const char *text)
{
	struct invariants *invariants = arg;

	invariants->left += invariant == INVARIANT_NAMED || invariant == INVARIANT_UNLOCKED;
	if (invariants->printed++ < VIOLATIONS_PRINTED_MAX)
		bench_complain("invariant I%u is violated: %s", invariant, text);
}

/* Pairs that must be there and did not come from other processes. */
struct content {
	struct index_bench *bench;
	uint64_t own;			/* found, loaded or inserted by us */
};

/* A loaded victim: has its fiber deleted it? */
static void
look_at_loaded(struct content *content, uint64_t key, uint64_t payload)
{
	struct index_bench *bench = content->bench;
	const struct keys *keys = &bench->keys;
	uint64_t ordinal = keys->dup_shift ? payload >> KEYS_HASH_BITS : 0;
	uint64_t pair = (key >> keys->stride_shift << keys->dup_shift) + ordinal;
	uint64_t number;

	content->own++;
	if (!keys_is_victim(keys, pair))
		return;
	number = keys_victim_number(keys, pair);
	if (number / bench->fibers_count <
		bench->fibers[number % bench->fibers_count].victims_deleted)
		findings_wrong("content: key %" PRIu64 " was deleted and is there", key);
}

static void
look_at_inserted(struct content *content, uint64_t key, uint64_t payload)
{
	struct index_bench *bench = content->bench;
	const struct keys *keys = &bench->keys;
	uint64_t ordinal = keys->dup_shift ? payload >> KEYS_HASH_BITS : 0;
	uint64_t number, n;
	const struct bench_fiber *fiber;

	if (keys_inserted_writer(key) != keys->writer)
		return;
	number = keys_inserted_number(keys, key, ordinal);
	n = number / bench->fibers_count;
	fiber = &bench->fibers[number % bench->fibers_count];
	if (n >= fiber->inserted)
		findings_wrong("content: key %" PRIu64 " was never inserted", key);
	else if (n < fiber->deleted)
		findings_wrong("content: key %" PRIu64 " was deleted and is there", key);
	content->own++;
}

static void
look_at(struct content *content, const uint8_t *keys_found, const uint64_t *payloads,
	uint32_t count)
{
	const struct keys *keys = &content->bench->keys;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t key = keys_read(keys, keys_found + (size_t)i * keys->key_bytes);

		if (keys_is_inserted(keys, key))
			look_at_inserted(content, key, payloads[i]);
		else
			look_at_loaded(content, key, payloads[i]);
	}
}

static uint64_t
pairs_expected(const struct index_bench *bench)
{
	uint64_t expected = bench->keys.pairs;

	for (uint64_t i = 0; i < bench->fibers_count; i++) {
		const struct bench_fiber *fiber = &bench->fibers[i];

		expected += fiber->inserted - fiber->deleted - fiber->victims_deleted;
	}
	return expected;
}

static int
check_content(struct index_bench *bench)
{
	struct content content = { bench, 0 };
	struct bench_fiber *fiber = &bench->fibers[0];
	struct nam_range range = { 0 };
	struct nam_cursor *cursor;
	struct scan_check check;
	uint64_t expected = pairs_expected(bench);
	uint32_t count = 0;
	int rc;

	scan_check_begin(&check, &bench->keys, 0, 0, true, false);
	rc = nam_cursor_open(session_worker(), bench->index, &range, &cursor);
	if (rc)
		return rc;
	do {
		rc = nam_cursor_next(cursor, fiber->keys, fiber->payloads, INDEX_SCAN_CAPACITY,
			&count); /* SUSPENDS */
		if (rc)
			break;
		scan_check_feed(&check, fiber->keys, fiber->payloads, count);
		if (!bench->dense)
			look_at(&content, fiber->keys, fiber->payloads, count);
	} while (count && !bench_signal);
	nam_cursor_close(cursor);
	if (rc || bench_signal)
		return rc ? rc : -EINTR;
	scan_check_end(&check, true, 0);
	bench->verified_entries = check.count;
	if (!bench->dense && content.own < expected)
		findings_missing(expected - content.own, "content: %" PRIu64 " pairs are there, %"
			PRIu64 " must be", content.own, expected);
	else if (!bench->dense && content.own > expected)
		findings_wrong("content: %" PRIu64 " pairs are there, only %" PRIu64 " may be",
			content.own, expected);
	return 0;
}

int
index_verify(struct index_bench *bench)
{
	struct invariants invariants = { 0 };
	uint64_t violations = 0;
	int rc = nam_index_verify(session_worker(), bench->index, on_violation, &invariants,
		&violations); /* SUSPENDS */

	if (!rc)
		rc = check_content(bench);
	if (rc)
		return rc;
	if (violations)
		findings_wrong("%" PRIu64 " violation%s of the tree's invariants%s", violations,
			violations == 1 ? "" : "s", violations > invariants.left ? "" : ": locks "
			"and late separators only, as clients leave that are killed (namctl index "
			"verify)");
	bench->violations = violations;
	bench->verified = true;
	return 0;
}
