/* Remembered answers. See remember.h; remember_bound.c keeps the folder within its limit. */
#include "engine/prefixes/remember_inside.h"

#include "cache/io.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

static const char remember_head[] = "moefs: a remembered answer\nsum ";
static const char *const remember_names[REMEMBER_PARTS] = {
	[REMEMBER_QUESTION] = "question", [REMEMBER_ANSWER] = "answer",
	[REMEMBER_THOUGHTS] = "thoughts", [REMEMBER_CALLS] = "tool_calls",
	[REMEMBER_FINISH] = "finish",	  [REMEMBER_TOKENS] = "tokens",
	[REMEMBER_IDS] = "ids",		  [REMEMBER_LOGPROBS] = "logprobs",
	[REMEMBER_CHOICES] = "choices",	  [REMEMBER_KEY] = "key",
};
enum {
	REMEMBER_SUM = 17,	       /* 16 digits and a newline */
	REMEMBER_FILE_MOST = 64 << 20, /* bytes of a file, at most */
	REMEMBER_WAITING_MOST = 64 << 20,
};

void remember_entry_free(struct remember_entry *x)
{
	for (int i = 0; i < REMEMBER_PARTS; i++)
		text_out_free(&x->parts[i]);
	*x = (struct remember_entry){0};
}

/* ---- folders ---- */

bool remember_is_own(int fd, bool folder, uint64_t *bytes)
{
	struct stat st;
	if (fstat(fd, &st) || st.st_uid != geteuid())
		return false;
	*bytes = (uint64_t)st.st_size;
	return folder ? S_ISDIR(st.st_mode) : S_ISREG(st.st_mode);
}

int remember_open_folder(int dir, const char *name)
{
	uint64_t bytes;
	int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (remember_is_own(fd, true, &bytes))
		return fd;
	close(fd);
	return -EPERM;
}

/* Opens the folder of an owner's answers. make: make the folder if it is missing. */
static int remember_open_owner(const struct remember *r, uint32_t owner, bool make)
{
	char name[16] = "all";
	if (!r->all)
		(void)snprintf(name, sizeof name, "%" PRIu32, owner);
	int fd = remember_open_folder(r->dir, name);
	if (fd == -ENOENT && make && (!mkdirat(r->dir, name, 0700) || errno == EEXIST))
		fd = remember_open_folder(r->dir, name);
	return fd;
}

static int remember_check_folder(const char *folder, int fd, struct err *e)
{
	if (fd == -ENOTDIR || fd == -ELOOP)
		return err_set(e, ENOTDIR, "-o remember=%s: is not a folder (a symbolic link is not followed)",
			       folder);
	if (fd == -EPERM)
		return err_set(e, EPERM,
			       "-o remember=%s: belongs to another user; choose a folder of your own",
			       folder);
	if (fd < 0)
		return err_sys(e, -fd, "-o remember=%s: cannot be opened", folder);
	if (faccessat(fd, ".", W_OK | X_OK, AT_EACCESS))
		return err_sys(e, errno, "-o remember=%s: cannot be written", folder);
	return 0;
}

int remember_open(struct remember **out, const char *folder, uint64_t most, bool all, struct err *e)
{
	struct remember *r = calloc(1, sizeof *r);
	if (!r)
		return err_set(e, ENOMEM, "out of memory for remembering");
	if (mkdir(folder, 0700) && errno != EEXIST) {
		free(r);
		return err_sys(e, errno, "-o remember=%s: cannot be made", folder);
	}
	r->dir = remember_open_folder(AT_FDCWD, folder);
	int failed = remember_check_folder(folder, r->dir, e);
	if (failed) {
		io_close(r->dir);
		free(r);
		return failed;
	}
	r->most = most;
	r->all = all;
	pthread_mutex_init(&r->lock, NULL);
	pthread_mutex_init(&r->writing, NULL);
	remember_bound(r);
	r->used_last = r->used;
	*out = r;
	return 0;
}

void remember_close(struct remember *r)
{
	if (!r)
		return;
	remember_write(r);
	close(r->dir);
	pthread_mutex_destroy(&r->lock);
	pthread_mutex_destroy(&r->writing);
	free(r);
}

/* ---- the bytes of a file ---- */

static void remember_name(const struct text_out *key, char name[REMEMBER_NAME])
{
	XXH128_hash_t sum = XXH3_128bits(key->bytes, key->n);
	(void)snprintf(name, REMEMBER_NAME, "%016" PRIx64 "%016" PRIx64, (uint64_t)sum.high64,
		       (uint64_t)sum.low64);
}

static void remember_add_part(struct text_out *o, const char *name, const struct text_out *part)
{
	char line[64];
	(void)snprintf(line, sizeof line, "%s %zu\n", name, part->n);
	text_out_string(o, line);
	text_out_add(o, part->n ? part->bytes : "", part->n);
	text_out_string(o, "\n");
}

/* Prints the head, with the checksum of the rest, and the rest. */
static void remember_print(const struct remember_entry *x, struct text_out *o)
{
	struct text_out parts = {0};
	char sum[REMEMBER_SUM + 1];
	for (int i = 0; i < REMEMBER_PARTS; i++) {
		remember_add_part(&parts, remember_names[i], &x->parts[i]);
		o->failed |= x->parts[i].failed;
	}
	o->failed |= parts.failed;
	if (!o->failed) {
		(void)snprintf(sum, sizeof sum, "%016" PRIx64 "\n",
			       (uint64_t)XXH3_64bits(parts.bytes, parts.n));
		text_out_string(o, remember_head);
		text_out_string(o, sum);
		text_out_add(o, parts.bytes, parts.n);
	}
	text_out_free(&parts);
}

/* Reads a part from the text at *at; false: the text has another form. */
static bool remember_take_part(const char **at, const char *end, const char *name,
			       struct text_out *part)
{
	size_t n = strlen(name);
	char *digits_end;
	if ((size_t)(end - *at) <= n || memcmp(*at, name, n) != 0 || (*at)[n] != ' ')
		return false;
	uint64_t bytes = strtoull(*at + n + 1, &digits_end, 10);
	const char *text = digits_end + 1;
	if (text >= end || *digits_end != '\n' || bytes >= (uint64_t)(end - text) ||
	    text[bytes] != '\n')
		return false;
	text_out_add(part, text, bytes);
	*at = text + bytes + 1;
	return !part->failed;
}

/* text[n] and a NUL. */
static bool remember_read_parts(const char *text, size_t n, struct remember_entry *x)
{
	const size_t head = sizeof remember_head - 1;
	if (n < head + REMEMBER_SUM || memcmp(text, remember_head, head) != 0)
		return false;
	const char *at = text + head + REMEMBER_SUM, *end = text + n;
	char *sum_end;
	uint64_t sum = strtoull(text + head, &sum_end, 16);
	if (sum_end != at - 1 || *sum_end != '\n' || sum != XXH3_64bits(at, (size_t)(end - at)))
		return false;
	for (int i = 0; i < REMEMBER_PARTS; i++)
		if (!remember_take_part(&at, end, remember_names[i], &x->parts[i]))
			return false;
	return at == end;
}

/* ---- finding ---- */

/* Reads a file: malloc'ed, NUL-terminated. NULL: the file cannot be read, or does not belong to the
 * process's user. */
static char *remember_read_file(int folder, const char *name, size_t *n)
{
	int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	uint64_t bytes = 0, done = 0;
	bool own = fd >= 0 && remember_is_own(fd, false, &bytes);
	char *text = own && bytes <= REMEMBER_FILE_MOST ? malloc(bytes + 1) : NULL;
	while (text && done < bytes) {
		int64_t got = io_pread(fd, text + done, bytes - done, done);
		if (got == -EINTR)
			continue;
		if (got <= 0) {
			free(text);
			text = NULL;
		} else {
			done += (uint64_t)got;
		}
	}
	if (text) {
		text[bytes] = 0;
		*n = bytes;
		(void)futimens(fd, NULL); /* marks the file as used now */
	}
	io_close(fd);
	return text;
}

bool remember_find(struct remember *r, uint32_t owner, const struct text_out *key,
		   struct remember_entry *x)
{
	char name[REMEMBER_NAME];
	size_t n = 0;
	int folder = remember_open_owner(r, owner, false);
	if (folder < 0)
		return false;
	remember_name(key, name);
	char *text = remember_read_file(folder, name, &n);
	close(folder);
	const struct text_out *found = &x->parts[REMEMBER_KEY];
	bool same = text && remember_read_parts(text, n, x) && found->n == key->n &&
		    !memcmp(found->bytes, key->bytes, key->n);
	free(text);
	if (!same)
		remember_entry_free(x);
	return same;
}

/* ---- writing ---- */

static size_t remember_bytes(const struct remember_entry *x)
{
	size_t bytes = sizeof(struct remember_waiting);
	for (int i = 0; i < REMEMBER_PARTS; i++)
		bytes += x->parts[i].n;
	return bytes;
}

void remember_put(struct remember *r, struct remember_entry *x)
{
	size_t bytes = remember_bytes(x);
	struct remember_waiting *w = malloc(sizeof *w);
	pthread_mutex_lock(&r->lock);
	if (w && r->waiting_bytes + bytes <= REMEMBER_WAITING_MOST) {
		*w = (struct remember_waiting){.x = *x};
		*(r->waiting ? &r->last->next : &r->waiting) = w;
		r->last = w;
		r->waiting_bytes += bytes;
		*x = (struct remember_entry){0};
		w = NULL;
	}
	pthread_mutex_unlock(&r->lock);
	free(w);
	remember_entry_free(x);
}

bool remember_waits(struct remember *r)
{
	if (!r)
		return false;
	pthread_mutex_lock(&r->lock);
	bool waits = r->waiting;
	pthread_mutex_unlock(&r->lock);
	return waits;
}

static struct remember_waiting *remember_next(struct remember *r)
{
	pthread_mutex_lock(&r->lock);
	struct remember_waiting *w = r->waiting;
	if (w) {
		r->waiting = w->next;
		r->waiting_bytes -= remember_bytes(&w->x);
	}
	pthread_mutex_unlock(&r->lock);
	return w;
}

static int remember_write_bytes(int folder, const char *name, const struct text_out *o)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	int failed = 0;
	for (size_t done = 0; done < o->n && !failed;) {
		int64_t n = io_pwrite(fd, o->bytes + done, o->n - done, done);
		if (n > 0)
			done += (size_t)n;
		else if (n != -EINTR)
			failed = n ? (int)n : -EIO;
	}
	if (close(fd) && !failed)
		failed = -errno;
	return failed;
}

/* Writes under a temporary name first, which no other process uses. */
static int remember_write_file(struct remember *r, int folder, const struct remember_entry *x,
			       const struct text_out *o)
{
	char name[REMEMBER_NAME], partial[48];
	remember_name(&x->parts[REMEMBER_KEY], name);
	(void)snprintf(partial, sizeof partial, "partial.%ld.%" PRIu64, (long)getpid(),
		       ++r->written);
	int failed = remember_write_bytes(folder, partial, o);
	if (!failed)
		failed = io_rename(folder, partial, name);
	if (failed && failed != -EEXIST)
		(void)io_remove(folder, partial);
	return failed;
}

static int remember_write_one(struct remember *r, const struct remember_entry *x, struct err *e)
{
	struct text_out o = {0};
	remember_print(x, &o);
	if (o.failed || o.n > REMEMBER_FILE_MOST || o.n > r->most) {
		text_out_free(&o);
		return err_set(e, EFBIG, "an answer takes more than remember_size= allows");
	}
	int folder = remember_open_owner(r, x->owner, true);
	int failed = folder < 0 ? folder : remember_write_file(r, folder, x, &o);
	io_close(folder);
	r->used += failed ? 0 : o.n;
	text_out_free(&o);
	if (failed == -EPERM || failed == -ELOOP || failed == -ENOTDIR)
		return err_set(e, -failed,
			       "the folder of user %" PRIu32 " in -o remember= is not one of moefs's "
			       "own; remove it",
			       x->owner);
	return failed ? err_sys(e, -failed, "an answer cannot be written to -o remember=") : 0;
}

void remember_write(struct remember *r)
{
	/* Counts again after this many files, since other processes may write to the folder. */
	enum { LOOK = 64 };
	struct remember_waiting *w;
	pthread_mutex_lock(&r->writing);
	while ((w = remember_next(r))) {
		struct err e = {0};
		(void)remember_write_one(r, &w->x, &e);
		if (r->used > r->most || r->written % LOOK == 0)
			remember_bound(r);
		pthread_mutex_lock(&r->lock);
		r->failure = e;
		r->used_last = r->used;
		pthread_mutex_unlock(&r->lock);
		remember_entry_free(&w->x);
		free(w);
	}
	pthread_mutex_unlock(&r->writing);
}

/* ---- looking ---- */

uint64_t remember_most(const struct remember *r)
{
	return r ? r->most : 0;
}

uint64_t remember_used(struct remember *r)
{
	if (!r)
		return 0;
	pthread_mutex_lock(&r->lock);
	uint64_t used = r->used_last;
	pthread_mutex_unlock(&r->lock);
	return used;
}

void remember_failure(struct remember *r, struct err *e)
{
	*e = (struct err){0};
	if (!r)
		return;
	pthread_mutex_lock(&r->lock);
	*e = r->failure;
	pthread_mutex_unlock(&r->lock);
}
