#include "fs/program/refine.h"
#include "cache/store_inspect.h"
#include "fs/models/progress.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum {
	TEXT_MOST = 64 << 20,	/* bytes of a file */
	READ_TOKENS = 131072,	/* of it: more made nothing better */
	WRITTEN_TOKENS = 32768, /* of a text that the model writes, a token at a time */
};

/* ---- the text ---- */

static int read_file(int fd, const char *path, char **text, size_t *length, struct err *e)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_sys(e, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL, "--text %s: is no file", path);
	if (st.st_size == 0)
		return err_set(e, EINVAL, "--text %s: the file is empty", path);
	size_t size = st.st_size < TEXT_MOST ? (size_t)st.st_size : TEXT_MOST;
	*text = malloc(size);
	if (!*text)
		return err_set(e, ENOMEM, "--text %s: no memory for it", path);
	for (*length = 0; *length < size;) {
		ssize_t n = read(fd, *text + *length, size - *length);
		if (n < 0)
			return err_sys(e, errno, "%s", path);
		if (n == 0)
			break;
		*length += (size_t)n;
	}
	return 0;
}

static int read_text(const char *path, char **text, size_t *length, struct err *e)
{
	*text = NULL;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return err_sys(e, errno, "--text %s", path);
	int failed = read_file(fd, path, text, length, e);
	close(fd);
	return failed;
}

/* ---- progress ---- */

struct showing {
	const struct model *model;
	_Atomic bool over;
	pthread_t thread;
	bool started;
};

static void *show(void *ctx)
{
	const struct timespec pause = {.tv_nsec = 200000000};
	const struct showing *s = ctx;
	char line[512];
	while (!atomic_load(&s->over)) {
		if (progress_of(s->model, line, sizeof line))
			(void)fprintf(stderr, "\r%.100s\033[K", line);
		nanosleep(&pause, NULL);
	}
	(void)fputs("\r\033[K", stderr);
	return NULL;
}

/* ---- one model ---- */

static int refine_with_progress(struct model *m, const struct model_refining *r, struct err *e)
{
	struct showing s = {.model = m};
	s.started = isatty(STDERR_FILENO) && !pthread_create(&s.thread, NULL, show, &s);
	int failed = model_refine(m, r, e);
	atomic_store(&s.over, true);
	if (s.started)
		pthread_join(s.thread, NULL);
	return failed;
}

/* What was refined is taken from now on; what it was made of can be had again only from the
 * checkpoint, so whoever needs the space decides. */
static void say_refined(const struct model *m, char *sentence, size_t size)
{
	struct store_seen seen;
	char store[512];
	int n = snprintf(sentence, size, "%s is refined; the next mount takes the refined store",
			 model_name(m));
	if (!model_fact(m, FACT_STORE, store, sizeof store) && !store_inspect(store, &seen, NULL) &&
	    store_superseded(store, &seen))
		(void)snprintf(sentence + n, size - (size_t)n,
			       ", and `moefs stores --delete %s` frees what the other takes",
			       store);
}

static int refine_one(struct engine *g, const char *path, const struct model_refining *r,
		      void (*told)(void *ctx, const char *sentence), void *ctx, struct err *e)
{
	struct model *m;
	char sentence[1024];
	int failed = model_open(&m, g, path, e);
	if (failed)
		return failed;
	failed = refine_with_progress(m, r, e);
	say_refined(m, sentence, sizeof sentence);
	model_close(m);
	if (!failed)
		told(ctx, sentence);
	return failed;
}

int refine_models(const struct options *o, void (*told)(void *ctx, const char *sentence), void *ctx,
		  struct err *e)
{
	struct engine *g = NULL;
	char *text = NULL;
	struct model_refining r = {.tokens = WRITTEN_TOKENS};
	int failed = o->text ? read_text(o->text, &text, &r.length, e) : 0;
	if (o->text)
		r.tokens = READ_TOKENS;
	r.text = text;
	if (!failed)
		failed = engine_create(&g, &o->engine, e);
	for (size_t i = 0; i < o->model_count && !failed; i++)
		failed = refine_one(g, o->models[i], &r, told, ctx, e);
	engine_destroy(g);
	free(text);
	return failed;
}
