/* The table of families, and the names of their tensors. */
#include "engine/family/gguf_family.h"

#include <stdio.h>
#include <string.h>

static const struct family *const families[] = {
	&family_qwen2,	     &family_qwen3,	 &family_qwen3_moe, &family_qwen2_moe,
	&family_lfm2,	     &family_lfm2_moe,	 &family_granitemoehybrid,
	&family_nemotron_h,  &family_kimi_linear,
	&family_granitemoe,  &family_mixtral,	 &family_olmoe,	    &family_qwen3_5,
	&family_qwen3_5_moe, &family_qwen3_next, &family_glm4_moe,  &family_minimax_m2,
	&family_gpt_oss,     &family_llama,	 &family_mistral,   &family_gemma4,
	&family_deepseek_v3, &family_qwen4_exp, &family_glm_moe_dsa, &family_minimax_m3, &family_glm5_next, &family_deepseek_v4, &family_smollm3,	 &family_gemma3,
	&family_phi3,
};
enum { FAMILIES = sizeof families / sizeof *families };

const struct family *family_find(const char *model_type, const char **copy)
{
	for (size_t i = 0; i < FAMILIES; i++)
		for (const char *const *t = families[i]->model_types; *t; t++)
			if (!strcmp(*t, model_type)) {
				*copy = *t;
				return families[i];
			}
	return NULL;
}

const struct family *family_of_gguf(const char *architecture, bool routed)
{
	for (size_t i = 0; i < FAMILIES; i++) {
		const struct gguf_family *g = families[i]->gguf;
		if (!g || (g->routed && !routed))
			continue;
		if (!strcmp(g->architecture, architecture) ||
		    (g->second && !strcmp(g->second, architecture)))
			return families[i];
	}
	return NULL;
}

void family_list(char *text, size_t size)
{
	size_t used = 0;
	text[0] = 0;
	for (size_t i = 0; i < FAMILIES && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
					 families[i]->model_types[0]);
}

void family_list_gguf(char *text, size_t size)
{
	size_t used = 0;
	text[0] = 0;
	for (size_t i = 0; i < FAMILIES && used < size; i++) {
		const struct gguf_family *g = families[i]->gguf;
		if (g && family_of_gguf(g->architecture, true) == families[i]) /* each name once */
			used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "",
						 g->architecture);
	}
}

/* ---- names ---- */

/* MLX's names of experts, the same in all families. MLX's other names are mostly the published
 * ones.
 */
static const struct tensor_name common[] = {
	{TENSOR_EXPERT_GATE, "model.layers.%u.mlp.switch_mlp.gate_proj.weight", view_stacked_one},
	{TENSOR_EXPERT_UP, "model.layers.%u.mlp.switch_mlp.up_proj.weight", view_stacked_one},
	{TENSOR_EXPERT_DOWN, "model.layers.%u.mlp.switch_mlp.down_proj.weight", view_stacked_down},
	{0},
};

static uint32_t family_add_names(const struct tensor_name *from, enum tensor_role role,
				 uint32_t count, struct tensor_name names[FAMILY_ALTERNATIVES])
{
	for (const struct tensor_name *n = from; n && n->name; n++)
		if (n->role == role && count + 1 < FAMILY_ALTERNATIVES)
			names[count++] = *n;
	return count;
}

/* Whether the family uses this role's common name for another role. */
static bool family_is_anothers(const struct family *f, enum tensor_role role)
{
	for (const struct tensor_name *n = f->names; n && n->name; n++)
		if (n->role != role && !strcmp(n->name, tensor_roles[role].name))
			return true;
	return false;
}

uint32_t family_alternatives(const struct family *f, enum tensor_role role,
			     struct tensor_name names[FAMILY_ALTERNATIVES])
{
	uint32_t count = family_add_names(f->names, role, 0, names);
	count = family_add_names(common, role, count, names);
	if (!count || !family_is_anothers(f, role))
		names[count++] = (struct tensor_name){role, tensor_roles[role].name, NULL};
	return count;
}

/* Prints a pattern. Patterns are constants of this program, never from a file. */
static int family_print(char *text, size_t size, const char *pattern, uint32_t first,
			uint32_t second)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	return snprintf(text, size, pattern, first, second);
#pragma GCC diagnostic pop
}

bool family_tensor_name(const struct config *c, const char *pattern, const char *stem,
			struct tensor_id id, char *name, size_t size)
{
	static const char model[] = "model.", layers[] = "model.layers.%u.";
	bool draft = id.layer >= c->layers && !strncmp(pattern, layers, sizeof layers - 1);
	const char *rest = pattern;
	int n = 0;
	if (draft) {
		n = family_print(name, size, c->family->draft_layer, id.layer - c->layers, 0);
		rest += sizeof layers - 1;
		id.layer = id.expert; /* the only number */
	} else if (!strncmp(pattern, model, sizeof model - 1)) {
		n = snprintf(name, size, "%s", stem);
		rest += sizeof model - 1;
	}
	if (n < 0 || (size_t)n >= size)
		return false;
	int more = family_print(name + n, size - (size_t)n, rest, id.layer, id.expert);
	return more > 0 && (size_t)more < size - (size_t)n;
}

bool family_leaves_out(const struct config *c, const char *name)
{
	char layer[64];
	for (uint32_t i = 0; i < c->layers_left_out; i++) {
		int n = snprintf(layer, sizeof layer, c->gguf ? "blk.%u." : "model.layers.%u.",
				 c->layers + i);
		if (!strncmp(name, layer, (size_t)n))
			return true;
	}
	return false;
}

bool family_gguf_name(const char *pattern, struct tensor_id id, char *name, size_t size)
{
	int n = family_print(name, size, pattern, id.layer, id.expert);
	return n > 0 && (size_t)n < size;
}

bool family_store_name(const struct config *c, struct tensor_id id, char *name, size_t size)
{
	struct tensor_name names[FAMILY_ALTERNATIVES];
	uint32_t count = family_alternatives(c->family, id.role, names), i = 0;
	while (i + 1 < count && names[i].view)
		i++;
	return family_tensor_name(c, names[i].name, c->family->bare ? "" : "model.", id, name,
				  size);
}
