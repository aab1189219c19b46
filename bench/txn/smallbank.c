/* SPDX-License-Identifier: Apache-2.0 */
/*
 * smallbank.c -- SmallBank: accounts with a checking and a savings balance, in cents (M. Alomari et
 * al., "The Cost of Serializability on Platforms That Use Snapshot Isolation", ICDE 2008).  As in
 * the DrTM+H paper, 4 % of the accounts get 90 % of the requests.
 *
 * A transaction that finds too little money commits without a write, so that what it found is
 * validated.
 */
#include "txn.h"

#define HOT_ACCOUNTS_PERCENT 4u
#define HOT_REQUESTS_PERCENT 90u
#define DRAWS_MAX 64u			/* for an account that is another one */

#define LOADED 1000000
#define DEPOSIT 130
#define PAYMENT 500
#define SAVING 2020
#define CHECK 500
#define OVERDRAFT 100			/* the fee of a check that is not covered */

enum kind {
	AMALGAMATE,
	BALANCE,
	DEPOSIT_CHECKING,
	SEND_PAYMENT,
	TRANSACT_SAVINGS,
	WRITE_CHECK,
	KINDS_COUNT
};

static const char *const names[] = { "amalgamate", "balance", "deposit_checking", "send_payment",
	"transact_savings", "write_check", NULL };

enum record { CHECKING, SAVINGS, OTHER_CHECKING };	/* the last: of another account */

#define KIND_RECORDS_MAX 3u

static const struct {
	unsigned percent;
	uint32_t count;
	uint32_t updates;		/* the first ones */
	enum record records[KIND_RECORDS_MAX];
} kinds[KINDS_COUNT] = {
	[AMALGAMATE] = { 15, 3, 3, { CHECKING, SAVINGS, OTHER_CHECKING } },
	[BALANCE] = { 15, 2, 0, { CHECKING, SAVINGS } },
	[DEPOSIT_CHECKING] = { 15, 1, 1, { CHECKING } },
	[SEND_PAYMENT] = { 25, 2, 2, { CHECKING, OTHER_CHECKING } },
	[TRANSACT_SAVINGS] = { 15, 1, 1, { SAVINGS } },
	[WRITE_CHECK] = { 15, 2, 1, { CHECKING, SAVINGS } },
};

static uint64_t
account_draw(const struct requests *bench, struct nam_rng *rng)
{
	uint64_t accounts = bench->options.keys;
	uint64_t hot = (accounts * HOT_ACCOUNTS_PERCENT + 99) / 100;

	return nam_rng_below(rng, 100) < HOT_REQUESTS_PERCENT
		? nam_rng_below(rng, hot) : hot + nam_rng_below(rng, accounts - hot);
}

static uint64_t
other_draw(const struct requests *bench, struct nam_rng *rng, uint64_t account)
{
	for (unsigned i = 0; i < DRAWS_MAX; i++) {
		uint64_t other = account_draw(bench, rng);

		if (other != account)
			return other;
	}
	return (account + 1) % bench->options.keys;
}

static void
draw(struct requests_part *part, struct txn_room *room)
{
	uint64_t dice = nam_rng_below(&part->rng, 100);
	uint64_t account = account_draw(part->bench, &part->rng);
	uint64_t other = other_draw(part->bench, &part->rng, account);

	for (room->kind = 0; dice >= kinds[room->kind].percent; room->kind++)
		dice -= kinds[room->kind].percent;
	room->count = kinds[room->kind].count;
	for (uint32_t i = 0; i < room->count; i++) {
		enum record record = kinds[room->kind].records[i];

		room->records[i].number = record == OTHER_CHECKING ? 2 * other
								   : 2 * account + record;
		room->records[i].update = i < kinds[room->kind].updates;
	}
}

static void
add(struct txn_record *record, int64_t amount)
{
	record->word += amount;
	record->writes = true;
}

static void
apply(struct txn_room *room)
{
	struct txn_record *r = room->records;

	switch ((enum kind)room->kind) {
	case AMALGAMATE:
		add(&r[2], r[0].word + r[1].word);
		add(&r[1], -r[1].word);
		add(&r[0], -r[0].word);
		break;
	case DEPOSIT_CHECKING:
		add(&r[0], DEPOSIT);
		break;
	case SEND_PAYMENT:
		if (r[0].word < PAYMENT)
			break;
		add(&r[0], -PAYMENT);
		add(&r[1], PAYMENT);
		break;
	case TRANSACT_SAVINGS:
		add(&r[0], SAVING);
		break;
	case WRITE_CHECK:
		add(&r[0], r[0].word + r[1].word < CHECK ? -CHECK - OVERDRAFT : -CHECK);
		break;
	default:
		break;
	}
}

const struct txn_workload txn_smallbank = {
	.name = "smallbank",
	.records = "accounts of two balances, 4 % of them in 90 % of the transactions",
	.words = "balances",
	.kinds = names,
	.paper = "90.4 M",
	.records_per_key = 2,
	.loaded = LOADED,
	.draw = draw,
	.apply = apply,
};
