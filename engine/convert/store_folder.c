#include "engine/convert/store_folder.h"
#include "cache/io.h"
#include "cache/store_files.h"
#include "engine/family/family.h"
#include "engine/json/json.h"
#include "engine/source/source_file.h"
#include "kernels/block.h"
#include "kernels/tq.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 288 };
enum { FILE_MOST_BYTES = 1 << 28 }; /* largest tokenizer or config file to copy */

/* ---- a stored matrix as tensors of a header ---- */

/* A piece of a stored matrix in a header. */
struct store_piece {
	const char *ending; /* of its name */
	const char *type;
	bool of_module;	   /* the ending replaces the name's .weight */
	uint64_t shape[3]; /* last 0: two dimensions */
};

static const char *store_norm_type(enum norm_type norms)
{
	static const char *const types[] = {
		[NORM_F16] = "F16", [NORM_F32] = "F32", [NORM_BF16] = "BF16"};
	return types[norms];
}

static struct store_piece store_piece(const struct shape *s, uint32_t piece)
{
	static const char *const floats[FORMAT_COUNT] = {
		[FORMAT_F32] = "F32", [FORMAT_F16] = "F16", [FORMAT_BF16] = "BF16"};
	static const char *const affine[] = {".weight", ".scales", ".biases"};
	static const char *const coded[][2] = {{".tq_packed", ".tq_norms"},
					       {".tc_packed", ".tc_norms"}};
	uint64_t row_bytes = plan_piece_bytes(s, piece) / s->rows, groups = tq_groups(s->cols);
	const char *norms = store_norm_type(s->norms);
	if (format_affine_bits(s->format))
		return piece ? (struct store_piece){affine[piece],
						    norms,
						    true,
						    {s->rows, s->cols / s->group}}
			     : (struct store_piece){
				       affine[0], "U32", true, {s->rows, row_bytes / 4}};
	if (s->format == FORMAT_MXFP4)
		return piece ? (struct store_piece){"_scales", "U8", false, {s->rows, row_bytes}}
			     : (struct store_piece){
				       "_blocks", "U8", false, {s->rows, row_bytes / 16, 16}};
	if (format_is_block(s->format)) /* GGUF's */
		return (struct store_piece){
			format_name(s->format), "U8", false, {s->rows, row_bytes}};
	if (!format_is_tq(s->format))
		return (struct store_piece){"", floats[s->format], false, {s->rows, s->cols}};
	const char *ending = coded[format_is_trellis(s->format)][piece];
	return piece ? (struct store_piece){ending, norms, false, {s->rows, groups}}
		     : (struct store_piece){
			       ending, "U8", false, {s->rows * groups, row_bytes / groups}};
}

static void store_piece_name(const struct config *c, struct tensor_id id,
			     const struct store_piece *p, char name[NAME_BYTES])
{
	name[0] = 0;
	(void)family_store_name(c, id, name, NAME_BYTES);
	size_t stem = p->of_module ? source_stem(name, ".weight") : 0;
	size_t n = stem ? stem : strlen(name);
	/* A format's name ("q4_k") needs a dot; all other endings begin with their separator. */
	const char *dot = *p->ending && *p->ending != '.' && *p->ending != '_' ? "." : "";
	(void)snprintf(name + n, NAME_BYTES - n, "%s%s", dot, p->ending);
}

/* ---- headers ---- */

/* store_header_end adds the last brace. */
static const char coded_header[] =
	"{\"__metadata__\":{\"format\":\"moefs coded experts\",\"codec\":\"zstd\",\"note\":"
	"\"private to moefs: each record is split into byte planes, compressed, and found by the "
	"file named index; -o codec=none makes a store that other tools can read\"}";

/* Begins a header's text, with 8 bytes for its length. NULL: out of memory. */
static FILE *store_header_begin(char **text, size_t *bytes)
{
	FILE *f = open_memstream(text, bytes);
	if (f)
		(void)fwrite("\0\0\0\0\0\0\0\0", 8, 1, f);
	return f;
}

/* Adds a tensor whose data begins at `offset`; returns where its data ends. */
static uint64_t store_header_add(FILE *f, const struct config *c, struct tensor_id id,
				 const struct shape *s, uint64_t offset)
{
	bool vector = tensor_roles[id.role].cols == DIMENSION_NONE;
	for (uint32_t i = 0; i < PLAN_PIECES && plan_piece_bytes(s, i); i++) {
		char name[NAME_BYTES];
		const struct store_piece p = store_piece(s, i);
		uint64_t end = offset + plan_piece_bytes(s, i);
		store_piece_name(c, id, &p, name);
		/* Names are patterns of this program with numbers, so no escapes are needed. */
		(void)fprintf(f, "%c\"%s\":{\"dtype\":\"%s\",\"shape\":[", ftell(f) > 8 ? ',' : '{',
			      name, p.type);
		if (!vector)
			(void)fprintf(f, "%" PRIu64 ",", p.shape[0]);
		(void)fprintf(f, "%" PRIu64, p.shape[1]);
		if (p.shape[2])
			(void)fprintf(f, ",%" PRIu64, p.shape[2]);
		(void)fprintf(f, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", offset, end);
		offset = end;
	}
	return offset;
}

/* Ends the text: padding, and the length in the first 8 bytes. */
static int store_header_end(FILE *f, char **text, size_t *bytes, struct err *e)
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

int store_headers_make(struct store_headers *h, const struct config *c, const struct plan *p,
		       struct err *e)
{
	*h = (struct store_headers){0};
	FILE *experts = store_header_begin(&h->experts, &h->experts_bytes);
	FILE *dense = store_header_begin(&h->dense, &h->dense_bytes);
	bool coded = p->recipe.codec == CODEC_ZSTD;
	uint64_t offset = 0;
	if (experts && coded)
		(void)fputs(coded_header, experts);
	for (uint32_t i = 0; experts && !coded && i < plan_records(p); i++)
		for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++)
			offset = store_header_add(experts, c, plan_part_id(p, i, part),
						  plan_part_shape(p, i, part), offset);
	for (uint32_t i = 0; dense && i < p->dense_count; i++)
		store_header_add(dense, c, p->dense[i].id, &p->dense[i].shape, p->dense[i].offset);
	int failed =
		experts && dense ? 0 : err_set(e, ENOMEM, "out of memory for the store's header");
	if (experts && store_header_end(experts, &h->experts, &h->experts_bytes, e))
		failed = -ENOMEM;
	if (dense && store_header_end(dense, &h->dense, &h->dense_bytes, e))
		failed = -ENOMEM;
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

int store_check_plan(const struct store *s, const struct plan *p, struct err *e)
{
	const struct store_layout layout = plan_layout(p);
	return store_check(s, &layout, e);
}

/* ---- files that make it a checkpoint ---- */

static int store_write_file(const char *folder, const char *name, const void *bytes, size_t n,
			    struct err *e)
{
	int dir = store_folder_open(folder, e);
	if (dir < 0)
		return dir;
	int fd = store_file_open(dir, folder, name, O_RDWR | O_CREAT | O_TRUNC, e);
	int failed = fd < 0 ? fd : store_file_write(fd, bytes, n, 0, folder, name, e);
	io_close(fd);
	close(dir);
	return failed;
}

/* Copies a file of the source. -ENOENT: the source does not have it. */
static int store_copy_file(const char *folder, const char *source, const char *name, struct err *e)
{
	char *path = source_file_path(source, name, e), *bytes;
	size_t n;
	if (!path)
		return -ENOMEM;
	int failed = json_read_file(&bytes, &n, path, FILE_MOST_BYTES, e);
	free(path);
	if (failed)
		return failed;
	failed = store_write_file(folder, name, bytes, n, e);
	free(bytes);
	return failed;
}

/* Writes a text that was collected in memory. */
static int store_write_text(const char *folder, const char *name, FILE *f, char **text,
			    const size_t *bytes, struct err *e)
{
	bool bad = ferror(f);
	int failed = fclose(f) || bad ? err_set(e, ENOMEM, "out of memory for %s", name)
				      : store_write_file(folder, name, *text, *bytes, e);
	free(*text);
	return failed;
}

static const char index_begin[] = "{\"weight_map\": {";

static void store_index_add(FILE *f, const struct config *c, struct tensor_id id,
			    const struct shape *s, const char *file)
{
	for (uint32_t i = 0; i < PLAN_PIECES && plan_piece_bytes(s, i); i++) {
		char name[NAME_BYTES];
		const struct store_piece p = store_piece(s, i);
		store_piece_name(c, id, &p, name);
		(void)fprintf(f, "%c\n\"%s\": \"%s\"",
			      ftell(f) >= (long)sizeof index_begin ? ',' : ' ', name, file);
	}
}

static int store_write_index(const char *folder, const struct config *c, const struct plan *p,
			     struct err *e)
{
	char *text;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);
	if (!f)
		return err_set(e, ENOMEM, "out of memory for a list of tensors");
	(void)fputs(index_begin, f);
	for (uint32_t i = 0; i < p->dense_count; i++)
		store_index_add(f, c, p->dense[i].id, &p->dense[i].shape, STORE_DENSE);
	for (uint32_t i = 0; i < plan_records(p); i++)
		for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++)
			store_index_add(f, c, plan_part_id(p, i, part), plan_part_shape(p, i, part),
					STORE_EXPERTS);
	(void)fputs("}}\n", f);
	return store_write_text(folder, "model.safetensors.index.json", f, &text, &bytes, e);
}

/* The format of most weights: that of the experts, or of the first matrix if there are no experts.
 * FORMAT_COUNT: no weights have rotated groups. */
static enum format store_usual_format(const struct plan *p)
{
	enum format f = p->routed_layers ? p->record[0].part[0].format : FORMAT_COUNT;
	for (uint32_t i = 0; i < p->dense_count && (f == FORMAT_COUNT || !format_is_tq(f)); i++)
		f = p->dense[i].shape.format;
	return f == FORMAT_COUNT || !format_is_tq(f) ? FORMAT_COUNT : f;
}

/* The part of a tensor's name that is the same in all layers: "self_attn.q_proj". Returns its
 * length. */
static int store_common_part(const char *name, const char **part)
{
	static const char layers[] = "layers.";
	const char *in_layer = strstr(name, layers);
	const char *dot = in_layer ? strchr(in_layer + sizeof layers - 1, '.') : NULL;
	*part = dot ? dot + 1 : name;
	size_t stem = source_stem(*part, ".weight");
	return (int)(stem ? stem : strlen(*part));
}

/* Adds the names of roles with other bits than most, taken from the role's first tensor. */
static void store_add_patterns(FILE *f, const struct config *c, const struct plan *p, uint32_t bits)
{
	bool listed[TENSOR_ROLES] = {false}, any = false;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		uint32_t its = format_tq_bits(t->shape.format);
		char name[NAME_BYTES] = "";
		const char *part;
		if (!its || its == bits || listed[t->id.role] || format_is_trellis(t->shape.format))
			continue;
		(void)family_store_name(c, t->id, name, sizeof name);
		int n = store_common_part(name, &part);
		if (!any)
			(void)fprintf(f, ", \"sensitive_bits\": %u, \"sensitive_patterns\": [",
				      its);
		(void)fprintf(f, "%s\"%.*s\"", any ? ", " : "", n, part);
		any = listed[t->id.role] = true;
	}
	if (any)
		(void)fputc(']', f);
}

/* tq_config.json or tc_config.json. */
static int store_write_config(const char *folder, const struct config *c, const struct plan *p,
			      struct err *e)
{
	char *text;
	size_t bytes;
	enum format format = store_usual_format(p);
	if (format == FORMAT_COUNT)
		return 0;
	uint32_t bits = format_tq_bits(format);
	bool trellis = format_is_trellis(format);
	FILE *f = open_memstream(&text, &bytes);
	if (!f)
		return err_set(e, ENOMEM, "out of memory for tq_config.json");
	(void)fprintf(f,
		      "{\"format\": \"%s_native\", \"bits\": %u, \"group_size\": %d, "
		      "\"quantizer_seed\": 42, \"original_model\": \"%s\"",
		      format_name(format), bits, TQ_GROUP, c->model_type);
	if (trellis) /* each tensor's size tells its bits */
		(void)fputs(", \"version\": 1", f);
	else
		store_add_patterns(f, c, p, bits);
	(void)fputs("}\n", f);
	return store_write_text(folder, trellis ? "tc_config.json" : "tq_config.json", f, &text,
				&bytes, e);
}

/* Whether it is a format of MLX or GGUF that moefs's own recipes do not use. Such a store is not
 * made a checkpoint: it would need another config.json, or has none. */
static bool store_is_foreign(enum format f)
{
	return format_is_block(f) && !block_can_quantise(f);
}

static bool store_has_foreign(const struct plan *p)
{
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (store_is_foreign(p->dense[i].shape.format))
			return true;
	for (uint32_t i = 0; i < p->routed_layers; i++)
		for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++)
			if (store_is_foreign(p->record[i].part[part].format))
				return true;
	return false;
}

int store_make_checkpoint(const char *folder, const char *source, const struct config *c,
			  const struct plan *p, struct err *e)
{
	static const char *const optional[] = {
		"generation_config.json",
		"tokenizer.json",
		"tokenizer_config.json",
		"tiktoken.model",
		"vocab.json",
		"merges.txt",
		"added_tokens.json",
		"special_tokens_map.json",
		"chat_template.jinja",
		"chat_template.json",
	};
	if (p->recipe.codec != CODEC_NONE || store_has_foreign(p))
		return 0;
	int failed = store_write_index(folder, c, p, e);
	if (!failed)
		failed = store_write_config(folder, c, p, e);
	for (size_t i = 0; i < sizeof optional / sizeof *optional && !failed; i++) {
		failed = store_copy_file(folder, source, optional[i], e);
		failed = failed == -ENOENT ? 0 : failed;
	}
	if (!failed)
		failed = store_copy_file(folder, source, "config.json", e);
	return failed == -ENOENT ? 0 : failed;
}
