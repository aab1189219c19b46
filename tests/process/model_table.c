/* SPDX-License-Identifier: Apache-2.0 */
/* model_table.c -- numbers as entries, and back. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/env.h"
#include "tests/lib/cluster.h"
#include "model.h"

/*
 * Small nodes split and merge all the time; large ones hold many writers at once.  Caches: none,
 * one that evicts, one that holds everything.
 */
const struct model_shape model_shapes[] = {
	{ 8, 256, 0, { 2400, 2400 }, 4000 },
	{ 8, 256, 24u << 10, { 2400, 2400 }, 8000 },
	{ 8, 256, 4u << 20, { 2400, 2400 }, 12000 },
	{ 13, 256, 4u << 20, { 1440, 1440 }, 10000 },
	{ 8, 1024, 16u << 10, { 4800, 4800 }, 8000 },
	{ 13, 1024, 4u << 20, { 2400, 2400 }, 8000 },
	{ 64, 1024, 0, { 960, 960 }, 4000 },
	{ 64, 1024, 48u << 10, { 1440, 1440 }, 8000 },
	{ 8, 16384, 4u << 20, { 24000, 24000 }, 6000 },
	{ 64, 16384, 1u << 20, { 4800, 3600 }, 5000 },
};
const unsigned model_shapes_count = sizeof(model_shapes) / sizeof(model_shapes[0]);

/* Distinct keys of the non-unique index: the pairs of each span many leaves. */
#define MODEL_DUPLICATE_KEYS 5u
#define VALUE_STEP 0x100000ull
#define VALUE_BASE 0x0abcdeull
#define VERSION_BITS 24u
#define PAYLOAD_STEP 0x10001ull
#define PAYLOAD_BASE 5u
#define VIOLATIONS_MAX 10u

void
model_index_name(unsigned shape, bool unique, char *name, size_t size)
{
	(void)snprintf(name, size, "%s-%u", unique ? "unique" : "pairs", shape);
}

size_t
model_tables_bytes(const struct model_shape *shape)
{
	return (1 + (shape->numbers[0] + shape->numbers[1]) * 2) * sizeof(model_word);
}

void
model_tables_map(const char *path, const struct model_shape *shape, struct model_table tables[2])
{
	int fd = open(path, O_RDWR | O_CLOEXEC);
	model_word *words;

	if (fd < 0)
		test_die("%s: %s", path, strerror(errno));
	words = mmap(NULL, model_tables_bytes(shape), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED)
		test_die("%s: %s", path, strerror(errno));
	close(fd);
	tables[0].arrived = tables[1].arrived = words++;
	for (unsigned i = 0; i < 2; i++) {
		uint64_t numbers = shape->numbers[i];

		tables[i] = (struct model_table){
			.arrived = tables[i].arrived,
			.unique = i == 0,
			.key_bytes = shape->key_bytes,
			.numbers = numbers,
			.per_key = i == 0 ? 1 : numbers / MODEL_DUPLICATE_KEYS,
			.started = words,
			.done = words + numbers,
		};
		words += 2 * numbers;
	}
}

void
model_gate_pass(const struct model_table *table)
{
	atomic_fetch_add(table->arrived, 1);
	while (atomic_load(table->arrived) < MODEL_PROCESSES * MODEL_THREADS)
		nam_sleep_ns(100000);
}

/* ---- entries ------------------------------------------------------------------------------ */

/*
 * The number lies in the middle of the key: longer keys agree in their first bytes and differ in
 * their last ones, too.
 */
static unsigned
value_offset(const struct model_table *table)
{
	return table->key_bytes == 8 ? 0 : (table->key_bytes - 8) * 2 / 3;
}

void
model_key(const struct model_table *table, uint64_t number, uint8_t *ret_key)
{
	uint64_t value = number / table->per_key * VALUE_STEP + VALUE_BASE;
	unsigned offset = value_offset(table);

	for (unsigned i = 0; i < table->key_bytes; i++)
		ret_key[i] = (uint8_t)(i < offset ? 0xa0 + i : value / VALUE_STEP * 37 + i);
	nam_key_from_u64(value, ret_key + offset);
}

uint64_t
model_payload(const struct model_table *table, uint64_t number, uint64_t version)
{
	if (!table->unique)
		return number % table->per_key * PAYLOAD_STEP + PAYLOAD_BASE;
	return number << VERSION_BITS | version;
}

bool
model_recognise(const struct model_table *table, const uint8_t *key, uint64_t payload,
	uint64_t *ret_number, uint64_t *ret_version)
{
	uint64_t value = nam_key_to_u64(key + value_offset(table)), number, version = 0;
	uint8_t expect[NAM_KEY_BYTES_MAX];

	if (value % VALUE_STEP != VALUE_BASE)
		return false;
	number = value / VALUE_STEP * table->per_key;
	if (table->unique)
		version = payload & ((1ull << VERSION_BITS) - 1);
	else if (payload / PAYLOAD_STEP < table->per_key)
		number += payload / PAYLOAD_STEP;
	else
		return false;
	if (number >= table->numbers || payload != model_payload(table, number, version))
		return false;
	model_key(table, number, expect);
	if (memcmp(expect, key, table->key_bytes) != 0)
		return false;
	*ret_number = number;
	*ret_version = version;
	return true;
}

/* ---- complaints --------------------------------------------------------------------------- */

static atomic_uint violations;

void
model_violation(const char *format, ...)
{
	char text[600];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	(void)fprintf(stderr, "VIOLATION: %s\n", text);
	if (atomic_fetch_add(&violations, 1) + 1 >= VIOLATIONS_MAX)
		test_die("too many violations");
}

unsigned
model_violations(void)
{
	return atomic_load(&violations);
}
