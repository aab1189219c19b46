/* SPDX-License-Identifier: Apache-2.0 */
/* random.c -- random numbers and texts (clauses 2.1.6 and 4.3.2), and the input of terminals. */
#include "tpcc.h"

#include <string.h>

/* NURand's constants.  C_LAST of the run is 100 more than that of the load (2.1.6.1). */
#define C_LAST_LOAD 17u
#define C_LAST_RUN 117u
#define C_CUSTOMER 259u
#define C_ITEM 7911u

#define BY_NAME_PERCENT 60u
#define HOME_PERCENT 85u		/* of payments */
#define ROLLED_BACK_PERCENT 1u

static uint32_t
nurand(struct nam_rng *rng, uint32_t a, uint32_t c, uint32_t low, uint32_t high)
{
	uint32_t drawn = tpcc_random(rng, 0, a) | tpcc_random(rng, low, high);

	return (drawn + c) % (high - low + 1) + low;
}

uint32_t
tpcc_random_customer(const struct tpcc *tpcc, struct nam_rng *rng)
{
	return nurand(rng, 1023, C_CUSTOMER, 1, tpcc->scale.customers);
}

uint32_t
tpcc_random_item(const struct tpcc *tpcc, struct nam_rng *rng)
{
	return nurand(rng, 8191, C_ITEM, 1, tpcc->scale.items);
}

uint32_t
tpcc_random_name(const struct tpcc *tpcc, struct nam_rng *rng, bool load)
{
	uint32_t names = tpcc->scale.customers < TPCC_NAMES ? tpcc->scale.customers : TPCC_NAMES;

	return nurand(rng, 255, load ? C_LAST_LOAD : C_LAST_RUN, 0, names - 1);
}

void
tpcc_last_name(uint32_t number, char ret_last[TPCC_LAST_BYTES])
{
	static const char *const syllables[] = { "BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE",
		"ANTI", "CALLY", "ATION", "EING" };
	char last[TPCC_LAST_BYTES + 1] = "";

	(void)snprintf(last, sizeof(last), "%s%s%s", syllables[number / 100 % 10],
		syllables[number / 10 % 10], syllables[number % 10]);
	memset(ret_last, 0, TPCC_LAST_BYTES);
	memcpy(ret_last, last, strlen(last));
}

void
tpcc_text(struct nam_rng *rng, char *text, size_t bytes)
{
	uint64_t drawn = 0;

	for (size_t i = 0; i < bytes; i++, drawn >>= 8) {
		if (i % sizeof(drawn) == 0)
			drawn = nam_rng_next(rng);
		text[i] = (char)('a' + drawn % 16);
	}
}

/* ---- what terminals say ---------------------------------------------------------------------- */

static uint32_t
other_warehouse(const struct tpcc *tpcc, struct nam_rng *rng, uint32_t w)
{
	uint32_t other = tpcc->scale.warehouses > 1 ?
		tpcc_random(rng, 1, tpcc->scale.warehouses - 1) : w;

	return other + (other >= w && tpcc->scale.warehouses > 1);
}

static void
draw_customer(struct tpcc_room *room, struct nam_rng *rng)
{
	room->c_w = room->w;
	room->c_d = room->d;
	room->c = 0;
	if (nam_rng_below(rng, 100) < BY_NAME_PERCENT)
		tpcc_last_name(tpcc_random_name(room->tpcc, rng, false), room->last);
	else
		room->c = tpcc_random_customer(room->tpcc, rng);
}

/* An item of no stock, the last one, makes the transaction roll back (2.4.1.4). */
static void
draw_lines(struct tpcc_room *room, struct nam_rng *rng)
{
	const struct tpcc *tpcc = room->tpcc;
	uint32_t distant;

	room->lines_count = tpcc_random(rng, TPCC_LINES_MIN, TPCC_LINES_MAX);
	distant = tpcc->distributed ? tpcc_random(rng, 0, room->lines_count - 1) : UINT32_MAX;
	for (uint32_t i = 0; i < room->lines_count; i++) {
		bool remote = i == distant || nam_rng_below(rng, 100) < tpcc->remote_percent;

		room->lines[i] = (struct tpcc_line){ .item = tpcc_random_item(tpcc, rng),
			.supply_w = remote ? other_warehouse(tpcc, rng, room->w) : room->w,
			.quantity = tpcc_random(rng, 1, 10) };
	}
	if (nam_rng_below(rng, 100) < ROLLED_BACK_PERCENT)
		room->lines[room->lines_count - 1].item = tpcc->scale.items + 1;
}

static void
draw_payment(struct tpcc_room *room, struct nam_rng *rng)
{
	draw_customer(room, rng);
	room->amount = tpcc_random(rng, 100, 500000);
	if (nam_rng_below(rng, 100) < HOME_PERCENT)
		return;
	room->c_w = other_warehouse(room->tpcc, rng, room->w);
	room->c_d = tpcc_random(rng, 1, TPCC_DISTRICTS);
}

void
tpcc_draw(struct tpcc_room *room, struct nam_rng *rng)
{
	room->d = tpcc_random(rng, 1, TPCC_DISTRICTS);
	room->date = nam_wall_ns() | 1;
	switch ((enum tpcc_kind)room->rows.kind) {
	case TPCC_NEW_ORDERS:
		room->c = tpcc_random_customer(room->tpcc, rng);
		draw_lines(room, rng);
		break;
	case TPCC_PAYMENTS:
		draw_payment(room, rng);
		break;
	case TPCC_STATUSES:
		draw_customer(room, rng);
		break;
	case TPCC_DELIVERIES:
		room->carrier = tpcc_random(rng, 1, 10);
		break;
	default:
		room->threshold = tpcc_random(rng, 10, 20);
		break;
	}
}
