/* experts/ctl: load, evict, pin and unpin experts by patterns, one verb per write.
 *
 * The two parts of a pattern, layer and expert, are matched separately. So a pattern costs one
 * comparison per layer, and for each matching layer one per expert. A name without wildcards costs
 * none; a shell may write thousands of them. */
#include "fs/files/ctl.h"
#include "fs/files/files.h"
#include "fs/files/values.h"

#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	GLOBS_MOST = 1024,	/* patterns with wildcards in a write */
	PATTERN_SIZE = 64,	/* bytes of a pattern, terminator included */
	COMMAND_MOST = 1 << 20, /* bytes of a write */
};

#define EXPERTS "LL/EEE…"

static const struct expert_verb {
	struct verb verb;
	int (*run)(struct model *m, const struct pager_id *ids, size_t n, struct err *e);
} expert_verb_rows[] = {
	{{"load", EXPERTS,
	  "read experts into memory in the background; they may be evicted as usual"},
	 model_experts_load},
	{{"evict", EXPERTS,
	  "drop experts from memory, except those that a token needs now; EBUSY if one is pinned"},
	 model_experts_evict},
	{{"pin", EXPERTS,
	  "keep experts in memory, all of those named or none; missing ones are read in the "
	  "background (chmod +t)"},
	 model_experts_pin},
	{{"pin gpu", EXPERTS,
	  "keep experts on the GPU, all of those named or none; missing ones are copied while the "
	  "model computes"},
	 model_experts_pin_gpu},
	{{"unpin", EXPERTS, "no longer keep experts in memory (chmod -t), nor on the GPU"},
	 model_experts_unpin},
};
const struct verbs expert_verbs = VERBS("experts/ctl", expert_verb_rows);

/* The experts that a write names. */
struct chosen {
	const struct model *model;
	uint32_t layers, most; /* most: the largest number of experts in a layer */
	bool *marks;	       /* [layers * most] */
	size_t count, globs;   /* marks that are set; patterns with wildcards so far */
};

static void expert_mark(struct chosen *c, uint32_t layer, uint32_t expert)
{
	bool *marked = &c->marks[(size_t)layer * c->most + expert];
	c->count += !*marked;
	*marked = true;
}

static bool expert_matches(const char *pattern, int digits, uint32_t number)
{
	char name[16];
	(void)snprintf(name, sizeof name, "%0*" PRIu32, digits, number);
	return fnmatch(pattern, name, 0) == 0;
}

/* Marks the experts that match, and returns their number. expert: NULL for all of a layer. */
static size_t expert_mark_matching(struct chosen *c, const char *layer, const char *expert)
{
	size_t found = 0;
	for (uint32_t l = 0; l < c->layers; l++) {
		uint32_t experts = model_experts(c->model, l);
		if (!experts || !expert_matches(layer, LAYER_DIGITS, l))
			continue;
		for (uint32_t i = 0; i < experts; i++)
			if (!expert || expert_matches(expert, EXPERT_DIGITS, i)) {
				expert_mark(c, l, i);
				found++;
			}
	}
	return found;
}

/* Marks the expert, or the layer's experts if `expert` is NULL. False: there are none of this
 * name. */
static bool expert_mark_named(struct chosen *c, const char *layer, const char *expert)
{
	uint32_t l, i;
	if (!expert_number(layer, LAYER_DIGITS, c->layers, &l))
		return false;
	if (!expert)
		return expert_mark_matching(c, layer, NULL) > 0;
	if (!expert_number(expert, EXPERT_DIGITS, model_experts(c->model, l), &i))
		return false;
	expert_mark(c, l, i);
	return true;
}

static int expert_choose(struct chosen *c, const char *word, struct err *e)
{
	char copy[PATTERN_SIZE], *expert = copy;
	if (strncmp(word, "experts/", 8) == 0) /* as a shell completes it in the model's folder */
		word += 8;
	if ((size_t)snprintf(copy, sizeof copy, "%s", word) >= sizeof copy)
		return err_set(e, EINVAL, "experts/ctl: the pattern \"%.32s…\" is too long", word);
	const char *layer = strsep(&expert, "/");
	bool glob = strpbrk(word, "*?[\\") != NULL;
	if (glob && ++c->globs > GLOBS_MOST)
		return err_set(e, EINVAL,
			       "experts/ctl: one write has at most %d patterns; use several writes",
			       GLOBS_MOST);
	if (glob ? expert_mark_matching(c, layer, expert) > 0 : expert_mark_named(c, layer, expert))
		return 0;
	return err_set(e, EINVAL,
		       "experts/ctl: no expert matches \"%s\"; write one verb and names such as "
		       "00/017, 05 or '0[0-3]/*', in quotes",
		       word);
}

static int expert_run_verb(const struct expert_verb *v, struct model *m, const struct chosen *c,
			   struct err *e)
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

/* The verb at the beginning of *words, which may have a second word: gpu. *words: the rest. */
static const struct expert_verb *expert_take_verb(char **words, struct err *e)
{
	char name[PATTERN_SIZE];
	*words += strspn(*words, " \t\n");
	const char *first = strsep(words, " \t\n");
	char *second = *words ? *words + strspn(*words, " \t\n") : NULL;
	bool gpu = second && strcspn(second, " \t\n") == 3 && !memcmp(second, "gpu", 3);
	(void)snprintf(name, sizeof name, "%s%s", first, gpu ? " gpu" : "");
	if (gpu)
		*words = second + 3;
	return ctl_verb_find(&expert_verbs, name, strlen(name), e);
}

static int expert_take(struct deferred_write *w, struct err *e)
{
	struct model *m = w->handle->node.model->model;
	struct chosen c = {.model = m, .layers = model_layers(m)};
	char *words = w->bytes, *word;
	int code = 0;
	if (strlen(words) < w->size)
		return err_set(e, EINVAL, "experts/ctl: a command cannot contain a zero byte");
	const struct expert_verb *verb = expert_take_verb(&words, e);
	if (!verb)
		return -e->code;
	for (uint32_t l = 0; l < c.layers; l++)
		if (model_experts(m, l) > c.most)
			c.most = model_experts(m, l);
	c.marks = calloc((size_t)c.layers * c.most + 1, sizeof *c.marks);
	if (!c.marks)
		return err_set(e, ENOMEM, "experts/ctl: no memory for a list of experts");
	while (!code && (word = strsep(&words, " \t\n")))
		code = *word ? expert_choose(&c, word, e) : 0;
	if (!code && !c.count)
		code = err_set(e, EINVAL,
			       "experts/ctl: name the experts, as in: pin 0[0-3]/* 05/017");
	if (!code)
		code = expert_run_verb(verb, m, &c, e);
	free(c.marks);
	return code;
}

/* In a worker, since freeing the memory of many experts takes long. */
static int expert_ctl_write(struct handle *h, fuse_req_t req, const char *data, size_t size,
			    uint64_t offset, struct err *e)
{
	(void)offset; /* ignored: >> means the same as > */
	if (size > COMMAND_MOST)
		return err_set(
			e, EFBIG,
			"experts/ctl: a write has at most %d bytes, not %zu; use several writes",
			COMMAND_MOST, size);
	const struct deferred_write w = {
		.req = req, .handle = h, .size = size, .take = expert_take};
	return value_write_deferred(&w, data, false, e);
}

const struct file_ops expert_ctl_ops = {
	.read = value_read,
	.write_later = expert_ctl_write,
};
