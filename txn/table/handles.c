/* SPDX-License-Identifier: Apache-2.0 */
/* handles.c -- open tables and their stores, as the handles and sweeps of a client share them. */
#include <stdlib.h>

#include "rows_internal.h"

struct nam_table *
nam__store_table(struct nam__table_store *store, uint64_t number)
{
	struct nam_client *client = store->records->client;
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
	nam_records_close(store->records);
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
