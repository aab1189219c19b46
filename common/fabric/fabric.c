/* SPDX-License-Identifier: Apache-2.0 */
/* fabric.c -- which providers are built in. */
#include "fabric.h"

#include <string.h>

#include "common/fabric/shm/shm.h"
#include "common/sim/sim.h"
#include "common/fabric/tcp/tcp.h"
#ifdef NAM_VERBS
#include "common/fabric/verbs/verbs.h"
#endif

static const struct nam_fabric_ops *const providers[] = {
	&nam__shm_ops,
	&nam__tcp_ops,
	&nam__sim_ops,
#ifdef NAM_VERBS
	&nam__verbs_ops,
#endif
};

#define PROVIDERS_COUNT (sizeof(providers) / sizeof(providers[0]))

const struct nam_fabric_ops *
nam_fabric_find(const char *address, const char **ret_rest)
{
	const char *colon = strchr(address, ':');

	if (!colon)
		return NULL;
	for (size_t i = 0; i < PROVIDERS_COUNT; i++) {
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
nam_fabric_names(void)
{
	/* "sim" exists only inside a simulation, which nobody who mistypes an address is in. */
#ifdef NAM_VERBS
	return "shm, tcp, verbs";
#else
	return "shm, tcp; verbs was left out of this program: install libibverbs-dev and "
		"librdmacm-dev and build anew with -DNAM_VERBS=ON";
#endif
}
