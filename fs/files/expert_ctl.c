/* experts/ctl: verbs to the experts that patterns name, one verb a write.
 *
 * A pattern is matched piece by piece, the layer's and the expert's, so that it costs as many
 * comparisons as there are layers and experts, not pairs of these. A name without wildcards, of
 * which a shell may write thousands, costs none. */
#include "fs/files/files.h"
#include "fs/files/late.h"
#include "fs/files/live.h"
#include "fs/files/verbs.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Patterns with wildcards in a write, bytes of one, and bytes of all that is written. */
enum { GLOBS_MOST = 1024, PATTERN_SIZE = 64, COMMAND_MOST = 1 << 20 };

#define EXPERTS "LL/EEE…"

static const struct expert_verb {
	struct verb verb;
	int (*run)(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
} rows[] = {
	{{"load", EXPERTS, "read them behind; they then stay as long as others do"},
	 model_experts_load},
	{{"evict", EXPERTS,
	  "give up their memory, but for those that a token needs now; none that is pinned"},
	 model_experts_evict},
	{{"pin", EXPERTS,
	  "keep them in memory, all of them or none; they are read behind (chmod +t)"},
	 model_experts_pin},
	{{"unpin", EXPERTS, "let them go as others do (chmod -t)"}, model_experts_unpin},
};
const struct verbs expert_verbs = VERBS("experts/ctl", rows);

/* The experts that are named so far. */
struct chosen {
	const struct model *model;
	uint32_t layers, most; /* experts of a layer, where they are most */
	bool *marks;	       /* [layers * most] */
	size_t count, globs;
};

static void mark(struct chosen *c, uint32_t layer, uint32_t expert)
{
	bool *marked = &c->marks[(size_t)layer * c->most + expert];
	c->count += !*marked;
	*marked = true;
}

static bool matches(const char *pattern, int digits, uint32_t number)
{
	char name[16];
	(void)snprintf(name, sizeof name, "%0*" PRIu32, digits, number);
	return fnmatch(pattern, name, 0) == 0;
}

/* Marks what matches: how many did. NULL for all experts of a layer. */
static size_t match(struct chosen *c, const char *layer, const char *expert)
{
	size_t found = 0;
	for (uint32_t l = 0; l < c->layers; l++) {
		uint32_t experts = model_experts(c->model, l);
		if (!experts || !matches(layer, LAYER_DIGITS, l))
			continue;
		for (uint32_t i = 0; i < experts; i++)
			if (!expert || matches(expert, EXPERT_DIGITS, i)) {
				mark(c, l, i);
				found++;
			}
	}
	return found;
}

static bool has_wildcard(const char *pattern)
{
	return strpbrk(pattern, "*?[\\") != NULL;
}

/* True if it names an expert, or a layer that has some. */
static bool find(struct chosen *c, const char *layer, const char *expert)
{
	uint32_t l, i;
	if (!expert_number(layer, LAYER_DIGITS, c->layers, &l))
		return false;
	if (!expert)
		return match(c, layer, NULL) > 0;
	if (!expert_number(expert, EXPERT_DIGITS, model_experts(c->model, l), &i))
		return false;
	mark(c, l, i);
	return true;
}

static int choose(struct chosen *c, const char *word, struct err *e)
{
	char copy[PATTERN_SIZE], *expert = copy;
	if (strncmp(word, "experts/", 8) == 0) /* as a shell completes it from the model's folder */
		word += 8;
	if ((size_t)snprintf(copy, sizeof copy, "%s", word) >= sizeof copy)
		return err_set(e, EINVAL, "experts/ctl: '%.32s…' is too long for a pattern", word);
	const char *layer = strsep(&expert, "/");
	bool glob = has_wildcard(word);
	if (glob && ++c->globs > GLOBS_MOST)
		return err_set(e, EINVAL,
			       "experts/ctl: more than %d patterns in one write; write several",
			       GLOBS_MOST);
	if (glob ? match(c, layer, expert) > 0 : find(c, layer, expert))
		return 0;
	return err_set(e, EINVAL,
		       "experts/ctl: '%s' is no expert; name some as 00/017, 0[0-3]/* or 05, in "
		       "quotes, one verb a write",
		       word);
}

static int choose_all(struct chosen *c, char *words, struct err *e)
{
	char *word;
	int code = 0;
	while (!code && (word = strsep(&words, " \t\n")))
		code = *word ? choose(c, word, e) : 0;
	if (!code && !c->count)
		code = err_set(e, EINVAL,
			       "experts/ctl: say which experts, as in: pin 0[0-3]/* 05/017");
	return code;
}

static int run(const struct expert_verb *v, struct model *m, const struct chosen *c, struct err *e)
{
	struct err why;
	struct pager_id *ids = calloc(c->count, sizeof *ids);
	size_t n = 0;
	if (!ids)
		return err_set(e, ENOMEM, "no memory for a list of %zu experts", c->count);
	for (uint32_t i = 0; i < c->layers * c->most; i++)
		if (c->marks[i])
			ids[n++] = (struct pager_id){i / c->most, i % c->most};
	int code = v->run(m, ids, n, &why);
	free(ids);
	return code ? err_set(e, -code, "experts/ctl: %s: %s", v->verb.name, why.text) : 0;
}

/* `words` is its own to change. */
static int command(struct model *m, char *words, struct err *e)
{
	char *name;
	do
		name = strsep(&words, " \t\n");
	while (name && !*name);
	const struct expert_verb *verb =
		verbs_find(&expert_verbs, name ? name : "", name ? strlen(name) : 0, e);
	if (!verb)
		return -e->code;
	struct chosen c = {.model = m, .layers = model_layers(m)};
	for (uint32_t l = 0; l < c.layers; l++)
		if (model_experts(m, l) > c.most)
			c.most = model_experts(m, l);
	c.marks = calloc((size_t)c.layers * c.most + 1, sizeof *c.marks);
	if (!c.marks)
		return err_set(e, ENOMEM, "experts/ctl: no memory for a list of experts");
	int code = choose_all(&c, words, e);
	if (!code)
		code = run(verb, m, &c, e);
	free(c.marks);
	return code;
}

/* ---- the file ---- */

static int take(struct late_write *w, struct err *e)
{
	if (strlen(w->bytes) < w->size)
		return err_set(e, EINVAL, "experts/ctl: there is a zero byte in it");
	return command(w->handle->node.model->model, w->bytes, e);
}

/* By a worker: giving back the memory of many experts takes its time. */
static int expert_ctl_write(struct handle *h, fuse_req_t req, const char *data, size_t size,
			    uint64_t offset, struct err *e)
{
	(void)offset; /* a shell's >> is as good as its > */
	if (size > COMMAND_MOST)
		return err_set(e, EFBIG,
			       "experts/ctl: %zu bytes are more than a command's %d; write several",
			       size, COMMAND_MOST);
	const struct late_write w = {.req = req, .handle = h, .size = size, .take = take};
	return late_write(&w, data, false, e);
}

const struct file_ops expert_ctl_ops = {
	.read = live_read,
	.write_later = expert_ctl_write,
};
