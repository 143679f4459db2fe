/* See privilege.h. */
#include "fs/program/privilege.h"
#include "fs/base/human.h"

#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <grp.h>
#include <poll.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* setresuid(2) and setresgid(2) take the highest number as "no change". */
static const uint32_t id_most = UINT32_MAX - 1;

static int privilege_refuse(const char *option, const char *value, struct err *e)
{
	return err_set(
		e, EPERM,
		"-o %s=%s: only root can become another user; without this option the mount is "
		"yours",
		option, value);
}

int privilege_set_user(struct privilege *p, const char *user, struct err *e)
{
	uint64_t number;
	bool numeric = human_parse_number(user, 10, id_most, &number);
	uid_t uid = (uid_t)number;
	const struct passwd *found = numeric ? getpwuid(uid) : getpwnam(user);
	if (!found && !numeric)
		return err_set(e, EINVAL, "-o uid=%s: there is no such user", user);
	p->uid = found ? found->pw_uid : uid;
	/* For a number without a user, the group of the same number, which is how systems assign
	 * groups. */
	p->gid = found ? found->pw_gid : uid;
	if (geteuid() != 0)
		return p->uid == getuid() ? 0 : privilege_refuse("uid", user, e);
	p->changes = true;
	free(p->home);
	p->home = found && found->pw_dir ? strdup(found->pw_dir) : NULL;
	return 0;
}

int privilege_set_group(struct privilege *p, const char *group, struct err *e)
{
	uint64_t number;
	bool numeric = human_parse_number(group, 10, id_most, &number);
	gid_t gid = (gid_t)number;
	const struct group *found = numeric ? getgrgid(gid) : getgrnam(group);
	if (!found && !numeric)
		return err_set(e, EINVAL, "-o gid=%s: there is no such group", group);
	gid = found ? found->gr_gid : gid;
	if (geteuid() != 0)
		return gid == getgid() ? 0 : privilege_refuse("gid", group, e);
	if (!p->changes)
		p->uid = getuid();
	p->changes = true;
	p->gid = gid;
	return 0;
}

void privilege_free(struct privilege *p)
{
	free(p->home);
	p->home = NULL;
}

int privilege_drop(const struct privilege *p, struct err *e)
{
	if (!p->changes)
		return 0;
	if (setgroups(0, NULL) || setresgid(p->gid, p->gid, p->gid) ||
	    setresuid(p->uid, p->uid, p->uid))
		return err_sys(e, errno, "cannot become user %u, group %u", (unsigned)p->uid,
			       (unsigned)p->gid);
	if (p->uid != 0 && (setuid(0) == 0 || seteuid(0) == 0))
		return err_set(e, EPERM, "user %u could become root again, so nothing is opened",
			       (unsigned)p->uid);
	if (p->uid == 0)
		return 0;
	/* Stores would be looked for there. */
	(void)unsetenv("XDG_CACHE_HOME");
	int failed = p->home ? setenv("HOME", p->home, 1) : unsetenv("HOME");
	return failed ? err_set(e, ENOMEM, "no memory for the environment") : 0;
}

/* ---- the mounter: its answer is a byte with the device as control data, unix(7) ---- */

struct device_message {
	struct msghdr header;
	struct iovec place;
	char byte;
	_Alignas(struct cmsghdr) char beside[CMSG_SPACE(sizeof(int))];
};

static void privilege_init_message(struct device_message *v)
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

static int privilege_send_device(int socket, int device)
{
	struct device_message v;
	privilege_init_message(&v);
	struct cmsghdr *c = CMSG_FIRSTHDR(&v.header);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(sizeof device);
	memcpy(CMSG_DATA(c), &device, sizeof device);
	return sendmsg(socket, &v.header, MSG_NOSIGNAL) == 1 ? 0 : -1;
}

static int privilege_receive_device(int socket)
{
	struct device_message v;
	privilege_init_message(&v);
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

/* In the mounter: libfuse writes the real user into the mount's options and mounts with the
 * effective user's rights. */
static int privilege_mount_for(struct fuse_args *args, const char *point, const struct privilege *p,
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
	if (n != 1) /* the daemon has ended */
		return -1;
	struct fuse_session *fuse = fuse_session_new(args, &none, sizeof none, NULL);
	if (!fuse || fuse_session_mount(fuse, point))
		return -1;
	if (privilege_send_device(socket, fuse_session_fd(fuse)) == 0)
		return 0;
	fuse_session_unmount(fuse);
	return -1;
}

int privilege_begin_mounter(struct privilege_mounter *m, struct fuse_args *args, const char *point,
			    const struct privilege *p, struct err *e)
{
	int ends[2];
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
		return err_sys(e, errno, "cannot make a socket");
	m->process = fork();
	if (m->process == 0) {
		close(ends[0]);
		_exit(privilege_mount_for(args, point, p, ends[1]) != 0);
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

int privilege_mount(struct privilege_mounter *m, int *device, struct err *e)
{
	*device = send(m->socket, "", 1, MSG_NOSIGNAL) == 1 ? privilege_receive_device(m->socket)
							    : -1;
	return *device >= 0 ? 0 : err_set(e, EPERM, "the process that mounts has failed");
}

void privilege_end_mounter(struct privilege_mounter *m)
{
	if (m->socket < 0)
		return;
	close(m->socket);
	m->socket = -1;
	while (waitpid(m->process, NULL, 0) < 0 && errno == EINTR)
		;
}

bool privilege_is_unmounted(int device)
{
	struct pollfd look = {.fd = device};
	return poll(&look, 1, 0) == 1 && look.revents & POLLERR;
}
