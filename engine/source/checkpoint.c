#include "engine/source/checkpoint.h"
#include "engine/source/file.h"
#include "engine/source/safetensors.h"
#include "engine/source/witness.h"
#include "engine/text/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { MAX_INDEX_BYTES = 64 << 20 };

struct shard {
	char *path;
	int fd;
	uint64_t data_offset, data_bytes;
};

struct checkpoint {
	struct shard *shards;
	uint32_t shard_count;
	struct tensor_list tensors; /* sorted by name */
	struct witness *witness;    /* the caller's, or NULL */
};

/* ---- files ---- */

/* Reads a shard's header: malloc'ed JSON text of *length bytes. */
static int read_header(int fd, uint64_t size, const char *path, char **text, size_t *length,
		       struct err *e)
{
	uint8_t head[8];
	if (size < sizeof head)
		return err_set(e, EINVAL,
			       "%s: too short for a safetensors file; is the download complete?",
			       path);
	int failed = source_file_read(fd, head, sizeof head, 0, path, e);
	if (failed)
		return failed;
	uint64_t n = 0;
	for (int i = 8; i-- > 0;)
		n = n << 8 | head[i];
	if (n < 2 || n > SAFETENSORS_MAX_HEADER || n > size - sizeof head)
		return err_set(
			e, EINVAL,
			"%s: not a safetensors file, or damaged (it claims a header of %llu bytes)",
			path, (unsigned long long)n);
	*text = malloc((size_t)n);
	if (!*text)
		return err_set(e, ENOMEM, "%s: out of memory for its header", path);
	*length = (size_t)n;
	failed = source_file_read(fd, *text, *length, sizeof head, path, e);
	if (failed)
		free(*text);
	return failed;
}

/* ---- opening ---- */

static int open_shard(struct checkpoint *c, const char *directory, const char *file, struct err *e)
{
	struct shard *s = &c->shards[c->shard_count];
	char *text = NULL;
	size_t length = 0;
	uint64_t size = 0;
	*s = (struct shard){.fd = -1, .path = source_file_path(directory, file)};
	if (!s->path)
		return err_set(e, ENOMEM, "out of memory for the name of a file");
	c->shard_count++;
	s->fd = source_file_open(s->path, &size, e);
	if (s->fd < 0)
		return s->fd;
	int failed = read_header(s->fd, size, s->path, &text, &length, e);
	if (failed)
		return failed;
	s->data_offset = 8 + length;
	s->data_bytes = size - s->data_offset;
	failed = safetensors_parse(&c->tensors, text, length, s->data_bytes, c->shard_count - 1,
				   s->path, e);
	free(text);
	return failed;
}

static int by_name(const void *a, const void *b)
{
	const struct checkpoint_tensor *x = a, *y = b;
	return strcmp(x->name, y->name);
}

/* Sorts the tensors and checks that no two shards have the same. */
static int sort_tensors(struct checkpoint *c, struct err *e)
{
	struct checkpoint_tensor *t = c->tensors.tensors;
	if (c->tensors.count)
		qsort(t, c->tensors.count, sizeof *t, by_name);
	for (size_t i = 1; i < c->tensors.count; i++)
		if (!strcmp(t[i - 1].name, t[i].name))
			return err_set(e, EINVAL, "tensor %s is in %s and in %s", t[i].name,
				       c->shards[t[i - 1].file].path, c->shards[t[i].file].path);
	return 0;
}

/* The shard of that name, opened if it is new. A name that leads elsewhere is refused. */
static int shard_number(struct checkpoint *c, const char *directory, const char *file,
			uint32_t *number, struct err *e)
{
	if (!*file || strchr(file, '/') || !strcmp(file, "..") || !strcmp(file, "."))
		return err_set(e, EINVAL,
			       "%s: the index names a file outside the checkpoint: %.128s",
			       directory, file);
	for (*number = 0; *number < c->shard_count; ++*number)
		if (!strcmp(strrchr(c->shards[*number].path, '/') + 1, file))
			return 0;
	if (c->shard_count == CHECKPOINT_MAX_SHARDS)
		return err_set(e, EINVAL, "%s: more than %d files of tensors", directory,
			       CHECKPOINT_MAX_SHARDS);
	return open_shard(c, directory, file, e);
}

/* Every tensor that the index lists must be in the shard it says. */
static int check_weight_map(struct checkpoint *c, const struct json *map, const char *directory,
			    const char *index, struct err *e)
{
	for (const struct json *v = NULL; (v = json_next(map, v));) {
		const char *file;
		uint32_t number;
		int failed = json_as_string(v, json_key(v), index, &file, e);
		if (!failed)
			failed = shard_number(c, directory, file, &number, e);
		if (failed)
			return failed;
	}
	int failed = sort_tensors(c, e);
	for (const struct json *v = NULL; !failed && (v = json_next(map, v));) {
		size_t n;
		const char *name = json_key(v), *file = json_bytes(v, &n);
		const struct checkpoint_tensor *t = checkpoint_find(c, name);
		if (!t || strcmp(strrchr(c->shards[t->file].path, '/') + 1, file) != 0)
			return err_set(e, EINVAL,
				       "%s: tensor %.128s is not in %.128s, where the index has it",
				       index, name, file);
	}
	return failed;
}

static int open_sharded(struct checkpoint *c, const char *directory, const char *index,
			struct err *e)
{
	struct json *json;
	const struct json *map;
	int failed = json_parse_file(&json, index, MAX_INDEX_BYTES, e);
	if (failed)
		return failed;
	failed = json_get_object(json, "weight_map", index, &map, e);
	if (!failed)
		failed = check_weight_map(c, map, directory, index, e);
	if (!failed && json_count(map) != c->tensors.count)
		failed = err_set(e, EINVAL, "%s: the shards have %zu tensors, the index lists %zu",
				 index, c->tensors.count, json_count(map));
	json_free(json);
	return failed;
}

int checkpoint_open(struct checkpoint **out, const char *directory, struct err *e)
{
	struct checkpoint *c = calloc(1, sizeof *c);
	char *index = source_file_path(directory, "model.safetensors.index.json");
	int failed;
	if (c)
		c->shards = calloc(CHECKPOINT_MAX_SHARDS, sizeof *c->shards);
	if (!c || !index || !c->shards) {
		failed = err_set(e, ENOMEM, "%s: out of memory for its list of files", directory);
	} else if (!access(index, F_OK)) {
		failed = open_sharded(c, directory, index, e);
	} else {
		failed = open_shard(c, directory, "model.safetensors", e);
		if (!failed)
			failed = sort_tensors(c, e);
	}
	free(index);
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
	for (uint32_t i = 0; i < c->shard_count; i++) {
		if (c->shards[i].fd >= 0)
			close(c->shards[i].fd);
		free(c->shards[i].path);
	}
	free(c->shards);
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
	return bsearch(&key, c->tensors.tensors, c->tensors.count, sizeof key, by_name);
}

int checkpoint_read(const struct checkpoint *c, const struct checkpoint_tensor *t, uint64_t offset,
		    void *buffer, size_t bytes, struct err *e)
{
	const struct shard *s = &c->shards[t->file];
	uint64_t place = checkpoint_place(c, t) + offset;
	int failed = source_file_read(s->fd, buffer, bytes, place, s->path, e);
	if (failed || !c->witness)
		return failed;
	return witness_note(c->witness, t->file, place, bytes, XXH3_64bits(buffer, bytes), e);
}

void checkpoint_set_witness(struct checkpoint *c, struct witness *w)
{
	c->witness = w;
}

uint64_t checkpoint_place(const struct checkpoint *c, const struct checkpoint_tensor *t)
{
	return c->shards[t->file].data_offset + t->offset;
}

/* ---- its files ---- */

uint32_t checkpoint_shards(const struct checkpoint *c)
{
	return c->shard_count;
}

const char *checkpoint_shard_name(const struct checkpoint *c, uint32_t i)
{
	return strrchr(c->shards[i].path, '/') + 1;
}

int checkpoint_shard_stat(const struct checkpoint *c, uint32_t i, struct stat *st, struct err *e)
{
	const struct shard *s = &c->shards[i];
	return fstat(s->fd, st) ? err_sys(e, errno, "%s: cannot be looked at", s->path) : 0;
}
