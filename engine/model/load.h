/* Loading: from a source to weights in memory. Called by the generation thread, and by model_open
 * before that thread exists. */
#ifndef MOEFS_ENGINE_MODEL_LOAD_H
#define MOEFS_ENGINE_MODEL_LOAD_H

#include "cache/err.h"
#include "engine/source/identity.h"
#include "engine/source/source.h"

#include <stdbool.h>
#include <stdint.h>

struct model;
struct model_identity;
struct model_store;
struct plan;
struct conversion;
struct engine_options;
struct published;
struct recipe;
struct store;

/* load_recipe.c. load_choose_recipe turns the recipe asked for into a definite one, and finds the
 * published formats that its plan needs. load_published finds these again, before a load. */
int load_choose_recipe(struct model_identity *id, const struct recipe *asked, struct published *p,
		       struct err *e);
int load_published(struct published *p, const struct model_identity *id, struct err *e);

/* load_store.c */
int load_find_folders(struct model *m, struct err *e);
/* As load_store, when the model is opened. If no recipe was asked for and there is no store of the
 * default recipe, a store of the former default recipe is used, and the model gets its recipe. So
 * an old store is not converted again. */
int load_first_store(struct model *m, struct err *e);
/* Opens a complete store, replacing one that is open. -ENOENT: there is none, so it must be made.
 * read: may read the whole checkpoint to find out whether the store was made from it. Without read,
 * a store for which this is unknown is not opened (-EAGAIN). */
int load_store(struct model *m, bool read, struct err *e);
/* Hides the store from other threads, because it will be made again. */
void load_forget_store(struct model_store *s);
/* Whether the complete store's folder was removed or replaced. Blocks for the disk. */
bool load_store_is_gone(const struct model_store *s);
/* load_place.c: whether moefs may write into this folder for stores (an index of
 * model_store.folders).
 */
bool load_may_write(const struct model *m, int folder);
/* load_place.c: uses the source itself as the store. -ENOTSUP: the source must be converted. */
int load_open_in_place(const struct model *m, const struct source_state *now, struct store **out,
		       struct plan *plan, struct err *e);
/* Call this before a store in place is read: makes the folder for its notes, and reads notes from
 * earlier mounts. If the folder cannot be made, no notes are kept. Does nothing for other stores.
 */
int load_keep_in_folder(struct model *m, struct err *e);
/* Notes beside the store which checkpoint it was made from, and that it was loaded now. */
void load_keep_checkpoint(const struct model *m);
/* Saves the checksums of what was read from a store in place. */
void load_keep_sums(const struct model *m);
/* load_place.c: makes all parent folders of a folder, like mkdir -p. */
int load_make_parents(const char *folder, struct err *e);
/* load.c, for the generation thread: loads the model completely. After an error everything is
 * undone. */
int load_model(struct model *m, struct err *e);
/* Any thread: calls load_tokenizer, unless the tokenizer is loaded. Blocks. */
int load_tokenizer_once(struct model *m, struct err *e);
int load_tokenizer(struct model *m, struct err *e); /* and the chat template */
/* Whether turns can be prepared without the weights: tokenizer and template are loaded, and the
 * checkpoint and its store have not changed since the mount. The generation thread must not load at
 * the same time. */
bool load_can_recall(struct model *m);
/* Call this only before other threads use the model. */
void load_forget_tokenizer(struct model *m);
void load_undo(struct model *m);
/* How many samplers a loaded model has: one per thread, and at most one per row of a group of
 * logits. */
uint32_t load_most_samplers(const struct engine_options *o);
/* Saves the heat of the experts beside the store, if experts were used since it was last saved. */
void load_keep_heat(struct model *m);
/* load_texts.c. load_sum_texts notes checksums of files (a set of enum load_text_of) before they
 * are read. load_check_texts checks that no noted file has changed. -EINVAL: a file has; the
 * sentence names it. */
int load_sum_texts(struct model *m, unsigned of, struct err *e);
int load_check_texts(const struct model *m, struct err *e);

/* load_source.c: looks at the source's files; the caller calls source_forget. -EINVAL: config.json
 * has changed since the model was opened. */
int load_look(const struct model *m, struct source_state *now, struct err *e);
int load_config_sum(const struct model *m, uint64_t *sum, struct err *e);
/* Checks that the store in the folder, with this name in its key, was made from this source.
 * -ESTALE: from another source; -EAGAIN: the source must be read to find out, and `read` is false;
 * other codes: reading failed. */
int load_check_source(struct model *m, const char *folder, const uint64_t name[2],
		      const struct source_state *now, bool read, struct err *e);
struct witness_watch load_watch(struct model *m); /* reports checking as progress */
/* Begins a witness for converting the source `now` into v->folder. name: as in witness_begin. */
int load_witness(struct model *m, struct conversion *v, const struct source_state *now,
		 const uint64_t name[2], struct err *e);
/* load_convert.c: makes the plan and begins to convert. The store grows while the converter works,
 * or is already complete.
 */
int load_by_converting(struct model *m, struct err *e);
/* Widens a recipe once for each time that the model's numbers did not fit its store. */
void load_widen(const struct model *m, struct recipe *r);
/* work: lets the conversion continue; else pauses it, while the model has a turn. */
void load_let_convert(struct model *m, bool work);
/* Called when a turn has ended: tries again to publish a store that could not be published. */
void load_turn_ended(struct model *m);

#endif
