/* SPDX-License-Identifier: Apache-2.0 */
/* key_file.c -- key new, key list.  Secrets go to files only. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "../namctl.h"

static int
write_line(int fd, const char *path, const struct nam__auth_key *key, struct nam_diag *diag)
{
	char line[NAM_AUTH_LINE_BYTES];
	ssize_t length, done;

	nam__auth_key_line(key, line);
	length = (ssize_t)strlen(line);
	done = write(fd, line, (size_t)length);
	explicit_bzero(line, sizeof(line));
	if (done == length && !fsync(fd))
		return 0;
	return nam_diag_set(diag, done < 0 || done == length ? -errno : -ENOSPC, "%s: %s", path,
		done < 0 || done == length ? strerror(errno) : "there is no room for the key");
}

/* A line that its file does not end with a line feed would run into the new one. */
static int
end_line(int fd, off_t end, const char *path, struct nam_diag *diag)
{
	char last = '\n';

	if (end > 0 && pread(fd, &last, 1, end - 1) != 1)
		return nam_diag_set(diag, -EIO, "%s: it cannot be read", path);
	if (last != '\n' && write(fd, "\n", 1) != 1)
		return nam_diag_set(diag, -errno, "%s: %s", path, strerror(errno));
	return 0;
}

/* No name may be there twice.  With a lock, as two may add keys at once. */
static int
append(int fd, const char *path, const struct nam__auth_key *key, struct nam_diag *diag)
{
	struct nam__auth_keys *keys;
	off_t end;
	int rc;

	if (flock(fd, LOCK_EX))
		return nam_diag_set(diag, -errno, "%s: %s", path, strerror(errno));
	end = lseek(fd, 0, SEEK_END);
	rc = nam__auth_keys_read(path, true, &keys, diag);
	if (rc)
		return rc;
	for (uint32_t i = 0; i < keys->count; i++)
		if (!strcmp(keys->keys[i].name, key->name))
			rc = nam_diag_set(diag, -EEXIST, "%s: it has a key %s already; remove that "
				"line first, or choose another name", path, key->name);
	if (!rc && keys->count == NAM_AUTH_KEYS_MAX)
		rc = nam_diag_set(diag, -NAM_E_LIMIT, "%s: it has %u keys, the most", path,
			keys->count);
	nam__auth_keys_free(keys);
	if (!rc)
		rc = end_line(fd, end, path, diag);
	if (!rc)
		rc = write_line(fd, path, key, diag);
	/* Half a line would make the whole file useless. */
	if (rc && end >= 0 && ftruncate(fd, end))
		(void)nam_diag_set(diag, rc, "%s: its last line may be incomplete", path);
	return rc;
}

/* The client's file comes first: without the server's line it opens nothing. */
static int
make(const char *path, const char *client_path, const struct nam__auth_key *key,
	struct nam_diag *diag)
{
	int fd, rc = 0;

	if (client_path) {
		fd = open(client_path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (fd < 0)
			return nam_diag_set(diag, -errno, "%s: %s", client_path, strerror(errno));
		rc = write_line(fd, client_path, key, diag);
		close(fd);
	}
	if (!rc) {
		fd = open(path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		rc = fd < 0 ? nam_diag_set(diag, -errno, "%s: %s", path, strerror(errno)) :
			append(fd, path, key, diag);
		if (fd >= 0)
			close(fd);
	}
	if (rc && client_path)
		(void)unlink(client_path);
	return rc;
}

static cJSON *
describe(const struct nam__auth_key *key)
{
	cJSON *object = cJSON_CreateObject();
	char print[20];

	(void)snprintf(print, sizeof(print), "%016" PRIx64, key->print);
	cJSON_AddStringToObject(object, "name", key->name);
	cJSON_AddStringToObject(object, "role", nam__role_name(key->role));
	cJSON_AddStringToObject(object, "fingerprint", print);
	return object;
}

int
ctl_key_new(struct ctl *ctl, char **args)
{
	struct nam_diag diag = { "" };
	struct nam__auth_key key;
	int rc = nam__auth_key_make(args[1], ctl->role, &key, &diag);

	if (!rc)
		rc = make(args[0], args[2], &key, &diag);
	explicit_bzero(key.secret, sizeof(key.secret));
	if (rc)
		return ctl_failed(NULL, rc, diag.text);
	ctl_print(ctl, "added %s (%s) to %s; memory servers read it with --keys %s, and again at "
		"SIGHUP", key.name, nam__role_name(key.role), args[0], args[0]);
	if (args[2])
		ctl_print(ctl, "%s has this key alone, for clients: --key %s", args[2], args[2]);
	if (ctl->json)
		ctl_json_print(describe(&key));
	return NAM_EXIT_OK;
}

int
ctl_key_list(struct ctl *ctl, char **args)
{
	struct nam_diag diag = { "" };
	struct nam__auth_keys *keys;
	cJSON *object, *list;
	int rc = nam__auth_keys_read(args[0], false, &keys, &diag);

	if (rc)
		return ctl_failed(NULL, rc, diag.text);
	object = ctl_json(ctl);
	list = cJSON_AddArrayToObject(object, "keys");
	for (uint32_t i = 0; i < keys->count; i++) {
		const struct nam__auth_key *key = &keys->keys[i];

		if (list)
			cJSON_AddItemToArray(list, describe(key));
		else
			printf("%-31s  %-5s  %016" PRIx64 "\n", key->name,
				nam__role_name(key->role), key->print);
	}
	ctl_json_print(object);
	nam__auth_keys_free(keys);
	return NAM_EXIT_OK;
}
