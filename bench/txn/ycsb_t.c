/* SPDX-License-Identifier: Apache-2.0 */
/* ycsb_t.c -- transactions that read some of YCSB's records, or read each and add 1 to it. */
#include "txn.h"

enum kind { READ, UPDATE };

static const char *const names[] = { "read", "update", NULL };

static void
draw(struct requests_part *part, struct txn_room *room)
{
	uint64_t numbers[NAM_TXN_RECORDS_MAX];

	room->count = requests_draw_some(part->bench, nam_rng_next(&part->rng), numbers);
	room->kind = requests_reads(part) ? READ : UPDATE;
	for (uint32_t i = 0; i < room->count; i++) {
		room->records[i].number = numbers[i];
		room->records[i].update = room->kind == UPDATE;
	}
}

static void
apply(struct txn_room *room)
{
	for (uint32_t i = 0; i < room->count; i++) {
		room->records[i].word += room->kind == UPDATE;
		room->records[i].writes = room->kind == UPDATE;
	}
}

const struct txn_workload txn_ycsb_t = {
	.name = "ycsb-t",
	.records = "records",
	.words = "counts",
	.kinds = names,
	.records_per_key = 1,
	.draw = draw,
	.apply = apply,
};
