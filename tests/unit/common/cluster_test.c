/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <errno.h>

#include "common/cluster.h"

static struct nam_cluster cluster;
static struct nam_diag diag;

static int
parse(const char *text)
{
	memset(&cluster, 0xee, sizeof(cluster));
	diag.text[0] = '\0';
	return nam_cluster_parse(text, &cluster, &diag);
}

/* Parse a file with these contents; what the messages call it is gone from them afterwards. */
static int
parse_file(const char *contents)
{
	char path[] = "/tmp/nam-cluster-XXXXXX", text[64], *at;
	int fd = mkstemp(path), rc;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, contents, strlen(contents)), (ssize_t)strlen(contents));
	close(fd);
	(void)snprintf(text, sizeof(text), "@%s", path);
	rc = parse(text);
	(void)unlink(path);
	if (rc) {
		at = strstr(diag.text, path);
		assert_non_null(at);
		memmove(at, at + strlen(path), strlen(at + strlen(path)) + 1);
	}
	return rc;
}

static void
parse_bytes__sizes__ARE_POWERS_OF_1024(void **state)
{
	uint64_t bytes;

	(void)state;
	assert_int_equal(nam_parse_bytes("0", &bytes), 0);
	assert_int_equal(bytes, 0);
	assert_int_equal(nam_parse_bytes("4096", &bytes), 0);
	assert_int_equal(bytes, 4096);
	assert_int_equal(nam_parse_bytes("64k", &bytes), 0);
	assert_int_equal(bytes, 65536);
	assert_int_equal(nam_parse_bytes("512M", &bytes), 0);
	assert_int_equal(bytes, 512u << 20);
	assert_int_equal(nam_parse_bytes("8G", &bytes), 0);
	assert_int_equal(bytes, 8ull << 30);
	assert_int_equal(nam_parse_bytes("18446744073709551615", &bytes), 0);
	assert_true(bytes == UINT64_MAX);
	assert_int_equal(nam_parse_bytes("16777215T", &bytes), 0);
}

static void
parse_bytes__nonsense__IS_INVALID_AND_LEAVES_THE_RESULT(void **state)
{
	static const char *const texts[] = { "", "G", "12Q", "-1", "+1", " 1", "1 ", "1GB", "1.5G",
		"0x10", "18446744073709551616", "99999999999999999999999", "16777216T", "1kk" };
	uint64_t bytes = 5;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(nam_parse_bytes(texts[i], &bytes), -EINVAL);
		assert_int_equal(bytes, 5);
	}
}

static void
parse__list__KEEPS_ITS_ORDER(void **state)
{
	(void)state;
	assert_int_equal(parse("shm:/run/nam/b, shm:/run/nam/a ,verbs:10.0.0.1:4711"), 0);
	assert_int_equal(cluster.count, 3);
	assert_string_equal(cluster.servers[0].listen, "shm:/run/nam/b");
	assert_string_equal(cluster.servers[1].listen, "shm:/run/nam/a");
	assert_string_equal(cluster.servers[2].listen, "verbs:10.0.0.1:4711");
	assert_int_equal(cluster.servers[2].id, -1);
	assert_int_equal(cluster.servers[2].line, 0);
	assert_string_equal(cluster.servers[2].memory, "");
}

static void
parse__malformed_list__IS_INVALID_AND_LEAVES_THE_RESULT(void **state)
{
	static const char *const texts[] = { "", ",", "shm:/a,", ",shm:/a", "shm:/a,,shm:/b", "shm",
		"/run/nam/a", "shm:", ":/a", "  ", "shm:/a, " };

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		assert_int_equal(parse(texts[i]), -EINVAL);
		assert_true(diag.text[0]);
		assert_int_equal(cluster.count, 0xeeeeeeee);
	}
	assert_int_equal(parse("shm:/a,shm:/b,shm:/a"), -NAM_E_CLUSTER);
	assert_non_null(strstr(diag.text, "'shm:/a'"));
}

static void
parse__too_many_or_too_long__IS_AN_ERROR(void **state)
{
	char *text = malloc(20 * 300), *at = text;

	(void)state;
	for (int i = 0; i < 257; i++)
		at += sprintf(at, "%sshm:/%d", i ? "," : "", i);
	assert_int_equal(parse(text), -NAM_E_LIMIT);
	*strrchr(text, ',') = '\0';
	assert_int_equal(parse(text), 0);
	assert_int_equal(cluster.count, 256);
	memset(text, 'x', 200);
	memcpy(text, "shm:/", 5);
	text[200] = '\0';
	assert_int_equal(parse(text), -EINVAL);
	free(text);
}

static void
parse__file__HAS_EVERY_KEY(void **state)
{
	(void)state;
	assert_int_equal(parse_file("; two servers\n"
		"[server 1]\n"
		"  listen = shm:/run/nam/b\n"
		"\n"
		"[server 0]\n"
		"listen=shm:/run/nam/a ; the catalog\n"
		"memory = 8G\nregion = 1G\n\tpages = auto\nnuma = -1\nrpc_threads = 2\n"
		"log_level = debug\nmetrics = 9466\n"), 0);
	assert_int_equal(cluster.count, 2);
	assert_int_equal(cluster.servers[0].id, 1);
	assert_int_equal(cluster.servers[0].line, 3);
	assert_string_equal(cluster.servers[0].listen, "shm:/run/nam/b");
	assert_string_equal(cluster.servers[0].memory, "");
	assert_int_equal(cluster.servers[1].id, 0);
	assert_string_equal(cluster.servers[1].listen, "shm:/run/nam/a");
	assert_string_equal(cluster.servers[1].memory, "8G");
	assert_string_equal(cluster.servers[1].region, "1G");
	assert_string_equal(cluster.servers[1].pages, "auto");
	assert_string_equal(cluster.servers[1].numa, "-1");
	assert_string_equal(cluster.servers[1].rpc_threads, "2");
	assert_string_equal(cluster.servers[1].log_level, "debug");
	assert_string_equal(cluster.servers[1].metrics, "9466");
}

static void
parse__malformed_file__NAMES_FILE_AND_LINE(void **state)
{
	static const struct {
		const char *contents;
		int rc;
		const char *say;
	} cases[] = {
		{ "", -EINVAL, "[server 0]" },
		{ "listen = shm:/a\n", -EINVAL, ":1: 'listen' stands before" },
		{ "[server 0]\n[server 1]\nlisten = shm:/a\nnonsense = 3\n", -EINVAL,
			":4: unknown key 'nonsense'" },
		{ "[server x]\nlisten = shm:/a\n", -EINVAL, ":2: section [server x]" },
		{ "[server 256]\nlisten = shm:/a\n", -EINVAL, "section [server 256]" },
		{ "[server -1]\nlisten = shm:/a\n", -EINVAL, "section [server -1]" },
		{ "[client]\nlisten = shm:/a\n", -EINVAL, "section [client]" },
		{ "[server 0]\nlisten = shm:/a\nlisten = shm:/b\n", -EINVAL,
			":3: 'listen' is there twice" },
		{ "[server 0]\nmemory = 8G\n", -EINVAL, "has no listen" },
		{ "[server 0]\nlisten = shm:/a\n[server 1]\nlisten = shm:/a\n", -NAM_E_CLUSTER,
			"same address 'shm:/a'" },
		{ "[server 0]\nlisten = shm:/a\n[server 1]\nlisten = shm:/b\n[server 0]\n"
			"memory = 1G\n", -NAM_E_CLUSTER, "[server 0] is there twice" },
		{ "[server 0]\nlisten = shm:/a\nnot a pair\n", -EINVAL, ":3: neither" },
		{ "[server 0]\nlisten = shm:/a\nmemory = 12345678901234567890123456789012\n",
			-EINVAL, ":3: memory: the value must have" },
		{ "[server 0]\nlisten =\n", -EINVAL, ":2: listen: the value must have" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(parse_file(cases[i].contents), cases[i].rc);
		if (!strstr(diag.text, cases[i].say))
			fail_msg("case %zu says '%s'", i, diag.text);
	}
}

static void
parse__long_line__IS_INVALID(void **state)
{
	char contents[400] = "[server 0]\nlisten = shm:/";

	(void)state;
	memset(contents + strlen(contents), 'x', 300);
	assert_int_equal(parse_file(contents), -EINVAL);
}

static void
parse__missing_file__IS_THE_HOSTS_ERROR(void **state)
{
	(void)state;
	assert_int_equal(parse("@/nonexistent/cluster.ini"), -ENOENT);
	assert_non_null(strstr(diag.text, "/nonexistent/cluster.ini"));
	assert_int_equal(parse("@"), -ENOENT);
	assert_int_equal(parse("@/tmp"), -EISDIR);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parse_bytes__sizes__ARE_POWERS_OF_1024),
		cmocka_unit_test(parse_bytes__nonsense__IS_INVALID_AND_LEAVES_THE_RESULT),
		cmocka_unit_test(parse__list__KEEPS_ITS_ORDER),
		cmocka_unit_test(parse__malformed_list__IS_INVALID_AND_LEAVES_THE_RESULT),
		cmocka_unit_test(parse__too_many_or_too_long__IS_AN_ERROR),
		cmocka_unit_test(parse__file__HAS_EVERY_KEY),
		cmocka_unit_test(parse__malformed_file__NAMES_FILE_AND_LINE),
		cmocka_unit_test(parse__long_line__IS_INVALID),
		cmocka_unit_test(parse__missing_file__IS_THE_HOSTS_ERROR),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
