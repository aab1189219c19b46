/* SPDX-License-Identifier: Apache-2.0 */
/*
 * server.c -- memcached and redis-server as children: one thread for requests, nothing on
 * disk, a Unix socket or a port of this host, and enough memory to keep all that they are given.
 */
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench/bench.h"
#include "peer.h"

#define READY_PAUSE_NS 10000000u
#define READY_TRIES 1000u	/* 10 s */
#define START_TRIES 3u		/* another process may take the port in between */
#define SILENCE_SECONDS 5
#define PAIR_BYTES 160u		/* that memcached needs beside a value, with room to spare */
/* As many requests of a connection as come before it looks at others; its default is 20. */
#define MEMCACHED_TURN 1024u

/* ---- command lines ------------------------------------------------------------------------ */

static unsigned
log2_ceil(uint64_t value)
{
	return value > 1 ? 64 - (unsigned)__builtin_clzll(value - 1) : 0;
}

static void
say_memcached(const struct peer *peer, struct child_args *args)
{
	uint64_t megabytes = 64 + (peer->pairs * (peer->value_bytes + PAIR_BYTES) >> 20);
	unsigned power = log2_ceil(peer->pairs);
	const struct passwd *user = geteuid() == 0 ? getpwuid(0) : NULL;

	child_say(args, "memcached");
	if (peer->transport == TRANSPORT_UNIX) {
		child_say(args, "-s");
		child_say(args, "%s", peer->path);
	} else {
		child_say(args, "-l");
		child_say(args, "127.0.0.1");
		child_say(args, "-p");
		child_say(args, "%d", peer->port);
	}
	child_say(args, "-t");
	child_say(args, "1");
	child_say(args, "-m");
	child_say(args, "%" PRIu64, megabytes);
	/* An error instead of a pair that is thrown out, and a table that need not grow. */
	child_say(args, "-M");
	child_say(args, "-o");
	child_say(args, "hashpower=%u", power < 16 ? 16 : power);
	child_say(args, "-R");
	child_say(args, "%u", MEMCACHED_TURN);
	if (user) {
		child_say(args, "-u");
		child_say(args, "%s", user->pw_name);
	}
}

static void
say_redis(const struct peer *peer, const char *folder, struct child_args *args)
{
	child_say(args, "redis-server");
	child_say(args, "--port");
	child_say(args, "%d", peer->transport == TRANSPORT_TCP ? peer->port : 0);
	if (peer->transport == TRANSPORT_UNIX) {
		child_say(args, "--unixsocket");
		child_say(args, "%s", peer->path);
	}
	child_say(args, "--bind");
	child_say(args, "127.0.0.1");
	child_say(args, "--dir");
	child_say(args, "%s", folder);
	child_say(args, "--save");
	child_say(args, "%s", "");
	child_say(args, "--appendonly");
	child_say(args, "no");
	child_say(args, "--io-threads");
	child_say(args, "1");
	child_say(args, "--daemonize");
	child_say(args, "no");
}

const char *
peer_program(const struct protocol *protocol)
{
	return protocol == &protocol_redis ? "redis-server" : "memcached";
}

/* ---- connecting --------------------------------------------------------------------------- */

/* A connection, or why there is none. */
static int
try_connect(const struct peer *peer)
{
	struct sockaddr_un here = { .sun_family = AF_UNIX };
	struct sockaddr_in there = { .sin_family = AF_INET };
	const struct timeval silence = { .tv_sec = SILENCE_SECONDS };
	bool is_unix = peer->transport == TRANSPORT_UNIX;
	int fd = socket(is_unix ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int one = 1, rc;

	if (fd < 0)
		return -errno;
	snprintf(here.sun_path, sizeof(here.sun_path), "%s", peer->path);
	there.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	there.sin_port = htons((uint16_t)peer->port);
	if (is_unix)
		rc = connect(fd, (const struct sockaddr *)&here, sizeof(here));
	else
		rc = connect(fd, (const struct sockaddr *)&there, sizeof(there));
	if (!rc && !is_unix)
		rc = setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (!rc)
		rc = setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof(silence));
	if (!rc)
		rc = setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &silence, sizeof(silence));
	if (!rc)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

/* Until it listens.  0; -ECHILD if it has ended; -EINTR after a signal; -ETIMEDOUT. */
static int
await_ready(struct peer *peer)
{
	for (unsigned i = 0; i < READY_TRIES; i++) {
		int fd = try_connect(peer);

		/* Another process may listen at that port. */
		if (!child_lives(&peer->child)) {
			if (fd >= 0)
				close(fd);
			return -ECHILD;
		}
		if (fd >= 0) {
			peer->fd = fd;
			return 0;
		}
		if (bench_signal)
			return -EINTR;
		nam_sleep_ns(READY_PAUSE_NS);
	}
	return -ETIMEDOUT;
}

/* ---- the whole ---------------------------------------------------------------------------- */

/* -ECHILD: it has ended, perhaps because the port was taken. */
static int
start_once(struct peer *peer, const char *program, const char *folder)
{
	struct child_args args = { 0 };
	char name[CHILD_NAME_BYTES];
	int rc;

	snprintf(name, sizeof(name), "%s-%s", peer->protocol->name,
		transport_names[peer->transport]);
	snprintf(peer->path, sizeof(peer->path), "%s/%s", folder, name);
	peer->port = peer->transport == TRANSPORT_TCP ? child_free_port() : 0;
	if (peer->port < 0)
		return peer->port;
	if (peer->protocol == &protocol_redis)
		say_redis(peer, folder, &args);
	else
		say_memcached(peer, &args);
	rc = child_start(&peer->child, program, &args, folder, name, -1);
	return rc ? rc : await_ready(peer);
}

static int
complain(const struct peer *peer, const char *program, int rc)
{
	char words[256];

	if (rc == -EINTR)
		return NAM_EXIT_SIGNAL + bench_signal;
	child_last_words(&peer->child, words, sizeof(words));
	if (rc == -ECHILD)
		bench_complain("%s: %s ended at once%s%s", peer->name, program, *words ? ": " : "",
			words);
	else
		bench_complain("%s: %s could not be started: %s", peer->name, program,
			rc == -ETIMEDOUT ? "nobody answers" : strerror(-rc));
	return NAM_EXIT_REMOTE;
}

int
peer_start(struct peer *peer, const char *program, const char *folder)
{
	int rc = -ECHILD;

	snprintf(peer->name, sizeof(peer->name), "%s over %s", peer->protocol->name,
		transport_names[peer->transport]);
	for (unsigned i = 0; i < START_TRIES && rc == -ECHILD; i++)
		rc = start_once(peer, program, folder);
	if (rc)
		return complain(peer, program, rc);
	rc = peer_open(peer);
	if (rc)
		return complain(peer, program, rc);
	rc = peer_ask_version(peer);
	if (rc == -EINTR)
		return complain(peer, program, rc);
	return rc ? NAM_EXIT_REMOTE : NAM_EXIT_OK;
}

void
peer_stop(struct peer *peer)
{
	peer_close(peer);
	child_end(&peer->child);
}
