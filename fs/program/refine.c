#include "fs/program/refine.h"
#include "cache/store_inspect.h"
#include "fs/base/text.h"
#include "fs/models/models.h"
#include "fs/program/own_store.h"

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

/* A text that is cut off ends with a whole character. */
static size_t without_last(const char *text, size_t length)
{
	while (length && ((unsigned char)text[length - 1] & 0xc0) == 0x80)
		length--;
	return length ? length - 1 : 0;
}

static int read_file(int fd, const char *path, char **text, size_t *length, struct err *e)
{
	struct stat st;
	if (fstat(fd, &st))
		return err_sys(e, errno, "%s", path);
	if (!S_ISREG(st.st_mode))
		return err_set(e, EINVAL,
			       "--text %s: is no file; if it is a pipe, keep what comes of it in "
			       "a file first",
			       path);
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
	if (st.st_size > TEXT_MOST)
		*length = without_last(*text, *length);
	return 0;
}

static int read_text(const char *path, char **text, size_t *length, struct err *e)
{
	*text = NULL;
	/* A pipe is refused, not waited for. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return err_sys(e, errno, "--text %s", path);
	int failed = read_file(fd, path, text, length, e);
	close(fd);
	return failed;
}

static int check_text(const char *path, const struct model_refining *r, struct err *e)
{
	struct err why;
	int failed = model_refining_check(r, &why);
	return failed ? err_set(e, -failed, "--text %s: %s", path, why.text) : 0;
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
		if (models_progress_of(s->model, line, sizeof line))
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
static void say_refined(const struct model *m, struct text *sentence)
{
	struct store_seen seen;
	char store[4096];
	text_format(sentence, "%s is refined; the next mount takes the refined store",
		    model_name(m));
	if (!model_fact(m, FACT_STORE, store, sizeof store) && !store_inspect(store, &seen, NULL) &&
	    store_superseded(store, &seen)) {
		text_string(sentence, ", and `moefs stores --delete ");
		text_string(sentence, own_store_is(store) ? "" : "--anywhere ");
		text_word(sentence, store);
		text_string(sentence, "` frees what the other takes");
	}
	text_add(sentence, "", 1);
}

static int refine_one(struct engine *g, const char *path, const struct model_refining *r,
		      struct text *sentence, struct err *e)
{
	struct model *m;
	int failed = model_open(&m, g, path, e);
	if (failed)
		return failed;
	failed = refine_with_progress(m, r, e);
	if (!failed)
		say_refined(m, sentence);
	model_close(m);
	return failed;
}

/* One that cannot be refined keeps no other from it. */
static int refine_each(const struct options *o, struct engine *g, const struct model_refining *r,
		       refine_told *told)
{
	int worst = 0;
	for (size_t i = 0; i < o->model_count; i++) {
		struct text sentence = {0};
		struct err e = {0};
		int failed = refine_one(g, o->models[i], r, &sentence, &e);
		if (failed || sentence.data)
			told(failed ? e.text : sentence.data, failed);
		text_free(&sentence);
		worst = failed ? failed : worst;
	}
	return worst;
}

int refine_models(const struct options *o, refine_told *told, struct err *e)
{
	struct engine *g = NULL;
	char *text = NULL;
	struct model_refining r = {.tokens = WRITTEN_TOKENS};
	int failed = o->text ? read_text(o->text, &text, &r.length, e) : 0;
	if (o->text)
		r.tokens = READ_TOKENS;
	r.text = text;
	if (!failed)
		failed = check_text(o->text, &r, e);
	if (!failed)
		failed = engine_create(&g, &o->engine, e);
	if (!failed)
		failed = refine_each(o, g, &r, told);
	engine_destroy(g);
	free(text);
	return failed;
}
