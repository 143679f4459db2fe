/* Why something was refused or failed, in the tree's own words. */
#include "fs/gateway/turn_inside.h"

#include <errno.h>
#include <time.h>
#include <string.h>

static void first_line(struct text *words)
{
	text_add(words, "", 1);
	if (words->data)
		words->data[strcspn(words->data, "\n")] = 0;
}

/* Why nothing is said of a failure; NULL: it is. `code`: what reading of it came to. */
static const char *nobody_says(int code)
{
	return code == -ENOENT || code == -ESTALE ? "its session was removed from the tree"
	       : code == -ENOTCONN || code == -ECONNABORTED
		       ? "the tree is gone: its moefs has ended, or was unmounted"
		       : NULL;
}

/* What the session says of its last failure; the words of the errno if it says nothing. */
int turn_refused(const struct turn *t, int code, const char *field, struct problem *p)
{
	struct text words = {0};
	/* What another file system makes of a refusal is not to be told from a failure. */
	bool far = !t->gateway->polls && field && code == -EIO;
	bool late = (code == -EIO && !far) || code == -ENOTCONN || code == -ESTALE;
	int said = tree_read(turn_tree(t), &words, "%s/sessions/%s/error", t->session.model,
			     t->session.name);
	first_line(&words);
	const char *why = words.data && *words.data ? words.data
			  : nobody_says(said)	    ? nobody_says(said)
						    : strerror(-code);
	late |= far && !(words.data && *words.data);
	/* What was refused has the session's path before it, which tells a client nothing. */
	const char *path = strstr(why, t->session.name);
	if (path && !strncmp(path + strlen(t->session.name), ": ", 2))
		why = path + strlen(t->session.name) + 2;
	bool later = code == -ENOSPC || said == -ENOTCONN || said == -ECONNABORTED;
	enum problem_kind kind = code == -EFBIG				      ? PROBLEM_TOO_LONG
				 : later				      ? PROBLEM_NOT_NOW
				 : late || code == -ENOENT || code == -ENOMEM ? PROBLEM_FAILED
									      : PROBLEM_INVALID;
	problem_set(p, kind, field, "%s", why);
	text_free(&words);
	return -1;
}

struct names {
	struct text text;
};

static int add_name(void *ctx, const char *name)
{
	struct names *n = ctx;
	text_format(&n->text, "%s%s", n->text.length ? ", " : "", name);
	return 0;
}

/* A name and this second as one number. Names of a tree are the kernel's for as long, so that
 * looking again would tell no more; a model that has gone meanwhile is seen when its session is
 * made. */
static uint_fast64_t known(const char *model)
{
	struct timespec now;
	uint_fast64_t h = 14695981039346656037u;
	for (; *model; model++)
		h = (h ^ (unsigned char)*model) * 1099511628211u;
	clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
	return (h ^ (uint_fast64_t)now.tv_sec) | 1;
}

int turn_model(const struct request *r, const char *model, struct problem *p)
{
	const char *tree = r->gateway->options->tree;
	struct names n = {0};
	atomic_uint_fast64_t *last = &(r->gateway)->model_known;
	if (atomic_load(last) == known(model))
		return 0;
	if (tree_model(tree, model)) {
		atomic_store(last, known(model));
		return 0;
	}
	int code = tree_models(tree, add_name, &n);
	if (code)
		problem_set(p, PROBLEM_NOT_NOW, NULL, "the tree cannot be read: %s",
			    strerror(-code));
	else
		problem_set(p, PROBLEM_MODEL, "model",
			    "The model '%.100s' does not exist. There are: %.*s", model,
			    (int)n.text.length, n.text.length ? n.text.data : "");
	text_free(&n.text);
	return -1;
}
