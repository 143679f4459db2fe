/* A synthetic checkpoint as published ones are: BF16, in shards, with an index. Experts and
 * projections are written one by one where a family has them stacked or fused, too: mounting takes
 * both. */
#include "engine/family/family.h"
#include "tests/bench/synthetic.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const uint64_t shard_bytes = UINT64_C(4) << 30;
enum { PIECE_BYTES = 1 << 20 };

struct raw_tensor {
	struct tensor_id id;
	struct shape shape;
	uint64_t offset, bytes; /* in its shard's data */
	uint32_t shard;
};

struct raw {
	const struct synthetic *s;
	const char *directory;
	const struct synthetic_tables *tables;
	struct raw_tensor *tensors;
	uint32_t count, shards;

	/* The shard being written: */
	int fd;
	uint64_t base; /* where its data begins */
	uint32_t first;
	pthread_mutex_t lock; /* of error */
	struct err error;     /* the first */
	_Atomic bool failed;
};

/* ---- which tensors, and where ---- */

static void add_tensor(struct raw *w, struct tensor_id id, const struct shape *shape)
{
	struct raw_tensor *t = &w->tensors[w->count], *before = t - 1;
	*t = (struct raw_tensor){.id = id, .shape = *shape};
	t->shape.format = FORMAT_BF16;
	t->bytes = format_packed_bytes(&t->shape);
	if (w->count++ > 0) {
		t->shard = before->shard;
		t->offset = before->offset + before->bytes;
	}
	if (t->offset > 0 && t->offset + t->bytes > shard_bytes) {
		t->shard++;
		t->offset = 0;
	}
	w->shards = t->shard + 1;
}

static int list_tensors(struct raw *w, struct err *e)
{
	const struct plan *p = w->s->plan;
	size_t most = p->dense_count + (size_t)p->routed_layers * p->experts * EXPERT_PARTS;
	w->tensors = calloc(most, sizeof *w->tensors);
	if (!w->tensors)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (p->dense[i].id.role != TENSOR_HEAD || !w->s->config->tied_head)
			add_tensor(w, p->dense[i].id, &p->dense[i].shape);
	for (uint32_t l = 0; l < p->routed_layers; l++)
		for (uint32_t x = 0; x < p->experts; x++)
			for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++)
				add_tensor(
					w,
					(struct tensor_id){plan_part_role(part), p->layer_of[l], x},
					&p->record[l].part[part]);
	return 0;
}

/* ---- texts ---- */

static void shard_name(const struct raw *w, uint32_t shard, char name[64])
{
	(void)snprintf(name, 64, "model-%05u-of-%05u.safetensors", shard + 1, w->shards);
}

static bool tensor_name(const struct raw *w, const struct raw_tensor *t, char name[256])
{
	return family_store_name(w->s->config, t->id, name, 256);
}

/* The shape of a tensor of that name in a checkpoint: that which is tried first. */
static void published_shape(const struct config *c, struct tensor_id id, const char *name,
			    struct view *v)
{
	struct tensor_name names[FAMILY_ALTERNATIVES];
	char other[256];
	uint32_t count = family_alternatives(c->family, id.role, names), i = 0;
	while (i + 1 < count &&
	       (!family_tensor_name(c, names[i].name, "model.", id, other, sizeof other) ||
		strcmp(other, name) != 0))
		i++;
	if (names[i].view)
		names[i].view(v, c, id.expert);
	else
		view_whole(v, c, id.role, id.layer);
}

static void write_tensor_head(const struct raw *w, const struct raw_tensor *t, FILE *f)
{
	char name[256] = "";
	struct view v;
	(void)tensor_name(w, t, name);
	published_shape(w->s->config, t->id, name, &v);
	(void)fprintf(f, "\"%s\":{\"dtype\":\"BF16\",\"shape\":", name);
	for (uint32_t i = 0; i < v.dims; i++)
		(void)fprintf(f, "%c%" PRIu64, i ? ',' : '[', v.shape[i]);
	(void)fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", t->offset,
		      t->offset + t->bytes);
}

/* The shard's head, as safetensors has it: its length and JSON, padded to a multiple of 8. */
static int write_head(struct raw *w, uint32_t end, struct err *e)
{
	char *text = NULL;
	size_t bytes = 0;
	uint8_t length[8];
	FILE *f = open_memstream(&text, &bytes);
	for (uint32_t i = w->first; f && i < end; i++) {
		(void)fputc(i > w->first ? ',' : '{', f);
		write_tensor_head(w, &w->tensors[i], f);
	}
	if (!f || fputc('}', f) < 0 || fclose(f)) {
		free(text);
		return err_set(e, ENOMEM, "out of memory for a shard's header");
	}
	for (size_t i = 0; i < sizeof length; i++)
		length[i] = (uint8_t)((uint64_t)bytes >> 8 * i);
	w->base = sizeof length + bytes;
	bool written = pwrite(w->fd, length, sizeof length, 0) == sizeof length &&
		       pwrite(w->fd, text, bytes, sizeof length) == (ssize_t)bytes;
	free(text);
	return written ? 0 : err_sys(e, errno, "%s: cannot write a shard", w->directory);
}

static int write_index(const struct raw *w, struct err *e)
{
	char *path, name[256], shard[64];
	if (asprintf(&path, "%s/model.safetensors.index.json", w->directory) < 0)
		return err_set(e, ENOMEM, "out of memory for the name of a file");
	FILE *f = fopen(path, "we");
	bool bad = !f;
	for (uint32_t i = 0; i < w->count && f; i++) {
		shard_name(w, w->tensors[i].shard, shard);
		bad |= !tensor_name(w, &w->tensors[i], name);
		bad |= fprintf(f, "%s\"%s\":\"%s\"", i ? ",\n" : "{\"weight_map\":{\n", name,
			       shard) < 0;
	}
	bad |= f && fputs("}}\n", f) < 0;
	bad |= f && fclose(f);
	int failed = bad ? err_sys(e, errno, "%s: cannot be written", path) : 0;
	free(path);
	return failed;
}

/* ---- data ---- */

static int write_at(const struct raw *w, const uint8_t *data, size_t bytes, uint64_t offset,
		    struct err *e)
{
	while (bytes > 0) {
		ssize_t n = pwrite(w->fd, data, bytes, (off_t)offset);
		if (n <= 0)
			return err_sys(e, n < 0 ? errno : EIO, "%s: cannot write a shard",
				       w->directory);
		data += n;
		bytes -= (size_t)n;
		offset += (uint64_t)n;
	}
	return 0;
}

static int write_tensor(const struct raw *w, uint32_t number, uint8_t *buffer, struct err *e)
{
	const struct raw_tensor *t = &w->tensors[number];
	uint64_t row = t->bytes / t->shape.rows;
	uint32_t piece = (uint32_t)(PIECE_BYTES / row);
	int failed = 0;
	for (uint32_t r = 0; r < t->shape.rows && !failed; r += piece) {
		uint32_t n = t->shape.rows - r < piece ? t->shape.rows - r : piece;
		synthetic_draw(w->s, w->tables, (uint64_t)number << 32 | r, t->id, &t->shape, r, n,
			       buffer);
		failed = write_at(w, buffer, n * row, w->base + t->offset + r * row, e);
	}
	return failed;
}

static void write_tensors(void *ctx, uint32_t begin, uint32_t end)
{
	struct raw *w = ctx;
	struct err e = {0};
	uint8_t *buffer = malloc(PIECE_BYTES);
	int failed = buffer ? 0 : err_set(&e, ENOMEM, "out of memory for a piece of a tensor");
	for (uint32_t i = begin; i < end && !failed && !atomic_load(&w->failed); i++)
		failed = write_tensor(w, w->first + i, buffer, &e);
	free(buffer);
	if (!failed)
		return;
	pthread_mutex_lock(&w->lock);
	if (!atomic_exchange(&w->failed, true))
		w->error = e;
	pthread_mutex_unlock(&w->lock);
}

static int write_shard(struct raw *w, uint32_t shard, struct err *e)
{
	char *path, name[64];
	uint32_t end = w->first;
	while (end < w->count && w->tensors[end].shard == shard)
		end++;
	shard_name(w, shard, name);
	if (asprintf(&path, "%s/%s", w->directory, name) < 0)
		return err_set(e, ENOMEM, "out of memory for the name of a file");
	w->fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int failed = w->fd < 0 ? err_sys(e, errno, "%s: cannot be written", path) : 0;
	free(path);
	if (failed)
		return failed;
	failed = write_head(w, end, e);
	if (!failed)
		threads_run(w->s->threads, end - w->first, 1, write_tensors, w);
	if (close(w->fd) && !failed)
		failed = err_sys(e, errno, "%s: cannot write a shard", w->directory);
	if (!failed && atomic_load(&w->failed)) {
		*e = w->error;
		failed = -e->code;
	}
	w->first = end;
	return failed;
}

int synthetic_write_raw(const struct synthetic *s, const char *directory, struct err *e)
{
	struct synthetic_tables *tables = synthetic_tables_new();
	struct raw w = {.s = s, .directory = directory, .tables = tables};
	int failed = tables ? list_tensors(&w, e) : err_set(e, ENOMEM, "out of memory for tables");
	pthread_mutex_init(&w.lock, NULL);
	for (uint32_t i = 0; i < w.shards && !failed; i++)
		failed = write_shard(&w, i, e);
	if (!failed)
		failed = write_index(&w, e);
	pthread_mutex_destroy(&w.lock);
	free(w.tensors);
	free(tables);
	return failed;
}
