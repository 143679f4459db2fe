/* A package of a GGUF file, or of all its parts. */
#include "engine/source/file.h"
#include "engine/source/gguf_split.h"
#include "engine/source/package_make.h"
#include "engine/source/package_part.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const struct encoding encoding_gguf = {.name = "GGUF"};

static int add_tensor(struct package *p, const struct checkpoint_tensor *from, struct err *e)
{
	struct package_tensor *t = package_add(p, from->name);
	if (!t)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	t->encoding = &encoding_gguf;
	memcpy(t->type, from->type, sizeof t->type);
	uint32_t ones = 0; /* dimensions that files have or have not, which means the same */
	while (ones + 1 < from->dims && from->shape[ones] == 1)
		ones++;
	t->dims = from->dims - ones;
	memcpy(t->shape, from->shape + ones, t->dims * sizeof *t->shape);
	package_as_is(t, from);
	return 0;
}

/* Opens a part and adds its tensors; *total is how many there are in all parts, as the first has
 * it, or 0. */
static int add_part(struct package *p, const struct gguf_split *split, uint32_t part,
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
		failed = add_tensor(p, &g->tensors.tensors[i], e);
	gguf_close(g);
	return failed;
}

static int refuse_part(const struct gguf_split *split, const char *path, struct err *e)
{
	char first[NAME_MAX + 1];
	int failed = gguf_part_name(split, 0, first, sizeof first, e);
	return failed ? failed
		      : err_set(e, EINVAL, "%s is part %u of %u: give the first one, %s", path,
				split->part + 1, split->count, first);
}

int package_of_gguf(struct package *p, const char *path, struct err *e)
{
	struct gguf_split split = gguf_split_of(path);
	uint64_t total = 0;
	if (split.part)
		return refuse_part(&split, path, e);
	char *folder = source_folder(path);
	int failed = folder ? files_create(&p->files, folder, e)
			    : err_set(e, ENOMEM, "out of memory for the name of a folder");
	free(folder);
	for (uint32_t part = 0; part < split.count && !failed; part++)
		failed = add_part(p, &split, part, &total, e);
	if (!failed && total && p->count != total)
		failed = err_set(e, EINVAL,
				 "%s: its parts have %zu tensors, and the first says %llu: are the "
				 "parts of one file?",
				 path, p->count, (unsigned long long)total);
	return failed;
}
