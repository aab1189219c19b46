/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pass.h -- what a steward does, again and again: lead, and change the view where that is due.
 */
#ifndef NAM_STEWARD_PASS_H
#define NAM_STEWARD_PASS_H

#include <stdatomic.h>

#include "compute/view/view_store.h"

#define NAM__SILENCES_MAX 8u		/* processes that are silent at a time */

/* Events of a pass, as fields of a log line. */
typedef void (*nam__steward_event_fn)(void *arg, const char *event, const char *fields);

struct nam__steward {
	const struct nam_client_options *options;
	const struct nam_cluster *seeds;
	struct nam__view_store *store;
	nam__steward_event_fn event, warning;	/* or NULL */
	struct nam_diag (*flags)(const char *diag);	/* for the fields that it names; or NULL */
	void *arg;
	uint32_t fence_ms;		/* a client that is stopped so long is fenced; 0: none */
	struct nam_client *lead;	/* asks it; NULL: has to be found */
	struct {			/* the client that delays the view, since when */
		uint64_t view, since_ns;
		uint16_t client, incarnation;
	} late;
	struct nam__cluster_view *copied;	/* the view that members have copies of; or NULL */
	struct nam__cluster_view *known;	/* a later one that was seen; or NULL */
	uint32_t silent_ms;		/* a member that is silent so long is given up; 0: none */
	struct nam__silence {		/* of processes, while this steward leads; boot 0: none */
		uint64_t boot, since_ns;
	} silences[NAM__SILENCES_MAX];
	uint64_t ended_boot;		/* of the last member that was found to have ended */
	struct {			/* a promotion that all clients have acknowledged */
		uint64_t boot, since_ns;
	} acknowledged;
	uint16_t looked;		/* the member that was looked at last */
	uint16_t watched;		/* likewise, of those with a backup */
	uint64_t passed_ns;		/* when the last pass ended, also one within another */
	const atomic_bool *stop;	/* ends what takes long; or NULL */
	struct {			/* members that lack a backup */
		uint64_t until_ns;	/* none is tried again before */
		int rc;			/* of the last failure that was told */
		uint16_t id;		/* the last one that was tried */
	} lacking;
	struct {			/* one that could not be fenced, and is left alone */
		uint64_t until_ns;	/* or for ever: its process has to end */
		uint16_t client, incarnation;
	} stays;
};

struct nam__steward_passed {
	uint64_t term;			/* 0: another steward leads */
	uint64_t view;			/* number */
	uint32_t changes;
	bool made_way;			/* for a promotion: what joins or moves is given up */
	uint32_t within_ms;		/* the next pass is due within that time; 0: any */
};

/*
 * A pass, as README.md describes it.  At last a member that lacks a backup gets one, which takes
 * as long as its memory is copied; passes go on meanwhile.  A failure, of the lead or of the store,
 * which *diag explains, ends the pass and not the steward.
 */
NAM_FIBER_FN int nam__steward_pass(struct nam__steward *steward,
	struct nam__steward_passed *ret_passed, struct nam_diag *diag) NAM_MUST_CHECK;

/* The lease ends, so another steward need not wait for it. */
NAM_FIBER_FN void nam__steward_end(struct nam__steward *steward);

/* ---- replicas.c: backups start, and take the place of what has ended ------------------------ */

/* The next look at members with backups is due within that time; 0: there are none. */
uint32_t nam__backups_within_ms(const struct nam__cluster_view *view);

/*
 * The change that is due as a process has ended, the member's or its backup's; or 0.  Silence is no
 * reason.  The end of a process goes before a member that joins or moves, which is given up.
 *
 * @ret_member	what the change is about
 *
 * Cost: 2 connections to each member with a backup.
 */
NAM_FIBER_FN enum nam_rpc_view_change nam__backups_due(struct nam__steward *steward,
	const struct nam__cluster_view *view, struct nam_view_member *ret_member);

/* Another steward has led: silences begin anew. */
void nam__silences_forget(struct nam__steward *steward);

/*
 * If a member lacks a backup that the view wants, and no member joins or moves: one of them gets
 * one.  That may take long: `within` is called again and again, and ends it by a failure.
 */
NAM_FIBER_FN void nam__backups_make(struct nam__steward *steward,
	const struct nam__cluster_view *view, int (*within)(struct nam__steward *steward));

#endif /* NAM_STEWARD_PASS_H */
