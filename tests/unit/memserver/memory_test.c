/* SPDX-License-Identifier: Apache-2.0 */
/* memory_test.c -- regions that become private and public again. */
#include "server_fixture.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "common/env.h"

#define PAGE_BYTES 4096u
#define WAIT_NS 200000000u
#define REGION 1u

static bool
all_are(const uint8_t *at, uint64_t bytes, uint8_t value)
{
	for (uint64_t i = 0; i < bytes; i++)
		if (at[i] != value)
			return false;
	return true;
}

static uint8_t *
base_of(struct fixture *f)
{
	return atomic_load(&f->server->memory.bases[REGION]);
}

static int
withdraw(struct fixture *f)
{
	return nam__memory_withdraw(&f->server->memory, f->server->domain, REGION);
}

static int
restore(struct fixture *f, enum nam_memory_kind kind)
{
	return nam__memory_restore(&f->server->memory, f->server->domain, REGION, kind, &f->diag);
}

static void
memory_restore__private_region__IS_PUBLIC_AND_ZERO(void **state)
{
	struct fixture *f = *state;
	const struct nam_mr *mr = &f->server->memory.mrs[REGION];

	memset(mr->base, 0x11, mr->bytes);
	assert_int_equal(withdraw(f), 0);
	assert_ptr_not_equal(base_of(f), mr->base);
	memset(base_of(f), 0x22, mr->bytes);
	assert_int_equal(restore(f, NAM_MEMORY_PUBLIC), 0);
	assert_ptr_equal(base_of(f), mr->base);
	assert_true(all_are(mr->base, mr->bytes, 0));
	/* It is a region like others: the bytes that clients write stay. */
	memset(mr->base, 0x33, mr->bytes);
	nam__memory_trim(&f->server->memory, f->server->domain);
	assert_true(all_are(mr->base, mr->bytes, 0x33));
	/* And it may become private again. */
	assert_int_equal(withdraw(f), 0);
	assert_true(all_are(base_of(f), mr->bytes, 0));
	assert_int_equal(restore(f, NAM_MEMORY_PUBLIC), 0);
	assert_true(all_are(mr->base, mr->bytes, 0));
}

/* As in common/fabric/region_test.c: the kernel takes no pages out of a locked range. */
static void
memory_restore__fails__REGION_STAYS_PRIVATE_WITH_FRESH_MEMORY(void **state)
{
	struct fixture *f = *state;
	const struct nam_mr *mr = &f->server->memory.mrs[REGION];

	assert_int_equal(withdraw(f), 0);
	memset(base_of(f), 0x22, mr->bytes);
	if (syscall(SYS_mlock, mr->base, PAGE_BYTES))
		skip();
	f->diag.text[0] = '\0';
	assert_true(restore(f, NAM_MEMORY_PUBLIC) < 0);
	assert_string_not_equal(f->diag.text, "");
	assert_ptr_not_equal(base_of(f), mr->base);
	assert_true(all_are(base_of(f), mr->bytes, 0));
	memset(base_of(f), 0x44, mr->bytes);
	assert_int_equal(syscall(SYS_munlock, mr->base, PAGE_BYTES), 0);
	/* Writes of clients by mappings of their own reach nothing, and go. */
	memset(mr->base, 0x55, mr->bytes);
	nam__memory_trim(&f->server->memory, f->server->domain);
	assert_true(all_are(mr->base, mr->bytes, 0));
	assert_true(all_are(base_of(f), mr->bytes, 0x44));
	assert_int_equal(restore(f, NAM_MEMORY_PUBLIC), 0);
	assert_ptr_equal(base_of(f), mr->base);
}

/* Handlers write there what the server says, and not to addresses that clients name. */
static void
memory_restore__read_only__NO_CLIENT_HAS_IT_WRITTEN(void **state)
{
	struct fixture *f = *state;
	struct nam__memory *memory = &f->server->memory;
	const struct nam_mr *mr = &memory->mrs[REGION];
	const struct nam_gaddr at = nam_gaddr_make(
		(uint16_t)(nam__first_region_id(f->server) + REGION), PAGE_BYTES, 0);

	assert_non_null(nam__memory_public_at(f->server, at, 64));
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(withdraw(f), 0);
		assert_null(nam__memory_public_at(f->server, at, 64));
		assert_int_equal(restore(f, NAM_MEMORY_READ_ONLY), 0);
		assert_null(nam__memory_public_at(f->server, at, 64));
		assert_true(all_are(base_of(f), mr->bytes, 0));
		memset(base_of(f), 0x33, mr->bytes);
		/* Clients keep the mapping that they may write; that memory goes. */
		if (base_of(f) != memory->public_bases[REGION])
			memset(memory->public_bases[REGION], 0x55, mr->bytes);
		nam__memory_trim(memory, f->server->domain);
		assert_true(all_are(base_of(f), mr->bytes, 0x33));
		if (base_of(f) != memory->public_bases[REGION])
			assert_true(all_are(memory->public_bases[REGION], mr->bytes, 0));
	}
	assert_int_equal(withdraw(f), 0);
	assert_int_equal(restore(f, NAM_MEMORY_PUBLIC), 0);
	assert_non_null(nam__memory_public_at(f->server, at, 64));
	assert_true(all_are(base_of(f), mr->bytes, 0));
}

#define HUGE_BYTES (2u << 20)

/* With a pool of 4 pages this also says that the private memory goes first. */
static void
memory_restore__huge_pages__ARE_TAKEN_FROM_THE_PRIVATE_MEMORY(void **state)
{
	struct fixture *f = aligned_alloc(64, (sizeof(*f) + 63) & ~63ul);
	struct nam_server_options options;
	unsigned char there[2 * HUGE_BYTES / PAGE_BYTES];
	const struct nam_mr *mr;

	(void)state;
	assert_non_null(f);
	fixture_options(f, &options);
	options.memory_bytes = 4 * HUGE_BYTES;
	options.region_bytes = 2 * HUGE_BYTES;
	options.pages = NAM_PAGES_2M;
	if (nam_server_start(&options, &f->server, &f->notice, &f->diag)) {
		assert_int_equal(rmdir(f->directory), 0);
		free(f);
		skip();
	}
	mr = &f->server->memory.mrs[REGION];
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(withdraw(f), 0);
		assert_true(all_are(base_of(f), mr->bytes, 0));
		memset(base_of(f), 0x22, mr->bytes);
		assert_int_equal(restore(f, i % 2 ? NAM_MEMORY_READ_ONLY : NAM_MEMORY_PUBLIC), 0);
		assert_int_equal(mincore(mr->base, mr->bytes, there), 0);
		assert_int_equal(there[0] & 1, 1);
		assert_int_equal(there[sizeof(there) - 1] & 1, 1);
		assert_true(all_are(mr->base, mr->bytes, 0));
		memset(mr->base, 0x33, mr->bytes);
	}
	nam_server_destroy(f->server);
	assert_int_equal(rmdir(f->directory), 0);
	free(f);
}

/* The thread that trims, in the middle of it. */
static _Thread_local bool trims;
static atomic_bool inside, written;

int
madvise(void *at, size_t bytes, int advice)
{
	uint64_t until = nam_now_ns() + WAIT_NS;

	if (trims && advice == MADV_REMOVE) {
		atomic_store(&inside, true);
		while (!atomic_load(&written) && nam_now_ns() < until)
			nam_yield();
	}
	return (int)syscall(SYS_madvise, at, bytes, advice);
}

static void
trimmer_main(void *arg)
{
	struct nam_server *server = arg;

	trims = true;
	nam__memory_trim(&server->memory, server->domain);
}

/* nam__memory_trim() has seen that the region is private, and then sleeps for a while. */
static void
memory_restore__while_another_thread_trims__LOSES_NOTHING(void **state)
{
	struct fixture *f = *state;
	const struct nam_mr *mr = &f->server->memory.mrs[REGION];
	struct nam_thread *thread;

	assert_int_equal(withdraw(f), 0);
	assert_int_equal(nam_thread_start("trimmer", trimmer_main, f->server, &thread), 0);
	while (!atomic_load(&inside))
		nam_yield();
	assert_int_equal(restore(f, NAM_MEMORY_PUBLIC), 0);
	memset(mr->base, 0x66, mr->bytes);
	atomic_store(&written, true);
	nam_thread_join(thread);
	assert_true(all_are(mr->base, mr->bytes, 0x66));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_setup, fixture_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(memory_restore__private_region__IS_PUBLIC_AND_ZERO),
		TEST(memory_restore__fails__REGION_STAYS_PRIVATE_WITH_FRESH_MEMORY),
		TEST(memory_restore__read_only__NO_CLIENT_HAS_IT_WRITTEN),
		cmocka_unit_test(memory_restore__huge_pages__ARE_TAKEN_FROM_THE_PRIVATE_MEMORY),
		TEST(memory_restore__while_another_thread_trims__LOSES_NOTHING),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
