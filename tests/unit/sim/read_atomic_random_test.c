/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random histories: true ones are accepted.  With one read or timestamp changed so that a violation
 * of a known kind results, they are rejected.  Of small ones, true or not, the checker agrees with
 * the definitions, which stand here word by word.
 */
#include "txns_generated.h"

#define NOBODY UINT32_MAX
#define JUNK (1ull << 40)	/* no value of any write */
#define SMALL 8000u		/* histories against the definitions */

/* ---- true histories -------------------------------------------------------------------------- */

static void
generated__true__ACCEPTED(void **state)
{
	static const uint32_t stamped[] = { 100, 50, 0 };

	(void)state;
	for (uint64_t seed = 1; seed <= 150; seed++) {
		struct generator generator = large(seed);

		generator.stamped_percent = stamped[seed % 3];
		generator.timed = seed % 2;
		generate(&generator);
		assert_accepted();
	}
}

/* ---- one thing changed ----------------------------------------------------------------------- */

static bool
is_final(const struct sim_access *write)
{
	const struct sim_access *end = txns.accesses + txns.accesses_count;

	for (const struct sim_access *at = write + 1; at < end; at++)
		if (at->write && at->txn == write->txn && at->key == write->key)
			return false;
	return write->write;
}

/* The final write of a key by a transaction, or NULL. */
static const struct sim_access *
final_write(uint32_t txn, uint64_t key)
{
	for (size_t i = 0; i < txns.accesses_count; i++)
		if (txns.accesses[i].txn == txn && txns.accesses[i].key == key &&
				is_final(&txns.accesses[i]))
			return &txns.accesses[i];
	return NULL;
}

static uint32_t
writer_of(uint64_t key, uint64_t value)
{
	for (size_t i = 0; i < txns.accesses_count; i++)
		if (txns.accesses[i].write && txns.accesses[i].key == key &&
				txns.accesses[i].value == value)
			return txns.accesses[i].txn;
	return NOBODY;
}

/* The value of a committed transaction with a lower timestamp, or 0. */
static uint64_t
older_value(uint64_t key, uint64_t timestamp)
{
	for (size_t i = 0; i < txns.accesses_count; i++) {
		const struct sim_access *access = &txns.accesses[i];

		if (access->txn != 0 && access->key == key && is_final(access) &&
				txns.txns[access->txn].outcome == SIM_TXN_COMMITTED &&
				txns.txns[access->txn].timestamp < timestamp)
			return access->value;
	}
	return 0;
}

static bool
writes_nothing(uint32_t txn)
{
	for (size_t i = 0; i < txns.accesses_count; i++)
		if (txns.accesses[i].txn == txn && txns.accesses[i].write)
			return false;
	return true;
}

/* A write that makes a violation of the kind out of a read of its key. */
static bool
is_bad_source(enum sim_read_atomic_kind kind, const struct sim_access *read,
	const struct sim_access *write)
{
	const struct sim_txn *reader = &txns.txns[read->txn], *writer = &txns.txns[write->txn];

	if (!write->write || write->key != read->key || write->txn == 0)
		return false;
	switch (kind) {
	case SIM_RA_ABORTED:
		return writer->outcome == SIM_TXN_ABORTED;
	case SIM_RA_INTERMEDIATE:
		return writer->outcome == SIM_TXN_COMMITTED && !is_final(write);
	case SIM_RA_FUTURE:
		return writer->outcome == SIM_TXN_COMMITTED && is_final(write) &&
			writer->begin_ns > reader->end_ns;
	default:
		return false;
	}
}

/* A transaction than whose version of the key a read may not see anything older. */
static bool
is_bound(enum sim_read_atomic_kind kind, const struct sim_access *read,
	const struct sim_access *other)
{
	const struct sim_txn *reader = &txns.txns[read->txn], *txn = &txns.txns[other->txn];

	if (other->txn == 0 || other->key != read->key || txn->outcome != SIM_TXN_COMMITTED)
		return false;
	switch (kind) {
	case SIM_RA_NOT_MINE:
		return is_final(other) && txn->session == reader->session &&
			other->txn < read->txn;
	case SIM_RA_NOT_MONOTONE:
		return !other->write && txn->session == reader->session &&
			other->txn < read->txn && writes_nothing(other->txn);
	case SIM_RA_STALE:
		return is_final(other) && txn->end_ns < reader->begin_ns;
	default:
		return false;
	}
}

static uint64_t
timestamp_of(uint32_t txn)
{
	return txn == NOBODY ? 0 : txns.txns[txn].timestamp;
}

/* The same reader read another key of a transaction that wrote this one; its timestamp, or 0. */
static uint64_t
fractured_bound(const struct sim_access *read)
{
	for (size_t i = 0; i < txns.accesses_count; i++) {
		const struct sim_access *other = &txns.accesses[i];
		uint32_t writer;

		if (other->txn != read->txn || other->key == read->key)
			continue;
		writer = writer_of(other->key, other->value);
		if (writer != NOBODY && writer != 0 && final_write(writer, read->key))
			return timestamp_of(writer);
	}
	return 0;
}

/* The value that makes a violation of that kind out of this read, if there is one. */
static bool
bad_value(enum sim_read_atomic_kind kind, const struct sim_access *read, uint64_t *ret_value)
{
	if (kind == SIM_RA_THIN_AIR) {
		*ret_value = JUNK;
		return true;
	}
	if (kind == SIM_RA_FRACTURED) {
		*ret_value = older_value(read->key, fractured_bound(read));
		return fractured_bound(read) != 0;
	}
	for (size_t i = 0; i < txns.accesses_count; i++) {
		const struct sim_access *other = &txns.accesses[i];

		if (is_bad_source(kind, read, other)) {
			*ret_value = other->value;
			return true;
		}
		if (is_bound(kind, read, other)) {
			uint64_t bound = timestamp_of(other->write ? other->txn :
				writer_of(other->key, other->value));

			*ret_value = older_value(read->key, bound);
			return bound != 0;
		}
	}
	return false;
}

/* One read of a transaction that only reads and reads each key once gets another value. */
static bool
change_read(struct generator *generator, enum sim_read_atomic_kind kind)
{
	size_t start = below(generator, txns.accesses_count);

	for (size_t i = 0; i < txns.accesses_count; i++) {
		struct sim_access *read = &txns.accesses[(start + i) % txns.accesses_count];
		bool first = read == txns.accesses || read[-1].txn != read->txn ||
			read[-1].key != read->key;
		uint64_t value;

		if (read->write || !first || !writes_nothing(read->txn) ||
				!bad_value(kind, read, &value))
			continue;
		read->value = value;
		return true;
	}
	return false;
}

/* One read more, of another value. */
static bool
repeat_read(struct generator *generator)
{
	size_t start = below(generator, txns.accesses_count);

	for (size_t i = 0; i < txns.accesses_count; i++) {
		struct sim_access read = txns.accesses[(start + i) % txns.accesses_count];
		uint64_t value;

		if (read.write || !writes_nothing(read.txn))
			continue;
		value = older_value(read.key, UINT64_MAX);
		if (value == 0 || value == read.value)
			continue;
		sim_txns_read(&txns, read.txn, read.key, value);
		return true;
	}
	return false;
}

static bool
read_own(struct generator *generator)
{
	size_t start = below(generator, txns.accesses_count);

	for (size_t i = 0; i < txns.accesses_count; i++) {
		struct sim_access write = txns.accesses[(start + i) % txns.accesses_count];

		if (!write.write || txns.txns[write.txn].outcome != SIM_TXN_COMMITTED ||
				write.txn == 0)
			continue;
		sim_txns_read(&txns, write.txn, write.key, 0);
		return true;
	}
	return false;
}

/* Two transactions of one session that committed with timestamps. */
static bool
change_timestamp(struct generator *generator, enum sim_read_atomic_kind kind)
{
	uint32_t start = (uint32_t)below(generator, txns.count);

	for (uint32_t i = 0; i < txns.count; i++) {
		struct sim_txn *later = &txns.txns[(start + i) % txns.count];

		for (struct sim_txn *txn = txns.txns + 1; txn < later; txn++) {
			if (txn->session != later->session || txn->timestamp == 0 ||
					later->timestamp == 0 ||
					txn->outcome != SIM_TXN_COMMITTED ||
					later->outcome != SIM_TXN_COMMITTED)
				continue;
			later->timestamp = txn->timestamp - (kind == SIM_RA_BACKWARDS ? 9 : 0);
			return true;
		}
	}
	return false;
}

static bool
spoil(struct generator *generator, enum sim_read_atomic_kind kind)
{
	switch (kind) {
	case SIM_RA_NON_REPEATABLE:
		return repeat_read(generator);
	case SIM_RA_OWN:
		return read_own(generator);
	case SIM_RA_BACKWARDS:
	case SIM_RA_TWICE:
		return change_timestamp(generator, kind);
	case SIM_RA_UNUSABLE:
		sim_txns_write(&txns, 1, 0, 1);	/* which is loaded */
		return true;
	default:
		return change_read(generator, kind);
	}
}

static void
generated__and_one_thing_changed__REJECTED(void **state)
{
	(void)state;
	for (unsigned kind = 0; kind < SIM_RA_NO_ORDER; kind++) {
		unsigned spoilt = 0;

		for (uint64_t seed = 1; seed <= 25; seed++) {
			struct generator generator = large(1000 * kind + seed);

			generator.count = 200;
			generator.keys = 12;
			generate(&generator);
			assert_accepted();
			if (!spoil(&generator, kind))
				continue;
			spoilt++;
			check();
			if (counts[kind] == 0)
				fail_msg("seed %d: not one of %s\n%s", (int)seed,
					sim_read_atomic_name(kind), told);
		}
		if (spoilt < 15)
			fail_msg("%s: %u of 25 changed", sim_read_atomic_name(kind), spoilt);
	}
}

/* Without timestamps: which way versions go is found out. */
static void
generated__without_timestamps_and_one_read_changed__REJECTED(void **state)
{
	unsigned spoilt = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= 60; seed++) {
		struct generator generator = large(seed);

		generator.timed = false;
		generate(&generator);
		if (!spoil(&generator, seed % 2 ? SIM_RA_NOT_MINE : SIM_RA_NOT_MONOTONE))
			continue;
		for (size_t i = 0; i < txns.count; i++)
			txns.txns[i].timestamp = 0;
		spoilt += check() > 0;
	}
	/* Without other readers, any order will do. */
	assert_true(spoilt >= 40);
}

/* ---- the definitions, word by word ----------------------------------------------------------- */

static int64_t positions[64];	/* by transaction; ascending from older to newer */

static int64_t
position(uint32_t txn)
{
	return txn == NOBODY ? -2 : txn == 0 ? -1 : positions[txn];
}

static bool
committed(uint32_t txn)
{
	return txns.txns[txn].outcome == SIM_TXN_COMMITTED;
}

/* The last write of the key before this read, in the same transaction. */
static const struct sim_access *
own_write(const struct sim_access *read)
{
	for (const struct sim_access *at = read; at-- > txns.accesses;)
		if (at->txn == read->txn && at->key == read->key && at->write)
			return at;
	return NULL;
}

static const struct sim_access *
earlier_read(const struct sim_access *read)
{
	for (const struct sim_access *at = txns.accesses; at < read; at++)
		if (at->txn == read->txn && at->key == read->key && !at->write && !own_write(at))
			return at;
	return NULL;
}

/* The kinds of which a read is by itself, as bits. */
static unsigned
bad_read(const struct sim_access *read)
{
	uint32_t writer = writer_of(read->key, read->value);

	if (own_write(read))
		return own_write(read)->value != read->value ? 1u << SIM_RA_OWN : 0;
	if (read->value == 0)
		return 0;
	if (writer == NOBODY)
		return 1u << SIM_RA_THIN_AIR;
	if (writer == read->txn)
		return 1u << SIM_RA_OWN;
	if (txns.txns[writer].outcome == SIM_TXN_ABORTED)
		return 1u << SIM_RA_ABORTED;
	if (final_write(writer, read->key)->value != read->value)
		return 1u << SIM_RA_INTERMEDIATE;
	return 0;
}

/* Whether a transaction read the key in a way that says something, and the writer that it saw. */
static bool
read_of(uint32_t txn, uint64_t key, uint32_t *ret_writer)
{
	for (size_t i = 0; i < txns.accesses_count; i++) {
		const struct sim_access *read = &txns.accesses[i];

		if (read->write || read->txn != txn || read->key != key || own_write(read))
			continue;
		*ret_writer = read->value == 0 ? NOBODY : writer_of(key, read->value);
		return committed(txn) && bad_read(read) == 0;
	}
	return false;
}

/* Kinds that need no order. */
static unsigned
kinds_of_reads(void)
{
	unsigned kinds = 0;

	for (size_t i = 0; i < txns.accesses_count; i++) {
		const struct sim_access *read = &txns.accesses[i], *earlier;
		const struct sim_txn *reader = &txns.txns[read->txn], *writer;

		if (read->write || !committed(read->txn))
			continue;
		kinds |= bad_read(read);
		if (own_write(read))
			continue;
		earlier = earlier_read(read);
		if (earlier && earlier->value != read->value)
			kinds |= 1u << SIM_RA_NON_REPEATABLE;
		if (read->value == 0 || bad_read(read))
			continue;
		writer = &txns.txns[writer_of(read->key, read->value)];
		if (options.real_time && reader->end_ns && writer->begin_ns > reader->end_ns)
			kinds |= 1u << SIM_RA_FUTURE;
	}
	return kinds;
}

static unsigned
kinds_of_timestamps(void)
{
	unsigned kinds = 0;

	for (uint32_t a = 1; a < txns.count; a++)
		for (uint32_t b = a + 1; b < txns.count; b++) {
			const struct sim_txn *x = &txns.txns[a], *y = &txns.txns[b];

			if (x->timestamp == 0 || y->timestamp == 0 ||
					x->outcome == SIM_TXN_ABORTED ||
					y->outcome == SIM_TXN_ABORTED)
				continue;
			if (x->timestamp == y->timestamp)
				kinds |= 1u << SIM_RA_TWICE;
			if (committed(a) && committed(b) && x->session == y->session &&
					y->timestamp < x->timestamp)
				kinds |= 1u << SIM_RA_BACKWARDS;
		}
	return kinds;
}

/* The reader's view of key against another transaction's write of it. */
static unsigned
kinds_of_two(uint32_t reader, uint32_t other, uint64_t key)
{
	const struct sim_txn *t = &txns.txns[reader], *u = &txns.txns[other];
	bool before = other > 0 && committed(other) && t->session == u->session && other < reader;
	bool wrote = final_write(other, key);
	uint32_t saw, known;
	unsigned kinds = 0;

	if (!read_of(reader, key, &saw))
		return 0;
	if (wrote && position(saw) < position(other)) {
		if (before)
			kinds |= 1u << SIM_RA_NOT_MINE;
		if (other == 0 || (options.real_time && writes_nothing(reader) &&
				committed(other) && u->end_ns != 0 && u->end_ns < t->begin_ns))
			kinds |= 1u << SIM_RA_STALE;
		for (uint64_t x = 0; x < KEYS_MAX; x++)
			if (other != 0 && read_of(reader, x, &known) && known == other)
				kinds |= 1u << SIM_RA_FRACTURED;
	}
	if (before && read_of(other, key, &known) && position(saw) < position(known))
		kinds |= 1u << SIM_RA_NOT_MONOTONE;
	return kinds;
}

static unsigned
kinds_of_order(uint32_t keys)
{
	unsigned kinds = 0;

	for (uint32_t reader = 1; reader < txns.count; reader++)
		for (uint32_t other = 0; other < txns.count; other++)
			for (uint64_t key = 0; key < keys && other != reader; key++)
				if (txns.txns[other].outcome != SIM_TXN_ABORTED)
					kinds |= kinds_of_two(reader, other, key);
	return kinds;
}

/* Whether what is known of the order of two is so in positions. */
static bool
is_in_order(uint32_t a, uint32_t b)
{
	const struct sim_txn *x = &txns.txns[a], *y = &txns.txns[b];

	if (x->timestamp != 0 && y->timestamp != 0)
		return (x->timestamp < y->timestamp) == (positions[a] < positions[b]);
	if (committed(a) && committed(b) && x->session == y->session)
		return (a < b) == (positions[a] < positions[b]);
	return true;
}

/* Place the others of [count] at the positions from the next on, in any order. */
static bool
some_order_explains(const uint32_t *writers, uint32_t count, uint32_t placed, uint32_t keys)
{
	int64_t next = 1;

	if (placed == (1u << count) - 1)
		return kinds_of_order(keys) == 0;
	for (uint32_t i = 0; i < count; i++)
		next += placed >> i & 1;
	for (uint32_t i = 0; i < count; i++) {
		bool fits = true;

		if (placed >> i & 1)
			continue;
		positions[writers[i]] = next;
		for (uint32_t other = 0; other < count && fits; other++)
			if (placed >> other & 1)
				fits = is_in_order(writers[other], writers[i]);
		if (fits && some_order_explains(writers, count, placed | 1u << i, keys))
			return true;
	}
	return false;
}

static bool
any_order_explains(uint32_t keys)
{
	uint32_t writers[64], count = 0;

	for (uint32_t i = 1; i < txns.count; i++)
		if (txns.txns[i].outcome != SIM_TXN_ABORTED && !writes_nothing(i))
			writers[count++] = i;
	return some_order_explains(writers, count, 0, keys);
}

/* ---- small histories, true or not ------------------------------------------------------------ */

/* Another value for any read: of the same key in most cases. */
static void
disturb_read(struct generator *generator)
{
	struct sim_access *read = &txns.accesses[below(generator, txns.accesses_count)];
	const struct sim_access *source = &txns.accesses[below(generator, txns.accesses_count)];

	for (int i = 0; i < 50 && (source->key != read->key || !source->write) &&
			chance(generator, 98); i++)
		source = &txns.accesses[below(generator, txns.accesses_count)];
	if (!read->write)
		read->value = chance(generator, 80) ? source->value : 0;
}

static void
disturb_txn(struct generator *generator)
{
	struct sim_txn *a = &txns.txns[1 + below(generator, txns.count - 1)];
	struct sim_txn *b = &txns.txns[1 + below(generator, txns.count - 1)];
	uint64_t timestamp = a->timestamp;

	switch (below(generator, 4)) {
	case 0:
		if (a->timestamp != 0 && b->timestamp != 0)
			a->timestamp = b->timestamp + (chance(generator, 80) ? 1 : 0);
		break;
	case 1:
		if (a->timestamp != 0 && b->timestamp != 0) {
			a->timestamp = b->timestamp;
			b->timestamp = timestamp;
		}
		break;
	case 2:
		a->begin_ns = a->begin_ns && chance(generator, 80) ?
			a->begin_ns + below(generator, 100) - 50 : 0;
		break;
	default:
		a->end_ns = a->end_ns && chance(generator, 80) ?
			a->end_ns + below(generator, 100) - 50 : 0;
		break;
	}
}

static void
generate_small(struct generator *generator, uint64_t seed, uint32_t stamped_percent)
{
	*generator = (struct generator){ .rng = nam_rng_seed(seed), .timed = stamped_percent == 100,
		.stamped_percent = stamped_percent };
	generator->count = 2 + (uint32_t)below(generator, 6);
	generator->keys = 1 + (uint32_t)below(generator, 4);
	generator->sessions = 1 + (uint32_t)below(generator, 3);
	generate(generator);
	for (uint64_t i = below(generator, 5); i > 0; i--)
		if (chance(generator, 80) && txns.accesses_count > 0)
			disturb_read(generator);
		else
			disturb_txn(generator);
}

static void
small__with_timestamps__AS_DEFINED(void **state)
{
	unsigned seen[SIM_RA_KINDS] = { 0 }, accepted = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SMALL; seed++) {
		struct generator generator;
		unsigned kinds, found = 0;

		generate_small(&generator, seed, 100);
		options.real_time = seed % 5 != 0;
		for (uint32_t i = 0; i < txns.count; i++)
			positions[i] = (int64_t)txns.txns[i].timestamp;
		kinds = kinds_of_reads() | kinds_of_timestamps() | kinds_of_order(generator.keys);
		check();
		for (unsigned kind = 0; kind < SIM_RA_KINDS; kind++) {
			found |= (counts[kind] > 0) << kind;
			seen[kind] += counts[kind] > 0;
		}
		if (found != kinds)
			fail_msg("seed %d: kinds %x instead of %x\n%s", (int)seed, found, kinds,
				told);
		accepted += found == 0;
	}
	for (unsigned kind = SIM_RA_THIN_AIR; kind < SIM_RA_NO_ORDER; kind++)
		if (seen[kind] < 20)
			fail_msg("%s: only %u", sim_read_atomic_name(kind), seen[kind]);
	assert_in_range(accepted, SMALL / 10, SMALL - SMALL / 10);
}

/* Half of them have timestamps, or none has. */
static void
small__without_timestamps__AS_DEFINED(void **state)
{
	unsigned accepted = 0, orderless = 0;

	(void)state;
	options.real_time = false;
	for (uint64_t seed = 1; seed <= SMALL; seed++) {
		struct generator generator;
		unsigned kinds;
		bool holds;

		generate_small(&generator, seed, seed % 2 ? 0 : 50);
		kinds = kinds_of_reads() | kinds_of_timestamps();
		holds = kinds == 0 && any_order_explains(generator.keys);
		if ((check() == 0) != holds)
			fail_msg("seed %d: %s\n%s", (int)seed, holds ? "true" : "false", told);
		for (unsigned kind = 0; kind < SIM_RA_FRACTURED; kind++)
			if ((counts[kind] > 0) != (kinds >> kind & 1))
				fail_msg("seed %d: %s\n%s", (int)seed, sim_read_atomic_name(kind),
					told);
		accepted += holds;
		orderless += counts[SIM_RA_NO_ORDER] > 0;
	}
	assert_in_range(accepted, SMALL / 10, SMALL - SMALL / 10);
	assert_in_range(orderless, 20, SMALL);
}

/* The text agrees with the history. */
static void
small__through_the_text__SAID_ALIKE(void **state)
{
	(void)state;
	options.real_time = false;
	for (uint64_t seed = 1; seed <= SMALL / 3; seed++) {
		uint64_t before[SIM_RA_KINDS];
		char *text, diag[SIM_TXNS_DIAG_BYTES];
		size_t bytes;
		struct generator generator;
		FILE *file = open_memstream(&text, &bytes);

		generate_small(&generator, seed, 0);
		check();
		memcpy(before, counts, sizeof(before));
		sim_txns_write_plain(&txns, file);
		fclose(file);
		sim_txns_free(&txns);
		sim_txns_init(&txns);
		file = fmemopen(text, bytes, "r");
		assert_int_equal(sim_txns_read_plain(&txns, file, diag), 0);
		fclose(file);
		check();
		if (memcmp(before, counts, sizeof(before)) != 0)
			fail_msg("seed %d:\n%s\n%s", (int)seed, text, told);
		free(text);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(generated__true__ACCEPTED),
		TEST(generated__and_one_thing_changed__REJECTED),
		TEST(generated__without_timestamps_and_one_read_changed__REJECTED),
		TEST(small__with_timestamps__AS_DEFINED),
		TEST(small__without_timestamps__AS_DEFINED),
		TEST(small__through_the_text__SAID_ALIKE),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
