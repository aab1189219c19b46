/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.h -- a memory server as a library call: pin regions, register them, answer small RPCs.
 *
 * The program nam-memserver is a thin main around these calls, so that tests and a simulator can
 * run memory servers too.
 */
#ifndef NAM_MEMSERVER_SERVER_H
#define NAM_MEMSERVER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "../common/error.h"

#ifdef __cplusplus
extern "C" {
#endif

enum nam_pages {
	NAM_PAGES_AUTO = 0,	/* 2M if the pool has room, else thp, else 4k; says which */
	NAM_PAGES_4K,
	NAM_PAGES_THP,
	NAM_PAGES_2M,
	NAM_PAGES_1G,
};

/* Hardware transactions around changes of key-value stores. */
enum nam_htm {
	NAM_HTM_AUTO = 0,	/* if there are several handler threads, and a trial succeeds */
	NAM_HTM_ON,		/* a start fails without */
	NAM_HTM_OFF,
	NAM_HTM_STAND_IN,	/* for tests: in software, and a third of them aborts */
};

/* The level of an event, for the operator; each level includes those before. */
enum nam_log_level { NAM_LOG_ERROR, NAM_LOG_WARN, NAM_LOG_INFO, NAM_LOG_DEBUG };

struct nam_server_options {
	const char *listen;	/* "shm:PATH", "verbs:HOST:PORT" */
	uint32_t id;		/* 0 .. NAM_SERVERS_MAX - 1, unlike others; 0 keeps the catalog */
	bool successor;		/* of a memory server with that id: serves when it has its memory */
	uint64_t memory_bytes;	/* split into regions */
	uint64_t region_bytes;	/* 0: a sixteenth, 16 to 256 MiB; the last one may be smaller */
	/*
	 * Memory that this process takes in addition, if that of other memory servers moves to it
	 * (nam_server_drain()).  Each keeps its id, and has an address beside `listen`.
	 */
	uint64_t spare_bytes;
	enum nam_pages pages;
	int numa_node;		/* -1: wherever */
	uint32_t rpc_threads;	/* handler threads, 1 .. 64 */
	enum nam_htm htm;
	/*
	 * Called at least five times a second while the memory is populated; nonzero ends the
	 * start.  May be NULL.
	 */
	int (*starting)(uint64_t ready_bytes, uint64_t total_bytes);
	/*
	 * The key file (common/auth/keys.h); clients without one of its keys are refused.  NULL: no
	 * client needs a key, and the address is of this host only unless `insecure` is set.
	 */
	const char *keys;
	bool insecure;
	/* For fabrics with devices; NULL leaves each to the fabric: common/fabric/fabric.h. */
	const char *device, *gid_index, *mtu;
	void (*notice)(const char *text);	/* advice for the operator; any thread */
	/*
	 * Each event of at most log_level (default info): its name, and fields as KEY=VALUE with
	 * blanks between them.  A value is a word of letters, digits and '_', or has the form that
	 * nam_log_quote() gives it.  Any thread.  May be NULL.
	 */
	void (*log)(enum nam_log_level level, const char *event, const char *fields);
	enum nam_log_level log_level;
};

struct nam_server;

/* "error", "warn", "info", "debug" */
const char *nam_log_level_name(enum nam_log_level level);

/*
 * Any text as the value of a field: in quotes, with a '\' before '"' and '\', and with \xNN for a
 * byte that is not printable ASCII.  Ends early if `size`, at least 3, is too small.  Returns text.
 */
const char *nam_log_quote(const char *value, char *text, size_t size);

void nam_server_options_init(struct nam_server_options *options);

/*
 * Whether the options are in their ranges and fit together, whatever the host has left.  Returns 0,
 * or a negative code with a message in *diag, as of nam_server_start().
 */
int nam_server_check(const struct nam_server_options *options,
	struct nam_diag *diag) NAM_MUST_CHECK;

/**
 * nam_server_start -- listen, allocate, register and start the handler threads.
 *
 * Until the memory is populated, connections are refused with NAM_E_FABRIC_STARTING and the state.
 *
 * Returns 0 or a negative code with a message in *diag that names the setting to change:
 *	-EINVAL				an option is out of its range
 *	-ENOMEM				the memory, or the huge-page pool, does not suffice
 *	-ECANCELED			options->starting() returned nonzero
 *	-NAM_E_FABRIC_ADDRESS_IN_USE	a live memory server is listening there
 * The result of an automatic choice is in *notice (may be NULL); empty: no choice was made.
 */
int nam_server_start(const struct nam_server_options *options, struct nam_server **ret_server,
	struct nam_diag *notice, struct nam_diag *diag) NAM_MUST_CHECK;

/* Serve connections in the calling thread until nam_server_stop().  0 or a negative code. */
int nam_server_run(struct nam_server *server);

/* Make nam_server_run() return.  Allowed in a signal handler and from any thread. */
void nam_server_stop(struct nam_server *server);

/* Joins the handler threads, closes every connection, gives the memory back. */
void nam_server_destroy(struct nam_server *server);

/**
 * nam_server_reload_keys -- read the key file again; the holders of removed keys are fenced.
 *
 * Over shm, where mappings cannot be revoked, their processes stay until they end: a warning names
 * each of them.  Any thread.  0, or a negative code with the cause in *diag: all stays as it was.
 */
int nam_server_reload_keys(struct nam_server *server, struct nam_diag *diag) NAM_MUST_CHECK;

/**
 * nam_server_metrics -- write all figures in the text format of Prometheus.
 *
 * Samples of this memory server, and of those that its process hosts for others, have the label
 * id="N".  nam_spare_bytes and nam_restarts_total are the process's, and have none.
 * Any thread.  Cost: some 10 KiB of text for each; locks that handlers take for allocations and
 * names.  0, or -ENOMEM: nothing was written.
 */
int nam_server_metrics(struct nam_server *server, FILE *to) NAM_MUST_CHECK;

/* For people: "8 GiB in 8 regions of 1 GiB, 2 MiB pages, 1 handler thread". */
void nam_server_describe(const struct nam_server *server, char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* NAM_MEMSERVER_SERVER_H */
