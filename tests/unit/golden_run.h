/* Runs a model's forward pass over a text and records it layer by layer, for comparison with
 * golden numbers or, bit by bit, with another run. All functions fail the test on any error, or if
 * numbers differ. */
#ifndef MOEFS_TESTS_UNIT_GOLDEN_RUN_H
#define MOEFS_TESTS_UNIT_GOLDEN_RUN_H

#include "engine/admin/observe.h"
#include "golden.h"
#include "golden_index.h"

enum { GOLDEN_GREEDY = 24 };

struct golden_bench {
	struct engine *engine;
	struct model *model;
	struct model_view view;
	struct context context;
	struct golden *golden;
};

/* The golden numbers' file is in the layout of a fixture's golden.safetensors. */
void golden_bench_open(struct golden_bench *b, const char *model, const char *golden,
		       const struct engine_options *options);
void golden_bench_close(struct golden_bench *b);

/* Everything that a run over ids computes, to be compared bit by bit with another run. */
struct golden_run {
	uint32_t tokens, width, layers, vocabulary, routed, top_k, experts;
	uint32_t state_width; /* all residual streams */
	float *logits;	       /* [tokens][vocabulary] */
	float *states;	       /* [layers + 1][tokens][state_width] */
	float *normed;	       /* [tokens][width] */
	float *router_logits;  /* [routed][tokens][experts] */
	float *router_weights; /* [routed][tokens][top_k] */
	float *router_experts; /* likewise */
	struct golden_index index;
	uint32_t greedy[GOLDEN_GREEDY];
};

/* Over the golden input, then greedy decoding. */
struct golden_run golden_run_make(struct golden_bench *b);
void golden_run_free(struct golden_run *r);
/* Computes ids in the engine's chunks, logits of every row. */
void golden_compute(struct golden_bench *b, const int32_t *ids, uint32_t n, float *logits);
float *golden_array(size_t count);

extern double golden_worst; /* relative error of any row since it was set to 0 */
void golden_compare_rows(const char *what, const float *got, const float *want, size_t rows,
			 size_t width);
/* States, routing, logits and the greedy continuation. */
void golden_compare(const struct golden_bench *b, const struct golden_run *r);
/* The squared error of the logits, relative to the golden ones' power. */
double golden_logits_error(const struct golden_bench *b, const struct golden_run *r);
/* The long text's last logits, and its mean negative log-likelihood. */
void golden_compare_long(struct golden_bench *b, double mean_nll);
void golden_assert_same_bits(const struct golden_run *a, const struct golden_run *b);

#endif
