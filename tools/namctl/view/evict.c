/* SPDX-License-Identifier: Apache-2.0 */
/*
 * evict.c -- the end of a client's process, at the host of the memory servers: its mappings cannot
 * be revoked (C21).
 *
 * The lead knows the process id of each client from the kernel, in its own namespace.  It has to
 * know this process by the id that this process has: then both are in one namespace.  The client
 * is still alive after its process has been opened, so that id has not come to another process.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "tools/namctl/namctl.h"

#define TIMEOUT_MS 5000u		/* as clients have it */

static int
on_client(void *arg, const struct nam_client_info *info)
{
	struct nam_client_info *wanted = arg;

	if (info->id != wanted->id)
		return 0;
	*wanted = *info;
	return 1;
}

/* A client that is not in the list is not alive. */
static int
look(struct nam_worker *worker, uint16_t id, struct nam_client_info *ret_info)
{
	int rc;

	*ret_info = (struct nam_client_info){ .id = id };
	rc = nam_client_list(worker, on_client, ret_info); /* SUSPENDS */
	return rc < 0 ? rc : 0;
}

/* 0: its process has been killed, or had ended. */
static int
process_end(struct nam_worker *worker, const struct nam_client_info *client,
	const struct nam_client_info *own, struct nam_diag *diag)
{
	struct nam_client_info again;
	bool may_end = own->pid == (uint64_t)getpid() && client->pid && client->pid != own->pid;
	int fd = may_end ? pidfd_open((pid_t)client->pid, 0) : -1, rc;

	if (fd < 0)
		return nam_diag_set(diag, -ESRCH, "client %u: no process %" PRIu64 " can be ended "
			"from here: give this command on the host, or in the container, of memory "
			"server 0", client->id, client->pid);
	rc = look(worker, client->id, &again); /* SUSPENDS */
	if (!rc && again.alive && again.incarnation == client->incarnation &&
		again.pid == client->pid)
		rc = pidfd_send_signal(fd, SIGKILL, NULL, 0) ? -errno : 0;
	(void)close(fd);
	if (rc == -EPERM)
		return nam_diag_set(diag, rc, "client %u: process %" PRIu64 " belongs to another "
			"user: give this command as root", client->id, client->pid);
	return rc && rc != -ESRCH ? nam_diag_set(diag, rc, "client %u, process %" PRIu64 ": %s",
		client->id, client->pid, nam_err_text(rc)) : 0;
}

int
ctl_client_evict(struct ctl *ctl, uint16_t id, struct nam_diag *diag)
{
	uint32_t tries = ctl->timeout_ms ?: TIMEOUT_MS;
	struct nam_client_info own, client = { .id = id };
	int rc = look(ctl->worker, nam_client_id(ctl->client), &own); /* SUSPENDS */

	if (!rc && own.alive)
		rc = look(ctl->worker, id, &client); /* SUSPENDS */
	if (rc)
		return nam_diag_set(diag, rc, "%s", nam_worker_diag(ctl->worker));
	if (client.alive)
		rc = process_end(ctl->worker, &client, &own, diag); /* SUSPENDS */
	if (rc)
		return rc;
	/* The kernel takes its connections down. */
	do {
		(void)usleep(1000);
		rc = nam_client_fence(ctl->worker, id, client.incarnation, diag); /* SUSPENDS */
	} while (nam_err_is(rc, NAM_E_FABRIC_CAPABILITY) && --tries);
	return rc;
}
