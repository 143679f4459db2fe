/* faultfs FOLDER MOUNTPOINT: a mirror of a folder with failures on demand, for tests of programs
 * that use it. It runs in the foreground until it is unmounted.
 *
 * The only file of its own, MOUNTPOINT/.faults, holds a rule per line. A write replaces all rules
 * at once, a truncation removes them, and a read shows each with its counts so far:
 *
 *     PATTERN OPERATION FAULT [after=N] [after_bytes=N] [every=N] [count=N]   # seen 9 hit 3
 * waiting 0
 *
 *     PATTERN     of the name below FOLDER by which a file was opened; * matches slashes, too
 *     OPERATION   open direct (an open with O_DIRECT) read write sync allocate rename remove any
 *     FAULT       error=ENAME     the operation fails
 *                 short=BYTES     a read or write transfers at most this many
 *                 flip            a read delivers one wrong bit
 *                 stall=SECONDS   the operation waits first; 0: until the rules are replaced
 *     after…      spares the first N operations, or those that end within the first N bytes
 *     every=N     spares all but every Nth of the rest; count=N: all but N of them
 *
 * The first rule that matches an operation and does not spare it applies. Nothing is cached: every
 * read and write of a program arrives here, O_DIRECT or not. The mirrored folder is used by plain
 * calls; mmap, links and extended attributes are not supported. */
#include <fuse.h>

#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <pthread.h>
#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

enum operation { OPEN, DIRECT, READ, WRITE, SYNC, ALLOCATE, RENAME, REMOVE, ANY };
static const char *const operations[] = {"open",     "direct", "read",	 "write", "sync",
					 "allocate", "rename", "remove", "any"};

enum fault { NONE, ERROR, SHORT, FLIP, STALL };
static const char *const faults[] = {"none", "error", "short", "flip", "stall"};

enum { RULES = 16, RULES_BYTES = 4096 };
struct rule {
	char pattern[128], text[256];
	enum operation operation;
	enum fault fault;
	uint64_t value;			    /* an errno, bytes or seconds */
	uint64_t after, after_bytes, every; /* every: 1 or more */
	uint64_t count;			    /* how many may still be hit */
	uint64_t seen, bytes, hit, waiting;
};

static int mirrored; /* the folder's descriptor */

/* Guarded by the lock. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t replaced;
	uint64_t generation; /* of the rules */
	struct rule rule[RULES];
	unsigned count;
} rules = {.lock = PTHREAD_MUTEX_INITIALIZER, .replaced = PTHREAD_COND_INITIALIZER};

/* ---- rules as text ---- */

static int find_name(const char *const *names, size_t count, const char *name)
{
	for (size_t i = 0; i < count; i++)
		if (strcmp(names[i], name) == 0)
			return (int)i;
	return -1;
}

static int find_errno(const char *name)
{
	for (int code = 1; code < 256; code++)
		if (strerrorname_np(code) && strcmp(strerrorname_np(code), name) == 0)
			return code;
	return 0;
}

/* FAULT or an option of a rule. False: no such word. */
static bool take_word(struct rule *r, char *word)
{
	const struct {
		const char *name;
		uint64_t *to;
	} options[] = {{"after", &r->after},
		       {"after_bytes", &r->after_bytes},
		       {"every", &r->every},
		       {"count", &r->count}};
	char *value = strchr(word, '=');
	if (value)
		*value++ = 0;
	uint64_t number = value ? strtoull(value, NULL, 10) : 0;
	for (size_t i = 0; i < sizeof options / sizeof *options; i++)
		if (strcmp(options[i].name, word) == 0) {
			*options[i].to = number;
			return number > 0;
		}
	int fault = find_name(faults, sizeof faults / sizeof *faults, word);
	if (fault <= NONE || r->fault != NONE)
		return false;
	r->fault = (enum fault)fault;
	r->value = fault == ERROR && value ? (uint64_t)find_errno(value) : number;
	return fault == FLIP || fault == STALL || r->value > 0;
}

static bool take_line(struct rule *r, const char *line)
{
	char copy[sizeof r->text], *save = NULL;
	*r = (struct rule){.every = 1, .count = UINT64_MAX};
	(void)snprintf(r->text, sizeof r->text, "%s", line);
	(void)snprintf(copy, sizeof copy, "%s", line);
	const char *pattern = strtok_r(copy, " ", &save);
	const char *operation = pattern ? strtok_r(NULL, " ", &save) : NULL;
	int found =
		operation ? find_name(operations, sizeof operations / sizeof *operations, operation)
			  : -1;
	if (found < 0 || strlen(pattern) >= sizeof r->pattern || strlen(line) >= sizeof r->text)
		return false;
	(void)snprintf(r->pattern, sizeof r->pattern, "%s", pattern);
	r->operation = (enum operation)found;
	for (char *word; (word = strtok_r(NULL, " ", &save));)
		if (!take_word(r, word))
			return false;
	return r->fault != NONE;
}

static int replace_rules(const char *text, size_t size)
{
	struct rule taken[RULES];
	char copy[RULES_BYTES], *save = NULL;
	unsigned count = 0;
	if (size >= sizeof copy)
		return -EFBIG;
	memcpy(copy, text, size);
	copy[size] = 0;
	for (char *line = strtok_r(copy, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		line[strcspn(line, "#")] = 0;
		if (!line[strspn(line, " ")])
			continue;
		if (count == RULES || !take_line(&taken[count++], line))
			return -EINVAL;
	}
	pthread_mutex_lock(&rules.lock);
	memcpy(rules.rule, taken, count * sizeof *taken);
	rules.count = count;
	rules.generation++;
	pthread_cond_broadcast(&rules.replaced);
	pthread_mutex_unlock(&rules.lock);
	return (int)size;
}

static int show_rules(char *out, size_t size, off_t offset)
{
	char text[RULES * (sizeof rules.rule->text + 100)];
	size_t n = 0;
	pthread_mutex_lock(&rules.lock);
	for (unsigned i = 0; i < rules.count; i++) {
		const struct rule *r = &rules.rule[i];
		n += (size_t)snprintf(text + n, sizeof text - n,
				      "%s # seen %llu hit %llu waiting %llu\n", r->text,
				      (unsigned long long)r->seen, (unsigned long long)r->hit,
				      (unsigned long long)r->waiting);
	}
	pthread_mutex_unlock(&rules.lock);
	size_t from = (size_t)offset < n ? (size_t)offset : n;
	size = n - from < size ? n - from : size;
	memcpy(out, text + from, size);
	return (int)size;
}

/* ---- rules at work ---- */

/* Lock held. True if this rule applies to the operation. */
static bool strikes(struct rule *r, enum operation operation, const char *name, size_t bytes)
{
	if ((r->operation != operation && r->operation != ANY) || fnmatch(r->pattern, name, 0))
		return false;
	r->bytes += bytes;
	if (++r->seen <= r->after || (r->after_bytes && r->bytes <= r->after_bytes) ||
	    (r->seen - r->after) % r->every != 0 || r->count == 0)
		return false;
	r->count--;
	r->hit++;
	return true;
}

/* Lock held. The memory of a rule that was replaced meanwhile is another rule's. */
static void stall(struct rule *r)
{
	uint64_t generation = rules.generation;
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += r->value > 0 ? (time_t)r->value : 86400;
	r->waiting++;
	int rc = 0;
	while (rules.generation == generation && rc != ETIMEDOUT)
		rc = pthread_cond_timedwait(&rules.replaced, &rules.lock, &until);
	if (rules.generation == generation)
		r->waiting--;
}

struct verdict {
	enum fault fault;
	uint64_t value;
};

/* The fault for an operation on a file; waits if the operation is to stall. */
static struct verdict judge(enum operation operation, const char *name, size_t bytes)
{
	struct verdict v = {NONE, 0};
	pthread_mutex_lock(&rules.lock);
	for (unsigned i = 0; i < rules.count; i++) {
		struct rule *r = &rules.rule[i];
		if (!strikes(r, operation, name, bytes))
			continue;
		v = (struct verdict){r->fault, r->value};
		if (v.fault == STALL)
			stall(r);
		break;
	}
	pthread_mutex_unlock(&rules.lock);
	return v;
}

/* For operations that can only fail: 0 or a negative errno. */
static int admit(enum operation operation, const char *name)
{
	struct verdict v = judge(operation, name, 0);
	return v.fault == ERROR ? -(int)v.value : 0;
}

/* ---- open files ---- */

struct handle {
	int fd; /* -1: the file of rules */
	char name[];
};

static struct handle *handle_of(const struct fuse_file_info *file)
{
	return (struct handle *)(uintptr_t)file->fh; // NOLINT(performance-no-int-to-ptr)
}

/* The path below the folder; "." for the folder itself. */
static const char *name_of(const char *path)
{
	return path[1] ? path + 1 : ".";
}

static bool is_rules(const char *path)
{
	return path && strcmp(path, "/.faults") == 0;
}

static int result_of(int rc)
{
	return rc < 0 ? -errno : rc;
}

static int open_any(const char *path, mode_t mode, struct fuse_file_info *file)
{
	const char *name = name_of(path);
	bool of_rules = is_rules(path);
	int code = of_rules ? 0 : admit(OPEN, name);
	if (!code && !of_rules && file->flags & O_DIRECT)
		code = admit(DIRECT, name);
	if (code)
		return code;
	struct handle *h = malloc(sizeof *h + strlen(name) + 1);
	if (!h)
		return -ENOMEM;
	memcpy(h->name, name, strlen(name) + 1);
	/* The buffers that arrive here have no alignment. */
	h->fd = of_rules ? -1 : openat(mirrored, name, (file->flags & ~O_DIRECT) | O_CLOEXEC, mode);
	if (h->fd < 0 && !of_rules) {
		code = -errno;
		free(h);
		return code;
	}
	if (of_rules && file->flags & O_TRUNC)
		(void)replace_rules("", 0);
	file->fh = (uintptr_t)h;
	file->direct_io = 1;
	return 0;
}

static int op_open(const char *path, struct fuse_file_info *file)
{
	return open_any(path, 0, file);
}

static int op_create(const char *path, mode_t mode, struct fuse_file_info *file)
{
	return open_any(path, mode, file);
}

static int op_release(const char *path, struct fuse_file_info *file)
{
	(void)path;
	struct handle *h = handle_of(file);
	if (h->fd >= 0)
		(void)close(h->fd);
	free(h);
	return 0;
}

static int op_read(const char *path, char *buffer, size_t size, off_t offset,
		   struct fuse_file_info *file)
{
	(void)path;
	const struct handle *h = handle_of(file);
	if (h->fd < 0)
		return show_rules(buffer, size, offset);
	struct verdict v = judge(READ, h->name, size);
	if (v.fault == ERROR)
		return -(int)v.value;
	if (v.fault == SHORT && v.value < size)
		size = v.value;
	int n = result_of((int)pread(h->fd, buffer, size, offset));
	if (v.fault == FLIP && n > 0)
		buffer[n / 2] = (char)(buffer[n / 2] ^ 1);
	return n;
}

static int op_write(const char *path, const char *data, size_t size, off_t offset,
		    struct fuse_file_info *file)
{
	(void)path;
	const struct handle *h = handle_of(file);
	if (h->fd < 0)
		return replace_rules(data, size);
	struct verdict v = judge(WRITE, h->name, size);
	if (v.fault == ERROR)
		return -(int)v.value;
	if (v.fault == SHORT && v.value < size)
		size = v.value;
	return result_of((int)pwrite(h->fd, data, size, offset));
}

static int op_fsync(const char *path, int data_only, struct fuse_file_info *file)
{
	(void)path;
	const struct handle *h = handle_of(file);
	int code = h->fd < 0 ? 0 : admit(SYNC, h->name);
	if (code || h->fd < 0)
		return code;
	return result_of(data_only ? fdatasync(h->fd) : fsync(h->fd));
}

static int op_fallocate(const char *path, int mode, off_t offset, off_t length,
			struct fuse_file_info *file)
{
	(void)path;
	const struct handle *h = handle_of(file);
	int code = admit(ALLOCATE, h->name);
	return code ? code : result_of(fallocate(h->fd, mode, offset, length));
}

/* ---- names ---- */

static int op_getattr(const char *path, struct stat *st, struct fuse_file_info *file)
{
	if (is_rules(path)) {
		*st = (struct stat){.st_mode = S_IFREG | 0600, .st_nlink = 1, .st_uid = geteuid()};
		return 0;
	}
	if (file)
		return result_of(fstat(handle_of(file)->fd, st));
	return result_of(fstatat(mirrored, name_of(path), st, AT_SYMLINK_NOFOLLOW));
}

static int op_truncate(const char *path, off_t size, struct fuse_file_info *file)
{
	if (is_rules(path))
		return replace_rules("", 0);
	if (file)
		return result_of(ftruncate(handle_of(file)->fd, size));
	int fd = openat(mirrored, name_of(path), O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	int code = fd < 0 ? -errno : result_of(ftruncate(fd, size));
	if (fd >= 0)
		(void)close(fd);
	return code;
}

static int op_opendir(const char *path, struct fuse_file_info *file)
{
	file->flags = O_RDONLY | O_DIRECTORY;
	return open_any(path, 0, file);
}

static int op_readdir(const char *path, void *buffer, fuse_fill_dir_t fill, off_t offset,
		      struct fuse_file_info *file, enum fuse_readdir_flags flags)
{
	(void)path;
	(void)offset;
	(void)flags;
	int fd = openat(handle_of(file)->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *folder = fd < 0 ? NULL : fdopendir(fd);
	if (!folder)
		return -errno;
	for (const struct dirent *d; (d = readdir(folder));)
		if (fill(buffer, d->d_name, NULL, 0, (enum fuse_fill_dir_flags)0))
			break;
	(void)closedir(folder);
	return 0;
}

static int op_rename(const char *from, const char *to, unsigned flags)
{
	int code = admit(RENAME, name_of(from));
	return code ? code
		    : result_of(renameat2(mirrored, name_of(from), mirrored, name_of(to), flags));
}

static int op_unlink(const char *path)
{
	int code = admit(REMOVE, name_of(path));
	return code ? code : result_of(unlinkat(mirrored, name_of(path), 0));
}

static int op_rmdir(const char *path)
{
	int code = admit(REMOVE, name_of(path));
	return code ? code : result_of(unlinkat(mirrored, name_of(path), AT_REMOVEDIR));
}

static int op_mkdir(const char *path, mode_t mode)
{
	return result_of(mkdirat(mirrored, name_of(path), mode));
}

static int op_fsyncdir(const char *path, int data_only, struct fuse_file_info *file)
{
	(void)path;
	(void)data_only;
	return admit(SYNC, handle_of(file)->name);
}

static int op_statfs(const char *path, struct statvfs *st)
{
	(void)path;
	return result_of(fstatvfs(mirrored, st));
}

static void *op_init(struct fuse_conn_info *connection, struct fuse_config *config)
{
	/* Every operation that a test has in flight may stall. */
	connection->max_background = connection->congestion_threshold = 256;
	config->nullpath_ok = config->hard_remove = config->use_ino = 1;
	config->attr_timeout = config->entry_timeout = 0;
	return NULL;
}

static const struct fuse_operations table = {
	.init = op_init,
	.getattr = op_getattr,
	.opendir = op_opendir,
	.readdir = op_readdir,
	.releasedir = op_release,
	.mkdir = op_mkdir,
	.rmdir = op_rmdir,
	.unlink = op_unlink,
	.rename = op_rename,
	.open = op_open,
	.create = op_create,
	.read = op_read,
	.write = op_write,
	.truncate = op_truncate,
	.fallocate = op_fallocate,
	.fsync = op_fsync,
	.fsyncdir = op_fsyncdir,
	.statfs = op_statfs,
	.release = op_release,
};

int main(int argc, char **argv)
{
	if (argc != 3) {
		(void)fprintf(stderr, "usage: faultfs FOLDER MOUNTPOINT\n");
		return 2;
	}
	mirrored = open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mirrored < 0) {
		(void)fprintf(stderr, "faultfs: %s: %s\n", argv[1], strerror(errno));
		return 1;
	}
	char name[] = "faultfs", foreground[] = "-f";
	char options[] = "-ofsname=faultfs,max_threads=256,max_idle_threads=16";
	char *arguments[] = {name, foreground, options, argv[2], NULL};
	return fuse_main(4, arguments, &table, NULL);
}
