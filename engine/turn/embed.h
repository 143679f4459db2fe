/* Embeddings: a turn that computes a vector for each of several texts (session_embed).
 *
 * Each text has its own context, which is dropped when the text is done. Short texts share a step,
 * as many as there is room for; a long text takes several steps. A vector is pooled over the states
 * after the final norm, token by token in double precision, so it depends neither on the division
 * into steps nor on the other texts. */
#ifndef MOEFS_ENGINE_TURN_EMBED_H
#define MOEFS_ENGINE_TURN_EMBED_H

#include "engine/compute/step.h"

struct text_out;
struct turn_state;

enum {
	EMBED_TEXTS = 64, /* most texts per step */
	EMBED_MOST = 1 << 16,
};

struct embed_text {
	size_t first;	/* index among the turn's ids */
	uint32_t count; /* number of ids */
	uint32_t done;	/* ids that are computed */
};

/* A text that is being computed. */
struct embed_place {
	uint32_t text;
	struct context context;
	double *sum;	     /* [hidden] */
	uint32_t row, added; /* in the current step: its first row among the turn's rows, and the
				number of rows */
};

struct embed {			  /* of a turn; zero-initialised: not an embedding */
	struct embed_text *texts; /* [count] */
	uint32_t count;
	uint32_t next; /* the next text to be given a place */
	struct embed_place places[EMBED_TEXTS];
	uint32_t place_count;
	float *vectors; /* [count][hidden] */
	uint32_t ready; /* finished texts */
};

/* Called while the turn is prepared: encodes the texts. -ENOTSUP: the model's files ask for a
 * pooling that is not implemented; -EINVAL, -EFBIG, -ENOMEM. */
int embed_begin(struct turn_state *t, struct err *e);
void embed_free(struct turn_state *t);

/* Rows that are left to compute. */
size_t embed_left(const struct turn_state *t);
/* As turn_rows. -ENOSPC: no text fits into the context budget. */
int embed_rows(struct turn_state *t, uint32_t room, struct step_batch *b, struct err *e);
/* Called after a step without error, while forward_normed has its rows. *over: all texts
 * are done, and `to` has the answer's bytes. -EIO, -ENOMEM. */
int embed_settle(struct turn_state *t, bool *over, struct text_out *to, struct err *e);
/* Frees the contexts. Unfinished texts begin again. */
void embed_give_up(struct turn_state *t);

#endif
