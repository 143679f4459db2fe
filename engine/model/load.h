/* From a source to weights in memory: for the generation thread, and for model_open before there is
 * one. */
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

/* load_recipe.c: chooses the recipe that what was asked for comes to, and finds the formats that a
 * plan of it needs; finds these again, before a load. */
int load_choose_recipe(struct model_identity *id, const struct recipe *asked, struct published *p,
		       struct err *e);
int load_published(struct published *p, const struct model_identity *id, struct err *e);

/* load_store.c */
int load_find_folders(struct model *m, struct err *e);
/* As load_store, when the model is opened. Where nobody has asked for a recipe and there is no
 * store by the default one, a store by the former default is the model's, and so is its recipe:
 * what has been converted once is not converted again. */
int load_first_store(struct model *m, struct err *e);
/* Opens a complete store if there is one, also in the place of one that is open; -ENOENT if it must
 * be made. read: the checkpoint may be read whole to tell whether the store is of it; without, a
 * store of which that is not known is left alone (-EAGAIN). */
int load_store(struct model *m, bool read, struct err *e);
/* Lets nobody see the store any more, which is to be made again. */
void load_forget_store(struct model_store *s);
/* Whether the complete store's folder was removed or replaced. Blocks for the disk. */
bool load_store_is_gone(const struct model_store *s);
/* load_place.c: whether anything may be written into one of the folders that there are for stores.
 */
bool load_may_write(const struct model *m, int folder);
/* load_place.c: the source as its own store; -ENOTSUP: it has to be converted. */
int load_open_in_place(const struct model *m, const struct source_state *now, struct store **out,
		       struct plan *plan, struct err *e);
/* Before a store in place is read: makes the folder for what is kept of it, and takes what is
 * there. Where none can be made nothing is kept. Any other store is left alone. */
int load_keep_in_folder(struct model *m, struct err *e);
/* Keeps beside the store which checkpoint it is of, and that it was loaded now. */
void load_keep_checkpoint(const struct model *m);
/* Keeps the checksums of what was read of it. */
void load_keep_sums(const struct model *m);
/* load_place.c: mkdir -p of everything above the folder itself. */
int load_make_parents(const char *folder, struct err *e);
/* load.c, from the generation thread: everything up to READY, or undone again. */
int load_model(struct model *m, struct err *e);
/* Any thread: load_tokenizer, unless somebody has. Blocks. */
int load_tokenizer_once(struct model *m, struct err *e);
int load_tokenizer(struct model *m, struct err *e); /* and the template */
/* The generation thread does not load meanwhile. Whether tokenizer and template are there, and the
 * checkpoint and its store are those that were mounted: then turns can be prepared without the
 * weights. */
bool load_can_recall(struct model *m);
/* Before anybody else has the model. */
void load_forget_tokenizer(struct model *m);
void load_undo(struct model *m);
/* How many samplers a loaded model has: a thread for each row of a group of logits at most. */
uint32_t load_most_samplers(const struct engine_options *o);
/* Keeps the heat of the experts beside the store, if they were used since it was last kept. */
void load_keep_heat(struct model *m);
/* load_texts.c: takes note of files (of enum load_text_of) before they are read; and whether all
 * that were read are still what they were: -EINVAL names the one that is not. */
int load_sum_texts(struct model *m, unsigned of, struct err *e);
int load_check_texts(const struct model *m, struct err *e);

/* load_source.c: the source as it is now, which its caller forgets; -EINVAL if its config.json is
 * no longer the model's. */
int load_look(const struct model *m, struct source_state *now, struct err *e);
int load_config_sum(const struct model *m, uint64_t *sum, struct err *e);
/* Whether the store in the folder, with this name in its key, is of this source. -ESTALE: it is of
 * another; -EAGAIN: only reading would tell, and `read` is false; others: that failed. */
int load_check_source(struct model *m, const char *folder, const uint64_t name[2],
		      const struct source_state *now, bool read, struct err *e);
struct witness_watch load_watch(struct model *m); /* shows checking as progress */
/* The source `now` is the one that is then converted into v->folder; name: as witness_begin's. */
int load_witness(struct model *m, struct conversion *v, const struct source_state *now,
		 const uint64_t name[2], struct err *e);
/* load_convert.c: the plan and a store that grows while the converter makes it, or a complete one.
 */
int load_by_converting(struct model *m, struct err *e);
/* Widens a recipe as often as the model's numbers were beyond what a store held. */
void load_widen(const struct model *m, struct recipe *r);
/* Lets the conversion continue, or has it rest while the model has a turn. */
void load_let_convert(struct model *m, bool work);
/* A store that could not be published is tried again. */
void load_turn_ended(struct model *m);

#endif
