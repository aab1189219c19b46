/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c -- the providers that are built in, and those that a program registers. */
#include "fabric.h"

#include <errno.h>
#include <string.h>

#include "common/fabric/provider.h"
#include "common/fabric/register.h"

#define PROVIDERS_MAX 8u

static const struct nam_fabric_ops *providers[PROVIDERS_MAX] = {
	&nam__shm_ops,
	&nam__tcp_ops,
#ifdef NAM_VERBS
	&nam__verbs_ops,
#endif
};

int
nam__fabric_register(const struct nam_fabric_ops *ops)
{
	for (size_t i = 0; i < PROVIDERS_MAX; i++) {
		if (!providers[i])
			providers[i] = ops;
		if (providers[i] == ops)
			return 0;
	}
	return -ENOSPC;
}

const struct nam_fabric_ops *
nam_fabric_find(const char *address, const char **ret_rest)
{
	const char *colon = strchr(address, ':');

	if (!colon)
		return NULL;
	for (size_t i = 0; i < PROVIDERS_MAX && providers[i]; i++) {
		const char *name = providers[i]->name;

		if (strlen(name) == (size_t)(colon - address) &&
			!memcmp(name, address, (size_t)(colon - address))) {
			if (ret_rest)
				*ret_rest = colon + 1;
			return providers[i];
		}
	}
	return NULL;
}

const char *
nam__fabric_absence(const char *address)
{
	if (strncmp(address, "sim:", 4))
		return NULL;
	return "this program has no simulator; run a simulation with nam-bench --cluster "
		"sim:PROFILE, or link nam-sim and call nam_sim_begin()";
}

const char *
nam_fabric_names(void)
{
	/* Addresses that begin with "sim:" have a meaning inside a simulation only. */
#ifdef NAM_VERBS
	return "shm, tcp, verbs";
#else
	return "shm, tcp; verbs was left out of this program: install libibverbs-dev and "
		"librdmacm-dev and build anew with -DNAM_VERBS=ON";
#endif
}

int
nam__fabric_answer(const struct nam_qp_options *options, const char *address,
	const struct nam_hello *challenge, struct nam_hello *answer, struct nam_diag *diag)
{
	int rc;

	if (!options->answer)
		return nam_diag_set(diag, -NAM_E_FABRIC_DENIED, "key: the memory server at %s "
			"wants one, and this client has none", address);
	memset(answer, 0, sizeof(*answer));
	rc = options->answer(options->answer_arg, challenge, answer, diag);
	if (!rc && answer->bytes > NAM_HELLO_BYTES_MAX)
		rc = nam_diag_set(diag, -EINVAL, "%s: an answer of %u bytes", address,
			answer->bytes);
	return rc;
}

int
nam__fabric_welcome(const struct nam_qp_options *options, struct nam_hello *reply,
	struct nam_diag *diag)
{
	return options->welcome ? options->welcome(options->answer_arg, reply, diag) : 0;
}

/* The first place of the same peer. */
static uint32_t
first_of(const struct nam__pending_accept *pending, const char *peer)
{
	uint32_t first = 0;

	while (!pending[first].peer || strcmp(pending[first].peer, peer) != 0)
		first++;
	return first;
}

uint32_t
nam__pending_accept_victim(const struct nam__pending_accept pending[NAM__PENDING_MAX])
{
	const uint32_t share = NAM__PENDING_MAX / 4;
	uint32_t places[NAM__PENDING_MAX] = { 0 }, first[NAM__PENDING_MAX];
	uint32_t most = share, chosen = NAM__PENDING_MAX;

	for (uint32_t i = 0; i < NAM__PENDING_MAX; i++) {
		if (!pending[i].peer)
			continue;
		first[i] = first_of(pending, pending[i].peer);
		if (++places[first[i]] > most)
			most = places[first[i]];
	}
	for (uint32_t i = 0; i < NAM__PENDING_MAX; i++)
		if (pending[i].peer && (most == share || places[first[i]] == most) &&
			(chosen == NAM__PENDING_MAX || pending[i].since < pending[chosen].since))
			chosen = i;
	return chosen;
}
