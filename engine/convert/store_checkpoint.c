#include "engine/convert/store_checkpoint.h"
#include "cache/store_files.h"
#include "engine/convert/store_header.h"
#include "engine/source/source_file.h"
#include "engine/json/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME_BYTES = 256, MOST_BYTES = 1 << 28 };

/* ---- files ---- */

static int write_file(const char *folder, const char *name, const void *bytes, size_t n,
		      struct err *e)
{
	int dir = store_folder_open(folder, e);
	if (dir < 0)
		return dir;
	int fd = store_file_open(dir, folder, name, O_RDWR | O_CREAT | O_TRUNC, e);
	int failed = fd < 0 ? fd : store_file_write(fd, bytes, n, 0, folder, name, e);
	if (fd >= 0)
		close(fd);
	close(dir);
	return failed;
}

/* -ENOENT: the source has none. */
static int copy_file(const char *folder, const char *source, const char *name, struct err *e)
{
	char *path = source_file_path(source, name), *bytes;
	size_t n;
	if (!path)
		return err_set(e, ENOMEM, "out of memory for the name of a file");
	int failed = json_read_file(&bytes, &n, path, MOST_BYTES, e);
	free(path);
	if (failed)
		return failed;
	failed = write_file(folder, name, bytes, n, e);
	free(bytes);
	return failed;
}

/* A text that was collected in memory becomes a file. */
static int write_text(const char *folder, const char *name, FILE *f, char **text,
		      const size_t *bytes, struct err *e)
{
	bool bad = ferror(f);
	int failed = fclose(f) || bad ? err_set(e, ENOMEM, "out of memory for %s", name)
				      : write_file(folder, name, *text, *bytes, e);
	free(*text);
	return failed;
}

/* ---- the list of tensors ---- */

typedef void tensor_fn(FILE *f, const struct config *c, struct tensor_id id, const struct shape *s,
		       const char *file);

static void for_all(FILE *f, const struct config *c, const struct plan *p, tensor_fn *each)
{
	for (uint32_t i = 0; i < p->dense_count; i++)
		each(f, c, p->dense[i].id, &p->dense[i].shape, STORE_DENSE);
	for (uint32_t i = 0; i < p->routed_layers * p->experts * EXPERT_PARTS; i++) {
		uint32_t part = i % EXPERT_PARTS, unit = i / EXPERT_PARTS;
		struct tensor_id id = {plan_part_role(part), p->layer_of[unit / p->experts],
				       unit % p->experts};
		each(f, c, id, &p->record[unit / p->experts].part[part], STORE_EXPERTS);
	}
}

static void add_to_index(FILE *f, const struct config *c, struct tensor_id id,
			 const struct shape *s, const char *file)
{
	for (uint32_t i = 0; i < PLAN_PIECES && plan_piece_bytes(s, i); i++) {
		char name[STORE_NAME_BYTES];
		const struct store_piece p = store_piece(s, i);
		store_piece_name(c, id, &p, name, sizeof name);
		/* Names are patterns of ours with numbers in them: nothing needs escaping. */
		(void)fprintf(f, "%c\n\"%s\": \"%s\"", ftell(f) > 16 ? ',' : ' ', name, file);
	}
}

static int write_index(const char *folder, const struct config *c, const struct plan *p,
		       struct err *e)
{
	char *text;
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);
	if (!f)
		return err_set(e, ENOMEM, "out of memory for a list of tensors");
	(void)fputs("{\"weight_map\": {", f);
	for_all(f, c, p, add_to_index);
	(void)fputs("}}\n", f);
	return write_text(folder, "model.safetensors.index.json", f, &text, &bytes, e);
}

/* ---- tq_config.json, tc_config.json ---- */

/* What most weights are in: the experts, or where there are none the first matrix; FORMAT_COUNT: no
 * weights are in rotated groups. */
static enum format usual_format(const struct plan *p)
{
	enum format f = p->routed_layers ? p->record[0].part[0].format : FORMAT_COUNT;
	for (uint32_t i = 0; i < p->dense_count && (f == FORMAT_COUNT || !format_is_tq(f)); i++)
		f = p->dense[i].shape.format;
	return f == FORMAT_COUNT || !format_is_tq(f) ? FORMAT_COUNT : f;
}

/* What a tensor's name has in every layer: "self_attn.q_proj". Returns its length. */
static int common_part(const char *name, const char **part)
{
	static const char layers[] = "layers.", weight[] = ".weight";
	const char *in_layer = strstr(name, layers);
	const char *dot = in_layer ? strchr(in_layer + sizeof layers - 1, '.') : NULL;
	*part = dot ? dot + 1 : name;
	size_t n = strlen(*part), k = sizeof weight - 1;
	return (int)(n > k && !strcmp(*part + n - k, weight) ? n - k : n);
}

/* Names of roles that have other bits than usual; a role is named by the first tensor of it. */
static void add_patterns(FILE *f, const struct config *c, const struct plan *p, uint32_t bits)
{
	bool said[TENSOR_ROLES] = {false}, any = false;
	for (uint32_t i = 0; i < p->dense_count; i++) {
		const struct plan_tensor *t = &p->dense[i];
		uint32_t its = format_tq_bits(t->shape.format);
		char name[NAME_BYTES] = "";
		const char *part;
		if (!its || its == bits || said[t->id.role] || format_is_trellis(t->shape.format))
			continue;
		(void)config_store_name(c, t->id, name, sizeof name);
		int n = common_part(name, &part);
		if (!any)
			(void)fprintf(f, ", \"sensitive_bits\": %u, \"sensitive_patterns\": [",
				      its);
		(void)fprintf(f, "%s\"%.*s\"", any ? ", " : "", n, part);
		any = said[t->id.role] = true;
	}
	if (any)
		(void)fputc(']', f);
}

static int write_tq_config(const char *folder, const struct config *c, const struct plan *p,
			   struct err *e)
{
	char *text;
	size_t bytes;
	enum format format = usual_format(p);
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
	if (trellis) /* and each tensor's bytes say how many bits it has */
		(void)fputs(", \"version\": 1", f);
	else
		add_patterns(f, c, p, bits);
	(void)fputs("}\n", f);
	return write_text(folder, trellis ? "tc_config.json" : "tq_config.json", f, &text, &bytes,
			  e);
}

/* ---- all of it ---- */

/* MLX's codes, GGUF's blocks: their config would have to be of their stacked names, or there is
 * none. But for Q8_0, which stores have of their own. */
static bool is_foreign(enum format f)
{
	return format_is_block(f) && f != FORMAT_Q8_0;
}

static bool has_blocks(const struct plan *p)
{
	for (uint32_t i = 0; i < p->dense_count; i++)
		if (is_foreign(p->dense[i].shape.format))
			return true;
	for (uint32_t i = 0; i < p->routed_layers * EXPERT_PARTS; i++)
		if (is_foreign(p->record[i / EXPERT_PARTS].part[i % EXPERT_PARTS].format))
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
		"vocab.json",
		"merges.txt",
		"added_tokens.json",
		"special_tokens_map.json",
		"chat_template.jinja",
		"chat_template.json",
	};
	if (p->recipe.codec != CODEC_NONE || has_blocks(p))
		return 0;
	int failed = write_index(folder, c, p, e);
	if (!failed)
		failed = write_tq_config(folder, c, p, e);
	for (size_t i = 0; i < sizeof optional / sizeof *optional && !failed; i++) {
		failed = copy_file(folder, source, optional[i], e);
		failed = failed == -ENOENT ? 0 : failed;
	}
	if (!failed)
		failed = copy_file(folder, source, "config.json", e);
	return failed == -ENOENT ? 0 : failed;
}
