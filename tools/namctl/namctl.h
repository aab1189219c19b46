/* SPDX-License-Identifier: Apache-2.0 */
/* namctl.h -- what namctl's files share; tools/README.md lists them. */
#ifndef NAMCTL_H
#define NAMCTL_H

#include <cjson/cJSON.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/auth/keys.h"
#include "common/options/options.h"
#include "nam.h"
#include "key.h"
#include "steward/store.h"

struct ctl {
	const char *cluster;
	const char *key;		/* NULL: not said */
	enum nam_transport transport;	/* 0: not said */
	uint32_t timeout_ms;		/* 0: not said */
	bool json;
	bool quiet;			/* no text where the exit status says it all */
	const char *key_type;		/* NULL: by the index's key size */
	const char *root;		/* of doctor: NULL or a tree to look at instead of / */
	bool evict;			/* of client fence */
	bool books;			/* of status */
	bool dry_run;			/* of sweep and rebalance */
	uint64_t copy_rate;		/* of moves and backups; 0: no limit */
	uint64_t pace;			/* of both: blocks per second; 0: no limit */
	uint32_t interval_ms;		/* of top */
	enum nam_role role;		/* of key new */
	struct nam__store_options store;	/* of server and rebalance */
	/* of index create */
	struct nam_index_options create;
	const char *bounds;		/* NULL: not said */
	bool non_unique, partitioning_set, head_interval_set;
	struct nam_kv_options kv_create;	/* of kv create */
	struct nam_table_options table_create;	/* of table create; of others the isolation */
	const char *table_indexes, *table_store;	/* NULL: not said */
	/* of put, load, range, table scan */
	bool only_new;
	bool replace;
	bool reverse;
	uint64_t limit;
	uint32_t fill_percent;

	struct nam_client *client;
	struct nam_worker *worker;
	/* of the command: opened by ctl_open() */
	struct nam_index *index;
	struct nam_kv *kv;
	struct nam_table *table;
	const char *index_name;
	struct key_format format;
	bool unique;
};

/* A command; its arguments are those after its name.  Returns one of enum nam_exit. */
typedef int ctl_command(struct ctl *ctl, char **args);

ctl_command ctl_status, ctl_top, ctl_rebalance, ctl_sweep, ctl_doctor;
ctl_command ctl_server_add, ctl_server_move, ctl_server_back, ctl_server_promote;
ctl_command ctl_server_unback, ctl_server_drain, ctl_server_remove, ctl_cluster_replicas;
ctl_command ctl_client_list, ctl_client_fence, ctl_key_new, ctl_key_list;
ctl_command ctl_index_create, ctl_index_list, ctl_index_drop, ctl_index_stat, ctl_index_verify;
ctl_command ctl_gc, ctl_load, ctl_get, ctl_put, ctl_delete, ctl_range;
ctl_command ctl_kv_create, ctl_kv_list, ctl_kv_stat, ctl_kv_drop;
ctl_command ctl_kv_get, ctl_kv_put, ctl_kv_delete;
ctl_command ctl_records_list, ctl_records_stat, ctl_records_collect, ctl_records_drop;
ctl_command ctl_table_list, ctl_table_stat, ctl_table_verify, ctl_table_drop;
ctl_command ctl_table_create, ctl_table_get, ctl_table_put, ctl_table_delete, ctl_table_scan;

/* evict.c: 0: the process of that client has ended, and it is dead. */
int ctl_client_evict(struct ctl *ctl, uint16_t id, struct nam_diag *diag) NAM_MUST_CHECK;
/* status.c: memory servers, each asked by itself, so that a dead one hides no other. */
struct ctl_server {
	struct nam_server_status status;
	uint64_t at_ns;			/* when it came */
	char text[256];			/* why there is no answer */
};

struct ctl_servers {
	struct ctl_server *list;	/* the caller frees it in any case */
	unsigned count;
	bool failed;			/* no memory */
};

/* Returns an exit code. */
int ctl_servers_query(const struct nam_client_options *options,
	struct ctl_servers *ret_servers) NAM_MUST_CHECK;

/* sweep.c: a line, or a member `books`: named blocks, those of clients, free ones. */
int ctl_books(struct ctl *ctl, cJSON *object);

/* ---- session.c ----------------------------------------------------------------------------- */

/* The signal that asks us to end, or 0.  Operations under way are finished, none is begun. */
extern volatile sig_atomic_t ctl_signal;

/* From here on INT, TERM and HUP only set ctl_signal; a second one kills. */
void ctl_catch_signals(void);

/* The cluster of --cluster or of the environment.  Returns an exit code. */
int ctl_client_options(struct ctl *ctl, struct nam_client_options *ret_options) NAM_MUST_CHECK;

/* Join the cluster with one worker.  Returns an exit code; ctl_disconnect() in any case. */
int ctl_connect(struct ctl *ctl) NAM_MUST_CHECK;
void ctl_disconnect(struct ctl *ctl);

/*
 * Blocks that this process could not give back, and those whose memory waits for a client that
 * *ret_why names.  The number is known only at the end, so this closes the index and the worker.
 */
uint64_t ctl_blocks_lost(struct ctl *ctl, uint64_t *ret_waiting, struct nam_diag *ret_why);

/* Open ctl->index by name and resolve how its keys are written.  Returns an exit code. */
int ctl_open(struct ctl *ctl, const char *name, uint64_t cache_bytes) NAM_MUST_CHECK;

/* ---- names.c ------------------------------------------------------------------------------- */

/* There is no index, store or table of that name: @list is its command.  NAM_EXIT_NOINDEX. */
int ctl_no_such(const char *what, const char *list, const char *name);

/* nam_index_list(), and what is like it. */
typedef int (*ctl_list_fn)(struct nam_worker *worker, int (*fn)(void *arg, const char *name),
	void *arg);

/*
 * The names of all indexes, or of all stores of a kind.  Returns an exit code.
 *
 * @member	what they are in JSON
 * @doing	what may fail, for a person
 */
NAM_FIBER_FN int ctl_list(struct ctl *ctl, ctl_list_fn list, const char *member,
	const char *doing) NAM_MUST_CHECK;

/*
 * A store or table is gone: says so.  Returns NAM_EXIT_OK.
 *
 * @lost	part of it was lost before, so that what is left cannot be given back: as the diag
 *		says
 */
int ctl_dropped(struct ctl *ctl, const char *name, bool lost);

/* ---- bytes.c ------------------------------------------------------------------------------- */

/* Does --key-type say hex? */
bool ctl_is_hex(const struct ctl *ctl);

/* Is --key-type text or hex, or not said?  @of: what has the keys.  Returns an exit code. */
int ctl_bytes_type(const struct ctl *ctl, const char *of) NAM_MUST_CHECK;

/* An argument's bytes, in place: as --key-type says.  Returns an exit code. */
int ctl_bytes_take(const struct ctl *ctl, char *text, uint32_t *ret_bytes) NAM_MUST_CHECK;

/* Two digits for each byte, on standard output. */
void ctl_bytes_hex(const void *data, uint32_t count);

/*
 * On standard output: as they are, if a terminal can show them; else, or if so asked, 0x and
 * digits.  Nothing at all is two quotes.
 */
void ctl_bytes_show(const struct nam_bytes *bytes, bool hex);

/* How many characters that takes. */
uint32_t ctl_bytes_width(const struct nam_bytes *bytes, bool hex);

/* A member NAME, or, where they are no UTF-8 or digits are asked for, NAME_hex. */
void ctl_json_bytes(cJSON *object, const char *name, const void *data, uint32_t count, bool hex);

/* A string, or in the same case an object with one member, hex. */
cJSON *ctl_json_value(const struct nam_bytes *bytes, bool hex);

/* ---- kv.c ---------------------------------------------------------------------------------- */

/* The words for enum nam_kv_engine, ended by NULL. */
extern const char *const ctl_kv_engines[];

/* ---- table.c ------------------------------------------------------------------------------- */

/* The words for enum nam_isolation, ended by NULL. */
extern const char *const ctl_isolations[];

/* ---- design.c ------------------------------------------------------------------------------ */

/* The words for enum nam_index_design and enum nam_partitioning, ended by NULL. */
extern const char *const ctl_designs[], *const ctl_partitionings[];

/*
 * Do design, partitioning and bounds of ctl->create fit together, and the cluster?
 *
 * @ret_bounds	for the caller to free once the index is made
 */
int ctl_parts_resolve(struct ctl *ctl, uint8_t **ret_bounds) NAM_MUST_CHECK;

/* The parts of ctl->index, in lines; what an index is, in members. */
void ctl_parts_print(const struct ctl *ctl);
void ctl_index_json(const struct ctl *ctl, const char *name, const struct nam_index_options *is,
	cJSON *object);

/* ---- output.c ------------------------------------------------------------------------------ */

/* "namctl: MESSAGE" on standard error. */
void ctl_complain(const char *format, ...) NAM_PRINTF(1, 2);

/*
 * A failed library call: complains, with the diag's text if it has one; returns the exit code.
 *
 * @what	what it was about; NULL, or left away, if the text names it
 */
int ctl_failed(const char *what, int rc, const char *diag);
/* From now on, ctl_failed() writes flags of the table in place of fields. */
void ctl_options_name(const struct nam_options_table *table);

/* As ctl_failed(), with the worker's diag. */
int ctl_worker_failed(const struct ctl *ctl, const char *what, int rc);

/* A line on standard output, unless --quiet or --json. */
void ctl_print(const struct ctl *ctl, const char *format, ...) NAM_PRINTF(2, 3);

/* An object with --json; else NULL: cJSON and ctl_json_u64() add nothing to that. */
cJSON *ctl_json(const struct ctl *ctl);
/* 64 bits, exactly: cJSON's numbers are doubles. */
void ctl_json_u64(cJSON *object, const char *name, uint64_t value);
cJSON *ctl_json_key(const struct key_format *format, const void *key);

void ctl_json_figures(cJSON *object, const struct nam_server_figures *figures);

/* Print and delete. */
void ctl_json_print(cJSON *object);

/* Write out what is left of standard output; exit_code, or NAM_EXIT_NO if output was lost. */
int ctl_flush(int exit_code);

/* An argument that is a number up to max.  Complains that it is no `of`; returns an exit code. */
int ctl_number_take(const char *text, uint32_t max, const char *of,
	uint32_t *ret_number) NAM_MUST_CHECK;

/* "1.50 GiB" */
struct ctl_text {
	char text[24];
};

struct ctl_text ctl_bytes(uint64_t bytes);

#endif /* NAMCTL_H */
