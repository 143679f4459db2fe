/* Embeddings: a turn that makes one vector of each of several texts (session_embed).
 *
 * Each text has a context of its own, which is dropped when the text is computed. Short texts are
 * rows of one step, as many as there is room for; a long one takes several steps. A vector is
 * pooled of the states after the final norm, token by token in double precision, so it depends
 * neither on the steps nor on the other texts. */
#ifndef MOEFS_ENGINE_TURN_EMBED_H
#define MOEFS_ENGINE_TURN_EMBED_H

#include "engine/compute/step.h"

struct text_out;
struct turn_state;

enum {
	EMBED_TEXTS = 64, /* most texts of one step */
	EMBED_MOST = 1 << 16,
};

struct embed_text {
	size_t first;	/* of the turn's ids */
	uint32_t count; /* of them */
	uint32_t done;	/* that are computed */
};

/* A text that is being computed. */
struct embed_place {
	uint32_t text;
	struct context context;
	double *sum;	     /* [hidden] */
	uint32_t row, added; /* of the turn's rows in the step at hand: the first, and how many */
};

struct embed { /* of a turn; zero-initialised: it makes no embedding */
	struct embed_text *texts; /* [count] */
	uint32_t count;
	uint32_t next; /* text that no place has had */
	struct embed_place places[EMBED_TEXTS];
	uint32_t place_count;
	float *vectors; /* [count][hidden] */
	uint32_t ready; /* texts that are done */
};

/* While the turn is prepared: encodes the texts. -ENOTSUP: the model's files ask for what is not
 * implemented; -EINVAL, -EFBIG, -ENOMEM. */
int embed_begin(struct turn_state *t, struct err *e);
void embed_free(struct turn_state *t);

/* Rows that wait to be computed. */
size_t embed_left(const struct turn_state *t);
/* As turn_rows. -ENOSPC: there is no room for any text. */
int embed_rows(struct turn_state *t, uint32_t room, struct step_batch *b, struct err *e);
/* After a step that ended well, while forward_normed has its rows. *over: all texts are
 * done, and `to` has what the reader gets. -EIO, -ENOMEM. */
int embed_settle(struct turn_state *t, bool *over, struct text_out *to, struct err *e);
/* Gives up the contexts: texts that are not done begin again. */
void embed_give_up(struct turn_state *t);

#endif
