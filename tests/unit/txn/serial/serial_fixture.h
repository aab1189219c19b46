/* SPDX-License-Identifier: Apache-2.0 */
/*
 * serial_fixture.h -- transactions of tests: keys and values are text.
 */
#ifndef NAM_TESTS_UNIT_TXN_SERIAL_SERIAL_FIXTURE_H
#define NAM_TESTS_UNIT_TXN_SERIAL_SERIAL_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "tests/lib/index_fixture.h"
#include "txn/serializable.h"

static inline struct nam_txn *
begin(const struct member *who, struct nam_txn_store *store)
{
	struct nam_txn *txn;

	assert_int_equal(nam_txn_begin(who->worker, store, &txn), 0);
	return txn;
}

static inline void
write_text(struct nam_txn *txn, const char *key, const char *text)
{
	assert_int_equal(nam_txn_write(txn, key, (uint32_t)strlen(key), text,
		(uint32_t)strlen(text)), 0);
}

static inline void
commit(struct nam_txn *txn)
{
	assert_int_equal(nam_txn_commit(txn, NULL), 0);
}

static inline void
put(const struct member *who, struct nam_txn_store *store, const char *key, const char *text)
{
	struct nam_txn *txn = begin(who, store);

	write_text(txn, key, text);
	commit(txn);
}

#endif /* NAM_TESTS_UNIT_TXN_SERIAL_SERIAL_FIXTURE_H */
