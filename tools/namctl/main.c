/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- namctl: look after memory servers, indexes and stores from a shell. */
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "namctl.h"

static const char help[] =
	"Usage: namctl --cluster CLUSTER [OPTION]... COMMAND\n"
	"Look after memory servers, indexes and stores.  Text in, text out.\n"
	"\n"
	"  status                         the memory servers, one line each\n"
	"  index create NAME              an empty index\n"
	"        --key-bytes N            size of its keys, 8 (default) to 64\n"
	"        --non-unique             a key may occur with several payloads\n"
	"        --node-bytes N           power of two, 256 to 16384 (default 1024)\n"
	"        --head-interval N        leaves per head node, 0: none (default 32)\n"
	"        --design DESIGN          fine (default): one tree over all memory servers;\n"
	"                                 coarse: a tree on each; hybrid: leaves as fine, what is\n"
	"                                 above them as coarse\n"
	"        --partition HOW          of coarse and hybrid: range, hash (default) or\n"
	"                                 round-robin\n"
	"        --bounds KEYS            KEY,KEY,...: where the parts of the second, third,\n"
	"                                 ... memory server begin; it means range\n"
	"  index list                     names, one a line\n"
	"  index stat NAME                design, parts, size, height, fill, memory\n"
	"  index verify NAME              walk the tree, check its invariants\n"
	"  index drop NAME                give it up, and its memory back\n"
	"  gc NAME                        one pass of the garbage collector\n"
	"  load NAME FILE                 lines of KEY<TAB>PAYLOAD; - for standard input.  All\n"
	"                                 lines are checked before the first one is loaded\n"
	"        --replace                of keys that exist, replace the payload\n"
	"        --fill PERCENT           of leaves, when loaded in bulk, 50 to 100 (default 92)\n"
	"  get NAME KEY                   its payload, or payloads\n"
	"  put NAME KEY PAYLOAD           add, or replace the payload\n"
	"        --new                    add only\n"
	"  delete NAME KEY [PAYLOAD]      non-unique indexes need the payload\n"
	"  range NAME LOW HIGH            pairs from LOW to HIGH, both included; - leaves an\n"
	"                                 end open.  KEY<TAB>PAYLOAD, as load wants it\n"
	"        --limit N                at most N pairs\n"
	"        --reverse                downwards\n"
	"  kv create NAME                 an empty key-value store\n"
	"        --mode MODE              cache (default): what finds no room evicts others;\n"
	"                                 store: what finds no room is refused\n"
	"        --memory SIZE            of all memory servers together (default 64M)\n"
	"        --partitions N           of each memory server, 1 to 1024 (default 16, or as\n"
	"                                 many as the memory allows)\n"
	"  kv list                        names, one a line\n"
	"  kv stat NAME                   pairs, memory, hits, misses, evictions\n"
	"  kv get NAME KEY                its value\n"
	"  kv put NAME KEY VALUE          add, or replace the value; -: from standard input\n"
	"  kv delete NAME KEY             take it out\n"
	"  kv drop NAME                   give the store up, and its memory back\n"
	"  records list                   record stores, names, one a line\n"
	"  records stat NAME              records, memory\n"
	"  records collect NAME           give back what was replaced, and end what clients that\n"
	"                                 are gone have left half done\n"
	"  records drop NAME              give it up, and its memory back\n"
	"  table list                     tables, names, one a line\n"
	"  table stat NAME                columns, indexes, rows; reads all of them\n"
	"  table verify NAME              whether every row is in every index\n"
	"  table get NAME KEY             the row with that key\n"
	"  table scan NAME COLUMN [LOW [HIGH]]  rows in the order of a column that has an index,\n"
	"                                 its values from LOW to HIGH, both included; - leaves\n"
	"                                 an end open\n"
	"        --limit N                at most N rows\n"
	"  table drop NAME                give it up, and its memory back\n"
	"  doctor [FABRIC]                what this machine has for shm, tcp and verbs, what\n"
	"                                 is missing and what to do; needs no cluster\n"
	"        --root DIR               look at a copy of /sys, /proc and /dev instead\n"
	"\n"
	"  --cluster CLUSTER   shm:PATH,shm:PATH or @FILE (or the environment's NAM_CLUSTER)\n"
	"  --transport TRANSPORT  how requests travel: srq, mailbox, fetch or datagram (or the\n"
	"                      environment's NAM_TRANSPORT)\n"
	"  --key-type TYPE     how keys are written: u64, text (padded with zero bytes) or hex\n"
	"                      (all bytes); default u64 for keys of 8 bytes, else text.  Of kv\n"
	"                      and table: text (default) or hex, and values alike\n"
	"  --json              results as JSON\n"
	"  --quiet             no text where the exit status says it all\n"
	"  --help, --version\n"
	"\n"
	NAM_EXIT_HELP;

struct command {
	const char *group;		/* "index", or NULL */
	const char *name;
	int (*run)(struct ctl *ctl, char **args);
	int args_min, args_max;
	const char *args;
	bool finishes;			/* takes locks, so a signal must not end it half-way */
	bool alone;			/* does not join a cluster, or not at once */
};

/*
 * A reader of pairs adds missing separators, and locks a node for that.  load takes
 * care of itself, because until it has read its input it may be ended like any other program.
 */
static const struct command commands[] = {
	{ NULL, "status", ctl_status, 0, 0, "", false, true },
	{ "index", "create", ctl_index_create, 1, 1, "NAME", true, false },
	{ "index", "list", ctl_index_list, 0, 0, "", false, false },
	{ "index", "stat", ctl_index_stat, 1, 1, "NAME", false, false },
	{ "index", "verify", ctl_index_verify, 1, 1, "NAME", false, false },
	{ "index", "drop", ctl_index_drop, 1, 1, "NAME", true, false },
	{ NULL, "gc", ctl_gc, 1, 1, "NAME", true, false },
	{ NULL, "load", ctl_load, 2, 2, "NAME FILE", false, false },
	{ NULL, "get", ctl_get, 2, 2, "NAME KEY", true, false },
	{ NULL, "put", ctl_put, 3, 3, "NAME KEY PAYLOAD", true, false },
	{ NULL, "delete", ctl_delete, 2, 3, "NAME KEY [PAYLOAD]", true, false },
	{ NULL, "range", ctl_range, 3, 3, "NAME LOW HIGH", true, false },
	{ "kv", "create", ctl_kv_create, 1, 1, "NAME", true, false },
	{ "kv", "list", ctl_kv_list, 0, 0, "", false, false },
	{ "kv", "stat", ctl_kv_stat, 1, 1, "NAME", false, false },
	{ "kv", "get", ctl_kv_get, 2, 2, "NAME KEY", false, false },
	{ "kv", "put", ctl_kv_put, 3, 3, "NAME KEY VALUE", false, false },
	{ "kv", "delete", ctl_kv_delete, 2, 2, "NAME KEY", false, false },
	{ "kv", "drop", ctl_kv_drop, 1, 1, "NAME", true, false },
	{ "records", "list", ctl_records_list, 0, 0, "", false, false },
	{ "records", "stat", ctl_records_stat, 1, 1, "NAME", false, false },
	{ "records", "collect", ctl_records_collect, 1, 1, "NAME", true, false },
	{ "records", "drop", ctl_records_drop, 1, 1, "NAME", true, false },
	{ "table", "list", ctl_table_list, 0, 0, "", false, false },
	{ "table", "stat", ctl_table_stat, 1, 1, "NAME", true, false },
	{ "table", "verify", ctl_table_verify, 1, 1, "NAME", true, false },
	{ "table", "get", ctl_table_get, 2, 2, "NAME KEY", true, false },
	{ "table", "scan", ctl_table_scan, 2, 4, "NAME COLUMN [LOW [HIGH]]", true, false },
	{ "table", "drop", ctl_table_drop, 1, 1, "NAME", true, false },
	{ NULL, "doctor", ctl_doctor, 0, 1, "[FABRIC]", false, true },
};

#define COMMANDS_COUNT (sizeof(commands) / sizeof(commands[0]))

enum {
	OPT_CLUSTER = 256,
	OPT_TRANSPORT,
	OPT_KEY_TYPE,
	OPT_JSON,
	OPT_QUIET,
	OPT_KEY_BYTES,
	OPT_NON_UNIQUE,
	OPT_NODE_BYTES,
	OPT_HEAD_INTERVAL,
	OPT_DESIGN,
	OPT_PARTITION,
	OPT_BOUNDS,
	OPT_REPLACE,
	OPT_FILL,
	OPT_NEW,
	OPT_LIMIT,
	OPT_REVERSE,
	OPT_ROOT,
	OPT_MODE,
	OPT_MEMORY,
	OPT_PARTITIONS,
	OPT_HELP,
	OPT_VERSION,
};

static const struct option options_known[] = {
	{ "cluster", required_argument, NULL, OPT_CLUSTER },
	{ "transport", required_argument, NULL, OPT_TRANSPORT },
	{ "key-type", required_argument, NULL, OPT_KEY_TYPE },
	{ "json", no_argument, NULL, OPT_JSON },
	{ "quiet", no_argument, NULL, OPT_QUIET },
	{ "key-bytes", required_argument, NULL, OPT_KEY_BYTES },
	{ "non-unique", no_argument, NULL, OPT_NON_UNIQUE },
	{ "node-bytes", required_argument, NULL, OPT_NODE_BYTES },
	{ "head-interval", required_argument, NULL, OPT_HEAD_INTERVAL },
	{ "design", required_argument, NULL, OPT_DESIGN },
	{ "partition", required_argument, NULL, OPT_PARTITION },
	{ "bounds", required_argument, NULL, OPT_BOUNDS },
	{ "replace", no_argument, NULL, OPT_REPLACE },
	{ "fill", required_argument, NULL, OPT_FILL },
	{ "new", no_argument, NULL, OPT_NEW },
	{ "limit", required_argument, NULL, OPT_LIMIT },
	{ "reverse", no_argument, NULL, OPT_REVERSE },
	{ "root", required_argument, NULL, OPT_ROOT },
	{ "mode", required_argument, NULL, OPT_MODE },
	{ "memory", required_argument, NULL, OPT_MEMORY },
	{ "partitions", required_argument, NULL, OPT_PARTITIONS },
	{ "help", no_argument, NULL, OPT_HELP },
	{ "version", no_argument, NULL, OPT_VERSION },
	{ NULL, 0, NULL, 0 },
};

/* ---- command line ------------------------------------------------------------------------- */

/* Which option belongs to which command: saying it elsewhere is a mistake worth telling. */
static const struct {
	int option;
	const char *text;
	int (*run)(struct ctl *ctl, char **args);
} belongs[] = {
	{ OPT_KEY_BYTES, "--key-bytes", ctl_index_create },
	{ OPT_NON_UNIQUE, "--non-unique", ctl_index_create },
	{ OPT_NODE_BYTES, "--node-bytes", ctl_index_create },
	{ OPT_HEAD_INTERVAL, "--head-interval", ctl_index_create },
	{ OPT_DESIGN, "--design", ctl_index_create },
	{ OPT_PARTITION, "--partition", ctl_index_create },
	{ OPT_BOUNDS, "--bounds", ctl_index_create },
	{ OPT_REPLACE, "--replace", ctl_load },
	{ OPT_FILL, "--fill", ctl_load },
	{ OPT_NEW, "--new", ctl_put },
	{ OPT_LIMIT, "--limit", ctl_range },
	{ OPT_LIMIT, "--limit", ctl_table_scan },
	{ OPT_REVERSE, "--reverse", ctl_range },
	{ OPT_ROOT, "--root", ctl_doctor },
	{ OPT_MODE, "--mode", ctl_kv_create },
	{ OPT_MEMORY, "--memory", ctl_kv_create },
	{ OPT_PARTITIONS, "--partitions", ctl_kv_create },
};

#define BELONGS_COUNT (sizeof(belongs) / sizeof(belongs[0]))

static int
take_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *ret_value)
{
	struct nam_diag diag;
	uint64_t value;

	if (payload_parse(text, &value, &diag) || value < min || value > max) {
		ctl_complain("%s: '%s' is not a whole number from %" PRIu64 " to %" PRIu64, option,
			text, min, max);
		return NAM_EXIT_USAGE;
	}
	*ret_value = value;
	return 0;
}

static int
take_number32(const char *option, const char *text, uint32_t min, uint32_t max, uint32_t *ret_value)
{
	uint64_t value;

	if (take_number(option, text, min, max, &value))
		return NAM_EXIT_USAGE;
	*ret_value = (uint32_t)value;
	return 0;
}

static int
take_transport(const char *text, enum nam_transport *ret_transport)
{
	int transport = nam_transport_find(text);

	if (transport < 0) {
		ctl_complain("--transport: '%s' is not known; choose srq, mailbox, fetch or "
			"datagram",
			text);
		return NAM_EXIT_USAGE;
	}
	*ret_transport = (enum nam_transport)transport;
	return 0;
}

static int
take(struct ctl *ctl, int option, const char *value)
{
	switch (option) {
	case OPT_CLUSTER:
		ctl->cluster = value;
		return 0;
	case OPT_TRANSPORT:
		return take_transport(value, &ctl->transport);
	case OPT_KEY_TYPE:
		ctl->key_type = value;
		return 0;
	case OPT_JSON:
		ctl->json = true;
		return 0;
	case OPT_QUIET:
		ctl->quiet = true;
		return 0;
	case OPT_KEY_BYTES:
		return take_number32("--key-bytes", value, NAM_KEY_BYTES_MIN, NAM_KEY_BYTES_MAX,
			&ctl->create.key_bytes);
	case OPT_NON_UNIQUE:
		ctl->create.unique = false;
		return 0;
	case OPT_NODE_BYTES:
		return take_number32("--node-bytes", value, NAM_NODE_BYTES_MIN, NAM_NODE_BYTES_MAX,
			&ctl->create.node_bytes);
	case OPT_DESIGN:
		return ctl_design_parse(value, &ctl->create.design);
	case OPT_PARTITION:
		ctl->partitioning_said = true;
		return ctl_partitioning_parse(value, &ctl->create.partitioning);
	case OPT_BOUNDS:
		ctl->bounds = value;
		return 0;
	case OPT_HEAD_INTERVAL:
		ctl->head_interval_said = true;
		return take_number32("--head-interval", value, 0, 1u << 20,
			&ctl->create.head_interval);
	case OPT_REPLACE:
		ctl->replace = true;
		return 0;
	case OPT_FILL:
		return take_number32("--fill", value, 50, 100, &ctl->fill_percent);
	case OPT_NEW:
		ctl->only_new = true;
		return 0;
	case OPT_LIMIT:
		return take_number("--limit", value, 1, UINT64_MAX, &ctl->limit);
	case OPT_ROOT:
		ctl->root = value;
		return 0;
	case OPT_MODE:
		return ctl_kv_mode_parse(value, &ctl->kv_create.mode);
	case OPT_MEMORY:
		return ctl_kv_memory_parse(value, &ctl->kv_create.memory_bytes);
	case OPT_PARTITIONS:
		return take_number32("--partitions", value, 1, NAM_KV_PARTITIONS_MAX,
			&ctl->kv_create.partitions);
	default:
		ctl->reverse = true;
		return 0;
	}
}

/* The command that the words name; *ret_words is set to how many of them are its name. */
static const struct command *
find_command(char **words, int count, int *ret_words)
{
	for (size_t i = 0; i < COMMANDS_COUNT; i++) {
		const struct command *command = &commands[i];
		int at = 0;

		if (command->group && (count < 2 || strcmp(words[at++], command->group) != 0))
			continue;
		if (at < count && !strcmp(words[at], command->name)) {
			*ret_words = at + 1;
			return command;
		}
	}
	return NULL;
}

/* The words that may follow the first word, if it is a group. */
static void
complain_unknown(char **words, int count)
{
	char choices[128] = "";
	size_t length = 0;

	for (size_t i = 0; i < COMMANDS_COUNT; i++) {
		const char *group = commands[i].group;
		bool ends = i + 1 == COMMANDS_COUNT || !commands[i + 1].group ||
			(group && strcmp(commands[i + 1].group, group) != 0);

		if (group && !strcmp(group, words[0]))
			length += (size_t)snprintf(choices + length, sizeof(choices) - length,
				"%s%s", !length ? "" : ends ? " or " : ", ", commands[i].name);
	}
	if (length)
		ctl_complain("%s %s: say %s; see namctl --help", words[0],
			count > 1 ? words[1] : "what?", choices);
	else
		ctl_complain("there is no command '%s': see namctl --help", words[0]);
}

/* An option may belong to several commands. */
static bool
is_misplaced(size_t number, const struct command *command)
{
	for (size_t i = 0; i < BELONGS_COUNT; i++)
		if (belongs[i].option == belongs[number].option &&
			belongs[i].run == command->run)
			return false;
	return true;
}

static const struct command *
check_command(char **words, int count, uint64_t options_seen, char ***ret_args)
{
	const struct command *command;
	int name_words = 0;

	if (!count) {
		fputs(help, stderr);
		return NULL;
	}
	command = find_command(words, count, &name_words);
	if (!command) {
		complain_unknown(words, count);
		return NULL;
	}
	count -= name_words;
	if (count < command->args_min || count > command->args_max) {
		ctl_complain("usage: namctl %s%s%s %s", command->group ? command->group : "",
			command->group ? " " : "", command->name, command->args);
		return NULL;
	}
	for (size_t i = 0; i < BELONGS_COUNT; i++) {
		if (options_seen >> (belongs[i].option - OPT_CLUSTER) & 1 &&
			is_misplaced(i, command)) {
			ctl_complain("%s does not belong to '%s': see namctl --help",
				belongs[i].text, command->name);
			return NULL;
		}
	}
	*ret_args = words + name_words;
	return command;
}

/* Returns the command, or NULL when the program is to exit with *ret_exit. */
static const struct command *
parse(int argc, char **argv, struct ctl *ctl, char ***ret_args, int *ret_exit)
{
	uint64_t seen = 0;
	int option;

	*ret_exit = NAM_EXIT_USAGE;
	opterr = 0;
	while ((option = getopt_long(argc, argv, ":", options_known, NULL)) != -1) {
		switch (option) {
		case OPT_HELP:
			fputs(help, stdout);
			*ret_exit = ctl_flush(NAM_EXIT_OK);
			return NULL;
		case OPT_VERSION:
			puts("namctl " NAM_VERSION);
			*ret_exit = ctl_flush(NAM_EXIT_OK);
			return NULL;
		case ':':
			ctl_complain("%s needs a value: see namctl --help", argv[optind - 1]);
			return NULL;
		case '?':
			ctl_complain("there is no option '%s': see namctl --help",
				argv[optind - 1]);
			return NULL;
		default:
			if (take(ctl, option, optarg))
				return NULL;
			seen |= 1ull << (option - OPT_CLUSTER);
		}
	}
	return check_command(argv + optind, argc - optind, seen, ret_args);
}

/* ---- the whole ---------------------------------------------------------------------------- */

int
main(int argc, char **argv)
{
	struct ctl ctl = { 0 };
	const struct command *command;
	char **args;
	int exit_code;

	nam_index_options_init(&ctl.create);
	nam_kv_options_init(&ctl.kv_create);
	command = parse(argc, argv, &ctl, &args, &exit_code);
	if (!command)
		return exit_code;
	exit_code = command->alone ? NAM_EXIT_OK : ctl_connect(&ctl);
	if (!exit_code && command->finishes)
		ctl_catch_signals();
	if (!exit_code)
		exit_code = command->run(&ctl, args);
	ctl_disconnect(&ctl);
	if (ctl_signal)
		exit_code = NAM_EXIT_SIGNAL + (int)ctl_signal;
	return ctl_flush(exit_code);
}
