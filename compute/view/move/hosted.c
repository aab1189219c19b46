/* SPDX-License-Identifier: Apache-2.0 */
#include "hosted.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster.h"
#include "common/env.h"
#include "common/rpc/status_rpc.h"
#include "compute/view/changer.h"
#include "move_internal.h"

#define PAUSE_NS 50000000ull
#define LEFTOVER_NS 20000000000ull	/* for the end of one, with its connections */

/* ---- all memory servers ---------------------------------------------------------------------- */

static void
note(void *arg, const struct nam_server_status *status, const char *text)
{
	struct nam__servers *servers = arg;
	struct nam_server_status *more = realloc(servers->list,
		(servers->count + 1) * sizeof(*more));

	(void)text;
	if (!more) {
		servers->incomplete = true;
		return;
	}
	servers->list = more;
	more[servers->count++] = *status;
}

int
nam__servers_query(const struct nam_client_options *options, struct nam__servers *servers,
	struct nam_diag *diag)
{
	int rc;

	servers->count = 0;
	servers->incomplete = false;
	rc = nam_cluster_status(options, note, servers, diag); /* SUSPENDS */
	if (!rc && servers->incomplete)
		return nam_diag_set(diag, -ENOMEM, "no memory for the state of the memory servers");
	return rc;
}

void
nam__servers_free(struct nam__servers *servers)
{
	free(servers->list);
	*servers = (struct nam__servers){ 0 };
}

bool
nam__is_member(const struct nam_server_status *status)
{
	return !status->rc && status->member != NAM_MEMBER_NONE &&
		status->member != NAM_MEMBER_SUCCESSOR;
}

bool
nam__hosts(const char *host, const char *address)
{
	char beside[NAM_VIEW_ADDRESS_BYTES];

	for (uint32_t number = 1; number < NAM_MOVE_HOSTED_MAX; number++)
		if (!nam__cluster_address_beside(host, number, beside, sizeof(beside)) &&
			!strcmp(beside, address))
			return true;
	return false;
}

const struct nam_server_status *
nam__host_choose(const struct nam__servers *servers, const struct nam_server_status *member,
	struct nam_diag *diag)
{
	const struct nam_server_status *best = NULL;
	char most[32], needed[32];

	for (uint32_t i = 0; i < servers->count; i++) {
		const struct nam_server_status *status = &servers->list[i];

		if (!status->rc && status->member == NAM_MEMBER_UP &&
			status->host == status->boot && status->host != member->host &&
			!nam__hosts(status->address, member->backup) &&
			!nam__hosts(status->address, member->backup_2) &&
			(!best || status->spare_bytes > best->spare_bytes))
			best = status;
	}
	if (best && best->spare_bytes >= member->memory_bytes)
		return best;
	(void)nam_diag_set(diag, -EDQUOT, "memory server %u has %s, and the most that another "
		"process has to spare is %s. Start a nam-memserver with enough --spare and add it, "
		"or a --successor for this memory", member->id,
		nam__bytes_text(member->memory_bytes, needed, sizeof(needed)),
		nam__bytes_text(best ? best->spare_bytes : 0, most, sizeof(most)));
	return NULL;
}

/* ---- a successor ----------------------------------------------------------------------------- */

NAM_FIBER_FN static int
ask(struct nam_client *host, enum nam_rpc_move_step step, const struct nam_rpc_move_host *wanted,
	struct nam_rpc_move_hosted *ret)
{
	_Alignas(8) uint8_t reply[sizeof(struct nam_rpc_move_reply) + sizeof(*ret)];
	uint32_t bytes = sizeof(reply);
	int rc = nam__move_call(host, step, 0, wanted, sizeof(*wanted), 0, (void *)reply,
		&bytes); /* SUSPENDS */

	if (!rc && step == NAM_RPC_MOVE_HOST && bytes != sizeof(reply))
		return -NAM_E_FABRIC_PROTOCOL;
	memcpy(ret, reply + sizeof(struct nam_rpc_move_reply), sizeof(*ret));
	return rc;
}

/* The view has its memory elsewhere.  -EAGAIN: not yet. */
NAM_FIBER_FN static int
leftover_end(struct nam_client *host, uint32_t id, uint64_t boot)
{
	const struct nam_rpc_move_host old = { .id = id, .hosted = boot };
	struct nam_rpc_move_hosted none;

	return ask(host, NAM_RPC_MOVE_UNHOST, &old, &none); /* SUSPENDS */
}

/* Until it is ready, as long as it gets on. */
NAM_FIBER_FN static int
start(const struct nam__hosting *hosting, struct nam_client *host,
	const struct nam_rpc_move_host *wanted, uint32_t *ret_number, struct nam_diag *diag)
{
	uint64_t timeout_ns = host->options.timeout_ms * 1000000ull;
	uint64_t seen = UINT64_MAX, seen_ns = nam_now_ns(), began_ns = seen_ns;
	struct nam_rpc_move_hosted hosted;
	int rc;

	for (;;) {
		rc = nam__changer_lease_keep(hosting->options->view_store, diag);
		if (rc)
			return rc;
		rc = ask(host, NAM_RPC_MOVE_HOST, wanted, &hosted); /* SUSPENDS */
		if (!rc && hosted.ready && hosted.phase == NAM_SERVER_SUCCESSOR)
			break;
		if (!rc && hosted.ready) {
			rc = leftover_end(host, wanted->id, hosted.boot); /* SUSPENDS */
			if (rc == -EAGAIN && nam_now_ns() - began_ns < LEFTOVER_NS) {
				rc = 0;
				seen_ns = nam_now_ns();
			}
		}
		if (!rc && hosted.ready_bytes == seen && nam_now_ns() - seen_ns > timeout_ns)
			rc = -NAM_E_FABRIC_TIMEOUT;
		if (rc)
			return nam_diag_set(diag, rc, "a successor of memory server %u does not "
				"start in the process of the memory server at %s: %s", wanted->id,
				host->servers[0].address, rc == -EDQUOT ?
				"it has less to spare by now" : nam_err_text(rc));
		if (hosted.ready_bytes != seen)
			seen_ns = nam_now_ns();
		seen = hosted.ready_bytes;
		rc = hosting->fn(hosting->arg, hosted.ready_bytes, hosted.total_bytes);
		if (rc)
			return rc;
		nam_sleep_ns(PAUSE_NS);
	}
	*ret_number = hosted.number;
	return 0;
}

/* The size of its regions. */
NAM_FIBER_FN static int
region_bytes(const struct nam__hosting *hosting, uint64_t *ret, struct nam_diag *diag)
{
	const struct nam_server_status *member = hosting->member;
	struct nam_client *prober = NULL;
	const struct nam_region *region;
	int rc = nam__prober_connect(hosting->options, member->address, 0, false, &prober, diag);

	if (!rc)
		rc = nam__regions_learn(prober, 0, 1, diag); /* SUSPENDS */
	region = rc ? NULL : nam_region_table_find(&prober->regions,
		nam_gaddr_make((uint16_t)(member->id * NAM_REGIONS_PER_SERVER), 0, 0));
	if (region)
		*ret = region->bytes;
	else if (!rc)
		rc = nam_diag_set(diag, -NAM_E_FABRIC_PROTOCOL, "the memory server at %s announces "
			"no first region", member->address);
	nam__client_free(prober);
	return rc;
}

int
nam__successor_host(const struct nam__hosting *hosting, char *address, struct nam_diag *diag)
{
	struct nam_rpc_move_host wanted = { .id = hosting->member->id,
		.memory_bytes = hosting->member->memory_bytes };
	const char *beside = hosting->host->address;
	struct nam_client *host = NULL;
	uint32_t number = 0;
	int rc = region_bytes(hosting, &wanted.region_bytes, diag); /* SUSPENDS */

	if (!rc)
		rc = nam__prober_connect(hosting->options, beside, 0, false, &host, diag);
	if (!rc)
		rc = start(hosting, host, &wanted, &number, diag); /* SUSPENDS */
	nam__client_free(host);
	if (!rc && nam__cluster_address_beside(beside, number, address, NAM_VIEW_ADDRESS_BYTES))
		return nam_diag_set(diag, -ENAMETOOLONG, "there is no address beside %s", beside);
	return rc;
}

int
nam__successor_end(const struct nam_client_options *options, const char *host, uint32_t id,
	uint64_t boot)
{
	uint64_t deadline_ns = nam_now_ns() + LEFTOVER_NS;
	struct nam_client *prober = NULL;
	struct nam_diag diag;
	int rc = nam__prober_connect(options, host, 0, false, &prober, &diag);

	while (!rc && (rc = leftover_end(prober, id, boot)) == -EAGAIN && /* SUSPENDS */
		nam_now_ns() < deadline_ns) {
		nam_sleep_ns(PAUSE_NS);
		rc = 0;
	}
	nam__client_free(prober);
	return rc == -NAM_E_CLUSTER ? 0 : rc;
}
