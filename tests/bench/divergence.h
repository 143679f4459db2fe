/* Divergence of predictions: a corpus, an exact model's distributions over it, and the mean
 * Kullback-Leibler divergence of another model's distributions from these, in nats per predicted
 * token. */
#ifndef MOEFS_TESTS_BENCH_DIVERGENCE_H
#define MOEFS_TESTS_BENCH_DIVERGENCE_H

#include "engine/admin/observe.h"

enum { DIVERGENCE_CHUNK = 64 };

/* Ids that are computed from an empty context; from `counted` on they are predicted. */
struct passage {
	size_t first, count, counted;
};
struct corpus { /* zero-initialise */
	struct token_list ids;
	struct passage *passages;
	size_t count, predicted;
	float *exact; /* [predicted][vocabulary]: the exact model's log-probabilities */
};
/* A text in windows of 512, each from an empty context. */
int corpus_add_text(struct corpus *c, const struct model_view *m, const char *path, uint64_t tokens,
		    struct err *e);
/* Lines of JSON with a question and its answer, which is predicted, up to a number of tokens. */
int corpus_add_turns(struct corpus *c, const struct model_view *m, const char *path,
		     uint64_t tokens, struct err *e);
void corpus_free(struct corpus *c);

/* A model whose forward pass is driven directly. */
struct mount { /* zero-initialise */
	struct engine *engine;
	struct model *model;
	struct model_view view;
	struct context context;
	struct step_batch batch;
	float *logits; /* [DIVERGENCE_CHUNK][vocabulary] */
};
struct mount_options { /* quant: with :KV, as -o kv=, or without */
	const char *directory, *quant, *store;
	uint64_t threads, budget; /* 0: room for all experts */
};
int mount_open(struct mount *m, const struct mount_options *o, struct err *e);
void mount_close(struct mount *m);
/* Waits until the weights are loaded and their store is complete. */
int mount_wait(struct model *m, struct err *e);

struct divergence {
	double nats;	   /* mean of KL(exact || this) … */
	double nats_error; /* … and its standard error, over tokens */
	double same;	   /* share of tokens whose likeliest one is unchanged */
	double nll;	   /* mean negative log-likelihood of what is there */
	double kept;	   /* share of passages whose tokens all stay the likeliest */
};
/* Fills in c->exact by what the model says, and *d with its likelihoods. */
int corpus_keep_exact(struct corpus *c, struct mount *exact, struct divergence *d, struct err *e);
/* How far another model's are from those. */
int corpus_diverge(struct corpus *c, struct mount *m, struct divergence *d, struct err *e);

#endif
