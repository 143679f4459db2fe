#include "engine/convert/store_header.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What finish() ends with a brace. */
static const char coded_head[] =
	"{\"__metadata__\":{\"format\":\"moefs coded experts\",\"codec\":\"zstd\",\"note\":"
	"\"private to moefs: each record is split into byte planes, compressed, and found by the "
	"file named index; -o codec=none makes a store that other tools can read\"}";

static const char *const float_types[FORMAT_COUNT] = {
	[FORMAT_F32] = "F32", [FORMAT_F16] = "F16", [FORMAT_BF16] = "BF16"};

static const char *norm_type(enum norm_type norms)
{
	static const char *const types[] = {
		[NORM_F16] = "F16", [NORM_F32] = "F32", [NORM_BF16] = "BF16"};
	return types[norms];
}

/* The pieces of what is not TQ, as those who publish such weights have them; GGUF's blocks, which
 * nobody publishes so, under the names of their formats. */
static struct store_piece block_piece(const struct shape *s, uint32_t piece)
{
	static const char *const affine[] = {".weight", ".scales", ".biases"};
	uint64_t row_bytes = plan_piece_bytes(s, piece) / s->rows;
	if (format_affine_bits(s->format))
		return piece ? (struct store_piece){affine[piece],
						    norm_type(s->norms),
						    true,
						    {s->rows, s->cols / s->group}}
			     : (struct store_piece){
				       affine[0], "U32", true, {s->rows, row_bytes / 4}};
	if (s->format == FORMAT_MXFP4)
		return piece ? (struct store_piece){"_scales", "U8", false, {s->rows, row_bytes}}
			     : (struct store_piece){
				       "_blocks", "U8", false, {s->rows, row_bytes / 16, 16}};
	return (struct store_piece){format_name(s->format), "U8", false, {s->rows, row_bytes}};
}

struct store_piece store_piece(const struct shape *s, uint32_t piece)
{
	uint64_t groups = tq_groups(s->cols);
	if (format_is_block(s->format))
		return block_piece(s, piece);
	if (!format_is_tq(s->format))
		return (struct store_piece){"", float_types[s->format], false, {s->rows, s->cols}};
	bool trellis = format_is_trellis(s->format);
	if (piece)
		return (struct store_piece){trellis ? ".tc_norms" : ".tq_norms",
					    norm_type(s->norms),
					    false,
					    {s->rows, groups}};
	return (struct store_piece){trellis ? ".tc_packed" : ".tq_packed",
				    "U8",
				    false,
				    {s->rows * groups, plan_piece_bytes(s, 0) / s->rows / groups}};
}

void store_piece_name(const struct config *c, struct tensor_id id, const struct store_piece *p,
		      char *name, size_t size)
{
	static const char weight[] = ".weight";
	const size_t k = sizeof weight - 1;
	name[0] = 0;
	(void)config_store_name(c, id, name, size);
	size_t n = strlen(name);
	if (p->of_module && n > k && !strcmp(name + n - k, weight))
		n -= k;
	/* "q4_k" is a name of ours; all others begin with what separates them. */
	const char *dot = *p->ending && *p->ending != '.' && *p->ending != '_' ? "." : "";
	(void)snprintf(name + n, size - n, "%s%s", dot, p->ending);
}

static void add_entry(FILE *f, const char *name, const struct store_piece *p, bool vector,
		      uint64_t begin, uint64_t end)
{
	/* Names are patterns of ours with numbers in them: nothing in them needs escaping. */
	(void)fprintf(f, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[", ftell(f) > 8 ? ',' : '{', name,
		      p->type);
	if (!vector)
		(void)fprintf(f, "%" PRIu64 ",", p->shape[0]);
	(void)fprintf(f, "%" PRIu64, p->shape[1]);
	if (p->shape[2])
		(void)fprintf(f, ",%" PRIu64, p->shape[2]);
	(void)fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, end);
}

/* One tensor at `offset`; returns the offset after it. */
static uint64_t add_tensor(FILE *f, const struct config *c, struct tensor_id id,
			   const struct shape *s, uint64_t offset)
{
	bool vector = tensor_roles[id.role].cols == DIMENSION_NONE;
	for (uint32_t i = 0; i < PLAN_PIECES && plan_piece_bytes(s, i); i++) {
		char name[STORE_NAME_BYTES];
		const struct store_piece p = store_piece(s, i);
		uint64_t end = offset + plan_piece_bytes(s, i);
		store_piece_name(c, id, &p, name, sizeof name);
		add_entry(f, name, &p, vector, offset, end);
		offset = end;
	}
	return offset;
}

/* Ends the head that f has collected: padding, and the length in the 8 bytes left for it. */
static int finish(FILE *f, char **text, size_t *bytes, struct err *e)
{
	if (ftell(f) == 8)
		(void)fputc('{', f);
	(void)fputc('}', f);
	while (ftell(f) % STORE_ALIGN)
		(void)fputc(' ', f);
	bool bad = ferror(f);
	if (fclose(f) || bad)
		return err_set(e, ENOMEM, "out of memory for the store's header");
	uint64_t length = *bytes - 8;
	for (int i = 0; i < 8; i++)
		(*text)[i] = (char)(length >> 8 * i & 0xff);
	return 0;
}

static FILE *begin(char **text, size_t *bytes)
{
	FILE *f = open_memstream(text, bytes);
	if (f)
		(void)fwrite("\0\0\0\0\0\0\0\0", 8, 1, f);
	return f;
}

static int make_experts(struct store_headers *h, const struct config *c, const struct plan *p,
			struct err *e)
{
	FILE *f = begin(&h->experts, &h->experts_bytes);
	if (!f)
		return err_set(e, ENOMEM, "out of memory for the store's header");
	uint64_t offset = 0;
	if (p->recipe.codec == CODEC_ZSTD) {
		(void)fputs(coded_head, f);
		return finish(f, &h->experts, &h->experts_bytes, e);
	}
	for (uint32_t layer = 0; layer < p->routed_layers; layer++)
		for (uint32_t x = 0; x < p->experts; x++)
			for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
				struct tensor_id id = {plan_part_role(part), p->layer_of[layer], x};
				offset = add_tensor(f, c, id, &p->record[layer].part[part], offset);
			}
	return finish(f, &h->experts, &h->experts_bytes, e);
}

static int make_dense(struct store_headers *h, const struct config *c, const struct plan *p,
		      struct err *e)
{
	FILE *f = begin(&h->dense, &h->dense_bytes);
	if (!f)
		return err_set(e, ENOMEM, "out of memory for the store's header");
	for (uint32_t i = 0; i < p->dense_count; i++)
		add_tensor(f, c, p->dense[i].id, &p->dense[i].shape, p->dense[i].offset);
	return finish(f, &h->dense, &h->dense_bytes, e);
}

int store_headers_make(struct store_headers *h, const struct config *c, const struct plan *p,
		       struct err *e)
{
	*h = (struct store_headers){0};
	int failed = make_experts(h, c, p, e);
	if (!failed)
		failed = make_dense(h, c, p, e);
	if (failed)
		store_headers_free(h);
	return failed;
}

void store_headers_free(struct store_headers *h)
{
	free(h->experts);
	free(h->dense);
	*h = (struct store_headers){0};
}

int store_describe(struct store_plan *out, struct store_headers *h, const struct config *c,
		   const struct plan *p, const uint64_t fingerprint[2], struct err *e)
{
	int failed = store_headers_make(h, c, p, e);
	if (failed)
		return failed;
	*out = (struct store_plan){
		.key = {.fingerprint = {fingerprint[0], fingerprint[1]}},
		.layout = plan_layout(p),
		.experts_header = h->experts,
		.experts_header_bytes = h->experts_bytes,
		.dense_header = h->dense,
		.dense_header_bytes = h->dense_bytes,
	};
	recipe_to_text(&p->recipe, out->key.recipe, sizeof out->key.recipe);
	return 0;
}

int store_held_to_plan(const struct store *s, const struct plan *p, struct err *e)
{
	const struct store_layout layout = plan_layout(p);
	return store_check(s, &layout, e);
}
