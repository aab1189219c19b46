/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/bench.h"
#include "bench/progress.h"
#include "bench/ticks.h"

#define IN_BYTES (256u << 10)
#define OUT_BYTES (PEER_DEPTH_MAX * PROTOCOL_FRAME_BYTES_MAX)
/* A server that does not read on takes so much all the same: neither waits for the other. */
#define LOAD_BYTES 32768u
#define SHOW_EVERY 65536u

const char *const transport_names[TRANSPORTS_COUNT] = { "unix", "tcp" };

/* Requests of one kind, until there is no more to be asked. */
struct window {
	struct peer *peer;
	uint32_t depth;
	bool store;
	uint64_t next;			/* storing: the pair */
	uint64_t until;			/* getting: ticks */
	bool over;
	struct turn *turn;		/* NULL: not recorded */
};

static int
failed(const struct peer *peer, int rc, const char *why)
{
	findings_failed(peer->findings, rc, peer->name, why);
	return rc;
}

/* ---- bytes -------------------------------------------------------------------------------- */

static int
send_all(const struct peer *peer, size_t bytes)
{
	size_t at = 0;

	while (at < bytes) {
		ssize_t sent = send(peer->fd, peer->out + at, bytes - at, MSG_NOSIGNAL);

		if (sent < 0 && errno == EINTR && !bench_signal)
			continue;
		if (sent < 0 && errno == EINTR)
			return -EINTR;
		if (sent < 0 && errno == EAGAIN)
			return failed(peer, -ETIMEDOUT, "it takes no request");
		if (sent < 0)
			return failed(peer, -errno, "the connection is gone");
		at += (size_t)sent;
	}
	return 0;
}

/* Takes arrived bytes; waits for the first one. */
static int
receive(struct peer *peer)
{
	size_t left = peer->in_end - peer->in_at;
	ssize_t bytes;

	/* Less than a reply. */
	if (left)
		memmove(peer->in, peer->in + peer->in_at, left);
	peer->in_at = 0;
	peer->in_end = left;
	do
		bytes = recv(peer->fd, peer->in + left, IN_BYTES - left, 0);
	while (bytes < 0 && errno == EINTR && !bench_signal);
	if (bytes < 0 && errno == EINTR)
		return -EINTR;
	if (bytes < 0 && errno == EAGAIN)
		return failed(peer, -ETIMEDOUT, "it does not answer");
	if (bytes < 0)
		return failed(peer, -errno, "the connection is gone");
	if (bytes == 0)
		return failed(peer, -ECONNRESET, "it has closed the connection");
	peer->in_end += (size_t)bytes;
	return 0;
}

/* ---- requests and replies ----------------------------------------------------------------- */

/* So many more, with one call of the system. */
static int
ask(struct window *window, uint32_t count)
{
	struct peer *peer = window->peer;
	const struct protocol *protocol = peer->protocol;
	uint64_t now = ticks_now();
	size_t bytes = 0;

	if (window->store && count > peer->pairs - window->next)
		count = (uint32_t)(peer->pairs - window->next);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = (peer->first + peer->under_way + i) % PEER_DEPTH_MAX;
		uint64_t pair = window->store ? window->next++
					      : nam_rng_below(&peer->rng, peer->pairs);

		peer->asked[at] = (struct peer_asked){ pair, now };
		if (window->store)
			bytes += protocol->set(peer->out + bytes, pair, peer->value_bytes);
		else
			bytes += protocol->get(peer->out + bytes, pair);
	}
	peer->under_way += count;
	window->over = window->store && window->next == peer->pairs;
	return send_all(peer, bytes);
}

/* Returns 0 or why there is no use in going on. */
static int
look_at(const struct window *window, enum reply_kind kind, const struct reply *reply,
	uint64_t pair)
{
	const struct peer *peer = window->peer;
	char text[128];

	if (kind == REPLY_ERROR) {
		snprintf(text, sizeof(text), "'%.*s'", (int)reply->text_bytes, reply->text);
		return failed(peer, -EREMOTEIO, text);
	}
	if (kind == REPLY_GARBAGE || (kind == REPLY_DONE) != window->store)
		return failed(peer, -EPROTO, "what it answers makes no sense");
	if (kind == REPLY_MISS)
		findings_missing(peer->findings, 1, "%s: pair %" PRIu64 " was not found",
			peer->name, pair);
	else if (kind == REPLY_VALUE && !protocol_value_right(pair, peer->value_bytes, reply))
		findings_wrong(peer->findings, "%s: the value of pair %" PRIu64
			", %zu bytes, is not the one that was stored", peer->name, pair,
			reply->text_bytes);
	return 0;
}

/* All replies that are there as a whole. */
static int
take(struct window *window)
{
	struct peer *peer = window->peer;
	uint64_t now = ticks_now();
	struct reply reply = { 0 };

	while (peer->under_way) {
		const struct peer_asked *asked = &peer->asked[peer->first];
		enum reply_kind kind = peer->protocol->parse(peer->in + peer->in_at,
			peer->in_end - peer->in_at, &reply);
		int rc;

		if (kind == REPLY_PARTIAL)
			break;
		rc = look_at(window, kind, &reply, asked->pair);
		if (rc)
			return rc;
		if (window->turn) {
			histogram_record(&window->turn->latency, now - asked->began);
			window->turn->ops++;
		}
		peer->in_at += reply.bytes;
		peer->first = (peer->first + 1) % PEER_DEPTH_MAX;
		peer->under_way--;
	}
	if (!peer->under_way && peer->in_at < peer->in_end)
		return failed(peer, -EPROTO, "it says more than it was asked");
	if (!window->store && now >= window->until)
		window->over = true;
	return bench_signal ? -EINTR : 0;
}

static int
run(struct window *window)
{
	struct peer *peer = window->peer;
	int rc = 0;

	while (!rc && (peer->under_way || !window->over)) {
		if (!window->over && peer->under_way <= window->depth / 2)
			rc = ask(window, window->depth - peer->under_way);
		if (!rc && peer->under_way)
			rc = receive(peer);
		if (!rc)
			rc = take(window);
		if (window->store && window->next % SHOW_EVERY < window->depth)
			progress_show((double)window->next / (double)peer->pairs, window->next);
	}
	return rc;
}

/* ---- what is asked ------------------------------------------------------------------------ */

int
peer_open(struct peer *peer)
{
	peer->in = malloc(IN_BYTES);
	peer->out = malloc(OUT_BYTES);
	peer->rng = nam_rng_seed(1);
	return peer->in && peer->out ? 0 : -ENOMEM;
}

void
peer_close(struct peer *peer)
{
	free(peer->in);
	free(peer->out);
	peer->in = peer->out = NULL;
	if (peer->fd)
		close(peer->fd);
	peer->fd = 0;
}

int
peer_ask_version(struct peer *peer)
{
	size_t bytes = strlen(peer->protocol->version_request);
	enum reply_kind kind = REPLY_PARTIAL;
	struct reply reply = { 0 };
	int rc;

	memcpy(peer->out, peer->protocol->version_request, bytes);
	rc = send_all(peer, bytes);
	while (!rc && kind == REPLY_PARTIAL) {
		rc = receive(peer);
		if (!rc)
			kind = peer->protocol->parse(peer->in, peer->in_end, &reply);
	}
	if (!rc && kind != REPLY_DONE && kind != REPLY_VALUE)
		rc = failed(peer, -EPROTO, "what it answers makes no sense");
	if (rc)
		return rc;
	peer->protocol->version(&reply, peer->version, sizeof(peer->version));
	peer->in_at = peer->in_end = 0;
	return 0;
}

int
peer_load(struct peer *peer)
{
	uint32_t depth = LOAD_BYTES / (PROTOCOL_FRAME_BYTES_MAX + peer->value_bytes);
	struct window window = {
		.peer = peer,
		.depth = depth ? depth : 1,
		.store = true,
	};

	return run(&window);
}

int
peer_get(struct peer *peer, uint32_t depth, double seconds, struct turn *ret_turn)
{
	uint64_t began = ticks_now();
	struct window window = {
		.peer = peer,
		.depth = depth,
		.until = began + ticks_from_ns(seconds * 1e9),
		.turn = ret_turn,
	};
	int rc;

	memset(ret_turn, 0, sizeof(*ret_turn));
	rc = run(&window);
	ret_turn->seconds = ticks_ns(ticks_now() - began) * 1e-9;
	return rc;
}
