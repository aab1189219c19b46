/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mirror.h -- what is written to a member with backups is written to the backups first (C31).
 *
 * The requests of a doorbell are held back, and those of them that WRITE go to all backups at once.
 * When that has completed, all of them go to the member.  Tasks see the completions of the latter
 * only.
 *
 * The same holds for CAS of words that mean something (NAM_WR_DECIDES), but one backup gets them
 * after the other, by their places.  The first one decides: if it has another word than `compare`,
 * the next ones and the member get that one.  So a word at the member is at most one change behind
 * the backup, if each CAS compares with what the member has had.
 *
 * If no other client can see yet what is written (NAM_WR_UNSEEN), all get it at once, and the task
 * waits for all.
 */
#ifndef NAM_COMPUTE_BACKUP_MIRROR_H
#define NAM_COMPUTE_BACKUP_MIRROR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "common/fabric/fabric.h"
#include "common/gaddr.h"
#include "compute/remote.h"
#include "compute/worker/completion.h"

struct nam_worker;

enum held_state {
	AT_BACKUP,			/* its WRITEs are under way to backups */
	PARKED,				/* a backup did not take them, or is the next one */
	DUE,				/* they are done there, and are to go to the member */
};

/* Its WRITEs at one backup. */
struct nam__mirrored_part {
	struct nam__completion completion;	/* of the last request, */
	struct nam__completion earlier;		/* and of those before, which only fail */
	struct nam__mirrored *held;
	bool under_way;
	bool failed;			/* one before the last was not carried out */
	uint64_t to;			/* the boot of the backup that they are for, */
	uint64_t done;			/* and of the one that has them; or 0 */
};

struct nam__mirrored {
	struct nam__mirrored_part parts[NAM_BACKUPS_MAX];
	union {
		TAILQ_ENTRY(nam__mirrored) link;	/* held */
		SLIST_ENTRY(nam__mirrored) spare;
	};
	enum held_state state;
	uint8_t under_way;		/* parts */
	bool decides;			/* there are CASes for backups among them, */
	bool decided;			/* and one has carried them out */
	bool unseen;			/* the member has got them, too */
	uint32_t slot;			/* of the member, */
	uint64_t boot;			/* and its process */
	uint32_t count;
	uint64_t until_ns, again_ns;	/* it fails then; it is not tried before */
	struct nam_wr wrs[NAM_BATCH_MAX];
};

/* The doorbells of one worker that are held back. */
struct nam__mirror {
	TAILQ_HEAD(, nam__mirrored) held;	/* in the order in which they were posted */
	SLIST_HEAD(, nam__mirrored) spare;
	uint32_t waiting;		/* of those that are held: not for the backup */
	uint32_t cas;			/* under way to backups (backed.c) */
	bool stepping;
	/* Post again what the backup did not take; the backup may be none any more. */
	void (*step)(struct nam_worker *worker);
	/* The gates have turned: a backup may be another one, or none. */
	void (*freshen)(struct nam_worker *worker);
};

/*
 * In place of the provider's qp_post.  -NAM_E_FABRIC_CAPABILITY: an atomic that a backup does not
 * follow: one without a hint.
 */
int nam__post_mirrored(struct nam_qp *qp, const struct nam_wr *wrs, unsigned count);

void nam__mirror_free(struct nam_worker *worker);
/*
 * Before requests to a backup: a connection to an earlier one in its slot ends.  WRITEs under way
 * there go to this one.  False: other requests to it are under way; try again later.
 */
bool nam__backup_fresh(struct nam_worker *worker, uint32_t at);

/* Whether requests to the member in that slot are held back. */
static inline bool
nam__mirror_holds(const struct nam__mirror *mirror, uint32_t slot)
{
	const struct nam__mirrored *held;

	TAILQ_FOREACH(held, &mirror->held, link)
		if (held->slot == slot)
			return true;
	return false;
}

#endif /* NAM_COMPUTE_BACKUP_MIRROR_H */
