/* What makes a store a native TQ checkpoint that this program and others can open as a model: the
 * source's config and tokenizer, tq_config.json, and an index that says which file has which
 * tensor. The store itself needs none of it. */
#ifndef MOEFS_ENGINE_CONVERT_STORE_CHECKPOINT_H
#define MOEFS_ENGINE_CONVERT_STORE_CHECKPOINT_H

#include "cache/err.h"
#include "engine/family/plan.h"

/* Writes them into the store's folder, config.json last, so that where that is all are. Nothing is
 * written for a store that is no such checkpoint, or from a source without a config.json. */
int store_make_checkpoint(const char *folder, const char *source, const struct config *c,
			  const struct plan *p, struct err *e);

#endif
