#include "engine/family/architecture.h"

#include <stdio.h>
#include <string.h>

/* The names that the Qwen families share with most published checkpoints. */
static const char *const llama_names[TENSOR_ROLES] = {
	[TENSOR_EMBEDDING] = "model.embed_tokens.weight",
	[TENSOR_FINAL_NORM] = "model.norm.weight",
	[TENSOR_HEAD] = "lm_head.weight",
	[TENSOR_ATTENTION_NORM] = "model.layers.%u.input_layernorm.weight",
	[TENSOR_Q] = "model.layers.%u.self_attn.q_proj.weight",
	[TENSOR_K] = "model.layers.%u.self_attn.k_proj.weight",
	[TENSOR_V] = "model.layers.%u.self_attn.v_proj.weight",
	[TENSOR_O] = "model.layers.%u.self_attn.o_proj.weight",
	[TENSOR_Q_BIAS] = "model.layers.%u.self_attn.q_proj.bias",
	[TENSOR_K_BIAS] = "model.layers.%u.self_attn.k_proj.bias",
	[TENSOR_V_BIAS] = "model.layers.%u.self_attn.v_proj.bias",
	[TENSOR_O_BIAS] = "model.layers.%u.self_attn.o_proj.bias",
	[TENSOR_Q_NORM] = "model.layers.%u.self_attn.q_norm.weight",
	[TENSOR_K_NORM] = "model.layers.%u.self_attn.k_norm.weight",
	[TENSOR_FEED_FORWARD_NORM] = "model.layers.%u.post_attention_layernorm.weight",
	[TENSOR_GATE] = "model.layers.%u.mlp.gate_proj.weight",
	[TENSOR_UP] = "model.layers.%u.mlp.up_proj.weight",
	[TENSOR_DOWN] = "model.layers.%u.mlp.down_proj.weight",
	[TENSOR_ROUTER] = "model.layers.%u.mlp.gate.weight",
	[TENSOR_EXPERT_GATE] = "model.layers.%u.mlp.experts.%u.gate_proj.weight",
	[TENSOR_EXPERT_UP] = "model.layers.%u.mlp.experts.%u.up_proj.weight",
	[TENSOR_EXPERT_DOWN] = "model.layers.%u.mlp.experts.%u.down_proj.weight",
};

static const struct architecture architectures[] = {
	{.model_type = "qwen2", .qkv_bias = true, .names = llama_names},
	{.model_type = "qwen3", .head_norms = true, .names = llama_names},
	{.model_type = "qwen3_moe",
	 .routed = true,
	 .head_norms = true,
	 .router_order = SOFTMAX_THEN_TOP_K,
	 .router_normalisation = NORMALISE_AS_CONFIGURED,
	 .names = llama_names},
};
enum { ARCHITECTURES = sizeof architectures / sizeof *architectures };

const struct architecture *architecture_find(const char *model_type)
{
	for (size_t i = 0; i < ARCHITECTURES; i++)
		if (!strcmp(architectures[i].model_type, model_type))
			return &architectures[i];
	return NULL;
}

void architecture_list(char *text, size_t size)
{
	size_t used = 0;
	text[0] = 0;
	for (size_t i = 0; i < ARCHITECTURES && used < size; i++)
		used += (size_t)snprintf(text + used, size - used, "%s%s", i ? ", " : "",
					 architectures[i].model_type);
}

bool architecture_tensor_name(const struct architecture *a, struct tensor_id id, char *name,
			      size_t size)
{
	/* The patterns are the constants above, never from a file. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
	int n = snprintf(name, size, a->names[id.role], id.layer, id.expert);
#pragma GCC diagnostic pop
	return n > 0 && (size_t)n < size;
}
