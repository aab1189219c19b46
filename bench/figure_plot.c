/* SPDX-License-Identifier: Apache-2.0 */
/*
 * figure_plot.c -- a script for gnuplot that holds its data, SVG and PNG.
 *
 * A panel for each case, a line for each design; thin lines without points are the model's.
 */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "common/env.h"
#include "bench.h"
#include "figure.h"
#include "text.h"

#define WIDTH 1280u
#define PANEL_HEIGHT 430u
#define HEAD_HEIGHT 60u

extern char **environ;

static const char *const colours[FIGURE_LINES_MAX] = { "#d55e00", "#0072b2", "#009e73",
	"#cc79a7", "#000000", "#999999" };
static const unsigned shapes[FIGURE_LINES_MAX] = { 5, 7, 9, 11, 13, 4 };

/* ---- data ---------------------------------------------------------------------------------- */

/* Points of one panel that are one line. */
struct line {
	unsigned which, design;
	const char *partitioning;
	bool measured, model;		/* whether there is anything */
};

static bool
is_of(const struct line *line, const struct figure_point *point)
{
	return point->which == line->which && point->design == line->design &&
	       !strcmp(point->partitioning, line->partitioning);
}

/* The line that begins with this point; false if one before it does. */
static bool
line_begins(const struct figure *figure, const struct figure_points *points, size_t at,
	struct line *ret)
{
	const struct figure_point *point = &points->points[at];

	*ret = (struct line){ point->which, point->design, point->partitioning, false, false };
	for (size_t i = 0; i < at; i++)
		if (is_of(ret, &points->points[i]))
			return false;
	for (size_t i = at; i < points->count; i++) {
		if (!is_of(ret, &points->points[i]))
			continue;
		ret->measured |= points->points[i].done || figure->model_only;
		ret->model |= points->points[i].model.known && !figure->model_only &&
			figure->y == Y_RATE && figure->x != X_CACHE && figure->x != X_COLOCATED;
	}
	return true;
}

static void
write_data(FILE *file, const struct figure *figure, const struct figure_points *points)
{
	for (size_t at = 0; at < points->count; at++) {
		struct line line;

		if (!line_begins(figure, points, at, &line))
			continue;
		fprintf(file, "$line%zu << END\n", at);
		for (size_t i = at; i < points->count; i++) {
			const struct figure_point *point = &points->points[i];

			if (!is_of(&line, point))
				continue;
			fprintf(file, "%.6g ", figure->x == X_TRANSPORT ? point->design : point->x);
			if (point->done || figure->model_only)
				fprintf(file, "%.6g %.6g ", figure_y(figure, point),
					point->result.p99_ns);
			else
				fputs("NaN NaN ", file);
			if (point->model.known)
				fprintf(file, "%.6g\n", point->model.ops_per_s);
			else
				fputs("NaN\n", file);
		}
		fputs("END\n", file);
	}
}

/* ---- panels -------------------------------------------------------------------------------- */

static void
write_axes(FILE *file, const struct figure *figure)
{
	static const char *const x_labels[] = {
		[X_CLIENTS] = "clients",
		[X_KEYS] = "keys",
		[X_MEMSERVERS] = "memory servers",
		[X_CACHE] = "cache of each client, MiB",
		[X_COLOCATED] = "",
		[X_RPC_THREADS] = "handler threads",
		[X_GET_PERCENT] = "GET, per cent",
		[X_VALUE_BYTES] = "bytes of a value",
		[X_TRANSPORT] = "",
		[X_TRANSACTION_SIZE] = "records of a transaction",
		[X_READ_RATIO] = "transactions that read, per cent",
	};
	static const char *const y_labels[] = {
		[Y_RATE] = "operations/s",
		[Y_BYTES] = "bytes/s",
		[Y_LATENCY] = "latency",
	};

	fprintf(file, "set xlabel '%s'\nset ylabel '%s'\n", x_labels[figure->x],
		figure->kind == FIGURE_TRANSACTIONS ? "transactions/s" : y_labels[figure->y]);
	fprintf(file, "set format y '%s'\nset grid ytics lc '#dddddd' lt 1\nset border 3\n"
		"set tics nomirror out\nset offsets graph 0.03, graph 0.03, 0, 0\n",
		figure->y == Y_LATENCY ? "%.0s %cs" : "%.1s %c");
	if (figure->y == Y_LATENCY || figure->model_only || figure->x == X_KEYS)
		fputs("set logscale y\n", file);
	else
		fputs("set yrange [0:*]\n", file);
	if (figure->x == X_CLIENTS || figure->x == X_CACHE)
		fputs("set xrange [0:*]\n", file);
	if (figure->x == X_KEYS)
		fputs("set logscale x\nset format x '%.0s %c'\n", file);
	if (figure->x == X_MEMSERVERS || figure->x == X_VALUE_BYTES ||
		figure->x == X_TRANSACTION_SIZE)
		fputs("set logscale x 2\n", file);
	if (figure->x == X_COLOCATED)
		fputs("set xrange [-0.4:1.4]\nset xtics ('apart' 0, 'co-located' 1)\n", file);
	if (figure->x == X_TRANSPORT)
		fprintf(file, "set xrange [-0.6:%u-0.4]\nset boxwidth 0.7\nset style fill solid\n"
			"unset xtics\n", figure_lines(figure));
	fputs("set key outside right top vertical samplen 2 spacing 1.1\n", file);
}

static void
write_line(FILE *file, const struct figure *figure, const struct line *line, size_t at,
	bool *first)
{
	const char *name = figure_line(figure, line->design), *colour = colours[line->design];
	bool hash = !strcmp(line->partitioning, "hash"), latency = figure->y == Y_LATENCY;

	if (line->measured && figure->x == X_TRANSPORT) {
		fprintf(file, "%s \\\n  $line%zu using 1:2 with boxes lc '%s' title '%s'",
			*first ? "" : ",", at, colour, name);
		*first = false;
		return;
	}
	if (line->measured) {
		fprintf(file, "%s \\\n  $line%zu using 1:%s with linespoints lw 2 pt %u ps 0.8 "
			"dt %u lc '%s' title '%s%s%s'", *first ? "" : ",", at,
			latency ? "($2*1e-9)" : "2", shapes[line->design], hash ? 2 : 1, colour,
			name, hash ? " by hash" : "", latency ? ", p50" : "");
		*first = false;
	}
	if (line->measured && latency)
		fprintf(file, ", \\\n  $line%zu using 1:($3*1e-9) with linespoints lw 1 pt %u "
			"ps 0.6 dt 2 lc '%s' title '%s, p99'", at, shapes[line->design], colour,
			name);
	if (line->model) {
		fprintf(file, "%s \\\n  $line%zu using 1:4 with lines lw 1.5 dt '-' lc '%s' "
			"title '%s, model of 2.3'", *first ? "" : ",", at, colour, name);
		*first = false;
	}
}

static void
write_panel(FILE *file, const struct figure *figure, const struct figure_points *points,
	unsigned which)
{
	char text[FIGURE_TEXT_BYTES];
	bool first = true;

	figure_case_text(&figure->cases[which], text);
	fprintf(file, "  set title '%s'\n  plot", text);
	for (size_t at = 0; at < points->count; at++) {
		struct line line;

		if (line_begins(figure, points, at, &line) && line.which == which)
			write_line(file, figure, &line, at, &first);
	}
	/* gnuplot wants something to plot. */
	fprintf(file, "%s\n", first ? " NaN notitle" : "");
}

static void
write_title(FILE *file, const struct figure *figure, const struct figure_options *o,
	const struct figure_points *points)
{
	static const char *const papers[] = {
		[FIGURE_TREES] = "Ziegler et al. (SIGMOD 2019)",
		[FIGURE_REQUESTS] = "Su et al. (RFP, EuroSys 2017)",
		[FIGURE_TRANSACTIONS] = "RAMP over RDMA",
	};
	char keys[TEXT_BYTES];

	fprintf(file, "%s, %s: %s\\n", papers[figure->kind], figure->paper, figure->title);
	if (figure->model_only) {
		fputs("the model of its section 2.3, z = 10", file);
		return;
	}
	if (o->simulated)
		fprintf(file, "simulated, profile %s", o->network.name);
	else
		fputs("measured", file);
	if (figure->kind == FIGURE_TRANSACTIONS && o->simulated)
		fprintf(file, " (sockets: %s)", o->sockets.name);
	if (figure->x != X_KEYS && figure->kind == FIGURE_TREES)
		fprintf(file, ", %s keys", text_count(keys, (double)o->keys));
	if (figure->x != X_MEMSERVERS && points->count)
		fprintf(file, ", %u memory servers", points->points[0].memservers);
	if (figure->x != X_CLIENTS && points->count)
		fprintf(file, ", %u clients", points->points[0].clients);
}

static void
write_script(FILE *file, const struct figure *figure, const struct figure_options *o,
	const struct figure_points *points)
{
	unsigned columns = figure->cases_count > 1 ? 2 : 1;
	unsigned rows = (figure->cases_count + columns - 1) / columns;
	unsigned height = rows * PANEL_HEIGHT + HEAD_HEIGHT;

	fprintf(file, "# nam-bench figure %s: gnuplot %s.gp draws %s.svg and %s.png\n",
		figure->name, figure->name, figure->name, figure->name);
	write_data(file, figure, points);
	write_axes(file, figure);
	fputs("do for [type in 'svg png'] {\n", file);
	fprintf(file, "  if (type eq 'svg') {\n"
		"    set terminal svg size %u,%u font 'Helvetica,13' background '#ffffff'\n"
		"  } else {\n"
		"    set terminal pngcairo size %u,%u font 'sans,11' background '#ffffff'\n"
		"  }\n  set output '%s.'.type\n", WIDTH, height, WIDTH, height, figure->name);
	fprintf(file, "  set multiplot layout %u,%u title \"", rows, columns);
	write_title(file, figure, o, points);
	fputs("\"\n", file);
	for (unsigned which = 0; which < figure->cases_count; which++)
		write_panel(file, figure, points, which);
	fputs("  unset multiplot\n  unset output\n}\n", file);
}

/* ---- gnuplot ------------------------------------------------------------------------------- */

/* 0; -ENOENT: there is no gnuplot; -EIO: it has failed, and said why. */
static int
draw(const struct figure *figure, const struct figure_options *o)
{
	char program[] = "gnuplot", script[64];
	char *args[] = { program, script, NULL };
	posix_spawn_file_actions_t actions;
	int status, rc;
	pid_t pid, ended;

	snprintf(script, sizeof(script), "%s.gp", figure->name);
	if (posix_spawn_file_actions_init(&actions))
		return -ENOMEM;
	rc = posix_spawn_file_actions_addchdir_np(&actions, o->out);
	if (!rc)
		rc = posix_spawnp(&pid, program, &actions, NULL, args, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (rc)
		return -rc;
	while ((ended = waitpid(pid, &status, WNOHANG)) != pid) {
		if (ended < 0 && errno != EINTR)
			return -errno;
		/* Told to end: it is not worth waiting for. */
		if (bench_signal)
			(void)kill(pid, SIGKILL);
		nam_sleep_ns(5000000);
	}
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EIO;
}

int
figure_plot(const struct figure *figure, const struct figure_options *o,
	const struct figure_points *points)
{
	char path[PATH_MAX];
	FILE *file;
	bool lost;
	int rc;

	snprintf(path, sizeof(path), "%s/%s.gp", o->out, figure->name);
	file = fopen(path, "we");
	if (!file) {
		bench_complain("%s: %s", path, strerror(errno));
		return NAM_EXIT_USAGE;
	}
	write_script(file, figure, o, points);
	lost = ferror(file) != 0;
	if (fclose(file) || lost) {
		bench_complain("%s: it could not be written", path);
		return NAM_EXIT_NO;
	}
	rc = draw(figure, o);
	if (rc == -ENOENT)
		bench_complain("%s: there is no gnuplot, so there is no plot; install gnuplot-nox, "
			"and 'gnuplot %s.gp' in %s draws it", figure->name, figure->name, o->out);
	else if (rc == -EIO && !bench_signal)
		bench_complain("%s: gnuplot could not draw %s", figure->name, path);
	else if (rc && rc != -EIO)
		bench_complain("gnuplot: %s", strerror(-rc));
	if (bench_signal)
		return NAM_EXIT_SIGNAL + bench_signal;
	if (rc == -ENOENT && !o->plot)
		return NAM_EXIT_OK;
	return rc ? NAM_EXIT_NO : NAM_EXIT_OK;
}
