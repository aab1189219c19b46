/* SPDX-License-Identifier: Apache-2.0 */
/* bench.c -- nam-bench txn --workload tpcc and tpcc-new-order. */
#include "tpcc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "bench/bench.h"

#define ORDER_ROWS 12u			/* itself, a new order, and lines */
#define ORDERS_PER_SECOND 100000	/* about, of a thread */
#define ORDERS_EXPECTED_MAX 500000

static const char *const names[] = { "new_order", "payment", "order_status", "delivery",
	"stock_level", NULL };
static const unsigned percents[TPCC_KINDS] = { 45, 43, 4, 4, 4 };

struct state {
	struct tpcc tpcc;
	uint32_t payments[];		/* of each thread */
};

static struct state *
state_of(const struct requests *bench)
{
	return bench->rows;
}

/* New rows to be expected. */
static uint64_t
growth_of(const struct requests_options *o)
{
	double orders = o->run.ops ? (double)o->run.ops :
		o->run.seconds * ORDERS_PER_SECOND * thread_pool_size(session.pool);

	return (uint64_t)(orders < ORDERS_EXPECTED_MAX ? orders : ORDERS_EXPECTED_MAX) *
		ORDER_ROWS;
}

static int
begin_at(struct requests *bench, bool all, struct nam_txn_store_options *options)
{
	const struct requests_options *o = &bench->options;
	struct state *state = calloc(1, sizeof(*state) +
		thread_pool_size(session.pool) * sizeof(state->payments[0]));
	struct tpcc *tpcc = state ? &state->tpcc : NULL;

	bench->rows = state;
	if (!state)
		return -ENOMEM;
	tpcc->scale = (struct tpcc_scale){ o->warehouses, o->items, o->customers, all };
	tpcc->remote_percent = o->remote_percent;
	tpcc->distributed = !all && o->warehouses > 1;
	tpcc->items = calloc(o->items, sizeof(*tpcc->items));
	tpcc->oldest = calloc(tpcc_units(tpcc), sizeof(*tpcc->oldest));
	tpcc->paid_there = calloc(tpcc_units(tpcc), sizeof(*tpcc->paid_there));
	tpcc->paid_by = calloc((size_t)tpcc_units(tpcc) * o->customers, sizeof(*tpcc->paid_by));
	tpcc_store_options(tpcc, options);
	options->records += growth_of(o);
	return tpcc->items && tpcc->oldest && tpcc->paid_there && tpcc->paid_by ? 0 : -ENOMEM;
}

static int
begin_all(struct requests *bench, struct nam_txn_store_options *options)
{
	return begin_at(bench, true, options);
}

static int
begin_new_orders(struct requests *bench, struct nam_txn_store_options *options)
{
	return begin_at(bench, false, options);
}

static void
end(struct requests *bench)
{
	struct state *state = state_of(bench);

	if (!state)
		return;
	free(state->tpcc.items);
	free(state->tpcc.oldest);
	free(state->tpcc.paid_there);
	free(state->tpcc.paid_by);
	free(state);
}

/* Each thread takes districts in turn; but all warm their caches for all. */
NAM_FIBER_FN static int
pass(struct requests_part *part, void *arg)
{
	const unsigned me = part->member->number, members = thread_pool_size(session.pool);
	struct state *state = state_of(part->bench);
	const enum txn_pass which = part->bench->pass;
	struct tpcc_room *room = arg;
	int rc = 0;

	room->tpcc = &state->tpcc;
	for (uint32_t i = 0; i < tpcc_units(&state->tpcc) && !rc && !bench_signal; i++) {
		bool mine = i % members == me;

		if (which == TXN_PASS_WARM)
			rc = tpcc_warm(room, i, mine); /* SUSPENDS */
		else if (mine && which == TXN_PASS_LOAD)
			rc = tpcc_load(room, i); /* SUSPENDS */
		else if (mine && which == TXN_PASS_SUM)
			rc = tpcc_check_loaded(room, i); /* SUSPENDS */
		else if (mine)
			rc = tpcc_check_district(room, i); /* SUSPENDS */
	}
	if (which == TXN_PASS_SUM && !rc)
		rc = tpcc_check_paid(room, me, 0, state->payments[me], true); /* SUSPENDS */
	return rc;
}

static void
checked(struct requests *bench)
{
	tpcc_check_all(&state_of(bench)->tpcc);
}

/* A thread has warehouses of its own, if there are enough. */
static uint32_t
home_of(struct requests_part *part)
{
	const uint32_t warehouses = state_of(part->bench)->tpcc.scale.warehouses;
	const unsigned me = part->member->number, members = thread_pool_size(session.pool);

	if (me >= warehouses)
		return 1 + me % warehouses;
	return 1 + me + members * (uint32_t)nam_rng_below(&part->rng,
		1 + (warehouses - 1 - me) / members);
}

static void
draw(struct requests_part *part, void *arg)
{
	struct state *state = state_of(part->bench);
	uint64_t dice = nam_rng_below(&part->rng, 100);
	struct tpcc_room *room = arg;

	room->tpcc = &state->tpcc;
	room->w = home_of(part);
	room->rows.kind = TPCC_NEW_ORDERS;
	if (state->tpcc.scale.all)
		for (; dice >= percents[room->rows.kind]; room->rows.kind++)
			dice -= percents[room->rows.kind];
	tpcc_draw(room, &part->rng);
	if (room->rows.kind == TPCC_PAYMENTS)
		room->history_key = tpcc_history_key(part->member->number,
			state->payments[part->member->number]++);
}

NAM_FIBER_FN static int
run(void *room)
{
	return tpcc_run(room); /* SUSPENDS */
}

static void
print(const struct requests *bench)
{
	const struct tpcc *tpcc = &state_of(bench)->tpcc;

	printf("  workload    %s: %u warehouses of %u items and 10 districts of %u customers\n",
		tpcc->scale.all ? rows_tpcc.name : rows_tpcc_new_order.name,
		tpcc->scale.warehouses, tpcc->scale.items, tpcc->scale.customers);
	printf("  mix         %s; %u %% of the lines from other warehouses%s\n",
		tpcc->scale.all ? "all five transactions" : "new orders alone",
		tpcc->remote_percent, tpcc->distributed ? ", and one of each order" : "");
	printf("  consistency conditions 1 to 12 of clause 3.3.2 %s\n",
		atomic_load(&tpcc->violated) ? "are violated" : "hold");
}

static void
json(const struct requests *bench, cJSON *object)
{
	const struct tpcc *tpcc = &state_of(bench)->tpcc;

	report_number(object, "warehouses", tpcc->scale.warehouses);
	report_number(object, "items", tpcc->scale.items);
	report_number(object, "customers", tpcc->scale.customers);
	report_number(object, "remote_percent", tpcc->remote_percent);
	report_number(object, "orders", (double)atomic_load(&tpcc->ordered));
	report_number(object, "violated", atomic_load(&tpcc->violated));
}

#define WORKLOAD(text, peak, begins)                                                                \
	{                                                                                           \
		.name = (text), .kinds = names, .room_bytes = sizeof(struct tpcc_room),             \
		.paper = (peak), .begin = (begins), .end = end, .pass = pass,                       \
		.checked = checked, .draw = draw, .run = run, .print = print, .json = json,         \
	}

const struct rows_workload rows_tpcc = WORKLOAD("tpcc", NULL, begin_all);
const struct rows_workload rows_tpcc_new_order = WORKLOAD("tpcc-new-order", "7.3 M",
	begin_new_orders);
