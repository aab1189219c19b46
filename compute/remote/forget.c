/* SPDX-License-Identifier: Apache-2.0 */
#include "compute/remote/forget.h"

void
nam__holder_enter(struct nam_client *client, struct nam__holder *holder,
	void (*forget)(struct nam__holder *holder))
{
	pthread_mutex_lock(&client->holders_mutex);
	holder->forget = forget;
	LIST_INSERT_HEAD(&client->holders, holder, link);
	pthread_mutex_unlock(&client->holders_mutex);
}

void
nam__holder_leave(struct nam_client *client, struct nam__holder *holder)
{
	if (!holder->forget)
		return;
	pthread_mutex_lock(&client->holders_mutex);
	LIST_REMOVE(holder, link);
	pthread_mutex_unlock(&client->holders_mutex);
}

/* C16: before the generation is noted.  A holder that enters meanwhile sees the generation. */
void
nam__holders_forget(struct nam_client *client, unsigned generation)
{
	struct nam__holder *holder;

	pthread_mutex_lock(&client->holders_mutex);
	if (NAM_GUARD(FORGET_HANDLES))
		LIST_FOREACH(holder, &client->holders, link)
			holder->forget(holder);
	/* Release: pairs with nam__generation(). */
	atomic_store_explicit(&client->generation, generation, memory_order_release);
	pthread_mutex_unlock(&client->holders_mutex);
}
