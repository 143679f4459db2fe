/* The text that a model is refined by: one that was given, or one that the model writes itself,
 * half prose and half conversations in its template. It is cut into windows, which are read one by
 * one (refine_gather.h).
 *
 * What the model writes is kept in the folder of the store to be, round by round, so that a refining
 * that was killed goes on; a given text is not. */
#ifndef MOEFS_ENGINE_ADMIN_REFINE_TEXT_H
#define MOEFS_ENGINE_ADMIN_REFINE_TEXT_H

#include "engine/model.h"

struct refine_text { /* zero-initialise; refine_text_free */
	char *bytes;   /* of all windows, special tokens spelled out */
	size_t *ends;  /* [count]: where each window ends */
	size_t count, room, size;
	uint64_t tokens; /* of all windows */
};

/* Makes the windows of what the request names. `key` names the model; `folder` exists. -ECANCELED:
 * it was stopped; what was written is kept. */
int refine_text_make(struct refine_text *t, struct model *m, const struct model_refining *asked,
		     const uint64_t key[2], const char *folder, struct err *e);
void refine_text_free(struct refine_text *t);
/* Removes what is kept. */
void refine_text_forget(const char *folder);

/* Begins the answer of a window that the model writes: a conversation for each odd one, where there
 * is a template. */
int refine_text_begin(struct model *m, struct session *s, uint64_t window, struct err *e);

const char *refine_text_window(const struct refine_text *t, size_t i, size_t *length);
/* A checksum of all windows. */
uint64_t refine_text_sum(const struct refine_text *t);

#endif
