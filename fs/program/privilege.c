/* Becoming another user. See privilege.h. */
#include "fs/program/privilege.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The highest number means "none" to the calls that set it. */
static bool number_of(const char *string, uint32_t *number)
{
	char *end;
	errno = 0;
	unsigned long long value = strtoull(string, &end, 10);
	*number = (uint32_t)value;
	return isdigit((unsigned char)*string) && !*end && !errno && value < UINT32_MAX;
}

static int only_root(const char *option, const char *value, struct err *e)
{
	return err_set(
		e, EPERM,
		"-o %s=%s: only root can become another user; leave it out, and the mount is "
		"yours",
		option, value);
}

int privilege_user(struct privilege *p, const char *user, struct err *e)
{
	uint32_t uid = 0;
	bool numeric = number_of(user, &uid);
	const struct passwd *found = numeric ? getpwuid(uid) : getpwnam(user);
	if (!found && !numeric)
		return err_set(e, EINVAL, "-o uid=%s: there is no user of that name or number",
			       user);
	p->uid = found ? found->pw_uid : uid;
	/* Of a number that nobody has, the group of the same number, as systems give them out. */
	p->gid = found ? found->pw_gid : uid;
	if (geteuid() != 0)
		return p->uid == getuid() ? 0 : only_root("uid", user, e);
	p->changes = true;
	free(p->home);
	p->home = found && found->pw_dir ? strdup(found->pw_dir) : NULL;
	return 0;
}

int privilege_group(struct privilege *p, const char *group, struct err *e)
{
	uint32_t gid = 0;
	bool numeric = number_of(group, &gid);
	const struct group *found = numeric ? getgrgid(gid) : getgrnam(group);
	if (!found && !numeric)
		return err_set(e, EINVAL, "-o gid=%s: there is no group of that name or number",
			       group);
	gid = found ? found->gr_gid : gid;
	if (geteuid() != 0)
		return gid == getgid() ? 0 : only_root("gid", group, e);
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
		return err_set(e, EPERM, "user %u could become root again: nothing is opened",
			       (unsigned)p->uid);
	if (p->uid == 0)
		return 0;
	/* A store's place is looked for there. */
	(void)unsetenv("XDG_CACHE_HOME");
	int failed = p->home ? setenv("HOME", p->home, 1) : unsetenv("HOME");
	return failed ? err_set(e, ENOMEM, "no memory for the environment") : 0;
}
