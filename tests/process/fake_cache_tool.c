/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fake_cache_tool.c -- stands in for memcached or redis-server, as whichever it is called, so that
 * tests of bench/peers need neither; redis-benchmark is the real one.
 *
 *	memcached ... -s PATH | -p PORT ...
 *	redis-server ... --unixsocket PATH | --port PORT ...
 *
 * Other options are passed over.  Keys have FAKE_CACHE_KEY bytes (12); with others the connection
 * ends.  FAKE_CACHE in the environment says what goes wrong, with the GET
 * of number FAKE_CACHE_GET (500):
 *
 *	wrong	a byte of the value		close	the connection ends
 *	short	a byte less			silent	no answer any more
 *	miss	there is no such pair		garbage	an answer of no protocol
 *	error	the server has an error		surplus	two answers
 *	refuse	nothing: it ends at once	pieces	nothing: replies come a few bytes at a time
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PLACES (1u << 17)
#define VALUE_BYTES_MAX 64u
#define LINE_BYTES 256u
#define PIECE_BYTES 3u

struct pair {
	uint64_t key;			/* its number and 1; 0: none */
	uint32_t bytes;
	char value[VALUE_BYTES_MAX];
};

static struct pair pairs[PLACES];
static bool redis;
static const char *fault = "";
static unsigned long get_bad = 500, key_bytes = 12;
static atomic_ulong gets, misses;

/* One in each thread. */
static _Thread_local struct {
	int fd;
	char in[65536], out[65536];
	size_t in_at, in_end, out_end;
} connection;

static struct pair *
pair_find(uint64_t key)
{
	uint64_t at = key * 0x9e3779b97f4a7c15ull >> 47;

	while (pairs[at % PLACES].key && pairs[at % PLACES].key != key)
		at++;
	return &pairs[at % PLACES];
}

/* ---- bytes -------------------------------------------------------------------------------- */

static bool
flush(void)
{
	size_t at = 0, piece = strcmp(fault, "pieces") ? sizeof(connection.out) : PIECE_BYTES;

	while (at < connection.out_end) {
		size_t left = connection.out_end - at;
		ssize_t sent = send(connection.fd, connection.out + at,
			left < piece ? left : piece, MSG_NOSIGNAL);

		if (sent <= 0)
			return false;
		at += (size_t)sent;
	}
	connection.out_end = 0;
	return true;
}

static bool
say(const void *text, size_t bytes)
{
	if (bytes > sizeof(connection.out) - connection.out_end && !flush())
		return false;
	memcpy(connection.out + connection.out_end, text, bytes);
	connection.out_end += bytes;
	return true;
}

/* No peer waits for bytes here while we wait for more. */
static bool
take(char *to)
{
	if (connection.in_at == connection.in_end) {
		ssize_t got;

		if (!flush())
			return false;
		got = recv(connection.fd, connection.in, sizeof(connection.in), 0);
		if (got <= 0)
			return false;
		connection.in_at = 0;
		connection.in_end = (size_t)got;
	}
	*to = connection.in[connection.in_at++];
	return true;
}

static bool
take_bytes(char *to, size_t bytes)
{
	for (size_t i = 0; i < bytes; i++)
		if (!take(to + i))
			return false;
	return true;
}

static bool
take_line(char *to)
{
	size_t bytes = 0;

	do
		if (bytes == LINE_BYTES || !take(to + bytes))
			return false;
	while (to[bytes++] != '\n');
	to[bytes - 1] = '\0';
	to[strcspn(to, "\r")] = '\0';
	return true;
}

/* ---- answers ------------------------------------------------------------------------------ */

static bool
say_value(const char *value, uint32_t bytes)
{
	char head[32];
	int head_bytes = sprintf(head, redis ? "$%u\r\n" : "VA %u\r\n", bytes);

	return say(head, (size_t)head_bytes) && say(value, bytes) && say("\r\n", 2);
}

static bool
say_text(const char *of_memcached, const char *of_redis)
{
	const char *text = redis ? of_redis : of_memcached;

	return say(text, strlen(text));
}

static bool
miss(void)
{
	misses++;
	return say_text("EN\r\n", "$-1\r\n");
}

/* The faults to produce. */
static bool
answer_badly(const struct pair *pair)
{
	char value[VALUE_BYTES_MAX];

	memcpy(value, pair->value, sizeof(value));
	if (!strcmp(fault, "wrong"))
		value[pair->bytes - 1] ^= 1;
	if (!strcmp(fault, "miss"))
		return miss();
	if (!strcmp(fault, "error"))
		return say_text("SERVER_ERROR of a test\r\n", "-ERR of a test\r\n");
	if (!strcmp(fault, "garbage"))
		return say_text("hello\r\n", "hello\r\n");
	if (!strcmp(fault, "short"))
		return say_value(value, pair->bytes - 1);
	if (!strcmp(fault, "close"))
		return false;
	if (!strcmp(fault, "silent"))
		return true;
	if (!strcmp(fault, "surplus") && !say_value(value, pair->bytes))
		return false;
	return say_value(value, pair->bytes);
}

static bool
get(const char *key_text)
{
	const struct pair *pair = pair_find(strtoull(key_text, NULL, 10) + 1);
	unsigned long number;

	if (strcspn(key_text, " ") != key_bytes)
		return false;
	if (!pair->key)
		return miss();
	number = ++gets;
	if (number == get_bad || (number > get_bad && !strcmp(fault, "silent")))
		return answer_badly(pair);
	return say_value(pair->value, pair->bytes);
}

static bool
set(const char *key_text, uint32_t bytes)
{
	uint64_t key = strtoull(key_text, NULL, 10) + 1;
	struct pair *pair = pair_find(key);
	char end[2];

	if (strcspn(key_text, " ") != key_bytes || bytes > VALUE_BYTES_MAX ||
		!take_bytes(pair->value, bytes) || !take_bytes(end, 2))
		return false;
	pair->key = key;
	pair->bytes = bytes;
	return say_text("STORED\r\n", "+OK\r\n");
}

/* ---- requests ----------------------------------------------------------------------------- */

static bool
serve_memcached(void)
{
	char line[LINE_BYTES + 1];
	uint32_t bytes;

	if (!take_line(line))
		return false;
	if (!strcmp(line, "version"))
		return say_text("VERSION 1.6.0-test\r\n", "");
	if (strlen(line) == key_bytes + 5 && !memcmp(line, "mg ", 3) &&
		!strcmp(line + key_bytes + 3, " v"))
		return get(line + 3);
	if (sscanf(line, "set %*s 0 0 %u", &bytes) == 1)
		return set(line + 4, bytes);
	return say_text("ERROR\r\n", "");
}

static bool
say_info(void)
{
	char info[128];
	int bytes = sprintf(info, "# Server\r\nredis_version:7.0.0-test\r\n# Stats\r\n"
				  "keyspace_misses:%lu\r\nx:y", (unsigned long)misses);

	return say_value(info, (uint32_t)bytes);
}

/* An array of strings; the last one of a SET is left for set(). */
static bool
serve_redis(void)
{
	char line[LINE_BYTES + 1], words[3][LINE_BYTES + 1] = { "" };
	uint32_t count, bytes = 0;

	if (!take_line(line) || sscanf(line, "*%u", &count) != 1 || count < 1 || count > 3)
		return false;
	for (uint32_t i = 0; i < count; i++) {
		if (!take_line(line) || sscanf(line, "$%u", &bytes) != 1 || bytes > LINE_BYTES)
			return false;
		if (i == 2 && !strcmp(words[0], "SET"))
			return set(words[1], bytes);
		if (!take_line(words[i]))
			return false;
	}
	if (!strcmp(words[0], "INFO"))
		return say_info();
	/* redis-benchmark asks for two settings, and takes errors for answers. */
	return !strcmp(words[0], "GET") ? get(words[1]) : say_text("", "-ERR what\r\n");
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int
listen_at(const char *path, const char *port)
{
	struct sockaddr_un here = { .sun_family = AF_UNIX };
	struct sockaddr_in there = { .sin_family = AF_INET };
	int fd = socket(path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1, rc;

	there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	there.sin_port = htons((uint16_t)atoi(port ? port : "0"));
	if (path) {
		(void)snprintf(here.sun_path, sizeof(here.sun_path), "%s", path);
		rc = bind(fd, (const struct sockaddr *)&here, sizeof(here));
	} else {
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
		rc = bind(fd, (const struct sockaddr *)&there, sizeof(there));
	}
	return rc || listen(fd, 8) ? -1 : fd;
}

static void *
serve(void *fd)
{
	int one = 1;

	connection.fd = (int)(intptr_t)fd;
	(void)setsockopt(connection.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	while (redis ? serve_redis() : serve_memcached())
		continue;
	close(connection.fd);
	return NULL;
}

int
main(int argc, char **argv)
{
	const char *path = NULL, *port = NULL;
	int listener;

	redis = strstr(argv[0], "redis-server") != NULL;
	if (getenv("FAKE_CACHE"))
		fault = getenv("FAKE_CACHE");
	if (getenv("FAKE_CACHE_GET"))
		get_bad = strtoul(getenv("FAKE_CACHE_GET"), NULL, 10);
	if (getenv("FAKE_CACHE_KEY"))
		key_bytes = strtoul(getenv("FAKE_CACHE_KEY"), NULL, 10);
	if (!strcmp(fault, "refuse")) {
		(void)fprintf(stderr, "there is nothing to be had here\n");
		return 1;
	}
	for (int i = 1; i + 1 < argc; i++) {
		if (!strcmp(argv[i], redis ? "--unixsocket" : "-s"))
			path = argv[i + 1];
		if (!strcmp(argv[i], redis ? "--port" : "-p"))
			port = argv[i + 1];
	}
	listener = listen_at(path, port);
	if (listener < 0) {
		(void)fprintf(stderr, "%s: %s\n", path ? path : port, strerror(errno));
		return 1;
	}
	for (;;) {
		int fd = accept(listener, NULL, NULL);
		pthread_t thread;

		if (fd < 0 || pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd))
			return 1;
		(void)pthread_detach(thread);
	}
}
