/* Mounting for a daemon that is not root any more. See mounter.h. */
#include "fs/program/mounter.h"

#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the message: a byte, with the device beside it ---- */

struct envelope {
	struct msghdr header;
	struct iovec place;
	char byte;
	_Alignas(struct cmsghdr) char beside[CMSG_SPACE(sizeof(int))];
};

static void envelope_init(struct envelope *v)
{
	memset(v, 0, sizeof *v);
	v->place = (struct iovec){&v->byte, 1};
	v->header = (struct msghdr){
		.msg_iov = &v->place,
		.msg_iovlen = 1,
		.msg_control = v->beside,
		.msg_controllen = sizeof v->beside,
	};
}

static int send_device(int socket, int device)
{
	struct envelope v;
	envelope_init(&v);
	struct cmsghdr *c = CMSG_FIRSTHDR(&v.header);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof device);
	memcpy(CMSG_DATA(c), &device, sizeof device);
	return sendmsg(socket, &v.header, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static int receive_device(int socket)
{
	struct envelope v;
	envelope_init(&v);
	int device = -1;
	ssize_t n;
	do
		n = recvmsg(socket, &v.header, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	const struct cmsghdr *c = n == 1 ? CMSG_FIRSTHDR(&v.header) : NULL;
	if (c && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof device))
		memcpy(&device, CMSG_DATA(c), sizeof device);
	return device;
}

/* ---- the process ---- */

/* libfuse writes the real user into the mount's options, and mounts by the effective one's right.
 */
static int mount_for(struct fuse_args *args, const char *point, const struct privilege *p,
		     int socket)
{
	static const struct fuse_lowlevel_ops none;
	char byte;
	if (setresgid(p->gid, 0, 0) || setresuid(p->uid, 0, 0))
		return -1;
	ssize_t n;
	do
		n = read(socket, &byte, 1);
	while (n < 0 && errno == EINTR);
	if (n != 1) /* whom it is for has ended */
		return -1;
	struct fuse_session *fuse = fuse_session_new(args, &none, sizeof none, NULL);
	if (!fuse || fuse_session_mount(fuse, point))
		return -1;
	if (send_device(socket, fuse_session_fd(fuse)) == 0)
		return 0;
	fuse_session_unmount(fuse);
	return -1;
}

int mounter_begin(struct mounter *m, struct fuse_args *args, const char *point,
		  const struct privilege *p, struct err *e)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, errno, "cannot make a socket");
	m->process = fork();
	if (m->process == 0) {
		close(ends[0]);
		_exit(mount_for(args, point, p, ends[1]) != 0);
	}
	close(ends[1]);
	m->socket = ends[0];
	if (m->process > 0)
		return 0;
	int code = errno;
	close(m->socket);
	m->socket = -1;
	return err_sys(e, code, "cannot start the process that mounts");
}

int mounter_mount(struct mounter *m, int *device, struct err *e)
{
	*device = send(m->socket, "", 1, MSG_NOSIGNAL) == 1 ? receive_device(m->socket) : -1;
	return *device >= 0 ? 0 : err_set(e, EPERM, "the process that mounts could not");
}

void mounter_end(struct mounter *m)
{
	if (m->socket < 0)
		return;
	close(m->socket);
	m->socket = -1;
	while (waitpid(m->process, NULL, 0) < 0 && errno == EINTR)
		;
}

bool mounter_is_gone(int device)
{
	struct pollfd look = {.fd = device};
	return poll(&look, 1, 0) == 1 && look.revents & POLLERR;
}
