/* SPDX-License-Identifier: Apache-2.0 */
/*
 * machine.h -- what this machine has for each fabric, as /sys, /proc and /dev say it.
 *
 * Everything is read below a root, which is "" or a collected tree.  A file that cannot
 * be read counts as not there; nothing here fails.
 */
#ifndef NAM_TOOLS_NAMCTL_DOCTOR_MACHINE_H
#define NAM_TOOLS_NAMCTL_DOCTOR_MACHINE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	MACHINE_DEVICES_MAX = 16,
	MACHINE_PORTS_MAX = 4,
	MACHINE_GIDS_MAX = 16,
	MACHINE_PAGES_MAX = 4,
	MACHINE_NODES_MAX = 64,
	MACHINE_NETS_MAX = 64,
};

#define MACHINE_UNLIMITED UINT64_MAX

enum machine_atomics {
	ATOMICS_UNKNOWN,
	ATOMICS_NONE,
	ATOMICS_HCA,		/* among requests of this device */
	ATOMICS_GLOBAL,		/* also against processors */
};

struct machine_gid {
	unsigned index;
	bool address;		/* an IP address, not of the link only */
	char text[48];		/* "10.0.0.1" for an IPv4 address, else groups of four digits */
	char type[16];		/* "RoCE v2", "IB/RoCE v1" */
	char interface[32];
};

struct machine_port {
	unsigned number;
	char layer[16];		/* "InfiniBand", "Ethernet" */
	char state[16];		/* "ACTIVE" */
	char rate[40];
	char interface[32];	/* of the first GID that has one */
	unsigned interface_mtu;	/* 0: not known */
	unsigned active_mtu;	/* 0: not known */
	unsigned gids;		/* all that are not zero; the first ones are in gid[] */
	struct machine_gid gid[MACHINE_GIDS_MAX];
};

struct machine_device {
	char name[64];
	char verbs[32];		/* "uverbs0", or "" */
	bool usable;		/* /dev/infiniband/uverbs0 may be opened by us */
	int node;		/* NUMA; -1: none said */
	enum machine_atomics atomics;
	unsigned ports;
	struct machine_port port[MACHINE_PORTS_MAX];
};

/* The pages of one size. */
struct machine_pages {
	uint64_t bytes, total, free, reserved;
};

struct machine_node {
	unsigned number;
	uint64_t memory_bytes, free_bytes;
	uint64_t huge_total, huge_free;		/* pages of 2 MiB */
};

struct machine {
	unsigned devices;
	struct machine_device device[MACHINE_DEVICES_MAX];
	bool verbs_left_out;		/* of this program */
	bool verbs_loaded;		/* ib_uverbs */
	bool cm_loaded;			/* rdma_ucm */
	bool cm_usable;			/* /dev/infiniband/rdma_cm may be opened by us */
	bool may_lock_all;		/* CAP_IPC_LOCK: the limit is not ours */
	uint64_t memlock_soft, memlock_hard;
	uint64_t files_hard;
	bool nets_known;		/* /sys/class/net is there */
	unsigned nets_up;		/* network interfaces that are up, but for the loopback */
	uint64_t available_bytes;
	uint64_t group_bytes;		/* limit of our control group, or MACHINE_UNLIMITED */
	char shmem_enabled[16];		/* transparent huge pages of shared memory */
	unsigned sizes;
	struct machine_pages pages[MACHINE_PAGES_MAX];
	unsigned nodes;
	struct machine_node node[MACHINE_NODES_MAX];
};

/* Atomics and active MTUs are not in /sys: see machine_ask_verbs(). */
void machine_read(const char *root, struct machine *ret_machine);

/* Fill in what only libibverbs knows, if it is installed; leaves the rest as it is. */
void machine_ask_verbs(struct machine *machine);

/* ---- parsers: of one text each ------------------------------------------------------------- */

/* "4: ACTIVE" and "1 ACTIVE" are ACTIVE. */
void machine_state_parse(const char *text, char ret_state[16]);

/* Eight groups of four digits.  False if it is zero or no GID; *ret_gid gets text and address. */
bool machine_gid_parse(const char *text, struct machine_gid *ret_gid);

/* The number after "NAME:" in /proc/meminfo, the same of a node, or /proc/self/status. */
bool machine_field_parse(const char *text, const char *name, int base, uint64_t *ret_value);

/* A line of /proc/self/limits. */
bool machine_limit_parse(const char *text, const char *name, uint64_t *ret_soft,
	uint64_t *ret_hard);

/* The word in brackets of "always [never] advise". */
void machine_choice_parse(const char *text, char ret_choice[16]);

/* ---- examine.c: what is missing for each fabric, and what to do about it ---------------- */

enum finding_level {
	FINDING_NOTE,		/* works, but could be better */
	FINDING_DEFECT,		/* this device does not work, and another one does */
	FINDING_MISSING,	/* the fabric does not work without */
};

struct finding {
	const char *fabric;	/* "shm", "tcp", "verbs" */
	enum finding_level level;
	char what[200];
	char remedy[200];	/* a command, or what to do */
};

enum { FINDINGS_MAX = 64 };

struct findings {
	unsigned count;
	struct finding at[FINDINGS_MAX];
};

void doctor_examine(const struct machine *machine, struct findings *ret_findings);

/* Whether nothing is missing for the fabric. */
bool doctor_usable(const struct findings *findings, const char *fabric);

#endif /* NAM_TOOLS_NAMCTL_DOCTOR_MACHINE_H */
