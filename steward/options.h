/* SPDX-License-Identifier: Apache-2.0 */
/* options.h -- rows about the view store, for the option tables of programs. */
#ifndef NAM_STEWARD_OPTIONS_H
#define NAM_STEWARD_OPTIONS_H

#include "common/options/options.h"
#include "store.h"

/*
 * @type	the structure of the program's options
 * @field	its struct nam__store_options
 * @commands	that take the options; or NULL: all
 */
#define NAM__STORE_ROWS(type, field, commands)                                                      \
	{ "view-store", "STORE",                                                                    \
		"Where the view of the cluster is decided: embedded (default), which is the "       \
		"memory server with id 0, or etcd:http://HOST:PORT,HOST:PORT/NAME. NAME is the "    \
		"cluster's. With TLS it is etcd:https://HOST:PORT,HOST:PORT/NAME. All stewards "    \
		"and namctl need the same one.",                                                    \
		NAM_OPTION_TEXT, NAM_OPTION_FIELD(type, field.view_store), .scope = commands },          \
	{ "view-store-cacert", "PEM",                                                               \
		"Certificates of authorities that vouch for etcd, for https. Without this option, " \
		"those of the system.", NAM_OPTION_TEXT,                                            \
		NAM_OPTION_FIELD(type, field.cacert_file), .scope = commands },                          \
	{ "view-store-cert", "PEM",                                                                 \
		"The certificate to show to etcd, for https.", NAM_OPTION_TEXT,                     \
		NAM_OPTION_FIELD(type, field.cert_file), .scope = commands },                            \
	{ "view-store-key", "PEM", "Its private key, without a passphrase. Without this option, "   \
		"the key is in the certificate's file.", NAM_OPTION_TEXT,                           \
		NAM_OPTION_FIELD(type, field.key_file), .scope = commands },                             \
	{ "view-store-user", "USERNAME", "The user of etcd.", NAM_OPTION_TEXT,                      \
		NAM_OPTION_FIELD(type, field.user), .scope = commands },                            \
	{ "view-store-password-file", "FILE", "A file whose first line is the user's password.",    \
		NAM_OPTION_TEXT, NAM_OPTION_FIELD(type, field.password_file), .scope = commands }

#endif /* NAM_STEWARD_OPTIONS_H */
