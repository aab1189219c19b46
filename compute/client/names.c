/* SPDX-License-Identifier: Apache-2.0 */
/* names.c -- names in the catalog, whatever they lead to. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "compute/backup/backed.h"
#include "compute/backup/backups.h"
#include "names.h"

/* As people call them: "there is no <short> 'x'", "'x' is <long>". */
static const struct kind {
	const char *brief, *is;
} kinds[] = {
	[NAM_CATALOG_INDEX] = { "index", "an index" },
	[NAM_CATALOG_KV] = { "store", "a key-value store" },
	[NAM_CATALOG_RECORDS] = { "record store", "a record store" },
	[NAM_CATALOG_TABLE] = { "table", "a table" },
	[NAM_CATALOG_SERIAL] = { "store of serializable transactions",
		"a store of serializable transactions" },
};

static const struct kind *
kind_of(uint32_t number)
{
	static const struct kind unknown = { "thing", "something that this library does not know" };

	return number < sizeof(kinds) / sizeof(kinds[0]) ? &kinds[number] : &unknown;
}

int
nam__name_check(struct nam_worker *worker, enum nam_catalog_kind kind, const char *name)
{
	size_t length = strlen(name);

	if (length == 0 || length >= NAM_INDEX_NAME_BYTES)
		return nam_diag_set(&worker->diag, -EINVAL,
			"the name of %s has 1 to %u bytes; '%.80s' has %zu", kind_of(kind)->is,
			NAM_INDEX_NAME_BYTES - 1, name, length);
	for (size_t i = 0; i < length; i++)
		if (!isgraph((unsigned char)name[i]))
			return nam_diag_set(&worker->diag, -EINVAL, "the name of %s has printable "
				"bytes without blanks only; byte %zu of '%s' is none",
				kind_of(kind)->is, i + 1, name);
	return 0;
}

struct nam_rpc_catalog_entry
nam__name_entry(enum nam_catalog_kind kind, const char *name, uint64_t entry)
{
	struct nam_rpc_catalog_entry ret = { .superblock = nam_catalog_entry(kind, entry) };

	memcpy(ret.name, name, strlen(name));
	return ret;
}

/* The entry of a name at the lead. */
NAM_FIBER_FN static int
get(struct nam_worker *worker, const struct nam_rpc_catalog_entry *name,
	struct nam_rpc_catalog_entry *ret_found)
{
	uint32_t bytes = sizeof(*ret_found);
	int rc = nam__lead_call(worker, NAM_RPC_CATALOG_GET, name, sizeof(*name), ret_found, &bytes,
		NULL); /* SUSPENDS */

	return rc || bytes == sizeof(*ret_found) ? rc : -NAM_E_FABRIC_PROTOCOL;
}

/* Whether the lead has the first of them, with that entry. */
NAM_FIBER_FN static int
look(struct nam_worker *worker, const struct nam_rpc_catalog_entry *names, bool *ret_has)
{
	struct nam_rpc_catalog_entry found;
	int rc = get(worker, names, &found); /* SUSPENDS */

	*ret_has = !rc && found.superblock == names->superblock;
	return rc == -NAM_E_NOINDEX ? 0 : rc;
}

/*
 * C33: the lead decides which object has a name, so it is the first to get it.  If another client
 * has dropped it since, that was at the backup too early.
 *
 * @ret_dropped	another client has: it is not to be put again
 */
NAM_FIBER_FN static int
put_both(struct nam_worker *worker, const struct nam_rpc_catalog_entry *names, uint32_t count,
	bool twice, bool *ret_dropped)
{
	bool now, has = false;
	int rc = nam__lead_call(worker, NAM_RPC_CATALOG_PUT, names,
		count * (uint32_t)sizeof(*names), NULL, NULL, &now); /* SUSPENDS */

	/* The request was carried out before, at the lead, or at the backup that leads now. */
	if (rc == -NAM_E_INDEX_EXISTS && (twice || now))
		rc = look(worker, names, &has) ?: (has ? 0 : rc); /* SUSPENDS */
	if (rc || !nam__is_backed(worker->client, worker->client->catalog_slot))
		return rc;
	rc = nam__backed_names(worker, NAM_RPC_CATALOG_PUT, names, count); /* SUSPENDS */
	if (!rc)
		rc = look(worker, names, &has); /* SUSPENDS */
	*ret_dropped = !rc && !has;
	if (*ret_dropped)
		rc = nam__backed_names(worker, NAM_RPC_CATALOG_DROP, names, count); /* SUSPENDS */
	return rc;
}

/* C33: the backup is the first to lose it. */
NAM_FIBER_FN static int
drop_both(struct nam_worker *worker, const struct nam_rpc_catalog_entry *names, uint32_t count,
	bool twice, bool *ret_dropped)
{
	int rc = nam__backed_names(worker, NAM_RPC_CATALOG_DROP, names, count); /* SUSPENDS */
	bool now = false;

	*ret_dropped = false;
	if (!rc)
		rc = nam__lead_call(worker, NAM_RPC_CATALOG_DROP, names,
			count * (uint32_t)sizeof(*names), NULL, NULL, &now); /* SUSPENDS */
	return rc == -NAM_E_NOINDEX && (twice || now) ? 0 : rc;
}

/* PUT and DROP, until the lead and its backup are the same afterwards as before. */
NAM_FIBER_FN static int
change(struct nam_worker *worker, uint16_t type, const struct nam_rpc_catalog_entry *names,
	uint32_t count)
{
	const struct nam__server *lead = &worker->client->servers[worker->client->catalog_slot];
	bool twice = false, dropped = false;
	int rc = nam__change_check(worker);
	struct nam_diag said;
	uint64_t boot, backup;

	while (!rc && !dropped && (!twice || boot != lead->boot || backup != lead->backups[0])) {
		boot = lead->boot;
		backup = lead->backups[0];
		rc = (type == NAM_RPC_CATALOG_PUT ? put_both : drop_both)(worker, names, count,
			twice, &dropped); /* SUSPENDS */
		twice = true;
	}
	if (!nam_err_is(rc, NAM_E_FABRIC))
		return rc;
	said = worker->diag;
	return nam_diag_set(&worker->diag, rc, "%s; whether the catalog has '%s' %s is not known",
		said.text[0] ? said.text : nam_err_text(rc), names[0].name,
		type == NAM_RPC_CATALOG_PUT ? "now" : "still");
}

/* The first of the names that is there, or the first of all. */
NAM_FIBER_FN static const char *
taken(struct nam_worker *worker, const struct nam_rpc_catalog_entry *names, uint32_t count)
{
	for (uint32_t i = 0; i < count && count > 1; i++) {
		struct nam_rpc_catalog_entry found;

		if (!get(worker, &names[i], &found)) /* SUSPENDS */
			return names[i].name;
	}
	return names[0].name;
}

int
nam__names_put(struct nam_worker *worker, const struct nam_rpc_catalog_entry *names,
	uint32_t count)
{
	int rc = change(worker, NAM_RPC_CATALOG_PUT, names, count); /* SUSPENDS */

	if (rc == -NAM_E_INDEX_EXISTS)
		return nam_diag_set(&worker->diag, rc, "the name '%s' is taken already: open what "
			"has it, drop that, or choose another name",
			taken(worker, names, count)); /* SUSPENDS */
	if (rc == -NAM_E_LIMIT)
		return nam_diag_set(&worker->diag, rc, "the catalog is full: drop something before "
			"'%s' is made", names[0].name);
	return rc;
}

static int
entry_of(struct nam_worker *worker, enum nam_catalog_kind kind, const char *name, uint64_t entry,
	struct nam_rpc_catalog_entry *ret)
{
	int rc = nam__name_check(worker, kind, name);

	if (!rc)
		*ret = nam__name_entry(kind, name, entry);
	return rc;
}

int
nam__name_put(struct nam_worker *worker, enum nam_catalog_kind kind, const char *name,
	uint64_t entry)
{
	struct nam_rpc_catalog_entry one;
	int rc = entry_of(worker, kind, name, entry, &one);

	return rc ? rc : nam__names_put(worker, &one, 1); /* SUSPENDS */
}

static int
absent(struct nam_worker *worker, enum nam_catalog_kind kind, const char *name)
{
	return nam_diag_set(&worker->diag, -NAM_E_NOINDEX, "there is no %s '%s' in the catalog",
		kind_of(kind)->brief, name);
}

int
nam__names_take(struct nam_worker *worker, const struct nam_rpc_catalog_entry *names,
	uint32_t count)
{
	int rc = change(worker, NAM_RPC_CATALOG_DROP, names, count); /* SUSPENDS */

	return rc == -NAM_E_NOINDEX ? absent(worker, nam_catalog_entry_kind(names[0].superblock),
		names[0].name) : rc;
}

int
nam__name_take(struct nam_worker *worker, enum nam_catalog_kind kind, const char *name,
	uint64_t entry)
{
	struct nam_rpc_catalog_entry one;
	int rc = entry_of(worker, kind, name, entry, &one);

	return rc ? rc : nam__names_take(worker, &one, 1); /* SUSPENDS */
}

int
nam__name_find(struct nam_worker *worker, enum nam_catalog_kind kind, const char *name,
	uint64_t *ret_entry)
{
	struct nam_rpc_catalog_entry request, found;
	uint32_t is;
	int rc = entry_of(worker, kind, name, 0, &request);

	if (!rc)
		rc = get(worker, &request, &found); /* SUSPENDS */
	if (rc == -NAM_E_NOINDEX)
		return absent(worker, kind, name);
	if (rc)
		return rc;
	is = nam_catalog_entry_kind(found.superblock);
	if (is != kind)
		return nam_diag_set(&worker->diag, -NAM_E_KIND,
			"'%s' is %s and not %s: choose another name, or use what it is", name,
			kind_of(is)->is, kind_of(kind)->is);
	*ret_entry = nam_catalog_entry_value(found.superblock);
	return 0;
}

/* A page as it came; names ascend, or the list would never end. */
static int
page_visit(struct nam_rpc_catalog_list_reply *page, uint32_t bytes, char *after, nam__catalog_fn fn,
	void *arg)
{
	if (bytes < sizeof(*page) ||
		bytes - sizeof(*page) != page->count * sizeof(page->entries[0]))
		return -NAM_E_FABRIC_PROTOCOL;
	for (uint32_t i = 0; i < page->count; i++) {
		struct nam_rpc_catalog_entry *entry = &page->entries[i];
		struct nam__catalog_name name = {
			.kind = nam_catalog_entry_kind(entry->superblock),
			.entry = nam_catalog_entry_value(entry->superblock),
		};
		int rc;

		entry->name[sizeof(entry->name) - 1] = '\0';
		if (strcmp(entry->name, after) <= 0)
			return -NAM_E_FABRIC_PROTOCOL;
		memcpy(after, entry->name, sizeof(entry->name));
		memcpy(name.name, after, sizeof(name.name));
		rc = fn(arg, &name);
		if (rc)
			return rc;
	}
	return 0;
}

int
nam__catalog_list(struct nam_worker *worker, nam__catalog_fn fn, void *arg)
{
	struct nam_rpc_catalog_list_request request = { .after = "" };
	struct nam_rpc_catalog_list_reply *page = malloc(NAM_RPC_BODY_MAX);
	int rc;

	if (!page)
		return -ENOMEM;
	do {
		uint32_t bytes = NAM_RPC_BODY_MAX;

		rc = nam__lead_call(worker, NAM_RPC_CATALOG_LIST, &request, sizeof(request), page,
			&bytes, NULL); /* SUSPENDS */
		if (!rc)
			rc = page_visit(page, bytes, request.after, fn, arg);
	} while (!rc && page->count);
	free(page);
	return rc;
}

struct names_of {
	enum nam_catalog_kind kind;
	nam__name_fn fn;
	void *arg;
};

static int
on_any(void *arg, const struct nam__catalog_name *name)
{
	const struct names_of *of = arg;

	return name->kind == of->kind ? of->fn(of->arg, name->name) : 0;
}

int
nam__names_list(struct nam_worker *worker, enum nam_catalog_kind kind, nam__name_fn fn, void *arg)
{
	struct names_of of = { kind, fn, arg };

	return nam__catalog_list(worker, on_any, &of); /* SUSPENDS */
}
