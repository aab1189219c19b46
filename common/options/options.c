/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <argp.h>
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cluster.h"
#include "common/exit.h"
#include "common/version.h"

#define MDOC_COLUMNS 78u

enum {
	KEY_USAGE = 0x1000,
	KEY_MDOC,
	KEY_ROW,	/* the first row's; those with a letter use the letter */
};

static const struct argp_option standard[] = {
	{ "help", 'h', NULL, 0, "Show this and exit.", -1 },
	{ "usage", KEY_USAGE, NULL, 0, "Show the options in short and exit.", -1 },
	{ "version", 'V', NULL, 0, "Show the version and exit.", -1 },
	{ "mdoc", KEY_MDOC, "SCOPE", OPTION_ARG_OPTIONAL | OPTION_HIDDEN, NULL, -1 },
	{ 0 },
};

struct run {
	const struct nam_options_table *table;
	void *options;
	bool ends;	/* after --help, --usage, --version or --mdoc */
};

static void
store(const struct nam_option *row, void *options, uint64_t value)
{
	/* All hosts are little endian: the low bytes come first. */
	memcpy((char *)options + row->offset, &value, row->size);
}

static int
take_count(const struct nam_option *row, const char *text, void *options, struct nam_diag *diag)
{
	static const uint64_t factors[] = { 1000, 1000, 1000000, 1000000000 };
	bool negative = *text == '-';
	uint64_t value;

	if (nam__parse_number(text + negative, "kKMG", factors, &value) ||
		(negative ? value > INT64_MAX || -(int64_t)value < row->min :
			    value > row->max || (row->min > 0 && value < (uint64_t)row->min)))
		return nam_diag_set(diag, -EINVAL, "'%s' is not a whole number from %" PRId64
			" to %" PRIu64, text, row->min, row->max);
	store(row, options, negative ? -value : value);
	return 0;
}

static int
take_bytes(const struct nam_option *row, const char *text, void *options, struct nam_diag *diag)
{
	char low[32], high[32];
	uint64_t value;

	if (nam_parse_bytes(text, &value))
		return nam_diag_set(diag, -EINVAL, "'%s' is not a size; write 4096, 64k, 512M "
			"or 8G", text);
	if (value < (uint64_t)row->min || value > row->max)
		return nam_diag_set(diag, -EINVAL, "'%s' is not a size from %s to %s", text,
			nam__bytes_text((uint64_t)row->min, low, sizeof(low)),
			nam__bytes_text(row->max, high, sizeof(high)));
	store(row, options, value);
	return 0;
}

static int
take_real(const struct nam_option *row, const char *text, void *options, struct nam_diag *diag)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end || !(value >= row->low && value <= row->high))
		return nam_diag_set(diag, -EINVAL, "'%s' is not a number from %g to %g", text,
			row->low, row->high);
	memcpy((char *)options + row->offset, &value, sizeof(value));
	return 0;
}

static int
take_choice(const struct nam_option *row, const char *text, void *options, struct nam_diag *diag)
{
	const char *const *choices = row->choices;
	char list[160];
	size_t length = 0;

	for (unsigned i = 0; choices[i]; i++) {
		if (!strcasecmp(choices[i], text)) {
			store(row, options, (uint64_t)row->min + i);
			return 0;
		}
		if (length < sizeof(list))
			length += (size_t)snprintf(list + length, sizeof(list) - length, "%s%s",
				!i ? "" : choices[i + 1] ? ", " : " or ", choices[i]);
	}
	return nam_diag_set(diag, -EINVAL, "'%s' is not known; choose %s", text, list);
}

static int
take_row(const struct nam_option *row, const char *text, void *options, struct nam_diag *diag)
{
	switch (row->type) {
	case NAM_OPTION_FLAG:
		store(row, options, true);
		return 0;
	case NAM_OPTION_COUNT:
		return take_count(row, text, options, diag);
	case NAM_OPTION_BYTES:
		return take_bytes(row, text, options, diag);
	case NAM_OPTION_REAL:
		return take_real(row, text, options, diag);
	case NAM_OPTION_TEXT:
		memcpy((char *)options + row->offset, &text, sizeof(text));
		return 0;
	case NAM_OPTION_CHOICE:
		return take_choice(row, text, options, diag);
	case NAM_OPTION_CALL:
		return row->take(options, text, diag);
	}
	return -EINVAL;
}

static int
take(const struct nam_option *row, const char *text, void *options, struct nam_diag *diag)
{
	int rc = take_row(row, text, options, diag);

	if (!rc && row->set)
		*((bool *)options + row->set) = true;
	return rc;
}

int
nam__option_set(const struct nam_options_table *table, const char *name, const char *text,
	void *options, struct nam_diag *diag)
{
	const struct nam_option *row = table->rows;

	while (row->help && (!row->name || strcmp(row->name, name) != 0))
		row++;
	return row->help ? take(row, text, options, diag) : -EINVAL;
}

/* The row that sets the field, whose name may stand behind that of its struct; NULL: none does. */
static const struct nam_option *
row_of(const struct nam_options_table *table, const char *field, size_t length)
{
	for (const struct nam_option *row = table->rows; row->help; row++) {
		const char *dot = row->sets ? strrchr(row->sets, '.') : NULL;
		const char *name = dot ? dot + 1 : row->sets;

		if (name && !strncmp(name, field, length) && !name[length])
			return row;
	}
	return NULL;
}

struct nam_diag
nam__options_flags(const struct nam_options_table *table, const char *prefix, const char *text)
{
	struct nam_diag diag = { "" };
	size_t used = 0;

	for (const char *at = text; *at && used < sizeof(diag.text);) {
		size_t length = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
		bool names = at == text ? at[length] == ':' || at[length] == ',' :
			(memchr(at, '_', length) && at[-1] != '/' && at[length] != '/') ||
			(at - text > 5 && !strncmp(at - 5, " set ", 5));
		const struct nam_option *row = names ? row_of(table, at, length) : NULL;

		length += !length;	/* another character */
		used += (size_t)snprintf(diag.text + used, sizeof(diag.text) - used, "%s%.*s",
			row ? prefix : "", row ? (int)strlen(row->name) : (int)length,
			row ? row->name : at);
		at += length;
	}
	return diag;
}

bool
nam__option_belongs(const struct nam_option *row, const char *command)
{
	size_t length = strlen(command);

	for (const char *at = row->scope; at && *at; at += strcspn(at, ",") + 1) {
		if (!strncmp(at, command, length) && (!at[length] || at[length] == ','))
			return true;
		if (!at[strcspn(at, ",")])
			return false;
	}
	return !row->scope;
}

/* Text as mdoc: a sentence starts a line, and a backslash or a leading dot is no request. */
static void
mdoc_text(const char *text)
{
	unsigned column = 0;

	while (*text) {
		unsigned length = (unsigned)strcspn(text, " ");

		if (column && column + 1 + length > MDOC_COLUMNS)
			column = 0;
		if (column)
			(void)putchar(' ');
		else
			(void)fputs(*text == '.' || *text == '\'' ? "\n\\&" : "\n", stdout);
		for (unsigned i = 0; i < length; i++)
			(void)fputs(text[i] == '\\' ? "\\e" :
				text[i] == '-' ? "\\-" : (char[2]){ text[i] }, stdout);
		column = length && strchr(".?!", text[length - 1]) ? 0 : column + 1 + length;
		text += length;
		text += strspn(text, " ");
	}
}

static void
mdoc_item(char letter, const char *name, const char *argument, const char *help)
{
	(void)fputs(".It ", stdout);
	if (letter)
		(void)printf("Fl %c , ", letter);
	(void)printf("Fl -%s", name);
	if (argument)
		(void)fputs(" Ar ", stdout);
	for (; argument && *argument; argument++)
		(void)putchar(tolower((unsigned char)*argument));
	mdoc_text(help);
	(void)putchar('\n');
}

/* The list of the options of a scope; without one, of those that every command takes. */
static void
mdoc(const struct nam_options_table *table, const char *scope)
{
	bool open = false;

	for (const struct nam_option *row = table->rows; row->help; row++) {
		if (!(scope ? row->scope && nam__option_belongs(row, scope) : !row->scope) ||
			(scope && !row->name))
			continue;
		if (!row->name) {
			(void)fputs(open ? ".El\n.Pp" : ".Pp", stdout);
			mdoc_text(row->help);
			(void)putchar('\n');
			open = false;
			continue;
		}
		if (!open)
			(void)puts(".Bl -tag -width Ds");
		open = true;
		mdoc_item(row->letter, row->name, row->argument, row->help);
	}
	for (const struct argp_option *option = standard; !scope && option->doc; option++)
		mdoc_item(isalpha(option->key) ? (char)option->key : 0, option->name, NULL,
			option->doc);
	(void)puts(".El");
}

/* --help and its like.  False: the key is another. */
static bool
take_standard(struct run *run, int key, const char *text, struct argp_state *state)
{
	const char *program = run->table->program;

	if (key == 'V')
		(void)printf("%.*s " NAM_VERSION "\n", (int)strcspn(program, " "), program);
	else if (key == KEY_MDOC)
		mdoc(run->table, text);
	else if (key == 'h' || key == KEY_USAGE)
		argp_state_help(state, stdout, key == 'h' ? ARGP_HELP_STD_HELP : ARGP_HELP_USAGE);
	else
		return false;
	run->ends = true;
	return true;
}

static error_t
take_key(int key, char *text, struct argp_state *state)
{
	struct run *run = state->input;
	const struct nam_options_table *table = run->table;
	const struct nam_option *row = table->rows;
	struct nam_diag diag = { "" };

	if (take_standard(run, key, text, state))
		return ECANCELED;
	if (key == ARGP_KEY_ARG && table->word)
		return table->word(run->options, text) ? EINVAL : 0;
	if (key == ARGP_KEY_ARG) {
		(void)fprintf(stderr, "%s: '%s' is not an option: see %s --help\n",
			table->program, text, table->program);
		return EINVAL;
	}
	if (key <= 0 || key >= ARGP_KEY_END)
		return ARGP_ERR_UNKNOWN;
	if (key >= KEY_ROW)
		row += key - KEY_ROW;
	else
		while (row->letter != key)
			row++;
	if (take(row, text, run->options, &diag)) {
		(void)fprintf(stderr, "%s: --%s: %s\n", table->program, row->name, diag.text);
		return EINVAL;
	}
	if (table->taken)
		table->taken(run->options, row, text);
	return 0;
}

bool
nam__options_take(const struct nam_options_table *table, int argc, char **argv, void *options,
	int *ret_exit)
{
	struct run run = { table, options, false };
	struct argp argp = { .parser = take_key, .args_doc = table->usage };
	struct argp_option *known;
	size_t count = 0;
	char *doc = NULL, *name = argv[0];
	int rc;

	*ret_exit = NAM_EXIT_USAGE;
	while (table->rows[count].help)
		count++;
	known = calloc(count + sizeof(standard) / sizeof(standard[0]), sizeof(*known));
	if (!known || asprintf(&doc, "%s\v%s", table->purpose, table->after) < 0) {
		(void)fprintf(stderr, "%s: no memory\n", table->program);
		free(known);
		return false;
	}
	for (size_t i = 0; i < count; i++) {
		const struct nam_option *row = &table->rows[i];

		known[i] = (struct argp_option){ .name = row->name, .arg = row->argument,
			.key = !row->name ? 0 : row->letter ? row->letter : KEY_ROW + (int)i,
			.doc = row->help };
	}
	memcpy(known + count, standard, sizeof(standard));
	argp.options = known;
	argp.doc = doc;
	argv[0] = (char *)table->program;
	rc = argp_parse(&argp, argc, argv, ARGP_NO_HELP | ARGP_NO_EXIT | ARGP_IN_ORDER, NULL, &run);
	argv[0] = name;
	free(known);
	free(doc);
	if (run.ends && (fflush(stdout) || ferror(stdout))) {
		(void)fprintf(stderr, "%s: standard output cannot be written\n", table->program);
		*ret_exit = NAM_EXIT_NO;
	} else if (run.ends) {
		*ret_exit = NAM_EXIT_OK;
	}
	return !rc;
}
