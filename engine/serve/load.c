/* From a checkpoint's directory to weights in memory: finding the store, or having it made
 * (load_convert.c), and reading its dense part. */
#include "engine/convert/store_header.h"
#include "engine/family/gguf_tokenizer.h"
#include "engine/serve/internal.h"
#include "engine/source/file.h"
#include "engine/source/gguf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include <xxhash.h>

/* ---- where ---- */

/* base/NAME-HASH/QUANT: the hash of the checkpoint's path keeps two of the same name apart. */
static char *folder_under(const char *base, const struct model *m)
{
	char *path;
	uint64_t hash = XXH3_64bits(m->directory, strlen(m->directory));
	int n = asprintf(&path, "%s/%s-%08" PRIx64 "/%s", base, m->name, hash & 0xffffffff,
			 m->engine->recipe.quant);
	return n < 0 ? NULL : path;
}

static char *folder_beside(const struct model *m)
{
	char *path;
	int n = asprintf(&path, "%s.moefs/%s", m->directory, m->engine->recipe.quant);
	return n < 0 ? NULL : path;
}

static char *folder_in_cache(const struct model *m)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char base[4096];
	if (cache && *cache == '/')
		(void)snprintf(base, sizeof base, "%s/moefs", cache);
	else if (home && *home == '/')
		(void)snprintf(base, sizeof base, "%s/.cache/moefs", home);
	else
		return NULL;
	return folder_under(base, m);
}

int load_find_folders(struct model *m, struct err *e)
{
	const char *store = m->engine->options.store;
	m->folders[0] = store ? folder_under(store, m) : folder_beside(m);
	m->folders[1] = store ? NULL : folder_in_cache(m);
	return m->folders[0] ? 0 : err_set(e, ENOMEM, "out of memory for the name of a folder");
}

/* ---- opening ---- */

/* Whether a store has the codec that was asked for, where it could have one. */
static bool codec_as_asked(enum recipe_codec asked, const struct plan *p)
{
	bool possible = recipe_can_code(&p->recipe) && p->record_bytes;
	return !possible || asked == CODEC_AUTO || asked == p->recipe.codec;
}

/* Lets those who look see this store, and no other any more; both are the model's. */
static void show_store(struct model *m, struct store *store, const struct plan *plan)
{
	pthread_rwlock_wrlock(&m->storing);
	struct store *old_store = m->store;
	struct plan old_plan = m->plan;
	m->store = store;
	m->plan = *plan;
	atomic_store(&m->has_store, store != NULL);
	pthread_rwlock_unlock(&m->storing);
	store_close(old_store);
	plan_free(&old_plan);
}

/* A store of this checkpoint by this recipe, whatever the facts in its key; else -ESTALE. *ends: it
 * is not the store that is wrong. */
static int open_folder(struct model *m, const char *folder, const struct source_state *now,
		       bool read, bool *ends, struct err *e)
{
	struct store *store;
	struct recipe recipe;
	struct plan plan = {0};
	int failed = store_open(&store, folder, NULL, e);
	if (failed)
		return failed;
	const struct store_info *i = store_info(store);
	if (!recipe_from_text(&recipe, i->key.recipe) ||
	    strcmp(recipe.quant, m->engine->recipe.quant) != 0)
		failed = err_set(e, ESTALE, "%s: the store was made by another recipe", folder);
	if (!failed)
		failed = plan_make(&plan, &m->config, &recipe, e);
	if (!failed && !codec_as_asked(m->engine->recipe.codec, &plan))
		failed = err_set(e, ESTALE, "%s: the store's codec is %s, and %s was asked for",
				 folder, recipe_codec_name(plan.recipe.codec),
				 recipe_codec_name(m->engine->recipe.codec));
	if (!failed)
		failed = store_held_to_plan(store, &m->config, &plan, e);
	if (!failed) { /* last: it may read all of the checkpoint */
		failed = load_check_source(m, folder, i->key.fingerprint, now, read, e);
		*ends = failed && failed != -ESTALE;
	}
	if (failed) {
		plan_free(&plan);
		store_close(store);
		return failed;
	}
	show_store(m, store, &plan);
	return 0;
}

int load_store(struct model *m, bool read, struct err *e)
{
	struct source_state now;
	int failed = load_look(m, &now, e);
	bool ends = failed;
	if (!failed)
		failed = -ENOENT;
	for (int i = 0; i < 2 && m->folders[i] && failed && !ends; i++) {
		failed = open_folder(m, m->folders[i], &now, read, &ends, e);
		if (!failed) {
			atomic_store(&m->folder, i);
			source_forget(&m->looked);
			m->looked = now;
			return 0;
		}
		/* No store, a stale one or a damaged one: a new one is made. What is not about the
		 * store (memory) ends the search. */
		ends |= failed == -ENOMEM;
	}
	source_forget(&now);
	return failed && !ends ? -ENOENT : failed;
}

/* ---- the model ---- */

/* That of a GGUF file is among its keys. */
static int open_tokenizer(struct tokenizer **out, const char *path, struct err *e)
{
	struct gguf *g = NULL;
	if (!source_is_file(path))
		return tokenizer_open(out, path, e);
	int failed = gguf_open(&g, path, 0, e);
	if (!failed)
		failed = gguf_tokenizer_open(out, g, path, e);
	gguf_close(g);
	return failed;
}

static int load_tokenizer(struct model *m, struct err *e)
{
	struct err no_chat;
	int failed = open_tokenizer(&m->tokenizer, m->directory, e);
	if (failed)
		return failed;
	failed = chat_open(&m->chat, m->tokenizer, &no_chat);
	if (failed == -ENOTSUP) { /* a model that only continues texts */
		m->chat = NULL;
		return 0;
	}
	if (failed) { /* or the next load would take it for one without a chat */
		*e = no_chat;
		tokenizer_close(m->tokenizer);
		m->tokenizer = NULL;
	}
	return failed;
}

static int load_forward(struct model *m, struct err *e)
{
	m->forward = (struct forward){
		.env =
			{
				.config = &m->config,
				.plan = &m->plan,
				.weights = &m->weights,
				.kernels = m->engine->kernels,
				.threads = m->engine->threads,
				.experts = m->experts,
			},
		.chunk = m->engine->options.chunk,
	};
	if (sampler_init(&m->sampler, m->engine->kernels, m->config.vocabulary))
		return err_set(e, ENOMEM, "out of memory for sampling");
	int failed = forward_init(&m->forward, e);
	if (!failed && m->plan.recipe.draft)
		failed = draft_layer_init(&m->draft_layer, &m->forward, e);
	return failed;
}

/* Asked by lookers from now on, if not NULL. */
static void show_experts(struct model *m, struct pager_source *experts)
{
	pthread_rwlock_wrlock(&m->looking);
	if (m->experts)
		pager_source_stats(m->experts, &m->experts_before);
	m->experts = experts;
	pthread_rwlock_unlock(&m->looking);
}

static void load_arrange(void *ctx, uint32_t layer, void *slot, const void *record)
{
	struct model *m = ctx;
	plan_arrange_record(&m->plan, layer, slot, record);
}

/* The converter stays until the source is gone. */
static int load_make(void *ctx, uint32_t layer, uint32_t expert, void *record, struct err *e)
{
	const struct model *m = ctx;
	return convert_make_expert(m->converter, layer, expert, record, e);
}

static int load_experts(struct model *m, struct err *e)
{
	const struct pager_supply supply = {
		.store = m->store,
		.slot_bytes = m->plan.slot_bytes,
		.layer_slot_bytes = m->plan.layer_slot_bytes,
		.arrange = load_arrange,
		.make = m->converter ? load_make : NULL,
		.ctx = m,
	};
	struct pager_source *experts;
	struct err no_heat; /* a first mount, or a heat file that says nothing: a cold start */
	int failed = pager_add(m->engine->pager, &experts, &supply, e);
	if (failed)
		return failed;
	show_experts(m, experts);
	(void)pager_warm(experts, &no_heat);
	return 0;
}

void load_keep_heat(struct model *m)
{
	struct pager_stats now;
	struct err ignored; /* a store that cannot be written any more serves all the same */
	if (!m->experts)
		return;
	pager_source_stats(m->experts, &now);
	if (now.hits + now.misses == m->heat_uses)
		return;
	(void)pager_keep_heat(m->experts, &ignored);
	m->heat_uses = now.hits + now.misses;
}

/* One that was opened with the source as it is now, and has served since. */
static bool store_still_good(const struct model *m)
{
	return atomic_load(&m->has_store) && !m->doubted && m->looked.count &&
	       source_unchanged(&m->looked);
}

/* Opens the store anew, or has it made. */
static int find_store(struct model *m, struct err *e)
{
	int failed = load_store(m, true, e);
	if (failed != -ENOENT)
		return failed;
	show_store(m, NULL, &(struct plan){0});
	return load_by_converting(m, e);
}

bool load_store_is_gone(const struct model *m)
{
	char path[4096];
	struct stat open, there;
	if (!atomic_load(&m->has_store) || !m->plan.routed_layers)
		return false;
	int n = snprintf(path, sizeof path, "%s/experts.safetensors", store_folder(m->store));
	return n < (int)sizeof path && !fstat(store_expert(m->store, 0, 0).fd, &open) &&
	       (stat(path, &there) ? errno == ENOENT
				   : open.st_ino != there.st_ino || open.st_dev != there.st_dev);
}

int load_model(struct model *m, struct err *e)
{
	unload_model(m); /* what a conversion that has to begin anew left */
	/* The tokenizer comes first: it fails fast, and converting takes long. */
	int failed = m->tokenizer ? 0 : load_tokenizer(m, e);
	if (!failed && !store_still_good(m))
		failed = find_store(m, e);
	if (!failed)
		m->weights_sum = XXH3_64bits(&store_info(m->store)->key, sizeof(struct store_key));
	if (!failed) { /* sessions draft unless they are told not to */
		bool drafts = m->plan.recipe.draft;
		atomic_store(&m->drafts, drafts);
		failed = weights_load(&m->weights, &m->plan, &m->config, m->store, drafts, &m->quit,
				      e);
	}
	if (!failed && m->plan.routed_layers)
		failed = load_experts(m, e);
	if (!failed)
		failed = load_forward(m, e);
	if (!failed && m->converter)
		failed = convert_rest_start(m->converter, e);
	m->doubted = failed;
	if (failed)
		unload_model(m);
	else
		*e = (struct err){0}; /* of what was looked for in vain */
	return failed;
}

/* The tokenizer stays: turns that have begun go on with it when the model is loaded anew. */
void unload_model(struct model *m)
{
	struct pager_source *experts = m->experts;
	draft_layer_free(&m->draft_layer);
	forward_free(&m->forward);
	batch_free(&m->batch);
	chunk_forget(m);
	sampler_free(&m->sampler);
	load_keep_heat(m);
	show_experts(m, NULL);
	if (experts)
		pager_remove(experts);
	weights_free(&m->weights);
	convert_close(m->converter);
	m->converter = NULL;
	if (atomic_load(&m->has_store))
		return;
	store_close(m->store);
	m->store = NULL;
	plan_free(&m->plan);
}
