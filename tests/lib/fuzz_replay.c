/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fuzz_replay.c -- a main for fuzz targets without libFuzzer: runs every file of a corpus.
 *
 * So fuzz targets are compiled in every build, and what the fuzzer once found stays found.  An
 * empty input is always tried.
 */
#include <dirent.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define INPUT_BYTES_MAX (1u << 20)

static int
replay_file(const char *path)
{
	uint8_t *exact;
	uint8_t *data;
	FILE *file = fopen(path, "rb");
	size_t bytes;

	if (!file) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return -1;
	}
	data = malloc(INPUT_BYTES_MAX);
	if (!data)
		abort();
	bytes = fread(data, 1, INPUT_BYTES_MAX, file);
	fclose(file);
	/* Exactly as long as the input, so that a sanitizer sees a read past its end. */
	exact = realloc(data, bytes ? bytes : 1);
	if (!exact)
		abort();
	LLVMFuzzerTestOneInput(exact, bytes);
	free(exact);
	return 0;
}

static int
replay_folder(const char *path)
{
	DIR *folder = opendir(path);
	struct dirent *entry;
	int failures = 0;
	int files = 0;

	if (!folder)	/* no corpus yet */
		return 0;
	while ((entry = readdir(folder))) {
		char file[4096];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
		failures += replay_file(file) != 0;
		files++;
	}
	closedir(folder);
	printf("%d inputs from %s\n", files, path);
	return failures;
}

int
main(int argc, char **argv)
{
	int failures = 0;

	LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
	for (int i = 1; i < argc; i++)
		failures += replay_folder(argv[i]);
	return failures ? 1 : 0;
}
