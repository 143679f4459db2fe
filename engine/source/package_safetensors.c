/* A package of a safetensors checkpoint: which of its tensors are one, by their names and types. */
#include "engine/source/package_make.h"
#include "engine/source/quantization.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct encoding *const encodings[] = {
	&encoding_fp8, &encoding_mlx_mxfp4, &encoding_affine, &encoding_mxfp4,
	&encoding_tq,  &encoding_tc,	    &encoding_q8_0,   NULL};

struct folding {
	struct package *package;
	const struct checkpoint *checkpoint;
	struct quantization config;
	bool *folded; /* [checkpoint_count] into another one */
};

enum { NAME_BYTES = 1024 }; /* SAFETENSORS_MAX_NAME, and an ending */

/* The length of a name without the ending; 0: it does not end so. */
static size_t stem_of(const char *name, const char *ending)
{
	size_t n = strlen(name), k = strlen(ending);
	return n > k && !strcmp(name + n - k, ending) ? n - k : 0;
}

static const struct checkpoint_tensor *companion(const struct folding *f, const char *name,
						 size_t stem, const char *ending)
{
	char text[NAME_BYTES];
	(void)snprintf(text, sizeof text, "%.*s%s", (int)stem, name, ending);
	return checkpoint_find(f->checkpoint, text);
}

/* Whether these codes are of that encoding; `in` has what belongs to them then. */
static bool matches(const struct folding *f, const struct encoding *x,
		    const struct checkpoint_tensor *codes, struct encoded *in)
{
	size_t stem = stem_of(codes->name, x->ending);
	*in = (struct encoded){.codes = codes, .config = &f->config};
	if (!stem || strcmp(codes->type, x->type) != 0)
		return false;
	for (int i = 0; i < ENCODING_COMPANIONS && x->companion[i]; i++)
		in->companion[i] = companion(f, codes->name, stem, x->companion[i]);
	return !x->is || x->is(in);
}

static int out_of_memory(struct err *e)
{
	return err_set(e, ENOMEM, "out of memory for the list of tensors");
}

static int check_companions(const struct encoding *x, const struct encoded *in, struct err *e)
{
	size_t stem = stem_of(in->codes->name, x->ending);
	for (int i = 0; i < ENCODING_COMPANIONS && x->companion[i]; i++)
		if (!in->companion[i])
			return err_set(e, ENOENT,
				       "tensor %s is in %s, and %.*s%s, which belongs to it, is "
				       "not there; is the download complete?",
				       in->codes->name, x->name, (int)stem, in->codes->name,
				       x->companion[i]);
	return 0;
}

static int fold(struct folding *f, const struct encoding *x, const struct encoded *in,
		struct err *e)
{
	char name[NAME_BYTES];
	int stem = (int)stem_of(in->codes->name, x->ending);
	int failed = check_companions(x, in, e);
	if (failed)
		return failed;
	(void)snprintf(name, sizeof name, "%.*s%s", stem, in->codes->name, x->own);
	struct package_tensor *t = package_add(f->package, name);
	if (!t)
		return out_of_memory(e);
	t->encoding = x;
	memcpy(t->type, in->codes->type, sizeof t->type);
	f->folded[in->codes - checkpoint_tensor(f->checkpoint, 0)] = true;
	for (int i = 0; i < ENCODING_COMPANIONS; i++)
		if (in->companion[i])
			f->folded[in->companion[i] - checkpoint_tensor(f->checkpoint, 0)] = true;
	return x->describe(t, in, e);
}

static int fold_one(struct folding *f, const struct checkpoint_tensor *codes, struct err *e)
{
	struct encoded in;
	for (const struct encoding *const *x = encodings; *x; x++)
		if (matches(f, *x, codes, &in))
			return fold(f, *x, &in, e);
	return 0;
}

/* What is left is numbers as they are, or of a type that is refused if somebody wants them. */
static int add_plain(struct folding *f, const struct checkpoint_tensor *from, struct err *e)
{
	const char *foreign = quantization_foreign(from->name);
	if (foreign)
		return err_set(e, ENOTSUP,
			       "tensor %s: the weights are quantised by %s, which is not read",
			       from->name, foreign);
	struct package_tensor *t = package_add(f->package, from->name);
	if (!t)
		return out_of_memory(e);
	t->encoding = &encoding_plain;
	memcpy(t->type, from->type, sizeof t->type);
	return encoding_plain.describe(t, &(struct encoded){.codes = from}, e);
}

static int fold_all(struct folding *f, struct err *e)
{
	size_t count = checkpoint_count(f->checkpoint);
	int failed = 0;
	f->folded = calloc(count + 1, sizeof *f->folded);
	if (!f->folded)
		return out_of_memory(e);
	for (size_t i = 0; i < count && !failed; i++)
		failed = fold_one(f, checkpoint_tensor(f->checkpoint, i), e);
	for (size_t i = 0; i < count && !failed; i++)
		if (!f->folded[i])
			failed = add_plain(f, checkpoint_tensor(f->checkpoint, i), e);
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
		failed = fold_all(&f, e);
	}
	free(f.folded);
	quantization_free(&f.config);
	return failed;
}
