/* SPDX-License-Identifier: Apache-2.0 */
/* handles.c -- open tables and their stores, as the handles and sweeps of a client share them. */
#include <stdlib.h>

#include "ops.h"

void
nam__table_join(struct nam_client *client, struct nam_table *table,
	struct nam__table_store *opened)
{
	struct nam__table_store *store;

	pthread_mutex_lock(&client->mutex);
	/* By number: the name may be reused by now. */
	LIST_FOREACH(store, &nam__txn_client(client)->table_stores, link)
		if (store->number == opened->number)
			break;
	if (!store) {
		store = opened;
		LIST_INSERT_HEAD(&nam__txn_client(client)->table_stores, store, link);
	}
	store->users++;
	table->users = 1;
	table->store = store;
	LIST_INSERT_HEAD(&store->tables, table, link);
	pthread_mutex_unlock(&client->mutex);
	if (store == opened)
		return;
	opened->ops->close(opened);
	free(opened);
}

struct nam_table *
nam__store_table(struct nam_client *client, struct nam__table_store *store, uint64_t number)
{
	struct nam_table *table;

	pthread_mutex_lock(&client->mutex);
	LIST_FOREACH(table, &store->tables, link)
		if (table->superblock.number == number)
			break;
	if (table)
		table->users++;
	pthread_mutex_unlock(&client->mutex);
	return table;
}

void
nam__table_free(struct nam_client *client, struct nam_table *table)
{
	struct nam__table_store *store = table->store;

	for (uint32_t i = 0; i < NAM_TABLE_INDEXES_MAX; i++)
		nam_index_close(table->indexes[i]);
	free(table);
	if (!store)
		return;
	pthread_mutex_lock(&client->mutex);
	if (--store->users)
		store = NULL;
	else
		LIST_REMOVE(store, link);
	pthread_mutex_unlock(&client->mutex);
	if (!store)
		return;
	store->ops->close(store);
	free(store);
}

void
nam__table_leave(struct nam_client *client, struct nam_table *table)
{
	bool last;

	pthread_mutex_lock(&client->mutex);
	last = --table->users == 0;
	pthread_mutex_unlock(&client->mutex);
	if (last)
		nam__table_free(client, table);
}
