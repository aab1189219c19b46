/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpce.c -- the customer-position transaction of TPC-E, as the DrTM+H paper runs it: read-only, for
 * distributed reads.
 *
 * It reads a customer's profile, then the customer's accounts, then the last price of each security
 * in them.  It adds up the values of the accounts.  Prices stay, so that each can be checked.  The
 * history of trades (frame 2) is left out.
 */
#include "rows.h"

#include <errno.h>
#include <stdlib.h>

#define TIERS 3u
#define ACCOUNTS_MAX 10u		/* of a customer */
#define HOLDINGS_MAX 18u		/* of an account */
#define SECURITIES_PER_1000 685u	/* customers */
#define PACKED __attribute__((packed))

enum table { CUSTOMER = 1, ACCOUNT, LAST_TRADE };

/* 20 + 4 + 25 + 20 + 1 + 1 + 1 + 8 + 8 + 4 * 21 + 2 * 50 + 1 = 273 bytes. */
struct PACKED customer {
	char tax_id[20], status[4], last[25], first[20], middle, gender;
	uint8_t tier;
	uint64_t born, address;
	char phones[4][21], emails[2][50];
	uint8_t accounts;		/* how many */
};

/* 8 + 8 + 50 + 1 + 8 + 1 + 18 * 8 = 220 bytes, with its holdings. */
struct PACKED account {
	uint64_t broker, customer;
	char name[50];
	uint8_t tax_status;
	int64_t balance;
	uint8_t holdings_count;
	struct PACKED holding {
		uint32_t security, quantity;
	} holdings[HOLDINGS_MAX];
};

/* 8 + 8 + 8 + 8 = 32 bytes. */
struct PACKED last_trade {
	uint64_t when;
	int64_t price, open;
	uint64_t volume;
};
_Static_assert(sizeof(struct customer) == 273 && sizeof(struct account) == 220 &&
	sizeof(struct last_trade) == 32, "as derived");
_Static_assert(sizeof(struct customer) <= ROWS_BYTES_MAX, "the longest row");
_Static_assert(1 + ACCOUNTS_MAX * (1 + HOLDINGS_MAX) <= NAM_TXN_RECORDS_MAX, "one transaction");

static const char *const names[] = { "customer_position", NULL };

struct room {
	struct rows_room rows;
	uint32_t customer;
	int64_t worth;			/* of all accounts */
	uint32_t wrong;			/* prices */
};

static uint32_t
securities_of(const struct requests *bench)
{
	uint64_t count = bench->options.keys * SECURITIES_PER_1000 / 1000;

	return (uint32_t)(count > HOLDINGS_MAX ? count : HOLDINGS_MAX);
}

static int64_t
price_of(uint32_t security)
{
	struct nam_rng rng = nam_rng_seed(security);

	return (int64_t)(100 + nam_rng_below(&rng, 9900));
}

/* ---- loading --------------------------------------------------------------------------------- */

/* Customers of tier 1 have 1 to 4 accounts, of tier 2 2 to 8, of tier 3 5 to 10. */
static uint8_t
accounts_draw(struct nam_rng *rng, uint8_t tier)
{
	static const uint8_t least[] = { 1, 2, 5 }, most[] = { 4, 8, 10 };

	return (uint8_t)(least[tier - 1] + nam_rng_below(rng, most[tier - 1] - least[tier - 1] +
		1u));
}

NAM_FIBER_FN static int
load_account(struct rows_room *room, const struct requests *bench, struct nam_rng *rng,
	uint32_t customer, uint8_t number)
{
	uint32_t securities = securities_of(bench);
	uint32_t security = (uint32_t)nam_rng_below(rng, securities);
	struct account account = { .customer = customer,
		.balance = (int64_t)nam_rng_below(rng, 1000000),
		.holdings_count = (uint8_t)(1 + nam_rng_below(rng, HOLDINGS_MAX)) };

	/* Different ones, all over the market. */
	for (uint32_t i = 0; i < account.holdings_count; i++) {
		account.holdings[i] = (struct holding){ security,
			(uint32_t)(100 * (1 + nam_rng_below(rng, 8))) };
		security = (security + 1 + (uint32_t)nam_rng_below(rng,
			securities / HOLDINGS_MAX)) % securities;
	}
	return rows_load(room, rows_key(ACCOUNT, 0, number, customer), &account,
		sizeof(account)); /* SUSPENDS */
}

NAM_FIBER_FN static int
load_customer(struct rows_room *room, const struct requests *bench, uint32_t number)
{
	struct nam_rng rng = nam_rng_seed(number);
	struct customer customer = { .tier = (uint8_t)(1 + nam_rng_below(&rng, TIERS)) };
	int rc;

	customer.accounts = accounts_draw(&rng, customer.tier);
	rc = rows_load(room, rows_key(CUSTOMER, 0, 0, number), &customer,
		sizeof(customer)); /* SUSPENDS */
	for (uint8_t i = 0; i < customer.accounts && !rc; i++)
		rc = load_account(room, bench, &rng, number, i); /* SUSPENDS */
	return rc;
}

static void
draw(struct requests_part *part, void *arg)
{
	struct room *room = arg;

	room->rows.kind = 0;
	room->customer = (uint32_t)nam_rng_below(&part->rng, part->bench->options.keys);
}

/* ---- the transaction ------------------------------------------------------------------------- */

NAM_FIBER_FN static int
position(struct nam_txn *txn, void *arg)
{
	const struct account *accounts[ACCOUNTS_MAX];
	struct room *room = arg;
	const struct customer *customer = rows_want(&room->rows,
		rows_key(CUSTOMER, 0, 0, room->customer), sizeof(*customer));
	uint32_t first;
	int rc = rows_read(&room->rows, txn); /* SUSPENDS */

	for (uint8_t i = 0; !rc && i < customer->accounts; i++)
		accounts[i] = rows_want(&room->rows, rows_key(ACCOUNT, 0, i, room->customer),
			sizeof(*accounts[i]));
	if (!rc)
		rc = rows_read(&room->rows, txn); /* SUSPENDS */
	first = room->rows.count;
	for (uint8_t i = 0; !rc && i < customer->accounts; i++)
		for (uint8_t k = 0; k < accounts[i]->holdings_count; k++)
			(void)rows_want(&room->rows, rows_key(LAST_TRADE, 0, 0,
				accounts[i]->holdings[k].security), sizeof(struct last_trade));
	if (!rc)
		rc = rows_read(&room->rows, txn); /* SUSPENDS */
	room->worth = 0;
	room->wrong = 0;
	for (uint8_t i = 0; !rc && i < customer->accounts; i++) {
		room->worth += accounts[i]->balance;
		for (uint8_t k = 0; k < accounts[i]->holdings_count; k++) {
			const struct last_trade *trade = (const void *)room->rows.rows[first++];
			const struct holding *holding = &accounts[i]->holdings[k];

			room->worth += holding->quantity * trade->price;
			room->wrong += trade->price != price_of(holding->security);
		}
	}
	return rc;
}

NAM_FIBER_FN static int
run(void *arg)
{
	struct room *room = arg;
	int rc = rows_run(&room->rows, position); /* SUSPENDS */

	if (!rc && room->wrong)
		findings_wrong("a customer-position read %u prices that no transaction wrote",
			room->wrong);
	return rc;
}

/* ---- the benchmark --------------------------------------------------------------------------- */

static int
begin(struct requests *bench, struct nam_txn_store_options *options)
{
	options->value_bytes_max = sizeof(struct customer);
	options->records = bench->options.keys * (1 + ACCOUNTS_MAX / 2) + securities_of(bench);
	return 0;
}

static void
end(struct requests *bench)
{
	(void)bench;
}

/* Each thread loads its share; then each reads all, so that its cache knows where they are. */
NAM_FIBER_FN static int
pass(struct requests_part *part, void *arg)
{
	const unsigned me = part->member->number, members = thread_pool_size(session.pool);
	const struct requests *bench = part->bench;
	struct room *room = arg;
	struct last_trade trade = { .when = 1 };
	int rc = 0;

	for (uint32_t i = me; i < securities_of(bench) && bench->pass == TXN_PASS_LOAD && !rc;
		i += members) {
		trade.price = trade.open = price_of(i);
		rc = rows_load(&room->rows, rows_key(LAST_TRADE, 0, 0, i), &trade,
			sizeof(trade)); /* SUSPENDS */
	}
	for (uint32_t i = me; i < bench->options.keys && bench->pass == TXN_PASS_LOAD && !rc;
		i += members)
		rc = load_customer(&room->rows, bench, i); /* SUSPENDS */
	if (!rc && bench->pass == TXN_PASS_LOAD)
		rc = rows_load_end(&room->rows); /* SUSPENDS */
	for (room->customer = 0; room->customer < bench->options.keys && !rc &&
		bench->pass == TXN_PASS_WARM; room->customer++)
		rc = run(room); /* SUSPENDS */
	return rc;
}

static void
print(const struct requests *bench)
{
	printf("  workload    %s: %llu customers, %u securities\n", rows_tpce.name,
		(unsigned long long)bench->options.keys, securities_of(bench));
}

static void
json(const struct requests *bench, cJSON *object)
{
	report_number(object, "keys", (double)bench->options.keys);
}

const struct rows_workload rows_tpce = {
	.name = "tpce-customer-position",
	.kinds = names,
	.room_bytes = sizeof(struct room),
	.begin = begin,
	.end = end,
	.pass = pass,
	.draw = draw,
	.run = run,
	.print = print,
	.json = json,
};
