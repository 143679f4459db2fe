/* Loading a model: finds the store or has it made (load_convert.c), and reads its dense part into
 * memory. */
#include "cache/clock.h"
#include "engine/convert/store_folder.h"
#include "engine/family/left_out.h"
#include "engine/family/source_text.h"
#include "engine/library/ollama.h"
#include "engine/model/chunk.h"
#include "engine/model/model_state.h"
#include "engine/model/load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- the model ---- */

/* Opens the checkpoint's template; for a model of ollama without one, the template that corresponds
 * to ollama's. */
static int load_own_template(struct model *m)
{
	struct model_loaded *r = &m->loaded;
	const struct ollama_form *form = m->id.ollama ? m->id.ollama->form : NULL;
	char origin[64];
	(void)snprintf(origin, sizeof origin, "ollama's template, by its form %s",
		       form ? form->name : "");
	const struct source_template instead = {form ? form->jinja : NULL, origin};
	return source_template_open(&r->chat, m->id.directory, instead.text ? &instead : NULL,
				    r->tokenizer, &r->no_chat);
}

static int load_template(struct model *m, struct err *e)
{
	struct model_loaded *r = &m->loaded;
	const char *given = m->engine->template_text;
	r->no_chat = (struct err){0};
	int failed = given ? chat_template_open_text(&r->chat, given, NULL,
						     m->engine->options.template_file, r->tokenizer,
						     &r->no_chat)
			   : load_own_template(m);
	if (failed)
		r->chat = NULL;
	if (failed != -ENOMEM) /* without a template, the model can still continue texts */
		return 0;
	*e = r->no_chat; /* or the next load would think that there is no template */
	return failed;
}

int load_tokenizer(struct model *m, struct err *e)
{
	unsigned read = LOAD_TOKENIZER | (m->engine->template_text ? 0 : LOAD_TEMPLATE);
	int failed = load_sum_texts(m, read, e);
	if (!failed)
		failed = source_tokenizer_open(&m->loaded.tokenizer, m->id.directory, e);
	if (!failed && (failed = load_template(m, e)))
		load_forget_tokenizer(m);
	if (failed)
		m->loaded.texts.known &= ~read; /* the tokenizer was not opened: the next attempt
						   reads the files again */
	else
		atomic_store(&m->loaded.speaks, true);
	return failed;
}

void load_forget_tokenizer(struct model *m)
{
	atomic_store(&m->loaded.speaks, false);
	chat_template_close(m->loaded.chat);
	tokenizer_close(m->loaded.tokenizer);
	m->loaded.chat = NULL;
	m->loaded.tokenizer = NULL;
	m->loaded.texts.known &= LOAD_DEFAULTS;
}

int load_tokenizer_once(struct model *m, struct err *e)
{
	pthread_mutex_lock(&m->loaded.opening);
	int failed = m->loaded.tokenizer ? 0 : load_tokenizer(m, e);
	pthread_mutex_unlock(&m->loaded.opening);
	return failed;
}

/* Opens the tokenizer, or checks that its files have not changed. Sessions hold token ids of this
 * vocabulary, so it cannot be replaced. */
static int load_words(struct model *m, struct err *e)
{
	pthread_mutex_lock(&m->loaded.opening);
	int failed = load_check_texts(m, e);
	if (!failed && !m->loaded.tokenizer)
		failed = load_tokenizer(m, e);
	pthread_mutex_unlock(&m->loaded.opening);
	return failed;
}

uint32_t load_most_samplers(const struct engine_options *o)
{
	return o->threads < HEAD_ROWS ? o->threads : HEAD_ROWS;
}

static int load_samplers(struct model *m, struct err *e)
{
	struct model_loaded *r = &m->loaded;
	uint32_t most = load_most_samplers(&m->engine->options);
	for (; r->sampler_count < most; r->sampler_count++)
		if (sampler_init(&r->samplers[r->sampler_count], m->engine->kernels,
				 m->id.config.vocabulary))
			return err_set(e, ENOMEM, "out of memory for sampling");
	return 0;
}

static void load_free_samplers(struct model_loaded *r)
{
	while (r->sampler_count)
		sampler_free(&r->samplers[--r->sampler_count]);
}

static void load_note_no_card(struct model *m, const struct err *why)
{
	pthread_rwlock_wrlock(&m->loaded.looking);
	m->loaded.no_card = *why;
	pthread_rwlock_unlock(&m->loaded.looking);
}

/* Called by the thread that computes. */
static void load_gpu_failed(void *ctx, const struct err *why)
{
	struct model *m = ctx;
	pager_set_elsewhere(m->loaded.experts, 0);
	engine_gpu_fail(m->engine, why);
	load_note_no_card(m, why);
}

static int load_on_card(struct model *m, struct err *e)
{
	struct gpu *gpu = &m->engine->gpu;
	struct environment *env = &m->loaded.forward.env;
	const struct cuda_model_options options = {.ordinal = gpu->ordinal,
						   .kv = model_kv_type(&m->id),
						   .budget = &gpu->budget,
						   .counters = &gpu->counters,
						   .images = cuda_images};
	if (atomic_load(&gpu->off)) {
		pthread_mutex_lock(&gpu->budget.lock);
		*e = gpu->why;
		pthread_mutex_unlock(&gpu->budget.lock);
		return -e->code;
	}
	if (m->stored.converter)
		return err_set(e, EAGAIN, "the store is being made; the next load uses the GPU");
	return cuda_model_open(&m->loaded.on_card, env, &options, e);
}

/* Shows the experts on the GPU to other threads, and has it keep those that users have pinned, as far as
 * there is room. */
static void load_show_card(struct model *m)
{
	struct model_pins *w = &m->pins;
	const struct plan *p = &m->stored.plan;
	struct err no_room;
	pthread_mutex_lock(&w->lock);
	pthread_rwlock_wrlock(&m->loaded.looking);
	m->loaded.shown_card = m->loaded.on_card;
	pthread_rwlock_unlock(&m->loaded.looking);
	for (uint32_t l = 0; l < w->layers; l++)
		for (uint32_t i = 0; i < w->experts; i++)
			if (model_pins_pinned(w, l, i, PIN_GPU))
				(void)cuda_experts_pin(m->loaded.on_card,
						       &(struct pager_id){p->routed_of[l], i}, 1,
						       &no_room);
	pthread_mutex_unlock(&w->lock);
}

/* Has the GPU compute, if it can. If not, no_card says why. */
static void load_try_card(struct model *m)
{
	struct environment *env = &m->loaded.forward.env;
	struct err why = {0};
	int failed = load_on_card(m, &why);
	if (failed) {
		cuda_model_close(m->loaded.on_card);
		m->loaded.on_card = NULL;
	} else {
		why = (struct err){0}; /* of what was tried first */
		engine_gpu_found(m->engine, cuda_model_card(m->loaded.on_card));
		env->backend = &cuda_backend;
		env->on_card = m->loaded.on_card;
		env->fallback = m->engine->backend;
		env->fell_back = load_gpu_failed;
		env->fell_back_ctx = m;
	}
	if (failed == -ENODEV)
		engine_gpu_fail(m->engine, &why);
	load_note_no_card(m, &why);
}

static void load_close_card(struct model *m)
{
	struct cuda_experts_state last;
	pthread_rwlock_wrlock(&m->loaded.looking);
	if (m->loaded.shown_card) {
		cuda_experts_look(m->loaded.shown_card, &last);
		m->loaded.gpu_hits_before += last.hits;
	}
	m->loaded.shown_card = NULL;
	pthread_rwlock_unlock(&m->loaded.looking);
	cuda_model_close(m->loaded.on_card);
	m->loaded.on_card = NULL;
}

static int load_make_passes(struct model *m, struct err *e)
{
	struct forward *f = &m->loaded.forward;
	int failed = forward_init(f, e);
	if (!failed)
		failed = forward_pass_init(&m->loaded.pass, &f->env, f->chunk, e);
	if (!failed && m->loaded.on_card) /* experts take the room that is left */
		failed = cuda_experts_begin(m->loaded.on_card, m->stored.store,
					    m->loaded.experts, e);
	if (!failed && m->loaded.on_card)
		load_show_card(m);
	if (failed) {
		forward_pass_free(&m->loaded.pass);
		forward_free(f);
	}
	return failed;
}

/* On the GPU, if it has room; else in main memory. */
static int load_passes(struct model *m, struct err *e)
{
	struct environment *env = &m->loaded.forward.env;
	load_try_card(m);
	int failed = load_make_passes(m, e);
	if (!failed || !m->loaded.on_card)
		return failed;
	load_close_card(m);
	load_note_no_card(m, e);
	env->backend = m->engine->backend;
	env->on_card = NULL;
	return load_make_passes(m, e);
}

static int load_forward(struct model *m, struct err *e)
{
	int failed = threads_share(&m->loaded.threads, m->engine->threads, e);
	if (failed)
		return failed;
	m->loaded.forward = (struct forward){
		.env =
			{
				.config = &m->id.config,
				.plan = &m->stored.plan,
				.weights = &m->loaded.weights,
				.backend = m->engine->backend,
				.kernels = m->engine->kernels,
				.threads = m->loaded.threads,
				.experts = m->loaded.experts,
				.ngrams = m->loaded.ngrams,
			},
		.chunk = m->engine->options.chunk,
	};
	failed = load_samplers(m, e);
	if (!failed)
		failed = load_passes(m, e);
	if (!failed && m->stored.plan.recipe.draft)
		drafter_layer_init(&m->loaded.draft_layer, &m->loaded.forward);
	return failed;
}

/* Adds the counters of experts that are unloaded to those from before. */
static void load_count_experts(struct model *m)
{
	struct pager_stats s, *before = &m->loaded.experts_before;
	pager_source_stats(m->loaded.experts, &s);
	before->hits += s.hits;
	before->misses += s.misses;
	before->evictions += s.evictions;
	before->bytes_read += s.bytes_read;
	before->wait_ns += s.wait_ns;
}

/* Shows the experts to other threads; NULL: hides them. */
static void load_show_experts(struct model *m, struct pager_source *experts)
{
	pthread_rwlock_wrlock(&m->loaded.looking);
	if (m->loaded.experts)
		load_count_experts(m);
	m->loaded.experts = experts;
	pthread_rwlock_unlock(&m->loaded.looking);
}

static void load_arrange(void *ctx, uint32_t layer, void *slot, const void *record)
{
	struct model *m = ctx;
	plan_arrange_record(&m->stored.plan, layer, slot, record);
}

static void load_arrange_pieces(void *ctx, uint32_t layer, void *slot,
				const struct store_pieces *record)
{
	struct model *m = ctx;
	plan_arrange_pieces(&m->stored.plan, layer, slot, record);
}

/* Makes an expert. The converter is closed only after the pager's source. */
static int load_make(void *ctx, uint32_t layer, uint32_t expert, void *record, void **made,
		     struct err *e)
{
	const struct model *m = ctx;
	struct store_put *put;
	int failed = convert_make_expert(m->stored.converter, layer, expert, record, &put, e);
	*made = put;
	return failed;
}

static void load_keep(void *ctx, uint32_t layer, uint32_t expert, const void *record, void *made)
{
	const struct model *m = ctx;
	convert_keep_expert(m->stored.converter, layer, expert, record, made);
}

/* Adds a source with the model's pins to the pager, and starts reading experts that users asked
 * for. `scratch` and `pinned` have a place for each expert. */
static int load_add_source(struct model *m, struct pager_id *scratch, bool *pinned, struct err *e)
{
	const struct pager_supply supply = {
		.store = m->stored.store,
		.slot_bytes = m->stored.plan.slot_bytes,
		.layer_slot_bytes = m->stored.plan.layer_slot_bytes,
		.token_bytes = m->loaded.need.least,
		.pinned = pinned,
		.arrange = load_arrange,
		.arrange_pieces = load_arrange_pieces,
		.make = m->stored.converter ? load_make : NULL,
		.keep = load_keep,
		.ctx = m,
	};
	struct pager_source *experts;
	struct err ignored; /* experts that users asked for may not fit any more */
	model_pins_mark(&m->pins, &m->stored.plan, pinned);
	int failed = pager_add(m->engine->pager, &experts, &supply, e);
	if (failed)
		return failed;
	load_show_experts(m, experts);
	size_t n = model_pins_list(&m->pins, &m->stored.plan, PIN_LOAD, scratch);
	for (size_t i = 0; i < n; i++)
		(void)pager_load(experts, &scratch[i], 1, &ignored);
	model_pins_clear(&m->pins, PIN_LOAD);
	return 0;
}

static int load_experts(struct model *m, struct err *e)
{
	const struct store_info *info = store_info(m->stored.store);
	size_t all = (size_t)info->layers * info->experts;
	struct pager_id *scratch = calloc(all + 1, sizeof *scratch);
	bool *pinned = calloc(all + 1, sizeof *pinned);
	int failed = scratch && pinned ? 0 : err_set(e, ENOMEM, "out of memory for experts");
	if (!failed) {
		pthread_mutex_lock(&m->pins.lock);
		failed = load_add_source(m, scratch, pinned, e);
		pthread_mutex_unlock(&m->pins.lock);
	}
	free(scratch);
	free(pinned);
	struct err no_heat; /* no usable heat file, as at the first mount: a cold start */
	if (failed)
		return failed;
	(void)pager_warm(m->loaded.experts, &no_heat);
	m->loaded.heat_uses = 0; /* a new source counts from 0; its heat is saved after some use */
	m->loaded.heat_ns = clock_ns();
	return 0;
}

void load_keep_heat(struct model *m)
{
	struct pager_stats now;
	struct cuda_experts_state card = {0};
	struct err ignored; /* a store that is read-only now can still be used */
	load_keep_sums(m);
	if (!m->loaded.experts || !load_may_write(m, atomic_load(&m->stored.folder)))
		return;
	pager_source_stats(m->loaded.experts, &now);
	if (m->loaded.on_card)
		cuda_experts_look(m->loaded.on_card, &card);
	uint64_t uses = now.hits + now.misses + card.hits;
	if (uses == m->loaded.heat_uses)
		return;
	(void)pager_keep_heat(m->loaded.experts, &ignored);
	m->loaded.heat_uses = uses;
}

/* Opens the n-gram tables and shows them to other threads. */
static int load_ngrams(struct model *m, struct err *e)
{
	struct ngram_tables *ngrams;
	int failed = ngrams_open(&ngrams, &m->id.config, m->id.directory, e);
	if (failed)
		return failed;
	pthread_rwlock_wrlock(&m->loaded.looking);
	m->loaded.ngrams = ngrams;
	pthread_rwlock_unlock(&m->loaded.looking);
	return 0;
}

static void load_close_ngrams(struct model *m)
{
	pthread_rwlock_wrlock(&m->loaded.looking);
	struct ngram_tables *ngrams = m->loaded.ngrams;
	m->loaded.ngrams = NULL;
	pthread_rwlock_unlock(&m->loaded.looking);
	ngrams_close(ngrams);
}

/* Notes which parts of the checkpoint are not used. The source may be gone if the store is
 * complete. */
static void load_look_at_rest(struct model *m)
{
	char text[sizeof m->loaded.left_out];
	struct sources s;
	struct err why;
	if (!left_out_any(&m->id.config))
		return;
	if (sources_open(&s, m->id.directory, &m->id.config, &why)) {
		(void)snprintf(text, sizeof text, "unknown: the checkpoint cannot be read");
	} else {
		left_out_print(&s, text, sizeof text);
		sources_close(&s);
	}
	pthread_rwlock_wrlock(&m->loaded.looking);
	memcpy(m->loaded.left_out, text, sizeof text);
	pthread_rwlock_unlock(&m->loaded.looking);
}

/* Whether the open store can be used again: the source has not changed since it was opened, and no
 * turn has failed. */
static bool load_store_is_good(const struct model *m)
{
	return atomic_load(&m->stored.has_store) && !m->stored.doubted && m->stored.looked.count &&
	       source_unchanged(&m->stored.looked);
}

bool load_can_recall(struct model *m)
{
	struct err why; /* the load will report this */
	return load_store_is_good(m) && !load_words(m, &why);
}

/* Opens the store again, or has it made. */
static int load_find_store(struct model *m, struct err *e)
{
	int failed = load_store(m, true, e);
	if (failed != -ENOENT)
		return failed;
	load_forget_store(&m->stored);
	return load_by_converting(m, e);
}

int load_model(struct model *m, struct err *e)
{
	load_undo(m); /* clears up after a conversion that must begin again */
	/* The tokenizer comes first, since it fails fast and converting takes long. */
	int failed = load_words(m, e);
	if (!failed && !load_store_is_good(m))
		failed = load_find_store(m, e);
	if (!failed)
		failed = load_keep_in_folder(m, e);
	if (!failed)
		m->loaded.weights_sum =
			XXH3_64bits(&store_info(m->stored.store)->key, sizeof(struct store_key));
	if (!failed) { /* by default, sessions draft */
		bool drafts = m->stored.plan.recipe.draft;
		atomic_store(&m->id.drafts, drafts);
		failed = weights_load(&m->loaded.weights, &m->stored.plan, &m->id.config,
				      m->stored.store, drafts, &m->leave, e);
	}
	if (!failed && m->id.config.ngrams.tables)
		failed = load_ngrams(m, e);
	if (!failed && m->stored.plan.routed_layers)
		failed = load_experts(m, e);
	if (!failed)
		failed = load_forward(m, e);
	if (!failed && m->stored.converter)
		failed = convert_rest_start(m->stored.converter, e);
	m->stored.doubted = failed;
	if (failed)
		load_undo(m);
	else {
		load_keep_checkpoint(m);
		load_look_at_rest(m);
		*e = (struct err){0}; /* an error of an optional step */
	}
	return failed;
}

/* The tokenizer stays open, since turns that have begun need it when the model is loaded again. */
void load_undo(struct model *m)
{
	struct pager_source *experts = m->loaded.experts;
	m->loaded.draft_layer = (struct draft_layer){0};
	forward_free(&m->loaded.forward);
	threads_destroy(m->loaded.threads);
	m->loaded.threads = NULL;
	forward_pass_free(&m->loaded.pass);
	load_close_card(m);
	chunk_forget(m);
	load_free_samplers(&m->loaded);
	load_keep_heat(m);
	load_show_experts(m, NULL);
	if (experts)
		pager_remove(experts);
	weights_free(&m->loaded.weights);
	load_close_ngrams(m);
	convert_close(m->stored.converter);
	m->stored.converter = NULL;
	if (atomic_load(&m->stored.has_store))
		return;
	store_close(m->stored.store);
	m->stored.store = NULL;
	plan_free(&m->stored.plan);
}
