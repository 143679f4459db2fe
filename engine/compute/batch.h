/* What a step computes: rows, each a token at a position of a context.
 *
 * A prompt's chunk, the answers of several sessions and the verification of drafts are rows of one
 * batch: they pass the weights together, and an expert that several of them chose is read once. A
 * row's numbers do not depend on its company (promise 2).
 *
 * Rows of one context stand together, at the positions that follow what it holds: first those that
 * are certain (a prompt's, or an answer's last token), then what was drafted after them.
 */
#ifndef MOEFS_ENGINE_COMPUTE_BATCH_H
#define MOEFS_ENGINE_COMPUTE_BATCH_H

#include "engine/compute/context.h"
#include "engine/compute/losses.h"

enum row_kind { ROW_PROMPT, ROW_ANSWER, ROW_DRAFT };
enum { ANSWER_ROWS = 5 }; /* of one context at most: an answer's token and what is drafted */

struct row {
	struct context *context;
	uint32_t position, token;
	enum row_kind kind;
	bool logits;	      /* are wanted */
	struct losses losses; /* of its session: of one context's rows all the same */
};

struct batch { /* zero-initialise; freed by batch_free */
	struct row *rows;
	uint32_t count, room;
	bool normed; /* what the final norm gives is wanted of all rows, whatever their logits */
	/* Not NULL: takes the logits of each row that wants them, which may be any number, one
	 * after the other, instead of their being left anywhere. Other than 0 ends the step with
	 * that. */
	int (*read)(void *ctx, uint32_t row, const float *logits, struct err *e);
	void *ctx;
};

void batch_clear(struct batch *b);
void batch_free(struct batch *b);
/* n rows like `like`, at the positions after those that its context and the batch hold. */
int batch_add(struct batch *b, const struct row *like, const uint32_t *tokens, uint32_t n,
	      struct err *e);

/* The rows of one context. */
struct span {
	struct context *context;
	uint32_t first, n;    /* rows of the step */
	uint32_t position;    /* of the first */
	uint32_t certain;     /* those that were not drafted, 1 … n */
	bool prompt;	      /* the certain ones are a prompt's */
	struct losses losses; /* of all */
};

/* The rows' spans, for which there is room (as many as rows), and how many these are; -EINVAL, in
 * words: the rows do not stand as they have to. */
int batch_spans(const struct batch *b, struct span *spans, struct err *e);

#endif
