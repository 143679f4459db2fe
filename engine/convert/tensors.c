#include "engine/convert/tensors_inside.h"

#include "engine/convert/encode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- what roles make of tensors ---- */

/* Whether the numbers are what the file says, so that nobody need ask a store. */
static bool is_as_published(const struct shape *s, const struct source *from)
{
	if (from->view.change != VIEW_AS_IS)
		return false;
	return s->format == FORMAT_F32 || s->format == from->format || encode_copies(s, from);
}

static struct listed_tensor *listed(const struct tensors *t, const struct package_tensor *p)
{
	size_t i;
	return tensors_find(t, p->name, &i) ? &t->list[i] : NULL;
}

/* A file may say less than a role of its shape. */
static void take_shape(struct listed_tensor *l, const struct view *v)
{
	if (!l->published->padded)
		return;
	l->facts.dims = v->dims;
	memcpy(l->facts.shape, v->shape, v->dims * sizeof *v->shape);
}

static int add_use(struct tensors *t, struct tensor_id id, const struct shape *s, struct err *e)
{
	struct source from;
	int failed = sources_find(&t->sources, id, &from, e);
	if (failed)
		return failed;
	struct listed_tensor *l = listed(t, from.tensor);
	if (!l) /* sources_check has seen that it can be read */
		return err_set(e, EINVAL, "tensor %s cannot be listed", from.tensor->name);
	if (id.role == TENSOR_HEAD && l->head_is_tied)
		return 0;
	l->head_is_tied = id.role == TENSOR_EMBEDDING;
	take_shape(l, &from.view);
	if (is_as_published(s, &from))
		return 0;
	struct tensor_use *u = &t->uses[t->use_count++];
	*u = (struct tensor_use){.tensor = (size_t)(l - t->list), .id = id};
	view_rows_between(&from.view, from.cols, &u->first, &u->end);
	l->numbers_used += (uint64_t)from.rows * from.cols;
	return 0;
}

static int by_tensor(const void *a, const void *b)
{
	const struct tensor_use *x = a, *y = b;
	if (x->tensor != y->tensor)
		return x->tensor < y->tensor ? -1 : 1;
	return x->first < y->first ? -1 : x->first > y->first;
}

static int add_uses(struct tensors *t, struct err *e)
{
	const struct plan *p = &t->plan;
	size_t most = p->dense_count + (size_t)p->routed_layers * p->experts * EXPERT_PARTS;
	int failed = 0;
	t->uses = calloc(most + 1, sizeof *t->uses);
	if (!t->uses)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	for (uint32_t i = 0; i < p->dense_count && !failed; i++)
		failed = add_use(t, p->dense[i].id, &p->dense[i].shape, e);
	for (uint32_t i = 0; i < p->routed_layers * p->experts * EXPERT_PARTS && !failed; i++) {
		uint32_t record = i / EXPERT_PARTS, routed = record / p->experts;
		const struct tensor_id id = {plan_part_role(i % EXPERT_PARTS), p->layer_of[routed],
					     record % p->experts};
		failed = add_use(t, id, &p->record[routed].part[i % EXPERT_PARTS], e);
	}
	if (t->use_count)
		qsort(t->uses, t->use_count, sizeof *t->uses, by_tensor);
	for (size_t i = 0; i < t->use_count; i++) {
		struct listed_tensor *l = &t->list[t->uses[i].tensor];
		l->use = l->uses ? l->use : i;
		l->uses++;
	}
	return failed;
}

/* ---- the list ---- */

static int measure(struct listed_tensor *l, struct err *e)
{
	struct tensor_facts *f = &l->facts;
	uint64_t bytes = sizeof(float);
	bool fits = true;
	for (uint32_t i = 0; i < f->dims; i++)
		fits = fits && !__builtin_mul_overflow(bytes, f->shape[i], &bytes);
	if (!fits || bytes > INT64_MAX / 2)
		return err_set(e, EINVAL, "tensor %s is larger than any file", f->name);
	f->numbers = bytes / sizeof(float);
	l->cols = f->dims ? f->shape[f->dims - 1] : 1;
	l->rows = l->cols ? f->numbers / l->cols : 0;
	l->covered = l->numbers_used == f->numbers;
	return 0;
}

static int make_list(struct tensors *t, struct err *e)
{
	const struct package *p = t->sources.package;
	t->list = calloc(package_count(p) + 1, sizeof *t->list);
	if (!t->list)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	for (size_t i = 0; i < package_count(p); i++) {
		const struct package_tensor *from = package_tensor(p, i);
		if (!from->parts)
			continue;
		struct listed_tensor *l = &t->list[t->count++];
		l->published = from;
		l->facts.name = from->name;
		l->facts.dims = from->dims;
		memcpy(l->facts.shape, from->shape, sizeof from->shape);
	}
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct listed_tensor *x = a, *y = b;
	return strcmp(x->facts.name, y->facts.name);
}

bool tensors_find(const struct tensors *t, const char *name, size_t *i)
{
	const struct listed_tensor key = {.facts.name = name};
	const struct listed_tensor *l =
		t->count ? bsearch(&key, t->list, t->count, sizeof key, by_name) : NULL;
	*i = l ? (size_t)(l - t->list) : 0;
	return l;
}

size_t tensors_count(const struct tensors *t)
{
	return t->count;
}

const struct tensor_facts *tensors_facts(const struct tensors *t, size_t i)
{
	return &t->list[i].facts;
}

/* ---- opening ---- */

/* Facts of the checkpoint are found as a conversion finds them. */
static int make_plan(struct tensors *t, const struct tensors_of *of, struct err *e)
{
	struct recipe r = of->recipe;
	r.draft = t->sources.draft;
	r.codec = CODEC_NONE;
	int failed = r.as_published ? published_find(&t->formats, &t->sources, e) : 0;
	r.published = &t->formats;
	if (!failed)
		failed = plan_make(&t->plan, of->config, &r, e);
	if (!failed)
		failed = sources_check(&t->sources, &t->plan, e);
	if (failed)
		return failed;
	plan_free(&t->plan);
	recipe_keep(&r, sources_kept_format(&t->sources), r.norms);
	return plan_make(&t->plan, of->config, &r, e);
}

static int take_stamps(struct tensors *t, struct err *e)
{
	const struct files *f = package_files(t->sources.package);
	struct stat st;
	int failed = 0;
	t->stamps = calloc((size_t)files_count(f) + 1, sizeof *t->stamps);
	if (!t->stamps)
		return err_set(e, ENOMEM, "out of memory for the list of files");
	for (uint32_t i = 0; i < files_count(f) && !failed; i++) {
		failed = files_stat(f, i, &st, e);
		if (!failed)
			t->stamps[i] = source_stamp_of(&st);
	}
	return failed;
}

static int fill(struct tensors *t, const struct tensors_of *of, struct err *e)
{
	int failed = sources_open(&t->sources, of->directory, of->config, e);
	if (!failed)
		failed = take_stamps(t, e);
	if (!failed)
		failed = make_plan(t, of, e);
	if (!failed)
		failed = make_list(t, e);
	if (!failed)
		failed = add_uses(t, e);
	for (size_t i = 0; i < t->count && !failed; i++)
		failed = measure(&t->list[i], e);
	return failed;
}

int tensors_open(struct tensors **out, const struct tensors_of *of, struct err *e)
{
	struct tensors *t = calloc(1, sizeof *t);
	*out = NULL;
	if (!t)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	t->kernels = of->kernels;
	int failed = fill(t, of, e);
	if (failed) {
		tensors_close(t);
		return failed;
	}
	*out = t;
	return 0;
}

void tensors_close(struct tensors *t)
{
	if (!t)
		return;
	free(t->stamps);
	free(t->uses);
	free(t->list);
	plan_free(&t->plan);
	published_free(&t->formats);
	sources_close(&t->sources);
	free(t);
}
