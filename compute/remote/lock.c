/* SPDX-License-Identifier: Apache-2.0 */
/*
 * lock.c -- remote lock words, and the queue for them inside one process.
 *
 * A lock word's address picks a slot of a table, and the slot's holder may go for the remote word.
 * If others wait for the slot on release, the holder may hand the lock over.  The remote word then
 * stays locked, and its value stays in the slot.  The slot's next holder either wants the same
 * word, or releases it remotely first.  Only a lock that was taken or handed over is ever released
 * (C10).  Waiters never give up, so a handed-over lock finds one.  Each wait is bounded as work is.
 *
 * A waiter may leave a request with the slot, which the holder carries out with its own change.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/view/presence.h"
#include "epoch.h"
#include "lock_slot.h"

/* For a slot that another thread's task has; one of this thread wakes its waiters. */
#define SLOT_WAIT_MIN_NS 500u
#define SLOT_WAIT_MAX_NS 16000u
#define BACKOFF_MIN_NS 500u
#define BACKOFF_MAX_NS 512000u
#define FREE_TRIES_MAX 16u	/* a word that is free or reserved in turn */
#define OWNERS_MAX 64u		/* that die, one after another, as a client comes */
#define OWNER_PAUSE_NS 200000u
/* No more counts between two looks at a word: a task that could not run did not wait. */
#define LOOK_MAX_NS 50000000ull
/* No waiter waits longer than so many times lock_timeout_ms. */
#define TIMEOUTS_MAX 8u

int
nam__lock_table_new(struct nam__lock_table **ret_table)
{
	struct nam__lock_table *table = aligned_alloc(NAM__CACHE_LINE, sizeof(*table));

	if (!table)
		return -ENOMEM;
	memset(table, 0, sizeof(*table));
	(void)pthread_mutex_init(&table->mutex, NULL);
	*ret_table = table;
	return 0;
}

void
nam__lock_table_free(struct nam__lock_table *table)
{
	if (table)
		(void)pthread_mutex_destroy(&table->mutex);
	free(table);
}

/* ---- words without a slot (C32) --------------------------------------------------------- */

void
nam__unqueued_word_note(struct nam_worker *worker, struct nam_gaddr at, uint64_t word, bool locked)
{
	struct nam__lock_table *table = worker->client->locks;
	uint64_t raw = nam_gaddr_untagged(at).raw;
	struct nam__unqueued_word *place = NULL;

	pthread_mutex_lock(&table->mutex);
	for (unsigned i = 0; i < NAM__UNQUEUED_WORDS_MAX; i++) {
		struct nam__unqueued_word *one = &table->unqueued[i];

		if ((one->at == raw && one->word == word) || (!one->at && !place))
			place = one;
		if (one->at == raw && one->word == word)
			break;
	}
	if (place)
		*place = (struct nam__unqueued_word){ raw, word, locked };
	pthread_mutex_unlock(&table->mutex);
}

void
nam__unqueued_word_forget(struct nam_worker *worker, struct nam_gaddr at, uint64_t word)
{
	struct nam__lock_table *table = worker->client->locks;

	pthread_mutex_lock(&table->mutex);
	for (unsigned i = 0; i < NAM__UNQUEUED_WORDS_MAX; i++)
		if (table->unqueued[i].at == nam_gaddr_untagged(at).raw &&
			table->unqueued[i].word == word)
			table->unqueued[i].at = 0;
	pthread_mutex_unlock(&table->mutex);
}

/* ---- the slot ----------------------------------------------------------------------------- */

static bool
ended(const struct nam__lock_request *request)
{
	/* Acquire: pairs with nam__lock_combined_end(). */
	return request && atomic_load_explicit(&request->ended, memory_order_acquire);
}

static void
ask(struct nam__lock_slot *slot, struct nam__lock_request *request)
{
	atomic_init(&request->ended, false);
	request->next = atomic_load_explicit(&slot->asked, memory_order_relaxed);
	/* Release: pairs with requests_take(). */
	while (!atomic_compare_exchange_weak_explicit(&slot->asked, &request->next, request,
		memory_order_release, memory_order_relaxed))
		;
}

/* The holder of the slot gets what was asked, behind what it has, oldest first. */
static void
requests_take(struct nam__lock_slot *slot)
{
	/* Acquire: pairs with ask(). */
	struct nam__lock_request *asked = atomic_exchange_explicit(&slot->asked, NULL,
		memory_order_acquire);
	struct nam__lock_request **end = &slot->requests, *next;

	while (*end)
		end = &(*end)->next;
	for (struct nam__lock_request *later = NULL; asked; asked = next) {
		next = asked->next;
		asked->next = later;
		*end = later = asked;
	}
}

/* C17: a task that has the slot takes its own request away. */
static void
withdraw(struct nam__lock_slot *slot, const struct nam__lock_request *request)
{
	struct nam__lock_request **at = &slot->requests;

	requests_take(slot);
	while (*at != request)
		at = &(*at)->next;
	*at = request->next;
}

void
nam__lock_slot_wake(struct nam_worker *worker, const struct nam__lock_slot *slot)
{
	const struct nam__slot_waiter *waiter;
	bool first = true;

	TAILQ_FOREACH(waiter, &worker->slot_waiters, link) {
		bool ends = ended(waiter->request);

		if (waiter->slot != slot || (!ends && !first))
			continue;
		nam__pause_set(worker, waiter->task, 0);
		first &= ends;
	}
}

/* Tasks of one worker enter a slot in the order in which they came. */
static bool
is_first(const struct nam_worker *worker, const struct nam__slot_waiter *self)
{
	const struct nam__slot_waiter *waiter = TAILQ_FIRST(&worker->slot_waiters);

	while (waiter != self && (waiter->slot != self->slot || ended(waiter->request)))
		waiter = TAILQ_NEXT(waiter, link);
	return waiter == self;
}

/* False: the request was ended.  *ret_start_ns: when the wait began, or 0: there was none. */
NAM_FIBER_FN static bool
slot_enter(struct nam_worker *worker, struct nam__lock_slot *slot,
	struct nam__lock_request *request, uint64_t *ret_start_ns)
{
	struct nam__slot_waiter self = { { 0 }, worker->current, slot, request };
	uint64_t wait_ns = SLOT_WAIT_MIN_NS;
	bool entered;

	*ret_start_ns = 0;
	if (nam__lock_slot_try(slot))
		return true;
	*ret_start_ns = nam_now_ns();
	atomic_fetch_add_explicit(&slot->waiters, 1, memory_order_relaxed);
	if (request)
		ask(slot, request);
	TAILQ_INSERT_TAIL(&worker->slot_waiters, &self, link);
	while (!(entered = is_first(worker, &self) && nam__lock_slot_try(slot)) &&
		!ended(request)) {
		nam__pause_await(worker, wait_ns); /* SUSPENDS */
		if (wait_ns < SLOT_WAIT_MAX_NS)
			wait_ns *= 2;
	}
	TAILQ_REMOVE(&worker->slot_waiters, &self, link);
	if (!entered)
		return false;
	/* C17: the last holder may have ended it before it left the slot. */
	if (ended(request)) {
		nam__lock_slot_leave(worker, slot);
		return false;
	}
	atomic_fetch_sub_explicit(&slot->waiters, 1, memory_order_relaxed);
	if (request)
		withdraw(slot, request);
	return true;
}

void
nam__lock_combine(struct nam_worker *worker, struct nam__lock *lock, struct nam_gaddr at,
	nam__combine_fn *carry_out, void *arg)
{
	struct nam__lock_slot *slot = &worker->client->locks->slots[lock->slot];
	struct nam__lock_request **link = &slot->requests, *request;

	requests_take(slot);
	while ((request = *link) != NULL) {
		if (request->at.raw != at.raw || !carry_out(arg, request)) {
			link = &request->next;
			continue;
		}
		*link = request->next;
		request->next = lock->combined;
		lock->combined = request;
		/* Its task does not want the slot any more, and takes over no lock. */
		atomic_fetch_sub_explicit(&slot->waiters, 1, memory_order_relaxed);
	}
}

/* C17. */
void
nam__lock_combined_end(struct nam__lock *lock, int rc)
{
	struct nam__lock_request *request, *next;

	for (request = lock->combined; request; request = next) {
		next = request->next;
		if (rc && NAM_GUARD(COMBINE_FAILED))
			request->rc = rc;
		/* Release: pairs with ended().  Its task may go on at once. */
		atomic_store_explicit(&request->ended, true, memory_order_release);
	}
	lock->combined = NULL;
}

/* Release remotely a handed-over lock of a word that this task does not want (C10). */
NAM_FIBER_FN static int
handed_release(struct nam_worker *worker, struct nam__lock_slot *slot)
{
	struct nam_gaddr at = { atomic_load_explicit(&slot->word_at, memory_order_relaxed) };
	uint64_t old, word = atomic_load_explicit(&slot->word, memory_order_relaxed);
	uint64_t left = NAM_LOCK_FREE;
	int rc;

	slot->handed = false;
	if (atomic_load_explicit(&slot->queued, memory_order_relaxed))
		left = nam__lock_queue_pass(worker, nam__lock_slot_number(at), word);
	rc = nam__lock_word_cas(worker, at, word, left, &old); /* SUSPENDS */
	atomic_store_explicit(&slot->locked, false, memory_order_relaxed);
	return rc || old == word ? rc : -NAM_E_FENCED;
}

/* ---- the word ----------------------------------------------------------------------------- */

int
nam__lock_holder_query(struct nam_worker *worker, uint64_t word,
	struct nam__lock_holder *ret_holder)
{
	uint16_t id = nam_lock_owner(word), incarnation = nam_lock_incarnation(word);
	struct nam_rpc_client_state_reply state;
	int rc;

	/* No client has or had that id: the word was overwritten. */
	if (!id || id >= NAM_CLIENTS_MAX || !incarnation) {
		*ret_holder = (struct nam__lock_holder){ .word = word, .dead = true };
		return 0;
	}
	rc = nam__client_state_query(worker, id, incarnation, &state); /* SUSPENDS */
	if (rc)
		return rc;
	ret_holder->word = word;
	ret_holder->pid = state.pid;
	/* C21.  UNKNOWN is not dead: server 0 cannot say that such a client has ended. */
	ret_holder->dead = state.state == NAM_CLIENT_DEAD;
	ret_holder->unknown = state.state == NAM_CLIENT_UNKNOWN;
	ret_holder->fencing = state.state == NAM_CLIENT_FENCING;
	static_assert(sizeof(ret_holder->name) == sizeof(state.name), "names fit");
	memcpy(ret_holder->name, state.name, sizeof(state.name));
	return 0;
}

int
nam__lock_blame(struct nam_worker *worker, struct nam_gaddr at,
	const struct nam__lock_holder *holder)
{
	return nam_diag_set(&worker->diag,
		holder->dead ? -NAM_E_LOCK_ORPHANED : -NAM_E_LOCK_TIMEOUT,
		"the lock word at region %u offset %llu stays locked. It is held by client %u, "
		"incarnation %u (%s, pid %llu), %s",
		nam_gaddr_region(at), (unsigned long long)nam_gaddr_offset(at),
		nam_lock_owner(holder->word), nam_lock_incarnation(holder->word),
		holder->name[0] ? holder->name : "unknown", (unsigned long long)holder->pid,
		holder->dead ? "which died" :
			holder->unknown ? "which server 0 does not know" :
			holder->fencing ? "which ended. A memory server has not said yet that "
				"it has no more requests of it" :
			"which is alive. It is slow, stopped, or in a long operation as a drop is. "
			"Let it go on. If it does not, end it, or fence it (namctl client fence; "
			"over shm with --evict)");
}

int
nam__lock_unseen(struct nam_worker *worker, struct nam_gaddr at, uint64_t word)
{
	uint64_t seen;
	/* C11: without an image from after the CAS the lock is of no use. */
	int rc = nam__lock_word_cas(worker, at, word, NAM_LOCK_FREE, &seen); /* SUSPENDS */

	if (rc)
		return rc;
	return nam_diag_set(&worker->diag, seen == word ? -NAM_E_FABRIC_PROTOCOL : -NAM_E_FENCED,
		"the lock word at region %u offset %llu was taken, and %u READs did not show it%s",
		nam_gaddr_region(at), (unsigned long long)nam_gaddr_offset(at),
		NAM__LOCK_READS_MAX, seen == word ? "" : ": another client has overwritten it");
}

/* A word that the holder of its slot wants. */
struct attempt {
	struct nam__lock_slot *slot;
	uint32_t number;		/* of the slot */
	struct nam_gaddr at;
	uint64_t free_word;	/* that the CAS expects: free, reserved, or of a dead client */
	uint64_t word;			/* the new value */
	uint64_t start_ns;		/* of the wait; 0: it begins with the first look */
	uint64_t *old;			/* found by the last CAS; registered */
	void *image;
	uint32_t bytes;
	const struct nam__lock_recovery *recovery;	/* NULL: none */
};

/*
 * Post together: CAS the word from free to this client's, READ the object.  Where a part of a READ
 * may pass an ATOMIC, the READ waits for the CAS.  Otherwise an image with the lock word may have
 * other words from before the last holder's WRITEs (C11).
 */
NAM_FIBER_FN static int
try_once(struct nam_worker *worker, const struct attempt *attempt)
{
	bool in_order = worker->client->caps & NAM_CAP_ORDER_ATOMIC_READ;
	struct nam__doorbell doorbell;
	uint32_t moves;
	int rc;

	nam__doorbell_init(&doorbell, worker, attempt->at);
	nam__doorbell_cas(&doorbell, 0, attempt->free_word, attempt->word, attempt->old);
	if (in_order)
		nam__doorbell_read(&doorbell, attempt->image, attempt->bytes);
	rc = nam__doorbell_await(&doorbell); /* SUSPENDS */
	moves = doorbell.moves;
	/* C32: this CAS was carried out before, by the same process or by an earlier one. */
	if (!rc && *attempt->old == attempt->word)
		*attempt->old = attempt->free_word;
	/* C10: the lock is held only if the CAS found the word free. */
	if (rc || *attempt->old != attempt->free_word)
		return rc;
	if (!in_order)
		rc = nam_read_await(worker, attempt->at, attempt->image,
			attempt->bytes); /* SUSPENDS */
	/* C11: on any fabric, an image without this lock is not the locked one. */
	for (unsigned reads = 1; !rc && NAM_GUARD(READ_PASSED_CAS) &&
		*(const uint64_t *)attempt->image != attempt->word; reads++) {
		nam__count_restart(worker, NAM_RESTART_ORDER);
		if (worker->moves != moves)
			return -EAGAIN;
		if (reads >= NAM__LOCK_READS_MAX)
			return nam__lock_unseen(worker, attempt->at, attempt->word); /* SUSPENDS */
		rc = nam_read_await(worker, attempt->at, attempt->image,
			attempt->bytes); /* SUSPENDS */
	}
	return rc;
}

/* C32: if the process ends behind the CAS, another one has the memory that is READ, and no lock. */
NAM_FIBER_FN static int
try_lock_and_read(struct nam_worker *worker, const struct attempt *attempt)
{
	int rc;

	do
		rc = try_once(worker, attempt); /* SUSPENDS */
	while (rc == -EAGAIN);
	return rc;
}

int
nam__lock_try_await(struct nam_worker *worker, struct nam_gaddr at, uint64_t old, uint64_t word,
	void *image, uint32_t bytes, uint64_t *ret_seen)
{
	struct attempt attempt = {
		.at = at,
		.free_word = old,
		.word = word,
		.old = nam_buffer_take(worker, 8),
		.image = image,
		.bytes = bytes,
	};
	bool taken = false;
	int rc;

	if (!attempt.old)
		return -ENOMEM;
	nam__unqueued_word_note(worker, at, word, false);
	/* Callers try seldom, so this does not wait for a client whose turn it is (C18). */
	for (unsigned tries = 0;; tries++) {
		rc = try_lock_and_read(worker, &attempt); /* SUSPENDS */
		taken = !rc && *attempt.old == attempt.free_word;
		if (rc || taken || nam_lock_held(old) || nam_lock_held(*attempt.old) ||
			tries == FREE_TRIES_MAX)
			break;
		attempt.free_word = *attempt.old;
	}
	*ret_seen = taken ? old : *attempt.old;
	/* Free now, but not taken: it was reserved before. */
	if (!taken && *ret_seen == old)
		*ret_seen = attempt.free_word;
	if (taken)
		nam__unqueued_word_note(worker, at, word, true);
	else
		nam__unqueued_word_forget(worker, at, word);
	nam_buffer_give(worker, attempt.old, 8);
	return rc;
}

/* C24: `dead` is the word of a client that is dead.  0: it is this client's lock now. */
NAM_FIBER_FN static int
take_over(struct nam_worker *worker, const struct attempt *attempt, uint64_t dead)
{
	const struct nam__lock_recovery *recovery = attempt->recovery;
	int rc;

	if (!recovery)
		return -NAM_E_LOCK_ORPHANED;
	rc = recovery->take(worker, recovery->arg, attempt->at, dead, attempt->word,
		attempt->image); /* SUSPENDS */
	/* The slot knows of it from now on. */
	if (!rc)
		atomic_store_explicit(&attempt->slot->locked, true, memory_order_relaxed);
	nam__unqueued_word_forget(worker, attempt->at, attempt->word);
	if (!rc)
		*attempt->old = NAM_LOCK_FREE;
	return rc;
}

/* The time is up, and the word is free or reserved: 0, or others were quicker again. */
NAM_FIBER_FN static int
give_up_free(struct nam_worker *worker, struct attempt *attempt, uint64_t seen)
{
	int rc;

	attempt->free_word = seen;
	rc = try_lock_and_read(worker, attempt); /* SUSPENDS */
	if (rc)
		return rc;
	if (*attempt->old == seen) {
		*attempt->old = NAM_LOCK_FREE;
		atomic_store_explicit(&attempt->slot->locked, true, memory_order_relaxed);
		return 0;
	}
	return nam_diag_set(&worker->diag, -NAM_E_LOCK_TIMEOUT, "the lock word at region %u offset "
		"%llu keeps changing hands. Other clients were quicker each time",
		nam_gaddr_region(attempt->at), (unsigned long long)nam_gaddr_offset(attempt->at));
}

/*
 * The error that names the holder, or 0: this client has taken the word, since a dead holder may
 * have released it first.  -NAM_E_RESTART_LOCKED: it has changed hands, or another client repairs
 * the object and there is time (not `late`).
 */
NAM_FIBER_FN static int
give_up(struct nam_worker *worker, struct attempt *attempt, bool late)
{
	uint64_t seen = *attempt->old;
	struct nam__lock_holder holder;
	int rc, raise_rc;

	if (!nam_lock_held(seen))
		return give_up_free(worker, attempt, seen); /* SUSPENDS */
	rc = nam__lock_holder_query(worker, seen, &holder); /* SUSPENDS */
	if (rc)
		return rc;
	if (holder.dead) {
		attempt->free_word = NAM_LOCK_FREE;
		rc = try_lock_and_read(worker, attempt); /* SUSPENDS */
		if (!rc && *attempt->old == NAM_LOCK_FREE)
			atomic_store_explicit(&attempt->slot->locked, true, memory_order_relaxed);
		if (rc || *attempt->old == NAM_LOCK_FREE)
			return rc;
		if (*attempt->old != seen)
			return -NAM_E_RESTART_LOCKED;
		rc = take_over(worker, attempt, seen); /* SUSPENDS */
		if (rc == -NAM_E_LOCK_TIMEOUT && !late)
			rc = -NAM_E_RESTART_LOCKED;
		if (rc != -NAM_E_LOCK_TIMEOUT)
			return rc != -NAM_E_LOCK_ORPHANED ? rc :
				nam__lock_blame(worker, attempt->at, &holder);
	}
	/* C25: if the client that is waited for is stopped, its epoch slot is old from now on. */
	raise_rc = nam__epoch_add(worker, 1, &seen); /* SUSPENDS */
	if (raise_rc || rc == -NAM_E_LOCK_TIMEOUT)
		return raise_rc ? raise_rc : rc;
	return nam__lock_blame(worker, attempt->at, &holder);
}

/*
 * The word was found locked: whether the caller's time is up.  A word that changes is progress.  A
 * task that got the slot from one that saw the same word has waited with that one.
 */
static bool
look(const struct nam_worker *worker, const struct attempt *attempt, uint64_t now)
{
	uint64_t timeout_ns = worker->client->options.lock_timeout_ms * 1000000ull;
	struct nam__lock_slot *slot = attempt->slot;
	uint64_t waited_ns = now - attempt->start_ns, since_ns = now - slot->looked_ns;

	slot->looked_ns = now;
	if (*attempt->old == slot->seen_word) {
		slot->waited_ns += since_ns < LOOK_MAX_NS ? since_ns : LOOK_MAX_NS;
	} else {
		slot->seen_word = *attempt->old;
		slot->seen_since_ns = now;
		slot->waited_ns = 0;
	}
	/* C14: the wait ends, even if the word keeps changing. */
	return (NAM_GUARD(LOCK_TIMEOUT) && waited_ns > TIMEOUTS_MAX * timeout_ns) ||
	       (waited_ns > timeout_ns && slot->waited_ns > timeout_ns);
}

NAM_FIBER_FN static int
remote_lock(struct nam_worker *worker, struct attempt *attempt)
{
	struct nam__lock_slot *slot = attempt->slot;
	uint64_t backoff_ns = BACKOFF_MIN_NS;
	int rc;

	if (worker->peers && nam__lock_queue_begin(worker, attempt->number,
		nam_gaddr_untagged(attempt->at))) {
		attempt->start_ns = attempt->start_ns ?: nam_now_ns();
		(void)nam__lock_queue_wait(worker, attempt->number,
			nam_gaddr_untagged(attempt->at), 0, 0); /* SUSPENDS */
		attempt->free_word = nam__lock_queue_turn(worker, attempt->number, NAM_LOCK_FREE);
	}
	for (;;) {
		uint64_t began = nam_now_ns(), now, seen;
		struct nam__lock_holder holder;
		bool late;

		rc = try_lock_and_read(worker, attempt); /* SUSPENDS */
		if (!rc && *attempt->old == attempt->free_word) {
			*attempt->old = NAM_LOCK_FREE;
			atomic_store_explicit(&slot->locked, true, memory_order_relaxed);
			if (atomic_load_explicit(&slot->queued, memory_order_relaxed))
				nam__lock_queue_taken(worker, attempt->number); /* SUSPENDS */
			return 0;
		}
		if (rc)
			return rc;
		nam__count_restart(worker, NAM_RESTART_LOCKED);
		seen = *attempt->old;
		now = nam_now_ns();
		if (!attempt->start_ns)
			attempt->start_ns = now;
		late = look(worker, attempt, now);
		holder.dead = false;
		if (nam_lock_held(seen) && now - slot->seen_since_ns > NAM__SUSPECT_NS) {
			rc = nam__lock_holder_query(worker, seen, &holder); /* SUSPENDS */
			if (!rc && !holder.dead)
				slot->seen_since_ns = now;
		}
		if (holder.dead || late) {
			rc = give_up(worker, attempt, late); /* SUSPENDS */
			if (rc != -NAM_E_RESTART_LOCKED)
				return rc;
			/* If another client repairs the object, that takes a while. */
			slot->seen_since_ns = nam_now_ns();
		}
		if (seen == NAM_LOCK_FREE ||
			(!nam_lock_held(seen) && nam_lock_owner(seen) == worker->client->id)) {
			attempt->free_word = seen;
			continue;
		}
		/* C18: after this wait, the client for which it is reserved has had its time. */
		attempt->free_word = nam_lock_held(seen) || !NAM_GUARD(RESERVED_LEFT) ?
			NAM_LOCK_FREE : seen;
		if (nam__lock_queue_wait(worker, attempt->number,
			    nam_gaddr_untagged(attempt->at), seen, now - began)) { /* SUSPENDS */
			attempt->free_word = nam__lock_queue_turn(worker, attempt->number,
				attempt->free_word);
			continue;
		}
		nam__pause_await(worker, backoff_ns / 2 +
			nam_rng_below(&worker->rng, backoff_ns)); /* SUSPENDS */
		if (backoff_ns < BACKOFF_MAX_NS)
			backoff_ns *= 2;
	}
}

int
nam__lock_read_await(struct nam_worker *worker, struct nam_gaddr at, void *image, uint32_t bytes,
	const struct nam__lock_recovery *recovery, struct nam__lock *ret_lock)
{
	return nam__lock_change_await(worker, at, image, bytes, NULL, recovery,
		ret_lock); /* SUSPENDS */
}

int
nam__lock_change_await(struct nam_worker *worker, struct nam_gaddr at, void *image, uint32_t bytes,
	struct nam__lock_request *request, const struct nam__lock_recovery *recovery,
	struct nam__lock *ret_lock)
{
	struct nam_client *client = worker->client;
	struct nam_gaddr word_at = nam_gaddr_untagged(at);
	uint32_t number = nam__lock_slot_number(word_at);
	struct nam__lock_slot *slot = &client->locks->slots[number];
	int rc = nam__change_check(worker);
	struct attempt attempt = {
		.slot = slot,
		.number = number,
		.at = at,
		.old = rc ? NULL : nam_buffer_take(worker, 8),
		.image = image,
		.bytes = bytes,
		.recovery = recovery,
	};

	if (!attempt.old)
		return rc ? rc : -ENOMEM;
	if (request)
		request->at = at;
	if (!slot_enter(worker, slot, request, &attempt.start_ns)) { /* SUSPENDS */
		nam_buffer_give(worker, attempt.old, 8);
		return NAM__LOCK_COMBINED;
	}
	/* C14: no task here wants that word, and other clients may wait for it. */
	if (slot->handed && atomic_load_explicit(&slot->word_at, memory_order_relaxed) !=
			word_at.raw) {
		rc = handed_release(worker, slot); /* SUSPENDS */
		if (rc)
			goto leave_slot;
	}
	atomic_store_explicit(&slot->at, word_at.raw, memory_order_relaxed);
	if (slot->handed) {
		/* C10: it was handed over.  C11: the CAS that took it came before this READ. */
		attempt.word = atomic_load_explicit(&slot->word, memory_order_relaxed);
		rc = nam_read_await(worker, at, image, bytes); /* SUSPENDS */
		if (rc) {
			handed_release(worker, slot); /* SUSPENDS */
			goto leave_slot;
		}
		slot->handed = false;
	} else {
		slot->handovers = 0;
		attempt.word = nam__lock_word_new(worker);
		nam__lock_word_set(slot, word_at, attempt.word);
		rc = remote_lock(worker, &attempt); /* SUSPENDS */
		if (rc)
			goto leave_slot;
	}
	nam_race_point("lock.taken");
	*ret_lock = (struct nam__lock){
		.at = word_at,
		.word = attempt.word,
		.old = attempt.old,
		.slot = number,
	};
	return 0;

leave_slot:
	atomic_store_explicit(&slot->locked, false, memory_order_relaxed);
	if (atomic_load_explicit(&slot->queued, memory_order_relaxed))
		nam__lock_queue_pass(worker, number, NAM_LOCK_FREE);
	nam__lock_slot_leave(worker, slot);
	nam_buffer_give(worker, attempt.old, 8);
	return rc;
}

static bool
in_vain(struct nam_worker *worker, const struct nam__lock *lock)
{
	uint16_t slot = nam__server_slot(worker->client, lock->at);

	return slot != NAM__NO_SLOT && nam__posted_in_vain(worker, slot, lock->moves);
}

int
nam__lock_missed(struct nam_worker *worker, const struct nam__lock *lock, int rc)
{
	/* C32: the caller goes for it anew, at the backup. */
	if (in_vain(worker, lock)) {
		rc = 0;
	/* Taken, but the READ did not show it: give it back, for the next client. */
	} else if (!rc && *lock->old == NAM_LOCK_FREE) {
		nam__count_restart(worker, NAM_RESTART_ORDER);
		rc = nam__lock_word_cas(worker, lock->at, lock->word, NAM_LOCK_FREE,
			lock->old); /* SUSPENDS */
		if (!rc && *lock->old != lock->word && !in_vain(worker, lock))
			rc = -NAM_E_FENCED;
	} else if (!rc) {
		nam__count_restart(worker, NAM_RESTART_LOCKED);
		if (worker->peers)
			nam__lock_queue_missed(worker, lock->slot, *lock->old);
	}
	nam__lock_slot_leave(worker, &worker->client->locks->slots[lock->slot]);
	nam_buffer_give(worker, lock->old, 8);
	return rc ? rc : -NAM_E_RESTART_LOCKED;
}

int
nam__unlock_await(struct nam__doorbell *doorbell, struct nam__lock *lock)
{
	return nam__unlock_quickly(doorbell, lock); /* SUSPENDS */
}

/* ---- a word that one client at a time has ---------------------------------------------------- */

/* -EAGAIN: it is not the word any more that it was. */
NAM_FIBER_FN static int
try(struct nam_worker *worker, struct nam_gaddr at, uint32_t offset, uint64_t word,
	uint64_t *ret_dead, bool *ret_fencing)
{
	struct nam__lock_holder holder;
	uint64_t held, seen;
	int rc;

	*ret_dead = NAM_LOCK_FREE;
	*ret_fencing = false;
	rc = nam__word_cas(worker, at, offset, NAM_LOCK_FREE, word, &held); /* SUSPENDS */
	/* C27: without the word there is no work. */
	if (rc || held == NAM_LOCK_FREE || !NAM_GUARD(COLLECTOR_WORD))
		return rc;
	nam_race_point("owner.seen");
	rc = nam__lock_holder_query(worker, held, &holder); /* SUSPENDS */
	if (rc)
		return rc;
	*ret_fencing = holder.fencing;
	nam_race_point("owner.asked");
	/* C27: the word of a living owner stays. */
	if (NAM_GUARD(OWNER_ALIVE) && !holder.dead)
		return nam__lock_blame(worker, at, &holder);
	rc = nam__word_cas(worker, at, offset, held, word, &seen); /* SUSPENDS */
	/* The owner left before it ended, and may be back; or another client has succeeded it. */
	if (!rc && seen != held)
		return -EAGAIN;
	if (!rc)
		*ret_dead = held;
	return rc;
}

int
nam__owner_word_enter(struct nam_worker *worker, struct nam_gaddr at, uint32_t offset,
	uint64_t timeout_ns, uint64_t *ret_word, uint64_t *ret_dead)
{
	uint64_t waited_ns, start_ns = nam_now_ns();
	uint64_t fencing_ns = worker->client->options.lock_timeout_ms * 1000000ull;
	bool fencing;
	int rc;

	*ret_word = nam__lock_word_new(worker);
	for (unsigned changes = 0; changes < OWNERS_MAX;) {
		rc = try(worker, at, offset, *ret_word, ret_dead, &fencing); /* SUSPENDS */
		changes += rc == -EAGAIN;
		if (rc == -EAGAIN)
			continue;
		waited_ns = nam_now_ns() - start_ns;
		if (rc != -NAM_E_LOCK_TIMEOUT || waited_ns >=
				(fencing && fencing_ns > timeout_ns ? fencing_ns : timeout_ns))
			return rc;
		nam__pause_await(worker, OWNER_PAUSE_NS); /* SUSPENDS */
	}
	return nam_diag_set(&worker->diag, -NAM_E_LOCK_TIMEOUT, "the word at region %u offset %llu "
		"has had %u owners that died meanwhile", nam_gaddr_region(at),
		(unsigned long long)nam_gaddr_offset(at) + offset, OWNERS_MAX);
}

int
nam__owner_word_leave(struct nam_worker *worker, struct nam_gaddr at, uint32_t offset,
	uint64_t word)
{
	uint64_t seen;
	/* C27: only the owner's own word is given up. */
	int rc = nam__word_cas(worker, at, offset, word, NAM_LOCK_FREE,
		&seen); /* SUSPENDS */

	return rc || seen == word ? rc : -NAM_E_FENCED;
}
