/* The tensors of a synthetic GGUF file. */
#include "tests/bench/synthetic_gguf.h"
#include "engine/family/gguf_family.h"
#include "engine/source/gguf.h"
#include "tests/bench/bench.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PIECE_BYTES = 1 << 20, ALIGNMENT = 32, NAME_BYTES = 128, VERSION = 3 };

/* ---- mixes ---- */

/* Types as files number them. */
enum { TYPE_F32 = 0, TYPE_Q8_0 = 8, TYPE_Q4_K = 12, TYPE_Q6_K = 14, TYPE_MXFP4 = 39 };

/* `more` is that of values and of what leads out of experts, in layers that are thought to need it;
 * vectors and routers are F32 in all of them. */
struct gguf_mix {
	const char *name;
	uint32_t file_type;
	uint32_t dense, expert, more_dense, more_expert, head;
};

static const struct gguf_mix mixes[] = {
	{"q4_k_m", 15, TYPE_Q4_K, TYPE_Q4_K, TYPE_Q6_K, TYPE_Q6_K, TYPE_Q6_K},
	{"q8_0", 7, TYPE_Q8_0, TYPE_Q8_0, TYPE_Q8_0, TYPE_Q8_0, TYPE_Q8_0},
	{"mxfp4", 38, TYPE_Q8_0, TYPE_MXFP4, TYPE_Q8_0, TYPE_MXFP4, TYPE_Q8_0},
};

const struct gguf_mix *gguf_mix_find(const char *name)
{
	for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++)
		if (!strcmp(mixes[i].name, name))
			return &mixes[i];
	return NULL;
}

/* The first and the last eighth of the layers, and every third between. */
static bool needs_more(uint32_t layer, uint32_t layers)
{
	uint32_t eighth = layers / 8;
	return layer < eighth || layer >= 7 * layers / 8 || (layer - eighth) % 3 == 2;
}

static uint32_t type_of(const struct gguf_mix *m, struct tensor_id id, uint32_t layers)
{
	bool more = needs_more(id.layer, layers);
	switch (id.role) {
	case TENSOR_HEAD:
		return m->head;
	case TENSOR_V:
		return more ? m->more_dense : m->dense;
	case TENSOR_EXPERT_DOWN:
		return more ? m->more_expert : m->expert;
	case TENSOR_EXPERT_GATE:
	case TENSOR_EXPERT_UP:
		return m->expert;
	case TENSOR_ROUTER:
		return TYPE_F32;
	default:
		return tensor_roles[id.role].cols == DIMENSION_NONE ? TYPE_F32 : m->dense;
	}
}

/* ---- blocks ---- */

static void put_half(uint8_t *to, double value)
{
	const uint16_t half = f16_from_f32((float)value);
	memcpy(to, &half, sizeof half);
}

/* Scales of a block whose codes are drawn evenly: weights with that deviation, and 0 in the mean.
 */
static void put_scales(uint8_t *block, uint32_t type, double sigma)
{
	/* Deviations of the codes; and 32 as scale and as offset of all 8 parts of a Q4_K. */
	static const double of_byte = 73.9, of_4_bits = 4.61, of_6_bits = 18.47, of_fp4 = 2.93;
	static const uint8_t scales_of_32[12] = {0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0xa0, 0xa0};
	enum { SCALE = 32, MIDDLE = 15, Q6_SCALES = 192, Q6_PARTS = 16, BIAS = 127 };

	switch (type) {
	case TYPE_Q8_0:
		put_half(block, sigma / of_byte);
		break;
	case TYPE_Q4_K:
		put_half(block, sigma / (SCALE * of_4_bits));
		put_half(block + 2, sigma / (SCALE * of_4_bits) * MIDDLE / 2);
		memcpy(block + 4, scales_of_32, sizeof scales_of_32);
		break;
	case TYPE_Q6_K:
		for (int i = 0; i < Q6_PARTS; i++)
			block[Q6_SCALES + i] = (uint8_t)(i % 2 ? SCALE : -SCALE);
		put_half(block + Q6_SCALES + Q6_PARTS, sigma / (SCALE * of_6_bits));
		break;
	case TYPE_MXFP4:
		block[0] = (uint8_t)(BIAS + lrint(log2(sigma / of_fp4)));
		break;
	default:
		break;
	}
}

/* ---- which tensors, and where ---- */

struct file_tensor {
	struct tensor_id id;
	struct shape shape; /* of one matrix, in F32 */
	const struct gguf_type *type;
	uint32_t experts;	/* as many matrices; 0: one that is not stacked */
	uint64_t offset, bytes; /* in the file's data */
};

struct file {
	const struct synthetic *s;
	const struct gguf_mix *mix;
	const struct synthetic_tables *tables;
	const char *path;
	struct file_tensor *tensors;
	uint32_t count;
	uint64_t base, end; /* where data begins; how much there is */
	int fd;
	pthread_mutex_t lock; /* of error */
	struct err error;     /* the first */
	_Atomic bool failed;
};

static uint64_t row_bytes(const struct file_tensor *t)
{
	return (uint64_t)t->shape.cols / t->type->block * t->type->bytes;
}

static int add_tensor(struct file *f, struct tensor_id id, const struct shape *shape,
		      uint32_t experts, struct err *e)
{
	struct file_tensor *t = &f->tensors[f->count++];
	*t = (struct file_tensor){.id = id, .shape = *shape, .experts = experts};
	t->shape.format = FORMAT_F32;
	t->type = gguf_type_find(type_of(f->mix, id, f->s->config->layers));
	if (!t->type || shape->cols % t->type->block)
		return err_set(e, EINVAL, "rows of %u do not go into blocks of this mix",
			       shape->cols);
	t->offset = f->end;
	t->bytes = row_bytes(t) * shape->rows * (experts ? experts : 1);
	f->end += (t->bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return 0;
}

static int list_tensors(struct file *f, struct err *e)
{
	const struct plan *p = f->s->plan;
	int failed = 0;
	f->tensors = calloc(p->dense_count + (size_t)p->routed_layers * EXPERT_PARTS,
			    sizeof *f->tensors);
	if (!f->tensors)
		return err_set(e, ENOMEM, "out of memory for the list of tensors");
	for (uint32_t i = 0; i < p->dense_count && !failed; i++)
		if (p->dense[i].id.role != TENSOR_HEAD || !f->s->config->tied_head)
			failed = add_tensor(f, p->dense[i].id, &p->dense[i].shape, 0, e);
	for (uint32_t l = 0; l < p->routed_layers; l++)
		for (uint32_t part = p->first_part; part < EXPERT_PARTS && !failed; part++)
			failed = add_tensor(
				f, (struct tensor_id){plan_part_role(part), p->layer_of[l], 0},
				&p->record[l].part[part], p->experts, e);
	return failed;
}

/* ---- the header ---- */

static void write_tensor_head(const struct file *f, const struct file_tensor *t, FILE *to)
{
	struct tensor_name names[FAMILY_ALTERNATIVES];
	char name[NAME_BYTES];
	bool vector = tensor_roles[t->id.role].cols == DIMENSION_NONE;
	uint32_t dims = vector ? 1 : t->experts ? 3 : 2;
	const uint64_t sizes[] = {t->shape.cols, t->shape.rows, t->experts};
	(void)gguf_alternatives(f->s->config->family, t->id.role, names);
	(void)snprintf(name, sizeof name, names[0].name, t->id.layer);
	gguf_write_string(to, name);
	gguf_write_number(to, dims, 4);
	for (uint32_t i = 0; i < dims; i++)
		gguf_write_number(to, sizes[i], 8);
	gguf_write_number(to, t->type->number, 4);
	gguf_write_number(to, t->offset, 8);
}

static int write_at(const struct file *f, const void *data, size_t bytes, uint64_t offset,
		    struct err *e)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = pwrite(f->fd, (const char *)data + done, bytes - done,
				   (off_t)(offset + done));
		if (n <= 0)
			return err_sys(e, n < 0 ? errno : EIO, "%s: cannot be written", f->path);
		done += (size_t)n;
	}
	return 0;
}

static int write_header(struct file *f, struct err *e)
{
	enum { COUNTS = 8 }; /* behind the magic and the version: of tensors, then of keys */
	char *text = NULL;
	size_t bytes = 0;
	uint64_t keys = 0;
	FILE *to = open_memstream(&text, &bytes);
	if (!to)
		return err_set(e, ENOMEM, "out of memory for a header");
	(void)fputs("GGUF", to);
	gguf_write_number(to, VERSION, 4);
	gguf_write_number(to, f->count, 8);
	gguf_write_number(to, 0, 8);
	gguf_write_keys(to, f->s->config, f->mix->file_type, &keys);
	for (uint32_t i = 0; i < f->count; i++)
		write_tensor_head(f, &f->tensors[i], to);
	bool bad = ferror(to);
	bad |= fclose(to) != 0;
	f->base = (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	int failed = bad ? err_set(e, ENOMEM, "out of memory for a header") : 0;
	for (size_t i = 0; i < sizeof keys && !failed; i++)
		text[COUNTS + sizeof keys + i] = (char)(keys >> 8 * i);
	if (!failed)
		failed = write_at(f, text, bytes, 0, e);
	free(text);
	if (!failed && ftruncate(f->fd, (off_t)(f->base + f->end)))
		failed = err_sys(e, errno, "%s: cannot be written", f->path);
	return failed;
}

/* ---- data ---- */

/* `rows` rows of a tensor, whose experts follow each other, from `row` on. */
static void draw_rows(const struct file *f, const struct file_tensor *t, uint64_t sequence,
		      uint32_t row, uint32_t rows, uint8_t *to)
{
	size_t bytes = row_bytes(t) * rows;
	uint64_t state = f->s->seed ^ sequence * UINT64_C(0x9e3779b97f4a7c15);
	if (t->type->number == TYPE_F32) {
		synthetic_draw(f->s, f->tables, sequence, t->id, &t->shape, row, rows, to);
		return;
	}
	for (size_t i = 0; i < bytes; i += sizeof state) {
		const uint64_t word = random_u64(&state);
		memcpy(to + i, &word, bytes - i < sizeof word ? bytes - i : sizeof word);
	}
	for (size_t i = 0; i < bytes; i += t->type->bytes)
		put_scales(to + i, t->type->number, synthetic_sigma(f->s, t->id.role, &t->shape));
}

static int write_tensor(const struct file *f, uint32_t number, uint8_t *buffer, struct err *e)
{
	const struct file_tensor *t = &f->tensors[number];
	uint64_t bytes = row_bytes(t);
	uint32_t piece = bytes < PIECE_BYTES ? (uint32_t)(PIECE_BYTES / bytes) : 1,
		 rows = t->shape.rows * (t->experts ? t->experts : 1);
	int failed = 0;
	for (uint32_t r = 0; r < rows && !failed; r += piece) {
		uint32_t n = rows - r < piece ? rows - r : piece;
		draw_rows(f, t, (uint64_t)number << 32 | r, r, n, buffer);
		failed = write_at(f, buffer, n * bytes, f->base + t->offset + r * bytes, e);
	}
	return failed;
}

static void write_tensors(void *ctx, uint32_t begin, uint32_t end)
{
	struct file *f = ctx;
	struct err e = {0};
	uint8_t *buffer = malloc(PIECE_BYTES > CONFIG_MAX_WIDTH * sizeof(float)
					 ? PIECE_BYTES
					 : CONFIG_MAX_WIDTH * sizeof(float));
	int failed = buffer ? 0 : err_set(&e, ENOMEM, "out of memory for a piece of a tensor");
	for (uint32_t i = begin; i < end && !failed && !atomic_load(&f->failed); i++)
		failed = write_tensor(f, i, buffer, &e);
	free(buffer);
	if (!failed)
		return;
	pthread_mutex_lock(&f->lock);
	if (!atomic_exchange(&f->failed, true))
		f->error = e;
	pthread_mutex_unlock(&f->lock);
}

/* ---- the whole ---- */

static int write_all(struct file *f, struct err *e)
{
	int failed = list_tensors(f, e);
	if (failed)
		return failed;
	f->fd = open(f->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (f->fd < 0)
		return err_sys(e, errno, "%s: cannot be written", f->path);
	failed = write_header(f, e);
	if (!failed)
		threads_run(f->s->threads, f->count, 1, write_tensors, f);
	if (atomic_load(&f->failed)) {
		*e = f->error;
		failed = -e->code;
	}
	if (close(f->fd) && !failed)
		failed = err_sys(e, errno, "%s: cannot be written", f->path);
	return failed;
}

int synthetic_write_gguf(const struct synthetic *s, const struct gguf_mix *mix, const char *path,
			 uint64_t *bytes, struct err *e)
{
	struct file f = {.s = s, .mix = mix, .path = path};
	const struct gguf_family *family = s->config->family->gguf;
	if (!family || strcmp(family->architecture, "qwen3moe") != 0)
		return err_set(e, ENOTSUP,
			       "only models of the family qwen3_moe can be written as "
			       "a GGUF file");
	struct synthetic_tables *tables = synthetic_tables_new();
	if (!tables)
		return err_set(e, ENOMEM, "out of memory for tables");
	f.tables = tables;
	pthread_mutex_init(&f.lock, NULL);
	int failed = write_all(&f, e);
	pthread_mutex_destroy(&f.lock);
	free(f.tensors);
	free(tables);
	*bytes = f.base + f.end;
	return failed;
}
