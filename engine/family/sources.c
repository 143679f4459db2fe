#include "engine/family/sources.h"
#include "engine/family/gguf_family.h"
#include "engine/family/left_out.h"
#include "engine/source/source_file.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256 };
enum { SLAB_BYTES = 256 << 10 }; /* bytes of crossed rows at a time, but at least one row */

/* ---- finding ---- */

static uint32_t source_width(enum format f)
{
	return f == FORMAT_F32 ? 4 : 2;
}

static void source_describe(const struct sources *s, struct tensor_id id, view_fn *view,
			    const struct package_tensor *t, struct source *out)
{
	const struct config *c = s->config;
	struct view *v = &out->view;
	*out = (struct source){.tensor = t, .format = package_read_format(t)};
	config_tensor_shape(c, id.role, id.layer, &out->rows, &out->cols);
	if (id.role == TENSOR_DELTA_CONV && s->from_mlx)
		view = view_convolution_upright;
	if (view)
		view(v, c, id.expert);
	else
		view_whole(v, c, id.role, id.layer);
	if (s->norms_plus_one && tensor_roles[id.role].class == CLASS_NORM)
		v->change = VIEW_PLUS_ONE;
	if (v->change != VIEW_AS_IS)
		out->format = FORMAT_F32; /* can represent the numbers without the change */
	/* GGUF tensors may have meaningless dimensions of 1 before the others. */
	while (c->gguf && v->dims > 1 && v->shape[0] == 1) {
		v->dims--;
		memmove(v->shape, v->shape + 1, v->dims * sizeof *v->shape);
	}
	if (!out->cols) {
		out->cols = out->rows;
		out->rows = 1;
	}
	out->row_bytes = (size_t)out->cols * source_width(out->format);
}

static uint32_t source_alternatives(const struct sources *s, enum tensor_role role,
				    struct tensor_name names[FAMILY_ALTERNATIVES])
{
	const struct config *c = s->config;
	return c->gguf ? gguf_alternatives(c->family, role, names)
		       : family_alternatives(c->family, role, names);
}

static bool source_print_name(const struct sources *s, const char *pattern, struct tensor_id id,
			      char name[NAME_BYTES])
{
	if (s->config->gguf)
		return family_gguf_name(pattern, id, name, NAME_BYTES);
	size_t before = strncmp(pattern, "model.", 6) != 0 ? strlen(s->before) : 0;
	memcpy(name, s->before, before);
	return family_tensor_name(s->config, pattern, s->stem, id, name + before,
				  NAME_BYTES - before);
}

void sources_names(const struct sources *s, struct tensor_id id, char list[SOURCES_NAMES])
{
	struct tensor_name names[FAMILY_ALTERNATIVES];
	char name[NAME_BYTES];
	uint32_t count = source_alternatives(s, id.role, names);
	*list = 0;
	for (uint32_t i = 0; i < count; i++) {
		size_t used = strlen(list);
		if (source_print_name(s, names[i].name, id, name) && !strstr(list, name))
			(void)snprintf(list + used, SOURCES_NAMES - used, "%s%s",
				       used ? " or " : "", name);
	}
}

int sources_find(const struct sources *s, struct tensor_id id, struct source *out, struct err *e)
{
	struct tensor_name names[FAMILY_ALTERNATIVES];
	char name[NAME_BYTES], tried[SOURCES_NAMES];
	uint32_t count = source_alternatives(s, id.role, names);
	for (uint32_t i = 0; i < count; i++) {
		if (!source_print_name(s, names[i].name, id, name))
			return err_set(e, ENAMETOOLONG, "a tensor's name is too long");
		const struct package_tensor *t = package_find(s->package, name);
		if (t) {
			source_describe(s, id, names[i].view, t, out);
			return 0;
		}
	}
	if (id.role == TENSOR_HEAD && s->config->tied_head)
		return sources_find(s, (struct tensor_id){.role = TENSOR_EMBEDDING}, out, e);
	sources_names(s, id, tried);
	return err_set(e, ENOENT,
		       "the checkpoint has no tensor %s, which a %s model needs; is the download "
		       "complete?",
		       tried, s->config->model_type);
}

/* ---- reading rows with VIEW_PICKED or VIEW_ACROSS ---- */

/* A slab has some rows of the tensor, from which elements are copied to out[rows][cols]. */
struct source_slab {
	const struct package *package;
	const struct source *from;
	size_t element;	 /* bytes */
	uint32_t width;	 /* elements per row of the tensor */
	uint32_t height; /* most rows in the slab */
	uint8_t *slab;
	uint8_t *out;
};

static int source_read_slab(struct source_slab *g, uint64_t row, uint32_t rows, struct err *e)
{
	return package_read(g->package, g->from->tensor, row, rows, g->width, g->slab, e);
}

static void source_copy_element(const struct source_slab *g, size_t to, size_t from)
{
	memcpy(g->out + to * g->element, g->slab + from * g->element, g->element);
}

/* Reads rows whose numbers are some numbers of a row of the tensor (VIEW_PICKED). */
static int source_pick(struct source_slab *g, uint32_t row, uint32_t rows, struct err *e)
{
	const struct view *v = &g->from->view;
	size_t cols = g->from->cols;
	for (size_t i = 0; i < rows; i++) {
		int failed = source_read_slab(g, view_place(v, row + i, 0).row, 1, e);
		if (failed)
			return failed;
		for (size_t k = 0; k < cols; k++)
			source_copy_element(g, i * cols + k, view_place(v, row + i, k).column);
	}
	return 0;
}

/* Reads rows of one block that are columns of the tensor (VIEW_ACROSS).
 */
static int source_cross(struct source_slab *g, uint32_t row, uint32_t rows, struct err *e)
{
	const struct view *v = &g->from->view;
	const struct view_place first = view_place(v, row, 0);
	size_t cols = g->from->cols;
	for (size_t k = 0; k < cols; k += g->height) {
		size_t n = cols - k < g->height ? cols - k : g->height;
		int failed = source_read_slab(g, first.row + k, (uint32_t)n, e);
		if (failed)
			return failed;
		for (size_t i = 0; i < rows; i++)
			for (size_t j = 0; j < n; j++)
				source_copy_element(g, i * cols + k + j,
						    j * g->width + first.column + i * v->step);
	}
	return 0;
}

static int source_gather(const struct sources *s, const struct source *from, uint32_t row,
			 uint32_t rows, void *out, struct err *e)
{
	const struct view *v = &from->view;
	struct source_slab g = {s->package, from, from->row_bytes / from->cols, 0, 1, NULL, out};
	g.width = (uint32_t)v->shape[v->dims - 1];
	size_t row_bytes = g.width * g.element;
	if (row_bytes < SLAB_BYTES)
		g.height = (uint32_t)(SLAB_BYTES / row_bytes);
	g.slab = malloc(g.height * row_bytes);
	int failed = g.slab ? 0
			    : err_set(e, ENOMEM, "out of memory for %zu bytes of a tensor's rows",
				      g.height * row_bytes);
	if (!failed && v->way != VIEW_ACROSS)
		failed = source_pick(&g, row, rows, e);
	for (uint32_t n; v->way == VIEW_ACROSS && rows > 0 && !failed; row += n, rows -= n) {
		uint64_t left = v->part[0].block - row % v->part[0].block;
		n = left < rows ? (uint32_t)left : rows;
		failed = source_cross(&g, row, n, e);
		g.out += n * from->row_bytes;
	}
	free(g.slab);
	return failed;
}

/* ---- reading ---- */

/* The place of a row in a head with paired rows (view.paired). */
static uint32_t source_paired_row(uint32_t height, uint32_t row)
{
	uint32_t half = height / 2, at = row % height;
	return row - at + at % half * 2 + at / half;
}

/* Reads rows of such heads, one head at a time. */
static int source_read_paired(const struct sources *s, const struct source *from, uint32_t row,
			      uint32_t rows, uint8_t *to, struct err *e)
{
	uint32_t height = from->view.paired, read = UINT32_MAX;
	uint8_t *head = malloc(height * from->row_bytes);
	int failed = head ? 0 : err_set(e, ENOMEM, "out of memory for the rows of a head");
	for (uint32_t i = row; i < row + rows && !failed; i++, to += from->row_bytes) {
		uint32_t first = i - i % height;
		if (i / height != read)
			failed = package_read(s->package, from->tensor, first, height, from->cols,
					      head, e);
		read = i / height;
		if (!failed)
			memcpy(to, head + (source_paired_row(height, i) - first) * from->row_bytes,
			       from->row_bytes);
	}
	free(head);
	return failed;
}

static int source_read_rows(const struct sources *s, const struct source *from, uint32_t row,
			    uint32_t rows, uint8_t *to, struct err *e)
{
	if (from->view.way != VIEW_ALONG)
		return source_gather(s, from, row, rows, to, e);
	while (rows > 0) {
		uint64_t run, at = view_row(&from->view, row, &run);
		uint32_t n = run < rows ? (uint32_t)run : rows;
		uint32_t each = from->view.upright ? from->view.upright : 1;
		int failed = package_read(s->package, from->tensor, at * each, n * each,
					  from->cols / each, to, e);
		if (failed)
			return failed;
		to += n * from->row_bytes;
		row += n;
		rows -= n;
	}
	return 0;
}

/* Reads rows to the end of the buffer, converts them to floats, and reverses the source's change of
 * the published numbers. */
static int source_read_changed(const struct sources *s, const struct source *from, uint32_t row,
			       uint32_t rows, float *x, struct err *e)
{
	struct source as_is = *from;
	size_t n = (size_t)rows * from->cols;
	as_is.format = package_read_format(from->tensor);
	as_is.row_bytes = (size_t)from->cols * source_width(as_is.format);
	uint8_t *end = (uint8_t *)(x + n) - rows * as_is.row_bytes;
	int failed = source_read_rows(s, &as_is, row, rows, end, e);
	if (failed)
		return failed;
	format_dequantise_row(
		x, &(struct shape){.format = as_is.format, .rows = 1, .cols = (uint32_t)n},
		&(struct pieces){.weights = end});
	for (size_t i = 0; i < n; i++)
		if (from->view.change == VIEW_PLUS_ONE)
			x[i] -= 1;
		else if (x[i] < 0)
			x[i] = logf(-x[i]);
		else
			return err_set(e, EINVAL,
				       "tensor %s must hold negative numbers; the file is damaged",
				       from->tensor->name);
	return 0;
}

int sources_read(const struct sources *s, const struct source *from, uint32_t row, uint32_t rows,
		 void *buffer, struct err *e)
{
	if (from->view.change != VIEW_AS_IS)
		return source_read_changed(s, from, row, rows, buffer, e);
	return from->view.paired ? source_read_paired(s, from, row, rows, buffer, e)
				 : source_read_rows(s, from, row, rows, buffer, e);
}

int sources_read_part(const struct sources *s, const struct source *from, uint32_t part,
		      uint32_t row, uint32_t rows, void *buffer, struct err *e)
{
	uint8_t *to = buffer;
	int failed = 0;
	for (uint64_t run; rows > 0 && !failed; row += (uint32_t)run, rows -= (uint32_t)run) {
		uint64_t at = view_row(&from->view, row, &run);
		if (from->view.paired)
			at = source_paired_row(from->view.paired, row);
		run = from->view.paired ? 1 : run < rows ? run : rows;
		failed =
			package_read_part(s->package, from->tensor, part, at, (uint32_t)run, to, e);
		to += run * from->tensor->part[part].row_bytes;
	}
	return failed;
}

/* ---- opening ---- */

static bool source_begins_with(const char *name, const char *beginning)
{
	return !strncmp(name, beginning, strlen(beginning));
}

/* MLX's converter puts the single input of a convolution last, and stores norms with their offset
 * added. */
static bool source_is_from_mlx(const struct package_tensor *t)
{
	return t->dims == 3 && t->shape[2] == 1 && t->shape[1] > 1 &&
	       source_stem(t->name, ".linear_attn.conv1d.weight");
}

static void sources_look_at_names(struct sources *s)
{
	static const char nested[] = "model.language_model.", mlx[] = "language_model.model.";
	const struct family *f = s->config->family;
	char draft[NAME_BYTES];
	s->stem = f->bare ? "" : "model.";
	s->before = "";
	s->norms_plus_one = s->config->gguf && f->gguf->norms_plus_one;
	(void)snprintf(draft, sizeof draft, "blk.%u.", s->config->layers);
	for (size_t i = 0; i < package_count(s->package); i++) {
		const char *name = package_tensor(s->package, i)->name;
		if (f->nested && source_begins_with(name, nested))
			s->stem = nested;
		if (f->nested && source_begins_with(name, mlx)) {
			s->stem = mlx;
			s->before = "language_model.";
		}
		if (source_is_from_mlx(package_tensor(s->package, i)))
			s->from_mlx = s->norms_plus_one = true;
		if (!strcmp(name, "embed_tokens.weight")) /* a model without a head */
			s->stem = "";
		if (f->draft && source_begins_with(name, s->config->gguf ? draft : f->draft))
			s->draft = true;
	}
}

int sources_open(struct sources *s, const char *directory, const struct config *c, struct err *e)
{
	*s = (struct sources){.config = c};
	int failed = package_open(&s->package, directory, e);
	if (failed)
		return failed;
	s->used = calloc(package_count(s->package) + 1, sizeof *s->used);
	s->floats = calloc(package_count(s->package) + 1, sizeof *s->floats);
	if (!s->used || !s->floats) {
		sources_close(s);
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	}
	sources_look_at_names(s);
	return 0;
}

void sources_close(struct sources *s)
{
	free(s->used);
	free(s->floats);
	package_close(s->package);
	*s = (struct sources){0};
}

/* ---- checking against a plan ---- */

typedef int source_visit_fn(void *ctx, struct tensor_id id, struct err *e);

/* Visits all tensors of a plan; stops at the first error. */
static int sources_visit(const struct plan *p, source_visit_fn *visit, void *ctx, struct err *e)
{
	int failed = 0;
	for (uint32_t i = 0; i < p->dense_count && !failed; i++)
		failed = visit(ctx, p->dense[i].id, e);
	for (uint32_t i = 0; i < plan_records(p); i++)
		for (uint32_t part = p->first_part; part < EXPERT_PARTS && !failed; part++)
			failed = visit(ctx, plan_part_id(p, i, part), e);
	return failed;
}

/* Whether a tensor has integers; only tables of experts have. */
static bool source_is_whole(const struct package_tensor *t)
{
	return t->encoding == &encoding_plain && t->format == FORMAT_COUNT && t->parts;
}

static int sources_check_tensor(void *ctx, struct tensor_id id, struct err *e)
{
	struct sources *s = ctx;
	struct source from;
	int failed = sources_find(s, id, &from, e);
	if (failed)
		return failed;
	const struct package_tensor *t = from.tensor;
	const struct view *v = &from.view;
	s->used[t - package_tensor(s->package, 0)] = true;
	if (tensor_roles[id.role].class == CLASS_FLOATS)
		s->floats[t - package_tensor(s->package, 0)] = true;
	if (!package_fits(t, v->shape, v->dims)) {
		char is[192], wanted[96];
		package_print_shape(is, sizeof is, t->shape, t->dims);
		package_print_shape(wanted, sizeof wanted, v->shape, v->dims);
		return err_set(e, EINVAL, "tensor %s has shape %s, but %s it %s", t->name, is,
			       s->config->gguf ? "the keys of the file make" : "config.json makes",
			       wanted);
	}
	if (!t->parts || (source_is_whole(t) && id.role != TENSOR_ROUTER_LIST))
		return err_set(
			e, ENOTSUP,
			"tensor %s is of type %s; checkpoints in BF16, F16 or F32 can be mounted",
			t->name, t->type);
	return 0;
}

int sources_check(struct sources *s, const struct plan *p, struct err *e)
{
	int failed = sources_visit(p, sources_check_tensor, s, e);
	if (!failed)
		failed = sources_check_ngrams(s, e);
	for (size_t i = 0; i < package_count(s->package) && !failed; i++) {
		const char *name = package_tensor(s->package, i)->name;
		bool known = s->used[i] || left_out_is(s, name) ||
			     gguf_is_of_config(s->config, name); /* it is part of the config */
		if (!known)
			failed = err_set(
				e, EINVAL,
				"the checkpoint has a tensor %s that a %s model does not know; "
				"leaving it out would be a different model",
				name, s->config->model_type);
	}
	return failed;
}

int sources_plan(struct sources *s, struct published *formats, struct recipe *r, struct plan *p,
		 struct err *e)
{
	int failed = 0;
	r->draft = s->draft;
	if (formats && r->as_published)
		failed = sources_find_published(formats, s, e);
	if (formats)
		r->published = formats;
	if (!failed)
		failed = plan_make(p, s->config, r, e);
	if (!failed)
		failed = sources_check(s, p, e);
	if (failed)
		return failed;
	plan_free(p);
	recipe_keep(r, sources_kept_format(s), r->norms);
	return plan_make(p, s->config, r, e);
}

struct source_search {
	const struct sources *sources;
	void (*each)(void *ctx, const char *names);
	void *ctx;
	char last[SOURCES_NAMES];
};

static int sources_look_for(void *ctx, struct tensor_id id, struct err *e)
{
	struct source_search *l = ctx;
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
	struct source_search l = {.sources = s, .each = each, .ctx = ctx};
	(void)sources_visit(p, sources_look_for, &l, NULL);
}

enum format sources_kept_format(const struct sources *s)
{
	enum format kept = FORMAT_COUNT;
	for (size_t i = 0; i < package_count(s->package); i++) {
		const struct package_tensor *t = package_tensor(s->package, i);
		if (t->dims < 2 || !s->used[i] || s->floats[i] || source_is_whole(t))
			continue;
		enum format format = package_read_format(t);
		if (kept != FORMAT_COUNT && format != kept)
			return FORMAT_F32;
		kept = format;
	}
	return kept == FORMAT_COUNT ? FORMAT_F32 : kept;
}

/* ---- published formats ---- */

static struct published_format source_format(const struct sources *s, struct tensor_id id)
{
	struct source from;
	if (sources_find(s, id, &from, NULL) || from.tensor->format == FORMAT_COUNT ||
	    from.view.way != VIEW_ALONG) /* the layout is not the kernels' */
		return (struct published_format){.format = FORMAT_COUNT};
	return (struct published_format){from.tensor->format, from.tensor->norms,
					 from.tensor->group};
}

static struct published_format source_role_format(const struct sources *s, enum tensor_role role,
						  uint32_t layer)
{
	struct tensor_id id = {role, layer, 0};
	struct published_format f = source_format(s, id);
	bool experts = tensor_roles[role].place == PLACE_EXPERT;
	for (id.expert = 1; experts && id.expert < s->config->experts; id.expert++) {
		struct published_format other = source_format(s, id);
		if (f.format != other.format ||
		    (!format_is_float(f.format) &&
		     (f.norms != other.norms || f.group != other.group)))
			f = (struct published_format){.format = FORMAT_F32}; /* can represent both */
	}
	if (tensor_roles[role].class == CLASS_HEADS && f.format != FORMAT_COUNT &&
	    !format_is_float(f.format)) /* multiplied head by head in floats */
		f.format = FORMAT_COUNT;
	return f;
}

int sources_find_published(struct published *p, const struct sources *s, struct err *e)
{
	const struct config *c = s->config;
	sources_free_published(p);
	p->layers = c->layers + (s->draft && c->draft ? CONFIG_DRAFT_LAYERS : 0);
	p->of = calloc((size_t)p->layers * TENSOR_ROLES, sizeof *p->of);
	if (!p->of)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	for (uint32_t i = 0; i < p->layers * TENSOR_ROLES; i++) {
		uint32_t layer = i / TENSOR_ROLES;
		enum tensor_role role = (enum tensor_role)(i % TENSOR_ROLES);
		p->of[i].format = FORMAT_COUNT;
		if (tensor_roles[role].class < CLASS_MATRICES && config_has_tensor(c, role, layer))
			p->of[i] = source_role_format(s, role, layer);
	}
	return 0;
}

void sources_free_published(struct published *p)
{
	free(p->of);
	*p = (struct published){0};
}

static bool source_is_quantised(const struct package_tensor *t)
{
	return t->parts && !format_is_float(t->format) && t->encoding != &encoding_plain;
}

bool sources_any_quantised(const struct package *p)
{
	for (size_t i = 0; i < package_count(p); i++)
		if (source_is_quantised(package_tensor(p, i)) &&
		    package_tensor(p, i)->format != FORMAT_COUNT)
			return true;
	return false;
}

const char *sources_encoding(const struct package *p)
{
	const struct encoding *most = NULL;
	/* lead of `most` over all others so far (Boyer and Moore's majority vote) */
	size_t lead = 0;
	for (size_t i = 0; i < package_count(p); i++) {
		const struct package_tensor *t = package_tensor(p, i);
		if (!source_is_quantised(t))
			continue;
		if (!lead)
			most = t->encoding;
		lead += t->encoding == most ? 1 : (size_t)-1;
	}
	return most ? most->name : NULL;
}
