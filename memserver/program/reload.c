/* SPDX-License-Identifier: Apache-2.0 */
#include "reload.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static struct {
	pthread_t thread;
	atomic_bool ending;
	void (*reload)(void);
} reloading;

static sigset_t
hangup(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	return set;
}

int
nam__reload_prepare(void)
{
	const sigset_t set = hangup();

	return -pthread_sigmask(SIG_BLOCK, &set, NULL);
}

static void *
reload_main(void *arg)
{
	const sigset_t set = hangup();
	int number;

	(void)arg;
	while (!sigwait(&set, &number) && !atomic_load(&reloading.ending))
		reloading.reload();
	return NULL;
}

int
nam__reload_start(void (*reload)(void))
{
	sigset_t all, before;
	int rc;

	reloading.reload = reload;
	sigfillset(&all);
	rc = pthread_sigmask(SIG_SETMASK, &all, &before);
	if (rc)
		return -rc;
	rc = pthread_create(&reloading.thread, NULL, reload_main, NULL);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

void
nam__reload_stop(void)
{
	struct timespec until;

	atomic_store(&reloading.ending, true);
	(void)pthread_kill(reloading.thread, SIGHUP);
	/* It may be reading a file that does not come, from a file server that is gone. */
	(void)clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec++;
	if (pthread_timedjoin_np(reloading.thread, NULL, &until))
		(void)pthread_detach(reloading.thread);
}
