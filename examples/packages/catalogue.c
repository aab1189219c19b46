/* SPDX-License-Identifier: Apache-2.0 */
/* catalogue.c -- packages, from what `apt-cache dumpavail` writes; also /var/lib/dpkg/status. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packages.h"

enum field { PACKAGE, VERSION, IN_SECTION, MAINTAINED_BY, OF_SOURCE, INSTALLED_SIZE, FIELDS };

static int
package_order(const void *a, const void *b)
{
	const struct package *one = a, *other = b;
	int order = strcmp(one->source, other->source);

	return order ? order : strcmp(one->key, other->key);
}

/* Keep a line of a stanza if it is wanted. */
static void
field_take(char **fields, char *line)
{
	static const char *const names[FIELDS] = { "Package: ", "Version: ", "Section: ",
		"Maintainer: ", "Source: ", "Installed-Size: " };

	for (uint32_t i = 0; i < FIELDS; i++)
		if (!fields[i] && strncmp(line, names[i], strlen(names[i])) == 0)
			fields[i] = line + strlen(names[i]);
}

/* The package of a stanza, if that is whole. */
static int
package_add(struct catalogue *catalogue, char **fields)
{
	struct package *package = &catalogue->packages[catalogue->packages_count];

	for (uint32_t i = 0; i < FIELDS; i++)
		if (!fields[i] && i != OF_SOURCE)
			return 0;
	if (strcmp(fields[IN_SECTION], PROPOSED) == 0 ||
		strlen(fields[PACKAGE]) + 1 + strlen(fields[VERSION]) > NAM_TABLE_KEY_BYTES_MAX)
		return 0;
	*package = (struct package){ .section = fields[IN_SECTION],
		.maintainer = fields[MAINTAINED_BY],
		.source = fields[OF_SOURCE] ? fields[OF_SOURCE] : fields[PACKAGE],
		.size = strtoull(fields[INSTALLED_SIZE], NULL, 10) };
	if (asprintf(&package->key, "%s %s", fields[PACKAGE], fields[VERSION]) < 0)
		return -ENOMEM;
	catalogue->packages_count++;
	package->source[strcspn(package->source, " ")] = '\0'; /* "name (version)" */
	return 0;
}

/* Stanzas of lines, an empty line after each. */
static int
stanzas_read(uint32_t rows_max, struct catalogue *catalogue)
{
	char *fields[FIELDS] = { NULL }, *rest = catalogue->text, *line;
	int rc = 0;

	while (!rc && rest && catalogue->packages_count < rows_max) {
		line = strsep(&rest, "\n");
		if (*line)
			field_take(fields, line);
		if (!*line || !rest) {
			rc = package_add(catalogue, fields);
			memset(fields, 0, sizeof(fields));
		}
	}
	return rc;
}

/* Each package once. */
static void
packages_sort(struct catalogue *catalogue)
{
	struct package *packages = catalogue->packages;
	uint32_t count = 0;

	qsort(packages, catalogue->packages_count, sizeof(*packages), package_order);
	for (uint32_t i = 0; i < catalogue->packages_count; i++)
		if (count && package_order(&packages[i], &packages[count - 1]) == 0)
			free(packages[i].key);
		else
			packages[count++] = packages[i];
	catalogue->packages_count = count;
}

/* Cut the packages into groups, and choose those that will be written. */
static int
groups_make(struct catalogue *catalogue)
{
	struct package *packages = catalogue->packages;
	struct group *group = NULL;
	uint32_t several = 0, number = 0;

	catalogue->groups = calloc(catalogue->packages_count + 1, sizeof(*group));
	if (!catalogue->groups)
		return -ENOMEM;
	for (uint32_t i = 0; i < catalogue->packages_count; i++) {
		bool next = !group ||
			strcmp(packages[group->first].source, packages[i].source) != 0;

		catalogue->sources_count += next;
		if (next || group->count == GROUP_MAX) {
			group = &catalogue->groups[catalogue->groups_count++];
			group->first = i;
		}
		several += ++group->count == 2;
		packages[i].group = catalogue->groups_count - 1;
	}
	for (uint32_t i = 0; i < catalogue->groups_count; i++)
		if (catalogue->groups[i].count > 1 && number++ % (several / HOT_MAX + 1) == 0)
			catalogue->hot[catalogue->hot_count++] = i;
	return catalogue->hot_count ? 0 : -ENODATA;
}

int
catalogue_read(const char *path, uint32_t rows_max, struct catalogue *ret_catalogue)
{
	FILE *file = fopen(path, "r");
	int rc = file ? 0 : -errno;
	size_t size = 0;

	*ret_catalogue = (struct catalogue){ .packages = NULL };
	if (file && getdelim(&ret_catalogue->text, &size, '\0', file) < 0)
		rc = ferror(file) ? -errno : -ENODATA;
	if (file)
		fclose(file);
	if (!rc) {
		ret_catalogue->packages = calloc(rows_max, sizeof(struct package));
		rc = ret_catalogue->packages ? stanzas_read(rows_max, ret_catalogue) : -ENOMEM;
	}
	if (!rc) {
		packages_sort(ret_catalogue);
		rc = groups_make(ret_catalogue);
	}
	if (!rc)
		return 0;
	fprintf(stderr, "%s: %s; --catalogue wants what `apt-cache dumpavail` writes\n", path,
		rc == -ENODATA ? "no two packages of one source" : nam_err_text(rc));
	catalogue_free(ret_catalogue);
	return rc;
}

void
catalogue_free(struct catalogue *catalogue)
{
	for (uint32_t i = 0; i < catalogue->packages_count; i++)
		free(catalogue->packages[i].key);
	free(catalogue->packages);
	free(catalogue->groups);
	free(catalogue->text);
	*catalogue = (struct catalogue){ .packages = NULL };
}

const struct package *
catalogue_find(const struct catalogue *catalogue, const struct nam_bytes *source,
	const struct nam_bytes *key)
{
	char *source_text = strndup(source->data, source->bytes);
	char *key_text = strndup(key->data, key->bytes);
	const struct package wanted = { .source = source_text, .key = key_text };
	const struct package *found = source_text && key_text ?
		bsearch(&wanted, catalogue->packages, catalogue->packages_count, sizeof(wanted),
			package_order) : NULL;

	free(source_text);
	free(key_text);
	return found;
}
