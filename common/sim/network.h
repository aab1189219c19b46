/* SPDX-License-Identifier: Apache-2.0 */
/*
 * network.h -- the rates of a simulated network and its machines: one struct, one INI file.
 *
 * A file has all keys, each with its source beside it: see deploy/profiles/.  Rates are per network
 * card, bandwidths in bytes per nanosecond (GB/s), times in nanoseconds.
 */
#ifndef NAM_COMMON_SIM_NETWORK_H
#define NAM_COMMON_SIM_NETWORK_H

#include <stdint.h>

#include "common/error.h"

#define NAM_SIM_PORTS_MAX 8u

/* The cost of a kind of request: READ, WRITE, ATOMIC or SEND. */
struct nam_sim_op_cost {
	double in_per_us;		/* messages that a card serves, in millions a second */
	double out_per_us;		/* ... and sends */
	double round_trip_ns;		/* as a program sees it: alone, small, posted and polled */
	double loaded_round_trip_ns;	/* ... while the card works for other queue pairs, too */
	double request_bytes;		/* of headers, for every packet */
	double response_bytes;
};

struct nam_sim_network {
	char name[32];			/* of the file, without folder and ".ini" */
	double strict;			/* 1: the order that shm promises; 0: that of verbs */
	/* a machine: one card */
	double ports;
	double clients_per_machine;
	double memservers_per_machine;
	/* the card */
	struct nam_sim_op_cost read, write, atomic, send;
	double word_per_us;		/* atomics on words of one slot */
	double slots;			/* a power of two: the address's low bits choose */
	double port_bytes_per_ns;
	double pcie_bytes_per_ns;
	double packet_bytes;		/* the most that one carries */
	double queue_pairs;		/* as many as the card keeps the state of */
	double miss_service_ns;		/* for one that it does not have: work, and waiting */
	double miss_latency_ns;
	double outstanding;		/* READs and atomics of one queue pair */
	/* processors */
	double post_ns;			/* one request behind a doorbell */
	double batched_post_ns;		/* each of several behind one doorbell ... */
	double doorbell_ns;		/* ... and that doorbell */
	double poll_ns;			/* which found nothing */
	double completion_ns;
	double copy_ns_per_kib;		/* a READ of the memory of its own machine */
	double rpc_ns;			/* memory server: a request, all in all */
	double rpc_threads;		/* memory server: handler threads */
	double node_ns;			/* memory server: for each node of a tree on the way down */
	double pair_ns;			/* memory server: for each pair of a page of a scan */
	double operation_ns;		/* the library and its caller, for each operation */
	double batched_operation_ns;	/* ... of nam_index_lookup_many() */
	double entry_ns;		/* ... for each entry of a scan */
};

/*
 * Read a profile: a path if it has a '/'; else NAME.ini, in the folders of NAM_PROFILES or in
 * share/nam/profiles.  That lies beside the program's folder, in /usr/local or in /usr.
 *
 * Returns 0; -ENOENT: there is none; -EINVAL: an unknown or missing key, a value out of range;
 * -errno if the file cannot be read.
 */
int nam_sim_network_read(const char *name, struct nam_sim_network *ret_network,
	struct nam_diag *diag) NAM_MUST_CHECK;

#endif /* NAM_COMMON_SIM_NETWORK_H */
