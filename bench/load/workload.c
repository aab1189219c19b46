/* SPDX-License-Identifier: Apache-2.0 */
#include "workload.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const workload_op_names[OPS_COUNT] = {
#define WORKLOAD_OP_NAME(name, text) text,
	WORKLOAD_OPS(WORKLOAD_OP_NAME)
#undef WORKLOAD_OP_NAME
};

const char *const distribution_names[] = { "uniform", "zipfian", "latest", NULL };

#define SHARE_TEXT "lookup, insert, update, upsert, delete, scan and rmw"

static const struct {
	const char *name;
	const char *mix;
	enum distribution distribution;
	double selectivity;
	uint32_t scan_length;
	int scan_uniform;
} known[] = {
	/* Cooper et al., "Benchmarking cloud serving systems with YCSB", SoCC 2010; its code. */
	{ "ycsb-a", "lookup=50,update=50", DISTRIBUTION_ZIPFIAN, 0, 0, 0 },
	{ "ycsb-b", "lookup=95,update=5", DISTRIBUTION_ZIPFIAN, 0, 0, 0 },
	{ "ycsb-c", "lookup=100", DISTRIBUTION_ZIPFIAN, 0, 0, 0 },
	{ "ycsb-d", "lookup=95,insert=5", DISTRIBUTION_LATEST, 0, 0, 0 },
	{ "ycsb-e", "scan=95,insert=5", DISTRIBUTION_ZIPFIAN, 0, 100, 1 },
	{ "ycsb-f", "lookup=50,rmw=50", DISTRIBUTION_ZIPFIAN, 0, 0, 0 },
	/* Ziegler et al., "Designing distributed tree-based index structures ...", SIGMOD 2019. */
	{ "nam-a", "lookup=100", DISTRIBUTION_UNIFORM, 0, 0, 0 },
	{ "nam-b", "scan=100", DISTRIBUTION_UNIFORM, 0.001, 0, 0 },
	{ "nam-c", "lookup=95,insert=5", DISTRIBUTION_UNIFORM, 0, 0, 0 },
	{ "nam-d", "lookup=50,insert=50", DISTRIBUTION_UNIFORM, 0, 0, 0 },
	/* Workloads above, by the names of that paper's figures. */
	{ "tree-a", "lookup=100", DISTRIBUTION_UNIFORM, 0, 0, 0 },
	{ "tree-b", "scan=100", DISTRIBUTION_UNIFORM, 0.001, 0, 0 },
	{ "tree-c", "lookup=95,insert=5", DISTRIBUTION_UNIFORM, 0, 0, 0 },
	{ "tree-d", "lookup=50,insert=50", DISTRIBUTION_UNIFORM, 0, 0, 0 },
};

#define SCAN_LENGTH_DEFAULT 100u

int
workload_find(const char *name, struct workload *ret_workload, struct nam_diag *diag)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		int rc;

		if (strcmp(known[i].name, name) != 0)
			continue;
		rc = workload_parse_mix(known[i].mix, ret_workload, diag);
		if (rc)
			return rc;
		snprintf(ret_workload->name, sizeof(ret_workload->name), "%s", name);
		ret_workload->distribution = known[i].distribution;
		ret_workload->selectivity = known[i].selectivity;
		if (known[i].scan_length)
			ret_workload->scan_length = known[i].scan_length;
		ret_workload->scan_uniform = known[i].scan_uniform;
		return 0;
	}
	return nam_diag_set(diag, -EINVAL,
		"there is no workload '%s': choose one of ycsb-a to ycsb-f, nam-a to nam-d and "
		"tree-a to tree-d, or say --mix", name);
}

/* "lookup=95"; *seen has a bit for each operation that came before. */
static int
parse_share(const char *item, size_t length, unsigned *seen, struct workload *workload,
	struct nam_diag *diag)
{
	const char *equals = memchr(item, '=', length);
	char *end;
	double share;

	if (!equals)
		return nam_diag_set(diag, -EINVAL, "'%.*s' is not of the form OPERATION=SHARE",
			(int)length, item);
	share = strtod(equals + 1, &end);
	if (end == equals + 1 || end != item + length || !(share >= 0 && share <= 1e9))
		return nam_diag_set(diag, -EINVAL, "'%.*s': the share must be a number from 0 on",
			(int)length, item);
	for (int op = 0; op < OPS_COUNT; op++) {
		const char *name = workload_op_names[op];

		if (strlen(name) == (size_t)(equals - item) &&
			!strncmp(name, item, (size_t)(equals - item))) {
			if (*seen & 1u << op)
				return nam_diag_set(diag, -EINVAL,
					"'%s' is said twice: give each operation one share", name);
			*seen |= 1u << op;
			workload->share[op] = share;
			return 0;
		}
	}
	return nam_diag_set(diag, -EINVAL,
		"there is no operation '%.*s': the operations are " SHARE_TEXT,
		(int)(equals - item), item);
}

int
workload_parse_mix(const char *text, struct workload *ret_workload, struct nam_diag *diag)
{
	struct workload workload = { .name = "mix", .scan_length = SCAN_LENGTH_DEFAULT };
	unsigned seen = 0;
	double sum = 0;

	for (const char *item = text; *item;) {
		size_t length = strcspn(item, ",");
		int rc = parse_share(item, length, &seen, &workload, diag);

		if (rc)
			return rc;
		item += length + (item[length] == ',');
	}
	for (int op = 0; op < OPS_COUNT; op++)
		sum += workload.share[op];
	if (!(sum > 0))
		return nam_diag_set(diag, -EINVAL, "the mix '%s' asks for no operation at all",
			text);
	for (int op = 0; op < OPS_COUNT; op++)
		workload.share[op] /= sum;
	*ret_workload = workload;
	return 0;
}

void
op_mix_init(struct op_mix *mix, const struct workload *workload)
{
	unsigned used = 0;
	double sum = 0;

	for (unsigned op = 0; op < OPS_COUNT; op++) {
		unsigned at;

		if (!(workload->share[op] > 0))
			continue;
		for (at = used++; at > 0; at--) {
			if (workload->share[mix->op[at - 1]] >= workload->share[op])
				break;
			mix->op[at] = mix->op[at - 1];
		}
		mix->op[at] = (uint8_t)op;
	}
	for (unsigned i = 0; i < used; i++) {
		sum += workload->share[mix->op[i]];
		mix->last[i] = (uint32_t)fmin(sum * 0x1p32, 0x1p32 - 1);
	}
	/* Rounding must not leave a value without an owner. */
	for (unsigned i = used ? used - 1 : 0; i < OPS_COUNT; i++) {
		mix->last[i] = UINT32_MAX;
		mix->op[i] = mix->op[used ? used - 1 : 0];
	}
}
