/* SPDX-License-Identifier: Apache-2.0 */
#include "backups.h"

#include "backed.h"
#include "compute/remote/lock_slot.h"

/* C32: if the backup has another word than `from`, that of another client, nothing changes. */
NAM_FIBER_FN static int
word_set(struct nam_client *client, uint32_t slot, uint32_t place, uint64_t raw, uint64_t from,
	uint64_t to)
{
	uint64_t seen;
	int rc;

	if (from == to || nam__server_slot(client, NAM_GADDR(raw)) != slot)
		return 0;
	rc = nam__backup_cas(client->epoch_worker, slot, place, NAM_GADDR(raw), 0, from, to,
		&seen); /* SUSPENDS */
	/* C18: a word that was reserved as the backup was filled is free. */
	if (!rc && from == NAM_LOCK_FREE && seen != from && !nam_lock_held(seen))
		rc = nam__backup_cas(client->epoch_worker, slot, place, NAM_GADDR(raw), 0, seen,
			to, &seen); /* SUSPENDS */
	return rc;
}

/*
 * @take	C32: those that are held; C31: else all that were gone for end at the backup, but
 *		for the locks of a merge, which stay there as long as they are held
 */
NAM_FIBER_FN static int
words_set(struct nam_client *client, uint32_t slot, uint32_t place, bool take)
{
	struct nam__lock_table *table = client->locks;
	int rc = 0;

	for (uint32_t i = 0; table && !rc && i < NAM__LOCK_SLOTS; i++) {
		const struct nam__lock_slot *one = &table->slots[i];
		uint64_t at = one->word_at, word = one->word;
		bool wanted = one->locked || (!take && one->held);

		/* The slot's holder may go for another word, which is at another memory server. */
		if (wanted && one->word_at == at && one->word == word)
			rc = word_set(client, slot, place, at, take ? NAM_LOCK_FREE : word,
				take ? word : NAM_LOCK_FREE); /* SUSPENDS */
	}
	for (uint32_t i = 0; table && !rc && i < NAM__UNQUEUED_WORDS_MAX; i++) {
		struct nam__unqueued_word one;
		bool sets;

		pthread_mutex_lock(&table->mutex);
		one = table->unqueued[i];
		pthread_mutex_unlock(&table->mutex);
		sets = take || (one.locked && one.word & NAM_LOCK_MERGES &&
			NAM_GUARD(BACKUP_MERGES));
		if (one.at && (one.locked || !take))
			rc = word_set(client, slot, place, one.at, sets ? NAM_LOCK_FREE :
				one.word, sets ? one.word : NAM_LOCK_FREE); /* SUSPENDS */
	}
	return rc;
}

int
nam__locks_take_again(struct nam_client *client, uint32_t slot)
{
	uint32_t place = nam__backup_next(client, slot, 0);

	return place < NAM_BACKUPS_MAX ? words_set(client, slot, place, true) : 0; /* SUSPENDS */
}

int
nam__locks_leave(struct nam_client *client, uint32_t slot, uint32_t place)
{
	return words_set(client, slot, place, false); /* SUSPENDS */
}
