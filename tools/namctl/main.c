/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- namctl: look after memory servers, indexes and stores from a shell. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/options/options.h"
#include "namctl.h"
#include "steward/options.h"

struct command {
	const char *group;		/* "index", or NULL */
	const char *name;
	ctl_command *run;
	int args_min, args_max;
	const char *args;
	const char *help;
	bool finishes;			/* takes locks, so a signal must not end it half-way */
	bool alone;			/* does not join a cluster, or not at once */
};

/*
 * A reader of pairs adds missing separators, and locks a node for that.  The command load takes
 * care of itself, because it may be ended like any other program until it has read its input.
 */
static const struct command commands[] = {
	{ NULL, "status", ctl_status, 0, 0, "",
		"the view; the memory servers, one line each", false, true },
	{ "server", "add", ctl_server_add, 1, 1, "ADDRESS",
		"a memory server comes to the cluster", false, true },
	{ "server", "move", ctl_server_move, 1, 1, "ADDRESS",
		"a member's memory passes to a successor", false, true },
	{ "server", "back", ctl_server_back, 1, 1, "ADDRESS",
		"a member gets a backup", false, true },
	{ "server", "promote", ctl_server_promote, 1, 1, "ID",
		"the backup of a dead member gets its place", false, true },
	{ "server", "unback", ctl_server_unback, 1, 1, "ID",
		"a member has no backup any more", false, true },
	{ "server", "drain", ctl_server_drain, 1, 1, "ID|ADDRESS",
		"all memory of a process passes to others", false, true },
	{ "server", "remove", ctl_server_remove, 1, 1, "ID",
		"a dead member is no member any more", false, true },
	{ "cluster", "replicas", ctl_cluster_replicas, 1, 1, "N",
		"each member's memory is to have N copies", false, true },
	{ NULL, "rebalance", ctl_rebalance, 0, 0, "",
		"taken memory passes to less full processes", false, true },
	{ "client", "list", ctl_client_list, 0, 0, "",
		"the other clients, one a line", false, false },
	{ "client", "fence", ctl_client_fence, 1, 1, "ID",
		"no memory server takes that client any more", false, false },
	{ NULL, "sweep", ctl_sweep, 0, 0, "",
		"free the memory that dead clients have left", true, false },
	{ NULL, "top", ctl_top, 0, 0, "",
		"their rates, live on a terminal, else once", false, true },
	{ "index", "create", ctl_index_create, 1, 1, "NAME",
		"an empty index", true, false },
	{ "index", "list", ctl_index_list, 0, 0, "",
		"names, one a line", false, false },
	{ "index", "stat", ctl_index_stat, 1, 1, "NAME",
		"design, parts, size, height, fill, memory", false, false },
	{ "index", "verify", ctl_index_verify, 1, 1, "NAME",
		"walk the tree, check its invariants", false, false },
	{ "index", "drop", ctl_index_drop, 1, 1, "NAME",
		"remove it and free its memory", true, false },
	{ NULL, "gc", ctl_gc, 1, 1, "NAME",
		"one pass of the garbage collector", true, false },
	{ NULL, "load", ctl_load, 2, 2, "NAME FILE",
		"lines of KEY<TAB>PAYLOAD; - is standard input", false, false },
	{ NULL, "get", ctl_get, 2, 2, "NAME KEY",
		"its payload, or payloads", true, false },
	{ NULL, "put", ctl_put, 3, 3, "NAME KEY PAYLOAD",
		"add, or replace the payload", true, false },
	{ NULL, "delete", ctl_delete, 2, 3, "NAME KEY [PAYLOAD]",
		"non-unique indexes need the payload", true, false },
	{ NULL, "range", ctl_range, 3, 3, "NAME LOW HIGH",
		"pairs from LOW to HIGH; - is no bound", true, false },
	{ "kv", "create", ctl_kv_create, 1, 1, "NAME",
		"an empty key-value store", true, false },
	{ "kv", "list", ctl_kv_list, 0, 0, "",
		"names, one a line", false, false },
	{ "kv", "stat", ctl_kv_stat, 1, 1, "NAME",
		"pairs, memory, hits, misses, evictions", false, false },
	{ "kv", "get", ctl_kv_get, 2, 2, "NAME KEY",
		"its value", false, false },
	{ "kv", "put", ctl_kv_put, 3, 3, "NAME KEY VALUE",
		"add, or replace; - is standard input", false, false },
	{ "kv", "delete", ctl_kv_delete, 2, 2, "NAME KEY",
		"remove the pair", false, false },
	{ "kv", "drop", ctl_kv_drop, 1, 1, "NAME",
		"remove the store and free its memory", true, false },
	{ "records", "list", ctl_records_list, 0, 0, "",
		"record stores, names, one a line", false, false },
	{ "records", "stat", ctl_records_stat, 1, 1, "NAME",
		"records, memory", false, false },
	{ "records", "collect", ctl_records_collect, 1, 1, "NAME",
		"free old versions, end dead transactions", true, false },
	{ "records", "drop", ctl_records_drop, 1, 1, "NAME",
		"remove the store and free its memory", true, false },
	{ "table", "create", ctl_table_create, 2, 2, "NAME COLUMNS",
		"an empty table; commas between its columns", true, false },
	{ "table", "list", ctl_table_list, 0, 0, "",
		"tables, names, one a line", false, false },
	{ "table", "stat", ctl_table_stat, 1, 1, "NAME",
		"columns, indexes, rows; reads all of them", true, false },
	{ "table", "verify", ctl_table_verify, 1, 1, "NAME",
		"whether every row is in every index", true, false },
	{ "table", "get", ctl_table_get, 2, 2, "NAME KEY",
		"the row with that key", true, false },
	{ "table", "put", ctl_table_put, 3, 2 + NAM_TABLE_COLUMNS_MAX, "NAME KEY VALUE ...",
		"add or replace a row: a value of each column", true, false },
	{ "table", "delete", ctl_table_delete, 2, 2, "NAME KEY",
		"remove the row with that key", true, false },
	{ "table", "scan", ctl_table_scan, 2, 4, "NAME COLUMN [LOW [HIGH]]",
		"rows in the order of COLUMN", true, false },
	{ "table", "drop", ctl_table_drop, 1, 1, "NAME",
		"remove the table and free its memory", true, false },
	{ "key", "new", ctl_key_new, 2, 3, "KEYS NAME [FILE]",
		"add a key to a key file; its line alone in FILE", false, true },
	{ "key", "list", ctl_key_list, 1, 1, "KEYS",
		"names, roles and fingerprints of a key file", false, true },
	{ NULL, "doctor", ctl_doctor, 0, 1, "[FABRIC]",
		"what this machine has for each fabric", false, true },
};

#define COMMANDS_COUNT (sizeof(commands) / sizeof(commands[0]))

/* ---- command line ------------------------------------------------------------------------- */

#define WORDS_MAX (4 + (int)NAM_TABLE_COLUMNS_MAX)

struct line {
	struct ctl ctl;
	/* A word more than any command takes, so that too many are noticed. */
	char *words[WORDS_MAX + 1];
	int words_count;
	uint64_t given;		/* a bit for each row of the table */
};

static const char *const transports[] = { "srq", "mailbox", "fetch", "datagram", NULL };
/* In the order of enum nam_role. */
static const char *const roles[] = { "read", "write", "admin", NULL };
static const char *const kv_modes[] = { "cache", "store", NULL };

#define FIELD(field) NAM_OPTION_FIELD(struct line, ctl.field)
#define SET(field) .set = offsetof(struct line, ctl.field)
#define CHANGES_VIEW                                                                                \
	"server add,server move,server back,server promote,server unback,server drain,"          \
	"server remove,cluster replicas,rebalance"
#define TABLES                                                                                      \
	"table create,table get,table put,table delete,table scan,table stat,table verify"

static const struct nam_option rows[] = {
	{ "cluster", "CLUSTER", "The memory servers: addresses with commas between them, as in "
		"shm:/tmp/nam0,shm:/tmp/nam1 or tcp:10.0.0.1:7000,tcp:10.0.0.2:7000, or @FILE, "
		"a cluster file. Without this option, NAM_CLUSTER in the environment names them.",
		NAM_OPTION_TEXT, FIELD(cluster) },
	{ "key", "FILE", "The file with this client's key, for memory servers with key files. "
		"Without this option, NAM_KEY in the environment names it.", NAM_OPTION_TEXT,
		FIELD(key) },
	{ "transport", "TRANSPORT", "How requests to memory servers travel: srq, mailbox, fetch "
		"or datagram. Without this option, NAM_TRANSPORT in the environment decides.",
		NAM_OPTION_CHOICE, FIELD(transport), .min = NAM_TRANSPORT_SRQ,
		.choices = transports },
	{ "timeout-ms", "N", "The longest wait for a memory server, in milliseconds, 100 to "
		"600000 (default 5000). It also holds for clients that are stopped while memory "
		"is to be used again.", NAM_OPTION_COUNT, FIELD(timeout_ms), .min = 100,
		.max = 600000 },
	{ "key-type", "TYPE", "How keys are written: u64 (default for keys of 8 bytes), text "
		"(default for others; zero bytes fill up short keys) or hex (all bytes). Keys "
		"and values of kv and table are text (default) or hex.", NAM_OPTION_TEXT,
		FIELD(key_type) },
	{ "json", NULL, "Write results as JSON. It is valid UTF-8 for any keys: they are "
		"strings with text and hex, numbers with u64.", NAM_OPTION_FLAG, FIELD(json) },
	{ "quiet", NULL, "No text where the exit status says it all.", NAM_OPTION_FLAG,
		FIELD(quiet) },
	{ .help = "Options of top:", .scope = "top" },
	{ "interval-ms", "N", "Milliseconds between two looks, 50 to 60000 (default 1000).",
		NAM_OPTION_COUNT, FIELD(interval_ms), .min = 50, .max = 60000, .scope = "top" },
	{ .help = "Options of server, cluster and rebalance:", .scope = CHANGES_VIEW },
	NAM__STORE_ROWS(struct line, ctl.store, CHANGES_VIEW),
	{ "copy-rate", "SIZE", "Copy so much per second at most while clients work (default "
		"256M). 0: as much as it can.", NAM_OPTION_BYTES, FIELD(copy_rate),
		.max = UINT64_MAX, .scope = "server move,server back,server drain,rebalance" },
	{ .help = "Options of client fence:", .scope = "client fence" },
	{ "evict", NULL, "Over shm: end the client's process with SIGKILL if it is alive.",
		NAM_OPTION_FLAG, FIELD(evict), .scope = "client fence" },
	{ .help = "Options of status:", .scope = "status" },
	{ "books", NULL, "Also say what the memory in use is: what names lead to, what clients "
		"have, what dead clients left, what is free. This reads all indexes and the keys "
		"of all record stores, as sweep --dry-run.", NAM_OPTION_FLAG, FIELD(books),
		.scope = "status" },
	{ .help = "Options of sweep and status:", .scope = "sweep,status" },
	{ "rate", "N", "Look at N nodes and records per second at most (default 100k). 0: as many "
		"as it can.", NAM_OPTION_COUNT, FIELD(pace), .max = UINT64_MAX,
		.scope = "sweep,status" },
	{ .help = "Options of sweep:", .scope = "sweep" },
	{ "dry-run", NULL, "Say what would be freed, and free nothing. Transactions of dead "
		"clients are completed all the same. rebalance: say what would move.",
		NAM_OPTION_FLAG, FIELD(dry_run), .scope = "sweep,rebalance" },
	{ .help = "Options of index create:", .scope = "index create" },
	{ "key-bytes", "N", "The size of its keys, 8 (default) to 64.", NAM_OPTION_COUNT,
		FIELD(create.key_bytes), .min = NAM_KEY_BYTES_MIN, .max = NAM_KEY_BYTES_MAX,
		.scope = "index create" },
	{ "non-unique", NULL, "A key may occur with several payloads.", NAM_OPTION_FLAG,
		FIELD(non_unique), .scope = "index create" },
	{ "node-bytes", "N", "The size of a node, a power of two from 256 to 16384 (default "
		"1024).", NAM_OPTION_BYTES, FIELD(create.node_bytes), .min = NAM_NODE_BYTES_MIN,
		.max = NAM_NODE_BYTES_MAX, .scope = "index create" },
	{ "head-interval", "N", "Leaves per head node, which speeds up scans; 0: no head nodes "
		"(default 32).", NAM_OPTION_COUNT, FIELD(create.head_interval),
		SET(head_interval_set), .max = 1u << 20, .scope = "index create" },
	{ "design", "DESIGN", "With fine (default) clients read and write one tree, which lies on "
		"all memory servers. With coarse each memory server has a tree, and searches it. "
		"hybrid has leaves as fine, and the levels above as coarse.", NAM_OPTION_CHOICE,
		FIELD(create.design), .min = NAM_DESIGN_FINE, .choices = ctl_designs,
		.scope = "index create" },
	{ "partition", "HOW", "Which memory server keeps a key of a coarse or hybrid index: "
		"range, hash (default) or round-robin, which deals successive numbers out in "
		"turn.", NAM_OPTION_CHOICE, FIELD(create.partitioning), SET(partitioning_set),
		.min = NAM_PARTITION_RANGE, .choices = ctl_partitionings,
		.scope = "index create" },
	{ "bounds", "KEYS", "Partition by range: ascending keys with commas between them. The "
		"parts of the second, third, ... memory server begin there, in the order of ids. "
		"There is one key less than memory servers, written as --key-type says.",
		NAM_OPTION_TEXT, FIELD(bounds), .scope = "index create" },
	{ .help = "Options of load:", .scope = "load" },
	{ "replace", NULL, "Replace the payload of keys that exist. Without this option they "
		"are left as they are, and the exit status is 4.", NAM_OPTION_FLAG,
		FIELD(replace), .scope = "load" },
	{ "fill", "PERCENT", "How full bulk load makes the leaves, 50 to 100 (default 92).",
		NAM_OPTION_COUNT, FIELD(fill_percent), .min = 50, .max = 100, .scope = "load" },
	{ .help = "Options of put:", .scope = "put" },
	{ "new", NULL, "Add only: a key, or in a non-unique index a pair, that exists is a "
		"conflict.", NAM_OPTION_FLAG, FIELD(only_new), .scope = "put" },
	{ .help = "Options of range and table scan:", .scope = "range,table scan" },
	{ "limit", "N", "At most N pairs or rows.", NAM_OPTION_COUNT, FIELD(limit), .min = 1,
		.max = UINT64_MAX, .scope = "range,table scan" },
	{ "reverse", NULL, "range: from HIGH down to LOW.", NAM_OPTION_FLAG, FIELD(reverse),
		.scope = "range" },
	{ .help = "Options of kv create:", .scope = "kv create" },
	{ "engine", "ENGINE", "chained (default): buckets of chains, as Jakiro; cuckoo: two "
		"tables, as RHKV.", NAM_OPTION_CHOICE, FIELD(kv_create.engine),
		.min = NAM_KV_CHAINED, .choices = ctl_kv_engines, .scope = "kv create" },
	{ "onesided", NULL, "With --engine cuckoo: clients get short pairs by READs. The pairs are "
		"then in regions that clients can only read.", NAM_OPTION_FLAG,
		FIELD(kv_create.onesided), .scope = "kv create" },
	{ "mode", "MODE", "cache (default): a pair that finds no room evicts pairs that have "
		"not been read lately; store: it is refused.", NAM_OPTION_CHOICE,
		FIELD(kv_create.mode), .min = NAM_KV_CACHE, .choices = kv_modes,
		.scope = "kv create" },
	{ "memory", "SIZE", "Memory of all memory servers together, with one of the suffixes k, "
		"M, G, T (default 64M).", NAM_OPTION_BYTES, FIELD(kv_create.memory_bytes),
		.min = 1, .max = 1ull << 56, .scope = "kv create" },
	{ "partitions", "N", "Partitions on each memory server, 1 to 1024 (default 16, or as "
		"many as the memory allows with 64k each).", NAM_OPTION_COUNT,
		FIELD(kv_create.partitions), .min = 1, .max = NAM_KV_PARTITIONS_MAX,
		.scope = "kv create" },
	{ .help = "Options of table:", .scope = TABLES },
	{ "isolation", "ISOLATION", "read-atomic (default): a reader sees all rows of another "
		"transaction, or newer ones, or none; serializable: all transactions are in one "
		"order, and one that is in the way of another begins anew. Other commands than "
		"table create refuse a table that has not this isolation.", NAM_OPTION_CHOICE,
		FIELD(table_create.isolation), .min = NAM_ISOLATION_READ_ATOMIC,
		.choices = ctl_isolations, .scope = TABLES },
	{ .help = "Options of table create:", .scope = "table create" },
	{ "indexes", "COLUMNS", "Columns that have an index, with commas between them; behind "
		"each, if not 16, a colon and how many first bytes of its values the index has.",
		NAM_OPTION_TEXT, FIELD(table_indexes), .scope = "table create" },
	{ "store", "STORE", "The store of the rows. Tables that are written together name the "
		"same one; the first of them makes it. Without this option the table has one of "
		"its own.", NAM_OPTION_TEXT, FIELD(table_store), .scope = "table create" },
	{ "key-bytes-max", "N", "The longest key of a serializable table, up to 120 bytes (default "
		"24).", NAM_OPTION_COUNT, FIELD(table_create.key_bytes_max), .min = 1,
		.max = NAM_TABLE_SERIALIZABLE_KEY_BYTES_MAX, .scope = "table create" },
	{ "row-bytes-max", "SIZE", "The longest row of a serializable table: its columns, and 4 "
		"bytes for each (default 256). Each row takes that much memory.", NAM_OPTION_BYTES,
		FIELD(table_create.row_bytes_max), .min = 1, .max = NAM_TXN_VALUE_BYTES_MAX,
		.scope = "table create" },
	{ "rows", "N", "Expected rows of a serializable table (default 65536). With many more, "
		"rows take longer to be found.", NAM_OPTION_COUNT, FIELD(table_create.rows),
		.min = 1, .max = 1u << 25, .scope = "table create" },
	{ .help = "Options of key new:", .scope = "key new" },
	{ "role", "ROLE", "A key of role write (default) may do all that an application does. With "
		"read it may look up, scan and read, and change nothing. With admin it may also "
		"change the view, fence living clients and sweep, as nam-steward and namctl do.",
		NAM_OPTION_CHOICE, FIELD(role), .min = NAM_ROLE_READ, .choices = roles,
		.scope = "key new" },
	{ .help = "Options of doctor:", .scope = "doctor" },
	{ "root", "DIR", "Look at sys, proc and dev in this folder, for example a copy from "
		"another machine.", NAM_OPTION_TEXT, FIELD(root), .scope = "doctor" },
	{ 0 },
};

_Static_assert(sizeof(rows) / sizeof(rows[0]) <= 64, "line.given has a bit for each row");

static int
take_word(void *options, char *text)
{
	struct line *line = options;

	if (line->words_count <= WORDS_MAX)
		line->words[line->words_count++] = text;
	return 0;
}

static void
row_taken(void *options, const struct nam_option *row, const char *text)
{
	(void)text;
	((struct line *)options)->given |= 1ull << (row - rows);
}

/* The commands, for --help.  The caller frees it. */
static char *
purpose(void)
{
	char *text = NULL;
	size_t bytes = 0;
	FILE *to = open_memstream(&text, &bytes);

	if (!to)
		return NULL;
	(void)fputs("Look after memory servers, indexes and stores.  Text in, text out.\n\n", to);
	for (size_t i = 0; i < COMMANDS_COUNT; i++) {
		const struct command *command = &commands[i];
		int width = fprintf(to, "  %s%s%s %s", command->group ? command->group : "",
			command->group ? " " : "", command->name, command->args);

		(void)fprintf(to, "%*s%s\n", width < 29 ? 29 - width : 1, "", command->help);
	}
	return fclose(to) ? NULL : text;
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

/* Returns the command, or NULL when the program is to exit with *ret_exit. */
static const struct command *
parse(int argc, char **argv, struct line *line, char ***ret_args, int *ret_exit)
{
	static struct nam_options_table table = { .program = "namctl", .usage = "COMMAND",
		.after = NAM_EXIT_HELP, .rows = rows, .word = take_word, .taken = row_taken };
	const struct command *command;
	char *text = purpose(), name[32];
	int name_words = 0, count;
	bool goes_on;

	table.purpose = text ? text : "";
	ctl_options_name(&table);
	goes_on = nam__options_take(&table, argc, argv, line, ret_exit);
	free(text);
	if (!goes_on)
		return NULL;
	*ret_exit = NAM_EXIT_USAGE;
	if (!line->words_count) {
		ctl_complain("which command?  See namctl --help");
		return NULL;
	}
	command = find_command(line->words, line->words_count, &name_words);
	if (!command) {
		complain_unknown(line->words, line->words_count);
		return NULL;
	}
	(void)snprintf(name, sizeof(name), "%s%s%s", command->group ? command->group : "",
		command->group ? " " : "", command->name);
	count = line->words_count - name_words;
	if (count < command->args_min || count > command->args_max) {
		ctl_complain("usage: namctl %s %s", name, command->args);
		return NULL;
	}
	for (const struct nam_option *row = rows; row->help; row++) {
		if (line->given >> (row - rows) & 1 && !nam__option_belongs(row, name)) {
			ctl_complain("--%s does not belong to '%s': see namctl --help", row->name,
				command->name);
			return NULL;
		}
	}
	*ret_args = line->words + name_words;
	return command;
}

/* ---- the whole ---------------------------------------------------------------------------- */

int
main(int argc, char **argv)
{
	struct line line = { .ctl = { 0 } };
	struct ctl *ctl = &line.ctl;
	const struct command *command;
	char **args;
	int exit_code;

	nam_index_options_init(&ctl->create);
	nam_kv_options_init(&ctl->kv_create);
	ctl->interval_ms = 1000;
	ctl->role = NAM_ROLE_WRITE;
	ctl->pace = NAM_SWEEP_PACE;
	ctl->copy_rate = 256ull << 20;
	command = parse(argc, argv, &line, &args, &exit_code);
	if (!command)
		return exit_code;
	ctl->create.unique = !ctl->non_unique;
	exit_code = command->alone ? NAM_EXIT_OK : ctl_connect(ctl);
	if (!exit_code && command->finishes)
		ctl_catch_signals();
	if (!exit_code)
		exit_code = command->run(ctl, args);
	ctl_disconnect(ctl);
	if (ctl_signal)
		exit_code = NAM_EXIT_SIGNAL + (int)ctl_signal;
	return ctl_flush(exit_code);
}
