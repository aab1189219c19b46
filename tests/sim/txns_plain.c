/* SPDX-License-Identifier: Apache-2.0 */
/* The text that public checkers of transactions read; see txns.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/hash/hash.h"
#include "facts.h"
#include "txns.h"

#define ABSENT (1ull << 63)

/* ---- writing --------------------------------------------------------------------------------- */

/* The first value of a key. */
struct start {
	uint64_t key;
	uint64_t value;
	bool loaded;
};

struct doubtful {
	struct sim_entry write;
	uint32_t txn;
};

struct writer {
	const struct sim_txns *txns;
	FILE *file;
	struct start *starts;		/* ascending by key */
	size_t starts_count;
	uint32_t *sessions;		/* by transaction */
	bool *committed;		/* by transaction: or seen, though of unknown outcome */
};

static int
compare_starts(const void *a, const void *b)
{
	const struct start *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return y->loaded - x->loaded;
}

static void
find_starts(struct writer *writer)
{
	const struct sim_txns *txns = writer->txns;
	struct start *starts = sim_alloc(txns->accesses_count, sizeof(*starts));
	size_t count = 0;

	for (size_t i = 0; i < txns->accesses_count; i++) {
		const struct sim_access *access = &txns->accesses[i];

		starts[i] = (struct start){ access->key, access->txn == 0 ? access->value : 0,
			access->txn == 0 };
	}
	qsort(starts, txns->accesses_count, sizeof(*starts), compare_starts);
	for (size_t i = 0; i < txns->accesses_count; i++) {
		if (count > 0 && starts[count - 1].key == starts[i].key)
			continue;
		starts[count] = starts[i];
		if (!starts[i].loaded)
			starts[count].value = ABSENT + count;
		count++;
	}
	writer->starts = starts;
	writer->starts_count = count;
}

static const struct start *
find_start(const struct writer *writer, uint64_t key)
{
	size_t low = 0, high = writer->starts_count;

	while (low + 1 < high) {
		size_t middle = low + (high - low) / 2;

		if (writer->starts[middle].key <= key)
			low = middle;
		else
			high = middle;
	}
	return &writer->starts[low];
}

static int
compare_doubtful(const void *a, const void *b)
{
	const struct doubtful *x = a, *y = b;

	return sim_entry_compare(x->write, y->write);
}

/* Which transactions took effect; a seen write did, even without an answer to its writer. */
static void
find_committed(struct writer *writer)
{
	const struct sim_txns *txns = writer->txns;
	struct doubtful *doubtful = sim_alloc(txns->accesses_count, sizeof(*doubtful));
	size_t count = 0;

	for (uint32_t i = 0; i < txns->count; i++)
		writer->committed[i] = txns->txns[i].outcome == SIM_TXN_COMMITTED;
	for (size_t i = 0; i < txns->accesses_count; i++) {
		const struct sim_access *access = &txns->accesses[i];

		if (access->write && txns->txns[access->txn].outcome == SIM_TXN_UNKNOWN)
			doubtful[count++] = (struct doubtful){ { access->key, access->value },
				access->txn };
	}
	qsort(doubtful, count, sizeof(*doubtful), compare_doubtful);
	for (size_t i = 0; i < txns->accesses_count; i++) {
		const struct sim_access *access = &txns->accesses[i];
		struct doubtful seen = { { access->key, access->value }, 0 };
		const struct doubtful *found;

		if (access->write || txns->txns[access->txn].outcome != SIM_TXN_COMMITTED)
			continue;
		found = bsearch(&seen, doubtful, count, sizeof(seen), compare_doubtful);
		if (found)
			writer->committed[found->txn] = true;
	}
	free(doubtful);
}

static void
find_sessions(struct writer *writer)
{
	const struct sim_txns *txns = writer->txns;
	uint32_t last = 0;

	for (uint32_t i = 0; i < txns->count; i++) {
		writer->sessions[i] = txns->txns[i].session;
		last = txns->txns[i].session > last ? txns->txns[i].session : last;
	}
	for (uint32_t i = 0; i < txns->count; i++)
		if (writer->committed[i] && txns->txns[i].outcome == SIM_TXN_UNKNOWN)
			writer->sessions[i] = ++last;
}

static void
say_access(const struct writer *writer, const struct sim_access *access)
{
	const struct sim_txn *txn = &writer->txns->txns[access->txn];
	uint64_t value = access->value;

	if (!access->write && txn->outcome != SIM_TXN_COMMITTED)
		return;
	if (!access->write && value == 0) {
		const struct start *start = find_start(writer, access->key);

		value = start->loaded ? 0 : start->value;
	}
	fprintf(writer->file, "%c(%" PRIu64 ",%" PRIu64 ",%" PRIu32 ",", access->write ? 'w' : 'r',
		access->key, value, writer->sessions[access->txn]);
	if (writer->committed[access->txn])
		fprintf(writer->file, "%" PRIu64 ")\n", txn->name);
	else
		fputs("-1)\n", writer->file);
}

/* Accesses of a transaction stay together: some readers want that. */
static void
say_all(const struct writer *writer)
{
	const struct sim_txns *txns = writer->txns;
	size_t *next = sim_alloc(txns->count + 1, sizeof(*next));
	uint32_t *order = sim_alloc(txns->accesses_count, sizeof(*order));

	for (size_t i = 0; i < txns->accesses_count; i++)
		next[txns->accesses[i].txn + 1]++;
	for (size_t i = 1; i <= txns->count; i++)
		next[i] += next[i - 1];
	for (uint32_t i = 0; i < txns->accesses_count; i++)
		order[next[txns->accesses[i].txn]++] = i;
	for (size_t i = 0; i < txns->accesses_count; i++)
		if (txns->accesses[order[i]].txn != 0)
			say_access(writer, &txns->accesses[order[i]]);
	free(order);
	free(next);
}

void
sim_txns_write_plain(const struct sim_txns *txns, FILE *file)
{
	struct writer writer = { .txns = txns, .file = file };

	writer.sessions = sim_alloc(txns->count, sizeof(*writer.sessions));
	writer.committed = sim_alloc(txns->count, sizeof(*writer.committed));
	find_starts(&writer);
	find_committed(&writer);
	find_sessions(&writer);
	for (size_t i = 0; i < writer.starts_count; i++)
		fprintf(file, "w(%" PRIu64 ",%" PRIu64 ",0,0)\n", writer.starts[i].key,
			writer.starts[i].value);
	say_all(&writer);
	free(writer.committed);
	free(writer.sessions);
	free(writer.starts);
}

/* ---- reading --------------------------------------------------------------------------------- */

struct line {
	bool write;
	bool aborted;
	uint64_t key;
	uint64_t value;
	uint64_t session;
	uint64_t txn;
};

/* Transactions by session and name: by hashing, without gaps. */
struct reader {
	struct sim_txns *txns;
	uint32_t *table;	/* 0: free */
	size_t mask;
	size_t known;
};

static void
skip_blanks(const char **at)
{
	while (**at == ' ' || **at == '\t' || **at == '\r' || **at == '\n')
		(*at)++;
}

static bool
take(const char **at, char wanted)
{
	skip_blanks(at);
	if (**at != wanted)
		return false;
	(*at)++;
	skip_blanks(at);
	return true;
}

static bool
take_number(const char **at, uint64_t *ret_number)
{
	char *end;

	if (**at < '0' || **at > '9')
		return false;
	errno = 0;
	*ret_number = strtoull(*at, &end, 10);
	*at = end;
	return errno == 0;
}

/* NULL, or what is wrong. */
static const char *
parse_line(const char *at, struct line *ret_line)
{
	static const char form[] = "not r(key,value,session,txn) or w(key,value,session,txn)";

	skip_blanks(&at);
	*ret_line = (struct line){ .write = *at == 'w' };
	if (*at != 'r' && *at != 'w')
		return form;
	at++;
	if (!take(&at, '(') || !take_number(&at, &ret_line->key) ||
			!take(&at, ',') || !take_number(&at, &ret_line->value) ||
			!take(&at, ',') || !take_number(&at, &ret_line->session) ||
			!take(&at, ','))
		return form;
	ret_line->aborted = !strncmp(at, "-1", 2);
	if (ret_line->aborted)
		at += 2;
	else if (!take_number(&at, &ret_line->txn))
		return form;
	if (!take(&at, ')') || *at != '\0')
		return form;
	return ret_line->session > UINT32_MAX ? "a session's number is below 2^32" : NULL;
}

static size_t
place(const struct reader *reader, uint64_t session, uint64_t name)
{
	size_t at = (size_t)nam_mix64(name ^ nam_mix64(session)) & reader->mask;

	while (reader->table[at] != 0) {
		const struct sim_txn *txn = &reader->txns->txns[reader->table[at]];

		if (txn->session == session && txn->name == name)
			break;
		at = (at + 1) & reader->mask;
	}
	return at;
}

static void
make_room(struct reader *reader)
{
	uint32_t *old = reader->table;
	size_t old_count = old ? reader->mask + 1 : 0;

	if (old && 2 * reader->known < reader->mask)
		return;
	reader->mask = old ? 2 * reader->mask + 1 : 1023;
	reader->table = sim_alloc(reader->mask + 1, sizeof(*reader->table));
	for (size_t i = 0; i < old_count; i++) {
		const struct sim_txn *txn = &reader->txns->txns[old[i]];

		if (old[i] != 0)
			reader->table[place(reader, txn->session, txn->name)] = old[i];
	}
	free(old);
}

static uint32_t
find_txn(struct reader *reader, const struct line *line)
{
	uint32_t session = (uint32_t)line->session, txn;
	size_t at;

	if (line->aborted) {
		txn = sim_txns_begin(reader->txns, session, 0);
		sim_txns_end(reader->txns, txn, SIM_TXN_ABORTED, 0, 0);
		return txn;
	}
	make_room(reader);
	at = place(reader, session, line->txn);
	if (reader->table[at] == 0) {
		txn = sim_txns_begin(reader->txns, session, 0);
		sim_txns_end(reader->txns, txn, SIM_TXN_COMMITTED, 0, 0);
		reader->txns->txns[txn].name = line->txn;
		reader->table[at] = txn;
		reader->known++;
	}
	return reader->table[at];
}

/* NULL, or what is wrong. */
static const char *
enter_line(struct reader *reader, const struct line *line)
{
	if (line->session == 0 && line->txn == 0 && !line->aborted) {
		if (!line->write)
			return "transaction 0 of session 0 is the loader's and reads nothing";
		if (reader->txns->count > 1)
			return "the loader's lines, transaction 0 of session 0, come first";
		if (line->value != 0)
			sim_txns_load(reader->txns, line->key, line->value);
		return NULL;
	}
	if (line->write && line->value == 0)
		return "0 stands for what was never written";
	if (line->write)
		sim_txns_write(reader->txns, find_txn(reader, line), line->key, line->value);
	else
		sim_txns_read(reader->txns, find_txn(reader, line), line->key, line->value);
	return NULL;
}

int
sim_txns_read_plain(struct sim_txns *txns, FILE *file, char ret_diag[SIM_TXNS_DIAG_BYTES])
{
	struct reader reader = { .txns = txns };
	char *text = NULL;
	size_t room = 0;
	const char *wrong = NULL;
	uint64_t number = 0;
	ssize_t bytes;

	while (!wrong && (bytes = getline(&text, &room, file)) >= 0) {
		const char *at = text;
		struct line line;

		number++;
		skip_blanks(&at);
		if (at == text + bytes)
			continue;
		wrong = strlen(text) != (size_t)bytes ? "a zero byte" : parse_line(text, &line);
		if (!wrong)
			wrong = enter_line(&reader, &line);
	}
	free(text);
	free(reader.table);
	if (wrong)
		snprintf(ret_diag, SIM_TXNS_DIAG_BYTES, "line %" PRIu64 ": %s", number, wrong);
	else if (ferror(file))
		snprintf(ret_diag, SIM_TXNS_DIAG_BYTES, "cannot be read after line %" PRIu64,
			number);
	return wrong ? -EINVAL : ferror(file) ? -EIO : 0;
}
