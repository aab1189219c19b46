/* SPDX-License-Identifier: Apache-2.0 */
/* view_store_etcd.h -- a real etcd for view_store_test. */
#ifndef NAM_TESTS_VIEW_STORE_ETCD_H
#define NAM_TESTS_VIEW_STORE_ETCD_H

#include "tests/lib/cluster.h"

#define ETCD "/usr/bin/etcd"

struct etcd {
	struct child process;
	char folder[64];
	unsigned client_port, peer_port;
	unsigned clusters;		/* names that have been used */
};
extern struct etcd etcd;

/* At first, and at the end.  An error in here ends the test program with a message. */
void etcd_begin(void);
void etcd_end(void);

/* Anew, after it has ended. */
void etcd_start(void);

/* From here on user nam with the password secret may use keys that begin with nam/. */
void etcd_ask_for_users(void);

#endif /* NAM_TESTS_VIEW_STORE_ETCD_H */
