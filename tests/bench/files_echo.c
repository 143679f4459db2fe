/* A bare file system of two files, the baseline for the tree of moefs: text written to `prompt`
 * and closed comes back from `output`, the first byte at once and one more every two milliseconds.
 * It does nothing else, and has one session, one answer and one reader. */
#include "tests/bench/files.h"

#include "cache/clock.h"

#include <errno.h>
#include <fuse3/fuse_lowlevel.h>
#include <pthread.h>
#include <stdbool.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT = 2, OUTPUT, TOKENS = 32, TOKEN_NS = 2000000 };

struct echo {
	struct notes *notes;
	int started;
	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t asked;
	char text[TOKENS + 1];
	size_t prompted; /* bytes of text that were written */
	size_t said;	 /* and that are there to read */
	bool working, quit;
	fuse_req_t waiting; /* the reader at the end; NULL: nobody waits */
	size_t from;	    /* where it reads */
};

static void answer_reader(struct echo *x)
{
	fuse_req_t req = x->waiting;
	x->waiting = NULL;
	(void)fuse_reply_buf(req, x->text + x->from, x->said - x->from);
}

/* In place of an engine. */
static void *generate(void *arg)
{
	struct echo *x = arg;
	pthread_mutex_lock(&x->lock);
	while (!x->quit) {
		if (!x->working) {
			pthread_cond_wait(&x->asked, &x->lock);
			continue;
		}
		if (x->said < TOKENS)
			notes_add(x->notes, ++x->said);
		else
			x->working = false;
		if (x->waiting)
			answer_reader(x);
		pthread_mutex_unlock(&x->lock);
		(void)nanosleep(&(struct timespec){.tv_nsec = TOKEN_NS}, NULL);
		pthread_mutex_lock(&x->lock);
	}
	pthread_mutex_unlock(&x->lock);
	return NULL;
}

static void attributes(fuse_ino_t inode, struct stat *st)
{
	*st = (struct stat){.st_ino = inode,
			    .st_mode = inode == FUSE_ROOT_ID ? S_IFDIR | 0755 : S_IFREG | 0600,
			    .st_nlink = 1,
			    .st_uid = getuid(),
			    .st_gid = getgid()};
}

static void echo_init(void *ctx, struct fuse_conn_info *conn)
{
	const struct echo *x = ctx;
	conn->want |= conn->capable & FUSE_CAP_ATOMIC_O_TRUNC;
	(void)!write(x->started, "", 1);
}

static void echo_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = {.attr_timeout = 0, .entry_timeout = 1};
	if (parent == FUSE_ROOT_ID && !strcmp(name, "prompt"))
		e.ino = PROMPT;
	else if (parent == FUSE_ROOT_ID && !strcmp(name, "output"))
		e.ino = OUTPUT;
	if (!e.ino) {
		(void)fuse_reply_err(req, ENOENT);
		return;
	}
	attributes(e.ino, &e.attr);
	(void)fuse_reply_entry(req, &e);
}

static void echo_getattr(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)file;
	struct stat st;
	attributes(inode, &st);
	(void)fuse_reply_attr(req, &st, 0);
}

static void echo_open(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	struct echo *x = fuse_req_userdata(req);
	file->direct_io = 1;
	file->nonseekable = 1;
	if (inode == PROMPT) {
		pthread_mutex_lock(&x->lock);
		x->prompted = x->said = 0;
		x->working = false;
		pthread_mutex_unlock(&x->lock);
	}
	(void)fuse_reply_open(req, file);
}

static void echo_write(fuse_req_t req, fuse_ino_t inode, const char *data, size_t size,
		       off_t offset, struct fuse_file_info *file)
{
	(void)inode;
	(void)offset;
	(void)file;
	struct echo *x = fuse_req_userdata(req);
	size_t n = size < TOKENS ? size : TOKENS;
	pthread_mutex_lock(&x->lock);
	memset(x->text, '.', TOKENS);
	memcpy(x->text, data, n);
	x->prompted = n;
	pthread_mutex_unlock(&x->lock);
	(void)fuse_reply_write(req, size);
}

static void echo_release(fuse_req_t req, fuse_ino_t inode, struct fuse_file_info *file)
{
	(void)file;
	struct echo *x = fuse_req_userdata(req);
	pthread_mutex_lock(&x->lock);
	if (inode == PROMPT && x->prompted) {
		x->working = true;
		notes_add(x->notes, ++x->said);
		if (x->waiting)
			answer_reader(x);
		pthread_cond_signal(&x->asked);
	}
	pthread_mutex_unlock(&x->lock);
	(void)fuse_reply_err(req, 0);
}

static void echo_read(fuse_req_t req, fuse_ino_t inode, size_t size, off_t offset,
		      struct fuse_file_info *file)
{
	(void)inode;
	(void)size;
	(void)file;
	struct echo *x = fuse_req_userdata(req);
	pthread_mutex_lock(&x->lock);
	x->from = (size_t)offset;
	x->waiting = req;
	if (x->from < x->said || (x->said == TOKENS && !x->working))
		answer_reader(x);
	pthread_mutex_unlock(&x->lock);
}

int echo_serve(const char *where, struct notes *notes, int started, struct err *e)
{
	static const struct fuse_lowlevel_ops OPS = {.init = echo_init,
						     .lookup = echo_lookup,
						     .getattr = echo_getattr,
						     .open = echo_open,
						     .read = echo_read,
						     .write = echo_write,
						     .release = echo_release};
	struct echo x = {.notes = notes,
			 .started = started,
			 .lock = PTHREAD_MUTEX_INITIALIZER,
			 .asked = PTHREAD_COND_INITIALIZER};
	char *argv[] = {"echo", "-o", "default_permissions", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	pthread_t engine;
	struct fuse_session *fuse = fuse_session_new(&args, &OPS, sizeof OPS, &x);
	fuse_opt_free_args(&args);
	if (!fuse || fuse_set_signal_handlers(fuse) || fuse_session_mount(fuse, where)) {
		if (fuse)
			fuse_session_destroy(fuse);
		return err_set(e, EPERM, "cannot mount on %s", where);
	}
	int code = pthread_create(&engine, NULL, generate, &x);
	if (!code) {
		(void)fuse_session_loop(fuse);
		pthread_mutex_lock(&x.lock);
		x.quit = true;
		pthread_cond_signal(&x.asked);
		pthread_mutex_unlock(&x.lock);
		pthread_join(engine, NULL);
	}
	fuse_session_unmount(fuse);
	fuse_session_destroy(fuse);
	return code ? err_sys(e, code, "cannot start a thread") : 0;
}
