/* Why something was refused or failed: the kind by error.json's code, and the tree's own words. */
#include "fs/gateway/failure.h"
#include "fs/gateway/turn/turn_inside.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

/* Why nothing is said of a failure; NULL: it is. `code`: what reading of it came to. */
static const char *nobody_says(int code)
{
	return code == -ENOENT || code == -ESTALE ? "its session was removed from the tree"
	       : code == -ENOTCONN || code == -ECONNABORTED ? tree_gone_words
							    : NULL;
}

/* Of a failure that nobody explains. `said`: what looking for an explanation came to. */
static enum problem_kind kind_of_errno(int code, int said)
{
	if (code == -ENOSPC || said == -ENOTCONN || said == -ECONNABORTED)
		return PROBLEM_NOT_NOW;
	return code == -EINVAL || code == -ERANGE || code == -EILSEQ || code == -EFBIG
		       ? PROBLEM_INVALID
		       : PROBLEM_FAILED;
}

static int too_long(struct problem *p, const char *field, uint64_t has, uint64_t most)
{
	problem_set(p, PROBLEM_TOO_LONG, field,
		    "This model's maximum context length is %" PRIu64
		    " tokens. However, your %s resulted in %" PRIu64
		    " tokens, which leaves no room for an answer: shorten %s by at least "
		    "%" PRIu64 ".",
		    most, field, has, strcmp(field, "messages") ? "it" : "them", has + 1 - most);
	p->tokens = has;
	p->maximum = most;
	return -1;
}

/* What was refused has the session's path before it, which tells a client nothing. */
static const char *without_path(const struct turn *t, const char *why)
{
	const char *path = strstr(why, t->session.name);
	size_t n = strlen(t->session.name);
	return path && !strncmp(path + n, ": ", 2) ? path + n + 2 : why;
}

/* field: of the request, that was refused; NULL: the turn failed, and what it read is to blame
 * where its code says so. */
int turn_refused(const struct turn *t, int code, const char *field, struct problem *p)
{
	struct failure f;
	char state[32];
	int said = failure_read(&f, field ? "refused" : NULL, turn_tree(t), "%s/sessions/%s",
				t->session.model, t->session.name);
	if (said == -ENOENT && tree_is_gone(turn_tree(t), t->gateway->device))
		said = -ENOTCONN;
	enum problem_kind kind = failure_kind(&f);
	bool template = !strcmp(f.code, "template_refused");
	if (kind == PROBLEM_NONE)
		kind = kind_of_errno(code, said);
	if (kind == PROBLEM_TOO_LONG && f.maximum && f.tokens >= f.maximum)
		return too_long(p, t->asked, f.tokens, f.maximum);
	tree_line(turn_tree(t), state, sizeof state, "%s/info/state", t->session.model);
	if (!field && !strcmp(state, "failed"))
		kind = PROBLEM_NOT_NOW; /* it may be repaired and loaded again */
	if (!field && (template || kind == PROBLEM_TOO_LONG))
		field = t->asked;
	/* What the tree calls params/NAME the client knows by its own field. */
	if (*f.reason && !field)
		field = t->formed;
	if (*f.reason && field)
		return problem_set(p, kind, field, "%s: %s", field, f.reason);
	const char *why = *f.message	      ? without_path(t, f.message)
			  : nobody_says(said) ? nobody_says(said)
					      : strerror(-code);
	return problem_set(p, kind, field, "%s", why);
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
	if (!code && tree_is_gone(tree, r->gateway->device))
		problem_set(p, PROBLEM_NOT_NOW, NULL, "%s", tree_gone_words);
	else if (code)
		problem_set(p, PROBLEM_NOT_NOW, NULL, "the tree cannot be read: %s",
			    strerror(-code));
	else
		problem_set(p, PROBLEM_MODEL, "model",
			    "The model '%.100s' does not exist. There are: %.*s", model,
			    (int)n.text.length, n.text.length ? n.text.data : "");
	text_free(&n.text);
	return -1;
}
