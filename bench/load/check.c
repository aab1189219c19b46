/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench.h"

/* ---- findings ----------------------------------------------------------------------------- */

struct findings findings;

uint64_t
findings_total(void)
{
	return findings.wrong + findings.missing + findings.failed;
}

int
findings_exit_code(void)
{
	if (findings.wrong || findings.missing)
		return NAM_EXIT_NO;
	return nam_exit_code(findings.failure);
}

void
findings_add(atomic_uint_fast64_t *counter, uint64_t count, const char *format, ...)
{
	unsigned printed = atomic_fetch_add(&findings.printed, 1);
	char text[512];
	va_list args;

	atomic_fetch_add(counter, count);
	if (printed == FINDINGS_PRINTED_MAX)
		bench_complain("more of these are counted and not printed");
	if (printed >= FINDINGS_PRINTED_MAX)
		return;
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	bench_complain("%s", text);
}

/* Whether that was reported before.  From now on it was, as long as there is room. */
static bool
reported_before(const char *text)
{
	bool known = false;

	pthread_mutex_lock(&findings.mutex);
	for (unsigned i = 0; i < findings.reported_count && !known; i++)
		known = !strcmp(findings.reported[i].text, text);
	if (!known && findings.reported_count < FINDINGS_PRINTED_MAX)
		nam_diag_set(&findings.reported[findings.reported_count++], 0, "%s", text);
	pthread_mutex_unlock(&findings.mutex);
	return known;
}

void
findings_failed(int rc, const char *what, const char *diag)
{
	const char *text = *diag ? diag : nam_err_text(rc);
	int first = 0;

	atomic_compare_exchange_strong(&findings.failure, &first, rc);
	first = 0;
	if (nam_err_is(rc, NAM_E_FABRIC) || rc == -NAM_E_REMOTE_FULL || rc == -NAM_E_FENCED ||
		rc == -NAM_E_DROPPED || rc > -NAM_E_RESTART)
		atomic_compare_exchange_strong(&findings.fatal, &first, rc);
	if (reported_before(text))
		atomic_fetch_add(&findings.failed, 1);
	else
		findings_add(&findings.failed, 1, "%s failed: %s (%s)", what, text,
			nam_err_name(rc));
}

void
findings_fatal(int rc, const char *what, const char *diag)
{
	findings_failed(rc, what, diag);
	findings.fatal = rc;
}

/* ---- scans -------------------------------------------------------------------------------- */

/* The first loaded pair whose key is at least `key`. */
static uint64_t
first_pair_from(const struct keys *keys, uint64_t key)
{
	uint64_t stride_mask = (1ull << keys->stride_shift) - 1;
	uint64_t base = (key >> keys->stride_shift) + ((key & stride_mask) != 0);

	return base >= keys->bases ? keys->pairs : base << keys->dup_shift;
}

void
scan_check_begin(struct scan_check *check, const struct keys *keys, uint64_t low, uint64_t high,
	bool unbounded, bool reverse)
{
	struct dense_check quick[DENSE_CHECKS_MAX];

	*check = (struct scan_check){
		.keys = keys,
		.mask = keys->versions || keys->dup_shift ? KEYS_HASH_MASK : UINT64_MAX,
		.reverse = reverse,
		.dense = !reverse && keys->key_bytes == 8 && !keys->dup_shift &&
			 !keys->victims_count,
		.quick = quick[dense_checks(quick) - 1],
		.low = low,
		.high = high,
		.unbounded = unbounded,
		.begin = first_pair_from(keys, low),
		.end = unbounded ? keys->pairs : first_pair_from(keys, high),
	};
	if (check->end < check->begin)
		check->end = check->begin;
}

/* Loaded pairs first .. end - 1 that no delete may have taken. */
static uint64_t
lasting_between(const struct keys *keys, uint64_t first, uint64_t end)
{
	return end - first - (keys_victims_below(keys, end) - keys_victims_below(keys, first));
}

static void
passed_over(struct scan_check *check, uint64_t first, uint64_t end)
{
	uint64_t missing = first < end ? lasting_between(check->keys, first, end) : 0;

	if (missing)
		findings_missing(missing, "scan: %" PRIu64 " loaded pairs are missing between "
			"numbers %" PRIu64 " and %" PRIu64 " (keys %" PRIu64 " ...)", missing,
			first, end, keys_loaded(check->keys, first));
}

/* A pair of the loaded kind: all pairs between it and the last one must have been victims. */
static void
feed_loaded(struct scan_check *check, uint64_t key, uint64_t payload)
{
	const struct keys *keys = check->keys;
	uint64_t ordinal = keys->dup_shift ? payload >> KEYS_HASH_BITS : 0;
	uint64_t pair = (key >> keys->stride_shift << keys->dup_shift) + ordinal;

	if (ordinal >> keys->dup_shift || pair >= keys->pairs) {
		findings_wrong("scan: no pair (%" PRIu64 ", %#" PRIx64 ") was ever loaded", key,
			payload);
		return;
	}
	if (pair < check->begin || pair >= check->end)
		return;		/* out of order or out of range: reported already */
	if (check->reverse) {
		passed_over(check, pair + 1, check->end);
		check->end = pair;
	} else {
		passed_over(check, check->begin, pair);
		check->begin = pair + 1;
	}
}

static bool
in_order(const struct scan_check *check, uint64_t key, uint64_t payload)
{
	int order = (key > check->last_key) - (key < check->last_key);

	if (!order && check->keys->dup_shift)
		order = (payload > check->last_payload) - (payload < check->last_payload);
	return !check->count || (check->reverse ? order < 0 : order > 0);
}

static void
feed_one(struct scan_check *check, const uint8_t *key_bytes, uint64_t payload)
{
	const struct keys *keys = check->keys;
	uint64_t key = keys_read(keys, key_bytes);

	if (!keys_prefix_right(keys, key_bytes))
		findings_wrong("scan: a key does not begin as all keys do");
	if (!in_order(check, key, payload))
		findings_wrong("scan: (%" PRIu64 ", %#" PRIx64 ") came after (%" PRIu64 ", %#"
			PRIx64 ")", key, payload, check->last_key, check->last_payload);
	if (key < check->low || (!check->unbounded && key >= check->high))
		findings_wrong("scan: key %" PRIu64 " lies outside [%" PRIu64 ", %" PRIu64 ")", key,
			check->low, check->high);
	if ((payload ^ keys_hash(key)) & check->mask)
		findings_wrong("scan: key %" PRIu64 " came with payload %#" PRIx64 ", which no "
			"writer wrote; it should be like %#" PRIx64, key, payload, keys_payload(key,
			0));
	else if (!keys_is_inserted(keys, key))
		feed_loaded(check, key, payload);
	check->last_key = key;
	check->last_payload = payload;
	check->count++;
}

/* The quick way has seen the `count` loaded pairs that were due. */
static void
dense_seen(struct scan_check *check, uint32_t count, uint64_t last_payload)
{
	check->begin += count;
	check->count += count;
	check->last_key = (check->begin - 1) << check->keys->stride_shift;
	check->last_payload = last_payload;
}

static inline bool
dense_fits(const struct scan_check *check, uint32_t count)
{
	return check->dense && count <= check->end - check->begin;
}

/* The loaded pair that is due, or, in a unique index, an inserted one.  False: feed_one(). */
static inline bool
feed_expected(struct scan_check *check, const uint8_t *key_bytes, uint64_t payload)
{
	const struct keys *keys = check->keys;
	uint64_t key = keys_read(keys, key_bytes);
	uint64_t due = check->reverse ? check->end - 1 : check->begin;

	if (((payload ^ keys_hash(key)) & check->mask) || !keys_prefix_right(keys, key_bytes))
		return false;
	if (check->begin < check->end && key == keys_loaded(keys, due) &&
		(!keys->dup_shift || payload == keys_loaded_payload(keys, due))) {
		check->begin += !check->reverse;
		check->end -= check->reverse;
	} else if (!keys_is_inserted(keys, key) || keys->dup_shift || check->reverse ||
		   key < check->low || (!check->unbounded && key >= check->high) ||
		   (check->count && key <= check->last_key)) {
		return false;
	}
	check->last_key = key;
	check->last_payload = payload;
	check->count++;
	return true;
}

static inline void
feed(struct scan_check *check, const uint8_t *key_bytes, uint64_t payload)
{
	if (!feed_expected(check, key_bytes, payload))
		feed_one(check, key_bytes, payload);
}

void
scan_check_feed(struct scan_check *check, const uint8_t *entry_keys, const uint64_t *payloads,
	uint32_t count)
{
	unsigned shift = check->keys->stride_shift;

	if (!count)
		return;
	if (dense_fits(check, count) && !check->quick.pairs(entry_keys, payloads, count,
		check->begin << shift, shift, check->mask)) {
		dense_seen(check, count, payloads[count - 1]);
		return;
	}
	check->dense = false;
	for (uint32_t i = 0; i < count; i++)
		feed(check, entry_keys + (size_t)i * check->keys->key_bytes, payloads[i]);
}

void
scan_check_feed_entries(struct scan_check *check, const struct nam_entries *entries)
{
	unsigned shift = check->keys->stride_shift;

	if (!entries->count)
		return;
	if (dense_fits(check, entries->count) && entries->stride_words == 2 &&
		!check->quick.entries(entries->first, entries->count, check->begin << shift,
			shift, check->mask)) {
		dense_seen(check, entries->count, nam_entries_payload(entries, entries->count - 1));
		return;
	}
	check->dense = false;
	for (uint32_t i = 0; i < entries->count; i++) {
		uint8_t key_bytes[NAM_KEY_BYTES_MAX];

		nam_entries_key(entries, i, key_bytes);
		feed(check, key_bytes, nam_entries_payload(entries, i));
	}
}

void
scan_check_end(struct scan_check *check, bool exhausted, uint64_t limit)
{
	if (exhausted)
		passed_over(check, check->begin, check->end);
	if (limit && (check->count > limit || (!exhausted && check->count < limit)))
		findings_wrong("scan: %" PRIu64 " entries came, the limit was %" PRIu64,
			check->count, limit);
}
