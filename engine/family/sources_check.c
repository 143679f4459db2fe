/* A checkpoint against a plan: that all is there that a model needs, in its shape, and nothing else
 * (sources.h). */
#include "engine/family/gguf_family.h"
#include "engine/family/sources.h"

#include <errno.h>
#include <string.h>

static int check_shape(const struct sources *s, const struct source *from, struct err *e)
{
	const struct package_tensor *t = from->tensor;
	const struct view *v = &from->view;
	if (!package_fits(t, v->shape, v->dims)) {
		char is[192], wanted[96];
		package_print_shape(is, sizeof is, t->shape, t->dims);
		package_print_shape(wanted, sizeof wanted, v->shape, v->dims);
		return err_set(e, EINVAL, "tensor %s has shape %s, but %s it %s", t->name, is,
			       s->config->gguf ? "the keys of the file make" : "config.json makes",
			       wanted);
	}
	if (!t->parts)
		return err_set(
			e, ENOTSUP,
			"tensor %s is of type %s; checkpoints in BF16, F16 or F32 can be mounted",
			t->name, t->type);
	return 0;
}

static int check_tensor(void *ctx, struct tensor_id id, struct err *e)
{
	struct sources *s = ctx;
	struct source from;
	int failed = sources_find(s, id, &from, e);
	if (failed)
		return failed;
	s->used[from.tensor - package_tensor(s->package, 0)] = true;
	return check_shape(s, &from, e);
}

static bool is_skipped(const struct sources *s, const char *name)
{
	for (const char *const *k = s->config->family->skipped; k && *k; k++)
		if (!strncmp(name, *k, strlen(*k)))
			return true;
	if (s->config->rope[0].scaling == ROPE_FACTORS && !strcmp(name, GGUF_ROPE_FACTORS))
		return true; /* it is in the config */
	return family_leaves_out(s->config, name);
}

static int check_unused(const struct sources *s, struct err *e)
{
	for (size_t i = 0; i < package_count(s->package); i++) {
		const char *name = package_tensor(s->package, i)->name;
		if (!s->used[i] && !is_skipped(s, name))
			return err_set(
				e, EINVAL,
				"the checkpoint has a tensor %s that a %s model does not know; "
				"leaving it out would be a different model",
				name, s->config->model_type);
	}
	return 0;
}

typedef int visit_fn(void *ctx, struct tensor_id id, struct err *e);

/* Until one fails. */
static int visit_all(const struct plan *p, visit_fn *visit, void *ctx, struct err *e)
{
	for (uint32_t i = 0; i < p->dense_count; i++) {
		int failed = visit(ctx, p->dense[i].id, e);
		if (failed)
			return failed;
	}
	for (uint32_t layer = 0; layer < p->routed_layers; layer++)
		for (uint32_t x = 0; x < p->experts; x++)
			for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
				struct tensor_id id = {plan_part_role(part), p->layer_of[layer], x};
				int failed = visit(ctx, id, e);
				if (failed)
					return failed;
			}
	return 0;
}

int sources_check(struct sources *s, const struct plan *p, struct err *e)
{
	int failed = visit_all(p, check_tensor, s, e);
	return failed ? failed : check_unused(s, e);
}

struct looking {
	const struct sources *sources;
	void (*each)(void *ctx, const char *names);
	void *ctx;
	char last[SOURCES_NAMES];
};

static int look_for(void *ctx, struct tensor_id id, struct err *e)
{
	struct looking *l = ctx;
	struct source from;
	char names[SOURCES_NAMES];
	(void)e;
	if (sources_find(l->sources, id, &from, NULL) != -ENOENT)
		return 0;
	sources_names(l->sources, id, names);
	if (strcmp(names, l->last) != 0)
		l->each(l->ctx, names);
	memcpy(l->last, names, sizeof names);
	return 0;
}

void sources_missing(const struct sources *s, const struct plan *p,
		     void (*each)(void *ctx, const char *names), void *ctx)
{
	struct looking l = {.sources = s, .each = each, .ctx = ctx};
	(void)visit_all(p, look_for, &l, NULL);
}

enum format sources_kept_format(const struct sources *s)
{
	enum format kept = FORMAT_COUNT;
	for (size_t i = 0; i < package_count(s->package); i++) {
		const struct package_tensor *t = package_tensor(s->package, i);
		if (t->dims < 2 || !s->used[i])
			continue;
		enum format format = package_read_format(t);
		if (kept != FORMAT_COUNT && format != kept)
			return FORMAT_F32;
		kept = format;
	}
	return kept == FORMAT_COUNT ? FORMAT_F32 : kept;
}
