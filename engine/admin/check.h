/* Finds out at mount, in words, what would fail when the model is loaded. */
#ifndef MOEFS_ENGINE_ADMIN_CHECK_H
#define MOEFS_ENGINE_ADMIN_CHECK_H

#include "cache/err.h"

#include <stdbool.h>
#include <stdint.h>

struct model;
struct plan;

/* Whether a file is there, and is not git-lfs' pointer to it. */
bool check_has(const char *directory, const char *name);
/* The files of the folder, before any is read. */
int check_files(const char *directory, struct err *e);
/* Called once it is known whether there is a store: checks the weights, and the room for a new
 * store. Finds out whether there is a draft layer. */
int check_store(struct model *m, struct err *e);
/* The weights alone, where there is no store yet: bytes that one takes. */
int check_weights(struct model *m, uint64_t *bytes, struct err *e);
/* Whether a store by this plan has room in a folder, which need not exist yet. ENOSPC: how much is
 * missing. */
int check_room(const struct model *m, const struct plan *p, const char *folder, struct err *e);

/* Lists everything that a model lacks (opening it names only the first thing): files of the folder
 * by name, and, if all files of the weights are there, tensors. Reads names and headers. What
 * cannot be determined is left out. */
void check_missing(const char *path, void (*each)(void *ctx, const char *name), void *ctx);

#endif
