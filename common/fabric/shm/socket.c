/* SPDX-License-Identifier: Apache-2.0 */
/* socket.c -- packets with file descriptors over a Unix socket. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "shm_internal.h"

#define PACKET_FDS_MAX SHM_REGIONS_PER_PACKET

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(sizeof(int) * PACKET_FDS_MAX)];
};

int
nam__shm_address(const char *address, struct sockaddr_un *ret, struct nam_diag *diag)
{
	const char *path = address;

	if (!strncmp(path, "shm:", 4))
		path += 4;
	if (!*path)
		return nam_diag_set(diag, -EINVAL, "'%s': the path is missing; write shm:PATH, for "
			"example shm:/run/nam/server0", address);
	if (strlen(path) >= sizeof(ret->sun_path))
		return nam_diag_set(diag, -EINVAL, "'%s' is too long: the path of a Unix socket "
			"may have %zu bytes", address, sizeof(ret->sun_path) - 1);
	memset(ret, 0, sizeof(*ret));
	ret->sun_family = AF_UNIX;
	memcpy(ret->sun_path, path, strlen(path));
	return 0;
}

int
nam__shm_packet_send(int fd, const void *data, size_t bytes, const int *fds, unsigned fds_count)
{
	union control control;
	struct iovec iov = { .iov_base = (void *)(uintptr_t)data, .iov_len = bytes };
	struct msghdr message = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t sent;

	if (fds_count > PACKET_FDS_MAX)
		return -EINVAL;
	if (fds_count) {
		struct cmsghdr *header;

		memset(&control, 0, sizeof(control));
		message.msg_control = control.bytes;
		message.msg_controllen = CMSG_SPACE(sizeof(int) * fds_count);
		header = CMSG_FIRSTHDR(&message);
		header->cmsg_level = SOL_SOCKET;
		header->cmsg_type = SCM_RIGHTS;
		header->cmsg_len = CMSG_LEN(sizeof(int) * fds_count);
		memcpy(CMSG_DATA(header), fds, sizeof(int) * fds_count);
	}
	do {
		sent = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return -errno;
	return (size_t)sent == bytes ? 0 : -EIO;
}

void
nam__shm_close_all(const int *fds, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

/* Collect the descriptors of a packet.  Beyond fds_max they are closed and count as an error. */
static int
take_fds(struct msghdr *message, int *fds, unsigned fds_max, unsigned *count)
{
	struct cmsghdr *header;
	int rc = 0;

	for (header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
		unsigned n;

		if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
			continue;
		n = (unsigned)((header->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		for (unsigned i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
			if (*count < fds_max) {
				fds[(*count)++] = fd;
			} else {
				close(fd);
				rc = -NAM_E_FABRIC_PROTOCOL;
			}
		}
	}
	return rc;
}

int
nam__shm_packet_recv(int fd, void *data, size_t size, size_t *ret_bytes, int *fds,
	unsigned fds_max, unsigned *ret_fds)
{
	union control control;
	struct iovec iov = { .iov_base = data, .iov_len = size };
	struct msghdr message = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes),
	};
	unsigned count = 0;
	ssize_t got;
	int rc;

	do {
		got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
	} while (got < 0 && errno == EINTR);
	if (got < 0)
		return -errno;
	rc = take_fds(&message, fds, fds_max, &count);
	if (rc == 0 && (message.msg_flags & MSG_CTRUNC))
		rc = -EMFILE;	/* the kernel could not install all of them */
	if (rc == 0 && (message.msg_flags & MSG_TRUNC))
		rc = -NAM_E_FABRIC_PROTOCOL;
	if (rc) {
		nam__shm_close_all(fds, count);
		return rc;
	}
	*ret_bytes = (size_t)got;
	*ret_fds = count;
	return 0;
}
