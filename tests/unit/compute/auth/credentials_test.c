/* SPDX-License-Identifier: Apache-2.0 */
/* credentials_test.c -- a client's key and voucher, and its part of a handshake. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "compute/auth/credentials.h"

static char path[] = "/tmp/nam-credentials-XXXXXX";
static struct nam_client *client;
static struct nam_diag diag;

static int
setup(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	client = calloc(1, sizeof(*client));
	if (fd < 0 || !client)
		return -1;
	client->options.key = path;
	(void)pthread_mutex_init(&client->mutex, NULL);
	return close(fd);
}

static int
teardown(void **state)
{
	(void)state;
	nam__client_key_close(client);
	(void)pthread_mutex_destroy(&client->mutex);
	free(client);
	(void)unlink(path);
	memcpy(path + strlen(path) - 6, "XXXXXX", 6);
	return 0;
}

static void
write_keys(const char *role, unsigned count)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	for (unsigned i = 0; i < count; i++)
		(void)fprintf(file, "name%u %s %064x\n", i, role, i + 1);
	assert_int_equal(fclose(file), 0);
}

static void
key_open__file_with_one_key__IS_THE_CLIENTS(void **state)
{
	(void)state;
	write_keys("read", 1);
	assert_int_equal(nam__client_key_open(client, &diag), 0);
	assert_string_equal(client->key->keys[0].name, "name0");
	assert_true(client->reads_only);
}

static void
key_open__no_file_is_named__NO_KEY(void **state)
{
	(void)state;
	client->options.key = "";
	assert_int_equal(nam__client_key_open(client, &diag), 0);
	assert_null(client->key);
}

static void
key_open__several_keys_or_no_file__FAILS_AND_NAMES_IT(void **state)
{
	(void)state;
	write_keys("write", 2);
	assert_int_equal(nam__client_key_open(client, &diag), -EINVAL);
	assert_non_null(strstr(diag.text, path));
	assert_non_null(strstr(diag.text, "2 keys"));
	assert_int_equal(unlink(path), 0);
	assert_int_equal(nam__client_key_open(client, &diag), -ENOENT);
	assert_non_null(strstr(diag.text, path));
	assert_null(client->key);
}

static void
voucher__of_a_client_with_key_and_id__IS_COPIED(void **state)
{
	uint8_t voucher[NAM_VOUCHER_BYTES], copy[NAM_VOUCHER_BYTES] = { 0 };

	(void)state;
	memset(voucher, 0x5a, sizeof(voucher));
	write_keys("write", 1);
	assert_int_equal(nam__client_key_open(client, &diag), 0);
	assert_int_equal(nam__voucher_take(client, voucher, sizeof(voucher)), 0);
	assert_int_equal(nam__voucher_copy(client, copy), 0);
	client->id = 3;
	assert_int_equal(nam__voucher_copy(client, copy), sizeof(copy));
	assert_memory_equal(copy, voucher, sizeof(copy));
	assert_int_equal(nam__voucher_take(client, NULL, 0), 0);
	assert_int_equal(nam__voucher_take(client, voucher, sizeof(voucher) - 1),
		-NAM_E_FABRIC_PROTOCOL);
}

/* ---- a handshake with a memory server that is known ----------------------------------------- */

struct handshake {
	struct nam__server server;
	struct nam_hello hello, challenge, answer;
	struct nam_wire_challenge wire;
	struct nam__shake shake;
};

static void
shake_begin(struct handshake *self)
{
	struct nam_wire_hello hello = { .flags = 0 };

	memset(self, 0, sizeof(*self));
	write_keys("write", 1);
	assert_int_equal(nam__client_key_open(client, &diag), 0);
	self->server.address = "shm:/here";
	self->server.id = 4;
	self->server.boot = 77;
	self->hello.bytes = sizeof(hello);
	memcpy(self->hello.data, &hello, sizeof(hello));
	self->wire = (struct nam_wire_challenge){
		.magic_version = NAM_RPC_MAGIC << 8 | NAM_WIRE_VERSION, .server_id = 4, .boot = 77
	};
	self->shake = (struct nam__shake){ .client = client, .server = &self->server,
		.hello = &self->hello };
}

static int
challenge(struct handshake *self, uint32_t bytes)
{
	self->challenge.bytes = bytes;
	memcpy(self->challenge.data, &self->wire, sizeof(self->wire));
	return nam__shake_answer(&self->shake, &self->challenge, &self->answer, &diag);
}

static void
shake__server_that_knows_the_key__IS_PROVEN(void **state)
{
	struct nam_hello reply = { .bytes = 48 };
	struct handshake self;

	(void)state;
	shake_begin(&self);
	assert_int_equal(challenge(&self, sizeof(self.wire)), 0);
	assert_non_null(nam__proof_check(client->key, (struct nam__auth_name){ 0, 0, 0 },
		&self.hello, &self.challenge, &self.answer));
	nam__proof_append(&client->key->keys[0], &self.hello, &self.challenge, &self.answer,
		&reply);
	assert_int_equal(nam__shake_finish(&self.shake, &reply, &diag), 0);
	assert_int_equal(reply.bytes, 48);
	assert_int_equal(nam__shake_finish(&self.shake, &reply, &diag), -NAM_E_FABRIC_DENIED);
	assert_non_null(strstr(diag.text, "name0"));
}

/* C23 */
static void
shake__challenge_of_another_server__NO_ANSWER(void **state)
{
	struct handshake self;

	(void)state;
	shake_begin(&self);
	assert_int_equal(challenge(&self, sizeof(self.wire) - 1), -NAM_E_FABRIC_PROTOCOL);
	self.wire.magic_version++;
	assert_int_equal(challenge(&self, sizeof(self.wire)), -NAM_E_FABRIC_VERSION);
	self.wire.magic_version--;
	self.wire.boot++;
	assert_int_equal(challenge(&self, sizeof(self.wire)), -NAM_E_FABRIC_PEER_DEAD);
	self.wire.boot--;
	self.wire.server_id++;
	assert_int_equal(challenge(&self, sizeof(self.wire)), -NAM_E_FABRIC_PEER_DEAD);
	assert_int_equal(self.answer.bytes, 0);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(key_open__file_with_one_key__IS_THE_CLIENTS),
		TEST(key_open__no_file_is_named__NO_KEY),
		TEST(key_open__several_keys_or_no_file__FAILS_AND_NAMES_IT),
		TEST(voucher__of_a_client_with_key_and_id__IS_COPIED),
		TEST(shake__server_that_knows_the_key__IS_PROVEN),
		TEST(shake__challenge_of_another_server__NO_ANSWER),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
