/* SPDX-License-Identifier: Apache-2.0 */
/* status.c -- the view of the cluster, and the state of its memory servers. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tools/namctl/namctl.h"

static const char *
pages_text(const struct nam_server_status *status)
{
	if (status->page_bytes >= 1u << 30)
		return "1G";
	if (status->page_bytes >= 2u << 20)
		return "2M";
	return status->transparent_huge ? "thp" : "4k";
}

static const char *
server_state(const struct nam_server_status *status)
{
	if (!status->rc)
		return "ready";
	if (nam_err_is(status->rc, NAM_E_FABRIC_STARTING))
		return "starting";
	/* Stopped, or overloaded: its memory may be whole. */
	if (nam_err_is(status->rc, NAM_E_FABRIC_TIMEOUT))
		return "silent";
	return nam_err_is(status->rc, NAM_E_FABRIC_CONNECT) ||
		nam_err_is(status->rc, NAM_E_FABRIC_PEER_DEAD) ? "dead" : "unusable";
}

/* As the view has it. */
static const char *
member_text(const struct nam_server_status *status)
{
	static const char *const texts[] = {
		[NAM_MEMBER_NONE] = "-",
		[NAM_MEMBER_JOINING] = "joining",
		[NAM_MEMBER_UP] = "up",
		[NAM_MEMBER_MOVING] = "moving",
		[NAM_MEMBER_COPYING] = "copying",
		[NAM_MEMBER_PROMOTING] = "promoting",
		[NAM_MEMBER_SUCCESSOR] = "successor",
	};

	return texts[status->member];
}

/* A backup has a line of its own. */
static void
print_backup(const struct nam_server_status *status)
{
	if (!status->backup[0])
		return;
	if (status->backup_2[0])
		printf("%-4s its backups are at %s, %s", "", status->backup, status->backup_2);
	else
		printf("%-4s its backup is at %s", "", status->backup);
	if (status->member == NAM_MEMBER_PROMOTING)
		printf(", %s its place", status->backup_2[0] ? "and the first gets" : "and gets");
	else if (nam_err_is(status->rc, NAM_E_FABRIC_CONNECT) ||
		nam_err_is(status->rc, NAM_E_FABRIC_PEER_DEAD))
		printf(": namctl server promote %u", status->id);
	printf("\n");
}

static void
print_server(const struct nam_server_status *status)
{
	char id[12] = "?";

	/* If it does not answer, the view has its id. */
	if (!status->rc || status->member)
		(void)snprintf(id, sizeof(id), "%u", status->id);
	if (nam_err_is(status->rc, NAM_E_FABRIC_STARTING)) {
		printf("%-4s %-30s starting: %s of %s\n", id, status->address,
			ctl_bytes(status->ready_bytes).text,
			ctl_bytes(status->memory_bytes).text);
		print_backup(status);
		return;
	}
	if (status->rc) {
		printf("%-4s %-30s %s: %s\n", id, status->address, server_state(status),
			nam_err_text(status->rc));
		print_backup(status);
		return;
	}
	printf("%-4s %-30s %-8s %9s %9s %5s %8u %7u %7" PRIu64 "s\n", id, status->address,
		member_text(status), ctl_bytes(status->memory_bytes).text,
		ctl_bytes(status->carved_bytes - status->free_bytes - status->waiting_bytes).text,
		pages_text(status), status->connections, status->indexes,
		status->uptime_ns / 1000000000u);
	/* Free blocks keep their size until a run has no used block and memory is short. */
	if (status->free_bytes)
		printf("%-4s %s of the rest are free blocks; runs of them serve other sizes when "
		       "memory is short\n", "", ctl_bytes(status->free_bytes).text);
	if (status->waiting_bytes)
		printf("%-4s %s of the rest wait for operations that may still read them\n", "",
			ctl_bytes(status->waiting_bytes).text);
	print_backup(status);
}

static cJSON *
json_server(const struct nam_server_status *status, const char *text)
{
	cJSON *object = cJSON_CreateObject();

	cJSON_AddStringToObject(object, "address", status->address);
	cJSON_AddBoolToObject(object, "alive", status->rc == 0);
	cJSON_AddStringToObject(object, "state", server_state(status));
	if (status->member)
		cJSON_AddStringToObject(object, "member", member_text(status));
	if (status->backup[0])
		cJSON_AddStringToObject(object, "backup", status->backup);
	if (status->backup_2[0])
		cJSON_AddStringToObject(object, "backup_2", status->backup_2);
	if (!status->rc || status->member)
		ctl_json_u64(object, "id", status->id);
	if (status->rc) {
		cJSON_AddStringToObject(object, "error", nam_err_name(status->rc));
		cJSON_AddStringToObject(object, "message", text);
		if (status->memory_bytes) {
			ctl_json_u64(object, "ready_bytes", status->ready_bytes);
			ctl_json_u64(object, "memory_bytes", status->memory_bytes);
		}
		return object;
	}
	ctl_json_u64(object, "pid", status->pid);
	ctl_json_u64(object, "spare_bytes", status->spare_bytes);
	cJSON_AddStringToObject(object, "version", status->version);
	ctl_json_u64(object, "uptime_s", status->uptime_ns / 1000000000u);
	ctl_json_u64(object, "memory_bytes", status->memory_bytes);
	ctl_json_u64(object, "carved_bytes", status->carved_bytes);
	ctl_json_u64(object, "free_bytes", status->free_bytes);
	ctl_json_u64(object, "waiting_bytes", status->waiting_bytes);
	cJSON_AddStringToObject(object, "pages", pages_text(status));
	ctl_json_u64(object, "page_bytes", status->page_bytes);
	ctl_json_u64(object, "regions", status->regions);
	ctl_json_u64(object, "handlers", status->handlers);
	ctl_json_u64(object, "clients", status->clients);
	ctl_json_u64(object, "connections", status->connections);
	ctl_json_u64(object, "indexes", status->indexes);
	ctl_json_u64(object, "stores", status->stores);
	ctl_json_u64(object, "requests", status->requests);
	ctl_json_figures(object, &status->figures);
	return object;
}

/* ---- the view ----------------------------------------------------------------------------- */

/* The member's memory is to have more copies; the lead has 2 at the most. */
static bool
lacks_copy(const struct nam_server_status *lead, const struct nam_server_status *status)
{
	bool second = lead->replicas > 2 && status->id;

	return status->member && status->member != NAM_MEMBER_SUCCESSOR &&
		!(second ? status->backup_2 : status->backup)[0];
}

/* How far a steward is with the copies that are wanted. */
static void
print_replicas(const struct nam_server_status *lead, const struct ctl_servers *servers)
{
	unsigned backed = 0, twice = 0, lacking = 0;

	if (lead->replicas <= 1)
		return;
	for (unsigned i = 0; i < servers->count; i++) {
		backed += servers->list[i].status.backup[0] != '\0';
		twice += servers->list[i].status.backup_2[0] != '\0';
		lacking += lacks_copy(lead, &servers->list[i].status);
	}
	printf("replicas %u: %u memory server%s ha%s a backup", lead->replicas, backed,
		backed == 1 ? "" : "s", backed == 1 ? "s" : "ve");
	if (lead->replicas > 2)
		printf(", and %u a second one", twice);
	if (lacking)
		printf("; without a copy:");
	for (unsigned i = 0; i < servers->count; i++) {
		const struct nam_server_status *status = &servers->list[i].status;

		if (lacks_copy(lead, status))
			printf(" %u%s", status->id, status->member == NAM_MEMBER_UP ? "" :
				status->member == NAM_MEMBER_JOINING ? " (joining)" : " (copying)");
	}
	printf("\n");
}

/* Longer than a client takes to give a sign of life. */
static bool
is_silent(const struct nam_server_status *lead)
{
	return lead->silent.id && lead->silent_ms >= 1000;
}

/* @whole	all memory servers answer: the next client fences one that has ended */
static void
print_view(const struct nam_server_status *lead, bool whole)
{
	if (!lead->view) {
		printf("no view yet: the first client forms it\n");
		return;
	}
	printf("view %" PRIu64 ", lead %s, %u client%s", lead->view, lead->address, lead->clients,
		lead->clients == 1 ? "" : "s");
	if (lead->delaying.id)
		printf(", client %u (%s, pid %" PRIu64 ") delays view %" PRIu64,
			lead->delaying.id, lead->delaying.name, lead->delaying.pid, lead->view);
	if (lead->fencing.id && !whole)
		printf(", client %u (%s, pid %" PRIu64 ") ended and is not dead before all memory "
		       "servers say so", lead->fencing.id, lead->fencing.name, lead->fencing.pid);
	if (is_silent(lead))
		printf(", client %u (%s, pid %" PRIu64 ") has been silent for %u s, and free "
		       "blocks or sweeps wait for it", lead->silent.id, lead->silent.name,
			lead->silent.pid, lead->silent_ms / 1000);
	printf("\n");
}

/* If there is one. */
static cJSON *
json_client(cJSON *view, const char *what, const struct nam_client_named *named)
{
	cJSON *client = named->id ? cJSON_AddObjectToObject(view, what) : NULL;

	if (!client)
		return NULL;
	ctl_json_u64(client, "id", named->id);
	cJSON_AddStringToObject(client, "name", named->name);
	ctl_json_u64(client, "pid", named->pid);
	return client;
}

static void
json_view(cJSON *object, const struct nam_server_status *lead, const struct ctl_servers *servers)
{
	cJSON *view = cJSON_AddObjectToObject(object, "view"), *lacking;

	ctl_json_u64(view, "number", lead->view);
	if (!lead->view)
		return;
	cJSON_AddStringToObject(view, "lead", lead->address);
	ctl_json_u64(view, "replicas", lead->replicas);
	lacking = lead->replicas > 1 ? cJSON_AddArrayToObject(view, "without_copy") : NULL;
	for (unsigned i = 0; lacking && i < servers->count; i++)
		if (lacks_copy(lead, &servers->list[i].status))
			cJSON_AddItemToArray(lacking,
				cJSON_CreateNumber(servers->list[i].status.id));
	ctl_json_u64(view, "clients", lead->clients);
	ctl_json_u64(view, "acknowledged", lead->view_acknowledged);
	(void)json_client(view, "delaying", &lead->delaying);
	(void)json_client(view, "fencing", &lead->fencing);
	if (is_silent(lead))
		ctl_json_u64(json_client(view, "silent", &lead->silent), "ms", lead->silent_ms);
}

/* ---- status ------------------------------------------------------------------------------- */

static void
on_server(void *arg, const struct nam_server_status *status, const char *text)
{
	struct ctl_servers *servers = arg;
	struct ctl_server *list = realloc(servers->list, (servers->count + 1) * sizeof(*list));
	struct timespec now;

	if (!list) {
		servers->failed = true;
		return;
	}
	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	servers->list = list;
	list += servers->count++;
	*list = (struct ctl_server){ .status = *status,
		.at_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec };
	(void)snprintf(list->text, sizeof(list->text), "%s", text);
}

int
ctl_servers_query(const struct nam_client_options *options, struct ctl_servers *ret_servers)
{
	struct nam_client_options each = *options;
	struct nam_diag diag = { "" };
	int rc;

	/* Whether requests can travel by it is found out by connecting to all. */
	each.transport = NAM_TRANSPORT_DEFAULT;
	*ret_servers = (struct ctl_servers){ .count = 0 };
	rc = nam_cluster_status(&each, on_server, ret_servers, &diag);
	if (!rc && ret_servers->failed)
		rc = -ENOMEM;
	return rc ? ctl_failed(NULL, rc, diag.text) : NAM_EXIT_OK;
}

/* Returns the exit code of the first that does not answer. */
static int
show(const struct ctl *ctl, const struct ctl_servers *servers, cJSON *object)
{
	const struct nam_server_status *lead = NULL;
	cJSON *list = cJSON_AddArrayToObject(object, "servers");
	int exit_code = NAM_EXIT_OK;
	bool whole = true;

	for (unsigned i = 0; i < servers->count; i++) {
		const struct nam_server_status *status = &servers->list[i].status;

		whole &= !status->rc;
		if (!lead && !status->rc && !status->id)
			lead = status;
	}
	if (lead && object) {
		json_view(object, lead, servers);
	} else if (lead && !ctl->quiet) {
		print_view(lead, whole);
		print_replicas(lead, servers);
	}
	ctl_print(ctl, "%-4s %-30s %-8s %9s %9s %5s %8s %7s %8s", "id", "address", "state",
		"memory",
		"used", "pages", "connects", "indexes", "up");
	for (unsigned i = 0; i < servers->count; i++) {
		const struct ctl_server *server = &servers->list[i];

		if (server->status.rc) {
			int failed = ctl_failed(NULL, server->status.rc, server->text);

			exit_code = exit_code ? exit_code : failed;
		}
		if (list)
			cJSON_AddItemToArray(list, json_server(&server->status, server->text));
		else if (!ctl->quiet)
			print_server(&server->status);
	}
	return exit_code;
}

/* Each memory server is asked by itself, so one that has ended hides no other. */
int
ctl_status(struct ctl *ctl, char **args)
{
	struct nam_client_options options;
	struct ctl_servers servers;
	struct nam_diag diag = { "" };
	cJSON *object;
	int exit_code = ctl_client_options(ctl, &options), rc = 0;

	(void)args;
	if (exit_code)
		return exit_code;
	exit_code = ctl_servers_query(&options, &servers);
	if (exit_code) {
		free(servers.list);
		return exit_code;
	}
	object = ctl_json(ctl);
	exit_code = show(ctl, &servers, object);
	/* All live: are they one cluster?  One that takes no more clients has been asked, too. */
	if (!exit_code)
		rc = nam_cluster_check(&options, &diag);
	if (nam_err_is(rc, NAM_E_FABRIC_REFUSED) || nam_err_is(rc, NAM_E_FABRIC_SUCCESSOR))
		ctl_complain("note: %s", diag.text);
	else if (rc)
		exit_code = ctl_failed(NULL, rc, diag.text);
	if (!exit_code && ctl->books)
		exit_code = ctl_books(ctl, object);
	ctl_json_print(object);
	free(servers.list);
	return exit_code;
}
