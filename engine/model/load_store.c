/* Where a model's store may be, and opening one that is complete. */
#include "cache/store_inspect.h"
#include "cache/store_in_place.h"
#include "engine/convert/store_folder.h"
#include "engine/model/model_state.h"
#include "engine/model/load.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <xxhash.h>

enum { FOLDERS = 2 * STORE_PLACES }; /* the second half is for refined stores */

/* base/NAME-HASH/QUANT. The hash of the checkpoint's path distinguishes checkpoints of the same
 * name. Models of ollama with the same file share a store. */
static char *load_folder_under(const char *base, const struct model_identity *id)
{
	char *path;
	uint64_t hash = XXH3_64bits(id->directory, strlen(id->directory));
	int n = asprintf(&path, "%s/%s-%08" PRIx64 "/%s", base, id->ollama ? "ollama" : id->name,
			 hash & 0xffffffff, id->recipe.quant);
	return n < 0 ? NULL : path;
}

static char *load_folder_beside(const struct model_identity *id)
{
	char *path;
	int n = asprintf(&path, "%s.moefs/%s", id->directory, id->recipe.quant);
	return n < 0 ? NULL : path;
}

static char *load_folder_in_cache(const struct model_identity *id)
{
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	char base[4096];
	if (cache && *cache == '/')
		(void)snprintf(base, sizeof base, "%s/moefs", cache);
	else if (home && *home == '/')
		(void)snprintf(base, sizeof base, "%s/.cache/moefs", home);
	else
		return NULL;
	return load_folder_under(base, id);
}

static int load_name_refined(struct model_store *s, struct err *e)
{
	for (int i = 0; i < STORE_PLACES; i++)
		if (s->folders[i] &&
		    asprintf(&s->folders[STORE_PLACES + i], "%s" STORE_REFINED, s->folders[i]) < 0)
			return err_set(e, ENOMEM, "out of memory for the name of a folder");
	return 0;
}

/* No store is made beside a model in another program's folder, but a store that exists there is
 * used. */
static int load_find_folders_kept(struct model *m, struct err *e)
{
	struct model_store *s = &m->stored;
	char *beside = load_folder_beside(&m->id);
	s->folders[0] = load_folder_in_cache(&m->id);
	if (!s->folders[0]) {
		free(beside);
		return err_set(e, EINVAL,
			       "%s is in %s, where nothing is written, and there is no cache "
			       "folder: set HOME or XDG_CACHE_HOME, or choose a folder with -o "
			       "store=",
			       m->id.name, m->id.place.keeper);
	}
	s->folders[1] = beside;
	return load_name_refined(s, e);
}

int load_find_folders(struct model *m, struct err *e)
{
	const char *store = m->engine->options.store;
	if (!store && m->id.place.keeper)
		return load_find_folders_kept(m, e);
	m->stored.folders[0] =
		store ? load_folder_under(store, &m->id) : load_folder_beside(&m->id);
	m->stored.folders[1] = store ? NULL : load_folder_in_cache(&m->id);
	if (!m->stored.folders[0])
		return err_set(e, ENOMEM, "out of memory for the name of a folder");
	return load_name_refined(&m->stored, e);
}

/* ---- opening ---- */

/* Whether a store has the requested codec, if its recipe allows one. */
static bool load_codec_as_asked(enum recipe_codec asked, const struct plan *p)
{
	bool possible = recipe_can_code(&p->recipe) && p->record_bytes;
	return !possible || asked == CODEC_AUTO || asked == p->recipe.codec;
}

/* Shows this store to other threads instead of the old one. The model owns both. */
static void load_show_store(struct model_store *s, struct store *store, const struct plan *plan)
{
	struct store_loss loss = {0};
	struct err none; /* the loss was not measured */
	if (store && !store_is_in_place(store))
		(void)store_loss_read(&loss, store_folder(store), &store_info(store)->key, &none);
	pthread_rwlock_wrlock(&s->lock);
	struct store *old_store = s->store;
	struct plan old_plan = s->plan;
	s->store = store;
	s->plan = *plan;
	s->loss = loss;
	atomic_store(&s->has_store, store != NULL);
	pthread_rwlock_unlock(&s->lock);
	store_close(old_store);
	plan_free(&old_plan);
}

/* Opens the folder's store. -ESTALE: it is of another checkpoint or recipe. *ends: the error does
 * not concern the store, so do not try other folders. */
static int load_open_folder(struct model *m, const char *folder, const struct source_state *now,
			    bool read, bool *ends, struct err *e)
{
	struct store *store;
	struct recipe recipe;
	struct plan plan = {0};
	int failed = store_open(&store, folder, NULL, e);
	if (failed)
		return failed;
	const struct store_info *i = store_info(store);
	if (!recipe_from_text(&recipe, i->key.recipe) || !recipe_includes(&m->id.recipe, &recipe))
		failed = err_set(e, ESTALE, "%s: the store was made by another recipe", folder);
	recipe.published = m->id.recipe.published;
	recipe.exact = m->id.recipe.exact;
	if (!failed)
		failed = plan_make(&plan, &m->id.config, &recipe, e);
	if (!failed && !load_codec_as_asked(m->id.recipe.codec, &plan))
		failed = err_set(e, ESTALE, "%s: the store's codec is %s, but %s was asked for",
				 folder, recipe_codec_name(plan.recipe.codec),
				 recipe_codec_name(m->id.recipe.codec));
	if (!failed)
		failed = store_check_plan(store, &plan, e);
	if (!failed) { /* last, since this may read the whole checkpoint */
		failed = load_check_source(m, folder, i->key.fingerprint, now, read, e);
		*ends = failed && failed != -ESTALE;
	}
	if (failed) {
		plan_free(&plan);
		store_close(store);
		return failed;
	}
	load_show_store(&m->stored, store, &plan);
	return 0;
}

static int load_try_in_place(struct model *m, const struct source_state *now, struct err *e)
{
	struct store *store;
	struct plan plan = {0};
	int failed = load_open_in_place(m, now, &store, &plan, e);
	if (!failed)
		load_show_store(&m->stored, store, &plan);
	return failed;
}

int load_store(struct model *m, bool read, struct err *e)
{
	struct source_state now;
	int failed = load_look(m, &now, e);
	if (!failed)
		failed = load_published(&m->stored.published, &m->id, e);
	bool ends = failed;
	if (!failed)
		failed = -ENOENT;
	/* A refined store is preferred to the one that it was made from. */
	for (int i = 0; i < FOLDERS && failed && !ends; i++) {
		int at = (i + STORE_PLACES) % FOLDERS;
		if (!m->stored.folders[at])
			continue;
		failed = load_open_folder(m, m->stored.folders[at], &now, read, &ends, e);
		if (!failed)
			atomic_store(&m->stored.folder, at);
		/* If the store is missing, stale or damaged, a new one is made. Errors that do not
		 * concern the store, such as -ENOMEM, end the search. */
		ends |= failed == -ENOMEM;
	}
	if (failed && !ends)
		failed = load_try_in_place(m, &now, e);
	if (!failed) {
		source_forget(&m->stored.looked);
		m->stored.looked = now;
		return 0;
	}
	source_forget(&now);
	return failed && !ends ? -ENOENT : failed;
}

/* Tries the store of the i-th former default recipe. If there is none, the model is unchanged.
 * *ended: there is no i-th. */
static int load_try_former(struct model *m, size_t i, bool *ended, struct err *e)
{
	const struct recipe own = m->id.recipe;
	char *folders[FOLDERS];
	*ended = !recipe_make_former(&m->id.recipe, &m->id.config, i);
	if (*ended)
		return -ENOENT;
	memcpy(folders, m->stored.folders, sizeof folders);
	memset(m->stored.folders, 0, sizeof folders);
	int failed = load_find_folders(m, e);
	if (!failed)
		failed = load_store(m, false, e);
	bool taken = !failed || failed == -EAGAIN;
	for (int k = 0; k < FOLDERS; k++) {
		free(taken ? folders[k] : m->stored.folders[k]);
		if (!taken)
			m->stored.folders[k] = folders[k];
	}
	if (!taken)
		m->id.recipe = own;
	return failed;
}

static int load_first_of_any(struct model *m, struct err *e)
{
	bool asked = !m->engine->recipe.as_published; /* -o quant=auto is the same as no option */
	int failed = load_store(m, false, e), other = failed;
	if (!failed || failed == -EAGAIN || asked ||
	    !recipe_default_of(&m->id.recipe, &m->id.config))
		return failed;
	bool ended = false;
	for (size_t i = 0; other && other != -EAGAIN && !ended; i++)
		other = load_try_former(m, i, &ended, e);
	return !other || other == -EAGAIN ? other : failed;
}

int load_first_store(struct model *m, struct err *e)
{
	int failed = load_first_of_any(m, e);
	if (!failed && !m->id.recipe.as_published)
		recipe_take_table(&m->id.recipe, &m->stored.plan.recipe);
	return failed;
}

void load_forget_store(struct model_store *s)
{
	load_show_store(s, NULL, &(struct plan){0});
}

bool load_store_is_gone(const struct model_store *s)
{
	char path[4096];
	struct stat open, there;
	if (!atomic_load(&s->has_store) || !s->plan.routed_layers || store_is_in_place(s->store))
		return false;
	int n = snprintf(path, sizeof path, "%s/experts.safetensors", store_folder(s->store));
	return n < (int)sizeof path && !fstat(store_expert(s->store, 0, 0).fd, &open) &&
	       (stat(path, &there) ? errno == ENOENT
				   : open.st_ino != there.st_ino || open.st_dev != there.st_dev);
}
