/* A store's loss, measured on a text of the model's own (model.h, model_measure_loss), in parts that
 * refining uses as well. */
#ifndef MOEFS_ENGINE_ADMIN_MODEL_LOSS_H
#define MOEFS_ENGINE_ADMIN_MODEL_LOSS_H

#include "engine/admin/loss_compare.h"
#include "engine/model.h"

/* Waits until the model is loaded and its store is complete. -ECANCELED: *stop, or the model is
 * closed; -EIO: what keeps the store from being made. */
int loss_wait_for_store(struct model *m, const _Atomic bool *stop, struct err *e);

/* Has the model write LOSS_TOKENS tokens, the same ones each time by the same weights. idle: a turn
 * of another session ends that with -ECANCELED, as the mount's end always does. */
int loss_write_text(struct model *m, bool idle, struct loss_text *out, struct err *e);

/* Compares the complete store in a folder, which is of this model's checkpoint, with the
 * checkpoint, and keeps the result in the folder. -ESTALE: the checkpoint was changed; -ENOENT: it
 * is gone; others as loss_compare. */
int loss_measure_store(struct model *m, const char *folder, const struct loss_text *text, bool idle,
		       struct store_loss *out, struct err *e);

/* A model's `rests` (model_state.h): starts a thread that measures the store's loss while the model is
 * idle, unless that is known, the checkpoint is large, or the machine is on battery. model_close
 * waits for it. */
void loss_idle_begin(struct model *m);

/* info/loss, as snprintf: lines of names and values, or why there are none. */
int loss_print(const struct model *m, char *text, size_t size);

#endif
