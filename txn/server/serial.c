/* SPDX-License-Identifier: Apache-2.0 */
/* serial.c -- steps of serializable transactions that a memory server's CPU takes. */
#include <string.h>

#include "common/race.h"
#include "common/guard.h"
#include "serial.h"

/* Z9: a record of that store, of up to `bytes`. */
static int
record_find(const struct nam__server_serial *serial, uint64_t at, uint32_t bytes,
	struct nam_serial_record **ret_record)
{
	struct nam_serial_record *record = serial->find(serial->arg, at,
		bytes < sizeof(*record) ? (uint32_t)sizeof(*record) : bytes, true);

	if (!record)
		return -NAM_E_REMOTE_CORRUPT;
	if (__atomic_load_n(&record->store, __ATOMIC_RELAXED) != serial->store)
		return -NAM_E_DROPPED;
	*ret_record = record;
	return 0;
}

/* Z9: in one step.  Handlers of other connections may do the same. */
static uint64_t
word_cas(struct nam_serial_record *record, uint64_t compare, uint64_t swap)
{
	if (!NAM_GUARD(SERIAL_SERVED)) {
		uint64_t seen = __atomic_load_n(&record->word, __ATOMIC_ACQUIRE);

		nam_race_point("serial.served_cas");
		if (seen == compare)
			__atomic_store_n(&record->word, swap, __ATOMIC_RELEASE);
		return seen;
	}
	/* Release: what was written behind the word comes first (Z4). */
	(void)__atomic_compare_exchange_n(&record->word, &compare, swap, false, __ATOMIC_ACQ_REL,
		__ATOMIC_ACQUIRE);
	return compare;
}

/* No bytes of an earlier reply behind it. */
static void
reply_fill(uint64_t *reply, const void *from, uint32_t bytes)
{
	if (bytes)
		reply[((size_t)bytes - 1) / sizeof(*reply)] = 0;
	memcpy(reply, from, bytes);
}

/* Z2: what is read is what the lock is on.  Another key is only read. */
static int
lock(const struct nam__server_serial *serial, const struct nam_rpc_serial_step *step,
	const uint64_t *more, uint64_t *reply)
{
	const uint32_t fixed = sizeof(struct nam_serial_record), key_bytes = step->offset;
	struct nam_serial_record *record;
	uint64_t word, seen;
	int rc;

	if (step->bytes < fixed + key_bytes || !nam__serial_locked(more[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	rc = record_find(serial, step->at, step->bytes, &record);
	if (rc)
		return rc;
	seen = __atomic_load_n(&record->word, __ATOMIC_ACQUIRE);
	if (record->key_bytes == key_bytes && !memcmp(record->bytes, more + 1, key_bytes)) {
		/* Each repetition means that another transaction was written meanwhile. */
		do {
			word = seen;
			if (!nam__serial_locked(word) && word != NAM__SERIAL_DROPPED)
				seen = word_cas(record, word, more[0]);
		} while (seen != word);
	}
	nam_race_point("serial.served_lock");
	reply_fill(reply, record, step->bytes);
	reply[0] = seen;
	return 0;
}

/* Z4: the lock stays until all is written. */
static int
commit(const struct nam__server_serial *serial, const struct nam_rpc_serial_step *step,
	const uint64_t *more, uint64_t *reply)
{
	const uint32_t from = offsetof(struct nam_serial_record, hash);
	const uint8_t *bytes = (const uint8_t *)(more + 2);
	struct nam_serial_record *record;
	uint64_t store;
	int rc;

	if (step->bytes < sizeof(*record) - from)
		return -NAM_E_FABRIC_PROTOCOL;
	memcpy(&store, bytes + offsetof(struct nam_serial_record, store) - from, sizeof(store));
	if (store != serial->store)
		return -NAM_E_FABRIC_PROTOCOL;
	rc = record_find(serial, step->at, from + step->bytes, &record);
	if (rc)
		return rc;
	*reply = __atomic_load_n(&record->word, __ATOMIC_ACQUIRE);
	if (*reply != more[0])
		return 0;
	memcpy((uint8_t *)record + from, bytes, step->bytes);
	nam_race_point("serial.served");
	*reply = word_cas(record, more[0], more[1]);
	return 0;
}

/* Z9: a log of that store stays one. */
static int
log_write(const struct nam__server_serial *serial, const struct nam_rpc_serial_step *step,
	const uint64_t *more)
{
	const uint32_t fixed = sizeof(struct nam_serial_log), end = step->offset + step->bytes;
	struct nam_serial_log *log;

	if (step->offset >= NAM__SERIAL_LOG_BYTES_MAX)
		return -NAM_E_REMOTE_CORRUPT;
	if (step->offset ? step->offset < fixed : step->bytes < fixed ||
		more[offsetof(struct nam_serial_log, store) / sizeof(*more)] != serial->store)
		return -NAM_E_FABRIC_PROTOCOL;
	log = serial->find(serial->arg, step->at, end < fixed ? fixed : end, true);
	if (!log)
		return -NAM_E_REMOTE_CORRUPT;
	if (__atomic_load_n(&log->store, __ATOMIC_RELAXED) != serial->store)
		return -NAM_E_DROPPED;
	memcpy((uint8_t *)log + step->offset, more, step->bytes);
	return 0;
}

int
nam__server_serial_step(const struct nam__server_serial *serial,
	const struct nam_rpc_serial_step *step, const uint64_t *more, uint64_t *reply)
{
	struct nam_serial_record *record;
	uint8_t *at;
	int rc;

	switch (step->step) {
	case NAM_SERIAL_READ:
		at = serial->find(serial->arg, step->at, step->bytes, false);
		if (!at)
			return -NAM_E_REMOTE_CORRUPT;
		reply_fill(reply, at, step->bytes);
		return 0;
	case NAM_SERIAL_CAS:
		rc = record_find(serial, step->at, 0, &record);
		if (!rc)
			*reply = word_cas(record, more[0], more[1]);
		return rc;
	case NAM_SERIAL_LOCK:
		return lock(serial, step, more, reply);
	case NAM_SERIAL_COMMIT:
		return commit(serial, step, more, reply);
	case NAM_SERIAL_LOG:
		return log_write(serial, step, more);
	default:
		return -NAM_E_FABRIC_PROTOCOL;
	}
}
