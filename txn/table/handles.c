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
	table = store->tables;
	while (table && table->number != number)
		table = table->next;
	if (table)
		table->users++;
	pthread_mutex_unlock(&client->mutex);
	return table;
}

static void
store_leave(struct nam_client *client, struct nam__table_store *store)
{
	struct nam__table_store **link = &nam__txn_client(client)->table_stores;
	bool last;

	pthread_mutex_lock(&client->mutex);
	last = --store->users == 0;
	while (last && *link != store)
		link = &(*link)->next;
	if (last)
		*link = store->next;
	pthread_mutex_unlock(&client->mutex);
	if (last) {
		nam_records_close(store->records);
		free(store);
	}
}

void
nam__table_free(struct nam_client *client, struct nam_table *table)
{
	for (uint32_t i = 0; i < NAM_TABLE_INDEXES_MAX; i++)
		nam_index_close(table->indexes[i]);
	if (table->store)
		store_leave(client, table->store);
	free(table);
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
