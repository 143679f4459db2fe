/* Opens packages. For safetensors, companions (scales, norms) are folded into their tensors. For
 * GGUF, each stored tensor is a tensor. */
#include "engine/source/package_inside.h"

#include "engine/source/source_file.h"
#include "engine/source/gguf.h"
#include "engine/source/quantization.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- safetensors ---- */

/* Packages of safetensors checkpoints: finds stored tensors that belong together, by names and
 * types. */

const struct encoding *const encodings[] = {
	&encoding_fp8_powers, &encoding_mxfp4_pairs,
	&encoding_fp8, &encoding_mlx_mxfp4, &encoding_affine, &encoding_mxfp4, &encoding_tq,
	&encoding_tc,  &encoding_q8_0,	    &encoding_q6_k,   &encoding_q5_0,  NULL};

struct folding {
	struct package *package;
	const struct checkpoint *checkpoint;
	struct quantization config;
	bool *folded; /* [checkpoint_count]: folded into another tensor */
};

enum { NAME_BYTES = 1024 }; /* SAFETENSORS_MAX_NAME, and an ending */

/* Whether these codes have this encoding; if so, `in` gets their companions. */
static bool package_matches(const struct folding *f, const struct encoding *x,
			    const struct checkpoint_tensor *codes, struct encoded_tensor *in)
{
	size_t stem = source_stem(codes->name, x->ending);
	*in = (struct encoded_tensor){.codes = codes, .config = &f->config};
	if (!stem || strcmp(codes->type, x->type) != 0)
		return false;
	for (int i = 0; i < ENCODING_COMPANIONS && x->companion[i]; i++) {
		char name[NAME_BYTES];
		(void)snprintf(name, sizeof name, "%.*s%s", (int)stem, codes->name,
			       x->companion[i]);
		in->companion[i] = checkpoint_find(f->checkpoint, name);
	}
	return !x->is || x->is(in);
}

static int package_out_of_memory(struct err *e)
{
	return err_set(e, ENOMEM, "out of memory for the list of tensors");
}

static int package_fold_as(struct folding *f, const struct encoding *x,
			   const struct encoded_tensor *in, struct err *e)
{
	char name[NAME_BYTES];
	int stem = (int)source_stem(in->codes->name, x->ending);
	for (int i = 0; i < ENCODING_COMPANIONS && x->companion[i]; i++)
		if (!in->companion[i])
			return err_set(e, ENOENT,
				       "tensor %s is in %s, but its companion %.*s%s is missing; "
				       "is the download complete?",
				       in->codes->name, x->name, stem, in->codes->name,
				       x->companion[i]);
	(void)snprintf(name, sizeof name, "%.*s%s", stem, in->codes->name, x->own);
	struct package_tensor *t = package_add(f->package, name);
	if (!t)
		return package_out_of_memory(e);
	t->encoding = x;
	memcpy(t->type, in->codes->type, sizeof t->type);
	f->folded[in->codes - checkpoint_tensor(f->checkpoint, 0)] = true;
	for (int i = 0; i < ENCODING_COMPANIONS; i++)
		if (in->companion[i])
			f->folded[in->companion[i] - checkpoint_tensor(f->checkpoint, 0)] = true;
	return x->describe(t, in, e);
}

static int package_fold(struct folding *f, const struct checkpoint_tensor *codes, struct err *e)
{
	struct encoded_tensor in;
	for (const struct encoding *const *x = encodings; *x; x++)
		if (package_matches(f, *x, codes, &in))
			return package_fold_as(f, *x, &in, e);
	return 0;
}

/* Adds the remaining tensors, which have plain numbers or an unsupported type. */
static int package_add_plain(struct folding *f, const struct checkpoint_tensor *from, struct err *e)
{
	const char *foreign = quantization_foreign(from->name);
	if (foreign)
		return err_set(e, ENOTSUP,
			       "tensor %s: the weights are quantised by %s, which is not supported",
			       from->name, foreign);
	struct package_tensor *t = package_add(f->package, from->name);
	if (!t)
		return package_out_of_memory(e);
	t->encoding = &encoding_plain;
	memcpy(t->type, from->type, sizeof t->type);
	return encoding_plain.describe(t, &(struct encoded_tensor){.codes = from}, e);
}

static int package_fold_all(struct folding *f, struct err *e)
{
	size_t count = checkpoint_count(f->checkpoint);
	int failed = 0;
	f->folded = calloc(count + 1, sizeof *f->folded);
	if (!f->folded)
		return package_out_of_memory(e);
	for (size_t i = 0; i < count && !failed; i++)
		failed = package_fold(f, checkpoint_tensor(f->checkpoint, i), e);
	for (size_t i = 0; i < count && !failed; i++)
		if (!f->folded[i])
			failed = package_add_plain(f, checkpoint_tensor(f->checkpoint, i), e);
	return failed;
}

int package_of_safetensors(struct package *p, const char *directory, struct err *e)
{
	struct folding f = {.package = p};
	int failed = quantization_read(&f.config, directory, e);
	if (!failed)
		failed = checkpoint_open(&p->checkpoint, directory, e);
	f.checkpoint = p->checkpoint;
	if (!failed) {
		p->files = checkpoint_files(p->checkpoint);
		failed = package_fold_all(&f, e);
	}
	free(f.folded);
	quantization_free(&f.config);
	return failed;
}

/* ---- GGUF ---- */

/* Packages of a GGUF file, or of all its parts. */

static const struct encoding encoding_gguf = {.name = "GGUF"};

static int package_gguf_add_tensor(struct package *p, const struct checkpoint_tensor *from,
				   struct err *e)
{
	struct package_tensor *t = package_add(p, from->name);
	if (!t)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	t->encoding = &encoding_gguf;
	memcpy(t->type, from->type, sizeof t->type);
	uint32_t ones = 0; /* dimensions of 1, which a file may leave out */
	while (ones + 1 < from->dims && from->shape[ones] == 1)
		ones++;
	t->dims = from->dims - ones;
	memcpy(t->shape, from->shape + ones, t->dims * sizeof *t->shape);
	encoding_take_as_is(t, from);
	if (encoding_take_whole(t, from))
		t->encoding = &encoding_plain;
	return 0;
}

/* Opens a part and adds its tensors; *total: number of tensors in all parts according to the first
 * part, or 0. */
static int package_gguf_add_part(struct package *p, const struct gguf_split *split, uint32_t part,
				 uint64_t *total, struct err *e)
{
	char name[NAME_MAX + 1];
	uint32_t file = 0;
	struct gguf *g = NULL;
	int failed = gguf_part_name(split, part, name, sizeof name, e);
	if (!failed)
		failed = files_open(p->files, name, &file, e);
	if (failed)
		return failed;
	const char *path = files_path(p->files, file);
	failed = gguf_read(&g, files_descriptor(p->files, file), files_bytes(p->files, file), path,
			   file, e);
	if (!failed)
		failed = gguf_check_part(g, split, part, path, e);
	if (!failed && !part && gguf_has(g, "split.tensors.count"))
		failed = gguf_get_uint(g, "split.tensors.count", path, 0, INT32_MAX, total, e);
	for (size_t i = 0; !failed && i < g->tensors.count; i++)
		failed = package_gguf_add_tensor(p, &g->tensors.tensors[i], e);
	if (!failed && !part && p->first)
		*p->first = g;
	else
		gguf_close(g);
	return failed;
}

int package_of_gguf(struct package *p, const char *path, struct err *e)
{
	struct gguf_split split = gguf_split_of(path);
	uint64_t total = 0;
	char first[NAME_MAX + 1];
	if (split.part && gguf_part_name(&split, 0, first, sizeof first, e))
		return -ENAMETOOLONG;
	if (split.part)
		return err_set(e, EINVAL, "%s is part %u of %u: give the first one, %s", path,
			       split.part + 1, split.count, first);
	char *folder = source_folder(path);
	int failed = folder ? files_create(&p->files, folder, e)
			    : err_set(e, ENOMEM, "out of memory for the name of a folder");
	free(folder);
	for (uint32_t part = 0; part < split.count && !failed; part++)
		failed = package_gguf_add_part(p, &split, part, &total, e);
	if (!failed && total && p->count != total)
		failed = err_set(e, EINVAL,
				 "%s: the parts have %zu tensors, but the first part says %llu: do "
				 "all parts belong to one file?",
				 path, p->count, (unsigned long long)total);
	return failed;
}

/* ---- either ---- */

static int package_open_with(struct package **out, struct gguf **first, const char *path,
			     struct err *e)
{
	struct package *p = calloc(1, sizeof *p);
	*out = NULL;
	if (!p)
		return err_set(e, ENOMEM, "%s: out of memory for its list of tensors", path);
	p->first = first;
	int failed = source_is_file(path) ? package_of_gguf(p, path, e)
					  : package_of_safetensors(p, path, e);
	if (!failed)
		failed = package_sort(p, e);
	p->first = NULL;
	if (failed)
		package_close(p);
	else
		*out = p;
	return failed;
}

int package_open(struct package **out, const char *path, struct err *e)
{
	return package_open_with(out, NULL, path, e);
}

int package_open_gguf(struct package **out, struct gguf **first, const char *path, struct err *e)
{
	*first = NULL;
	int failed = package_open_with(out, first, path, e);
	if (!failed)
		return 0;
	gguf_close(*first);
	*first = NULL;
	return failed;
}
