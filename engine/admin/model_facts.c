/* What can be said of a mounted checkpoint, each fact in words or a number (model.h). */
#include "cache/store_in_place.h"
#include "engine/family/left_out.h"
#include "engine/compute/drafter.h"
#include "engine/admin/model_loss.h"
#include "engine/model/chunk.h"
#include "engine/model/model_state.h"
#include "engine/run/run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static int model_print_bits(const struct model *m, char *text, size_t size)
{
	if (!model_hold_store(&m->stored))
		return snprintf(text, size, "unknown until converted");
	const struct plan *p = &m->stored.plan;
	double bytes = (double)p->dense_bytes + (double)store_experts_bytes(m->stored.store);
	double bits = bytes * 8 / (double)p->parameters;
	model_release_store(&m->stored);
	return snprintf(text, size, "%.2f", bits);
}

static int model_print_codec(const struct model *m, char *text, size_t size)
{
	if (!model_hold_store(&m->stored))
		return snprintf(text, size, "unknown until converted");
	const struct plan *p = &m->stored.plan;
	const char *name = recipe_codec_name(p->recipe.codec), *words = m->stored.codec_words;
	char share[16] = "";
	if (p->recipe.codec != CODEC_NONE)
		(void)snprintf(share, sizeof share, " %.2f",
			       (double)store_experts_bytes(m->stored.store) /
				       (double)plan_records_bytes(p));
	int n = snprintf(text, size, *words ? "%s%s (%s)" : "%s%s", name, share, words);
	model_release_store(&m->stored);
	return n;
}

/* The words for a store that was rounded by its inputs. */
static const char *model_print_refined(const struct model *m, char *text, size_t size)
{
	uint32_t tokens = 0;
	*text = 0;
	if (model_hold_store(&m->stored)) {
		tokens = m->stored.plan.recipe.refined;
		model_release_store(&m->stored);
	}
	if (tokens)
		(void)snprintf(text, size, ", refined with %u tokens", tokens);
	return text;
}

static int model_print_format(const struct model *m, char *text, size_t size)
{
	bool in_place = model_hold_store(&m->stored);
	if (in_place) {
		in_place = store_is_in_place(m->stored.store);
		model_release_store(&m->stored);
	}
	const struct recipe *r = &m->id.recipe;
	const char *exact = r->exact && !recipe_is_plain(r) ? ", exact" : "";
	if (r->as_published)
		return snprintf(text, size, "as published: %s%s%s", m->id.encoding,
				in_place ? ", in place" : "", exact);
	char refined[64];
	return snprintf(text, size, "%s%s%s%s%s", r->quant, m->id.encoding ? " from " : "",
			m->id.encoding ? m->id.encoding : "",
			model_print_refined(m, refined, sizeof refined), exact);
}

static int model_print_recipe(const struct model *m, char *text, size_t size)
{
	bool asked = !m->engine->recipe.as_published; /* -o quant=auto is the same as no option */
	const char *models = asked ? NULL : recipe_default_of(&m->id.recipe, &m->id.config);
	int n = model_print_format(m, text, size);
	if (!models || n < 0 || (size_t)n >= size)
		return n;
	int more = snprintf(text + n, size - (size_t)n, ", the default for %s", models);
	return more < 0 ? more : n + more;
}

static int model_print_progress(const struct model *m, char *text, size_t size)
{
	struct model_progress p;
	char why[1024];
	model_progress(m, &p);
	if (!strcmp(p.doing, "waiting"))
		return snprintf(text, size, "waiting for another process to convert it");
	if (!strcmp(p.doing, "refining stopped")) {
		model_refining_error(m, why, sizeof why);
		return snprintf(text, size, "refining stopped: %s", why);
	}
	if (!p.total || !p.done)
		return snprintf(text, size, "%s", p.doing);
	if (!strcmp(p.doing, "stopped")) {
		model_error(m, why, sizeof why);
		return snprintf(text, size, "stopped at %.0f %%: %s",
				100 * (double)p.done / (double)p.total, why);
	}
	bool tokens = !strcmp(p.doing, "writing"), layers = !strcmp(p.doing, "measuring");
	double left = p.seconds / (double)p.done * (double)(p.total - p.done);
	double unit = tokens || layers ? 1 : 1e-6;
	int places = !tokens && !layers;
	return snprintf(text, size, "%s %.0f %% %.*f/%.*f %s %.0f s left", p.doing,
			100 * (double)p.done / (double)p.total, places, (double)p.done * unit,
			places, (double)p.total * unit,
			tokens	 ? "tokens"
			: layers ? "layers"
				 : "MB",
			left > 0 ? left : 0);
}

static int model_print_template(const struct model *m, char *text, size_t size)
{
	if (!atomic_load(&m->loaded.speaks))
		return snprintf(text, size, "unknown until loaded");
	return model_template_words(m, text, size);
}

static int model_print_architecture(const struct model *m, char *text, size_t size)
{
	return snprintf(text, size, "%s", m->id.config.model_type);
}

static int model_print_defaults(const struct model *m, char *text, size_t size)
{
	const char *words = m->id.config.generation.words;
	return snprintf(text, size, "%s", *words ? words : "no generation_config.json");
}

static int model_print_source(const struct model *m, char *text, size_t size)
{
	return snprintf(text, size, "%s", m->id.directory);
}

static int model_print_store(const struct model *m, char *text, size_t size)
{
	return snprintf(text, size, "%s", m->stored.folders[atomic_load(&m->stored.folder)]);
}

static int model_print_state(const struct model *m, char *text, size_t size)
{
	static const char *const states[] = {"unloaded", "loading", "ready", "failed"};
	return snprintf(text, size, "%s", states[model_state(m)]);
}

static int model_print_embedding(const struct model *m, char *text, size_t size)
{
	embedding_print(&m->id.config.embedding, text, size);
	return (int)strlen(text);
}

static int model_print_cpu_kernels(const struct model *m, char *text, size_t size)
{
	return snprintf(text, size, "%s", m->engine->kernels->name);
}

static int model_print_gpu_kernels(const struct model *m, char *text, size_t size)
{
	(void)m;
	return card_print_modules(text, size);
}

static int model_print_gpu(const struct model *m, char *text, size_t size)
{
	struct card_found found;

	card_find_answer(&m->engine->gpu.find, &found);
	return card_print_found(&found, text, size);
}

void model_find_gpu(const struct model *m)
{
	card_find_look(&m->engine->gpu.find);
}

/* A model that is loaded without a card always has the reason. */
static int model_print_computes(const struct model *m, char *text, size_t size)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->loaded.looking; /* nothing is changed */
	if (model_state(m) != MODEL_READY)
		return snprintf(text, size, "unknown until loaded");
	pthread_rwlock_rdlock(looking);
	const struct err why = m->loaded.no_card;
	(void)snprintf(text, size, "cpu: %s", why.text);
	if (!why.code && m->loaded.shown_card)
		cuda_model_print(m->loaded.shown_card, text, size);
	pthread_rwlock_unlock(looking);
	return (int)strlen(text);
}

static int model_print_kernels(const struct model *m, char *text, size_t size)
{
	char modules[512], gpu[512], computes[512];

	if (model_print_gpu_kernels(m, modules, sizeof modules) < 0 ||
	    model_print_gpu(m, gpu, sizeof gpu) < 0 ||
	    model_print_computes(m, computes, sizeof computes) < 0)
		return -1;
	return snprintf(text, size, "cpu %s\ngpu_kernels %s\ngpu %s\ncomputes %s",
			m->engine->kernels->name, modules, gpu, computes);
}

/* Headers are read when a model is loaded, and not for a look. */
static int model_print_left_out(const struct model *m, char *text, size_t size)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->loaded.looking; /* nothing is changed */
	pthread_rwlock_rdlock(looking);
	const char *known = *m->loaded.left_out ? m->loaded.left_out : "not loaded";
	int n = snprintf(text, size, "%s", left_out_any(&m->id.config) ? known : "none");
	pthread_rwlock_unlock(looking);
	return n;
}

static int model_print_ngrams(const struct model *m, char *text, size_t size)
{
	pthread_rwlock_t *looking = (pthread_rwlock_t *)&m->loaded.looking; /* nothing is changed */
	int n = snprintf(text, size, "%s", m->id.config.ngrams.tables ? "not loaded" : "none");
	pthread_rwlock_rdlock(looking);
	const struct ngram_tables *t = m->loaded.ngrams;
	if (t) {
		struct ngram_counts c = ngrams_counts(t);
		n = snprintf(text, size,
			     "bytes %" PRIu64 "\nin_memory %" PRIu64 "\nrows %" PRIu64
			     "\nwaited %" PRIu64,
			     c.bytes, ngrams_resident(t), c.rows, c.waited);
	}
	pthread_rwlock_unlock(looking);
	return n;
}

/* The most tokens of a prompt that a step may take. */
static uint32_t model_longest_step(const struct model *m)
{
	bool longer = m->engine->chunk_automatic && m->id.config.experts;
	return longer ? CHUNK_MOST : m->engine->options.chunk;
}

static uint64_t model_context_bytes(const struct model *m, enum kv_type type)
{
	const struct config *c = &m->id.config;
	uint64_t drafter =
		atomic_load(&m->id.drafts) ? drafter_full_bytes(c, type, m->id.context) : 0;
	return context_full_bytes(c, type, m->id.context, model_longest_step(m)) + drafter;
}

/* The type; and beside floats q8, beside codes f16. */
static int model_print_kv(const struct model *m, char *text, size_t size)
{
	struct err ignored;
	enum kv_type type = model_kv_type(&m->id), other = kv_type_codes(type) ? KV_F16 : KV_Q8;
	if (config_check_kv(&m->id.config, other, &ignored))
		return snprintf(text, size, "%s", kv_type_name(type));
	return snprintf(text, size, "%s; %s would take %" PRIu64 " bytes instead of %" PRIu64,
			kv_type_name(type), kv_type_name(other), model_context_bytes(m, other),
			model_context_bytes(m, type));
}

static int model_print_number(const struct model *m, enum model_fact fact, char *text, size_t size)
{
	const struct config *c = &m->id.config;
	const uint64_t numbers[FACT_COUNT] = {
		[FACT_LAYERS] = c->layers,
		[FACT_HIDDEN_SIZE] = c->hidden_size,
		[FACT_HEADS] = c->heads,
		[FACT_KV_HEADS] = c->kv_heads,
		[FACT_HEAD_DIM] = c->head_dim,
		[FACT_VOCABULARY] = c->vocabulary,
		[FACT_EXPERTS] = c->experts,
		[FACT_EXPERTS_PER_TOKEN] = c->experts_per_token,
		[FACT_PARAMETERS] = m->id.parameters,
		[FACT_ACTIVE_PARAMETERS] = m->id.active_parameters,
		[FACT_CONTEXT] = m->id.context,
		[FACT_CONTEXT_BYTES] = model_context_bytes(m, model_kv_type(&m->id)),
		[FACT_MAX_PROMPT_BYTES] = model_max_prompt_bytes(m),
	};
	return snprintf(text, size, "%" PRIu64, numbers[fact]);
}

int model_fact(const struct model *m, enum model_fact fact, char *text, size_t size)
{
	static int (*const prints[FACT_COUNT])(const struct model *, char *, size_t) = {
		[FACT_ARCHITECTURE] = model_print_architecture,
		[FACT_BITS_PER_WEIGHT] = model_print_bits,
		[FACT_DEFAULTS] = model_print_defaults,
		[FACT_FORMAT] = model_print_format,
		[FACT_RECIPE] = model_print_recipe,
		[FACT_LOSS] = loss_print,
		[FACT_CODEC] = model_print_codec,
		[FACT_SOURCE] = model_print_source,
		[FACT_STORE] = model_print_store,
		[FACT_STATE] = model_print_state,
		[FACT_PROGRESS] = model_print_progress,
		[FACT_TEMPLATE] = model_print_template,
		[FACT_EMBEDDING] = model_print_embedding,
		[FACT_KERNELS] = model_print_kernels,
		[FACT_CPU_KERNELS] = model_print_cpu_kernels,
		[FACT_GPU_KERNELS] = model_print_gpu_kernels,
		[FACT_GPU] = model_print_gpu,
		[FACT_COMPUTES] = model_print_computes,
		[FACT_KV] = model_print_kv,
		[FACT_NGRAMS] = model_print_ngrams,
		[FACT_LEFT_OUT] = model_print_left_out,
	};
	int n = prints[fact] ? prints[fact](m, text, size)
			     : model_print_number(m, fact, text, size);
	return n >= 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}
