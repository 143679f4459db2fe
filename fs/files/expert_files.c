/* experts/: a folder for each layer, a file for each expert, and two tables of all experts.
 *
 * Attributes show which experts are in memory or on the GPU, when each was used and which are
 * pinned; chmod +t pins; extended attributes have the counters. Verbs by patterns are in
 * expert_ctl.c, the router's trace in trace.c.
 *
 * Looking loads nothing, does not count as a use, and never waits: attributes and tables are read
 * from atomics (model_expert_inspect), and a worker reads a file's bytes from the store on disk. A
 * pin is a mark; the cache reads the expert in the background. */
#include "fs/files/facts.h"
#include "fs/files/files.h"
#include "fs/mount/handle.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

/* Prints the number again and compares, so that 7 or 007 is not another name for 07. */
bool expert_number(const char *name, int digits, uint32_t below, uint32_t *number)
{
	char printed[16];
	unsigned long value = strtoul(name, NULL, 10);
	*number = (uint32_t)value;
	(void)snprintf(printed, sizeof printed, "%0*" PRIu32, digits, *number);
	return value < below && strcmp(name, printed) == 0;
}

static uint64_t expert_layer_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	if (after >= model_layers(folder->model->model))
		return 0;
	(void)snprintf(name, NAME_SIZE, "%0*" PRIu64, LAYER_DIGITS, after);
	return after + 1;
}

static uint64_t expert_layer_find(const struct node *folder, const char *name)
{
	uint32_t layer;
	return expert_number(name, LAYER_DIGITS, model_layers(folder->model->model), &layer)
		       ? (uint64_t)layer + 1
		       : 0;
}

static void expert_layer_bind(struct node *child, uint64_t member)
{
	child->layer = (uint32_t)member - 1;
}

const struct row_family expert_layer_family = {expert_layer_next, expert_layer_find,
					       expert_layer_bind};

static uint64_t expert_next(const struct node *folder, uint64_t after, char name[NAME_SIZE])
{
	if (after >= model_experts(folder->model->model, folder->layer))
		return 0;
	(void)snprintf(name, NAME_SIZE, "%0*" PRIu64, EXPERT_DIGITS, after);
	return after + 1;
}

static uint64_t expert_find(const struct node *folder, const char *name)
{
	uint32_t expert, count = model_experts(folder->model->model, folder->layer);
	return expert_number(name, EXPERT_DIGITS, count, &expert) ? (uint64_t)expert + 1 : 0;
}

static void expert_bind(struct node *child, uint64_t member)
{
	child->item = (uint32_t)member - 1;
}

const struct row_family expert_family = {expert_next, expert_find, expert_bind};

/* ---- tables ---- */

uint64_t expert_uses(const struct model_expert *x)
{
	return x->hits + x->misses;
}

unsigned expert_heat(uint64_t used, uint64_t most)
{
	unsigned step = 0;
	while (step < 9 && used < most) {
		used = used > UINT64_MAX / 2 ? UINT64_MAX : 2 * used;
		step++;
	}
	return 9 - step;
}

static char expert_map_character(const struct model_expert *x, uint64_t most)
{
	unsigned heat = expert_heat(expert_uses(x), most);
	if (x->on_gpu)
		return (char)('A' + heat);
	if (x->resident)
		return (char)('0' + heat);
	return expert_uses(x) ? (char)('a' + heat) : '.';
}

uint64_t expert_most_used(const struct model *m)
{
	struct model_expert x;
	uint64_t most = 1;
	for (uint32_t l = 0; l < model_layers(m); l++)
		for (uint32_t i = 0; i < model_experts(m, l); i++) {
			model_expert_inspect(m, l, i, &x);
			most = expert_uses(&x) > most ? expert_uses(&x) : most;
		}
	return most;
}

void expert_map_render(const struct node *n, struct text *out)
{
	const struct model *m = n->model->model;
	struct model_expert x;
	uint64_t most = expert_most_used(m);
	for (uint32_t l = 0; l < model_layers(m); l++) {
		text_format(out, "%0*" PRIu32 " ", LAYER_DIGITS, l);
		for (uint32_t i = 0; i < model_experts(m, l); i++) {
			model_expert_inspect(m, l, i, &x);
			char mark = expert_map_character(&x, most);
			text_add(out, &mark, 1);
		}
		text_string(out, "\n");
	}
}

void expert_stats_list(const struct node *n, struct facts *f)
{
	static const struct fact_column columns[] = {
		{"layer", 2}, {"expert", 3}, {"resident", 1},	{"pinned", 1},
		{"hits", 1},  {"misses", 1}, {"last_token", 1}, {"on_gpu", 1},
		{"gpu_pinned", 1},
	};
	enum { COLUMNS = sizeof columns / sizeof *columns };
	const struct model *m = n->model->model;
	facts_table(f, columns, COLUMNS);
	for (uint32_t l = 0; l < model_layers(m); l++)
		for (uint32_t i = 0; i < model_experts(m, l); i++) {
			struct model_expert x;
			model_expert_inspect(m, l, i, &x);
			const uint64_t row[COLUMNS] = {
				l,	i,	  x.resident,	x.pinned,    x.hits,
				x.misses, x.last_token, x.on_gpu, x.gpu_pinned,
			};
			facts_row(f, columns, COLUMNS, row);
		}
}

/* ---- an expert's bytes ---- */

static int64_t expert_read(const struct handle *h, uint64_t offset, void *buffer, size_t bytes,
			   struct err *e)
{
	const struct node *n = &h->node;
	return model_expert_read(n->model->model, n->layer, n->item, offset, buffer, bytes, e);
}

static uint64_t expert_size(const struct node *n)
{
	return model_expert_bytes(n->model->model, n->layer);
}

const struct file_ops expert_ops = {
	.read_in_worker = expert_read,
	.size = expert_size,
};

/* ---- attributes and pins ---- */

static void expert_inspect(const struct node *n, struct model_expert *x)
{
	model_expert_inspect(n->model->model, n->layer, n->item, x);
}

static void expert_inspect_layer(const struct node *n, struct model_layer *l)
{
	model_layer_inspect(n->model->model, n->layer, l);
}

/* last_used: CLOCK_REALTIME, nanoseconds; 0: never used, and the time stays unchanged. */
static void expert_set_atime(struct stat *st, uint64_t last_used)
{
	if (last_used)
		st->st_atim = (struct timespec){(time_t)(last_used / 1000000000U),
						(long)(last_used % 1000000000U)};
}

static void expert_attr(const struct node *n, struct stat *st)
{
	struct model_expert x;
	expert_inspect(n, &x);
	st->st_blocks = (blkcnt_t)((x.bytes + x.gpu_bytes + 511) / 512);
	st->st_mode |= x.pinned ? S_ISVTX : 0;
	expert_set_atime(st, x.last_used);
}

static void expert_layer_attr(const struct node *n, struct stat *st)
{
	struct model_layer l;
	expert_inspect_layer(n, &l);
	st->st_mode |= l.experts && l.pinned == l.experts ? S_ISVTX : 0;
	expert_set_atime(st, l.last_used);
}

/* Pins or unpins `count` experts of the layer. Only the sticky bit may change. */
static int expert_set_sticky(const struct node *n, mode_t mode, mode_t changed, uint32_t first,
			     uint32_t count, struct err *e)
{
	if (changed != S_ISVTX)
		return err_set(e, EPERM,
			       "the modes of experts cannot be changed, except for the sticky bit: "
			       "chmod +t pins, chmod -t unpins");
	if (count == 0)
		return err_set(e, EPERM,
			       "experts/%02" PRIu32 ": this layer is dense and has no experts to "
			       "pin",
			       n->layer);
	struct pager_id *ids = calloc(count, sizeof *ids);
	if (!ids)
		return err_set(e, ENOMEM, "no memory for a list of %" PRIu32 " experts", count);
	for (uint32_t i = 0; i < count; i++)
		ids[i] = (struct pager_id){n->layer, first + i};
	int code = mode & S_ISVTX ? model_experts_pin(n->model->model, ids, count, e)
				  : model_experts_unpin(n->model->model, ids, count, e);
	free(ids);
	return code;
}

static int expert_chmod(const struct node *n, mode_t mode, mode_t changed, struct err *e)
{
	return expert_set_sticky(n, mode, changed, n->item, 1, e);
}

static int expert_layer_chmod(const struct node *n, mode_t mode, mode_t changed, struct err *e)
{
	return expert_set_sticky(n, mode, changed, 0, model_experts(n->model->model, n->layer), e);
}

/* ---- extended attributes ---- */

#define NUMBER(function, of, looks, field)                           \
	static void function(const struct node *n, struct text *out) \
	{                                                            \
		struct of x;                                         \
		looks(n, &x);                                        \
		text_format(out, "%" PRIu64, (uint64_t)x.field);     \
	}
NUMBER(expert_resident, model_expert, expert_inspect, resident)
NUMBER(expert_pinned, model_expert, expert_inspect, pinned)
NUMBER(expert_bytes, model_expert, expert_inspect, bytes)
NUMBER(expert_hits, model_expert, expert_inspect, hits)
NUMBER(expert_misses, model_expert, expert_inspect, misses)
NUMBER(expert_last_token, model_expert, expert_inspect, last_token)
NUMBER(expert_gpu_pinned, model_expert, expert_inspect, gpu_pinned)
NUMBER(expert_gpu_bytes, model_expert, expert_inspect, gpu_bytes)
NUMBER(expert_layer_experts, model_layer, expert_inspect_layer, experts)
NUMBER(expert_layer_resident, model_layer, expert_inspect_layer, resident)
NUMBER(expert_layer_pinned, model_layer, expert_inspect_layer, pinned)
NUMBER(expert_layer_bytes, model_layer, expert_inspect_layer, bytes)
NUMBER(expert_layer_on_gpu, model_layer, expert_inspect_layer, on_gpu)
NUMBER(expert_layer_gpu_bytes, model_layer, expert_inspect_layer, gpu_bytes)
NUMBER(expert_layer_hits, model_layer, expert_inspect_layer, hits)
NUMBER(expert_layer_misses, model_layer, expert_inspect_layer, misses)

static void expert_inspect_model(const struct node *n, struct pager_stats *s)
{
	model_cache_stats(n->model->model, s);
}
NUMBER(expert_model_resident, pager_stats, expert_inspect_model, experts_resident)
NUMBER(expert_model_pinned_bytes, pager_stats, expert_inspect_model, pinned)
NUMBER(expert_model_bytes, pager_stats, expert_inspect_model, used)
NUMBER(expert_model_misses, pager_stats, expert_inspect_model, misses)

static void expert_inspect_gpu(const struct node *n, struct model_gpu *g)
{
	model_gpu_inspect(n->model->model, g);
}
NUMBER(expert_model_on_gpu, model_gpu, expert_inspect_gpu, experts)
NUMBER(expert_model_gpu_bytes, model_gpu, expert_inspect_gpu, bytes)

/* In main memory and on the GPU. */
static void expert_model_hits(const struct node *n, struct text *out)
{
	struct pager_stats here;
	struct model_gpu there;
	expert_inspect_model(n, &here);
	expert_inspect_gpu(n, &there);
	text_format(out, "%" PRIu64, here.hits + there.hits);
}

/* The fastest of the places where the expert is. */
static void expert_tier(const struct node *n, struct text *out)
{
	struct model_expert x;
	expert_inspect(n, &x);
	text_string(out, x.on_gpu ? "gpu" : x.resident ? "memory" : "disk");
}

/* Appends a fact of the model, cut at 255 bytes. */
static void expert_model_fact(const struct node *n, enum model_fact number, struct text *out)
{
	char text[256];
	(void)model_fact(n->model->model, number, text, sizeof text);
	text_string(out, text);
}

static void expert_format(const struct node *n, struct text *out)
{
	expert_model_fact(n, FACT_FORMAT, out);
}

static void expert_model_state(const struct node *n, struct text *out)
{
	expert_model_fact(n, FACT_STATE, out);
}

static const struct xattr expert_xattrs[] = {
	{"tier", expert_tier},
	{"resident", expert_resident},
	{"pinned", expert_pinned},
	{"bytes", expert_bytes},
	{"gpu_pinned", expert_gpu_pinned},
	{"gpu_bytes", expert_gpu_bytes},
	{"hits", expert_hits},
	{"misses", expert_misses},
	{"last_token", expert_last_token},
	{"format", expert_format},
	{0},
};
static const struct xattr expert_layer_xattrs[] = {
	{"experts", expert_layer_experts},
	{"resident", expert_layer_resident},
	{"pinned", expert_layer_pinned},
	{"bytes", expert_layer_bytes},
	{"on_gpu", expert_layer_on_gpu},
	{"gpu_bytes", expert_layer_gpu_bytes},
	{"hits", expert_layer_hits},
	{"misses", expert_layer_misses},
	{0},
};
static const struct xattr expert_model_xattrs[] = {
	{"state", expert_model_state},
	{"format", expert_format},
	{"resident", expert_model_resident},
	{"pinned_bytes", expert_model_pinned_bytes},
	{"bytes", expert_model_bytes},
	{"on_gpu", expert_model_on_gpu},
	{"gpu_bytes", expert_model_gpu_bytes},
	{"hits", expert_model_hits},
	{"misses", expert_model_misses},
	{0},
};

const struct row_hooks expert_hooks = {
	.attr = expert_attr, .chmod = expert_chmod, .xattrs = expert_xattrs};
const struct row_hooks expert_layer_hooks = {
	.attr = expert_layer_attr, .chmod = expert_layer_chmod, .xattrs = expert_layer_xattrs};
const struct row_hooks expert_model_hooks = {.xattrs = expert_model_xattrs};
