/* Which parts of a model's layers (mixer, feed-forward) the GPU computes, and why not the others. The CPU
 * computes those (cuda_cpu.c): the stream's rows go to main memory and come back. See cuda_model.h.
 *
 * To have the GPU compute another mixer or feed-forward: its row in cuda_mixers or cuda_feeds, with the
 * function that runs it. */
#include "engine/cuda/cuda_arrays.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is missing ---- */

struct cuda_lack {
	bool is;
	const char *what;
};

static const char *cuda_first_lack(const struct cuda_lack *all, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (all[i].is)
			return all[i].what;
	return NULL;
}
#define CUDA_FIRST_LACK(all) cuda_first_lack(all, sizeof(all) / sizeof *(all))

/* Of the whole model: every part reads all streams, and what is computed between parts of layers is only the
 * CPU's. */
static const char *cuda_model_lacks(const struct config *c)
{
	const struct cuda_lack all[] = {
		{c->streams.kind != STREAMS_PLAIN, "several residual streams"},
		{c->ngrams.tables, "n-grams"},
		{c->per_layer, "inputs for each layer"},
	};
	return CUDA_FIRST_LACK(all);
}

/* Whether some layer reads another one's keys and values: in main memory, where they would come too late if
 * the GPU computed them. */
static bool cuda_shares_keys(const struct config *c)
{
	bool shares = false;
	for (uint32_t layer = 0; layer < c->layers; layer++)
		shares = shares || c->layer[layer].keys_of;
	return shares;
}

static const char *cuda_attention_lacks(const struct cuda_model *m, const struct layer *l)
{
	const struct config *c = m->config;
	const struct cuda_lack all[] = {
		{kv_type_codes(m->kv), "quantised keys and values"},
		{l->index != INDEX_UNUSED, "attention to chosen positions"},
		{cuda_shares_keys(c), "shared keys and values"},
		{l->keys_as_values && !c->value_norm, "keys as values"},
		{c->query_gate && c->head_norms == HEAD_NORMS_TOGETHER,
		 "gates between heads that have one norm"},
		{c->rope[l->rope].dim % 2 != 0, "odd rotations"},
		{c->rotates_last, "rotations of the last numbers"},
	};
	return CUDA_FIRST_LACK(all);
}

/* Gated delta nets as in Qwen3-Next. */
static const char *cuda_delta_lacks(const struct cuda_model *m, const struct layer *l)
{
	const struct delta_net *n = &m->config->delta_net;
	const struct cuda_lack all[] = {
		{n->sigmoid, "sigmoid gates of delta nets"},
		{n->key_dim > CUDA_DELTA_DIM || n->width > CUDA_CONV_WIDTH, "large delta nets"},
	};
	(void)l;
	return CUDA_FIRST_LACK(all);
}

/* Routers of any kind: where a kernel cannot choose, the CPU does. */
static const char *cuda_feed_lacks(const struct cuda_model *m, const struct layer *l)
{
	const struct config *c = m->config;
	const bool routed = l->feed_forward == FEED_FORWARD_ROUTED;
	const struct cuda_lack all[] = {
		{routed && c->expert_latent > c->hidden_size, "experts on a wide projection"},
		{routed && c->shared_gate && (c->expert_latent || c->post_norms || c->feed_forwards_apart),
		 "gates of shared experts beside norms or projections of the others"},
		{routed && c->layer_scale && !c->post_norms, "scales of layers right after experts"},
		{routed && c->experts > CUDA_CHOICE_MOST,
		 "more experts than a block of threads sorts"},
	};
	return CUDA_FIRST_LACK(all);
}

/* ---- who runs a part ---- */

struct cuda_way {
	cuda_part_fn *run; /* NULL: the GPU cannot compute any */
	const char *name;
	const char *(*lacks)(const struct cuda_model *m, const struct layer *l); /* NULL: nothing */
};
static const struct cuda_way cuda_mixers[MIXERS] = {
	[MIXER_ATTENTION] = {cuda_run_attention, "attention", cuda_attention_lacks},
	[MIXER_LATENT] = {NULL, "latent attention", NULL},
	[MIXER_COMPRESSED] = {NULL, "compressed attention", NULL},
	[MIXER_DELTA_NET] = {cuda_run_delta, "delta nets", cuda_delta_lacks},
	[MIXER_KIMI] = {NULL, "Kimi's delta attention", NULL},
	[MIXER_MAMBA] = {NULL, "Mamba2", NULL},
	[MIXER_CONVOLUTION] = {NULL, "convolutions", NULL},
};
static const struct cuda_way cuda_feeds[FEED_FORWARD_NONE] = {
	[FEED_FORWARD_DENSE] = {cuda_run_dense, "dense feed-forwards", cuda_feed_lacks},
	[FEED_FORWARD_ROUTED] = {cuda_run_routed, "experts", cuda_feed_lacks},
};

static const struct cuda_way *cuda_way_of(const struct layer *l, enum layer_part part)
{
	return part == PART_MIXER ? &cuda_mixers[l->mixer] : &cuda_feeds[l->feed_forward];
}

static void cuda_find_part(struct cuda_model *m, uint32_t layer, enum layer_part part)
{
	const struct layer *l = &m->config->layer[layer];
	struct cuda_layer *to = &m->parts[layer];
	if (!config_has_part(l, part))
		return;
	const struct cuda_way *way = cuda_way_of(l, part);
	const char *lacks = way->run ? way->lacks(m, l) : way->name;
	if (lacks)
		(void)snprintf(to->lacks[part], CUDA_REASON, "%s", lacks);
	else
		to->run[part] = way->run;
}

/* ---- formats ---- */

/* The part that a tensor of a layer belongs to: roles are in the order of a forward pass. */
static enum layer_part cuda_part_of(enum tensor_role role)
{
	return role < TENSOR_GATED_FEED_NORM ? PART_MIXER : PART_FEED_FORWARD;
}

static bool cuda_multiplies(const struct shape *s)
{
	return cuda_product_kernel(s->format, 1) != CUDA_KERNEL_COUNT;
}

static void cuda_note_format(char lacks[CUDA_REASON], const struct shape *s)
{
	if (!lacks[0] && !cuda_multiplies(s))
		(void)snprintf(lacks, CUDA_REASON, "matrices of %s", format_name(s->format));
}

static void cuda_check_dense(struct cuda_model *m)
{
	for (uint32_t i = 0; i < m->plan->dense_count; i++) {
		const struct plan_tensor *t = &m->plan->dense[i];
		const enum tensor_place place = tensor_roles[t->id.role].place;
		if (tensor_roles[t->id.role].class >= CLASS_MATRICES)
			continue;
		if (t->id.role == TENSOR_HEAD)
			cuda_note_format(m->head_lacks, &t->computed);
		else if (place == PLACE_LAYER && t->id.layer < m->config->layers)
			cuda_note_format(m->parts[t->id.layer].lacks[cuda_part_of(t->id.role)],
					 &t->computed);
	}
}

static void cuda_check_experts(struct cuda_model *m)
{
	const struct plan *p = m->plan;
	for (uint32_t r = 0; r < p->routed_layers; r++)
		for (uint32_t part = p->first_part; part < EXPERT_PARTS; part++)
			cuda_note_format(m->parts[p->layer_of[r]].lacks[PART_FEED_FORWARD],
					 &p->record[r].computed[part]);
}

/* ---- the table ---- */

/* Parts whose matrices are of an unknown format are the CPU's after all. Returns how many the GPU computes,
 * or a reason why it computes none. */
static uint32_t cuda_count_parts(struct cuda_model *m, const char **lacks)
{
	uint32_t count = 0;
	for (uint32_t layer = 0; layer < m->config->layers; layer++)
		for (enum layer_part part = 0; part < LAYER_PARTS; part++) {
			struct cuda_layer *l = &m->parts[layer];
			if (l->lacks[part][0])
				l->run[part] = NULL;
			count += l->run[part] != NULL;
			m->whole = m->whole && !l->lacks[part][0];
			*lacks = *lacks ? *lacks : l->lacks[part][0] ? l->lacks[part] : NULL;
		}
	return count;
}

/* Which layers' keys and values the GPU computes. */
static int cuda_list_keyed(struct cuda_model *m, struct err *e)
{
	const struct config *c = m->config;
	struct cuda_left *left = &m->left;
	m->keyed_layer = calloc(c->layers, sizeof *m->keyed_layer);
	if (!m->keyed_layer)
		return err_set(e, ENOMEM, "out of memory for a list of layers");
	for (uint32_t layer = 0; layer < c->layers; layer++) {
		const struct layer *l = &c->layer[layer];
		uint32_t width = l->kv_heads * l->head_dim;
		m->parts[layer].keyed = left->keyed;
		if (l->mixer != MIXER_ATTENTION || !m->parts[layer].run[PART_MIXER])
			continue;
		m->keyed_layer[left->keyed++] = layer;
		left->kv_width = width > left->kv_width ? width : left->kv_width;
	}
	m->parts[c->layers].keyed = left->keyed;
	left->routed = m->plan->routed_layers;
	left->top_k = c->experts_per_token;
	return 0;
}

int cuda_parts_find(struct cuda_model *m, const struct environment *env, struct err *e)
{
	const struct config *c = env->config;
	const char *lacks = cuda_model_lacks(c);
	if (lacks)
		return err_set(e, ENOTSUP, "the GPU cannot compute models with %s yet", lacks);
	m->parts = calloc(c->layers + 1, sizeof *m->parts);
	if (!m->parts)
		return err_set(e, ENOMEM, "out of memory for a list of layers");
	for (enum layer_part part = 0; part < LAYER_PARTS; part++) {
		for (uint32_t layer = 0; layer < c->layers; layer++)
			cuda_find_part(m, layer, part);
		(void)snprintf(m->parts[c->layers].lacks[part], CUDA_REASON, "draft layers");
	}
	cuda_check_dense(m);
	cuda_check_experts(m);
	m->whole = !m->head_lacks[0];
	if (!cuda_count_parts(m, &lacks))
		return err_set(e, ENOTSUP, "the GPU cannot compute models with %s yet", lacks);
	return cuda_list_keyed(m, e);
}

void cuda_parts_free(struct cuda_model *m)
{
	free(m->parts);
	free(m->keyed_layer);
}

bool cuda_parts_need(const struct cuda_model *m, uint32_t layer, enum tensor_role role)
{
	if (layer == m->config->layers)
		return role != TENSOR_HEAD || !m->head_lacks[0];
	return m->parts[layer].run[cuda_part_of(role)] != NULL;
}

/* ---- for people ---- */

struct cuda_text {
	char *to;
	size_t size, used;
};

__attribute__((format(printf, 2, 3))) static void cuda_say(struct cuda_text *t, const char *format,
							   ...)
{
	va_list operands;
	va_start(operands, format);
	int n = vsnprintf(t->to + t->used, t->size - t->used, format, operands);
	va_end(operands);
	if (n > 0)
		t->used += (size_t)n < t->size - t->used ? (size_t)n : t->size - t->used - 1;
}

/* Whether a layer's part is the CPU's for this reason. */
static bool cuda_is_lack(const struct cuda_model *m, uint32_t layer, enum layer_part part,
			 const char *lacks)
{
	return layer < m->config->layers && strcmp(m->parts[layer].lacks[part], lacks) == 0;
}

/* The layers whose part is the CPU's for a reason, from the first one on: "0-2, 4". */
static void cuda_say_layers(struct cuda_text *t, const struct cuda_model *m, uint32_t first,
			    enum layer_part part)
{
	enum { RANGES = 24 }; /* more are not read by anybody */
	const char *lacks = m->parts[first].lacks[part];
	uint32_t ranges = 0;
	for (uint32_t l = first, last; l < m->config->layers; l = last + 1) {
		for (last = l; cuda_is_lack(m, l, part, lacks) && cuda_is_lack(m, last + 1, part, lacks);)
			last++;
		if (!cuda_is_lack(m, l, part, lacks))
			continue;
		if (ranges++ == RANGES) {
			cuda_say(t, " and more");
			return;
		}
		cuda_say(t, "%s%u", ranges > 1 ? ", " : "", l);
		if (last > l)
			cuda_say(t, "-%u", last);
	}
}

/* Whether an earlier layer has been named for the same reason. */
static bool cuda_is_said(const struct cuda_model *m, uint32_t layer, enum layer_part part)
{
	for (uint32_t l = 0; l < layer; l++)
		if (cuda_is_lack(m, l, part, m->parts[layer].lacks[part]))
			return true;
	return false;
}

static void cuda_say_part(struct cuda_text *t, const struct cuda_model *m, enum layer_part part)
{
	for (uint32_t l = 0; l < m->config->layers; l++) {
		if (!m->parts[l].lacks[part][0] || cuda_is_said(m, l, part))
			continue;
		cuda_say(t, "%s of layers ", part == PART_MIXER ? "mixers" : "feed-forwards");
		cuda_say_layers(t, m, l, part);
		cuda_say(t, " (%s); ", m->parts[l].lacks[part]);
	}
}

static bool cuda_has_experts(const struct cuda_model *m)
{
	for (uint32_t r = 0; r < m->plan->routed_layers; r++)
		if (!cuda_lacks_experts(m, r)[0])
			return true;
	return false;
}

void cuda_model_print(const struct cuda_model *m, char *text, size_t size)
{
	struct cuda_text t = {text, size, 0};
	bool drafts = m->plan->recipe.draft;
	cuda_say(&t, "gpu: %s", m->whole ? "all layers" : "all else");
	if (m->whole && !drafts && !cuda_has_experts(m))
		return;
	cuda_say(&t, "; cpu: ");
	for (enum layer_part part = 0; part < LAYER_PARTS; part++)
		cuda_say_part(&t, m, part);
	if (m->head_lacks[0])
		cuda_say(&t, "the output head (%s); ", m->head_lacks);
	if (drafts)
		cuda_say(&t, "the draft layer; ");
	if (cuda_has_experts(m))
		cuda_say(&t, "experts that are not on the GPU");
	else
		text[t.used - strlen("; ")] = 0;
}
