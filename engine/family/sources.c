#include "engine/family/sources.h"
#include "engine/family/gather.h"
#include "engine/family/gguf_family.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_BYTES = 256 };

/* ---- finding ---- */

static uint32_t width_of(enum format f)
{
	return f == FORMAT_F32 ? 4 : 2;
}

/* GGUF's tensors have dimensions of 1 before the others or not, which means the same. */
static void without_ones(struct view *v)
{
	while (v->dims > 1 && v->shape[0] == 1) {
		v->dims--;
		memmove(v->shape, v->shape + 1, v->dims * sizeof *v->shape);
	}
}

static void describe(const struct sources *s, struct tensor_id id, view_fn *view,
		     const struct package_tensor *t, struct source *out)
{
	const struct config *c = s->config;
	*out = (struct source){.tensor = t, .format = package_read_format(t)};
	config_tensor_shape(c, id.role, id.layer, &out->rows, &out->cols);
	if (id.role == TENSOR_DELTA_CONV && s->from_mlx)
		view = view_convolution_upright;
	if (view)
		view(&out->view, c, id.expert);
	else
		view_whole(&out->view, c, id.role, id.layer);
	if (s->norms_plus_one && tensor_roles[id.role].class == CLASS_NORM)
		out->view.change = VIEW_PLUS_ONE;
	if (out->view.change != VIEW_AS_IS)
		out->format = FORMAT_F32; /* which holds what is taken back */
	if (c->gguf)
		without_ones(&out->view);
	if (!out->cols) {
		out->cols = out->rows;
		out->rows = 1;
	}
	out->row_bytes = (size_t)out->cols * width_of(out->format);
}

/* "A", "A or B" */
static void add_name(char *list, size_t size, const char *name)
{
	size_t used = strlen(list);
	if (!strstr(list, name))
		(void)snprintf(list + used, size - used, "%s%s", used ? " or " : "", name);
}

/* Names that a role may have here. */
static uint32_t alternatives(const struct sources *s, enum tensor_role role,
			     struct tensor_name names[FAMILY_ALTERNATIVES])
{
	const struct config *c = s->config;
	return c->gguf ? gguf_alternatives(c->family, role, names)
		       : family_alternatives(c->family, role, names);
}

static bool print_name(const struct sources *s, const char *pattern, struct tensor_id id,
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
	uint32_t count = alternatives(s, id.role, names);
	*list = 0;
	for (uint32_t i = 0; i < count; i++)
		if (print_name(s, names[i].name, id, name))
			add_name(list, SOURCES_NAMES, name);
}

int sources_find(const struct sources *s, struct tensor_id id, struct source *out, struct err *e)
{
	struct tensor_name names[FAMILY_ALTERNATIVES];
	char name[NAME_BYTES], tried[SOURCES_NAMES];
	uint32_t count = alternatives(s, id.role, names);
	for (uint32_t i = 0; i < count; i++) {
		if (!print_name(s, names[i].name, id, name))
			return err_set(e, ENAMETOOLONG, "a tensor's name is too long");
		const struct package_tensor *t = package_find(s->package, name);
		if (t) {
			describe(s, id, names[i].view, t, out);
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

/* ---- reading ---- */

/* Where the row of such a head lies whose pairs of rows are neighbours. */
static uint32_t paired_row(uint32_t height, uint32_t row)
{
	uint32_t half = height / 2, at = row % height;
	return row - at + at % half * 2 + at / half;
}

/* Of such heads: one at a time. */
static int read_paired(const struct sources *s, const struct source *from, uint32_t row,
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
			memcpy(to, head + (paired_row(height, i) - first) * from->row_bytes,
			       from->row_bytes);
	}
	free(head);
	return failed;
}

static int read_rows(const struct sources *s, const struct source *from, uint32_t row,
		     uint32_t rows, uint8_t *to, struct err *e)
{
	if (from->view.way != VIEW_ALONG)
		return gather_rows(s->package, from, row, rows, to, e);
	while (rows > 0) {
		uint64_t run, at = view_row(&from->view, row, &run);
		uint32_t n = run < rows ? (uint32_t)run : rows;
		size_t bytes = n * from->row_bytes;
		uint32_t each = from->view.upright ? from->view.upright : 1;
		int failed = package_read(s->package, from->tensor, at * each, n * each,
					  from->cols / each, to, e);
		if (failed)
			return failed;
		to += bytes;
		row += n;
		rows -= n;
	}
	return 0;
}

/* Takes back what became of numbers since they were published. */
static int undo_change(const struct source *from, float *x, size_t n, struct err *e)
{
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

/* The rows as they are at the end of the buffer, from where they become floats. */
static int read_changed(const struct sources *s, const struct source *from, uint32_t row,
			uint32_t rows, float *x, struct err *e)
{
	struct source as_is = *from;
	size_t n = (size_t)rows * from->cols;
	as_is.format = package_read_format(from->tensor);
	as_is.row_bytes = (size_t)from->cols * width_of(as_is.format);
	uint8_t *end = (uint8_t *)(x + n) - rows * as_is.row_bytes;
	int failed = read_rows(s, &as_is, row, rows, end, e);
	if (failed)
		return failed;
	format_dequantise_row(
		x, &(struct shape){.format = as_is.format, .rows = 1, .cols = (uint32_t)n},
		&(struct pieces){.weights = end});
	return undo_change(from, x, n, e);
}

int sources_read(const struct sources *s, const struct source *from, uint32_t row, uint32_t rows,
		 void *buffer, struct err *e)
{
	if (from->view.change != VIEW_AS_IS)
		return read_changed(s, from, row, rows, buffer, e);
	return from->view.paired ? read_paired(s, from, row, rows, buffer, e)
				 : read_rows(s, from, row, rows, buffer, e);
}

int sources_read_part(const struct sources *s, const struct source *from, uint32_t part,
		      uint32_t row, uint32_t rows, void *buffer, struct err *e)
{
	uint8_t *to = buffer;
	int failed = 0;
	for (uint64_t run; rows > 0 && !failed; row += (uint32_t)run, rows -= (uint32_t)run) {
		uint64_t at = view_row(&from->view, row, &run);
		if (from->view.paired)
			at = paired_row(from->view.paired, row);
		run = from->view.paired ? 1 : run < rows ? run : rows;
		failed =
			package_read_part(s->package, from->tensor, part, at, (uint32_t)run, to, e);
		to += run * from->tensor->part[part].row_bytes;
	}
	return failed;
}

/* ---- opening ---- */

static bool begins_with(const char *name, const char *beginning)
{
	return !strncmp(name, beginning, strlen(beginning));
}

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), k = strlen(end);
	return n >= k && !strcmp(name + n - k, end);
}

/* MLX' converter has the one input of a convolution last. It leaves norms as they are computed
 * with.
 */
static bool is_from_mlx(const struct package_tensor *t)
{
	return t->dims == 3 && t->shape[2] == 1 && t->shape[1] > 1 &&
	       ends_with(t->name, ".linear_attn.conv1d.weight");
}

static void look_at_names(struct sources *s)
{
	static const char nested[] = "model.language_model.", mlx[] = "language_model.model.";
	const struct family *f = s->config->family;
	char draft[NAME_BYTES];
	s->stem = "model.";
	s->before = "";
	s->norms_plus_one = s->config->gguf && f->gguf->norms_plus_one;
	(void)snprintf(draft, sizeof draft, "blk.%u.", s->config->layers);
	for (size_t i = 0; i < package_count(s->package); i++) {
		const char *name = package_tensor(s->package, i)->name;
		if (f->nested && begins_with(name, nested))
			s->stem = nested;
		if (f->nested && begins_with(name, mlx)) {
			s->stem = mlx;
			s->before = "language_model.";
		}
		if (is_from_mlx(package_tensor(s->package, i)))
			s->from_mlx = s->norms_plus_one = true;
		const char *beginning = s->config->gguf ? draft : f->draft;
		if (f->draft && begins_with(name, beginning))
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
	if (!s->used) {
		sources_close(s);
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	}
	look_at_names(s);
	return 0;
}

void sources_close(struct sources *s)
{
	free(s->used);
	package_close(s->package);
	*s = (struct sources){0};
}
