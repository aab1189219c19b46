/* SPDX-License-Identifier: Apache-2.0 */
/* main.c -- the program nam-memserver. */
#include <errno.h>
#include <microhttpd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "common/log/log.h"
#include "http.h"
#include "options.h"
#include "memserver/server.h"

enum {
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_ADDRESS_IN_USE = 3,
	EXIT_NO_MEMORY = 4,
};

#define ADDRESS_TRIES 20
#define ADDRESS_PAUSE_NS 50000000

static _Atomic(struct nam_server *) running;
static pthread_mutex_t reloading = PTHREAD_MUTEX_INITIALIZER;
static bool keys_are_old;		/* under the mutex: a reload came before the server ran */
static atomic_bool stop_requested;
static pthread_t reloader;
static atomic_bool reloads_end;
static struct nam__options options;	/* set before the first thread */
static _Atomic enum nam_log_level log_level;

static void
end(int signal_number)
{
	struct nam_server *server;

	(void)signal_number;
	/* In this order, as the handler may run on another thread: serve() has the other one. */
	atomic_store(&stop_requested, true);
	server = atomic_load(&running);
	if (server)
		nam_server_stop(server);
}

static void
write_log(enum nam_log_level level, const char *event, const char *fields)
{
	if (level <= atomic_load_explicit(&log_level, memory_order_relaxed))
		nam__log_line(nam_log_level_name(level), event, fields);
}

static void
write_text(const char *event, const char *text)
{
	char fields[800] = "text=";
	const size_t used = strlen(fields);

	(void)nam_log_quote(text, fields + used, sizeof(fields) - used);
	write_log(NAM_LOG_WARN, event, fields);
}

static void
write_advice(const char *text)
{
	write_text("advice", nam__options_named(text).text);
}

/* Ends before the server does; while that starts, it is put off. */
static void
reload_keys(void)
{
	struct nam_server *server;
	struct nam_diag diag = { "" };
	char fields[300], file[256];
	int rc = 0;

	if (!options.server.keys)
		return;
	pthread_mutex_lock(&reloading);
	server = atomic_load_explicit(&running, memory_order_acquire);
	keys_are_old = !server;
	if (server)
		rc = nam_server_reload_keys(server, &diag);
	pthread_mutex_unlock(&reloading);
	if (!server)
		return;
	if (rc) {
		write_text("not_reloaded", diag.text);
		return;
	}
	(void)snprintf(fields, sizeof(fields), "server=%u keys=%s", options.server.id,
		nam_log_quote(options.server.keys, file, sizeof(file)));
	write_log(NAM_LOG_INFO, "reloaded", fields);
}

static void
reload(void)
{
	enum nam_log_level level = atomic_load_explicit(&log_level, memory_order_relaxed);
	struct nam_diag left, diag = { "" };
	char fields[800];

	reload_keys();
	if (options.server.keys && !options.config)
		return;
	if (nam__options_reload(&options, &level, &left, &diag)) {
		write_text("not_reloaded", diag.text);
		return;
	}
	atomic_store_explicit(&log_level, level, memory_order_relaxed);
	(void)snprintf(fields, sizeof(fields), "server=%u log_level=%s needs_restart=\"%s\"",
		options.server.id, nam_log_level_name(level), left.text);
	write_log(*left.text ? NAM_LOG_WARN : NAM_LOG_INFO, "reloaded", fields);
}

static sigset_t
hangup(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	return set;
}

static void *
reload_main(void *arg)
{
	const sigset_t set = hangup();
	int number;

	(void)arg;
	while (!sigwait(&set, &number) && !atomic_load(&reloads_end))
		reload();
	return NULL;
}

/* The thread that takes SIGHUP, and no other signal. */
static int
reload_start(void)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	rc = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (rc)
		return -rc;
	rc = pthread_create(&reloader, NULL, reload_main, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

static void
reload_stop(void)
{
	struct timespec until;

	atomic_store(&reloads_end, true);
	(void)pthread_kill(reloader, SIGHUP);
	/* The reloader may be reading from a file server that is gone. */
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (pthread_timedjoin_np(reloader, NULL, &until))
		(void)pthread_detach(reloader);
}

static int
catch_signals(void)
{
	struct sigaction action = { .sa_handler = end };

	sigemptyset(&action.sa_mask);
	if (sigaction(SIGTERM, &action, NULL) || sigaction(SIGINT, &action, NULL))
		return -errno;
	/* A limit of file sizes counts for our memory, too: an error that we can name. */
	action.sa_handler = SIG_IGN;
	if (sigaction(SIGPIPE, &action, NULL) || sigaction(SIGXFSZ, &action, NULL))
		return -errno;
	return 0;
}

/* Each client takes descriptors; the soft limit is there for programs that use select(). */
static void
raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static int
exit_code(int rc)
{
	if (rc == -EINVAL)
		return EXIT_USAGE;
	if (nam_err_is(rc, NAM_E_FABRIC_ADDRESS_IN_USE) || rc == -EADDRINUSE)
		return EXIT_ADDRESS_IN_USE;
	return rc == -ENOMEM ? EXIT_NO_MEMORY : EXIT_FAILED;
}

/* Tell a service manager that has started us: sd_notify(3) is a datagram to NOTIFY_SOCKET. */
static void
notify(const char *state)
{
	const char *path = getenv("NOTIFY_SOCKET");
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	size_t length = path ? strlen(path) : 0;
	int fd;

	if (!length || length >= sizeof(to.sun_path) || (*path != '/' && *path != '@'))
		return;
	memcpy(to.sun_path, path, length);
	if (*path == '@')	/* an abstract address */
		to.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	(void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + length));
	close(fd);
}

static int
report_ready(const struct nam_server *server)
{
	char line[400], text[160], state[440], listen[600], memory[200], fields[860];
	int n;

	nam_server_describe(server, text, sizeof(text));
	n = snprintf(line, sizeof(line), "nam-memserver: server %u ready at %s: %s\n",
		options.server.id, options.server.listen, text);
	(void)snprintf(fields, sizeof(fields), "server=%u listen=%s memory=%s", options.server.id,
		nam_log_quote(options.server.listen, listen, sizeof(listen)),
		nam_log_quote(text, memory, sizeof(memory)));
	write_log(NAM_LOG_INFO, "ready", fields);
	/* The parent may have closed stdout; the server serves all the same. */
	(void)fputs(line, stdout);
	(void)fflush(stdout);
	(void)snprintf(state, sizeof(state), "READY=1\nSTATUS=%s", line);
	notify(state);
	if (options.ready_fd < 0)
		return 0;
	if (write(options.ready_fd, line, (size_t)n) != n) {
		(void)fprintf(stderr, "nam-memserver: --ready-fd: file descriptor %d: %s\n",
			options.ready_fd, strerror(errno));
		return -EIO;
	}
	if (options.ready_fd > STDERR_FILENO)
		close(options.ready_fd);
	return 0;
}

static int
starting(uint64_t ready_bytes, uint64_t total_bytes)
{
	char ready[32], total[32];

	if (isatty(STDERR_FILENO))
		(void)fprintf(stderr, "\rnam-memserver: populating memory: %s of %s\033[K",
			nam__bytes_text(ready_bytes & ~((1ull << 20) - 1), ready, sizeof(ready)),
			nam__bytes_text(total_bytes, total, sizeof(total)));
	return stop_requested;
}

/*
 * A server that was killed keeps its address until the kernel has taken its memory back.  So an
 * address in use is tried again for a while.
 */
static int
start(struct nam_server **ret_server, struct nam_diag *notice, struct nam_diag *diag)
{
	const struct timespec pause = { .tv_nsec = ADDRESS_PAUSE_NS };
	int rc = nam_server_start(&options.server, ret_server, notice, diag);

	for (int i = 0; i < ADDRESS_TRIES && nam_err_is(rc, NAM_E_FABRIC_ADDRESS_IN_USE); i++) {
		if (stop_requested)
			return -ECANCELED;
		(void)nanosleep(&pause, NULL);
		rc = nam_server_start(&options.server, ret_server, notice, diag);
	}
	return rc;
}

static int
serve(void)
{
	struct nam_diag notice, diag = { "" };
	struct MHD_Daemon *http = NULL;
	char fields[32];
	struct nam_server *server;
	bool reload_now;
	int rc = start(&server, &notice, &diag);

	if (isatty(STDERR_FILENO))
		(void)fputs("\r\033[K", stderr);
	if (stop_requested && (rc == -ECANCELED || rc == -EINTR))
		return 0;
	if (rc) {
		(void)fprintf(stderr, "nam-memserver: %s\n",
			*diag.text ? nam__options_named(diag.text).text : nam_err_text(rc));
		return exit_code(rc);
	}
	if (*notice.text)
		write_advice(notice.text);
	if (options.metrics)
		rc = nam__http_start(server, options.metrics, &http, &diag);
	if (rc) {
		(void)fprintf(stderr, "nam-memserver: %s: %s\n",
			nam__options_place(&options, "metrics").text, diag.text);
		nam_server_destroy(server);
		return exit_code(rc);
	}
	pthread_mutex_lock(&reloading);
	atomic_store(&running, server);
	reload_now = keys_are_old;
	pthread_mutex_unlock(&reloading);
	if (reload_now)
		reload_keys();
	/* A signal may have come before the handler could see the server. */
	if (stop_requested)
		nam_server_stop(server);
	else
		rc = report_ready(server);
	if (!rc) {
		rc = nam_server_run(server);
		if (rc)
			(void)fprintf(stderr, "nam-memserver: waiting for clients: %s\n",
				nam_err_text(rc));
	}
	(void)snprintf(fields, sizeof(fields), "server=%u", options.server.id);
	write_log(NAM_LOG_INFO, "stopping", fields);
	notify("STOPPING=1");
	pthread_mutex_lock(&reloading);
	atomic_store_explicit(&running, NULL, memory_order_release);
	pthread_mutex_unlock(&reloading);
	if (http)
		MHD_stop_daemon(http);
	nam_server_destroy(server);
	return rc ? EXIT_FAILED : 0;
}

int
main(int argc, char **argv)
{
	/* A terminal that closes must not end the server, which would lose all data. */
	const sigset_t set = hangup();
	int rc = -pthread_sigmask(SIG_BLOCK, &set, NULL), status;

	if (!nam__options_parse(argc, argv, &options, &status))
		return fflush(stdout) ? EXIT_FAILED : status;
	atomic_store_explicit(&log_level, options.server.log_level, memory_order_relaxed);
	options.server.log_level = NAM_LOG_DEBUG;	/* write_log() chooses */
	options.server.log = write_log;
	options.server.notice = write_advice;
	options.server.starting = starting;
	rc = rc ?: reload_start() ?: catch_signals();
	if (rc) {
		(void)fprintf(stderr, "nam-memserver: signals: %s\n", nam_err_text(rc));
		return EXIT_FAILED;
	}
	raise_descriptor_limit();
	status = serve();
	reload_stop();
	return status;
}
