#include "engine/source/checkpoint.h"
#include "engine/source/source_file.h"
#include "engine/source/tensor_list.h"
#include "engine/json/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_INDEX_BYTES = 64 << 20 };

struct checkpoint {
	struct files *files;
	struct tensor_list tensors; /* sorted by name */
};

/* ---- files ---- */

/* Reads a shard's header; returns its JSON text of *length bytes, malloc'ed. */
static int checkpoint_read_header(const struct files *f, uint32_t shard, char **text,
				  size_t *length, struct err *e)
{
	uint8_t head[8];
	const char *path = files_path(f, shard);
	uint64_t size = files_bytes(f, shard);
	if (size < sizeof head)
		return err_set(e, EINVAL,
			       "%s: too short for a safetensors file; is the download complete?",
			       path);
	int failed = files_read(f, shard, 0, head, sizeof head, e);
	if (failed)
		return failed;
	uint64_t n = 0;
	for (int i = 8; i-- > 0;)
		n = n << 8 | head[i];
	if (n < 2 || n > SAFETENSORS_MAX_HEADER || n > size - sizeof head)
		return err_set(e, EINVAL,
			       "%s is not a safetensors file, or is damaged: its header would have "
			       "%llu bytes",
			       path, (unsigned long long)n);
	*text = malloc((size_t)n);
	if (!*text)
		return err_set(e, ENOMEM, "%s: out of memory for its header", path);
	*length = (size_t)n;
	failed = files_read(f, shard, sizeof head, *text, *length, e);
	if (failed)
		free(*text);
	return failed;
}

/* ---- opening ---- */

/* Opens a shard and adds its tensors, unless the shard is open already. */
static int checkpoint_open_shard(struct checkpoint *c, const char *name, uint32_t *shard,
				 struct err *e)
{
	char *text = NULL;
	size_t length = 0, before = c->tensors.count;
	uint32_t known = files_count(c->files);
	int failed = files_open(c->files, name, shard, e);
	if (failed || *shard < known)
		return failed;
	failed = checkpoint_read_header(c->files, *shard, &text, &length, e);
	if (failed)
		return failed;
	uint64_t data = 8 + length;
	failed = safetensors_parse(&c->tensors, text, length, files_bytes(c->files, *shard) - data,
				   *shard, files_path(c->files, *shard), e);
	free(text);
	for (size_t i = before; i < c->tensors.count; i++)
		c->tensors.tensors[i].place = data + c->tensors.tensors[i].offset;
	return failed;
}

static int checkpoint_compare_names(const void *a, const void *b)
{
	const struct checkpoint_tensor *x = a, *y = b;
	return strcmp(x->name, y->name);
}

/* Sorts the tensors and checks that no two shards have the same. */
static int checkpoint_sort_tensors(struct checkpoint *c, struct err *e)
{
	struct checkpoint_tensor *t = c->tensors.tensors;
	if (c->tensors.count)
		qsort(t, c->tensors.count, sizeof *t, checkpoint_compare_names);
	for (size_t i = 1; i < c->tensors.count; i++)
		if (!strcmp(t[i - 1].name, t[i].name))
			return err_set(e, EINVAL, "tensor %s is in %s and in %s", t[i].name,
				       files_path(c->files, t[i - 1].file),
				       files_path(c->files, t[i].file));
	return 0;
}

/* Checks that every tensor in the index is in the shard given there. */
static int checkpoint_check_weight_map(struct checkpoint *c, const struct json *map,
				       const char *index, struct err *e)
{
	for (const struct json *v = NULL; (v = json_next(map, v));) {
		const char *file;
		uint32_t number;
		int failed = json_as_string(v, json_key(v), index, &file, e);
		if (!failed)
			failed = checkpoint_open_shard(c, file, &number, e);
		if (failed)
			return failed;
	}
	int failed = checkpoint_sort_tensors(c, e);
	for (const struct json *v = NULL; !failed && (v = json_next(map, v));) {
		size_t n;
		const char *name = json_key(v), *file = json_bytes(v, &n);
		const struct checkpoint_tensor *t = checkpoint_find(c, name);
		if (!t || strcmp(files_name(c->files, t->file), file) != 0)
			return err_set(e, EINVAL,
				       "%s: the index says that tensor %.128s is in %.128s, but it is "
				       "not",
				       index, name, file);
	}
	return failed;
}

static int checkpoint_open_sharded(struct checkpoint *c, const char *index, struct err *e)
{
	struct json *json;
	const struct json *map;
	int failed = json_parse_file(&json, index, MAX_INDEX_BYTES, e);
	if (failed)
		return failed;
	failed = json_get_object(json, "weight_map", index, &map, e);
	if (!failed)
		failed = checkpoint_check_weight_map(c, map, index, e);
	if (!failed && json_count(map) != c->tensors.count)
		failed = err_set(e, EINVAL, "%s: the shards have %zu tensors, the index lists %zu",
				 index, c->tensors.count, json_count(map));
	json_free(json);
	return failed;
}

static int checkpoint_open_files(struct checkpoint *c, const char *directory, struct err *e)
{
	uint32_t only;
	char *index = source_file_path(directory, "model.safetensors.index.json", e);
	if (!index)
		return -ENOMEM;
	bool sharded = !access(index, F_OK);
	int failed = sharded ? checkpoint_open_sharded(c, index, e)
			     : checkpoint_open_shard(c, "model.safetensors", &only, e);
	free(index);
	return failed || sharded ? failed : checkpoint_sort_tensors(c, e);
}

int checkpoint_open(struct checkpoint **out, const char *directory, struct err *e)
{
	struct checkpoint *c = calloc(1, sizeof *c);
	int failed = c ? files_create(&c->files, directory, e)
		       : err_set(e, ENOMEM, "%s: out of memory for its list of files", directory);
	if (!failed)
		failed = checkpoint_open_files(c, directory, e);
	if (failed)
		checkpoint_close(c);
	else
		*out = c;
	return failed;
}

void checkpoint_close(struct checkpoint *c)
{
	if (!c)
		return;
	files_close(c->files);
	tensor_list_free(&c->tensors);
	free(c);
}

/* ---- reading ---- */

size_t checkpoint_count(const struct checkpoint *c)
{
	return c->tensors.count;
}

const struct checkpoint_tensor *checkpoint_tensor(const struct checkpoint *c, size_t i)
{
	return &c->tensors.tensors[i];
}

const struct checkpoint_tensor *checkpoint_find(const struct checkpoint *c, const char *name)
{
	struct checkpoint_tensor key = {.name = (char *)name};
	if (!c->tensors.count)
		return NULL;
	return bsearch(&key, c->tensors.tensors, c->tensors.count, sizeof key,
		       checkpoint_compare_names);
}

int checkpoint_read(const struct checkpoint *c, const struct checkpoint_tensor *t, uint64_t offset,
		    void *buffer, size_t bytes, struct err *e)
{
	return files_read(c->files, t->file, t->place + offset, buffer, bytes, e);
}

struct files *checkpoint_files(const struct checkpoint *c)
{
	return c->files;
}
